//! Watches of applications (API-123, API-124).

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use tiphys_policy::rbac::Resource;
use tiphys_wire::status::Code;
use tokio::sync::broadcast::Receiver;

use super::list::{Wanted, event, event_in_full, watched_namespace};
use super::page::Narrowing;
use super::requests::Query;
use crate::call::{Message, Reply, Status};
use crate::catalog::{AppKey, Change, ChangeKind, Entry};
use crate::services::context::Context;
use crate::services::request;
use crate::services::standing::Owned;
use crate::services::watching::{Watch, is_after, is_before, next_change, reply};

/// Follows what the caller may see of what they ask for.
pub(super) fn watch(context: &Context<'_>, mut query: Query) -> Result<Reply, Status> {
    if !context.parts.catalog.is_complete() {
        return Err(Status::new(Code::Unavailable, "applications are not known yet"));
    }
    query.unused_by_watches().map_or(Ok(()), |field| Err(request::unused(field)))?;
    let narrowing = Narrowing::read(&query)?;
    if !query.name.is_empty() {
        query.app_namespace = watched_namespace(context, &query);
    }
    // From one moment on: nothing between the list and the changes is lost.
    let (snapshot, changes) = context.parts.catalog.follow();
    let wanted = Wanted::new(context, query.clone())?;
    let is_listed = query.resource_version.is_empty() || !query.name.is_empty();
    let mut first: Vec<Arc<Entry>> = Vec::new();
    let mut told = HashSet::new();
    let is_new = |entry: &Entry| is_listed || is_after(&entry.version, &query.resource_version);
    for entry in snapshot.entries {
        // Where filters are set, what the caller knows of is remembered; else only what is told now is looked at.
        if narrowing.is_nothing() && !is_new(&entry) {
            continue;
        }
        if !narrowing.has(&entry) || !wanted.has(&entry) {
            continue;
        }
        if !narrowing.is_nothing() {
            told.insert(entry.key.clone());
        }
        if is_new(&entry) {
            first.push(entry);
        }
    }
    first.sort_by(|a, b| (&a.key.namespace, &a.key.name).cmp(&(&b.key.namespace, &b.key.name)));
    let since: u64 = query.resource_version.parse().unwrap_or(0);
    Ok(reply(Watching {
        owned: context.owned(),
        query,
        narrowing,
        told,
        since,
        first: first.into(),
        first_kind: if is_listed { ChangeKind::Added } else { ChangeKind::Modified },
        changes,
    }))
}

struct Watching {
    owned: Owned,
    query: Query,
    narrowing: Narrowing,
    /// What the caller knows of, where filters are set: what leaves them is gone for the caller.
    told: HashSet<AppKey>,
    since: u64,
    first: VecDeque<Arc<Entry>>,
    /// What these are to the caller.
    first_kind: ChangeKind,
    changes: Receiver<Change>,
}

impl Watch for Watching {
    async fn next(&mut self) -> Option<Result<Message, Status>> {
        while let Some(entry) = self.first.pop_front() {
            // A slow reader may lose access meanwhile.
            if let Err(status) = self.owned.check().await {
                return Some(Err(status));
            }
            if self.may(&entry) {
                return Some(self.event(self.first_kind, &entry).await);
            }
        }
        loop {
            let change = match next_change(&self.owned, &mut self.changes).await? {
                Ok(change) => change,
                Err(status) => return Some(Err(status)),
            };
            if is_before(change.kind, &change.entry.version, self.since) || !self.has(&change.entry) {
                continue;
            }
            if let Some(kind) = self.kind(&change) {
                return Some(self.event(kind, &change.entry).await);
            }
        }
    }
}

impl Watching {
    /// Whoever follows one application is told the health of its resources, too. Deviation (API-118): whoever follows many
    /// is not, which would cost as much as all trees together.
    async fn event(&self, kind: ChangeKind, entry: &Arc<Entry>) -> Result<Message, Status> {
        if self.query.name.is_empty() || kind == ChangeKind::Deleted {
            return Ok(event(kind, entry));
        }
        let live = self.owned.within(|context| context.parts.live.clone());
        event_in_full(kind, entry, live.as_deref()).await
    }

    /// What a change is to whoever follows what passes their filters: what comes in is new, what goes out is gone.
    fn kind(&mut self, change: &Change) -> Option<ChangeKind> {
        if self.narrowing.is_nothing() {
            return Some(change.kind);
        }
        let key = &change.entry.key;
        if change.kind == ChangeKind::Deleted || !self.narrowing.has(&change.entry) {
            return self.told.remove(key).then_some(ChangeKind::Deleted);
        }
        let is_new = self.told.insert(key.clone());
        Some(if is_new { ChangeKind::Added } else { ChangeKind::Modified })
    }

    /// Whether an application is wanted, and may be seen by the policy as it is now.
    fn has(&self, entry: &Entry) -> bool {
        // Checking one application is cheaper than building a filter.
        self.may(entry)
            && self.owned.within(|context| {
                Wanted::new(context, self.query.clone()).is_ok_and(|wanted| wanted.has(entry))
            })
    }

    fn may(&self, entry: &Entry) -> bool {
        self.owned.within(|context| context.may(Resource::Applications, "get", &entry.object))
    }
}
