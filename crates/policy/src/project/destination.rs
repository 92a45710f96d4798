//! Whether a cluster and namespace may be a destination (REP C4).

use tiphys_api::AppProject;
use tiphys_api::cluster::Cluster;
use tiphys_api::project::ProjectDestination;
use tiphys_api::settings::ProjectMatching;

use crate::{Decision, pattern};

/// A resolved destination: both server and name of the cluster, where it has a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target<'a> {
    /// URL of the API server, without trailing `/`.
    pub server: &'a str,
    /// Name of the cluster; empty when it has none.
    pub name: &'a str,
    /// Namespace.
    pub namespace: &'a str,
    /// Project that the cluster's entry belongs to; empty for the shared scope.
    pub project: &'a str,
}

impl<'a> Target<'a> {
    /// A namespace of a cluster.
    pub fn new(cluster: &'a Cluster, namespace: &'a str) -> Self {
        Self { server: &cluster.server, name: &cluster.name, namespace, project: &cluster.project }
    }

    /// The same as an entry of a project, where these clusters have one of it: for who knows no Secrets.
    #[must_use]
    pub fn among(self, clusters: &'a [Cluster], project: &str) -> Self {
        let is_own = |cluster: &&Cluster| {
            cluster.project == project
                && (cluster.server == self.server || (!self.name.is_empty() && cluster.name == self.name))
        };
        match clusters.iter().find(is_own) {
            Some(cluster) => Self { project: &cluster.project, ..self },
            None => self,
        }
    }
}

/// All clusters, or why they are not known (REP-144).
pub type ClusterLookup<'a> = Result<&'a [Cluster], &'a str>;

/// Whether a destination is permitted (REP-140..146).
///
/// The message is that of the condition, with the server. It differs where the Application names its cluster;
/// see [`crate::spec_check`].
pub fn destination_permitted(
    project: &AppProject,
    target: Target<'_>,
    clusters: ClusterLookup<'_>,
    matching: ProjectMatching,
) -> Decision {
    if let Some(text) = namespace_refusal(target.namespace) {
        return Decision::denied(text);
    }
    let matches = match rules(&project.spec.destinations, target, matching) {
        Verdict::Permitted => true,
        Verdict::Denied => false,
        Verdict::Unmentioned => {
            is_owned(project, target, |own| pattern::glob(&own.namespace, target.namespace))
        }
    };
    if matches && project.spec.permit_only_project_scoped_clusters {
        let clusters = match clusters {
            Ok(clusters) => clusters,
            Err(reason) => return Decision::denied(format!("could not retrieve project clusters: {reason}")),
        };
        let is_own = target.project == project.name();
        if !(is_own && clusters.iter().any(|cluster| is_target(cluster, target))) {
            return Decision::denied(destination_refusal(project.name(), target.server, target.namespace));
        }
    }
    Decision::when(matches, || destination_refusal(project.name(), target.server, target.namespace))
}

/// Why a text is no namespace, whatever the rules of a project say: a pattern like `red-*` also matches `red-a/../blue-a`,
/// which is a path. What else is wrong with a name is told by the API server; an empty one is that of objects without a
/// namespace.
pub(crate) fn namespace_refusal(text: &str) -> Option<String> {
    let is_like_one = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(letter));
    (!is_like_one).then(|| {
        let shown = tiphys_api::printable::line(text);
        format!("destination namespace '{shown}' cannot be the name of a namespace")
    })
}

/// Whether some destination of the project means a cluster, whatever the namespace; denials count (ASET-273).
pub fn cluster_reachable(project: &AppProject, target: Target<'_>, matching: ProjectMatching) -> bool {
    let anywhere =
        |item: &ProjectDestination| ProjectDestination { namespace: "*".to_owned(), ..item.clone() };
    let destinations = project.spec.destinations.iter();
    // An entry that only takes namespaces away says nothing about clusters.
    let is_about_clusters =
        |item: &&ProjectDestination| matching == ProjectMatching::Compat || !item.namespace.starts_with('!');
    let about_clusters: Vec<_> = destinations.filter(is_about_clusters).map(anywhere).collect();
    match rules(&about_clusters, target, matching) {
        Verdict::Permitted => true,
        Verdict::Denied => false,
        Verdict::Unmentioned => is_owned(project, target, |_own| true),
    }
}

/// Whether a target is a cluster of the project itself, which permits it (REP-122). An entry of the shared scope with the
/// same server is none (A3).
fn is_owned(project: &AppProject, target: Target<'_>, fits: impl Fn(&ProjectDestination) -> bool) -> bool {
    !target.project.is_empty()
        && target.project == project.name()
        && project.owned.destinations.iter().any(|own| own.server == target.server && fits(own))
}

/// What the destinations of a project say of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Permitted,
    Denied,
    Unmentioned,
}

fn rules(destinations: &[ProjectDestination], target: Target<'_>, matching: ProjectMatching) -> Verdict {
    match matching {
        ProjectMatching::Compat => compat(destinations, target),
        ProjectMatching::Strict => strict(destinations, target),
    }
}

/// The text of the condition (REP-145); `cluster` is the server, or the name if the spec uses the name.
pub(crate) fn destination_refusal(project: &str, cluster: &str, namespace: &str) -> String {
    format!(
        "application destination server '{cluster}' and namespace '{namespace}' do not match any of the allowed destinations in project '{project}'"
    )
}

/// Deviation (REP-144): two clusters without names are not the same cluster.
fn is_target(cluster: &Cluster, target: Target<'_>) -> bool {
    cluster.project == target.project
        && (cluster.server == target.server || (!target.name.is_empty() && cluster.name == target.name))
}

fn compat(destinations: &[ProjectDestination], target: Target<'_>) -> Verdict {
    let mut allowed = false;
    for item in destinations {
        let server = !target.server.is_empty() && component(&item.server, target.server);
        let name = !target.name.is_empty() && component(&item.name, target.name);
        let namespace = component(&item.namespace, target.namespace);
        if (server || name) && namespace {
            allowed = true;
        } else if (item.name.starts_with('!') && !name)
            || (item.server.starts_with('!') && !server && namespace)
            || (item.namespace.starts_with('!') && !namespace && server)
        {
            return Verdict::Denied;
        }
    }
    if allowed { Verdict::Permitted } else { Verdict::Unmentioned }
}

/// Deviation (REP-146): the documented meaning, on request only.
fn strict(destinations: &[ProjectDestination], target: Target<'_>) -> Verdict {
    let mut allowed = false;
    for item in destinations {
        let parts =
            [(&item.server, target.server), (&item.name, target.name), (&item.namespace, target.namespace)];
        if parts.iter().any(|(entry, _)| entry.starts_with('!')) {
            let denied = |(entry, text): &(&String, &str)| {
                entry.strip_prefix('!').is_some_and(|entry| pattern::glob(entry, text))
            };
            let applies = |(entry, text): &(&String, &str)| {
                entry.is_empty() || entry.starts_with('!') || pattern::glob(entry, text)
            };
            if parts.iter().all(applies) && parts.iter().any(denied) {
                return Verdict::Denied;
            }
        } else {
            let server = !target.server.is_empty() && pattern::glob(&item.server, target.server);
            let name = !target.name.is_empty() && pattern::glob(&item.name, target.name);
            allowed |= (server || name) && pattern::glob(&item.namespace, target.namespace);
        }
    }
    if allowed { Verdict::Permitted } else { Verdict::Unmentioned }
}

/// A `!pattern` matches what the pattern does not (REP-141).
fn component(entry: &str, text: &str) -> bool {
    match entry.strip_prefix('!') {
        Some(entry) => !pattern::glob(entry, text),
        None => pattern::glob(entry, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `server,name,namespace` triples.
    fn project(items: &[(&str, &str, &str)]) -> AppProject {
        let mut project = AppProject::default();
        "p".clone_into(&mut project.metadata.name);
        project.spec.destinations = items
            .iter()
            .map(|(server, name, namespace)| ProjectDestination {
                server: (*server).to_owned(),
                name: (*name).to_owned(),
                namespace: (*namespace).to_owned(),
                ..ProjectDestination::default()
            })
            .collect();
        project
    }

    fn target<'a>(server: &'a str, name: &'a str, namespace: &'a str) -> Target<'a> {
        Target { server, name, namespace, project: "" }
    }

    fn permitted(items: &[(&str, &str, &str)], at: Target<'_>) -> bool {
        destination_permitted(&project(items), at, Ok(&[]), ProjectMatching::Compat).permitted
    }

    #[test]
    fn rep_140_a_path_is_no_namespace() {
        let items = [("*", "", "red-*"), ("*", "", "!red-x")];
        assert!(permitted(&items, target("https://p", "p", "red-a")));
        assert!(permitted(&items, target("https://p", "p", "red-A_1.b")), "the API server refuses it");
        for path in ["red-a/../blue-a", "red-a/pods/x", "red-%2e", "red-a?x", "red-a b"] {
            let decision = destination_permitted(
                &project(&items),
                target("https://p", "p", path),
                Ok(&[]),
                ProjectMatching::Compat,
            );
            let text = format!("destination namespace '{path}' cannot be the name of a namespace");
            assert_eq!(decision.message, Some(text));
        }
    }

    #[test]
    fn rep_142_the_table() {
        let all = ("*", "", "*");
        let p = "https://p";
        for (items, at, expected) in [
            (vec![all, ("*", "", "!kube-*")], target(p, "p", "kube-public"), false),
            (vec![("", "!prod", "team-a"), all], target("https://x", "prod", "other"), false),
            (vec![("!https://p", "", "team-a"), all], target(p, "n", "other"), true),
            (vec![("", "prod", "!kube-system"), all], target("https://x", "prod", "kube-system"), true),
            (vec![("!https://p", "", "!kube-system"), all], target(p, "n", "kube-system"), true),
            (vec![("!https://p", "", "!kube-system"), all], target(p, "n", "default"), false),
            (vec![("*", "", "!kube-system")], target(p, "n", "default"), true),
        ] {
            assert_eq!(permitted(&items, at), expected, "{items:?} {at:?}");
        }
    }

    #[test]
    fn rep_141_142_consequences() {
        assert!(!permitted(&[], target("s", "n", "ns")));
        assert!(
            permitted(&[("other", "n", "*")], target("s", "n", "ns")),
            "server and name are alternatives"
        );
        assert!(!permitted(&[("s", "", "")], target("s", "n", "ns")));
        assert!(permitted(&[("s", "", "")], target("s", "n", "")));
        assert!(
            !permitted(&[("*", "", "*"), ("", "!x", "*")], target("s", "", "ns")),
            "no name, negated name"
        );
        assert!(!permitted(&[("!s", "", "ns"), ("*", "", "*")], target("s", "n", "ns")));
        assert!(permitted(&[("!other", "", "*")], target("s", "n", "ns")));
    }

    #[test]
    fn rep_143_servers_are_compared_as_stored() {
        assert!(!permitted(&[("https://p/", "", "*")], target("https://p", "", "ns")));
    }

    #[test]
    fn rep_144_only_clusters_of_the_project() {
        let mut project = project(&[("*", "", "*")]);
        project.spec.permit_only_project_scoped_clusters = true;
        let own = Cluster { server: "s".into(), project: "p".into(), ..Cluster::default() };
        let other = Cluster { server: "t".into(), project: "q".into(), ..Cluster::default() };
        let clusters = [own, other];
        let decide = |at, clusters| destination_permitted(&project, at, clusters, ProjectMatching::Compat);
        let of_project = |project| Target { project, ..target("s", "", "ns") };
        assert!(decide(of_project("p"), Ok(&clusters)).permitted);
        assert!(!decide(of_project(""), Ok(&clusters)).permitted, "a shared entry of the same server");
        assert!(!decide(target("t", "", "ns"), Ok(&clusters)).permitted);
        assert!(!decide(target("u", "", "ns"), Ok(&clusters)).permitted, "two empty names are not equal");
        let unknown = decide(of_project("p"), Err("timed out"));
        assert_eq!(unknown.message.as_deref(), Some("could not retrieve project clusters: timed out"));
    }

    #[test]
    fn rep_145_message() {
        let decision =
            destination_permitted(&project(&[]), target("s", "n", "ns"), Ok(&[]), ProjectMatching::Compat);
        assert_eq!(
            decision.message.as_deref(),
            Some(
                "application destination server 's' and namespace 'ns' do not match any of the allowed destinations in project 'p'"
            )
        );
    }

    #[test]
    fn rep_146_strict_reads_negations_as_denials() {
        let strict = |items: &[(&str, &str, &str)], at| {
            destination_permitted(&project(items), at, Ok(&[]), ProjectMatching::Strict).permitted
        };
        let all = ("*", "", "*");
        assert!(strict(&[("", "!prod", "team-a"), all], target("s", "prod", "other")));
        assert!(!strict(&[("", "!prod", "team-a"), all], target("s", "prod", "team-a")));
        assert!(!strict(&[("", "prod", "!kube-system"), all], target("s", "prod", "kube-system")));
        assert!(!strict(&[("*", "", "!kube-system")], target("s", "n", "default")));
        assert!(!strict(&[("!https://p", "", "!kube-system"), all], target("https://p", "n", "kube-system")));
        assert!(!strict(&[("!https://p", "", "!kube-system"), all], target("https://p", "n", "default")));
    }

    #[test]
    fn aset_273_clusters_are_reachable_whatever_the_namespace() {
        let target = Target { server: "https://eu", name: "eu", ..Target::default() };
        for (items, compat, strict) in [
            (vec![("", "eu", "shop")], true, true),
            (vec![("https://*", "", "x")], true, true),
            (vec![("https://us", "us", "*")], false, false),
            (vec![("*", "", "*"), ("!https://eu", "", "*")], false, false),
            (vec![("*", "", "!kube-system")], true, false),
            (vec![("*", "", "*"), ("*", "", "!kube-system")], true, true),
            (vec![], false, false),
        ] {
            let project = project(&items);
            assert_eq!(cluster_reachable(&project, target, ProjectMatching::Compat), compat, "{items:?}");
            assert_eq!(cluster_reachable(&project, target, ProjectMatching::Strict), strict, "{items:?}");
        }
    }

    /// A3: a cluster of the project permits its own entry, in the namespaces that it is registered for.
    #[test]
    fn rep_122_an_own_cluster_permits_its_own_entry() {
        let mut project = project(&[("", "eu", "shop")]);
        let own = |server: &str, namespace: &str| ProjectDestination {
            server: server.to_owned(),
            namespace: namespace.to_owned(),
            ..ProjectDestination::default()
        };
        project.owned.destinations = vec![own("https://eu", "*"), own("https://mine", "a"), own("*", "*")];
        for matching in [ProjectMatching::Compat, ProjectMatching::Strict] {
            let decide = |at: Target<'_>| destination_permitted(&project, at, Ok(&[]), matching).permitted;
            let at = |scope, server, namespace| Target { project: scope, ..target(server, "x", namespace) };
            assert!(decide(at("p", "https://eu", "kube-system")));
            assert!(decide(at("p", "https://mine", "a")) && !decide(at("p", "https://mine", "b")));
            for scope in ["", "q"] {
                assert!(!decide(at(scope, "https://eu", "kube-system")), "{scope}");
            }
            assert!(!decide(at("p", "https://other", "a")), "a server is no pattern");
            assert!(cluster_reachable(&project, at("p", "https://mine", ""), matching));
            assert!(!cluster_reachable(&project, at("", "https://mine", ""), matching));
        }
        project
            .spec
            .destinations
            .push(ProjectDestination { server: "!https://eu".to_owned(), ..own("", "*") });
        let at = Target { project: "p", ..target("https://eu", "eu", "shop") };
        assert!(
            !destination_permitted(&project, at, Ok(&[]), ProjectMatching::Strict).permitted,
            "a denial stays one"
        );
    }
}
