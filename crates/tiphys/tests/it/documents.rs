//! What documents name exists.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The paths that a document names in backticks: several parts, of which the first is a folder of ours.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |word: &&str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-{},".contains(c);
        let first = word.split('/').next().unwrap_or_default();
        word.contains('/')
            && word.chars().all(is_plain)
            // Made by a build.
            && first != "target"
            && !first.is_empty()
            && (root().join(first).is_dir() || root().join("crates").join(first).is_dir())
    };
    text.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).filter(is_path)
}

/// `a/{b,c}` stands for `a/b` and `a/c`.
fn spelled_out(path: &str) -> Vec<String> {
    match path.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (names, after))) => {
            names.split(',').map(|name| format!("{before}{name}{after}")).collect()
        }
        None => vec![path.to_owned()],
    }
}

#[test]
fn paths_that_documents_name_exist() {
    let mut missing = Vec::new();
    let mut found = 0;
    for name in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        for path in paths(&text).flat_map(spelled_out) {
            let places = [root().join(&path), root().join("crates").join(&path)];
            found += 1;
            if !places.iter().any(|place| place.exists()) {
                missing.push(format!("{name}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
    assert!(found > 40, "{found} paths: the way they are found is broken");
}
