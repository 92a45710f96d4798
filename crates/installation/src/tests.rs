use serde_json::{Value, json};

use super::*;

mod scopes;

fn object(value: &Value) -> Arc<Object> {
    Arc::new(Object::from_value(value).unwrap())
}

fn data(objects: &[Value]) -> InstallationData {
    let mut data = InstallationData { namespace: "argocd".to_owned(), ..InstallationData::default() };
    for value in objects {
        assert!(data.take(object(value)), "{value}");
    }
    data
}

fn secret(kind: &str, annotations: &Value, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": kind, "annotations": annotations,
        "labels": {"argocd.argoproj.io/secret-type": kind}}, "data": data})
}

fn settings(data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"}, "data": data})
}

#[test]
fn rep_20_credentials_come_from_the_secret_of_the_url() {
    let secret =
        secret("repository", &json!({}), &json!({"url": "aHR0cHM6Ly9oL3I=", "password": "czNjcmV0"}));
    let installation = Installation::build(&data(&[secret]));
    let found = installation.repository("https://H/r.git", "default").unwrap();
    assert_eq!(found.credentials.password.expose(), "s3cret");
    let other = installation.repository("https://h/other", "default").unwrap();
    assert!(other.credentials.password.expose().is_empty());
}

/// CTL-113, REP-23: a push uses write credentials alone, a project's only when everything is in that project.
#[test]
fn ctl_113_pushes_use_the_credentials_for_writing_of_the_only_project() {
    let url = "aHR0cHM6Ly9oL3I=";
    let write = |name: &str, data: &Value| {
        let mut secret = secret("repository-write", &json!({}), data);
        secret["metadata"]["name"] = name.into();
        secret
    };
    let objects = [
        secret("repository", &json!({}), &json!({"url": url, "password": "cmVhZA=="})),
        write("all", &json!({"url": url, "password": "YWxs"})),
        write("shop", &json!({"url": url, "project": "c2hvcA==", "password": "c2hvcA=="})),
    ];
    let installation = Installation::build(&data(&objects));
    let pushes = |url: &str, projects: &[&str]| {
        let found = installation.push_repository(url, &projects.iter().copied().collect()).unwrap();
        found.credentials.password.expose().to_owned()
    };
    assert_eq!(pushes("https://h/r", &["shop"]), "shop");
    assert_eq!(pushes("https://h/r", &["shop", "desk"]), "all");
    assert_eq!(pushes("https://h/r", &["desk"]), "all");
    assert_eq!(pushes("https://h/other", &["shop"]), "", "tried without any");
    let read = installation.repository("https://h/r", "shop").unwrap();
    assert_eq!(read.credentials.password.expose(), "read");
}

/// REP-60, REP-64: the scope of an access is the project of the credentials, or what the settings say.
#[test]
fn rep_64_working_copies_are_apart_as_the_settings_say() {
    let scope = |isolation: &str| {
        let repository = secret("repository", &json!({}), &json!({"url": "aHR0cHM6Ly9oL3I="}));
        let params = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cmd-params-cm"},
            "data": {"reposerver.checkout.isolation": isolation}});
        Installation::build(&data(&[repository, params])).repository("https://h/r", "shop").unwrap().project
    };
    assert_eq!([scope("credential"), scope("project"), scope("shared")], ["", "shop", ""]);
}

/// A Secret that loses its label is no longer one of ours.
#[test]
fn rep_20_a_secret_without_its_label_says_nothing() {
    let mut objects = data(&[secret("repository", &json!({}), &json!({"url": "aHR0cHM6Ly9oL3I="}))]);
    let plain = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "repository"}});
    assert!(objects.take(object(&plain)));
    assert!(Installation::build(&objects).repositories.is_empty());
    assert!(!objects.take(object(&plain)), "nothing changed");
}

/// CTL-132, INV-15: a project that cannot be read is not one that is missing.
#[test]
fn ctl_132_broken_parts_are_warnings() {
    let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "bad"}, "spec": {"sourceRepos": 7}});
    let installation = Installation::build(&data(&[project]));
    assert!(installation.warnings.iter().any(|text| text.contains("project bad cannot be read")));
    let Err(NoProject::Unreadable(text)) = installation.project("bad") else { panic!() };
    assert!(text.starts_with("project bad cannot be read: "), "{text}");
    assert_eq!(installation.project("other"), Err(NoProject::Missing));
    let app = Application {
        spec: serde_json::from_value(json!({"project": "bad"})).unwrap(),
        ..Application::default()
    };
    assert!(installation.check_spec(&app).is_err());
}

/// B12: what has no effect is said when the settings are read.
#[test]
fn ctl_132_what_has_no_effect_is_a_warning() {
    let data_of_secret = json!({"url": "aHR0cHM6Ly9oL3I=", "webhookManifestCacheWarmDisabled": "dHJ1ZQ=="});
    let repository = secret("repository", &json!({}), &data_of_secret);
    let mut objects = data(&[repository]);
    objects.env.insert("ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL".to_owned(), "debug".to_owned());
    let told = Installation::build(&objects).warnings.join("\n");
    for what in ["webhookManifestCacheWarmDisabled", "ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL"] {
        assert!(told.contains(what), "{what}: {told}");
    }
}

/// TRK-91, TRK-110: every part of the product takes the same method for an application.
#[test]
fn trk_110_an_application_has_one_method_for_all() {
    let of = |system: &str, wanted: &str| {
        let installation =
            Installation::build(&data(&[settings(&json!({"application.resourceTrackingMethod": system}))]));
        let mut app = Application::default();
        app.metadata.annotations.insert("argocd.argoproj.io/tracking-method".to_owned(), wanted.to_owned());
        installation.tracking_of(&app).method.as_str().to_owned()
    };
    assert_eq!(of("annotation", "annotation+label"), "annotation+label");
    assert_eq!(of("annotation", "label"), "label");
    assert_eq!(of("label", "hash"), "hash");
    assert_eq!(of("annotation+hash", "rubbish"), "annotation+hash");
}

/// REP-21: two Secrets for one repository of one project are told, and so are two templates; the same URL in another project
/// is none, and neither is a template.
#[test]
fn rep_21_secrets_that_declare_the_same_are_told() {
    let named = |name: &str, kind: &str, url: &str, project: &str| {
        let mut secret = secret(kind, &json!({}), &json!({}));
        secret["metadata"]["name"] = json!(name);
        let encode = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        secret["data"] = json!({"url": encode(url), "project": encode(project)});
        secret
    };
    let installation = Installation::build(&data(&[
        named("a", "repository", "https://me:hunter2@h/r", "shop"),
        named("b", "repository", "https://me:hunter2@H/r.git", "shop"),
        named("c", "repository", "https://h/r", "ops"),
        named("d", "repository", "https://h/r", ""),
        named("e", "repo-creds", "https://h/r", ""),
        named("f", "repo-creds", "https://h/t", ""),
        named("g", "repo-creds", "https://h/t.git", ""),
    ]));
    let found: Vec<&str> = installation.duplicates.iter().map(String::as_str).collect();
    assert_eq!(found, ["https://H/r.git", "https://h/t.git"]);
    let told = installation.warnings.join("\n");
    assert!(told.contains("Found multiple credentials for repoURL: https://h/t.git"), "{told}");
    assert!(!told.contains("hunter2"), "{told}");
}

/// A3: an entry of a project that was stored before the API asked for the shared right is told of.
#[test]
fn rep_105_entries_that_lend_the_controllers_identity_are_told_of() {
    let lent = |server: &str, config: &str, project: &str| {
        let encoded = |text: &str| base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text);
        let entry = json!({"server": encoded(server), "name": encoded("c"), "config": encoded(config),
            "project": encoded(project)});
        let installation = Installation::build(&data(&[secret("cluster", &json!({}), &entry)]));
        installation.warnings.iter().filter(|text| text.contains("controller's own identity")).count()
    };
    let (local, far, exec) =
        ("https://kubernetes.default.svc", "https://eu", r#"{"execProviderConfig": {"command": "x"}}"#);
    assert_eq!(lent(local, "{}", "red"), 1);
    assert_eq!(lent(far, exec, "red"), 1);
    assert_eq!(lent(far, r#"{"awsAuthConfig": {"clusterName": "x"}}"#, "red"), 1);
    assert_eq!(lent(far, r#"{"bearerToken": "t"}"#, "red"), 0);
    assert_eq!(lent(local, "{}", ""), 0);
    assert_eq!(lent(far, exec, ""), 0);
}

/// INV-8, INV-15: a cluster that cannot be read is not one that is missing.
#[test]
fn inv_15_clusters_that_cannot_be_read_are_told_of() {
    let mut data = data(&[]);
    assert!(Installation::build(&data).clusters.unread().is_empty());
    let unread = UnreadCluster {
        secret_name: "eu".to_owned(),
        reason: "it is nested too deep".to_owned(),
        seen: Some(Cluster { name: "eu".to_owned(), server: "https://eu".to_owned(), ..Cluster::default() }),
    };
    data.bad_secrets.insert("eu".to_owned(), unread.clone());
    let installation = Installation::build(&data);
    assert!(installation.warnings.iter().any(|warning| warning.contains("Secret eu cannot be read")));
    let text = "not all clusters are known: Secret eu cannot be read: it is nested too deep";
    let clusters = &installation.clusters;
    let doubt = |destination: Value| {
        let found = clusters.of_project("").resolve(&serde_json::from_value(destination).unwrap());
        clusters.of_project("").doubt(&found.unwrap_err()).map(ToString::to_string)
    };
    assert_eq!(doubt(json!({"name": "eu"})).as_deref(), Some(text));
    assert_eq!(doubt(json!({"server": "https://eu/"})).as_deref(), Some(text));
    assert_eq!(doubt(json!({"name": "us"})), None, "it is another one");
    assert_eq!(doubt(json!({})), None);
    let clusters = installation.clusters.clone().beside(vec![UnreadCluster { seen: None, ..unread }]);
    let error = clusters.of_project("").by_name("us").unwrap_err();
    let any = clusters.of_project("").doubt(&error).unwrap().to_string();
    assert!(any.starts_with("not all clusters are known: "), "it may be any: {any}");
    assert!(!any.contains("Secret eu") && !any.contains("nested"), "it may be another project's: {any}");
    let mended = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "eu"}});
    data.take(Arc::new(Object::from_value(&mended).unwrap()));
    assert!(Installation::build(&data).clusters.unread().is_empty());
}

fn event(kind: &str, name: &str, labels: &Value) -> DataEvent {
    let (version, kind) = if kind == "AppProject" { ("argoproj.io/v1alpha1", kind) } else { ("v1", kind) };
    let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "labels": labels}});
    DataEvent::Upsert(Arc::new(Object::from_value(&object).unwrap()))
}

fn gone(name: &str) -> DataEvent {
    DataEvent::Delete { name: name.to_owned() }
}

const SETTINGS_MAPS: [&str; 6] = [
    "argocd-cm",
    "argocd-cmd-params-cm",
    "argocd-rbac-cm",
    "argocd-tls-certs-cm",
    "argocd-ssh-known-hosts-cm",
    "argocd-gpg-keys-cm",
];

/// API-89, REP-80, CTL-133: without their object, restrictions must not fall back to defaults.
#[test]
fn api_89_deleted_settings_keep_their_last_content() {
    let mut data = InstallationData::default();
    let ours = json!({"app.kubernetes.io/part-of": "argocd"});
    let maps = SETTINGS_MAPS.map(|name| (DataKind::ConfigMap, name));
    for (kind, name) in maps.into_iter().chain([(DataKind::Secret, "argocd-secret")]) {
        assert!(data.apply(kind, event(kind.gvk().kind.as_str(), name, &ours)).is_change);
        let change = data.apply(kind, gone(name));
        assert!(change.problem.is_some_and(|text| text.contains(name)), "{name}");
        assert!(data.known(kind, name).is_some(), "{name}");
        assert_eq!(data.apply(kind, gone(name)).problem, None, "{name} is reported once");
    }
}

/// API-228: the policy needs no label; another `ConfigMap` that loses its label keeps its last content, and this is reported.
#[test]
fn api_228_an_unlabelled_config_map_is_reported_once() {
    let mut data = InstallationData::default();
    let (bare, ours) = (json!({}), json!({"app.kubernetes.io/part-of": "argocd"}));
    assert!(data.apply(DataKind::ConfigMap, event("ConfigMap", "argocd-rbac-cm", &bare)).is_change);
    assert_eq!(
        data.apply(DataKind::ConfigMap, event("ConfigMap", "of-a-user", &bare)),
        DataChange::default()
    );
    for name in ["argocd-cm", "argocd-cmd-params-cm"] {
        let missing = data.apply(DataKind::ConfigMap, event("ConfigMap", name, &bare));
        assert!(missing.problem.is_some_and(|text| text.contains("defaults")), "{name}");
        assert!(data.known(DataKind::ConfigMap, name).is_none());
        assert!(data.apply(DataKind::ConfigMap, event("ConfigMap", name, &ours)).is_change);
        let lost = data.apply(DataKind::ConfigMap, event("ConfigMap", name, &bare));
        let text = lost.problem.unwrap();
        assert!(text.contains("app.kubernetes.io/part-of") && text.contains("last content"), "{text}");
        assert_eq!(data.apply(DataKind::ConfigMap, event("ConfigMap", name, &bare)).problem, None);
        assert!(data.known(DataKind::ConfigMap, name).is_some());
    }
}

/// API-89: the snapshot shows what is impaired until the object is there again.
#[test]
fn api_89_a_snapshot_shows_lost_settings_until_they_return() {
    let mut data = InstallationData::default();
    let ours = json!({"app.kubernetes.io/part-of": "argocd"});
    data.apply(DataKind::ConfigMap, event("ConfigMap", "argocd-cm", &ours));
    assert!(Installation::build(&data).settings_problems.is_empty());
    assert!(data.apply(DataKind::ConfigMap, gone("argocd-cm")).is_change);
    let problems = Installation::build(&data).settings_problems;
    assert_eq!(problems.keys().collect::<Vec<_>>(), ["argocd-cm"]);
    assert!(data.apply(DataKind::ConfigMap, event("ConfigMap", "argocd-cm", &ours)).is_change);
    assert!(Installation::build(&data).settings_problems.is_empty());
}

/// INV-15: a project that cannot be read permits nothing; a Secret that never could be read may be a cluster's, and one
/// that could keeps its last content.
#[test]
fn inv_15_unreadable_objects_are_neither_absent_nor_empty() {
    let mut data = InstallationData::default();
    let bad = |name: &str| DataEvent::Unreadable {
        name: name.to_owned(),
        reason: "too deep".to_owned(),
        text: b"{".to_vec(),
    };
    assert!(data.apply(DataKind::Project, event("AppProject", "team", &json!({}))).is_change);
    assert!(data.apply(DataKind::Project, bad("team")).is_change);
    assert!(data.projects.is_empty() && data.bad_projects.contains_key("team"));
    assert!(data.apply(DataKind::Project, gone("team")).is_change);
    assert!(data.bad_projects.is_empty());
    let cluster = json!({"argocd.argoproj.io/secret-type": "cluster"});
    assert!(data.apply(DataKind::Secret, event("Secret", "eu", &cluster)).is_change);
    assert!(!data.apply(DataKind::Secret, bad("eu")).is_change);
    assert!(data.known(DataKind::Secret, "eu").is_some() && data.bad_secrets.is_empty());
    assert!(data.apply(DataKind::Secret, bad("us")).is_change);
    assert!(!data.apply(DataKind::Secret, bad("us")).is_change, "it is known already");
    assert!(data.apply(DataKind::Secret, gone("us")).is_change && data.bad_secrets.is_empty());
}
