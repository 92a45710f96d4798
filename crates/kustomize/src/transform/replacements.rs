//! Replacements (RND-229): the value of one field for others, also inside of JSON and YAML texts.

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_go::nesting::DEPTH_MAX;
use tiphys_go::regexp::Regexp;

use super::Work;
use crate::config::split_smart;
use crate::fault::{Before as _, Fault, Result, attempt, quoted};
use crate::fields;
use crate::graph::{Graph, Kind, Node, NodeId, Tag};
use crate::id::{Gvk, ResourceId};
use crate::kustomization::{FieldOptions, Replacement, Selector, Source, Target};
use crate::resource::{Resource, previous_ids};
use crate::resources::{Patterns, texts_fit};
use crate::value::to_value_of_any;
use crate::yaml::{has_comments, parse_first, write};

const DEFAULT_PATH: &str = "metadata.name";

/// Carries out replacements, in their order.
pub(crate) fn replace(work: &mut Work<'_>, replacements: &[Replacement]) -> Result<()> {
    let nodes: Vec<NodeId> = work.resources.list_mut().iter().filter_map(Resource::node).collect();
    for replacement in replacements {
        let has_source = replacement.source.is_some() || replacement.source_value.is_some();
        let Some(targets) = replacement.targets.as_ref().filter(|_| has_source) else {
            return Err(Fault::new("replacements must specify a source and at least one target"));
        };
        let value = value_of(work.graph, &nodes, replacement)?;
        for target in targets {
            apply(work.graph, &nodes, value, target)?;
        }
    }
    work.resources.drop_empty(work.graph);
    Ok(())
}

/// What names an object and has named it; their scopes are not known here.
fn ids(graph: &Graph, node: NodeId) -> Result<Vec<ResourceId>> {
    let text = |name: &str| fields::find(graph, node, name).map(|value| graph.node(value));
    let api_version = text("apiVersion").filter(|value| !value.is_null()).map(|value| value.value.clone());
    let kind = text("kind").map(|value| value.value.clone()).unwrap_or_default();
    let mut ids = vec![ResourceId {
        gvk: Gvk::new(&api_version.unwrap_or_default(), &kind),
        name: fields::metadata_text(graph, node, "name"),
        namespace: fields::metadata_text(graph, node, "namespace"),
    }];
    ids.extend(previous_ids(graph, node)?);
    Ok(ids)
}

fn value_of(graph: &mut Graph, nodes: &[NodeId], replacement: &Replacement) -> Result<NodeId> {
    let source = match (&replacement.source_value, &replacement.source) {
        (Some(_), Some(_)) => {
            return Err(Fault::new("value and resource selectors are mutually exclusive"));
        }
        (Some(value), None) => return graph.add(Node::scalar(value.clone())),
        (None, Some(source)) => source,
        (None, None) => return Err(Fault::new("replacements must specify a source and at least one target")),
    };
    let node = source_node(graph, nodes, source)?;
    let field_path = if source.field_path.is_empty() { DEFAULT_PATH } else { &source.field_path };
    let path = split_smart(field_path, '.');
    let found =
        fields::look_up(graph, node, &path).before(|| "error looking up replacement source".to_owned())?;
    let Some(found) = found.filter(|found| !graph.node(*found).is_null_or_empty()) else {
        let id = &source.id;
        return Err(Fault::new(format!("fieldPath `{field_path}` is missing for replacement source {id}")));
    };
    let Some(options) = source.options.as_ref().filter(|options| !options.delimiter.is_empty()) else {
        return Ok(found);
    };
    if graph.node(found).kind != Kind::Scalar {
        return Err(Fault::new("delimiter option can only be used with scalar nodes"));
    }
    let text = graph.node(found).value.clone();
    let part = usize::try_from(options.index)
        .ok()
        .and_then(|index| text.split(options.delimiter.as_str()).nth(index));
    let Some(part) = part else {
        return Err(Fault::new(format!("options.index {} is out of bounds for value {text}", options.index)));
    };
    let part = SmolStr::new(part);
    let copy = graph.copy(found)?;
    graph.node_mut(copy).value = part;
    Ok(copy)
}

fn source_node(graph: &Graph, nodes: &[NodeId], source: &Source) -> Result<NodeId> {
    let mut found = None;
    graph.spend(nodes.len())?;
    for node in nodes {
        let ids = ids(graph, *node).before(|| "error getting node IDs".to_owned())?;
        if ids.iter().any(|id| id.is_selected_by(&source.id)) {
            if found.is_some() {
                return Err(Fault::new(format!("multiple matches for selector {source}")));
            }
            found = Some(*node);
        }
    }
    found.ok_or_else(|| Fault::new(format!("nothing selected by {source}")))
}

fn apply(graph: &mut Graph, nodes: &[NodeId], value: NodeId, target: &Target) -> Result<()> {
    let Some(select) = &target.select else {
        return Err(Fault::new("target must specify resources to select"));
    };
    let words = || "error creating target selector".to_owned();
    let selected = Patterns::new(select).before(words)?;
    let rejected: Vec<(&Selector, Patterns)> = target
        .reject
        .iter()
        .map(|reject| Ok((reject, Patterns::new(reject)?)))
        .collect::<Result<_>>()
        .before(words)?;
    let fits = |patterns: &Patterns, id: &ResourceId| {
        patterns.kind_fits(&id.gvk) && patterns.name_fits(&id.name) && patterns.namespace_fits(&id.namespace)
    };
    graph.spend(nodes.len())?;
    'nodes: for node in nodes {
        let ids = ids(graph, *node)?;
        if !meets(graph, *node, select)? {
            continue;
        }
        for reject in &target.reject {
            let says_nothing = reject.annotations.is_empty() && reject.labels.is_empty();
            if !says_nothing && meets(graph, *node, reject)? {
                continue 'nodes;
            }
        }
        let is_rejected = rejected
            .iter()
            .filter(|(selector, _)| !selector.id.is_empty())
            .any(|(_, patterns)| ids.iter().any(|id| fits(patterns, id)));
        if !is_rejected && ids.iter().any(|id| fits(&selected, id)) {
            copy_to(graph, *node, value, target)?;
        }
    }
    Ok(())
}

/// Whether annotations and labels are those of a selector.
fn meets(graph: &Graph, node: NodeId, selector: &Selector) -> Result<bool> {
    let resource = Resource::new(node);
    let annotations = texts_fit(graph, &resource, "annotations", &selector.annotations)?;
    Ok(texts_fit(graph, &resource, "labels", &selector.labels)? && annotations)
}

fn copy_to(graph: &mut Graph, object: NodeId, value: NodeId, target: &Target) -> Result<()> {
    let default = [SmolStr::new_static(DEFAULT_PATH)];
    let paths = if target.field_paths.is_empty() { &default[..] } else { &target.field_paths };
    let creates = target.options.as_ref().is_some_and(|options| options.create);
    for field_path in paths {
        let make = creates.then(|| graph.node(value).kind);
        let path = split_smart(field_path, '.');
        if attempt(set_in_text(graph, object, value, &path, make))?.is_ok() {
            continue;
        }
        let words = || {
            let or_create = if creates { " or create" } else { "" };
            format!("unable to find{or_create} field {} in replacement target", quoted(field_path))
        };
        let found = Matcher { make }.find(graph, object, &path, 0).before(words)?.unwrap_or_default();
        if found.is_empty() {
            return Err(Fault::new(words()));
        }
        for field in found {
            set_field(graph, target.options.as_ref(), field, value)?;
        }
    }
    Ok(())
}

fn set_field(graph: &mut Graph, options: Option<&FieldOptions>, field: NodeId, value: NodeId) -> Result<()> {
    let value = graph.copy(value)?;
    if let Some(options) = options.filter(|options| !options.delimiter.is_empty()) {
        if graph.node(field).kind != Kind::Scalar {
            return Err(Fault::new("delimiter option can only be used with scalar nodes"));
        }
        let old = graph.node(field).value.clone();
        let mut parts: Vec<&str> = old.split(options.delimiter.as_str()).collect();
        let new = if fields::is_null(graph, Some(value)) {
            SmolStr::default()
        } else {
            graph.node(value).value.clone()
        };
        match usize::try_from(options.index) {
            Err(_negative) => parts.insert(0, &new),
            Ok(index) => match parts.get_mut(index) {
                Some(part) => *part = &new,
                None => parts.push(&new),
            },
        }
        let joined = parts.join(&options.delimiter);
        graph.take(joined.len())?;
        graph.node_mut(value).value = joined.into();
    }
    if graph.node(field).kind == Kind::Scalar {
        // Only the text: the type of the field stays.
        let text = graph.node(value).value.clone();
        graph.take(text.len())?;
        graph.node_mut(field).value = text;
        return Ok(());
    }
    graph.assign(field, value)
}

/// Sets a field inside of a text that is a document.
///
/// # Errors
/// When the path leads through no such text, or not to a field.
fn set_in_text(
    graph: &mut Graph,
    object: NodeId,
    value: NodeId,
    path: &[SmolStr],
    make: Option<Kind>,
) -> Result<()> {
    let mut found = None;
    for length in 1..path.len() {
        let (outer, inner) = path.split_at_checked(length).unwrap_or((path, &[]));
        let Ok(field) = attempt(fields::look_up(graph, object, outer))? else { continue };
        let Some(field) = field.filter(|field| graph.node(*field).kind == Kind::Scalar) else { continue };
        let text = graph.node(field).value.clone();
        if let Ok(document) = attempt(parse_first(graph, &text))? {
            found = Some((field, document, text, inner));
            break;
        }
    }
    let Some((field, Some(document), text, inner)) = found else {
        return Err(Fault::new("no structured data found in path"));
    };
    let places = Matcher { make }.find(graph, document, inner, 0)?.unwrap_or_default();
    if places.is_empty() {
        return Err(Fault::new("unable to find field in structured data"));
    }
    for place in places {
        if graph.node(place).kind == Kind::Scalar {
            let text = graph.node(value).value.clone();
            graph.node_mut(place).value = text;
        } else {
            graph.assign(place, value)?;
        }
    }
    let again = serialize(graph, document, &text)?;
    graph.take(again.len())?;
    graph.node_mut(field).value = again.into();
    Ok(())
}

/// The document as text, in the manner of the original text.
fn serialize(graph: &mut Graph, document: NodeId, original: &str) -> Result<String> {
    if !original.trim_start().starts_with(['{', '[']) {
        if has_comments(original) {
            return Err(Fault::unsupported("replacements inside of YAML texts with comments"));
        }
        return Ok(write(graph, document)?.trim().to_owned());
    }
    let value = to_value_of_any(graph, document)?;
    if original.contains('\n') && original.contains("  ") {
        let mut text = String::new();
        indented(&value, 0, &mut text);
        return Ok(text);
    }
    Ok(tiphys_go::json::to_string_go(&value))
}

/// JSON as `json.MarshalIndent` writes it, two columns for each level.
fn indented(value: &Value, level: usize, out: &mut String) {
    let line = |level: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&"  ".repeat(level));
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(level + 1, out);
                indented(item, level + 1, out);
            }
            line(level, out);
            out.push(']');
        }
        Value::Object(members) if !members.is_empty() => {
            out.push('{');
            for (index, (name, member)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                line(level + 1, out);
                out.push_str(&tiphys_go::json::to_string_go(&Value::String(name.clone())));
                out.push_str(": ");
                indented(member, level + 1, out);
            }
            line(level, out);
            out.push('}');
        }
        other => out.push_str(&tiphys_go::json::to_string_go(other)),
    }
}

/// Finds the fields of a path; what is missing may be made.
struct Matcher {
    make: Option<Kind>,
}

impl Matcher {
    /// The fields; `None` when there are none.
    fn find(
        &self,
        graph: &mut Graph,
        node: NodeId,
        path: &[SmolStr],
        depth: usize,
    ) -> Result<Option<Vec<NodeId>>> {
        graph.spend(1)?;
        if depth > DEPTH_MAX {
            return Err(Fault::too_deep());
        }
        let Some((first, rest)) = path.split_first() else { return Ok(Some(vec![node])) };
        if let Some(position) = fields::position(first).and_then(|position| usize::try_from(position).ok()) {
            return self.by_position(graph, node, position, rest, depth);
        }
        if fields::is_list_index(first) {
            return self.by_value(graph, node, first, rest, depth);
        }
        if first == "*" {
            let mut found = None;
            for item in fields::items(graph, node)? {
                if let Some(of_item) = self.find(graph, item, rest, depth + 1)? {
                    found.get_or_insert_with(Vec::new).extend(of_item);
                }
            }
            return Ok(found);
        }
        self.by_name(graph, node, first, rest, depth)
    }

    fn kind_of(rest: &[SmolStr], make: Kind) -> Kind {
        fields::part_kind(rest.first().map(SmolStr::as_str), make)
    }

    fn by_name(
        &self,
        graph: &mut Graph,
        node: NodeId,
        name: &str,
        rest: &[SmolStr],
        depth: usize,
    ) -> Result<Option<Vec<NodeId>>> {
        let field = match (fields::get(graph, node, name)?, self.make) {
            (Some(field), _) => field,
            (None, None) => return Ok(None),
            (None, Some(make)) => {
                let made = graph.add(Node::new(Self::kind_of(rest, make)))?;
                fields::set(graph, node, name, Some(made))?;
                made
            }
        };
        if graph.node(field).kind == Kind::Scalar && !rest.is_empty() {
            // What is found in there is found, but a change of it is lost.
            let text = graph.node(field).value.clone();
            let Some(document) = parse_first(graph, &text)? else {
                return Err(Fault::new("wrong node kind: expected MappingNode but got "));
            };
            return self.find(graph, document, rest, depth + 1);
        }
        self.find(graph, field, rest, depth + 1)
    }

    fn by_position(
        &self,
        graph: &mut Graph,
        node: NodeId,
        position: usize,
        rest: &[SmolStr],
        depth: usize,
    ) -> Result<Option<Vec<NodeId>>> {
        let mut items = fields::items(graph, node)?;
        if let Some(make) = self.make.filter(|_| items.len() == position) {
            let made = graph.add(Node::new(Self::kind_of(rest, make)))?;
            fields::expect_kind(graph, node, Kind::Sequence)?;
            graph.push(node, made)?;
            items.push(made);
        }
        let Some(item) = items.get(position).copied() else {
            let count = items.len();
            return Err(Fault::new(format!("index {position} specified but only {count} elements found")));
        };
        self.find(graph, item, rest, depth + 1)
    }

    fn by_value(
        &self,
        graph: &mut Graph,
        node: NodeId,
        part: &str,
        rest: &[SmolStr],
        depth: usize,
    ) -> Result<Option<Vec<NodeId>>> {
        let (name, wanted) = fields::split_index(part)?;
        let wanted_pattern = Fragment::new(wanted)?;
        // What was made is looked for once more; it is found unless it does not match its own expression.
        for attempt in 0..2 {
            let mut found: Vec<NodeId> = Vec::new();
            for item in fields::items(graph, node)? {
                if name.is_empty() {
                    if wanted_pattern.is_in(written(graph, item)?.trim()) {
                        found.push(item);
                    }
                    continue;
                }
                let Some(value) = fields::find(graph, item, name) else { continue };
                if wanted_pattern.is_in(written(graph, value)?.trim())
                    && let Some(of_item) = self.find(graph, item, rest, depth + 1)?
                {
                    found.extend(of_item);
                }
            }
            if !found.is_empty() || self.make.is_none() || attempt > 0 {
                return Ok(Some(found).filter(|found| !found.is_empty()));
            }
            let scalar = graph.add(Node::scalar(wanted))?;
            let item = if name.is_empty() {
                scalar
            } else {
                let key = graph.add(Node::scalar(name))?;
                graph.add(Node { content: vec![key, scalar], ..Node::new(Kind::Mapping) })?
            };
            fields::expect_kind(graph, node, Kind::Sequence)?;
            graph.push(node, item)?;
        }
        Ok(None)
    }
}

/// A node as text; that of a word is the word.
fn written(graph: &Graph, node: NodeId) -> Result<String> {
    let found = graph.node(node);
    let is_word = found.kind == Kind::Scalar
        && found.tag == Tag::Text
        && found.style == crate::graph::Style::PLAIN
        && found.value.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    if is_word
        && !matches!(&*found.value, "-" | "" | "true" | "false" | "null")
        && !found.value.starts_with('-')
    {
        return Ok(found.value.to_string());
    }
    write(graph, node)
}

/// An expression that may match anywhere in a text; most are words.
enum Fragment {
    Word(SmolStr),
    Expression(Box<Regexp>),
}

impl Fragment {
    fn new(text: &str) -> Result<Self> {
        if text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/' | b':' | b' '))
        {
            return Ok(Self::Word(text.into()));
        }
        match Regexp::new(text) {
            Ok(expression) => Ok(Self::Expression(Box::new(expression))),
            Err(error) if error.is_too_large() => Err(Fault::exhausted(error.to_string())),
            Err(error) => Err(Fault::new(error.to_string())),
        }
    }

    fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Word(word) => text.contains(word.as_str()),
            Self::Expression(expression) => expression.is_match(text),
        }
    }
}
