//! Predicting what an apply makes of the live object (ENG-75..79).

use serde_json::Value;
use tiphys_object::strategic::{self, Options, StrategicError};
use tiphys_object::structured::StructuredError;
use tiphys_object::{Gvk, access, builtin, merge_patch};

use super::{DiffOptions, last_applied, prepare, strip_unsaid};
use crate::defaults;

/// Why two objects could not be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    /// One of the objects cannot be read.
    #[error("an object cannot be read")]
    Object(#[from] tiphys_object::ObjectError),
    /// The patch of a built-in type could not be made.
    #[error("the patch of {gvk} cannot be made")]
    Patch {
        /// Type of the object.
        gvk: Box<Gvk>,
        /// Why.
        #[source]
        source: StrategicError,
    },
    /// The apply could not be simulated.
    #[error("the apply of {gvk} cannot be simulated")]
    Apply {
        /// Type of the object.
        gvk: Box<Gvk>,
        /// Why.
        #[source]
        source: StructuredError,
    },
}

/// The normalised live object and what it would become. Both arguments went through [`prepare::prepare`].
pub(super) fn predict(
    mut config: Value,
    live: Value,
    options: &DiffOptions<'_>,
) -> Result<(Value, Value), DiffError> {
    let gvk = Gvk::of(&config);
    let orig = last_applied(&live).map(|orig| prepare::without_encoding(orig, &gvk, options));
    strip_unsaid(&mut config);
    if let Some(mut orig) = orig {
        strip_unsaid(&mut orig);
        match between(&gvk, &orig, &config, live.clone()) {
            Ok(documents) => return Ok(documents),
            Err(error) => tracing::debug!(%gvk, %error, "three-way diff failed, comparing two-way"),
        }
    }
    between(&gvk, &config, &config, live)
}

fn between(gvk: &Gvk, orig: &Value, config: &Value, live: Value) -> Result<(Value, Value), DiffError> {
    if !builtin::is_builtin(gvk) {
        let reduced = reduce(live.clone(), orig);
        let patch = merge_patch::three_way(orig, config, &reduced);
        let predicted = merge_patch::apply(live.clone(), &patch);
        return Ok((live, predicted));
    }
    let live = without_claim_defaults(live, orig, gvk);
    let fault = |source| DiffError::Patch { gvk: Box::new(gvk.clone()), source };
    let patch = strategic::three_way(gvk, orig, config, &live, Options::default()).map_err(fault)?;
    let predicted = strategic::apply(gvk, live.clone(), &patch, Options::default()).map_err(fault)?;
    Ok((as_served(live, gvk), as_served(predicted, gvk)))
}

/// Defaults and encoding, as the server would hold the object.
pub(super) fn as_served(mut value: Value, gvk: &Gvk) -> Value {
    defaults::apply(&mut value, gvk);
    prepare::encode(value, gvk)
}

/// `live` without the members that `orig` does not have: maps by member, lists by position (ENG-79).
fn reduce(live: Value, orig: &Value) -> Value {
    match (live, orig) {
        (Value::Object(live), Value::Object(orig)) => Value::Object(
            live.into_iter()
                .filter_map(|(key, value)| {
                    let value = reduce(value, orig.get(&key)?);
                    Some((key, value))
                })
                .collect(),
        ),
        (Value::Array(live), Value::Array(orig)) => Value::Array(
            live.into_iter()
                .enumerate()
                .map(|(index, item)| match orig.get(index) {
                    Some(orig) => reduce(item, orig),
                    None => item,
                })
                .collect(),
        ),
        (live, _) => live,
    }
}

/// Drops from each claim template of a live `StatefulSet` what `orig` does not say: the server fills claims inside
/// templates (ENG-78).
pub(super) fn without_claim_defaults(mut live: Value, orig: &Value, gvk: &Gvk) -> Value {
    if gvk.kind != "StatefulSet" {
        return live;
    }
    let templates = live.get_mut("spec").and_then(|spec| spec.get_mut("volumeClaimTemplates"));
    let (Some(templates), Some(orig)) = (templates, access::at(orig, &["spec", "volumeClaimTemplates"]))
    else {
        return live;
    };
    *templates = reduce(std::mem::take(templates), orig);
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn eng_79_live_is_reduced_to_what_was_said() {
        let live =
            json!({"a": 1, "m": {"x": 1, "y": 2}, "l": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "t": [1, 2]});
        let orig = json!({"m": {"x": 0}, "l": [{"x": 0}], "t": [9, 9, 9]});
        assert_eq!(
            reduce(live, &orig),
            json!({"m": {"x": 1}, "l": [{"x": 1}, {"x": 3, "y": 4}], "t": [1, 2]})
        );
    }

    #[test]
    fn eng_78_claim_templates_lose_server_defaults() {
        let live = json!({"spec": {"replicas": 1, "volumeClaimTemplates": [
            {"metadata": {"name": "data"}, "spec": {"volumeMode": "Filesystem", "resources": {}}, "status": {"phase": "Pending"}}]}});
        let orig = json!({"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"resources": {}}}]}});
        assert_eq!(
            without_claim_defaults(live, &orig, &Gvk::new("apps", "v1", "StatefulSet")),
            json!({"spec": {"replicas": 1, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"resources": {}}}]}})
        );
    }
}
