//! `create`, `update` and what they share with patches: admission, books, storing.

mod body;
mod patch;

use serde_json::{Value, json};
use tiphys_object::access;

use crate::answer::{self, Form, Reply};
use crate::books::{self, Writer};
use crate::request::{Place, Request};
use crate::resource::{Resource, Scope};
use crate::state::{State, finalizers, is_terminating};
use crate::status::{Cause, FieldError, Status};
use crate::store::Key;
use crate::{crd, defaults, strategy, validate};

pub(crate) use body::{Body, Validation, read as read_body, tree as body_tree};
pub(crate) use patch::{patch, patched_scale};

/// Options every write has.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) is_dry: bool,
    pub(crate) validation: Validation,
}

/// Kinds whose definition wants a version with every replacement.
const CONDITIONAL: &[(&str, &str)] = &[
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("policy", "poddisruptionbudgets"),
];

impl Options {
    /// Reads `dryRun`, `fieldManager` and `fieldValidation`; `kind` is how refusals call the options.
    pub(crate) fn parse(request: &Request, kind: &str) -> Result<Self, Status> {
        let mut errors = Vec::new();
        let is_dry = dry_run(request, &mut errors);
        let manager = request.query.get("fieldManager").unwrap_or("");
        if manager.len() > 128 {
            let message = "Too long: may not be more than 128 bytes".to_owned();
            errors.push(FieldError {
                reason: "FieldValueTooLong",
                field: "fieldManager".to_owned(),
                message,
            });
        }
        if manager.chars().any(|letter| !letter.is_ascii_graphic() && letter != ' ' && letter.is_control()) {
            errors.push(FieldError::invalid(
                "fieldManager",
                &json!(manager),
                "should only contain printable characters",
            ));
        }
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
    crate::admission::check(state, resource, &object)?;
    strategy::prepare_create(resource, &mut object, &mut state.draw);
    if is_definition(resource) {
        finish_definition(state, &mut object, None, request)?;
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
    if booking == Booking::Update {
        let writer = Writer { manager: request.manager(), subresource: "", now: request.now };
        object = books::update(resource, None, object, writer);
    }
    if options.is_dry {
        return Ok(object);
    }
    let stored = state.commit(&key, object);
    Ok(crate::read::present(resource, &stored))
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
    settle_place(resource, place, &mut object)?;
    let name = access::name(&object);
    if name != place.name {
        let message = if name.is_empty() {
            "resource name may not be empty".to_owned()
        } else {
            format!("the name of the object ({name}) does not match the name on the URL ({})", place.name)
        };
        return Err(Status::bad_request(message));
    }
    let key = state.key(resource, &place.namespace, &place.name);
    let Some(old) = state.store.get(&key) else {
        return Err(Status::not_found(&resource.group, &resource.plural, &place.name));
    };
    let old = crate::read::present(resource, old);
    if access::text_at(&object, &["metadata", "resourceVersion"]).is_empty() && wants_version(resource) {
        let error = FieldError {
            reason: "FieldValueInvalid",
            field: "metadata.resourceVersion".to_owned(),
            message: "Invalid value: 0x0: must be specified for an update".to_owned(),
        };
        return Err(Status::invalid(&resource.group, &resource.kind, &place.name, &[error]));
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
    let value = answer::one(form, resource, changed, request.now);
    Ok(Reply::Object { code: 200, value, warnings })
}

fn wants_version(resource: &Resource) -> bool {
    resource.custom.is_some()
        || CONDITIONAL.iter().any(|(group, plural)| resource.group == *group && resource.plural == *plural)
}

/// Puts a changed object in the place of the old one. What comes back is the object as it then is.
#[expect(
    clippy::too_many_arguments,
    reason = "one choke point for all writes; a struct of these would be used once"
)]
pub(crate) fn update_object(
    state: &mut State,
    request: &Request,
    resource: &Resource,
    key: &Key,
    old: &Value,
    mut new: Value,
    subresource: &str,
    options: &Options,
    booking: Booking,
) -> Result<Value, Status> {
    check_preconditions(resource, key, old, &new)?;
    default(resource, &mut new);
    strategy::prepare_update(resource, old, &mut new, subresource, &mut state.draw);
    carry_over(old, &mut new);
    if is_definition(resource) && subresource.is_empty() {
        finish_definition(state, &mut new, Some(old), request)?;
    }
    refuse_invalid(resource, &key.name, &validate::update(resource, old, &new))?;
    check_new_finalizers(resource, key, old, &new)?;
    if booking == Booking::Update {
        let writer = Writer { manager: request.manager(), subresource, now: request.now };
        new = books::update(resource, Some(old), new, writer);
    }
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
    let stored = state.commit(key, new);
    Ok(crate::read::present(resource, &stored))
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
    if old == new {
        return true;
    }
    let undated = |object: &Value| {
        let mut object = object.clone();
        let books = access::metadata_mut(&mut object).get_mut("managedFields").and_then(Value::as_array_mut);
        for entry in books.into_iter().flatten().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
        object
    };
    undated(old) == undated(new)
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

/// Version and uid that the writer believes in.
fn check_preconditions(resource: &Resource, key: &Key, old: &Value, new: &Value) -> Result<(), Status> {
    let (uid, old_uid) = (access::uid(new), access::uid(old));
    if !uid.is_empty() && uid != old_uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {old_uid}");
        return Err(Status::conflict(&resource.group, &resource.plural, &key.name, &why));
    }
    let version = access::text_at(new, &["metadata", "resourceVersion"]);
    if !version.is_empty()
        && version != "0"
        && version != access::text_at(old, &["metadata", "resourceVersion"])
    {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Status::conflict(&resource.group, &resource.plural, &key.name, why));
    }
    Ok(())
}

/// An object that is being deleted gets no more finalizers.
fn check_new_finalizers(resource: &Resource, key: &Key, old: &Value, new: &Value) -> Result<(), Status> {
    if !is_terminating(old) {
        return Ok(());
    }
    let before = finalizers(old);
    let added: Vec<String> =
        finalizers(new).into_iter().filter(|one| !before.contains(one)).map(String::from).collect();
    if added.is_empty() {
        return Ok(());
    }
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>().join(", ")
    );
    // A server looks twice: at what all objects share, and at the kind.
    let error = FieldError::forbidden("metadata.finalizers", &why);
    Err(Status::invalid(&resource.group, &resource.kind, &key.name, &[error.clone(), error]))
}

/// Fills in, and prunes what a custom resource may not hold.
fn default(resource: &Resource, object: &mut Value) {
    match &resource.custom {
        Some(custom) => {
            if !custom.preserves_unknown {
                custom.structural.prune(object);
            }
            custom.structural.fill_in(object);
        }
        None => defaults::fill_in(&gvk(resource), object),
    }
}

/// The kind of a resource.
pub(crate) fn gvk(resource: &Resource) -> tiphys_object::Gvk {
    tiphys_object::Gvk::new(&resource.group, &resource.version, &resource.kind)
}

pub(crate) fn is_definition(resource: &Resource) -> bool {
    resource.group == "apiextensions.k8s.io" && resource.plural == "customresourcedefinitions"
}

/// Defaults, rules and status of a definition.
fn finish_definition(
    state: &State,
    definition: &mut Value,
    old: Option<&Value>,
    request: &Request,
) -> Result<(), Status> {
    crd::fill_in(definition);
    let name = access::name(definition).to_owned();
    let errors = crd::validate(definition, old);
    if !errors.is_empty() {
        return Err(Status::invalid("apiextensions.k8s.io", "CustomResourceDefinition", &name, &errors));
    }
    if old.is_none() {
        let kept = [smol_str::SmolStr::from(crate::controllers::CRD_CLEANUP)];
        crate::state::set_finalizers(definition, &kept);
    }
    let status = crd::status(definition, &state.registry, &crate::clock::seconds(request.now));
    if !status.is_null() {
        access::ensure_object(definition).insert("status".to_owned(), status);
    }
    Ok(())
}

fn refuse_invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&resource.group, &resource.kind, name, errors))
}

/// Name and namespace of the path, and those of the object, are one.
pub(crate) fn settle_place(resource: &Resource, place: &Place, object: &mut Value) -> Result<(), Status> {
    let namespace = access::namespace(object);
    if resource.scope == Scope::Cluster {
        if !namespace.is_empty() {
            return Err(Status::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        return Ok(());
    }
    if !namespace.is_empty() && namespace != place.namespace {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    access::metadata_mut(object).insert("namespace".to_owned(), json!(place.namespace));
    Ok(())
}

/// New objects need a namespace that is there to stay.
fn check_namespace(
    state: &mut State,
    resource: &Resource,
    namespace: &str,
    name: &str,
) -> Result<(), Status> {
    if resource.scope == Scope::Cluster {
        return Ok(());
    }
    match state.namespace_is_terminating(namespace) {
        Some(false) => Ok(()),
        None => Err(Status::not_found("", "namespaces", namespace)),
        Some(true) => {
            let plural = match resource.group.as_str() {
                "" => resource.plural.to_string(),
                group => format!("{}.{group}", resource.plural),
            };
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let cause = Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: format!("namespace {namespace} is being terminated"),
                field: "metadata.namespace".to_owned(),
            };
            Err(Status::new(403, "Forbidden", format!("{plural} {name:?} is forbidden: {why}"))
                .about(name, &resource.group, &resource.plural)
                .caused_by([cause]))
        }
    }
}
