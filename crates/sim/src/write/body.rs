//! Reading the object that was sent.

use serde_json::{Map, Value};
use tiphys_go::yaml::{self, Dialect, Limits};
use tiphys_object::builtin::{decode_protobuf, is_builtin};
use tiphys_object::{Gvk, access};

use crate::request::Request;
use crate::resource::Resource;
use crate::status::{FieldError, Status};
use crate::strict;

/// What Go clients send of built-in kinds.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Bytes that one body takes in memory.
const BYTES_MAX: usize = 128 << 20;
/// Nesting of one body.
const DEPTH_MAX: usize = tiphys_go::nesting::DEPTH_MAX;

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
    let tree = tree(request, &resource.api_version(), &resource.kind)?;
    let unknown = unknown_version(resource, &tree).filter(|_| validation == Validation::Warn);
    let tree = named_kind(resource, tree).map_err(|problem| {
        let mut status = problem.status(resource, &request.body);
        status.warnings.extend(unknown.into_iter().flatten());
        status
    })?;
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
        "" | "application/json" => {
            json_tree(&request.body).map_err(|error| unrecognized(kind, &error, &request.body))
        }
        "application/yaml" => {
            yaml_text(&request.body).map_err(|error| unrecognized(kind, &error, &request.body))
        }
        PROTOBUF => decode_protobuf(&request.body, Some(&Gvk::from_api_version(api_version, kind)))
            .map_err(|error| unrecognized(kind, &error.to_string(), &request.body)),
        _ => Err(unknown_format("application/json, application/yaml, application/vnd.kubernetes.protobuf")),
    }
}

/// The options that a deletion sends; what cannot be read is refused without saying what it should be.
pub(crate) fn options_tree(request: &Request) -> Result<Value, Status> {
    match request.media_type().as_str() {
        "" | "application/json" => json_tree(&request.body).map_err(Status::bad_request),
        _ => tree(request, "v1", "DeleteOptions"),
    }
}

fn unknown_format(known: &str) -> Status {
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {known}");
    Status::new(415, "UnsupportedMediaType", message)
}

/// A body of which not even the kind can be told.
fn unrecognized(kind: &str, why: &str, body: &[u8]) -> Status {
    let summary = summary(body);
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary})"
    ))
}

/// The beginning of a body: as it is when it looks like JSON, otherwise in hexadecimal digits.
fn summary(body: &[u8]) -> String {
    const BYTES_MAX: usize = 30;
    let (start, more) = match body.get(..BYTES_MAX) {
        Some(start) if body.len() > BYTES_MAX => (start, " ..."),
        _ => (body, ""),
    };
    match start.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(start)),
        Some(_) => {
            use std::fmt::Write as _;
            let digits = start.iter().fold(String::new(), |mut digits, byte| {
                let _infallible = write!(digits, "{byte:02x}");
                digits
            });
            format!("{digits}{more}")
        }
    }
}

/// JSON with bounds; an error is the text of the reader. Null is an object without members.
pub(crate) fn json_tree(bytes: &[u8]) -> Result<Value, String> {
    let tree =
        json_value(bytes).map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    match tree {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(tree),
        other => Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ \
             APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
             \"json:\\\"kind,omitempty\\\"\" }}",
            json_type(&other)
        )),
    }
}

/// A document of JSON; an error is the text of Go's reader.
pub(crate) fn json_value(bytes: &[u8]) -> Result<Value, String> {
    tiphys_go::json::decode_kubernetes(bytes).map_err(|error| {
        let text = error.to_string();
        text.split_once(" at offset ").map_or(text.as_str(), |(text, _)| text).to_owned()
    })
}

/// What Go's reader of JSON calls a value.
pub(crate) fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The YAML of an applied object.
pub(crate) fn yaml_tree(bytes: &[u8]) -> Result<Value, Status> {
    let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let tree = yaml_text(bytes).map_err(|why| refuse(format!("error converting YAML to JSON: {why}")))?;
    match tree {
        Value::Null => Ok(Value::Object(Map::new())),
        Value::Object(_) => Ok(tree),
        other => Err(refuse(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type \
             map[string]interface {{}}",
            json_type(&other)
        ))),
    }
}

/// YAML with bounds.
fn yaml_text(bytes: &[u8]) -> Result<Value, String> {
    let text = yaml::decode_text(bytes).map_err(|error| yaml_problem(&error))?;
    let limits = Limits { bytes_max: BYTES_MAX, depth_max: DEPTH_MAX };
    let tree = yaml::parse(&text, Dialect::Sigs, &limits).map_err(|error| yaml_problem(&error))?;
    Ok(tree.unwrap_or(Value::Null))
}

/// The text of Go's reader, which counts lines from nothing when words are in an order that makes no sense.
fn yaml_problem(error: &yaml::YamlError) -> String {
    let expected = ["node content", "<document start>", "key", "'-' indicator", "',' or ']'", "',' or '}'"];
    match error {
        yaml::YamlError::Syntax { line, problem }
            if expected.iter().any(|one| problem.strip_prefix("did not find expected ") == Some(*one)) =>
        {
            match line.saturating_sub(1) {
                0 => format!("yaml: {problem}"),
                line => format!("yaml: line {line}: {problem}"),
            }
        }
        other => other.to_string(),
    }
}

/// What is wrong with the kind that a body names.
pub(crate) enum KindProblem {
    /// It cannot be told.
    Unrecognized(String),
    /// It is one, and cannot be what the resource is.
    Unfit { kind: String, version: String, why: String },
    /// It is another version of the resource.
    Version(String),
    /// It is not that of the definition.
    Custom { kind: String, name: String },
}

impl KindProblem {
    fn status(self, resource: &Resource, body: &[u8]) -> Status {
        match self {
            Self::Unrecognized(why) => unrecognized(&resource.kind, &why, body),
            Self::Unfit { kind, version, why } => Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {}: {why}",
                resource.kind
            )),
            Self::Version(given) => Status::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({})",
                resource.api_version()
            )),
            Self::Custom { kind, name } => {
                let why = format!("must be {}", resource.kind);
                let error = FieldError::invalid("kind", &Value::from(kind.as_str()), &why);
                Status::invalid(&resource.group, &kind, &name, &[error])
            }
        }
    }

    /// The text alone.
    pub(crate) fn why(self) -> String {
        match self {
            Self::Unrecognized(why) | Self::Unfit { why, .. } => why,
            Self::Version(given) => format!("the API version in the data ({given}) does not match"),
            Self::Custom { kind, .. } => format!("unexpected kind {kind}"),
        }
    }
}

/// The kind that a body names has to be that of the resource; a body without one is believed.
pub(crate) fn named_kind(resource: &Resource, mut tree: Value) -> Result<Value, KindProblem> {
    for member in ["apiVersion", "kind"] {
        if let Some(value) = tree.get(member).filter(|value| !value.is_null() && !value.is_string()) {
            return Err(KindProblem::Unrecognized(format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field \
                 .{member} of type string",
                json_type(value)
            )));
        }
    }
    let expected = resource.api_version();
    let given = access::text(&tree, "apiVersion").to_owned();
    let kind = access::text(&tree, "kind").to_owned();
    if given.matches('/').count() > 1 {
        return Err(KindProblem::Unrecognized(format!("unexpected GroupVersion string: {given}")));
    }
    if resource.custom.is_some() {
        if kind.is_empty() {
            return Err(KindProblem::Unrecognized(format!("Object 'Kind' is missing in '{tree}'")));
        }
        if !given.is_empty() && given != expected {
            return Err(KindProblem::Version(given));
        }
        if kind != resource.kind {
            return Err(KindProblem::Custom { kind, name: access::name(&tree).to_owned() });
        }
    } else if (!kind.is_empty() && kind != resource.kind) || (!given.is_empty() && given != expected) {
        check_builtin_kind(resource, &given, &kind)?;
    }
    let members = access::ensure_object(&mut tree);
    members.insert("apiVersion".to_owned(), Value::from(expected));
    members.insert("kind".to_owned(), Value::from(resource.kind.as_str()));
    Ok(tree)
}

/// Of a version of a custom resource that nobody defines, every member is unknown.
fn unknown_version(resource: &Resource, tree: &Value) -> Option<Vec<String>> {
    let given = access::text(tree, "apiVersion");
    if resource.custom.is_none() || given.is_empty() || given == resource.api_version() {
        return None;
    }
    let members = tree.as_object()?.keys();
    let unknown = members.filter(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
    Some(unknown.map(|name| format!("unknown field {name:?}")).collect())
}

/// The kind that an object has become, when that is another built-in one.
pub(crate) fn other_kind(resource: &Resource, tree: &Value) -> Option<Resource> {
    let gvk = Gvk::of(tree);
    if resource.custom.is_some() || gvk.kind == resource.kind || !is_builtin(&gvk) {
        return None;
    }
    let mut other = resource.clone();
    other.group = gvk.group;
    other.version = gvk.version;
    other.kind = gvk.kind;
    Some(other)
}

/// Refuses a kind that is not quite that of the resource.
fn check_builtin_kind(resource: &Resource, given: &str, kind: &str) -> Result<(), KindProblem> {
    let kind = if kind.is_empty() { resource.kind.as_str() } else { kind };
    let gvk = match given {
        "" => Gvk::new(&resource.group, &resource.version, kind),
        given => Gvk::from_api_version(given, kind),
    };
    let item = Gvk::new(&gvk.group, &gvk.version, kind.strip_suffix("List").unwrap_or(kind));
    let is_known = [&gvk, &item].into_iter().any(is_builtin)
        || (gvk.group == resource.group && kind == resource.kind && gvk.version == resource.version);
    let version = gvk.version.to_string();
    if !is_known {
        let why = format!(
            "no kind {kind:?} is registered for version {:?} in scheme \"pkg/runtime/scheme.go:111\"",
            gvk.api_version()
        );
        return Err(KindProblem::Unfit { kind: kind.to_owned(), version, why });
    }
    if gvk.group == resource.group && kind == resource.kind {
        return Err(KindProblem::Version(given.to_owned()));
    }
    let package =
        if resource.group.is_empty() { "core" } else { resource.group.split('.').next().unwrap_or("") };
    let why = format!("converting ({version}.{kind}) to ({package}.{}): unknown conversion", resource.kind);
    Err(KindProblem::Unfit { kind: kind.to_owned(), version, why })
}

/// Turns a tree into the object that its kind can hold.
pub(crate) fn decode(
    resource: &Resource,
    tree: Value,
    text: &str,
    validation: Validation,
) -> Result<Body, Status> {
    decode_text(resource, tree, text, validation).map_err(|why| {
        Status::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: {why}",
            resource.kind, resource.version, resource.kind
        ))
    })
}

/// The same; an error is the text of the decoder.
pub(crate) fn decode_text(
    resource: &Resource,
    tree: Value,
    text: &str,
    validation: Validation,
) -> Result<Body, String> {
    let problems = match validation {
        Validation::Ignore => Vec::new(),
        Validation::Warn | Validation::Strict => strict::problems(resource, text, &tree),
    };
    // What cannot be read at all comes before what is only unknown.
    let object = strict::decode(resource, tree)?;
    if validation == Validation::Strict && !problems.is_empty() {
        return Err(format!("strict decoding error: {}", problems.join(", ")));
    }
    Ok(Body { object, warnings: problems })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{Method, Request, header};
    use http_body_util::BodyExt as _;

    use super::*;
    use crate::{Options, Sim};

    async fn call(sim: &Sim, method: Method, path: &str, body: &'static [u8]) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, PROTOBUF);
        let response = sim.handle(request.body(Bytes::from_static(body)).unwrap());
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap())
    }

    #[tokio::test]
    async fn bodies_may_be_protobuf() {
        let sim = Sim::new(Options::default()).unwrap();
        let maps = "/api/v1/namespaces/default/configmaps";
        let map =
            b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x0d\x0a\x03\x0a\x01a\x12\x06\x0a\x01k\x12\x01v";
        let (code, made) = call(&sim, Method::POST, maps, map).await;
        assert_eq!((code, &made["data"]["k"]), (201, &Value::from("v")), "{made:#}");
        let (code, status) = call(&sim, Method::POST, "/api/v1/namespaces/default/secrets", map).await;
        assert_eq!(code, 400, "{status:#}");
        assert_eq!(call(&sim, Method::POST, maps, &map[..30]).await.0, 400);
        let options = b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x07\x22\x05Wrong";
        let path = "/api/v1/namespaces/default/configmaps/a";
        assert_eq!(call(&sim, Method::DELETE, path, options).await.0, 422);
        assert_eq!(call(&sim, Method::DELETE, path, &options[..25]).await.0, 200);
    }

    #[tokio::test]
    async fn openapi_may_be_asked_for_as_protobuf() {
        let sim = Sim::new(Options::default()).unwrap();
        for spelling in ["v2@v1.0", "v2.v1.0"] {
            let accept = format!("application/com.github.proto-openapi.spec.{spelling}+protobuf");
            let request = Request::get("/openapi/v2").header(header::ACCEPT, accept);
            let response = sim.handle(request.body(Bytes::new()).unwrap());
            assert_eq!(response.headers()[header::CONTENT_TYPE], crate::openapi::V2_PROTOBUF);
            let bytes = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(&bytes[..5], b"\x0a\x032.0");
        }
    }
}
