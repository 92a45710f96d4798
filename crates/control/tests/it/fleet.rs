//! Two clusters, of which one can be frozen: it takes requests and never answers.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use http_body_util::BodyDataStream;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_control::Controller;
use tiphys_lifecycle::webhook::Push;
use tiphys_sim::Sim;
use tiphys_source::MemoryRepositories;
use tokio::sync::watch;

use crate::support::{HOME, api_server, ask, control_plane, options};

const URL: &str = "https://git.example/fleet.git";
const REMOTE: &str = "https://remote.example";
const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
/// Workers of the controller.
pub(crate) const WORKERS: usize = 8;
/// Time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// A controller with the application `near` at home and others in a cluster far away.
pub(crate) struct Fleet {
    pub(crate) home: Sim,
    pub(crate) remote: Sim,
    pub(crate) controller: Controller,
    servers: MemoryRepositories,
    frozen: watch::Sender<bool>,
    files: BTreeMap<String, Bytes>,
}

impl Fleet {
    /// Starts with so many applications far away, all of them synced; needs a runtime whose time is paused.
    pub(crate) async fn start(remote_apps: usize) -> Self {
        let (home, remote) = (control_plane(), api_server());
        ask(&home, Method::POST, "/api/v1/namespaces/argocd/secrets", &cluster_secret());
        let frozen = watch::Sender::new(false);
        let servers = MemoryRepositories::default();
        let mut options = options(connection(HOME, &home, watch::Sender::new(false).subscribe()), &servers);
        options.workers = WORKERS;
        let far = connection(REMOTE, &remote, frozen.subscribe());
        options.surroundings.clusters.insert(REMOTE.to_owned(), far);
        let controller = Controller::start(options).await.unwrap();
        let mut fleet = Self { home, remote, controller, servers, frozen, files: BTreeMap::new() };
        let names = names(remote_apps);
        fleet.commit(&names, "one");
        fleet.create("near", HOME);
        for name in names.iter().filter(|name| *name != "near") {
            fleet.create(name, REMOTE);
        }
        for name in &names {
            fleet.until("everything is synced", |fleet| fleet.is_synced(name)).await;
        }
        fleet
    }

    /// Commits a value for these applications; returns the commit.
    pub(crate) fn commit(&mut self, names: &[String], value: &str) -> String {
        for name in names {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"value": value}});
            self.files.insert(format!("{name}/object.yaml"), Bytes::from(object.to_string()));
        }
        self.servers.commit(URL, "main", self.files.clone(), 0).unwrap()
    }

    fn create(&self, name: &str, server: &str) {
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "namespace": "argocd",
                "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
            "spec": {"project": "default",
                "source": {"repoURL": URL, "path": name, "targetRevision": "main"},
                "destination": {"server": server, "namespace": "default"},
                "syncPolicy": {"automated": {"prune": true, "selfHeal": true}}}});
        ask(&self.home, Method::POST, APPLICATIONS, &app);
    }

    /// From now on the cluster far away takes requests and answers none; or answers again.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    pub(crate) fn app(&self, name: &str) -> Value {
        ask(&self.home, Method::GET, &format!("{APPLICATIONS}/{name}"), &Value::Null)
    }

    pub(crate) fn patch_app(&self, name: &str, patch: &Value) {
        ask(&self.home, Method::PATCH, &format!("{APPLICATIONS}/{name}"), patch);
    }

    /// Asks for the deletion of an application.
    pub(crate) fn delete_app(&self, name: &str) {
        ask(&self.home, Method::DELETE, &format!("{APPLICATIONS}/{name}"), &Value::Null);
    }

    /// Asks for a sync to the newest commit, which is tried once.
    pub(crate) fn sync(&self, name: &str) {
        self.patch_app(name, &json!({"operation": {"sync": {}}}));
    }

    /// Asks for a look at the newest commit.
    pub(crate) fn refresh(&self, name: &str) {
        let asked = json!({"argocd.argoproj.io/refresh": "normal"});
        self.patch_app(name, &json!({"metadata": {"annotations": asked}}));
    }

    /// The message of an application's operation, and its phase.
    pub(crate) fn operation(&self, name: &str) -> (String, String) {
        let state = &self.app(name)["status"]["operationState"];
        let text = |member: &str| state[member].as_str().unwrap_or_default().to_owned();
        (text("phase"), text("message"))
    }

    pub(crate) fn is_synced(&self, name: &str) -> bool {
        let app = self.app(name);
        app["status"]["sync"]["status"] == "Synced" && app["operation"].is_null()
    }

    /// The revision that an application shows.
    pub(crate) fn revision(&self, name: &str) -> String {
        self.app(name)["status"]["sync"]["revision"].as_str().unwrap_or_default().to_owned()
    }

    /// How often applications of a cluster were compared so far.
    pub(crate) fn comparisons(&self, server: &str) -> u64 {
        let metrics = self.controller.metrics();
        let counts = metrics.lines().filter(|line| line.starts_with("argocd_app_reconcile_count"));
        let counts = counts.filter(|line| line.contains(server));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Announces a push to the main branch.
    pub(crate) fn push(&self) {
        self.controller.pushed(&Push {
            web_urls: vec![URL.trim_end_matches(".git").to_owned()],
            revision: "main".to_owned(),
            touched_head: true,
            ..Push::default()
        });
    }

    /// Somebody changes the object of `near`.
    pub(crate) fn drift(&self) {
        ask(&self.home, Method::PATCH, &object("near"), &json!({"data": {"value": "drift"}}));
    }

    /// The cluster far away is no longer configured.
    pub(crate) fn forget_remote(&self) {
        ask(&self.home, Method::DELETE, "/api/v1/namespaces/argocd/secrets/remote", &Value::Null);
    }

    /// Waits until something holds, on the clock that stands still while something is to be done; returns how
    /// long it took there.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Duration {
        let begun = tokio::time::Instant::now();
        while !holds(self) {
            assert!(
                begun.elapsed() < Duration::from_mins(30),
                "{what}: never; {:?}",
                self.controller.sizes()
            );
            tokio::time::sleep(LOOK).await;
        }
        begun.elapsed()
    }
}

/// The names of all applications.
pub(crate) fn names(remote_apps: usize) -> Vec<String> {
    let far = (0..remote_apps).map(|number| format!("far-{number}"));
    far.chain(["near".to_owned()]).collect()
}

/// The value of an application's object; null when there is none.
pub(crate) fn value(sim: &Sim, name: &str) -> Value {
    ask(sim, Method::GET, &object(name), &Value::Null)["data"]["value"].clone()
}

fn object(name: &str) -> String {
    format!("/api/v1/namespaces/default/configmaps/{name}")
}

fn cluster_secret() -> Value {
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "remote", "labels": {"argocd.argoproj.io/secret-type": "cluster"}},
        "stringData": {"name": "remote", "server": REMOTE, "config": "{}"}})
}

/// A way to a server that stands still while it is frozen: requests, answers and watches.
fn connection(url: &str, sim: &Sim, frozen: watch::Receiver<bool>) -> Connection {
    let sim = sim.clone();
    let answer = move |request: Request<Bytes>| {
        let (sim, frozen) = (sim.clone(), frozen.clone());
        async move {
            thawed(frozen.clone()).await;
            let (parts, body) = sim.call(request).await.into_parts();
            thawed(frozen.clone()).await;
            let pieces = BodyDataStream::new(body).then(move |data| {
                let frozen = frozen.clone();
                async move {
                    thawed(frozen).await;
                    data
                }
            });
            Ok(Response::from_parts(parts, axum::body::Body::from_stream(pieces)))
        }
    };
    Connection::over(url, answer)
}

async fn thawed(mut frozen: watch::Receiver<bool>) {
    // Without a sender nothing freezes.
    drop(frozen.wait_for(|frozen| !frozen).await);
}
