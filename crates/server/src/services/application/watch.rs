//! Watches of applications (API-123, API-124).

use std::collections::VecDeque;
use std::sync::Arc;

use tiphys_policy::rbac::{Request, Resource};
use tiphys_wire::status::Code;
use tokio::sync::broadcast::Receiver;

use super::list::{Wanted, event, event_in_full, watched_namespace};
use super::requests::Query;
use crate::call::{Message, Reply, Status};
use crate::catalog::{Change, ChangeKind, Entry};
use crate::services::context::{Context, Owned};
use crate::services::watching::{Watch, is_before, next_change, reply};

/// Follows what the caller may see of what they ask for.
pub(super) fn watch(context: &Context<'_>, mut query: Query) -> Result<Reply, Status> {
    if !context.parts.catalog.is_complete() {
        return Err(Status::new(Code::Unavailable, "applications are not known yet"));
    }
    if !query.name.is_empty() {
        query.app_namespace = watched_namespace(context, &query);
    }
    // From one moment on: nothing between the list and the changes is lost.
    let (snapshot, changes) = context.parts.catalog.follow();
    let wanted = Wanted::new(context, query.clone())?;
    let is_listed = query.resource_version.is_empty() || !query.name.is_empty();
    let mut first: Vec<Arc<Entry>> = Vec::new();
    if is_listed {
        first = snapshot.entries.into_iter().filter(|entry| wanted.has(entry)).collect();
        first.sort_by(|a, b| (&a.key.namespace, &a.key.name).cmp(&(&b.key.namespace, &b.key.name)));
    }
    let since: u64 = query.resource_version.parse().unwrap_or(0);
    Ok(reply(Watching { owned: context.owned(), query, since, first: first.into(), changes }))
}

struct Watching {
    owned: Owned,
    query: Query,
    since: u64,
    first: VecDeque<Arc<Entry>>,
    changes: Receiver<Change>,
}

impl Watch for Watching {
    async fn next(&mut self) -> Option<Result<Message, Status>> {
        if let Some(entry) = self.first.pop_front() {
            return Some(self.event(ChangeKind::Added, &entry).await);
        }
        loop {
            let change = match next_change(&self.owned, &mut self.changes).await? {
                Ok(change) => change,
                Err(status) => return Some(Err(status)),
            };
            if !is_before(&change.entry.version, self.since) && self.has(&change.entry) {
                return Some(self.event(change.kind, &change.entry).await);
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

    /// Whether an application is wanted, and may be seen by the policy as it is now.
    fn has(&self, entry: &Entry) -> bool {
        self.owned.within(|context| {
            let request =
                Request { resource: Resource::Applications.as_str(), action: "get", object: &entry.object };
            // One question of one application is cheaper than a filter of many.
            context.caller().may(&request)
                && Wanted::new(context, self.query.clone()).is_ok_and(|wanted| wanted.has(entry))
        })
    }
}
