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
    /// It was asked.
    #[error("{0}")]
    Failed(String),
    /// Its Secret cannot be read.
    #[error("{0}")]
    Unreadable(String),
}

/// A Helm registry is a host and a port (REP-77).
const OCI_HOST_ONLY: &str = "OCI Helm repository URL should include hostname and port only";

/// What is asked about a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// A Git server for its references.
    References,
    /// A chart repository for its index.
    Index,
    /// A registry of charts, whether it lets us in.
    Login,
    /// A repository of artifacts for its tags.
    Tags,
}

/// What is asked about a repository; the pure part of [`test`].
///
/// # Errors
/// When there is nothing to ask, or nobody who could.
pub fn question(repository: &Repository) -> Result<Question, Trouble> {
    if let Some(problem) = &repository.problem {
        return Err(Trouble::Unreadable(problem.to_string()));
    }
    match (repository.effective_type(), repository.credentials.enable_oci) {
        ("git", _) => Ok(Question::References),
        ("helm", true) if repository.url.contains("://") => Err(Trouble::Failed(OCI_HOST_ONLY.to_owned())),
        ("helm", true) => Ok(Question::Login),
        ("helm", false) => Ok(Question::Index),
        ("oci", _) => Ok(Question::Tags),
        (other, _) => Err(Trouble::Failed(format!("unsupported repository type {other:?}"))),
    }
}

/// Asks whoever has a repository, by its type (REP-78).
///
/// # Errors
/// With what the server said, without credentials.
pub async fn test(sources: &Sources, repository: &Repository) -> Result<(), Trouble> {
    let question = question(repository)?;
    let repository = tiphys_source::Repository::from(repository);
    let asked = match question {
        Question::References => sources.test(&repository).await,
        Question::Index => sources.test_charts(&repository).await,
        Question::Login => sources.test_registry(&repository).await,
        Question::Tags => sources.test_artifacts(&repository).await,
    };
    asked.map_err(|error| Trouble::Failed(repo_url::redact_text(&tiphys_cluster::error_chain(&error))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repository(kind: &str, url: &str) -> Repository {
        Repository { r#type: kind.to_owned(), ..Repository::bare(url) }
    }

    #[test]
    fn rep_77_78_what_is_asked_is_said_by_the_type() {
        assert_eq!(question(&repository("git", "https://h/r")), Ok(Question::References));
        assert_eq!(question(&repository("", "https://h/r")), Ok(Question::References));
        assert_eq!(question(&repository("helm", "https://h/r")), Ok(Question::Index));
        assert_eq!(question(&repository("", "oci://h/r")), Ok(Question::Tags));
        assert_eq!(question(&repository("oci", "oci://h/r")), Ok(Question::Tags));
        let other = question(&repository("svn", "https://h/r")).unwrap_err();
        assert_eq!(other, Trouble::Failed("unsupported repository type \"svn\"".to_owned()));
        let mut registry = repository("helm", "https://ghcr.io");
        registry.credentials.enable_oci = true;
        assert_eq!(question(&registry), Err(Trouble::Failed(OCI_HOST_ONLY.to_owned())));
        "ghcr.io".clone_into(&mut registry.url);
        assert_eq!(question(&registry), Ok(Question::Login));
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
    }
}
