//! Kubernetes objects as data: keys, accessors, selectors, quantities and patches.
//!
//! The momentary tree of one object is [`serde_json::Value`]; nothing keeps such a tree beyond the moment of
//! use (DEP-60). What is kept is [`Object`]: compact JSON bytes plus the metadata that indexes need.
//! There is no I/O here and nothing knows about applications.

pub mod access;
pub mod builtin;
mod key;
pub mod merge_patch;
mod object;
pub mod strategic;

pub use key::{GroupKind, Gvk, KeyError, ResourceKey};
pub use object::{Metadata, Object, ObjectError, OwnerReference};
