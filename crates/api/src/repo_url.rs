//! URLs of repositories: when two of them mean the same repository, and how they are shown (REP-15..18).
//!
//! Users write one repository in many ways; Secrets, projects, webhooks and caches must agree on when two
//! spellings are equal. [`normalize`] answers with the spelling that decides, [`same`] with the comparison and
//! [`redact`] with the form that may be shown. A [`RepoUrl`] keeps the text as the user wrote it, because that
//! is what git gets, and never prints its user information.

mod generic;
mod location;

use std::fmt;

use generic::GenericUrl;
pub use location::{Location, Scheme, UrlError, has_dot_segment};

/// A repository URL as written; printing leaves out user information (STY-111).
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoUrl(String);

impl RepoUrl {
    /// Takes a text as it is; every text is a possible URL of a repository.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text as written, with user information: for git, never for people.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The spelling that decides equality (REP-15); empty for a broken URL.
    pub fn normalized(&self) -> String {
        normalize(&self.0)
    }
}

impl fmt::Display for RepoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&self.0))
    }
}

impl fmt::Debug for RepoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", redact(&self.0))
    }
}

impl From<&str> for RepoUrl {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// The spelling of a URL that decides whether two repositories are one (REP-15); empty for a broken URL.
///
/// ```
/// # use tiphys_api::repo_url::normalize;
/// assert_eq!(normalize("git@github.com:Org/Repo.git"), "git@github.com/org/repo");
/// assert_eq!(normalize("https://GitHub.com/Org/Repo.git"), "https://github.com/org/repo");
/// ```
pub fn normalize(url: &str) -> String {
    let mut text = url.trim().to_lowercase();
    if is_ssh(&text) && !text.starts_with("ssh://") {
        text = format!("ssh://{}", text.replacen(':', "/", 1));
    }
    let text = text.strip_suffix(".git").unwrap_or(&text);
    let Some(parsed) = GenericUrl::parse(text) else { return String::new() };
    let printed = parsed.to_string();
    match printed.strip_prefix("ssh://") {
        Some(rest) => rest.to_owned(),
        None => printed,
    }
}

/// Whether two URLs mean one repository; a broken URL stands for itself (REP-16).
pub fn same(a: &str, b: &str) -> bool {
    let decisive = |url: &str| {
        let normalized = normalize(url);
        if normalized.is_empty() { url.to_owned() } else { normalized }
    };
    let a = decisive(a);
    !a.is_empty() && a == decisive(b)
}

/// Where the repository of a URL is ([`Location::place`]), for decisions that another spelling of the URL must not evade;
/// `None` where nothing can be fetched from the URL. Two servers on one host share a place, one repository has one.
///
/// ```
/// # use tiphys_api::repo_url::place;
/// assert_eq!(place("https://Git.example:443/Org/Repo.git/"), place("git@git.example:org/repo"));
/// ```
pub fn place(url: &str) -> Option<String> {
    Location::parse(url).ok().map(|location| location.place())
}

/// Whether a URL is spoken to over SSH: something without `/` and `:`, an `@`, and no further `@` (REP-15).
pub fn is_ssh(url: &str) -> bool {
    ssh_user(url).is_some()
}

/// The user of a URL that is spoken to over SSH, which may be empty; `None` for every other URL (REP-15).
pub fn ssh_user(url: &str) -> Option<&str> {
    let rest = url.strip_prefix("ssh://").unwrap_or(url);
    let (user, host) = rest.rsplit_once('@')?;
    (!user.contains(['/', ':']) && !host.is_empty()).then_some(user)
}

/// A URL as it may be shown: user information removed, scp forms unchanged (REP-18).
pub fn redact(url: &str) -> String {
    match GenericUrl::parse(url) {
        Some(mut parsed) if parsed.has_user() => {
            parsed.remove_user();
            parsed.to_string()
        }
        Some(_) => url.to_owned(),
        // A text that does not parse may carry a password all the same, and nobody knows where it ends.
        None => {
            match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
                Some((scheme, rest)) => format!("{scheme}://{rest}"),
                None => url.to_owned(),
            }
        }
    }
}

/// A URL as those may see it who may see the repository: a password inside is `***`, the user stays (REP-13, REP-18).
pub fn mask_password(url: &str) -> String {
    if GenericUrl::parse(url).is_none() {
        return redact(url);
    }
    let masked = url.split_once("://").and_then(|(scheme, rest)| {
        let (authority, _) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (user, _) = authority.rsplit_once('@')?;
        let (name, _) = user.split_once(':')?;
        let tail = rest.strip_prefix(user)?;
        Some(format!("{scheme}://{name}:***{tail}"))
    });
    masked.unwrap_or_else(|| url.to_owned())
}

/// A text in which every `scheme://user:password@` has lost what stands before the `@` (REP-18).
pub fn redact_text(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        result.push_str(before);
        result.push_str("://");
        let end = after
            .find(|c: char| c == '/' || c == '?' || c == '#' || c == '\'' || c == '"' || c.is_whitespace())
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        result.push_str(authority.rsplit_once('@').map_or(authority, |(_, host)| host));
        rest = tail;
    }
    result.push_str(rest);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_15_normalises_as_the_table_says() {
        for (url, expected) in [
            ("https://GitHub.com/Org/Repo.git", "https://github.com/org/repo"),
            ("git@github.com:Org/Repo.git", "git@github.com/org/repo"),
            ("ssh://git@github.com/Org/Repo", "git@github.com/org/repo"),
            ("ssh://git@github.com:2222/org/repo", "git@github.com:2222/org/repo"),
            ("git@github.com:2222/org/repo", "git@github.com/2222/org/repo"),
            ("https://github.com/org/repo/", "https://github.com/org/repo/"),
            ("https://github.com/org/repo.git/", "https://github.com/org/repo.git/"),
            ("https://x/y.git.git", "https://x/y.git"),
            ("https://github.com:443/org/repo", "https://github.com:443/org/repo"),
            ("https://user@dev.azure.com/o/r", "https://user@dev.azure.com/o/r"),
            ("registry.example.com:5000/charts", "registry.example.com:5000/charts"),
            ("ssh://git@github.com:org/repo", ""),
            ("  https://a/b \n", "https://a/b"),
            ("https://a/b c", "https://a/b%20c"),
            ("https://a/%zz", ""),
            ("https://a/é", "https://a/%c3%a9".to_uppercase().replace("HTTPS://A/", "https://a/").as_str()),
            ("https://{a,b}/c", ""),
            ("/srv/repo.git", "/srv/repo"),
            ("1a:b", ""),
            (":x", ""),
            ("", ""),
            ("https://[::1]:80/x", "https://[::1]:80/x"),
            ("https://[::1/x", ""),
            ("https://h/p?q=1#f", "https://h/p?q=1#f"),
            ("file:///srv/r", "file:///srv/r"),
        ] {
            assert_eq!(normalize(url), expected, "{url}");
        }
    }

    #[test]
    fn inv_16_one_repository_has_one_place() {
        let here = place("https://git.example/org/repo");
        assert_eq!(here.as_deref(), Some("git.example/org/repo"));
        for url in [
            "https://git.example/org/repo.git",
            "https://git.example/org/repo.git/",
            "https://git.example/org/repo.git.git",
            "https://GIT.example:443/Org//Repo",
            "http://git.example:8080/org/repo",
            "https://user:secret@git.example/org/repo",
            "git@git.example:org/repo.git",
            "ssh://other@git.example:2222/org/repo",
            "https://git.example/%6frg/%2572epo",
            " https://git.example/org/repo ",
        ] {
            assert_eq!(place(url), here, "{url}");
        }
        for url in
            ["https://git.example/org/repo2", "https://git.example/org", "https://other.example/org/repo"]
        {
            assert_ne!(place(url), here, "{url}");
        }
        for url in ["", "https://", "https://h/../x", "ext::sh", "ssh://git@github.com:org/repo"] {
            assert_eq!(place(url), None, "{url}");
        }
    }

    #[test]
    fn rep_16_a_broken_url_equals_itself() {
        assert!(same("ssh://git@github.com:org/repo", "ssh://git@github.com:org/repo"));
        assert!(!same("", ""));
        assert!(same("git@github.com:org/repo", "ssh://git@github.com/org/repo.git"));
    }

    #[test]
    fn rep_17_transports_differ() {
        assert!(!same("https://h/o/r", "http://h/o/r"));
        assert!(!same("https://h/o/r", "git@h:o/r"));
    }

    #[test]
    fn rep_13_a_password_in_a_url_is_masked() {
        for (url, shown) in [
            ("https://u:p@h/r", "https://u:***@h/r"),
            ("https://u@h/r", "https://u@h/r"),
            ("https://h/r@x:y", "https://h/r@x:y"),
            ("http://u:p@proxy:8080", "http://u:***@proxy:8080"),
            ("https://u:p/w@h/r", "https://h/r"),
            ("git@h:o/r", "git@h:o/r"),
            ("", ""),
        ] {
            assert_eq!(mask_password(url), shown, "{url}");
        }
    }

    #[test]
    fn rep_18_user_information_is_removed() {
        assert_eq!(redact("https://tok@h/r"), "https://h/r");
        assert_eq!(redact("https://u:p@h:99999x/r"), "https://h:99999x/r");
        assert_eq!(redact("https://u:p/w@h/r"), "https://h/r");
        assert_eq!(redact("git@github.com:o/r"), "git@github.com:o/r");
        assert_eq!(
            format!("{:?} {}", RepoUrl::new("https://u:p@h/r"), RepoUrl::new("https://u:p@h/r")),
            "\"https://h/r\" https://h/r"
        );
        assert_eq!(
            redact_text("fatal: 'https://u:p@h/r' and https://a@b: no"),
            "fatal: 'https://h/r' and https://b: no"
        );
        assert_eq!(redact_text("x https://u:p@h:1/r y"), "x https://h:1/r y");
    }
}
