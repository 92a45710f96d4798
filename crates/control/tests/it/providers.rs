//! Sets whose generators ask a provider of repositories, over HTTP, until it says half of the truth (INV-8, F24).

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_control::Controller;
use tiphys_sim::Sim;
use tiphys_source::{Clock, MemoryRepositories};

use crate::support::{HOME, ask, connection, control_plane, options};

const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
const SETS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets";
const SET: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets/all";
/// Time between two looks of a test.
const LOOK: Duration = Duration::from_millis(20);

/// What is answered: status, further headers, body.
type Reply = (u16, Vec<(&'static str, String)>, String);

/// A GitHub of this process with an organisation whose repositories are on two pages.
struct Github {
    address: String,
    /// The second page.
    second: Arc<Mutex<Reply>>,
    /// What was sent as `Authorization`, by target.
    logins: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Github {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let second = Arc::new(Mutex::new(page(&["b"])));
        let logins: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let (theirs, seen) = (Arc::clone(&second), Arc::clone(&logins));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (second, seen) = (Arc::clone(&theirs), Arc::clone(&seen));
                std::thread::spawn(move || serve(stream.unwrap(), &second, &seen));
            }
        });
        Self { address, second, logins }
    }
}

fn page(names: &[&str]) -> Reply {
    let repository = |name: &&str| {
        json!({"id": 7, "name": name, "owner": {"login": "shop"}, "default_branch": "main", "topics": [],
            "ssh_url": format!("git@github.example:shop/{name}.git"),
            "clone_url": format!("https://github.example/shop/{name}.git"), "archived": false})
    };
    let repositories: Vec<Value> = names.iter().map(repository).collect();
    (200, Vec::new(), Value::Array(repositories).to_string())
}

/// Answers one request of a connection that ends with it.
fn serve(mut stream: TcpStream, second: &Mutex<Reply>, logins: &Mutex<BTreeMap<String, String>>) {
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut part) {
            Ok(read) if read > 0 => request.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
    let text = String::from_utf8(request).unwrap();
    let target = text.split(' ').nth(1).unwrap().to_owned();
    let login = text.lines().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
    logins.lock().insert(target.clone(), login.to_owned());
    let (status, headers, body) = if target.contains("/branches/") {
        (200, Vec::new(), json!({"name": "main", "commit": {"sha": "0123456789abcdef"}}).to_string())
    } else if target.contains("page=2") {
        second.lock().clone()
    } else {
        let (status, mut headers, body) = page(&["a"]);
        headers.push(("link", format!("<{target}&page=2>; rel=\"next\"")));
        (status, headers, body)
    };
    let mut answer =
        format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
    for (name, value) in headers {
        answer.extend([name, ": ", &value, "\r\n"]);
    }
    // Whoever has gone is told nothing.
    let _sent = write!(stream, "{answer}\r\n{body}");
}

fn names(sim: &Sim) -> Vec<String> {
    let list = ask(sim, Method::GET, APPLICATIONS, &Value::Null);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let mut names: Vec<String> =
        items.iter().map(|app| app["metadata"]["name"].as_str().unwrap().to_owned()).collect();
    names.sort();
    names
}

/// Applications as they are stored, without what their own controller writes.
fn specs(sim: &Sim) -> Vec<Value> {
    let list = ask(sim, Method::GET, APPLICATIONS, &Value::Null);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items
        .iter()
        .map(|app| json!([app["metadata"]["uid"], app["metadata"]["deletionTimestamp"], app["spec"]]))
        .collect()
}

fn error(sim: &Sim) -> (String, String) {
    let set = ask(sim, Method::GET, SET, &Value::Null);
    let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|found| found["type"] == "ErrorOccurred").unwrap_or_default();
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("message"))
}

async fn until(sim: &Sim, what: &str, is_so: impl Fn(&Sim) -> bool) {
    for _ in 0..1_500 {
        if is_so(sim) {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
    panic!("{what}: {:?}, {:?}", names(sim), error(sim));
}

fn refresh(sim: &Sim, round: usize) {
    let annotations = json!({"argocd.argoproj.io/application-set-refresh": round.to_string()});
    ask(sim, Method::PATCH, SET, &json!({"metadata": {"annotations": annotations}}));
}

/// INV-8, F24, ASET-11, ASET-58: a second page that fails leaves the Applications of the set as they are.
#[tokio::test(flavor = "multi_thread")]
async fn inv_8_a_second_page_that_fails_changes_no_application() {
    let (github, sim) = (Github::start(), control_plane());
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cmd-params-cm",
            "labels": {"app.kubernetes.io/part-of": "argocd"}},
        "data": {"applicationsetcontroller.enable.github.api.metrics": "true",
            "applicationsetcontroller.allowed.scm.providers": github.address}});
    ask(&sim, Method::POST, "/api/v1/namespaces/argocd/configmaps", &map);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token",
            "labels": {"argocd.argoproj.io/secret-type": "scm-creds"}},
        "stringData": {"token": "strong"}});
    ask(&sim, Method::POST, "/api/v1/namespaces/argocd/secrets", &secret);
    let mut options = options(connection(&sim), &MemoryRepositories::default());
    options.surroundings.clock = Clock::real();
    let controller = Controller::start(options).await.unwrap();
    let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
        "metadata": {"name": "all", "namespace": "argocd"}, "spec": {"goTemplate": true,
            "generators": [{"scmProvider": {"cloneProtocol": "https", "github": {"organization": "shop",
                "api": github.address, "tokenRef": {"secretName": "token", "key": "token"}}}}],
            "template": {"metadata": {"name": "{{ .repository }}"}, "spec": {"project": "default",
                "source": {"repoURL": "{{ .url }}", "path": ".", "targetRevision": "{{ .branch }}"},
                "destination": {"server": HOME, "namespace": "default"}}}}});
    ask(&sim, Method::POST, SETS, &set);
    until(&sim, "both pages are read", |sim| names(sim) == ["a", "b"] && error(sim).0 == "False").await;
    let whole = github.second.lock().clone();
    let before = specs(&sim);
    assert_eq!(before[0][2]["source"]["repoURL"], "https://github.example/shop/a.git");
    assert!(github.logins.lock().values().all(|login| login == "Bearer strong"), "ASET-59");
    let metric = "argocd_github_api_requests_total{method=\"GET\",endpoint=\"/orgs/{org}/repos\",status=\"200\",\
                  appset_namespace=\"argocd\",appset_name=\"all\"}";
    assert!(controller.metrics().contains(metric), "ASET-311");

    let limit =
        vec![("x-ratelimit-remaining", "0".to_owned()), ("x-ratelimit-reset", "4102444800".to_owned())];
    let half = whole.2.split_at(whole.2.len() / 2).0.to_owned();
    let broken: [(Reply, &str); 7] = [
        ((500, Vec::new(), "{}".to_owned()), "status 500"),
        ((502, Vec::new(), "<html>".to_owned()), "status 502"),
        ((403, limit, "{}".to_owned()), "rate limit"),
        ((429, Vec::new(), "{}".to_owned()), "rate limit"),
        ((404, Vec::new(), "{}".to_owned()), "404"),
        ((200, Vec::new(), half), "cannot be read"),
        ((302, vec![("location", "http://127.0.0.1:1/x".to_owned())], String::new()), "redirects"),
    ];
    let mut round = 0;
    for (reply, text) in broken {
        *github.second.lock() = reply;
        round += 1;
        refresh(&sim, round);
        until(&sim, text, |sim| error(sim).0 == "True").await;
        let (_, message) = error(&sim);
        assert!(message.contains(text) && !message.contains("strong"), "{message}");
        assert_eq!(specs(&sim), before, "{text}");
        *github.second.lock() = whole.clone();
        round += 1;
        refresh(&sim, round);
        until(&sim, "it is over", |sim| error(sim).0 == "False").await;
        assert_eq!(specs(&sim), before, "{text}");
    }

    // A whole answer is believed.
    *github.second.lock() = page(&["c"]);
    refresh(&sim, round + 1);
    until(&sim, "what is gone goes", |sim| names(sim) == ["a", "c"]).await;
    controller.abandon();
}

/// A Secret of the control plane's namespace with a token, and perhaps a project.
fn token(name: &str, kind: &str, project: &str) -> Value {
    let mut secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": {}},
        "stringData": {"token": format!("token-of-{name}"), "name": name, "server": "https://x.example",
            "url": "https://git.example", "type": "git"}});
    if !kind.is_empty() {
        secret["metadata"]["labels"]["argocd.argoproj.io/secret-type"] = json!(kind);
    }
    if !project.is_empty() {
        secret["stringData"]["project"] = json!(project);
    }
    secret
}

/// SEC, ASET-59, ASET-275: which token reaches the address that a set names.
#[tokio::test(flavor = "multi_thread")]
async fn sec_tokens_reach_only_their_owners_addresses() {
    let (github, sim) = (Github::start(), control_plane());
    let project = |name: &str| {
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": name,
            "namespace": "argocd"}, "spec": {"sourceRepos": ["*"],
            "destinations": [{"server": "*", "namespace": "*"}]}})
    };
    for name in ["red", "blue"] {
        ask(&sim, Method::POST, "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects", &project(name));
    }
    let own = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "argocd-secret",
        "labels": {"app.kubernetes.io/part-of": "argocd", "argocd.argoproj.io/secret-type": "scm-creds"}},
        "stringData": {"token": "signing-key", "server.secretkey": "signing-key"}});
    let mut secrets = vec![own];
    for (name, kind, project) in [
        ("plain", "", ""),
        ("cluster", "cluster", ""),
        ("repository", "repository", "red"),
        ("template", "repo-creds", ""),
        ("shared", "scm-creds", ""),
        ("of-red", "scm-creds", "red"),
        ("of-blue", "scm-creds", "blue"),
    ] {
        secrets.push(token(name, kind, project));
    }
    for secret in &secrets {
        ask(&sim, Method::POST, "/api/v1/namespaces/argocd/secrets", secret);
    }
    let mut options = options(connection(&sim), &MemoryRepositories::default());
    options.surroundings.clock = Clock::real();
    let controller = Controller::start(options).await.unwrap();
    let names =
        ["argocd-secret", "plain", "cluster", "repository", "template", "shared", "of-red", "of-blue"];
    for project in ["", "red"] {
        for name in names {
            github.logins.lock().clear();
            let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
                "metadata": {"name": "all", "namespace": "argocd"}, "spec": {"goTemplate": true,
                    "project": project, "generators": [{"scmProvider": {"cloneProtocol": "https",
                        "github": {"organization": "shop", "api": github.address,
                            "tokenRef": {"secretName": name, "key": "token"}}}}],
                    "template": {"metadata": {"name": "{{ .repository }}"}, "spec": {"project": "red",
                        "source": {"repoURL": "{{ .url }}", "path": ".", "targetRevision": "{{ .branch }}"},
                        "destination": {"server": HOME, "namespace": "default"}}}}});
            ask(&sim, Method::POST, SETS, &set);
            until(&sim, name, |sim| !error(sim).0.is_empty()).await;
            let (status, message) = error(&sim);
            let is_own = (project, name) == ("red", "of-red");
            assert_eq!(status == "False", is_own, "{project:?} {name}: {message}");
            let logins: Vec<String> = github.logins.lock().values().cloned().collect();
            assert_eq!(logins.iter().all(String::is_empty), !is_own, "{project:?} {name}: {logins:?}");
            ask(&sim, Method::DELETE, SET, &Value::Null);
            until(&sim, "the set is gone", |sim| {
                ask(sim, Method::GET, SET, &Value::Null).pointer("/metadata/uid").is_none()
            })
            .await;
        }
    }
    controller.abandon();
}
