//! An installation with sets: who writes what is seen, and its controller can die at any write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_cluster::Connection;
use tiphys_control::services::{PluginCall, Plugins, Services};
use tiphys_control::{Controller, ControllerOptions};
use tiphys_sim::Sim;
use tiphys_source::{Clock, MemoryRepositories};

use crate::support::{HOME, ask, control_plane, options};

pub(super) const URL: &str = "https://git.example/tiers.git";
pub(super) const APPLICATIONS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications";
pub(super) const SETS: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets";
pub(super) const SET: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applicationsets/all";
/// Time between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(50);
/// Long enough for anything that does not wait for a period.
pub(super) const MOMENT: Duration = Duration::from_secs(20);

/// What the controllers of a test wrote, and when they are to die.
#[derive(Default)]
pub(super) struct Wire {
    /// Writes to Applications and sets: method, target, body.
    pub(super) writes: Mutex<Vec<(Method, String, Value)>>,
    /// What must hold after each write, and what did not.
    #[expect(clippy::type_complexity, reason = "a check of one test")]
    pub(super) check: Mutex<Option<Arc<dyn Fn(&Sim) -> Result<(), String> + Send + Sync>>>,
    pub(super) broken: Mutex<Vec<String>>,
    /// The connection of the present controller; those of former ones are cut.
    pub(super) generation: AtomicUsize,
    /// The controller dies with this write, counted from 1; 0 for none.
    pub(super) dies_at: AtomicUsize,
    pub(super) is_dead: AtomicBool,
}

/// An installation that outlives its controllers.
pub(super) struct Installation {
    pub(super) sim: Sim,
    pub(super) servers: MemoryRepositories,
    pub(super) wire: Arc<Wire>,
    pub(super) services: Services,
    pub(super) controller: Option<Controller>,
    pub(super) files: BTreeMap<String, Bytes>,
    change: fn(&mut ControllerOptions),
    /// One clock for all controllers: it goes on while they die.
    clock: Option<Clock>,
}

impl Installation {
    pub(super) async fn start(params: &[(&str, &str)]) -> Self {
        Self::start_with(params, Services::of_network(), |_| {}).await
    }

    pub(super) async fn start_with(
        params: &[(&str, &str)],
        services: Services,
        change: fn(&mut ControllerOptions),
    ) -> Self {
        let sim = control_plane();
        let data: BTreeMap<String, &str> =
            params.iter().map(|(key, value)| (format!("applicationsetcontroller.{key}"), *value)).collect();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata":
            {"name": "argocd-cmd-params-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}}});
        ask(&sim, Method::POST, "/api/v1/namespaces/argocd/configmaps", &map);
        let mut installation = Self {
            sim,
            servers: MemoryRepositories::default(),
            wire: Arc::default(),
            services,
            controller: None,
            files: BTreeMap::new(),
            change,
            clock: None,
        };
        installation.begin().await;
        installation
    }

    /// Starts a controller.
    pub(super) async fn begin(&mut self) {
        let (sim, wire) = (self.sim.clone(), Arc::clone(&self.wire));
        let own = wire.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let connection = Connection::over(HOME, move |request: Request<Bytes>| {
            let (sim, wire) = (sim.clone(), Arc::clone(&wire));
            async move {
                let target = request.uri().path().to_owned();
                let is_write = request.method() != Method::GET;
                if own != wire.generation.load(Ordering::Relaxed) || wire.is_dead.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                if is_write && (target.starts_with(APPLICATIONS) || target.starts_with(SETS)) {
                    let body = serde_json::from_slice(request.body()).unwrap_or_default();
                    let mut writes = wire.writes.lock();
                    writes.push((request.method().clone(), target, body));
                    // What is written is stored; nobody learns of it.
                    if writes.len() == wire.dies_at.load(Ordering::Relaxed) {
                        wire.is_dead.store(true, Ordering::Relaxed);
                    }
                }
                let response = sim.call(request).await;
                let check = wire.check.lock().clone().filter(|_| is_write);
                if let Some(Err(broken)) = check.map(|check| check(&sim)) {
                    wire.broken.lock().push(broken);
                }
                if wire.is_dead.load(Ordering::Relaxed) {
                    std::future::pending::<()>().await;
                }
                Ok(response)
            }
        });
        let mut options = options(connection, &self.servers);
        options.surroundings.services = self.services.clone();
        let clock = self.clock.get_or_insert(options.surroundings.clock);
        options.surroundings.clock = clock.clone();
        (self.change)(&mut options);
        self.controller = Some(Controller::start(options).await.unwrap());
    }

    /// Ends the controller as a crash does, and starts another one.
    pub(super) async fn restart(&mut self) {
        self.wire.generation.fetch_add(1, Ordering::Relaxed);
        if let Some(controller) = self.controller.take() {
            controller.abandon();
        }
        self.wire.is_dead.store(false, Ordering::Relaxed);
        self.begin().await;
    }

    /// Commits a value for these applications.
    pub(super) fn commit(&mut self, names: &[&str], value: &str) {
        for name in names {
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"value": value}});
            self.files.insert(format!("apps/{name}/object.yaml"), Bytes::from(object.to_string()));
        }
        self.servers.commit(URL, "main", self.files.clone(), 0).unwrap();
    }

    pub(super) fn create(&self, spec: &Value) {
        let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": "all", "namespace": "argocd"}, "spec": spec});
        ask(&self.sim, Method::POST, SETS, &set);
    }

    pub(super) fn change(&self, patch: &Value) {
        ask(&self.sim, Method::PATCH, SET, patch);
    }

    pub(super) fn delete(&self) {
        ask(&self.sim, Method::DELETE, SET, &Value::Null);
    }

    pub(super) fn set(&self) -> Value {
        ask(&self.sim, Method::GET, SET, &Value::Null)
    }

    pub(super) fn has_set(&self) -> bool {
        self.set()["metadata"]["uid"].is_string()
    }

    pub(super) fn condition(&self, kind: &str) -> (String, String, String) {
        let set = self.set();
        let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default();
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        (text("status"), text("reason"), text("message"))
    }

    pub(super) fn apps(&self) -> BTreeMap<String, Value> {
        let list = ask(&self.sim, Method::GET, APPLICATIONS, &Value::Null);
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().map(|app| (app["metadata"]["name"].as_str().unwrap().to_owned(), app)).collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.apps().into_keys().collect()
    }

    /// The value of an application in the cluster.
    pub(super) fn value(&self, name: &str) -> String {
        value(&self.sim, name)
    }

    /// Events about the set: reason and message.
    pub(super) fn events(&self) -> Vec<(String, String)> {
        let list = ask(&self.sim, Method::GET, "/api/v1/namespaces/argocd/events", &Value::Null);
        let of_set = |event: &&Value| event["involvedObject"]["kind"] == "ApplicationSet";
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().filter(of_set).map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }

    pub(super) fn writes(&self) -> usize {
        self.wire.writes.lock().len()
    }

    pub(super) async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..20_000 {
            if is_so(self) {
                return;
            }
            tokio::time::sleep(LOOK).await;
        }
        panic!("{what}: {:?}; {}", self.names(), self.set()["status"]);
    }
}

pub(super) fn value(sim: &Sim, name: &str) -> String {
    let target = format!("/api/v1/namespaces/default/configmaps/{name}");
    let object = ask(sim, Method::GET, &target, &Value::Null);
    object["data"]["value"].as_str().unwrap_or_default().to_owned()
}

pub(super) fn elements(names: &[(&str, &str)]) -> Value {
    let elements: Vec<Value> = names.iter().map(|(name, tier)| json!({"name": name, "tier": tier})).collect();
    json!([{"list": {"elements": elements}}])
}

pub(super) fn spec(generators: &Value) -> Value {
    json!({"goTemplate": true, "generators": generators,
        "template": {"metadata": {"name": "{{ .name }}", "labels": {"tier": "{{ .tier }}"},
                "finalizers": ["resources-finalizer.argocd.argoproj.io"]},
            "spec": {"project": "default",
                "source": {"repoURL": URL, "path": "apps/{{ .name }}", "targetRevision": "main"},
                "destination": {"server": HOME, "namespace": "default"},
                "syncPolicy": {"automated": {"prune": true}}}}})
}

pub(super) const TIERS: [(&str, &str); 3] = [("db", "db"), ("config", "config"), ("frontend", "frontend")];

pub(super) fn steps(order: &[&str]) -> Value {
    let step =
        |tier: &&str| json!({"matchExpressions": [{"key": "tier", "operator": "In", "values": [tier]}]});
    Value::Array(order.iter().map(step).collect())
}

pub(super) fn rolling(order: &[&str]) -> Value {
    json!({"type": "RollingSync", "rollingSync": {"steps": steps(order)}})
}

pub(super) fn push(world: &Installation, url: &str) {
    let push = tiphys_lifecycle::webhook::Push {
        web_urls: vec![url.to_owned()],
        revision: "main".to_owned(),
        touched_head: true,
        ..Default::default()
    };
    let event = tiphys_lifecycle::webhook::SetEvent::Pushes(vec![push]);
    assert!(world.controller.as_ref().unwrap().told_sets(event));
}

/// A plugin that says what the test says.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) answer: Mutex<Option<(u16, String)>>,
    pub(super) calls: Mutex<Vec<PluginCall>>,
}

impl Plugins for Said {
    fn post(&self, call: PluginCall) -> BoxFuture<'_, Result<(u16, Bytes), String>> {
        self.calls.lock().push(call);
        let answer = self.answer.lock().clone();
        Box::pin(async move {
            match answer {
                Some((status, body)) => Ok((status, Bytes::from(body))),
                None => Err("it cannot be reached".to_owned()),
            }
        })
    }
}
