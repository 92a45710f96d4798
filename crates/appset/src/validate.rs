//! Which generated Applications may be written (ASET-13..15, ASET-277).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;
use tiphys_api::Application;
use tiphys_api::cluster::{Cluster, ClusterError, Clusters, ProjectClusters};
use tiphys_api::codes::SetReason;
use tiphys_api::settings::ProjectMatching;
use tiphys_policy::project::{Target, destination_permitted, source_permitted};

use crate::facts::{Facts, NoAnswer};
use crate::generate::{Failure, Request, Stop};
use crate::scope::{Scope, ScopeError};

/// What was found about generated Applications.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validation {
    /// Errors by qualified name; every Application of that name is left out (ASET-13).
    pub errors: BTreeMap<String, String>,
}

impl Validation {
    /// Whether an Application may be written.
    pub fn admits(&self, application: &Application) -> bool {
        self.errors.is_empty() || !self.errors.contains_key(&qualified(application))
    }

    /// The message of the condition: the error of the last name, and how many more there are (ASET-14).
    pub fn message(&self) -> Option<String> {
        let (_, last) = self.errors.last_key_value()?;
        Some(match self.errors.len() - 1 {
            0 => last.clone(),
            more => format!("{last} (and {more} more)"),
        })
    }
}

fn qualified(application: &Application) -> String {
    format!("{}/{}", application.metadata.namespace, application.metadata.name)
}

/// Gives Applications of a scoped set that name no project the project of the set (ASET-277).
pub fn fill_projects(applications: &mut [Application], scope: &Scope) {
    if let Some(project) = scope.project() {
        for application in applications.iter_mut().filter(|application| application.spec.project.is_empty()) {
            project.name().clone_into(&mut application.spec.project);
        }
    }
}

/// Validates Applications in the order in which they were generated.
///
/// # Errors
/// When something could not be looked up: then nothing may be written at all.
pub fn validate(
    set: &str,
    applications: &[Application],
    scope: &Scope,
    matching: ProjectMatching,
    facts: &dyn Facts,
) -> Result<Validation, NoAnswer> {
    if applications.is_empty() {
        return Ok(Validation::default());
    }
    let clusters = facts.clusters()?;
    let mut checks = Checks { scope, matching, facts, clusters: &clusters, projects: HashMap::new() };
    let mut names = BTreeSet::new();
    let mut validation = Validation::default();
    for application in applications {
        let name = &application.metadata.name;
        let error = if name.is_empty() {
            Some(format!(
                "ApplicationSet {set} contains an application with no name; generateName is not supported"
            ))
        } else if !names.insert(name) {
            Some(format!("ApplicationSet {set} contains applications with duplicate name: {name}"))
        } else {
            checks.error_of(application)?
        };
        if let Some(error) = error {
            validation.errors.insert(qualified(application), error);
        }
    }
    Ok(validation)
}

/// Validates what was generated, for those who only show it; Applications of a scoped set that name no project get its.
///
/// # Errors
/// When the set may not be processed, or something could not be looked up.
pub fn check(
    request: &Request<'_>,
    applications: &mut [Application],
    facts: &dyn Facts,
) -> Result<Validation, Stop> {
    let set = request.set;
    let scope = Scope::of(set, request.settings, request.control_plane_namespace, facts);
    let scope = scope.map_err(|error| match error {
        ScopeError::Pending => Stop::Pending,
        ScopeError::Refused(failure) => Stop::Failed(failure),
    })?;
    fill_projects(applications, &scope);
    let validation = validate(&set.metadata.name, applications, &scope, request.matching, facts);
    validation.map_err(|none| match none {
        NoAnswer::Pending => Stop::Pending,
        NoAnswer::Failed(reason) => Stop::Failed(Failure::new(SetReason::ApplicationValidationError, reason)),
    })
}

struct Checks<'a> {
    scope: &'a Scope,
    matching: ProjectMatching,
    facts: &'a dyn Facts,
    clusters: &'a Clusters,
    /// Whether projects exist.
    projects: HashMap<String, bool>,
}

impl Checks<'_> {
    fn error_of(&mut self, application: &Application) -> Result<Option<String>, NoAnswer> {
        let project = &application.spec.project;
        if let Some(own) = self.scope.project()
            && project != own.name()
        {
            let own = own.name();
            return Ok(Some(format!(
                "application project '{project}' does not match ApplicationSet project '{own}'"
            )));
        }
        if !self.exists(project)? {
            return Ok(Some(format!("application references project {project} which does not exist")));
        }
        let clusters = self.clusters.of_project(application.project());
        let cluster = match clusters.resolve(&application.spec.destination) {
            Ok(cluster) => cluster,
            Err(error) => {
                if let Some(unread) = clusters.doubt(&error) {
                    return Err(NoAnswer::failed(unread.to_string()));
                }
                return Ok(Some(format!("application destination spec is invalid: {error}")));
            }
        };
        Ok(self.scope_error(application, cluster))
    }

    fn exists(&mut self, project: &str) -> Result<bool, NoAnswer> {
        if let Some(exists) = self.projects.get(project) {
            return Ok(*exists);
        }
        let exists = self.facts.project(project)?.is_some();
        self.projects.insert(project.to_owned(), exists);
        Ok(exists)
    }

    /// What the project of a scoped set forbids (ASET-277).
    fn scope_error(&self, application: &Application, cluster: &Cluster) -> Option<String> {
        let project = self.scope.project()?;
        let denied = |url: &str| source_permitted(project, url, self.matching).message;
        if let Some(message) = source_urls(application).find_map(denied) {
            return Some(message);
        }
        let target = Target::new(cluster, &application.spec.destination.namespace);
        destination_permitted(project, target, Ok(self.clusters.all()), self.matching).message
    }
}

/// All repositories that an Application names, those of a hydrator included.
fn source_urls(application: &Application) -> impl Iterator<Item = &str> {
    let spec = &application.spec;
    let hydrator = spec.source_hydrator.iter();
    let hydrator = hydrator.flat_map(|hydrator| [hydrator.dry_source(), hydrator.sync_source()]);
    let hydrator = hydrator.map(|source| source.repo_url.as_str()).filter(|url| !url.is_empty());
    let all = spec.source.iter().chain(&spec.sources).map(|source| source.repo_url.as_str());
    all.chain(hydrator)
}

/// Whether a destination means a registered cluster (ASET-142).
pub(crate) fn resolves(
    clusters: ProjectClusters<'_, '_>,
    destination: Option<&Value>,
) -> Result<(), ClusterError> {
    let destination = destination.cloned().unwrap_or_default();
    let destination = serde_json::from_value(destination).unwrap_or_default();
    clusters.resolve(&destination).map(|_| ())
}
