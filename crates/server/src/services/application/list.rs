//! Lists of applications, and one of them (API-119..122).

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tiphys_object::access;
use tiphys_object::selector::Selector;
use tiphys_policy::rbac::{Filter, Resource};
use tiphys_wire::proto::{Secrets, encode, writer};
use tiphys_wire::schema;
use tiphys_wire::selection::ApplicationFields;
use tiphys_wire::status::Code;

use super::page::Paging;
use super::requests::{Named, Query};
use super::{access as find, health, is_enabled, namespace_of, reply_in_full, settle};
use crate::call::{Form, Message, Pieces, Reply, Status};
use crate::catalog::{self, AppKey, ChangeKind, Entry, Snapshot};
use crate::live::Live;
use crate::services::context::Context;
use crate::services::request;
use tiphys_api::names::annotation;
use tiphys_service::application as rules;

/// What a list or a watch shows.
pub(super) struct Wanted<'c> {
    query: Query,
    selector: Selector,
    may: Filter<'c>,
    context: &'c Context<'c>,
}

impl<'c> Wanted<'c> {
    /// Reads a query.
    ///
    /// # Errors
    /// When the selector is none.
    pub(super) fn new(context: &'c Context<'c>, query: Query) -> Result<Self, Status> {
        let selector = if query.selector.is_empty() {
            Selector::everything()
        } else {
            let parsed = query.selector.parse::<Selector>();
            parsed.map_err(|error| Status::invalid(format!("error parsing the selector: {error}")))?
        };
        let may = context.caller().filter(Resource::Applications.as_str(), "get");
        Ok(Self { query, selector, may, context })
    }

    /// Whether an application is wanted, and may be seen: one pass, cheap questions first.
    pub(super) fn has(&self, entry: &Entry) -> bool {
        let query = &self.query;
        let projects = query.projects();
        (query.name.is_empty() || query.name == entry.key.name)
            && (query.app_namespace.is_empty() || query.app_namespace == entry.key.namespace)
            && (projects.is_empty() || projects.iter().any(|project| *project == entry.project))
            && (query.repo.is_empty() || query.repo == entry.repository)
            && self.selector.matches(|key| entry.labels.get(key).map(|value| &**value))
            && is_enabled(self.context, &entry.key.namespace)
            && self.may.may(&entry.object)
    }
}

/// All that the caller may see of what they ask for.
pub(super) fn list(context: &Context<'_>, query: Query) -> Result<Reply, Status> {
    if !context.parts.catalog.is_complete() {
        return Err(Status::new(Code::Unavailable, "applications are not known yet"));
    }
    query.unused_by_lists().map_or(Ok(()), |field| Err(request::unused(field)))?;
    let paging = Paging::read(&query)?;
    let Snapshot { mut entries, version } = context.parts.catalog.snapshot();
    let wanted = Wanted::new(context, query)?;
    entries.retain(|entry| wanted.has(entry));
    let page = paging.of(&entries);
    let (shown, about): (Arc<[Arc<Entry>]>, _) =
        (page.entries.into(), About::new(version, &page.next, page.remaining, page.stats)?);
    let about = Arc::new(about);
    let fields = context.call().head.fields.as_ref().map(|fields| Arc::new(fields.of_applications()));
    let written = move |form| match form {
        Form::Json => json(&shown, &about, fields.clone()),
        Form::Binary => binary(&shown, &about),
    };
    Ok(Reply::message(Message::written(Arc::new(written))))
}

/// What a list says beside its items, in both forms.
struct About {
    json: (Bytes, Bytes),
    binary: (Bytes, Bytes),
}

impl About {
    fn new(version: u64, next: &str, remaining: usize, stats: Option<Value>) -> Result<Self, Status> {
        let mut metadata = json!({"resourceVersion": version.to_string()});
        if let (Some(members), false) = (metadata.as_object_mut(), next.is_empty()) {
            members.insert("continue".to_owned(), next.into());
            members.insert("remainingItemCount".to_owned(), remaining.into());
        }
        let head = format!(r#"{{"metadata":{metadata},"items":["#);
        let mut tail = b"]".to_vec();
        if let Some(stats) = &stats {
            tail.extend_from_slice(br#","stats":"#);
            let id = schema().find("v1.ApplicationListStats").unwrap_or_else(schema::MessageId::first);
            tiphys_wire::json::write(schema(), id, stats, Secrets::Dropped, &mut tail).map_err(unwritable)?;
        }
        tail.push(b'}');
        let member = |number, name: &str, value: &Value| {
            let id = schema().find(name).unwrap_or_else(schema::MessageId::first);
            let bytes = encode(schema(), id, value, Secrets::Dropped).map_err(unwritable)?;
            let mut piece = Vec::new();
            writer::bytes(&mut piece, number, &bytes);
            Ok::<Bytes, Status>(piece.into())
        };
        let first = member(1, "meta.ListMeta", &metadata)?;
        let last = stats
            .map(|stats| member(STATS, "v1.ApplicationListStats", &stats))
            .transpose()?
            .unwrap_or_default();
        Ok(Self { json: (head.into(), tail.into()), binary: (first, last) })
    }
}

/// The number of the member of lists with counts.
const STATS: u32 = 1001;

/// Bytes of a list that are made and sent at once.
const PIECE_BYTES: usize = 32 << 10;

/// The bytes of all, one after the other; with a selection each as far as it is selected (API-P30).
fn json(entries: &Arc<[Arc<Entry>]>, about: &Arc<About>, fields: Option<Arc<ApplicationFields>>) -> Pieces {
    let (head, tail) = about.json.clone();
    let (entries, mut at) = (Arc::clone(entries), 0);
    let items = std::iter::from_fn(move || {
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES {
            let Some(entry) = entries.get(at) else { break };
            if at > 0 {
                piece.push(b',');
            }
            at += 1;
            match &fields {
                None => piece.extend_from_slice(&entry.json.text()),
                Some(fields) => {
                    if let Err(status) = fields.write(&entry.json.text(), &mut piece).map_err(unreadable) {
                        return Some(Err(status));
                    }
                }
            }
        }
        (!piece.is_empty()).then(|| Ok(Bytes::from(piece)))
    });
    let ends = |text: Bytes| std::iter::once(Ok(text));
    Box::new(ends(head).chain(items).chain(ends(tail)))
}

/// The same for gRPC.
fn binary(entries: &Arc<[Arc<Entry>]>, about: &Arc<About>) -> Pieces {
    let (head, tail) = about.binary.clone();
    let (entries, mut at) = (Arc::clone(entries), 0);
    let items = std::iter::from_fn(move || {
        let entry = entries.get(at)?;
        at += 1;
        let value = match entry.value() {
            Ok(value) => value,
            Err(status) => return Some(Err(status)),
        };
        let bytes = encode(schema(), catalog::application(), &value, Secrets::Dropped);
        Some(bytes.map_err(unwritable).map(|bytes| {
            let mut piece = Vec::with_capacity(bytes.len() + 8);
            writer::bytes(&mut piece, 2, &bytes);
            piece.into()
        }))
    });
    Box::new(std::iter::once(Ok(head)).chain(items).chain(std::iter::once(Ok(tail))))
}

fn unreadable<E>(_error: E) -> Status {
    Status::internal("an application cannot be read")
}

fn unwritable<E>(_misfit: E) -> Status {
    Status::internal("an application cannot be written")
}

/// One application; with `refresh` as it is after a new comparison (API-121, API-122).
pub(super) async fn get(context: &Context<'_>, query: Query) -> Result<Reply, Status> {
    query.unused_by_one().map_or(Ok(()), |field| Err(request::unused(field)))?;
    let projects = query.projects();
    if projects.len() > 1 {
        let text = "multiple projects specified - the get endpoint accepts either zero or one project";
        return Err(Status::invalid(text));
    }
    let project = projects.first().cloned().unwrap_or_default();
    let named = Named { name: query.name.clone(), app_namespace: query.app_namespace.clone(), project };
    let found = find::fresh(context, "get", &named).await?;
    if query.refresh.is_empty() {
        return reply_in_full(context, &found.key, &found.from).await;
    }
    let owned = context.owned();
    let refreshed = refresh(context, &found.key, query.refresh == "hard");
    let late = || Status::new(Code::DeadlineExceeded, "application refresh deadline exceeded");
    let reply = match context.call().head.deadline {
        None => refreshed.await,
        Some(deadline) => tokio::time::timeout_at(deadline, refreshed).await.map_err(|_elapsed| late())?,
    }?;
    // A refresh takes time, and the application may have moved to another project.
    owned.check_with(|context| find::cached(context, "get", &named).map(drop)).await?;
    Ok(reply)
}

/// Asks for a comparison and waits for it; who calls says how long.
pub(super) async fn refresh(context: &Context<'_>, key: &AppKey, is_hard: bool) -> Result<Reply, Status> {
    // Before the request is written, so that its answer is not missed.
    let (_, mut changes) = context.parts.catalog.follow();
    let now = context.parts.clock.now();
    let asked =
        settle(context, key, "get", |_, object| Ok(rules::plan_refresh(object, is_hard, now))).await?;
    let asked: u64 = asked.metadata().resource_version.parse().unwrap_or(0);
    let is_answer = |entry: &Entry, value: &Value| {
        entry.version.parse::<u64>().is_ok_and(|version| version > asked)
            && access::annotation(value, annotation::REFRESH).is_none()
    };
    loop {
        let change = match changes.recv().await {
            Ok(change) => change,
            // What was missed may have been the answer.
            Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                let entry = context.parts.catalog.get(key).ok_or_else(|| find::not_found(&key.name))?;
                catalog::Change { kind: ChangeKind::Modified, entry }
            }
            Err(tokio::sync::broadcast::error::RecvError::Closed) => {
                return Err(Status::new(Code::Unavailable, "the server is stopping"));
            }
        };
        if change.entry.key != *key {
            continue;
        }
        if change.kind == ChangeKind::Deleted {
            return Err(find::not_found(&key.name));
        }
        let mut value = change.entry.value()?;
        if is_answer(&change.entry, &value) {
            health::fill(context.parts.live.as_deref(), key, &mut value).await;
            return Ok(Reply::value(value));
        }
    }
}

/// An event of a watch.
pub(super) fn event(kind: ChangeKind, entry: &Arc<Entry>) -> Message {
    let (about, entry) = (format!("{}/{}", entry.key.namespace, entry.key.name), Arc::clone(entry));
    let written = move |form| -> Pieces {
        match form {
            Form::Json => {
                let head = format!(r#"{{"type":"{}","application":"#, kind.as_str());
                let pieces = [
                    Bytes::from(head),
                    Bytes::from(entry.json.text().into_owned()),
                    Bytes::from_static(b"}"),
                ];
                Box::new(pieces.into_iter().map(Ok))
            }
            Form::Binary => Box::new(std::iter::once(binary_event(kind, &entry))),
        }
    };
    Message::written(Arc::new(written)).about(about.into())
}

fn binary_event(kind: ChangeKind, entry: &Entry) -> Result<Bytes, Status> {
    let members = [("type".to_owned(), kind.as_str().into()), ("application".to_owned(), entry.value()?)];
    let value = Value::Object(Map::from_iter(members));
    let id = schema().find("v1.ApplicationWatchEvent").unwrap_or_else(schema::MessageId::first);
    let bytes = encode(schema(), id, &value, Secrets::Dropped);
    bytes.map(Bytes::from).map_err(|_misfit| Status::internal("an event cannot be written"))
}

/// An event of a watch of one application, with the health of its resources (API-118).
pub(super) async fn event_in_full(
    kind: ChangeKind,
    entry: &Arc<Entry>,
    live: Option<&dyn Live>,
) -> Result<Message, Status> {
    let mut value = entry.value()?;
    health::fill(live, &entry.key, &mut value).await;
    let about = format!("{}/{}", entry.key.namespace, entry.key.name);
    Ok(Message::new(json!({"type": kind.as_str(), "application": value})).about(about.into()))
}

/// The namespace that a watch by name is about.
pub(super) fn watched_namespace(context: &Context<'_>, query: &Query) -> String {
    namespace_of(context, &query.app_namespace).to_owned()
}
