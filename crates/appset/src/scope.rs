//! Sets that a project confines: what they may read (ASET-270..278).
//!
//! Whatever such a set generates or reads stays inside the effective project. The permission tests are those of
//! Applications.

use std::collections::BTreeSet;
use std::sync::Arc;

use tiphys_api::cluster::Cluster;
use tiphys_api::codes::SetReason;
use tiphys_api::project::DEFAULT_PROJECT;
use tiphys_api::settings::{ApplicationSets, GlobalResources, ProjectMatching};
use tiphys_api::{AppProject, ApplicationSet};
use tiphys_policy::pattern;
use tiphys_policy::project::{Target, cluster_reachable, namespace_permitted, source_matches};

use crate::facts::{Access, Facts, NoAnswer};
use crate::generate::Failure;

/// What confines a set.
#[derive(Clone, Debug)]
pub enum Scope {
    /// Nothing: its template may name any project.
    Unscoped,
    /// A project.
    Project(Arc<AppProject>),
}

/// Why the scope of a set is not known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ScopeError {
    /// The project is not known yet.
    Pending,
    /// The set is not processed.
    Refused(Failure),
}

impl Scope {
    /// The scope of a set, and whether it may be processed at all (ASET-272, ASET-282).
    pub(crate) fn of(
        set: &ApplicationSet,
        settings: &ApplicationSets,
        control_plane_namespace: &str,
        facts: &dyn Facts,
    ) -> Result<Self, ScopeError> {
        let namespace = namespace_of(set, control_plane_namespace);
        if set.spec.project.is_empty() {
            let accepts = namespace == control_plane_namespace
                || !settings.unscoped_restricted
                || pattern::regex_list(&settings.unscoped_namespaces, namespace);
            if accepts {
                return Ok(Self::Unscoped);
            }
            let text = format!("namespace {namespace} does not accept ApplicationSets without spec.project");
            return Err(ScopeError::Refused(Failure::new(SetReason::ApplicationSetUnscopedNotAllowed, text)));
        }
        let name = &set.spec.project;
        let refused =
            |text: String| ScopeError::Refused(Failure::new(SetReason::ApplicationSetProjectError, text));
        let project = match facts.project(name) {
            Ok(Some(project)) => project,
            Ok(None) => return Err(refused(format!("ApplicationSet project {name} does not exist"))),
            Err(NoAnswer::Pending) => return Err(ScopeError::Pending),
            Err(NoAnswer::Failed(reason)) => return Err(refused(reason)),
        };
        if !namespace_permitted(&project, "", namespace, control_plane_namespace).permitted {
            return Err(refused(namespace_refusal(namespace, name)));
        }
        Ok(Self::Project(project))
    }

    /// The project, where there is one.
    pub fn project(&self) -> Option<&AppProject> {
        match self {
            Self::Unscoped => None,
            Self::Project(project) => Some(project),
        }
    }

    /// Whether a cluster may be seen (ASET-273).
    pub(crate) fn sees(
        &self,
        cluster: &Cluster,
        settings: &ApplicationSets,
        matching: ProjectMatching,
    ) -> bool {
        let Some(project) = self.project() else { return true };
        if !cluster.project.is_empty() {
            return cluster.project == project.name();
        }
        settings.global_resources == GlobalResources::Permitted
            && !project.spec.permit_only_project_scoped_clusters
            && cluster_reachable(project, Target::new(cluster, ""), matching)
    }

    /// Why the files of a repository may not be read; `None` when they may (ASET-274).
    pub(crate) fn repository_refusal(&self, url: &str, matching: ProjectMatching) -> Option<String> {
        let project = self.project()?;
        (!source_matches(project, url, matching)).then(|| {
            let shown = tiphys_api::repo_url::redact(url);
            format!("repository {shown} is not permitted in project '{}'", project.name())
        })
    }

    /// How Secrets and `ConfigMaps` may be used (ASET-275).
    pub(crate) fn access(&self, settings: &ApplicationSets) -> Access {
        Access::of_project(self.project().map_or("", AppProject::name), settings)
    }
}

/// Projects of the Applications that an unscoped set can make: that of its template, and those that templates of
/// generators put in its place, which are the projects that whoever stores the set needs rights in. Templates of nested
/// generators make no Applications (ASET-26), and a patch changes no project (ASET-120).
pub(crate) fn projects_of_applications(set: &ApplicationSet) -> Option<BTreeSet<&str>> {
    let named = Some(set.template_project()).filter(|project| !project.is_empty()).unwrap_or(DEFAULT_PROJECT);
    let projects: BTreeSet<&str> = std::iter::once(named).chain(set.generator_projects()).collect();
    // `None` where a template decides, which the API permits in no unscoped set.
    (!projects.iter().any(|project| project.contains("{{"))).then_some(projects)
}

/// Whether Applications of a project may be those of a set, as it is now.
pub(crate) fn may_make(set: &ApplicationSet, project: &str) -> bool {
    if set.spec.project.is_empty() {
        return projects_of_applications(set).is_none_or(|projects| projects.contains(project));
    }
    set.spec.project == project
}

/// The namespace of a set; one without is the control plane's.
pub(crate) fn namespace_of<'a>(set: &'a ApplicationSet, control_plane_namespace: &'a str) -> &'a str {
    match set.metadata.namespace.as_str() {
        "" => control_plane_namespace,
        own => own,
    }
}

/// The text for a namespace that may not use a project.
pub(crate) fn namespace_refusal(namespace: &str, project: &str) -> String {
    format!("namespace {namespace} is not permitted to use project {project}")
}
