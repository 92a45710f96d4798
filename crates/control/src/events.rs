//! Kubernetes events about Applications (CTL-97..99): built here as values, sent by a bounded background task.

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::Object;

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

/// The Event object about an Application (CTL-97); `destination` is server and namespace.
pub(crate) fn event(app: &Object, note: &Note, destination: (&str, &str), now: Timestamp) -> Value {
    let stamp = crate::decide::operation::shown(now);
    let severity = match note.severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": format!("{}.{:x}", app.name(), now.as_nanosecond()),
            "namespace": app.namespace(),
            "annotations": {"dest-server": destination.0, "dest-namespace": destination.1},
        },
        "involvedObject": {
            "apiVersion": app.gvk().api_version(),
            "kind": app.gvk().kind,
            "name": app.name(),
            "namespace": app.namespace(),
            "uid": app.metadata().uid,
            "resourceVersion": app.metadata().resource_version,
        },
        "source": {"component": COMPONENT},
        "reason": note.reason,
        "message": cut(&note.message),
        "type": severity,
        "count": 1,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
    })
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
        let event = event(&app, &note, ("s", "n"), Timestamp::from_second(1).unwrap());
        assert_eq!(event["metadata"]["name"], "web.3b9aca00");
        assert_eq!(event["involvedObject"]["uid"], "u");
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["message"].as_str().unwrap().len(), 1024);
    }
}
