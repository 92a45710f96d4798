//! What webhooks told, and whom it concerns (ASET-185, ASET-186).

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use tiphys_appset::webhook::concerns;
use tiphys_generation::Remembered;
use tiphys_lifecycle::webhook::SetEvent;
use tokio::sync::mpsc;

use super::Sets;
use super::{pass, record};
use crate::app_key::SetKey;

/// Deliveries that wait; further ones are refused.
pub(super) const DELIVERIES_MAX: usize = 50_000;

/// Asks for a look at the sets that deliveries concern, until the process stops.
pub(super) async fn follow(sets: Arc<Sets>, mut deliveries: mpsc::Receiver<SetEvent>) {
    let at_once = sets.shared.world.load().settings.application_sets().webhook_parallelism.max(1);
    let cancel = sets.cancel.clone();
    futures::stream::poll_fn(move |task| deliveries.poll_recv(task))
        .take_until(cancel.cancelled_owned())
        .for_each_concurrent(at_once, |event| {
            let sets = Arc::clone(&sets);
            async move { delivered(&sets, Arc::new(event)).await }
        })
        .await;
}

async fn delivered(sets: &Sets, event: Arc<SetEvent>) {
    if let SetEvent::Pushes(pushes) = &*event {
        // What was listed before the push says nothing any more.
        let urls: BTreeSet<&String> = pushes.iter().flat_map(|push| &push.web_urls).collect();
        for url in urls {
            sets.shared.sources.invalidate(url);
        }
    }
    let world = sets.shared.world.load_full();
    for key in sets.store.keys().into_iter().filter(|key| sets.is_enabled(&world, key)) {
        if is_concerned(sets, &key, &event).await {
            ask(sets, &key).await;
        }
    }
}

/// Whether a delivery concerns a set. The first half of a matrix is asked for what it is now.
async fn is_concerned(sets: &Sets, key: &SetKey, event: &Arc<SetEvent>) -> bool {
    let Some(Ok(set)) = sets.store.get(key).map(|entry| entry.parse()) else { return false };
    if set.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let inputs = pass::inputs(sets, Arc::new(set), sets.shared.world.load_full(), Remembered::default());
    let event = Arc::clone(event);
    let concerned =
        inputs.converse(&sets.answerer, move |request, facts| concerns(request, facts, &event)).await;
    concerned.unwrap_or_else(|failure| {
        tracing::debug!(set = %key, error = %failure.message, "whether a delivery concerns the set is not known");
        // A look more does no harm.
        true
    })
}

async fn ask(sets: &Sets, key: &SetKey) {
    let Some(entry) = sets.store.get(key) else { return };
    // A look that has begun does not take the request away.
    entry.memory.lock().deliveries += 1;
    if !sets.is_dry()
        && let Err(error) = record::request(sets, key).await
    {
        tracing::warn!(set = %key, %error, "a refresh could not be asked for");
    }
    sets.wake(key, crate::queue::Priority::Urgent);
}
