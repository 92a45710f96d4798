//! `metadata.managedFields`: who owns which fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::StructuredError;
use crate::fields::FieldSet;

/// How a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// What tells the entries of an object apart. An applier has one entry, whatever the version it applied.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ManagerKey {
    pub(super) operation: Operation,
    pub(super) manager: String,
    pub(super) subresource: String,
    /// Empty for appliers.
    pub(super) update_version: String,
}

/// What one manager owns.
#[derive(Clone, Debug, Default)]
pub(super) struct Owned {
    pub(super) version: String,
    pub(super) fields: FieldSet,
    pub(super) time: Time,
}

/// When an entry was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Time {
    #[default]
    Unsaid,
    Recorded(String),
    /// In this very operation, after everything else.
    Now,
}

/// All entries of an object.
pub(super) type Managers = BTreeMap<ManagerKey, Owned>;

impl ManagerKey {
    pub(super) fn new(manager: &str, operation: Operation, api_version: &str) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        Self {
            operation,
            manager: manager.to_owned(),
            subresource: String::new(),
            update_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.to_owned(),
            },
        }
    }

    /// How a conflict names the manager.
    pub(super) fn shown(&self) -> String {
        let subresource = match self.subresource.as_str() {
            "" => String::new(),
            subresource => format!(" with subresource {subresource:?}"),
        };
        let version = match self.operation {
            Operation::Apply => String::new(),
            Operation::Update => format!(" using {}", self.update_version),
        };
        format!("{:?}{subresource}{version}", self.manager)
    }
}

/// Reads the entries of an object.
pub(super) fn decode(entries: Option<&Value>) -> Result<Managers, StructuredError> {
    let mut managers = Managers::new();
    let fault = |why: &'static str| StructuredError::ManagedFields { why };
    match entries {
        None | Some(Value::Null) => {}
        Some(Value::Array(entries)) => {
            for entry in entries {
                let text = |member: &str| entry.get(member).and_then(Value::as_str).unwrap_or("");
                let operation = match text("operation") {
                    "Apply" => Operation::Apply,
                    "Update" => Operation::Update,
                    _ => return Err(fault("an operation must be Apply or Update")),
                };
                if text("apiVersion").is_empty() {
                    return Err(fault("an entry has no apiVersion"));
                }
                if text("fieldsType") != "FieldsV1" {
                    return Err(fault("the type of fields must be FieldsV1"));
                }
                let key = ManagerKey {
                    operation,
                    manager: text("manager").to_owned(),
                    subresource: text("subresource").to_owned(),
                    update_version: match operation {
                        Operation::Apply => String::new(),
                        Operation::Update => text("apiVersion").to_owned(),
                    },
                };
                let fields = match entry.get("fieldsV1") {
                    None | Some(Value::Null) => FieldSet::default(),
                    Some(fields) => FieldSet::parse(fields)
                        .map_err(|_error| fault("the fields of an entry cannot be read"))?,
                };
                let time = match text("time") {
                    "" => Time::Unsaid,
                    time => Time::Recorded(time.to_owned()),
                };
                managers.insert(key, Owned { version: text("apiVersion").to_owned(), fields, time });
            }
        }
        Some(_) => return Err(fault("managedFields must be a list")),
    }
    Ok(managers)
}

/// The entries as the API server lists them: appliers first, older ones first. Entries of this operation carry
/// the time given, or none.
pub(super) fn encode(managers: Managers, now: Option<&str>) -> Option<Value> {
    let mut entries: Vec<(ManagerKey, Owned)> = managers.into_iter().collect();
    entries.sort_by(|(key_a, a), (key_b, b)| {
        (key_a.operation, &a.time, &key_a.manager, &a.version, &key_a.subresource).cmp(&(
            key_b.operation,
            &b.time,
            &key_b.manager,
            &b.version,
            &key_b.subresource,
        ))
    });
    let entries: Vec<Value> = entries.into_iter().map(|(key, owned)| entry(key, owned, now)).collect();
    (!entries.is_empty()).then_some(Value::Array(entries))
}

fn entry(key: ManagerKey, owned: Owned, now: Option<&str>) -> Value {
    let mut entry = Map::new();
    let mut put = |name: &str, value: Value| entry.insert(name.to_owned(), value);
    if !owned.version.is_empty() {
        put("apiVersion", Value::from(owned.version));
    }
    put("fieldsType", Value::from("FieldsV1"));
    put("fieldsV1", owned.fields.to_value());
    if !key.manager.is_empty() {
        put("manager", Value::from(key.manager));
    }
    put(
        "operation",
        Value::from(match key.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        }),
    );
    if !key.subresource.is_empty() {
        put("subresource", Value::from(key.subresource));
    }
    let time = match owned.time {
        Time::Recorded(time) => Some(time),
        Time::Now => now.map(str::to_owned),
        Time::Unsaid => None,
    };
    if let Some(time) = time {
        put("time", Value::from(time));
    }
    Value::Object(entry)
}
