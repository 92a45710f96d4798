//! An installation for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_control::{Controller, ControllerOptions, Sizes};
use tiphys_lifecycle::webhook::Push;
use tiphys_sim::Sim;
use tiphys_source::MemoryRepositories;

use crate::support::{ask, connection, control_plane, options};

pub(crate) const URL: &str = "https://git.example/shop.git";
const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
const PROJECTS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/appprojects";

pub(crate) struct World {
    pub(crate) servers: MemoryRepositories,
    sim: Sim,
    controller: Controller,
}

impl World {
    /// A controller that runs; needs a runtime whose time is paused.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// With the application `shop`, synced to its first commit.
    pub(crate) async fn settled() -> Self {
        let world = Self::start().await;
        world.commit("one");
        world.create();
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.value(), "one");
        world
    }

    /// A controller with something else about it.
    pub(crate) async fn start_with(change: impl FnOnce(&mut ControllerOptions)) -> Self {
        let sim = control_plane();
        let connection = connection(&sim);
        Self::start_on(sim, connection, change).await
    }

    /// The same, with a way of its own to the API server.
    pub(crate) async fn start_on(
        sim: Sim,
        connection: Connection,
        change: impl FnOnce(&mut ControllerOptions),
    ) -> Self {
        let servers = MemoryRepositories::default();
        let mut options = options(connection, &servers);
        change(&mut options);
        let controller = Controller::start(options).await.unwrap();
        Self { servers, sim, controller }
    }

    /// Ends the controller, changes what is stored, and starts another one with something about it.
    pub(crate) async fn restart(
        self,
        while_down: impl FnOnce(&Sim),
        change: impl FnOnce(&mut ControllerOptions),
    ) -> Self {
        let Self { servers, sim, controller } = self;
        controller.abandon();
        while_down(&sim);
        let mut options = options(connection(&sim), &servers);
        change(&mut options);
        let controller = Controller::start(options).await.unwrap();
        Self { servers, sim, controller }
    }

    /// Commits one `ConfigMap` that holds a value; returns the commit.
    pub(crate) fn commit(&self, value: &str) -> String {
        self.commit_to(URL, value)
    }

    /// The same, to any repository.
    pub(crate) fn commit_to(&self, url: &str, value: &str) -> String {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
            "data": {"value": value}});
        let files = BTreeMap::from([("shop/shop.yaml".to_owned(), Bytes::from(object.to_string()))]);
        self.servers.commit(url, "main", files, 0).unwrap()
    }

    /// Commits a Job with this metadata beside the `ConfigMap`.
    pub(crate) fn commit_with_job(&self, metadata: &Value, value: &str) {
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata,
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c:1"}]}}}});
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
            "data": {"value": value}});
        let files = BTreeMap::from([
            ("shop/job.yaml".to_owned(), Bytes::from(job.to_string())),
            ("shop/shop.yaml".to_owned(), Bytes::from(object.to_string())),
        ]);
        self.servers.commit(URL, "main", files, 0).unwrap();
    }

    /// Makes the application `shop`, which is synced by itself.
    pub(crate) fn create(&self) {
        self.create_with(&json!({}));
    }

    /// Makes the application `shop` with something else in it, or changes it where it is.
    pub(crate) fn create_with(&self, change: &Value) {
        let target = format!("{APPLICATIONS}/shop");
        if self.get(&target).pointer("/metadata/uid").is_some() {
            self.ask(Method::PATCH, &target, change);
            return;
        }
        let mut app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"project": "default",
                "source": {"repoURL": URL, "path": "shop", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"},
                "syncPolicy": {"automated": {"prune": true, "selfHeal": true}}}});
        merge(&mut app, change);
        self.ask(Method::POST, APPLICATIONS, &app);
    }

    /// Makes a project.
    pub(crate) fn project(&self, name: &str, spec: &Value) {
        let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
            "metadata": {"name": name, "namespace": "argocd",
                "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
            "spec": spec});
        self.ask(Method::POST, PROJECTS, &project);
    }

    /// Deletes a project.
    pub(crate) fn delete_project(&self, name: &str) {
        self.ask(Method::DELETE, &format!("{PROJECTS}/{name}"), &Value::Null);
    }

    /// Whether a project is there, deleted or not.
    pub(crate) fn has_project(&self, name: &str) -> bool {
        self.get(&format!("{PROJECTS}/{name}")).pointer("/metadata/uid").is_some()
    }

    /// Puts keys into `argocd-cm`.
    pub(crate) fn settings(&self, data: &Value) {
        let target = "/api/v1/namespaces/argocd/configmaps";
        let name = "argocd-cm";
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": name,
            "namespace": "argocd", "labels": {"app.kubernetes.io/part-of": "argocd"}}});
        if self.get(&format!("{target}/{name}")).pointer("/metadata/uid").is_some() {
            self.ask(Method::PATCH, &format!("{target}/{name}"), &json!({"data": data}));
        } else {
            self.ask(Method::POST, target, &object);
        }
    }

    /// Deletes the application `shop`.
    pub(crate) fn delete(&self) {
        self.ask(Method::DELETE, &format!("{APPLICATIONS}/shop"), &Value::Null);
    }

    /// Asks for an operation.
    pub(crate) fn operate(&self, operation: &Value) {
        self.ask(Method::PATCH, &format!("{APPLICATIONS}/shop"), &json!({"operation": operation}));
    }

    /// Patches the application.
    pub(crate) fn change(&self, patch: &Value) {
        self.ask(Method::PATCH, &format!("{APPLICATIONS}/shop"), patch);
    }

    /// The application as it is stored.
    pub(crate) fn app(&self) -> Value {
        self.get(&format!("{APPLICATIONS}/shop"))
    }

    /// Waits for words among the conditions, or for none to be there, and for the value that is live.
    pub(crate) async fn until(&self, is_there: impl Fn(&str, &str) -> bool) {
        let look = || {
            let conditions = self.app().pointer("/status/conditions").cloned().unwrap_or_default();
            (conditions.to_string(), self.value())
        };
        for _ in 0..600 {
            let (conditions, value) = look();
            if is_there(&conditions, &value) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let (conditions, value) = look();
        assert!(is_there(&conditions, &value), "{conditions} {value}");
    }

    /// Asks for a sync to a revision; an empty one means the newest.
    pub(crate) fn sync(&self, revision: &str) {
        self.change(&json!({"operation": {"sync": {"revision": revision}}}));
    }

    /// Revision of the last operation.
    pub(crate) fn synced(&self) -> String {
        let app = self.app();
        let revision = app.pointer("/status/operationState/syncResult/revision");
        revision.and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// The value in the cluster.
    pub(crate) fn value(&self) -> String {
        let object = self.get("/api/v1/namespaces/default/configmaps/shop");
        object.pointer("/data/value").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Announces a push to the main branch that changed these files; returns how many applications it concerns.
    pub(crate) fn push(&self, files: &[&str]) -> usize {
        self.controller.pushed(&Push {
            web_urls: vec![URL.trim_end_matches(".git").to_owned()],
            revision: "main".to_owned(),
            touched_head: true,
            files: files.iter().map(|file| (*file).to_owned()).collect(),
            ..Push::default()
        })
    }

    /// The controller itself.
    pub(crate) fn controller(&self) -> &Controller {
        &self.controller
    }

    /// What a scrape shows.
    pub(crate) fn metrics(&self) -> String {
        self.controller.metrics()
    }

    /// How often an application was compared so far.
    pub(crate) fn comparisons(&self) -> u64 {
        let metrics = self.controller.metrics();
        let counts = metrics.lines().filter(|line| line.starts_with("argocd_app_reconcile_count"));
        counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// How much the controller holds.
    pub(crate) fn sizes(&self) -> Sizes {
        self.controller.sizes()
    }

    /// How many renderings were made so far.
    pub(crate) fn renderings(&self) -> u64 {
        let metrics = self.controller.metrics();
        let count = metrics.lines().find(|line| line.starts_with("tiphys_work_total{work=\"render\"}"));
        count.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Changes an object, as somebody with `kubectl` does.
    pub(crate) fn change_object(&self, target: &str, patch: &Value) {
        self.ask(Method::PATCH, target, patch);
    }

    pub(crate) fn get(&self, target: &str) -> Value {
        self.ask(Method::GET, target, &Value::Null)
    }

    pub(crate) fn ask(&self, method: Method, target: &str, body: &Value) -> Value {
        ask(&self.sim, method, target, body)
    }
}

/// Puts the members of one object into another, at every depth.
fn merge(into: &mut Value, change: &Value) {
    match (into, change) {
        (Value::Object(into), Value::Object(change)) => {
            for (name, value) in change {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, change) => *into = change.clone(),
    }
}
