//! One set of parameters becomes one Application (ASET-26, ASET-100, ASET-101, ASET-112..121).

use serde_json::{Map, Value, json};
use tiphys_api::names::finalizer;
use tiphys_api::{Application, ApplicationSet};
use tiphys_go::memory::Memory;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_go::{json as go_json, nesting};
use tiphys_object::Gvk;
use tiphys_object::strategic;

use super::GenerateError;
use crate::params::{self, Params};
use crate::template::Templates;

/// Members that are one value, whatever they hold (ASET-26).
const OPAQUE: &str = "valuesObject";

/// What one Application is made of.
pub(super) struct Parts<'a> {
    pub(super) set: &'a ApplicationSet,
    /// Namespace of the set.
    pub(super) namespace: &'a str,
    /// The template, merged with that of the generator.
    pub(super) template: &'a Map<String, Value>,
    pub(super) params: &'a Params,
}

/// The template of a generator with its empty fields filled from that of the set (ASET-26).
pub(super) fn merged_template(own: &Map<String, Value>, of_set: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = own.clone();
    fill(&mut merged, of_set);
    merged
}

fn fill(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) if key != OPAQUE && !below.is_empty() => {
                fill(below, above);
            }
            (Some(present), _) if !is_empty(present) => {}
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Renders template and patch.
pub(super) fn render(
    templates: &mut Templates<'_>,
    parts: &Parts<'_>,
    memory: &mut Memory,
) -> Result<Application, GenerateError> {
    let spec = &parts.set.spec;
    let mut rendering = templates.with(parts.params);
    // A set without a key leaves everything as it is written, and adds nothing (ASET-101).
    let mut application = if parts.params.is_empty() {
        read(parts.template.clone())?
    } else {
        let rendered = rendering.map(parts.template, "")?;
        params::charge(&rendered, memory)?;
        let mut application = read(rendered)?;
        let preserves = spec.sync_policy.as_ref().is_some_and(|policy| policy.preserve_resources_on_deletion);
        if application.metadata.finalizers.is_empty() && !preserves {
            application.metadata.finalizers.push(finalizer::CASCADE.to_owned());
        }
        application
    };
    if let Some(patch) = &spec.template_patch {
        let patch = rendering.text(patch, "templatePatch")?;
        application = patched(application, &patch)?;
    }
    // Applied last: nothing that parameters hold leads out of the namespace of the set (ASET-113).
    parts.namespace.clone_into(&mut application.metadata.namespace);
    Ok(application)
}

/// Reads what was rendered; members that are null are absent.
fn read(mut rendered: Map<String, Value>) -> Result<Application, GenerateError> {
    rendered.retain(|name, member| {
        matches!(name.as_str(), "metadata" | "spec" | "operation") && !member.is_null()
    });
    for part in rendered.values_mut().filter_map(Value::as_object_mut) {
        part.retain(|_, member| !member.is_null());
    }
    serde_json::from_value(Value::Object(rendered))
        .map_err(|error| GenerateError::failed(format!("the template makes no Application: {error}")))
}

/// The Application with the patch applied as a strategic merge; its project stays (ASET-120).
fn patched(application: Application, text: &str) -> Result<Application, GenerateError> {
    let invalid = |why: String| GenerateError::failed(format!("invalid templatePatch: {why}"));
    let patch = if text.trim_start().starts_with('{') {
        nesting::check(text.as_bytes()).map_err(|error| invalid(error.to_string()))?;
        go_json::decode_kubernetes(text.as_bytes()).map_err(|error| invalid(error.to_string()))?
    } else {
        let patch = yaml::parse(text, Dialect::Sigs, &Limits { bytes_max: 16 << 20, ..Limits::default() });
        patch.map_err(|error| invalid(error.to_string()))?.unwrap_or(Value::Null)
    };
    match &patch {
        Value::Null => return Ok(application),
        Value::Object(members) => {
            // It has to be one itself, whatever it is applied to.
            read(without_nulls(members)).map_err(|error| invalid(error.to_string()))?;
        }
        _ => return Err(invalid("it is no object".to_owned())),
    }
    let project = application.spec.project.clone();
    let mut document = Map::new();
    document.insert("metadata".to_owned(), json!(application.metadata));
    document.insert("spec".to_owned(), json!(application.spec));
    if let Some(operation) = &application.operation {
        document.insert("operation".to_owned(), json!(operation));
    }
    // Of a type with nothing but metadata: its finalizers and owners merge, everything else is an Application's own,
    // whose lists are replaced.
    let of = Gvk::new("", "v1", "ConfigMap");
    let document = strategic::apply(&of, Value::Object(document), &patch, strategic::Options::default())
        .map_err(|error| invalid(error.to_string()))?;
    let Value::Object(document) = document else { return Err(invalid("it leaves no object".to_owned())) };
    let existing = application.metadata.finalizers;
    let mut application = read(document).map_err(|error| invalid(error.to_string()))?;
    if patch.pointer("/metadata/$setElementOrder~1finalizers").is_none() {
        // Of lists that merge, what was there comes first (ASET-120).
        application.metadata.finalizers.sort_by_key(|name| !existing.contains(name));
    }
    // A patch is made of parameters: it must not lead into another project (ASET-120).
    application.spec.project = project;
    Ok(application)
}

/// Without members that a patch takes away. The depth was bounded when the patch was read.
fn without_nulls(members: &Map<String, Value>) -> Map<String, Value> {
    let kept = members.iter().filter(|(_, member)| !member.is_null());
    kept.map(|(key, member)| {
        let member = match member {
            Value::Object(below) => Value::Object(without_nulls(below)),
            other => other.clone(),
        };
        (key.clone(), member)
    })
    .collect()
}
