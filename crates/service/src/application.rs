//! Applications: what a call would change (API-125..135).
//!
//! Each function decides from the object as it was read; the shell writes it with that version, or reads it again and asks
//! again. Whether the caller may, and what the sources say, is asked elsewhere.

mod check;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_api::Application;
use tiphys_api::application::{ApplicationSpec, Operation};
use tiphys_api::names::{GROUP, VERSION, finalizer};
use tiphys_api::project::DEFAULT_PROJECT;
use tiphys_lifecycle::refresh;
use tiphys_lifecycle::request::RequestError;
use tiphys_object::{Object, access, json_patch, merge_patch};

use crate::change::{Change, Sealed, Seen, is_same_metadata, upserted};
use crate::error::Code;
use crate::managed;

pub use check::{check_spec, check_windows};

/// The finalizers of deletions that take the resources along (CTL-75).
const CASCADING: [&str; 3] =
    [finalizer::CASCADE, finalizer::CASCADE_FOREGROUND, finalizer::CASCADE_BACKGROUND];
/// Who manages an application beside this installation, as an address (API-126).
const MANAGED_BY_URL: &str = "argocd.argoproj.io/managed-by-url";

/// Why a call about an application fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplicationError {
    /// There is no name.
    #[error("resource name may not be empty")]
    MissingName,
    /// There is none of this name.
    #[error("applications.{GROUP} {0:?} not found")]
    NotFound(String),
    /// What was sent or is stored is no application.
    #[error("application {name} cannot be read: {reason}")]
    Unreadable {
        /// Which.
        name: String,
        /// Why.
        reason: String,
    },
    /// Two sources have one name.
    #[error("application {application} has duplicate source name: {source_name}")]
    DuplicateSource {
        /// The application.
        application: String,
        /// The name.
        source_name: String,
    },
    /// The address of who manages it is none.
    #[error("invalid managed-by URL: must be an http or https URL")]
    ManagedByUrl,
    /// It exists and is different.
    #[error("existing application spec is different, use upsert flag to force update")]
    Different,
    /// Its destination is no cluster, or several.
    #[error("application destination spec for {name} is invalid: {reason}")]
    Destination {
        /// Which.
        name: String,
        /// Why.
        reason: String,
    },
    /// Its spec breaks rules.
    #[error("application spec for {name} is invalid: {findings}")]
    Invalid {
        /// Which.
        name: String,
        /// What is wrong.
        findings: String,
    },
    /// A patch is of a kind that there is not.
    #[error("Patch type '{0}' is not supported")]
    PatchType(String),
    /// A patch cannot be applied.
    #[error("application cannot be patched: {0}")]
    Patch(String),
    /// A patch would make it another application.
    #[error("a patch must not change name or namespace of an application")]
    Renamed,
    /// Dependants cannot go like that.
    #[error("invalid propagation policy: {0}")]
    PropagationPolicy(String),
    /// Without cascading there is nothing to propagate.
    #[error("cannot set propagation policy when cascading is disabled")]
    PolicyWithoutCascade,
    /// An operation is under way.
    #[error("another operation is already in progress")]
    Busy,
    /// None is.
    #[error("Unable to terminate operation. No operation is in progress")]
    Idle,
    /// An operation cannot be asked for now.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// It names an owner.
    #[error(
        "metadata.ownerReferences cannot be set: the controller that makes an application writes its owner; leave it out"
    )]
    Owned,
    /// No sync may start now.
    #[error("cannot sync: {0}")]
    Window(String),
}

impl ApplicationError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound(_) => Code::NotFound,
            Self::Unreadable { .. } | Self::Busy | Self::Request(_) => Code::FailedPrecondition,
            Self::Window(_) => Code::PermissionDenied,
            _ => Code::InvalidArgument,
        }
    }
}

/// Reads a stored application.
///
/// # Errors
/// When it is none.
pub fn read(object: &Object) -> Result<Application, ApplicationError> {
    serde_json::from_slice(&object.raw()).map_err(|error| unreadable(object.name(), &error))
}

/// Whether a stored application that may be unreadable names this project.
pub fn names_project(object: &Object, project: &str) -> bool {
    let value = object.to_value().unwrap_or_default();
    let named = value.pointer("/spec/project").and_then(Value::as_str).unwrap_or_default();
    project == if named.is_empty() { DEFAULT_PROJECT } else { named }
}

fn unreadable(name: &str, reason: &dyn std::fmt::Display) -> ApplicationError {
    ApplicationError::Unreadable { name: name.to_owned(), reason: reason.to_string() }
}

/// An application as somebody wants it, in the form in which it is stored: with its kind and project, without what only
/// controllers write (API-125, API-126).
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The object.
    pub value: Value,
    /// The same in types.
    pub application: Application,
}

impl Wanted {
    /// Reads what was sent; where it names no namespace it gets this one.
    ///
    /// # Errors
    /// When it is no application, has no name, or says something that cannot be.
    pub fn read(mut value: Value, namespace: &str) -> Result<Self, ApplicationError> {
        let name = access::name(&value).to_owned();
        let mut spec: ApplicationSpec =
            serde_json::from_value(value.get("spec").cloned().unwrap_or_else(|| json!({})))
                .map_err(|error| unreadable(&name, &error))?;
        if spec.project.is_empty() {
            DEFAULT_PROJECT.clone_into(&mut spec.project);
        }
        let spec = serde_json::to_value(&spec).map_err(|error| unreadable(&name, &error))?;
        let members = access::ensure_object(&mut value);
        members.insert("spec".to_owned(), spec);
        members.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
        members.insert("kind".to_owned(), "Application".into());
        members.remove("status");
        members.remove("operation");
        if access::namespace(&value).is_empty() && !namespace.is_empty() {
            access::metadata_mut(&mut value).insert("namespace".to_owned(), namespace.into());
        }
        let application: Application =
            serde_json::from_value(value.clone()).map_err(|error| unreadable(&name, &error))?;
        let wanted = Self { value, application };
        wanted.check()?;
        Ok(wanted)
    }

    fn check(&self) -> Result<(), ApplicationError> {
        let app = &self.application;
        let name = &app.metadata.name;
        if name.is_empty() {
            return Err(ApplicationError::MissingName);
        }
        let mut names: Vec<&str> =
            app.sources().iter().map(|source| source.name.as_str()).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair.first() == pair.last()) {
            let source_name = twice.first().copied().unwrap_or_default().to_owned();
            return Err(ApplicationError::DuplicateSource { application: name.clone(), source_name });
        }
        match app.annotation(MANAGED_BY_URL) {
            Some(url) if !url.is_empty() && !url.starts_with("https://") && !url.starts_with("http://") => {
                Err(ApplicationError::ManagedByUrl)
            }
            _ => Ok(()),
        }
    }
}

/// What creating an application changes: nothing when it exists as wanted, the existing one with `upsert` (API-125).
///
/// # Errors
/// When it exists and is different.
pub fn plan_create(
    stored: Option<&Object>,
    wanted: &Wanted,
    upsert: bool,
) -> Result<Change, ApplicationError> {
    let Some(object) = stored else {
        // The owner of an application deletes it, and waits for it (INV-16): no caller names one.
        let owners = wanted.value.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        if owners.is_some_and(|owners| !owners.is_empty()) {
            return Err(ApplicationError::Owned);
        }
        return Ok(Change::Create(Sealed::new(wanted.value.clone())));
    };
    let existing = read(object)?;
    let (new, old) = (&wanted.application, &existing);
    let is_same = new.spec == old.spec && is_same_metadata(&new.metadata, &old.metadata);
    if is_same {
        return Ok(Change::Keep);
    }
    if !upsert {
        return Err(ApplicationError::Different);
    }
    let spec = wanted.value.get("spec").cloned().unwrap_or_default();
    Ok(upserted(object, value_of(object)?, spec, &new.metadata))
}

/// What updating an application changes: its spec, labels, annotations and finalizers become those that are wanted;
/// status and operation stay (API-127).
///
/// # Errors
/// When there is none.
pub fn plan_update(object: &Object, wanted: &Wanted) -> Result<Change, ApplicationError> {
    let mut value = value_of(object)?;
    let before = value.clone();
    let spec = wanted.value.get("spec").cloned().unwrap_or_default();
    access::ensure_object(&mut value).insert("spec".to_owned(), spec);
    let new = &wanted.application.metadata;
    let metadata = access::metadata_mut(&mut value);
    for (key, part, is_empty) in [
        ("labels", json!(new.labels), new.labels.is_empty()),
        ("annotations", json!(new.annotations), new.annotations.is_empty()),
        ("finalizers", json!(new.finalizers), new.finalizers.is_empty()),
    ] {
        if is_empty {
            metadata.remove(key);
        } else {
            metadata.insert(key.to_owned(), part);
        }
    }
    Ok(if value == before { Change::Keep } else { replace(object, value) })
}

/// What a new spec changes (API-127).
///
/// # Errors
/// When the stored one is none.
pub fn plan_spec(object: &Object, spec: &Value) -> Result<Change, ApplicationError> {
    let mut value = value_of(object)?;
    if value.get("spec") == Some(spec) {
        return Ok(Change::Keep);
    }
    access::ensure_object(&mut value).insert("spec".to_owned(), spec.clone());
    Ok(replace(object, value))
}

/// The application that a patch makes of the stored one (API-128).
///
/// # Errors
/// When the patch cannot be applied, or makes another application of it.
pub fn patched(object: &Object, patch: &str, patch_type: &str) -> Result<Wanted, ApplicationError> {
    let unusable = |error: &dyn std::fmt::Display| ApplicationError::Patch(error.to_string());
    let stored = value_of(object)?;
    let patch: Value = serde_json::from_str(patch).map_err(|error| unusable(&error))?;
    let value = match patch_type {
        "json" | "" => json_patch::apply(stored, &patch).map_err(|error| unusable(&error))?,
        "merge" => merge_patch::apply(stored, &patch),
        other => return Err(ApplicationError::PatchType(other.to_owned())),
    };
    if access::name(&value) != object.name() || access::namespace(&value) != object.namespace() {
        return Err(ApplicationError::Renamed);
    }
    Wanted::read(value, object.namespace())
}

/// The finalizers that a deletion needs; `None` when those that are there will do (API-129). Deviation: the one that
/// is wanted replaces the other two, so that its policy counts.
///
/// # Errors
/// When the policy is none.
pub fn wanted_finalizers(
    present: &[String],
    cascade: bool,
    policy: Option<&str>,
) -> Result<Option<Vec<String>>, ApplicationError> {
    let wanted = match policy.unwrap_or_default().to_ascii_lowercase().as_str() {
        "" => finalizer::CASCADE,
        "foreground" => finalizer::CASCADE_FOREGROUND,
        "background" => finalizer::CASCADE_BACKGROUND,
        other => return Err(ApplicationError::PropagationPolicy(other.to_owned())),
    };
    let rest = || present.iter().filter(|known| !CASCADING.contains(&known.as_str())).cloned();
    if !cascade {
        if policy.is_some() {
            return Err(ApplicationError::PolicyWithoutCascade);
        }
        let rest: Vec<String> = rest().collect();
        return Ok((rest.len() != present.len()).then_some(rest));
    }
    // Without a policy any cascading finalizer is as good.
    let is_there = |known: &String| {
        if policy.is_some() { known == wanted } else { CASCADING.contains(&known.as_str()) }
    };
    if present.iter().any(is_there) {
        return Ok(None);
    }
    Ok(Some(rest().chain([wanted.to_owned()]).collect()))
}

/// What prepares a deletion: the finalizers that decide about the resources (API-129).
///
/// # Errors
/// When the policy is none.
pub fn plan_finalizers(
    object: &Object,
    cascade: bool,
    policy: Option<&str>,
) -> Result<Change, ApplicationError> {
    let present: Vec<String> = object.metadata().finalizers.iter().map(ToString::to_string).collect();
    let wanted = wanted_finalizers(&present, cascade, policy)?;
    match wanted {
        Some(list) if !object.is_terminating() => {
            Ok(managed::patch(object, json!({"metadata": {"finalizers": list}})))
        }
        _ => Ok(Change::Keep),
    }
}

/// What asking for an operation changes: it is set, and the state of the last one goes (CTL-53, API-132).
///
/// # Errors
/// When one is under way.
pub fn plan_operation(object: &Object, operation: &Operation) -> Result<Change, ApplicationError> {
    if read(object)?.operation.is_some() {
        return Err(ApplicationError::Busy);
    }
    let mut value = value_of(object)?;
    let operation = serde_json::to_value(operation).map_err(|error| unreadable(object.name(), &error))?;
    let members = access::ensure_object(&mut value);
    members.insert("operation".to_owned(), operation);
    if let Some(status) = members.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("operationState");
    }
    Ok(replace(object, value))
}

/// What asks a running operation to end (CTL-51, API-134).
///
/// # Errors
/// When none runs.
pub fn plan_terminate(object: &Object) -> Result<Change, ApplicationError> {
    let app = read(object)?;
    let state = app.status.operation_state.as_ref();
    let is_running = app.operation.is_some() && state.is_some_and(|state| state.finished_at.is_none());
    if !is_running {
        return Err(ApplicationError::Idle);
    }
    Ok(managed::patch(object, json!({"status": {"operationState": {"phase": "Terminating"}}})))
}

/// What asks for a comparison (API-122).
pub fn plan_refresh(object: &Object, is_hard: bool, now: Timestamp) -> Change {
    // One that cannot be read is refreshed all the same: its status says so.
    let is_hydrated = object
        .to_value()
        .is_ok_and(|value| value.pointer("/spec/sourceHydrator").is_some_and(Value::is_object));
    let annotations = refresh::request(is_hydrated, is_hard, now);
    managed::patch(object, json!({"metadata": {"annotations": annotations}}))
}

fn value_of(object: &Object) -> Result<Value, ApplicationError> {
    object.to_value().map_err(|error| unreadable(object.name(), &error))
}

fn replace(object: &Object, value: Value) -> Change {
    Change::Replace(Seen::of(object), Sealed::new(value))
}

/// Members that an answer shows of an application: without its kind (API-P6).
pub fn shown(object: &Object) -> Result<Value, ApplicationError> {
    let mut value = value_of(object)?;
    let members: &mut Map<String, Value> = access::ensure_object(&mut value);
    members.remove("apiVersion");
    members.remove("kind");
    Ok(value)
}
