//! Writes Kubernetes events about Applications, best effort and beside everything else (CTL-97).

use std::sync::Arc;

use futures::StreamExt;
use tiphys_policy::permit::{Own, Permit};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::context::Context;
use crate::events::Event;

/// Events about Applications that may wait to be written; further ones are dropped and counted.
pub(crate) const EVENTS_MAX: usize = 10_000;
/// Events written at the same time.
const EVENT_WRITERS: usize = 4;

/// Writes events about Applications; a failure is logged and forgotten.
pub(crate) async fn write(
    context: Arc<Context>,
    mut events: mpsc::Receiver<Event>,
    cancel: CancellationToken,
) {
    let stream = futures::stream::poll_fn(move |task| events.poll_recv(task));
    stream
        .take_until(cancel.cancelled_owned())
        .for_each_concurrent(EVENT_WRITERS, |event| {
            let context = Arc::clone(&context);
            async move {
                if context.read_only {
                    return;
                }
                let permit = Permit::own(Own::Event, event.namespace(), &event.name());
                if let Err(error) = context.home.create_unread(&permit, &event.manifest()).await {
                    tracing::debug!(%error, "an event could not be written");
                }
            }
        })
        .await;
}
