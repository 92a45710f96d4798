//! `PATCH`: the four kinds of patches.

use serde_json::{Value, json};
use tiphys_object::strategic::{self, StrategicError};
use tiphys_object::structured::go_text;
use tiphys_object::{Gvk, access, json_patch, merge_patch};

use crate::answer::{self, Form, Reply};
use crate::books::{self, Writer};
use crate::request::{Place, Request};
use crate::resource::{Resource, Scope};
use crate::state::State;
use crate::status::{FieldError, Status};

use super::body::{self, Body, KindProblem};
use super::{
    Booking, Change, Options, Validation, check_name, create_object, gvk, settle_place, update_object,
};

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
    let mut first = Vec::new();
    if request.query.get("force").is_some_and(|force| !force.is_empty()) {
        first.push(FieldError::forbidden("force", "may not be specified for non-apply patch"));
    }
    let options = Options::parse_after(request, "PatchOptions", first)?;
    let key = state.key(resource, &place.namespace, &place.name);
    let Some(old) = state.store.get(&key) else {
        return Err(Status::not_found(&resource.group, &resource.plural, &place.name));
    };
    let old = crate::read::present(resource, old);
    let patched = patched(request, resource, &media, &old, options.validation)?;
    let Body { mut object, warnings } = decode_patched(resource, patched, options.validation)?;
    check_name(&object, place)?;
    settle_place(resource, place, &mut object)?;
    let subresource = &place.subresource;
    let change = Change { key: &key, old: &old, new: object, subresource, booking: Booking::Update };
    let changed = update_object(state, request, resource, &options, change)?;
    Ok(Reply::Object { code: 200, value: answer::one(form, resource, changed, request.now), warnings })
}

/// What a patch made of an object.
struct Patched {
    object: Value,
    /// How a refusal shows what was made.
    shown: String,
    is_strategic: bool,
    warnings: Vec<String>,
}

fn decode_patched(resource: &Resource, patched: Patched, validation: Validation) -> Result<Body, Status> {
    let Patched { object, shown, is_strategic, warnings } = patched;
    let text = object.to_string();
    let refuse = |why: String| {
        let converted = is_strategic.then(|| converter_problem(&why)).flatten();
        refused_patch(&shown, &converted.unwrap_or(why))
    };
    if let Some(other) = body::other_kind(resource, &object)
        && let Err(why) = crate::strict::decode(&other, object.clone())
    {
        return Err(refuse(why));
    }
    let object = match body::named_kind(resource, object) {
        Ok(object) => object,
        Err(KindProblem::Version(given)) if resource.custom.is_some() => {
            let expected = resource.api_version();
            return Err(Status::bad_request(format!(
                "the API version in the data ({given}) does not match the expected API version ({expected})"
            )));
        }
        Err(problem) => return Err(refuse(problem.why())),
    };
    let mut body = body::decode_text(resource, object, &text, validation).map_err(refuse)?;
    body.warnings.extend(warnings);
    Ok(body)
}

/// The words of the converter of trees, which reads what a strategic patch made, for those of the reader of JSON.
fn converter_problem(why: &str) -> Option<String> {
    let (said, kind) = why.strip_prefix("json: cannot unmarshal ")?.rsplit_once(" of type ")?;
    // Go turns a number into a text, though not as anybody would expect.
    let is_number = said.starts_with("number") && kind == "string";
    Some(if is_number {
        "cannot convert int64 to string".to_owned()
    } else {
        format!("unrecognized type: {kind}")
    })
}

fn refused_patch(shown: &str, why: &str) -> Status {
    Status::invalid("", "", "", &[FieldError::invalid("patch", &json!(shown), why)])
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
    if resource.custom.is_none() {
        return Err(Status::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").detailed());
    }
    let listed = accepted.join(", ");
    let message =
        format!("the body of the request was in an unknown format - accepted media types include: {listed}");
    Err(Status::new(415, "UnsupportedMediaType", message))
}

/// The object that a patch makes of the old one.
fn patched(
    request: &Request,
    resource: &Resource,
    media: &str,
    old: &Value,
    validation: Validation,
) -> Result<Patched, Status> {
    let is_strategic = media == "application/strategic-merge-patch+json";
    let refuse = |why: String| {
        Status::bad_request(if is_strategic { why } else { format!("error decoding patch: {why}") })
    };
    let patch = body::json_value(&request.body).map_err(refuse)?;
    let mut warnings = Vec::new();
    let object = match media {
        "application/json-patch+json" => {
            let Value::Array(operations) = &patch else {
                let kind = body::json_type(&patch);
                return Err(refuse(format!(
                    "json: cannot unmarshal {kind} into Go value of type []handlers.jsonPatchOp"
                )));
            };
            let object = json_patch::apply(old.clone(), &patch).map_err(|_error| Status::rejected())?;
            let odd = odd_members(operations);
            if validation == Validation::Strict && !odd.is_empty() {
                let why = format!("strict decoding error: {}", odd.join(", "));
                return Err(refused_patch(&object.to_string(), &why));
            }
            if validation == Validation::Warn {
                warnings = odd;
            }
            object
        }
        _ if !patch.is_object() => {
            let kind = body::json_type(&patch);
            return Err(refuse(format!(
                "json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
            )));
        }
        "application/merge-patch+json" => merge_patch::apply(old.clone(), &patch),
        _ => strategic::apply(&gvk(resource), old.clone(), &patch, strategic::Options::default())
            .map_err(|error| refuse_strategic(&error, &patch))?,
    };
    let shown = if is_strategic { go_text(&patch) } else { object.to_string() };
    Ok(Patched { object, shown, is_strategic, warnings })
}

/// Members that operations of a JSON patch do not have.
fn odd_members(operations: &[Value]) -> Vec<String> {
    let mut odd = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        for name in operation.as_object().into_iter().flatten().map(|(name, _)| name) {
            if !matches!(name.as_str(), "op" | "from" | "path" | "value") {
                odd.push(format!("json patch unknown field \"[{index}].{name}\""));
            }
        }
    }
    odd
}

/// Most of what is wrong with a strategic patch is only found when it is carried out, and taken for the server's
/// fault.
fn refuse_strategic(error: &StrategicError, patch: &Value) -> Status {
    let failed = |why: String| Status::new(500, "", why);
    match error {
        StrategicError::NoMergeKey(key) => {
            let item = find(patch, &|one| one.is_object() && one.get(key).is_none(), true);
            let item = item.map_or_else(String::new, go_text);
            failed(format!("map: {item} does not contain declared merge key: {key}"))
        }
        StrategicError::Directive(name) if name == "$patch" => {
            let known = |one: &Value| matches!(one.as_str(), Some("merge" | "replace" | "delete"));
            let item = find(patch, &|one| one.get("$patch").is_some_and(|kind| !known(kind)), false);
            let kind = item.and_then(|item| item.get("$patch")).map_or_else(String::new, go_text);
            let item = item.map_or_else(String::new, go_text);
            failed(format!("unknown patch type: {kind} in map: {item}"))
        }
        StrategicError::Directive(_) => Status::bad_request(error.to_string()),
        StrategicError::UnknownField { .. } => failed(error.to_string()),
        _ => Status::new(422, "Invalid", error.to_string()),
    }
}

/// The first value below `value` that is looked for; only items of lists when `in_list`.
fn find<'a>(value: &'a Value, is_meant: &dyn Fn(&Value) -> bool, in_list: bool) -> Option<&'a Value> {
    if !in_list && is_meant(value) {
        return Some(value);
    }
    match value {
        Value::Object(members) => members.values().find_map(|one| find(one, is_meant, in_list)),
        Value::Array(items) => items
            .iter()
            .find(|one| is_meant(one))
            .or_else(|| items.iter().find_map(|one| find(one, is_meant, in_list))),
        _ => None,
    }
}

/// The scale that a patch makes of one.
pub(crate) fn patched_scale(request: &Request, shown: &Value) -> Result<Value, Status> {
    let media = request.media_type();
    let patch = match media.as_str() {
        "application/apply-patch+yaml" => body::yaml_tree(&request.body)?,
        _ => body::json_value(&request.body)
            .map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))?,
    };
    match media.as_str() {
        "application/json-patch+json" => {
            json_patch::apply(shown.clone(), &patch).map_err(|_error| Status::rejected())
        }
        "application/merge-patch+json"
        | "application/strategic-merge-patch+json"
        | "application/apply-patch+yaml" => Ok(merge_patch::apply(shown.clone(), &patch)),
        _ => {
            Err(Status::new(415, "UnsupportedMediaType", "the body of the request was in an unknown format"))
        }
    }
}

/// What an applied scale says about the object that it is of.
pub(crate) fn applied_scale(
    request: &Request,
    resource: &Resource,
    place: &Place,
    path: &str,
) -> Result<Value, Status> {
    let scale = body::yaml_tree(&request.body)?;
    let mut config = json!({"apiVersion": resource.api_version(), "kind": resource.kind,
        "metadata": {"name": place.name, "namespace": place.namespace}});
    if let Some(replicas) = access::at(&scale, &["spec", "replicas"]) {
        let mut below = &mut config;
        for member in path.trim_start_matches('.').split('.') {
            below = access::ensure_object(below).entry(member).or_insert(Value::Null);
        }
        below.clone_from(replicas);
    }
    Ok(config)
}

/// Server-side apply.
fn apply(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    let mut first = Vec::new();
    if request.query.get("fieldManager").unwrap_or("").is_empty() {
        first.push(FieldError::required("fieldManager", "is required for apply patch"));
    }
    let options = Options::parse_after(request, "PatchOptions", first)?;
    let mut config = body::yaml_tree(&request.body)?;
    let (version, kind) = (access::text(&config, "apiVersion"), access::text(&config, "kind"));
    let gvk = Gvk::from_api_version(version, kind);
    if kind.is_empty() || kind != resource.kind || version != resource.api_version() {
        let message = format!("invalid object type: {}/{}, Kind={kind}", gvk.group, gvk.version);
        return Err(Status::bad_request(message));
    }
    let key = state.key(resource, &place.namespace, &place.name);
    let old = state.store.get(&key).map(|stored| crate::read::present(resource, stored));
    let writer = Writer { manager: request.manager(), subresource: &place.subresource, now: request.now };
    let force = request.query.flag("force");
    let namespace = access::namespace(&config).to_owned();
    if resource.scope == Scope::Namespaced {
        access::metadata_mut(&mut config).insert("namespace".to_owned(), json!(place.namespace));
    }
    let mut merged = books::apply(resource, old.as_ref(), &config, &namespace, force, writer)?;
    if !namespace.is_empty() {
        access::metadata_mut(&mut merged).insert("namespace".to_owned(), json!(namespace));
    }
    let uid = access::uid(&config);
    if old.is_none() && !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(Status::conflict(&resource.group, &resource.plural, &place.name, &why));
    }
    check_name(&config, place)?;
    settle_place(resource, place, &mut merged)?;
    let text = merged.to_string();
    let Body { object, warnings } = body::decode(resource, merged, &text, options.validation)?;
    let (code, applied) = match old {
        Some(old) => {
            let subresource = &place.subresource;
            let change = Change { key: &key, old: &old, new: object, subresource, booking: Booking::Done };
            (200, update_object(state, request, resource, &options, change)?)
        }
        None if !place.subresource.is_empty() => {
            return Err(Status::not_found(&resource.group, &resource.plural, &place.name));
        }
        None => (201, create_object(state, request, resource, place, object, &options, Booking::Done)?),
    };
    Ok(Reply::Object { code, value: answer::one(form, resource, applied, request.now), warnings })
}
