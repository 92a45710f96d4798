//! Would applying the desired object change the live one?
//!
//! [`diff`] answers for one pair, as ENG-54 says: by structured merge where the pair is applied server-side,
//! three-way where the live object records what was last applied, else two-way. Its result is two documents, the normalised live object and what it would become; the pair is
//! modified when they differ ([`DiffResult::paths`] says where). [`is_modified`] is the same question without
//! the documents: it stops at the first sign that nothing would change, which is what almost every pair of a
//! refresh is.
//!
//! Trees are taken by value and handed on (DEP-61). Where the API server made the prediction, [`diff_predicted`]
//! compares it (ENG-88); rounds do not ask for one, the API does (API-145).

mod equal;
mod prepare;
mod server_side;
mod structured;
mod three_way;
mod unchanged;

use serde_json::Value;
use tiphys_api::names::{LAST_APPLIED, annotation};
use tiphys_object::{Gvk, access};

use crate::normalize::{CompareOptions, IgnoreError, IgnoreRules};

pub use equal::{is_equal, paths};
pub(crate) use prepare::fold_string_data;
pub use server_side::{NoRecord, diff_predicted};
pub use three_way::DiffError;

/// Settings of comparisons, system-wide and of one application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DiffSettings {
    /// Whether rules of aggregated roles are left to the cluster (ENG-61).
    pub ignore_aggregated_roles: bool,
    /// Whether the application applies server-side.
    pub server_side_apply: bool,
}

impl DiffSettings {
    /// Reads `resource.compareoptions`.
    pub fn from_settings(settings: &std::collections::BTreeMap<String, String>) -> Result<Self, IgnoreError> {
        let options = CompareOptions::from_settings(settings)?;
        Ok(Self { ignore_aggregated_roles: options.ignore_aggregated_roles, ..Self::default() })
    }

    /// These settings for an application with these sync options.
    #[must_use]
    pub fn for_application(self, sync_options: &[String]) -> Self {
        let server_side_apply = sync_options.iter().any(|option| option.trim() == "ServerSideApply=true");
        Self { server_side_apply, ..self }
    }

    /// Whether a pair is compared by structured merge: exactly when it would be applied server-side (ENG-54
    /// rule 2, ENG-87).
    fn is_structured(self, target: &Value) -> bool {
        let says = |option: &str| access::has_annotation_item(target, annotation::SYNC_OPTIONS, option);
        (self.server_side_apply || says("ServerSideApply=true")) && !says("ServerSideApply=false")
    }
}

/// How one pair is compared.
#[derive(Clone, Copy, Debug)]
pub struct DiffOptions<'a> {
    /// Differences that do not count.
    pub ignore: &'a IgnoreRules,
    /// Settings of the comparison.
    pub settings: DiffSettings,
}

/// Two documents whose difference is the answer (ENG-56).
#[derive(Clone, Debug, PartialEq)]
pub struct DiffResult {
    /// Whether an apply would change the live object.
    pub modified: bool,
    /// The live object as compared; null when there is none.
    pub normalized_live: Value,
    /// What the live object would become; null when nothing is desired.
    pub predicted_live: Value,
}

impl DiffResult {
    /// Where the documents differ: sorted JSON pointers of the deepest differences (EVAL-601). Empty when
    /// nothing is modified.
    pub fn paths(&self) -> Vec<String> {
        if self.modified { paths(&self.normalized_live, &self.predicted_live) } else { Vec::new() }
    }
}

/// Compares one pair; see the module text.
pub fn diff(
    target: Option<&Value>,
    live: Option<&Value>,
    options: &DiffOptions<'_>,
) -> Result<DiffResult, DiffError> {
    diff_owned(target.cloned(), live.cloned(), options)
}

/// [`diff`] of trees that the caller gives away.
pub fn diff_owned(
    target: Option<Value>,
    live: Option<Value>,
    options: &DiffOptions<'_>,
) -> Result<DiffResult, DiffError> {
    let (mut target, mut live) = (target, live);
    let is_structured = target.as_ref().is_some_and(|target| options.settings.is_structured(target));
    if let (Some(target), Some(live)) = (&mut target, &mut live) {
        options.ignore.remove_managed(target, live);
    }
    let target = target.map(|value| prepare::prepare(value, options));
    let live = live.map(|value| prepare::prepare(value, options));
    let (target, live) = match (target, live) {
        (None, live) => {
            let normalized_live = live.unwrap_or(Value::Null);
            return Ok(DiffResult { modified: false, normalized_live, predicted_live: Value::Null });
        }
        (Some(predicted_live), None) => {
            return Ok(DiffResult { modified: true, normalized_live: Value::Null, predicted_live });
        }
        (Some(target), Some(live)) => (target, live),
    };
    let (normalized_live, predicted_live) = if is_structured {
        structured::predict(&target, live)?
    } else {
        three_way::predict(target, live, options)?
    };
    let modified = !is_equal(&normalized_live, &predicted_live);
    Ok(DiffResult { modified, normalized_live, predicted_live })
}

/// Whether [`diff_owned`] would say modified. Both objects exist.
pub fn is_modified(mut target: Value, mut live: Value, options: &DiffOptions<'_>) -> Result<bool, DiffError> {
    let gvk = Gvk::of(&target);
    let is_structured = options.settings.is_structured(&target);
    options.ignore.remove_managed(&mut target, &mut live);
    if is_structured {
        return structured::is_modified(&prepare::prepare(target, options), prepare::prepare(live, options));
    }
    let target = prepare::without_encoding(target, &gvk, options);
    let live = prepare::without_encoding(live, &gvk, options);
    if unchanged::is_unchanged(&target, &live, &gvk, options) {
        return Ok(false);
    }
    let target = prepare::encode(target, &gvk);
    let live = prepare::encode(live, &gvk);
    let (normalized_live, predicted_live) = three_way::predict(target, live, options)?;
    Ok(!is_equal(&normalized_live, &predicted_live))
}

/// What was last applied, when live records it readably (ENG-54 rule 3).
fn last_applied(live: &Value) -> Option<Value> {
    let text = access::annotation(live, LAST_APPLIED)?;
    serde_json::from_str::<Value>(text).ok().filter(Value::is_object)
}

/// Removes what `orig` and `config` never say about an object (ENG-75).
fn strip_unsaid(value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    metadata.remove("namespace");
    let is_empty = metadata
        .get("annotations")
        .is_some_and(|found| found.is_null() || found.as_object().is_some_and(serde_json::Map::is_empty));
    if is_empty {
        metadata.remove("annotations");
    }
}

#[cfg(test)]
mod tests;
