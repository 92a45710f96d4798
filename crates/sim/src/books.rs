//! `metadata.managedFields`: who owns what, on every write.

use jiff::Timestamp;
use serde_json::Value;
use tiphys_object::access;
use tiphys_object::structured::{
    self, Applied, ApplyRequest, Conflict, StructuredError, Types, UpdateRequest,
};

use crate::clock::seconds;
use crate::last_applied;
use crate::resource::Resource;
use crate::status::{Cause, Status};
use crate::strategy;

/// Who writes, and through which subresource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    pub(crate) subresource: &'a str,
    pub(crate) now: Timestamp,
}

fn types(resource: &Resource) -> Types<'_> {
    match &resource.custom {
        Some(custom) => Types::Schema(&custom.types),
        None if tiphys_object::builtin::is_builtin(&crate::write::gvk(resource)) => Types::Builtin,
        // Definitions and API services: their lists are single values, as deduced ones are.
        None => Types::Deduced,
    }
}

/// Brings the books of a written object up to date; `new` is what was sent, with defaults but without anything
/// that is assigned to it. What the writer cannot change through this resource is nobody's. Where the types are not
/// known there are no books.
pub(crate) fn update(resource: &Resource, live: Option<&Value>, mut new: Value, writer: Writer<'_>) -> Value {
    let time = seconds(writer.now);
    let empty = strategy::empty(resource);
    let live = live.unwrap_or(&empty);
    let mut said = new.clone();
    strategy::keep_reset(resource, live, &mut said, writer.subresource);
    let request = UpdateRequest {
        manager: writer.manager,
        subresource: writer.subresource,
        // The scale of a custom resource is written without one.
        time: Some(time.as_str()).filter(|_| resource.custom.is_none() || writer.subresource != "scale"),
        types: types(resource),
    };
    if let Ok(booked) = structured::update_through(Some(live), &said, request) {
        let metadata = access::metadata_mut(&mut new);
        match booked.pointer("/metadata/managedFields") {
            Some(books) => metadata.insert("managedFields".to_owned(), books.clone()),
            None => metadata.remove("managedFields"),
        };
    }
    new
}

/// Server-side apply of `config` onto `live`; `namespace` is the one that was sent.
pub(crate) fn apply(
    resource: &Resource,
    live: Option<&Value>,
    config: &Value,
    namespace: &str,
    force: bool,
    writer: Writer<'_>,
) -> Result<Value, Status> {
    let time = seconds(writer.now);
    let request = ApplyRequest {
        manager: writer.manager,
        subresource: writer.subresource,
        time: Some(&time),
        force,
        types: types(resource),
    };
    let said = own_part(resource, config, writer.subresource);
    match structured::apply(live, &said, request) {
        Ok(Applied::Object(mut object)) => {
            last_applied::renew(writer.manager, live, config, &mut object);
            Ok(object)
        }
        Ok(Applied::Conflicts(conflicts)) if last_applied::allows(writer.manager, live, &conflicts) => {
            apply(resource, live, config, namespace, true, writer)
        }
        Ok(Applied::Conflicts(conflicts)) => {
            let mut conflicts = conflicts;
            conflicts.sort_by(|one, other| one.message.cmp(&other.message));
            let text = conflict_text(&conflicts);
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
            // The namespace as it was sent, which is mostly not at all.
            let place = format!("{namespace}/{}", access::name(config));
            let kind = format!("{}/{}, Kind={}", resource.group, resource.version, resource.kind);
            let message = format!("failed to create typed patch object ({place}; {kind}): {error}");
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

/// What a person reads about conflicts: the fields, by the manager that owns them.
fn conflict_text(conflicts: &[Conflict]) -> String {
    if let [one] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", one.message, one.field);
    }
    let mut lines = Vec::new();
    let mut last = "";
    for conflict in conflicts {
        if conflict.message != last {
            lines.push(format!("{}:", conflict.message.replacen("conflict with", "conflicts with", 1)));
            last = &conflict.message;
        }
        lines.push(format!("- {}", conflict.field));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
