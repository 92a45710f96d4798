//! The brake on automated pruning after a change of the tracking settings (TRK-142).

use std::collections::HashSet;

use tiphys_api::Application;
use tiphys_api::application::{Condition, ResourceStatus};
use tiphys_api::codes::ConditionType;

/// How the condition begins.
const BRAKED: &str = "tracking configuration changed; automated pruning suspended";
/// Fewer objects than this may always be pruned.
const OBJECTS_MIN: usize = 10;

/// What a comparison says about pruning.
#[derive(Clone, Copy, Debug)]
pub struct BrakeFacts<'a> {
    /// Whether the application was synced last under other tracking settings, or nobody knows under which.
    pub is_migrating: bool,
    /// Whether the revisions are those of the comparison before.
    pub is_revision_same: bool,
    /// The objects as compared now.
    pub resources: &'a [ResourceStatus],
}

/// The condition when so much would be pruned at once that the change of settings is the likely reason: more than half of the
/// listed objects, and at least ten, with an unchanged revision. It stays until the application is synced under the new
/// settings, which a person has to ask for.
pub fn tracking_brake(app: &Application, facts: &BrakeFacts<'_>) -> Option<Condition> {
    if !facts.is_migrating || !app.automated().is_some_and(|automated| automated.prune) {
        return None;
    }
    let key = |r: &ResourceStatus| (r.group.clone(), r.kind.clone(), r.namespace.clone(), r.name.clone());
    let prunable: HashSet<_> = facts.resources.iter().filter(|r| r.requires_pruning).map(key).collect();
    let is_braked = app
        .status
        .conditions
        .iter()
        .any(|c| c.r#type == ConditionType::ComparisonError && c.message.starts_with(BRAKED));
    let before = &app.status.resources;
    let new = before.iter().filter(|r| !r.requires_pruning && prunable.contains(&key(r))).count();
    let is_much = facts.is_revision_same && new >= OBJECTS_MIN && new * 2 > before.len();
    let count = if is_braked { prunable.len() } else { new };
    ((is_braked && !prunable.is_empty()) || is_much)
        .then(|| Condition::new(ConditionType::ComparisonError, format!("{BRAKED} ({count} resources)")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resources(all: usize, prunable: usize) -> Vec<ResourceStatus> {
        let one = |number| ResourceStatus {
            kind: "Secret".to_owned(),
            name: format!("s{number}"),
            requires_pruning: number < prunable,
            ..ResourceStatus::default()
        };
        (0..all).map(one).collect()
    }

    fn app(listed: usize, prune: bool, conditions: &[Condition]) -> Application {
        let mut app: Application = serde_json::from_value(json!({
            "metadata": {"name": "a"}, "spec": {"destination": {}, "syncPolicy": {"automated": {"prune": prune}}}}))
        .unwrap();
        app.status.resources = resources(listed, 0);
        app.status.conditions = conditions.to_vec();
        app
    }

    fn brake(app: &Application, migrating: bool, same: bool, now: &[ResourceStatus]) -> Option<String> {
        let facts = BrakeFacts { is_migrating: migrating, is_revision_same: same, resources: now };
        tracking_brake(app, &facts).map(|condition| condition.message)
    }

    #[test]
    fn trk_142_more_than_half_at_once_and_at_least_ten_is_too_much() {
        let text = "tracking configuration changed; automated pruning suspended (10 resources)";
        let before = app(19, true, &[]);
        assert_eq!(brake(&before, true, true, &resources(19, 10)).as_deref(), Some(text));
        assert_eq!(brake(&before, true, true, &resources(19, 9)), None, "fewer than ten");
        assert_eq!(brake(&app(20, true, &[]), true, true, &resources(20, 10)), None, "half");
        assert_eq!(brake(&before, false, true, &resources(19, 19)), None, "nothing changed");
        assert_eq!(brake(&before, true, false, &resources(19, 19)), None, "Git says so");
        assert_eq!(brake(&app(19, false, &[]), true, true, &resources(19, 19)), None, "nobody prunes");
    }

    #[test]
    fn trk_142_the_brake_holds_until_somebody_syncs() {
        let found = Condition::new(ConditionType::ComparisonError, format!("{BRAKED} (10 resources)"));
        let mut braked = app(19, true, &[found]);
        braked.status.resources = resources(19, 10);
        let again = brake(&braked, true, true, &resources(19, 10));
        assert_eq!(
            again.as_deref(),
            Some("tracking configuration changed; automated pruning suspended (10 resources)")
        );
        assert!(brake(&braked, true, false, &resources(19, 3)).is_some(), "a new commit does not release it");
        assert_eq!(brake(&braked, false, true, &resources(19, 10)), None, "synced under the new settings");
        assert_eq!(brake(&braked, true, true, &resources(19, 0)), None, "the settings are back");
    }
}
