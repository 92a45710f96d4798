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

use tiphys_go::nesting::DEPTH_MAX;

use crate::Gvk;
use crate::builtin::{Schema, StructType};
use diff::Diff;
use merge::Merge;
use meta::Meta;

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const STRICT: Options = Options { unknown_fields: UnknownFields::Fail, conflicts: Conflicts::Overwrite };

    fn gvk(api_version: &str, kind: &str) -> Gvk {
        Gvk::from_api_version(api_version, kind)
    }

    fn predicted(gvk: &Gvk, original: &Value, modified: &Value, current: &Value) -> Value {
        let patch = three_way(gvk, original, modified, current, Options::default()).unwrap();
        apply(gvk, current.clone(), &patch, Options::default()).unwrap()
    }

    #[test]
    fn eng_77_server_additions_stay_and_dropped_items_go() {
        let original = json!({"metadata": {"labels": {"x": "1", "z": "3"}},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
        let modified = json!({"metadata": {"labels": {"x": "1"}, "finalizers": ["f/1"]},
            "spec": {"containers": [{"name": "a"}, {"name": "c"}]}});
        let current = json!({"metadata": {"labels": {"x": "1", "y": "2", "z": "3"}, "finalizers": ["f/2"]},
            "spec": {"containers": [{"name": "a"}, {"name": "side"}, {"name": "b"}]}});
        let wanted = json!({"metadata": {"labels": {"x": "1", "y": "2"}, "finalizers": ["f/1", "f/2"]},
            "spec": {"containers": [{"name": "a"}, {"name": "side"}, {"name": "c"}]}});
        assert_eq!(predicted(&gvk("v1", "Pod"), &original, &modified, &current), wanted);
    }

    #[test]
    fn eng_82_unknown_lists_and_maps_merge_like_json() {
        let gvk = gvk("v1", "Pod");
        let document = |list: Value| json!({"spec": {"future": {"list": list, "same": {}}}});
        let (before, after) = (document(json!([1])), document(json!([2])));
        let patch = create_two_way(&gvk, &before, &after, Options::default()).unwrap();
        assert_eq!(patch, json!({"spec": {"future": {"list": [2]}}}));
        let refused = create_two_way(&gvk, &before, &after, STRICT);
        let field = "future".to_owned();
        assert_eq!(refused, Err(StrategicError::UnknownField { type_name: "core/v1.PodSpec", field }));
    }

    #[test]
    fn eng_207_retain_keys_drop_what_the_target_does_not_name() {
        let volume = |source: &str| json!({"spec": {"volumes": [{"name": "v", source: {}}]}});
        let (empty_dir, secret) = (volume("emptyDir"), volume("secret"));
        assert_eq!(predicted(&gvk("v1", "Pod"), &json!({}), &secret, &empty_dir), secret);
        let strategy = |value: Value| json!({"spec": {"strategy": value}});
        let rolling = strategy(json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}));
        let recreate = strategy(json!({"type": "Recreate"}));
        assert_eq!(predicted(&gvk("apps/v1", "Deployment"), &json!({}), &recreate, &rolling), recreate);
    }

    #[test]
    fn eng_207_the_selector_of_a_disruption_budget_is_replaced() {
        let budget = |labels: Value| json!({"spec": {"selector": {"matchLabels": labels}}});
        let (live, target) = (budget(json!({"a": "1", "b": "2"})), budget(json!({"a": "1"})));
        assert_eq!(predicted(&gvk("policy/v1", "PodDisruptionBudget"), &json!({}), &target, &live), target);
    }

    #[test]
    fn eng_208_lists_without_a_key_are_replaced() {
        let pod = |tolerations: Value| json!({"spec": {"tolerations": tolerations}});
        let (live, target) = (pod(json!([{"key": "a"}, {"key": "b"}])), pod(json!([{"key": "b"}])));
        assert_eq!(predicted(&gvk("v1", "Pod"), &json!({}), &target, &live), target);
    }

    #[test]
    fn eng_76_directives_do_not_stay_below_members_that_live_lacks() {
        let pod = |source: &str| json!({"spec": {"volumes": [{"name": "v", source: {}}]}});
        let (original, modified) = (pod("configMap"), pod("emptyDir"));
        let found = predicted(&gvk("v1", "Pod"), &original, &modified, &json!({"spec": {}}));
        assert_eq!(found, modified);
    }

    #[test]
    fn eng_76_other_kinds_have_no_strategic_patch() {
        let gvk = gvk("example.com/v1", "Widget");
        let refused = three_way(&gvk, &json!({}), &json!({}), &json!({}), Options::default());
        assert_eq!(refused, Err(StrategicError::NotBuiltin(gvk)));
    }

    #[test]
    fn eng_76_nesting_has_a_limit() {
        let deep = (0..1000).fold(json!({}), |inner, _| json!({"a": inner}));
        let refused = three_way(&gvk("v1", "Pod"), &json!({}), &deep, &json!({}), Options::default());
        assert_eq!(refused, Err(StrategicError::TooDeep));
    }
}
