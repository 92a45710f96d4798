//! Nodes as JSON values and back.
//!
//! kustomize writes an object as YAML, reads that again and writes JSON. What comes out depends on how each scalar
//! is written: plain `1.10` of a node without a tag is a number, of one with the tag of text it is not.

use serde_json::{Map, Number, Value};
use tiphys_go::nesting::DEPTH_MAX;

use crate::fault::{Fault, Result};
use crate::graph::{Graph, Kind, Node, NodeId, Style, Tag};
use crate::yaml::{Scalar, emitted_scalar, json_text_again, parse_first, resolve, resolve_plain, write};

/// The value of an object, as JSON that is read again.
///
/// # Errors
/// When keys repeat or are no texts, a tag does not fit its text, or a number is not finite.
pub(crate) fn to_value(graph: &mut Graph, root: NodeId) -> Result<Value> {
    let value = to_value_at(graph, root, Place::default(), 0);
    match value {
        Err(Fault::Input { text, .. }) if text == DUPLICATE => Err(duplicate_keys(graph, root)?),
        other => other,
    }
}

/// The value of any node; keys are texts at every level.
pub(crate) fn to_value_of_any(graph: &mut Graph, root: NodeId) -> Result<Value> {
    let place = Place { in_flow: false, below_root: true };
    match to_value_at(graph, root, place, 0) {
        Err(Fault::Input { text, .. }) if text == DUPLICATE => Err(duplicate_keys(graph, root)?),
        other => other,
    }
}

/// Stands for the error that names lines of the text, which is written only then.
const DUPLICATE: &str = "mapping key already defined";

#[derive(Clone, Copy, Default)]
struct Place {
    in_flow: bool,
    below_root: bool,
}

fn to_value_at(graph: &Graph, id: NodeId, place: Place, depth: usize) -> Result<Value> {
    if depth > DEPTH_MAX {
        return Err(Fault::too_deep());
    }
    graph.spend(1)?;
    let node = graph.node(id);
    let below = Place { in_flow: place.in_flow || node.style.has(Style::FLOW), below_root: true };
    match node.kind {
        Kind::Scalar => scalar_value(node, place.in_flow),
        Kind::Alias => {
            let target = node.content.first().copied();
            target.map_or(Ok(Value::Null), |target| to_value_at(graph, target, place, depth + 1))
        }
        Kind::Sequence => {
            node.content.iter().map(|item| to_value_at(graph, *item, below, depth + 1)).collect()
        }
        Kind::Mapping => {
            let mut members = Map::new();
            for pair in node.content.chunks_exact(2) {
                let [key, value] = pair else { continue };
                let Some(name) = key_name(graph, *key, below)? else { continue };
                let value = to_value_at(graph, *value, below, depth + 1)?;
                if members.insert(name, value).is_some() {
                    return Err(Fault::new(DUPLICATE));
                }
            }
            Ok(Value::Object(members))
        }
    }
}

/// The name of a key; that of the root mapping may be of any type, and null is none.
fn key_name(graph: &Graph, key: NodeId, place: Place) -> Result<Option<String>> {
    let node = graph.node(key);
    if node.kind != Kind::Scalar {
        return Err(Fault::new("yaml: invalid map key"));
    }
    let is_plain_text = node.tag == Tag::Text && !node.style.has(Style::TAGGED);
    if is_plain_text {
        return Ok(Some(node.value.to_string()));
    }
    let meaning = meaning(node, place.in_flow, crate::yaml::is_simple_key(node))?;
    match meaning {
        Scalar::Text => Ok(Some(node.value.to_string())),
        Scalar::Decoded(text) => Ok(Some(text)),
        _ if !place.below_root => Ok(Some(node.value.to_string())),
        _ => Err(Fault::new("json: unsupported type: map[interface {}]interface {}")),
    }
}

/// What a scalar means once it is written and read again.
fn meaning(node: &Node, in_flow: bool, is_key: bool) -> Result<Scalar> {
    let emitted = emitted_scalar(node, in_flow, is_key);
    if emitted.style == Style::LITERAL && node.value.starts_with('\t') {
        return Err(Fault::new("yaml: found a tab character where an indentation space is expected"));
    }
    match emitted.tag {
        Some(tag) => resolve(&tag, &node.value),
        None if emitted.style == Style::FOLDED => {
            let again = crate::yaml::folded_again(&node.value)?;
            Ok(if again == node.value { Scalar::Text } else { Scalar::Decoded(again) })
        }
        None if emitted.style == Style::PLAIN => Ok(resolve_plain(&node.value)),
        None => Ok(Scalar::Text),
    }
}

fn scalar_value(node: &Node, in_flow: bool) -> Result<Value> {
    // The usual case, without looking at how it would be written.
    let is_usual_text = node.tag == Tag::Text
        && !node.style.has(Style::TAGGED)
        && !node.style.has(Style::FOLDED)
        && !(node.value.starts_with('\t'));
    if is_usual_text {
        return Ok(Value::String(node.value.to_string()));
    }
    Ok(match meaning(node, in_flow, false)? {
        Scalar::Null => Value::Null,
        Scalar::Bool(truth) => Value::Bool(truth),
        Scalar::Int(integer) => Value::from(integer),
        Scalar::Uint(integer) => Value::from(integer),
        Scalar::Float(float) => float_value(float)?,
        Scalar::Time(text) | Scalar::Decoded(text) => Value::String(text),
        Scalar::Text => Value::String(node.value.to_string()),
    })
}

/// A float after it was JSON: a whole one is an integer then, as long as its digits are written out.
fn float_value(float: f64) -> Result<Value> {
    if !float.is_finite() {
        let shown = match float {
            f if f.is_nan() => "NaN",
            f if f > 0.0 => "+Inf",
            _ => "-Inf",
        };
        return Err(Fault::new(format!("json: unsupported value: {shown}")));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "whole and inside of the bounds"
    )]
    if float.fract() == 0.0 {
        if float.abs() < 9.2e18 {
            return Ok(Value::from(float as i64));
        }
        if (0.0..1.84e19).contains(&float) {
            return Ok(Value::from(float as u64));
        }
    }
    Ok(Number::from_f64(float).map_or(Value::Null, Value::Number))
}

/// The error about repeated keys, with lines of the text as kustomize writes it.
fn duplicate_keys(graph: &mut Graph, root: NodeId) -> Result<Fault> {
    let text = write(graph, root)?;
    let Some(again) = parse_first(graph, &text)? else { return Ok(Fault::new(DUPLICATE)) };
    let mut found = Vec::new();
    collect_duplicates(graph, again, 0, &mut found)?;
    Ok(Fault::new(format!("yaml: unmarshal errors:\n{}", found.join("\n"))))
}

fn collect_duplicates(graph: &mut Graph, id: NodeId, depth: usize, found: &mut Vec<String>) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(Fault::too_deep());
    }
    let node = graph.node(id).clone();
    if node.kind == Kind::Mapping {
        let keys: Vec<NodeId> = node.content.iter().step_by(2).copied().collect();
        let before = found.len();
        for (index, first) in keys.iter().enumerate() {
            graph.spend(keys.len())?;
            for second in keys.iter().skip(index + 1) {
                let (first, second) = (graph.node(*first), graph.node(*second));
                if first.kind == second.kind && first.value == second.value {
                    found.push(format!(
                        "  line {}: mapping key {} already defined at line {}",
                        second.line,
                        crate::fault::quoted(&second.value),
                        first.line
                    ));
                }
            }
        }
        // Of such a mapping nothing else is read.
        if found.len() > before {
            return Ok(());
        }
    }
    for child in node.content {
        collect_duplicates(graph, child, depth + 1, found)?;
    }
    Ok(())
}

/// A value after it was printed as JSON and read as YAML, as kustomize does with what it prints, and with what it
/// tells its transformers.
///
/// # Errors
/// When a text has characters that YAML forbids.
pub(crate) fn printed(value: Value, depth: usize) -> Result<Value> {
    if depth > DEPTH_MAX {
        return Err(Fault::too_deep());
    }
    Ok(match value {
        Value::String(text) => match json_text_again(&text)? {
            Some(again) => Value::String(again),
            None => Value::String(text),
        },
        Value::Array(items) => {
            items.into_iter().map(|item| printed(item, depth + 1)).collect::<Result<_>>()?
        }
        Value::Object(mut map) => {
            for (_, member) in &mut map {
                *member = printed(member.take(), depth + 1)?;
            }
            // Names are looked at only when one needs it.
            let mut renamed = Vec::new();
            for name in map.keys() {
                if let Some(again) = json_text_again(name)? {
                    renamed.push((name.clone(), again));
                }
            }
            for (name, again) in renamed {
                if let Some(member) = map.remove(&name) {
                    map.insert(again, member);
                }
            }
            Value::Object(map)
        }
        other => other,
    })
}

/// The nodes of a JSON object, as kustomize makes them: written as YAML and read. Numbers are 64-bit floats.
pub(crate) fn from_value(graph: &mut Graph, value: &Value) -> Result<NodeId> {
    Ok(match value {
        Value::Null => graph.add(Node { tag: Tag::Null, ..Node::scalar("null") })?,
        Value::Bool(truth) => graph.add(Node { tag: Tag::Bool, ..Node::scalar(truth.to_string()) })?,
        Value::Number(number) => {
            let float = number.as_f64().and_then(Number::from_f64);
            let text = float.map_or_else(|| number.to_string(), |float| float_text(&float));
            let tag = resolve_plain(&text).tag();
            graph.add(Node { tag, ..Node::scalar(text) })?
        }
        Value::String(text) => text_node(graph, text)?,
        Value::Array(items) => {
            let style = if items.is_empty() { Style::FLOW } else { Style::PLAIN };
            let list = graph.add(Node { tag: Tag::Sequence, style, ..Node::new(Kind::Sequence) })?;
            for item in items {
                let item = from_value(graph, item)?;
                graph.push(list, item)?;
            }
            list
        }
        Value::Object(members) => {
            let style = if members.is_empty() { Style::FLOW } else { Style::PLAIN };
            let map = graph.add(Node { tag: Tag::Mapping, style, ..Node::new(Kind::Mapping) })?;
            for (name, value) in members {
                let name = text_node(graph, name)?;
                graph.push(map, name)?;
                let value = from_value(graph, value)?;
                graph.push(map, value)?;
            }
            map
        }
    })
}

/// `%g` of Go.
pub(crate) fn float_text(float: &Number) -> String {
    tiphys_go::json::print_go(&Value::Number(float.clone()))
}

fn text_node(graph: &mut Graph, text: &str) -> Result<NodeId> {
    let style = if text.contains('\n') {
        Style::LITERAL
    } else if resolve_plain(text) == Scalar::Text && !crate::yaml::is_old_non_text(text) {
        Style::PLAIN
    } else {
        Style::DOUBLE_QUOTED
    };
    let node = Node { tag: Tag::Text, style, ..Node::scalar(text) };
    let style = emitted_scalar(&node, false, false).style;
    graph.add(Node { style, ..node })
}
