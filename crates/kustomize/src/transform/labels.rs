//! Labels and annotations for all resources (RND-221, RND-222).

use super::Work;
use crate::config::FieldSpecs;
use crate::fault::Result;
use crate::fieldspec::{self, Creation};
use crate::graph::{Kind, Tag};
use crate::resource::TextMap;

/// Sets labels. A label that several fields of an object get is one node.
pub(crate) fn label(work: &mut Work<'_>, labels: &TextMap, fields: &FieldSpecs) -> Result<()> {
    let creation = Creation { kind: Kind::Mapping, tag: Tag::Mapping };
    for resource in work.resources.list_mut() {
        let Some(node) = resource.node() else { continue };
        for (name, value) in labels {
            let mut set = fieldspec::entry_setter(work.graph, name, value, Tag::Text)?;
            for field in fields {
                fieldspec::apply(work.graph, node, field, Some(&creation), &mut set)?;
            }
        }
    }
    Ok(())
}

/// Sets annotations, as [`label`] does labels.
pub(crate) fn annotate(work: &mut Work<'_>, annotations: &TextMap, fields: &FieldSpecs) -> Result<()> {
    label(work, annotations, fields)
}
