//! What the status of an application says about its hydration, and what it becomes (CTL-107, CTL-109..112).

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_api::Application;
use tiphys_api::application::Hydrator;
use tiphys_api::codes::HydratePhase;
use tiphys_api::names::annotation;
use tiphys_api::printable;
use tiphys_object::access;

use crate::fit::{COPY_BYTES_MAX, TEXT_BYTES_MAX};
use crate::operation::shown;

/// A hydration as it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// One of [`HydratePhase`], or a word that another version wrote.
    pub phase: String,
    /// When it began.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// Why it failed.
    pub message: String,
    /// The commit that was rendered.
    pub dry_sha: String,
    /// The commit with the manifests.
    pub hydrated_sha: String,
    /// By which settings; `None` where they are not there, or cannot be read.
    pub hydrator: Option<Hydrator>,
}

/// `status.sourceHydrator`, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// The running or last hydration.
    pub current: Option<Operation>,
    /// The last one that succeeded.
    pub succeeded: Option<Operation>,
    /// The revision that was compared last; empty when there is none.
    pub compared: String,
}

impl State {
    /// Reads the status of an application.
    pub fn of(app: &Application) -> Self {
        let Some(status) = &app.status.source_hydrator else { return Self::default() };
        let operation = |name: &str| status.get(name).and_then(Value::as_object).map(Operation::read);
        Self {
            current: operation(CURRENT),
            succeeded: operation(SUCCEEDED),
            compared: text(status, COMPARED),
        }
    }
}

const CURRENT: &str = "currentOperation";
const SUCCEEDED: &str = "lastSuccessfulOperation";
const COMPARED: &str = "lastComparedDryRevision";

impl Operation {
    fn read(written: &Map<String, Value>) -> Self {
        let time = |name: &str| text(written, name).parse().ok();
        let hydrator = written.get("sourceHydrator").and_then(Value::as_object).cloned();
        Self {
            phase: text(written, "phase"),
            started_at: time("startedAt"),
            finished_at: time("finishedAt"),
            message: text(written, "message"),
            dry_sha: text(written, "drySHA"),
            hydrated_sha: text(written, "hydratedSHA"),
            hydrator: hydrator.and_then(|written| Hydrator::new(written).ok()),
        }
    }

    /// Whether this was a hydration of a commit by these settings.
    pub fn is_of(&self, sha: &str, hydrator: &Hydrator) -> bool {
        self.dry_sha == sha && self.hydrator.as_ref().is_some_and(|own| own.is_same(hydrator))
    }
}

fn text(written: &Map<String, Value>, name: &str) -> String {
    written.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// How a run ended for an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The branch has what this commit renders to.
    Hydrated {
        /// The commit that was rendered.
        dry_sha: String,
        /// The commit with the manifests.
        hydrated_sha: String,
    },
    /// It has not.
    Failed {
        /// Why.
        message: String,
        /// The commit that was to be rendered, if that is known.
        dry_sha: String,
    },
}

/// Notes since when the application holds its directory, as the controller signed it.
pub fn claim(app: &mut Application, signed: &str) {
    app.metadata.annotations.insert(annotation::HYDRATION_CLAIM.to_owned(), signed.to_owned());
}

/// The outcome of an application that no group hydrates, and whether its status says so already.
pub fn refused(app: &Application, hydrator: &Hydrator, text: &str) -> (Outcome, bool) {
    let message = format!("Failed to hydrate: {text}");
    let is_told = State::of(app).current.is_some_and(|current| {
        current.phase == HydratePhase::Failed
            && current.message == message
            && current.hydrator.is_some_and(|known| known.is_same(hydrator))
    });
    (Outcome::Failed { message, dry_sha: String::new() }, is_told)
}

/// A run begins; `false` when one is recorded already (CTL-109).
pub fn start(app: &mut Application, now: Timestamp) -> bool {
    let Some(hydrator) = &app.spec.source_hydrator else { return false };
    if State::of(app).current.is_some_and(|current| current.phase == HydratePhase::Hydrating) {
        return false;
    }
    let operation = json!({
        "phase": HydratePhase::Hydrating.as_str(),
        "startedAt": shown(now),
        "message": "",
        "sourceHydrator": hydrator.abridged(COPY_BYTES_MAX),
    });
    let status = app.status.source_hydrator.get_or_insert_default();
    status.insert(CURRENT.to_owned(), operation);
    true
}

/// A run by these settings ended (CTL-110..112): they may have been changed meanwhile. After a success the application is
/// compared anew, wherever it is worked on.
pub fn end(app: &mut Application, hydrator: &Hydrator, outcome: &Outcome, now: Timestamp) {
    let started = State::of(app).current.and_then(|current| current.started_at).unwrap_or(now);
    let (phase, message, dry_sha, hydrated_sha) = match outcome {
        Outcome::Hydrated { dry_sha, hydrated_sha } => {
            (HydratePhase::Hydrated, "", dry_sha.as_str(), hydrated_sha.as_str())
        }
        Outcome::Failed { message, dry_sha } => {
            (HydratePhase::Failed, message.as_str(), dry_sha.as_str(), "")
        }
    };
    let mut message = message.to_owned();
    printable::cut(&mut message, TEXT_BYTES_MAX);
    let hydrator = hydrator.abridged(COPY_BYTES_MAX);
    let mut operation = json!({
        "phase": phase.as_str(),
        "startedAt": shown(started),
        "finishedAt": shown(now),
        "message": message,
        "sourceHydrator": hydrator,
    });
    for (name, sha) in [("drySHA", dry_sha), ("hydratedSHA", hydrated_sha)] {
        if !sha.is_empty() {
            access::ensure_object(&mut operation).insert(name.to_owned(), sha.into());
        }
    }
    let status = app.status.source_hydrator.get_or_insert_default();
    status.insert(CURRENT.to_owned(), operation);
    if phase == HydratePhase::Hydrated {
        let succeeded = json!({"drySHA": dry_sha, "hydratedSHA": hydrated_sha, "sourceHydrator": hydrator});
        status.insert(SUCCEEDED.to_owned(), succeeded);
        status.insert(COMPARED.to_owned(), dry_sha.into());
        let annotations = &mut app.metadata.annotations;
        annotations.insert(annotation::REFRESH.to_owned(), "normal".to_owned());
        annotations.insert(annotation::REFRESH_TIMESTAMP.to_owned(), now.to_string());
    }
}

/// A newer revision that changes nothing was looked at.
pub fn compared(app: &mut Application, sha: &str) {
    let status = app.status.source_hydrator.get_or_insert_default();
    status.insert(COMPARED.to_owned(), sha.into());
}

/// Takes the request away, unless it is another one than that which was served (CTL-107).
pub fn served(app: &mut Application, request: &Request) {
    if Request::of(app) == *request {
        app.metadata.annotations.remove(annotation::HYDRATE);
        app.metadata.annotations.remove(annotation::HYDRATE_TIMESTAMP);
    }
}

/// A request for a hydration, as the annotations have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    word: Option<String>,
    timestamp: Option<String>,
}

impl Request {
    /// That of an application.
    pub fn of(app: &Application) -> Self {
        let value = |name: &str| app.annotation(name).map(str::to_owned);
        Self { word: value(annotation::HYDRATE), timestamp: value(annotation::HYDRATE_TIMESTAMP) }
    }

    /// Whether nobody asked.
    pub fn is_none(&self) -> bool {
        self.word.is_none() && self.timestamp.is_none()
    }

    /// Whether everything is to be done anew.
    pub fn is_hard(&self) -> bool {
        self.word.as_deref() == Some("hard")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app() -> Application {
        serde_json::from_value(json!({"metadata": {"name": "a", "annotations": {
                "argocd.argoproj.io/hydrate": "normal", "argocd.argoproj.io/hydrate-timestamp": "t1"}},
            "spec": {"destination": {}, "sourceHydrator": {
                "drySource": {"repoURL": "u"}, "syncSource": {"targetBranch": "env", "path": "a"}}}}))
        .unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn ended(outcome: &Outcome) -> (Application, Value) {
        let mut app = app();
        assert!(start(&mut app, at("2026-01-01T00:00:00Z")));
        let hydrator = app.spec.source_hydrator.clone().unwrap();
        end(&mut app, &hydrator, outcome, at("2026-01-01T00:00:09Z"));
        let status = Value::Object(app.status.source_hydrator.clone().unwrap());
        (app, status)
    }

    #[test]
    fn ctl_109_a_run_is_recorded_once() {
        let mut app = app();
        assert!(start(&mut app, at("2026-01-01T00:00:00Z")));
        assert!(!start(&mut app, at("2026-01-01T00:00:05Z")));
        let current = State::of(&app).current.unwrap();
        assert_eq!(current.started_at, Some(at("2026-01-01T00:00:00Z")));
        assert!(current.is_of("", app.spec.source_hydrator.as_ref().unwrap()));
    }

    #[test]
    fn ctl_110_a_success_asks_for_a_refresh() {
        let outcome = Outcome::Hydrated { dry_sha: "d".to_owned(), hydrated_sha: "h".to_owned() };
        let (app, status) = ended(&outcome);
        let hydrator = json!(app.spec.source_hydrator);
        assert_eq!(
            status,
            json!({"currentOperation": {"phase": "Hydrated", "startedAt": "2026-01-01T00:00:00Z",
                    "finishedAt": "2026-01-01T00:00:09Z", "message": "", "drySHA": "d", "hydratedSHA": "h",
                    "sourceHydrator": hydrator},
                "lastSuccessfulOperation": {"drySHA": "d", "hydratedSHA": "h", "sourceHydrator": hydrator},
                "lastComparedDryRevision": "d"})
        );
        assert_eq!(app.annotation(annotation::REFRESH), Some("normal"));
    }

    #[test]
    fn ctl_111_a_failure_keeps_what_succeeded() {
        let (mut app, _) =
            ended(&Outcome::Hydrated { dry_sha: "d".to_owned(), hydrated_sha: "h".to_owned() });
        app.metadata.annotations.remove(annotation::REFRESH);
        let failed = Outcome::Failed { message: "Failed to hydrate: no".to_owned(), dry_sha: String::new() };
        let hydrator = app.spec.source_hydrator.clone().unwrap();
        end(&mut app, &hydrator, &failed, at("2026-01-01T00:01:00Z"));
        let state = State::of(&app);
        assert_eq!(state.succeeded.unwrap().dry_sha, "d");
        assert_eq!(state.current.unwrap().phase, HydratePhase::Failed);
        assert_eq!((state.compared.as_str(), app.annotation(annotation::REFRESH)), ("d", None));
        let current = &app.status.source_hydrator.unwrap()["currentOperation"];
        assert_eq!(current["message"], "Failed to hydrate: no");
        assert!(current.get("drySHA").is_none());
    }

    #[test]
    fn ctl_107_only_the_request_that_was_served_goes() {
        let (mut app, request) = (app(), Request::of(&app()));
        app.metadata.annotations.insert(annotation::HYDRATE_TIMESTAMP.to_owned(), "t2".to_owned());
        served(&mut app, &request);
        assert_eq!(app.annotation(annotation::HYDRATE), Some("normal"));
        let request = Request::of(&app);
        served(&mut app, &request);
        assert!(Request::of(&app).is_none());
    }
}
