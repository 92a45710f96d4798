//! Calls about repositories, in the order of the specification: may they, does it answer, write (REP-42..49).

use futures::StreamExt as _;
use tiphys_api::repo_url;
use tiphys_api::repository::{CredentialTemplate, Repository, select_for_api};
use tiphys_installation::Installation;
use tiphys_source::Sources;

use super::{Removal, RepositoryError, plan_create, plan_delete, plan_update};
use crate::access::{Action, Caller};
use crate::connection::{self, Asking, Connections, State, Which};
use crate::error::Error;
use crate::planned::Guarded as _;
use crate::purpose::Purpose;
use crate::secrets::Secrets;
use crate::store::Store;

/// Repositories that are asked at a time.
const TESTS_MAX: usize = 8;

/// A repository to create (REP-40).
#[derive(Clone, Debug)]
pub struct Create {
    /// As wanted.
    pub repository: Repository,
    /// Whether one that exists is changed.
    pub upsert: bool,
    /// Whether [`Repositories::validate`] has just said yes.
    pub is_validated: bool,
}

/// A repository with what is known of its connection.
#[derive(Clone, Debug)]
pub struct Listed {
    /// With the credentials in force, which are for no answer.
    pub repository: Repository,
    /// As it is stored: what a template gave it is for nobody who may see the repository alone.
    pub stored: Repository,
    /// Its connection.
    pub state: State,
}

impl Listed {
    /// What may be shown: the stored repository, and that it takes credentials of a template (A3).
    pub fn shown(&self) -> Repository {
        Repository {
            r#type: self.repository.r#type.clone(),
            inherited_credentials: self.repository.inherited_credentials,
            ..self.stored.clone()
        }
    }
}

/// Calls about the repositories of an installation: those to read with, or those to push with (REP-23).
#[derive(Clone, Copy)]
pub struct Repositories<'a> {
    store: &'a Store,
    caller: Caller<'a>,
    installation: &'a Installation,
    purpose: Purpose,
}

impl std::fmt::Debug for Repositories<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repositories").field("caller", &self.caller).finish_non_exhaustive()
    }
}

impl<'a> Repositories<'a> {
    /// Calls of a caller; settings and projects of the installation say which templates serve a repository (REP-32, A3).
    pub fn new(store: &'a Store, caller: Caller<'a>, installation: &'a Installation) -> Self {
        Self { store, caller, installation, purpose: Purpose::Read }
    }

    /// The same about those that hydrated manifests are pushed with (REP-50).
    ///
    /// # Errors
    /// When nothing is hydrated in this installation.
    pub fn to_push(
        store: &'a Store,
        caller: Caller<'a>,
        installation: &'a Installation,
        is_hydrator_enabled: bool,
    ) -> Result<Self, Error> {
        if !is_hydrator_enabled {
            return Err(RepositoryError::HydratorDisabled.into());
        }
        Ok(Self { store, caller, installation, purpose: Purpose::Push })
    }

    fn may(&self, action: Action, repository: &Repository) -> Result<(), Error> {
        (self.purpose, repository).needs(action).iter().try_for_each(|need| need.check(self.caller))
    }

    fn templates(&self, secrets: &Secrets) -> Vec<CredentialTemplate> {
        secrets.templates(self.purpose.templates())
    }

    /// What the caller may see, as it is stored, sorted (REP-42).
    pub fn visible(&self, secrets: &Secrets) -> Vec<Repository> {
        let mut found: Vec<Repository> = secrets
            .repositories(self.purpose.repositories())
            .into_iter()
            .filter(|found| self.may(Action::Get, found).is_ok())
            .collect();
        found.sort_by_cached_key(|found| {
            (format!("{}/{}", found.project, found.url), found.secret_name.clone())
        });
        found
    }

    /// Takes credentials of a template where there are none (REP-22). A template that cannot be read makes the
    /// repository one that cannot be used.
    fn inheriting(&self, repository: Repository, templates: &[CredentialTemplate]) -> Repository {
        match self.installation.with_template(repository.clone(), templates) {
            Ok(found) => found,
            Err(problem) => Repository { problem: Some(problem), ..repository },
        }
    }

    /// All that the caller may see, with the state of each connection (REP-42, REP-79).
    pub async fn list(&self, secrets: &Secrets, asking: Asking<'_>) -> Vec<Listed> {
        let templates = self.templates(secrets);
        let visible = self.visible(secrets).into_iter();
        let asked: Vec<_> = visible.map(|stored| self.listed(secrets, stored, &templates, asking)).collect();
        futures::stream::iter(asked).buffered(TESTS_MAX).collect().await
    }

    /// The repository that a call means (REP-43, REP-44).
    ///
    /// # Errors
    /// When none or several are meant.
    pub async fn get(
        &self,
        secrets: &Secrets,
        (url, project): (&str, Option<&str>),
        asking: Asking<'_>,
    ) -> Result<Listed, Error> {
        let visible = self.visible(secrets);
        let found = select_for_api(&visible, url, project).map_err(RepositoryError::from)?.clone();
        self.may(Action::Get, &found)?;
        let templates = self.templates(secrets);
        if let Some(problem) = self.inheriting(found.clone(), &templates).problem {
            // A list goes on without it; who asks for this one is told (REP-6).
            return Err(RepositoryError::Field(problem).into());
        }
        Ok(self.listed(secrets, found, &templates, asking).await)
    }

    /// Whether a repository can be reached as described (REP-49, REP-78).
    ///
    /// # Errors
    /// When the caller may not create it, it may not be stored, or does not answer.
    pub async fn validate(
        &self,
        secrets: &Secrets,
        wanted: &Repository,
        sources: &Sources,
    ) -> Result<(), Error> {
        super::check(wanted)?;
        self.may(Action::Create, wanted)?;
        let with_template = self.inheriting(wanted.clone(), &self.templates(secrets));
        let asked = connection::test(sources, &with_template).await;
        Ok(asked.map_err(|trouble| RepositoryError::Connection(trouble.to_string()))?)
    }

    /// Creates a repository (REP-46, REP-47). One to read from that has no project is tested first, one to push to always
    /// is, and it has credentials of its own (REP-50).
    ///
    /// # Errors
    /// Those of [`Repositories::validate`], and when it exists and is different.
    pub async fn create(
        &self,
        secrets: &mut Secrets,
        call: &Create,
        sources: &Sources,
    ) -> Result<bool, Error> {
        let wanted = &call.repository;
        super::check(wanted)?;
        self.may(Action::Create, wanted)?;
        if self.purpose == Purpose::Push && !wanted.credentials.is_present() {
            return Err(RepositoryError::MissingCredentials.into());
        }
        let is_tested = wanted.project.is_empty() || self.purpose == Purpose::Push;
        if is_tested && !call.is_validated {
            self.validate(secrets, wanted, sources).await?;
        }
        let plan = |secrets: &Secrets| plan_create(secrets, self.purpose, wanted, call.upsert);
        self.store.settle(secrets, self.caller, plan).await
    }

    /// Changes a repository (REP-48).
    ///
    /// # Errors
    /// When there is none with this URL and exactly this project.
    pub async fn update(&self, secrets: &mut Secrets, wanted: &Repository) -> Result<bool, Error> {
        self.may(Action::Update, wanted)?;
        self.store.settle(secrets, self.caller, |secrets| plan_update(secrets, self.purpose, wanted)).await
    }

    /// Deletes the repository that a call means (REP-43, REP-45). Answers with the names of other Secrets that
    /// declare the same one. What is `known` of its connection is forgotten.
    ///
    /// # Errors
    /// When none or several are meant.
    pub async fn delete(
        &self,
        secrets: &mut Secrets,
        (url, project): (&str, Option<&str>),
        known: Option<&Connections>,
    ) -> Result<Vec<String>, Error> {
        let visible = self.visible(secrets);
        let found = select_for_api(&visible, url, project).map_err(RepositoryError::from)?.clone();
        self.may(Action::Delete, &found)?;
        let purpose = self.purpose;
        let Removal { left, .. } = plan_delete(secrets, purpose, &found.url, &found.project)?;
        let plan = |secrets: &Secrets| {
            plan_delete(secrets, purpose, &found.url, &found.project).map(|removal| removal.planned)
        };
        self.store.settle(secrets, self.caller, plan).await?;
        if let Some(known) = known {
            known.forget(&self.which(&found));
        }
        Ok(left)
    }

    fn which(&self, repository: &Repository) -> Which {
        Which {
            pushes: self.purpose == Purpose::Push,
            url: repo_url::normalize(&repository.url),
            project: repository.project.clone(),
        }
    }

    /// A repository with the state of its connection: as it was found out a short time ago, or as it is now (REP-79).
    async fn listed(
        &self,
        secrets: &Secrets,
        stored: Repository,
        templates: &[CredentialTemplate],
        asking: Asking<'_>,
    ) -> Listed {
        let repository = self.inheriting(stored.clone(), templates);
        let Some(sources) = asking.sources else {
            return Listed { repository, stored, state: State::unknown("") };
        };
        let which = self.which(&repository);
        let secret = secrets.get(&repository.secret_name);
        let version = secret.map_or("", |secret| secret.metadata().resource_version.as_str());
        let remembered = asking.known.filter(|_| !asking.is_forced);
        if let Some(state) = remembered.and_then(|known| known.get(&which, version, asking.now)) {
            return Listed { repository, stored, state };
        }
        let state = State::of(&connection::test(sources, &repository).await, asking.now);
        if let Some(known) = asking.known {
            known.put(which, version, &state);
        }
        Listed { repository, stored, state }
    }
}
