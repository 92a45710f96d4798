//! Watches: a place in the log that moves on.
//!
//! A watch has no queue of its own. It remembers the version it has told about, and reads on in the log of the
//! store when there is something new; a watch that is too slow for the log is told so (410) and ends.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::answer::{self, Form, Reply};
use crate::read::{present, present_bytes, version_of, within};
use crate::request::{Place, Query, Request};
use crate::resource::Resource;
use crate::select::Filter;
use crate::state::State;
use crate::status::{FieldError, Status};
use crate::store::{Compacted, Event, Kind, Stored, bytes_of};

/// Changes told at once at most.
const BATCH_MAX: usize = 256;
/// Seconds a watch lasts when nobody says.
const SECONDS_DEFAULT: i64 = 1_800;

/// A watch that has been accepted.
#[derive(Debug)]
pub(crate) struct Watch {
    resource: Arc<Resource>,
    kind: Arc<Kind>,
    namespace: SmolStr,
    name: Option<SmolStr>,
    filter: Filter,
    form: Form,
    /// Version up to which everything has been told.
    told: u64,
    initial: VecDeque<Shown>,
    /// The bookmark that ends the initial events.
    end_of_initial: Option<u64>,
    /// Whether the caller wants bookmarks.
    pub(crate) has_bookmarks: bool,
    has_columns: bool,
    is_over: bool,
    ends_after: Option<u32>,
    skips_every: Option<u32>,
    events: u32,
    is_expired: bool,
    /// How long it lasts.
    pub(crate) seconds: u64,
}

/// An object that is told.
#[derive(Clone, Debug)]
enum Shown {
    Tree(Value),
    /// As it is stored.
    Bytes(Bytes),
}

/// `GET` with `watch`.
pub(crate) fn watch(
    state: &mut State,
    request: &Request,
    resource: &Arc<Resource>,
    place: &Place,
    form: Form,
) -> Result<Reply, Status> {
    let query = &request.query;
    let filter = Filter::parse(query, resource)?;
    check_options(query)?;
    // A version that is no number is an error without a reason here, unlike in lists.
    let asked = version_of(query.get("resourceVersion").unwrap_or(""))
        .map_err(|status| Status::new(500, "", status.message))?;
    let streams = query.get("sendInitialEvents").is_some();
    let wants_initial = query.flag("sendInitialEvents") || (!streams && asked == 0);
    let seconds = query.number("timeoutSeconds")?.filter(|seconds| *seconds > 0).unwrap_or(SECONDS_DEFAULT);
    let mut watch = Watch {
        kind: state.kind(resource),
        resource: Arc::clone(resource),
        namespace: place.namespace.clone(),
        name: (!place.name.is_empty()).then(|| place.name.clone()),
        filter,
        form,
        told: asked,
        initial: VecDeque::new(),
        end_of_initial: None,
        has_bookmarks: query.flag("allowWatchBookmarks"),
        has_columns: false,
        is_over: false,
        ends_after: request.fault.ends_after,
        skips_every: request.fault.skips_every,
        events: 0,
        is_expired: request.fault.is_expired && asked > 0,
        seconds: u64::try_from(seconds).unwrap_or(0),
    };
    if wants_initial {
        watch.begin(state);
        if query.flag("sendInitialEvents") {
            watch.end_of_initial = Some(state.store.version());
        }
    } else if streams && asked == 0 {
        watch.told = state.store.version();
    }
    Ok(Reply::Watch(Box::new(watch)))
}

/// What may be said about initial events.
fn check_options(query: &Query) -> Result<(), Status> {
    let rule = query.get("resourceVersionMatch").unwrap_or("");
    let streams = query.get("sendInitialEvents").is_some();
    let mut errors = Vec::new();
    if streams && rule != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden("resourceVersionMatch", why));
        if !rule.is_empty() {
            errors.push(FieldError::not_supported("resourceVersionMatch", &json!(rule), &["NotOlderThan"]));
        }
    }
    if !streams && !rule.is_empty() {
        let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        errors.push(FieldError::forbidden("resourceVersionMatch", why));
    }
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors))
}

impl Watch {
    /// Everything there is, as additions.
    fn begin(&mut self, state: &State) {
        self.told = state.store.version();
        let objects = state.store.objects(&self.kind);
        let found: Vec<Shown> = objects
            .into_iter()
            .flat_map(|objects| within(objects, &self.namespace, None))
            .filter_map(|(_, stored)| {
                if let Some(bytes) = self.bytes(stored) {
                    return Some(Shown::Bytes(bytes));
                }
                let object = present(&self.resource, stored);
                self.is_asked_for(&object).then_some(Shown::Tree(object))
            })
            .collect();
        self.initial = found.into();
    }

    /// The bytes of an object, where every object is asked for and shown as it is stored.
    fn bytes(&self, stored: &Stored) -> Option<Bytes> {
        let is_everything = self.form == Form::Plain && self.name.is_none() && self.filter.is_everything();
        if is_everything { present_bytes(&self.resource, stored) } else { None }
    }

    fn is_asked_for(&self, object: &Value) -> bool {
        self.name.as_ref().is_none_or(|name| tiphys_object::access::name(object) == name.as_str())
            && self.filter.matches(object)
    }

    /// The next lines to tell, as bytes; none when nothing is new. `None` when the watch has ended.
    pub(crate) fn advance(&mut self, state: &State, now: Timestamp) -> Option<Vec<u8>> {
        if self.is_over {
            return None;
        }
        let mut lines = Vec::new();
        let mut told = 0;
        while let Some(object) = self.initial.pop_front() {
            self.tell(&mut lines, "ADDED", object, now);
            told += 1;
            if told >= BATCH_MAX {
                return Some(lines);
            }
        }
        if let Some(version) = self.end_of_initial.take() {
            let mut bookmark = self.bookmark_at(version);
            if let Some(metadata) = bookmark.get_mut("metadata") {
                metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
            }
            line(&mut lines, "BOOKMARK", &bookmark);
        }
        if self.told >= state.store.version() && !self.is_expired {
            return Some(lines);
        }
        let events = state.store.events_after(self.told);
        let events = if self.is_expired { Err(Compacted) } else { events };
        match events {
            Err(_compacted) => {
                self.is_over = true;
                let message =
                    format!("too old resource version: {} ({})", self.told, state.store.compacted());
                line(&mut lines, "ERROR", &Status::expired(message).to_value());
            }
            Ok(events) => {
                for event in events {
                    self.told = event.version;
                    if let Some((kind, object)) = self.seen(event) {
                        self.events += 1;
                        if self.ends_after.is_some_and(|count| self.events > count) {
                            self.is_over = true;
                            break;
                        }
                        if self
                            .skips_every
                            .is_some_and(|every| every > 0 && self.events.is_multiple_of(every))
                        {
                            continue;
                        }
                        self.tell(&mut lines, kind, object, now);
                        told += 1;
                        if told >= BATCH_MAX {
                            break;
                        }
                    }
                }
            }
        }
        Some(lines)
    }

    /// What a write looks like to this watch.
    fn seen(&self, event: &Event) -> Option<(&'static str, Shown)> {
        if *event.key.kind != *self.kind
            || !(self.namespace.is_empty() || self.namespace == event.key.namespace)
        {
            return None;
        }
        if let Some(bytes) = self.bytes(&event.after) {
            let kind = match (event.is_deletion, event.before.is_some()) {
                (true, _) => "DELETED",
                (false, true) => "MODIFIED",
                (false, false) => "ADDED",
            };
            return Some((kind, Shown::Bytes(bytes)));
        }
        let now = present(&self.resource, &event.after);
        let before = event.before.as_ref().map(|before| present(&self.resource, before));
        let was = before.as_ref().is_some_and(|before| self.is_asked_for(before));
        if event.is_deletion {
            return was.then_some(("DELETED", Shown::Tree(now)));
        }
        match (was, self.is_asked_for(&now)) {
            (false, true) => Some(("ADDED", Shown::Tree(now))),
            (true, true) => Some(("MODIFIED", Shown::Tree(now))),
            // It no longer fits: for this watch it is gone, as it was.
            (true, false) => before.map(|before| ("DELETED", Shown::Tree(at_version(before, &event.after)))),
            (false, false) => None,
        }
    }

    fn tell(&mut self, lines: &mut Vec<u8>, kind: &str, object: Shown, now: Timestamp) {
        let object = match object {
            Shown::Tree(object) => object,
            Shown::Bytes(bytes) => return line_of(lines, kind, &bytes),
        };
        let mut shown = answer::one(self.form, &self.resource, object, now);
        if matches!(self.form, Form::Table(_)) {
            // Columns are told once.
            if self.has_columns
                && let Some(members) = shown.as_object_mut()
            {
                members.insert("columnDefinitions".to_owned(), Value::Null);
            }
            self.has_columns = true;
        }
        line(lines, kind, &shown);
    }

    /// A bookmark line for where the watch is.
    pub(crate) fn bookmark(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        line(&mut lines, "BOOKMARK", &self.bookmark_at(self.told));
        lines
    }

    fn bookmark_at(&self, version: u64) -> Value {
        let metadata = json!({"resourceVersion": version.to_string()});
        match self.form {
            Form::Plain => json!({"kind": self.resource.kind, "apiVersion": self.resource.api_version(),
                "metadata": metadata}),
            Form::Metadata => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata}),
            Form::Table(_) => json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": version.to_string()}, "columnDefinitions": null, "rows": []}),
        }
    }
}

fn line(lines: &mut Vec<u8>, kind: &str, object: &Value) {
    line_of(lines, kind, &bytes_of(object));
}

/// A line, its members in the order that all objects have.
fn line_of(lines: &mut Vec<u8>, kind: &str, object: &[u8]) {
    lines.extend_from_slice(br#"{"object":"#);
    lines.extend_from_slice(object);
    lines.extend_from_slice(br#","type":""#);
    lines.extend_from_slice(kind.as_bytes());
    lines.extend_from_slice(b"\"}\n");
}

fn at_version(mut object: Value, after: &Stored) -> Value {
    tiphys_object::access::metadata_mut(&mut object)
        .insert("resourceVersion".to_owned(), json!(after.version.to_string()));
    object
}
