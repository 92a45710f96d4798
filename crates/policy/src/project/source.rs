//! Whether a repository may be a source (REP C3).

use tiphys_api::AppProject;
use tiphys_api::repo_url;
use tiphys_api::settings::ProjectMatching;

use crate::{Decision, pattern};

/// Whether the project's source rules cover a URL, with the message of the condition (REP-130..137).
pub fn source_permitted(project: &AppProject, url: &str, matching: ProjectMatching) -> Decision {
    Decision::when(source_matches(&project.spec.source_repos, url, matching), || {
        format!("application repo {url} is not permitted in project '{}'", project.name())
    })
}

/// Whether the project's source rules cover all dependencies of a chart (REP-137).
pub fn helm_dependencies_permitted<'a>(
    project: &AppProject,
    urls: impl IntoIterator<Item = &'a str>,
    matching: ProjectMatching,
) -> Decision {
    let denied: Vec<&str> =
        urls.into_iter().filter(|url| !source_matches(&project.spec.source_repos, url, matching)).collect();
    Decision::when(denied.is_empty(), || {
        format!("helm repos {} are not permitted in project '{}'", denied.join(", "), project.name())
    })
}

/// Whether a list of patterns covers a URL (REP-130, 136).
pub fn source_matches(patterns: &[String], url: &str, matching: ProjectMatching) -> bool {
    let url = comparable_url(url);
    let mut allowed = false;
    for entry in patterns {
        let (negated, entry) = match entry.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, entry.as_str()),
        };
        let entry = comparable_pattern(entry);
        // A star alone crosses slashes (REP-131), but the reference does not look at it behind a negation.
        let everything = entry == "*" && (!negated || matching == ProjectMatching::Strict);
        let matches = everything || pattern_matches(&entry, &url);
        match (negated, matches) {
            (true, true) => return false,
            (false, true) => allowed = true,
            // The reference lets a denial that does not apply count as permission (REP-131).
            (true, false) if matching == ProjectMatching::Compat => allowed = true,
            _ => {}
        }
    }
    allowed
}

fn pattern_matches(entry: &str, url: &str) -> bool {
    let glob_before_scheme =
        entry.split_once("://").is_some_and(|(scheme, _)| scheme.contains(['*', '?', '[', '{']));
    !glob_before_scheme && pattern::path_glob(entry, url)
}

/// The source side: normalised, percent escapes decoded (REP-134).
fn comparable_url(url: &str) -> String {
    let normalized = repo_url::normalize(url);
    if normalized.is_empty() {
        // Deviation (REP-135): an unparsable URL stands for itself instead of for every unparsable URL.
        return spelled(url);
    }
    decode(&normalized, false)
}

/// The pattern side: spelled like a URL but not parsed, so that braces and other characters stay globs.
///
/// Deviation (REP-134): the reference parses patterns as URLs and turns some wildcards into literals.
fn comparable_pattern(pattern: &str) -> String {
    decode(&spelled(pattern), true)
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
        source_matches(&patterns, url, ProjectMatching::Compat)
    }

    fn strict(patterns: &[&str], url: &str) -> bool {
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        source_matches(&patterns, url, ProjectMatching::Strict)
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

    #[test]
    fn rep_137_messages() {
        let project: AppProject =
            serde_json::from_str(r#"{"metadata":{"name":"p"},"spec":{"sourceRepos":["https://ok/*"]}}"#)
                .unwrap();
        assert_eq!(
            source_permitted(&project, "https://h/a", ProjectMatching::Compat).message.as_deref(),
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
