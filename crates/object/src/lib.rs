//! Kubernetes objects as data: keys, accessors, built-in types, selectors, quantities, patches and structured
//! merge.
//!
//! The momentary tree of one object is [`serde_json::Value`]; nothing keeps such a tree beyond the moment of
//! use (DEP-60). What is kept is [`Object`]: compact JSON bytes plus the metadata that indexes need.
//! There is no I/O here and nothing knows about applications. Recursion follows the nesting of trees, which
//! the readers that make them limit.

pub mod access;
pub mod builtin;
pub mod fields;
pub mod host;
pub mod json_patch;
mod key;
pub mod merge_patch;
mod object;
mod packed;
pub mod quantity;
pub mod selector;
pub mod strategic;
pub mod structural;
pub mod structured;
mod text_map;

pub use key::{GroupKind, Gvk, KeyError, ResourceKey};
pub use object::{LAST_APPLIED, Metadata, Object, ObjectError, OwnerReference, is_newer, is_news};
pub use packed::PackedText;
pub use text_map::TextMap;
