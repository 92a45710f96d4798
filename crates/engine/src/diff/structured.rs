//! Predicting what a server-side apply makes of the live object (ENG-85, ENG-86).
//!
//! The apply is simulated with the schema of the built-in types and the books in live's `managedFields`.
//!
//! Deviation: Argo CD fails the comparison of kinds for which the cluster publishes no schema, and of objects
//! with a member that its own schema does not know, such as a status field of a newer cluster. Here both are
//! merged by a deduced schema: maps member by member, lists as one value.
//!
//! Deviation: claim templates are one value in the schema, and the server fills them, so that Argo CD never finds
//! a `StatefulSet` with claims in sync. Here what the server filled in is no difference (ENG-84), as in the
//! three-way diff (ENG-78).

use serde_json::Value;
use tiphys_api::names::{FIELD_MANAGER, LAST_APPLIED};
use tiphys_object::{Gvk, access, structured};

use super::equal::is_equal;
use super::three_way::{DiffError, as_served, without_claim_defaults};

/// The normalised live object and what it would become. Both arguments went through
/// [`prepare`](super::prepare::prepare).
pub(super) fn predict(config: &Value, live: Value) -> Result<(Value, Value), DiffError> {
    let gvk = Gvk::of(config);
    let (live, predicted) = simulate(config, live, &gvk)?;
    let live = served(live, &gvk);
    let predicted = predicted.map_or_else(|| live.clone(), |predicted| served(predicted, &gvk));
    Ok((live, predicted))
}

/// Whether the two documents of [`predict`] differ.
pub(super) fn is_modified(config: &Value, live: Value) -> Result<bool, DiffError> {
    let gvk = Gvk::of(config);
    let (live, predicted) = simulate(config, live, &gvk)?;
    Ok(predicted.is_some_and(|predicted| !is_equal(&served(live, &gvk), &served(predicted, &gvk))))
}

/// The live object as it is compared, and what an apply makes of it, if it changes anything.
fn simulate(config: &Value, live: Value, gvk: &Gvk) -> Result<(Value, Option<Value>), DiffError> {
    let live = without_claim_defaults(live, config, gvk);
    let predicted = structured::predict(&live, config, FIELD_MANAGER)
        .map_err(|source| DiffError::Apply { gvk: Box::new(gvk.clone()), source })?;
    Ok((live, predicted))
}

fn served(mut value: Value, gvk: &Gvk) -> Value {
    access::remove_annotation(&mut value, LAST_APPLIED);
    as_served(value, gvk)
}
