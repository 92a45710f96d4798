//! The face of the crate, held to what other implementations of protobuf say.
#![expect(clippy::unwrap_used, reason = "helpers of tests count as no tests")]

mod golden;
mod properties;
