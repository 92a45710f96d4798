//! Changing and deleting single resources of an application, and running actions on them (API-140, API-142).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_cluster::{PatchKind, Removal};
use tiphys_object::ResourceKey;
use tiphys_policy::rbac::ResourceOperation;

use super::access::{self, Right};
use super::nothing;
use super::requests::Named;
use super::resources::live;
use crate::call::{Reply, Status};
use crate::services::audit::{self, Action};
use crate::services::context::Context;

/// `ApplicationResourcePatchRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the fields of the message")]
pub(super) struct Patch {
    patch: String,
    patch_type: String,
    #[serde(flatten)]
    about: About,
}

/// `ApplicationResourceDeleteRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Delete {
    force: bool,
    orphan: bool,
    #[serde(flatten)]
    about: About,
}

/// What names a resource. The version is that which is watched, whichever is sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct About {
    namespace: String,
    resource_name: String,
    group: String,
    kind: String,
    #[serde(flatten)]
    named: Named,
}

impl About {
    fn key(&self) -> ResourceKey {
        ResourceKey::new(&self.group, &self.kind, &self.namespace, &self.resource_name)
    }

    /// The resource in records.
    fn text(&self) -> String {
        format!("resource {}/{} '{}'", self.group, self.kind, self.resource_name)
    }
}

/// `ApplicationResourceRequest`, where the version does not matter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct List {
    #[serde(flatten)]
    about: About,
}

/// `ResourceActionRunRequest` and its second version.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Run {
    action: String,
    resource_action_parameters: Vec<Parameter>,
    #[serde(flatten)]
    about: About,
}

/// `ResourceActionParameters`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameter {
    name: String,
    value: String,
}

/// What can be done with a resource (API-142).
pub(super) async fn actions(context: &Context<'_>, asked: List) -> Result<Reply, Status> {
    let found = access::fresh(context, "get", &asked.about.named).await?;
    let actions = live(context)?.actions(&found.key, &asked.about.key()).await?;
    Ok(Reply::value(json!({"actions": actions})))
}

/// Does it.
pub(super) async fn run(context: &Context<'_>, asked: Run) -> Result<Reply, Status> {
    let (about, key) = (&asked.about, asked.about.key());
    let action = format!("action/{}/{}/{}", about.group, about.kind, asked.action);
    let found = access::fresh(context, &action, &about.named).await?;
    let params =
        asked.resource_action_parameters.into_iter().map(|parameter| (parameter.name, parameter.value));
    let params: BTreeMap<String, String> = params.collect();
    let object = live(context)?.run(&found.key, &key, (&asked.action, &params)).await?;
    let text = format!(
        "ran action {} on resource {}/{}/{}",
        asked.action, about.group, about.kind, about.resource_name
    );
    audit::application(context, &found.from, &Action::Ran(text));
    audit::resource(context, &object, &Action::Ran(format!("ran action {}", asked.action)));
    Ok(nothing())
}

pub(super) async fn patch(context: &Context<'_>, asked: Patch) -> Result<Reply, Status> {
    let key = asked.about.key();
    let right = Right::Change(ResourceOperation::Update, &key);
    let found = access::fresh_with(context, &right, &asked.about.named).await?;
    let kind = PatchKind::parse(&asked.patch_type)
        .ok_or_else(|| Status::invalid(format!("patch type {:?} is not supported", asked.patch_type)))?;
    let patch: Value = serde_json::from_str(&asked.patch)
        .map_err(|error| Status::invalid(format!("the patch is no JSON: {error}")))?;
    let object = live(context)?.patch(&found.key, &key, (kind, &patch)).await?;
    audit::application(
        context,
        &found.from,
        &Action::PatchedResource(format!("patched {}", asked.about.text())),
    );
    Ok(Reply::value(json!({"manifest": object.to_string()})))
}

pub(super) async fn delete(context: &Context<'_>, asked: Delete) -> Result<Reply, Status> {
    let key = asked.about.key();
    let right = Right::Change(ResourceOperation::Delete, &key);
    let found = access::fresh_with(context, &right, &asked.about.named).await?;
    let how = Removal { force: asked.force, orphan: asked.orphan };
    live(context)?.delete(&found.key, &key, how).await?;
    audit::application(
        context,
        &found.from,
        &Action::DeletedResource(format!("deleted {}", asked.about.text())),
    );
    Ok(nothing())
}
