//! Which credentials an access of a project uses: its own, and shared ones as far as its stored rules go (REP-20..26, A3).

use std::collections::BTreeSet;
use std::sync::Arc;

use tiphys_api::AppProject;
use tiphys_api::repository::{self, CredentialTemplate, Inheritance, Reach, Repository};
use tiphys_policy::project::{shared_source_matches, source_permitted};

use crate::{Installation, NoProject};

/// Warnings that name each case.
const WARNINGS_MAX: usize = 50;
/// Repositories without credentials that are looked at for warnings; what each of them may do is decided when it is used.
const LOOKED_AT_MAX: usize = 1_000;

impl Installation {
    /// The repository and credentials that applications of a project use for a URL (REP-20).
    ///
    /// # Errors
    /// When the Secret that applies cannot be read.
    pub fn repository(&self, url: &str, project: &str) -> Result<Repository, String> {
        let (access, matching) = ((url, project), self.settings.template_matching());
        let is_shared = |found: &Repository| self.serves(project, found);
        let mut found =
            repository::resolve(&self.repositories, &self.templates, access, matching, &is_shared)
                .map_err(|error| error.to_string())?;
        found.reach = self.reach(project, &found);
        // From here on it says with whom the access shares what is fetched (REP-60, REP-64).
        found.project = self.settings.checkout_isolation().scope(project, &found.project).to_owned();
        Ok(found)
    }

    /// The repository and credentials that manifests of applications of these projects are pushed with: those of the project
    /// when there is one, else those of nobody's alone (CTL-113). Without any, the push is tried anonymously.
    ///
    /// # Errors
    /// When the Secret that applies cannot be read.
    pub fn push_repository(&self, url: &str, projects: &BTreeSet<&str>) -> Result<Repository, String> {
        let project = match projects.iter().collect::<Vec<_>>()[..] {
            [only] => *only,
            _ => "",
        };
        let (access, matching) = ((url, project), self.settings.template_matching());
        let is_shared = |found: &Repository| projects.iter().all(|project| self.serves(project, found));
        repository::resolve(&self.write_repositories, &self.write_templates, access, matching, &is_shared)
            .map_err(|error| error.to_string())
    }

    /// A repository with the credentials that it takes from a template; without them where there are none for it.
    ///
    /// # Errors
    /// When a field of the repository or of the template cannot be read.
    pub fn with_template(
        &self,
        repository: Repository,
        templates: &[CredentialTemplate],
    ) -> Result<Repository, repository::FieldError> {
        let project = repository.project.clone();
        let is_shared = |found: &Repository| self.serves(&project, found);
        repository::inherit(repository, templates, self.settings.template_matching(), &is_shared)
    }

    /// Whether shared credentials serve a project at a repository: as far as its stored rules go (A3). What a project's
    /// right created is no rule.
    pub fn serves(&self, project: &str, found: &Repository) -> bool {
        match self.project(project) {
            _ if project.is_empty() => true,
            Ok(project) => shared_source_matches(project, &found.url, self.settings.project_matching()),
            // Nothing is rendered for a project that does not exist; its Secrets inherit nothing either.
            Err(NoProject::Missing) => found.project.is_empty(),
            Err(NoProject::Unreadable(_)) => false,
        }
    }

    /// How far the credentials of a repository go for a project.
    fn reach(&self, project: &str, found: &Repository) -> Option<Reach> {
        let is_shared = found.project.is_empty() || found.inherited_credentials;
        let is_limited = is_shared && found.credentials.is_present();
        let project = self.project(project).ok().filter(|_| is_limited)?;
        let rules = &project.spec.source_repos;
        let is_all = rules.iter().any(|rule| rule == "*") && !rules.iter().any(|rule| rule.starts_with('!'));
        (!is_all).then(|| Reach {
            source_repos: Arc::from(rules.as_slice()),
            matching: self.settings.project_matching(),
        })
    }

    /// Warnings about repositories of projects that a template covers and that do not get its credentials.
    pub(crate) fn refused_templates(&self) -> Vec<String> {
        let matching = self.settings.template_matching();
        let of_kind =
            [(&self.repositories, &self.templates), (&self.write_repositories, &self.write_templates)];
        let mut texts = Vec::new();
        for (repositories, templates) in of_kind {
            let may_inherit = |repository: &&Repository| {
                !repository.project.is_empty() && !repository.credentials.is_present()
            };
            for repository in repositories.iter().filter(may_inherit).take(LOOKED_AT_MAX) {
                let is_shared = |found: &Repository| self.serves(&repository.project, found);
                let found = repository::inheritance(repository, templates, matching, &is_shared);
                let Inheritance::Refused(template, obstacle) = found else { continue };
                texts.push(format!(
                    "repository Secret {} of project {} does not inherit from template Secret {}: {obstacle}",
                    repository.secret_name, repository.project, template.secret_name
                ));
            }
        }
        let more = texts.len().saturating_sub(WARNINGS_MAX);
        texts.truncate(WARNINGS_MAX);
        if more > 0 {
            texts.push(format!("{more} more repositories of projects do not inherit from a template"));
        }
        texts
    }

    /// The repository and credentials for a chart that another chart depends on (REP-25, REP-26, RND-104).
    ///
    /// Only what the project permits has credentials; other repositories are asked without any. Of a registry the
    /// longest configured part of the path counts.
    ///
    /// # Errors
    /// When the Secret that applies cannot be read.
    pub fn dependency_repository(
        &self,
        url: &str,
        project: &AppProject,
        source_is_oci: bool,
    ) -> Result<Repository, String> {
        let permitted = |known: &Repository| self.may_use(project, known);
        let is_oci = url.starts_with("oci://");
        let known = repository::dependency_repositories(
            &self.repositories,
            project.name(),
            source_is_oci || is_oci,
            permitted,
        );
        let place = url.strip_prefix("oci://").unwrap_or(url);
        let covers = |known: &Repository| {
            let own = known.url.strip_prefix("oci://").unwrap_or(&known.url).trim_end_matches('/');
            let rest = place.strip_prefix(own).filter(|_| is_oci && known.credentials.enable_oci)?;
            (rest.is_empty() || rest.starts_with('/')).then_some(own.len())
        };
        let same = known.iter().find(|known| tiphys_api::repo_url::same(&known.url, url));
        let longest = || {
            let covering = known.iter().filter_map(|known| covers(known).map(|length| (length, known)));
            covering.max_by_key(|(length, _)| *length).map(|(_, known)| known)
        };
        let (mut found, matching) = (Repository::bare(url), self.settings.template_matching());
        if let Some(known) = same.or_else(longest) {
            found = Repository { url: url.to_owned(), ..Repository::clone(known) };
        } else if permitted(&found) {
            found = repository::inherit(found, &self.templates, matching, &|_| true)
                .map_err(|error| error.to_string())?;
        }
        let scope = self.settings.checkout_isolation().scope(project.name(), &found.project).to_owned();
        Ok(Repository { project: scope, ..found })
    }

    /// Whether a project may use the credentials of a repository: its own, or shared ones for what its rules permit.
    fn may_use(&self, project: &AppProject, known: &Repository) -> bool {
        let matching = self.settings.project_matching();
        if known.project.is_empty() {
            shared_source_matches(project, &known.url, matching)
        } else {
            source_permitted(project, &known.url, matching).permitted
        }
    }

    /// Names and URLs of the chart repositories that dependencies of a project's charts may be written with.
    pub fn named_chart_repositories(&self, project: &AppProject) -> Vec<(String, String)> {
        let permitted = |known: &Repository| self.may_use(project, known);
        let known = repository::dependency_repositories(&self.repositories, project.name(), false, permitted);
        known.into_iter().map(|known| (known.name.clone(), known.url.clone())).collect()
    }
}
