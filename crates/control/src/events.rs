//! Kubernetes events about Applications and their sets (CTL-97..99, ASET-143): built here, sent by a bounded background task.

use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::SmolStr;
use tiphys_object::{Object, ResourceKey};

/// Name of the component on events about Applications.
const COMPONENT: &str = "argocd-application-controller";
/// Name of the component on events about sets.
const COMPONENT_OF_SETS: &str = "applicationset-controller";

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
    about: ResourceKey,
    component: &'static str,
    api_version: SmolStr,
    uid: SmolStr,
    resource_version: SmolStr,
    destination: Option<(Box<str>, Box<str>)>,
    severity: Severity,
    reason: SmolStr,
    message: Box<str>,
    at: Timestamp,
}

impl Event {
    /// An event about an Application (CTL-97); `destination` is server and namespace.
    pub(crate) fn new(app: &Object, note: &Note, destination: (&str, &str), at: Timestamp) -> Self {
        let event = Self::about(app, COMPONENT, note.severity, (note.reason, &note.message), at);
        Self { destination: Some((destination.0.into(), destination.1.into())), ..event }
    }

    /// An event about a set (ASET-143).
    pub(crate) fn of_set(set: &Object, event: &tiphys_appset::events::Event, at: Timestamp) -> Self {
        let severity = if event.is_warning { Severity::Warning } else { Severity::Normal };
        Self::about(set, COMPONENT_OF_SETS, severity, (&event.reason, &event.message), at)
    }

    fn about(
        object: &Object,
        component: &'static str,
        severity: Severity,
        (reason, message): (&str, &str),
        at: Timestamp,
    ) -> Self {
        let metadata = object.metadata();
        Self {
            about: object.key(),
            component,
            api_version: object.gvk().api_version(),
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            destination: None,
            severity,
            reason: reason.into(),
            message: cut(message).into(),
            at,
        }
    }

    /// Namespace of the event: that of what it is about.
    pub(crate) fn namespace(&self) -> &str {
        &self.about.namespace
    }

    /// Name of the event.
    pub(crate) fn name(&self) -> String {
        format!("{}.{:x}", self.about.name, self.at.as_nanosecond())
    }

    /// The Event object.
    pub(crate) fn manifest(&self) -> Value {
        let stamp = tiphys_lifecycle::operation::shown(self.at);
        let severity = match self.severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        };
        let mut metadata = json!({"name": self.name(), "namespace": self.about.namespace});
        if let (Some((server, namespace)), Some(members)) = (&self.destination, metadata.as_object_mut()) {
            let annotations = json!({"dest-server": server, "dest-namespace": namespace});
            members.insert("annotations".to_owned(), annotations);
        }
        json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": metadata,
            "involvedObject": {
                "apiVersion": self.api_version,
                "kind": self.about.kind,
                "name": self.about.name,
                "namespace": self.about.namespace,
                "uid": self.uid,
                "resourceVersion": self.resource_version,
            },
            "source": {"component": self.component},
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
        assert_eq!(event["metadata"]["annotations"], json!({"dest-server": "s", "dest-namespace": "n"}));
        assert_eq!(event["type"], "Warning");
        assert_eq!(event["message"].as_str().unwrap().len(), 1024);
    }

    #[test]
    fn aset_143_an_event_about_a_set_names_its_controller() {
        let set = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "ApplicationSet",
            "metadata": {"name": "all", "namespace": "argocd", "uid": "u", "resourceVersion": "7"}});
        let set = Object::from_value(&set).unwrap();
        let event = tiphys_appset::events::Event::normal("created", "created Application \"a\"");
        let event = Event::of_set(&set, &event, Timestamp::from_second(1).unwrap()).manifest();
        assert_eq!(event["source"]["component"], "applicationset-controller");
        assert_eq!(
            (&event["involvedObject"]["kind"], &event["type"]),
            (&json!("ApplicationSet"), &json!("Normal"))
        );
        assert!(event["metadata"].get("annotations").is_none());
    }
}
