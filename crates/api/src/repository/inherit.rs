//! Which repositories take the credentials of a template, and which shared credentials serve a project (REP-22, REP-33,
//! A3).

use super::{
    CredentialTemplate, FieldError, Repository, Selection, TemplateMatching, select, select_template,
};

/// Keys that a repository of a project may set beside inherited credentials: none of them says where the credentials
/// go, by which way, or who is trusted there.
const HARMLESS: [&str; 8] =
    ["url", "type", "name", "project", "enableOCI", "enableLfs", "depth", "webhookManifestCacheWarmDisabled"];

/// Whether shared credentials may serve an access: those of a template, and those of a repository that belongs to no
/// project. The argument is the repository that would be used.
pub type Shared<'a> = &'a dyn Fn(&Repository) -> bool;

/// The template of a repository without credentials of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum Inheritance<'a> {
    /// It has credentials, or no template covers its URL.
    Nothing,
    /// It takes these.
    Template(&'a CredentialTemplate),
    /// A template covers its URL, and the repository does not get it.
    Refused(&'a CredentialTemplate, Obstacle),
}

/// Why a repository of a project does not get the credentials of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The rules of its project do not permit its URL.
    Rules,
    /// These keys of it would travel with credentials that are not the project's.
    Settings(Vec<&'static str>),
}

impl std::fmt::Display for Obstacle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rules => out.write_str("sourceRepos of the project does not permit the URL"),
            Self::Settings(keys) => write!(
                out,
                "it sets {}; set that in the template, or give the repository credentials of its own",
                keys.join(", ")
            ),
        }
    }
}

/// Which template a repository takes its credentials from.
///
/// One that belongs to a project takes them as a whole, with the proxy, the TLS options and every other setting of their
/// owner, or not at all: what the project's right can write must not redirect them.
pub fn inheritance<'a>(
    repository: &Repository,
    templates: &'a [CredentialTemplate],
    matching: TemplateMatching,
    is_shared: Shared<'_>,
) -> Inheritance<'a> {
    if repository.credentials.is_present() {
        return Inheritance::Nothing;
    }
    let Some(Selection { chosen, .. }) = select_template(templates, &repository.url, matching) else {
        return Inheritance::Nothing;
    };
    if !is_shared(repository) {
        return Inheritance::Refused(chosen, Obstacle::Rules);
    }
    let settings = if repository.project.is_empty() { Vec::new() } else { settings_of(repository) };
    if settings.is_empty() {
        Inheritance::Template(chosen)
    } else {
        Inheritance::Refused(chosen, Obstacle::Settings(settings))
    }
}

fn settings_of(repository: &Repository) -> Vec<&'static str> {
    let fields = repository.fields().into_iter();
    fields.filter(|field| !field.is_zero && !HARMLESS.contains(&field.key)).map(|field| field.key).collect()
}

/// The repository with the credentials of its template, where it takes some.
///
/// # Errors
/// When the repository or the template has a field that cannot be read (REP-6).
pub fn inherit(
    mut repository: Repository,
    templates: &[CredentialTemplate],
    matching: TemplateMatching,
    is_shared: Shared<'_>,
) -> Result<Repository, FieldError> {
    if let Some(problem) = &repository.problem {
        return Err(problem.clone());
    }
    if let Inheritance::Template(template) = inheritance(&repository, templates, matching, is_shared) {
        if let Some(problem) = &template.problem {
            return Err(problem.clone());
        }
        repository.credentials.inherit(&template.credentials);
        if repository.r#type.is_empty() {
            repository.r#type.clone_from(&template.r#type);
        }
        repository.inherited_credentials = true;
    }
    Ok(repository)
}

/// The repository with the credentials an access uses; a bare one where no Secret has the URL, or none that may serve
/// the access (REP-20, 22).
///
/// # Errors
/// When the Secret or template that would be used has a field that cannot be read (REP-6).
pub fn resolve(
    repositories: &[Repository],
    templates: &[CredentialTemplate],
    (url, project): (&str, &str),
    matching: TemplateMatching,
    is_shared: Shared<'_>,
) -> Result<Repository, FieldError> {
    let repository = match select(repositories, url, project) {
        Some(selection) => selection.chosen.clone(),
        None => Repository::bare(url),
    };
    if repository.project.is_empty() && !is_shared(&repository) {
        return Ok(Repository::bare(url));
    }
    inherit(repository, templates, matching, is_shared)
}
