//! Cases as they are written.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tiphys_go::yaml;

/// Members of a step that say what it does; a step has one of them.
pub(crate) const VERBS: [&str; 14] = [
    "get",
    "post",
    "put",
    "delete",
    "head",
    "options",
    "send",
    "merge",
    "json",
    "strategic",
    "apply",
    "until",
    "watch",
    "kubectl",
];
/// Members that say how.
const DETAILS: [&str; 30] = [
    "body",
    "text",
    "type",
    "accept",
    "table",
    "headers",
    "save",
    "only",
    "drop",
    "quiet",
    "has",
    "gone",
    "count",
    "events",
    "while",
    "seconds",
    "stdin",
    "files",
    "keep",
    "lines",
    "again",
    "first",
    "parse",
    "sort",
    "repeat",
    "about",
    "without",
    "exact",
    "unordered",
    // The answer is that of a server that has forgotten its first writes; a fresh real one has not.
    "aged",
];

/// A script, and where its answers are.
pub(crate) struct Case {
    /// `area/name`.
    pub(crate) name: String,
    /// Namespaces it has for itself: `$ns`, `$ns2`, ….
    pub(crate) namespaces: usize,
    pub(crate) steps: Vec<Map<String, Value>>,
    /// Paths to delete at the end; what the steps created by requests is deleted anyway.
    pub(crate) cleanup: Vec<String>,
    /// Length of the text `$big`.
    pub(crate) big: usize,
    path: PathBuf,
}

impl Case {
    /// All cases whose name contains one of the given texts, by name.
    pub(crate) fn all(selection: &[&str]) -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract/cases");
        let mut cases = Vec::new();
        for area in entries(&root) {
            for path in entries(&area) {
                if path.extension().is_some_and(|extension| extension == "yaml") {
                    let name = path.with_extension("");
                    let name = name.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                    if selection.is_empty() || selection.iter().any(|one| name.contains(one)) {
                        cases.push(Self::read(name, path));
                    }
                }
            }
        }
        cases
    }

    fn read(name: String, path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap();
        let tree = yaml::parse(&text, yaml::Dialect::V3, &yaml::Limits::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"))
            .unwrap_or_else(|| panic!("{name} is empty"));
        for member in tree.as_object().unwrap().keys() {
            let known = ["about", "namespaces", "steps", "cleanup", "big"];
            assert!(known.contains(&member.as_str()), "{name}: what is {member}?");
        }
        let steps: Vec<Map<String, Value>> = objects(&tree["steps"]);
        check(&name, &steps);
        let cleanup = tree["cleanup"].as_array().into_iter().flatten();
        Self {
            namespaces: tree["namespaces"].as_u64().map_or(1, |count| usize::try_from(count).unwrap()),
            cleanup: cleanup.map(|path| path.as_str().unwrap().to_owned()).collect(),
            big: tree["big"].as_u64().map_or(0, |size| usize::try_from(size).unwrap()),
            name,
            steps,
            path,
        }
    }

    /// Where the answers are.
    pub(crate) fn answers_path(&self) -> PathBuf {
        self.path.with_extension("answers.json")
    }

    /// The recorded answers.
    pub(crate) fn answers(&self) -> Option<Vec<Value>> {
        let text = std::fs::read_to_string(self.answers_path()).ok()?;
        Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("answers of {}: {error}", self.name)))
    }
}

/// The steps inside a step, which are done while it goes on.
pub(crate) fn inner(step: &Map<String, Value>) -> Vec<Map<String, Value>> {
    step.get("while").map(objects).unwrap_or_default()
}

fn objects(value: &Value) -> Vec<Map<String, Value>> {
    value.as_array().into_iter().flatten().map(|one| one.as_object().unwrap().clone()).collect()
}

fn check(name: &str, steps: &[Map<String, Value>]) {
    for step in steps {
        let known: BTreeSet<&str> = VERBS.into_iter().chain(DETAILS).collect();
        for member in step.keys() {
            assert!(known.contains(member.as_str()), "{name}: what is {member}?");
        }
        let verbs = VERBS.into_iter().filter(|verb| step.contains_key(*verb)).count();
        assert_eq!(verbs, 1, "{name}: one step does one thing: {step:?}");
        check(name, &inner(step));
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
