//! Documents as nodes: what go.yaml.in/yaml/v3 3.0.3 makes of a text, and the text it makes of nodes.
//!
//! `tiphys_go::yaml` makes values of documents. That is not enough here: the spelling of a number, the style of a
//! text and the identity of a node decide what kustomize writes in the end (see [`crate::graph`]). So the scanner
//! and the parser are written anew, from that library's rules, without its comments.
//!
//! - [`parse_first`], [`read_stream`]: texts to nodes.
//! - [`resolve`]: what a scalar means.
//! - [`write()`]: nodes to text.

mod parse;
mod resolve;
mod scan;
mod stream;
mod write;

pub(crate) use parse::{json_text_again, parse_first};
pub(crate) use resolve::{Scalar, is_old_non_text, resolve, resolve_plain};
pub(crate) use scan::has_comments;
pub(crate) use stream::{read_stream, remove_aliases};
pub(crate) use write::{emitted_scalar, folded_again, is_simple_key, write};
