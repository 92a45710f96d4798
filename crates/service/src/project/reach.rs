//! Changing what a project reaches needs rights of its own: clusters and repositories have them (API-162, REP-208).

use std::collections::BTreeSet;

use tiphys_api::AppProject;

use crate::access::{Action, Caller, Resource};
use crate::error::Error;
use crate::planned::Need;

/// Whether the caller may make one project out of another. It is asked wherever a stored project is replaced.
///
/// # Errors
/// With the text of the refusal.
pub(super) fn check_reach(caller: Caller<'_>, old: &AppProject, new: &AppProject) -> Result<(), Error> {
    let may = |resource: Resource, address: &str| {
        Need::located(resource, Action::Update, ("", address)).check(caller)
    };
    for cluster in clusters(old).symmetric_difference(&clusters(new)) {
        may(Resource::Clusters, cluster)?;
    }
    let (before, after): (BTreeSet<&String>, BTreeSet<&String>) =
        (old.spec.source_repos.iter().collect(), new.spec.source_repos.iter().collect());
    for url in before.symmetric_difference(&after) {
        may(Resource::Repositories, url)?;
    }
    let (a, b) = (&old.spec, &new.spec);
    let is_same = a.cluster_resource_whitelist == b.cluster_resource_whitelist
        && a.cluster_resource_blacklist == b.cluster_resource_blacklist
        && a.namespace_resource_whitelist == b.namespace_resource_whitelist
        && a.namespace_resource_blacklist == b.namespace_resource_blacklist;
    if is_same {
        return Ok(());
    }
    clusters(new).iter().try_for_each(|cluster| may(Resource::Clusters, cluster))
}

/// The clusters that the destinations of a project name: by their servers, and by their names.
fn clusters(project: &AppProject) -> BTreeSet<&str> {
    let destinations = project.spec.destinations.iter();
    destinations
        .flat_map(|item| {
            if item.name.is_empty() {
                vec![item.server.as_str()]
            } else if item.server.is_empty() {
                vec![item.name.as_str()]
            } else {
                vec![item.server.as_str(), item.name.as_str()]
            }
        })
        .collect()
}
