//! YAML files of requests and tests, and the references in them (EVAL-7, EVAL-43).
//!
//! `{$file: P}` stands for the document of file P, `{$file: P, kind: K, name: N}` for the one document of that kind and
//! name in it, `{$text: P}` for the text of the file. Paths are relative to the file that contains them, and so are the
//! `path` members of an input's `repos`.

use serde_json::{Map, Value};
use std::fs;
use std::path::{Path, PathBuf};
use tiphys_go::yaml::{self, Dialect, Limits};

/// References may lead to files with references, so deep.
const REFERENCE_DEPTH_MAX: usize = 16;

/// Why a file, or a reference in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DocumentError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The path as written.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not YAML.
    #[error("cannot parse {path}: {reason}")]
    Parse {
        /// The path as written.
        path: String,
        /// What the parser said.
        reason: String,
    },
    /// Not exactly one document fits.
    #[error("{path} has {count} documents of kind {kind:?} and name {name:?}")]
    NotOne {
        /// The path as written.
        path: String,
        /// The kind looked for; empty = any.
        kind: String,
        /// The name looked for; empty = any.
        name: String,
        /// How many there are.
        count: usize,
    },
    /// References that lead on and on.
    #[error("references of {0} go in a circle or too deep")]
    TooDeep(String),
    /// The content is not what the verb expects.
    #[error("{path}: {reason}")]
    Content {
        /// The path as written.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

/// Reads all documents of a YAML or JSON file, empty ones left out, references as they are.
pub(super) fn read(path: &Path) -> Result<Vec<Value>, DocumentError> {
    parse(&read_text(path)?, path)
}

fn read_text(path: &Path) -> Result<String, DocumentError> {
    let shown = || path.display().to_string();
    fs::read_to_string(path).map_err(|source| DocumentError::Read { path: shown(), source })
}

/// Reads all documents of a text that came from `path`.
pub(super) fn parse(text: &str, path: &Path) -> Result<Vec<Value>, DocumentError> {
    yaml::parse_documents(text, Dialect::Sigs, &Limits::default()).map_err(|problem| DocumentError::Parse {
        path: path.display().to_string(),
        reason: problem.to_string(),
    })
}

/// Puts the content of the named files in place of the references. `file` is where the value was written.
pub(super) fn resolve(value: Value, file: &Path) -> Result<Value, DocumentError> {
    resolve_at(value, folder_of(file), 0)
}

/// Like [`resolve`] for the `input` of a request: paths of its `repos` become usable from here.
pub(super) fn resolve_input(input: Value, file: &Path) -> Result<Value, DocumentError> {
    let folder = folder_of(file);
    let mut input = resolve_at(input, folder, 0)?;
    if let Some(Value::Array(repos)) = input.get_mut("repos") {
        for repo in repos {
            if let Some(Value::String(path)) = repo.get_mut("path") {
                *path = folder.join(&path).display().to_string();
            }
        }
    }
    Ok(input)
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or_else(|| Path::new(""))
}

fn resolve_at(value: Value, folder: &Path, depth: usize) -> Result<Value, DocumentError> {
    match value {
        Value::Object(members) => {
            if let Some(reference) = Reference::of(&members) {
                return reference.load(folder, depth);
            }
            let resolved: Result<Map<_, _>, _> = members
                .into_iter()
                .map(|(key, member)| Ok((key, resolve_at(member, folder, depth)?)))
                .collect();
            Ok(Value::Object(resolved?))
        }
        Value::Array(items) => {
            let resolved: Result<Vec<_>, _> =
                items.into_iter().map(|item| resolve_at(item, folder, depth)).collect();
            Ok(Value::Array(resolved?))
        }
        scalar => Ok(scalar),
    }
}

/// A map that stands for a file.
enum Reference {
    Document { path: String, kind: String, name: String },
    Text { path: String },
}

impl Reference {
    fn of(members: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| members.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(path) = text("$file")
            && members.keys().all(|key| matches!(key.as_str(), "$file" | "kind" | "name"))
        {
            let (kind, name) = (text("kind").unwrap_or_default(), text("name").unwrap_or_default());
            return Some(Self::Document { path, kind, name });
        }
        (members.len() == 1).then(|| text("$text")).flatten().map(|path| Self::Text { path })
    }

    fn load(self, folder: &Path, depth: usize) -> Result<Value, DocumentError> {
        match self {
            Self::Text { path } => read_text(&folder.join(path)).map(Value::String),
            Self::Document { path, kind, name } => {
                let file: PathBuf = folder.join(&path);
                if depth >= REFERENCE_DEPTH_MAX {
                    return Err(DocumentError::TooDeep(path));
                }
                let mut fitting: Vec<Value> = read(&file)?;
                fitting.retain(|document| fits(document, &kind, &name));
                match (fitting.pop(), fitting.len()) {
                    (Some(document), 0) => resolve_at(document, folder_of(&file), depth + 1),
                    (found, rest) => {
                        let count = rest + usize::from(found.is_some());
                        Err(DocumentError::NotOne { path, kind, name, count })
                    }
                }
            }
        }
    }
}

fn fits(document: &Value, kind: &str, name: &str) -> bool {
    let is = |found: Option<&Value>, wanted: &str| {
        wanted.is_empty() || found.and_then(Value::as_str) == Some(wanted)
    };
    is(document.get("kind"), kind) && is(document.pointer("/metadata/name"), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let two = "{\"kind\": \"A\", \"metadata\": {\"name\": \"x\"}, \"note\": {\"$text\": \"note.txt\"}}\n";
        fs::write(inner.join("one.yaml"), two).unwrap();
        fs::write(inner.join("note.txt"), "hello").unwrap();
        fs::write(folder.path().join("loop.yaml"), "{\"a\": {\"$file\": \"loop.yaml\"}}").unwrap();
        folder
    }

    #[test]
    fn eval_43_references_are_relative_to_the_file_that_holds_them() {
        let folder = folder();
        let file = folder.path().join("tests.yaml");
        let value = json!({"p": {"$file": "inner/one.yaml", "kind": "A", "name": "x"}});
        let expected = json!({"p": {"kind": "A", "metadata": {"name": "x"}, "note": "hello"}});
        assert_eq!(resolve(value, &file).unwrap(), expected);
    }

    #[test]
    fn eval_43_not_exactly_one_document_is_an_error() {
        let folder = folder();
        let file = folder.path().join("tests.yaml");
        for reference in [
            json!({"$file": "inner/one.yaml", "kind": "B"}),
            json!({"$file": "missing.yaml"}),
            json!({"$text": "missing.txt"}),
            json!({"$file": "loop.yaml"}),
        ] {
            assert!(resolve(reference.clone(), &file).is_err(), "{reference}");
        }
    }

    #[test]
    fn eval_43_repository_paths_are_relative_too() {
        let file = Path::new("policies/shop.yaml");
        let input = resolve_input(json!({"repos": [{"url": "u", "path": "tree"}]}), file).unwrap();
        assert_eq!(input, json!({"repos": [{"url": "u", "path": "policies/tree"}]}));
    }
}
