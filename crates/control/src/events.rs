//! Kubernetes events about Applications (CTL-97..99): built here, sent by a bounded background task.

use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_object::{Object, ResourceKey};

/// Name of the component on events.
pub(crate) const COMPONENT: &str = "argocd-application-controller";

/// How serious an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// Something happened as it should.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Severity.
    pub(crate) severity: Severity,
    /// Reason, one of the fixed words of CTL-98.
    pub(crate) reason: &'static str,
    /// Text for people.
    pub(crate) message: String,
}

impl Note {
    /// An ordinary note.
    pub(crate) fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Normal, reason, message: message.into() }
    }

    /// A warning.
    pub(crate) fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, reason, message: message.into() }
    }
}

/// Bytes of an event message; the API server refuses more than 1024.
const MESSAGE_BYTES_MAX: usize = 1024;

/// An event that waits to be written. Thousands may wait, so it is not the JSON tree that is sent: that takes sixteen
/// kilobytes, this some three hundred bytes.
#[derive(Debug)]
pub(crate) struct Event {
    app: ResourceKey,
    api_version: SmolStr,
    uid: SmolStr,
    resource_version: SmolStr,
    destination: (Box<str>, Box<str>),
    severity: Severity,
    reason: &'static str,
    message: Box<str>,
    at: Timestamp,
}

impl Event {
    /// An event about an Application (CTL-97); `destination` is server and namespace.
    pub(crate) fn new(app: &Object, note: &Note, destination: (&str, &str), at: Timestamp) -> Self {
        let metadata = app.metadata();
        Self {
            app: app.key(),
            api_version: app.gvk().api_version(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            destination: (destination.0.into(), destination.1.into()),
            severity: note.severity,
            reason: note.reason,
            message: cut(&note.message).into(),
            at,
        }
    }

    /// Namespace of the event: that of its Application.
    pub(crate) fn namespace(&self) -> &str {
        &self.app.namespace
    }

    /// Name of the event.
    pub(crate) fn name(&self) -> String {
        format!("{}.{:x}", self.app.name, self.at.as_nanosecond())
    }

    /// The Event object.
    pub(crate) fn manifest(&self) -> Value {
        let stamp = tiphys_lifecycle::operation::shown(self.at);
        let severity = match self.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": self.name(),
                "namespace": self.app.namespace,
                "annotations": {"dest-server": self.destination.0, "dest-namespace": self.destination.1},
            },
            "involvedObject": {
                "apiVersion": self.api_version,
                "kind": self.app.kind,
                "name": self.app.name,
                "namespace": self.app.namespace,
                "uid": self.uid,
                "resourceVersion": self.resource_version,
            },
            "source": {"component": COMPONENT},
            "reason": self.reason,
            "message": self.message,
            "type": severity,
            "count": 1,
            "firstTimestamp": stamp,
            "lastTimestamp": stamp,
        })
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctl_97_an_event_names_its_application_and_fits() {
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "argocd", "uid": "u", "resourceVersion": "7"}});
        let app = Object::from_value(&app).unwrap();
        let note = Note::warning("OperationCompleted", "é".repeat(1000));
        let event = Event::new(&app, &note, ("s", "n"), Timestamp::from_second(1).unwrap());
        assert_eq!((event.namespace(), event.name().as_str()), ("argocd", "web.3b9aca00"));
        assert!(size_of::<Event>() < 320, "{}", size_of::<Event>());
        let event = event.manifest();
        assert_eq!(event["metadata"]["name"], "web.3b9aca00");
        assert_eq!(event["involvedObject"]["uid"], "u");
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["message"].as_str().unwrap().len(), 1024);
    }
}
