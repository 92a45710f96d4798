//! `--schemas`: manifests as an API server would read them (CLI-1030).
//!
//! The API server inside this process is asked to create each object in a dry run that takes no unknown fields. It
//! knows the built-in kinds; definitions among the manifests are given to it first. Nothing else decides here what a
//! right manifest is.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tiphys_object::{Gvk, access};
use tiphys_sim::{Options, Sim};

use crate::failure::Failure;
use crate::session;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// What came of the manifests.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// What an API server would refuse, one line each.
    pub(super) problems: Vec<String>,
    /// Kinds without a schema.
    pub(super) unknown: BTreeSet<String>,
}

/// Objects with the namespace of those that name none.
pub(super) fn check<'a>(objects: impl IntoIterator<Item = (&'a Value, &'a str)>) -> Result<Report, Failure> {
    session::execute(async {
        let sim = Sim::new(Options::default()).map_err(|error| Failure::generic(error.to_string()))?;
        let mut server = Server { sim, kinds: BTreeMap::new() };
        let objects: Vec<_> = objects.into_iter().collect();
        let is_definition = |object: &Value| {
            let gvk = Gvk::of(object);
            (gvk.group.as_str(), gvk.kind.as_str()) == ("apiextensions.k8s.io", "CustomResourceDefinition")
        };
        let mut report = Report::default();
        let (definitions, others): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|(object, _)| is_definition(object));
        for (definition, _) in definitions {
            let target = format!("{DEFINITIONS}?fieldValidation=Strict");
            let answer = server.ask(Method::POST, &target, definition).await;
            report.take(definition, answer);
        }
        for (object, namespace) in others {
            if let Some(target) = server.place(object, namespace).await {
                let answer = server.ask(Method::POST, &target, object).await;
                report.take(object, answer);
            } else {
                let gvk = Gvk::of(object);
                report.unknown.insert(format!("{}/{}", gvk.api_version(), gvk.kind));
            }
        }
        Ok(report)
    })
}

impl Report {
    fn take(&mut self, object: &Value, (status, answer): (u16, Value)) {
        // What a server forbids or has already is no question of schemas.
        if matches!(status, 400 | 413 | 422) {
            let shown = format!("{}/{}", Gvk::of(object).kind, access::name(object));
            let text = answer.get("message").and_then(Value::as_str).unwrap_or("it is refused");
            self.problems.push(format!("{shown}: {text}"));
        }
    }
}

/// A server, and what it serves as far as it was asked.
struct Server {
    sim: Sim,
    /// By API version: plural and whether it lives in a namespace, by kind.
    kinds: BTreeMap<String, BTreeMap<String, (String, bool)>>,
}

impl Server {
    async fn ask(&self, method: Method, target: &str, body: &Value) -> (u16, Value) {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json")
            .body(bytes)
            .unwrap_or_default();
        let response = self.sim.call(request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await;
        let bytes = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Where an object would be created; none where its kind is not known.
    async fn place(&mut self, object: &Value, namespace: &str) -> Option<String> {
        let gvk = Gvk::of(object);
        let version = gvk.api_version().to_string();
        let root = if gvk.group.is_empty() { format!("/api/{version}") } else { format!("/apis/{version}") };
        if !self.kinds.contains_key(&version) {
            let (_, answer) = self.ask(Method::GET, &root, &Value::Null).await;
            let resources = answer.get("resources").and_then(Value::as_array).cloned().unwrap_or_default();
            let text = |one: &Value, name: &str| {
                one.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let kinds = resources.iter().filter(|one| !text(one, "name").contains('/')).map(|one| {
                let namespaced = one.get("namespaced").and_then(Value::as_bool).unwrap_or_default();
                (text(one, "kind"), (text(one, "name"), namespaced))
            });
            self.kinds.insert(version.clone(), kinds.collect());
        }
        let (plural, namespaced) = self.kinds.get(&version)?.get(gvk.kind.as_str())?.clone();
        let options = "dryRun=All&fieldValidation=Strict";
        if !namespaced {
            return Some(format!("{root}/{plural}?{options}"));
        }
        let named = access::namespace(object);
        let namespace = [named, namespace, "default"].into_iter().find(|name| !name.is_empty())?;
        let own = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        // One that is there, or no name of a namespace: the object itself is told about.
        let _answer = self.ask(Method::POST, "/api/v1/namespaces", &own).await;
        Some(format!("{root}/namespaces/{namespace}/{plural}?{options}"))
    }
}
