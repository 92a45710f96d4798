//! Merging maps as dario.cat/mergo does.
//!
//! What is empty in the target (zero, false, an empty text, list or map) counts as unset. Maps of the source that
//! the target lacks are put in as they are, not copied: a later change of the one is seen in the other.

use crate::template::error::Failure;
use crate::template::functions::Call;
use crate::template::limits::Exceeded;
use crate::template::value::{DEPTH_MAX, List, Map, Value};

/// Whether members of the source take the place of those that the target has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overwrite {
    Never,
    Always,
}

/// Merges a source into a target.
pub(super) fn merge(
    call: &mut Call<'_, '_>,
    target: &Map,
    source: &Map,
    overwrite: Overwrite,
) -> Result<(), Failure> {
    merge_at(call, target, source, overwrite == Overwrite::Always, 0)
}

fn merge_at(
    call: &mut Call<'_, '_>,
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
) -> Result<(), Failure> {
    if depth > DEPTH_MAX {
        return Err(Exceeded::Depth(DEPTH_MAX).into());
    }
    // Members are looked up and put in, 150 ns each.
    call.spend(source.len().saturating_mul(4) + 1)?;
    for (key, new) in source.members() {
        let old = target.get(key.as_bytes());
        if new.is_nil() {
            if overwrite {
                call.set_member(target, key, Value::Nil)?;
            }
            continue;
        }
        if let (Value::Map(inner), Some(Value::Map(old))) = (&new, &old) {
            if !old.is_nil() {
                merge_at(call, old, inner, overwrite, depth + 1)?;
            }
        } else if let Value::List(list) = &new {
            let placed = match &old {
                _ if overwrite || target.is_empty() => new.clone(),
                Some(old) if !old.is_nil() => old.clone(),
                _ => Value::List(List::typed(list.list_type(), Vec::new())),
            };
            call.set_member(target, key.clone(), placed)?;
        }
        let kept = old.as_ref().is_some_and(|old| !is_unset(old));
        if kept {
            let lists = matches!(new, Value::List(_) | Value::Bytes(_));
            let maps = matches!((&new, &old), (Value::Map(_), Some(Value::Map(_))));
            if lists || maps {
                continue;
            }
        }
        let pointer =
            matches!(&new, Value::Object(object) if object.kind() == crate::template::value::Kind::Pointer);
        if (overwrite && !pointer) || !kept {
            call.set_member(target, key, new)?;
        }
    }
    Ok(())
}

/// Whether a value counts as not there. Structs never do.
fn is_unset(value: &Value) -> bool {
    !matches!(value, Value::Object(_)) && !value.is_true()
}
