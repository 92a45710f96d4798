//! The end of a run: a fixed point in bounded time, no writes after it, and the state it should be in (INV-5, INV-15, INV-17).

use std::time::Duration;

use serde_json::Value;

use super::model::{App, CONTROL_PLANE, Model, Rules, annotation, holds, key_of, owner_by, owner_of};
use super::sets;
use super::truth;
use super::users::{path_of, typed};
use super::wire::Wires;
use super::world::World;

/// Time in which everything comes to rest once nothing goes wrong any more.
const BOUND: Duration = Duration::from_mins(45);
/// Time after which everything was listed again (ENG-10).
const RESYNC: Duration = Duration::from_mins(70);
/// Writes until then: what events that were lost hide may be wrong until then, and is no reason to be busy.
const RESYNC_WRITES_MAX: u64 = 2_000;
/// Time without a write that counts as rest.
const REST: Duration = Duration::from_mins(12);
/// Time without a write that is demanded after that.
const SILENCE: Duration = Duration::from_mins(20);

/// Waits until nothing is written any more; whether it comes to that in time.
pub(super) async fn rest(world: &mut World) -> bool {
    if world.needs_resync {
        let before = world.wires.observer.lock().writes;
        world.pass(RESYNC).await;
        let now = world.wires.now();
        let mut observer = world.wires.observer.lock();
        if observer.writes.saturating_sub(before) > RESYNC_WRITES_MAX {
            let text = format!("a storm of writes, the last one: {}", observer.last_write_text());
            observer.broken(now, "INV-5", text);
        }
    }
    let begun = world.wires.now();
    loop {
        world.pass(Duration::from_mins(1)).await;
        let now = world.wires.now();
        let last = world.wires.observer.lock().last_write;
        if now.saturating_sub(last) >= REST && now.saturating_sub(begun) >= REST {
            return true;
        }
        if now.saturating_sub(begun) > BOUND {
            let mut observer = world.wires.observer.lock();
            let text = format!("no rest; the last write at {last:?}: {}", observer.last_write_text());
            observer.broken(now, "INV-5", text);
            return false;
        }
    }
}

/// Waits for the fixed point and checks it.
pub(super) async fn wait(world: &mut World, loses_events: bool) {
    if !rest(world).await {
        return;
    }
    let writes = world.wires.observer.lock().writes;
    world.pass(SILENCE).await;
    {
        let now = world.wires.now();
        let mut observer = world.wires.observer.lock();
        if observer.writes != writes {
            let text = format!("a write after the fixed point: {}", observer.last_write_text());
            observer.broken(now, "INV-5", text);
        }
    }
    let apps: Vec<App> = world.wires.observer.lock().model.apps.values().cloned().collect();
    for app in apps {
        let (invariant, checked) = if app.deleted {
            ("INV-17", gone(&world.wires, &app, loses_events))
        } else {
            ("INV-5", equal(&world.wires, &app))
        };
        if let Err(why) = checked {
            let now = world.wires.now();
            world.wires.observer.lock().broken(now, invariant, format!("{}: {why}", app.name));
        }
    }
    sets::check(&world.wires, loses_events);
    truth::check(&world.wires, loses_events);
}

/// Collections in which applications have objects.
fn collections(app: &App) -> [(&'static str, String); 5] {
    let namespace = &app.namespace;
    [
        ("configmaps", format!("/api/v1/namespaces/{namespace}/configmaps")),
        ("secrets", format!("/api/v1/namespaces/{namespace}/secrets")),
        ("deployments", format!("/apis/apps/v1/namespaces/{namespace}/deployments")),
        ("jobs", format!("/apis/batch/v1/namespaces/{namespace}/jobs")),
        ("namespaces", "/api/v1/namespaces".to_owned()),
    ]
}

/// Objects of an application in the cluster.
///
/// # Errors
/// When a list cannot be read: nothing follows from that.
pub(super) fn owned(wires: &Wires, app: &App) -> Result<Vec<Value>, String> {
    let mut found = Vec::new();
    for (plural, path) in collections(app) {
        let list = wires.get(&path);
        let items = list.as_ref().and_then(|list| list.get("items")?.as_array());
        let items = items.ok_or_else(|| format!("{path} cannot be listed"))?.iter();
        let items = items.map(|item| typed(item, plural));
        found.extend(items.filter(|item| owner_of(item).as_ref() == Some(&app.name)));
    }
    Ok(found)
}

/// Whether an object that names an application and is not declared any more is still its own, or was released (TRK-106).
pub(super) fn released(wires: &Wires, app: &App) -> impl Fn(&Value) -> bool + use<> {
    let (methods, name) = (methods_of(wires, app), app.name.clone());
    move |object| {
        let owns = |method: &String| owner_by(object, method).as_ref() == Some(&name);
        !(methods.last.iter().any(owns) || methods.in_force.iter().all(owns))
    }
}

/// Methods by which objects of an application are its own: that of its last sync, and whichever may be in force. What was
/// marked by others was released (TRK-106).
struct Methods {
    last: Option<String>,
    /// One; more where the settings changed just before the application went, so that its controller decided by either.
    in_force: Vec<String>,
}

fn methods_of(wires: &Wires, app: &App) -> Methods {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let settings = wires.get(&format!("/api/v1/namespaces/{CONTROL_PLANE}/configmaps/argocd-cm"));
    let system = settings.and_then(|cm| text(cm.get("data")?, "application.resourceTrackingMethod"));
    let (mut stored, mut systems) = (wires.get(&path_of(&app.name)), vec![system]);
    if stored.is_none() {
        // What it was when it went decided.
        let observer = wires.observer.lock();
        stored = observer.last_seen(&app.name).cloned();
        if let Some(at) = observer.gone_at(&app.name) {
            systems = observer.system_methods(at.saturating_sub(observer.lag), at);
        }
    }
    let own = |key: &str| annotation(stored.as_ref()?, key).map(str::to_owned);
    let profile = own("argocd.argoproj.io/tracking-profile");
    let chosen = own("argocd.argoproj.io/tracking-method");
    let in_force =
        |system: Option<String>| chosen.clone().or(system).unwrap_or_else(|| "annotation".to_owned());
    Methods {
        last: profile.and_then(|text| text_of(&text, "method")),
        in_force: systems.into_iter().map(in_force).collect(),
    }
}

fn text_of(json: &str, key: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    value.get(key)?.as_str().map(str::to_owned)
}

/// A deleted application is gone, with its objects where they go along.
///
/// What a lost event kept from the index may outlive a deletion that was over before everything was listed again.
pub(super) fn gone(wires: &Wires, app: &App, loses_events: bool) -> Result<(), String> {
    if !is_free(wires, app) {
        return Ok(());
    }
    if let Some(left) = wires.get(&path_of(&app.name)) {
        return Err(format!("still there: {}", left.get("metadata").unwrap_or(&Value::Null)));
    }
    // What the project did not permit at the time is not the application's to delete (CTL-15).
    let goes_along = app.cascades && !loses_events && was_free(wires, app);
    let is_released = released(wires, app);
    match owned(wires, app)?.iter().find(|object| goes_along && !is_released(object)) {
        Some(left) => Err(format!("{} outlives its application", key_of(left, ""))),
        None => Ok(()),
    }
}

/// Whether its project permits everything that the application could have.
pub(super) fn is_free(wires: &Wires, app: &App) -> bool {
    let observer = wires.observer.lock();
    let Some(versions) = observer.model.projects.get(&app.project) else { return true };
    versions.last().is_some_and(|(_, rules)| permits_all(rules, app))
}

/// The same, when the application went: under all rules that its controller may have known then.
fn was_free(wires: &Wires, app: &App) -> bool {
    let observer = wires.observer.lock();
    let Some(versions) = observer.model.projects.get(&app.project) else { return true };
    let Some(end) = observer.gone_at(&app.name) else { return true };
    let ends = versions.iter().skip(1).map(|(from, _)| *from).chain([Duration::MAX]);
    let mut in_force = versions
        .iter()
        .zip(ends)
        .filter(|((from, _), until)| *from <= end && *until >= end.saturating_sub(observer.lag));
    in_force.all(|((_, rules), _)| permits_all(rules, app))
}

fn permits_all(rules: &Rules, app: &App) -> bool {
    rules.namespaces.contains(&app.namespace)
        && rules.cluster_kinds.contains("Namespace")
        && rules.denied_kinds.is_empty()
}

/// An application that is synced by itself holds exactly what its newest commit declares.
pub(super) fn equal(wires: &Wires, app: &App) -> Result<(), String> {
    let heals = app.automated.is_some_and(|automated| automated.prune && automated.self_heal);
    let (head, declared) = {
        let observer = wires.observer.lock();
        let model: &Model = &observer.model;
        let Some(head) = model.head(app) else { return Ok(()) };
        let Some(declared) = model.declared(app, &head) else { return Ok(()) };
        (head, declared)
    };
    let is_hook = |object: &Value| annotation(object, "argocd.argoproj.io/hook").is_some();
    let wanted: Vec<_> = declared.iter().filter(|(_, object)| !is_hook(object)).collect();
    // A source that declares nothing is not synced by itself: that would remove everything.
    if !heals || wanted.is_empty() || !is_free(wires, app) {
        return Ok(());
    }
    let live = wires.get(&path_of(&app.name)).ok_or("the application is missing")?;
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    // A sync that failed, for example at its hook, is not tried again at the same commit.
    if matches!(text("/status/operationState/phase"), "Failed" | "Error") {
        return Ok(());
    }
    if text("/status/sync/status") != "Synced" || text("/status/sync/revision") != head {
        return Err(format!("not in sync with {head}: {}", live.get("status").unwrap_or(&Value::Null)));
    }
    let owned = owned(wires, app)?;
    for (key, object) in &wanted {
        let found = owned.iter().find(|found| key_of(found, "") == **key);
        if !found.is_some_and(|found| holds(found, object)) {
            return Err(format!("{key} should be {object}, it is {found:?}"));
        }
    }
    let is_released = released(wires, app);
    let extra = owned
        .iter()
        .filter(|found| !is_released(found))
        .find(|found| !is_hook(found) && !wanted.iter().any(|(key, _)| **key == key_of(found, "")));
    match extra {
        Some(extra) => Err(format!("{} is left over", key_of(extra, ""))),
        None => Ok(()),
    }
}
