//! Changing and deleting single resources of an application (API-140).

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_cluster::PatchKind;
use tiphys_object::ResourceKey;
use tiphys_policy::rbac::ResourceOperation;

use super::access::{self, Right};
use super::nothing;
use super::requests::Named;
use super::resources::live;
use crate::call::{Reply, Status};
use crate::live::Removal;
use crate::services::audit::{self, Action};
use crate::services::context::Context;

/// `ApplicationResourcePatchRequest`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
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
