//! Several documents in one text, and nodes without anchors.

use std::borrow::Cow;

use smol_str::SmolStr;
use tiphys_go::nesting::DEPTH_MAX;

use super::parse_first;
use crate::fault::{Before as _, Class, Fault, Result};
use crate::fields;
use crate::graph::{Graph, Kind, NodeId, Tag};

/// Reads the documents of a file as kustomize does: what separates them is found in the text, aliases are put in
/// place, a lone list gives its items. Empty and null documents are left out (RND-210).
pub(crate) fn read_stream(graph: &mut Graph, bytes: &[u8]) -> Result<Vec<NodeId>> {
    let text = decode(bytes)?;
    let text = if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { text };
    let parts = split(&text)?;
    let mut nodes = Vec::new();
    let last = parts.len().saturating_sub(1);
    for (index, part) in parts.iter().enumerate() {
        let ended;
        let part = if index == last {
            *part
        } else {
            ended = format!("{part}\n");
            ended.as_str()
        };
        let parsed = parse_first(graph, part).before(|| "MalformedYAMLError".to_owned());
        let parsed = parsed.map_err(|fault| match fault {
            Fault::Input { text, .. } => Fault::of(Class::MalformedYaml, text),
            stop @ Fault::Stop(_) => stop,
        })?;
        let Some(node) = parsed.filter(|node| !graph.node(*node).is_null()) else { continue };
        let kind = fields::text_of(graph, node, "kind");
        let items = fields::find(graph, node, "items");
        let wraps = matches!(kind.as_str(), "ResourceList" | "List")
            && (items.is_some() || fields::find(graph, node, "functionConfig").is_some());
        if parts.len() == 1 && wraps {
            if let Some(items) = items {
                nodes.extend(graph.node(items).content.iter().copied());
            }
        } else {
            nodes.push(node);
        }
    }
    nodes.into_iter().map(|node| remove_aliases(graph, node)).collect()
}

fn decode(bytes: &[u8]) -> Result<Cow<'_, str>> {
    if matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) {
        let text = tiphys_go::yaml::decode_text(bytes);
        return text.map_err(|_invalid| {
            Fault::of(Class::MalformedYaml, "MalformedYAMLError: yaml: incomplete UTF-16 character")
        });
    }
    std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|error| {
        let problem = match (error.error_len(), bytes.get(error.valid_up_to())) {
            (None, _) => "incomplete UTF-8 octet sequence",
            (_, Some(0x80..=0xBF | 0xF8..)) => "invalid leading UTF-8 octet",
            _ => "invalid trailing UTF-8 octet",
        };
        Fault::of(Class::MalformedYaml, format!("MalformedYAMLError: yaml: {problem}"))
    })
}

/// The parts between lines that begin with `---` and say nothing else.
fn split(text: &str) -> Result<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut start, mut from) = (0, 0);
    while let Some(found) = text.get(from..).and_then(|rest| rest.find("\n---")) {
        let at = from + found;
        let behind = at + 4;
        let Some(length) = text.get(behind..).and_then(|rest| rest.find('\n')) else { break };
        let said = text.get(behind..behind + length).unwrap_or_default().trim();
        if !said.is_empty() && !said.starts_with('#') {
            let separator = text.get(at..behind + length).unwrap_or_default().trim();
            return Err(Fault::new(format!("invalid document separator: {separator}")));
        }
        parts.push(text.get(start..at).unwrap_or_default());
        start = behind + length + 1;
        from = start;
    }
    if !text.is_empty() {
        parts.push(text.get(start..).unwrap_or_default());
    }
    Ok(parts)
}

/// Puts copies where aliases stand, and carries out merge keys.
pub(crate) fn remove_aliases(graph: &mut Graph, id: NodeId) -> Result<NodeId> {
    remove_at(graph, id, 0)
}

fn remove_at(graph: &mut Graph, id: NodeId, depth: usize) -> Result<NodeId> {
    if depth > DEPTH_MAX {
        return Err(Fault::too_deep());
    }
    graph.anchors.remove(&id);
    let kind = graph.node(id).kind;
    match kind {
        Kind::Scalar => return Ok(id),
        Kind::Alias => {
            let Some(target) = graph.node(id).content.first().copied() else { return Ok(id) };
            let resolved = remove_at(graph, target, depth + 1)?;
            return graph.copy(resolved);
        }
        Kind::Mapping => merge_keys(graph, id)?,
        Kind::Sequence => {}
    }
    let mut content = std::mem::take(&mut graph.node_mut(id).content);
    for child in &mut content {
        // Nearly every child is a scalar without an anchor.
        if graph.node(*child).kind != Kind::Scalar || !graph.anchors.is_empty() {
            *child = remove_at(graph, *child, depth + 1)?;
        }
    }
    graph.node_mut(id).content = content;
    Ok(id)
}

fn merge_keys(graph: &mut Graph, mapping: NodeId) -> Result<()> {
    let content = &graph.node(mapping).content;
    let mut found = content.chunks_exact(2).filter_map(|pair| match pair {
        [key, value] if graph.node(*key).tag == Tag::Merge => Some(*value),
        _ => None,
    });
    let Some(value) = found.next() else { return Ok(()) };
    if found.next().is_some() {
        return Err(Fault::new("duplicate merge key"));
    }
    let merged = merge_values(graph, value, 0)?;
    fields::clear(graph, mapping, "<<")?;
    // A copy, because a merged mapping may be a part of this one.
    let own = graph.node(mapping).content.clone();
    for source in merged {
        let source = graph.copy(source)?;
        let members: Vec<(NodeId, NodeId)> = pairs(graph, source);
        for (key, value) in members {
            let name = graph.node(key).value.clone();
            let is_own = own
                .chunks_exact(2)
                .any(|pair| pair.first().is_some_and(|own| graph.node(*own).value == name));
            if !is_own {
                set_entry(graph, mapping, &name, key, value)?;
            }
        }
    }
    Ok(())
}

/// The members of a mapping by their names, each the first of its name.
fn pairs(graph: &Graph, mapping: NodeId) -> Vec<(NodeId, NodeId)> {
    let content = &graph.node(mapping).content;
    let members = content.chunks_exact(2).filter_map(|pair| match pair {
        [key, _] => fields::find_entry(graph, mapping, &graph.node(*key).value),
        _ => None,
    });
    members.collect()
}

fn set_entry(graph: &mut Graph, mapping: NodeId, name: &SmolStr, key: NodeId, value: NodeId) -> Result<()> {
    let content = &graph.node(mapping).content;
    let at = content
        .chunks_exact(2)
        .position(|pair| pair.first().is_some_and(|key| graph.node(*key).value == *name));
    if let Some(at) = at {
        if let Some([old_key, old_value]) = graph.node_mut(mapping).content.get_mut(2 * at..2 * at + 2) {
            (*old_key, *old_value) = (key, value);
        }
        Ok(())
    } else {
        graph.push(mapping, key)?;
        graph.push(mapping, value)
    }
}

/// The mappings that a merge key names, the one that counts most last.
fn merge_values(graph: &Graph, id: NodeId, depth: usize) -> Result<Vec<NodeId>> {
    let node = graph.node(id);
    match node.kind {
        Kind::Mapping => Ok(vec![id]),
        Kind::Alias => {
            let target =
                node.content.first().copied().filter(|target| graph.node(*target).kind == Kind::Mapping);
            let target =
                target.ok_or_else(|| Fault::new("invalid map merge: received alias for a non-map value"))?;
            Ok(vec![target])
        }
        Kind::Sequence => {
            let mut values = Vec::new();
            for item in node.content.iter().rev() {
                if graph.node(*item).kind == Kind::Sequence || depth > 0 {
                    return Err(Fault::new("invalid map merge: received a nested sequence"));
                }
                values.extend(merge_values(graph, *item, depth + 1)?);
            }
            Ok(values)
        }
        Kind::Scalar => Err(Fault::new("map merge requires map or sequence of maps as the value")),
    }
}
