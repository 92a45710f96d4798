//! Whether a repository may be a source (REP C3).

use tiphys_api::AppProject;
use tiphys_api::repo_url::{self, Location, Scheme, UrlError};
use tiphys_api::settings::ProjectMatching;

use crate::{Decision, pattern};

/// Whether the project's source rules cover a URL, with the message of the condition (REP-130..137).
pub fn source_permitted(project: &AppProject, url: &str, matching: ProjectMatching) -> Decision {
    Decision::when(source_matches(project, url, matching), || {
        source_refusal("application", project.name(), url)
    })
}

/// The message about a source that is not permitted; it says so where no project could permit it.
pub(crate) fn source_refusal(what: &str, project: &str, url: &str) -> String {
    let shown = repo_url::redact(url);
    match Spelling::of(url) {
        Ok(_) => format!("{what} repo {shown} is not permitted in project '{project}'"),
        Err(error) => format!("{what} repo {shown} is not permitted in project '{project}': the URL {error}"),
    }
}

/// Whether the project's source rules cover all dependencies of a chart (REP-137).
pub fn helm_dependencies_permitted<'a>(
    project: &AppProject,
    urls: impl IntoIterator<Item = &'a str>,
    matching: ProjectMatching,
) -> Decision {
    let denied: Vec<String> = urls
        .into_iter()
        .filter(|url| !source_matches(project, url, matching))
        .map(repo_url::redact)
        .collect();
    Decision::when(denied.is_empty(), || {
        format!("helm repos {} are not permitted in project '{}'", denied.join(", "), project.name())
    })
}

/// Whether a project may read a repository: its rules cover the URL, or the repository belongs to it (REP-122). The
/// latter permits the repository itself (REP-16), never another spelling that only a pattern would cover: what is read
/// then is what the project's own Secret says.
pub fn source_matches(project: &AppProject, url: &str, matching: ProjectMatching) -> bool {
    match rules(&project.spec.source_repos, url, matching) {
        Verdict::Permitted => true,
        Verdict::Denied => false,
        Verdict::Unmentioned => project.owned.repositories.iter().any(|own| repo_url::same(own, url)),
    }
}

/// Whether the rules of a project alone cover a URL. This is as far as shared credentials serve it: a repository that a
/// project's right created opens nothing that is shared (A3).
pub fn shared_source_matches(project: &AppProject, url: &str, matching: ProjectMatching) -> bool {
    shared_rules_match(&project.spec.source_repos, url, matching)
}

/// Whether `sourceRepos` of a project cover a URL.
pub fn shared_rules_match(source_repos: &[String], url: &str, matching: ProjectMatching) -> bool {
    rules(source_repos, url, matching) == Verdict::Permitted
}

/// What a list of patterns says of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Permitted,
    /// By a rule, or because nothing could permit such a URL.
    Denied,
    Unmentioned,
}

/// Holds a URL against a list of patterns (REP-130, 136).
///
/// Scheme, host, port and path are compared as they are when the URL is fetched; user information counts for
/// SSH only, where it is an account. A denial covers every spelling of the repository.
fn rules(patterns: &[String], url: &str, matching: ProjectMatching) -> Verdict {
    let Ok(url) = Spelling::of(url) else { return Verdict::Denied };
    let mut allowed = false;
    for entry in patterns {
        let (negated, entry) = match entry.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, entry.as_str()),
        };
        let entry = comparable_pattern(entry);
        // A star alone crosses slashes (REP-131), but the reference does not look at it behind a negation.
        let everything = entry == "*" && (!negated || matching == ProjectMatching::Strict);
        let matches = everything
            || pattern_matches(&entry, &url.exact)
            || (negated && pattern_matches(&canonical_pattern(&entry), &url.canonical));
        match (negated, matches) {
            (true, true) => return Verdict::Denied,
            (false, true) => allowed = true,
            // The reference lets a denial that does not apply count as permission (REP-131).
            (true, false) if matching == ProjectMatching::Compat => allowed = true,
            _ => {}
        }
    }
    if allowed { Verdict::Permitted } else { Verdict::Unmentioned }
}

fn pattern_matches(entry: &str, url: &str) -> bool {
    let glob_before_scheme =
        entry.split_once("://").is_some_and(|(scheme, _)| scheme.contains(['*', '?', '[', '{']));
    !glob_before_scheme && pattern::path_glob(entry, url)
}

/// How an address is compared with denials: as it is fetched, and what it means there.
pub(crate) struct AddressSpelling {
    /// In small letters, with percent escapes decoded.
    pub(crate) exact: String,
    /// The same address without default port, account, empty segments, last slash and `.git`.
    pub(crate) canonical: String,
}

impl AddressSpelling {
    pub(crate) fn of(address: &str) -> Self {
        let Spelling { exact, canonical } =
            Spelling::of(address).unwrap_or_else(|_refused| Spelling::of_text(address));
        Self { exact, canonical }
    }
}

/// The patterns that one of a denial stands for: as it is compared with exact and with canonical spellings.
pub(crate) fn denial_spellings(pattern: &str) -> [String; 2] {
    let exact = comparable_pattern(pattern);
    let canonical = canonical_pattern(&exact);
    [exact, canonical]
}

/// The source side: what rules are compared with.
struct Spelling {
    /// Normalised, percent escapes decoded (REP-134).
    exact: String,
    /// The same repository without default port, account, empty segments, last slash and `.git`.
    canonical: String,
}

impl Spelling {
    /// # Errors
    /// For a URL that another reader could understand otherwise: nothing permits it.
    fn of(url: &str) -> Result<Self, UrlError> {
        if repo_url::has_dot_segment(url) {
            return Err(UrlError::DotSegment);
        }
        match Location::parse(url) {
            Ok(location) => Ok(Self::of_location(&location)),
            // Charts and artifacts are no repositories of git; what cannot be parsed at all is compared as it is
            // written (REP-135) and never fetched.
            Err(UrlError::Scheme) => Ok(Self::of_text(url)),
            Err(_) if repo_url::normalize(url).is_empty() => Ok(Self::of_text(url)),
            Err(error) => Err(error),
        }
    }

    fn of_location(location: &Location) -> Self {
        let lower = location.path().to_lowercase();
        let path = decode(lower.strip_suffix(".git").unwrap_or(&lower), false);
        let scheme = match location.scheme() {
            Scheme::Https => "https://",
            Scheme::Http => "http://",
            Scheme::Git => "git://",
            Scheme::Ssh => "",
            // A path is compared as it is written.
            Scheme::File
                if location.path() == location.local_path().map_or("", |p| p.to_str().unwrap_or("")) =>
            {
                ""
            }
            Scheme::File => "file://",
        };
        let host = match location.host() {
            host if host.contains(':') => format!("[{host}]"),
            host => host.to_owned(),
        };
        let port = location.port().map(|port| format!(":{port}")).unwrap_or_default();
        let account = location.user().map(|user| format!("{}@", user.to_lowercase())).unwrap_or_default();
        let port_counts = location.port() != location.scheme().default_port();
        let canonical_port = if port_counts { port.as_str() } else { "" };
        Self {
            exact: format!("{scheme}{account}{host}{port}{path}"),
            canonical: format!("{scheme}{host}{canonical_port}{}", canonical_path(&path)),
        }
    }

    fn of_text(url: &str) -> Self {
        let normalized = repo_url::normalize(url);
        // Deviation (REP-135): an unparsable URL stands for itself instead of for every unparsable URL.
        let exact =
            if normalized.is_empty() { spelled(url) } else { without_user(&decode(&normalized, false)) };
        Self { canonical: exact.clone(), exact }
    }
}

/// Without empty segments, and without what servers ignore at the end.
fn canonical_path(path: &str) -> String {
    let mut canonical = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        canonical.push('/');
        canonical.push_str(segment);
    }
    while let Some(shorter) = canonical.strip_suffix(".git").filter(|shorter| !shorter.ends_with('/')) {
        canonical.truncate(shorter.len());
    }
    canonical
}

/// The pattern side: spelled like a URL but not parsed, so that braces and other characters stay globs.
///
/// Deviation (REP-134): the reference parses patterns as URLs and turns some wildcards into literals.
fn comparable_pattern(pattern: &str) -> String {
    without_user(&decode(&spelled(pattern), true))
}

/// A pattern as canonical spellings are compared with it.
fn canonical_pattern(pattern: &str) -> String {
    let (scheme, rest) = match pattern.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), pattern),
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let port = match scheme.as_str() {
        "https://" => ":443",
        "http://" => ":80",
        "git://" => ":9418",
        _ => ":22",
    };
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    format!("{scheme}{}{path}", host.strip_suffix(port).unwrap_or(host))
}

/// A URL or pattern with a scheme, without what stands before the host.
fn without_user(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}{path}"),
        None => text.to_owned(),
    }
}

fn spelled(text: &str) -> String {
    let mut text = text.trim().to_lowercase();
    if repo_url::is_ssh(&text) && !text.starts_with("ssh://") {
        text = format!("ssh://{}", text.replacen(':', "/", 1));
    }
    let text = text.strip_suffix(".git").unwrap_or(&text);
    text.strip_prefix("ssh://").unwrap_or(text).to_owned()
}

/// Decodes valid percent escapes; where `escape_globs`, a decoded character with a meaning becomes a literal.
fn decode(text: &str, escape_globs: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let decoded = match (byte, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        let Some(decoded) = decoded else {
            bytes.push(byte);
            continue;
        };
        rest = tail.get(2..).unwrap_or_default();
        if escape_globs && b"*?[]{},!\\".contains(&decoded) {
            bytes.push(b'\\');
        }
        bytes.push(decoded);
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permitted(patterns: &[&str], url: &str) -> bool {
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        rules(&patterns, url, ProjectMatching::Compat) == Verdict::Permitted
    }

    fn strict(patterns: &[&str], url: &str) -> bool {
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        rules(&patterns, url, ProjectMatching::Strict) == Verdict::Permitted
    }

    #[test]
    fn rep_130_131_negations_and_order() {
        let url = "https://h/o/a";
        assert!(!permitted(&[], url));
        assert!(permitted(&["*"], url));
        assert!(permitted(&["https://h/o/*"], url));
        assert!(!permitted(&["https://h/x/*"], url));
        for list in [["*", "!https://h/o/a"], ["!https://h/o/a", "*"]] {
            assert!(!permitted(&list, url));
            assert!(permitted(&list, "https://h/o/b"));
        }
        assert!(permitted(&["!https://h/o/b"], url), "denials alone permit the rest");
    }

    #[test]
    fn rep_131_a_lone_star_crosses_slashes() {
        assert!(permitted(&["*"], "https://h/a/b/c/d"));
        assert!(permitted(&["!*"], "https://h/a/b"));
        assert!(!strict(&["*", "!*"], "https://h/a/b"));
        assert!(!permitted(&["https://h/*"], "https://h/a/b"));
        assert!(permitted(&["https://h/**"], "https://h/a/b"));
    }

    #[test]
    fn rep_132_patterns_are_normalised_like_urls() {
        for (pattern, url, expected) in [
            ("https://x/o/*.git", "https://x/o/a", true),
            ("*.git", "https://x/o/a", true),
            ("HTTPS://X/O/A", "https://x/o/a", true),
            ("git@h:o/*", "ssh://git@h/o/x.git", true),
            ("https://h/o/a", "https://h/o/a/", false),
            ("https://h/o/*", "git@h:o/a", false),
        ] {
            assert_eq!(permitted(&[pattern], url), expected, "{pattern} {url}");
        }
    }

    #[test]
    fn rep_134_braces_and_other_characters_are_globs() {
        for (pattern, url, expected) in [
            ("https://h/{a,b}/*", "https://h/b/x", true),
            ("https://{h,i}/a", "https://i/a", true),
            ("https://h/ä/*", "https://h/ä/x", true),
            ("https://h/a%20b/*", "https://h/a%20b/x", true),
            ("https://h/%2a", "https://h/x", false),
            ("https://h/%2a", "https://h/*", true),
            ("http*://h/a", "https://h/a", false),
            ("*://h/a", "https://h/a", false),
        ] {
            assert_eq!(permitted(&[pattern], url), expected, "{pattern} {url}");
        }
    }

    #[test]
    fn rep_135_unparsable_urls_stand_for_themselves() {
        let broken = "ssh://git@h:org/repo";
        assert!(permitted(&[broken], broken));
        assert!(!permitted(&[broken], "ssh://git@other:org/repo"));
        assert!(!permitted(&[""], broken));
    }

    #[test]
    fn rep_136_strict_needs_an_allow_rule() {
        assert!(!strict(&["!https://h/o/b"], "https://h/o/a"));
        assert!(strict(&["*", "!https://h/o/b"], "https://h/o/a"));
        assert!(!strict(&["*", "!https://h/o/a"], "https://h/o/a"));
    }

    /// B9: what is compared is what git is given, not what a text looks like.
    #[test]
    fn rep_130_user_information_never_stands_for_a_host() {
        for url in [
            "https://github.com%2forg%2f@evil.example/x",
            "https://github.com/org%2f@evil.example/x",
            "https://github.com:x@evil.example/org/x",
            "https://evil.example%2f@github.com%2forg/x",
            "https://evil.example\\@github.com/org/x",
            "https://evil.example?@github.com/org/x",
            "https://evil.example#@github.com/org/x",
        ] {
            let expected = url == "https://github.com/org%2f@evil.example/x";
            // A path may hold an `@`; everything before the host may not stand for it.
            assert!(!permitted(&["https://github.com/org/*"], url), "{url}");
            assert_eq!(permitted(&["https://github.com/org/**"], url), expected, "{url}");
        }
        assert!(permitted(&["https://h/o/*"], "https://user:pass@h/o/x"));
        assert!(permitted(&["https://user@h/o/*"], "https://h/o/x"));
        assert!(!permitted(&["*", "!https://h/o/*"], "https://user@h/o/x"));
        assert!(!permitted(&["git@h:o/*"], "root@h:o/x"), "the user of SSH is an account");
        assert!(!permitted(&["*", "!git@h:o/*"], "root@h:o/x"));
    }

    /// B9: `..` leaves what a pattern covers, in whatever way it is written.
    #[test]
    fn rep_130_dot_segments_are_never_permitted() {
        for path in [
            "../x",
            "%2e%2e/x",
            ".%2E/x",
            "%252e%252e/x",
            "a/..",
            "./a",
            "a/%2e",
            "..%2fx",
            "..%5cx",
            "..\\x",
            "..;/x",
            "..;a=b/x",
        ] {
            for url in [format!("https://h/o/{path}"), format!("git@h:o/{path}"), format!("oci://h/o/{path}")]
            {
                assert!(!permitted(&["https://h/o/**", "git@h:o/**", "oci://h/o/**", "*"], &url), "{url}");
                assert!(!strict(&["https://h/o/**", "git@h:o/**", "oci://h/o/**", "*"], &url), "{url}");
            }
        }
        assert!(permitted(&["https://h/o/**"], "https://h/o/a..b/.github/..."));
    }

    /// B9: a denial is about the repository, not about one of its spellings.
    #[test]
    fn rep_130_a_denial_covers_every_spelling_of_a_repository() {
        for url in [
            "https://h/o/private",
            "https://h/o/private/",
            "https://h/o/private.git/",
            "https://h/o/private.git.git",
            "https://h:443/o/private",
            "https://h:0443/o/private",
            "https://h//o///private",
            "https://x:y@H/o/privat%65",
            "https://h/o/private?x=1",
            "https://h/o/private#x",
            "https://h./o/private",
        ] {
            assert!(!permitted(&["*", "!https://h/o/private"], url), "{url}");
            assert!(!permitted(&["*", "!https://me@h:443/o/private"], url), "{url}");
            assert!(!strict(&["*", "!https://h/o/private"], url), "{url}");
        }
        for url in
            ["git@h:o/private", "git@h:/o/private/", "ssh://root@h:22/o/private.git", "ssh://h/o/private"]
        {
            assert!(!permitted(&["*", "!git@h:o/private"], url), "{url}");
        }
        assert!(permitted(&["*", "!https://h/o/private"], "https://h/o/private2"));
        assert!(permitted(&["*", "!https://h/o/private"], "https://h:444/o/private"));
    }

    #[test]
    fn rep_137_messages() {
        let project: AppProject =
            serde_json::from_str(r#"{"metadata":{"name":"p"},"spec":{"sourceRepos":["https://ok/*"]}}"#)
                .unwrap();
        assert_eq!(
            source_permitted(&project, "https://u:p@h/a", ProjectMatching::Compat).message.as_deref(),
            Some("application repo https://h/a is not permitted in project 'p'")
        );
        assert_eq!(
            helm_dependencies_permitted(
                &project,
                ["https://a", "https://ok/x", "https://b"],
                ProjectMatching::Compat
            )
            .message
            .as_deref(),
            Some("helm repos https://a, https://b are not permitted in project 'p'")
        );
    }
}
