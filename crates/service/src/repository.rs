//! Repositories: what a call would change, and what it shows (REP A1, A6).
//!
//! Everything here is a pure function over the Secrets as they were read. Effects are in [`Repositories`].

mod shell;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use tiphys_api::repo_url;
use tiphys_api::repository::{
    ApiSelectionError, FieldError, Repository, Selection, differing_keys, mutation_target,
};

use crate::change::Change;
use crate::error::Code;
use crate::managed::{self, SecretError};
use crate::planned::Planned;
use crate::purpose::Purpose;
use crate::secrets::Secrets;

pub use shell::{Create, Listed, Repositories};
pub use view::{read, sent, shown};

/// Why a call about a repository fails. Texts show URLs without what stands before their host (REP-18).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepositoryError {
    /// There is no URL.
    #[error("must specify URL")]
    MissingUrl,
    /// Nothing is ever fetched from such a URL, whatever a project permits.
    #[error("repository URL '{0}' has a segment \".\" or \"..\" in its path")]
    Url(String),
    /// It exists with other content (REP-47).
    #[error(
        "existing repository spec is different; use upsert flag to force update; difference in keys \"{}\"", .0.join(",")
    )]
    Different(Vec<&'static str>),
    /// There is none with this URL in exactly this project (REP-45, REP-48).
    #[error("repo '{0}' not found")]
    NotFound(String),
    /// It cannot be told which one is meant (REP-43).
    #[error(transparent)]
    Selection(#[from] ApiSelectionError),
    /// The Secret that would be used has a field that cannot be read (REP-6).
    #[error(transparent)]
    Field(#[from] FieldError),
    /// The values cannot be stored.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// Nothing is pushed in this installation (REP-50).
    #[error("hydrator is disabled")]
    HydratorDisabled,
    /// A push needs credentials (REP-50).
    #[error("missing credentials in request")]
    MissingCredentials,
    /// The server of the repository does not answer as it should (REP-78).
    #[error("error testing repository connectivity: {0}")]
    Connection(String),
}

impl RepositoryError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            // REP-44: the reference says `Unknown` for a URL that is not clear.
            Self::MissingUrl
            | Self::Url(_)
            | Self::MissingCredentials
            | Self::Different(_)
            | Self::Selection(ApiSelectionError::Ambiguous { .. }) => Code::InvalidArgument,
            Self::HydratorDisabled => Code::Unimplemented,
            Self::NotFound(_) => Code::NotFound,
            Self::Selection(_) => Code::PermissionDenied,
            // The reference gives the last one no class, which makes it look like a failure of the server.
            Self::Field(_) | Self::Connection(_) => Code::FailedPrecondition,
            Self::Secret(error) => error.code(),
        }
    }
}

/// A deletion.
#[derive(Clone, Debug, PartialEq)]
pub struct Removal {
    /// What to do.
    pub planned: Planned,
    /// Other Secrets for the same URL and project, one of which counts from then on (REP-21).
    pub left: Vec<String>,
}

/// Whether a repository may be stored at all.
///
/// # Errors
/// With the first thing that is wrong with it.
pub fn check(wanted: &Repository) -> Result<(), RepositoryError> {
    if wanted.url.trim().is_empty() {
        return Err(RepositoryError::MissingUrl);
    }
    if repo_url::has_dot_segment(&wanted.url) {
        return Err(RepositoryError::Url(repo_url::redact(&wanted.url)));
    }
    managed::check(&wanted.fields())?;
    Ok(managed::check_project(&wanted.project)?)
}

/// What creating a repository changes (REP-46, REP-47): nothing when it exists as wanted, the existing one with
/// `upsert`. Only a Secret with this URL and exactly this project exists in this sense.
///
/// # Errors
/// When it exists and is different, or cannot be stored.
pub fn plan_create(
    secrets: &Secrets,
    purpose: Purpose,
    wanted: &Repository,
    upsert: bool,
) -> Result<Planned, RepositoryError> {
    check(wanted)?;
    let kind = purpose.repositories();
    let (stored, made) = (secrets.repositories(kind), (purpose, wanted));
    let Some(Selection { chosen: existing, .. }) = mutation_target(&stored, &wanted.url, &wanted.project)
    else {
        let address = (wanted.url.as_str(), wanted.project.as_str());
        return Ok(Planned::created(&made, managed::create(secrets, kind, address, &wanted.fields())?));
    };
    let differing = differences(existing, wanted);
    if differing.is_empty() {
        return Ok(Planned::created(&made, Change::Keep));
    }
    if !upsert {
        return Err(RepositoryError::Different(differing));
    }
    Ok(Planned::updated(&(purpose, existing), &made, update_of(secrets, existing, wanted)))
}

/// What updating a repository changes: the Secret of exactly this URL and project (REP-48).
///
/// # Errors
/// When there is none, or the values cannot be stored.
pub fn plan_update(
    secrets: &Secrets,
    purpose: Purpose,
    wanted: &Repository,
) -> Result<Planned, RepositoryError> {
    check(wanted)?;
    let stored = secrets.repositories(purpose.repositories());
    match mutation_target(&stored, &wanted.url, &wanted.project) {
        Some(Selection { chosen, .. }) => {
            let change = update_of(secrets, chosen, wanted);
            Ok(Planned::updated(&(purpose, chosen), &(purpose, wanted), change))
        }
        None => Err(not_found(&wanted.url)),
    }
}

/// What deleting a repository changes: the Secret of exactly this URL and project, never a fallback (REP-45).
///
/// # Errors
/// When there is none.
pub fn plan_delete(
    secrets: &Secrets,
    purpose: Purpose,
    url: &str,
    project: &str,
) -> Result<Removal, RepositoryError> {
    let stored = secrets.repositories(purpose.repositories());
    let target = mutation_target(&stored, url, project).ok_or_else(|| not_found(url))?;
    let object = secrets.get(&target.chosen.secret_name).ok_or_else(|| not_found(url))?;
    let is_other = |other: &&Repository| {
        other.project == project
            && repo_url::same(&other.url, url)
            && other.secret_name != target.chosen.secret_name
    };
    let left = stored.iter().filter(is_other).map(|other| other.secret_name.clone()).collect();
    Ok(Removal { planned: Planned::deleted(&(purpose, target.chosen), managed::delete(object)), left })
}

/// Keys in which a stored repository is not the wanted one; one that cannot be read differs in the bad field.
fn differences(stored: &Repository, wanted: &Repository) -> Vec<&'static str> {
    let mut keys = differing_keys(&stored.fields(), &wanted.fields());
    if let Some(FieldError::Bool { field, .. } | FieldError::Integer { field, .. }) = &stored.problem
        && !keys.contains(field)
    {
        keys.push(field);
    }
    keys
}

fn update_of(secrets: &Secrets, stored: &Repository, wanted: &Repository) -> Change {
    match secrets.get(&stored.secret_name) {
        Some(object) => managed::update(object, &wanted.fields()),
        None => Change::Keep,
    }
}

fn not_found(url: &str) -> RepositoryError {
    RepositoryError::NotFound(repo_url::redact(url))
}
