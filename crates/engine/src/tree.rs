//! Records of the resource tree: what one object says about itself (ENG section 10).

use serde_json::Value;

/// Images of containers and init containers, distinct, in order of appearance (ENG-199).
pub fn images(object: &Value) -> Vec<String> {
    let _ = object;
    Vec::new()
}
