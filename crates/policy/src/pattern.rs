//! The pattern languages of projects (REP C2).

use fancy_regex::RegexBuilder;
use tiphys_go::glob::Glob;

/// Steps a regular expression with look-around may take on one text.
const BACKTRACKS_MAX: usize = 100_000;

/// Whether a glob without separators matches the whole text; an invalid pattern matches nothing (REP-125).
pub fn glob(pattern: &str, text: &str) -> bool {
    Glob::new(pattern, &[]).is_ok_and(|glob| glob.is_match(text))
}

/// Whether a glob whose `*` and `?` stop at `/` matches the whole text (REP-125).
pub fn path_glob(pattern: &str, text: &str) -> bool {
    Glob::new(pattern, &['/']).is_ok_and(|glob| glob.is_match(text))
}

/// Whether a shell file-name pattern matches the whole text; a malformed one matches nothing (REP-127).
pub fn file_glob(pattern: &str, text: &str) -> bool {
    tiphys_go::path_match::is_match(pattern, text).unwrap_or(false)
}

/// Whether an entry matches; `/re/` is a regular expression first and a glob second (REP-128).
///
/// ```
/// # use tiphys_policy::pattern::regex_list;
/// let list = ["team-*".to_owned(), "/^((?!kube-).)*-prod$/".to_owned()];
/// assert!(regex_list(&list, "shop-prod"));
/// assert!(!regex_list(&list, "kube-prod"));
/// ```
pub fn regex_list(list: &[String], text: &str) -> bool {
    list.iter().any(|entry| regex_entry(entry, text) || glob(entry, text))
}

fn regex_entry(entry: &str, text: &str) -> bool {
    let Some(pattern) = entry.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) else { return false };
    RegexBuilder::new(pattern)
        .backtrack_limit(BACKTRACKS_MAX)
        .build()
        .is_ok_and(|regex| regex.is_match(text).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str], text: &str) -> bool {
        let entries: Vec<String> = entries.iter().map(|entry| (*entry).to_owned()).collect();
        regex_list(&entries, text)
    }

    #[test]
    fn rep_125_only_sources_have_a_separator() {
        assert!(glob("https://*", "https://a/b"));
        assert!(!path_glob("https://a/*", "https://a/b/c"));
        assert!(path_glob("https://a/**", "https://a/b/c"));
        assert!(glob("{a,b}-[!x]?", "b-yz"));
        assert!(glob("", "") && !glob("", "a"));
        assert!(!glob("[", "["));
        assert!(!glob("A*", "ab"));
    }

    #[test]
    fn rep_126_wildcard_may_overlap_its_literals() {
        assert!(path_glob("https://h/g/**/r", "https://h/g/r"));
    }

    #[test]
    fn rep_127_file_globs_stop_at_slashes() {
        assert!(file_glob("*.example.com", "a.example.com"));
        assert!(!file_glob("*", "a/b"));
        assert!(file_glob("[^a]?", "bc"));
        assert!(!file_glob("{a,b}", "a"));
        assert!(!file_glob("[", "["));
    }

    #[test]
    fn rep_128_slashes_mean_regular_expressions() {
        assert!(list(&["/team/"], "my-team-x"));
        assert!(list(&["/^((?!not-allowed).)*$/"], "fine"));
        assert!(!list(&["/^((?!not-allowed).)*$/"], "is-not-allowed"));
        assert!(list(&["/a*/"], "/abc/"));
        assert!(!list(&["/(/"], "x"));
        assert!(!list(&["team"], "my-team"));
        assert!(!list(&[], ""));
    }
}
