//! What went wrong elsewhere does not go wrong here (reliability section 4): what has no test beside the feature it is about.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};

use crate::applications::{Known, app, setup as applications};
use crate::home::{Home, Setup, ask};

const APPS: &str = "/api/v1/applications";
const SECRETS: &str = "/api/v1/namespaces/argocd/secrets";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A Secret of the installation, as somebody made it with `kubectl apply`.
fn secret(name: &str, kind: &str, data: &Value) -> Value {
    let record = json!({"kind": "Secret", "stringData": data}).to_string();
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "argocd", "labels": {"argocd.argoproj.io/secret-type": kind},
            "annotations": {LAST_APPLIED: record, "team": "shop"}},
        "stringData": data})
}

fn cluster(name: &str, project: &str, server: &str, token: &str) -> Value {
    let config = json!({"bearerToken": token, "tlsClientConfig": {"insecure": true}}).to_string();
    secret(name, "cluster", &json!({"name": name, "server": server, "project": project, "config": config}))
}

/// Projects `shop` and `other`, each with a cluster and a repository; kim has all rights in `shop`.
fn two_projects() -> Setup {
    let policy = "p, kim, *, *, shop/*, allow\np, kim, projects, get, shop, allow\n";
    let project = json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]});
    let setup = Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &project)
        .project("other", &project);
    for (name, project) in [("far", "shop"), ("theirs", "other")] {
        let server = format!("https://{name}");
        setup.ask(Method::POST, SECRETS, &cluster(name, project, &server, "hunter2"));
        let data = json!({"url": format!("https://git/{name}"), "project": project, "username": "u",
            "password": "hunter2"});
        setup.ask(Method::POST, SECRETS, &secret(&format!("repo-{name}"), "repository", &data));
    }
    setup
}

fn stored(home: &Home, name: &str) -> Value {
    let mut found = ask(&home.sim, Method::GET, &format!("{SECRETS}/{name}"), &Value::Null);
    found["metadata"]["managedFields"].take();
    found
}

/// SEC-35, SEC-33: without a session nothing of an application is told, whether it exists or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_35_manifests_are_not_for_everybody() {
    let home = applications().start().await;
    home.account("admin").ok("POST", APPS, &app("web", "shop")).await;
    for name in ["web", "nothing"] {
        for rest in
            ["", "/manifests", "/managed-resources", "/resource-tree", "/resource", "/events", "/logs"]
        {
            let answer = home.nobody().send("GET", &format!("{APPS}/{name}{rest}"), &Value::Null).await;
            assert_eq!(answer.0, 401, "{rest}");
            assert!(!answer.1.to_string().contains("ConfigMap"), "{}", answer.1);
        }
    }
}

/// SEC-28: the right to change one cluster changes no other one, whatever the body names. Both answer, so that nothing
/// but the right stops these.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_28_an_update_of_a_cluster_reaches_no_other_one() {
    let far = tiphys_sim::Sim::new(tiphys_sim::Options::default()).unwrap();
    let far = tiphys_sim::Server::start(far, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let kubeconfig: Value = serde_json::from_str(&far.kubeconfig()).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].as_str().unwrap();
    let [own, theirs] =
        ["localhost", "127.0.0.1"].map(|host| format!("https://{host}:{}", far.address().port()));
    let setup = two_projects();
    for (name, project, server) in [("own", "shop", &own), ("foreign", "other", &theirs)] {
        setup.ask(Method::POST, SECRETS, &cluster(name, project, server, token));
    }
    let home = setup.start().await;
    let kim = home.account("kim");
    let before = stored(&home, "foreign");
    let config = json!({"bearerToken": token, "tlsClientConfig": {"insecure": true}, "username": "stolen"});
    let path = |server: &str| format!("/api/v1/clusters/{}", server.replace(':', "%3A").replace('/', "%2F"));
    for body in [
        json!({"server": theirs, "name": "foreign", "project": "other", "config": config}),
        json!({"server": theirs, "name": "own", "project": "shop", "config": config}),
        json!({"server": own, "name": "own", "project": "other", "config": config}),
    ] {
        for query in ["", "?updatedFields=config", "?updatedFields=project&updatedFields=config"] {
            for at in [path(&own), path(&theirs), "/api/v1/clusters/foreign?id.type=name".to_owned()] {
                let joint = if at.contains('?') { query.replace('?', "&") } else { query.to_owned() };
                kim.send("PUT", &format!("{at}{joint}"), &body).await;
                assert_eq!(stored(&home, "foreign"), before, "{at}{joint} {body}");
            }
        }
    }
    // What is kim's own they may change, and give away to nobody.
    let labels = json!({"server": own, "name": "own", "labels": {"tier": "one"}});
    kim.ok("PUT", &format!("{}?updatedFields=labels", path(&own)), &labels).await;
    assert_eq!(stored(&home, "own")["metadata"]["labels"]["tier"], "one");
    assert_eq!(decoded(&stored(&home, "own"), "project"), "shop");
    for name in ["foreign", "nothing"] {
        let target = format!("/api/v1/clusters/{name}?id.type=name");
        let refused = kim.refused("PUT", &target, &json!({"config": config})).await;
        assert_eq!(refused, (403, "permission denied".to_owned()), "SEC-26: {name}");
    }
    // One that does not answer is no fault of ours.
    let (status, text) = kim
        .refused(
            "PUT",
            "/api/v1/clusters/https%3A%2F%2Ffar?updatedFields=labels",
            &json!({"server": "https://far"}),
        )
        .await;
    assert!(status == 400 && text.starts_with("cannot reach the API server"), "{status} {text}");
}

/// A member of a Secret as text.
fn decoded(secret: &Value, name: &str) -> String {
    let bytes = STANDARD.decode(secret["data"][name].as_str().unwrap_or_default()).unwrap();
    String::from_utf8(bytes).unwrap()
}

/// SEC-29: whoever may sync what Git says may not sync something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_29_manifests_of_ones_own_need_the_right_to_override() {
    let policy = "p, kim, applications, get, shop/*, allow\np, kim, applications, sync, shop/*, allow\n";
    let home = Setup::new()
        .config_map("argocd-cm", &[("accounts.kim", "login")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .project("shop", &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}))
        .live(Arc::<Known>::default())
        .start()
        .await;
    home.account("admin").ok("POST", APPS, &app("web", "shop")).await;
    let kim = home.account("kim");
    let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}).to_string();
    let sync = format!("{APPS}/web/sync");
    for dry_run in [false, true] {
        let (status, text) =
            kim.refused("POST", &sync, &json!({"manifests": [manifest], "dryRun": dry_run})).await;
        assert!(status == 403 && text.contains("override"), "{status} {text}");
    }
    kim.ok("POST", &sync, &json!({})).await;
}

/// SEC-30: an application of a namespace that its project does not name is made by nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_30_a_project_says_from_which_namespaces_it_takes_applications() {
    let home = applications()
        .config_map("argocd-cmd-params-cm", &[("application.namespaces", "team")])
        .start()
        .await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    for (namespace, who) in [("team", &admin), ("team", &kim), ("elsewhere", &admin)] {
        let mut foreign = app("web", "shop");
        foreign["metadata"]["namespace"] = namespace.into();
        let (status, text) = who.refused("POST", APPS, &foreign).await;
        assert!(status == 400 || status == 403, "{namespace}: {status} {text}");
        let path = format!("/apis/argoproj.io/v1alpha1/namespaces/{namespace}/applications/web");
        let stored = ask(&home.sim, Method::GET, &path, &Value::Null);
        assert!(stored.pointer("/metadata/uid").is_none(), "{stored}");
    }
}

/// SEC-39, SEC-40: clusters, repositories and a project with all that belongs to it are shown without what opens them, the
/// record of `kubectl apply` included.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_39_sec_40_clusters_and_projects_in_detail_show_no_credentials() {
    let home = two_projects().start().await;
    for who in [home.account("admin"), home.account("kim")] {
        for path in [
            "/api/v1/clusters",
            "/api/v1/clusters/https%3A%2F%2Ffar",
            "/api/v1/repositories",
            "/api/v1/projects",
            "/api/v1/projects/shop/detailed",
        ] {
            let shown = who.ok("GET", path, &Value::Null).await.to_string();
            assert!(!shown.contains("hunter2") && !shown.contains(LAST_APPLIED), "{path}: {shown}");
        }
        let detailed = who.ok("GET", "/api/v1/projects/shop/detailed", &Value::Null).await.to_string();
        assert!(detailed.contains("https://git/far") && detailed.contains("https://far"), "{detailed}");
        assert!(
            !detailed.contains("https://git/theirs") && !detailed.contains("https://theirs"),
            "{detailed}"
        );
    }
}

/// SEC-19, SEC-20: neither a change of settings nor names that nobody has make the server forget who failed to log in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_19_failed_logins_are_not_forgotten_when_settings_change() {
    let home = Setup::new().config_map("argocd-cm", &[]).start().await;
    let nobody = home.nobody();
    let login = async |name: &str, password: &str| {
        let body = json!({"username": name, "password": password});
        nobody.send("POST", "/api/v1/session", &body).await.0
    };
    futures::future::join_all((0..5).map(|_| login("admin", "wrong"))).await;
    let change = json!({"data": {"accounts.kim": "login", "url": "https://cd.test"}});
    ask(&home.sim, Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-cm", &change);
    home.until(|world| world.account("kim").is_ok()).await;
    let strangers: Vec<String> = (0..40).map(|nth| format!("stranger-{nth}")).collect();
    futures::future::join_all(strangers.iter().map(|name| login(name, "wrong"))).await;
    assert_eq!(login("admin", crate::home::PASSWORD).await, 401, "the right password of a locked name");
}
