//! Combinations of generators: matrix (ASET-73..77) and merge (ASET-80..82).

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use tiphys_go::json;

use super::{GenerateError, Run};
use crate::generator::{self, Generator, Kind, Level};
use crate::params::{Params, merge_over, printed};
use crate::template::{RenderError, Rendering};

pub(super) fn matrix(
    run: &mut Run<'_>,
    generator: Generator<'_>,
    level: Level,
) -> Result<Vec<Params>, GenerateError> {
    let (entries, level) = generator::children(generator, level);
    let (first, second) = match entries.as_slice() {
        [] | [_] => {
            return Err(GenerateError::failed("found less than two generators, Matrix support only two"));
        }
        [first, second] => (*first, *second),
        _ => return Err(GenerateError::failed("found more than two generators, Matrix support only two")),
    };
    let outer = run.child(first, level)?;
    let mut sets = Vec::new();
    let mut is_pending = false;
    // What names no parameter is the same for every set.
    let constant =
        if mentions_parameters(second) || outer.is_empty() { None } else { Some(run.child(second, level)) };
    for a in &outer {
        let fresh;
        let inner = if let Some(constant) = &constant {
            constant.as_ref().map_err(Clone::clone)
        } else {
            let rendered = interpolated(&mut run.templates.with(a), second, level, a.is_empty())?;
            fresh = run.child(&rendered, level);
            fresh.as_ref().map_err(Clone::clone)
        };
        let inner = match inner {
            // The others have questions too.
            Err(GenerateError::Pending) => {
                is_pending = true;
                continue;
            }
            inner => inner?,
        };
        for b in inner {
            let set = if run.language.is_go() { deep(a, b) } else { texts(a, b)? };
            run.made(set, &mut sets)?;
        }
    }
    if is_pending { Err(GenerateError::Pending) } else { Ok(sets) }
}

/// The second entry with each set of the first filled in.
pub(super) fn interpolations(
    run: &mut Run<'_>,
    first: &Map<String, Value>,
    second: &Map<String, Value>,
    level: Level,
) -> Result<Vec<Map<String, Value>>, GenerateError> {
    let outer = run.child(first, level)?;
    if !mentions_parameters(second) {
        return Ok(if outer.is_empty() { Vec::new() } else { vec![second.clone()] });
    }
    let fill = |a: &Params| interpolated(&mut run.templates.with(a), second, level, a.is_empty());
    Ok(outer.iter().map(fill).collect::<Result<_, RenderError>>()?)
}

/// Whether anything but the selector of an entry could be a template.
fn mentions_parameters(entry: &Map<String, Value>) -> bool {
    entry.iter().any(|(key, value)| key.contains("{{") || (key != "selector" && has_braces(value)))
}

fn has_braces(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains("{{"),
        Value::Array(items) => items.iter().any(has_braces),
        Value::Object(members) => {
            members.iter().any(|(key, member)| key.contains("{{") || has_braces(member))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The second entry with the parameters of the first filled in; its own selector stays as it is written (ASET-25,
/// ASET-76).
fn interpolated(
    rendering: &mut Rendering<'_, '_>,
    entry: &Map<String, Value>,
    level: Level,
    is_empty: bool,
) -> Result<Map<String, Value>, RenderError> {
    if is_empty {
        return Ok(entry.clone());
    }
    let mut rendered = Map::new();
    for (key, value) in entry {
        if key == "selector" {
            rendered.insert(key.clone(), value.clone());
            continue;
        }
        let kind = Kind::ALL.into_iter().find(|kind| kind.name() == key);
        let value = match (kind, value) {
            (Some(kind), Value::Object(block)) => Value::Object(block_filled(rendering, kind, block, level)?),
            _ => rendering.value(value, key)?,
        };
        rendered.insert(rendering.text(key, key)?, value);
    }
    Ok(rendered)
}

/// A generator's block. Its `values` may name parameters that only it makes itself: what is not known stays.
fn block_filled(
    rendering: &mut Rendering<'_, '_>,
    kind: Kind,
    block: &Map<String, Value>,
    level: Level,
) -> Result<Map<String, Value>, RenderError> {
    let mut rendered = Map::new();
    for (key, value) in block {
        let value = match (key.as_str(), value) {
            ("values", Value::Object(values)) if kind != Kind::List => {
                Value::Object(values_filled(rendering, values)?)
            }
            ("generators", Value::Array(entries)) if kind.is_combination() => {
                Value::Array(entries_filled(rendering, entries, level)?)
            }
            _ => rendering.value(value, &format!("{}.{key}", kind.name()))?,
        };
        rendered.insert(rendering.text(key, key)?, value);
    }
    Ok(rendered)
}

fn values_filled(
    rendering: &mut Rendering<'_, '_>,
    values: &Map<String, Value>,
) -> Result<Map<String, Value>, RenderError> {
    let mut rendered = Map::new();
    for (key, value) in values {
        let field = format!("values.{}", key.chars().take(64).collect::<String>());
        let value = match value {
            Value::String(text) => Value::String(rendering.text_if_known(text, &field)?),
            other => rendering.value(other, &field)?,
        };
        rendered.insert(rendering.text(key, &field)?, value);
    }
    Ok(rendered)
}

/// Entries inside the second entry: all of them is filled in, selectors too (ASET-25).
fn entries_filled(
    rendering: &mut Rendering<'_, '_>,
    entries: &[Value],
    level: Level,
) -> Result<Vec<Value>, RenderError> {
    let one = |entry: &Value| {
        let Value::Object(members) = entry else { return rendering.value(entry, "generators") };
        let mut rendered = interpolated(rendering, members, level, false)?;
        if let Some(selector) = members.get("selector") {
            rendered.insert("selector".to_owned(), rendering.value(selector, "selector")?);
        }
        Ok(Value::Object(rendered))
    };
    entries.iter().map(one).collect()
}

/// Nested values of both; the first wins (ASET-75).
fn deep(a: &Params, b: &Params) -> Params {
    let mut set = b.clone();
    merge_over(&mut set, a);
    set
}

/// Texts of both; a key of both has to have one text (ASET-75).
fn texts(a: &Params, b: &Params) -> Result<Params, GenerateError> {
    let as_texts = |set: &Params| -> Params {
        set.iter().map(|(key, value)| (key.clone(), Value::String(printed(value)))).collect()
    };
    let mut set = as_texts(a);
    for (key, value) in as_texts(b) {
        match set.get(&key) {
            Some(present) if *present == value => {}
            Some(Value::String(present)) if key == "project" && present.is_empty() && is_cluster(a) => {
                set.insert(key, value);
            }
            Some(_) if key == "project" && value == "" && is_cluster(b) => {}
            Some(present) => {
                let (x, y) = (printed(present), printed(&value));
                return Err(GenerateError::failed(format!(
                    "found duplicate key {key} with different value, a: {x} ,b: {y}"
                )));
            }
            None => {
                set.insert(key, value);
            }
        }
    }
    Ok(set)
}

/// Whether a set names a cluster. Deviation (ASET-75): that a cluster has no project contradicts nobody.
fn is_cluster(set: &Params) -> bool {
    set.contains_key("server") && set.contains_key("nameNormalized")
}

pub(super) fn merge(
    run: &mut Run<'_>,
    generator: Generator<'_>,
    level: Level,
) -> Result<Vec<Params>, GenerateError> {
    let keys: Vec<&str> = merge_keys(generator.block);
    let (entries, level) = generator::children(generator, level);
    if entries.len() < 2 {
        return Err(GenerateError::failed("found less than two generators, Merge requires two or more"));
    }
    if keys.is_empty() {
        return Err(GenerateError::failed("no merge keys were specified, Merge requires at least one"));
    }
    let mut is_pending = false;
    let mut children = Vec::with_capacity(entries.len());
    for entry in entries {
        match run.child(entry, level) {
            Err(GenerateError::Pending) => is_pending = true,
            sets => children.push(sets?),
        }
    }
    if is_pending {
        return Err(GenerateError::Pending);
    }
    let mut children = children.into_iter();
    let mut base = children.next().unwrap_or_default();
    let places: BTreeMap<String, usize> = unique(&base, &keys)?.into_iter().collect();
    for sets in children {
        let found = unique(&sets, &keys)?;
        for (set, (key, _)) in sets.iter().zip(found) {
            let Some(into) = places.get(&key).and_then(|at| base.get_mut(*at)) else { continue };
            if run.language.is_go() {
                merge_over(into, set);
            } else {
                into.extend(set.iter().map(|(key, value)| (key.clone(), value.clone())));
            }
        }
    }
    let mut sets = Vec::with_capacity(base.len());
    for set in base {
        run.made(set, &mut sets)?;
    }
    Ok(sets)
}

fn merge_keys(block: &Map<String, Value>) -> Vec<&str> {
    let mut keys: Vec<&str> = block
        .get("mergeKeys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// The key of each set with its place; two equal ones are an error (ASET-81).
fn unique(sets: &[Params], keys: &[&str]) -> Result<Vec<(String, usize)>, GenerateError> {
    let mut seen = std::collections::BTreeSet::new();
    let mut all = Vec::with_capacity(sets.len());
    for (at, set) in sets.iter().enumerate() {
        let values =
            keys.iter().map(|key| ((*key).to_owned(), set.get(*key).cloned().unwrap_or(Value::Null)));
        let key = json::to_string_go(&Value::Object(values.collect()));
        if !seen.insert(key.clone()) {
            return Err(GenerateError::failed(format!(
                "the parameters from a generator were not unique by the given mergeKeys, Merge requires all param sets \
                 to be unique. Duplicate key was {key}"
            )));
        }
        all.push((key, at));
    }
    Ok(all)
}
