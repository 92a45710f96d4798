//! Changing the fields that a [`FieldSpec`] names in one object.

use smol_str::SmolStr;

use crate::config::FieldSpec;
use crate::fault::{Before as _, Fault, Result};
use crate::fields;
use crate::graph::{Graph, Kind, Node, NodeId, Tag};
use crate::id::{Gvk, ResourceId, split_api_version};

/// What a missing field is made as.
#[derive(Clone, Debug)]
pub(crate) struct Creation {
    pub(crate) kind: Kind,
    /// The tag of a null that becomes the field.
    pub(crate) tag: Tag,
}

/// Calls `change` with every field of an object that the spec names.
///
/// Lists on the way are passed with all their items. Missing fields are made when the spec says so.
pub(crate) fn apply(
    graph: &mut Graph,
    object: NodeId,
    spec: &FieldSpec,
    creation: Option<&Creation>,
    change: &mut dyn FnMut(&mut Graph, NodeId) -> Result<()>,
) -> Result<()> {
    if !is_for(graph, object, &spec.gvk) {
        return Ok(());
    }
    let creation = creation.filter(|_| spec.create);
    walk(graph, object, &spec.parts, creation, change).map_err(|fault| {
        let id = id_of(graph, object);
        fault.before(format!("considering field '{}' of object {id}", spec.path))
    })
}

fn member(graph: &Graph, object: NodeId, name: &str) -> SmolStr {
    fields::find(graph, object, name).map(|value| graph.node(value).value.clone()).unwrap_or_default()
}

fn is_for(graph: &Graph, object: NodeId, gvk: &Gvk) -> bool {
    if !gvk.kind.is_empty() && gvk.kind != member(graph, object, "kind") {
        return false;
    }
    if gvk.group.is_empty() && gvk.version.is_empty() {
        return true;
    }
    let api_version = member(graph, object, "apiVersion");
    let (group, version) = split_api_version(&api_version);
    (gvk.group.is_empty() || gvk.group == group) && (gvk.version.is_empty() || gvk.version == version)
}

fn id_of(graph: &Graph, object: NodeId) -> ResourceId {
    ResourceId {
        gvk: Gvk::new(&member(graph, object, "apiVersion"), &member(graph, object, "kind")),
        name: fields::metadata_text(graph, object, "name"),
        namespace: fields::metadata_text(graph, object, "namespace"),
    }
}

fn walk(
    graph: &mut Graph,
    node: NodeId,
    path: &[SmolStr],
    creation: Option<&Creation>,
    change: &mut dyn FnMut(&mut Graph, NodeId) -> Result<()>,
) -> Result<()> {
    graph.spend(1)?;
    let Some((first, rest)) = path.split_first() else { return change(graph, node) };
    if graph.node(node).is_null() {
        return Ok(());
    }
    match graph.node(node).kind {
        Kind::Sequence => {
            let count = graph.node(node).content.len();
            for index in 0..count {
                let Some(item) = graph.node(node).content.get(index).copied() else { break };
                let words = || format!("visit traversal on path: [{}]", path.join(" "));
                walk(graph, item, path, creation, change).before(words)?;
            }
            Ok(())
        }
        Kind::Mapping => {
            let (name, is_list) = match first.strip_suffix("[]") {
                Some(name) => (name, true),
                None => (first.as_str(), false),
            };
            if name.is_empty() {
                return Err(Fault::new("cannot set or create an empty field name"));
            }
            // What a null becomes: what the path says, or what would be made.
            let (made, tag) = match creation {
                Some(creation) if !is_list && rest.is_empty() => (Some(creation.kind), creation.tag.clone()),
                Some(_) if !is_list => (Some(Kind::Mapping), Tag::Mapping),
                _ => (None, Tag::None),
            };
            let found = match made {
                Some(kind) => look_up_or_make(graph, node, name, kind),
                None => fields::look_up(graph, node, &[name]),
            };
            let Some(field) = found.before(|| format!("fieldName: {name}"))? else { return Ok(()) };
            if graph.node(field).is_null()
                && let Some(kind) = made.or(is_list.then_some(Kind::Sequence))
            {
                let null = graph.node_mut(field);
                (null.kind, null.tag) = (kind, tag);
            }
            walk(graph, field, rest, creation, change)
        }
        Kind::Alias => match graph.node(node).content.first().copied() {
            Some(target) => walk(graph, target, path, creation, change),
            None => Ok(()),
        },
        Kind::Scalar => Err(Fault::new("expected sequence or mapping node")),
    }
}

/// The usual part of a path is a name; the others are for the general function.
fn look_up_or_make(graph: &mut Graph, node: NodeId, name: &str, kind: Kind) -> Result<Option<NodeId>> {
    if let Some(found) = fields::find(graph, node, name) {
        return Ok(Some(found));
    }
    fields::look_up_or_make(graph, node, &[name], kind)
}

/// Sets a member of a field, or the field itself when there is no name; the value is one node, wherever it stands.
pub(crate) fn entry_setter(
    graph: &mut Graph,
    name: &str,
    value: &str,
    tag: Tag,
) -> Result<impl FnMut(&mut Graph, NodeId) -> Result<()> + use<>> {
    let value = graph.add(Node { tag, ..Node::scalar(value) })?;
    let name = SmolStr::new(name);
    Ok(move |graph: &mut Graph, node: NodeId| {
        if name.is_empty() {
            fields::set_scalar(graph, node, value)
        } else {
            fields::set(graph, node, &name, Some(value))
        }
    })
}
