//! What a set has come to when everything rests: exactly the Applications that it means (INV-5), and a status that says
//! how it is (INV-15).

use std::collections::BTreeMap;

use serde_json::Value;

use super::tenant::live;
use super::{NAME, SETS, State};
use crate::simulate::model::App;
use crate::simulate::settled::{equal, gone};
use crate::simulate::wire::Wires;

/// Checks the set and everything it made.
pub(in crate::simulate) fn check(wires: &Wires, loses_events: bool) {
    let Some(state) = wires.observer.lock().model.sets.now().cloned() else { return };
    let checked = match wires.tree(&format!("{SETS}/{NAME}")) {
        None => ended(wires, loses_events),
        Some(set) => stands(wires, &set, &state, loses_events),
    };
    if let Err((invariant, why)) = checked {
        let now = wires.now();
        wires.observer.lock().broken(now, invariant, format!("the set: {why}"));
    }
}

type Checked = Result<(), (&'static str, String)>;

fn known(wires: &Wires) -> BTreeMap<String, App> {
    wires.observer.lock().model.generated.clone()
}

/// With the set everything is gone.
fn ended(wires: &Wires, loses_events: bool) -> Checked {
    for app in known(wires).values() {
        gone(wires, app, loses_events).map_err(|why| ("INV-17", format!("{}: {why}", app.name)))?;
    }
    Ok(())
}

fn stands(wires: &Wires, set: &Value, state: &State, loses_events: bool) -> Checked {
    if set.pointer("/metadata/deletionTimestamp").is_some() {
        return Err((
            "INV-5",
            format!("it is still being deleted: {}", set.get("status").unwrap_or(&Value::Null)),
        ));
    }
    let condition = |kind: &str| {
        let all = set.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        let mut of_kind = all.filter(|one| one.get("type").is_some_and(|is| is == kind));
        of_kind.next().and_then(|one| one.get("status")?.as_str()).unwrap_or_default().to_owned()
    };
    let (failed, is_current) = (condition("ErrorOccurred"), condition("ResourcesUpToDate"));
    let Some(names) = state.meaning() else {
        if (failed.as_str(), is_current.as_str()) != ("True", "False") {
            return Err((
                "INV-15",
                format!("nothing can be generated, and it says {failed:?}, {is_current:?}"),
            ));
        }
        return Ok(());
    };
    let is_odd = names.values().any(|is_twice| *is_twice) || state.spec.is_misordered();
    let expected = if is_odd { ("True", "False") } else { ("False", "True") };
    if (failed.as_str(), is_current.as_str()) != expected {
        let conditions = set.pointer("/status/conditions").unwrap_or(&Value::Null);
        return Err(("INV-15", format!("it should say {expected:?}: {conditions}")));
    }
    let Some(live) = live(wires) else { return Ok(()) };
    // A roll-out waits for whoever failed, and for whoever cannot be made.
    let has_failed = |app: &Value| {
        let phase = app.pointer("/status/operationState/phase").and_then(Value::as_str);
        matches!(phase, Some("Failed" | "Error"))
    };
    let is_held = !state.spec.steps.is_empty() && (is_odd || live.values().any(has_failed));
    for (name, app) in known(wires) {
        match (names.get(&name), live.get(&name)) {
            // It stays what it was.
            (Some(true), _) => {}
            (None, None) => {
                gone(wires, &app, loses_events).map_err(|why| ("INV-17", format!("{name}: {why}")))?;
            }
            (None, Some(_)) => return Err(("INV-5", format!("{name} is there, which it does not mean"))),
            (Some(false), None) => return Err(("INV-5", format!("{name} is missing"))),
            (Some(false), Some(live)) => {
                let edition = live.pointer("/spec/info/0/value").and_then(Value::as_str);
                if edition != Some(state.spec.edition.to_string().as_str()) {
                    return Err(("INV-5", format!("{name} is of edition {edition:?}: {live}")));
                }
                if !is_held && !state.is_in_no_step(&name) {
                    equal(wires, &app).map_err(|why| ("INV-5", format!("{name}: {why}; {set}")))?;
                }
            }
        }
    }
    Ok(())
}

impl State {
    /// Whether a roll-out never comes to an Application.
    fn is_in_no_step(&self, name: &str) -> bool {
        let steps = &self.spec.steps;
        !steps.is_empty() && !steps.iter().any(|step| step.letters.contains(&super::letter(name)))
    }
}
