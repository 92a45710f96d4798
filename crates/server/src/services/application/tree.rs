//! Watches of the tree of an application (API-137).

use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use serde_json::Value;
use tiphys_wire::status::Code;
use xxhash_rust::xxh3::xxh3_64;

use super::access;
use super::requests::Named;
use super::resources::{Resources, live};
use crate::call::{Message, Reply, Status};
use crate::catalog::AppKey;
use crate::services::context::Context;
use crate::services::standing::{Owned, RECHECK_INTERVAL};
use crate::services::watching::{Watch, reply};

/// Time that a burst of changes has to become one message.
const SETTLE: Duration = Duration::from_millis(200);

/// Tells the tree whenever it is another than before; at first nothing is told, since whoever watches has asked for it.
pub(super) async fn watch(context: &Context<'_>, asked: Resources) -> Result<Reply, Status> {
    let named = asked.named();
    let found = access::cached(context, "get", &named)?;
    let live = live(context)?;
    // Before the first look: what changes between the two is told.
    let changes = live.tree_changes(&found.key);
    let told = known(live.tree(&found.key).await)?.as_ref().map(digest);
    let owned = context.owned();
    Ok(reply(Watching { owned, named, key: found.key, changes, told }))
}

/// A tree that can be told now. That a source or a cluster is in trouble is no reason to end a watch: the next change
/// looks again.
fn known(tree: Result<Value, Status>) -> Result<Option<Value>, Status> {
    match tree {
        Ok(tree) => Ok(Some(tree)),
        Err(status) if matches!(status.code, Code::Unavailable | Code::FailedPrecondition) => Ok(None),
        Err(status) => Err(status),
    }
}

fn digest(tree: &Value) -> u64 {
    xxh3_64(tree.to_string().as_bytes())
}

struct Watching {
    owned: Owned,
    named: Named,
    key: AppKey,
    changes: BoxStream<'static, ()>,
    /// The digest of the tree that the caller knows.
    told: Option<u64>,
}

impl Watch for Watching {
    async fn next(&mut self) -> Option<Result<Message, Status>> {
        loop {
            match tokio::time::timeout(RECHECK_INTERVAL, self.changes.next()).await {
                Ok(None) => return None,
                Ok(Some(())) => {
                    tokio::time::sleep(SETTLE).await;
                    // What came meanwhile is part of this look.
                    while let Some(Some(())) = futures::FutureExt::now_or_never(self.changes.next()) {}
                    if let Err(status) = self.check().await {
                        return Some(Err(status));
                    }
                    match self.look().await {
                        Ok(Some(message)) => return Some(Ok(message)),
                        Ok(None) => {}
                        Err(status) => return Some(Err(status)),
                    }
                }
                Err(_elapsed) => {
                    if let Err(status) = self.check().await {
                        return Some(Err(status));
                    }
                }
            }
        }
    }
}

impl Watching {
    /// Whether the caller is still who they were, and may still see the application: the reference asks once only.
    async fn check(&mut self) -> Result<(), Status> {
        self.owned.check().await?;
        self.owned.within(|context| access::cached(context, "get", &self.named).map(drop))
    }

    /// The tree, when it is another.
    async fn look(&mut self) -> Result<Option<Message>, Status> {
        let Some(live) = self.owned.within(|context| context.parts.live.clone()) else { return Ok(None) };
        let Some(tree) = known(live.tree(&self.key).await)? else { return Ok(None) };
        let found = Some(digest(&tree));
        if std::mem::replace(&mut self.told, found) == found {
            return Ok(None);
        }
        Ok(Some(Message::new(tree)))
    }
}
