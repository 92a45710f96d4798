//! A look at all objects of some namespaces, which ends with the command.

use std::sync::Arc;
use std::time::Duration;

use smol_str::SmolStr;
use tiphys_cluster::{Claims, ClusterIndex, Derive, IndexOptions, ResourceFilter};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::{Destination, World};
use crate::failure::Failure;

/// Time for the lists of all kinds.
const LIST_TIMEOUT: Duration = Duration::from_mins(1);
/// Events of the index that may wait; nobody reads them.
const EVENTS_MAX: usize = 64;

/// An index of some namespaces that ends with the command.
pub(super) struct Look {
    pub(super) index: ClusterIndex,
    cancel: CancellationToken,
}

impl Look {
    /// Begins to list. No namespaces mean all; the switch says whether objects without one are listed, too.
    pub(super) fn start(
        destination: &Destination,
        world: &World,
        claims: Claims,
        derive: Derive,
        (namespaces, cluster_resources): (Vec<SmolStr>, bool),
    ) -> Result<Self, Failure> {
        let settings = &world.settings;
        let mut options = IndexOptions::new(&destination.cluster.server, claims, derive, Arc::new(|| 0.5));
        options.filter =
            ResourceFilter::parse(settings.resource_exclusions(), settings.resource_inclusions())
                .map_err(|error| Failure::status("FailedPrecondition", error))?;
        options.namespaces = namespaces;
        options.cluster_resources = cluster_resources;
        let (sender, mut events) = mpsc::channel(EVENTS_MAX);
        let cancel = CancellationToken::new();
        let index = ClusterIndex::start(
            destination.connection.clone(),
            destination.discovery.clone(),
            options,
            sender,
            &TaskTracker::new(),
            cancel.clone(),
        );
        // A full channel would stall the lists.
        drop(tokio::spawn(async move { while events.recv().await.is_some() {} }));
        Ok(Self { index, cancel })
    }

    /// Waits until all kinds were listed, or cannot be.
    pub(super) async fn ready(&self) -> Result<(), Failure> {
        match tokio::time::timeout(LIST_TIMEOUT, self.index.ready()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(why)) => Err(Failure::status("Unavailable", why)),
            Err(_) => {
                Err(Failure::status("DeadlineExceeded", "the objects of the cluster were not listed in time"))
            }
        }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
