//! Turns a tree of files and a source description into objects.
//!
//! The input is a [`Tree`], an immutable snapshot of files that another crate fetched, and a
//! [`RenderRequest`]; the output of [`render`] is the list of objects in render order, or a [`RenderError`]
//! with the text users see and a reason that programs can use. Files are named by [`TreePath`], which cannot
//! leave the root, and links are followed only inside the tree ([`links`]).
//!
//! There is no file system, no clock and no network here: the same tree and request always give the same
//! objects (RND-1). Default namespaces, de-duplication and tracking metadata are the comparison's (RND-3).

mod comparison;
pub mod details;
pub mod directory;
pub mod environment;
mod error;
pub mod eval;
mod helm;
pub mod jsonnet;
pub mod kind;
mod kube_version;
mod kustomize;
pub mod links;
pub mod manifests;
pub mod needs;
pub mod overrides;
pub mod plan;
pub mod plugins;
pub mod refresh;
mod request;
mod templates;
pub mod tools;
pub mod version;

pub use comparison::{Compared, Comparison};
pub use error::{Code, Reason, RenderError};
pub use links::PATH_NOT_FOUND;
pub use manifests::{check_weight, parse_manifests};
pub use request::{
    Budget, ContentKind, EnabledTools, Inputs, RenderRequest, Rendered, SourceType, command_lines, render,
    render_offline,
};
pub use templates::{Chance, World};
pub use tiphys_kustomize::{
    NameHashError, Options as KustomizeOptions, VERSION as KUSTOMIZE_VERSION, name_hash,
};
pub use tiphys_tree::{
    Entry, EntryKind, KnownDirectory, MemoryEntry, MemoryTree, PathError, Tree, TreeError, TreePath,
    WalkLimit,
};

/// The version of Helm whose results charts have where nothing else is said.
pub const fn helm_version() -> &'static str {
    tiphys_helm::HelmVersion::V4.build()
}

/// The version of go-jsonnet whose results these are.
pub const JSONNET_VERSION: &str = "v0.22.0";
