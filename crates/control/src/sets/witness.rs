//! The second witness before Applications go because a cluster is gone (INV-8, F3): a list of cluster Secrets that is not
//! older than these Applications. What the watch began with may come from a copy that is behind, also where that is from
//! before the Applications were made.

use std::collections::{BTreeMap, BTreeSet};

use tiphys_api::cluster::Clusters;
use tiphys_api::names::SECRET_TYPE_LABEL;
use tiphys_appset::live::LiveApplication;
use tiphys_appset::reconcile::Plan;
use tiphys_cluster::{error_chain, list_since};
use tiphys_installation::objects::unread_cluster;

use super::record::SetContext;
use crate::world::World;

/// Whether the clusters that a plan with removals was made from are those that there are. Where they are not, the watch
/// will show them.
///
/// # Errors
/// When they cannot be listed: then it is not known.
pub(super) async fn knows_clusters(
    cx: &SetContext<'_>,
    world: &World,
    live: &BTreeMap<String, LiveApplication>,
    plan: &Plan,
) -> Result<bool, String> {
    let of_removed = plan.removals.iter().filter_map(|removal| live.get(&removal.name));
    let versions = of_removed.map(|live| live.resource_version.as_str());
    let versions = versions.chain([cx.object.metadata().resource_version.as_str()]);
    let newest = versions.filter_map(|version| version.parse().ok()).max();
    let path = format!("/api/v1/namespaces/{}/secrets", cx.sets.shared.namespace);
    let selector = format!("{SECRET_TYPE_LABEL}=cluster");
    let read = |name: &str, text: &[u8]| unread_cluster(name, text, String::new());
    let found = list_since(&cx.sets.answerer.connection, &path, &selector, newest, read).await;
    let found = found.map_err(|error| error_chain(&error))?.into_iter().flatten();
    let (told, untold): (Vec<_>, Vec<_>) = found.partition(|secret| secret.seen.is_some());
    let told = told.into_iter().filter_map(|secret| secret.seen).collect();
    let found = Clusters::new(told, world.settings.in_cluster_enabled()).beside(untold);
    Ok(knows(&world.clusters, &found))
}

/// Whether each Secret that was found is known, with these labels where they can be told.
fn knows(known: &Clusters, found: &Clusters) -> bool {
    // Generators choose by labels, and by whose the cluster is.
    let labels: BTreeMap<&str, (&BTreeMap<String, String>, &str)> = (known.all().iter())
        .map(|cluster| (cluster.secret_name.as_str(), (&cluster.labels, cluster.project.as_str())))
        .collect();
    let unread: BTreeSet<&str> = known.unread().iter().map(|unread| unread.secret_name.as_str()).collect();
    // The implicit local cluster has no Secret.
    let mut told = found.all().iter().filter(|cluster| !cluster.secret_name.is_empty());
    let are_told_known = told.all(|cluster| {
        let name = cluster.secret_name.as_str();
        let is_same =
            |known: &(&BTreeMap<String, String>, &str)| *known == (&cluster.labels, &cluster.project);
        labels.get(name).map_or_else(|| unread.contains(name), is_same)
    });
    let is_named = |name: &str| labels.contains_key(name) || unread.contains(name);
    are_told_known && found.unread().iter().all(|secret| is_named(&secret.secret_name))
}

#[cfg(test)]
mod tests {
    use tiphys_api::cluster::{Cluster, UnreadCluster};
    use tiphys_api::names::IN_CLUSTER_SERVER;

    use super::*;

    fn cluster(name: &str, tier: &str) -> Cluster {
        Cluster {
            secret_name: name.to_owned(),
            server: format!("https://{name}"),
            labels: BTreeMap::from([("tier".to_owned(), tier.to_owned())]),
            ..Cluster::default()
        }
    }

    fn bad(name: &str) -> UnreadCluster {
        UnreadCluster { secret_name: name.to_owned(), reason: String::new(), seen: None }
    }

    #[test]
    fn inv_8_a_secret_that_is_not_known_is_noticed() {
        let known =
            Clusters::new(vec![cluster("a", "1"), cluster("gone", "1")], true).beside(vec![bad("bad")]);
        let found = |told: &[Cluster], untold: &[UnreadCluster]| {
            knows(&known, &Clusters::new(told.to_vec(), true).beside(untold.to_vec()))
        };
        assert!(found(&[cluster("a", "1"), cluster("bad", "2")], &[bad("a"), bad("bad")]));
        assert!(found(&[], &[]), "what is gone is no reason to doubt that others are");
        assert!(!found(&[cluster("a", "2")], &[]), "another label");
        assert!(!found(&[cluster("a", "1"), cluster("b", "1")], &[]));
        assert!(!found(&[], &[bad("c")]));
    }

    #[test]
    fn inv_8_the_secret_of_the_local_cluster_counts_unless_that_is_switched_off() {
        let local = Cluster { server: IN_CLUSTER_SERVER.to_owned(), ..cluster("local", "1") };
        for (is_enabled, is_known) in [(true, false), (false, true)] {
            let known = Clusters::new(Vec::new(), is_enabled);
            let found = Clusters::new(vec![local.clone()], is_enabled);
            assert_eq!(knows(&known, &found), is_known, "{is_enabled}");
        }
    }
}
