//! Clusters that the generators of a set see, and which one counts where several have the same name (ASET-39, ASET-273,
//! A3).

use std::cmp::Reverse;

use tiphys_api::cluster::Cluster;

use super::Run;
use crate::scope::projects_of_applications;

impl Run<'_> {
    /// Whether generators see a cluster. What belongs to a project is there for Applications of that project alone, so a
    /// set whose template names another one does not see it.
    pub(super) fn sees(&self, cluster: &Cluster) -> bool {
        let fits = cluster.project.is_empty()
            || self.scope.project().is_some()
            || projects_of_applications(self.request.set)
                .is_none_or(|projects| projects.contains(cluster.project.as_str()));
        fits && self.scope.sees(cluster, self.request.settings, self.request.matching)
    }

    /// Order in which clusters of the same name count, the first one first. A project's Applications mean the project's
    /// own; otherwise no project's entry takes the place of a shared one, nor a newer one that of another project.
    pub(super) fn precedence<'c>(&self, cluster: &'c Cluster) -> impl Ord + use<'c> {
        let set = self.request.set;
        let own = match self.scope.project() {
            Some(project) => Some(project.name()),
            None => projects_of_applications(set)
                .filter(|projects| projects.len() == 1)
                .and_then(|projects| projects.first().copied()),
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
