//! What a status says against what is (INV-15): no status says Synced, `OutOfSync`, Missing or Healthy of what could
//! not be seen, and one that says Unknown says why.
//!
//! Asked when nothing moves any more: until then a status may be late. While a kind cannot be listed, that is when a
//! controller that takes an error for an empty list is found out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use tiphys_object::ResourceKey;

use super::model::{App, annotation, holds, key_of};
use super::settled::{is_free, owned, released};
use super::users::path_of;
use super::wire::Wires;
use super::world::since_begin;

/// Kinds of which an object that says what is declared, no more and no less, is in sync beyond doubt.
const PLAIN: [&str; 2] = ["ConfigMap", "Secret"];

/// Times in a status are whole seconds.
const LAG: Duration = Duration::from_secs(2);

/// Checks the status of every application. Where events are lost, an object that no event told of is unknown until its
/// kind is listed again (ENG-10), which takes as long as it cannot be.
pub(super) fn check(wires: &Wires, loses_events: bool) {
    let apps: Vec<App> = wires.observer.lock().model.all_apps().cloned().collect();
    for app in apps.iter().filter(|app| !app.deleted) {
        let checked = if is_free(wires, app) {
            truthful(wires, app, loses_events)
        } else if is_misplaced(wires, app) {
            refused(wires, app)
        } else {
            Ok(())
        };
        if let Err(why) = checked {
            let now = wires.now();
            wires.observer.lock().broken(now, "INV-15", format!("{}: {why}", app.name));
        }
    }
}

/// Whether its project permits nothing where the application's objects belong.
fn is_misplaced(wires: &Wires, app: &App) -> bool {
    let observer = wires.observer.lock();
    let rules = observer.model.projects.get(&app.project).and_then(|versions| versions.last());
    rules.is_some_and(|(_, rules)| !rules.namespaces.contains(&app.namespace))
}

/// What is not permitted is not compared: nothing is known, and a condition says why.
fn refused(wires: &Wires, app: &App) -> Result<(), String> {
    let Some(live) = wires.get(&path_of(&app.name)) else { return Ok(()) };
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Ok(());
    }
    let status = Status { live: &live };
    if (status.sync(), status.health()) != ("Unknown", "Unknown") {
        let (sync, health) = (status.sync(), status.health());
        return Err(format!("called {sync} and {health}, but its project does not permit it"));
    }
    status.is_explained()
}

fn truthful(wires: &Wires, app: &App, loses_events: bool) -> Result<(), String> {
    let Some(live) = wires.get(&path_of(&app.name)) else { return Ok(()) };
    if live.get("operation").is_some() || live.pointer("/metadata/deletionTimestamp").is_some() {
        return Ok(());
    }
    let status = Status { live: &live };
    if status.sync().is_empty() {
        return Ok(());
    }
    let is_unknown = status.sync() == "Unknown";
    if is_unknown {
        status.is_explained()?;
        if status.is_blind() && status.health() != "Unknown" {
            return Err(format!("called {}, but what is there could not be seen", status.health()));
        }
    }
    let revision = status.text("/status/sync/revision");
    let Some(declared) = wires.observer.lock().model.declared(app, revision) else {
        if is_unknown {
            return Ok(());
        }
        return Err(format!("{} of revision {revision:?}, which cannot be rendered", status.sync()));
    };
    let is_hook = |object: &Value| annotation(object, "argocd.argoproj.io/hook").is_some();
    let wanted: BTreeMap<ResourceKey, Value> = declared
        .iter()
        .filter(|(_, object)| !is_hook(object))
        .map(|(key, object)| (key.clone(), object.clone()))
        .collect();
    let owned = owned(wires, app)?;
    let shown: BTreeSet<ResourceKey> = status.resources().map(|(key, _)| key).collect();
    let born = wires.observer.lock().born_at(&app.name);
    let found: BTreeMap<ResourceKey, Value> = owned
        .into_iter()
        .filter(|object| !is_hook(object))
        .map(|object| (key_of(&object, ""), object))
        .collect();
    // What an earlier application of the name left behind, or no event told of, is unknown while it cannot be listed.
    let is_told = |key: &ResourceKey| {
        let made = found.get(key).map(age);
        wires.is_visible() || shown.contains(key) || (!loses_events && made.is_some_and(|made| made >= born))
    };
    let is_released = released(wires, app);
    let extra = found
        .iter()
        .filter(|(key, object)| !wanted.contains_key(key) && is_told(key) && !is_released(object));
    let extra: BTreeSet<ResourceKey> = extra.map(|(key, _)| key.clone()).collect();
    status.synced(&wanted, &found, &extra)?;
    let is_torn = {
        let observer = wires.observer.lock();
        status.is_torn(&observer.tracking_changes, &observer.crashes, observer.lag + LAG)
    };
    if !is_torn {
        status.out_of_sync(&wanted, &found, &is_released)?;
    }
    status.missing(&wanted, &found)
}

/// When an object was made, as the run counts time.
fn age(object: &Value) -> Duration {
    let time = object.pointer("/metadata/creationTimestamp").and_then(Value::as_str);
    time.and_then(|time| time.parse().ok()).map_or(Duration::ZERO, |time| since_begin(&time))
}

/// An Application as it is stored.
struct Status<'a> {
    live: &'a Value,
}

impl Status<'_> {
    fn text(&self, pointer: &str) -> &str {
        self.live.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn sync(&self) -> &str {
        self.text("/status/sync/status")
    }

    fn health(&self) -> &str {
        self.text("/status/health/status")
    }

    /// Resources with what is said about them.
    fn resources(&self) -> impl Iterator<Item = (ResourceKey, &str)> {
        let all = self.live.pointer("/status/resources").and_then(Value::as_array).into_iter().flatten();
        all.map(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            let key = ResourceKey::new(text("group"), text("kind"), text("namespace"), text("name"));
            (key, text("status"))
        })
    }

    /// Whether objects may bear marks of settings that are neither in force nor those of the last whole sync: the settings
    /// changed while that went on, a controller died meanwhile, whose successor does not know what it marked by, or a sync of
    /// some objects came after a further change. An apply would change these marks, so that they rightly are a difference
    /// (TRK-102).
    fn is_torn(&self, changes: &[(Duration, Option<String>)], crashes: &[Duration], lag: Duration) -> bool {
        let time = |value: Option<&Value>| {
            value.and_then(Value::as_str).and_then(|text| text.parse().ok()).map(|at| since_begin(&at))
        };
        let history = self.live.pointer("/status/history").and_then(Value::as_array);
        let whole = history.and_then(|history| history.last());
        let of_whole = |name: &str| time(whole.and_then(|whole| whole.get(name))).unwrap_or_default();
        // Where no sync has ever been whole, nobody has stored what its parts were marked by (TRK-104).
        let to = if whole.is_some() { of_whole("deployedAt") } else { Duration::MAX };
        let from = of_whole("deployStartedAt");
        let changed = |from: Duration, to: Duration| {
            changes.iter().any(|(at, _)| (from..=to.saturating_add(lag)).contains(&(*at + lag)))
        };
        let is_partial =
            self.live.pointer("/status/operationState/operation/sync/resources").is_some_and(Value::is_array);
        // Nor does one that failed, or ended in between, say what it marked until then.
        let is_failed = self.text("/status/operationState/phase") != "Succeeded";
        let last = time(self.live.pointer("/status/operationState/finishedAt")).unwrap_or_default();
        let died = crashes.iter().any(|at| (from..=to.saturating_add(LAG)).contains(at));
        (died && !changes.is_empty())
            || changed(from, to)
            || ((is_partial || is_failed) && last >= to && changed(to, last))
    }

    /// Whether the live objects could not be seen; what the sources say may be unknown on its own.
    fn is_blind(&self) -> bool {
        let mut texts = self.conditions().filter_map(|condition| condition.get("message")?.as_str());
        texts.any(|text| text.starts_with("Failed to load live state"))
    }

    fn conditions(&self) -> impl Iterator<Item = &Value> {
        self.live.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
    }

    /// Whoever does not know says why.
    fn is_explained(&self) -> Result<(), String> {
        let is_error = |condition: &Value| {
            condition.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("Error"))
        };
        if !self.conditions().any(is_error) {
            return Err("called Unknown, and nothing says why".to_owned());
        }
        // Each object was seen, and the list of their kind was not.
        let is_unlisted = |condition: &Value| {
            let text = condition.get("message").and_then(Value::as_str).unwrap_or_default();
            text.starts_with("Failed to look for objects")
        };
        if self.conditions().any(is_unlisted) {
            return Ok(());
        }
        if let Some((key, status)) = self.resources().find(|(_, status)| !matches!(*status, "Unknown" | "")) {
            return Err(format!("called Unknown, but {key} is called {status}"));
        }
        Ok(())
    }

    /// What is called Synced is as it is declared, and nothing is left over.
    fn synced(
        &self,
        wanted: &BTreeMap<ResourceKey, Value>,
        found: &BTreeMap<ResourceKey, Value>,
        extra: &BTreeSet<ResourceKey>,
    ) -> Result<(), String> {
        let is_so = |key: &ResourceKey| {
            wanted.get(key).is_some_and(|wanted| found.get(key).is_some_and(|found| holds(found, wanted)))
        };
        if let Some((key, _)) =
            self.resources().filter(|(_, status)| *status == "Synced").find(|(key, _)| !is_so(key))
        {
            let (wanted, found) = (wanted.get(&key), found.get(&key));
            return Err(format!("{key} is called Synced; declared {wanted:?}, found {found:?}"));
        }
        if self.sync() != "Synced" {
            return Ok(());
        }
        if let Some(key) = wanted.keys().find(|key| !is_so(key)) {
            return Err(format!("called Synced, but {key} is not as declared: {:?}", found.get(key)));
        }
        match extra.first() {
            Some(extra) => Err(format!("called Synced, but {extra} is left over")),
            None => Ok(()),
        }
    }

    /// What is called out of sync differs, is missing or is left over. What was released and is declared again bears marks
    /// that a sync would change, so that it rightly differs.
    fn out_of_sync(
        &self,
        wanted: &BTreeMap<ResourceKey, Value>,
        found: &BTreeMap<ResourceKey, Value>,
        is_released: &dyn Fn(&Value) -> bool,
    ) -> Result<(), String> {
        for (key, _) in self.resources().filter(|(_, status)| *status == "OutOfSync") {
            match (wanted.get(&key), found.get(&key)) {
                (Some(wanted), Some(found))
                    if PLAIN.contains(&key.kind.as_str())
                        && wanted.get("data") == found.get("data")
                        && !is_released(found) =>
                {
                    return Err(format!("{key} is called OutOfSync, but it is as declared: {found}"));
                }
                (None, None) => return Err(format!("{key} is called OutOfSync, but nothing is there")),
                _ => {}
            }
        }
        Ok(())
    }

    /// What is called missing is missing altogether (ENG-124), and what is called healthy is there.
    fn missing(
        &self,
        wanted: &BTreeMap<ResourceKey, Value>,
        found: &BTreeMap<ResourceKey, Value>,
    ) -> Result<(), String> {
        match (self.health(), wanted.keys().find(|key| found.contains_key(*key))) {
            ("Missing", Some(key)) => Err(format!("called Missing, but {key} is there")),
            ("Healthy", None) if !wanted.is_empty() && found.is_empty() => {
                Err("called Healthy, but nothing is there".to_owned())
            }
            _ => Ok(()),
        }
    }
}
