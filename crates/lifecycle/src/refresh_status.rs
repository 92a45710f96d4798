//! What a refresh makes of a status: a comparison, a wrong spec, or a failure (CTL-9, CTL-15, CTL-17, ENG-53).

use jiff::Timestamp;
use tiphys_api::Application;
use tiphys_api::application::{ApplicationStatus, Condition, HealthStatus, ResourceStatus, Summary};
use tiphys_api::codes::{ConditionType, HealthCode, SyncStatusCode};
use tiphys_api::printable;

use crate::fit::TEXT_BYTES_MAX;
use crate::operation::shown;
use crate::refresh::Level;
use crate::status::merge_conditions;

/// Types that the check of the spec evaluates (CTL-17).
const SPEC_TYPES: [ConditionType; 2] = [ConditionType::InvalidSpecError, ConditionType::UnknownError];
/// Types that a comparison evaluates (CTL-17).
const COMPARISON_TYPES: [ConditionType; 6] = [
    ConditionType::ComparisonError,
    ConditionType::UnsupportedOptionWarning,
    ConditionType::SharedResourceWarning,
    ConditionType::RepeatedResourceWarning,
    ConditionType::ExcludedResourceWarning,
    ConditionType::UnknownError,
];

/// What a comparison found, as the status shows it.
#[derive(Clone, Debug)]
pub struct Findings<'a> {
    /// Sync status of the application.
    pub status: SyncStatusCode,
    /// All conditions the comparison gave.
    pub conditions: &'a [Condition],
    /// Resolved revisions, one per source.
    pub revisions: &'a [String],
    /// Types of the sources; empty for one that only carries `ref`.
    pub source_types: &'a [&'static str],
    /// Resources of the application.
    pub resources: &'a [ResourceStatus],
    /// Its health.
    pub health: &'a HealthStatus,
    /// Images and URLs.
    pub summary: &'a Summary,
}

/// Puts a comparison into the status (CTL-9). `persist_health` is the setting that stores health with each resource.
pub fn show_comparison(
    app: &mut Application,
    found: &Findings<'_>,
    level: Level,
    persist_health: bool,
    now: Timestamp,
) {
    let is_multi = app.is_multi_source();
    let status = &mut app.status;
    let spec_clean = merge_conditions(&status.conditions, &SPEC_TYPES, Vec::new(), "");
    status.conditions =
        merge_conditions(&spec_clean, &COMPARISON_TYPES, found.conditions.to_vec(), &shown(now));
    status.sync.status = found.status.into();
    let first = || found.revisions.first().cloned().unwrap_or_default();
    status.sync.revision = if is_multi { String::new() } else { first() };
    status.sync.revisions = if is_multi { found.revisions.to_vec() } else { Vec::new() };
    let types = || found.source_types.iter().map(|name| (*name).to_owned());
    status.source_type = if is_multi { String::new() } else { types().next().unwrap_or_default() };
    status.source_types = if is_multi { types().collect() } else { Vec::new() };
    show_health(status, found.health.clone(), persist_health);
    status.resources = found.resources.to_vec();
    status.summary = Summary { unknown: status.summary.unknown.clone(), ..found.summary.clone() };
    status.resource_health_source = if persist_health { String::new() } else { "appTree".to_owned() };
    if level >= Level::Latest || status.reconciled_at.is_none() {
        // Written only together with something else (INV-5); the memory holds it meanwhile.
        status.reconciled_at = Some(shown(now));
    }
    compared_to(app);
}

/// A spec that cannot be used: nothing is known (CTL-15).
pub fn show_invalid_spec(app: &mut Application, conditions: Vec<Condition>, now: Timestamp) {
    let status = &mut app.status;
    status.conditions = merge_conditions(&status.conditions, &SPEC_TYPES, conditions, &shown(now));
    status.summary = Summary::default();
    status.health = unknown_health();
    show_unknown(app, now);
}

/// The comparison could not be made: sync status and resources are unknown (ENG-53). `health` is that of the live
/// objects, as far as they could be seen (INV-15). `is_same` says whether two texts are about one failure.
pub fn show_failure(
    app: &mut Application,
    mut error: String,
    health: HealthStatus,
    persist_health: bool,
    is_same: impl Fn(&str, &str) -> bool,
    now: Timestamp,
) {
    printable::cut(&mut error, TEXT_BYTES_MAX);
    let status = &mut app.status;
    // A failure that is answered from memory for an hour, and then is not, is one failure: a settled
    // installation writes nothing (INV-5).
    let mut known = status.conditions.iter();
    let known = known
        .find(|known| known.r#type == ConditionType::ComparisonError && is_same(&known.message, &error))
        .map(|known| known.message.clone());
    let found = vec![Condition::new(ConditionType::ComparisonError, known.unwrap_or(error))];
    let spec_clean = merge_conditions(&status.conditions, &SPEC_TYPES, Vec::new(), "");
    status.conditions = merge_conditions(&spec_clean, &COMPARISON_TYPES, found, &shown(now));
    show_health(status, health, persist_health);
    show_unknown(app, now);
}

/// Replaces the conditions of one type.
pub fn show_condition(app: &mut Application, kind: ConditionType, message: Option<String>, now: Timestamp) {
    let found = message.map(|message| Condition::new(kind, message)).into_iter().collect();
    app.status.conditions = merge_conditions(&app.status.conditions, &[kind], found, &shown(now));
}

/// The known resources with status `Unknown`.
pub fn unknown_resources(status: &ApplicationStatus) -> Vec<ResourceStatus> {
    let unknown = |r: &ResourceStatus| ResourceStatus {
        status: if r.hook || r.status.is_empty() { r.status.clone() } else { SyncStatusCode::Unknown.into() },
        ..r.clone()
    };
    status.resources.iter().map(unknown).collect()
}

/// A health that nobody could see.
pub fn unknown_health() -> HealthStatus {
    HealthStatus { status: HealthCode::Unknown.into(), ..HealthStatus::default() }
}

fn show_unknown(app: &mut Application, now: Timestamp) {
    app.status.sync.status = SyncStatusCode::Unknown.into();
    app.status.resources = unknown_resources(&app.status);
    app.status.reconciled_at = Some(shown(now));
    compared_to(app);
}

/// The message alone is no reason to write: it changes with every pod (CTL-35).
fn show_health(status: &mut ApplicationStatus, found: HealthStatus, persist: bool) {
    if persist || status.health.status != found.status {
        status.health.message = found.message;
    }
    status.health.status = found.status;
}

fn compared_to(app: &mut Application) {
    let source = app.single_source().cloned();
    let sources = if app.is_multi_source() { app.spec.sources.clone() } else { Vec::new() };
    let compared = &mut app.status.sync.compared_to;
    (compared.source, compared.sources) = (source, sources);
    compared.destination.clone_from(&app.spec.destination);
    compared.ignore_differences.clone_from(&app.spec.ignore_differences);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn known() -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a"},
            "spec": {"destination": {"server": "s"}, "source": {"repoURL": "u", "path": "p"}},
            "status": {"health": {"status": "Healthy"}, "sync": {"status": "Synced", "revision": "r1"},
                "conditions": [{"type": "InvalidSpecError", "message": "old", "lastTransitionTime": "t0"},
                    {"type": "SyncError", "message": "kept", "lastTransitionTime": "t0"}],
                "resources": [{"kind": "ConfigMap", "name": "c", "status": "Synced"},
                    {"kind": "Job", "name": "h", "hook": true}]}}))
        .unwrap()
    }

    fn now() -> Timestamp {
        "2026-01-01T00:00:05Z".parse().unwrap()
    }

    fn conditions(app: &Application) -> Vec<(&str, &str)> {
        app.status.conditions.iter().map(|c| (c.r#type.as_str(), c.message.as_str())).collect()
    }

    /// ENG-53, INV-15: what was known stays, and nothing of it is called true.
    #[test]
    fn eng_53_a_failure_leaves_the_resources_and_knows_nothing_about_them() {
        let mut app = known();
        show_failure(&mut app, "boom".into(), unknown_health(), false, |a, b| a == b, now());
        assert_eq!(
            (app.status.sync.status.as_str(), app.status.health.status.as_str()),
            ("Unknown", "Unknown")
        );
        assert_eq!(app.status.sync.revision, "r1");
        let shown: Vec<_> =
            app.status.resources.iter().map(|r| (r.name.as_str(), r.status.as_str())).collect();
        assert_eq!(shown, [("c", "Unknown"), ("h", "")]);
        assert_eq!(conditions(&app), [("ComparisonError", "boom"), ("SyncError", "kept")]);
    }

    /// INV-5: two tellings of one failure are one condition, with the text and the time of the first.
    #[test]
    fn inv_5_a_failure_that_is_told_again_changes_nothing() {
        let mut app = known();
        let same = |a: &str, b: &str| a.starts_with("boom") && b.starts_with("boom");
        show_failure(&mut app, "boom".into(), unknown_health(), false, same, now());
        let first = app.clone();
        show_failure(&mut app, "boom, from memory".into(), unknown_health(), false, same, now());
        assert_eq!(app, first);
    }

    #[test]
    fn ctl_9_a_comparison_replaces_what_was_known_of_the_spec() {
        let mut app = known();
        let health = HealthStatus { status: HealthCode::Degraded.into(), ..HealthStatus::default() };
        let found = Findings {
            status: SyncStatusCode::OutOfSync,
            conditions: &[],
            revisions: &["r2".to_owned()],
            source_types: &["Directory"],
            resources: &[],
            health: &health,
            summary: &Summary::default(),
        };
        show_comparison(&mut app, &found, Level::Latest, false, now());
        let status = &app.status;
        assert_eq!((status.sync.status.as_str(), status.sync.revision.as_str()), ("OutOfSync", "r2"));
        assert_eq!((status.health.status.as_str(), status.source_type.as_str()), ("Degraded", "Directory"));
        assert_eq!(status.sync.compared_to.source, app.spec.source);
        assert_eq!(conditions(&app), [("SyncError", "kept")]);
    }
}
