//! Rows that Go's protobuf library has read and written (`hack/oracle/wire --write`).

use serde_json::Value;
use tiphys_wire::proto::{Limits, Secrets, decode, encode};
use tiphys_wire::schema;

const ROWS: &str = include_str!("../../testdata/messages.jsonl");

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|letter| letter.to_digit(16)).collect();
    let byte =
        |pair: &[u32]| pair.iter().fold(0, |byte, digit| byte * 16 + u8::try_from(*digit).unwrap_or(0));
    digits.chunks(2).map(byte).collect()
}

#[test]
fn api_p2_messages_have_the_bytes_of_the_original_library() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for row in ROWS.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let (name, hex) = (row["message"].as_str().unwrap(), row["hex"].as_str().unwrap());
        let id = schema().find(name).unwrap();
        let read = decode(schema(), id, &bytes(hex), Limits::default());
        if read.as_ref() != Ok(&row["value"]) {
            wrong.push(format!("{name}: read {read:?} instead of {}", row["value"]));
        }
        let written = encode(schema(), id, &row["value"], Secrets::Kept);
        if written.as_ref() != Ok(&bytes(hex)) {
            wrong.push(format!("{name}: wrote {written:?} instead of {hex}"));
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 150, "{count} rows");
}
