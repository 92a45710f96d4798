//! The transformers: what a kustomization does to all resources that are there (RND-212).

mod images;
mod json_errors;
mod labels;
mod names;
mod namespace;
mod patches;
mod replacements;
mod replicas;
mod sort;
mod value_add;

pub(crate) use images::{ImageTag, split_image};
pub(crate) use labels::{annotate, label};
pub(crate) use names::{add_hashes, add_prefix, add_suffix};
pub(crate) use namespace::{Namespace, Subjects};
pub(crate) use patches::{JsonPatchTransformer, LoadedPatch, StrategicMerge};
pub(crate) use replacements::replace;
pub(crate) use replicas::set_replicas;
pub(crate) use sort::sort;
pub(crate) use value_add::{ValueAdd, ValueTarget};

use crate::graph::Graph;
use crate::resources::Resources;
use crate::schema::Schemas;

/// What a transformer works on.
pub(crate) struct Work<'w> {
    pub(crate) graph: &'w mut Graph,
    pub(crate) schemas: &'w mut Schemas,
    pub(crate) resources: &'w mut Resources,
}
