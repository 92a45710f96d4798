//! Which request is answered by what.

use std::borrow::Cow;

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::answer::{self, Form, Reply};
use crate::request::{Place, Request};
use crate::resource::{Resource, Scope};
use crate::state::State;
use crate::status::Status;
use crate::store::bytes_of;
use crate::{access, delete, discovery, logs, openapi, read, special, watch, write};

const JSON: &str = "application/json";
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a request.
pub(crate) fn dispatch(state: &mut State, request: &Request, server: &str) -> Result<Reply, Status> {
    access::authorize(state, request)?;
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match path.as_slice() {
        ["healthz" | "livez" | "readyz", ..] => {
            Ok(Reply::Bytes { content_type: "text/plain; charset=utf-8", bytes: Bytes::from_static(b"ok") })
        }
        ["version"] => Ok(Reply::ok(discovery::version())),
        [] => Ok(Reply::ok(serde_json::json!({"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez",
            "/openapi/v2", "/openapi/v3", "/readyz", "/version"]}))),
        ["openapi", "v2"] if wants_protobuf(request) => {
            let make = |state: &State| Some(openapi::v2_protobuf(&state.registry).into());
            kept(state, "openapi/v2/protobuf", openapi::V2_PROTOBUF, make)
        }
        ["openapi", "v2"] => document(state, "openapi/v2", JSON, |state| Some(openapi::v2(&state.registry))),
        ["openapi", "v3"] => {
            document(state, "openapi/v3", JSON, |state| Some(openapi::index(&state.registry)))
        }
        ["openapi", "v3", "api", version] => {
            let name = format!("openapi/v3/{version}");
            document(state, &name, JSON, |state| openapi::document(&state.registry, "", version))
        }
        ["openapi", "v3", "apis", group, version] => {
            let name = format!("openapi/v3/{group}/{version}");
            document(state, &name, JSON, |state| openapi::document(&state.registry, group, version))
        }
        ["api"] if is_aggregated(request) => document(state, "aggregated/api", AGGREGATED, |state| {
            Some(discovery::aggregated(&state.registry, true))
        }),
        ["apis"] if is_aggregated(request) => document(state, "aggregated/apis", AGGREGATED, |state| {
            Some(discovery::aggregated(&state.registry, false))
        }),
        ["api" | "apis"] if !wants_plain(request) => Err(answer::not_acceptable()),
        ["api"] => Ok(Reply::ok(discovery::core_versions(server))),
        ["apis"] => document(state, "apis", JSON, |state| Some(discovery::groups(&state.registry))),
        ["apis", group] => {
            let found = discovery::group(&state.registry, group);
            found.map(Reply::ok).ok_or_else(|| read::missing(state, group))
        }
        ["api", version] => {
            let found = discovery::resources(&state.registry, "", version);
            found.map(Reply::ok).ok_or_else(Status::no_such_path)
        }
        ["apis", group, version] => {
            let found = discovery::resources(&state.registry, group, version);
            found.map(Reply::ok).ok_or_else(|| read::missing(state, group))
        }
        _ => {
            let mut reply = objects(state, request)?;
            if let Reply::Object { warnings, .. } = &mut reply {
                warnings.splice(0..0, custom_deprecation(state, request));
            }
            Ok(reply)
        }
    }
}

/// What callers of a deprecated version of a custom resource are told.
fn custom_deprecation(state: &State, request: &Request) -> Option<String> {
    let place = Place::parse(&request.path)?;
    let resource = read::resource(state, &place).ok()?;
    resource.custom.as_ref()?.warning.clone()
}

fn is_aggregated(request: &Request) -> bool {
    request.accept.contains("as=APIGroupDiscoveryList") && request.accept.contains("v=v2;")
        || request.accept.ends_with("v=v2") && request.accept.contains("APIGroupDiscoveryList")
}

/// Whether one of the media types that are accepted is of no special shape.
fn wants_plain(request: &Request) -> bool {
    request.accept.split(',').any(|media| !media.contains("as="))
}

/// What callers of an old resource are told with every answer.
pub(crate) fn deprecation(request: &Request) -> Option<&'static str> {
    let place = Place::parse(&request.path)?;
    match (place.group.as_str(), place.version.as_str(), place.plural.as_str()) {
        ("", "v1", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        ("", "v1", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        _ => None,
    }
}

/// Whether the first of the media types that are accepted is the message of `OpenAPI`, which has two names.
fn wants_protobuf(request: &Request) -> bool {
    let first = request.accept.split([',', ';']).next().unwrap_or("").trim();
    first.replace('@', ".") == openapi::V2_PROTOBUF
}

/// A document of JSON.
fn document(
    state: &mut State,
    name: &str,
    content_type: &'static str,
    make: impl FnOnce(&State) -> Option<Value>,
) -> Result<Reply, Status> {
    kept(state, name, content_type, |state| make(state).map(|document| bytes_of(&document)))
}

/// A document that is made once for what is served.
fn kept(
    state: &mut State,
    name: &str,
    content_type: &'static str,
    make: impl FnOnce(&State) -> Option<Bytes>,
) -> Result<Reply, Status> {
    if let Some(bytes) = state.documents.get(name) {
        return Ok(Reply::Bytes { content_type, bytes: bytes.clone() });
    }
    let bytes = make(state).ok_or_else(Status::no_such_path)?;
    state.documents.insert(name.to_owned(), bytes.clone());
    Ok(Reply::Bytes { content_type, bytes })
}

/// Requests about objects.
fn objects(state: &mut State, request: &Request) -> Result<Reply, Status> {
    let (path, is_watched) = watched(request);
    let mut place = Place::parse(&path).ok_or_else(|| match request.path.first() {
        Some(root) if root == "api" || root == "apis" => Status::no_such_path(),
        _ => Status::no_such_page(),
    })?;
    let resource = read::resource(state, &place)?;
    let is_found = resource.scope == Scope::Namespaced || place.namespace.is_empty();
    if !is_found || (!place.name.is_empty() && has_no_names(&resource)) {
        return Err(read::missing(state, &resource.group));
    }
    let is_write = request.method != Method::GET;
    if resource.scope == Scope::Namespaced
        && place.namespace.is_empty()
        && (!place.name.is_empty() || is_write)
    {
        if place.name.is_empty() && !special::is_review(&resource) {
            // Only reading goes over all namespaces.
            return Err(not_allowed());
        }
        if !place.name.is_empty() {
            return Err(Status::no_such_path());
        }
    }
    guard_namespaces(request, &place)?;
    if !request.query.flag("watch") {
        request.query.check_timeout()?;
    }
    let form = answer::negotiate(&request.accept, request.query.get("includeObject"))?;
    if !place.subresource.is_empty() && place.subresource != "status" {
        return subresource(state, request, &resource, &place);
    }
    if place.subresource == "status" && !resource.has_status {
        return Err(no_subresource(&resource, &place));
    }
    let is_watch = request.query.flag("watch");
    match (&request.method, place.name.is_empty()) {
        (&Method::GET, true) if special::is_review(&resource) => Err(not_allowed()),
        // With a name it is that object that is asked for, not its changes.
        (&Method::GET, is_many) if is_watched || (is_watch && is_many) => {
            watch::watch(state, request, &resource, &place, form)
        }
        (&Method::GET, true) => read::list(state, request, &resource, &place, form),
        (&Method::GET | &Method::HEAD, false) => read::get(state, request, &resource, &place, form),
        (&Method::POST, true) if special::is_review(&resource) => special::review(state, request, &resource),
        (&Method::POST, true) => write::create(state, request, &resource, &place, form),
        (&Method::PUT, false) => write::replace(state, request, &resource, &place, form),
        (&Method::PATCH, false) => write::patch(state, request, &resource, &place, form),
        (&Method::DELETE, false) if place.subresource.is_empty() => {
            delete::delete(state, request, &resource, &place)
        }
        (&Method::DELETE, true) if resource.has_verb("deletecollection") => {
            place.name = "".into();
            delete::delete_collection(state, request, &resource, &place, form)
        }
        _ => Err(not_allowed()),
    }
}

/// The path without the `watch` behind the version, which is the old way to ask for one; whether it was there.
fn watched(request: &Request) -> (Cow<'_, [String]>, bool) {
    let at = if request.path.first().is_some_and(|root| root == "api") { 2 } else { 3 };
    if request.method != Method::GET || request.path.get(at).is_none_or(|word| word != "watch") {
        return (Cow::Borrowed(&request.path), false);
    }
    let mut path = request.path.clone();
    path.remove(at);
    (Cow::Owned(path), true)
}

fn not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    Status::new(405, "MethodNotAllowed", message).detailed()
}

/// Objects of these are only ever made, in a collection.
fn has_no_names(resource: &Resource) -> bool {
    resource.custom.is_none() && resource.group.is_empty() && resource.plural == "bindings"
}

/// Custom resources take the subresource they do not have for an object that is not there.
fn no_subresource(resource: &Resource, place: &Place) -> Status {
    match resource.custom {
        Some(_) => Status::not_found(&resource.group, &resource.plural, &place.name),
        None => Status::no_such_path(),
    }
}

/// Namespaces that every cluster has stay.
fn guard_namespaces(request: &Request, place: &Place) -> Result<(), Status> {
    let is_namespace = place.group.is_empty() && place.plural == "namespaces" && place.subresource.is_empty();
    let is_kept = matches!(place.name.as_str(), "default" | "kube-system" | "kube-public");
    if request.method != Method::DELETE || !is_namespace || !is_kept {
        return Ok(());
    }
    let message = format!("namespaces {:?} is forbidden: this namespace may not be deleted", place.name);
    Err(Status::new(403, "Forbidden", message).about(&place.name, "", "namespaces"))
}

fn subresource(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
) -> Result<Reply, Status> {
    match (resource.plural.as_str(), place.subresource.as_str(), &request.method) {
        (_, "scale", &Method::GET | &Method::PUT | &Method::PATCH) => {
            special::scale(state, request, resource, place)
        }
        ("pods", "log", &Method::GET) => logs::log(state, request, place),
        ("pods", "exec" | "attach" | "portforward" | "proxy", _) => {
            Err(special::no_container(&place.subresource))
        }
        ("pods", "eviction" | "binding", &Method::POST) | ("serviceaccounts", "token", &Method::POST) => {
            special::post(state, request, resource, place)
        }
        ("namespaces", "finalize", &Method::PUT) => special::finalize(state, request, resource, place),
        ("certificatesigningrequests", "approval", _) | ("pods", "resize" | "ephemeralcontainers", _) => {
            match request.method {
                Method::GET => read::get(state, request, resource, place, Form::Plain),
                Method::PUT => write::replace(state, request, resource, place, Form::Plain),
                Method::PATCH => write::patch(state, request, resource, place, Form::Plain),
                _ => Err(not_allowed()),
            }
        }
        _ => Err(no_subresource(resource, place)),
    }
}
