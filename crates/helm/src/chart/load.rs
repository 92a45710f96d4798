//! From files to a chart: which file is what, and what is refused.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Number, Value};
use tiphys_go::memory::Memory;
use tiphys_go::nesting;
use tiphys_go::yaml::{self, Dialect, YamlError};
use tiphys_tree::{Tree, TreeError, TreePath};

use super::archive::unpack;
use super::decode::{decode_over, not_a_map};
use super::metadata::ValidationError;
use super::{Chart, DecodeError, File, IgnoreError, Lock, LockError, LockState, Metadata, Subchart, lock};
use crate::HelmVersion;

/// Charts inside charts that are looked into.
const NESTING_MAX: usize = 30;
/// Largest single file for Helm 3.
const V3_FILE_BYTES_MAX: u64 = 5 << 20;

/// How large a chart may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadLimits {
    /// Files and directories, those of packed charts included.
    pub files: usize,
    /// Bytes of all files, those of packed charts included.
    pub bytes: u64,
    /// Bytes of the files of one directory or archive; Helm's limit.
    pub archive_bytes: u64,
    /// Bytes that values and metadata take in memory once they are read.
    pub memory: usize,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self { files: 100_000, bytes: 200 << 20, archive_bytes: 100 << 20, memory: 128 << 20 }
    }
}

/// Why a document is not read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// It is not YAML.
    #[error("{before}error converting YAML to JSON: {source}")]
    Yaml {
        /// What was being done.
        before: &'static str,
        /// What the parser says.
        source: YamlError,
    },
    /// It says other things than it should.
    #[error("{before}{source}")]
    Decode {
        /// What was being done.
        before: &'static str,
        /// What does not fit.
        source: DecodeError,
    },
}

impl DocumentError {
    /// Whether it takes more memory than there is for it.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self, Self::Yaml { source: YamlError::Memory { .. }, .. })
    }
}

impl ChartError {
    /// Whether the chart takes more memory, or has more files, than the limits allow: with larger ones it may be loaded.
    pub fn is_memory(&self) -> bool {
        match self {
            Self::TooLarge { .. } | Self::TooManyFiles { .. } => true,
            Self::Document { source, .. } => source.is_memory(),
            Self::Subchart { source, .. } => source.is_memory(),
            _ => false,
        }
    }
}

/// Why a chart cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChartError {
    /// There is no `Chart.yaml`.
    #[error("Chart.yaml file is missing")]
    Missing,
    /// A file of the chart is not what it should be.
    #[error("cannot load {name}: {source}")]
    Document {
        /// The file.
        name: String,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// `Chart.yaml` is not valid.
    #[error(transparent)]
    Validation(#[from] ValidationError),
    /// An `apiVersion` that this Helm does not know.
    #[error("unsupported chart version")]
    ApiVersion,
    /// The `apiVersion` of charts that Helm reads and does not install.
    #[error("invalid chart apiVersion")]
    ApiVersion3,
    /// A member of `charts/` is no chart.
    #[error("error unpacking subchart {member} in {chart}: {source}")]
    Subchart {
        /// The member of `charts/`.
        member: String,
        /// The chart around it.
        chart: String,
        /// What is wrong with it.
        source: Box<Self>,
    },
    /// A directory in `charts/` that is called like a packed chart.
    #[error("error unpacking subchart tar in {chart}: expected {member}, got {found}")]
    SubchartDirectory {
        /// The chart around it.
        chart: String,
        /// The directory.
        member: String,
        /// A file in it.
        found: String,
    },
    /// Charts inside charts without an end.
    #[error("charts are nested more than {NESTING_MAX} deep")]
    Nesting,
    /// `.helmignore` is wrong.
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
    /// The tree cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// Not a regular file.
    #[error("cannot load irregular file {name} as it has file mode type bits set")]
    Irregular {
        /// The file.
        name: String,
    },
    /// A link that leaves the repository or the archive.
    #[error("{name} is a link that leaves the chart's repository")]
    Link {
        /// The link.
        name: String,
    },
    /// A link to nothing.
    #[error("error evaluating symlink {name}: no such file or directory")]
    DanglingLink {
        /// The link.
        name: String,
    },
    /// A link that leads to itself.
    #[error("error evaluating symlink {name}: too many links")]
    LinkLoop {
        /// The link.
        name: String,
    },
    /// Directories inside directories without an end.
    #[error("directories of the chart are nested too deeply")]
    TooDeep,
    /// Larger than Helm takes.
    #[error("chart exceeds maximum decompressed size of {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// A file larger than Helm 3 takes.
    #[error("chart file {name:?} is larger than the maximum file size {limit}")]
    FileTooLarge {
        /// The file.
        name: String,
        /// The limit.
        limit: u64,
    },
    /// More files than the limit.
    #[error("the chart has more than {limit} files")]
    TooManyFiles {
        /// The limit.
        limit: usize,
    },
    /// Not a packed chart.
    #[error("the file does not appear to be a gzipped archive")]
    NotGzip,
    /// A damaged archive.
    #[error("unable to load chart archive: {what}")]
    Archive {
        /// What is wrong.
        what: String,
    },
    /// An archive without files.
    #[error("no files in chart archive")]
    EmptyArchive,
    /// A member of an archive with a name that leads elsewhere.
    #[error("{what}: {name:?}")]
    UnsafeName {
        /// What is wrong with it.
        what: &'static str,
        /// The name.
        name: String,
    },
}

/// What is left of the limits while a chart is read.
#[derive(Debug)]
pub(super) struct Budget {
    pub(super) version: HelmVersion,
    pub(super) limits: LoadLimits,
    files: usize,
    bytes: u64,
    /// Bytes of the present directory.
    directory: u64,
    memory: Memory,
}

impl Budget {
    pub(super) fn new(version: HelmVersion, limits: LoadLimits) -> Self {
        let memory = Memory::new(limits.memory);
        Self { version, limits, files: 0, bytes: 0, directory: 0, memory }
    }

    /// Counts a file or directory.
    pub(super) fn file(&mut self) -> Result<(), ChartError> {
        self.files += 1;
        let limit = self.limits.files;
        if self.files > limit { Err(ChartError::TooManyFiles { limit }) } else { Ok(()) }
    }

    /// Checks the size of one file.
    pub(super) fn file_size(&self, name: &str, size: u64) -> Result<(), ChartError> {
        let limit = V3_FILE_BYTES_MAX;
        if self.version == HelmVersion::V3 && size > limit {
            return Err(ChartError::FileTooLarge { name: name.to_owned(), limit });
        }
        Ok(())
    }

    /// Counts bytes of files.
    pub(super) fn bytes(&mut self, bytes: u64) -> Result<(), ChartError> {
        self.bytes = self.bytes.saturating_add(bytes);
        let limit = self.limits.bytes;
        if self.bytes > limit { Err(ChartError::TooLarge { limit }) } else { Ok(()) }
    }

    /// Reads a file of a directory.
    pub(super) fn read(&mut self, tree: &dyn Tree, path: &TreePath, name: &str) -> Result<Bytes, ChartError> {
        let limit = self.limits.archive_bytes;
        let left = limit.saturating_sub(self.directory);
        let data = match tree.read(path, left) {
            Err(TreeError::TooLarge { .. }) => return Err(ChartError::TooLarge { limit }),
            Err(TreeError::NotAFile { .. }) => return Err(ChartError::Irregular { name: name.to_owned() }),
            other => other?,
        };
        self.file_size(name, data.len() as u64)?;
        self.directory += data.len() as u64;
        self.bytes(data.len() as u64)?;
        Ok(data)
    }
}

/// Makes a chart of its files.
pub(super) fn load_files(files: Vec<File>, budget: &mut Budget, depth: usize) -> Result<Chart, ChartError> {
    if depth > NESTING_MAX {
        return Err(ChartError::Nesting);
    }
    let mut parts = Parts::default();
    for file in files.iter().filter(|file| file.name == "Chart.yaml") {
        parts.merge_metadata(file, budget)?;
        let api_version = parts.metadata.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
        if api_version.is_empty() {
            parts.set_api_version("v1");
        }
    }
    for file in files {
        parts.sort(file, budget)?;
    }
    if !parts.is_chart {
        return Err(ChartError::Missing);
    }
    let mut chart = parts.chart;
    let document = Value::Object(parts.metadata);
    chart.metadata = Metadata::decode(&document).map_err(|source| wrong("Chart.yaml", source))?;
    chart.metadata.validate(&document)?;
    let is_known = matches!(chart.metadata.api_version.as_str(), "v1" | "v2" | "v3");
    if depth == 0 && budget.version == HelmVersion::V4 && !is_known {
        return Err(ChartError::ApiVersion);
    }
    chart.templates = parts.templates.into();
    chart.files = parts.files.into();
    for (member, files) in parts.subcharts {
        if member.starts_with(['_', '.']) {
            continue;
        }
        let inner = load_subchart(&member, files, budget, depth + 1);
        let inner = inner.map_err(|error| error.in_chart(&member, chart.name()))?;
        chart.subcharts.push(Subchart { chart: Arc::new(inner), member });
    }
    Ok(chart)
}

/// Whether a member of `charts/` is a packed chart.
pub(crate) fn is_packed(member: &str) -> bool {
    // What Go calls the extension begins at the last dot, wherever it stands.
    member.rsplit_once('.').is_some_and(|(_, extension)| extension == "tgz")
}

fn load_subchart(
    member: &str,
    files: Vec<File>,
    budget: &mut Budget,
    depth: usize,
) -> Result<Chart, ChartError> {
    if !is_packed(member) {
        let below = |file: File| {
            let (_, name) = file.name.split_once('/')?;
            Some(File { name: name.to_owned(), data: file.data })
        };
        return load_files(files.into_iter().filter_map(below).collect(), budget, depth);
    }
    let Some(file) = files.into_iter().next() else { return Err(ChartError::Missing) };
    if file.name != member {
        let (member, found) = (member.to_owned(), file.name);
        return Err(ChartError::SubchartDirectory { chart: String::new(), member, found });
    }
    let files = unpack(&file.data, budget)?;
    load_files(files, budget, depth)
}

impl ChartError {
    fn in_chart(self, member: &str, chart: &str) -> Self {
        match self {
            Self::SubchartDirectory { member, found, .. } => {
                Self::SubchartDirectory { chart: chart.to_owned(), member, found }
            }
            error => {
                Self::Subchart { member: member.to_owned(), chart: chart.to_owned(), source: Box::new(error) }
            }
        }
    }
}

/// What the files of a chart are found to be.
#[derive(Default)]
struct Parts {
    chart: Chart,
    /// `Chart.yaml` and `requirements.yaml`, one decoded over the other.
    metadata: Map<String, Value>,
    is_chart: bool,
    templates: Vec<File>,
    files: Vec<File>,
    subcharts: BTreeMap<String, Vec<File>>,
}

impl Parts {
    fn merge_metadata(&mut self, file: &File, budget: &mut Budget) -> Result<(), ChartError> {
        let document = read_document(file, budget)?;
        Metadata::decode(&document).map_err(|source| wrong(&file.name, source))?;
        let merged = decode_over(Value::Object(std::mem::take(&mut self.metadata)), document);
        if let Value::Object(members) = merged {
            self.metadata = members;
        }
        self.is_chart = true;
        Ok(())
    }

    fn set_api_version(&mut self, version: &str) {
        self.metadata.insert("apiVersion".to_owned(), Value::from(version));
    }

    fn is_v1(&self) -> bool {
        self.metadata.get("apiVersion").and_then(Value::as_str) == Some("v1")
    }

    /// Puts a file where it belongs (RND-165).
    fn sort(&mut self, file: File, budget: &mut Budget) -> Result<(), ChartError> {
        match file.name.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => self.read_lock(&file, budget)?,
            "values.yaml" => {
                let values = read_values(&file.data, budget.version, &mut budget.memory);
                self.chart.values = Arc::new(values.map_err(|source| wrong(&file.name, source))?);
                self.chart.values_text = Some(file.data);
            }
            "values.schema.json" => self.chart.schema = Some(file.data),
            "requirements.yaml" => {
                self.merge_metadata(&file, budget)?;
                if self.is_v1() {
                    self.files.push(file);
                }
            }
            "requirements.lock" => {
                self.read_lock(&file, budget)?;
                if self.is_v1() {
                    self.files.push(file);
                }
            }
            name if name.starts_with("templates/") => self.templates.push(file),
            name => match name.strip_prefix("charts/") {
                Some(below) if !is_provenance(below) => {
                    let below = below.to_owned();
                    let member =
                        below.split_once('/').map_or(below.as_str(), |(member, _)| member).to_owned();
                    let file = File { name: below, data: file.data };
                    self.subcharts.entry(member).or_default().push(file);
                }
                _ => self.files.push(file),
            },
        }
        Ok(())
    }

    fn read_lock(&mut self, file: &File, budget: &mut Budget) -> Result<(), ChartError> {
        let document = read_document(file, budget)?;
        self.chart.lock = Lock::decode(&document).map_err(|source| wrong(&file.name, source))?;
        Ok(())
    }
}

fn is_provenance(name: &str) -> bool {
    name.rsplit_once('/')
        .map_or(name, |(_, name)| name)
        .rsplit_once('.')
        .is_some_and(|(_, end)| end == "prov")
}

fn wrong(name: &str, source: impl Into<DocumentError>) -> ChartError {
    ChartError::Document { name: name.to_owned(), source: source.into() }
}

impl From<DecodeError> for DocumentError {
    fn from(source: DecodeError) -> Self {
        Self::Decode { before: "", source }
    }
}

impl From<YamlError> for DocumentError {
    fn from(source: YamlError) -> Self {
        Self::Yaml { before: "", source }
    }
}

/// The first document of a file.
fn read_document(file: &File, budget: &mut Budget) -> Result<Value, ChartError> {
    let failed = |source: YamlError| wrong(&file.name, source);
    let text = yaml::decode_text(&file.data).map_err(failed)?;
    // An unquoted `appVersion: 12345e6` is a text field: Go spells the float.
    let memory = &mut budget.memory;
    let document = yaml::parse_keeping_floats_within(&text, Dialect::Sigs, nesting::DEPTH_MAX, memory);
    Ok(document.map_err(failed)?.unwrap_or(Value::Null))
}

/// Values of a file: for Helm 4 of all its documents, a later one over an earlier one, for Helm 3 of the first
/// (RND-164). All numbers are floats (RND-173).
pub(crate) fn read_values(
    text: &[u8],
    version: HelmVersion,
    memory: &mut Memory,
) -> Result<Map<String, Value>, DocumentError> {
    let before = match version {
        HelmVersion::V3 => "",
        HelmVersion::V4 => "cannot unmarshal yaml document: ",
    };
    let failed = |source| DocumentError::Yaml { before, source };
    let text = yaml::decode_text(text).map_err(failed)?;
    let mut read =
        |document: &str| match yaml::parse_within(document, Dialect::Sigs, nesting::DEPTH_MAX, memory)
            .map_err(failed)?
        {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(members)) => Ok(floats(members)),
            Some(other) => Err(DocumentError::Decode { before, source: not_a_map(&other) }),
        };
    match version {
        HelmVersion::V3 => read(&text),
        HelmVersion::V4 => yaml::split_documents(&text).try_fold(Map::new(), |mut values, document| {
            merge(&mut values, read(&document)?);
            Ok(values)
        }),
    }
}

/// Lays values over others: maps are merged, anything else is replaced.
pub(crate) fn merge(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// The same values with floats only, as Go's `json.Unmarshal` makes them.
pub(crate) fn floats(mut members: Map<String, Value>) -> Map<String, Value> {
    members.values_mut().for_each(make_float);
    members
}

fn make_float(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(float) = number.as_f64().and_then(Number::from_f64) {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_float),
        Value::Object(members) => members.values_mut().for_each(make_float),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

impl Chart {
    /// What the lock file of the chart is worth. `repository` gives the URL behind the name of a registered
    /// repository (RND-104).
    pub fn lock_state(&self, repository: &dyn Fn(&str) -> Option<String>) -> Result<LockState, LockError> {
        lock::state(self.lock.as_ref(), &self.metadata, repository)
    }
}
