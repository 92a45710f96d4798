//! Which Secret an access uses (REP A4, A5) and which one a call of the API means (REP-43, 45, 48).

use std::collections::BTreeSet;

use crate::repo_url::{normalize, redact, same};

use super::{CredentialTemplate, Repository};

/// A choice among candidates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Selection<'a, T> {
    /// The one to use.
    pub chosen: &'a T,
    /// How many others would have done as well: a misconfiguration to report (REP-21).
    pub duplicates: usize,
}

/// How the URL of a template is compared (REP-31, 32).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TemplateMatching {
    /// A template that ends with the host does not reach into longer host names.
    #[default]
    HostBoundary,
    /// Plain prefix.
    Prefix,
}

/// Why the API cannot tell which repository a call means (REP-43).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiSelectionError {
    /// Nothing visible has the URL.
    #[error("permission denied")]
    Denied,
    /// Several have the URL, none the project.
    #[error("repository not found for url {:?} and project {project:?}{}", redact(.url), suffix(.matching))]
    Ambiguous {
        /// URL of the call.
        url: String,
        /// Project of the call.
        project: String,
        /// Projects of the visible candidates; empty when the project was given (REP-44).
        matching: Vec<String>,
    },
}

fn suffix(matching: &[String]) -> String {
    if matching.is_empty() {
        return String::new();
    }
    format!("; matching projects: {} (set appProject)", matching.join(", "))
}

/// The repository Secret an Application of a project uses; of the project, else of none (REP-20, 21).
pub fn select<'a>(
    repositories: &'a [Repository],
    url: &str,
    project: &str,
) -> Option<Selection<'a, Repository>> {
    let within = |scope: &str| {
        let candidates: Vec<_> =
            repositories.iter().filter(|r| r.project == scope && same(&r.url, url)).collect();
        oldest(&candidates, |r| (&r.created_at, &r.secret_name))
    };
    let scoped = if project.is_empty() { None } else { within(project) };
    scoped.or_else(|| within(""))
}

/// The template for a URL: the longest one that matches (REP-30..32).
pub fn select_template<'a>(
    templates: &'a [CredentialTemplate],
    url: &str,
    matching: TemplateMatching,
) -> Option<Selection<'a, CredentialTemplate>> {
    let url = normalize(url);
    let matched: Vec<_> = templates
        .iter()
        .map(|template| (normalize(&template.url), template))
        .filter(|(prefix, _)| template_covers(prefix, &url, matching))
        .collect();
    let longest = matched.iter().map(|(prefix, _)| prefix.len()).max()?;
    let candidates: Vec<_> =
        matched.iter().filter(|(prefix, _)| prefix.len() == longest).map(|(_, template)| *template).collect();
    oldest(&candidates, |t| (&t.created_at, &t.secret_name))
}

/// URLs for which several Secrets declare the same repository of the same project, or the same template (REP-21). One of
/// them counts, and which one is told by its age; the URL is shown without what stands before its host.
pub fn duplicates(repositories: &[Repository], templates: &[CredentialTemplate]) -> BTreeSet<String> {
    let mut known: BTreeSet<(&str, String)> = BTreeSet::new();
    let declared = repositories.iter().map(|r| (Some(r.project.as_str()), r.url.as_str()));
    // No project is called like this: templates and repositories of the same URL are no duplicates (REP-34).
    let declared = declared.chain(templates.iter().map(|template| (None, template.url.as_str())));
    let key =
        |url: &str| Some(normalize(url)).filter(|key| !key.is_empty()).unwrap_or_else(|| url.to_owned());
    declared
        .filter(|(project, url)| !known.insert((project.unwrap_or("*"), key(url))))
        .map(|(_, url)| redact(url))
        .collect()
}

/// The Secret that update and delete may touch: exactly this URL and project, never a fallback (REP-45, 48).
pub fn mutation_target<'a>(
    repositories: &'a [Repository],
    url: &str,
    project: &str,
) -> Option<Selection<'a, Repository>> {
    let candidates: Vec<_> =
        repositories.iter().filter(|r| r.project == project && same(&r.url, url)).collect();
    oldest(&candidates, |r| (&r.created_at, &r.secret_name))
}

/// The template that update and delete may touch: exactly this URL, never a shorter prefix (REP-35).
pub fn template_mutation_target<'a>(
    templates: &'a [CredentialTemplate],
    url: &str,
) -> Option<Selection<'a, CredentialTemplate>> {
    let candidates: Vec<_> = templates.iter().filter(|t| same(&t.url, url)).collect();
    oldest(&candidates, |t| (&t.created_at, &t.secret_name))
}

/// The repository a get or delete call means, among those visible to the caller (REP-43, 44). A call that names the
/// empty project means the unscoped one (CLI-803); one that names none is content with the only one there is.
pub fn select_for_api<'a>(
    visible: &'a [Repository],
    url: &str,
    project: Option<&str>,
) -> Result<&'a Repository, ApiSelectionError> {
    let found: Vec<_> = visible.iter().filter(|r| same(&r.url, url)).collect();
    match (found.as_slice(), project) {
        ([], _) => return Err(ApiSelectionError::Denied),
        ([only], None) => return Ok(only),
        _ => {}
    }
    let project = project.unwrap_or_default();
    let candidates: Vec<_> = found.iter().copied().filter(|r| r.project == project).collect();
    if let Some(selection) = oldest(&candidates, |r| (&r.created_at, &r.secret_name)) {
        return Ok(selection.chosen);
    }
    let mut matching: Vec<String> = match project {
        "" => found.iter().map(|r| r.project.clone()).collect(),
        _ => vec![],
    };
    matching.sort();
    matching.dedup();
    Err(ApiSelectionError::Ambiguous { url: url.to_owned(), project: project.to_owned(), matching })
}

/// Repositories whose credentials Helm dependencies of a project may use (REP-25, 26).
///
/// `permitted` says whether the project may use a repository. Entries of the project hide unscoped ones of the same URL.
pub fn dependency_repositories<'a>(
    repositories: &'a [Repository],
    project: &str,
    source_is_oci: bool,
    permitted: impl Fn(&Repository) -> bool,
) -> Vec<&'a Repository> {
    let of_type = |r: &Repository| match r.effective_type() {
        "helm" => !r.name.is_empty(),
        "oci" => source_is_oci,
        _ => false,
    };
    // Deviation (REP-26): credentials of other projects are never passed on.
    let usable = |r: &&Repository| {
        of_type(r) && (r.project.is_empty() || r.project == project) && r.problem.is_none() && permitted(r)
    };
    let candidates: Vec<_> = repositories.iter().filter(usable).collect();
    let hidden = |r: &Repository| {
        r.project.is_empty() && candidates.iter().any(|o| !o.project.is_empty() && same(&o.url, &r.url))
    };
    candidates.iter().copied().filter(|r| !hidden(r)).collect()
}

/// Oldest first, then by the name of the Secret; an unknown age counts as young.
fn oldest<'a, T>(
    candidates: &[&'a T],
    age: impl Fn(&T) -> (&Option<String>, &String),
) -> Option<Selection<'a, T>> {
    let chosen = candidates.iter().copied().min_by(|a, b| {
        let key = |item: &T| {
            let (created_at, name) = age(item);
            (created_at.is_none(), created_at.clone(), name.clone())
        };
        key(a).cmp(&key(b))
    })?;
    Some(Selection { chosen, duplicates: candidates.len() - 1 })
}

/// Both sides are normalised; a broken URL is the empty text.
fn template_covers(prefix: &str, url: &str, matching: TemplateMatching) -> bool {
    let Some(rest) = url.strip_prefix(prefix) else { return false };
    if prefix.is_empty() {
        return false;
    }
    let authority = prefix.split_once("://").map_or(prefix, |(_, authority)| authority);
    if matching == TemplateMatching::Prefix || authority.contains('/') {
        return true;
    }
    // Deviation (REP-32): "https://github.com" must not reach "https://github.com.evil.example", nor a host
    // that follows what only looks like a port.
    let authority_rest = rest.split('/').next().unwrap_or_default();
    (rest.is_empty() || rest.starts_with(['/', ':'])) && !authority_rest.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository::{Credentials, resolve};

    fn repository(secret: &str, url: &str, project: &str) -> Repository {
        Repository {
            url: url.to_owned(),
            project: project.to_owned(),
            secret_name: secret.to_owned(),
            ..Repository::default()
        }
    }

    fn template(secret: &str, url: &str) -> CredentialTemplate {
        CredentialTemplate {
            url: url.to_owned(),
            secret_name: secret.to_owned(),
            credentials: Credentials { password: "p".into(), ..Credentials::default() },
            ..CredentialTemplate::default()
        }
    }

    fn chosen(repositories: &[Repository], url: &str, project: &str) -> Option<String> {
        select(repositories, url, project).map(|s| s.chosen.secret_name.clone())
    }

    #[test]
    fn rep_20_own_project_then_unscoped_never_others() {
        let all = [
            repository("other", "https://h/r", "ops"),
            repository("unscoped", "https://h/r", ""),
            repository("own", "https://H/r.git", "shop"),
        ];
        assert_eq!(chosen(&all, "https://h/r", "shop").as_deref(), Some("own"));
        assert_eq!(chosen(&all, "https://h/r", "web").as_deref(), Some("unscoped"));
        assert_eq!(chosen(&all, "https://h/r", "").as_deref(), Some("unscoped"));
        assert_eq!(chosen(&all[..1], "https://h/r", "shop"), None);
        assert_eq!(chosen(&all[..1], "https://h/r", ""), None);
    }

    #[test]
    fn rep_21_the_oldest_then_the_smallest_name_wins() {
        let mut all = [repository("b", "https://h/r", ""), repository("a", "https://h/r", "")];
        assert_eq!(chosen(&all, "https://h/r", "").as_deref(), Some("a"));
        all[0].created_at = Some("2024-01-01T00:00:00Z".to_owned());
        assert_eq!(chosen(&all, "https://h/r", "").as_deref(), Some("b"));
        all[1].created_at = Some("2023-01-01T00:00:00Z".to_owned());
        assert_eq!(chosen(&all, "https://h/r", "").as_deref(), Some("a"));
        assert_eq!(select(&all, "https://h/r", "").unwrap().duplicates, 1);
    }

    #[test]
    fn rep_22_repositories_without_credentials_inherit() {
        let templates = [template("t", "https://h")];
        let scoped = [repository("own", "https://h/r", "shop")];
        let resolved = |repositories: &[Repository]| {
            let access = ("https://h/r", "shop");
            resolve(repositories, &templates, access, TemplateMatching::default(), &|_| true).unwrap()
        };
        let found = resolved(&scoped);
        assert!(found.inherited_credentials);
        assert_eq!((found.credentials.password.expose().as_str(), found.project.as_str()), ("p", "shop"));
        let mut own = scoped;
        own[0].credentials.username = "u".to_owned();
        assert!(!resolved(&own).inherited_credentials);
        assert!(resolved(&[]).inherited_credentials);
    }

    #[test]
    fn rep_30_31_32_templates_match_by_prefix() {
        let rows = [
            ("https://github.com/argo", "https://github.com/argoproj/x", true, true),
            ("https://github.com", "https://github.com/argoproj/x", true, true),
            ("https://github.com", "https://github.com:8443/x", true, true),
            ("https://github.com", "https://github.com.evil.example/x", false, true),
            ("https://github.com", "https://github.com:x@evil.example/x", false, true),
            ("https://git", "https://github.com/x", false, true),
            ("git@github.com", "git@github.com:org/x.git", true, true),
            ("https://GitHub.com/Org", "https://github.com/org/x", true, true),
            ("ssh://git@h:org/repo", "ssh://git@h:org/repo", false, false),
        ];
        for (prefix, url, bounded, textual) in rows {
            let templates = [template("t", prefix)];
            let matches = |matching| select_template(&templates, url, matching).is_some();
            assert_eq!(matches(TemplateMatching::HostBoundary), bounded, "{prefix} {url}");
            assert_eq!(matches(TemplateMatching::Prefix), textual, "{prefix} {url}");
        }
        let templates = [template("short", "https://h/a"), template("long", "https://h/a/b")];
        let best = |url| select_template(&templates, url, TemplateMatching::default()).unwrap().chosen;
        assert_eq!(best("https://h/a/b/c").secret_name, "long");
        assert_eq!(best("https://h/a/c").secret_name, "short");
    }

    #[test]
    fn rep_33_empty_fields_are_filled_and_flags_ored() {
        let mut own =
            Credentials { username: "me".to_owned(), force_http_basic_auth: true, ..Default::default() };
        own.inherit(&Credentials {
            username: "they".to_owned(),
            password: "p".into(),
            proxy: "http://p".to_owned(),
            enable_oci: true,
            ..Default::default()
        });
        assert_eq!((own.username.as_str(), own.password.expose().as_str()), ("me", "p"));
        assert_eq!(own.proxy, "http://p");
        assert!(own.force_http_basic_auth && own.enable_oci);
    }

    #[test]
    fn rep_43_44_the_api_selects_among_visible_ones() {
        let one = [repository("r", "https://h/r", "shop")];
        let get = |all: &[Repository], project: &str| {
            let project = Some(project).filter(|project| !project.is_empty());
            select_for_api(all, "https://h/r", project).map(|r| r.secret_name.clone())
        };
        assert_eq!(get(&one, "").as_deref(), Ok("r"));
        assert_eq!(get(&one, "shop").as_deref(), Ok("r"));
        assert_eq!(
            get(&one, "ops").unwrap_err().to_string(),
            "repository not found for url \"https://h/r\" and project \"ops\""
        );
        assert_eq!(get(&[], "").unwrap_err(), ApiSelectionError::Denied);
        let two = [repository("r", "https://h/r", "shop"), repository("s", "https://h/r", "ops")];
        assert_eq!(
            get(&two, "").unwrap_err().to_string(),
            "repository not found for url \"https://h/r\" and project \"\"; matching projects: ops, shop (set appProject)"
        );
        let three = [two[0].clone(), two[1].clone(), repository("u", "https://h/r", "")];
        assert_eq!(get(&three, "").as_deref(), Ok("u"));
        assert_eq!(select_for_api(&three, "https://h/r", Some("")).unwrap().secret_name, "u", "CLI-803");
        assert!(select_for_api(&one, "https://h/r", Some("")).is_err(), "CLI-803");
    }

    #[test]
    fn rep_18_an_ambiguous_url_is_shown_without_its_password() {
        let two = [repository("r", "https://u:pw@h/r", "shop"), repository("s", "https://u:pw@h/r", "ops")];
        let text = select_for_api(&two, "https://u:pw@h/r", None).unwrap_err().to_string();
        assert!(
            text.starts_with("repository not found for url \"https://h/r\"") && !text.contains("pw"),
            "{text}"
        );
    }

    #[test]
    fn rep_35_templates_are_changed_by_their_own_url_only() {
        let all = [template("a", "https://h/org"), template("b", "https://H/other.git")];
        let target = |url| template_mutation_target(&all, url).map(|found| found.chosen.secret_name.as_str());
        assert_eq!(target("https://h/org/app"), None);
        assert_eq!(target("https://h/other"), Some("b"));
    }

    #[test]
    fn rep_45_mutations_never_fall_back() {
        let all = [repository("u", "https://h/r", ""), repository("s", "https://h/r", "shop")];
        let target =
            |project| mutation_target(&all, "https://h/r", project).map(|s| s.chosen.secret_name.as_str());
        assert_eq!(target("shop"), Some("s"));
        assert_eq!(target(""), Some("u"));
        assert_eq!(target("ops"), None);
    }

    #[test]
    fn rep_25_26_dependencies_see_own_and_unscoped_credentials() {
        let helm = |secret: &str, url: &str, project: &str| Repository {
            r#type: "helm".to_owned(),
            name: secret.to_owned(),
            ..repository(secret, url, project)
        };
        let all = [
            helm("a", "https://charts/a", ""),
            helm("b", "https://charts/a", "shop"),
            helm("c", "https://charts/c", "ops"),
            helm("d", "https://denied/d", ""),
            Repository { r#type: "oci".to_owned(), ..repository("e", "oci://charts/e", "") },
            Repository { name: String::new(), ..helm("f", "https://charts/f", "") },
        ];
        let names = |oci: bool| -> Vec<&str> {
            dependency_repositories(&all, "shop", oci, |r| !r.url.contains("denied"))
                .iter()
                .map(|r| r.secret_name.as_str())
                .collect()
        };
        assert_eq!(names(false), ["b"]);
        assert_eq!(names(true), ["b", "e"]);
    }
}
