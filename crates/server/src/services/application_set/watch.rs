//! Watches of sets (API-155).

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::json;
use tiphys_object::Object;
use tiphys_object::selector::Selector;
use tiphys_service::application_set as rules;
use tiphys_wire::status::Code;
use tokio::sync::broadcast::Receiver;

use super::{failed, project_of, selector_of};
use crate::call::{Message, Reply, Status};
use crate::catalog::ChangeKind;
use crate::services::context::Context;
use crate::services::standing::Owned;
use crate::services::watching::{Watch, is_after, is_before, next_change, reply};
use crate::sets::Change;

/// `ApplicationSetWatchQuery`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Query {
    name: String,
    projects: Vec<String>,
    selector: String,
    app_set_namespace: String,
    resource_version: String,
}

/// Follows what the caller may see of what they ask for.
pub(super) fn watch(context: &Context<'_>, query: Query) -> Result<Reply, Status> {
    let selector = selector_of(&query.selector)?;
    // From one moment on: nothing between the list and the changes is lost.
    let followed = context.parts.sets.follow();
    let (objects, changes) =
        followed.ok_or_else(|| Status::new(Code::Unavailable, "ApplicationSets are not known yet"))?;
    let is_listed = query.resource_version.is_empty() || !query.name.is_empty();
    let since = query.resource_version.parse().unwrap_or(0);
    let is_new = |object: &Arc<Object>| {
        is_listed || is_after(&object.metadata().resource_version, &query.resource_version)
    };
    let mut first: Vec<Arc<Object>> = objects.into_iter().filter(is_new).collect();
    first.sort_by(|a, b| (a.namespace(), a.name()).cmp(&(b.namespace(), b.name())));
    let first_kind = if is_listed { ChangeKind::Added } else { ChangeKind::Modified };
    let first = first.into();
    Ok(reply(Watching { owned: context.owned(), query, selector, since, first, first_kind, changes }))
}

struct Watching {
    owned: Owned,
    query: Query,
    selector: Selector,
    since: u64,
    first: VecDeque<Arc<Object>>,
    /// What these are to the caller.
    first_kind: ChangeKind,
    changes: Receiver<Change>,
}

impl Watch for Watching {
    async fn next(&mut self) -> Option<Result<Message, Status>> {
        while let Some(object) = self.first.pop_front() {
            // A slow reader may lose access meanwhile.
            if let Err(status) = self.owned.check().await {
                return Some(Err(status));
            }
            if self.has(&object) {
                return Some(event(self.first_kind, &object));
            }
        }
        loop {
            let (kind, object) = match next_change(&self.owned, &mut self.changes).await? {
                Ok(change) => change,
                Err(status) => return Some(Err(status)),
            };
            if !is_before(kind, &object.metadata().resource_version, self.since) && self.has(&object) {
                return Some(event(kind, &object));
            }
        }
    }
}

impl Watching {
    /// Whether a set is wanted, and may be seen by the policy as it is now. One that cannot be read is shown to nobody.
    fn has(&self, object: &Object) -> bool {
        let query = &self.query;
        let is_wanted = (query.name.is_empty() || query.name == object.name())
            && (query.app_set_namespace.is_empty() || query.app_set_namespace == object.namespace())
            && self.selector.matches(|key| object.label(key))
            && (query.projects.is_empty() || query.projects.contains(&project_of(object)));
        is_wanted
            && rules::read(object).is_ok_and(|set| {
                self.owned.within(|context| {
                    context.is_set_enabled(object.namespace()) && context.authorize("get", set).is_ok()
                })
            })
    }
}

fn event(kind: ChangeKind, object: &Object) -> Result<Message, Status> {
    let set = rules::shown(object).map_err(failed)?;
    let about = format!("{}/{}", object.namespace(), object.name());
    Ok(Message::new(json!({"type": kind.as_str(), "applicationSet": set})).about(about.into()))
}
