//! The second witness before Applications go because a cluster is gone (INV-8, F3): a list of cluster Secrets that is not
//! older than these Applications. What the watch began with may come from a copy that is behind, also where that is from
//! before the Applications were made.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tiphys_api::cluster::Clusters;
use tiphys_api::names::{IN_CLUSTER_SERVER, SECRET_TYPE_LABEL};
use tiphys_appset::live::LiveApplication;
use tiphys_appset::reconcile::Plan;
use tiphys_cluster::{SecretHead, error_chain, secrets_since};
use tokio::time::Instant;

use super::pass::remembered;
use super::record::SetContext;
use crate::world::World;

/// How long Secrets that the watch does not show hold removals up. No copy is so far behind.
const DOUBT_MAX: Duration = Duration::from_mins(10);

/// Whether the clusters that a plan with removals was made from are those that there are.
///
/// # Errors
/// When they cannot be listed: then it is not known.
pub(super) async fn knows_clusters(
    cx: &SetContext<'_>,
    world: &World,
    live: &BTreeMap<String, LiveApplication>,
    plan: &Plan,
) -> Result<bool, String> {
    let shared = &cx.sets.shared;
    let of_removed = plan.removals.iter().filter_map(|removal| live.get(&removal.name));
    let versions = of_removed.map(|live| live.resource_version.as_str());
    let newest = versions.chain([cx.object.metadata().resource_version.as_str()]);
    let newest = newest.filter_map(|version| version.parse().ok()).max().unwrap_or(0);
    let selector = format!("{SECRET_TYPE_LABEL}=cluster");
    let found = secrets_since(&cx.sets.answerer.connection, &shared.namespace, &selector, newest).await;
    let found = found.map_err(|error| error_chain(&error))?;
    let unseen = unseen(&world.clusters, &found);
    let now = Instant::now();
    let since = remembered(cx, |memory| {
        memory.clusters_unseen_since = unseen.then(|| memory.clusters_unseen_since.unwrap_or(now));
        memory.clusters_unseen_since
    });
    Ok(since.flatten().is_none_or(|since| now.duration_since(since) > DOUBT_MAX))
}

/// Whether there is a cluster Secret that is not known, or not with these labels.
fn unseen(known: &Clusters, found: &[SecretHead]) -> bool {
    let read: BTreeMap<&str, &BTreeMap<String, String>> =
        known.all().iter().map(|cluster| (cluster.secret_name.as_str(), &cluster.labels)).collect();
    let unread: BTreeSet<&str> = known.unread().iter().map(|unread| unread.secret_name.as_str()).collect();
    found.iter().any(|secret| {
        let labels = secret.metadata.labels.iter().filter(|(key, _)| *key != SECRET_TYPE_LABEL);
        if let Some(known) = read.get(secret.metadata.name.as_str()) {
            return !known.iter().eq(labels);
        }
        // Where the local cluster is switched off, its Secret is there and no cluster.
        let is_off = secret.data.server().trim_end_matches('/') == IN_CLUSTER_SERVER;
        !is_off && !unread.contains(secret.metadata.name.as_str())
    })
}

#[cfg(test)]
mod tests {
    use tiphys_api::cluster::{Cluster, UnreadCluster};

    use super::*;

    fn secret(name: &str, label: &str, server: &str) -> SecretHead {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "labels": {SECRET_TYPE_LABEL: "cluster", "tier": label}},
            "data": {"server": server, "config": "c2VjcmV0"},
        }))
        .unwrap()
    }

    #[test]
    fn inv_8_a_secret_that_is_not_known_is_noticed() {
        let cluster = |name: &str, tier: &str| Cluster {
            secret_name: name.to_owned(),
            server: format!("https://{name}"),
            labels: BTreeMap::from([("tier".to_owned(), tier.to_owned())]),
            ..Cluster::default()
        };
        let known = Clusters::new(vec![cluster("a", "1"), cluster("gone", "1")], false)
            .beside(vec![UnreadCluster { secret_name: "bad".to_owned(), reason: String::new(), seen: None }]);
        let local = secret("local", "1", "aHR0cHM6Ly9rdWJlcm5ldGVzLmRlZmF1bHQuc3ZjLw==");
        assert!(!unseen(&known, &[secret("a", "1", ""), secret("bad", "2", ""), local]));
        assert!(!unseen(&known, &[]), "what is gone is no reason to doubt that others are");
        assert!(unseen(&known, &[secret("a", "2", "")]), "another label");
        assert!(unseen(&known, &[secret("a", "1", ""), secret("b", "1", "aHR0cHM6Ly9i")]));
    }
}
