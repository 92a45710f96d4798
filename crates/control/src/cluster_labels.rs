//! Keeps the label with the Kubernetes version on Secrets of clusters that ask for it (REP-103): `ApplicationSets` choose
//! clusters by it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tiphys_api::cluster::{Cluster, ClusterKey};
use tiphys_api::names::label;
use tiphys_cluster::{ApiError, Target};
use tiphys_object::Gvk;
use tiphys_policy::permit::{Own, Permit};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// Time between two looks at the versions, where somebody wants to know them: an upgrade of a cluster tells nobody.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// Writes labels until the controller stops. It is woken when a cluster was discovered, or the settings changed.
pub(crate) async fn follow(context: Arc<Context>, cancel: CancellationToken) {
    loop {
        let is_asked = context.world.load().clusters.all().iter().any(Cluster::wants_version_label);
        let wait = async {
            if is_asked {
                tokio::time::sleep(LOOK_EVERY).await;
            } else {
                std::future::pending::<()>().await;
            }
        };
        // Cancel-safe: a missed wake-up is kept by the notification.
        tokio::select! {
            biased;
            () = cancel.cancelled() => return,
            () = context.cluster_news.notified() => {}
            () = wait => {}
        }
        write(&context).await;
    }
}

/// Writes the labels that are not as they should be.
async fn write(context: &Context) {
    if context.read_only {
        return;
    }
    let versions: BTreeMap<ClusterKey, String> = context
        .clusters
        .in_use()
        .iter()
        .filter_map(|destination| {
            let kinds = destination.index.discovery().snapshot()?;
            Some((destination.cluster.key(), kinds.server_version().to_owned()))
        })
        .collect();
    let world = context.world.load_full();
    for cluster in world.clusters.all().iter().filter(|cluster| cluster.wants_version_label()) {
        let Some(version) = versions.get(&cluster.key()) else { continue };
        if cluster.labels.get(label::KUBERNETES_VERSION) == Some(version) {
            continue;
        }
        match write_one(context, cluster, version).await {
            Ok(()) => {
                tracing::info!(server = cluster.server, version, "the cluster's Secret has its version");
            }
            // The next look tries again.
            Err(error) => {
                tracing::warn!(server = cluster.server, %error, "the version of the cluster cannot be written");
            }
        }
    }
}

async fn write_one(context: &Context, cluster: &Cluster, version: &str) -> Result<(), ApiError> {
    let name = &cluster.secret_name;
    let target = Target::new(Gvk::new("", "v1", "Secret"), &context.namespace, name);
    let permit = Permit::own(Own::Secret, &context.namespace, name);
    let patch = json!({"metadata": {"labels": {label::KUBERNETES_VERSION: version}}});
    context.home.merge_patch(&permit, &target, None, &patch).await.map(|_written| ())
}
