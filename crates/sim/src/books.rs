//! `metadata.managedFields`: who owns what, on every write.

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;
use tiphys_object::structured::{self, Applied, ApplyRequest, StructuredError, Types};

use crate::clock::seconds;
use crate::resource::Resource;
use crate::status::{Cause, Status};

/// Who writes, and through which subresource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

fn types(resource: &Resource) -> Types {
    if resource.custom.is_some() { Types::Deduced } else { Types::Builtin }
}

/// Brings the books of a written object up to date. Where its types are not known it has none.
pub(crate) fn update(resource: &Resource, live: Option<&Value>, new: Value, writer: Writer<'_>) -> Value {
    match structured::update_through(live, &new, (writer.manager, writer.subresource), types(resource)) {
        Ok(mut object) => {
            date(&mut object, writer.now);
            object
        }
        Err(_no_type) => new,
    }
}

/// Server-side apply of `config` onto `live`.
pub(crate) fn apply(
    resource: &Resource,
    live: Option<&Value>,
    config: &Value,
    force: bool,
    writer: Writer<'_>,
) -> Result<Value, Status> {
    let request = ApplyRequest {
        manager: writer.manager,
        subresource: writer.subresource,
        force,
        types: types(resource),
    };
    let said = own_part(resource, config, writer.subresource);
    match structured::apply(live, &said, request) {
        Ok(Applied::Object(mut object)) => {
            date(&mut object, writer.now);
            Ok(object)
        }
        Ok(Applied::Conflicts(conflicts)) => {
            let count = conflicts.len();
            let noun = if count == 1 { "conflict" } else { "conflicts" };
            let mut text = format!("Apply failed with {count} {noun}:");
            let mut last = String::new();
            for conflict in &conflicts {
                if count == 1 {
                    text = format!("{text} {}: {}", conflict.message, conflict.field);
                } else if last == conflict.message {
                    text = format!("{text}\n- {}", conflict.field);
                } else {
                    text = format!("{text} {}:\n- {}", conflict.message, conflict.field);
                    last.clone_from(&conflict.message);
                }
            }
            let causes = conflicts.into_iter().map(|conflict| Cause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.message,
                field: conflict.field,
            });
            Err(Status::new(409, "Conflict", text).caused_by(causes))
        }
        Err(StructuredError::ManagedFields { .. }) => {
            Err(Status::bad_request("metadata.managedFields must be nil"))
        }
        Err(error) => {
            let place = match access::namespace(config) {
                "" => format!("/{}", access::name(config)),
                namespace => format!("{namespace}/{}", access::name(config)),
            };
            let message = format!(
                "failed to create typed patch object ({place}; {}, Kind={}): {error}",
                access::text(config, "apiVersion"),
                access::text(config, "kind"),
            );
            Err(Status::new(500, "", message))
        }
    }
}

/// What an apply may say at all: no status, or through the status subresource nothing else.
fn own_part(resource: &Resource, config: &Value, subresource: &str) -> Value {
    let mut config = config.clone();
    let Some(members) = config.as_object_mut().filter(|_| resource.has_status) else { return config };
    if subresource == "status" {
        members.retain(|member, _| matches!(member.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
        let metadata = members.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.retain(|member, _| matches!(member.as_str(), "name" | "namespace" | "managedFields"));
        }
    } else {
        members.remove("status");
    }
    config
}

/// Entries that were written now get their time.
fn date(object: &mut Value, now: Timestamp) {
    let time = seconds(now);
    let entries = access::metadata_mut(object).get_mut("managedFields").and_then(Value::as_array_mut);
    for entry in entries.into_iter().flatten() {
        if entry.get("time").is_none() {
            access::ensure_object(entry).insert("time".to_owned(), json!(time));
        }
    }
}
