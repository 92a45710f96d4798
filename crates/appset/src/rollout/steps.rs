//! Which step an Application belongs to (ASET-203).

use std::collections::BTreeMap;

use tiphys_api::applicationset::{MatchExpression, RolloutStep};

/// Which Applications belong to which steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// All steps that select an Application, from 1, in order.
    selected: BTreeMap<String, Vec<usize>>,
}

impl Membership {
    /// The step of an Application: the first that selects it.
    pub fn step_of(&self, name: &str) -> Option<usize> {
        self.selected.get(name).and_then(|steps| steps.first()).copied()
    }

    /// The Applications of a step, sorted by name.
    pub fn members(&self, step: usize) -> impl Iterator<Item = &str> {
        let of_step = self.selected.iter().filter(move |(_, steps)| steps.first() == Some(&step));
        of_step.map(|(name, _)| name.as_str())
    }

    /// Applications that more than one step selects, sorted by name, with these steps.
    pub fn overlaps(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.selected
            .iter()
            .filter(|(_, steps)| steps.len() > 1)
            .map(|(name, steps)| (name.as_str(), steps.as_slice()))
    }
}

/// Finds out which steps select which Applications.
pub fn membership<'a>(
    steps: &[RolloutStep],
    applications: impl IntoIterator<Item = (&'a str, &'a BTreeMap<String, String>)>,
) -> Membership {
    let selected = applications.into_iter().filter_map(|(name, labels)| {
        let selecting =
            steps.iter().zip(1..).filter(|(step, _)| selects(step, labels)).map(|(_, number)| number);
        let selecting: Vec<usize> = selecting.collect();
        (!selecting.is_empty()).then(|| (name.to_owned(), selecting))
    });
    Membership { selected: selected.collect() }
}

/// Whether a step selects an Application with these labels; without conditions it selects every one.
pub(crate) fn selects(step: &RolloutStep, labels: &BTreeMap<String, String>) -> bool {
    step.match_expressions.iter().all(|expression| holds(expression, labels))
}

fn holds(expression: &MatchExpression, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&expression.key);
    match expression.operator.as_str() {
        "In" => value.is_some_and(|value| expression.values.contains(value)),
        "NotIn" => value.is_none_or(|value| !expression.values.contains(value)),
        // An operator that does not exist selects nobody who has the label.
        _ => value.is_none(),
    }
}
