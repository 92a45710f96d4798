//! What tests of the server stand on.

use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_installation::InstallationData;
use tiphys_object::Object;
use tiphys_source::Clock;

use crate::world::{Seen, World};

/// The key that tokens of tests are signed with.
pub(crate) const KEY: &str = "signing-key";
/// `hunter2hunter2` with the least cost, so that tests do not take long.
pub(crate) fn cheap_hash() -> String {
    bcrypt::hash_with_salt("hunter2hunter2", 4, [3; 16]).unwrap().to_string()
}

/// The time of tests.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

/// A clock of tests that follows the timers.
pub(crate) fn clock() -> Clock {
    Clock::of_timers(now())
}

/// An installation in data.
#[derive(Clone, Default)]
pub(crate) struct Data(InstallationData);

impl Data {
    pub(crate) fn new() -> Self {
        let data = InstallationData { namespace: "argocd".to_owned(), ..InstallationData::default() };
        Self(data).secret("argocd-secret", &[("server.secretkey", KEY), ("admin.password", &cheap_hash())])
    }

    fn object(kind: &str, name: &str, data: &Map<String, Value>) -> Arc<Object> {
        let labels = json!({"app.kubernetes.io/part-of": "argocd"});
        let value = json!({"apiVersion": "v1", "kind": kind, "data": data,
            "metadata": {"name": name, "namespace": "argocd", "labels": labels, "uid": "u", "resourceVersion": "1"}});
        Arc::new(Object::from_value(&value).unwrap())
    }

    pub(crate) fn config_map(mut self, name: &str, data: &[(&str, &str)]) -> Self {
        let data: Map<String, Value> =
            data.iter().map(|(key, value)| ((*key).to_owned(), Value::from(*value))).collect();
        self.0.config_maps.insert(name.to_owned(), Self::object("ConfigMap", name, &data));
        self
    }

    pub(crate) fn secret(mut self, name: &str, data: &[(&str, &str)]) -> Self {
        let mut all: Map<String, Value> = match self.0.secrets.get(name) {
            Some(stored) => stored.to_value().unwrap()["data"].as_object().unwrap().clone(),
            None => Map::new(),
        };
        all.extend(data.iter().map(|(key, value)| ((*key).to_owned(), Value::from(STANDARD.encode(value)))));
        self.0.secrets.insert(name.to_owned(), Self::object("Secret", name, &all));
        self
    }

    pub(crate) fn project(mut self, name: &str, spec: &Value, status: &Value) -> Self {
        let value = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "spec": spec, "status": status,
            "metadata": {"name": name, "namespace": "argocd", "uid": "u", "resourceVersion": "1"}});
        self.0.projects.insert(name.to_owned(), Arc::new(Object::from_value(&value).unwrap()));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.0.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn installation(&self) -> &InstallationData {
        &self.0
    }

    pub(crate) fn world(&self) -> World {
        World::build(&Seen { data: self.0.clone(), ..Seen::default() }, None)
    }

    pub(crate) fn shared(&self) -> Arc<ArcSwap<World>> {
        Arc::new(ArcSwap::from_pointee(self.world()))
    }
}
