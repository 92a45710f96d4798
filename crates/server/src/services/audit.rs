//! Who did what: Kubernetes Events that people see, and lines of the log that programs read (API-224..227).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tiphys_api::AppProject;
use tiphys_api::Settings;
use tiphys_object::Object;
use tiphys_policy::pattern::glob;
use tiphys_service::Store;
use tokio::sync::mpsc;

use super::context::Context;

/// Name of the component on Events.
const COMPONENT: &str = "argocd-server";
/// Events that may wait to be written; further ones are left out, and the log says so.
const EVENTS_MAX: usize = 1_000;
/// Bytes of a message; Kubernetes refuses more.
const MESSAGE_BYTES_MAX: usize = 1_024;
/// Time that nobody waits longer for an Event to be written.
const WRITE_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// An application is new.
    CreatedApplication,
    /// An application is another.
    UpdatedApplication,
    /// An application goes.
    DeletedApplication,
    /// An operation was asked for.
    StartedOperation(String),
    /// An operation was asked to end.
    TerminatedOperation,
    /// A resource of an application is another.
    PatchedResource(String),
    /// A resource of an application goes.
    DeletedResource(String),
    /// An action ran on a resource of an application.
    Ran(String),
    /// A project is new.
    CreatedProject,
    /// A project is another.
    UpdatedProject,
    /// A project is gone.
    DeletedProject,
    /// A set is new.
    CreatedSet,
    /// A set is another.
    UpdatedSet,
    /// A set goes.
    DeletedSet,
    /// A token of a project's role is new.
    CreatedToken,
    /// One is gone.
    DeletedToken,
    /// Somebody types in a container (API-194).
    OpenedTerminal(String),
    /// Nobody does any more.
    ClosedTerminal(String),
}

impl Action {
    /// The word of programs.
    fn reason(&self) -> &'static str {
        match self {
            Self::CreatedApplication | Self::CreatedProject | Self::CreatedSet | Self::CreatedToken => {
                "ResourceCreated"
            }
            Self::UpdatedApplication | Self::UpdatedProject | Self::UpdatedSet | Self::PatchedResource(_) => {
                "ResourceUpdated"
            }
            Self::DeletedApplication
            | Self::DeletedProject
            | Self::DeletedSet
            | Self::DeletedToken
            | Self::DeletedResource(_) => "ResourceDeleted",
            Self::Ran(_) => "ResourceActionRan",
            Self::StartedOperation(_) => "OperationStarted",
            Self::TerminatedOperation => "OperationCompleted",
            Self::OpenedTerminal(_) => "TerminalOpened",
            Self::ClosedTerminal(_) => "TerminalClosed",
        }
    }

    /// The words of people (API-225).
    fn text(&self) -> &str {
        match self {
            Self::CreatedApplication => "created application",
            Self::UpdatedApplication => "updated application spec",
            Self::DeletedApplication => "deleted application",
            Self::StartedOperation(text)
            | Self::PatchedResource(text)
            | Self::DeletedResource(text)
            | Self::OpenedTerminal(text)
            | Self::ClosedTerminal(text)
            | Self::Ran(text) => text,
            Self::TerminatedOperation => "terminated running operation",
            Self::CreatedProject => "created project",
            Self::UpdatedProject => "updated project",
            Self::DeletedProject => "deleted project",
            Self::CreatedSet => "created ApplicationSet",
            Self::UpdatedSet => "updated ApplicationSets spec",
            Self::DeletedSet => "deleted ApplicationSets",
            Self::CreatedToken => "created token",
            Self::DeletedToken => "deleted token",
        }
    }
}

/// An Event that waits to be written.
#[derive(Debug)]
pub struct Record {
    namespace: String,
    name: String,
    event: Value,
}

/// The way to those who write Events.
#[derive(Clone, Debug)]
pub struct Recorder(mpsc::Sender<Record>);

impl Recorder {
    /// A way, and what comes out of it.
    pub fn new() -> (Self, mpsc::Receiver<Record>) {
        let (sender, receiver) = mpsc::channel(EVENTS_MAX);
        (Self(sender), receiver)
    }
}

/// Writes Events, one after the other; one that cannot be written is forgotten.
pub async fn write(store: Store, mut records: mpsc::Receiver<Record>) {
    while let Some(record) = records.recv().await {
        let store = store.of(&record.namespace);
        let writing = store.record(&record.name, &record.event);
        match tokio::time::timeout(WRITE_TIMEOUT, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(%error, "an Event could not be written"),
            Err(_elapsed) => tracing::debug!("an Event could not be written in time"),
        }
    }
}

/// Records what was done with an application.
pub(super) fn application(context: &Context<'_>, object: &Arc<Object>, action: &Action) {
    let app = tiphys_service::application::read(object).unwrap_or_default();
    let destination = &app.spec.destination;
    let mut annotations = Map::new();
    annotations.insert("dest-server".to_owned(), destination.server.as_str().into());
    annotations.insert("dest-namespace".to_owned(), destination.namespace.as_str().into());
    let installation = &context.world.installation;
    let project = installation.project(app.project()).ok();
    let labels = labels(&installation.settings, object, project.map(|project| &**project));
    record(context, object, action, (annotations, labels));
}

/// Records what was done with a live object of an application (API-142). The Event stands in the control plane's
/// namespace, as destinations are other clusters; an annotation says where the object is (API-224), as an Event may not
/// be about an object of another namespace than its own.
pub(super) fn resource(context: &Context<'_>, object: &Object, action: &Action) {
    let annotations = Map::from_iter([("resource-namespace".to_owned(), object.namespace().into())]);
    record_in(context, context.namespace(), object, action, (annotations, Map::new()));
}

/// Records what was done with a project.
pub(super) fn project(context: &Context<'_>, object: &Object, action: &Action) {
    record(context, object, action, (Map::new(), Map::new()));
}

/// Records that a set was written.
pub(super) fn set(context: &Context<'_>, object: &Object, is_new: bool) {
    let action = if is_new { Action::CreatedSet } else { Action::UpdatedSet };
    record(context, object, &action, (Map::new(), Map::new()));
}

/// Records that a set goes.
pub(super) fn deleted_set(context: &Context<'_>, object: &Object) {
    record(context, object, &Action::DeletedSet, (Map::new(), Map::new()));
}

/// Labels that Events of an application have: its own and its project's, as the settings choose (API-224).
fn labels(settings: &Settings, object: &Object, project: Option<&AppProject>) -> Map<String, Value> {
    let (include, exclude) = settings.event_label_keys();
    let is_wanted = |key: &str| {
        let any = |globs: &[String]| globs.iter().any(|pattern| glob(pattern, key));
        any(&include) && !any(&exclude)
    };
    let mut labels = Map::new();
    let of_project = project.into_iter().flat_map(|project| &project.metadata.labels);
    for (key, value) in of_project.filter(|(key, _)| is_wanted(key)) {
        labels.insert(key.clone(), value.as_str().into());
    }
    for (key, value) in object.metadata().labels.iter().filter(|(key, _)| is_wanted(key)) {
        labels.insert(key.to_string(), value.as_str().into());
    }
    labels
}

fn record(
    context: &Context<'_>,
    object: &Object,
    action: &Action,
    extra: (Map<String, Value>, Map<String, Value>),
) {
    record_in(context, object.namespace(), object, action, extra);
}

fn record_in(
    context: &Context<'_>,
    namespace: &str,
    object: &Object,
    action: &Action,
    (mut annotations, labels): (Map<String, Value>, Map<String, Value>),
) {
    let user = context.username();
    let head = &context.call().head;
    tracing::info!(
        audit = true,
        user = %tiphys_api::printable::line(&user),
        issuer = %tiphys_api::printable::line(context.claims().map_or("", |claims| claims.text("iss"))),
        method = %head.description().path,
        kind = %object.gvk().kind,
        namespace = %object.namespace(),
        name = %object.name(),
        address = %head.peer.ip(),
        action = action.text(),
        "change"
    );
    if !context.world.installation.settings.has_events(action.reason()) {
        return;
    }
    let who = if user.is_empty() { "Unknown user".to_owned() } else { user.clone() };
    annotations.insert("user".to_owned(), user.into());
    let now = context.parts.clock.now();
    let name = format!("{}.{:x}", object.name(), now.as_nanosecond());
    let message = format!("{who} {}", action.text());
    let event =
        event(object, (namespace, &name, now), (action.reason(), cut(&message)), (annotations, labels));
    let record = Record { namespace: namespace.to_owned(), name, event };
    if context.parts.recorder.0.try_send(record).is_err() {
        tracing::warn!("too many Events wait to be written; one was left out");
    }
}

fn cut(text: &str) -> &str {
    let mut end = text.len().min(MESSAGE_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or(text)
}

fn event(
    object: &Object,
    (namespace, name, now): (&str, &str, Timestamp),
    (reason, message): (&str, &str),
    (annotations, labels): (Map<String, Value>, Map<String, Value>),
) -> Value {
    let stamp = Timestamp::from_second(now.as_second()).unwrap_or(now).to_string();
    let metadata = object.metadata();
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations, "labels": labels},
        "involvedObject": {
            "apiVersion": object.gvk().api_version(),
            "kind": object.gvk().kind,
            "name": object.name(),
            "namespace": namespace,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        },
        "source": {"component": COMPONENT},
        "reason": reason,
        "message": message,
        "type": "Normal",
        "count": 1,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
    })
}
