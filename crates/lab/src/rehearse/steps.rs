//! What a sync did, object by object (CLI-1061).

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use tiphys_api::codes::HealthCode;
use tiphys_engine::health::{Health, HealthOverrides, assess};
use tiphys_engine::hook::{Role, Wave};
use tiphys_object::{Gvk, access};

use super::content::name;
use super::show::seconds;
use super::tape::Write;

/// Steps that are kept of one rehearsal.
pub(super) const STEPS_MAX: usize = 5000;

/// One object that was written, from the write until it is what it has to be.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) app: String,
    pub(super) server: String,
    pub(super) path: String,
    pub(super) gvk: Gvk,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) verb: &'static str,
    pub(super) wave: i64,
    pub(super) phase: &'static str,
    pub(super) is_hook: bool,
    pub(super) at: Duration,
    pub(super) until: Option<Duration>,
    /// Whether it had, or has, to become healthy.
    pub(super) waits: bool,
    pub(super) state: State,
    /// How often it was written in vain.
    pub(super) refusals: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is what it has to be.
    Done,
    /// It is not yet.
    Waits(Health),
    /// The server refused it.
    Refused(String),
}

/// The application that an object names as its own.
fn app_of(object: &Value) -> String {
    let id = access::annotation(object, "argocd.argoproj.io/tracking-id").and_then(|id| id.split_once(':'));
    let label = || access::label(object, "app.kubernetes.io/instance");
    id.map(|(app, _)| app).or_else(label).unwrap_or_default().to_owned()
}

impl Step {
    /// A step that a write begins.
    pub(super) fn begin(write: Write) -> Self {
        let Write { at, server, verb, path, object, refused } = write;
        let role = Role::of(&object);
        let phases = role.phases();
        let gvk = Gvk::of(&object);
        let is_namespace = gvk.kind == "Namespace" && app_of(&object).is_empty();
        let phase = match phases.first() {
            _ if verb == "delete" && !role.is_hook() => "Prune",
            _ if is_namespace => "Prepare",
            Some(phase) => phase.as_str(),
            None => "Sync",
        };
        let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or_default();
        Self {
            app: app_of(&object),
            namespace: namespace.to_owned(),
            name: name(&object).to_owned(),
            wave: Wave::of(&object).0,
            is_hook: role.is_hook(),
            waits: false,
            refusals: usize::from(refused.is_some()),
            until: refused.is_some().then_some(at),
            state: refused
                .map_or_else(|| State::Waits(Health::new(HealthCode::Progressing, "")), State::Refused),
            server,
            path,
            gvk,
            verb,
            phase,
            at,
        }
    }

    /// Whether a write is this step, tried again.
    pub(super) fn is_again(&self, write: &Write) -> bool {
        let is_refused = matches!(self.state, State::Refused(_));
        is_refused && write.refused.is_some() && self.path == write.path && self.verb == write.verb
    }

    /// Takes the object as it is now; whether that is news.
    pub(super) fn look(&mut self, live: Option<&Value>, at: Duration) -> bool {
        if self.until.is_some() {
            return false;
        }
        let health = live.and_then(|live| assess(live, &HealthOverrides::default()));
        let is_done = match (self.verb, live, &health) {
            ("delete", live, _) => live.is_none(),
            // A hook may be deleted as soon as it is over.
            (_, None, _) | (_, _, None) => true,
            (_, _, Some(health)) => {
                health.status == HealthCode::Healthy
                    || (self.is_hook && health.status == HealthCode::Degraded)
            }
        };
        let state = match health {
            Some(health) if !is_done || health.status == HealthCode::Degraded => State::Waits(health),
            _ if is_done => State::Done,
            _ => State::Waits(Health::new(HealthCode::Progressing, "")),
        };
        self.waits |= !is_done && self.verb != "delete";
        let is_news = is_done || state != self.state;
        self.state = state;
        self.until = is_done.then_some(at);
        is_news
    }

    /// What became of it, for people.
    fn outcome(&self) -> String {
        let failed = |health: &Health| health.status == HealthCode::Degraded;
        match &self.state {
            State::Refused(text) if self.refusals > 1 => {
                format!(" → refused {} times: {text}", self.refusals)
            }
            State::Refused(text) => format!(" → refused: {text}"),
            State::Done if self.is_hook && self.verb != "delete" => " → Succeeded".to_owned(),
            State::Done if self.waits => " → waits Healthy".to_owned(),
            State::Done if self.verb == "delete" && self.is_hook => " (delete policy)".to_owned(),
            State::Done => String::new(),
            State::Waits(_) if self.verb == "delete" => " → is still there".to_owned(),
            State::Waits(health) if self.is_hook && failed(health) => {
                format!(" → Failed: {}", health.message)
            }
            State::Waits(health) => {
                let colon = if health.message.is_empty() { "" } else { ": " };
                format!(" → {}{colon}{}", health.status.as_str(), health.message)
            }
        }
    }

    /// How it is called: `apps/Deployment api`.
    pub(super) fn what(&self) -> String {
        let group = if self.gvk.group.is_empty() { &self.gvk.version } else { &self.gvk.group };
        format!("{group}/{} {}", self.gvk.kind, self.name)
    }

    fn times(&self) -> String {
        match self.until {
            Some(until) if until == self.at => seconds(self.at),
            Some(until) => format!("{}…{}", seconds(self.at), seconds(until)),
            None => format!("{}…", seconds(self.at)),
        }
    }

    pub(super) fn line(&self, width: usize) -> String {
        let kind = if self.is_hook { "hook" } else { "" };
        let mut text = String::new();
        let _written =
            write!(text, "{:<9} wave {:<3} {kind:<5} {:<width$}  ", self.phase, self.wave, self.what());
        let done = format!("{}{}", self.verb, self.outcome());
        let _written = write!(text, "{done:<26} {}", self.times());
        text.trim_end().to_owned() + "\n"
    }

    pub(super) fn json(&self) -> Value {
        let (outcome, message) = match &self.state {
            State::Refused(text) => ("Refused", text.as_str()),
            State::Done if self.is_hook && self.verb != "delete" => ("Succeeded", ""),
            State::Done if self.waits => ("Healthy", ""),
            State::Done => ("Done", ""),
            State::Waits(health) => (health.status.as_str(), health.message.as_str()),
        };
        json!({
            "application": self.app, "phase": self.phase, "wave": self.wave, "hook": self.is_hook,
            "group": self.gvk.group, "version": self.gvk.version, "kind": self.gvk.kind,
            "namespace": self.namespace, "name": self.name, "action": self.verb,
            "outcome": outcome, "message": message, "refusals": self.refusals,
            "start": self.at.as_secs_f64(), "end": self.until.map(|until| until.as_secs_f64()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(verb: &'static str, object: Value, refused: Option<&str>) -> Write {
        Write {
            at: Duration::from_secs(2),
            server: "s".to_owned(),
            verb,
            path: format!("/{}", name(&object)),
            object,
            refused: refused.map(str::to_owned),
        }
    }

    fn deployment(updated: u64) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "api", "generation": 1, "annotations": {"argocd.argoproj.io/sync-wave": "1",
                "argocd.argoproj.io/tracking-id": "shop:apps/Deployment:n/api"}},
            "spec": {"replicas": 1},
            "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": updated, "availableReplicas": updated}})
    }

    #[test]
    fn cli_1061_a_workload_waits_until_it_is_healthy() {
        let mut step = Step::begin(write("create", deployment(0), None));
        assert_eq!((step.app.as_str(), step.wave, step.phase), ("shop", 1, "Sync"));
        assert!(step.look(Some(&deployment(0)), Duration::from_secs(3)));
        assert!(!step.look(Some(&deployment(0)), Duration::from_secs(4)), "nothing is new");
        assert!(step.look(Some(&deployment(1)), Duration::from_secs(12)));
        let line = step.line(20);
        assert!(line.starts_with("Sync      wave 1") && line.contains("create → waits Healthy"), "{line}");
        assert!(line.ends_with(" 2s…12s\n"), "{line}");
    }

    #[test]
    fn cli_1061_what_is_deleted_is_over_when_it_is_gone() {
        let mut step = Step::begin(write("delete", deployment(1), None));
        assert_eq!(step.phase, "Prune");
        step.look(Some(&deployment(1)), Duration::from_secs(3));
        assert_eq!(step.until, None);
        step.look(None, Duration::from_secs(5));
        assert_eq!(step.until, Some(Duration::from_secs(5)));
    }

    #[test]
    fn cli_1062_a_refused_write_that_is_tried_again_is_one_step() {
        let step = Step::begin(write("update", deployment(1), Some("no")));
        assert!(step.is_again(&write("update", deployment(1), Some("no"))));
        assert!(!step.is_again(&write("update", deployment(1), None)));
        assert_eq!(step.json()["outcome"], "Refused");
    }
}
