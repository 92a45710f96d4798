//! Paths with slashes as Go's `path` cleans them, and `path/filepath` on Linux, which does the same.

/// The shortest path to the same place as a relative path: `path.Clean`. Slashes in front count for nothing, `..` above
/// the start stays, and `.` is the place itself.
pub fn clean_relative(path: &str) -> String {
    // Parts of a text between slashes, joined with slashes, are a text.
    String::from_utf8_lossy(&clean_bytes(path.trim_start_matches('/').as_bytes())).into_owned()
}

/// The shortest path to the same place.
pub(crate) fn clean_bytes(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut kept: Vec<&[u8]> = Vec::new();
    for element in path.split(|byte| *byte == b'/') {
        match element {
            b"" | b"." => {}
            b".." => match kept.last() {
                Some(last) if *last != b".." => drop(kept.pop()),
                _ if rooted => {}
                _ => kept.push(element),
            },
            _ => kept.push(element),
        }
    }
    let joined = kept.join(b"/".as_slice());
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", joined.as_slice()].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_cleaned_as_gos_path_does() {
        for (path, cleaned) in [
            ("", "."),
            ("/", "."),
            ("./", "."),
            ("//a//b/", "a/b"),
            ("a/../..", ".."),
            ("/../a", "../a"),
            ("a/./b/../ä", "a/ä"),
            ("../../a/..", "../.."),
        ] {
            assert_eq!(clean_relative(path), cleaned, "{path}");
        }
        assert_eq!(clean_bytes(b"/../a"), b"/a");
    }
}
