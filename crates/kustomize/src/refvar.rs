//! Variables: `$(NAME)` in the fields that may have them (RND-230).

use std::collections::{BTreeMap, BTreeSet};

use smol_str::SmolStr;

use crate::config::{FieldSpecs, split_smart};
use crate::fault::{Fault, Result};
use crate::fields;
use crate::fieldspec;
use crate::graph::{Graph, Kind, NodeId, Style, Tag};
use crate::kustomization::Var;
use crate::resources::Resources;
use crate::schema::Schemas;
use crate::value::float_text;

/// The value of a variable.
#[derive(Clone, Debug, PartialEq)]
enum Primitive {
    Text(SmolStr),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// Something else, which is not put anywhere.
    Other,
}

/// A variable as error texts show it.
fn shown(var: &Var) -> String {
    format!("{{{} {} {{{}}}}}", var.name, var.object.gvk, var.field_path)
}

/// Notes which resources variables are read from, and adds them to those that are known.
///
/// # Errors
/// When a name is there already, or several resources may be meant.
pub(crate) fn add(
    graph: &Graph,
    schemas: &mut Schemas,
    resources: &mut Resources,
    known: &mut BTreeMap<SmolStr, Var>,
    vars: &[Var],
) -> Result<()> {
    for var in vars {
        let target = &var.object;
        let by_namespace = !target.namespace.is_empty() || target.gvk.is_cluster_scoped;
        let found = resources.with_any_id(graph, schemas, |id| {
            if by_namespace { target.equals(id) } else { target.is_same_name(id) }
        })?;
        match found.as_slice() {
            [] => {}
            [index] => {
                // Neither id nor order change.
                if let Some(resource) = resources.list_mut().get_mut(*index) {
                    resource.vars.push(var.name.clone());
                }
            }
            several => {
                let count = several.len();
                let shown = shown(var);
                return Err(Fault::new(format!(
                    "found {count} resId matches for var {shown} (unable to disambiguate)"
                )));
            }
        }
    }
    merge(known, vars.iter().cloned())
}

/// Adds variables.
///
/// # Errors
/// When a name is there already.
pub(crate) fn merge(known: &mut BTreeMap<SmolStr, Var>, vars: impl IntoIterator<Item = Var>) -> Result<()> {
    for var in vars {
        if known.contains_key(&var.name) {
            return Err(Fault::new(format!("var '{}' already encountered", var.name)));
        }
        known.insert(var.name.clone(), var);
    }
    Ok(())
}

/// Replaces the variables in all resources, and says which stand nowhere.
pub(crate) fn resolve(
    graph: &mut Graph,
    resources: &Resources,
    vars: &BTreeMap<SmolStr, Var>,
    fields: &FieldSpecs,
) -> Result<Vec<SmolStr>> {
    if vars.is_empty() {
        return Ok(Vec::new());
    }
    let mut used: BTreeSet<SmolStr> = BTreeSet::new();
    let mut values = BTreeMap::new();
    for var in vars.values() {
        values.insert(var.name.clone(), value_of(graph, resources, var)?);
    }
    for resource in resources.list() {
        let Some(node) = resource.node() else { continue };
        for field in fields {
            fieldspec::apply(graph, node, field, None, &mut |graph: &mut Graph, place: NodeId| {
                replace_in(graph, place, &values, &mut used)
            })?;
        }
    }
    Ok(vars.keys().filter(|name| !used.contains(*name)).cloned().collect())
}

fn value_of(graph: &Graph, resources: &Resources, var: &Var) -> Result<Primitive> {
    let resource = resources.list().iter().find(|resource| resource.vars.contains(&var.name));
    let Some(resource) = resource else {
        let shown = shown(var);
        return Err(Fault::new(format!(
            "var '{shown}' cannot be mapped to a field in the set of known resources"
        )));
    };
    let missing =
        || Fault::new(format!("field specified in var '{}' not found in corresponding resource", shown(var)));
    let path = with_positions(&split_smart(&var.field_path, '.'));
    let found = match resource.node().map(|node| fields::look_up(graph, node, &path)) {
        Some(Ok(Some(found))) => found,
        Some(Err(stop @ Fault::Stop(_))) => return Err(stop),
        _ => return Err(missing()),
    };
    let node = graph.node(found);
    if node.kind != Kind::Scalar {
        return Ok(Primitive::Other);
    }
    Ok(match node.tag {
        Tag::Int => Primitive::Int(node.value.parse().map_err(|_not_decimal| missing())?),
        Tag::Float => Primitive::Float(node.value.parse().map_err(|_no_float| missing())?),
        Tag::Bool => match node.value.as_str() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Primitive::Bool(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Primitive::Bool(false),
            _ => return Err(missing()),
        },
        _ => Primitive::Text(node.value.clone()),
    })
}

/// `name[1]` as two parts.
fn with_positions(path: &[SmolStr]) -> Vec<SmolStr> {
    let mut parts = Vec::with_capacity(path.len());
    for part in path {
        let split = part.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
        match split.filter(|(_, position)| {
            !position.is_empty() && position.bytes().all(|byte| byte.is_ascii_digit())
        }) {
            Some((name, position)) => {
                if !name.is_empty() {
                    parts.push(name.into());
                }
                parts.push(position.into());
            }
            None => parts.push(part.clone()),
        }
    }
    parts
}

fn replace_in(
    graph: &mut Graph,
    place: NodeId,
    values: &BTreeMap<SmolStr, Primitive>,
    used: &mut BTreeSet<SmolStr>,
) -> Result<()> {
    let node = graph.node(place);
    if node.is_null() {
        return Ok(());
    }
    match node.kind {
        Kind::Scalar => {
            if node.is_text() {
                update(graph, place, values, used)?;
            }
            Ok(())
        }
        Kind::Mapping => {
            for (key, value) in fields::entries(graph, place)? {
                let key = graph.node(key);
                if !key.is_text() {
                    let (value, tag) = (&key.value, key.tag.as_str());
                    return Err(Fault::new(format!("invalid map key: value='{value}', tag='{tag}'")));
                }
                if graph.node(value).is_text() {
                    update(graph, value, values, used)?;
                }
            }
            Ok(())
        }
        Kind::Sequence => {
            for item in fields::items(graph, place)? {
                if !graph.node(item).is_text() {
                    return Err(Fault::new("invalid value type expect a string"));
                }
                update(graph, item, values, used)?;
            }
            Ok(())
        }
        Kind::Alias => Err(Fault::new("invalid type encountered 16")),
    }
}

fn update(
    graph: &mut Graph,
    place: NodeId,
    values: &BTreeMap<SmolStr, Primitive>,
    used: &mut BTreeSet<SmolStr>,
) -> Result<()> {
    let old = graph.node(place).value.clone();
    graph.spend(1 + old.len() / 64)?;
    let new = replaced(graph, &old, values, used)?;
    let (text, tag) = match new {
        Primitive::Text(text) => (text, Tag::Text),
        Primitive::Int(integer) => (SmolStr::from(integer.to_string()), Tag::Int),
        Primitive::Float(float) => (SmolStr::from(float.to_string()), Tag::Float),
        Primitive::Bool(truth) => (SmolStr::from(truth.to_string()), Tag::Bool),
        Primitive::Other => return Ok(()),
    };
    let node = graph.node_mut(place);
    (node.value, node.tag, node.style) = (text, tag, Style::PLAIN);
    Ok(())
}

/// A text with its variables replaced; one that is exactly a variable takes its type.
fn replaced(
    graph: &Graph,
    text: &str,
    values: &BTreeMap<SmolStr, Primitive>,
    used: &mut BTreeSet<SmolStr>,
) -> Result<Primitive> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        if after.is_empty() {
            break;
        }
        out.push_str(before);
        if let Some(next) = after.strip_prefix('$') {
            out.push('$');
            rest = next;
        } else if let Some(inside) = after.strip_prefix('(') {
            if let Some((name, next)) = inside.split_once(')') {
                let value = values.get(name).filter(|value| **value != Primitive::Other);
                if value.is_some() {
                    used.insert(name.into());
                }
                if text.len() == name.len() + 3
                    && let Some(value) = value
                {
                    return Ok(value.clone());
                }
                match value {
                    Some(Primitive::Text(value)) => out.push_str(value),
                    Some(Primitive::Int(value)) => out.push_str(&value.to_string()),
                    Some(Primitive::Float(value)) => out.push_str(&shown_float(*value)),
                    Some(Primitive::Bool(value)) => out.push_str(&value.to_string()),
                    Some(Primitive::Other) | None => {
                        out.push_str("$(");
                        out.push_str(name);
                        out.push(')');
                    }
                }
                rest = next;
            } else {
                out.push_str("$(");
                rest = inside;
            }
        } else {
            out.push('$');
            let length = after.chars().next().map_or(0, char::len_utf8);
            let (character, next) = after.split_at_checked(length).unwrap_or((after, ""));
            out.push_str(character);
            rest = next;
        }
        graph.take(out.len() / 16)?;
    }
    out.push_str(rest);
    Ok(Primitive::Text(out.into()))
}

/// `%v` of Go.
fn shown_float(float: f64) -> String {
    serde_json::Number::from_f64(float).map_or_else(|| float.to_string(), |number| float_text(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_230_variables_are_replaced_in_texts() {
        let text = |text: &str| Primitive::Text(text.into());
        let values = [("A", text("x")), ("N", Primitive::Int(7)), ("M", Primitive::Other)];
        let values = values.map(|(name, value)| (SmolStr::new(name), value)).into();
        let graph = Graph::new(crate::graph::Allowance { memory: 1 << 20, steps: 1 << 20, cancelled: None });
        for (original, expected) in [
            ("$(A)", text("x")),
            ("$(N)", Primitive::Int(7)),
            ("a$(A)b$(N)", text("axb7")),
            ("$$(A)", text("$(A)")),
            ("$(B) $(M)", text("$(B) $(M)")),
            ("$(A", text("$(A")),
            ("$x $", text("$x $")),
            ("100%", text("100%")),
        ] {
            assert_eq!(
                replaced(&graph, original, &values, &mut BTreeSet::new()).unwrap(),
                expected,
                "{original}"
            );
        }
    }

    #[test]
    fn rnd_230_positions_are_parts_of_paths() {
        let path = split_smart("spec.ports[0].port", '.');
        assert_eq!(with_positions(&path), ["spec", "ports", "0", "port"]);
    }
}
