//! Whether an application is to be hydrated (CTL-106).

use jiff::{SignedDuration, Timestamp};
use tiphys_api::Application;
use tiphys_api::codes::HydratePhase;
use tiphys_api::names::annotation;

use super::record::{Operation, State};

/// Time until a hydration that failed is tried again.
pub const FAILED_AGAIN: SignedDuration = SignedDuration::from_mins(2);

/// What a look at an application says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// Its group is hydrated, for this reason.
    Hydrate(&'static str),
    /// A run goes on.
    Running,
    /// Nothing is to be done, and nobody has to be asked.
    Nothing,
    /// That depends on what changed in the dry source since this revision; `None` is any change at all.
    Changes(Option<String>),
}

/// Decides about an application with a hydrator, the first that matches. `patience` is how long a run may take before
/// it counts as lost: the reconciliation timeout.
pub fn check(app: &Application, patience: Option<SignedDuration>, now: Timestamp) -> Check {
    let Some(hydrator) = &app.spec.source_hydrator else { return Check::Nothing };
    let state = State::of(app);
    let Some(current) = state.current else { return Check::Hydrate("nothing was hydrated yet") };
    let age = |at: Option<Timestamp>| at.map(|at| now.duration_since(at));
    if current.phase == HydratePhase::Hydrating {
        let is_lost = match (age(current.started_at), patience) {
            (Some(age), Some(patience)) => age > patience,
            // Who cannot say when it began has lost it.
            (started, _) => started.is_none(),
        };
        return if is_lost { Check::Hydrate("the last run did not end") } else { Check::Running };
    }
    let requested = app.annotation(annotation::HYDRATE);
    if requested == Some("hard") {
        return Check::Hydrate("a hard hydration was requested");
    }
    if !current.hydrator.as_ref().is_some_and(|hydrated| hydrated.is_same(hydrator)) {
        return Check::Hydrate("spec.sourceHydrator differs");
    }
    if current.phase == HydratePhase::Failed {
        if requested.is_some() {
            return Check::Hydrate("the last run failed, and another one was requested");
        }
        if age(current.finished_at).is_none_or(|age| age > FAILED_AGAIN) {
            return Check::Hydrate("the last run failed a while ago");
        }
        if state.compared.is_empty() {
            return Check::Nothing;
        }
    }
    Check::Changes(Some(state.compared).filter(|compared| !compared.is_empty()))
}

/// When to look again, if nothing happens before: after a failure, and when a run should have ended.
pub fn look_again(app: &Application, patience: Option<SignedDuration>) -> Option<Timestamp> {
    app.spec.source_hydrator.as_ref()?;
    let Operation { phase, started_at, finished_at, .. } = State::of(app).current?;
    // A moment later, so that it is older than the limit then.
    let after = |at: Timestamp, wait: SignedDuration| {
        at.checked_add(wait).and_then(|at| at.checked_add(SignedDuration::from_secs(1))).ok()
    };
    match HydratePhase::parse(&phase)? {
        HydratePhase::Hydrating => after(started_at?, patience?),
        HydratePhase::Failed => after(finished_at?, FAILED_AGAIN),
        HydratePhase::Hydrated => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn app(change: impl FnOnce(&mut Value)) -> Application {
        let hydrator = json!({"drySource": {"repoURL": "u", "path": "p", "targetRevision": "main"},
            "syncSource": {"targetBranch": "env", "path": "a"}});
        let mut app = json!({"metadata": {"name": "a", "annotations": {}},
            "spec": {"destination": {}, "sourceHydrator": hydrator},
            "status": {"sourceHydrator": {"lastComparedDryRevision": "c1", "currentOperation": {
                "phase": "Hydrated", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:05Z",
                "sourceHydrator": hydrator}}}});
        change(&mut app);
        serde_json::from_value(app).unwrap()
    }

    fn at(seconds: i64) -> Timestamp {
        "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_secs(seconds)
    }

    const PATIENCE: Option<SignedDuration> = Some(SignedDuration::from_secs(120));

    fn hydrates(app: &Application, seconds: i64) -> bool {
        matches!(check(app, PATIENCE, at(seconds)), Check::Hydrate(_))
    }

    #[test]
    fn ctl_106_without_an_operation_it_is_hydrated() {
        assert!(hydrates(&app(|app| app["status"] = json!({})), 0));
        let plain = app(|app| drop(app["spec"].as_object_mut().unwrap().remove("sourceHydrator")));
        assert_eq!(check(&plain, PATIENCE, at(0)), Check::Nothing);
    }

    #[test]
    fn ctl_106_a_run_goes_on_until_it_is_lost() {
        let running = app(|app| {
            app["status"]["sourceHydrator"]["currentOperation"]["phase"] = json!("Hydrating");
            app["metadata"]["annotations"]["argocd.argoproj.io/hydrate"] = json!("hard");
        });
        assert_eq!(check(&running, PATIENCE, at(60)), Check::Running);
        assert!(hydrates(&running, 121));
        assert_eq!(check(&running, None, at(100_000)), Check::Running);
        assert_eq!(look_again(&running, PATIENCE), Some(at(121)));
    }

    #[test]
    fn ctl_106_hard_requests_and_other_settings_hydrate() {
        let annotated = |word: &str| {
            app(|app| app["metadata"]["annotations"]["argocd.argoproj.io/hydrate"] = json!(word))
        };
        assert!(hydrates(&annotated("hard"), 10));
        assert_eq!(check(&annotated("normal"), PATIENCE, at(10)), Check::Changes(Some("c1".to_owned())));
        assert!(hydrates(&app(|app| app["spec"]["sourceHydrator"]["syncSource"]["path"] = json!("b")), 10));
    }

    #[test]
    fn ctl_106_a_failure_is_tried_again_after_two_minutes() {
        let failed = |change: fn(&mut Value)| {
            app(|app| {
                app["status"]["sourceHydrator"]["currentOperation"]["phase"] = json!("Failed");
                change(app);
            })
        };
        assert_eq!(check(&failed(|_| {}), PATIENCE, at(60)), Check::Changes(Some("c1".to_owned())));
        assert!(hydrates(&failed(|_| {}), 126));
        assert_eq!(look_again(&failed(|_| {}), PATIENCE), Some(at(126)));
        let unknown = failed(|app| app["status"]["sourceHydrator"]["lastComparedDryRevision"] = Value::Null);
        assert_eq!(check(&unknown, PATIENCE, at(60)), Check::Nothing);
        let requested =
            failed(|app| app["metadata"]["annotations"]["argocd.argoproj.io/hydrate"] = json!("normal"));
        assert!(hydrates(&requested, 60));
    }

    #[test]
    fn ctl_106_without_a_compared_revision_any_change_counts() {
        let unknown = app(|app| app["status"]["sourceHydrator"]["lastComparedDryRevision"] = Value::Null);
        assert_eq!(check(&unknown, PATIENCE, at(60)), Check::Changes(None));
    }
}
