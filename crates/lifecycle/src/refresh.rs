//! Whether an application needs a comparison, and of which kind (CTL-26..28).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use tiphys_api::Application;
use tiphys_api::application::are_copies;
use tiphys_api::codes::SyncStatusCode;
use tiphys_api::names::annotation;

/// How much of a comparison is wanted (CTL-26). Higher levels include lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Rebuild the summary from what is known.
    Tree,
    /// Compare with the revisions of the last comparison.
    Recent,
    /// Resolve revisions, cached references allowed.
    Latest,
    /// Resolve revisions with fresh references.
    ForceLatest,
}

/// Whether cached manifests may be used (CTL-31).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshKind {
    /// Cached manifests are used.
    Normal,
    /// Manifests are generated again.
    Hard,
}

/// Why a comparison is made, in the words of the log (CTL-27).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The refresh annotation is set.
    Requested,
    /// The source differs from the one compared last.
    SourceChanged,
    /// The hard refresh interval has passed.
    HardExpired,
    /// Never compared, or the refresh interval has passed.
    Expired,
    /// The destination differs from the one compared last.
    DestinationChanged,
    /// The namespace metadata differs from the one synced last.
    NamespaceMetadataChanged,
    /// The ignore rules differ from those compared last.
    IgnoreRulesChanged,
    /// The controller asked: a live object or a repository changed, or an operation ended.
    Internal,
}

/// A comparison to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refresh {
    /// How much.
    pub level: Level,
    /// Whether manifests are generated again.
    pub kind: RefreshKind,
    /// Why.
    pub reason: Reason,
}

/// Intervals of the periodic refresh (CTL-28); `None` turns one off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Intervals {
    /// `timeout.reconciliation` plus this application's share of the jitter.
    pub soft: Option<SignedDuration>,
    /// `timeout.hard.reconciliation`.
    pub hard: Option<SignedDuration>,
}

/// The level of a comparison that was asked for: what is compared anyway is compared at what its references mean now,
/// when one of them has moved since the last look at them.
pub fn raised(requested: Option<Level>, seen: Option<Timestamp>, moved: Option<Timestamp>) -> Option<Level> {
    let is_behind = moved.is_some_and(|moved| seen.is_none_or(|seen| seen <= moved));
    requested.map(|level| if is_behind { level.max(Level::Latest) } else { level })
}

/// The first reason that applies, in the order of CTL-27; `None` when nothing is to be done.
///
/// `seen` is the time of a comparison that found nothing worth writing; the status does not know it.
pub fn decide(
    app: &Application,
    requested: Option<Level>,
    intervals: Intervals,
    seen: Option<Timestamp>,
    now: Timestamp,
) -> Option<Refresh> {
    let status = &app.status;
    let compared = &status.sync.compared_to;
    let reconciled = last(app, seen);
    let age = reconciled.map(|at| now.duration_since(at));
    let older = |limit: Option<SignedDuration>| limit.is_some_and(|limit| age.is_none_or(|age| age > limit));

    if let Some(kind) = app.annotation(annotation::REFRESH) {
        let kind = if kind == "hard" { RefreshKind::Hard } else { RefreshKind::Normal };
        return Some(Refresh { level: Level::ForceLatest, kind, reason: Reason::Requested });
    }
    let normal = |level, reason| Some(Refresh { level, kind: RefreshKind::Normal, reason });
    let same_source = if app.is_multi_source() {
        are_copies(&compared.sources, &app.spec.sources)
    } else {
        are_copies(compared.source.as_slice(), app.single_source().map_or(&[], std::slice::from_ref))
            && compared.sources.is_empty()
    };
    if !same_source {
        return normal(Level::ForceLatest, Reason::SourceChanged);
    }
    if older(intervals.hard) {
        return Some(Refresh { level: Level::Latest, kind: RefreshKind::Hard, reason: Reason::HardExpired });
    }
    if reconciled.is_none() || older(intervals.soft) {
        return normal(Level::Latest, Reason::Expired);
    }
    if compared.destination != app.spec.destination {
        return normal(Level::Latest, Reason::DestinationChanged);
    }
    let wanted = app.spec.sync_policy.as_ref().and_then(|policy| policy.managed_namespace_metadata.as_ref());
    let result = status.operation_state.as_ref().and_then(|state| state.sync_result.as_ref());
    if result.is_some_and(|result| result.managed_namespace_metadata.as_ref() != wanted) {
        return normal(Level::Latest, Reason::NamespaceMetadataChanged);
    }
    if compared.ignore_differences != app.spec.ignore_differences {
        return normal(Level::Latest, Reason::IgnoreRulesChanged);
    }
    // After a comparison that failed, the recorded revisions are those of an older one that did not. Comparing
    // with them would hide the error until the next look at the branch, and bring it back then (INV-5).
    let least = if status.sync.status == SyncStatusCode::Unknown { Level::Latest } else { Level::Tree };
    requested.map(|level| Refresh {
        level: level.max(least),
        kind: RefreshKind::Normal,
        reason: Reason::Internal,
    })
}

/// The annotations that ask for a comparison, and for a look at what is hydrated where there is a hydrator (API-122).
pub fn request(is_hydrated: bool, is_hard: bool, now: Timestamp) -> BTreeMap<&'static str, String> {
    let word = if is_hard { "hard" } else { "normal" };
    let mut annotations = BTreeMap::from([(annotation::REFRESH, word.to_owned())]);
    if is_hydrated {
        annotations.insert(annotation::HYDRATE, "normal".to_owned());
        annotations.insert(annotation::HYDRATE_TIMESTAMP, now.to_string());
    }
    annotations
}

/// Whether an Application's annotation asks to leave it alone (CTL-19).
pub fn is_skipped(app: &Application) -> bool {
    app.annotation(annotation::SKIP_RECONCILE)
        .is_some_and(|flag| tiphys_api::repository::parse_bool(flag) == Some(true))
}

/// When the periodic refresh is due again; `None` without an interval.
pub fn next_due(
    app: &Application,
    intervals: Intervals,
    seen: Option<Timestamp>,
    now: Timestamp,
) -> Option<Timestamp> {
    let from = last(app, seen).unwrap_or(now);
    [intervals.soft, intervals.hard]
        .into_iter()
        .flatten()
        .filter_map(|wait| from.checked_add(wait).ok())
        .min()
}

fn last(app: &Application, seen: Option<Timestamp>) -> Option<Timestamp> {
    let written = app.status.reconciled_at.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    written.max(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use tiphys_api::application::ApplicationSource;

    fn app(change: impl FnOnce(&mut Value)) -> Application {
        let mut value = json!({"metadata": {"name": "a"}, "spec": {"project": "default",
            "source": {"repoURL": "r"}, "destination": {"server": "s"}},
            "status": {"reconciledAt": "2026-01-01T00:00:00Z", "health": {},
                "sync": {"status": "Synced", "comparedTo": {"source": {"repoURL": "r"}, "destination": {"server": "s"}}}}});
        change(&mut value);
        serde_json::from_value(value).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    const SOFT: Intervals = Intervals { soft: Some(SignedDuration::from_secs(120)), hard: None };

    #[test]
    fn ctl_27_a_settled_application_needs_nothing() {
        assert_eq!(decide(&app(|_| {}), None, SOFT, None, at("2026-01-01T00:01:00Z")), None);
    }

    #[test]
    fn ctl_27_reasons_come_in_order() {
        let now = at("2026-01-01T00:10:00Z");
        let refresh = |app: &Application, requested| decide(app, requested, SOFT, None, now).unwrap();
        let annotated = app(|v| {
            v["metadata"]["annotations"] = json!({"argocd.argoproj.io/refresh": "hard"});
            v["spec"]["source"]["path"] = json!("x");
        });
        assert_eq!(
            refresh(&annotated, None),
            Refresh { level: Level::ForceLatest, kind: RefreshKind::Hard, reason: Reason::Requested }
        );
        let source = app(|v| v["spec"]["source"]["path"] = json!("x"));
        assert_eq!(refresh(&source, None).reason, Reason::SourceChanged);
        assert_eq!(refresh(&app(|_| {}), Some(Level::Recent)).reason, Reason::Expired);
    }

    #[test]
    fn ctl_27_a_requested_level_is_used_when_nothing_else_applies() {
        let now = at("2026-01-01T00:00:10Z");
        assert_eq!(decide(&app(|_| {}), Some(Level::Recent), SOFT, None, now).unwrap().level, Level::Recent);
        let rules = app(|v| v["spec"]["ignoreDifferences"] = json!([{"kind": "*", "jsonPointers": ["/a"]}]));
        assert_eq!(decide(&rules, None, SOFT, None, now).unwrap().reason, Reason::IgnoreRulesChanged);
    }

    /// CTL-36: a digest in `comparedTo` stands for its source, and for no other.
    #[test]
    fn ctl_36_an_abridged_copy_is_the_source_it_was_made_of() {
        let now = at("2026-01-01T00:00:10Z");
        let values = |letter: &str| json!({"repoURL": "r", "helm": {"values": letter.repeat(100_000)}});
        let mut app = app(|v| v["spec"]["source"] = values("x"));
        app.status.sync.compared_to.source = app.spec.source.as_ref().map(ApplicationSource::abridged);
        assert_eq!(decide(&app, None, SOFT, None, now), None);
        app.spec.source = serde_json::from_value(values("y")).unwrap();
        assert_eq!(decide(&app, None, SOFT, None, now).unwrap().reason, Reason::SourceChanged);
    }

    #[test]
    fn inv_5_after_a_failed_comparison_the_revisions_are_resolved_again() {
        let now = at("2026-01-01T00:00:10Z");
        let failed = app(|v| v["status"]["sync"]["status"] = json!("Unknown"));
        assert_eq!(decide(&failed, Some(Level::Recent), SOFT, None, now).unwrap().level, Level::Latest);
        assert_eq!(decide(&failed, None, SOFT, None, now), None);
    }

    #[test]
    fn inv_5_a_comparison_that_was_not_written_counts() {
        let now = at("2026-01-01T00:10:00Z");
        assert!(decide(&app(|_| {}), None, SOFT, None, now).is_some());
        assert!(decide(&app(|_| {}), None, SOFT, Some(at("2026-01-01T00:09:00Z")), now).is_none());
    }

    #[test]
    fn ctl_28_zero_intervals_never_expire() {
        let far = at("2027-01-01T00:00:00Z");
        assert_eq!(decide(&app(|_| {}), None, Intervals::default(), None, far), None);
        assert_eq!(next_due(&app(|_| {}), Intervals::default(), None, far), None);
    }
}
