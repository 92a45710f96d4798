use std::sync::Arc;

use base64::Engine as _;
use serde_json::json;
use tiphys_api::cluster::ClusterConfig;

use super::*;
use crate::change::Seen;

const EU: &str = "https://eu.acme.test:6443";

fn plan_create(
    secrets: &Secrets,
    wanted: &Cluster,
    upsert: bool,
    in_cluster_enabled: bool,
) -> Result<Change, ClusterCallError> {
    super::plan_create(secrets, wanted, upsert, in_cluster_enabled).map(Planned::into_change)
}

fn plan_update(secrets: &Secrets, name: &str, update: &Update) -> Result<Change, ClusterCallError> {
    super::plan_update(secrets, name, update).map(Planned::into_change)
}

fn plan_delete(secrets: &Secrets, name: &str) -> Result<Change, ClusterCallError> {
    super::plan_delete(secrets, name).map(Planned::into_change)
}

fn encode(text: &str) -> String {
    base64::engine::general_purpose::STANDARD.encode(text)
}

fn secret(name: &str, data: &[(&str, &str)], labels: &Value, annotations: &Value) -> Arc<Object> {
    let data: Map<String, Value> =
        data.iter().map(|(key, text)| ((*key).to_owned(), encode(text).into())).collect();
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "data": data,
        "metadata": {"name": name, "namespace": "argocd", "uid": format!("uid-{name}"), "resourceVersion": "7",
            "labels": {SECRET_TYPE_LABEL: "cluster"}, "annotations": annotations}});
    for (key, value) in labels.as_object().unwrap() {
        object["metadata"]["labels"][key] = value.clone();
    }
    Arc::new(Object::from_value(&object).unwrap())
}

fn secrets(objects: Vec<Arc<Object>>) -> Secrets {
    Secrets::new("argocd", objects)
}

fn wanted(server: &str) -> Cluster {
    let config = ClusterConfig { bearer_token: "hunter2".into(), ..ClusterConfig::default() };
    Cluster { name: "eu".into(), server: server.into(), config: config.to_json(), ..Cluster::default() }
}

fn seen(name: &str) -> Seen {
    Seen { name: name.to_owned(), uid: format!("uid-{name}").into(), version: "7".into() }
}

#[test]
fn rep_100_113_a_cluster_is_created_kept_refused_or_changed() {
    let mut cluster = Cluster { shard: Some(2), namespaces: vec!["a".into(), "b".into()], ..wanted(EU) };
    cluster.labels.insert("region".into(), "eu".into());
    let change = plan_create(&secrets(vec![]), &cluster, false, true).unwrap();
    let Change::Create(manifest) = &change else { panic!("{change:?}") };
    let name = cluster_secret_name(EU).unwrap();
    assert_eq!(
        manifest.expose()["metadata"],
        json!({"name": name, "namespace": "argocd", "annotations": {"managed-by": "argocd.argoproj.io"},
            "labels": {"argocd.argoproj.io/secret-type": "cluster", "region": "eu"}})
    );
    let data = &manifest.expose()["data"];
    assert_eq!((&data["shard"], &data["namespaces"]), (&json!(encode("2")), &json!(encode("a,b"))));
    assert!(data.get("clusterResources").is_none() && data.get("project").is_none());

    let stored = [
        ("server", "https://eu.acme.test:6443/"),
        ("name", "eu"),
        ("config", r#"{"bearerToken": "hunter2"}"#),
    ];
    let found = secrets(vec![secret("s", &stored, &json!({}), &json!({}))]);
    assert_eq!(plan_create(&found, &wanted(EU), false, true), Ok(Change::Keep), "the project does not count");
    let other = Cluster { cluster_resources: true, name: "us".into(), ..wanted(EU) };
    let refused = plan_create(&found, &other, false, true).unwrap_err();
    assert_eq!(
        (refused.to_string().as_str(), refused.code()),
        (
            "existing cluster spec is different; use upsert flag to force update; difference in keys \
             \"clusterResources,name\"",
            Code::InvalidArgument
        )
    );
    assert!(matches!(plan_create(&found, &other, true, true), Ok(Change::Patch(at, _)) if at == seen("s")));
}

#[test]
fn rep_102_an_update_keeps_what_nobody_knows() {
    let stored = [("server", EU), ("name", "eu"), ("config", "{}"), ("namespaces", "a"), ("theirs", "x")];
    let annotations = json!({LAST_APPLIED: "{}", "team": "a", "old": "1"});
    let found = secrets(vec![secret("s", &stored, &json!({"region": "eu"}), &annotations)]);
    let update = Update {
        namespaces: Some(vec![]),
        labels: Some([("tier".to_owned(), "gold".to_owned())].into()),
        annotations: Some([("team".to_owned(), "a".to_owned())].into()),
        ..Update::default()
    };
    let change = plan_update(&found, "s", &update).unwrap();
    let Change::Patch(at, patch) = &change else { panic!("{change:?}") };
    assert_eq!(*at, seen("s"));
    assert_eq!(
        *patch.expose(),
        json!({"data": {"namespaces": null}, "metadata": {"resourceVersion": "7",
            "labels": {"region": null, "tier": "gold"}, "annotations": {"old": null}}})
    );
    assert_eq!(plan_update(&found, "s", &Update::default()), Ok(Change::Keep));
    assert_eq!(plan_update(&found, "x", &update), Err(ClusterCallError::Denied));
}

#[test]
fn rep_101_110_what_cannot_be_stored() {
    let refused = |edit: &dyn Fn(&mut Cluster)| {
        let mut cluster = wanted(EU);
        edit(&mut cluster);
        let error = plan_create(&secrets(vec![]), &cluster, false, true).unwrap_err();
        assert!(!error.to_string().contains("hunter2") && error.to_string().len() < 200, "{error}");
        error
    };
    assert_eq!(
        refused(&|c| drop(c.annotations.insert(LAST_APPLIED.into(), "x".into()))).to_string(),
        "annotation kubectl.kubernetes.io/last-applied-configuration cannot be set"
    );
    assert_eq!(refused(&|c| c.name = "a\nb".into()), ClusterCallError::Control("name"));
    assert_eq!(refused(&|c| c.namespaces = vec!["a\u{1b}".into()]), ClusterCallError::Control("namespaces"));
    assert!(matches!(refused(&|c| c.server = "nowhere".into()), ClusterCallError::Server(_)));
    let long = "x".repeat(1 << 20);
    assert!(matches!(
        refused(&|c| c.config = long.as_str().into()),
        ClusterCallError::TooLong { field: "config", .. }
    ));
    assert!(matches!(
        refused(&|c| c.config = r#"{"bearerToken": hunter2}"#.into()),
        ClusterCallError::Config(_)
    ));
    let local = plan_create(&secrets(vec![]), &wanted(IN_CLUSTER_SERVER), false, false).unwrap_err();
    assert_eq!(local.to_string(), "cannot register cluster: in-cluster has been disabled");
}

#[test]
fn rep_114_by_name_all_by_server_one() {
    let cluster =
        |name: &str, server: &str| Cluster { name: name.into(), server: server.into(), ..Cluster::default() };
    assert!(Selector::parse("https://eu/").means(&cluster("x", "https://eu")));
    assert!(
        Selector::parse("eu").means(&cluster("eu", "https://a"))
            && Selector::parse("eu").means(&cluster("eu", "https://b"))
    );
    assert!(!Selector::parse("https://eu").means(&cluster("https://eu", "https://b")));
    let ours = json!({"managed-by": "argocd.argoproj.io"});
    let found = secrets(vec![
        secret("ours", &[("server", EU)], &json!({}), &ours),
        secret("hand", &[("server", EU)], &json!({}), &json!({})),
    ]);
    assert_eq!(plan_delete(&found, "ours"), Ok(Change::Delete(seen("ours"))));
    assert!(matches!(plan_delete(&found, "hand"), Ok(Change::Patch(..))), "REP-3");
    assert_eq!(plan_delete(&found, ""), Err(ClusterCallError::Denied), "the local one has no Secret");
}

#[test]
fn rep_115_answers_have_no_credentials() {
    let config = r#"{"bearerToken":"t0ken","username":"u","password":"p4ss","proxyUrl":"http://u:p4ss@p:1",
        "execProviderConfig":{"command":"c","env":{"A":"t0ken"}},"awsAuthConfig":{"clusterName":"c"},
        "tlsClientConfig":{"serverName":"n","keyData":"a2V5","certData":"Y2VydA=="}}"#;
    let cluster = Cluster { config: config.into(), ..wanted(EU) };
    let value = shown(&cluster, &State::not_asked(0));
    assert_eq!(
        value["config"],
        json!({"tlsClientConfig": {"insecure": false, "serverName": "n"}, "awsAuthConfig": {"clusterName": "c"},
            "proxyUrl": "http://u:***@p:1"})
    );
    let text = value.to_string();
    assert!(!text.contains("t0ken") && !text.contains("p4ss") && !text.contains("a2V5"), "{text}");
    assert_eq!(
        value["connectionState"]["message"],
        "Cluster has no applications and is not being monitored."
    );
    assert_eq!(shown(&cluster, &State::not_asked(1))["info"]["applicationsCount"], 1);
}

#[test]
fn api_168_what_a_controller_knows_of_a_cluster_is_told_within_bounds() {
    let cluster = wanted(EU);
    let info = |watched| shown(&cluster, &State { watched, ..State::not_asked(1) })["info"].clone();
    let unknown = info(None);
    assert_eq!((unknown.get("apiVersions"), &unknown["cacheInfo"]), (None, &json!({})));
    let api_versions = vec!["apps/v1".to_owned(), "apps/v1/Deployment".to_owned()];
    let known = info(Some(Watched { api_versions, kinds: 70, objects: 900 }));
    assert_eq!(known["apiVersions"], json!(["apps/v1", "apps/v1/Deployment"]));
    assert_eq!(known["cacheInfo"], json!({"resourcesCount": 900, "apisCount": 70}));
    let many = (0..20_000).map(|nth| format!("v{nth}")).collect();
    let many = info(Some(Watched { api_versions: many, ..Watched::default() }));
    assert_eq!(many["apiVersions"].as_array().unwrap().len(), 10_000);
}

#[test]
fn cli_812_rights_are_for_the_cluster_or_for_namespaces() {
    let kinds = |namespaces: &[String]| -> Vec<String> {
        let made = access::manifests("kube-system", namespaces);
        made.iter()
            .map(|it| format!("{} {}", it["kind"].as_str().unwrap(), it["metadata"]["namespace"]))
            .collect()
    };
    assert_eq!(kinds(&[]), ["ServiceAccount \"kube-system\"", "ClusterRole null", "ClusterRoleBinding null"]);
    assert_eq!(
        kinds(&["a".to_owned()]),
        ["ServiceAccount \"kube-system\"", "Role \"a\"", "RoleBinding \"a\""]
    );
}

#[test]
fn rep_114_the_account_of_a_token() {
    let token = |claims: &Value| {
        let part = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims.to_string());
        format!("e30.{part}.c2ln")
    };
    let legacy = token(&json!({"kubernetes.io/serviceaccount/namespace": "n",
        "kubernetes.io/serviceaccount/service-account.name": "a", "kubernetes.io/serviceaccount/secret.name": "s"}));
    let account = access::account_of(&legacy).unwrap();
    assert_eq!((account.namespace.as_str(), account.name.as_str(), account.secret.as_str()), ("n", "a", "s"));
    let bound = access::account_of(&token(&json!({"sub": "system:serviceaccount:n:a"}))).unwrap();
    assert_eq!((bound.name.as_str(), bound.secret.as_str()), ("a", ""));
    for foreign in ["", "opaque", "a.b.c", token(&json!({"sub": "admin"})).as_str()] {
        assert_eq!(access::account_of(foreign), None, "{foreign}");
    }
    let config = access::with_token(r#"{"theirs":1,"bearerToken":"old"}"#, &"new".into()).unwrap();
    assert_eq!(config.expose(), r#"{"bearerToken":"new","theirs":1}"#);
}

/// A2: what is written needs the right in the stored object and in the requested one; the same server in another project
/// is another cluster.
#[test]
fn sec_28_a_change_needs_rights_in_both_clusters() {
    let stored = |name: &str, project: &str| {
        let data =
            [("server", EU), ("name", "eu"), ("project", project), ("config", r#"{"bearerToken": "t"}"#)];
        secret(name, &data, &json!({}), &json!({}))
    };
    let found = secrets(vec![stored("shared", ""), stored("ops", "ops")]);
    let of = |project: &str| Cluster { project: project.to_owned(), ..wanted(EU) };
    let create = |project: &str, upsert: bool| super::plan_create(&found, &of(project), upsert, true);
    assert_eq!(create("shop", true).unwrap().needs(), [format!("create shop/{EU}")]);
    assert!(matches!(create("shop", true).unwrap().into_change(), Change::Create(_)));
    assert_eq!(create("ops", true).unwrap().needs(), [format!("update ops/{EU}")]);
    assert!(matches!(create("ops", false), Err(ClusterCallError::Different(_))));
    let moved = |project: &str| {
        let update = Update { project: Some(project.to_owned()), ..Update::default() };
        super::plan_update(&found, "ops", &update)
    };
    assert_eq!(moved("shop").unwrap().needs(), [format!("update ops/{EU}"), format!("update shop/{EU}")]);
    assert_eq!(moved("").unwrap_err(), ClusterCallError::Taken(String::new()));
    assert_eq!(super::plan_delete(&found, "ops").unwrap().needs(), [format!("delete ops/{EU}")]);
}

/// A3: what is the controller's own is given to a project with the right in the shared scope alone.
#[test]
fn rep_105_an_identity_of_the_controller_needs_the_shared_right() {
    let found = secrets(vec![secret(
        "lent",
        &[("server", IN_CLUSTER_SERVER), ("name", "here"), ("project", "shop"), ("namespaces", "shop")],
        &json!({}),
        &json!({}),
    )]);
    let local = IN_CLUSTER_SERVER;
    let widened = Update { namespaces: Some(vec![]), ..Update::default() };
    let needs = super::plan_update(&found, "lent", &widened).unwrap().needs();
    assert_eq!(needs, [format!("update shop/{local}"), format!("update {local}")]);
    assert_eq!(super::plan_delete(&found, "lent").unwrap().needs(), [format!("delete shop/{local}")]);
    for (config, lends) in [
        (r#"{"execProviderConfig":{"command":"x"}}"#, true),
        (r#"{"awsAuthConfig":{"clusterName":"x"}}"#, true),
        (r#"{"bearerToken":"t"}"#, false),
        ("{}", false),
    ] {
        let made = Cluster { project: "shop".to_owned(), config: config.into(), ..wanted(EU) };
        let needs = super::plan_create(&secrets(vec![]), &made, false, true).unwrap().needs();
        assert_eq!(needs.len(), if lends { 2 } else { 1 }, "{config}: {needs:?}");
    }
}

#[test]
fn rep_112_a_call_means_clusters_of_one_scope() {
    let entry = |server: &str, name: &str, project: &str| Cluster {
        name: name.to_owned(),
        project: project.to_owned(),
        ..wanted(server)
    };
    let all = || {
        vec![
            entry(EU, "eu", ""),
            entry(EU, "eu", "shop"),
            entry("https://us", "us", "shop"),
            entry("https://us", "us", "ops"),
            entry("https://x", "twin", "ops"),
            entry("https://y", "twin", "ops"),
        ]
    };
    let found = |text: &str| {
        let found = Selector::parse(text).among(all());
        found.map(|found| found.iter().map(|one| one.key().to_string()).collect::<Vec<_>>())
    };
    assert_eq!(found(EU).unwrap(), [EU]);
    assert_eq!(found("eu").unwrap(), [EU]);
    assert_eq!(found(&format!("shop/{EU}/")).unwrap(), [format!("shop/{EU}")]);
    assert_eq!(found("us").unwrap_err(), ClusterCallError::Ambiguous(vec!["ops".into(), "shop".into()]));
    assert_eq!(found("ops/https://us").unwrap(), ["ops/https://us"]);
    assert_eq!(found("twin").unwrap().len(), 2, "REP-114: all of that name");
    assert_eq!(found("web/https://us").unwrap_err(), ClusterCallError::Denied);
}
