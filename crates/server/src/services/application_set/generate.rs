//! What a set would make, for those who may make it (API-157, ASET-302, ASET-304, CLI-606, CLI-607).
//!
//! Numbers of fields from 1001 on are ours: other servers do not answer them, and other programs do not read them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::ApplicationSet;
use tiphys_appset::live::{LiveApplication, owner_reference};
use tiphys_appset::permission::Verb;
use tiphys_appset::preview::{Changes, Existing, Preview};
use tiphys_object::{access, merge_patch};
use tiphys_policy::permit::Own;
use tiphys_service::application_set as rules;
use tiphys_wire::status::Code;

use super::{admit, failed, may_see_unread, wanted};
use crate::call::Status;
use crate::catalog::AppKey;
use crate::live::Live;
use crate::services::context::{Context, hidden};

/// Refusals that are told beside an answer that has no place for them.
const REFUSALS_MAX: usize = 20;

/// `ApplicationSetGenerateRequest`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Asked {
    application_set: Option<Value>,
    output_parameters: bool,
    /// What the set is held against: nothing when empty, `stored` or `given`.
    preview: String,
    /// The Applications that are given, one JSON document each.
    existing: Vec<String>,
}

/// Whoever knows what sets make.
fn live<'c>(context: &'c Context<'_>) -> Result<&'c dyn Live, Status> {
    let live = context.parts.live.as_deref();
    live.ok_or_else(|| {
        Status::new(Code::Unavailable, "this process has no controller, which knows what a set makes")
    })
}

/// What a set comes to.
pub(super) async fn generated(context: &Context<'_>, set: &ApplicationSet) -> Result<Preview, Status> {
    live(context)?.generate(set, Existing::Unasked).await
}

/// Applications as the API shows them.
pub(super) fn values(preview: &Preview) -> Result<Vec<Value>, Status> {
    let values = preview.applications.iter().map(serde_json::to_value).collect::<Result<_, _>>();
    values.map_err(|_unwritable| Status::internal("an application cannot be written"))
}

/// What is odd, and what would not be written: for answers that have no place for that.
pub(super) fn warnings(preview: &Preview) -> Vec<String> {
    let refusals = &preview.validation.errors;
    let mut told = preview.warnings.clone();
    told.truncate(REFUSALS_MAX);
    told.extend(refusals.iter().take(REFUSALS_MAX).map(|(name, why)| format!("application '{name}': {why}")));
    match refusals.len().saturating_sub(REFUSALS_MAX) {
        0 => {}
        more => told.push(format!("{more} more applications would not be written")),
    }
    told
}

/// `Generate`.
pub(super) async fn generate(context: &Context<'_>, asked: Asked) -> Result<Value, Status> {
    let mut wanted = wanted(context, asked.application_set)?;
    admit(context, &wanted, Verb::Create, None)?;
    if asked.output_parameters {
        let sets = live(context)?.parameters(&wanted.set).await?;
        return Ok(json!({"parameters": sets.iter().map(Value::to_string).collect::<Vec<_>>()}));
    }
    let documents = documents(&asked.existing)?;
    let existing = match asked.preview.as_str() {
        "" => Existing::Unasked,
        "stored" => {
            if !context.parts.catalog.is_complete() {
                return Err(Status::new(Code::Unavailable, "applications are not known yet"));
            }
            keep_identity(context, &mut wanted.set).await?;
            Existing::Stored
        }
        "given" => Existing::Given(given(&wanted.set, &documents)?),
        other => {
            return Err(Status::invalid(format!("preview {other:?} is none of: \"stored\", \"given\"")));
        }
    };
    let given = matches!(existing, Existing::Given(_)).then_some(&documents);
    let preview = live(context)?.generate(&wanted.set, existing).await?;
    let refusals: Vec<Value> = (preview.validation.errors.iter())
        .map(|(name, why)| json!({"application": name, "message": why}))
        .collect();
    let mut answer = json!({"applications": values(&preview)?, "isChecked": true, "refusals": refusals,
        "warnings": preview.warnings});
    if let (Some(changes), Some(members)) = (&preview.changes, answer.as_object_mut()) {
        members.insert("preview".to_owned(), shown(context, &wanted.set, changes, given)?);
    }
    Ok(answer)
}

/// Takes the identity and the rollout state from the stored set, if the caller may see it; otherwise the set is treated as
/// new (SEC-25).
async fn keep_identity(context: &Context<'_>, set: &mut ApplicationSet) -> Result<(), Status> {
    let store = context.parts.store.of(&set.metadata.namespace);
    let stored = store.get(Own::ApplicationSet, &set.metadata.name).await;
    let Some(stored) = stored.map_err(tiphys_service::Error::from)? else { return Ok(()) };
    let stored = match rules::read(&stored) {
        Ok(stored) => stored,
        Err(error) if may_see_unread(context, &stored) => return Err(failed(error)),
        Err(_unreadable) => return Ok(()),
    };
    let Ok(stored) = context.authorize("get", stored) else { return Ok(()) };
    set.metadata.uid.clone_from(&stored.get().metadata.uid);
    set.status.clone_from(&stored.get().status);
    Ok(())
}

/// Applications that somebody sent, by name.
fn documents(texts: &[String]) -> Result<BTreeMap<String, Value>, Status> {
    let read = |text: &String| {
        let value: Value = serde_json::from_str(text)
            .map_err(|error| Status::invalid(format!("an existing Application is no JSON: {error}")))?;
        Ok((access::name(&value).to_owned(), value))
    };
    texts.iter().map(read).collect()
}

/// The same, as decisions read them; those that belong to nobody count as the set's.
fn given(
    set: &ApplicationSet,
    documents: &BTreeMap<String, Value>,
) -> Result<BTreeMap<String, LiveApplication>, Status> {
    let read = |(name, value): (&String, &Value)| {
        let mut value = value.clone();
        let owner = json!([owner_reference(&set.metadata.name, &set.metadata.uid)]);
        access::metadata_mut(&mut value).entry("ownerReferences").or_insert(owner);
        let live = LiveApplication::from_value(value)
            .map_err(|error| Status::invalid(format!("Application {name} cannot be read: {error}")))?;
        Ok((name.clone(), live))
    };
    documents.iter().map(read).collect()
}

/// What would be done. What Applications are and become only those learn who may see them.
fn shown(
    context: &Context<'_>,
    set: &ApplicationSet,
    changes: &Changes,
    given: Option<&BTreeMap<String, Value>>,
) -> Result<Value, Status> {
    let mut all = Vec::new();
    let only = |name: &String, action: &str| json!({"name": name, "action": action});
    all.extend(changes.added.iter().map(|name| only(name, "add")));
    for (name, patch) in &changes.changed {
        let stored = match given {
            Some(given) => Ok(given.get(name).cloned()),
            None => seen(context, &set.metadata.namespace, name),
        };
        all.push(match stored {
            Ok(Some(live)) => json!({"name": name, "action": "change", "live": live.to_string(),
                "target": merge_patch::apply(live, patch).to_string()}),
            Ok(None) => only(name, "change"),
            Err(status) if status.code == Code::PermissionDenied => {
                // The full message names the other project.
                json!({"name": name, "action": "change", "message": hidden().message})
            }
            Err(status) => return Err(status),
        });
    }
    all.extend(changes.removed.iter().map(|name| only(name, "remove")));
    all.extend(
        (changes.refused.iter()).map(|(name, why)| json!({"name": name, "action": "refuse", "message": why})),
    );
    Ok(json!({"changes": all, "unchanged": changes.unchanged,
        "problem": changes.problem.as_deref().unwrap_or_default()}))
}

/// A stored Application, where the caller may see it.
fn seen(context: &Context<'_>, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
    let Some(entry) = context.parts.catalog.get(&AppKey::new(namespace, name)) else { return Ok(None) };
    let _proof = context.authorize("get", entry.application()?)?;
    entry.value().map(Some)
}
