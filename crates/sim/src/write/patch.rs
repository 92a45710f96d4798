//! `PATCH`: the four kinds of patches.

use serde_json::{Value, json};
use tiphys_object::strategic::{self, StrategicError};
use tiphys_object::{access, json_patch, merge_patch};

use crate::answer::{self, Form, Reply};
use crate::books::{self, Writer};
use crate::request::{Place, Request};
use crate::resource::Resource;
use crate::state::State;
use crate::status::{FieldError, Status};

use super::body::{self, Body};
use super::{Booking, Options, Validation, create_object, gvk, settle_place, update_object};

/// `PATCH` of one object or of its status.
pub(crate) fn patch(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    let media = request.media_type();
    check_media(resource, &media)?;
    if media == "application/apply-patch+yaml" {
        return apply(state, request, resource, place, form);
    }
    let options = Options::parse(request, "PatchOptions")?;
    if request.query.get("force").is_some_and(|force| !force.is_empty()) {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    let key = state.key(resource, &place.namespace, &place.name);
    let Some(old) = state.store.get(&key) else {
        return Err(Status::not_found(&resource.group, &resource.plural, &place.name));
    };
    let old = crate::read::present(resource, old);
    let patched = patched(request, resource, &media, &old)?;
    let text = patched.to_string();
    let Body { mut object, warnings } = decode_patched(resource, patched, &text, options.validation)?;
    settle_place(resource, place, &mut object)?;
    if access::name(&object) != place.name {
        let name = access::name(&object);
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        )));
    }
    let changed = update_object(
        state,
        request,
        resource,
        &key,
        &old,
        object,
        &place.subresource,
        &options,
        Booking::Update,
    )?;
    Ok(Reply::Object { code: 200, value: answer::one(form, resource, changed, request.now), warnings })
}

fn decode_patched(
    resource: &Resource,
    patched: Value,
    text: &str,
    validation: Validation,
) -> Result<Body, Status> {
    body::decode(resource, patched, text, validation)
}

fn check_media(resource: &Resource, media: &str) -> Result<(), Status> {
    let mut accepted = vec!["application/json-patch+json", "application/merge-patch+json"];
    if resource.custom.is_none() {
        accepted.push("application/strategic-merge-patch+json");
    }
    accepted.push("application/apply-patch+yaml");
    if accepted.contains(&media) {
        return Ok(());
    }
    accepted.push("application/apply-patch+cbor");
    let listed = accepted.join(", ");
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {listed}");
    Err(Status::new(415, "UnsupportedMediaType", message))
}

/// The object that a patch makes of the old one.
fn patched(request: &Request, resource: &Resource, media: &str, old: &Value) -> Result<Value, Status> {
    let patch = tiphys_go::json::decode_kubernetes(&request.body)
        .map_err(|error| Status::bad_request(format!("error decoding patch: {error}")))?;
    match media {
        "application/json-patch+json" => json_patch::apply(old.clone(), &patch).map_err(|_error| {
            Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
        }),
        "application/merge-patch+json" => {
            if !patch.is_object() {
                return Err(Status::bad_request("error decoding patch: a merge patch must be an object"));
            }
            Ok(merge_patch::apply(old.clone(), &patch))
        }
        _ => {
            if !patch.is_object() {
                return Err(Status::bad_request(
                    "error decoding patch: a strategic merge patch must be an object",
                ));
            }
            strategic::apply(&gvk(resource), old.clone(), &patch, strategic::Options::default())
                .map_err(|error: StrategicError| Status::new(422, "Invalid", error.to_string()))
        }
    }
}

/// The scale that a patch makes of one.
pub(crate) fn patched_scale(request: &Request, shown: &Value) -> Result<Value, Status> {
    let media = request.media_type();
    let patch = match media.as_str() {
        "application/apply-patch+yaml" => body::yaml_tree(&request.body)?,
        _ => body::json_tree(&request.body)?,
    };
    match media.as_str() {
        "application/json-patch+json" => json_patch::apply(shown.clone(), &patch).map_err(|_error| {
            Status::new(422, "Invalid", "the server rejected our request due to an error in our request")
        }),
        "application/merge-patch+json"
        | "application/strategic-merge-patch+json"
        | "application/apply-patch+yaml" => Ok(merge_patch::apply(shown.clone(), &patch)),
        _ => {
            Err(Status::new(415, "UnsupportedMediaType", "the body of the request was in an unknown format"))
        }
    }
}

/// Server-side apply.
fn apply(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    if request.query.get("fieldManager").unwrap_or("").is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(Status::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    let options = Options::parse(request, "PatchOptions")?;
    let mut config = body::yaml_tree(&request.body)?;
    if access::text(&config, "apiVersion").is_empty() || access::text(&config, "kind").is_empty() {
        return Err(Status::bad_request(format!(
            "invalid object type: {}",
            if config.is_object() { "apiVersion and kind must be set" } else { "not an object" }
        )));
    }
    let expected = answer::api_version(resource);
    if access::text(&config, "apiVersion") != expected || access::text(&config, "kind") != resource.kind {
        return Err(Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({expected})",
            access::text(&config, "apiVersion")
        )));
    }
    let name = access::name(&config);
    if !name.is_empty() && name != place.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            place.name
        )));
    }
    access::metadata_mut(&mut config).insert("name".to_owned(), json!(place.name));
    settle_place(resource, place, &mut config)?;
    let key = state.key(resource, &place.namespace, &place.name);
    let old = state.store.get(&key).map(|stored| crate::read::present(resource, stored));
    let uid = access::uid(&config);
    if old.is_none() && !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&resource.group, &resource.plural, &place.name, &why));
    }
    let writer = Writer { manager: request.manager(), subresource: &place.subresource, now: request.now };
    let force = request.query.flag("force");
    let merged = books::apply(resource, old.as_ref(), &config, force, writer)?;
    let text = merged.to_string();
    let Body { object, warnings } = body::decode(resource, merged, &text, options.validation)?;
    let (code, applied) = match old {
        Some(old) => {
            let subresource = &place.subresource;
            let done = Booking::Done;
            (200, update_object(state, request, resource, &key, &old, object, subresource, &options, done)?)
        }
        None if !place.subresource.is_empty() => {
            return Err(Status::not_found(&resource.group, &resource.plural, &place.name));
        }
        None => (201, create_object(state, request, resource, place, object, &options, Booking::Done)?),
    };
    Ok(Reply::Object { code, value: answer::one(form, resource, applied, request.now), warnings })
}
