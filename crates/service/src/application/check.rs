//! Whether an application may be stored or synced, by the rules of its installation.

use jiff::Timestamp;
use tiphys_api::{AppProject, Application};
use tiphys_installation::Installation;
use tiphys_policy::window::{SyncAttempt, can_sync_application};

use super::ApplicationError;

/// Checks a spec before it is stored: its destination, its project, what the project permits (API-126, REP-216).
///
/// # Errors
/// With everything that is wrong.
pub fn check_spec(installation: &Installation, app: &Application) -> Result<(), ApplicationError> {
    if let Err(error) = installation.cluster_of(app) {
        let (name, reason) = (app.metadata.name.clone(), error.to_string());
        return Err(ApplicationError::Destination { name, reason });
    }
    let Err(findings) = installation.check_spec(app) else { return Ok(()) };
    let texts = findings.iter().map(|finding| format!("{}: {}", finding.kind.as_str(), finding.message));
    let findings = texts.collect::<Vec<_>>().join(";");
    Err(ApplicationError::Invalid { name: app.metadata.name.clone(), findings })
}

/// Whether a sync by hand may start now (API-130).
///
/// # Errors
/// With what keeps it.
pub fn check_windows(
    installation: &Installation,
    project: &AppProject,
    app: &Application,
    now: Timestamp,
) -> Result<(), ApplicationError> {
    let attempt = SyncAttempt { manual: true, operation_started_at: None, now };
    let verdict = can_sync_application(project, installation.window_subject(app), attempt);
    match verdict.message {
        Some(why) => Err(ApplicationError::Window(why)),
        None if verdict.allowed => Ok(()),
        None => Err(ApplicationError::Window("blocked by sync window".to_owned())),
    }
}
