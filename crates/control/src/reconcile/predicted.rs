//! What the API server of a destination would make of manifests: a dry run of each, compared with the live object (API-145,
//! ENG-88). Who asks was authorized for the application; here the project is asked for each object, and nothing is written.

use serde_json::{Value, json};
use tiphys_api::names::annotation;
use tiphys_cluster::Target;
use tiphys_engine::diff::{DiffOptions, DiffResult, diff, diff_predicted};
use tiphys_engine::normalize::IgnoreRules;
use tiphys_object::{Object, ResourceKey, access};

use super::load::AppContext;
use super::resolve::Resolved;
use super::resource::failed;
use super::shown::{ShowError, begin, hide, mask, resolved, value_of};
use super::visible::{VisibleNode, VisibleObjects};
use crate::app_key::AppKey;
use crate::context::Context;

/// A pair that is asked about.
#[derive(Clone, Debug, Default)]
pub struct AskedPair {
    /// What it is.
    pub key: ResourceKey,
    /// The live object as the caller was shown it; `None` where they know of none. It is never compared: what is live
    /// says the cluster.
    pub live: Option<Value>,
    /// The manifest; `None` where nothing is desired.
    pub target: Option<Value>,
}

/// Compares pairs by dry runs, without secrets: a list of `ResourceDiff`.
pub(crate) async fn server_side_diff(
    controller: &Context,
    key: &AppKey,
    pairs: &[AskedPair],
) -> Result<Vec<Value>, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let rules = cx.world.ignore_rules(&cx.app.spec.ignore_differences, &cx.programs.runner);
    let ignore = rules.map_err(ShowError::Failed)?;
    // One after the other: a client that is in a hurry asks in several calls.
    let mut answers = Vec::with_capacity(pairs.len());
    for pair in pairs {
        answers.push(answer(&cx, &resolved, &ignore, pair).await?);
    }
    let show = || -> Result<Vec<Value>, ShowError> {
        let options =
            DiffOptions { ignore: &ignore, settings: cx.world.diff.for_application(cx.app.sync_options()) };
        let mask = mask(&cx);
        let keeps_webhooks = keeps_webhooks(&cx);
        let mut shown = Vec::with_capacity(pairs.len());
        for (pair, (live, predicted)) in pairs.iter().zip(answers) {
            let result = match (live, predicted) {
                (Some(live), Some(predicted)) => {
                    let keeps = keeps_webhooks || asks_for_webhooks(&predicted);
                    let compared = diff_predicted(predicted, live, keeps, &options);
                    compared.map_err(|error| ShowError::Failed(format!("{}: {error}", pair.key)))?
                }
                (live, predicted) => diff(predicted.as_ref(), live.as_ref(), &options)
                    .map_err(|error| ShowError::Failed(error.to_string()))?,
            };
            let DiffResult { modified, normalized_live: mut live, predicted_live: mut target } = result;
            hide(&mask, &mut [&mut target, &mut live])?;
            shown.push(json!({
                "group": pair.key.group, "kind": pair.key.kind, "namespace": pair.key.namespace,
                "name": pair.key.name, "targetState": target.to_string(), "liveState": live.to_string(),
                "modified": modified,
            }));
        }
        Ok(shown)
    };
    cx.programs.compute(pairs.len(), show).await
}

/// The live object, and what an apply would make of it: what is to be created or deleted is not asked about (ENG-88).
async fn answer(
    cx: &AppContext<'_>,
    resolved: &Resolved,
    ignore: &IgnoreRules,
    pair: &AskedPair,
) -> Result<(Option<Value>, Option<Value>), ShowError> {
    let Some(known) = &pair.live else { return Ok((None, pair.target.clone())) };
    resolved.refusal(&pair.key, &cx.world).map_or(Ok(()), |refusal| Err(ShowError::Denied(refusal)))?;
    let objects = VisibleObjects::of(cx, resolved);
    let node = managed(cx, &objects, &pair.key).await?;
    let Some(target) = &pair.target else {
        // Nothing is predicted for what nobody wants; it is shown as it is.
        let live = read(cx, (&objects, &node), ignore, &node.target()).await?;
        return Ok((live, None));
    };
    let wanted = Target::of(target);
    if wanted.key() != pair.key {
        let text = format!("the manifest for {} is about {}", pair.key, wanted.key());
        return Err(ShowError::Failed(text));
    }
    let live = read(cx, (&objects, &node), ignore, &wanted).await?;
    let Some(live) = live else { return Ok((None, Some(target.clone()))) };
    let mut target = target.clone();
    unhide(&mut target, known, &live);
    let object = Object::from_value(&target).map_err(|error| ShowError::Failed(error.to_string()))?;
    // Deviation (API-143): the dry run is made as the account that a sync would have, not with all rights of ours.
    let permit = resolved.permit(&object, &cx.world).map_err(ShowError::Denied)?;
    let predicted = resolved.destination.writer.predict(&permit, &target).await;
    let predicted = predicted.map_err(|error| failed("predict", &pair.key, &error))?;
    Ok((Some(live), Some(predicted)))
}

/// Finds an object that the application itself manages (API-145). Every other key gets the same refusal.
async fn managed(
    cx: &AppContext<'_>,
    objects: &VisibleObjects<'_>,
    key: &ResourceKey,
) -> Result<VisibleNode, ShowError> {
    let refused = || {
        let ResourceKey { group, kind, namespace, name } = key;
        let app = &cx.key.name;
        let text = format!("resource {group}/{kind} {namespace}/{name} is not managed by application {app}");
        ShowError::Denied(text)
    };
    match objects.find(key).await {
        Ok(node) if node.is_root() => Ok(node),
        Ok(_) | Err(ShowError::NotFound(_)) => Err(refused()),
        Err(error) => Err(error),
    }
}

/// The live object in the version of a target.
async fn read(
    cx: &AppContext<'_>,
    (objects, node): (&VisibleObjects<'_>, &VisibleNode),
    ignore: &IgnoreRules,
    target: &Target,
) -> Result<Option<Value>, ShowError> {
    let managers = ignore.managers_of(&target.gvk, &target.namespace, &target.name);
    let object = objects.read_with_books(node, target, &managers).await.map_err(|error| {
        ShowError::Unavailable(format!("{} of application {}: {error}", target.key(), cx.key.name))
    })?;
    object.as_deref().map(value_of).transpose()
}

/// Whoever was shown a Secret has its values hidden. Where they want what they were shown of the live one, they want what
/// is live.
fn unhide(target: &mut Value, known: &Value, live: &Value) {
    if access::text(target, "kind") != "Secret" || access::text(target, "apiVersion") != "v1" {
        return;
    }
    let Some(data) = target.get_mut("data").and_then(Value::as_object_mut) else { return };
    let is_hidden = |text: &str| text.len() >= 8 && text.bytes().all(|byte| byte == b'+');
    for (name, value) in data {
        let is_same = known.pointer("/data").and_then(|data| data.get(name)) == Some(&*value);
        let found = live.get("data").and_then(|data| data.get(name));
        if let (true, true, Some(found)) = (is_same, value.as_str().is_some_and(is_hidden), found) {
            value.clone_from(found);
        }
    }
}

const INCLUDE_WEBHOOKS: &str = "IncludeMutationWebhook=true";

fn keeps_webhooks(cx: &AppContext<'_>) -> bool {
    let options = cx.app.metadata.annotations.get(annotation::COMPARE_OPTIONS);
    options.is_some_and(|options| options.split(',').any(|option| option.trim() == INCLUDE_WEBHOOKS))
}

fn asks_for_webhooks(predicted: &Value) -> bool {
    access::has_annotation_item(predicted, annotation::COMPARE_OPTIONS, INCLUDE_WEBHOOKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_145_what_a_caller_cannot_see_of_a_secret_is_no_change() {
        let secret = |a: &str, b: &str| json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": a, "b": b, "c": "++++++++"}});
        let mut target = secret("++++++++", "++++++++++++");
        unhide(&mut target, &secret("++++++++", "++++++++"), &json!({"data": {"a": "eA==", "b": "eQ=="}}));
        assert_eq!(target, secret("eA==", "++++++++++++"), "another run is another value");
        let mut other = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "++++++++"}});
        unhide(&mut other, &secret("++++++++", ""), &json!({"data": {"a": "eA=="}}));
        assert_eq!(other["data"]["a"], "++++++++");
    }
}
