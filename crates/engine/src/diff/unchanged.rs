//! The fast answer: nothing would change.
//!
//! Almost every pair of a refresh is unchanged, and proving that needs no patch: when live holds everything the
//! desired object says, and nothing that was said before is left unsaid now, the patch is empty. The proof is
//! one-sided: `false` here means "work it out".

use std::collections::HashSet;

use serde_json::{Map, Value};
use tiphys_object::builtin::{Patch, Schema, Shape, StructType};
use tiphys_object::{Gvk, access};

use super::equal::is_equal;
use super::{DiffOptions, last_applied, prepare};

/// How the members of a value are merged.
#[derive(Clone, Copy)]
enum Merge {
    /// Maps by member, lists by position: types without patch metadata (ENG-79).
    ByPosition,
    /// A struct of a built-in type.
    Struct(&'static StructType),
    /// Another shape inside a built-in type.
    Shape(Shape),
}

/// Whether the patch is certainly empty.
pub(super) fn is_unchanged(target: &Value, live: &Value, gvk: &Gvk, options: &DiffOptions<'_>) -> bool {
    let (Some(target), Some(live_object)) = (target.as_object(), live.as_object()) else { return false };
    let merge = Schema::of(gvk).map_or(Merge::ByPosition, Merge::Struct);
    if !holds_object(live_object, target, merge, true) {
        return false;
    }
    match last_applied(live) {
        None => true,
        Some(orig) => {
            let orig = prepare::without_encoding(orig, gvk, options);
            orig.as_object().is_some_and(|orig| is_said(target, orig, true))
        }
    }
}

/// Whether live holds everything the desired map says. At the root, `metadata.namespace` and empty annotations
/// say nothing (ENG-75).
fn holds_object(
    live: &Map<String, Value>,
    desired: &Map<String, Value>,
    merge: Merge,
    is_root: bool,
) -> bool {
    desired.iter().all(|(key, desired)| {
        let Some(live) = live.get(key) else { return false };
        if is_root && key == "metadata" {
            holds_metadata(live, desired, merge)
        } else {
            holds_member(live, desired, key, merge)
        }
    })
}

fn holds_metadata(live: &Value, desired: &Value, merge: Merge) -> bool {
    let (Some(live), Some(desired)) = (live.as_object(), desired.as_object()) else { return false };
    let merge = match merge {
        Merge::Struct(known) => match known.field("metadata").and_then(|field| field.shape.struct_type()) {
            Some(metadata) => Merge::Struct(metadata),
            None => return false,
        },
        Merge::ByPosition | Merge::Shape(_) => merge,
    };
    desired.iter().all(|(key, value)| {
        let is_unsaid = key == "namespace"
            || (key == "annotations" && (value.is_null() || value.as_object().is_some_and(Map::is_empty)));
        is_unsaid || live.get(key).is_some_and(|live| holds_member(live, value, key, merge))
    })
}

fn holds_member(live: &Value, desired: &Value, key: &str, merge: Merge) -> bool {
    match merge {
        // A member the type does not know is worked out by the patch, unless it is the same.
        Merge::Struct(known) => known.field(key).map_or_else(
            || is_equal(live, desired),
            |field| holds(live, desired, Merge::Shape(field.shape), field.patch),
        ),
        // The values of a map all have one shape.
        Merge::Shape(shape) => {
            holds(live, desired, shape.element().map_or(merge, Merge::Shape), Patch::default())
        }
        Merge::ByPosition => holds(live, desired, merge, Patch::default()),
    }
}

fn holds(live: &Value, desired: &Value, merge: Merge, patch: Patch) -> bool {
    if patch.replace {
        return is_equal(live, desired);
    }
    match (live, desired) {
        (Value::Object(live), Value::Object(desired)) => {
            if patch.retain_keys && live.len() != desired.len() {
                return false;
            }
            holds_object(live, desired, inside(merge), false)
        }
        (Value::Array(live), Value::Array(desired)) => {
            if live.len() != desired.len() {
                return false;
            }
            let items = match merge {
                Merge::ByPosition => Merge::ByPosition,
                // Two ports with one number share a merge key; their order alone does not tell them apart.
                Merge::Shape(shape) if patch.merge && has_distinct_keys(desired, patch.merge_key) => {
                    shape.element().map_or(merge, Merge::Shape)
                }
                Merge::Shape(_) | Merge::Struct(_) => {
                    return live.iter().zip(desired).all(|(live, desired)| is_equal(live, desired));
                }
            };
            let patch = Patch { merge: false, replace: false, ..patch };
            live.iter().zip(desired).all(|(live, desired)| holds(live, desired, items, patch))
        }
        _ => is_equal(live, desired),
    }
}

fn inside(merge: Merge) -> Merge {
    match merge {
        Merge::Shape(shape) => shape.struct_type().map_or(merge, Merge::Struct),
        Merge::ByPosition | Merge::Struct(_) => merge,
    }
}

fn has_distinct_keys(items: &[Value], key: &str) -> bool {
    let mut known = HashSet::with_capacity(items.len());
    items.iter().all(|item| {
        let found = if key.is_empty() { Some(item) } else { item.get(key) };
        found.is_some_and(|found| known.insert(found))
    })
}

/// Whether everything `orig` said is still said: nothing is to be deleted.
fn is_said(desired: &Map<String, Value>, orig: &Map<String, Value>, is_root: bool) -> bool {
    orig.iter().all(|(key, orig)| match (desired.get(key), orig) {
        (Some(desired), Value::Object(_)) if is_root && key == "metadata" => {
            let mut orig = Value::Object(Map::from_iter([("metadata".to_owned(), orig.clone())]));
            super::strip_unsaid(&mut orig);
            let orig = access::at(&orig, &["metadata"]).and_then(Value::as_object);
            match (desired.as_object(), orig) {
                (Some(desired), Some(orig)) => is_said(desired, orig, false),
                _ => false,
            }
        }
        (Some(desired), orig) => is_value_said(desired, orig),
        (None, Value::Null) => true,
        (None, _) => false,
    })
}

fn is_value_said(desired: &Value, orig: &Value) -> bool {
    match (desired, orig) {
        (Value::Object(desired), Value::Object(orig)) => is_said(desired, orig, false),
        (Value::Array(desired), Value::Array(orig)) => {
            desired.len() == orig.len()
                && desired.iter().zip(orig).all(|(desired, orig)| match (desired, orig) {
                    (Value::Object(_), Value::Object(_)) => {
                        is_equal(desired, orig)
                            || (same_identity(desired, orig) && is_value_said(desired, orig))
                    }
                    _ => is_equal(desired, orig),
                })
        }
        (Value::Object(_) | Value::Array(_), _) | (_, Value::Object(_) | Value::Array(_)) => false,
        _ => true,
    }
}

/// Whether two items have the same member of every kind that identifies items of merged lists.
fn same_identity(a: &Value, b: &Value) -> bool {
    ["name", "containerPort", "mountPath", "devicePath", "port", "ip", "topologyKey", "type", "uid"]
        .iter()
        .all(|key| a.get(key) == b.get(key))
}
