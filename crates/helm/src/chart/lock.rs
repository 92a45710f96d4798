//! Lock files: which versions were chosen for which dependencies, and whether that is still so (RND-104).

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{DecodeError, Dependency, GoType, ImportValue, Metadata, Record};

/// `Chart.lock` or `requirements.lock`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// Digest of the dependencies it was made for.
    pub digest: String,
    /// Dependencies with the versions chosen for them.
    pub dependencies: Vec<Dependency>,
}

/// What a lock file is worth.
#[derive(Clone, Debug, PartialEq)]
pub enum LockState {
    /// There is none: versions are chosen by the constraints.
    Absent,
    /// These are the versions to take.
    InSync(Vec<Dependency>),
}

/// A lock file that belongs to other dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// `Chart.lock`.
    #[error(
        "the lock file (Chart.lock) is out of sync with the dependencies file (Chart.yaml). Please update the dependencies with 'helm dependency update'"
    )]
    Chart,
    /// `requirements.lock`.
    #[error(
        "the lock file (requirements.lock) is out of sync with the dependencies file (requirements.yaml). Please update the dependencies"
    )]
    Requirements,
}

const LOCK: GoType =
    GoType { name: "Lock", full_name: "v2.Lock", fields: &["generated", "digest", "dependencies"] };

impl Lock {
    pub(super) fn decode(document: &Value) -> Result<Option<Self>, DecodeError> {
        if document.is_null() {
            return Ok(None);
        }
        let record = Record::of(document, LOCK)?;
        let dependencies = Dependency::decode_all(&record)?.unwrap_or_default();
        Ok(Some(Self { digest: record.text("digest")?, dependencies }))
    }

    /// Whether the lock was made for the dependencies of a chart. `repository` gives the URL behind the name of a
    /// registered repository (`@name`, `alias:name`).
    pub(super) fn check(
        &self,
        metadata: &Metadata,
        repository: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), LockError> {
        let written = metadata.dependencies.as_deref();
        let resolve = |dependency: &Dependency| {
            let mut dependency = dependency.clone();
            let name = dependency.repository.strip_prefix('@');
            let name = name.or_else(|| dependency.repository.strip_prefix("alias:"));
            if let Some(url) = name.and_then(repository) {
                dependency.repository = url;
            }
            dependency
        };
        let resolved: Option<Vec<Dependency>> = written.map(|all| all.iter().map(resolve).collect());
        let locked = self.dependencies.as_slice();
        if self.digest == digest(&json!([list(resolved.as_deref()), list(Some(locked))])) {
            return Ok(());
        }
        if metadata.api_version != "v1" {
            return Err(LockError::Chart);
        }
        // Helm 2 made other digests.
        if self.digest == digest(&json!({"dependencies": list(written)})) {
            return Ok(());
        }
        Err(LockError::Requirements)
    }
}

fn digest(value: &Value) -> String {
    let hash: [u8; 32] = Sha256::digest(ordered(value)).into();
    hash.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// The JSON that Go writes for a list of dependencies; each is kept as text, because the order of fields counts.
fn list(dependencies: Option<&[Dependency]>) -> Value {
    match dependencies {
        None => Value::Null,
        Some(all) => Value::Array(all.iter().map(|one| Value::String(dependency(one))).collect()),
    }
}

/// Writes lists and the outermost map, in which texts are JSON already.
fn ordered(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(ordered).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(members) => {
            let members: Vec<String> = members
                .iter()
                .map(|(key, value)| format!("{}:{}", go(&key.as_str().into()), ordered(value)))
                .collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Bool(_) | Value::Number(_) => go(value),
    }
}

fn go(value: &Value) -> String {
    tiphys_go::json::to_string_go(value)
}

/// One dependency as `encoding/json` writes the struct.
fn dependency(dependency: &Dependency) -> String {
    let text = |text: &str| go(&Value::from(text));
    let mut fields = vec![format!("\"name\":{}", text(&dependency.name))];
    let mut add = |name: &str, value: Option<String>| {
        fields.extend(value.map(|value| format!("\"{name}\":{value}")));
    };
    let filled = |value: &str| (!value.is_empty()).then(|| text(value));
    add("version", filled(&dependency.version));
    add("repository", Some(text(&dependency.repository)));
    add("condition", filled(&dependency.condition));
    add("tags", (!dependency.tags.is_empty()).then(|| go(&json!(dependency.tags))));
    add("enabled", dependency.enabled.then(|| "true".to_owned()));
    let imports: Vec<Value> = dependency.import_values.iter().map(import_value).collect();
    add("import-values", (!imports.is_empty()).then(|| go(&Value::Array(imports))));
    add("alias", filled(&dependency.alias));
    format!("{{{}}}", fields.join(","))
}

fn import_value(import: &ImportValue) -> Value {
    match import {
        ImportValue::Export(name) => Value::from(name.as_str()),
        ImportValue::Table { written, .. } => written.clone(),
        ImportValue::Other(value) => value.clone(),
    }
}

/// What [`super::Chart::lock_state`] answers from.
pub(super) fn state(
    lock: Option<&Lock>,
    metadata: &Metadata,
    repository: &dyn Fn(&str) -> Option<String>,
) -> Result<LockState, LockError> {
    let Some(lock) = lock else { return Ok(LockState::Absent) };
    lock.check(metadata, repository)?;
    Ok(LockState::InSync(lock.dependencies.clone()))
}
