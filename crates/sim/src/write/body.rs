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
