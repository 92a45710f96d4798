//! A project's right reaches what belongs to the project, and nothing else: clusters, repositories, templates, projects
//! (SEC-28, REP-41, REP-112).

use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use tiphys_policy::rbac::Request;
use tiphys_source::{MemoryRepositories, SourceOptions, Sources};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::home::{Home, Setup, ask};

const SECRETS: &str = "/api/v1/namespaces/argocd/secrets";
const CLUSTERS: &str = "/api/v1/clusters";
const REPOSITORIES: &str = "/api/v1/repositories";
const LOCAL: &str = "https://kubernetes.default.svc";

/// A Secret of the installation, as an administrator makes it with `kubectl`.
fn secret(name: &str, kind: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "stringData": data,
        "metadata": {"name": name, "namespace": "argocd", "labels": {"argocd.argoproj.io/secret-type": kind}}})
}

fn cluster(name: &str, project: &str, server: &str, config: &Value) -> Value {
    let data = json!({"name": name, "server": server, "project": project, "config": config.to_string()});
    secret(name, "cluster", &data)
}

fn two_projects(policy: &str) -> Setup {
    let project =
        json!({"sourceRepos": ["https://git/shop/*"], "destinations": [{"name": "eu", "namespace": "shop"}]});
    let accounts = [("accounts.kim", "login"), ("accounts.owner", "login"), ("hydrator.enabled", "true")];
    let options = SourceOptions::new(Path::new("unused"));
    Setup::new()
        .config_map("argocd-cm", &accounts)
        .config_map("argocd-cmd-params-cm", &[("hydrator.enabled", "true")])
        .config_map("argocd-rbac-cm", &[("policy.csv", policy)])
        .sources(Sources::in_memory(options, MemoryRepositories::default()))
        .project("shop", &project)
        .project("other", &project)
}

/// Kim has every right in the project `shop`.
fn setup() -> Setup {
    two_projects("p, kim, *, *, shop/*, allow\np, kim, projects, get, shop, allow\n")
}

fn stored(home: &Home, name: &str) -> Value {
    let mut found = ask(&home.sim, Method::GET, &format!("{SECRETS}/{name}"), &Value::Null);
    found["metadata"]["managedFields"].take();
    found
}

/// All Secrets that declare something, by a key of their data.
fn declared(home: &Home, kind: &str, key: &str) -> Vec<String> {
    let all = ask(&home.sim, Method::GET, SECRETS, &Value::Null);
    let items = all["items"].as_array().unwrap().iter();
    let of_kind = items.filter(|item| item["metadata"]["labels"]["argocd.argoproj.io/secret-type"] == kind);
    let decoded = |item: &Value| {
        let text = item["data"][key].as_str().unwrap_or_default();
        String::from_utf8(STANDARD.decode(text).unwrap()).unwrap()
    };
    let mut found: Vec<String> = of_kind.map(decoded).collect();
    found.sort();
    found
}

/// An API server that answers, under two addresses, and a token for it.
struct Far {
    _server: tiphys_sim::Server,
    addresses: [String; 2],
    config: Value,
}

async fn far() -> Far {
    let sim = tiphys_sim::Sim::new(tiphys_sim::Options::default()).unwrap();
    let server = tiphys_sim::Server::start(sim, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let kubeconfig: Value = serde_json::from_str(&server.kubeconfig()).unwrap();
    let token = kubeconfig["users"][0]["user"]["token"].clone();
    let addresses =
        ["localhost", "127.0.0.1"].map(|host| format!("https://{host}:{}", server.address().port()));
    let config = json!({"bearerToken": token, "tlsClientConfig": {"insecure": true}});
    Far { _server: server, addresses, config }
}

/// A2: the identity of a cluster is its server together with its project. An upsert with a project's right makes an entry
/// of that project, and changes neither another project's entry of the same server nor the shared one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_28_an_upsert_replaces_no_foreign_cluster() {
    let far = far().await;
    let [shared, foreign] = &far.addresses;
    let setup = setup();
    let theirs = json!({"bearerToken": "hunter2", "tlsClientConfig": {"insecure": true}});
    for (name, project, server) in [("eu", "", shared), ("us", "other", foreign)] {
        setup.ask(Method::POST, SECRETS, &cluster(name, project, server, &theirs));
    }
    let home = setup.start().await;
    let kim = home.account("kim");
    for (name, server) in [("eu", shared), ("us", foreign)] {
        let before = stored(&home, name);
        let wanted = json!({"server": server, "name": name, "project": "shop", "config": far.config});
        for upsert in ["", "?upsert=true"] {
            kim.send("POST", &format!("{CLUSTERS}{upsert}"), &wanted).await;
            assert_eq!(stored(&home, name), before, "{name} {upsert}");
        }
        let servers = declared(&home, "cluster", "server");
        assert_eq!(servers.iter().filter(|found| *found == server).count(), 2, "{name}: an entry of its own");
    }
    assert_eq!(declared(&home, "cluster", "project"), ["", "other", "shop", "shop"]);
}

/// SEC-25: who moves an own cluster into another scope learns nothing of the clusters there without the right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_25_moving_a_cluster_tells_of_no_other_project() {
    let setup = setup();
    let (taken, free, config) = ("https://127.0.0.1:9", "https://127.0.0.1:10", json!({"bearerToken": "t"}));
    for (name, project, server) in
        [("mine", "shop", taken), ("theirs", "other", taken), ("ours", "", taken), ("alone", "shop", free)]
    {
        setup.ask(Method::POST, SECRETS, &cluster(name, project, server, &config));
    }
    let home = setup.start().await;
    let kim = home.account("kim");
    let moved = async |name: &str, project: &str| {
        let target = format!("{CLUSTERS}/{name}?id.type=name&updatedFields=project");
        let (status, text) = kim.refused("PUT", &target, &json!({"project": project})).await;
        let scope = if project.is_empty() { String::new() } else { format!("{project}/") };
        assert_eq!(status, 403, "{name} to {project:?}: {text}");
        assert!(text.starts_with(&format!("permission denied: clusters, update, {scope}https://")), "{text}");
        text.replace(":10", ":9")
    };
    for project in ["other", ""] {
        assert_eq!(moved("mine", project).await, moved("alone", project).await);
    }
    let admin = home.account("admin");
    let target = format!("{CLUSTERS}/https%3A%2F%2F127.0.0.1:9?updatedFields=project");
    let (_, text) = admin.refused("PUT", &target, &json!({"project": "other"})).await;
    assert!(!text.starts_with("permission denied"), "{text}");
}

/// A3: the local cluster, and everything that the controller proves with its own identity, is shared. Whoever gives it to a
/// project needs the same right without a project.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_105_a_projects_right_lends_no_identity_of_the_controller() {
    let home = setup().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let exec = json!({"execProviderConfig": {"command": "argocd-k8s-auth", "args": ["gcp"]}});
    let aws = json!({"awsAuthConfig": {"clusterName": "prod", "roleARN": "arn:aws:iam::1:role/admin"}});
    let far = "https://127.0.0.1:9";
    for (server, config) in
        [(LOCAL, json!({})), ("https://kubernetes.default.svc/", json!({})), (far, exec), (far, aws)]
    {
        for upsert in ["", "?upsert=true"] {
            let wanted = json!({"server": server, "name": "mine", "project": "shop", "config": config});
            let (status, text) = kim.refused("POST", &format!("{CLUSTERS}{upsert}"), &wanted).await;
            assert!(
                status == 403 && text.starts_with("permission denied: clusters, create, https://"),
                "{config}: {text}"
            );
        }
    }
    assert_eq!(declared(&home, "cluster", "server"), [""; 0]);
    // An administrator may.
    let wanted =
        json!({"server": LOCAL, "name": "mine", "project": "shop", "namespaces": ["shop"], "config": {}});
    admin.ok("POST", CLUSTERS, &wanted).await;
    // What is lent is not widened by the borrower.
    let path = format!("{CLUSTERS}/https%3A%2F%2Fkubernetes.default.svc?updatedFields=namespaces");
    let (status, text) = kim.refused("PUT", &path, &json!({"server": LOCAL, "namespaces": []})).await;
    assert!(status == 403, "{text}");
    assert_eq!(declared(&home, "cluster", "namespaces"), ["shop"]);
    kim.ok("DELETE", &format!("{CLUSTERS}/mine?id.type=name"), &Value::Null).await;
}

/// A3: a URL that reads like an object of a project is none that the project's right creates for everybody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_41_a_projects_right_makes_nothing_shared() {
    let home = setup().start().await;
    let (admin, kim) = (home.account("admin"), home.account("kim"));
    let charts = json!({"repo": "shop/charts", "type": "helm", "name": "stable", "enableOCI": true});
    for query in ["", "?upsert=true", "?credsOnly=true", "?credsOnly=true&upsert=true"] {
        let (status, text) = kim.refused("POST", &format!("{REPOSITORIES}{query}"), &charts).await;
        assert!(status == 403 || status == 400, "{query}: {status} {text}");
    }
    let write = json!({"repo": "shop/charts", "username": "u", "password": "p"});
    kim.refused("POST", "/api/v1/write-repositories?credsOnly=true", &write).await;
    let creds = json!({"url": "shop/", "username": "u", "password": "p"});
    for path in ["repocreds", "write-repocreds"] {
        for upsert in ["", "?upsert=true"] {
            kim.refused("POST", &format!("/api/v1/{path}{upsert}"), &creds).await;
        }
    }
    let far = json!({"server": "shop/cluster", "name": "x", "config": {}});
    kim.refused("POST", CLUSTERS, &far).await;
    for kind in ["repository", "repository-write", "repo-creds", "repo-write-creds", "cluster"] {
        assert_eq!(declared(&home, kind, "url"), [""; 0], "{kind}");
    }
    // A project with the name of a registry's host gives no right in the registry.
    let registry = json!({"project": {"metadata": {"name": "registry.test"}, "spec": {}}});
    admin.ok("POST", "/api/v1/projects", &registry).await;
    admin
        .ok(
            "POST",
            "/api/v1/repocreds",
            &json!({"url": "registry.test/org", "username": "u", "password": "p"}),
        )
        .await;
    let policy = json!({"data": {"policy.csv": "p, kim, *, *, registry.test/*, allow\n"}});
    ask(&home.sim, Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-rbac-cm", &policy);
    let asked = Request { resource: "repositories", action: "get", object: "registry.test/x" };
    home.until(|world| world.rbac().subject_may("kim", &asked)).await;
    assert_eq!(kim.ok("GET", "/api/v1/repocreds", &Value::Null).await["items"], json!([]));
    let (status, text) = kim.refused("DELETE", "/api/v1/repocreds/registry.test%2Forg", &Value::Null).await;
    assert_eq!(status, 403, "{text}");
    kim.refused("POST", "/api/v1/repocreds", &json!({"url": "registry.test/", "username": "u"})).await;
    assert_eq!(declared(&home, "repo-creds", "url"), ["registry.test/org"]);
}

/// A2: a rule that denies a repository denies every spelling of it, wherever its URL is sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_53_another_spelling_passes_no_denial() {
    let policy = "p, kim, repositories, *, *, allow\np, kim, repositories, *, https://git/shop/secret, deny\n\
                  p, kim, applications, *, shop/*, allow\n";
    let setup = two_projects(policy);
    let data = json!({"url": "https://git/shop/secret", "username": "u", "password": "hunter2"});
    setup.ask(Method::POST, SECRETS, &secret("secret", "repository", &data));
    let home = setup.start().await;
    let kim = home.account("kim");
    for url in [
        "https://git/shop/secret",
        "https://git/shop/secret.git",
        "https://git/Shop/SECRET",
        "https://GIT/shop/secret",
        "https://git/shop/secret/",
        "https://git/shop//secret",
        "https://git:443/shop/secret",
        "https://me@git/shop/secret",
        "https://git/shop/s%65cret",
    ] {
        let encoded: String = form_urlencoded::byte_serialize(url.as_bytes()).collect();
        for path in ["refs", "oci-tags", "helmcharts", "apps?appName=web&revision=main"] {
            for project in ["", "appProject=shop"] {
                let mark = if path.contains('?') { '&' } else { '?' };
                let target = format!("{REPOSITORIES}/{encoded}/{path}{mark}{project}");
                let (status, text) = kim.send("GET", &target, &Value::Null).await;
                assert_eq!(status, 403, "{target}: {text}");
            }
        }
        let source = json!({"source": {"repoURL": url, "path": "web", "targetRevision": "main"}, "appName": "web",
            "appProject": "shop"});
        let target = format!("{REPOSITORIES}/{encoded}/appdetails");
        assert_eq!(kim.send("POST", &target, &source).await.0, 403, "{target}");
        assert_eq!(kim.send("GET", &format!("{REPOSITORIES}/{encoded}"), &Value::Null).await.0, 403, "{url}");
        let wanted = json!({"repo": url, "username": "u", "password": "p"});
        for verb in [format!("{REPOSITORIES}?upsert=true"), format!("{REPOSITORIES}?credsOnly=true")] {
            assert_eq!(kim.send("POST", &verb, &wanted).await.0, 403, "{verb} {url}");
        }
        assert_eq!(kim.send("PUT", &format!("{REPOSITORIES}/{encoded}"), &wanted).await.0, 403, "{url}");
        assert_ne!(
            kim.send("DELETE", &format!("{REPOSITORIES}/{encoded}"), &Value::Null).await.0,
            200,
            "{url}"
        );
    }
    assert_eq!(declared(&home, "repository", "password"), ["hunter2"]);
}

/// A7: what answers at an address that a tenant names is not repeated to the tenant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_38_the_body_of_another_server_is_not_repeated() {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", socket.local_addr().unwrap());
    let answering = tokio::spawn(async move {
        loop {
            let (mut stream, _) = socket.accept().await.unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 4096];
                drop(stream.read(&mut buffer).await);
                let body =
                    r#"{"message":"canary-of-another-server","kind":"Other"} canary-of-another-server"#;
                let head = format!(
                    "HTTP/1.1 418 canary-reason\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
            });
        }
    });
    let home = setup().start().await;
    let kim = home.account("kim");
    let wanted = json!({"server": address, "name": "mine", "project": "shop", "config": {}});
    for (verb, target) in [("POST", CLUSTERS.to_owned()), ("POST", format!("{CLUSTERS}?upsert=true"))] {
        let (status, text) = kim.refused(verb, &target, &wanted).await;
        assert!(status != 200 && !text.contains("canary"), "{target}: {status} {text}");
        assert!(text.contains("418"), "the status is said: {text}");
    }
    ask(&home.sim, Method::POST, SECRETS, &cluster("mine", "shop", &address, &json!({})));
    home.until(|world| world.installation.clusters.all().iter().any(|one| one.name == "mine")).await;
    let listed = kim.ok("GET", CLUSTERS, &Value::Null).await;
    assert!(!listed.to_string().contains("canary") && listed.to_string().contains("418"), "{listed}");
    answering.abort();
}

/// API-162: an upsert of a project reaches no further than an update of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn api_162_an_upsert_of_a_project_is_an_update_of_it() {
    let home = two_projects("p, owner, projects, *, *, allow\n").start().await;
    let owner = home.account("owner");
    let eu = json!({"name": "eu", "namespace": "shop"});
    for (member, value, refusal) in [
        (
            "destinations",
            json!([eu, {"server": "https://far", "namespace": "*"}]),
            "clusters, update, https://far",
        ),
        ("destinations", json!([eu, {"name": "prod", "namespace": "*"}]), "clusters, update, prod"),
        (
            "sourceRepos",
            json!(["https://git/shop/*", "https://git/else"]),
            "repositories, update, https://git/else",
        ),
    ] {
        let mut spec = json!({"sourceRepos": ["https://git/shop/*"], "destinations": [{"name": "eu", "namespace": "shop"}]});
        spec[member] = value;
        let wanted = json!({"project": {"metadata": {"name": "shop"}, "spec": spec}, "upsert": true});
        let (status, text) = owner.refused("POST", "/api/v1/projects", &wanted).await;
        assert!(
            status == 403 && text.starts_with(&format!("permission denied: {refusal}")),
            "{status} {text}"
        );
    }
}

/// REP-111: another project's cluster with a taken name, or a taken address, stops and diverts nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_111_a_foreign_cluster_of_the_same_name_stops_nobody() {
    let setup = setup();
    for (name, called, project, server) in [
        ("shared", "eu", "", "https://eu"),
        ("squatter", "eu", "other", "https://evil"),
        ("double", "double", "other", "https://eu"),
    ] {
        let mut one = cluster(name, project, server, &json!({"bearerToken": "t"}));
        one["stringData"]["name"] = called.into();
        setup.ask(Method::POST, SECRETS, &one);
    }
    let home = setup.live(Arc::<crate::applications::Known>::default()).start().await;
    let app = json!({"metadata": {"name": "web"}, "spec": {"project": "shop", "destination": {"name": "eu", "namespace": "shop"},
        "source": {"repoURL": "https://git/shop/web", "path": "web", "targetRevision": "main"}}});
    home.account("kim").ok("POST", "/api/v1/applications?validate=false", &app).await;
}

/// REP-122: a cluster of the project permits itself, not a shared entry of the same server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rep_122_an_own_entry_opens_no_shared_cluster() {
    let setup = setup();
    for (name, project) in [("eu", ""), ("mine", "shop")] {
        setup.ask(Method::POST, SECRETS, &cluster(name, project, "https://eu", &json!({"bearerToken": "t"})));
    }
    let home = setup.live(Arc::<crate::applications::Known>::default()).start().await;
    let kim = home.account("kim");
    let app = |destination: &Value| {
        json!({"metadata": {"name": "web"}, "spec": {"project": "shop", "destination": destination,
            "source": {"repoURL": "https://git/shop/web", "path": "web", "targetRevision": "main"}}})
    };
    let target = "/api/v1/applications?validate=false&upsert=true";
    let (status, text) =
        kim.refused("POST", target, &app(&json!({"name": "eu", "namespace": "kube-system"}))).await;
    assert!(
        status == 400 && text.contains("do not match any of the allowed destinations"),
        "{status} {text}"
    );
    kim.ok("POST", target, &app(&json!({"name": "mine", "namespace": "kube-system"}))).await;
    kim.ok("POST", target, &app(&json!({"server": "https://eu", "namespace": "kube-system"}))).await;
}
