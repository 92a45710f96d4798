//! `create`, `update` and what they share with patches: admission, books, storing.

mod body;
mod check;
mod patch;

use std::fmt::Write as _;

use serde_json::{Value, json};
use tiphys_object::access;

use crate::answer::{self, Form, Reply};
use crate::books::{self, Writer};
use crate::request::{Place, Request};
use crate::resource::Resource;
use crate::state::{State, finalizers, is_terminating};
use crate::status::{FieldError, Status};
use crate::store::Key;
use crate::{crd, defaults, strategy, validate};

pub(crate) use body::{Body, Validation, json_value, options_tree, read as read_body, tree as body_tree};
use check::{
    check_definition, check_namespace, check_new_finalizers, check_preconditions, makes_by_update,
    refuse_invalid, refuse_too_large, wants_version,
};
pub(crate) use check::{check_name, settle_place};
pub(crate) use patch::{applied_scale, patch, patched_scale};

/// Options every write has.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) is_dry: bool,
    pub(crate) validation: Validation,
}

impl Options {
    /// Reads `dryRun`, `fieldManager` and `fieldValidation`; `kind` is how refusals call the options.
    pub(crate) fn parse(request: &Request, kind: &str) -> Result<Self, Status> {
        Self::parse_after(request, kind, Vec::new())
    }

    /// The same with errors that were found before.
    pub(crate) fn parse_after(
        request: &Request,
        kind: &str,
        mut errors: Vec<FieldError>,
    ) -> Result<Self, Status> {
        let manager = request.query.get("fieldManager").unwrap_or("");
        if manager.len() > 128 {
            let message = "Too long: may not be more than 128 bytes".to_owned();
            errors.push(FieldError {
                reason: "FieldValueTooLong",
                field: "fieldManager".to_owned(),
                message,
            });
        }
        for (at, letter) in manager.char_indices().filter(|(_, letter)| letter.is_control()) {
            errors.push(FieldError {
                reason: "FieldValueInvalid",
                field: "fieldManager".to_owned(),
                message: format!(
                    "Invalid value: {}: invalid character U+{:04X} (at position {at})",
                    go_quoted(manager),
                    u32::from(letter)
                ),
            });
        }
        let is_dry = dry_run(request, &mut errors);
        let validation = match request.query.get("fieldValidation").unwrap_or("") {
            "" | "Warn" => Validation::Warn,
            "Ignore" => Validation::Ignore,
            "Strict" => Validation::Strict,
            other => {
                let allowed = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", &json!(other), &allowed));
                Validation::Warn
            }
        };
        if errors.is_empty() {
            Ok(Self { is_dry, validation })
        } else {
            Err(Status::invalid("meta.k8s.io", kind, "", &errors))
        }
    }
}

/// A text as Go quotes it.
fn go_quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            letter if letter.is_control() => {
                let _infallible = write!(quoted, "\\x{:02x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Reads `dryRun`.
pub(crate) fn dry_run(request: &Request, errors: &mut Vec<FieldError>) -> bool {
    let given: Vec<&str> = request.query.all("dryRun").filter(|value| !value.is_empty()).collect();
    if given.iter().any(|value| *value != "All") {
        errors.push(FieldError::not_supported("dryRun", &json!(given), &["All"]));
    }
    !given.is_empty()
}

/// `POST` to a collection.
pub(crate) fn create(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    let options = Options::parse(request, "CreateOptions")?;
    let Body { object, warnings } = body::read(request, resource, options.validation)?;
    if !matches!(access::text_at(&object, &["metadata", "resourceVersion"]), "" | "0") {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::new(500, "", message));
    }
    let made = create_object(state, request, resource, place, object, &options, Booking::Update)?;
    let value = answer::one(form, resource, made, request.now);
    Ok(Reply::Object { code: 201, value, warnings })
}

/// How a write is booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Booking {
    /// As the manager's update.
    Update,
    /// It has been: server-side apply.
    Done,
}

/// Makes an object out of one that has been read.
pub(crate) fn create_object(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    mut object: Value,
    options: &Options,
    booking: Booking,
) -> Result<Value, Status> {
    settle_place(resource, place, &mut object)?;
    if access::name(&object).is_empty() {
        let prefix = access::text_at(&object, &["metadata", "generateName"]).to_owned();
        if prefix.is_empty() {
            let error = FieldError::required("metadata.name", "name or generateName is required");
            return Err(Status::invalid(&resource.group, &resource.kind, "", &[error]));
        }
        // A generated name has at most 63 letters.
        let kept: String = prefix.chars().take(58).collect();
        let name = format!("{kept}{}", state.draw.rng.suffix(5));
        access::metadata_mut(&mut object).insert("name".to_owned(), json!(name));
    }
    let name = access::name(&object).to_owned();
    let namespace = access::namespace(&object).to_owned();
    check_namespace(state, resource, &namespace, &name)?;
    state.stamp(&mut object, request.now);
    default(resource, &mut object);
    if booking == Booking::Update {
        let writer = Writer { manager: request.manager(), subresource: "", now: request.now };
        object = books::update(resource, None, object, writer);
    }
    crate::admission::check(state, resource, &object)?;
    strategy::prepare_create(resource, &mut object, &mut state.draw);
    if is_definition(resource) {
        check_definition(&object, None)?;
    }
    refuse_invalid(resource, &name, &validate::create(resource, &object))?;
    let key = state.key(resource, &namespace, &name);
    if let Some(there) = state.store.get(&key) {
        let mut status = Status::already_exists(&resource.group, &resource.plural, &name);
        if is_terminating(&there.tree()) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        return Err(status);
    }
    prune_for_storage(resource, &mut object);
    if options.is_dry {
        return Ok(object);
    }
    refuse_too_large(&object)?;
    let made = crate::read::shown(resource, state.commit(&key, object));
    if is_definition(resource) {
        establish(state, &key, made.clone(), request);
    }
    Ok(made)
}

/// `PUT` of one object or of its status.
pub(crate) fn replace(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    let options = Options::parse(request, "UpdateOptions")?;
    let Body { mut object, warnings } = body::read(request, resource, options.validation)?;
    check_name(&object, place)?;
    settle_place(resource, place, &mut object)?;
    let version = access::text_at(&object, &["metadata", "resourceVersion"]);
    if !version.is_empty() && version.parse::<u64>().is_err() {
        let message = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
        return Err(Status::new(500, "", message));
    }
    let key = state.key(resource, &place.namespace, &place.name);
    let Some(old) = state.store.get(&key) else {
        if makes_by_update(resource) && matches!(version, "" | "0") && place.subresource.is_empty() {
            let made = create_object(state, request, resource, place, object, &options, Booking::Update)?;
            let value = answer::one(form, resource, made, request.now);
            return Ok(Reply::Object { code: 201, value, warnings });
        }
        return Err(Status::not_found(&resource.group, &resource.plural, &place.name));
    };
    let old = crate::read::present(resource, old);
    if access::text_at(&object, &["metadata", "resourceVersion"]).is_empty() && wants_version(resource) {
        let (kind, zero) = match resource.custom {
            Some(_) => (&resource.plural, "0"),
            None => (&resource.kind, "0x0"),
        };
        let error = FieldError {
            reason: "FieldValueInvalid",
            field: "metadata.resourceVersion".to_owned(),
            message: format!("Invalid value: {zero}: must be specified for an update"),
        };
        return Err(Status::invalid(&resource.group, kind, &place.name, &[error]));
    }
    let subresource = &place.subresource;
    let change = Change { key: &key, old: &old, new: object, subresource, booking: Booking::Update };
    let changed = update_object(state, request, resource, &options, change)?;
    let value = answer::one(form, resource, changed, request.now);
    Ok(Reply::Object { code: 200, value, warnings })
}

/// What becomes of one object.
pub(crate) struct Change<'a> {
    /// Where it is stored.
    pub key: &'a Key,
    /// As it is, in the version of the request.
    pub old: &'a Value,
    /// As it was asked for.
    pub new: Value,
    /// Part of it that may change; empty for the object itself.
    pub subresource: &'a str,
    /// What happens to its `managedFields`.
    pub booking: Booking,
}

/// Puts a changed object in the place of the old one. What comes back is the object as it then is.
pub(crate) fn update_object(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    options: &Options,
    change: Change<'_>,
) -> Result<Value, Status> {
    let Change { key, old, mut new, subresource, booking } = change;
    check_preconditions(resource, key, old, &new, &request.method)?;
    default(resource, &mut new);
    if booking == Booking::Update {
        let writer = Writer { manager: request.manager(), subresource, now: request.now };
        new = books::update(resource, Some(old), new, writer);
    }
    strategy::prepare_update(resource, old, &mut new, subresource, &mut state.draw);
    carry_over(old, &mut new);
    if is_definition(resource) && subresource.is_empty() {
        check_definition(&new, Some(old))?;
    }
    refuse_invalid(resource, &key.name, &validate::update(resource, old, &new))?;
    check_new_finalizers(resource, key, old, &new)?;
    if options.is_dry {
        return Ok(new);
    }
    if is_same(old, &new) {
        return Ok(old.clone());
    }
    if is_terminating(&new) && finalizers(&new).is_empty() && is_released(&new) {
        // The last finalizer is gone: so is the object.
        state.erase(key);
        return Ok(new);
    }
    prune_for_storage(resource, &mut new);
    refuse_too_large(&new)?;
    let changed = crate::read::shown(resource, state.commit(key, new));
    if is_definition(resource) && subresource.is_empty() {
        establish(state, key, changed.clone(), request);
    }
    Ok(changed)
}

/// Whether nothing but finalizers keeps a terminating object: no time of grace, no contents.
fn is_released(object: &Value) -> bool {
    let grace = access::at(object, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
    let held = access::text(object, "kind") == "Namespace"
        && access::at(object, &["spec", "finalizers"])
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty());
    grace.unwrap_or(0) == 0 && !held
}

/// Whether two objects are equal, the times in their books aside.
fn is_same(old: &Value, new: &Value) -> bool {
    are_same_but(old, new, "metadata", |old, new| {
        are_same_but(old, new, "managedFields", |old, new| match (old, new) {
            (Value::Array(old), Value::Array(new)) => {
                let mut pairs = old.iter().zip(new);
                old.len() == new.len() && pairs.all(|(old, new)| are_same_but(old, new, "time", |_, _| true))
            }
            (old, new) => old == new,
        })
    })
}

/// Whether two objects are equal, where one member is compared in its own way.
fn are_same_but(old: &Value, new: &Value, member: &str, same: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Value::Object(before), Value::Object(after)) = (old, new) else { return old == new };
    before.len() == after.len()
        && before.iter().all(|(name, value)| match after.get(name) {
            Some(other) if name == member => same(value, other),
            other => other == Some(value),
        })
}

/// Metadata that no writer sets.
fn carry_over(old: &Value, new: &mut Value) {
    let before = old.get("metadata").cloned().unwrap_or(Value::Null);
    let metadata = access::metadata_mut(new);
    for member in
        ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"]
    {
        match before.get(member) {
            Some(value) => metadata.insert(member.to_owned(), value.clone()),
            None => metadata.remove(member),
        };
    }
    metadata.remove("selfLink");
}

/// Fills in, and prunes what a custom resource may not hold.
fn default(resource: &Resource, object: &mut Value) {
    if let Some(custom) = &resource.custom {
        if !custom.preserves_unknown {
            custom.structural.prune(object);
        }
        custom.structural.fill_in(object);
    } else {
        defaults::fill_in(&gvk(resource), object);
        strategy::fill_in(resource, object);
    }
}

/// Takes away what the version that custom objects are stored in does not know.
fn prune_for_storage(resource: &Resource, object: &mut Value) {
    if let Some(stored) = resource.custom.as_ref().and_then(|custom| custom.stored_as.as_ref()) {
        stored.prune(object);
    }
}

/// The kind of a resource.
pub(crate) fn gvk(resource: &Resource) -> tiphys_object::Gvk {
    tiphys_object::Gvk::new(&resource.group, &resource.version, &resource.kind)
}

pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
}

/// What controllers of definitions do right after a write, before anybody asks again: names, status, finalizer.
fn establish(state: &mut State, key: &Key, mut definition: Value, request: &Request) {
    let before = definition.clone();
    let cleanup = smol_str::SmolStr::from(crate::controllers::CRD_CLEANUP);
    let mut kept = finalizers(&definition);
    if !is_terminating(&definition) && !kept.contains(&cleanup) {
        kept.push(cleanup);
        crate::state::set_finalizers(&mut definition, &kept);
    }
    let status = crd::status(&definition, &state.registry, &crate::clock::seconds(request.now));
    if !status.is_null() {
        access::ensure_object(&mut definition).insert("status".to_owned(), status);
    }
    if definition != before {
        state.commit(key, definition);
    }
}
