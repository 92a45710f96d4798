use tiphys_api::cluster::Cluster;
use tiphys_api::repository::Repository;
use tiphys_api::settings::Settings;

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn project(spec: Value) -> AppProject {
    serde_json::from_value(json!({"metadata": {"name": "shop"}, "spec": spec})).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "calls read better")]
fn stored(spec: Value) -> Object {
    Object::from_value(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "other": 1,
        "metadata": {"name": "shop", "namespace": "argocd", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": spec}))
    .unwrap()
}

/// Runs a check with these applications and repositories.
fn with<T>(
    applications: &[Application],
    repositories: &[Repository],
    run: impl Fn(&Surroundings<'_>) -> T,
) -> T {
    let (settings, clusters) = (Settings::default(), Clusters::new(Vec::<Cluster>::new(), true));
    let inputs =
        EffectiveInputs { projects: &[], repositories, clusters: clusters.all(), settings: &settings };
    run(&Surroundings { inputs, clusters: &clusters, applications, namespace: "argocd" })
}

fn application(name: &str, url: &str, namespace: &str) -> Application {
    serde_json::from_value(
        json!({"metadata": {"name": name, "namespace": "argocd"}, "spec": {"project": "shop",
        "source": {"repoURL": url, "path": "."},
        "destination": {"server": "https://kubernetes.default.svc", "namespace": namespace}}}),
    )
    .unwrap()
}

#[test]
fn rep_207_creating_what_exists() {
    with(&[], &[], |around| {
        let wanted = project(json!({"sourceRepos": ["https://h/*"]}));
        let change = plan_create(None, &wanted, false, around).unwrap();
        let Change::Create(manifest) = &change else { panic!("{change:?}") };
        assert_eq!(manifest.expose()["metadata"], json!({"name": "shop", "namespace": "argocd"}));
        let same = stored(json!({"sourceRepos": ["https://h/*"]}));
        assert_eq!(plan_create(Some(&same), &wanted, false, around), Ok(Change::Keep));
        let other = stored(json!({"sourceRepos": ["*"], "description": "x"}));
        let refused = plan_create(Some(&other), &wanted, false, around).unwrap_err();
        assert_eq!(
            (refused.to_string().as_str(), refused.code()),
            (
                "existing project spec is different; use upsert flag to force update; difference in keys \
                 \"description,sourceRepos\"",
                Code::InvalidArgument
            )
        );
        let change = plan_create(Some(&other), &wanted, true, around).unwrap();
        let Change::Replace(seen, manifest) = &change else { panic!("{change:?}") };
        assert_eq!((seen.name.as_str(), seen.version.as_str()), ("shop", "7"));
        let manifest = manifest.expose();
        assert_eq!(manifest["spec"], json!({"sourceRepos": ["https://h/*"]}));
        assert_eq!((&manifest["metadata"]["labels"], &manifest["other"]), (&json!({"a": "b"}), &json!(1)));
        assert_eq!(manifest["metadata"]["resourceVersion"], "7");
    });
}

#[test]
fn rep_163_176_projects_are_stored_in_one_form() {
    let wanted = project(json!({
        "roles": [{"name": "ci", "policies": ["p,proj:shop:ci,applications,get,shop/*,allow"]}],
        "syncWindows": [null, {"kind": "deny", "schedule": "0 0 * * *", "duration": "1h", "applications": ["*"]},
            {"kind": "deny", "schedule": "0 0 * * *", "duration": "1h", "applications": ["*"], "timeZone": "Mars/X"}],
    }));
    let stored = prepared(&wanted).unwrap();
    assert_eq!(stored.spec.roles[0].policies, ["p, proj:shop:ci, applications, get, shop/*, allow"]);
    let zones: Vec<_> = stored.windows().map(|(_, window)| window.time_zone.as_str()).collect();
    assert_eq!((zones.as_slice(), stored.spec.sync_windows.len()), (["UTC", "UTC"].as_slice(), 3));
}

#[test]
fn rep_164_tokens_are_alike_in_spec_and_status() {
    let mut wanted =
        project(json!({"roles": [{"name": "ci", "jwtTokens": [{"iat": 1}, {"iat": 5, "id": "x"}]}]}));
    wanted.status = serde_json::from_value(json!({"jwtTokensByRole": {
        "ci": {"items": [{"iat": 3, "id": "y"}, {"iat": 1, "id": "1"}]}, "gone": {"items": [{"iat": 9}]}}}))
    .unwrap();
    let stored = prepared(&wanted).unwrap();
    let ids: Vec<_> = stored.spec.roles[0].jwt_tokens.iter().map(|token| token.id.as_str()).collect();
    assert_eq!(ids, ["x", "y", "1"]);
    assert_eq!(stored.status.jwt_tokens_by_role["ci"].items, stored.spec.roles[0].jwt_tokens);
    assert_eq!(stored.status.jwt_tokens_by_role.len(), 1);
}

#[test]
fn rep_206_what_breaks_a_rule_is_not_stored() {
    with(&[], &[], |around| {
        let refused = |spec| plan_create(None, &project(spec), false, around).unwrap_err();
        let error = refused(json!({"sourceRepos": ["a", "a"]}));
        assert_eq!(error.to_string(), "source repository 'a' already added");
        let error = refused(json!({"roles": [{"name": "a"}, {"name": "a"}]}));
        assert_eq!(
            (error.code(), error.to_string().as_str()),
            (Code::AlreadyExists, "role 'a' already exists")
        );
        let error =
            refused(json!({"syncWindows": [{"kind": "deny", "schedule": "0 0 * * *", "duration": "1h"}]}));
        assert_eq!(error.code(), Code::OutOfRange);
        assert_eq!(
            refused(json!({"sourceRepos": ["a\nb"]})),
            ProjectError::Control("a source repository".to_owned())
        );
        let long = "x".repeat(2 << 20);
        assert!(matches!(refused(json!({"sourceRepos": [long]})), ProjectError::TooLong(_)));
        let nameless =
            AppProject { metadata: tiphys_api::application::Metadata::default(), ..project(json!({})) };
        assert_eq!(plan_create(None, &nameless, false, around), Err(ProjectError::MissingName));
    });
}

/// REP-208, REP-209: all sources count, and what belongs to the project besides its own lists.
#[test]
fn rep_208_an_update_does_not_cut_applications_off() {
    let apps = [application("a", "https://h/a", "web"), application("b", "https://h/b", "web")];
    let object = stored(json!({"sourceRepos": ["https://h/*"],
        "destinations": [{"server": "*", "namespace": "*"}]}));
    let update = |spec: Value, repositories: &[Repository]| {
        with(&apps, repositories, |around| plan_update(&object, &project(spec.clone()), around))
    };
    let error = update(json!({"sourceRepos": ["https://h/a"]}), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "as a result of project update 1 applications source became invalid and 2 applications destination became \
         invalid"
    );
    let kept = json!({"sourceRepos": ["https://h/a"], "destinations": [{"server": "*", "namespace": "web"}]});
    assert_eq!(
        update(kept.clone(), &[]).unwrap_err().to_string(),
        "as a result of project update 1 applications source became invalid"
    );
    let scoped = Repository { project: "shop".to_owned(), ..Repository::bare("https://h/b") };
    assert!(matches!(update(kept, &[scoped]), Ok(Change::Replace(..))), "REP-122");
    // What was refused before is not what the update did.
    let stranger = [application("c", "https://other/c", "web")];
    let rest = json!({"sourceRepos": ["https://h/a"], "destinations": [{"server": "*", "namespace": "*"}]});
    with(&stranger, &[], |around| {
        assert!(plan_update(&object, &project(rest.clone()), around).is_ok());
    });
}

#[test]
fn rep_209_a_project_in_use_and_the_default_one_stay() {
    let object = stored(json!({}));
    let apps = [application("a", "https://h/a", "web")];
    assert_eq!(plan_delete(Some(&object), "default", &[]), Err(ProjectError::Reserved));
    assert_eq!(
        plan_delete(Some(&object), "shop", &apps).unwrap_err().to_string(),
        "project is referenced by 1 applications"
    );
    assert!(matches!(plan_delete(Some(&object), "shop", &[]), Ok(Change::Delete(_))));
    assert_eq!(
        plan_delete(None, "x", &[]).unwrap_err().to_string(),
        "appprojects.argoproj.io \"x\" not found"
    );
}
