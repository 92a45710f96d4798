//! From text to compiled templates.
//!
//! The grammar and the texts of errors are those of `text/template/parse` of Go 1.26. One pass reads the text: each
//! action becomes a small tree, the tree becomes instructions, and blocks that are open are kept in a list, so that
//! nesting takes no stack. Only parentheses do, which is why there may be [`PARENTHESES_MAX`] of them inside each other.

mod action;
mod constant;
mod context;
mod generate;
mod lex;
mod literal;
mod tokens;
mod tree;

pub(crate) use constant::Constant;
pub(crate) use context::shown;
pub(crate) use literal::operand_of;
pub(crate) use tree::missing_key;

use super::code::{Body, File};
use super::error::TemplateError;
use super::functions::FunctionSet;
use super::value::Text;
use std::sync::Arc;

/// Parentheses inside each other. Go allows 10,000; more than a dozen have not been seen.
///
/// Deviation (RND-182): more are an error, so that reading them takes little stack.
pub const PARENTHESES_MAX: usize = 250;

/// Bytes of a text that is parsed.
pub const TEMPLATE_BYTES_MAX: usize = 64 << 20;

/// A file with the templates that it defines. Immutable, cheap to copy, for any thread.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// The file's own template first.
    pub(crate) bodies: Arc<[Arc<Body>]>,
}

impl Parsed {
    /// Parses a text under a name.
    ///
    /// # Errors
    /// With Go's text, such as `template: base:1: function "x" not defined`.
    pub fn new(
        name: &str,
        text: impl Into<Arc<[u8]>>,
        functions: &FunctionSet,
    ) -> Result<Self, TemplateError> {
        let file = Arc::new(File { name: Text::from(name), text: text.into() });
        let bodies = tree::Parser::new(&file, functions).parse()?;
        Ok(Self { bodies: bodies.into() })
    }

    /// The names of the templates in it, the file's own first.
    pub fn names(&self) -> impl Iterator<Item = &Text> {
        self.bodies.iter().map(|body| &body.name)
    }

    /// The template of the file itself.
    pub(crate) fn main(&self) -> Option<&Arc<Body>> {
        self.bodies.first()
    }
}
