//! From rendered texts to documents in Helm's order (RND-201..204).
//!
//! A document is looked at once: what is read to find its kind and its hooks is what is handed on.

mod hook;
mod kinds;
mod split;

use std::sync::Arc;

use serde_json::Value;
use tiphys_go::live;
use tiphys_go::memory::Memory;
use tiphys_go::nesting;
use tiphys_go::yaml::{self, Dialect, YamlError};

use crate::HelmVersion;
use crate::chart::{DecodeError, GoType, Record};
pub use hook::{Hook, HookEvent};

/// One document of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// Path of the template, beginning with the name of the chart.
    pub source: Arc<str>,
    /// The text, as the template gave it.
    pub text: String,
    /// What the text says; nothing when it is a comment only.
    pub object: Option<Value>,
    /// What makes it a hook.
    pub hook: Option<Hook>,
}

/// Why rendered texts are no manifests.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// A document that is not YAML.
    #[error("YAML parse error on {path}: error converting YAML to JSON: {source}")]
    Yaml {
        /// The template.
        path: String,
        /// What the parser says.
        source: YamlError,
    },
    /// A document whose head is not that of a manifest.
    #[error("YAML parse error on {path}: {source}")]
    Head {
        /// The template.
        path: String,
        /// What does not fit.
        source: DecodeError,
    },
    /// The documents and all else that the rendering holds.
    #[error("the rendered manifests hold more than {bound} bytes of memory")]
    Held {
        /// The bound.
        bound: usize,
    },
    /// The documents take too much memory.
    #[error("the rendered manifests take more than {limit} bytes of memory")]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// There are too many of them.
    #[error("the chart renders more than {limit} manifests")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

/// Documents of all templates, sorted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sorted {
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) hooks: Vec<Manifest>,
}

/// A rendered template.
#[derive(Clone, Debug)]
pub(crate) struct RenderedFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// What is shared by the documents of a rendering.
#[derive(Debug)]
pub(crate) struct OutputBudget {
    pub(crate) memory: Memory,
    pub(crate) documents: usize,
}

const HEAD_V4: GoType =
    GoType { name: "SimpleHead", full_name: "util.SimpleHead", fields: &["apiVersion", "kind", "metadata"] };
const HEAD_V3: GoType = GoType {
    name: "SimpleHead",
    full_name: "releaseutil.SimpleHead",
    fields: &["apiVersion", "kind", "metadata"],
};
const METADATA: GoType = GoType {
    name: "",
    full_name: "struct { Name string \"json:\\\"name\\\"\"; Annotations map[string]string \"json:\\\"annotations\\\"\" }",
    fields: &["name", "annotations"],
};

/// Splits texts into documents and puts them in Helm's order.
pub(crate) fn sort(
    mut files: Vec<RenderedFile>,
    version: HelmVersion,
    budget: &mut OutputBudget,
) -> Result<Sorted, OutputError> {
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let mut sorted = Sorted::default();
    let mut kinds = Kinds::default();
    for file in &files {
        let name = file.path.rsplit_once('/').map_or(file.path.as_str(), |(_, name)| name);
        if name.starts_with('_') || file.text.trim().is_empty() {
            continue;
        }
        let source: Arc<str> = file.path.as_str().into();
        for text in split::documents(&file.text, version) {
            live::check().map_err(|exceeded| OutputError::Held { bound: exceeded.bound })?;
            read(&source, text, version, budget, &mut sorted, &mut kinds)?;
        }
    }
    sorted.manifests = kinds::sort(sorted.manifests, kinds.manifests, version);
    sorted.hooks = kinds::sort(sorted.hooks, kinds.hooks, version);
    if let Some(last) = sorted.manifests.last_mut() {
        trim(last, budget)?;
    }
    Ok(sorted)
}

/// Kinds of the documents found so far.
#[derive(Debug, Default)]
struct Kinds {
    manifests: Vec<String>,
    hooks: Vec<String>,
}

fn read(
    source: &Arc<str>,
    text: &str,
    version: HelmVersion,
    budget: &mut OutputBudget,
    sorted: &mut Sorted,
    kinds: &mut Kinds,
) -> Result<(), OutputError> {
    let limit = budget.documents;
    if sorted.manifests.len() + sorted.hooks.len() >= limit {
        return Err(OutputError::TooMany { limit });
    }
    let object = parse(source, text, budget)?;
    let head = |source_error| OutputError::Head { path: source.to_string(), source: source_error };
    let (kind, hook) = match &object {
        None => (String::new(), hook::Found::None),
        Some(object) => read_head(object, version).map_err(head)?,
    };
    let manifest = |hook| Manifest { source: Arc::clone(source), text: text.to_owned(), object, hook };
    match hook {
        hook::Found::None => {
            sorted.manifests.push(manifest(None));
            kinds.manifests.push(kind);
        }
        hook::Found::Hook(found) => {
            sorted.hooks.push(manifest(Some(found)));
            kinds.hooks.push(kind);
        }
        hook::Found::Unknown => {}
    }
    Ok(())
}

/// The kind of a document and what its annotations say of hooks.
fn read_head(object: &Value, version: HelmVersion) -> Result<(String, hook::Found), DecodeError> {
    let head = match version {
        HelmVersion::V3 => HEAD_V3,
        HelmVersion::V4 => HEAD_V4,
    };
    let head = Record::of(object, head)?;
    head.text("apiVersion")?;
    let kind = head.text("kind")?;
    let Some(metadata) = head.record("metadata", METADATA)? else { return Ok((kind, hook::Found::None)) };
    metadata.text("name")?;
    let annotations = metadata.text_map("annotations")?.unwrap_or_default();
    Ok((kind, hook::find(&annotations)))
}

fn parse(source: &str, text: &str, budget: &mut OutputBudget) -> Result<Option<Value>, OutputError> {
    // In Helm's stream a line end follows each document.
    let text = format!("{text}\n");
    match yaml::parse_within(&text, Dialect::Sigs, nesting::DEPTH_MAX, &mut budget.memory) {
        Ok(object) => Ok(object.filter(|object| !object.is_null())),
        Err(YamlError::Memory { limit }) => Err(OutputError::Memory { limit }),
        Err(error) => Err(OutputError::Yaml { path: source.to_owned(), source: error }),
    }
}

/// `helm template` trims the manifests as a whole, so the last one loses what is at its end. A text that keeps its
/// line ends can tell.
fn trim(manifest: &mut Manifest, budget: &mut OutputBudget) -> Result<(), OutputError> {
    let trimmed = manifest.text.trim_end();
    if trimmed.len() == manifest.text.len() {
        return Ok(());
    }
    manifest.text.truncate(trimmed.len());
    manifest.object = parse(&manifest.source, &manifest.text, budget)?;
    Ok(())
}

#[cfg(test)]
mod tests;
