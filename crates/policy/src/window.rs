//! Whether a sync may run now (REP C8, CTL section 6).
//!
//! A window is active by its schedule, matches by its selectors, and [`can_sync`] weighs the matching ones.
//! The time is an argument everywhere.

mod schedule;
mod validate;

use jiff::Timestamp;
use tiphys_api::AppProject;
use tiphys_api::application::Application;
use tiphys_api::cluster::Cluster;
use tiphys_api::project::SyncWindow;

use crate::pattern;

pub use schedule::{WindowError, is_active, stored_zone};
pub(crate) use validate::validate_all;

/// What a window is matched with (REP-171).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subject<'a> {
    /// Name of the Application, without namespace.
    pub application: &'a str,
    /// Server of the destination as written.
    pub server: &'a str,
    /// Name of the destination's cluster as written.
    pub cluster: &'a str,
    /// Namespace of the destination.
    pub namespace: &'a str,
    /// Server and name of the resolved cluster; given only where `syncWindows.resolveDestinations` asks for it
    /// (REP-172).
    pub resolved: Option<(&'a str, &'a str)>,
}

impl<'a> Subject<'a> {
    /// The subject of an Application; `resolved` where destinations are to be resolved (REP-172).
    pub fn new(application: &'a Application, resolved: Option<&'a Cluster>) -> Self {
        let destination = &application.spec.destination;
        Self {
            application: &application.metadata.name,
            server: &destination.server,
            cluster: &destination.name,
            namespace: &destination.namespace,
            resolved: resolved.map(|cluster| (cluster.server.as_str(), cluster.name.as_str())),
        }
    }
}

/// Who wants to sync, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncAttempt {
    /// Whether automation did not start it (REP-179).
    pub manual: bool,
    /// Start of the operation when one is running (REP-179).
    pub operation_started_at: Option<Timestamp>,
    /// The time.
    pub now: Timestamp,
}

/// The answer, with what led to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowVerdict {
    /// Whether the sync may run.
    pub allowed: bool,
    /// What is wrong with a window; then nothing is allowed.
    pub message: Option<String>,
    /// Positions of the matching windows.
    pub matching: Vec<usize>,
    /// Positions of those that are active.
    pub active: Vec<usize>,
}

/// Whether a window is about an Application (REP-171, CTL-66).
pub fn matches(window: &SyncWindow, subject: Subject<'_>) -> bool {
    // A name or a server that is not written is none; a namespace that is not written is the empty one.
    let any = |patterns: &[String], texts: &[&str]| {
        let matched =
            |text: &str| !text.is_empty() && patterns.iter().any(|entry| pattern::glob(entry, text));
        texts.iter().copied().any(matched)
    };
    let (resolved_server, resolved_name) = subject.resolved.unwrap_or_default();
    let selectors = [
        (&window.applications, any(&window.applications, &[subject.application])),
        (
            &window.clusters,
            any(&window.clusters, &[subject.server, subject.cluster, resolved_server, resolved_name]),
        ),
        (&window.namespaces, window.namespaces.iter().any(|entry| pattern::glob(entry, subject.namespace))),
    ];
    let mut configured = selectors.iter().filter(|(patterns, _)| !patterns.is_empty()).peekable();
    if window.and_operator {
        configured.peek().is_some() && configured.all(|(_, matched)| *matched)
    } else {
        configured.any(|(_, matched)| *matched)
    }
}

/// Whether an Application may sync, by all windows of its effective project (REP-178).
pub fn can_sync_application(
    project: &AppProject,
    subject: Subject<'_>,
    attempt: SyncAttempt,
) -> WindowVerdict {
    let windows: Vec<_> = project.windows().filter(|(_, window)| matches(window, subject)).collect();
    can_sync(&windows, attempt)
}

/// Weighs windows that match, each with its position (REP-178, CTL-68, 69).
pub fn can_sync(windows: &[(usize, &SyncWindow)], attempt: SyncAttempt) -> WindowVerdict {
    let mut verdict =
        WindowVerdict { matching: windows.iter().map(|(at, _)| *at).collect(), ..WindowVerdict::default() };
    let now = match States::at(windows, attempt.now) {
        Ok(states) => states,
        Err(error) => {
            verdict.message = Some(format!("invalid sync windows: {error}"));
            return verdict;
        }
    };
    verdict.active = now.windows.iter().filter(|(_, _, active)| *active).map(|(at, _, _)| *at).collect();
    verdict.allowed = match now.decide(attempt.manual) {
        Answer::Allowed => true,
        Answer::Blocked { overrun: false } => false,
        // Deviation (REP-180): the offset of the zone is that of the start, not today's.
        Answer::Blocked { overrun: true } => attempt.operation_started_at.is_some_and(|started_at| {
            States::at(windows, started_at)
                .is_ok_and(|then| matches!(then.decide(attempt.manual), Answer::Allowed))
        }),
    };
    verdict
}

enum Answer {
    Allowed,
    /// `overrun`: all windows in the way let a sync finish that began in time.
    Blocked {
        overrun: bool,
    },
}

/// The windows and whether each is active at one time.
struct States<'a> {
    windows: Vec<(usize, &'a SyncWindow, bool)>,
}

impl<'a> States<'a> {
    fn at(windows: &[(usize, &'a SyncWindow)], time: Timestamp) -> Result<Self, WindowError> {
        let windows = windows
            .iter()
            .map(|(at, window)| Ok((*at, *window, is_active(window, time)?)))
            .collect::<Result<_, WindowError>>()?;
        Ok(Self { windows })
    }

    fn of(&self, kind: &str, active: bool) -> Vec<&'a SyncWindow> {
        let wanted =
            |(_, window, state): &&(usize, &'a SyncWindow, bool)| window.kind == kind && *state == active;
        self.windows.iter().filter(wanted).map(|(_, window, _)| *window).collect()
    }

    fn decide(&self, manual: bool) -> Answer {
        let blocked_by = |windows: &[&SyncWindow]| {
            if manual && windows.iter().all(|window| window.manual_sync) {
                return Answer::Allowed;
            }
            Answer::Blocked { overrun: windows.iter().all(|window| window.sync_overrun) }
        };
        let active_denies = self.of("deny", true);
        if !active_denies.is_empty() {
            return blocked_by(&active_denies);
        }
        let inactive_allows = self.of("allow", false);
        if self.of("allow", true).is_empty() && !inactive_allows.is_empty() {
            return blocked_by(&inactive_allows);
        }
        Answer::Allowed
    }
}

#[cfg(test)]
mod tests;
