//! The calls from outside, against an API server in the process.

#![expect(clippy::unwrap_used, reason = "helpers of tests count as no tests")]

mod push;
