//! Requests as types.

use futures::stream::BoxStream;
use serde::de::DeserializeOwned;
use serde_json::Value;

use tiphys_wire::status::Code;

use crate::call::{Requests, Status};

/// The one message of a call that takes one.
pub(super) fn one(method: &str, requests: Requests) -> Result<Value, Status> {
    match requests {
        Requests::One(value) => Ok(value),
        Requests::Stream(_) => Err(super::unimplemented(method)),
    }
}

/// The messages of a call that takes as many as come.
pub(super) fn several(
    method: &str,
    requests: Requests,
) -> Result<BoxStream<'static, Result<Value, Status>>, Status> {
    match requests {
        Requests::Stream(stream) => Ok(stream),
        Requests::One(_) => Err(super::unimplemented(method)),
    }
}

/// A field was set that the call does nothing with.
pub(super) fn unused(field: &str) -> Status {
    Status::new(Code::InvalidArgument, format!("`{field}` is not implemented for this call; leave it out"))
}

/// A message as a type. The tables have brought it into its form, so that only its use can be wrong.
pub(super) fn read<T: DeserializeOwned>(request: Value) -> Result<T, Status> {
    serde_json::from_value(request)
        .map_err(|error| Status::invalid(format!("request cannot be read: {error}")))
}
