//! The types of the Kubernetes client scheme as data (ENG-58), and typed canonicalisation (ENG-57).
//!
//! Objects are never parsed into Go-like structs: one table says which members a built-in type has, what JSON
//! shape each takes, whether it is left out when empty and how strategic merge patches treat it.
//! [`Schema::of`] finds a type, [`canonicalize`] re-writes an object the way its type would encode it,
//! [`decode_protobuf`] reads what Go clients send. The table is `data/builtin-types.txt`, made by
//! `hack/builtin-types`; it is read once, on first use.
//! Custom resources, `CustomResourceDefinition` and `APIService` are deliberately absent.

mod canonical;
mod protobuf;
mod table;
mod time;

pub use canonical::{Canonical, canonicalize};
pub use protobuf::{ProtobufError, decode_protobuf};
pub use table::{Field, OmitWhen, Patch, Place, Schema, Shape, StructType};

use crate::Gvk;

/// Whether the type is part of the Kubernetes client scheme (ENG-58).
///
/// ```
/// # use tiphys_object::{Gvk, builtin::is_builtin};
/// assert!(is_builtin(&Gvk::new("apps", "v1", "Deployment")));
/// assert!(!is_builtin(&Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition")));
/// ```
pub fn is_builtin(gvk: &Gvk) -> bool {
    Schema::of(gvk).is_some()
}
