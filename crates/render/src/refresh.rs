//! Which changes concern an application: the annotation `manifest-generate-paths` (RND-147, RND-148).

use std::collections::HashSet;

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
    changed_within(refresh_paths, changed_files, &mut Steps::unlimited()).unwrap_or(true)
}

/// Whether changed files concern an application with this annotation and source path, found out within a budget.
///
/// # Errors
/// When the steps do not suffice: annotation, path and files are other people's, and each path is laid below the
/// source's and held against each file.
pub fn concerns(
    annotation: &str,
    source_path: &str,
    changed_files: &[String],
    steps: &mut Steps,
) -> Result<bool, TooManySteps> {
    let paths = paths_within(annotation, source_path, steps)?;
    changed_within(&paths, changed_files, steps)
}

fn paths_within(annotation: &str, source_path: &str, steps: &mut Steps) -> Result<Vec<String>, TooManySteps> {
    let items = annotation.split(';').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            steps.spend(item.len())?;
            if let Some(absolute) = item.strip_prefix('/') {
                return Ok(clean(absolute));
            }
            steps.spend(source_path.len())?;
            Ok(clean(&format!("{source_path}/{item}")))
        })
        .collect()
}

fn changed_within(paths: &[String], files: &[String], steps: &mut Steps) -> Result<bool, TooManySteps> {
    if paths.is_empty() || files.is_empty() {
        return Ok(true);
    }
    let mut cleaned = HashSet::with_capacity(paths.len());
    for path in paths {
        steps.spend(path.len() + 1)?;
        cleaned.insert(clean(path));
    }
    if cleaned.contains(".") {
        return Ok(true);
    }
    let patterns: Vec<&String> = cleaned.iter().filter(|path| path.contains(['*', '?', '[', '\\'])).collect();
    for file in files {
        steps.spend(file.len() + 1)?;
        let directories = file.match_indices('/').filter_map(|(end, _)| file.get(..end));
        if cleaned.contains(file.as_str()) || directories.into_iter().any(|path| cleaned.contains(path)) {
            return Ok(true);
        }
        for pattern in &patterns {
            // A malformed pattern matches nothing.
            if path_match::is_match_within(pattern, file, steps)?.unwrap_or(false) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Cleans as Go's `filepath.Clean` does, without the leading slash: `..` above the root stays.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    if parts.is_empty() { ".".to_owned() } else { parts.join("/") }
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
            concerns(annotation, path, files, &mut steps).map_err(|_exceeded| ())
        };
        let many = "a;".repeat(130_000);
        assert_eq!(concerns(&many, &"p/".repeat(250_000), &texts(&["x"])), Err(()));
        let files: Vec<String> = (0..100_000).map(|file| format!("docs/{file}")).collect();
        let paths = (0..20_000).map(|path| format!("/apps/{path};")).collect::<Vec<_>>().concat();
        assert_eq!(concerns(&paths, "", &files[..10_000]), Ok(false), "names are looked up");
        assert_eq!(concerns(&paths, "", &files), Err(()));
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
