//! The proof that a change to one object is allowed. Nothing is written to a cluster without one (INV-6).
//!
//! A [`Permit`] cannot be made up: it comes from the check of a project ([`Governed::permit`]), or names on whose
//! behalf no project is asked ([`Permit::own`], [`Permit::operator`]). It holds for the object that it names and for
//! no other, and for the scope that was checked; the writer compares both with what it is about to do. It also says as
//! whom the change is made (REP-193): a write cannot forget it, because there is none without a permit.

use tiphys_api::AppProject;
use tiphys_api::settings::ProjectMatching;
use tiphys_object::ResourceKey;

use crate::project::{Account, ClusterLookup, Resource, Target, destination_permitted, resource_permitted};

/// A project and the cluster that its application deploys to: what decides about each object of the application.
#[derive(Clone, Copy, Debug)]
pub struct Governed<'a> {
    /// The project, with its global projects applied.
    pub project: &'a AppProject,
    /// The cluster; its namespace does not count.
    pub cluster: Target<'a>,
    /// All clusters, for projects that permit only their own (REP-144).
    pub clusters: ClusterLookup<'a>,
    /// How destinations are compared.
    pub matching: ProjectMatching,
    /// The account that writes, where it is not the controller's own (REP-190).
    pub account: Option<&'a Account>,
}

impl Governed<'_> {
    /// Asks the project about one object: its kind first, then its namespace (ENG-158). `namespaced` comes from the
    /// discovery of the cluster; a manifest says nothing about it.
    ///
    /// # Errors
    /// The text of the refusal, as it stands in the result of a sync.
    pub fn permit(&self, object: &ResourceKey, namespaced: bool) -> Result<Permit, String> {
        let ResourceKey { group, kind, namespace, name } = object;
        if let Some(refusal) =
            resource_permitted(self.project, Resource { group, kind, name, namespaced }).message
        {
            return Err(refusal);
        }
        let target = Target { namespace, ..self.cluster };
        if namespaced && !destination_permitted(self.project, target, self.clusters, self.matching).permitted
        {
            return Err(format!(
                "namespace {namespace} is not permitted in project '{}'",
                self.project.name()
            ));
        }
        Ok(Permit { object: object.clone(), scope: Some(namespaced), account: self.account.cloned() })
    }
}

/// Kinds of objects that belong to the installation itself. No project governs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// An Application.
    Application,
    /// An `ApplicationSet`.
    ApplicationSet,
    /// An `AppProject`.
    Project,
    /// An Event about one of them.
    Event,
    /// The lease of the installation.
    Lease,
    /// The settings of the installation, where they ask for an ID to be made (TRK-67).
    Settings,
    /// A `ConfigMap` with certificates, host keys or keys of those who sign (REP A9).
    Trust,
    /// A Secret with a repository, credentials or a cluster, or with what the installation remembers (TRK-69).
    Secret,
}

impl Own {
    /// Group and kind.
    pub fn group_kind(self) -> (&'static str, &'static str) {
        match self {
            Self::Application => (tiphys_api::names::GROUP, "Application"),
            Self::ApplicationSet => (tiphys_api::names::GROUP, "ApplicationSet"),
            Self::Project => (tiphys_api::names::GROUP, "AppProject"),
            Self::Event => ("", "Event"),
            Self::Lease => ("coordination.k8s.io", "Lease"),
            Self::Settings | Self::Trust => ("", "ConfigMap"),
            Self::Secret => ("", "Secret"),
        }
    }
}

/// Proof that one object may be changed (INV-6).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    object: ResourceKey,
    scope: Option<bool>,
    account: Option<Account>,
}

impl Permit {
    /// For an object of the installation itself: its records about applications, projects and its own lease.
    pub fn own(kind: Own, namespace: &str, name: &str) -> Self {
        let (group, kind) = kind.group_kind();
        Self { object: ResourceKey::new(group, kind, namespace, name), scope: Some(true), account: None }
    }

    /// For what the person who runs the program asks of the cluster with their own rights, as with `kubectl`: the
    /// definitions at an installation, the objects of the demo. Never on behalf of an Application.
    pub fn operator(object: ResourceKey) -> Self {
        Self { object, scope: None, account: None }
    }

    /// The account that the change is made as; `None` is the identity of the connection (REP-193). The writer asks,
    /// nobody else has to: a change cannot be made with more rights than it was permitted for.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// Whether it was given for this object, of a kind of this scope. A namespace counts only where there is one.
    pub fn covers(&self, object: &ResourceKey, namespaced: bool) -> bool {
        let ResourceKey { group, kind, namespace, name } = &self.object;
        (group, kind, name) == (&object.group, &object.kind, &object.name)
            && (!namespaced || *namespace == object.namespace)
            && self.scope.is_none_or(|scope| scope == namespaced)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiphys_api::settings::{Settings, SettingsData};

    use super::*;
    use crate::project::impersonated_user;

    fn project() -> AppProject {
        serde_json::from_value(json!({
            "metadata": {"name": "team"},
            "spec": {
                "destinations": [{"server": "https://c", "namespace": "team"}],
                "clusterResourceWhitelist": [{"group": "", "kind": "Namespace", "name": "team"}],
            },
        }))
        .unwrap()
    }

    fn governed(project: &AppProject) -> Governed<'_> {
        let cluster = Target { server: "https://c", ..Target::default() };
        Governed { project, cluster, clusters: Ok(&[]), matching: ProjectMatching::default(), account: None }
    }

    /// INV-6: what the project was not asked about is not covered, whatever else it permits.
    #[test]
    fn inv_6_a_permit_is_for_one_object_and_one_scope() {
        let project = project();
        let governed = governed(&project);
        let key = |kind, namespace, name| ResourceKey::new("", kind, namespace, name);
        let config = governed.permit(&key("ConfigMap", "team", "a"), true).unwrap();
        assert!(config.covers(&key("ConfigMap", "team", "a"), true));
        assert!(!config.covers(&key("ConfigMap", "team", "b"), true), "another name");
        assert!(!config.covers(&key("ConfigMap", "other", "a"), true), "another namespace");
        assert!(!config.covers(&key("Secret", "team", "a"), true), "another kind");
        assert!(!config.covers(&ResourceKey::new("g", "ConfigMap", "team", "a"), true), "another group");
        assert!(!config.covers(&key("ConfigMap", "team", "a"), false), "another scope");
        // A cluster-scoped object is in no namespace, whatever its manifest says.
        let namespace = governed.permit(&key("Namespace", "x", "team"), false).unwrap();
        assert!(namespace.covers(&key("Namespace", "", "team"), false));
    }

    /// ENG-158: the kind is asked about first, then the namespace, in the words of a sync.
    #[test]
    fn eng_158_a_project_refuses_the_kind_then_the_namespace() {
        let project = project();
        let governed = governed(&project);
        let refusal = |kind, namespace, name, namespaced| {
            governed.permit(&ResourceKey::new("", kind, namespace, name), namespaced).unwrap_err()
        };
        assert_eq!(
            refusal("Namespace", "", "other", false),
            "resource :Namespace is not permitted in project team"
        );
        assert_eq!(
            refusal("ConfigMap", "other", "a", true),
            "namespace other is not permitted in project 'team'"
        );
    }

    /// REP-193: the permit says as whom a change is made, and what the installation writes about itself is its own.
    #[test]
    fn rep_193_a_permit_names_the_account_that_writes() {
        let settings = Settings::new(SettingsData {
            cm: [("application.sync.impersonation.enabled".to_owned(), "true".to_owned())].into(),
            ..SettingsData::default()
        });
        let mut project = project();
        project.spec.destination_service_accounts = serde_json::from_value(json!([
            {"server": "https://c", "namespace": "team", "defaultServiceAccount": "deployer"}
        ]))
        .unwrap();
        let account = impersonated_user(&project, &settings, "https://c", "team", "argocd").unwrap();
        let governed = Governed { account: account.as_ref(), ..governed(&project) };
        let permit = governed.permit(&ResourceKey::new("", "ConfigMap", "team", "a"), true).unwrap();
        assert_eq!(permit.account().map(Account::user), Some("system:serviceaccount:team:deployer"));
        assert_eq!(Permit::own(Own::Application, "argocd", "a").account(), None);
    }

    #[test]
    fn what_belongs_to_the_installation_is_of_its_own_kinds() {
        let permit = Permit::own(Own::Application, "argocd", "a");
        assert!(permit.covers(&ResourceKey::new("argoproj.io", "Application", "argocd", "a"), true));
        assert!(!permit.covers(&ResourceKey::new("argoproj.io", "AppProject", "argocd", "a"), true));
        assert!(!permit.covers(&ResourceKey::new("argoproj.io", "Application", "argocd", "b"), true));
    }
}
