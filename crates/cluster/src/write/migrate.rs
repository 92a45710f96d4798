//! Moves the fields that client-side apply owned to server-side apply (ENG-178).
//!
//! Without it a field that leaves the manifest would stay in the live object: its old owner still holds it.

use serde_json::{Map, Value, json};
use tiphys_api::names::FIELD_MANAGER;
use tiphys_object::access;

use super::{CONFLICT_ATTEMPTS_MAX, JSON_PATCH, Permit, READ_TIMEOUT, Target, Writer};
use crate::connection::Call;
use crate::error::ApiError;

/// Nesting of a set of fields.
const FIELDS_DEPTH_MAX: usize = 128;

/// Manager of `kubectl apply` and of the reference's client-side apply.
const CLIENT_SIDE_MANAGER: &str = "kubectl-client-side-apply";

impl Writer {
    /// Moves the fields of `manager` (empty: `kubectl`'s) to our own server-side apply; says whether there
    /// was anything to move.
    pub async fn migrate_client_side_apply(
        &self,
        permit: &Permit,
        target: &Target,
        manager: &str,
    ) -> Result<bool, ApiError> {
        let manager = if manager.is_empty() { CLIENT_SIDE_MANAGER } else { manager };
        let resource = self.place_permitted(permit, target).await?;
        let path = resource.object_path(&target.namespace, &target.name)?;
        let mut attempt = 1;
        loop {
            let answer = match self.connection.call(&Call::get("get", path.clone(), READ_TIMEOUT)).await {
                Ok(answer) => answer,
                Err(error) if error.is_not_found() => return Ok(false),
                Err(error) => return Err(error),
            };
            let live: Value =
                serde_json::from_slice(&answer.bytes).map_err(|error| ApiError::malformed("get", &error))?;
            let fields = access::at(&live, &["metadata", "managedFields"]).and_then(Value::as_array);
            let Some(migrated) = fields.and_then(|fields| migrated(fields, manager)) else {
                return Ok(false);
            };
            let version = access::text_at(&live, &["metadata", "resourceVersion"]);
            let patch = json!([
                {"op": "replace", "path": "/metadata/managedFields", "value": migrated},
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
            ]);
            match self.patch(permit, target, None, &patch, JSON_PATCH).await {
                Ok(_) => return Ok(true),
                Err(error) if error.is_conflict() && attempt < CONFLICT_ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// The managed fields after the move; `None` when the manager holds none.
fn migrated(entries: &[Value], manager: &str) -> Option<Vec<Value>> {
    let is_old = |entry: &Value| is_entry(entry, manager, "Update");
    let mut moved: Option<Value> = None;
    for entry in entries.iter().filter(|entry| is_old(entry)) {
        moved = Some(match moved {
            None => entry.clone(),
            Some(first) => with_fields(first, entry),
        });
    }
    let mut moved = moved?;
    let own = entries.iter().find(|entry| is_entry(entry, FIELD_MANAGER, "Apply"));
    if let Some(own) = own {
        moved = with_fields(own.clone(), &moved);
    } else if let Some(map) = moved.as_object_mut() {
        map.insert("manager".to_owned(), FIELD_MANAGER.into());
        map.insert("operation".to_owned(), "Apply".into());
    }
    let is_replaced = |entry: &Value| is_old(entry) || is_entry(entry, FIELD_MANAGER, "Apply");
    let mut kept: Vec<Value> = entries.iter().filter(|entry| !is_replaced(entry)).cloned().collect();
    kept.insert(0, moved);
    Some(kept)
}

fn is_entry(entry: &Value, manager: &str, operation: &str) -> bool {
    access::text(entry, "manager") == manager
        && access::text(entry, "operation") == operation
        && access::text(entry, "subresource").is_empty()
}

/// The entry with the fields of another added.
fn with_fields(mut entry: Value, other: &Value) -> Value {
    if let (Some(map), Some(Value::Object(other))) = (entry.as_object_mut(), other.get("fieldsV1")) {
        let fields = map.entry("fieldsV1").or_insert_with(|| Value::Object(Map::new()));
        unite(access::ensure_object(fields), other, 0);
    }
    entry
}

fn unite(fields: &mut Map<String, Value>, other: &Map<String, Value>, depth: usize) {
    if depth == FIELDS_DEPTH_MAX {
        return;
    }
    for (name, below) in other {
        let known = fields.entry(name).or_insert_with(|| Value::Object(Map::new()));
        if let Some(below) = below.as_object() {
            unite(access::ensure_object(known), below, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "fieldsV1": fields})
    }

    #[test]
    fn eng_178_fields_move_to_the_apply_entry() {
        let entries = [
            entry("kubectl-client-side-apply", "Update", &json!({"f:data": {"f:a": {}}})),
            entry("argocd-controller", "Apply", &json!({"f:data": {"f:b": {}}})),
            entry("other", "Update", &json!({"f:spec": {}})),
        ];
        let migrated = migrated(&entries, CLIENT_SIDE_MANAGER).unwrap();
        assert_eq!(
            migrated,
            [
                entry("argocd-controller", "Apply", &json!({"f:data": {"f:a": {}, "f:b": {}}})),
                entry("other", "Update", &json!({"f:spec": {}})),
            ]
        );
    }

    #[test]
    fn eng_178_without_an_apply_entry_the_old_one_becomes_it() {
        let entries = [entry("kubectl-client-side-apply", "Update", &json!({"f:data": {}}))];
        let migrated = migrated(&entries, CLIENT_SIDE_MANAGER).unwrap();
        assert_eq!(migrated, [entry("argocd-controller", "Apply", &json!({"f:data": {}}))]);
        assert_eq!(super::migrated(&migrated, CLIENT_SIDE_MANAGER), None);
    }
}
