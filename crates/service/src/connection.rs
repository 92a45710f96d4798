//! Whether a repository can be reached with its credentials (REP-78, REP-79).

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_api::repo_url;
use tiphys_api::repository::Repository;
use tiphys_source::Sources;

/// What is known of a connection (REP-8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It answered.
    Successful,
    /// It did not.
    Failed,
    /// Nobody asked.
    Unknown,
}

impl Status {
    /// The word of the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Successful => "Successful",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

/// The state of a connection (REP-8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// What is known.
    pub status: Status,
    /// Why, for people.
    pub message: String,
    /// When it was tried.
    pub attempted_at: Option<Timestamp>,
}

impl State {
    /// Nobody asked, for a reason.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self { status: Status::Unknown, message: message.into(), attempted_at: None }
    }

    /// What a test found, in the words of a list (REP-79).
    pub fn of(found: &Result<(), Trouble>, at: Timestamp) -> Self {
        let (status, message) = match found {
            Ok(()) => (Status::Successful, String::new()),
            Err(Trouble::NotTested(why)) => (Status::Unknown, why.clone()),
            Err(Trouble::Failed(why)) => (Status::Failed, format!("Unable to connect to repository: {why}")),
            // The text of the field stays in the log (REP-79).
            Err(Trouble::Unreadable(_)) => {
                (Status::Failed, "Configuration error - please check the server logs".to_owned())
            }
        };
        Self { status, message, attempted_at: Some(at) }
    }

    /// As the API shows it.
    pub fn to_value(&self) -> Value {
        let at = self
            .attempted_at
            .map(|at| tiphys_go::time::format(tiphys_go::time::RFC_3339, at, &jiff::tz::TimeZone::UTC));
        json!({"status": self.status.as_str(), "message": self.message, "attemptedAt": at})
    }
}

/// Why a repository was not reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// This version cannot ask.
    #[error("{0}")]
    NotTested(String),
    /// It was asked.
    #[error("{0}")]
    Failed(String),
    /// Its Secret cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// A Helm registry is a host and a port (REP-77).
const OCI_HOST_ONLY: &str = "OCI Helm repository URL should include hostname and port only";

/// What this version can ask about a repository; the pure part of [`test`].
///
/// # Errors
/// When there is nothing to ask, or nobody who could.
pub fn testable(repository: &Repository) -> Result<(), Trouble> {
    if let Some(problem) = &repository.problem {
        return Err(Trouble::Unreadable(problem.to_string()));
    }
    match repository.effective_type() {
        "git" => {}
        "helm" if repository.credentials.enable_oci && repository.url.contains("://") => {
            return Err(Trouble::Failed(OCI_HOST_ONLY.to_owned()));
        }
        known @ ("helm" | "oci") => {
            return Err(Trouble::NotTested(format!(
                "repositories of type {known:?} are not read by this version, so nobody knows whether it answers"
            )));
        }
        other => return Err(Trouble::Failed(format!("unsupported repository type {other:?}"))),
    }
    Ok(())
}

/// Lists the references of a repository (REP-78).
///
/// # Errors
/// With what the server said, without credentials.
pub async fn test(sources: &Sources, repository: &Repository) -> Result<(), Trouble> {
    testable(repository)?;
    let asked = sources.test(&tiphys_source::Repository::from(repository)).await;
    asked.map_err(|error| Trouble::Failed(repo_url::redact_text(&tiphys_cluster::error_chain(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(kind: &str, url: &str) -> Repository {
        Repository { r#type: kind.to_owned(), ..Repository::bare(url) }
    }

    #[test]
    fn rep_77_78_what_cannot_be_asked_is_said() {
        assert_eq!(testable(&repository("git", "https://h/r")), Ok(()));
        assert_eq!(testable(&repository("", "https://h/r")), Ok(()));
        let other = testable(&repository("svn", "https://h/r")).unwrap_err();
        assert_eq!(other, Trouble::Failed("unsupported repository type \"svn\"".to_owned()));
        for (kind, url) in [("helm", "https://h/r"), ("", "oci://h/r"), ("oci", "oci://h/r")] {
            assert!(matches!(testable(&repository(kind, url)), Err(Trouble::NotTested(_))), "{kind} {url}");
        }
        let mut registry = repository("helm", "https://ghcr.io");
        registry.credentials.enable_oci = true;
        assert_eq!(testable(&registry), Err(Trouble::Failed(OCI_HOST_ONLY.to_owned())));
        "ghcr.io".clone_into(&mut registry.url);
        assert!(matches!(testable(&registry), Err(Trouble::NotTested(_))));
        let mut app = repository("git", "https://h/r");
        app.credentials.github_app_id = 1;
        app.credentials.github_app_private_key = "k".into();
        assert_eq!(testable(&app), Ok(()));
    }

    #[test]
    fn rep_79_states_in_the_words_of_a_list() {
        let at = "2026-08-01T10:00:00Z".parse().unwrap();
        let state = |found| State::of(&found, at);
        assert_eq!(
            state(Ok(())).to_value(),
            json!({"status": "Successful", "message": "", "attemptedAt": "2026-08-01T10:00:00Z"})
        );
        assert_eq!(
            state(Err(Trouble::Failed("no".to_owned()))).message,
            "Unable to connect to repository: no"
        );
        let hidden = state(Err(Trouble::Unreadable("secret \"s\": field \"insecure\"".to_owned())));
        assert_eq!(hidden.message, "Configuration error - please check the server logs");
        assert_eq!(state(Err(Trouble::NotTested("x".to_owned()))).status, Status::Unknown);
    }
}
