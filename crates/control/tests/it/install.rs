//! An installation whose controller is started later, or twice.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};
use tiphys_control::Controller;
use tiphys_sim::Sim;
use tiphys_source::MemoryRepositories;

use crate::support::{ask, connection, control_plane, options};

const URL: &str = "https://git.example/shop.git";
const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";

/// An installation whose controller runs.
pub(crate) struct World {
    prepared: Prepared,
    controller: Controller,
}

impl Deref for World {
    type Target = Prepared;

    fn deref(&self) -> &Prepared {
        &self.prepared
    }
}

impl World {
    /// Everything but the controller; needs a runtime whose time is paused.
    pub(crate) fn prepare() -> Prepared {
        let (sim, servers) = (control_plane(), MemoryRepositories::default());
        let settings = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "argocd-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}}});
        ask(&sim, Method::POST, "/api/v1/namespaces/argocd/configmaps", &settings);
        Prepared { servers, sim }
    }

    pub(crate) fn metrics(&self) -> String {
        self.controller.metrics()
    }
}

/// An installation.
pub(crate) struct Prepared {
    pub(crate) servers: MemoryRepositories,
    pub(crate) sim: Sim,
}

impl Prepared {
    /// Starts the controller.
    pub(crate) async fn run(self) -> World {
        let options = options(connection(&self.sim), &self.servers);
        World { controller: Controller::start(options).await.unwrap(), prepared: self }
    }

    /// Sets a key of `argocd-cm`.
    pub(crate) fn set(&self, key: &str, value: &str) {
        let change = json!({"data": {key: value}});
        self.ask(Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-cm", &change);
    }

    /// Removes the label that makes `argocd-cm` count.
    pub(crate) fn unlabel_settings(&self) {
        let change = json!({"metadata": {"labels": null}});
        self.ask(Method::PATCH, "/api/v1/namespaces/argocd/configmaps/argocd-cm", &change);
    }

    /// Deletes `argocd-cm`.
    pub(crate) fn delete_settings(&self) {
        self.ask(Method::DELETE, "/api/v1/namespaces/argocd/configmaps/argocd-cm", &Value::Null);
    }

    /// What a setting says; empty when it is not there.
    pub(crate) fn setting(&self, key: &str) -> String {
        let settings = self.get("/api/v1/namespaces/argocd/configmaps/argocd-cm");
        settings["data"][key].as_str().unwrap_or_default().to_owned()
    }

    /// An object that carries the mark of the application `shop`, and that no source declares.
    pub(crate) fn leftover(&self, name: &str) {
        let id = format!("shop:/ConfigMap:default/{name}");
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "annotations": {"argocd.argoproj.io/tracking-id": id}}});
        self.ask(Method::POST, "/api/v1/namespaces/default/configmaps", &object);
    }

    /// Commits one `ConfigMap` that holds a value; returns the commit.
    pub(crate) fn commit(&self, value: &str) -> String {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
            "data": {"value": value}});
        let files = BTreeMap::from([("shop/shop.yaml".to_owned(), Bytes::from(object.to_string()))]);
        self.servers.commit(URL, "main", files, 0).unwrap()
    }

    /// Makes the application `shop`, which is synced by itself.
    pub(crate) fn create(&self) {
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "shop", "namespace": "argocd"},
            "spec": {"project": "default",
                "source": {"repoURL": URL, "path": "shop", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "default"},
                "syncPolicy": {"automated": {"prune": true, "selfHeal": true}}}});
        self.ask(Method::POST, APPLICATIONS, &app);
    }

    /// Asks for a sync to a revision; an empty one means the newest.
    pub(crate) fn sync(&self, revision: &str) {
        let patch = json!({"operation": {"sync": {"revision": revision}}});
        self.ask(Method::PATCH, &format!("{APPLICATIONS}/shop"), &patch);
    }

    /// The application `shop`.
    pub(crate) fn app(&self) -> Value {
        self.get(&format!("{APPLICATIONS}/shop"))
    }

    /// A `ConfigMap` of the destination.
    pub(crate) fn object(&self, name: &str) -> Value {
        self.get(&format!("/api/v1/namespaces/default/configmaps/{name}"))
    }

    /// The value in the cluster.
    pub(crate) fn value(&self) -> String {
        let object = self.object("shop");
        object.pointer("/data/value").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) fn get(&self, target: &str) -> Value {
        self.ask(Method::GET, target, &Value::Null)
    }

    fn ask(&self, method: Method, target: &str, body: &Value) -> Value {
        ask(&self.sim, method, target, body)
    }
}
