//! Strategic merge patches of built-in types: lists are merged by key or as sets where the type says so.
//!
//! Follows `k8s.io/apimachinery/pkg/util/strategicpatch` 0.36.1; golden families `strategic-create`,
//! `strategic-apply` and `strategic-three-way`. Patch metadata comes from [`crate::builtin`]. A patch is a
//! tree with directives: `$patch`, `$retainKeys`, `$setElementOrder/<list>`, `$deleteFromPrimitiveList/<list>`.
//! Types outside the table have no strategic patches: use [`crate::merge_patch`].

mod conflict;
mod diff;
mod list;
mod merge;
mod meta;

use serde_json::{Map, Value};

use crate::Gvk;
use crate::builtin::{Schema, StructType};
use diff::Diff;
use merge::Merge;
use meta::Meta;

/// Deepest nesting of a document or patch.
const DEPTH_MAX: usize = 256;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList";

/// What to do with members the built-in type does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownFields {
    /// Merge them like JSON (ENG-82). Directives below members that the document lacks are carried out too,
    /// where the original would leave them in the document.
    #[default]
    Merge,
    /// Do as the original in everything: fail where merging needs patch metadata.
    Fail,
}

/// What to do when `current` was changed in a way that contradicts `modified`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflicts {
    /// `modified` wins.
    #[default]
    Overwrite,
    /// It is an error.
    Fail,
}

/// How patches are made and applied. The default is what comparison uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Members the type does not have.
    pub unknown_fields: UnknownFields,
    /// Conflicts of a three-way patch.
    pub conflicts: Conflicts,
}

/// Why a strategic merge patch could not be made or applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrategicError {
    /// The type is not part of the client scheme: use a JSON merge patch.
    #[error("no patch metadata for {0}")]
    NotBuiltin(Gvk),
    /// A document is neither an object nor null.
    #[error("a strategic merge patch needs JSON objects")]
    NotAnObject,
    /// A document is nested too deeply.
    #[error("the document is nested more than {DEPTH_MAX} levels deep")]
    TooDeep,
    /// The type does not have the field, or the field is not what the document makes of it.
    #[error("unable to find api field in struct {type_name} for the json field {field:?}")]
    UnknownField {
        /// Struct that was searched, empty for a map or scalar.
        type_name: &'static str,
        /// JSON name.
        field: String,
    },
    /// An item of a keyed list has no key.
    #[error("a list item does not contain declared merge key {0:?}")]
    NoMergeKey(String),
    /// A list mixes types, or holds lists or nulls where merging needs objects or scalars.
    #[error("elements of the merged list {0:?} are not of one mergeable type")]
    ListElements(String),
    /// A directive has a value it cannot have.
    #[error("invalid patch format of {0:?}")]
    Directive(String),
    /// Both sides changed the same field.
    #[error("the patch conflicts with changes made from original to current")]
    Conflict,
}

/// The patch that turns `original` into `modified`. Null stands for an empty document.
///
/// # Errors
/// When the type is not built in or the documents do not fit it.
pub fn create_two_way(
    gvk: &Gvk,
    original: &Value,
    modified: &Value,
    options: Options,
) -> Result<Value, StrategicError> {
    let root = root(gvk, options)?;
    let empty = Map::new();
    let diff = Diff::two_way();
    diff.members(members(original, &empty)?, members(modified, &empty)?, root).map(Value::Object)
}

/// `document` with the patch applied. Null stands for an empty document.
///
/// ```
/// # use serde_json::json;
/// # use tiphys_object::{Gvk, strategic};
/// let pod = json!({"spec": {"containers": [{"name": "a", "image": "i"}]}});
/// let patch = json!({"spec": {"containers": [{"name": "a", "image": "j"}]}});
/// let patched = strategic::apply(&Gvk::new("", "v1", "Pod"), pod, &patch, strategic::Options::default());
/// assert_eq!(patched.unwrap(), patch);
/// ```
///
/// # Errors
/// When the type is not built in, the patch is malformed or does not fit the document.
pub fn apply(gvk: &Gvk, document: Value, patch: &Value, options: Options) -> Result<Value, StrategicError> {
    let root = root(gvk, options)?;
    let empty = Map::new();
    let patch = members(patch, &empty)?.clone();
    members(&document, &empty)?;
    let document = match document {
        Value::Object(members) => members,
        _ => Map::new(),
    };
    Merge::Apply.members(document, patch, root).map(Value::Object)
}

/// The patch for `current`: add and change what is in `modified` and differs from `current`, delete what is
/// in `original` and not in `modified` (ENG-76). Null stands for an empty document.
///
/// # Errors
/// When the type is not built in, the documents do not fit it, or [`Conflicts::Fail`] finds one.
pub fn three_way(
    gvk: &Gvk,
    original: &Value,
    modified: &Value,
    current: &Value,
    options: Options,
) -> Result<Value, StrategicError> {
    let root = root(gvk, options)?;
    let empty = Map::new();
    let original = members(original, &empty)?;
    let modified = members(modified, &empty)?;
    let current = members(current, &empty)?;
    let delta = Diff::additions().members(current, modified, root)?;
    let deletions = Diff::deletions().members(original, modified, root)?;
    let patch = Merge::Combine.members(deletions, delta, root)?;
    if options.conflicts == Conflicts::Fail {
        let changed = Diff::changes().members(original, current, root)?;
        if conflict::members_conflict(&patch, &changed, root)? {
            return Err(StrategicError::Conflict);
        }
    }
    Ok(Value::Object(patch))
}

fn root(gvk: &Gvk, options: Options) -> Result<Meta, StrategicError> {
    let schema: &'static StructType =
        Schema::of(gvk).ok_or_else(|| StrategicError::NotBuiltin(gvk.clone()))?;
    Ok(Meta::of_struct(schema, options.unknown_fields))
}

fn members<'a>(
    document: &'a Value,
    empty: &'a Map<String, Value>,
) -> Result<&'a Map<String, Value>, StrategicError> {
    match document {
        Value::Null => Ok(empty),
        Value::Object(_) if is_deeper_than(document, DEPTH_MAX) => Err(StrategicError::TooDeep),
        Value::Object(members) => Ok(members),
        _ => Err(StrategicError::NotAnObject),
    }
}

fn is_deeper_than(value: &Value, levels: usize) -> bool {
    match value {
        Value::Object(members) => {
            levels == 0 || members.values().any(|member| is_deeper_than(member, levels - 1))
        }
        Value::Array(items) => levels == 0 || items.iter().any(|item| is_deeper_than(item, levels - 1)),
        _ => false,
    }
}
