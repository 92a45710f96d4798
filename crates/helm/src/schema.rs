//! JSON Schema, as `values.schema.json` uses it (RND-176).
//!
//! Follows santhosh-tekuri/jsonschema 6.0.3, the library inside Helm: drafts 4, 6, 7, 2019-09 and 2020-12, what
//! each of them asserts, which schemas it refuses, and the texts of its errors. A schema is compiled once into an
//! arena of nodes and then validates any number of values, on any thread.
//!
//! Nothing is fetched. A reference to another document is answered from [`Documents`]; what is not in there is an
//! error that names the address. Files of the host are never read.
//!
//! Why not a crate: of those that exist one is a port of the same library with other texts, all bring a dozen
//! packages, and none bounds the steps of a validation (DEP-7, DEP-8).

mod address;
mod compile;
mod decimal;
mod draft;
mod failure;
mod format;
mod meta;
mod node;
mod resource;
mod validate;

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_go::json::{self, JsonError};

use node::Node;

/// Schemas by their addresses, for references to other documents.
pub type Documents = BTreeMap<String, Value>;

/// Parts of a schema that are looked at.
const NODES_MAX: usize = 100_000;
/// Schemas inside each other while one value is looked at, references included.
const DEPTH_MAX: usize = 400;
/// Steps of one validation, and of compiling the expressions of one schema: some 40 ns each.
const STEPS_MAX: u64 = 20_000_000;
/// Regular expressions of one schema.
const REGEXPS_MAX: usize = 5_000;

/// Why a schema cannot be used, or a value does not fit it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// The schema is not JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The value does not fit; the text says where and why.
    #[error("{0}")]
    Mismatch(String),
    /// The schema is not one.
    #[error("{0}")]
    Invalid(String),
    /// A reference to a document that is not among those given.
    #[error("failing loading {url:?}: references to other documents are not followed")]
    Remote {
        /// Where the document is.
        url: String,
    },
    /// A bound of ours.
    #[error("the schema is too large: {0}")]
    Exceeded(&'static str),
    /// The caller gave up.
    #[error("the check was given up")]
    Cancelled,
}

/// A schema, ready for use.
#[derive(Debug)]
pub struct Schema {
    nodes: Vec<Node>,
    root: usize,
}

impl Schema {
    /// Compiles the text of a `values.schema.json`.
    pub fn compile(text: &[u8], documents: &Documents) -> Result<Self, SchemaError> {
        let document = json::decode_kubernetes(text)?;
        compile::compile(address::OWN, document, documents)
    }

    /// Checks a value.
    pub fn validate(&self, value: &Value) -> Result<(), SchemaError> {
        self.validate_unless(value, &|| false)
    }

    /// Checks a value, and asks now and then whether the caller gave up.
    pub fn validate_unless(&self, value: &Value, is_cancelled: &dyn Fn() -> bool) -> Result<(), SchemaError> {
        validate::validate(self, value, is_cancelled)
    }
}

#[cfg(test)]
mod tests;
