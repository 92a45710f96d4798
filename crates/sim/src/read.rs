//! `get` and `list`.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use smol_str::SmolStr;

use crate::answer::{self, Form, Reply};
use crate::request::{Place, Query, Request};
use crate::resource::Resource;
use crate::select::Filter;
use crate::state::State;
use crate::status::{Cause, FieldError, Status};
use crate::store::{Kind, Objects, Stored};

/// An object as a version of its resource shows it.
pub(crate) fn present(resource: &Resource, stored: &Stored) -> Value {
    shown(resource, stored.tree())
}

/// The same for an object whose bytes are as they are stored: most of them.
pub(crate) fn present_bytes(resource: &Resource, stored: &Stored) -> Option<Bytes> {
    stored.is_shown_by(&resource.api_version(), &resource.kind).then(|| stored.json.clone())
}

/// The tree of a stored object as a version of its resource shows it.
pub(crate) fn shown(resource: &Resource, tree: Value) -> Value {
    let mut tree = resource.view(tree);
    if let Some(members) = tree.as_object_mut() {
        members.insert("kind".to_owned(), json!(resource.kind));
    }
    tree
}

/// `GET` of one object.
pub(crate) fn get(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    wait_version(state, &request.query)?;
    let key = state.key(resource, &place.namespace, &place.name);
    let stored = state.store.get(&key);
    // These have no storage, and call themselves so.
    let called = if resource.plural == "componentstatuses" { "componentstatus" } else { &resource.plural };
    let stored = stored.ok_or_else(|| Status::not_found(&resource.group, called, &place.name))?;
    let warns = resource.custom.as_ref().is_some_and(|custom| custom.warning.is_some());
    if form == Form::Plain
        && !warns
        && !answer::is_yaml(&request.accept)
        && let Some(bytes) = present_bytes(resource, stored)
    {
        return Ok(Reply::Bytes { content_type: "application/json", bytes });
    }
    Ok(Reply::ok(answer::one(form, resource, present(resource, stored), request.now)))
}

/// `GET` of a collection.
pub(crate) fn list(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    let filter = Filter::parse(&request.query, resource)?;
    let mut page = Page::parse(state, &request.query)?;
    if request.fault.writes_behind > 0 && page.is_current {
        page.version = behind_version(state, request.fault.writes_behind).max(page.oldest);
        page.is_current = page.version == state.store.version();
    }
    if request.fault.is_expired && page.start.is_some() {
        return Err(page.expired());
    }
    let kind = state.kind(resource);
    let snapshot = page.snapshot(state, &kind)?;
    let objects = match &snapshot {
        Some(objects) => Some(objects),
        None => state.store.objects(&kind),
    };
    let objects = objects.filter(|_| !request.fault.is_empty);
    let mut found = Vec::new();
    let mut next = None;
    let mut remaining = 0_u64;
    let limit = page.limit.unwrap_or(usize::MAX);
    for (path, stored) in
        objects.into_iter().flat_map(|all| within(all, &place.namespace, page.start.as_deref()))
    {
        if found.len() >= limit {
            if next.is_none() {
                next = Some(path.clone());
            }
            remaining += 1;
            if filter.is_everything() {
                continue;
            }
            break;
        }
        let object = present(resource, stored);
        if filter.matches(&object) {
            found.push(object);
        }
    }
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), json!(page.version.to_string()));
    if resource.custom.is_some() && form == Form::Plain {
        metadata.insert("continue".to_owned(), json!(""));
    }
    if let Some(next) = next {
        metadata.insert("continue".to_owned(), json!(token(page.version, &next)));
        if filter.is_everything() {
            metadata.insert("remainingItemCount".to_owned(), json!(remaining));
        }
    }
    Ok(Reply::ok(answer::list(form, resource, found, Value::Object(metadata), request.now)))
}

/// Objects of one namespace, or all when it is empty, from a path on.
pub(crate) fn within<'a>(
    objects: &'a Objects,
    namespace: &str,
    start: Option<&str>,
) -> impl Iterator<Item = (&'a SmolStr, &'a Stored)> {
    let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
    let begin = start.filter(|start| *start > prefix.as_str()).unwrap_or(&prefix).to_owned();
    objects
        .range(SmolStr::from(begin)..)
        .take_while(move |(path, _)| prefix.is_empty() || path.starts_with(&prefix))
}

/// Which part of a list is asked for, as of when.
struct Page {
    limit: Option<usize>,
    /// The path to go on from.
    start: Option<String>,
    version: u64,
    is_current: bool,
    /// The version that the answer must not be older than, also where it comes from a copy that is behind.
    oldest: u64,
}

impl Page {
    fn parse(state: &State, query: &Query) -> Result<Self, Status> {
        query.number("timeoutSeconds")?;
        let limit = query.number("limit")?.filter(|limit| *limit > 0);
        let limit = limit.and_then(|limit| usize::try_from(limit).ok());
        let text = query.get("resourceVersion").unwrap_or("");
        let rule = query.get("resourceVersionMatch").unwrap_or("");
        let given = query.get("continue").filter(|given| !given.is_empty());
        let errors = list_errors(query, text, rule, given.is_some());
        if !errors.is_empty() {
            return Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors));
        }
        let current = state.store.version();
        if let Some(given) = given {
            if !matches!(text, "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let (version, start) = read_token(given).map_err(|why| {
                Status::bad_request(format!("invalid continue token: continue key is not valid: {why}"))
            })?;
            return Ok(Self {
                limit,
                start: Some(start),
                version,
                is_current: version == current,
                oldest: 0,
            });
        }
        let asked = version_of(text)
            .map_err(|status| Status::bad_request(format!("invalid resource version: {}", status.message)))?;
        if asked > current {
            return Err(too_large(asked, current));
        }
        // Whatever is there, in one piece: no pages are kept of it.
        let limit = limit.filter(|_| text != "0");
        let is_exact = rule == "Exact" || (rule.is_empty() && limit.is_some() && asked > 0);
        let version = if is_exact { asked } else { current };
        let oldest = if rule == "NotOlderThan" { asked } else { 0 };
        Ok(Self { limit, start: None, version, is_current: version == current, oldest })
    }

    /// The objects as of an earlier version; `None` when the present ones are meant.
    fn snapshot(&self, state: &State, kind: &Kind) -> Result<Option<Objects>, Status> {
        if self.is_current {
            return Ok(None);
        }
        state.store.objects_at(kind, self.version).map(Some).map_err(|_compacted| self.expired())
    }

    fn expired(&self) -> Status {
        if self.start.is_some() {
            Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can \
                     start a new list without the continue parameter, or use the continue token in this response \
                     to retrieve the remainder of the results. Continuing with the provided token results in an \
                     inconsistent list - objects that were created, modified, or deleted between the time the \
                     first chunk was returned and now may show up in the list.",
            )
        } else {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
    }
}

/// A version some writes ago, as far as the log reaches.
fn behind_version(state: &State, behind: u64) -> u64 {
    state.store.version().saturating_sub(behind).max(state.store.compacted())
}

/// A resource version out of a query; empty is 0.
pub(crate) fn version_of(text: &str) -> Result<u64, Status> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_error| {
        Status::bad_request(format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        ))
    })
}

/// Refuses versions that are not there yet.
fn wait_version(state: &State, query: &Query) -> Result<(), Status> {
    let asked = version_of(query.get("resourceVersion").unwrap_or(""));
    let asked = asked.map_err(|mut status| {
        status.code = 500;
        status.reason = "";
        status
    })?;
    let current = state.store.version();
    if asked > current { Err(too_large(asked, current)) } else { Ok(()) }
}

fn too_large(asked: u64, current: u64) -> Status {
    let message = format!("Too large resource version: {asked}, current: {current}");
    let cause = Cause {
        reason: "ResourceVersionTooLarge".to_owned(),
        message: "Too large resource version".to_owned(),
        field: String::new(),
    };
    let mut status = Status::new(504, "Timeout", format!("Timeout: {message}")).caused_by([cause]);
    status.details.insert("retryAfterSeconds".to_owned(), json!(1));
    status
}

/// What is wrong with the options of a list.
fn list_errors(query: &Query, text: &str, rule: &str, continues: bool) -> Vec<FieldError> {
    let field = "resourceVersionMatch";
    let mut errors = Vec::new();
    if !rule.is_empty() {
        if text.is_empty() {
            let why = "resourceVersionMatch is forbidden unless resourceVersion is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if continues {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            errors.push(FieldError::forbidden(field, why));
        }
        if !matches!(rule, "Exact" | "NotOlderThan") {
            let known = ["Exact", "NotOlderThan", ""];
            errors.push(FieldError::not_supported(field, &json!(rule), &known));
        }
        if rule == "Exact" && text == "0" {
            let why = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
            errors.push(FieldError::forbidden(field, why));
        }
    }
    if query.get("sendInitialEvents").is_some_and(|said| !said.is_empty()) {
        let why = "sendInitialEvents is forbidden for list";
        errors.push(FieldError::forbidden("sendInitialEvents", why));
    }
    errors
}

fn token(version: u64, start: &str) -> String {
    let inner = json!({"v": "meta.k8s.io/v1", "rv": version, "start": start});
    URL_SAFE_NO_PAD.encode(inner.to_string())
}

fn read_token(text: &str) -> Result<(u64, String), String> {
    let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).map_err(|error| match error {
        base64::DecodeError::InvalidByte(at, _) => format!("illegal base64 data at input byte {at}"),
        _ => format!("illegal base64 data at input byte {}", text.len()),
    })?;
    if let Some(first) = bytes.first().filter(|first| !first.is_ascii()) {
        return Err(format!("invalid character '\\u{first:04x}' looking for beginning of value"));
    }
    let inner = crate::write::json_value(&bytes)?;
    let version = inner.get("rv").and_then(Value::as_u64);
    let start = inner.get("start").and_then(Value::as_str);
    let (Some(version), Some(start)) = (version, start) else {
        return Err("server sent invalid token".to_owned());
    };
    Ok((version, start.to_owned()))
}

/// The resource at a place.
pub(crate) fn resource(state: &State, place: &Place) -> Result<Arc<Resource>, Status> {
    let found = state.registry.find(&place.group, &place.version, &place.plural);
    found.cloned().ok_or_else(|| missing(state, &place.group))
}

/// Groups of custom resources, and groups that are not there, answer with less than built-in ones.
pub(crate) fn missing(state: &State, group: &str) -> Status {
    let is_builtin = state.registry.iter().any(|one| one.group == group && one.custom.is_none());
    if is_builtin { Status::no_such_path() } else { Status::no_such_page() }
}
