//! Prefixes and suffixes of names, and the suffix that is a hash (RND-217, RND-218, RND-220).

use super::Work;
use crate::config::FieldSpecs;
use crate::fault::{Fault, Result};
use crate::fields;
use crate::fieldspec::{self, Creation};
use crate::graph::{Graph, Kind, Node, NodeId, Tag};
use crate::id::ResourceId;
use crate::resource::{PREFIXES, SUFFIXES};
use crate::value::to_value;

/// Puts a prefix before names.
pub(crate) fn add_prefix(work: &mut Work<'_>, prefix: &str, fields: &FieldSpecs) -> Result<()> {
    rename(work, prefix, PREFIXES, fields, &|name| format!("{prefix}{name}"))
}

/// Puts a suffix behind names.
pub(crate) fn add_suffix(work: &mut Work<'_>, suffix: &str, fields: &FieldSpecs) -> Result<()> {
    rename(work, suffix, SUFFIXES, fields, &|name| format!("{name}{suffix}"))
}

fn keeps_its_name(id: &ResourceId) -> bool {
    match id.gvk.kind.as_str() {
        "CustomResourceDefinition" | "Namespace" => true,
        "APIService" => id.gvk.group == "apiregistration.k8s.io",
        _ => false,
    }
}

fn rename(
    work: &mut Work<'_>,
    addition: &str,
    note: &str,
    fields: &FieldSpecs,
    new_name: &dyn Fn(&str) -> String,
) -> Result<()> {
    let creation = Creation { kind: Kind::Scalar, tag: Tag::Text };
    for resource in work.resources.list_mut() {
        let Some(node) = resource.node() else { continue };
        let id = resource.original_id(work.graph, work.schemas)?;
        if keeps_its_name(&id) {
            continue;
        }
        for field in fields {
            if !id.gvk.is_selected(&field.gvk) {
                continue;
            }
            if field.path == "metadata/name" {
                resource.append_note(work.graph, note, addition)?;
                if !addition.is_empty() {
                    resource.store_previous_id(work.graph, work.schemas)?;
                }
            }
            fieldspec::apply(
                work.graph,
                node,
                field,
                Some(&creation),
                &mut |graph: &mut Graph, name: NodeId| {
                    let renamed = new_name(&graph.node(name).value);
                    let value = graph.add(Node::scalar(renamed))?;
                    fields::set_scalar(graph, name, value)
                },
            )?;
        }
    }
    Ok(())
}

/// Appends the hash of their content to the names of generated objects.
pub(crate) fn add_hashes(work: &mut Work<'_>) -> Result<()> {
    for resource in work.resources.list_mut() {
        let Some(node) = resource.node().filter(|_| resource.needs_hash(work.graph)) else { continue };
        let value = to_value(work.graph, node)?;
        let Some(hash) = crate::name_hash::content_hash(&value) else {
            let kind = resource.kind(work.graph);
            return Err(Fault::unsupported(format!("name suffix hash of kind {kind:?}")));
        };
        resource.store_previous_id(work.graph, work.schemas)?;
        let name = resource.name(work.graph);
        resource.set_name(work.graph, &format!("{name}-{hash}"))?;
    }
    Ok(())
}
