//! Whether a kind may be managed, and which orphans do not count (REP C5, C11).

use tiphys_api::AppProject;
use tiphys_api::project::{ClusterResourceItem, ResourceItem};
use tiphys_api::settings::ProjectMatching;
use tiphys_object::ResourceKey;

use super::destination::{ClusterLookup, Target, destination_permitted};
use crate::{Decision, pattern};

/// What is to be managed. The scope comes from discovery, for live objects from having a namespace (REP-154).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource<'a> {
    /// API group, empty for the core group.
    pub group: &'a str,
    /// Kind.
    pub kind: &'a str,
    /// Name.
    pub name: &'a str,
    /// Whether objects of the kind live in namespaces.
    pub namespaced: bool,
}

/// Whether a resource may be managed, with the message of a sync task (REP-150..153).
pub fn resource_permitted(project: &AppProject, resource: Resource<'_>) -> Decision {
    Decision::when(kind_permitted(project, resource), || {
        format!(
            "resource {}:{} is not permitted in project {}",
            resource.group,
            resource.kind,
            project.name()
        )
    })
}

/// Whether the kind, and for cluster-scoped ones the name, is permitted (REP-150..152).
pub fn kind_permitted(project: &AppProject, resource: Resource<'_>) -> bool {
    let spec = &project.spec;
    if resource.namespaced {
        let listed =
            |list: &[ResourceItem]| list.iter().any(|item| kind_matches(&item.group, &item.kind, resource));
        spec.namespace_resource_whitelist.as_deref().is_none_or(listed)
            && !listed(&spec.namespace_resource_blacklist)
    } else {
        let listed = |list: &[ClusterResourceItem]| {
            list.iter().any(|item| {
                kind_matches(&item.group, &item.kind, resource)
                    && (item.name.is_empty() || pattern::file_glob(&item.name, resource.name))
            })
        };
        listed(&spec.cluster_resource_whitelist) && !listed(&spec.cluster_resource_blacklist)
    }
}

/// Whether a live object is visible to the project's applications (REP-153, CTL-72).
pub fn live_permitted(
    project: &AppProject,
    key: &ResourceKey,
    target: Target<'_>,
    clusters: ClusterLookup<'_>,
    matching: ProjectMatching,
) -> bool {
    let namespaced = !key.namespace.is_empty();
    let resource = Resource { group: &key.group, kind: &key.kind, name: &key.name, namespaced };
    let at = Target { namespace: &key.namespace, ..target };
    kind_permitted(project, resource)
        && (!namespaced || destination_permitted(project, at, clusters, matching).permitted)
}

/// Whether an object never counts as an orphan (REP-196).
pub fn orphan_ignored(project: &AppProject, key: &ResourceKey) -> bool {
    let is = |group: &str, kind: &str, name: &str| key.group == group && key.kind == kind && key.name == name;
    if (is("", "Service", "kubernetes") && key.namespace == "default")
        || is("", "ServiceAccount", "default")
        || is("", "ConfigMap", "kube-root-ca.crt")
    {
        return true;
    }
    let Some(orphaned) = &project.spec.orphaned_resources else { return false };
    orphaned.ignore.iter().any(|item| {
        (item.kind.is_empty() || pattern::glob(&item.kind, &key.kind))
            && pattern::glob(&item.group, &key.group)
            && (item.name.is_empty() || pattern::glob(&item.name, &key.name))
    })
}

fn kind_matches(group: &str, kind: &str, resource: Resource<'_>) -> bool {
    pattern::file_glob(kind, resource.kind) && pattern::file_glob(group, resource.group)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(spec: &str) -> AppProject {
        serde_json::from_str(&format!(r#"{{"metadata":{{"name":"p"}},"spec":{spec}}}"#)).unwrap()
    }

    fn namespaced<'a>(group: &'a str, kind: &'a str) -> Resource<'a> {
        Resource { group, kind, name: "x", namespaced: true }
    }

    fn cluster_scoped<'a>(group: &'a str, kind: &'a str, name: &'a str) -> Resource<'a> {
        Resource { group, kind, name, namespaced: false }
    }

    #[test]
    fn rep_150_absent_permits_all_empty_permits_nothing() {
        let secret = namespaced("", "Secret");
        assert!(kind_permitted(&project("{}"), secret));
        assert!(!kind_permitted(&project(r#"{"namespaceResourceWhitelist":[]}"#), secret));
        assert!(kind_permitted(&project(r#"{"namespaceResourceWhitelist":null}"#), secret));
        let deny = project(r#"{"namespaceResourceBlacklist":[{"group":"","kind":"Secret"}]}"#);
        assert!(!kind_permitted(&deny, secret));
        assert!(kind_permitted(&deny, namespaced("", "ConfigMap")));
        let both = project(
            r#"{"namespaceResourceWhitelist":[{"group":"*","kind":"*"}],"namespaceResourceBlacklist":[{"group":"","kind":"Secret"}]}"#,
        );
        assert!(!kind_permitted(&both, secret) && kind_permitted(&both, namespaced("apps", "Deployment")));
    }

    #[test]
    fn rep_151_cluster_scoped_kinds_need_to_be_listed() {
        let namespace = cluster_scoped("", "Namespace", "team-a");
        assert!(!kind_permitted(&project("{}"), namespace));
        assert!(!kind_permitted(&project(r#"{"clusterResourceWhitelist":[]}"#), namespace));
        assert!(kind_permitted(
            &project(r#"{"clusterResourceWhitelist":[{"group":"*","kind":"*"}]}"#),
            namespace
        ));
        assert!(!kind_permitted(
            &project(
                r#"{"clusterResourceWhitelist":[{"group":"*","kind":"*"}],"clusterResourceBlacklist":[{"group":"","kind":"Namespace"}]}"#
            ),
            namespace
        ));
    }

    #[test]
    fn rep_152_names_narrow_cluster_scoped_entries() {
        let team =
            project(r#"{"clusterResourceWhitelist":[{"group":"","kind":"Namespace","name":"team-*"}]}"#);
        assert!(kind_permitted(&team, cluster_scoped("", "Namespace", "team-a")));
        assert!(!kind_permitted(&team, cluster_scoped("", "Namespace", "kube-system")));
        let bad = project(r#"{"clusterResourceWhitelist":[{"group":"[","kind":"*"}]}"#);
        assert!(!kind_permitted(&bad, cluster_scoped("[", "X", "a")));
        let groups = project(r#"{"namespaceResourceWhitelist":[{"group":"*.example.com","kind":"[A-C]*"}]}"#);
        assert!(kind_permitted(&groups, namespaced("a.example.com", "Bus")));
        assert!(!kind_permitted(&groups, namespaced("a.example.com", "Dog")));
        assert!(!kind_permitted(&groups, namespaced("A.EXAMPLE.COM", "Bus")));
    }

    #[test]
    fn rep_153_message_and_visibility() {
        let shop = project(
            r#"{"destinations":[{"server":"s","namespace":"shop"}],"clusterResourceWhitelist":[{"group":"","kind":"Namespace"}]}"#,
        );
        let decision =
            resource_permitted(&shop, cluster_scoped("rbac.authorization.k8s.io", "ClusterRole", "x"));
        assert_eq!(
            decision.message.as_deref(),
            Some("resource rbac.authorization.k8s.io:ClusterRole is not permitted in project p")
        );
        let target = Target { server: "s", namespace: "shop", ..Target::default() };
        let visible =
            |key: ResourceKey| live_permitted(&shop, &key, target, Ok(&[]), ProjectMatching::Compat);
        assert!(visible(ResourceKey::new("", "Secret", "shop", "a")));
        assert!(!visible(ResourceKey::new("", "Secret", "other", "a")));
        assert!(visible(ResourceKey::new("", "Namespace", "", "any")));
        assert!(!visible(ResourceKey::new("", "Node", "", "any")));
    }

    #[test]
    fn rep_196_orphans_that_do_not_count() {
        let none = project("{}");
        assert!(orphan_ignored(&none, &ResourceKey::new("", "Service", "default", "kubernetes")));
        assert!(!orphan_ignored(&none, &ResourceKey::new("", "Service", "shop", "kubernetes")));
        assert!(orphan_ignored(&none, &ResourceKey::new("", "ServiceAccount", "shop", "default")));
        assert!(orphan_ignored(&none, &ResourceKey::new("", "ConfigMap", "shop", "kube-root-ca.crt")));
        let ignores = |entry: &str, key: ResourceKey| {
            orphan_ignored(&project(&format!(r#"{{"orphanedResources":{{"ignore":[{entry}]}}}}"#)), &key)
        };
        let job = || ResourceKey::new("batch", "Job", "shop", "gc");
        assert!(ignores(r#"{"group":"batch","kind":"Job"}"#, job()));
        assert!(!ignores(r#"{"kind":"Job"}"#, job()), "an empty group is the core group");
        assert!(ignores("{}", ResourceKey::new("", "Secret", "shop", "a")));
        assert!(!ignores("{}", job()));
        assert!(ignores(r#"{"group":"*","name":"g?"}"#, job()));
        assert!(!ignores(r#"{"group":"*","name":"h*"}"#, job()));
    }
}
