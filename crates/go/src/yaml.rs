//! YAML as Go's libraries read and write it.
//!
//! Reading follows sigs.k8s.io/yaml 1.6 ([`Dialect::Sigs`]: Kubernetes, Helm, Argo CD) and go.yaml.in/yaml/v3
//! 3.0.5 ([`Dialect::V3`]: kustomize), writing follows sigs.k8s.io/yaml byte for byte. The grammar is
//! libyaml's, the ancestor of both Go parsers; which type a scalar has, how keys are spelled, and what merge
//! keys and duplicates do is decided here, because that is where the dialects differ (DEP-40, DEP-41).
//!
//! Values pass through JSON in Go, so there are no comments, no dates and no infinite numbers in the result.
//! Positions are not kept; an error names its line.
//!
//! Golden rows: `yaml-to-json.jsonl`, `yaml-v3.jsonl`, `json-to-yaml.jsonl`.

mod events;
mod order;
pub mod pull;
mod read;
mod resolve;
mod split;
mod style;
mod timestamp;
mod write;

use crate::memory::{Exceeded, Memory};
use crate::{json, nesting};
use serde_json::{Number, Value};
pub use split::{split_documents, split_documents_at};
use std::borrow::Cow;
pub(crate) use write::{Node, Written};

/// Which Go library is followed when reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// sigs.k8s.io/yaml: `yes` and `on` are booleans, also as keys; of equal keys the last wins.
    Sigs,
    /// go.yaml.in/yaml/v3: `yes` is text, dates are normalised, equal keys are an error.
    V3,
}

/// What a float without a fraction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WholeFloats {
    /// An integer where that has its digits, because the value passes through JSON text.
    ThroughJson,
    /// The float that it is.
    Kept,
}

/// How much one document may unfold to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that the tree takes in memory, by the tariff of [`Memory`].
    pub bytes_max: usize,
    /// Nesting of lists and mappings.
    pub depth_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes_max: 128 << 20, depth_max: nesting::DEPTH_MAX }
    }
}

/// Why a text is not read, or a value not written, as YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum YamlError {
    /// The text is not YAML.
    #[error("yaml: line {line}: {problem}")]
    Syntax {
        /// Line, counted from 1.
        line: u64,
        /// What the parser says.
        problem: String,
    },
    /// A `%YAML` directive other than 1.1.
    #[error("yaml: found incompatible YAML document")]
    Version,
    /// `\/` in double quotes.
    #[error("yaml: found unknown escape character")]
    Escape,
    /// `*name` without `&name` before it.
    #[error("yaml: unknown anchor {0:?} referenced")]
    UnknownAnchor(String),
    /// `*name` inside the value that `&name` stands on.
    #[error("yaml: anchor {0:?} value contains itself")]
    OpenAnchor(String),
    /// A tag such as `!!int` on text that is none.
    #[error("yaml: cannot decode {text:?} as a !!{tag}")]
    Tag {
        /// The scalar.
        text: String,
        /// The tag's short name.
        tag: String,
    },
    /// `!!binary` on text that is not base64.
    #[error("yaml: !!binary value contains invalid base64 data")]
    Binary,
    /// A merge key with a value that is neither a mapping nor a list of mappings.
    #[error("yaml: map merge requires map or sequence of maps as the value")]
    Merge,
    /// A key that has no spelling as text, or none that reads back.
    #[error("yaml: invalid map key: {0}")]
    Key(String),
    /// Two keys spelled alike ([`Dialect::V3`]).
    #[error("yaml: mapping key {0:?} already defined")]
    DuplicateKey(String),
    /// `.inf` or `.nan`, which JSON cannot hold.
    #[error("json: unsupported value: a number that is not finite")]
    NotFinite,
    /// Text with a character that YAML does not allow.
    #[error("yaml: control characters are not allowed")]
    ControlCharacter,
    /// Nesting beyond [`Limits::depth_max`].
    #[error("yaml: line {line}: exceeded max depth")]
    Depth {
        /// Line of the list or mapping that is one too many, counted from 1; 0 where there is none: an alias, a value.
        line: u64,
    },
    /// More than [`Limits::bytes_max`].
    #[error("yaml: the document takes more than {limit} bytes of memory")]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// Text that is neither UTF-8 nor UTF-16.
    #[error("yaml: invalid text encoding")]
    Encoding,
    /// JSON that is not JSON.
    #[error("error converting JSON to YAML")]
    Json(#[from] json::JsonError),
}

impl From<Exceeded> for YamlError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Memory { limit: exceeded.limit }
    }
}

impl YamlError {
    /// The same, for a text that begins after so many lines of a file.
    #[must_use]
    pub fn after_lines(self, lines: u64) -> Self {
        match self {
            Self::Syntax { line, problem } => Self::Syntax { line: line.saturating_add(lines), problem },
            Self::Depth { line } if line > 0 => Self::Depth { line: line.saturating_add(lines) },
            other => other,
        }
    }
}

/// Reads the first document of a text; `None` when there is none or it is null.
///
/// Numbers are what they are after the detour through JSON: whole floats that fit are integers. An integer
/// between the largest `i64` and the largest `u64` stays one here; Kubernetes makes it a float.
pub fn parse(text: &str, dialect: Dialect, limits: &Limits) -> Result<Option<Value>, YamlError> {
    parse_within(text, dialect, limits.depth_max, &mut Memory::new(limits.bytes_max))
}

/// Reads all documents of a text that say something; each has the limits for itself.
///
/// # Errors
/// With the first document that cannot be read, by its line in the text.
pub fn parse_documents(text: &str, dialect: Dialect, limits: &Limits) -> Result<Vec<Value>, YamlError> {
    let read = |(before, document): (u64, Cow<'_, str>)| {
        parse(&document, dialect, limits).map_err(|error| error.after_lines(before)).transpose()
    };
    split_documents_at(text).filter_map(read).collect()
}

/// The same for one of several documents that share a budget.
pub fn parse_within(
    text: &str,
    dialect: Dialect,
    depth_max: usize,
    memory: &mut Memory,
) -> Result<Option<Value>, YamlError> {
    let through_json = WholeFloats::ThroughJson;
    Ok(read::first_document(text, dialect, through_json, depth_max, memory)?.filter(|value| !value.is_null()))
}

/// The same with floats that are floats, also whole ones, for those who fill Go's text fields: there a float is
/// spelled ([`json::print_go`]) before it passes through JSON, and `12345e6` is another text than
/// `12345000000`.
pub fn parse_keeping_floats_within(
    text: &str,
    dialect: Dialect,
    depth_max: usize,
    memory: &mut Memory,
) -> Result<Option<Value>, YamlError> {
    let kept = WholeFloats::Kept;
    Ok(read::first_document(text, dialect, kept, depth_max, memory)?.filter(|value| !value.is_null()))
}

/// Writes a value as sigs.k8s.io/yaml marshals it, with a line end.
pub fn to_string(value: &Value) -> Result<String, YamlError> {
    write_within(value, usize::MAX)
}

/// Writes a value as go.yaml.in/yaml/v3 does, indented by two blanks, of so many bytes at most, with a line end.
///
/// # Errors
/// When it cannot be written as YAML, or is larger.
pub fn to_string_pretty(value: &Value, bytes_max: usize) -> Result<String, YamlError> {
    write_pretty(value, bytes_max)
}

/// Writes anything as sigs.k8s.io/yaml marshals it, of so many bytes at most.
pub(crate) fn write_within<T: Written>(value: T, bytes_max: usize) -> Result<String, YamlError> {
    write::document(value, write::Floats::ThroughJson, write::Layout::Sigs, bytes_max)
}

/// Writes anything as go.yaml.in/yaml/v3 does, indented by two blanks, of so many bytes at most.
pub(crate) fn write_pretty<T: Written>(value: T, bytes_max: usize) -> Result<String, YamlError> {
    write::document(value, write::Floats::AsRead, write::Layout::Pretty, bytes_max)
}

/// Converts the first document of a YAML text to JSON text: compact, keys sorted (EVAL-751).
pub fn yaml_to_json(text: &str, dialect: Dialect) -> Result<String, YamlError> {
    let value = parse(text, dialect, &Limits::default())?.unwrap_or(Value::Null);
    Ok(match dialect {
        Dialect::Sigs => json::to_string_go(&value),
        Dialect::V3 => json::to_string_unescaped(&value),
    })
}

/// Converts a JSON text to YAML as sigs.k8s.io/yaml does: numbers keep their digits until YAML reads them
/// (EVAL-752).
pub fn json_to_yaml(text: &str) -> Result<String, YamlError> {
    let value = json::decode_with(text.as_bytes(), |digits| {
        Ok(match resolve::guess(Dialect::Sigs, digits) {
            resolve::Scalar::Int(integer) => Value::from(integer),
            resolve::Scalar::Uint(integer) => Value::from(integer),
            resolve::Scalar::Float(float) => Number::from_f64(float).map_or(Value::Null, Value::Number),
            _ => Value::from(digits),
        })
    })?;
    write::document(&value, write::Floats::AsRead, write::Layout::Sigs, usize::MAX)
}

/// Decodes the bytes of a file: UTF-8, or UTF-16 of either order when a byte order mark says so (RND-74).
pub fn decode_text(bytes: &[u8]) -> Result<Cow<'_, str>, YamlError> {
    match bytes {
        [0xff, 0xfe, rest @ ..] => decode_utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => decode_utf16(rest, u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] | rest => {
            std::str::from_utf8(rest).map(Cow::Borrowed).map_err(|_invalid| YamlError::Encoding)
        }
    }
}

fn decode_utf16(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Result<Cow<'static, str>, YamlError> {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let decoded = char::decode_utf16(pairs.iter().map(|pair| unit(*pair)));
    let text: Option<String> = decoded.collect::<Result<_, _>>().ok();
    text.filter(|_| odd.is_empty()).map(Cow::Owned).ok_or(YamlError::Encoding)
}
