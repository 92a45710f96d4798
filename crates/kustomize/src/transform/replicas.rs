//! Numbers of replicas (RND-224).

use super::Work;
use crate::config::FieldSpecs;
use crate::fault::{Fault, Result};
use crate::fieldspec::{self, Creation};
use crate::graph::{Kind, Tag};
use crate::kustomization::Replica;

/// Sets the number of replicas of the objects with a name, present or previous.
///
/// # Errors
/// When there is none.
pub(crate) fn set_replicas(work: &mut Work<'_>, replica: &Replica, fields: &FieldSpecs) -> Result<()> {
    let creation = Creation { kind: Kind::Scalar, tag: Tag::Int };
    let mut is_found = false;
    for field in fields {
        let fits = |id: &crate::id::ResourceId| id.name == replica.name && id.gvk.is_selected(&field.gvk);
        for index in work.resources.with_any_id(work.graph, work.schemas, fits)? {
            is_found = true;
            let Some(node) = work.resources.list().get(index).and_then(crate::resource::Resource::node)
            else {
                continue;
            };
            let mut set = fieldspec::entry_setter(work.graph, "", &replica.count.to_string(), Tag::Int)?;
            fieldspec::apply(work.graph, node, field, Some(&creation), &mut set)?;
        }
    }
    if is_found {
        return Ok(());
    }
    let kinds: Vec<String> = fields.iter().map(|field| field.gvk.to_string()).collect();
    Err(Fault::new(format!(
        "resource with name {} does not match a config with the following GVK [{}]",
        replica.name,
        kinds.join(" ")
    )))
}
