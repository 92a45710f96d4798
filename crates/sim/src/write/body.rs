//! Reading the object that was sent.

use serde_json::Value;
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::builtin::decode_protobuf;
use tiphys_object::{Gvk, access};

use crate::answer::api_version;
use crate::request::Request;
use crate::resource::Resource;
use crate::status::Status;
use crate::strict;

/// What Go clients send of built-in kinds.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Values one body may hold.
const NODES_MAX: usize = 1_000_000;
/// Nesting of one body.
const DEPTH_MAX: usize = 100;

/// What is done about unknown and doubled members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Validation {
    /// They are dropped in silence.
    Ignore,
    /// They are dropped with warnings.
    Warn,
    /// They are refused.
    Strict,
}

/// An object that was sent.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// Reads the body of a create or update.
pub(crate) fn read(request: &Request, resource: &Resource, validation: Validation) -> Result<Body, Status> {
    let media = request.media_type();
    if media == PROTOBUF && resource.custom.is_some() {
        return Err(unknown_format("application/json, application/yaml"));
    }
    let tree = named_kind(resource, tree(request, &api_version(resource), &resource.kind)?)?;
    match media.as_str() {
        // A type has read it: there is nothing unknown in it any more.
        PROTOBUF => decode(resource, tree, "", Validation::Ignore),
        "application/yaml" => {
            let text = tree.to_string();
            decode(resource, tree, &text, validation)
        }
        _ => decode(resource, tree, &String::from_utf8_lossy(&request.body), validation),
    }
}

/// The tree of a body, which is expected to be of some kind.
pub(crate) fn tree(request: &Request, api_version: &str, kind: &str) -> Result<Value, Status> {
    match request.media_type().as_str() {
        "" | "application/json" => json_tree(&request.body),
        "application/yaml" => yaml_tree(&request.body),
        PROTOBUF => {
            decode_protobuf(&request.body, Some(&Gvk::from_api_version(api_version, kind))).map_err(|error| {
                Status::bad_request(format!(
                    "the object provided is unrecognized (must be of type {kind}): {error}"
                ))
            })
        }
        _ => Err(unknown_format("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
}

fn unknown_format(known: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {known}");
    Status::new(415, "UnsupportedMediaType", message)
}

/// JSON with bounds.
pub(crate) fn json_tree(bytes: &[u8]) -> Result<Value, Status> {
    tiphys_go::json::decode_kubernetes(bytes)
        .map_err(|error| Status::bad_request(format!("couldn't get version/kind; json parse error: {error}")))
}

/// YAML with bounds.
pub(crate) fn yaml_tree(bytes: &[u8]) -> Result<Value, Status> {
    let refuse = |error: yaml::YamlError| Status::bad_request(format!("error decoding YAML: {error}"));
    let text = yaml::decode_text(bytes).map_err(refuse)?;
    let limits = Limits { nodes_max: NODES_MAX, depth_max: DEPTH_MAX };
    let tree = yaml::parse(&text, Dialect::Sigs, &limits).map_err(refuse)?;
    Ok(tree.unwrap_or(Value::Null))
}

/// The kind that a body names has to be that of the resource; a body without one is believed.
fn named_kind(resource: &Resource, mut tree: Value) -> Result<Value, Status> {
    if !tree.is_object() {
        return Err(Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: the body is not an object",
            resource.kind, resource.version, resource.kind
        )));
    }
    let expected = api_version(resource);
    let (version, kind) =
        (access::text(&tree, "apiVersion").to_owned(), access::text(&tree, "kind").to_owned());
    if resource.custom.is_some() && kind.is_empty() {
        return Err(Status::bad_request(format!("Object 'Kind' is missing in '{tree}'")));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: no kind {kind:?} is registered for this resource",
            resource.version, resource.kind
        )));
    }
    if !version.is_empty() && version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    let members = access::ensure_object(&mut tree);
    members.insert("apiVersion".to_owned(), Value::from(expected));
    members.insert("kind".to_owned(), Value::from(resource.kind.as_str()));
    Ok(tree)
}

/// Turns a tree into the object that its kind can hold.
pub(crate) fn decode(
    resource: &Resource,
    tree: Value,
    text: &str,
    validation: Validation,
) -> Result<Body, Status> {
    let mut warnings = Vec::new();
    if validation != Validation::Ignore {
        let problems = strict::problems(resource, text, &tree);
        if validation == Validation::Strict && !problems.is_empty() {
            let message = format!("strict decoding error: {}", problems.join(", "));
            return Err(Status::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: {message}",
                resource.kind, resource.version, resource.kind
            )));
        }
        warnings = problems;
    }
    let object = strict::decode(resource, tree).map_err(|error| {
        Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {error}",
            resource.kind, resource.version, resource.kind
        ))
    })?;
    Ok(Body { object, warnings })
}
