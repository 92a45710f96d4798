//! Plugins over real sockets: the server of this program, and doubles that misbehave.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "helpers of tests count as no tests")]

mod answers;
mod doubles;
mod misbehaving;
mod served;
mod support;
