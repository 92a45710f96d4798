//! `.helmignore`: which files of a directory are no part of the chart (RND-167).
//!
//! Looks like `.gitignore` and is not: the first rule that decides wins, and `!p` ignores whatever does not match
//! `p`. Rules see a file's path below the directory of the chart, a file of a subchart too.

use tiphys_go::path_match::{self, BadPattern};
use tiphys_go::steps::{Steps, TooManySteps};

/// Rules that one file may have.
const RULES_MAX: usize = 10_000;
/// Lines longer than this end the reading, as Go's scanner does.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Dot files among the templates are always left out.
const BUILT_IN: &str = "templates/.?*";

/// Why the rules cannot be read or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IgnoreError {
    /// `**` in a rule.
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    /// A rule that is no glob.
    #[error("{0}")]
    Pattern(#[from] BadPattern),
    /// A line longer than 64 KiB.
    #[error("bufio.Scanner: token too long")]
    Line,
    /// More rules than anybody writes.
    #[error(".helmignore has more than {RULES_MAX} rules")]
    TooMany,
    /// Rules and files that take too long to be held against each other.
    #[error(".helmignore: {0}")]
    Steps(#[from] TooManySteps),
}

/// The rules of one `.helmignore`.
#[derive(Clone, Debug)]
pub struct IgnoreRules {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: String,
    negated: bool,
    directories_only: bool,
    /// Whether the whole path is matched, or its last component.
    whole_path: bool,
}

impl IgnoreRules {
    /// Reads the rules; without a file only the built-in one.
    pub fn parse(text: Option<&str>) -> Result<Self, IgnoreError> {
        let mut rules = Vec::new();
        let text = text.unwrap_or_default();
        for line in text.strip_prefix('\u{feff}').unwrap_or(text).split('\n') {
            if line.len() >= LINE_BYTES_MAX {
                return Err(IgnoreError::Line);
            }
            rules.extend(Rule::parse(line)?);
            if rules.len() > RULES_MAX {
                return Err(IgnoreError::TooMany);
            }
        }
        rules.extend(Rule::parse(BUILT_IN)?);
        Ok(Self { rules })
    }

    /// Whether a file or directory is left out.
    pub fn ignores(&self, path: &str, is_directory: bool, steps: &mut Steps) -> Result<bool, IgnoreError> {
        for rule in &self.rules {
            if rule.directories_only && !is_directory {
                if rule.negated {
                    return Ok(true);
                }
                continue;
            }
            let text =
                if rule.whole_path { path } else { path.rsplit_once('/').map_or(path, |(_, name)| name) };
            let matches = path_match::is_match_within(&rule.pattern, text, steps)?.unwrap_or(false);
            if matches != rule.negated {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Rule {
    fn parse(line: &str) -> Result<Option<Self>, IgnoreError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        if line.contains("**") {
            return Err(IgnoreError::DoubleStar);
        }
        path_match::is_match(line, "abc")?;
        let (negated, rest) = line.strip_prefix('!').map_or((false, line), |rest| (true, rest));
        let (directories_only, rest) = rest.strip_suffix('/').map_or((false, rest), |rest| (true, rest));
        let whole_path = rest.contains('/');
        let pattern = rest.strip_prefix('/').unwrap_or(rest).to_owned();
        Ok(Some(Self { pattern, negated, directories_only, whole_path }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ignores(rules: &str, path: &str) -> bool {
        let (path, is_directory) = path.strip_suffix('/').map_or((path, false), |path| (path, true));
        let rules = IgnoreRules::parse(Some(rules)).unwrap();
        rules.ignores(path, is_directory, &mut Steps::unlimited()).unwrap()
    }

    #[test]
    fn rnd_167_rules_match_names_paths_and_directories() {
        for (rules, path, expected) in [
            ("*.txt", "a/b.txt", true),
            ("/*.txt", "a/b.txt", false),
            ("/*.txt", "b.txt", true),
            ("a/*.txt", "a/b.txt", true),
            ("a/*.txt", "x/a/b.txt", false),
            ("dir/", "dir/", true),
            ("dir/", "dir", false),
            ("dir", "x/dir/", true),
            ("# b", "# b", false),
            ("  b  ", "b", true),
            ("a\r\nb\r", "a", true),
            ("", "templates/.swp", true),
            ("", "templates/.", false),
            ("", ".git/", false),
            ("\u{feff}b", "b", true),
        ] {
            assert_eq!(ignores(rules, path), expected, "{rules:?} {path}");
        }
    }

    #[test]
    fn rnd_167_a_negated_rule_ignores_what_does_not_match_it() {
        for (rules, path, expected) in [
            ("!keep", "keep", false),
            ("!keep", "other", true),
            ("!keep\nkeep", "keep", true),
            ("!dir/", "file", true),
            ("!dir/", "dir/", false),
            ("other\n!keep", "keep", false),
        ] {
            assert_eq!(ignores(rules, path), expected, "{rules:?} {path}");
        }
    }

    #[test]
    fn rnd_167_what_is_no_rule_is_an_error() {
        assert_eq!(IgnoreRules::parse(Some("a/**")).unwrap_err(), IgnoreError::DoubleStar);
        assert!(matches!(IgnoreRules::parse(Some("[")), Err(IgnoreError::Pattern(_))));
        assert_eq!(IgnoreRules::parse(Some(&"x".repeat(70_000))).unwrap_err(), IgnoreError::Line);
    }
}
