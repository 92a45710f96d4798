//! Builds of `testdata`, of which the real program's answers are recorded (`hack/oracles/kustomize/record.py`).

#![expect(clippy::unwrap_used, clippy::format_collect, reason = "helpers of tests count as no tests")]

use std::fs;
use std::path::Path;

use serde_json::Value;
use tiphys_go::yaml::{Dialect, Limits, parse_documents};
use tiphys_kustomize::{Budget, Context, Options, build, compare};
use tiphys_tree::{MemoryTree, TreePath};

/// Options, files, and what the program printed.
fn read(text: &str) -> (Options, Vec<(String, String)>, String) {
    let mut options = Options::default();
    let mut files: Vec<(String, String)> = Vec::new();
    for line in text.split_inclusive('\n') {
        if let Some(path) = line.strip_prefix("-- ").and_then(|rest| rest.strip_suffix(" --\n")) {
            files.push((path.to_owned(), String::new()));
        } else if let Some((_, content)) = files.last_mut() {
            content.push_str(line);
        } else if let Some(words) = line.strip_prefix("options: ") {
            options = Options::parse(words.trim()).unwrap();
        }
    }
    let (_, expected) = files.pop().unwrap();
    (options, files, expected)
}

fn difference(text: &str) -> Option<String> {
    let (options, files, expected) = read(text);
    let tree = MemoryTree::from_files(files).unwrap();
    let built = build(&tree, &TreePath::root(), &options, &Context::default(), &Budget::default());
    match (built, expected.strip_prefix("Error: ")) {
        (Ok(built), None) => {
            let theirs: Vec<Value> = parse_documents(&expected, Dialect::Sigs, &Limits::default()).unwrap();
            let found = compare::differences(&built.objects, &theirs, 3);
            (!found.is_empty()).then(|| found.iter().map(|one| format!("\n    {one}")).collect())
        }
        (Err(error), Some(theirs)) => {
            // The root has no name here.
            let theirs = compare::program_error(theirs, "").replace("directory ''", "directory '.'");
            let theirs = if theirs.ends_with("under:") { format!("{theirs} .") } else { theirs };
            let ours = error.to_string().trim().to_owned();
            (ours != theirs).then(|| format!("\n    {ours}\n    {theirs}"))
        }
        (Ok(built), Some(error)) => Some(format!("{} objects, not: {error}", built.objects.len())),
        (Err(error), None) => Some(error.to_string()),
    }
}

#[test]
fn rnd_207_to_239_builds_are_those_of_the_program() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        count += 1;
        if let Some(difference) = difference(&fs::read_to_string(path).unwrap()) {
            wrong.push(format!("{name}: {difference}"));
        }
    }
    assert!(count >= 70, "{count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
