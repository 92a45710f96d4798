//! One look at a set that is being deleted (ASET section 9). What goes next is decided from live Applications alone, so
//! that a controller which starts anew goes on where another one stopped.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::names::finalizer;
use tiphys_appset::deletion::{DeletionFacts, Doomed, End, Next, Order, Outcome, Progress, REQUEUE, next};
use tiphys_appset::live::LiveApplication;
use tiphys_appset::status::{health, next_conditions};
use tiphys_cluster::{Deleted, ObjectQuery, error_chain};
use tiphys_object::Object;

use super::pass::{failed, remembered};
use super::record::SetContext;
use super::{APPLICATIONS_MAX, Wish, carry_out, live};
use crate::app_key::{AppKey, SetKey};
use crate::store::set_of;
use crate::world::World;

/// Age from which an Application that is said to be on its way out is asked for itself (ASET-248).
const VERIFIED_AFTER: jiff::SignedDuration = jiff::SignedDuration::from_mins(2);

/// Deletes what goes next, or lets the set go.
pub(super) async fn pass(cx: &mut SetContext<'_>, world: &World) -> Wish {
    if !cx.set.metadata.finalizers.iter().any(|name| name == finalizer::CASCADE) || cx.is_dry() {
        return Wish::Done;
    }
    let settings = world.settings.application_sets();
    let asked = cx.set.spec.sync_policy.as_ref().and_then(|policy| policy.applications_sync.as_deref());
    let policy = settings.policy_for(asked);
    let live = match known(cx).await {
        Ok(live) => live,
        Err(error) => {
            tracing::warn!(set = %cx.key, error, "the set's Applications are not known");
            return Wish::Backoff;
        }
    };
    let doomed: Vec<Doomed> = live.values().map(doomed).collect();
    let set = Arc::clone(&cx.set);
    let facts = DeletionFacts {
        strategy: set.spec.strategy.as_ref(),
        policy,
        finalizers: &set.metadata.finalizers,
        annotations: &set.metadata.annotations,
        conditions: &set.status.conditions,
        live: &doomed,
        settings,
        now: cx.sets.shared.clock.now(),
    };
    let end = delete(cx, &facts, &live).await;
    finish(cx, &facts, &live, end).await
}

/// The live Applications of the set. Whoever seems to take long to go is asked for itself: a late watch holds up nothing
/// (ASET-248).
async fn known(cx: &SetContext<'_>) -> Result<BTreeMap<String, LiveApplication>, String> {
    let mut live = live::applications(cx, std::collections::BTreeSet::new()).await?;
    live.retain(|_, application| application.is_of(&cx.set));
    let now = cx.sets.shared.clock.now();
    let is_old = |application: &&LiveApplication| {
        application.deletion_timestamp.is_some_and(|since| now.duration_since(since) > VERIFIED_AFTER)
    };
    let old: Vec<(String, String)> =
        live.values().filter(is_old).map(|old| (old.name.clone(), old.uid.clone())).collect();
    for (name, uid) in old {
        let found = cx.sets.shared.home.get(&carry_out::target(cx, &name)).await;
        match found.map_err(|error| error_chain(&error))? {
            Some(object) if object.metadata().uid == uid => {}
            Some(_) => return Err(format!("Application {name} was deleted and made again")),
            None => {
                cx.sets.shared.store.remove(&AppKey::new(&cx.key.namespace, &name));
                live.remove(&name);
            }
        }
    }
    Ok(live)
}

fn doomed(live: &LiveApplication) -> Doomed {
    Doomed {
        name: live.name.clone(),
        labels: live.labels.clone(),
        terminating_since: live.deletion_timestamp,
        finalizers: live.finalizers.clone(),
    }
}

/// Deletes one Application after the other as long as that is what comes next.
async fn delete(
    cx: &SetContext<'_>,
    facts: &DeletionFacts<'_>,
    live: &BTreeMap<String, LiveApplication>,
) -> End {
    // It may be the set's, and nobody knows in which step (INV-12, INV-15).
    let unreadable = cx.sets.shared.store.unreadable(&cx.key.namespace).into_iter().next();
    let failed = unreadable.map(|(name, why)| (name.to_string(), format!("it cannot be read: {why}")));
    let mut progress = Progress { failed, ..Progress::default() };
    loop {
        let name = match next(facts, &progress) {
            Next::End(end) => return end,
            Next::Delete(name) => name,
        };
        let uid = live.get(&name).map_or("", |live| live.uid.as_str());
        match carry_out::delete(cx, &name, uid).await {
            Ok(Deleted::Accepted) => drop(progress.deleted.insert(name)),
            Ok(Deleted::Absent) => {
                cx.sets.shared.store.remove(&AppKey::new(&cx.key.namespace, &name));
                progress.gone.insert(name);
            }
            Err(error) => progress.failed = Some((name, error_chain(&error))),
        }
    }
}

/// Stores and says how the look ended.
async fn finish(
    cx: &mut SetContext<'_>,
    facts: &DeletionFacts<'_>,
    live: &BTreeMap<String, LiveApplication>,
    end: End,
) -> Wish {
    if end.orphans {
        for application in live.values() {
            let is_ours = |reference: &&Value| is_reference(reference, &cx.key);
            let (ours, left): (Vec<&Value>, Vec<&Value>) =
                application.owner_references.iter().partition(is_ours);
            if ours.is_empty() {
                continue;
            }
            let left: Vec<Value> = left.into_iter().cloned().collect();
            if let Err(error) = carry_out::set_free(cx, &application.name, &application.uid, &left).await {
                tracing::warn!(set = %cx.key, application = %application.name, %error, "it could not be set free");
                return Wish::Backoff;
            }
        }
    }
    let told = remembered(cx, |memory| std::mem::take(&mut memory.told)).unwrap_or_default();
    let of = |event: &tiphys_appset::events::Event| (event.reason.clone(), event.message.clone());
    for event in end.events.iter().filter(|event| !told.contains(&of(event))) {
        cx.sets.note(&cx.object, event);
    }
    remembered(cx, |memory| memory.told = end.events.iter().map(of).collect());
    if let Some(condition) = &end.condition {
        let mut status = cx.set.status.clone();
        status.conditions =
            next_conditions(&status.conditions, std::slice::from_ref(condition), &[], facts.now);
        status.health = Some(health(&status.conditions));
        if let Err(error) = cx.write_status(&status).await {
            return failed(cx, &error);
        }
    }
    match end.outcome {
        Outcome::Requeue => Wish::After(REQUEUE),
        Outcome::Error(error) => {
            tracing::warn!(set = %cx.key, error, "the set cannot be deleted now");
            Wish::Backoff
        }
        Outcome::Release => release(cx, facts, end.orphans).await,
    }
}

fn is_reference(reference: &Value, set: &SetKey) -> bool {
    let text = |name: &str| reference.get(name).and_then(Value::as_str).unwrap_or("");
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    group == tiphys_api::names::GROUP && text("kind") == "ApplicationSet" && text("name") == set.name
}

/// Lets the set go. With it the garbage collector takes whatever is left at once: where there is an order, the API server
/// itself has to say that nothing is left (ASET-248).
async fn release(cx: &mut SetContext<'_>, facts: &DeletionFacts<'_>, orphans: bool) -> Wish {
    let is_ordered = matches!(Order::of(facts.strategy), Ok(Order::Reverse(_) | Order::Custom(_)));
    let deletes = facts.policy.may_delete() && !facts.finalizers.iter().any(|name| name == "orphan");
    if is_ordered && deletes && !orphans {
        match left_over(cx, facts).await {
            Ok(None) => {}
            Ok(Some(name)) => {
                tracing::info!(set = %cx.key, application = %name, "an Application was not known yet");
                remembered(cx, |memory| memory.unseen.insert(name));
                return Wish::Backoff;
            }
            Err(error) => {
                tracing::warn!(set = %cx.key, error, "whether Applications are left is not known");
                return Wish::Backoff;
            }
        }
    }
    match cx.release().await {
        Ok(()) => Wish::Done,
        Err(error) => failed(cx, &error),
    }
}

/// An Application of the set that nobody knew of.
async fn left_over(cx: &SetContext<'_>, facts: &DeletionFacts<'_>) -> Result<Option<SmolStr>, String> {
    let query = ObjectQuery {
        resource: Arc::clone(&cx.sets.applications),
        namespace: cx.key.namespace.clone(),
        label_selector: String::new(),
        field_selector: String::new(),
    };
    let listed = cx.sets.answerer.list(query, APPLICATIONS_MAX).await?;
    let is_known = |object: &&Arc<Object>| facts.live.iter().any(|doomed| doomed.name == object.name());
    // One that cannot be read may be the set's.
    let is_of =
        |object: &Object| LiveApplication::read(&object.raw()).map_or(true, |live| live.is_of(&cx.set));
    let is_ours = |object: &&Arc<Object>| set_of(object).is_some_and(|set| set == cx.key) && is_of(object);
    Ok(listed.iter().filter(is_ours).find(|object| !is_known(object)).map(|object| object.name().into()))
}
