//! Members of nodes: looking them up, setting and removing them, the way kyaml's filters do.
//!
//! Null is a node whose tag says so: most look-ups stop there without an error. A node of another kind than is
//! needed is an error.

use smol_str::SmolStr;

use crate::fault::{Class, Fault, Result};
use crate::graph::{Graph, Kind, Node, NodeId, Style, Tag};
use crate::yaml::{is_old_non_text, write};

/// Key and value of the first member of a mapping with a name.
pub(crate) fn find_entry(graph: &Graph, node: NodeId, name: &str) -> Option<(NodeId, NodeId)> {
    let node = graph.node(node);
    if node.kind != Kind::Mapping {
        return None;
    }
    node.content.chunks_exact(2).find_map(|pair| match pair {
        [key, value] if graph.node(*key).value == name => Some((*key, *value)),
        _ => None,
    })
}

/// The value of the first member of a mapping with a name.
pub(crate) fn find(graph: &Graph, node: NodeId, name: &str) -> Option<NodeId> {
    find_entry(graph, node, name).map(|(_, value)| value)
}

/// The text of a member; empty when it is absent, null or empty.
pub(crate) fn text_of(graph: &Graph, node: NodeId, name: &str) -> SmolStr {
    let value = find(graph, node, name).map(|value| graph.node(value));
    value.filter(|value| !value.is_null_or_empty()).map(|value| value.value.clone()).unwrap_or_default()
}

/// Names of the members of a mapping, in order, repeated ones as often as they stand there.
pub(crate) fn names(graph: &Graph, node: NodeId) -> Vec<SmolStr> {
    let content = &graph.node(node).content;
    content
        .chunks_exact(2)
        .filter_map(|pair| pair.first())
        .map(|key| graph.node(*key).value.clone())
        .collect()
}

/// Members of a mapping, in order; of those with equal names each time the first.
///
/// # Errors
/// When the node is neither a mapping nor null.
pub(crate) fn entries(graph: &Graph, node: NodeId) -> Result<Vec<(NodeId, NodeId)>> {
    expect_kind(graph, node, Kind::Mapping)?;
    let content = graph.node(node).content.clone();
    graph.spend(content.len())?;
    // Only of equal names another member would be the one.
    Ok(content
        .chunks_exact(2)
        .filter_map(|pair| match pair {
            [key, value] => Some((*key, *value)),
            _ => None,
        })
        .collect())
}

/// Items of a list.
///
/// # Errors
/// When the node is neither a list nor null.
pub(crate) fn items(graph: &Graph, node: NodeId) -> Result<Vec<NodeId>> {
    expect_kind(graph, node, Kind::Sequence)?;
    let content = graph.node(node).content.clone();
    graph.spend(content.len())?;
    Ok(content)
}

/// Fails when a node is of another kind; null is of every kind.
pub(crate) fn expect_kind(graph: &Graph, node: NodeId, kind: Kind) -> Result<()> {
    let found = graph.node(node);
    if found.is_null() || found.kind == kind {
        return Ok(());
    }
    let class = Class::WrongKind(found.kind);
    let mut text = format!("wrong node kind: expected {} but got {}", kind.as_str(), found.kind.as_str());
    if let Ok(content) = write(graph, node) {
        text.push_str(": node contents:\n");
        text.push_str(&content);
    }
    Err(Fault::of(class, text))
}

/// Removes the first member with a name and gives its value.
///
/// # Errors
/// When the node is neither a mapping nor null.
pub(crate) fn clear(graph: &mut Graph, node: NodeId, name: &str) -> Result<Option<NodeId>> {
    clear_if(graph, node, name, |_, _| true)
}

/// Removes the first member with a name whose value fits.
fn clear_if(
    graph: &mut Graph,
    node: NodeId,
    name: &str,
    fits: impl Fn(&Graph, NodeId) -> bool,
) -> Result<Option<NodeId>> {
    expect_kind(graph, node, Kind::Mapping)?;
    let content = &graph.node(node).content;
    let at = content.chunks_exact(2).position(|pair| match pair {
        [key, value] => graph.node(*key).value == name && fits(graph, *value),
        _ => false,
    });
    let Some(at) = at else { return Ok(None) };
    graph.spend(content.len())?;
    Ok(graph.node_mut(node).content.drain(2 * at..2 * at + 2).nth(1))
}

/// The value of a member of a mapping.
///
/// # Errors
/// When the node is neither a mapping nor null.
pub(crate) fn get(graph: &Graph, node: NodeId, name: &str) -> Result<Option<NodeId>> {
    if graph.node(node).is_null() {
        return Ok(None);
    }
    if name.is_empty() {
        expect_kind(graph, node, Kind::Scalar)?;
        return Ok(graph.node(node).value.is_empty().then_some(node));
    }
    expect_kind(graph, node, Kind::Mapping)?;
    Ok(find(graph, node, name))
}

/// Puts a value into a mapping, or removes the member when there is none or it is null.
///
/// A value that stands there already is overwritten in place, so that whoever shares it sees the change, and its
/// style is kept.
pub(crate) fn set(graph: &mut Graph, node: NodeId, name: &str, value: Option<NodeId>) -> Result<()> {
    set_with(graph, node, name, value, Setting::default())
}

/// How a member is set.
#[derive(Clone, Copy, Default)]
pub(crate) struct Setting {
    /// A null value is set and does not remove the member.
    pub(crate) keeps_null: bool,
    /// The style of the key, when it is new.
    pub(crate) key_style: Style,
}

/// The same as [`set`] with more to say.
pub(crate) fn set_with(
    graph: &mut Graph,
    node: NodeId,
    name: &str,
    value: Option<NodeId>,
    setting: Setting,
) -> Result<()> {
    graph.spend(1)?;
    // Without a name the node itself is meant, which has to be a scalar.
    let Some(value) = value.filter(|value| setting.keeps_null || !graph.node(*value).is_null()) else {
        clear(graph, node, name)?;
        return Ok(());
    };
    if name.is_empty() {
        return set_scalar(graph, node, value);
    }
    quote_old_words(graph, value);
    if let Some(field) = get(graph, node, name)? {
        let style = graph.node(field).style;
        graph.node_mut(value).style = style;
        return graph.assign(field, value);
    }
    let key = graph.add(Node { style: setting.key_style, ..Node::scalar(name) })?;
    graph.push(node, key)?;
    graph.push(node, value)
}

/// Puts text that YAML 1.1 takes for something else into quotes.
fn quote_old_words(graph: &mut Graph, value: NodeId) {
    let node = graph.node(value);
    if node.is_text() && node.style == Style::PLAIN && is_old_non_text(&node.value) {
        graph.node_mut(value).style = Style::DOUBLE_QUOTED;
    }
}

/// Overwrites a scalar with another; its style is kept.
///
/// # Errors
/// When the node is no scalar.
pub(crate) fn set_scalar(graph: &mut Graph, node: NodeId, value: NodeId) -> Result<()> {
    quote_old_words(graph, value);
    expect_kind(graph, node, Kind::Scalar)?;
    if graph.node(value).is_null() {
        return Ok(());
    }
    let style = graph.node(node).style;
    graph.node_mut(value).style = style;
    graph.assign(node, value)
}

/// Follows a path of names, positions and `[key=value]`; `None` when it leads nowhere.
///
/// # Errors
/// When a node on the way is of another kind than the path says.
pub(crate) fn look_up<S: AsRef<str>>(graph: &Graph, node: NodeId, path: &[S]) -> Result<Option<NodeId>> {
    let mut current = node;
    for part in path.iter().map(|part| part.as_ref().trim()).filter(|part| !part.is_empty()) {
        graph.spend(1)?;
        let Some(found) = step(graph, current, part)? else { return Ok(None) };
        current = found;
    }
    Ok(Some(current))
}

/// The same, and what is missing is made; the last part as a node of this kind.
pub(crate) fn look_up_or_make<S: AsRef<str>>(
    graph: &mut Graph,
    node: NodeId,
    path: &[S],
    kind: Kind,
) -> Result<Option<NodeId>> {
    let parts: Vec<&str> =
        path.iter().map(|part| part.as_ref().trim()).filter(|part| !part.is_empty()).collect();
    let mut current = node;
    for (index, part) in parts.iter().enumerate() {
        let found = match step(graph, current, part)? {
            Some(found) => found,
            None if graph.node(current).is_null() || position(part).is_some() => return Ok(None),
            None if is_list_index(part) => {
                let (name, value) = split_index(part)?;
                append_item(graph, current, name, value)?
            }
            None => {
                let made = graph.add(Node::new(part_kind(parts.get(index + 1).copied(), kind)))?;
                set(graph, current, part, Some(made))?;
                made
            }
        };
        current = found;
    }
    Ok(Some(current))
}

/// Follows one part of a path.
fn step(graph: &Graph, node: NodeId, part: &str) -> Result<Option<NodeId>> {
    if let Some(position) = position(part) {
        let position = usize::try_from(position)
            .map_err(|_negative| Fault::new(format!("array index {position} cannot be negative")))?;
        expect_kind(graph, node, Kind::Sequence)?;
        return Ok(graph.node(node).content.get(position).copied());
    }
    if part == "-" {
        let last = items(graph, node)?.last().copied();
        return last.map(Some).ok_or_else(|| Fault::new("the list has no last element"));
    }
    if part == "*" {
        return Err(Fault::new("wildcard is not supported in PathGetter"));
    }
    if is_list_index(part) {
        let (name, value) = split_index(part)?;
        if name.is_empty() {
            return Ok(items(graph, node)?.into_iter().find(|item| graph.node(*item).value == value));
        }
        return item_with(graph, node, &[(name, value)]);
    }
    get(graph, node, part)
}

/// The number a part of a path spells, as `strconv.Atoi` reads it.
pub(crate) fn position(part: &str) -> Option<i64> {
    let digits = part.strip_prefix(['+', '-']).unwrap_or(part);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| part.parse().ok())
        .flatten()
}

/// Whether a part of a path selects items of a list: `[name=web]`.
pub(crate) fn is_list_index(part: &str) -> bool {
    part.starts_with('[') && part.ends_with(']')
}

/// The kind of what a part of a path leads to, when the next part is known.
pub(crate) fn part_kind(next: Option<&str>, last: Kind) -> Kind {
    match next {
        None | Some("") => last,
        Some(next) if is_list_index(next) || position(next).is_some_and(|position| position >= 0) => {
            Kind::Sequence
        }
        Some(_) => Kind::Mapping,
    }
}

/// Name and value of `[name=value]`.
pub(crate) fn split_index(part: &str) -> Result<(&str, &str)> {
    let inner = part.strip_suffix(']').unwrap_or(part);
    let inner = inner.strip_prefix('[').unwrap_or(inner);
    inner
        .split_once('=')
        .ok_or_else(|| Fault::new("list path element must contain fieldName=fieldValue for element to match"))
}

/// Appends an item whose member has a value, or that is the value.
fn append_item(graph: &mut Graph, list: NodeId, name: &str, value: &str) -> Result<NodeId> {
    let scalar = graph.add(Node::scalar(value))?;
    let item = if name.is_empty() {
        scalar
    } else {
        let key = graph.add(Node::scalar(name))?;
        graph.add(Node { content: vec![key, scalar], ..Node::new(Kind::Mapping) })?
    };
    graph.push(list, item)?;
    Ok(item)
}

/// The first item of a list that is a mapping and whose members all have these values.
pub(crate) fn item_with(graph: &Graph, list: NodeId, members: &[(&str, &str)]) -> Result<Option<NodeId>> {
    for item in items(graph, list)? {
        let node = graph.node(item);
        if node.kind != Kind::Mapping && !node.is_null() {
            continue;
        }
        let fits = |(name, value): &(&str, &str)| {
            let found = graph.node(item).content.chunks_exact(2).find_map(|pair| match pair {
                [key, found] if graph.node(*key).value == *name => Some(*found),
                _ => None,
            });
            !graph.node(item).is_null() && found.is_some_and(|found| graph.node(found).value == *value)
        };
        if members.iter().all(fits) {
            return Ok(Some(item));
        }
    }
    Ok(None)
}

/// A part of an object's `metadata`, unless that is absent or empty.
fn metadata(graph: &Graph, object: NodeId) -> Option<NodeId> {
    find(graph, object, "metadata").filter(|found| !graph.node(*found).is_null_or_empty())
}

/// A text of an object's `metadata`.
pub(crate) fn metadata_text(graph: &Graph, object: NodeId, name: &str) -> SmolStr {
    metadata(graph, object).map(|metadata| text_of(graph, metadata, name)).unwrap_or_default()
}

/// Labels or annotations of an object: names and the texts of their values, whatever these are.
pub(crate) fn metadata_map(graph: &Graph, object: NodeId, name: &str) -> Vec<(SmolStr, SmolStr)> {
    let Some(map) = metadata(graph, object).and_then(|metadata| find(graph, metadata, name)) else {
        return Vec::new();
    };
    let pairs = graph.node(map).content.chunks_exact(2).filter_map(|pair| match pair {
        [key, value] => Some((graph.node(*key).value.clone(), graph.node(*value).value.clone())),
        _ => None,
    });
    pairs.collect()
}

/// The text of one label or annotation.
pub(crate) fn metadata_entry<'g>(graph: &'g Graph, object: NodeId, map: &str, name: &str) -> Option<&'g str> {
    let map = find(graph, metadata(graph, object)?, map)?;
    let mut pairs = graph.node(map).content.chunks_exact(2);
    pairs.find_map(|pair| match pair {
        [key, value] if graph.node(*key).value == name => Some(graph.node(*value).value.as_str()),
        _ => None,
    })
}

/// Replaces all labels or annotations of an object; none removes the map.
pub(crate) fn set_metadata_map(
    graph: &mut Graph,
    object: NodeId,
    name: &str,
    members: &std::collections::BTreeMap<SmolStr, SmolStr>,
) -> Result<()> {
    let Some(metadata) = look_up_or_make(graph, object, &["metadata"], Kind::Mapping)? else { return Ok(()) };
    clear(graph, metadata, name)?;
    if members.is_empty() {
        return Ok(());
    }
    let Some(map) = look_up_or_make(graph, metadata, &[name], Kind::Mapping)? else { return Ok(()) };
    for (key, value) in members {
        let value = graph.add(Node::text(value.clone()))?;
        set(graph, map, key, Some(value))?;
    }
    Ok(())
}

/// Sets one annotation; an empty map of annotations, and empty metadata, are made anew.
pub(crate) fn set_annotation(graph: &mut Graph, object: NodeId, key: &str, value: &str) -> Result<()> {
    let text = graph.add(Node { style: Style::SINGLE_QUOTED, ..Node::text(value) })?;
    let is_empty = |graph: &Graph, node: NodeId| graph.node(node).content.is_empty();
    if let Some(metadata) = get(graph, object, "metadata")? {
        clear_if(graph, metadata, "annotations", is_empty)?;
    }
    clear_if(graph, object, "metadata", is_empty)?;
    let map = look_up_or_make(graph, object, &["metadata", "annotations"], Kind::Mapping)?;
    match map {
        Some(map) => set(graph, map, key, Some(text)),
        None => Ok(()),
    }
}

/// Sets one label.
pub(crate) fn set_label(graph: &mut Graph, object: NodeId, key: &str, value: &str) -> Result<()> {
    let text = graph.add(Node { style: Style::SINGLE_QUOTED, ..Node::text(value) })?;
    match look_up_or_make(graph, object, &["metadata", "labels"], Kind::Mapping)? {
        Some(map) => set(graph, map, key, Some(text)),
        None => Ok(()),
    }
}

/// Sets a member of an object below other mappings, which are made when they are missing.
pub(crate) fn set_path(graph: &mut Graph, object: NodeId, path: &[&str], value: &str) -> Result<()> {
    let value = graph.add(Node::scalar(value))?;
    let Some((last, parents)) = path.split_last() else { return Ok(()) };
    match look_up_or_make(graph, object, parents, Kind::Mapping)? {
        Some(parent) => set(graph, parent, last, Some(value)),
        None => Ok(()),
    }
}

/// Whether a node's tag is the one that a null has.
pub(crate) fn is_null(graph: &Graph, node: Option<NodeId>) -> bool {
    node.is_none_or(|node| graph.node(node).tag == Tag::Null)
}
