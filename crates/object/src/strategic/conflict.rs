//! Whether two patches change the same thing in different ways.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::list::{Elements, elements, keyed, printed, sorted, without_repeats};
use super::meta::Meta;
use super::{DIRECTIVE, RETAIN_KEYS, StrategicError};
use crate::builtin::Patch;

/// Whether two patches of one object conflict.
pub(super) fn members_conflict(
    left: &Map<String, Value>,
    right: &Map<String, Value>,
    meta: Meta,
) -> Result<bool, StrategicError> {
    if left.get(DIRECTIVE) != right.get(DIRECTIVE) {
        return Ok(true);
    }
    for (name, own) in left {
        let Some(other) = right.get(name) else { continue };
        if name == DIRECTIVE || name == RETAIN_KEYS {
            continue;
        }
        let (inner, how) = match own {
            Value::Array(_) => meta.list(name)?,
            Value::Object(_) => meta.object(name)?,
            _ => (meta, Patch::default()),
        };
        if values_conflict(own, other, inner, how)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn values_conflict(left: &Value, right: &Value, meta: Meta, how: Patch) -> Result<bool, StrategicError> {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            if how.replace && left.get(DIRECTIVE) == right.get(DIRECTIVE) {
                return Ok(false);
            }
            members_conflict(left, right, meta)
        }
        (Value::Array(left), Value::Array(right)) => lists_conflict(left, right, meta, how),
        (left, right) => Ok(left != right),
    }
}

fn lists_conflict(left: &[Value], right: &[Value], meta: Meta, how: Patch) -> Result<bool, StrategicError> {
    let holds_objects = match elements(how.merge_key, left, right)? {
        None => return Ok(true),
        Some(found) => found == Elements::Objects,
    };
    if how.merge {
        return if holds_objects {
            keyed_lists_conflict(left, right, meta, how.merge_key)
        } else {
            Ok(false)
        };
    }
    if left.len() != right.len() {
        return Ok(true);
    }
    if !holds_objects {
        let (left, right) = (without_repeats(left), without_repeats(right));
        let (left, right) = (sorted(&left, "")?, sorted(&right, "")?);
        return Ok(left != right);
    }
    for (left, right) in left.iter().zip(right) {
        if values_conflict(left, right, meta, Patch::default())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn keyed_lists_conflict(
    left: &[Value],
    right: &[Value],
    meta: Meta,
    merge_key: &str,
) -> Result<bool, StrategicError> {
    let by_key = |items: &'_ [Value]| -> Result<BTreeMap<String, Map<String, Value>>, StrategicError> {
        let named = items.iter().map(|item| keyed(item, merge_key));
        named.map(|found| found.map(|(members, key)| (printed(key).into_owned(), members.clone()))).collect()
    };
    let right = by_key(right)?;
    for (name, own) in by_key(left)? {
        if let Some(other) = right.get(&name)
            && members_conflict(&own, other, meta)?
        {
            return Ok(true);
        }
    }
    Ok(false)
}
