//! Secrets that the product writes: their names, their metadata, and which of their keys change (REP-1..5).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use tiphys_api::names::{SECRET_TYPE_LABEL, annotation};
use tiphys_api::printable;
use tiphys_api::project::is_project_name;
use tiphys_api::repository::{Field, SecretKind, secret_name};
use tiphys_installation::objects;
use tiphys_object::Object;

use crate::change::{Change, Sealed, Seen};
use crate::error::Code;
use crate::secrets::Secrets;

/// Bytes of a value that is one line.
const LINE_BYTES_MAX: usize = 4096;
/// Bytes of any other value; a Secret as a whole may have 1 MiB.
const VALUE_BYTES_MAX: usize = 256 << 10;
/// Letters of a bad name that an error repeats.
const SHOWN_MAX: usize = 64;
/// Names that are tried for a new Secret (REP-2).
const NAMES_MAX: usize = 32;

/// Keys whose values may have several lines.
const MANY_LINES: [&str; 9] = [
    "password",
    "bearerToken",
    "sshPrivateKey",
    "tlsClientCertData",
    "tlsClientCertKey",
    "githubAppPrivateKey",
    "gcpServiceAccountKey",
    "azureServicePrincipalClientSecret",
    "config",
];

/// Why a Secret cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// A value that stands in one line has something else in it.
    #[error("field {0:?} has a line break or another control character, remove it")]
    Control(&'static str),
    /// No project could have this name, so that nobody could use what belongs to it.
    #[error(
        "field \"project\": {0:?} is no name of a project, use lower case letters, digits, \"-\" and \".\""
    )]
    Project(String),
    /// A value is too long.
    #[error("field {field:?} has {bytes} bytes, at most {bytes_max} are stored")]
    TooLong {
        /// The key.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// The name is taken by a Secret that nobody labelled (REP-4).
    #[error(
        "secret {0:?} doesn't have the proper {SECRET_TYPE_LABEL:?} label: please fix the secret or delete it"
    )]
    Unlabelled(String),
    /// Every name that was tried is taken by something else (REP-2).
    #[error("the names {0} to {0}-{last} are all taken by other secrets", last = NAMES_MAX - 1)]
    NamesTaken(String),
}

impl SecretError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::Control(_) | Self::Project(_) | Self::TooLong { .. } | Self::Unlabelled(_) => {
                Code::InvalidArgument
            }
            Self::NamesTaken(_) => Code::AlreadyExists,
        }
    }
}

/// Whether something may belong to a project of this name; an empty one is the shared scope.
///
/// # Errors
/// When no project can be called like that: the rules would be asked about something else (REP-41).
pub(crate) fn check_project(name: &str) -> Result<(), SecretError> {
    if name.is_empty() || is_project_name(name) {
        return Ok(());
    }
    let shown: String = printable::line(name).chars().take(SHOWN_MAX).collect();
    Err(SecretError::Project(shown))
}

/// Whether these values may be stored.
///
/// # Errors
/// With the first that may not; the value itself is not repeated.
pub(crate) fn check(fields: &[Field]) -> Result<(), SecretError> {
    for Field { key, value, .. } in fields {
        let text = value.expose();
        let is_line = !MANY_LINES.contains(key);
        let bytes_max = if is_line { LINE_BYTES_MAX } else { VALUE_BYTES_MAX };
        if text.len() > bytes_max {
            return Err(SecretError::TooLong { field: key, bytes: text.len(), bytes_max });
        }
        if is_line && *printable::line(text) != **text {
            return Err(SecretError::Control(key));
        }
    }
    Ok(())
}

/// A new Secret for a URL and a project, under the first name that is free (REP-1..4).
///
/// # Errors
/// When the name is taken by a Secret without a label, or all names are taken.
pub(crate) fn create(
    secrets: &Secrets,
    kind: SecretKind,
    (url, project): (&str, &str),
    fields: &[Field],
) -> Result<Change, SecretError> {
    let name = free_name(secrets, &secret_name(kind, url, project))?;
    let data: Map<String, Value> = fields
        .iter()
        .filter(|field| !field.is_zero)
        .map(|field| (field.key.to_owned(), encoded(field.value.expose())))
        .collect();
    Ok(Change::Create(manifest(secrets.namespace(), &name, kind.secret_type(), &data)))
}

/// The first of `name`, `name-1`, … that nobody has (REP-2).
pub(crate) fn free_name(secrets: &Secrets, base: &str) -> Result<String, SecretError> {
    for attempt in 0..NAMES_MAX {
        let name = if attempt == 0 { base.to_owned() } else { format!("{base}-{attempt}") };
        match secrets.get(&name) {
            None => return Ok(name),
            Some(taken) if taken.label(SECRET_TYPE_LABEL).is_none() => {
                return Err(SecretError::Unlabelled(name));
            }
            Some(_) => {}
        }
    }
    Err(SecretError::NamesTaken(base.to_owned()))
}

/// A Secret of ours (REP-3).
pub(crate) fn manifest(namespace: &str, name: &str, secret_type: &str, data: &Map<String, Value>) -> Sealed {
    Sealed::new(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {SECRET_TYPE_LABEL: secret_type},
            "annotations": {annotation::MANAGED_BY: annotation::MANAGED_BY_US},
        },
        "data": data,
    }))
}

/// The keys of a Secret that change: a key is set when it is there or the value is not zero, never removed; keys of
/// others stay (REP-5).
pub(crate) fn update(object: &Object, fields: &[Field]) -> Change {
    let (stored, texts) = (objects::texts(object), objects::decoded(object));
    let mut data = Map::new();
    for field in fields {
        for key in std::iter::once(field.key).chain(field.alias.filter(|alias| stored.contains_key(*alias))) {
            let is_wanted = stored.contains_key(key) || !field.is_zero;
            if is_wanted && texts.get(key) != Some(field.value.expose()) {
                data.insert(key.to_owned(), encoded(field.value.expose()));
            }
        }
    }
    if data.is_empty() {
        return Change::Keep;
    }
    patch(object, json!({"data": data}))
}

/// A patch that holds for the state that was read.
pub(crate) fn patch(object: &Object, mut patch: Value) -> Change {
    let seen = Seen::of(object);
    tiphys_object::access::metadata_mut(&mut patch)
        .insert("resourceVersion".to_owned(), seen.version.as_str().into());
    Change::Patch(seen, Sealed::new(patch))
}

/// How a Secret stops to count: ours goes, one made by hand loses its label (REP-3).
pub(crate) fn delete(object: &Object) -> Change {
    if object.annotation(annotation::MANAGED_BY) == Some(annotation::MANAGED_BY_US) {
        return Change::Delete(Seen::of(object));
    }
    patch(object, json!({"metadata": {"labels": {SECRET_TYPE_LABEL: null}}}))
}

pub(crate) fn encoded(text: &str) -> Value {
    STANDARD.encode(text).into()
}
