use serde_json::{Value, json};

use super::*;
use crate::schema::schema;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
}

fn unhex(text: &str) -> Vec<u8> {
    text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

fn encoded(name: &str, value: &Value) -> String {
    hex(&encode(schema(), schema().find(name).unwrap(), value, Secrets::Kept).unwrap())
}

fn decoded(name: &str, bytes: &str) -> Result<Value, String> {
    let id = schema().find(name).unwrap();
    decode(schema(), id, &unhex(bytes), Limits::default()).map_err(|error| error.to_string())
}

/// The vectors at the end of the wire reference.
#[test]
fn api_p2_hand_checked_vectors() {
    let vectors = [
        ("session.SessionResponse", json!({"token": "abc"}), "0a 03 61 62 63"),
        (
            "account.CanIRequest",
            json!({"resource": "applications", "action": "sync", "subresource": "default/web"}),
            "0a 0c 61 70 70 6c 69 63 61 74 69 6f 6e 73 12 04 73 79 6e 63 1a 0b 64 65 66 61 75 6c 74 2f 77 65 62",
        ),
        (
            "application.LogEntry",
            json!({"content": "hi", "timeStamp": "1970-01-01T00:00:01Z", "last": false, "timeStampStr": "t",
                "podName": ""}),
            "0a 02 68 69 12 04 08 01 10 00 18 00 22 01 74 2a 00",
        ),
    ];
    for (name, value, bytes) in vectors {
        assert_eq!(encoded(name, &value), bytes, "{name}");
        assert_eq!(decoded(name, bytes).unwrap(), value, "{name}");
    }
}

#[test]
fn api_p2_required_fields_are_written_whatever_they_hold() {
    assert_eq!(encoded("application.LogEntry", &json!({})), "0a 00 12 00 18 00 22 00 2a 00");
    assert_eq!(encoded("application.ApplicationSyncWindowsResponse", &json!({})), "18 00");
    assert_eq!(encoded("notification.Trigger", &Value::Null), "0a 00");
    assert_eq!(encoded("application.ApplicationResourceResponse", &json!({"manifest": null})), "0a 00");
}

#[test]
fn api_p8_zeros_are_written_where_the_style_says_so() {
    assert_eq!(encoded("session.SessionResponse", &json!({"token": ""})), "", "proto3");
    assert_eq!(encoded("application.ApplicationQuery", &json!({"name": ""})), "0a 00", "set and empty");
    assert_eq!(encoded("application.ApplicationQuery", &json!({})), "", "not set");
    assert_eq!(encoded("v1.ApplicationDestination", &json!({})), "0a 00 12 00 1a 00", "an object");
    assert_eq!(encoded("v1.SyncPolicyAutomated", &json!({"prune": false})), "08 00");
    assert_eq!(
        encoded("meta.OwnerReference", &json!({"controller": false})),
        "0a 00 1a 00 22 00 2a 00 30 00"
    );
}

#[test]
fn api_p5_times() {
    let tree = |time: Value| json!({"createdAt": time});
    let empty = encoded("v1.ResourceNode", &json!({}));
    assert!(!empty.contains("42"), "unset: {empty}");
    assert!(
        encoded("v1.ResourceNode", &tree(json!("0001-01-01T00:00:00Z"))).ends_with("42 00"),
        "zero is empty"
    );
    let at = encoded("v1.ResourceNode", &tree(json!("1970-01-01T00:00:02.9Z")));
    assert!(at.ends_with("42 04 08 02 10 00"), "{at}");
    assert_eq!(decoded("v1.ResourceNode", "42 00").unwrap(), json!({}));
    assert_eq!(
        decoded("v1.ResourceNode", "42 04 08 02 10 07").unwrap(),
        json!({"createdAt": "1970-01-01T00:00:02Z"})
    );
    let series = json!({"count": 1, "lastObservedTime": "1970-01-01T00:00:02.000005Z"});
    assert_eq!(encoded("events.EventSeries", &series), "08 01 12 05 08 02 10 88 27");
    assert_eq!(decoded("events.EventSeries", "08 01 12 05 08 02 10 88 27").unwrap(), series);
    let far = decoded("v1.ResourceNode", "42 0a 08 ff ff ff ff ff ff ff ff 7f").unwrap_err();
    assert_eq!(far, "Time.: time out of range");
}

#[test]
fn api_p10_shapes_of_their_own() {
    let replica = json!({"name": "web", "count": 3});
    assert_eq!(encoded("v1.KustomizeReplica", &replica), "0a 03 77 65 62 12 06 08 00 10 03 1a 00");
    assert_eq!(decoded("v1.KustomizeReplica", "0a 03 77 65 62 12 06 08 00 10 03 1a 00").unwrap(), replica);
    let percent = json!({"maxUpdate": "20%"});
    assert_eq!(encoded("v1.ApplicationSetRolloutStep", &percent), "12 09 08 01 10 00 1a 03 32 30 25");
    assert_eq!(decoded("v1.ApplicationSetRolloutStep", "12 09 08 01 10 00 1a 03 32 30 25").unwrap(), percent);
    let generator = json!({"elements": [{"a": 1}, "x"]});
    let bytes = encoded("v1.ListGenerator", &generator);
    assert!(bytes.starts_with("0a 09 0a 07 7b 22 61 22 3a 31 7d 0a 05 0a 03 22 78 22"), "{bytes}");
    assert_eq!(decoded("v1.ListGenerator", &bytes).unwrap()["elements"], generator["elements"]);
}

#[test]
fn api_p10_parameters_of_plugins_are_wrapped() {
    for value in [
        json!({"name": "p", "string": ""}),
        json!({"name": "p", "map": {}, "array": []}),
        json!({"name": "p", "map": {"a": "b"}}),
        json!({"name": "p", "array": ["a", ""]}),
    ] {
        let bytes = encoded("v1.ApplicationSourcePluginParameter", &value);
        assert_eq!(decoded("v1.ApplicationSourcePluginParameter", &bytes).unwrap(), value, "{bytes}");
    }
    assert_eq!(
        encoded("v1.ApplicationSourcePluginParameter", &json!({"name": "p", "map": {}, "array": []})),
        "0a 01 70 1a 00 22 00"
    );
}

#[test]
fn api_p10_overrides_have_their_rules_as_yaml() {
    let override_ = json!({"health.lua": "x", "ignoreDifferences": "jqPathExpressions: null\njsonPointers:\n- /a\nmanagedFieldsManagers: null\n",
        "ignoreResourceUpdates": "jqPathExpressions: null\njsonPointers: null\nmanagedFieldsManagers: null\n"});
    let bytes = encoded("v1.ResourceOverride", &override_);
    assert_eq!(bytes, "0a 01 78 12 04 0a 02 2f 61 1a 00 28 00 32 00");
    assert_eq!(decoded("v1.ResourceOverride", &bytes).unwrap(), override_);
}

#[test]
fn api_p9_inlined_messages_share_an_object() {
    let node = json!({"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "n", "name": "web",
        "uid": "u", "parentRefs": [{"kind": "X"}]});
    let bytes = encoded("v1.ResourceNode", &node);
    assert_eq!(decoded("v1.ResourceNode", &bytes).unwrap(), node);
    let selector = json!({"target": {"kind": "Deployment", "name": "a", "labelSelector": "l"}});
    assert_eq!(decoded("v1.KustomizePatch", &encoded("v1.KustomizePatch", &selector)).unwrap(), selector);
}

#[test]
fn api_p4_what_a_table_lacks_is_skipped() {
    let unknown = "98 06 05 a2 06 02 68 69 a9 06 01 02 03 04 05 06 07 08 ad 06 01 02 03 04 b3 06 08 01 b4 06";
    assert_eq!(decoded("session.SessionResponse", unknown).unwrap(), json!({}));
    let wrong = [
        ("0a", "SessionResponse: unexpected end"),
        ("0a 05 61", "SessionResponse: unexpected end"),
        ("0a ff ff ff ff ff ff ff ff ff 02", "SessionResponse: a number has more than 64 bits"),
        ("0a ff ff ff ff ff ff ff ff ff ff", "SessionResponse: a number has more than 64 bits"),
        ("00 01", "SessionResponse: illegal tag"),
        ("0e 01", "SessionResponse: illegal tag"),
        ("0c", "SessionResponse: illegal group"),
        ("b3 06", "SessionResponse: unexpected end"),
        ("b3 06 bc 06", "SessionResponse: illegal group"),
        ("08 01", "SessionResponse.token: wrong wire type"),
        ("0a 01 ff", "SessionResponse.token: invalid UTF-8"),
    ];
    for (bytes, error) in wrong {
        assert_eq!(decoded("session.SessionResponse", bytes).unwrap_err(), error, "{bytes}");
    }
}

#[test]
fn api_p4_what_stands_twice_is_merged() {
    assert_eq!(decoded("session.SessionResponse", "0a 01 61 0a 01 62").unwrap(), json!({"token": "b"}));
    // Two pieces of `id` are one message; two labels are one map, of one key the last value.
    assert_eq!(
        decoded("cluster.ClusterQuery", "1a 03 0a 01 61 1a 03 12 01 62").unwrap(),
        json!({"id": {"type": "a", "value": "b"}})
    );
    assert_eq!(
        decoded("meta.LabelSelector", "0a 06 0a 01 61 12 01 31 0a 06 0a 01 61 12 01 32 0a 03 0a 01 62")
            .unwrap(),
        json!({"matchLabels": {"a": "2", "b": ""}})
    );
    let packed = decoded("application.ApplicationSyncRequest", "72 03 01 80 01 70 05").unwrap();
    assert_eq!(packed, json!({"sourcePositions": [1, 128, 5]}), "packed and not");
    let wrapper = "application.ApplicationManifestQueryWithFilesWrapper";
    assert_eq!(
        decoded(wrapper, "0a 03 0a 01 61 12 03 0a 01 62").unwrap(),
        json!({"chunk": {"chunk": "Yg=="}})
    );
    assert_eq!(decoded(wrapper, "12 03 0a 01 62 0a 03 0a 01 61").unwrap(), json!({"query": {"name": "a"}}));
    assert_eq!(
        decoded(wrapper, "0a 03 0a 01 61 12 00 0a 03 12 01 63").unwrap(),
        json!({"query": {"checksum": "c"}})
    );
}

#[test]
fn sec_07_two_bytes_do_not_become_a_value_without_end() {
    let many = "0a 00 ".repeat(100_000);
    let id = schema().find("v1.ApplicationTree").unwrap();
    let limits = Limits { values: 100_000 };
    assert_eq!(decode(schema(), id, &unhex(&many), limits), Err(DecodeError::TooMany));
    assert!(decoded("v1.ApplicationTree", &many).is_ok());
    let json = format!("[{}1]", "[],".repeat(1_000));
    let mut bytes = Vec::new();
    writer::bytes(&mut bytes, 1, json.as_bytes());
    let raw = schema().find("apiext.JSON").unwrap();
    assert_eq!(decode(schema(), raw, &bytes, Limits { values: 500 }), Err(DecodeError::TooMany));
    assert!(decode(schema(), raw, &bytes, Limits { values: 5_000 }).is_ok());
    let deep = "[".repeat(100_000);
    bytes.clear();
    writer::bytes(&mut bytes, 1, deep.as_bytes());
    assert!(
        decode(schema(), raw, &bytes, Limits::default()).unwrap_err().to_string().contains("invalid JSON")
    );
}

#[test]
fn api_172_an_answer_has_no_credentials_whatever_it_was_given() {
    let repository = json!({"repo": "https://git/r", "username": "u", "password": "hunter2", "bearerToken": "hunter2",
        "sshPrivateKey": "hunter2", "githubAppPrivateKey": "hunter2", "gcpServiceAccountKey": "hunter2",
        "tlsClientCertKey": "hunter2", "tlsClientCertData": "hunter2", "azureServicePrincipalClientSecret": "hunter2"});
    let cluster = json!({"server": "s", "config": {"password": "hunter2", "bearerToken": "hunter2",
        "tlsClientConfig": {"keyData": "aHVudGVyMg=="}, "execProviderConfig": {"env": {"a": "hunter2"}}}});
    for (name, value) in
        [("v1.Repository", &repository), ("v1.RepoCreds", &repository), ("v1.Cluster", &cluster)]
    {
        let id = schema().find(name).unwrap();
        let holds = |secrets| {
            let bytes = encode(schema(), id, value, secrets).unwrap();
            let mut text = Vec::new();
            crate::json::write(schema(), id, value, secrets, &mut text).unwrap();
            [bytes, text].map(|bytes| bytes.windows(7).any(|window| window == b"hunter2"))
        };
        assert_eq!(holds(Secrets::Kept), [true, true], "{name}");
        assert_eq!(holds(Secrets::Dropped), [false, false], "{name}");
    }
}

#[test]
fn values_that_do_not_fit_are_refused_with_their_place() {
    let id = schema().find("v1.Application").unwrap();
    let error = |value: Value| encode(schema(), id, &value, Secrets::Kept).unwrap_err().to_string();
    assert_eq!(error(json!([])), "expected an object");
    assert_eq!(
        error(json!({"spec": {"sources": [{}, {"helm": {"parameters": [{"name": 1}]}}]}})),
        "spec.sources.1.helm.parameters.0.name: expected a text"
    );
    assert_eq!(error(json!({"metadata": {"labels": {"a": 1}}})), "metadata.labels.a: expected a text");
    assert_eq!(
        error(json!({"metadata": {"creationTimestamp": "yesterday"}})),
        "metadata.creationTimestamp: expected a time like 2026-01-02T03:04:05Z"
    );
}
