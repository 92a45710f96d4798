//! Apply: making the cluster hold a desired object, in the four ways of ENG-175.

use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::{Map, Value};
use tiphys_api::names::{FIELD_MANAGER, LAST_APPLIED};
use tiphys_object::{Gvk, Object, access, builtin, merge_patch, strategic};
use tracing::debug;

use super::{
    APPLY_PATCH, Applied, CONFLICT_ATTEMPTS_MAX, JSON, MERGE_PATCH, Outcome, Permit, STRATEGIC_PATCH, Target,
    Writer, message, object_of,
};
use crate::connection::{Answer, encode};
use crate::error::ApiError;
use crate::kinds::ApiResource;

/// Time a new definition gets to be established (ENG-179).
const ESTABLISHED_TIMEOUT: Duration = Duration::from_secs(3);
/// Time between two looks at it.
const ESTABLISHED_POLL: Duration = Duration::from_millis(100);

/// How the desired state gets into the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApplyMethod {
    /// Three-way patch with the last-applied annotation.
    #[default]
    ClientSide,
    /// The server merges; conflicts are forced.
    ServerSide,
    /// The object is replaced as a whole.
    Replace,
}

/// How one object is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyOptions {
    /// The way.
    pub method: ApplyMethod,
    /// Delete and create again when patching or replacing fails (ENG-175).
    pub is_forced: bool,
    /// Compute what would be done, without asking the server to do it (ENG-176).
    pub is_dry_run: bool,
    /// Let unknown and duplicate fields pass (`Validate=false`).
    pub is_unvalidated: bool,
    /// What the caller knows of the live object; saves a read.
    pub known: Known,
}

/// What is known of the live object before an apply.
///
/// It may be a little old: what it says wrongly the server answers with a refusal, since every change names the
/// version it was made for, and then the object is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// Nothing; it is read.
    #[default]
    Nothing,
    /// There is none.
    Absent,
    /// It looks like this.
    Present(Arc<Object>),
}

impl Writer {
    /// Makes the cluster hold the desired object (ENG-175).
    ///
    /// The manifest must carry its namespace. A dry run sends no change at all (ENG-176).
    pub async fn apply(
        &self,
        permit: &Permit,
        desired: &Value,
        options: &ApplyOptions,
    ) -> Result<Applied, ApiError> {
        let target = Target::of(desired);
        let resource = self.place_permitted(permit, &target).await?;
        if target.name.is_empty() {
            return self.create_nameless(permit, &resource, &target, desired, options).await;
        }
        let method = if options.is_dry_run && options.method == ApplyMethod::ServerSide {
            ApplyMethod::ClientSide
        } else {
            options.method
        };
        let applied = match method {
            ApplyMethod::ClientSide => {
                let modified = with_last_applied(desired)?;
                self.write_until_settled(permit, &resource, &target, &modified, options, false).await
            }
            ApplyMethod::ServerSide => {
                self.apply_server_side(permit, &resource, &target, desired, options).await
            }
            ApplyMethod::Replace => {
                self.write_until_settled(permit, &resource, &target, desired, options, true).await
            }
        }?;
        let is_definition = target.gvk.group == "apiextensions.k8s.io";
        if is_definition && !options.is_dry_run && applied.outcome != Outcome::Unchanged {
            self.wait_established(&target).await;
        }
        Ok(applied)
    }

    /// Writes by a three-way patch or a replacement; reads again when what was known has changed meanwhile.
    async fn write_until_settled(
        &self,
        permit: &Permit,
        resource: &ApiResource,
        target: &Target,
        body: &Value,
        options: &ApplyOptions,
        is_replaced: bool,
    ) -> Result<Applied, ApiError> {
        let mut attempt = 1;
        let mut known = options.known.clone();
        loop {
            let was_known = known != Known::Nothing;
            let result = if is_replaced {
                self.replace_once(permit, resource, target, body, options, &known).await
            } else {
                self.apply_once(permit, resource, target, body, options, &known).await
            };
            known = Known::Nothing;
            match result {
                Err(error) if is_outdated(&error, was_known) && attempt < CONFLICT_ATTEMPTS_MAX => {
                    attempt += 1;
                }
                Err(error)
                    if options.is_forced
                        && is_worth_forcing(&error)
                        && !(is_replaced && is_container(&target.gvk)) =>
                {
                    return self.recreate(permit, resource, target, body, options).await;
                }
                other => return other,
            }
        }
    }

    async fn apply_once(
        &self,
        permit: &Permit,
        resource: &ApiResource,
        target: &Target,
        modified: &Value,
        options: &ApplyOptions,
        known: &Known,
    ) -> Result<Applied, ApiError> {
        let Some(live) = self.read_unless_known(resource, target, known).await? else {
            if options.is_dry_run {
                return Ok(applied(resource, target, Outcome::Created, &[], None));
            }
            return self.create_as(permit, Outcome::Created, resource, target, modified, options).await;
        };
        if is_other_role(&target.gvk, modified, &live) {
            // The role of a binding cannot be changed (ENG-177).
            return self.recreate(permit, resource, target, modified, options).await;
        }
        let (mut patch, kind) = three_way(&target.gvk, modified, &live)?;
        if is_empty_patch(&patch) {
            return Ok(applied(resource, target, Outcome::Unchanged, &[], Some(live)));
        }
        if options.is_dry_run {
            return Ok(applied(resource, target, Outcome::Configured, &[], None));
        }
        // A patch made for an older state would leave out what has to change since (F3).
        if matches!(known, Known::Present(_)) {
            let version = live.metadata().resource_version.as_str();
            access::metadata_mut(&mut patch).insert("resourceVersion".to_owned(), version.into());
        }
        let path = write_path(&resource.object_path(&target.namespace, &target.name)?, options);
        let answer = self.send(permit, "patch", Method::PATCH, &path, &patch, kind).await?;
        let after = object_of(&answer, "patch")?;
        let is_same = after.metadata().resource_version == live.metadata().resource_version;
        let outcome = if is_same { Outcome::Unchanged } else { Outcome::Configured };
        Ok(applied(resource, target, outcome, &answer.warnings, Some(after)))
    }

    /// The live object: as the caller knows it, else read.
    async fn read_unless_known(
        &self,
        resource: &ApiResource,
        target: &Target,
        known: &Known,
    ) -> Result<Option<Arc<Object>>, ApiError> {
        match known {
            Known::Present(live) => Ok(Some(Arc::clone(live))),
            Known::Absent => Ok(None),
            Known::Nothing => match self.read(resource, &target.namespace, &target.name, &[]).await {
                Ok(live) => Ok(Some(Arc::new(live))),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    async fn apply_server_side(
        &self,
        permit: &Permit,
        resource: &ApiResource,
        target: &Target,
        desired: &Value,
        options: &ApplyOptions,
    ) -> Result<Applied, ApiError> {
        let path = format!(
            "{}&force=true",
            write_path(&resource.object_path(&target.namespace, &target.name)?, options)
        );
        let mut body = desired.clone();
        // The server refuses manifests that carry managed fields.
        access::metadata_mut(&mut body).remove("managedFields");
        let answer = self.send(permit, "apply", Method::PATCH, &path, &body, APPLY_PATCH).await?;
        finished(resource, target, Outcome::ServerSideApplied, &answer)
    }

    /// What a server-side apply would make of an object, by the API server itself; nothing is changed (ENG-88). The
    /// answer has the whole record of owners.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn predict(&self, permit: &Permit, desired: &Value) -> Result<Value, ApiError> {
        let target = Target::of(desired);
        let resource = self.place_permitted(permit, &target).await?;
        let options = ApplyOptions { is_unvalidated: true, ..ApplyOptions::default() };
        let path = write_path(&resource.object_path(&target.namespace, &target.name)?, &options);
        let mut body = desired.clone();
        access::metadata_mut(&mut body).remove("managedFields");
        let path = format!("{path}&force=true&dryRun=All");
        let answer = self.send(permit, "predict", Method::PATCH, &path, &body, APPLY_PATCH).await?;
        serde_json::from_slice(&answer.bytes).map_err(|error| ApiError::malformed("predict", &error))
    }

    async fn replace_once(
        &self,
        permit: &Permit,
        resource: &ApiResource,
        target: &Target,
        desired: &Value,
        options: &ApplyOptions,
        known: &Known,
    ) -> Result<Applied, ApiError> {
        let Some(live) = self.read_unless_known(resource, target, known).await? else {
            if options.is_dry_run {
                return Ok(applied(resource, target, Outcome::Created, &[], None));
            }
            return self.create_as(permit, Outcome::Created, resource, target, desired, options).await;
        };
        let outcome = if is_container(&target.gvk) { Outcome::Updated } else { Outcome::Replaced };
        if options.is_dry_run {
            return Ok(applied(resource, target, outcome, &[], None));
        }
        if options.is_forced && !is_container(&target.gvk) {
            return self.recreate(permit, resource, target, desired, options).await;
        }
        let mut body = desired.clone();
        let version = live.metadata().resource_version.as_str();
        access::metadata_mut(&mut body).insert("resourceVersion".to_owned(), version.into());
        let path = write_path(&resource.object_path(&target.namespace, &target.name)?, options);
        let answer = self.send(permit, "replace", Method::PUT, &path, &body, JSON).await?;
        finished(resource, target, outcome, &answer)
    }

    /// An object that the server names is created, never found again: only where the user asked for a creation,
    /// as `kubectl` has it. Nothing of it is ever deleted or replaced.
    async fn create_nameless(
        &self,
        permit: &Permit,
        resource: &ApiResource,
        target: &Target,
        desired: &Value,
        options: &ApplyOptions,
    ) -> Result<Applied, ApiError> {
        let prefix = access::text_at(desired, &["metadata", "generateName"]);
        if prefix.is_empty() {
            return Err(ApiError::Name("resource name may not be empty".to_owned()));
        }
        if options.method != ApplyMethod::Replace {
            return Err(ApiError::Name(format!(
                "from {prefix}: cannot use generate name with apply; make it a hook, or set the sync option \
                 Replace=true to create one object per sync"
            )));
        }
        if options.is_dry_run {
            let target = Target { name: prefix.into(), ..target.clone() };
            return Ok(applied(resource, &target, Outcome::Created, &[], None));
        }
        self.create_as(permit, Outcome::Created, resource, target, desired, options).await
    }

    async fn create_as(
        &self,
        permit: &Permit,
        outcome: Outcome,
        resource: &ApiResource,
        target: &Target,
        body: &Value,
        options: &ApplyOptions,
    ) -> Result<Applied, ApiError> {
        let path = write_path(&resource.collection_path(&target.namespace)?, options);
        let answer = self.send(permit, "create", Method::POST, &path, body, JSON).await?;
        finished(resource, target, outcome, &answer)
    }

    /// Waits for a definition to be served; running out of time is only logged (ENG-179).
    async fn wait_established(&self, target: &Target) {
        let established = async {
            while !matches!(self.get(target).await, Ok(Some(definition)) if is_established(&definition)) {
                tokio::time::sleep(ESTABLISHED_POLL).await;
            }
        };
        if tokio::time::timeout(ESTABLISHED_TIMEOUT, established).await.is_err() {
            debug!(name = %target.name, "definition is not established yet");
        }
        if let Err(error) = self.discovery.refresh().await {
            debug!(%error, "discovery after a new definition failed");
        }
    }
}

/// Path of a write with its query.
pub(super) fn write_path(path: &str, options: &ApplyOptions) -> String {
    // Unknown fields are an error, as with the reference, which validates before it sends.
    let validation = if options.is_unvalidated { "Ignore" } else { "Strict" };
    format!("{path}?fieldManager={}&fieldValidation={validation}", encode(FIELD_MANAGER))
}

pub(super) fn finished(
    resource: &ApiResource,
    target: &Target,
    outcome: Outcome,
    answer: &Answer,
) -> Result<Applied, ApiError> {
    let object = object_of(answer, "apply")?;
    // The server may have made the name.
    let target = Target { name: object.metadata().name.clone(), ..target.clone() };
    Ok(applied(resource, &target, outcome, &answer.warnings, Some(object)))
}

pub(super) fn applied(
    resource: &ApiResource,
    target: &Target,
    outcome: Outcome,
    warnings: &[String],
    object: Option<Arc<Object>>,
) -> Applied {
    Applied { outcome, message: message::success(resource, &target.name, outcome, warnings), object }
}

/// The manifest with the record of itself that the next three-way patch starts from.
fn with_last_applied(desired: &Value) -> Result<Value, ApiError> {
    let mut modified = desired.clone();
    access::remove_annotation(&mut modified, LAST_APPLIED);
    // kubectl records an empty annotations map where there was none.
    let mut recorded = modified.clone();
    access::member_object_mut(access::metadata_mut(&mut recorded), "annotations");
    let mut text = serde_json::to_string(&recorded)
        .map_err(|error| ApiError::malformed("record the manifest", &error))?;
    text.push('\n');
    access::set_annotation(&mut modified, LAST_APPLIED, &text);
    Ok(modified)
}

/// The patch from live to modified, and its media type: strategic for built-in types, merge for others.
fn three_way(gvk: &Gvk, modified: &Value, live: &Object) -> Result<(Value, &'static str), ApiError> {
    let current = live
        .to_value()
        .map_err(|error| ApiError::Malformed { what: "read the live object", reason: error.to_string() })?;
    let original = access::annotation(&current, LAST_APPLIED)
        .and_then(|text| serde_json::from_str::<Value>(text).ok())
        .filter(Value::is_object)
        .unwrap_or_else(|| Value::Object(Map::new()));
    if builtin::is_builtin(gvk) {
        match strategic::three_way(gvk, &original, modified, &current, strategic::Options::default()) {
            Ok(patch) => return Ok((patch, STRATEGIC_PATCH)),
            Err(strategic::StrategicError::NotBuiltin(_)) => {}
            Err(error) => {
                return Err(ApiError::Malformed { what: "compute the patch", reason: error.to_string() });
            }
        }
    }
    Ok((merge_patch::three_way(&original, modified, &current), MERGE_PATCH))
}

/// Whether a role binding refers to another role than the live one.
fn is_other_role(gvk: &Gvk, modified: &Value, live: &Object) -> bool {
    let is_binding = gvk.group == "rbac.authorization.k8s.io"
        && matches!(gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding");
    if !is_binding {
        return false;
    }
    let Ok(live) = live.to_value() else { return false };
    let role = |object: &Value| {
        let member = |name| access::text_at(object, &["roleRef", name]).to_owned();
        (member("kind"), member("name"))
    };
    modified.get("roleRef").is_some() && role(modified) != role(&live)
}

fn is_empty_patch(patch: &Value) -> bool {
    patch.as_object().is_none_or(Map::is_empty)
}

/// Refusals that come from knowing too little or too old: reading again helps.
fn is_outdated(error: &ApiError, was_known: bool) -> bool {
    // A namespace that is not there answers 404 too; then the second attempt, which reads, says so.
    error.is_conflict() || error.is_already_exists() || (was_known && error.is_not_found())
}

/// Refusals that a new object may not meet: conflicts, immutable fields and invalid transitions (ENG-175).
pub(super) fn is_worth_forcing(error: &ApiError) -> bool {
    // A creation that failed has nothing to delete, and has said what is wrong.
    let is_of_recreation = matches!(error, ApiError::NotRecreated { .. });
    !is_of_recreation && (error.is_conflict() || error.code() == 422)
}

/// Deleting one of these deletes everything inside; with `Replace` they are changed in place.
fn is_container(gvk: &Gvk) -> bool {
    matches!(gvk.kind.as_str(), "Namespace" | "CustomResourceDefinition")
}

fn is_established(definition: &Object) -> bool {
    let Ok(value) = definition.to_value() else { return false };
    let conditions = access::at(&value, &["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        access::text(condition, "type") == "Established" && access::text(condition, "status") == "True"
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn eng_175_the_record_is_without_itself() {
        let desired = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "annotations": {LAST_APPLIED: "old"}}, "data": {"k": "v"}});
        let modified = with_last_applied(&desired).unwrap();
        let text = access::annotation(&modified, LAST_APPLIED).unwrap();
        assert_eq!(
            text,
            "{\"apiVersion\":\"v1\",\"data\":{\"k\":\"v\"},\"kind\":\"ConfigMap\",\"metadata\":{\"annotations\":{},\"name\":\"a\"}}\n"
        );
    }

    #[test]
    fn eng_179_established_is_a_condition() {
        let of = |status: &str| {
            let value = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "a"},
                "status": {"conditions": [{"type": "Established", "status": status}]}});
            is_established(&Object::from_value(&value).unwrap())
        };
        assert!(of("True"));
        assert!(!of("False"));
    }
}
