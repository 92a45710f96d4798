//! Requests as types.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::call::{Requests, Status};

/// The one message of a call.
pub(super) fn one(requests: Requests) -> Result<Value, Status> {
    match requests {
        Requests::One(value) => Ok(value),
        Requests::Stream(_) => Err(Status::internal("a stream came where one message is taken")),
    }
}

/// A message as a type. The tables have brought it into its form, so that only its use can be wrong.
pub(super) fn read<T: DeserializeOwned>(request: Value) -> Result<T, Status> {
    serde_json::from_value(request)
        .map_err(|error| Status::invalid(format!("request cannot be read: {error}")))
}
