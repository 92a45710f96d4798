//! What a controller of sets may write: judged by the states that were in force (INV-8, INV-12, ASET-230).

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use serde_json::Value;

use super::tenant::live;
use super::{Generator, Lately, NAME, SETS, letter};
use crate::simulate::observer::{Call, Observer, show};
use crate::simulate::wire::Wires;

/// How long ago a state may have been in force that a controller acts by, beside the time that settings may take: a look
/// asks slow generators, and repositories are asked once in some minutes.
const LAG: Duration = Duration::from_mins(10);
/// Time for which sets that generate nothing any more must have been so (INV-8).
const CONFIRMED: Duration = Duration::from_mins(1);
/// Who asks for the operations of roll-outs.
const INITIATOR: &str = "applicationset-controller";

impl Observer {
    fn states(&self, at: Duration) -> impl Iterator<Item = Lately<'_>> {
        self.model.sets.lately(at.saturating_sub(self.lag + LAG), at)
    }

    /// A write to the set itself.
    pub(in crate::simulate) fn set_written(&mut self, wires: &Wires, call: &Call) {
        let finalizers = |object: &Value| {
            let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
            finalizers.is_some_and(|finalizers| !finalizers.is_empty())
        };
        let is_going = call.stored.pointer("/metadata/deletionTimestamp").is_some();
        let held = call.live.as_deref().is_some_and(finalizers);
        if !is_going || !held || finalizers(&call.stored) {
            return;
        }
        self.model.sets.gone.get_or_insert(call.at);
        // The garbage collector takes at once what is left.
        let is_ordered = self.states(call.at).all(|lately| lately.spec.turn('?').is_some());
        if !is_ordered || !wires.sees_at_once() {
            return;
        }
        if let Some(left) = live(wires).unwrap_or_default().keys().next() {
            let text = format!("the set goes before {left}: {}", show(call));
            self.broken(call.at, "INV-12", text);
        }
    }

    /// A write to an Application that has a name of the set's, by whatever controller.
    pub(in crate::simulate) fn set_app_written(&mut self, wires: &Wires, name: &str, call: &Call) {
        if call.method == Method::DELETE {
            return self.set_app_deleted(wires, name, call);
        }
        // Nobody else writes these.
        if ["/spec", "/metadata/labels"].iter().any(|part| call.body.pointer(part).is_some()) {
            self.set_app_made(name, call);
        }
        let initiator = call.body.pointer("/operation/initiatedBy/username");
        if initiator.is_some_and(|initiator| initiator == INITIATOR) {
            self.set_app_rolled(wires, name, call);
        }
    }

    /// INV-8: what is made or changed is what some state meant, and of a state that nobody knows nothing comes.
    fn set_app_made(&mut self, name: &str, call: &Call) {
        // A patch says what differs.
        let says = |pointer: &str, wanted: &str| call.body.pointer(pointer).is_none_or(|said| said == wanted);
        let element = name.rsplit('-').next().unwrap_or_default();
        let is_meant = |lately: Lately<'_>| {
            let edition = lately.spec.edition.to_string();
            lately.meaning.as_ref().is_some_and(|names| names.get(name) == Some(&false))
                && says("/metadata/labels/edition", &edition)
                && says("/spec/info/0/value", &edition)
                && says("/metadata/labels/letter", &letter(name).to_string())
                && says("/spec/source/path", &format!("sets/{element}"))
                && says("/spec/destination/namespace", name)
        };
        if !self.states(call.at).any(is_meant) {
            let text = format!("{name} is made what no state of the set means: {}", show(call));
            self.broken(call.at, "INV-8", text);
        }
    }

    fn set_app_deleted(&mut self, wires: &Wires, name: &str, call: &Call) {
        if wires.get(&call.path).is_none() {
            self.died(name, call.at);
        }
        let is_going = |set: &Value| set.pointer("/metadata/deletionTimestamp").is_some();
        match wires.tree(&format!("{SETS}/{NAME}")) {
            Some(set) if is_going(&set) => self.set_app_in_order(wires, name, call),
            _ => self.set_app_pruned(name, call),
        }
    }

    /// INV-8: an Application goes when the generators, asked completely, do not mean it any more.
    fn set_app_pruned(&mut self, name: &str, call: &Call) {
        let is_unmeant =
            |lately: &Lately<'_>| lately.meaning.as_ref().is_some_and(|names| !names.contains_key(name));
        // Whoever is mistaken for a moment is asked twice.
        let is_sudden = |lately: &Lately<'_>| {
            lately.spec.asks_plugin() && lately.meaning.as_ref().is_some_and(BTreeMap::is_empty)
        };
        let known = self.states(call.at).filter(is_unmeant).any(|lately| !is_sudden(&lately));
        let first = self.states(call.at).find(is_sudden).map(|lately| lately.begin);
        let last = self.states(call.at).filter(is_sudden).last().map(|lately| lately.end);
        let is_confirmed =
            first.zip(last).is_some_and(|(first, last)| last.saturating_sub(first) >= CONFIRMED);
        if self.model.sets.gone.is_none() && !known && !is_confirmed {
            let text = format!("{name} is deleted although every state of the set means it: {}", show(call));
            self.broken(call.at, "INV-8", text);
        }
    }

    /// INV-12: of a set that is deleted, an Application goes when all of earlier steps are gone, and no more of a step than
    /// may.
    fn set_app_in_order(&mut self, wires: &Wires, name: &str, call: &Call) {
        if !wires.sees_at_once() {
            return;
        }
        let Some(all) = live(wires) else { return };
        let mark = |app: &Value| {
            let label = app.pointer("/metadata/labels/letter").and_then(Value::as_str);
            label.and_then(|label| label.chars().next()).unwrap_or('?')
        };
        let Some(before) = call.live.as_deref() else { return };
        let is_in_order = |lately: Lately<'_>| {
            let Some((turn, max)) = lately.spec.turn(mark(before)) else { return true };
            let turn_of = |app: &Value| lately.spec.turn(mark(app)).map(|(turn, _)| turn);
            let others = all.iter().filter(|(other, _)| *other != name);
            let (mut beside, mut going) = (1, 0);
            for (_, other) in others {
                match turn_of(other) {
                    Some(other) if other < turn => return false,
                    Some(same) if same == turn => {
                        beside += 1;
                        going += usize::from(other.pointer("/metadata/deletionTimestamp").is_some());
                    }
                    _ => {}
                }
            }
            going < max.of(beside)
        };
        if !self.states(call.at).any(is_in_order) {
            let left: Vec<&String> = all.keys().collect();
            let text = format!("{name} is not next: {left:?} are there: {}", show(call));
            self.broken(call.at, "INV-12", text);
        }
    }

    /// ASET-217 and ASET-230: an operation of a roll-out was allowed before it is asked for, no more of a step run than
    /// may, and all of earlier steps are through.
    fn set_app_rolled(&mut self, wires: &Wires, name: &str, call: &Call) {
        let Some(set) = wires.tree(&format!("{SETS}/{NAME}")) else { return };
        let entries = set.pointer("/status/applicationStatus").and_then(Value::as_array);
        let status: BTreeMap<&str, &str> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| Some((entry.get("application")?.as_str()?, entry.get("status")?.as_str()?)))
            .collect();
        if status.get(name) != Some(&"Pending") {
            let text =
                format!("a roll-out of {name}, of which is stored {:?}: {}", status.get(name), show(call));
            self.broken(call.at, "ASET-230", text);
            return;
        }
        let is_allowed = |lately: Lately<'_>| {
            let Some(names) = &lately.meaning else { return false };
            let steps = &lately.spec.steps;
            let step_of = |name: &str| steps.iter().position(|step| step.letters.contains(&letter(name)));
            let Some(own) = step_of(name) else { return false };
            // Each Secret of a cluster is told of on its own: where events are lost or late, one may be unknown although
            // those that came after it are known.
            let is_unknown = |other: &str| {
                let lacks = |then: &Lately<'_>| {
                    then.spec == lately.spec
                        && then.meaning.as_ref().is_some_and(|names| !names.contains_key(other))
                };
                lately.spec.generator == Generator::Clusters
                    && !wires.sees_at_once()
                    && !status.contains_key(other)
                    && self.states(call.at).any(|then| lacks(&then))
            };
            let is_through = |other: &str| status.get(other) == Some(&"Healthy") || is_unknown(other);
            let mut earlier = names.keys().filter(|other| step_of(other).is_some_and(|step| step < own));
            let (mut all, mut running) = (0, 0);
            // Who is not generated any more is in no step (ASET-203), also while it is still there.
            let beside = status.iter().filter(|(other, _)| names.contains_key(**other));
            for (_, status) in beside.filter(|(other, _)| step_of(other) == Some(own)) {
                all += 1;
                running += usize::from(matches!(*status, "Pending" | "Progressing"));
            }
            let max = steps.get(own).and_then(|step| step.max);
            earlier.all(|other| is_through(other)) && max.is_none_or(|max| running <= max.of(all))
        };
        if !self.states(call.at).any(is_allowed) {
            let text = format!("a roll-out of {name} out of turn; stored is {status:?}: {}", show(call));
            self.broken(call.at, "ASET-230", text);
        }
    }
}
