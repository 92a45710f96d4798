//! Objects as Go clients send them, beside the JSON that Go prints of them (`hack/builtin-types`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};
use tiphys_object::Gvk;
use tiphys_object::builtin::{ProtobufError, decode_protobuf};

const ROWS: &str = include_str!("../../testdata/protobuf.jsonl");

fn rows() -> impl Iterator<Item = (Vec<u8>, Value)> {
    ROWS.lines().map(|line| {
        let row: Value = serde_json::from_str(line).unwrap();
        (STANDARD.decode(row["protobuf"].as_str().unwrap()).unwrap(), row["json"].clone())
    })
}

#[test]
fn eng_57_protobuf_is_read_as_go_reads_it() {
    assert!(rows().count() > 100);
    for (bytes, wanted) in rows() {
        let found = decode_protobuf(&bytes, None).unwrap_or_else(|error| panic!("{error}: {wanted}"));
        assert_eq!(found, wanted);
    }
}

/// The bytes of an object around a message.
fn envelope(version: &str, kind: &str, message: &[u8]) -> Vec<u8> {
    let names = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
    [b"k8s\0".as_slice(), &field(1, &names), &field(2, message)].concat()
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    bytes.extend(content);
    bytes
}

#[test]
fn eng_57_fields_of_protobuf_may_be_unknown_packed_or_doubled() {
    let pod = |message: &[u8]| {
        decode_protobuf(&envelope("v1", "Pod", message), None).map(|pod| pod["spec"].clone())
    };
    let security =
        |inner: &[u8]| pod(&field(2, &field(14, inner))).map(|spec| spec["securityContext"].clone());
    assert_eq!(security(&[0x22, 4, 3, 0xac, 2, 7]), Ok(json!({"supplementalGroups": [3, 300, 7]})));
    assert_eq!(security(&[0x20, 3, 0x20, 4]), Ok(json!({"supplementalGroups": [3, 4]})));
    // Number, eight bytes, a group with a group inside, four bytes: no member has these fields.
    let unknown = [
        0xf8, 7, 1, 0xf9, 7, 1, 2, 3, 4, 5, 6, 7, 8, 0xfb, 7, 0xfb, 7, 0x08, 1, 0xfc, 7, 0xfc, 7, 0xfd, 7, 1,
        2, 3, 4,
    ];
    assert_eq!(security(&[&unknown, [0x20, 3].as_slice()].concat()), Ok(json!({"supplementalGroups": [3]})));
    let twice = [
        field(2, &field(14, &[0x10, 1, 0x20, 5])),
        field(2, &field(14, &[0x10, 2])),
        field(2, &field(10, b"n")),
    ]
    .concat();
    let merged = json!({"containers": null, "nodeName": "n", "securityContext": {"runAsUser": 2, "supplementalGroups": [5]}});
    assert_eq!(pod(&twice), Ok(merged));
}

#[test]
fn eng_57_an_envelope_without_names_has_those_that_are_expected() {
    let expected = Gvk::new("policy", "v1", "Eviction");
    let message = field(1, &field(1, b"p"));
    let object = decode_protobuf(&envelope("", "", &message), Some(&expected)).unwrap();
    assert_eq!(object, json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}));
    let kind = |kind: &str, version: &str| ProtobufError::Kind {
        kind: kind.to_owned(),
        version: version.to_owned(),
    };
    assert_eq!(decode_protobuf(&envelope("", "", &message), None), Err(kind("", "")));
    assert_eq!(
        decode_protobuf(&envelope("example.com/v1", "Pod", &message), None),
        Err(kind("Pod", "example.com/v1"))
    );
}

#[test]
fn eng_57_hostile_protobuf_is_refused() {
    let refused = |bytes: &[u8]| decode_protobuf(bytes, None).unwrap_err();
    assert_eq!(refused(b""), ProtobufError::Prefix);
    assert_eq!(refused(b"{}"), ProtobufError::Prefix);
    let message = |message: &[u8]| refused(&envelope("v1", "ConfigMap", message));
    assert_eq!(message(&[0x0a, 5]), ProtobufError::Truncated);
    assert_eq!(
        message(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]),
        ProtobufError::Truncated
    );
    assert_eq!(
        message(&[0x78, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ProtobufError::Overflow
    );
    assert_eq!(message(&[0x02, 0]), ProtobufError::Tag);
    assert_eq!(message(&[0x7c]), ProtobufError::Tag);
    assert_eq!(message(&[0x7b, 0x7b]), ProtobufError::Truncated);
    assert_eq!(message(&[0x08, 1]), ProtobufError::WireType);
    assert_eq!(refused(&envelope("v1", "Pod", &field(2, &[0x12, 0].repeat(1_000_000)))), ProtobufError::Size);

    let mut nested = envelope("v1", "List", &[]);
    for _ in 0..100 {
        nested = envelope("v1", "List", &field(2, &field(1, &nested)));
    }
    assert_eq!(refused(&nested), ProtobufError::Depth);
}

#[test]
fn eng_57_cut_protobuf_does_no_harm() {
    for (bytes, _) in rows().step_by(9) {
        for end in 0..bytes.len() {
            drop(decode_protobuf(&bytes[..end], None));
        }
    }
}

proptest! {
    #[test]
    fn eng_57_damaged_protobuf_does_no_harm(row in 0_usize..170, damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8)) {
        let (mut bytes, _) = rows().nth(row).unwrap();
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        drop(decode_protobuf(&bytes, None));
    }
}
