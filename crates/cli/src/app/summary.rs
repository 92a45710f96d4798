//! The summary of an application as `get`, `sync` and `wait` print it (CLI-441..445).

use std::fmt::Write as _;

use jiff::Timestamp;
use tiphys_api::Application;
use tiphys_api::application::{ApplicationSource, HelmParameter, OperationState};
use tiphys_api::names::annotation;
use tiphys_api::printable;
use tiphys_api::project::SyncWindow;
use tiphys_engine::tracking::TrackingMethod;

use crate::table::Table;
use crate::terminal::Terminal;

/// The sync windows that match an application (CLI-443).
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows {
    /// Windows that match, in the project's order.
    pub(crate) matching: Vec<SyncWindow>,
    /// `Sync Allowed`, `Manual Allowed` or `Sync Denied`.
    pub(crate) verdict: &'static str,
}

impl Windows {
    /// No window matches.
    pub(crate) fn none() -> Self {
        Self { matching: Vec::new(), verdict: "Sync Allowed" }
    }

    /// Weighs matching windows with what is active (CLI-443).
    pub(crate) fn weigh(matching: Vec<(SyncWindow, bool)>, manual_allowed: bool) -> Self {
        let denied = matching.iter().any(|(window, active)| *active && window.kind == "deny");
        let mut allows = matching.iter().filter(|(window, _)| window.kind == "allow").peekable();
        let outside = allows.peek().is_some() && !allows.any(|(_, active)| *active);
        let verdict = match (denied || outside, manual_allowed) {
            (false, _) => "Sync Allowed",
            (true, true) => "Manual Allowed",
            (true, false) => "Sync Denied",
        };
        Self { matching: matching.into_iter().map(|(window, _)| window).collect(), verdict }
    }
}

/// One `Key: value` line.
pub(crate) fn line(out: &mut String, label: &str, value: &str) {
    // Writing to a string cannot fail.
    let _written = writeln!(out, "{label:<20}{}", printable::line(value));
}

/// `namespace/name`, or the bare name without a namespace (CLI-304).
pub(crate) fn qualified_name(app: &Application) -> String {
    tiphys_engine::tracking::qualified_name(&app.metadata.namespace, &app.metadata.name).to_string()
}

/// The line that says how an application's resources are marked, and who chose that (TRK-113).
pub(crate) fn tracking_method(app: &Application, effective: TrackingMethod) -> String {
    let is_own = app.annotation(annotation::TRACKING_METHOD) == Some(effective.as_str());
    let mut out = String::new();
    line(
        &mut out,
        "Tracking Method:",
        &format!("{effective} ({})", if is_own { "application" } else { "system" }),
    );
    out
}

/// The `Key: value` lines (CLI-441).
pub(crate) fn summary(app: &Application, url: &str, windows: &Windows) -> String {
    let mut out = String::new();
    let destination = &app.spec.destination;
    line(&mut out, "Name:", &qualified_name(app));
    line(&mut out, "Project:", app.project());
    line(
        &mut out,
        "Server:",
        if destination.server.is_empty() { &destination.name } else { &destination.server },
    );
    line(&mut out, "Namespace:", &destination.namespace);
    line(&mut out, "URL:", url);
    let sources = app.sources();
    line(&mut out, if app.is_multi_source() { "Sources:" } else { "Source:" }, "");
    for source in sources {
        source_lines(&mut out, source);
    }
    line(&mut out, "SyncWindow:", windows.verdict);
    if !windows.matching.is_empty() {
        let texts: Vec<String> = windows
            .matching
            .iter()
            .map(|window| format!("{}:{}:{}", window.kind, window.schedule, window.duration))
            .collect();
        line(&mut out, "Assigned Windows:", &texts.join(","));
    }
    line(&mut out, "Sync Policy:", sync_policy(app));
    line(&mut out, "Sync Status:", &sync_status(app));
    line(&mut out, "Health Status:", &app.status.health.status);
    out
}

/// The block of one source (CLI-442).
pub(crate) fn source_lines(out: &mut String, source: &ApplicationSource) {
    line(out, "- Repo:", &source.repo_url);
    line(out, "  Target:", &source.target_revision);
    if !source.path.is_empty() {
        line(out, "  Path:", &source.path);
    }
    if !source.r#ref.is_empty() {
        line(out, "  Ref:", &source.r#ref);
    }
    if let Some(helm) = source.helm.as_ref().filter(|helm| !helm.value_files.is_empty()) {
        line(out, "  Helm Values:", &helm.value_files.join(","));
    }
    if let Some(kustomize) = source.kustomize.as_ref().filter(|block| !block.name_prefix.is_empty()) {
        line(out, "  Name Prefix:", &kustomize.name_prefix);
    }
}

fn sync_policy(app: &Application) -> &'static str {
    match app.automated() {
        Some(automated) if automated.prune => "Automated (Prune)",
        Some(_) => "Automated",
        None => "Manual",
    }
}

/// `Synced to main (53e28ff)` (CLI-444).
fn sync_status(app: &Application) -> String {
    let target = app.sources().first().map_or("", |source| source.target_revision.as_str());
    let mut text = match app.status.sync.status.as_str() {
        "Synced" => format!("Synced to {target}"),
        "OutOfSync" => format!("OutOfSync from {target}"),
        other => other.to_owned(),
    };
    let revision = match app.status.sync.revisions.first() {
        Some(first) if app.is_multi_source() => first,
        _ => &app.status.sync.revision,
    };
    if !is_sha(target) && revision.chars().count() > 7 {
        let short: String = revision.chars().take(7).collect();
        let _written = write!(text, " ({short})");
    }
    text
}

/// A commit in full or abbreviated.
fn is_sha(text: &str) -> bool {
    (7..=40).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The condition table, between empty lines; nothing without conditions (CLI-445).
pub(crate) fn conditions(app: &Application, terminal: &Terminal) -> String {
    if app.status.conditions.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["CONDITION", "MESSAGE", "LAST TRANSITION"]);
    for condition in &app.status.conditions {
        let at = condition.last_transition_time.as_deref().and_then(parse_time);
        table.row(vec![condition.r#type.clone(), condition.message.clone(), terminal.local_time(at)]);
    }
    format!("\n{}\n", table.print())
}

/// The lines of the last operation (CLI-445).
pub(crate) fn operation(state: &OperationState, terminal: &Terminal) -> String {
    let mut out = String::new();
    if let Some(result) = &state.sync_result {
        line(&mut out, "Operation:", "Sync");
        let revisions = result.revisions.join(", ");
        let is_multi = !result.sources.is_empty() && !result.revisions.is_empty();
        line(&mut out, "Sync Revision:", if is_multi { &revisions } else { &result.revision });
    }
    let started = parse_time(&state.started_at);
    let finished = state.finished_at.as_deref().and_then(parse_time);
    line(&mut out, "Phase:", &state.phase);
    line(&mut out, "Start:", &terminal.local_time(started));
    line(&mut out, "Finished:", &terminal.local_time(finished));
    let end = finished.unwrap_or_else(|| terminal.now());
    let seconds = started.map_or(0, |started| end.as_second().saturating_sub(started.as_second()));
    line(&mut out, "Duration:", &tiphys_go::duration::format(jiff::SignedDuration::from_secs(seconds)));
    if !state.message.is_empty() {
        line(&mut out, "Message:", &state.message);
    }
    out
}

/// Longest shown value of a parameter.
const VALUE_MAX: usize = 80;

/// The Helm parameters of a source (CLI-445).
pub(crate) fn parameters(source: Option<&ApplicationSource>) -> String {
    let Some(helm) = source.and_then(|source| source.helm.as_ref()) else { return String::new() };
    if helm.parameters.is_empty() {
        return String::new();
    }
    let mut table = Table::new(&["NAME", "VALUE"]);
    for HelmParameter { name, value, .. } in &helm.parameters {
        let shown = if value.chars().count() > VALUE_MAX {
            let head: String = value.chars().take(VALUE_MAX - 3).collect();
            format!("{head}...")
        } else {
            value.clone()
        };
        table.row(vec![name.clone(), shown]);
    }
    format!("\n{}", table.print())
}

/// Reads an RFC 3339 time of a status.
pub(crate) fn parse_time(text: &str) -> Option<Timestamp> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn app(spec: &Value, status: &Value) -> Application {
        serde_json::from_value(
            json!({"metadata": {"name": "guestbook", "namespace": "argocd"}, "spec": spec, "status": status}),
        )
        .unwrap()
    }

    fn guestbook() -> Application {
        app(
            &json!({"project": "default", "destination": {"server": "https://kubernetes.default.svc", "namespace": "guestbook"},
                "source": {"repoURL": "https://git.example.com/apps.git", "targetRevision": "main", "path": "guestbook"},
                "syncPolicy": {"automated": {"prune": true}}}),
            &json!({"sync": {"status": "Synced", "revision": "53e28ff20cc530b9ada2173fbbd64d48338583ba"}, "health": {"status": "Healthy"}}),
        )
    }

    #[test]
    fn cli_441_the_wide_layout() {
        let url = "https://cd.example.com/applications/guestbook";
        assert_eq!(
            summary(&guestbook(), url, &Windows::none()),
            "Name:               argocd/guestbook\n\
             Project:            default\n\
             Server:             https://kubernetes.default.svc\n\
             Namespace:          guestbook\n\
             URL:                https://cd.example.com/applications/guestbook\n\
             Source:             \n\
             - Repo:             https://git.example.com/apps.git\n\
             \x20 Target:           main\n\
             \x20 Path:             guestbook\n\
             SyncWindow:         Sync Allowed\n\
             Sync Policy:        Automated (Prune)\n\
             Sync Status:        Synced to main (53e28ff)\n\
             Health Status:      Healthy\n"
        );
    }

    #[test]
    fn cli_444_a_revision_is_not_repeated() {
        let mut pinned = guestbook();
        pinned.spec.source.as_mut().unwrap().target_revision =
            "53e28ff20cc530b9ada2173fbbd64d48338583ba".into();
        assert_eq!(sync_status(&pinned), "Synced to 53e28ff20cc530b9ada2173fbbd64d48338583ba");
        let mut unknown = guestbook();
        unknown.status.sync.status = "Unknown".into();
        unknown.status.sync.revision = String::new();
        assert_eq!(sync_status(&unknown), "Unknown");
    }

    #[test]
    fn cli_443_windows_are_weighed() {
        let window = |kind: &str| SyncWindow { kind: kind.into(), ..SyncWindow::default() };
        let verdict = |windows: &[(&str, bool)], manual| {
            let windows = windows.iter().map(|(kind, active)| (window(kind), *active)).collect();
            Windows::weigh(windows, manual).verdict
        };
        assert_eq!(verdict(&[], false), "Sync Allowed");
        assert_eq!(verdict(&[("allow", true)], false), "Sync Allowed");
        assert_eq!(verdict(&[("allow", false)], true), "Manual Allowed");
        assert_eq!(verdict(&[("allow", true), ("deny", true)], false), "Sync Denied");
    }

    #[test]
    fn cli_445_conditions_and_operation() {
        let mut app = guestbook();
        app.status.conditions = serde_json::from_value(
            json!([{"type": "SyncError", "message": "no", "lastTransitionTime": "2026-08-01T10:00:00Z"}]),
        )
        .unwrap();
        let terminal = Terminal::memory("argocd", &[]);
        assert_eq!(
            conditions(&app, &terminal),
            "\nCONDITION  MESSAGE  LAST TRANSITION\nSyncError  no       2026-08-01 10:00:00 +0000 UTC\n\n"
        );
        let state: OperationState =
            serde_json::from_value(json!({"operation": {"sync": {}}, "phase": "Succeeded",
            "startedAt": "2026-08-01T10:00:00Z", "finishedAt": "2026-08-01T10:01:05Z", "message": "ok",
            "syncResult": {"revision": "abc"}}))
            .unwrap();
        assert_eq!(
            operation(&state, &terminal),
            "Operation:          Sync\nSync Revision:      abc\nPhase:              Succeeded\n\
             Start:              2026-08-01 10:00:00 +0000 UTC\nFinished:           2026-08-01 10:01:05 +0000 UTC\n\
             Duration:           1m5s\nMessage:            ok\n"
        );
    }
}
