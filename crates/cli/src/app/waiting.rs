//! Whether a wait is over: a pure machine over the states of one application (CLI-516, CLI-521, CLI-522).

use std::collections::BTreeMap;

use tiphys_api::Application;
use tiphys_api::application::OperationState;
use tiphys_api::codes::{HealthCode, SyncStatusCode};

use crate::app::filter::ResourceFilter;
use crate::app::rows::{Row, rows};
use crate::app::summary::parse_time;

/// What is waited for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Goal {
    pub(crate) sync: bool,
    pub(crate) health: bool,
    pub(crate) suspended: bool,
    pub(crate) degraded: bool,
    pub(crate) operation: bool,
    pub(crate) delete: bool,
    pub(crate) hydrated: bool,
    /// Resources that must satisfy the conditions instead of the whole; empty for the whole.
    pub(crate) resources: Vec<ResourceFilter>,
}

impl Goal {
    /// The conditions in force when none is named (CLI-520).
    pub(crate) fn or_default(self) -> Self {
        let named = self.sync
            || self.health
            || self.suspended
            || self.degraded
            || self.operation
            || self.delete
            || self.hydrated;
        if named { self } else { Self { sync: true, health: true, operation: true, ..self } }
    }
}

/// What one more state of the application means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The goal is reached.
    Reached,
    /// Not yet; these rows are new or changed.
    Pending(Vec<Row>),
    /// The goal cannot be reached: a resource went from this health to `Degraded`.
    Degraded {
        /// The health before.
        from: String,
    },
}

/// The wait for one application.
#[derive(Debug)]
pub(crate) struct Wait {
    goal: Goal,
    seen: BTreeMap<String, Row>,
    /// Whether an operation that changes the cluster was seen (CLI-516).
    pub(crate) saw_operation: bool,
    /// The operation state last seen; the final refresh may lose it (CLI-516).
    pub(crate) operation_state: Option<Box<OperationState>>,
}

impl Wait {
    /// Begins to wait.
    pub(crate) fn new(goal: Goal) -> Self {
        Self { goal, seen: BTreeMap::new(), saw_operation: false, operation_state: None }
    }

    /// What is waited for.
    pub(crate) fn goal(&self) -> &Goal {
        &self.goal
    }

    /// Looks at a state of the application.
    pub(crate) fn observe(&mut self, app: &Application) -> Verdict {
        self.operation_state.clone_from(&app.status.operation_state);
        if app
            .operation
            .as_ref()
            .is_some_and(|operation| !operation.sync.as_ref().is_some_and(|sync| sync.dry_run))
        {
            self.saw_operation = true;
        }
        let is_running = is_operation_running(app);
        let states = rows(app, &self.goal.resources);
        let is_ready = if self.goal.resources.is_empty() {
            self.is_satisfied(app, &app.status.health.status, &app.status.sync.status)
        } else {
            states.iter().all(|row| self.is_satisfied(app, &row.health, &row.status))
        };
        if is_ready && !(self.goal.operation && is_running) {
            return Verdict::Reached;
        }
        self.changes(states)
    }

    fn is_satisfied(&self, app: &Application, health: &str, sync: &str) -> bool {
        let goal = &self.goal;
        let wants_health = goal.health || goal.suspended || goal.degraded;
        let healthy = goal.health && *health == HealthCode::Healthy
            || goal.suspended && *health == HealthCode::Suspended
            || goal.degraded && *health == HealthCode::Degraded;
        !goal.delete
            && (!goal.sync || *sync == SyncStatusCode::Synced)
            && (!wants_health || healthy)
            && (!goal.operation || app.operation.is_none())
            && (!goal.hydrated || is_hydrated(app))
    }

    fn changes(&mut self, states: Vec<Row>) -> Verdict {
        let mut changed = Vec::new();
        for row in states {
            let Some(known) = self.seen.get_mut(&row.key()) else {
                changed.push(row.clone());
                self.seen.insert(row.key(), row);
                continue;
            };
            let was_well =
                !matches!(HealthCode::parse(&known.health), Some(HealthCode::Unknown | HealthCode::Degraded));
            if self.goal.health && was_well && row.health == HealthCode::Degraded {
                return Verdict::Degraded { from: known.health.clone() };
            }
            if known.merge(&row) {
                changed.push(known.clone());
            }
        }
        Verdict::Pending(changed)
    }
}

/// Whether an operation is requested, runs, or ended without a comparison since (CLI-516).
fn is_operation_running(app: &Application) -> bool {
    if app.operation.is_some() {
        return true;
    }
    let Some(state) = &app.status.operation_state else { return false };
    let Some(finished) = &state.finished_at else { return true };
    let is_dry_run = state.operation.sync.as_ref().is_some_and(|sync| sync.dry_run);
    let reconciled = app.status.reconciled_at.as_deref().and_then(parse_time);
    !is_dry_run && reconciled.is_none_or(|at| parse_time(finished).is_some_and(|finished| at < finished))
}

/// Whether the current hydration is done and is the last successful one (CLI-521).
fn is_hydrated(app: &Application) -> bool {
    let Some(status) = &app.status.source_hydrator else { return true };
    let Some(current) = status.get("currentOperation") else { return false };
    let last = status.get("lastSuccessfulOperation");
    let member = |name: &str| current.get(name) == last.and_then(|last| last.get(name));
    current.get("phase").and_then(|phase| phase.as_str()) == Some("Hydrated")
        && member("sourceHydrator")
        && member("drySHA")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn app(status: &Value, operation: &Value) -> Application {
        serde_json::from_value(
            json!({"metadata": {"name": "a"}, "spec": {"destination": {}}, "status": status,
            "operation": operation}),
        )
        .unwrap()
    }

    fn status(sync: &str, health: &str) -> Value {
        json!({"sync": {"status": sync}, "health": {"status": health},
            "resources": [{"kind": "Pod", "name": "p", "status": sync, "health": {"status": health}}]})
    }

    fn default_goal() -> Goal {
        Goal::default().or_default()
    }

    #[test]
    fn cli_520_the_default_goal_is_sync_health_and_operation() {
        let goal = default_goal();
        assert!(goal.sync && goal.health && goal.operation && !goal.suspended && !goal.delete);
        let only = Goal { suspended: true, ..Goal::default() }.or_default();
        assert!(only.suspended && !only.sync);
    }

    #[test]
    fn cli_521_a_reached_goal_ends_at_once() {
        let mut wait = Wait::new(default_goal());
        assert_eq!(wait.observe(&app(&status("Synced", "Healthy"), &Value::Null)), Verdict::Reached);
        let either = Goal { health: true, suspended: true, ..Goal::default() };
        assert_eq!(
            Wait::new(either).observe(&app(&status("OutOfSync", "Suspended"), &Value::Null)),
            Verdict::Reached
        );
    }

    #[test]
    fn cli_514_rows_appear_once_and_when_they_change() {
        let mut wait = Wait::new(default_goal());
        let rows = |verdict| match verdict {
            Verdict::Pending(rows) => rows.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(rows(wait.observe(&app(&status("OutOfSync", "Missing"), &Value::Null))), 1);
        assert_eq!(rows(wait.observe(&app(&status("OutOfSync", "Missing"), &Value::Null))), 0);
        assert_eq!(rows(wait.observe(&app(&status("Synced", "Progressing"), &Value::Null))), 1);
    }

    #[test]
    fn cli_522_a_turn_to_degraded_ends_the_wait() {
        let mut wait = Wait::new(default_goal());
        wait.observe(&app(&status("Synced", "Progressing"), &Value::Null));
        let verdict = wait.observe(&app(&status("Synced", "Degraded"), &Value::Null));
        assert_eq!(verdict, Verdict::Degraded { from: "Progressing".into() });
        let mut from_the_start = Wait::new(default_goal());
        from_the_start.observe(&app(&status("Synced", "Degraded"), &Value::Null));
        assert!(matches!(
            from_the_start.observe(&app(&status("Synced", "Degraded"), &Value::Null)),
            Verdict::Pending(_)
        ));
    }

    #[test]
    fn cli_516_an_operation_is_over_after_the_next_comparison() {
        let goal = Goal { operation: true, ..Goal::default() };
        let mut wait = Wait::new(goal);
        assert!(matches!(
            wait.observe(&app(&status("Synced", "Healthy"), &json!({"sync": {}}))),
            Verdict::Pending(_)
        ));
        assert!(wait.saw_operation);
        let mut ended = status("Synced", "Healthy");
        ended["operationState"] =
            json!({"phase": "Running", "startedAt": "2026-08-01T10:00:00Z", "operation": {"sync": {}}});
        assert!(matches!(wait.observe(&app(&ended, &Value::Null)), Verdict::Pending(_)));
        ended["operationState"]["phase"] = "Succeeded".into();
        ended["operationState"]["finishedAt"] = "2026-08-01T10:00:05Z".into();
        ended["reconciledAt"] = "2026-08-01T10:00:04Z".into();
        assert!(matches!(wait.observe(&app(&ended, &Value::Null)), Verdict::Pending(_)));
        ended["reconciledAt"] = "2026-08-01T10:00:05Z".into();
        assert_eq!(wait.observe(&app(&ended, &Value::Null)), Verdict::Reached);
        assert_eq!(wait.operation_state.unwrap().phase, "Succeeded");
    }

    #[test]
    fn cli_521_resources_must_all_satisfy() {
        let filter = ResourceFilter::parse("*:Pod:p").unwrap();
        let goal = Goal { health: true, resources: vec![filter], ..Goal::default() };
        let mut state = status("OutOfSync", "Healthy");
        state["health"]["status"] = "Degraded".into();
        assert_eq!(Wait::new(goal).observe(&app(&state, &Value::Null)), Verdict::Reached);
    }

    #[test]
    fn cli_521_hydration_must_be_the_last_successful_one() {
        let goal = Goal { hydrated: true, ..Goal::default() };
        let mut state = status("Synced", "Healthy");
        state["sourceHydrator"] = json!({"currentOperation": {"phase": "Hydrated", "drySHA": "b"},
            "lastSuccessfulOperation": {"drySHA": "a"}});
        assert!(matches!(Wait::new(goal.clone()).observe(&app(&state, &Value::Null)), Verdict::Pending(_)));
        state["sourceHydrator"]["lastSuccessfulOperation"]["drySHA"] = "b".into();
        assert_eq!(Wait::new(goal).observe(&app(&state, &Value::Null)), Verdict::Reached);
    }
}
