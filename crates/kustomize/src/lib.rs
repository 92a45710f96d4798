//! Builds kustomizations as kustomize 5.8 does.
//!
//! The input is a [`Tree`](tiphys_tree::Tree), an immutable snapshot of files, and the directory of a kustomization
//! in it; the output of [`build`] is the list of objects that `kustomize build` prints, in its order. Nothing is read
//! but through trees, and nothing is fetched: what a build needs from elsewhere is asked of [`Fetched`], and a build
//! that lacks something ends with [`KustomizeError::Missing`], which lists all of it. Charts are inflated by the
//! caller's [`ChartInflator`]. The fields of an Argo CD source change the root kustomization in memory ([`Edits`]).
//!
//! How it works, from the bottom:
//!
//! - kustomize works on YAML nodes and not on values. `yaml` makes nodes of texts and back, with the rules of the
//!   library that kustomize uses; `graph` holds them. `fields` and `fieldspec` find and change members; `merge` is
//!   the strategic merge, with `schema` for what it has to know about kinds; `value` makes JSON of nodes.
//! - `resource` and `resources` are objects with what kustomize notes about them. `config` has the fields that the
//!   transformers in `transform` change; `nameref` and `refvar` come at the end of a build.
//! - `kustomization` is the file; `load` reads what it names; `target` carries it out.
//!
//! Everything is bounded by a [`Budget`]: bytes, memory, steps, objects, files, depth.

mod budget;
mod build;
mod chart;
pub mod compare;
mod config;
mod crds;
mod decode;
mod edit;
mod error;
mod fault;
mod fields;
mod fieldspec;
mod generate;
mod graph;
mod helm;
mod id;
mod images;
mod kustomization;
mod load;
mod merge;
mod name_hash;
mod nameref;
mod options;
mod order;
mod origin;
mod plugins;
mod refvar;
mod remote;
mod resource;
mod resources;
mod schema;
mod target;
mod transform;
mod transformer;
mod value;
mod yaml;

pub use budget::Budget;
pub use build::{Built, Context, VERSION, build};
pub use chart::{ChartInflator, ChartRequest, NoCharts};
pub use edit::{EditError, Edits};
pub use error::KustomizeError;
pub use images::images;
pub use name_hash::{NameHashError, name_hash};
pub use options::{Options, OptionsError, Reorder, Restriction};
pub use remote::{Content, Fetched, NothingFetched, RemoteSpec};
