//! A chart: what is in its files, read once and never changed.
//!
//! A [`Chart`] is what [`load_directory`] and [`load_archive`] make of files. It knows nothing of values given by
//! users: which of its dependencies take part in a rendering, and under which names, is decided for each
//! rendering (`crate::dependencies`). So one chart serves any number of renderings, from any number of threads.

mod archive;
mod decode;
mod directory;
mod ignore;
mod load;
mod lock;
mod metadata;

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::cache::Cache;

pub use archive::load_archive;
pub use decode::DecodeError;
pub(crate) use decode::{GoType, Record};
pub use directory::load_directory;
pub use ignore::{IgnoreError, IgnoreRules};
pub use load::{ChartError, DocumentError, LoadLimits};
pub(crate) use load::{is_packed, merge, read_values};
pub use lock::{Lock, LockError, LockState};
pub use metadata::{ChartType, Dependency, ImportValue, Maintainer, Metadata};

/// A file of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Path below the directory of the chart, with `/`.
    pub name: String,
    /// Content, without a byte order mark.
    pub data: Bytes,
}

/// A chart in `charts/` of another.
#[derive(Clone, Debug)]
pub struct Subchart {
    /// The chart.
    pub chart: Arc<Chart>,
    /// Name of its directory or archive in `charts/`.
    pub member: String,
}

/// A chart as its files say (RND-165).
#[derive(Clone, Debug, Default)]
pub struct Chart {
    /// `Chart.yaml`, with what `requirements.yaml` adds.
    pub metadata: Metadata,
    /// `Chart.lock` or `requirements.lock`.
    pub lock: Option<Lock>,
    /// `values.yaml`. Every number is a float, as in Go (RND-173).
    pub values: Arc<Map<String, Value>>,
    /// The text of `values.yaml`.
    pub values_text: Option<Bytes>,
    /// `values.schema.json`.
    pub schema: Option<Bytes>,
    /// Files below `templates/`.
    pub templates: Arc<[File]>,
    /// All other files but charts in `charts/`; what `.Files` shows.
    pub files: Arc<[File]>,
    /// Charts in `charts/`, by the names of their directories and archives.
    pub subcharts: Vec<Subchart>,
    /// What renderings share.
    pub(crate) cache: Cache,
}

impl Chart {
    /// The chart's own name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Files of `crds/` that are manifests, in the order of their paths (RND-204).
    pub fn crds(&self) -> impl Iterator<Item = &File> {
        let extensions = [".yaml", ".yml", ".json"];
        let is_manifest = move |name: &str| {
            let extension = name.rfind(['.', '/']).and_then(|at| name.get(at..)).unwrap_or_default();
            extensions.iter().any(|known| known.eq_ignore_ascii_case(extension))
        };
        self.files.iter().filter(move |file| file.name.starts_with("crds/") && is_manifest(&file.name))
    }

    /// Bytes of all files, packed charts unpacked. What a cache counts.
    pub fn size(&self) -> usize {
        let files =
            |files: &[File]| files.iter().map(|file| file.name.len() + file.data.len()).sum::<usize>();
        let inner = self.subcharts.iter().map(|subchart| subchart.chart.size()).sum::<usize>();
        let single = [&self.values_text, &self.schema].into_iter().flatten().map(Bytes::len).sum::<usize>();
        inner + files(&self.templates) + files(&self.files) + single
    }
}
