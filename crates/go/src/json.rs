//! JSON as Go's libraries read and write it.
//!
//! Follows `encoding/json` of Go 1.26 and apimachinery's `util/json` 0.36, which differ in numbers only:
//! the first makes every number a 64-bit float, the second keeps integers that fit. The reader is ours
//! because Go is lenient where `serde_json` refuses (lone surrogates and bytes that are not UTF-8 become
//! U+FFFD) and because the spelling of a number matters on its way to YAML.
//!
//! Golden rows: `number.jsonl`.

mod print;
mod read;

pub(crate) use print::{escape_text, number_json, write_go_text};
pub use print::{print_go, to_string_go, to_string_unescaped};
pub use read::{JsonError, decode_go, decode_kubernetes, decode_kubernetes_within};
pub(crate) use read::{decode_go_first, decode_go_within, decode_with};
use serde_json::Value;

/// One document read the two ways Go programs read it, in JSON and in `%v` spelling.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NumberViews {
    /// As `encoding/json` decodes and encodes it.
    pub json: String,
    /// As `encoding/json` decodes and `%v` prints it.
    pub printed: String,
    /// As Kubernetes decodes and encodes it.
    pub kubernetes_json: String,
    /// As Kubernetes decodes and `%v` prints it.
    pub kubernetes_printed: String,
}

/// Shows how the numbers of a JSON document look after Go programs read them (EVAL-765).
pub fn number_views(text: &[u8]) -> Result<NumberViews, JsonError> {
    let plain: Value = decode_go(text)?;
    let kubernetes: Value = decode_kubernetes(text)?;
    Ok(NumberViews {
        json: to_string_go(&plain),
        printed: print_go(&plain),
        kubernetes_json: to_string_go(&kubernetes),
        kubernetes_printed: print_go(&kubernetes),
    })
}
