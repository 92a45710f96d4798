//! Strategic merge as kyaml does it (RND-226, RND-228).
//!
//! Two nodes are walked together, the one that is changed and the patch. Mappings are merged member by member, in the
//! order of their names; a scalar or a list of the patch takes the place of what is there; null, and `$patch: delete`,
//! remove it. Lists whose schema says so are merged item by item. The rules have corners, such as what becomes of an
//! item without its key, and all of them are the original's.

use std::collections::HashSet;

use smol_str::SmolStr;
use tiphys_go::nesting::DEPTH_MAX;

use crate::fault::{Fault, Result, attempt};
use crate::fields::{self, Setting};
use crate::graph::{Graph, Kind, Node, NodeId, Style, Tag};
use crate::schema::{Found, Schemas};

const DIRECTIVE: &str = "$patch";

/// Where items of a merged list go that only the patch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewItems {
    /// Before the others, as in patches of resources.
    First,
    /// Behind the others, as in values of charts.
    Last,
}

/// Merges a patch into a node; `None` when the patch deletes it.
pub(crate) fn merge(
    graph: &mut Graph,
    schemas: &Schemas,
    destination: NodeId,
    patch: NodeId,
    new_items: NewItems,
) -> Result<Option<NodeId>> {
    let mut merger = Merger { graph, schemas, new_items };
    let outcome = merger.walk(Pair { destination: Some(destination), patch: Some(patch) }, None, 0)?;
    Ok(outcome.node())
}

/// What `$patch` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directive {
    Merge,
    Replace,
    Delete,
}

/// What is changed, and what changes it; either may be absent.
#[derive(Clone, Copy, Debug)]
struct Pair {
    destination: Option<NodeId>,
    patch: Option<NodeId>,
}

/// What a walk ends with.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Nothing,
    Node(NodeId),
    /// A null that was written out and stays.
    KeptNull(NodeId),
}

impl Outcome {
    fn of(node: Option<NodeId>) -> Self {
        node.map_or(Self::Nothing, Self::Node)
    }

    fn node(self) -> Option<NodeId> {
        match self {
            Self::Nothing => None,
            Self::Node(node) | Self::KeptNull(node) => Some(node),
        }
    }
}

struct Merger<'g> {
    graph: &'g mut Graph,
    schemas: &'g Schemas,
    new_items: NewItems,
}

impl Merger<'_> {
    fn walk(&mut self, pair: Pair, schema: Option<Found>, depth: usize) -> Result<Outcome> {
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        self.graph.spend(1)?;
        let schema = schema.or_else(|| self.schema_of(pair));
        let nodes = [pair.destination, pair.patch];
        let present: Vec<NodeId> =
            nodes.into_iter().flatten().filter(|node| !self.graph.node(*node).is_null()).collect();
        let Some(kind) = present.first().map(|node| self.graph.node(*node).kind) else {
            return self.walk_mapping(pair, schema.as_ref(), depth);
        };
        for node in &present {
            fields::expect_kind(self.graph, *node, kind)?;
        }
        match kind {
            Kind::Mapping => self.walk_mapping(pair, schema.as_ref(), depth),
            Kind::Sequence => {
                if let Some(Found { merge: Some(keys), schema: item }) = schema {
                    self.walk_merged_list(pair, &keys, &Found { merge: None, schema: item }, depth)
                } else {
                    self.take_style(pair);
                    Ok(Outcome::of(pair.patch.or(pair.destination)))
                }
            }
            Kind::Scalar => Ok(Outcome::of(pair.patch.or(pair.destination))),
            Kind::Alias => Ok(Outcome::Nothing),
        }
    }

    /// The schema of an object that stands here.
    fn schema_of(&self, pair: Pair) -> Option<Found> {
        [pair.destination, pair.patch].into_iter().flatten().find_map(|node| {
            let api_version = fields::text_of(self.graph, node, "apiVersion");
            let kind = fields::text_of(self.graph, node, "kind");
            if api_version.is_empty() || kind.is_empty() || self.graph.node(node).is_null() {
                return None;
            }
            let schema = self.schemas.of_kind(&api_version, &kind)?;
            Some(Found { merge: None, schema })
        })
    }

    /// An empty list or mapping is written as the patch is.
    fn take_style(&mut self, pair: Pair) {
        let (Some(destination), Some(patch)) = (pair.destination, pair.patch) else { return };
        let style = self.graph.node(patch).style;
        let node = self.graph.node_mut(destination);
        if node.kind != Kind::Scalar && node.content.is_empty() {
            node.style = style;
        }
    }

    fn is_null(&self, node: Option<NodeId>) -> bool {
        fields::is_null(self.graph, node)
    }

    /// What a mapping becomes before its members are looked at.
    fn visit_mapping(&mut self, pair: Pair) -> Result<Outcome> {
        self.take_style(pair);
        if self.is_null(pair.destination) {
            if let Some(patch) = pair.patch
                && let Ok(Directive::Delete) = attempt(self.directive(patch))?
            {
                return Ok(Outcome::Nothing);
            }
            if let (None, Some(destination)) = (pair.patch, pair.destination) {
                let value = self.graph.node(destination).value.clone();
                if !value.is_empty() {
                    let null = Node { tag: Tag::Null, ..Node::scalar(value) };
                    return Ok(Outcome::KeptNull(self.graph.add(null)?));
                }
            }
            return Ok(Outcome::of(pair.patch));
        }
        self.visit_with_directive(pair)
    }

    fn visit_with_directive(&mut self, pair: Pair) -> Result<Outcome> {
        let Some(patch) = pair.patch else { return Ok(Outcome::of(pair.destination)) };
        if self.graph.node(patch).is_null() {
            return Ok(Outcome::Nothing);
        }
        Ok(match self.directive(patch)? {
            Directive::Delete => Outcome::Nothing,
            Directive::Replace => Outcome::Node(patch),
            Directive::Merge => Outcome::of(pair.destination),
        })
    }

    /// What `$patch` in a mapping, or in a list's item of its own, says; it is removed.
    fn directive(&mut self, patch: NodeId) -> Result<Directive> {
        let node = self.graph.node(patch);
        match node.kind {
            Kind::Mapping => {
                let Some(value) = fields::get(self.graph, patch, DIRECTIVE)? else {
                    return Ok(Directive::Merge);
                };
                let directive = parse_directive(&self.graph.node(value).value)?;
                fields::clear(self.graph, patch, DIRECTIVE)?;
                Ok(directive)
            }
            Kind::Sequence => {
                let item = node.content.iter().copied().find_map(|item| {
                    let is_mapping = self.graph.node(item).kind == Kind::Mapping;
                    fields::find(self.graph, item, DIRECTIVE)
                        .filter(|_| is_mapping)
                        .map(|value| (item, value))
                });
                let Some((item, value)) = item else { return Ok(Directive::Merge) };
                if self.graph.node(item).content.len() > 2 {
                    return Ok(Directive::Merge);
                }
                let text = self.graph.node(value).value.clone();
                let directive = parse_directive(&text)?;
                self.set_item(patch, None, &[DIRECTIVE.into()], &[text])?;
                Ok(directive)
            }
            Kind::Scalar | Kind::Alias => Err(Fault::new(format!(
                "no implemented strategic merge patch strategy for '{}' ('{}')",
                node.tag.as_str(),
                node.value
            ))),
        }
    }

    fn walk_mapping(&mut self, pair: Pair, schema: Option<&Found>, depth: usize) -> Result<Outcome> {
        let outcome = self.visit_mapping(pair)?;
        let Some(destination) = outcome.node() else { return Ok(Outcome::Nothing) };
        let pair = Pair { destination: Some(destination), ..pair };

        let mut names: Vec<SmolStr> = Vec::new();
        for node in [pair.destination, pair.patch].into_iter().flatten() {
            if self.graph.node(node).kind == Kind::Mapping {
                names.extend(fields::names(self.graph, node));
            }
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            let own = fields::find(self.graph, destination, &name);
            let theirs = pair.patch.and_then(|patch| fields::find_entry(self.graph, patch, &name));
            let member_schema = schema.and_then(|schema| self.schemas.member(&schema.schema, &name));
            let member = Pair { destination: own, patch: theirs.map(|(_, value)| value) };
            let value = self.walk(member, member_schema, depth + 1)?;
            // The key of a new member is written as that of the patch.
            let key_style = match theirs {
                Some((key, theirs)) if value.node() == Some(theirs) => self.graph.node(key).style,
                _ => Style::PLAIN,
            };
            let setting = Setting { keeps_null: matches!(value, Outcome::KeptNull(_)), key_style };
            fields::set_with(self.graph, destination, &name, value.node(), setting)?;
        }
        Ok(outcome)
    }

    fn walk_merged_list(
        &mut self,
        pair: Pair,
        keys: &[SmolStr],
        item: &Found,
        depth: usize,
    ) -> Result<Outcome> {
        self.take_style(pair);
        let outcome = if self.is_null(pair.destination) {
            Outcome::of(pair.patch)
        } else {
            self.visit_with_directive(pair)?
        };
        let Some(destination) = outcome.node() else { return Ok(Outcome::Nothing) };
        let pair = Pair { destination: Some(destination), ..pair };
        if keys.is_empty() {
            let values = self.scalar_values(pair)?;
            return self.merge_items(pair, values, &[SmolStr::default()], item, depth);
        }
        let values = self.key_values(pair, keys)?;
        self.merge_items(pair, values, keys, item, depth)
    }

    /// The two lists, first the one whose items come first.
    fn in_order(&self, pair: Pair) -> impl Iterator<Item = NodeId> + use<> {
        let nodes = match self.new_items {
            NewItems::First => [pair.patch, pair.destination],
            NewItems::Last => [pair.destination, pair.patch],
        };
        nodes.into_iter().flatten()
    }

    /// The values of the keys of all items, each combination once.
    fn key_values(&mut self, pair: Pair, keys: &[SmolStr]) -> Result<Vec<Vec<SmolStr>>> {
        let (mut values, mut seen) = (Vec::new(), HashSet::new());
        for list in self.in_order(pair) {
            for item in fields::items(self.graph, list)? {
                let of_item: Vec<SmolStr> =
                    keys.iter().map(|key| fields::text_of(self.graph, item, key)).collect();
                if seen.insert(of_item.clone()) {
                    values.push(of_item);
                }
            }
        }
        Ok(values)
    }

    fn scalar_values(&mut self, pair: Pair) -> Result<Vec<Vec<SmolStr>>> {
        let (mut values, mut seen) = (Vec::new(), HashSet::new());
        for list in self.in_order(pair) {
            for item in fields::items(self.graph, list)? {
                let value = self.graph.node(item).value.clone();
                if seen.insert(value.clone()) {
                    values.push(vec![value]);
                }
            }
        }
        Ok(values)
    }

    fn merge_items(
        &mut self,
        pair: Pair,
        mut all: Vec<Vec<SmolStr>>,
        keys: &[SmolStr],
        item: &Found,
        depth: usize,
    ) -> Result<Outcome> {
        let Some(destination) = pair.destination else { return Ok(Outcome::Nothing) };
        let merged = self.graph.add(Node::new(Kind::Sequence))?;
        if keys.len() > 1 {
            unite(self.graph, &mut all)?;
        }
        let used = used_keys(&all, keys);
        let mut item_keys: Vec<SmolStr> = Vec::new();
        for values in &all {
            let (valid_keys, valid_values) = valid(&used, values, keys);
            let sources = self.items_of(pair, &valid_keys, &valid_values)?;
            let outcome = self.walk(sources, Some(item.clone()), depth + 1)?;
            let is_gone = match outcome.node() {
                None => true,
                Some(node) => {
                    let node = self.graph.node(node);
                    node.is_null() || (node.kind == Kind::Mapping && node.content.is_empty())
                }
            };
            match outcome.node() {
                Some(node) if !is_gone => {
                    for (key, value) in valid_keys.iter().zip(&valid_values) {
                        if fields::find(self.graph, node, key).is_none() && !value.is_empty() {
                            let scalar = self.graph.add(Node::scalar(value.clone()))?;
                            fields::set(self.graph, node, key, Some(scalar))?;
                        }
                    }
                    self.set_item(merged, Some(node), &valid_keys, &valid_values)?;
                }
                _ => {
                    for _ in &valid_keys {
                        self.set_item(destination, None, &valid_keys, &valid_values)?;
                    }
                }
            }
            item_keys = valid_keys;
        }
        if all.is_empty() {
            return Ok(Outcome::Node(destination));
        }
        let (first, second) = match self.new_items {
            NewItems::First => (merged, destination),
            NewItems::Last => (destination, merged),
        };
        self.append_items(first, second, &item_keys)?;
        Ok(if self.graph.node(first).is_null() { Outcome::Nothing } else { Outcome::Node(first) })
    }

    /// The items of both lists that have these values.
    fn items_of(&mut self, pair: Pair, keys: &[SmolStr], values: &[SmolStr]) -> Result<Pair> {
        // Keys without a value are not looked at, unless there is no other.
        let has_value: Vec<bool> = keys.iter().zip(values).map(|(_, value)| !value.is_empty()).collect();
        let any = has_value.contains(&true);
        let members: Vec<(&str, &str)> = keys
            .iter()
            .zip(values)
            .zip(&has_value)
            .filter(|(_, has)| **has || !any)
            .map(|((key, value), _)| (key.as_str(), value.as_str()))
            .collect();
        let find = |list: Option<NodeId>| -> Result<Option<NodeId>> {
            let Some(list) = list.filter(|list| self.graph.node(*list).kind == Kind::Sequence) else {
                return Ok(None);
            };
            match members.as_slice() {
                [("", value)] => {
                    let items = fields::items(self.graph, list)?;
                    Ok(items.into_iter().find(|item| self.graph.node(*item).value == *value))
                }
                members => fields::item_with(self.graph, list, members),
            }
        };
        Ok(Pair { destination: find(pair.destination)?, patch: find(pair.patch)? })
    }

    /// Puts an item into a list in the place of those with these values, or removes these.
    ///
    /// Null and empty items are dropped on the way. With fewer values than keys nothing is found, and without any
    /// value everything else is dropped.
    fn set_item(
        &mut self,
        list: NodeId,
        element: Option<NodeId>,
        keys: &[SmolStr],
        values: &[SmolStr],
    ) -> Result<()> {
        fields::expect_kind(self.graph, list, Kind::Sequence)?;
        let sets_mappings = keys.first().is_some_and(|key| !key.is_empty())
            && values.first().is_some_and(|value| !value.is_empty());
        let content = fields::items(self.graph, list)?;
        let mut kept = Vec::with_capacity(content.len() + 1);
        let mut is_found = false;
        for item in content {
            let node = self.graph.node(item);
            if node.is_null() || (node.kind == Kind::Mapping && node.content.is_empty()) {
                continue;
            }
            if node.kind != Kind::Mapping && sets_mappings {
                kept.push(item);
                continue;
            }
            if !self.item_matches(item, keys, values)? {
                if !values.is_empty() {
                    kept.push(item);
                }
                continue;
            }
            is_found = true;
            kept.extend(element);
        }
        self.graph.node_mut(list).content = kept;
        let Some(element) = element.filter(|element| !self.graph.node(*element).is_null()) else {
            return Ok(());
        };
        if !is_found {
            self.graph.push(list, element)?;
        }
        Ok(())
    }

    fn item_matches(&mut self, item: NodeId, keys: &[SmolStr], values: &[SmolStr]) -> Result<bool> {
        let mut found = false;
        for (index, key) in keys.iter().enumerate() {
            if let Some(value) = values.get(index) {
                found = if key.is_empty() {
                    fields::expect_kind(self.graph, item, Kind::Scalar)?;
                    self.graph.node(item).value == *value
                } else {
                    let member = fields::get(self.graph, item, key)?;
                    // An empty value is met by any.
                    member.is_some_and(|member| value.is_empty() || self.graph.node(member).value == *value)
                };
            }
            if !found {
                return Ok(false);
            }
        }
        Ok(found)
    }

    /// Puts the items of one list into another.
    fn append_items(&mut self, list: NodeId, from: NodeId, keys: &[SmolStr]) -> Result<()> {
        for item in self.graph.node(from).content.clone() {
            if keys.first().is_none_or(SmolStr::is_empty) {
                let value = self.graph.node(item).value.clone();
                self.set_item(list, Some(item), &[SmolStr::default()], &[value])?;
                continue;
            }
            let mut values = Vec::with_capacity(keys.len());
            for key in keys {
                match fields::get(self.graph, item, key)? {
                    Some(value) => values.push(self.graph.node(value).value.clone()),
                    None => self.graph.push(list, item)?,
                }
            }
            if keys.len() > 1 {
                self.set_item(list, None, keys, &values)?;
            }
            self.set_item(list, Some(item), keys, &values)?;
        }
        Ok(())
    }
}

fn parse_directive(text: &str) -> Result<Directive> {
    match text {
        "delete" => Ok(Directive::Delete),
        "replace" => Ok(Directive::Replace),
        "merge" => Ok(Directive::Merge),
        other => Err(Fault::new(format!("unknown patch strategy '{other}'"))),
    }
}

/// Makes values equal that have one in common and do not contradict each other.
fn unite(graph: &Graph, all: &mut [Vec<SmolStr>]) -> Result<()> {
    for first in 0..all.len() {
        graph.spend(all.len())?;
        // What it was before: that it may change on the way is not looked at.
        let Some(one) = all.get(first).cloned() else { continue };
        for second in 0..all.len() {
            let Some(other) = all.get(second) else { continue };
            if let Some(united) = united(&one, other) {
                for index in [first, second] {
                    if let Some(values) = all.get_mut(index) {
                        values.clone_from(&united);
                    }
                }
            }
        }
    }
    Ok(())
}

fn united(one: &[SmolStr], other: &[SmolStr]) -> Option<Vec<SmolStr>> {
    if one.len() != other.len() {
        return None;
    }
    let mut common = false;
    let mut values = Vec::with_capacity(one.len());
    for (one, other) in one.iter().zip(other) {
        if one == other {
            common = true;
            values.push(one.clone());
        } else if !one.is_empty() && !other.is_empty() {
            return None;
        } else {
            values.push(if one.is_empty() { other.clone() } else { one.clone() });
        }
    }
    common.then_some(values)
}

/// Which keys have a value in any item.
fn used_keys(all: &[Vec<SmolStr>], keys: &[SmolStr]) -> Vec<bool> {
    (0..keys.len())
        .map(|at| all.iter().any(|values| values.get(at).is_some_and(|value| !value.is_empty())))
        .collect()
}

/// Keys that are used, and the values of an item for them; all when none is used.
fn valid(used: &[bool], values: &[SmolStr], keys: &[SmolStr]) -> (Vec<SmolStr>, Vec<SmolStr>) {
    if !used.contains(&true) {
        return (keys.to_vec(), values.to_vec());
    }
    let is_used = |at: usize| used.get(at).copied().unwrap_or(false);
    let valid_keys =
        keys.iter().enumerate().filter(|(at, _)| is_used(*at)).map(|(_, key)| key.clone()).collect();
    let valid_values =
        values.iter().enumerate().filter(|(at, _)| is_used(*at)).map(|(_, value)| value.clone()).collect();
    (valid_keys, valid_values)
}
