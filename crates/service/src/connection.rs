//! Whether a repository can be reached with its credentials (REP-78, REP-79).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
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

    /// Reads what the API shows; a word that nobody knows says nothing.
    pub fn read(value: &Value) -> Self {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let known = [Status::Successful, Status::Failed].into_iter().find(|it| it.as_str() == text("status"));
        Self {
            status: known.unwrap_or(Status::Unknown),
            message: text("message").to_owned(),
            attempted_at: text("attemptedAt").parse().ok(),
        }
    }

    /// As the API shows it.
    pub fn to_value(&self) -> Value {
        let at = self
            .attempted_at
            .map(|at| tiphys_go::time::format(tiphys_go::time::RFC_3339, at, &jiff::tz::TimeZone::UTC));
        json!({"status": self.status.as_str(), "message": self.message, "attemptedAt": at})
    }
}

/// Connections that are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// What a connection is remembered by (REP-65).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Which {
    /// Whether it is for pushing.
    pub(crate) pushes: bool,
    /// The URL, in the form in which equal ones are equal.
    pub(crate) url: String,
    /// The project.
    pub(crate) project: String,
}

/// What was found out about connections, for a while (REP-79).
#[derive(Debug)]
pub struct Connections {
    lifetime: SignedDuration,
    found: Mutex<BTreeMap<Which, (String, State)>>,
}

impl Connections {
    /// Nothing is known yet; what is found out counts for so long.
    pub fn new(lifetime: SignedDuration) -> Self {
        Self { lifetime, found: Mutex::default() }
    }

    /// What was found out with these credentials, if it was a short time ago. `version` is that of their Secret: what was
    /// found with others says nothing.
    pub(crate) fn get(&self, which: &Which, version: &str, now: Timestamp) -> Option<State> {
        let found = self.found.lock();
        let (known, state) = found.get(which)?;
        let age = now.duration_since(state.attempted_at?);
        (known == version && age < self.lifetime && !age.is_negative()).then(|| state.clone())
    }

    pub(crate) fn put(&self, which: Which, version: &str, state: &State) {
        let mut found = self.found.lock();
        if found.len() >= REMEMBERED_MAX && !found.contains_key(&which) {
            found.clear();
        }
        found.insert(which, (version.to_owned(), state.clone()));
    }

    pub(crate) fn forget(&self, which: &Which) {
        self.found.lock().remove(which);
    }
}

/// How connections are found out.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Who asks repositories; without it nobody does.
    pub sources: Option<&'a Sources>,
    /// What was found out before; without it everybody is asked.
    pub known: Option<&'a Connections>,
    /// Whether everybody is asked, whatever is known.
    pub is_forced: bool,
    /// The time.
    pub now: Timestamp,
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

    #[test]
    fn rep_65_rep_79_what_is_remembered_is_that_of_a_url_in_a_project_with_its_credentials() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let which = |url: &str, project: &str| Which {
            pushes: false,
            url: url.to_owned(),
            project: project.to_owned(),
        };
        let known = Connections::new(SignedDuration::from_hours(1));
        let state = State::of(&Ok(()), at(1_000));
        known.put(which("u", "shop"), "7", &state);
        let get = |which: &Which, version, now| known.get(which, version, at(now));
        assert_eq!(get(&which("u", "shop"), "7", 4_599), Some(state));
        assert_eq!(get(&which("u", "shop"), "7", 4_600), None, "an hour is over");
        assert_eq!(get(&which("u", "shop"), "7", 999), None, "a clock that was put back");
        assert_eq!(get(&which("u", "shop"), "8", 1_000), None, "other credentials");
        assert_eq!(get(&which("u", ""), "7", 1_000), None);
        assert_eq!(get(&which("v", "shop"), "7", 1_000), None);
        known.forget(&which("u", "shop"));
        assert_eq!(get(&which("u", "shop"), "7", 1_000), None);
        for number in 0..=REMEMBERED_MAX {
            known.put(which(&number.to_string(), ""), "7", &State::of(&Ok(()), at(1_000)));
        }
        assert!(known.found.lock().len() <= REMEMBERED_MAX);
    }
}
