//! Defaults of built-in kinds, as an API server fills them in on every write.

use serde_json::Value;
use tiphys_object::Gvk;

/// Fills in what was left out of an object of a built-in kind. Only what follows from the object itself: what
/// is assigned (addresses, names, uids) is the work of the strategy.
pub(crate) fn fill_in(gvk: &Gvk, object: &mut Value) {
    let _ = (gvk, object);
}
