//! Which changes concern an application: the annotation `manifest-generate-paths` (RND-147, RND-148).

use tiphys_go::path_match;

/// Paths of the annotation, cleaned and relative to the root; the root itself is `.` (RND-147).
///
/// ```
/// # use tiphys_render::refresh::refresh_paths;
/// assert_eq!(refresh_paths(".;../shared;/base", "apps/a"), ["apps/a", "apps/shared", "base"]);
/// ```
pub fn refresh_paths(annotation: &str, source_path: &str) -> Vec<String> {
    annotation
        .split(';')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| match item.strip_prefix('/') {
            Some(absolute) => clean(absolute),
            None => clean(&format!("{source_path}/{item}")),
        })
        .collect()
}

/// Whether changed files concern an application with these refresh paths, which are cleaned first (RND-148).
///
/// Nothing to compare counts as a change: no paths, or no files known.
pub fn files_changed(refresh_paths: &[String], changed_files: &[String]) -> bool {
    if refresh_paths.is_empty() || changed_files.is_empty() {
        return true;
    }
    changed_files.iter().any(|file| refresh_paths.iter().any(|path| is_hit(path, file)))
}

fn is_hit(path: &str, file: &str) -> bool {
    let path = &*clean(path);
    path.is_empty()
        || path == "."
        || path == file
        || file.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        // A malformed pattern matches nothing.
        || path_match::is_match(path, file).unwrap_or(false)
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

    #[test]
    fn rnd_148_a_star_stops_at_a_slash() {
        let hit = |path: &str, file: &str| files_changed(&texts(&[path]), &texts(&[file]));
        assert!(hit("apps/*.yaml", "apps/a.yaml"));
        assert!(!hit("apps/*.yaml", "apps/b/a.yaml"));
        assert!(!hit("[", "x"));
    }
}
