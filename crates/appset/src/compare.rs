//! Is a live Application as generated, and what would make it so? (ASET-132..140)

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tiphys_api::application::IgnoreDifference;
use tiphys_api::applicationset::ApplicationIgnoreDifference;
use tiphys_api::names::{GROUP, VERSION, annotation, finalizer};
use tiphys_api::settings::ApplicationSets;
use tiphys_api::{Application, ApplicationSet};
use tiphys_engine::normalize::{IgnoreError, IgnoreRules};
use tiphys_engine::scripts::Runner;
use tiphys_object::merge_patch;

use crate::canonical;
use crate::live::LiveApplication;

/// Annotations that others write and that keep their live value (ASET-136); the last two are the application
/// controller's.
const KEPT_ANNOTATIONS: [&str; 5] = [
    "notified.notifications.argoproj.io",
    annotation::REFRESH,
    "argocd.argoproj.io/hydrate",
    annotation::TRACKING_PROFILE,
    annotation::HYDRATION_CLAIM,
];
/// Finalizers that the application controller adds (ASET-135).
const KEPT_FINALIZERS: [&str; 2] = [finalizer::PRE_DELETE, finalizer::POST_DELETE];

/// What of a live Application stays although the template says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Preserved {
    annotations: Vec<String>,
    labels: Vec<String>,
}

impl Preserved {
    /// Keys of a set and of the installation (ASET-137).
    pub fn of(set: &ApplicationSet, settings: &ApplicationSets) -> Self {
        let own = set.spec.preserved_fields.clone().unwrap_or_default();
        Self {
            annotations: own
                .annotations
                .into_iter()
                .chain(settings.preserved_annotations.iter().cloned())
                .collect(),
            labels: own.labels.into_iter().chain(settings.preserved_labels.iter().cloned()).collect(),
        }
    }
}

/// Compiles `ignoreApplicationDifferences` (ASET-140).
///
/// # Errors
/// When a rule is none.
pub fn ignore_rules(
    rules: &[ApplicationIgnoreDifference],
    scripts: Runner,
) -> Result<Option<IgnoreRules>, IgnoreError> {
    if rules.is_empty() {
        return Ok(None);
    }
    let of_application = |rule: &ApplicationIgnoreDifference| IgnoreDifference {
        group: GROUP.to_owned(),
        kind: "Application".to_owned(),
        name: rule.name.clone(),
        json_pointers: rule.json_pointers.clone(),
        jq_path_expressions: rule.jq_path_expressions.clone(),
        ..IgnoreDifference::default()
    };
    let rules: Vec<IgnoreDifference> = rules.iter().map(of_application).collect();
    IgnoreRules::compile_with(&rules, &BTreeMap::new(), scripts).map(Some)
}

/// What a comparison is made with.
#[derive(Clone, Copy)]
pub(crate) struct Comparison<'a> {
    pub(crate) preserved: &'a Preserved,
    pub(crate) ignore: Option<&'a IgnoreRules>,
    /// The reference of the set.
    pub(crate) owner: &'a Value,
}

impl Comparison<'_> {
    /// The merge patch that makes a live Application what was generated; `None` when it is (ASET-132).
    pub(crate) fn patch(&self, generated: &Application, live: &LiveApplication) -> Option<Value> {
        let mut patch =
            match self.unlike(generated, live).map(|(before, after)| merge_patch::create(&before, &after)) {
                Some(Ok(Value::Object(patch))) => patch,
                // Both are objects.
                Some(Ok(_) | Err(_)) | None => Map::new(),
            };
        // One that waits to be taken is not replaced (ASET-231).
        if let Some(operation) = generated.operation.as_ref().filter(|_| !live.has_operation) {
            patch.insert("operation".to_owned(), json!(operation));
        }
        (!patch.is_empty()).then_some(Value::Object(patch))
    }

    /// Whether the spec that was generated differs from the live one (ASET-205).
    pub(crate) fn spec_differs(&self, generated: &Application, live: &LiveApplication) -> bool {
        let unlike = self.unlike(generated, live);
        unlike.is_some_and(|(before, after)| before.get("spec") != after.get("spec"))
    }

    /// The live Application and the one that it is to be, in one form; `None` where they are equal to the letter. Most looks
    /// find so, and what is equal before it is put into one form is equal after it.
    fn unlike(&self, generated: &Application, live: &LiveApplication) -> Option<(Value, Value)> {
        let desired = self.desired(generated, live);
        let is_same = desired.labels == live.labels
            && desired.annotations == live.annotations
            && desired.finalizers == live.finalizers
            && desired.owner_references == live.owner_references
            && desired.spec == live.spec;
        (!is_same).then(|| (self.comparable(manifest(live)), self.comparable(manifest(&desired))))
    }

    /// Without what is ignored, in one form (ASET-134, ASET-140).
    fn comparable(&self, mut manifest: Value) -> Value {
        if let Some(rules) = self.ignore {
            let name = manifest.pointer("/metadata/name").cloned();
            let namespace = manifest.pointer("/metadata/namespace").cloned();
            rules.apply(&mut manifest);
            // Rules do not reach what identifies an Application.
            let metadata = tiphys_object::access::metadata_mut(&mut manifest);
            for (key, value) in [("name", name), ("namespace", namespace)] {
                metadata.extend(value.map(|value| (key.to_owned(), value)));
            }
        }
        let spec = manifest.get("spec").and_then(Value::as_object).map(canonical::spec).unwrap_or_default();
        let mut metadata = manifest.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
        metadata.retain(|_, member| !is_empty(member));
        json!({"metadata": metadata, "spec": spec})
    }

    /// The live Application with what was generated in its place.
    fn desired(&self, generated: &Application, live: &LiveApplication) -> LiveApplication {
        let metadata = &generated.metadata;
        let mut annotations = metadata.annotations.clone();
        for key in
            KEPT_ANNOTATIONS.iter().copied().chain(self.preserved.annotations.iter().map(String::as_str))
        {
            keep(&mut annotations, &live.annotations, key);
        }
        let mut labels = metadata.labels.clone();
        for key in &self.preserved.labels {
            keep(&mut labels, &live.labels, key);
        }
        let mut finalizers = metadata.finalizers.clone();
        for name in &live.finalizers {
            let is_kept = KEPT_FINALIZERS.iter().any(|kept| name.starts_with(kept));
            if is_kept && !finalizers.contains(name) {
                finalizers.push(name.clone());
            }
        }
        let spec = match json!(generated.spec) {
            Value::Object(spec) => spec,
            // It is a struct.
            _ => Map::new(),
        };
        LiveApplication {
            name: live.name.clone(),
            namespace: live.namespace.clone(),
            labels,
            annotations,
            finalizers,
            owner_references: self.owners(live),
            spec,
            ..LiveApplication::default()
        }
    }

    /// The references with that of the set: in the place of an older one of its own, else beside the others.
    fn owners(&self, live: &LiveApplication) -> Vec<Value> {
        let name = self.owner.get("name").and_then(Value::as_str).unwrap_or("");
        let mut owners = live.owner_references.clone();
        match owners.iter_mut().find(|reference| crate::live::is_set(reference, name)) {
            Some(reference) => reference.clone_from(self.owner),
            None => owners.push(self.owner.clone()),
        }
        owners
    }
}

fn keep(generated: &mut BTreeMap<String, String>, live: &BTreeMap<String, String>, key: &str) {
    if let Some(value) = live.get(key) {
        generated.insert(key.to_owned(), value.clone());
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn manifest(live: &LiveApplication) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Application",
        "metadata": {
            "name": live.name,
            "namespace": live.namespace,
            "labels": live.labels,
            "annotations": live.annotations,
            "finalizers": live.finalizers,
            "ownerReferences": live.owner_references,
        },
        "spec": live.spec,
    })
}

/// The manifest of an Application that is created (ASET-132).
pub(crate) fn created(generated: &Application, owner: &Value) -> Value {
    let metadata = &generated.metadata;
    let mut manifest = json!({
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "kind": "Application",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "ownerReferences": [owner],
        },
        "spec": generated.spec,
    });
    let parts = tiphys_object::access::metadata_mut(&mut manifest);
    for (key, value) in [
        ("labels", json!(metadata.labels)),
        ("annotations", json!(metadata.annotations)),
        ("finalizers", json!(metadata.finalizers)),
    ] {
        if !is_empty(&value) {
            parts.insert(key.to_owned(), value);
        }
    }
    if let (Some(operation), Value::Object(members)) = (&generated.operation, &mut manifest) {
        members.insert("operation".to_owned(), json!(operation));
    }
    manifest
}

#[cfg(test)]
mod tests;
