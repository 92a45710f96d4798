//! Clusters that the generators of a set see, and which one counts where several have the same name (ASET-39, ASET-273,
//! A3).

use std::cmp::Reverse;

use serde_json::{Map, Value};
use tiphys_api::ApplicationSet;
use tiphys_api::cluster::Cluster;
use tiphys_api::project::DEFAULT_PROJECT;

use super::Run;
use crate::generator::{Level, visit};

impl Run<'_> {
    /// Whether generators see a cluster. What belongs to a project is there for Applications of that project alone, so a
    /// set whose template names another one does not see it.
    pub(super) fn sees(&self, cluster: &Cluster) -> bool {
        let fits = cluster.project.is_empty()
            || self.scope.project().is_some()
            || project_of_applications(self.request.set).is_none_or(|project| project == cluster.project);
        fits && self.scope.sees(cluster, self.request.settings, self.request.matching)
    }

    /// Order in which clusters of the same name count, the first one first. A project's Applications mean the project's
    /// own; otherwise no project's entry takes the place of a shared one, nor a newer one that of another project.
    pub(super) fn precedence<'c>(&self, cluster: &'c Cluster) -> impl Ord + use<'c> {
        let set = self.request.set;
        let own = match self.scope.project() {
            Some(project) => Some(project.name()),
            None => project_of_applications(set),
        };
        let rank = match own {
            Some(own) if own == cluster.project => 0,
            _ if cluster.project.is_empty() => 1,
            _ => 2,
        };
        // Within one scope the greatest Secret counts.
        let age = (rank == 2).then(|| (cluster.created_at.is_none(), &cluster.created_at, &cluster.project));
        (rank, age, Reverse(&cluster.secret_name))
    }
}

/// The one project of all Applications that an unscoped set can make; `None` where templates decide.
fn project_of_applications(set: &ApplicationSet) -> Option<&str> {
    let project = set.template_project();
    // A patch changes no project (ASET-120).
    if project.contains("{{") || set.spec.generators.iter().any(|entry| overrides(entry, project)) {
        return None;
    }
    Some(if project.is_empty() { DEFAULT_PROJECT } else { project })
}

/// Whether a generator has a template of its own with another project.
fn overrides(entry: &Map<String, Value>, project: &str) -> bool {
    let mut found = false;
    visit(entry, Level::Top, &mut |generator| {
        let own = generator.block.get("template").and_then(|template| template.pointer("/spec/project"));
        found |= own.and_then(Value::as_str).is_some_and(|own| !own.is_empty() && own != project);
    });
    found
}
