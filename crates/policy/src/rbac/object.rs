//! The texts by which policies name objects (API-102, API-103).

use tiphys_api::ApplicationSet;
use tiphys_api::project::{DEFAULT_PROJECT, is_project_name};

/// An application: `<project>/<name>`, with its namespace between where it is not the control plane's. Its logs and
/// terminals are named like it.
pub fn application_object(
    project: &str,
    namespace: &str,
    name: &str,
    control_plane_namespace: &str,
) -> String {
    let project = if project.is_empty() { DEFAULT_PROJECT } else { project };
    if namespace.is_empty() || namespace == control_plane_namespace {
        format!("{project}/{name}")
    } else {
        format!("{project}/{namespace}/{name}")
    }
}

/// An `ApplicationSet`: as an application of the project it is confined to, else of its template's (ASET-279).
pub fn application_set_object(set: &ApplicationSet, control_plane_namespace: &str) -> String {
    application_object(
        set.rbac_project(),
        &set.metadata.namespace,
        &set.metadata.name,
        control_plane_namespace,
    )
}

/// A cluster by its server, or a repository by its URL: `<project>/<address>` where it belongs to one (REP-41, REP-112).
pub fn scoped_object(project: &str, address: &str) -> String {
    if project.is_empty() { address.to_owned() } else { format!("{project}/{address}") }
}

/// Something that is named by an address: a repository, a template or a cluster, of a project or of the shared scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located<'a> {
    /// The project; empty for the shared scope.
    pub project: &'a str,
    /// URL or server.
    pub address: &'a str,
}

impl Located<'_> {
    /// The objects that a policy has to allow, all of them.
    ///
    /// An address of the shared scope may read like an object of a project: `shop/charts` is a registry's, and what the
    /// project `shop` calls `charts`. A right in the project is none in the shared scope (A3), so that such an address
    /// needs a right to `oci://shop/charts` besides, which no right of a project is.
    pub fn objects(&self, is_project: impl Fn(&str) -> bool) -> Vec<String> {
        let mut objects = vec![scoped_object(self.project, self.address)];
        let first = self.address.split_once('/').map_or("", |(first, _)| first);
        let is_host = first.contains('.') || first == "localhost";
        if self.project.is_empty() && is_project_name(first) && (!is_host || is_project(first)) {
            objects.push(format!("oci://{}", self.address));
        }
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_41_a_shared_address_is_no_object_of_a_project() {
        let objects = |project: &str, address: &str| {
            Located { project, address }.objects(|name| ["shop", "registry.test"].contains(&name))
        };
        for (address, other) in [
            ("shop/charts", true),
            ("later/charts", true),
            ("shop/https://git/r", true),
            ("registry.test/org", true),
            ("other.test/org", false),
            ("localhost/org", false),
            ("registry:5000/org", false),
            ("https://git/r", false),
            ("git@git:o/r", false),
            ("/srv/git", false),
            ("shop", false),
            ("shop/", true),
        ] {
            let expected = if other {
                vec![address.to_owned(), format!("oci://{address}")]
            } else {
                vec![address.to_owned()]
            };
            assert_eq!(objects("", address), expected, "{address}");
            assert_eq!(objects("shop", address), [format!("shop/{address}")]);
        }
    }

    #[test]
    fn api_102_applications_are_named_by_project_namespace_and_name() {
        assert_eq!(application_object("shop", "", "web", "argocd"), "shop/web");
        assert_eq!(application_object("shop", "argocd", "web", "argocd"), "shop/web");
        assert_eq!(application_object("shop", "team", "web", "argocd"), "shop/team/web");
        assert_eq!(application_object("", "team", "web", "argocd"), "default/team/web", "API-103");
    }

    #[test]
    fn api_102_clusters_and_repositories_are_named_by_project_and_address() {
        assert_eq!(scoped_object("", "https://eu"), "https://eu");
        assert_eq!(scoped_object("shop", "https://git/r"), "shop/https://git/r");
    }

    #[test]
    fn aset_279_sets_are_named_by_their_own_project_first() {
        let object = |text: &str| application_set_object(&serde_json::from_str(text).unwrap(), "argocd");
        let template = r#""template":{"spec":{"project":"shop"}}"#;
        assert_eq!(object(&format!(r#"{{"metadata":{{"name":"s"}},"spec":{{{template}}}}}"#)), "shop/s");
        assert_eq!(
            object(&format!(
                r#"{{"metadata":{{"name":"s","namespace":"team"}},"spec":{{"project":"red",{template}}}}}"#
            )),
            "red/team/s"
        );
        assert_eq!(object(r#"{"metadata":{"name":"s"},"spec":{}}"#), "default/s");
    }
}
