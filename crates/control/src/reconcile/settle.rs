//! A wait inside a round (the other is for the first lists of a cluster): until the index has seen what the round wrote.
//!
//! It is not a requeue, because what follows in the same round (the next pass of a sync, the comparison after it)
//! must not see the time before the write; a round that ended here would come back to the same question. It ends
//! with the last watch event, usually within milliseconds, and after two seconds at the latest.

use std::collections::BTreeMap;
use std::time::Duration;

use tiphys_cluster::Seen;
use tiphys_object::ResourceKey;

use super::resolve::Resolved;

/// Longest time to wait until the index has seen our own writes.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// Time between two looks at the index while waiting.
const SETTLE_POLL: Duration = Duration::from_millis(3);

/// Versions of what was written, by key: an object's, or `None` for a deletion.
pub(super) type WrittenObjects = BTreeMap<ResourceKey, Option<String>>;

/// Waits, at most two seconds, until the index shows what was written: the next comparison must not see the
/// time before.
pub(super) async fn settle(resolved: &Resolved, mut written: WrittenObjects) {
    let index = &resolved.destination.index;
    let deadline = tokio::time::Instant::now() + SETTLE_MAX;
    loop {
        written.retain(|key, version| {
            let shown = match index.get(key) {
                // A deleted object that waits for its finalizers was seen to be deleted.
                Seen::Present(object) if version.is_none() && object.is_terminating() => return false,
                Seen::Present(object) => Some(object.metadata().resource_version.to_string()),
                Seen::Reference { resource_version, .. } => Some(resource_version.to_string()),
                Seen::Absent => None,
                Seen::Unknown(_) => return false,
            };
            let number = |text: &str| text.parse::<u64>().unwrap_or(0);
            match (shown, version) {
                (Some(shown), Some(version)) => number(&shown) < number(version),
                (None, Some(_)) => true,
                // A deletion shows as a deletion timestamp, or as nothing at all.
                (Some(_), None) => true,
                (None, None) => false,
            }
        });
        let is_over = tokio::time::Instant::now() >= deadline || index.unreachable().is_some();
        if written.is_empty() || is_over {
            return;
        }
        tokio::time::sleep(SETTLE_POLL).await;
    }
}
