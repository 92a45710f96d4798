//! Values that several tests begin with.

use serde_json::{Value, json};
use tiphys_api::Application;

/// An application with an operation and a state of one.
pub(crate) fn operated(operation: &Value, state: &Value) -> Application {
    serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": {"destination": {}},
        "operation": operation, "status": {"operationState": state}}))
    .unwrap()
}
