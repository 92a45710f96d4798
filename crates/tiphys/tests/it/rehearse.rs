//! `tiphys rehearse` from what an installation holds (CLI-1060): it is read, and never written.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "helpers of tests count as no tests")]

use std::process::{Command, Stdio};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tiphys_sim::{Options, Server, Sim};

/// An installation without a controller, and a folder.
struct Installation {
    folder: tempfile::TempDir,
    sim: Sim,
    runtime: tokio::runtime::Runtime,
    _server: Server,
}

const APPS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";

impl Installation {
    fn start() -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let sim = runtime.block_on(async { Sim::new(Options::default()).unwrap() });
        let server = runtime.block_on(Server::start(sim.clone(), "127.0.0.1:0".parse().unwrap())).unwrap();
        std::fs::write(folder.path().join("kubeconfig"), server.kubeconfig()).unwrap();
        let started = Self { folder, sim, runtime, _server: server };
        for definition in tiphys_api::crd::manifests() {
            started.put("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
        }
        for namespace in ["argocd", "shop"] {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            started.put("/api/v1/namespaces", &object);
        }
        started.put(
            "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects",
            &json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"},
            "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}]}}),
        );
        started
    }

    fn ask(&self, method: Method, target: &str, body: &Value) -> (u16, Value) {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request =
            Request::builder().method(method).uri(target).header("content-type", "application/json");
        let response = self.sim.handle(request.body(bytes).unwrap());
        let status = response.status().as_u16();
        let body = self.runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    fn put(&self, target: &str, object: &Value) {
        let (status, answer) = self.ask(Method::POST, target, object);
        assert!(status < 300, "{target}: {answer}");
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    #[expect(clippy::disallowed_methods, reason = "the program itself is what is tested")]
    fn rehearse(&self, args: &[&str]) -> (String, String, i32) {
        let output = Command::new(env!("CARGO_BIN_EXE_tiphys"))
            .arg("rehearse")
            .args(args)
            .args(["--kubeconfig", "kubeconfig", "--source", "https://git.test/shop.git=."])
            .env_clear()
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr), output.status.code().unwrap_or(-1))
    }

    /// Everything that is stored, but for what the server itself writes.
    fn stored(&self) -> Vec<Value> {
        let lists = [
            APPS,
            "/api/v1/configmaps",
            "/apis/apps/v1/deployments",
            "/api/v1/namespaces",
            "/api/v1/secrets",
        ];
        let mut all = lists.map(|list| self.ask(Method::GET, list, &Value::Null).1["items"].clone());
        // The control plane makes its own in each namespace, some of them later.
        let is_own = |item: &Value| item["metadata"]["name"] == "kube-root-ca.crt";
        all.iter_mut().filter_map(Value::as_array_mut).for_each(|items| items.retain(|item| !is_own(item)));
        // The workload goes its own way meanwhile.
        for item in all.iter_mut().filter_map(Value::as_array_mut).flatten() {
            if item["spec"].get("template").is_some() {
                item["status"] = Value::Null;
                item["metadata"] = item["metadata"]["uid"].clone();
            }
        }
        all.into()
    }
}

fn marked(mut object: Value, kind: &str) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    let group = if kind == "Deployment" { "apps" } else { "" };
    let mut declared = object.clone();
    object["metadata"]["annotations"] =
        json!({"argocd.argoproj.io/tracking-id": format!("shop:{group}/{kind}:shop/{name}")});
    declared["metadata"]["annotations"] = object["metadata"]["annotations"].clone();
    object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
        declared.to_string().into();
    object
}

fn deployment(image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api"}, "spec": {
        "selector": {"matchLabels": {"app": "api"}}, "template": {"metadata": {"labels": {"app": "api"}},
            "spec": {"containers": [{"name": "main", "image": image}]}}}})
}

fn config(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": value}})
}

#[test]
fn cli_1060_a_sync_is_rehearsed_from_what_is_live_and_nothing_is_written() {
    let installation = Installation::start();
    installation
        .put("/apis/apps/v1/namespaces/shop/deployments", &marked(deployment("shop:1"), "Deployment"));
    for (name, value) in [("same", "1"), ("old", "1")] {
        installation.put("/api/v1/namespaces/shop/configmaps", &marked(config(name, value), "ConfigMap"));
    }
    let resource = |group: &str, kind: &str, name: &str| json!({"group": group, "version": "v1", "kind": kind, "namespace": "shop", "name": name, "status": "Synced"});
    let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": "shop",
        "namespace": "argocd"}, "spec": {"project": "default", "source": {"repoURL": "https://git.test/shop.git",
            "path": ".", "directory": {"include": "deploy-*"}},
            "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
            "syncPolicy": {"automated": {"prune": true}}},
        "status": {"resources": [resource("apps", "Deployment", "api"), resource("", "ConfigMap", "same"),
            resource("", "ConfigMap", "old"), resource("", "ConfigMap", "gone")]}});
    installation.put(APPS, &app);
    installation
        .file("deploy-all.yaml", &format!("{}\n---\n{}\n", deployment("shop:2"), config("same", "1")));
    let before = installation.stored();

    let (stdout, stderr, code) = installation.rehearse(&["app/shop", "--from", "live", "--prune"]);
    assert_eq!((stderr.as_str(), code), ("", 0), "{stdout}");
    assert!(stdout.contains("apps/Deployment api") && stdout.contains("update → waits Healthy"), "{stdout}");
    assert!(stdout.contains("v1/ConfigMap old") && stdout.contains("delete"), "{stdout}");
    // A sync applies all that is declared, also what is as it should be.
    assert!(stdout.contains("· 2 applied · 1 pruned"), "{stdout}");
    assert_eq!(installation.stored(), before, "nothing is written");

    // An empty cluster, with the application of the installation.
    let (stdout, _, code) = installation.rehearse(&["app/shop"]);
    assert!(code == 0 && stdout.contains("v1/ConfigMap same") && stdout.contains("2 applied"), "{stdout}");

    // A file of the same name tries out what it says.
    let mut tried = app;
    tried["spec"]["source"]["directory"]["include"] = json!("deploy-nothing*");
    installation.file("tried.yaml", &tried.to_string());
    let (stdout, stderr, _) =
        installation.rehearse(&["tried.yaml", "--from", "live", "--prune", "--sync-option", "Prune=true"]);
    assert!(stdout.contains("ConfigMap same") || stderr.contains("no objects"), "{stdout}{stderr}");

    let (_, stderr, code) = installation.rehearse(&["app/none", "--from", "live"]);
    assert!(code == 20 && stderr.contains("applications.argoproj.io \"none\" not found"), "{stderr}");
    assert_eq!(installation.stored(), before);
}
