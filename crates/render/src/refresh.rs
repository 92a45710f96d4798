//! Which changes concern an application: the annotation `manifest-generate-paths` (RND-147, RND-148).

use std::collections::{BTreeSet, HashSet};

use tiphys_go::path::clean_relative;
use tiphys_go::path_match;
use tiphys_go::steps::{Steps, TooManySteps};

/// Paths of the annotation, cleaned and relative to the root; the root itself is `.` (RND-147).
///
/// ```
/// # use tiphys_render::refresh::refresh_paths;
/// assert_eq!(refresh_paths(".;../shared;/base", "apps/a"), ["apps/a", "apps/shared", "base"]);
/// ```
pub fn refresh_paths(annotation: &str, source_path: &str) -> Vec<String> {
    // Only a budget that has an end is ever used up.
    paths_within(annotation, source_path, &mut Steps::unlimited()).unwrap_or_default()
}

/// Whether changed files concern an application with these refresh paths, which are cleaned first (RND-148).
///
/// Nothing to compare counts as a change: no paths, or no files known.
pub fn files_changed(refresh_paths: &[String], changed_files: &[String]) -> bool {
    let mut steps = Steps::unlimited();
    let paths = RefreshPaths::cleaned(refresh_paths, &mut steps);
    paths.and_then(|paths| paths.concern(&ChangedFiles::new(changed_files), &mut steps)).unwrap_or(true)
}

/// Files that a change touched, prepared so that a path is looked up instead of held against each of them.
#[derive(Clone, Debug)]
pub struct ChangedFiles<'a> {
    files: &'a [String],
    paths: HashSet<&'a str>,
}

impl<'a> ChangedFiles<'a> {
    /// Prepares the names of files; none means that they are not known.
    pub fn new(files: &'a [String]) -> Self {
        let directories =
            files.iter().flat_map(|file| file.match_indices('/').filter_map(|(end, _)| file.get(..end)));
        Self { files, paths: files.iter().map(String::as_str).chain(directories).collect() }
    }

    /// Whether nobody said which files changed: any may have.
    pub fn is_unknown(&self) -> bool {
        self.files.is_empty()
    }

    /// The files, and every directory that one of them is in.
    pub fn paths(&self) -> impl Iterator<Item = &'a str> {
        self.paths.iter().copied()
    }

    /// Whether one of the files matches a pattern; a malformed pattern matches nothing.
    ///
    /// # Errors
    /// When the steps do not suffice.
    pub fn matches(&self, pattern: &str, steps: &mut Steps) -> Result<bool, TooManySteps> {
        for file in self.files {
            steps.spend(file.len() + 1)?;
            if path_match::is_match_within(pattern, file, steps)?.unwrap_or(false) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What of a repository concerns a source: the files and directories that its annotation names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshPaths {
    /// Every change: no paths are named, or the root is.
    Everything,
    /// Changes of these.
    Some {
        /// Files, and directories with all that is in them. Cleaned, each once.
        plain: BTreeSet<String>,
        /// Those of them that are patterns as well.
        patterns: BTreeSet<String>,
    },
}

impl RefreshPaths {
    /// The paths of an annotation for a source, found out within a budget (RND-147).
    ///
    /// # Errors
    /// When the steps do not suffice: annotation and path are other people's, and each path is laid below the
    /// source's.
    pub fn of(annotation: &str, source_path: &str, steps: &mut Steps) -> Result<Self, TooManySteps> {
        Self::cleaned(&paths_within(annotation, source_path, steps)?, steps)
    }

    fn cleaned(paths: &[String], steps: &mut Steps) -> Result<Self, TooManySteps> {
        let mut plain = BTreeSet::new();
        for path in paths {
            steps.spend(path.len() + 1)?;
            plain.insert(clean_relative(path));
        }
        if plain.is_empty() || plain.contains(".") {
            return Ok(Self::Everything);
        }
        let patterns = plain.iter().filter(|path| path.contains(['*', '?', '[', '\\'])).cloned().collect();
        Ok(Self::Some { plain, patterns })
    }

    /// Whether changed files concern the source, found out within a budget (RND-148).
    ///
    /// # Errors
    /// When the steps do not suffice: each pattern is held against each file.
    pub fn concern(&self, changed: &ChangedFiles<'_>, steps: &mut Steps) -> Result<bool, TooManySteps> {
        let Self::Some { plain, patterns } = self else { return Ok(true) };
        if changed.is_unknown() {
            return Ok(true);
        }
        for path in plain {
            steps.spend(path.len() + 1)?;
            if changed.paths.contains(path.as_str()) {
                return Ok(true);
            }
        }
        for pattern in patterns {
            if changed.matches(pattern, steps)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn paths_within(annotation: &str, source_path: &str, steps: &mut Steps) -> Result<Vec<String>, TooManySteps> {
    let items = annotation.split(';').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            steps.spend(item.len())?;
            if let Some(absolute) = item.strip_prefix('/') {
                return Ok(clean_relative(absolute));
            }
            steps.spend(source_path.len())?;
            Ok(clean_relative(&format!("{source_path}/{item}")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(items: &[&str]) -> Vec<String> {
        items.iter().map(|&item| item.to_owned()).collect()
    }

    #[test]
    fn rnd_147_paths_are_joined_and_cleaned() {
        assert_eq!(refresh_paths("/base", "shop"), ["base"]);
        assert_eq!(refresh_paths(" . ; ;../../x;/", "apps/a"), ["apps/a", "x", "."]);
        assert_eq!(refresh_paths("..", ""), [".."]);
        assert!(refresh_paths(";;", "a").is_empty());
    }

    #[test]
    fn rnd_148_whole_components_and_globs_match() {
        let hit = |path: &str, file: &str| files_changed(&texts(&[path]), &texts(&[file]));
        assert!(hit("shop", "shop/ui/x.yaml"));
        assert!(hit("shop/", "shop/ui/x.yaml"));
        assert!(hit(".", "x"));
        assert!(hit("", "x"));
        assert!(!hit("guestbook", "guestbook2/a.yaml"));
        assert!(files_changed(&[], &texts(&["x"])));
        assert!(files_changed(&texts(&["x"]), &[]));
        assert!(!files_changed(&texts(&["a", "b"]), &texts(&["c", "d"])));
    }

    #[test]
    fn rnd_148_refresh_paths_are_cleaned_first() {
        for (path, file, expected) in [
            ("a/../b", "b/x.yaml", true),
            ("a/../b", "a/x.yaml", false),
            ("./a//b/", "a/b/x.yaml", true),
            ("a/..", "anything", true),
            ("../a", "a/x.yaml", false),
        ] {
            assert_eq!(files_changed(&[path.to_owned()], &[file.to_owned()]), expected, "{path} {file}");
        }
    }

    /// SEC-07. Half of the annotation's bytes and a long path were gigabytes of text.
    #[test]
    fn sec_07_paths_and_files_share_a_budget() {
        let concerns = |annotation: &str, path: &str, files: &[String]| {
            let mut steps = Steps::new(1_000_000);
            let paths = RefreshPaths::of(annotation, path, &mut steps).map_err(|_exceeded| ())?;
            paths.concern(&ChangedFiles::new(files), &mut steps).map_err(|_exceeded| ())
        };
        let many = "a;".repeat(130_000);
        assert_eq!(concerns(&many, &"p/".repeat(250_000), &texts(&["x"])), Err(()));
        let files: Vec<String> = (0..100_000).map(|file| format!("docs/{file}")).collect();
        let paths = (0..20_000).map(|path| format!("/apps/{path};")).collect::<Vec<_>>().concat();
        assert_eq!(concerns(&paths, "", &files[..10_000]), Ok(false), "names are looked up");
        assert_eq!(concerns(&paths, "", &files), Ok(false), "in however many files");
        let patterns = (0..10_000).map(|path| format!("/docs/*{path}x;")).collect::<Vec<_>>().concat();
        assert_eq!(concerns(&patterns, "", &files[..10_000]), Err(()));
        assert_eq!(concerns(&patterns, "", &texts(&["docs/7x"])), Ok(true));
    }

    #[test]
    fn rnd_148_a_star_stops_at_a_slash() {
        let hit = |path: &str, file: &str| files_changed(&texts(&[path]), &texts(&[file]));
        assert!(hit("apps/*.yaml", "apps/a.yaml"));
        assert!(!hit("apps/*.yaml", "apps/b/a.yaml"));
        assert!(!hit("[", "x"));
    }
}
