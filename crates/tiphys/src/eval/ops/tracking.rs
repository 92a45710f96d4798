//! `tracking.*`: which application owns an object.

use crate::eval::fault::Fault;
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Shape, default, required};
use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use std::fmt::Write as _;

/// The rows of this area.
pub(super) const ROWS: &[Operation] = &[Operation {
    name: "tracking.hash",
    summary: "The digest a hash method writes for a text.",
    stability: Stability::Stable,
    spec: &["TRK-50", "TRK-51", "TRK-52"],
    input: &[required("text", Shape::Text), default("algorithm", Shape::Text, "\"sha1\"")],
    result: &[required("digest", Shape::Text)],
    example: (r#"{"text":"billing"}"#, r#"{"digest":"244c7f56694e858ed6cdb408e24c3ed5c14670c7"}"#),
    run: hash,
}];

fn hash(input: Input) -> Result<Value, Fault> {
    if input.text("algorithm") != "sha1" {
        return Err(Fault::invalid(format!("unknown algorithm {:?}", input.text("algorithm"))));
    }
    let mut digest = String::new();
    for byte in Sha1::digest(input.text("text")) {
        write!(digest, "{byte:02x}").ok();
    }
    Ok(json!({"digest": digest}))
}
