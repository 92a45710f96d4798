//! Answers: in which form the caller wants objects, and how they leave.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::resource::Resource;
use crate::status::Status;
use crate::store::bytes_of;
use crate::table::{IncludeObject, table};

/// The form in which objects are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As they are.
    Plain,
    /// As rows of a table.
    Table(IncludeObject),
    /// Only their metadata.
    Metadata,
}

/// What is answered to a request that was carried out.
#[derive(Debug)]
pub(crate) enum Reply {
    /// An object, with warnings for the caller.
    Object {
        /// HTTP code.
        code: u16,
        /// The object.
        value: Value,
        /// Texts of `Warning` headers.
        warnings: Vec<String>,
    },
    /// Bytes of some type.
    Bytes {
        /// Media type.
        content_type: &'static str,
        /// The body.
        bytes: Bytes,
    },
    /// Nothing, with the code that says so.
    Nothing,
    /// A stream of changes.
    Watch(Box<crate::watch::Watch>),
    /// Lines of a pod's log.
    Log(Box<crate::logs::Log>),
}

impl Reply {
    pub(crate) fn ok(value: Value) -> Self {
        Self::Object { code: 200, value, warnings: Vec::new() }
    }
}

/// Picks the form out of an `Accept` header: of the media types in order of preference the first that can be
/// given.
pub(crate) fn negotiate(accept: &str, include: Option<&str>) -> Result<Form, Status> {
    if accept.trim().is_empty() {
        return Ok(Form::Plain);
    }
    let mut is_produced = false;
    for media in accept.split(',') {
        let mut parts = media.split(';').map(str::trim);
        let kind = parts.next().unwrap_or("").to_lowercase();
        if !matches!(
            kind.as_str(),
            "application/json" | "application/*" | "*/*" | "application/yaml" | "application/json-seq"
        ) {
            continue;
        }
        is_produced = true;
        let parts: Vec<&str> = parts.collect();
        let shape = parts.iter().find_map(|part| part.strip_prefix("as="));
        if shape.is_some() && !parts.iter().any(|part| matches!(*part, "v=v1" | "v=v1beta1")) {
            continue;
        }
        match shape {
            None => return Ok(Form::Plain),
            Some("Table") => return included(include).map(Form::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => return Ok(Form::Metadata),
            Some(_) => {}
        }
    }
    if is_produced {
        return Err(not_acceptable());
    }
    let known = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
    let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    let message =
        format!("406: Not Acceptable\n\nAvailable representations: {}, {streams}", known.join(", "));
    Err(Status::new(406, "NotAcceptable", message).detailed())
}

/// None of the media types that the caller takes can be given.
pub(crate) fn not_acceptable() -> Status {
    let message = "only the following media types are accepted: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf";
    Status::new(406, "NotAcceptable", message)
}

/// How much of an object goes with its row.
fn included(asked: Option<&str>) -> Result<IncludeObject, Status> {
    match asked {
        None | Some("" | "Metadata") => Ok(IncludeObject::Metadata),
        Some("None") => Ok(IncludeObject::None),
        Some("Object") => Ok(IncludeObject::Object),
        Some(other) => Err(Status::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: must be \
             'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

/// One object in a form.
pub(crate) fn one(form: Form, resource: &Resource, object: Value, now: Timestamp) -> Value {
    match form {
        Form::Plain => object,
        Form::Metadata => metadata_of(&object),
        Form::Table(include) => {
            let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or(Value::Null);
            table(resource, &[object], json!({"resourceVersion": version}), include, now)
        }
    }
}

/// A list in a form; `metadata` is that of the list.
pub(crate) fn list(
    form: Form,
    resource: &Resource,
    mut objects: Vec<Value>,
    metadata: Value,
    now: Timestamp,
) -> Value {
    match form {
        Form::Plain => {
            if resource.custom.is_none() {
                for object in &mut objects {
                    if let Some(members) = object.as_object_mut() {
                        members.remove("apiVersion");
                        members.remove("kind");
                    }
                }
            }
            json!({"kind": resource.list_kind, "apiVersion": resource.api_version(), "metadata": metadata,
                "items": objects})
        }
        Form::Metadata => {
            let items: Vec<Value> = objects.iter().map(metadata_of).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
                "items": items})
        }
        Form::Table(include) => table(resource, &objects, metadata, include, now),
    }
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn metadata_of(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({}))})
}

/// Whether an object leaves as YAML.
pub(crate) fn is_yaml(accept: &str) -> bool {
    accept.split([',', ';']).next().unwrap_or("").trim() == "application/yaml"
}

/// The bytes of an object as they leave.
pub(crate) fn body(value: &Value, accept: &str) -> (&'static str, Bytes) {
    if is_yaml(accept)
        && let Ok(text) = tiphys_go::yaml::to_string(value)
    {
        return ("application/yaml", Bytes::from(text));
    }
    ("application/json", bytes_of(value))
}
