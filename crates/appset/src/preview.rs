//! What people are shown of a set before anything is written (CLI-606, CLI-607).

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_api::Application;

use crate::live::LiveApplication;
use crate::reconcile::{Action, Outcomes, Plan};
use crate::validate::Validation;

/// What a set is held against.
#[derive(Clone, Debug)]
pub enum Existing {
    /// Nothing: only what it makes is asked for.
    Unasked,
    /// The Applications that are stored.
    Stored,
    /// These, by name.
    Given(BTreeMap<String, LiveApplication>),
}

/// What a set comes to (API-157).
#[derive(Clone, Debug)]
pub struct Preview {
    /// The Applications in generator order, with the project of a scoped set.
    pub applications: Vec<Application>,
    /// What keeps some of them from being written.
    pub validation: Validation,
    /// What is odd.
    pub warnings: Vec<String>,
    /// What a pass would do; where that was asked for.
    pub changes: Option<Changes>,
}

/// What a pass would do about the Applications that exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// Names of new ones.
    pub added: Vec<String>,
    /// Names of those that become others, each with its merge patch.
    pub changed: Vec<(String, Value)>,
    /// Names of those that go.
    pub removed: Vec<String>,
    /// Applications that the set must not write, and why.
    pub refused: Vec<(String, String)>,
    /// How many stay as they are.
    pub unchanged: usize,
    /// What else is wrong.
    pub problem: Option<String>,
}

impl Changes {
    /// What a plan says, where this many Applications were looked at.
    pub fn of(plan: &Plan, looked_at: usize) -> Self {
        let mut changes = Self { problem: plan.problem().map(str::to_owned), ..Self::default() };
        // Where something is refused nothing goes either.
        if plan.may_remove(&Outcomes::default()) {
            changes.removed = plan.removals.iter().map(|removal| removal.name.clone()).collect();
        }
        for write in &plan.writes {
            let name = write.name.clone();
            match &write.action {
                Action::Refuse(why) => changes.refused.push((name, why.clone())),
                Action::Update { patch, .. } => changes.changed.push((name, patch.clone())),
                Action::Create(_) => changes.added.push(name),
            }
        }
        let touched = changes.changed.len() + changes.removed.len() + changes.refused.len();
        changes.unchanged = looked_at.saturating_sub(touched);
        changes
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reconcile::{Removal, Write};

    #[test]
    fn cli_606_where_something_is_refused_nothing_goes() {
        let write = |name: &str, action| Write { name: name.to_owned(), action };
        let removal = Removal { name: "old".to_owned(), uid: "u".to_owned(), finalizers: None };
        let mut plan = Plan::default();
        plan.removals = vec![removal];
        plan.writes = vec![
            write("a", Action::Create(json!({}))),
            write("b", Action::Update { patch: json!({"spec": {}}), resource_version: None }),
        ];
        let changes = Changes::of(&plan, 4);
        assert_eq!((changes.added.as_slice(), changes.unchanged), (&["a".to_owned()][..], 2));
        assert_eq!(changes.changed, [("b".to_owned(), json!({"spec": {}}))]);
        assert_eq!(changes.removed, ["old"]);
        plan.writes.push(write("c", Action::Refuse("another's".to_owned())));
        let changes = Changes::of(&plan, 4);
        assert_eq!((changes.removed.len(), changes.refused.len(), changes.unchanged), (0, 1, 2));
    }
}
