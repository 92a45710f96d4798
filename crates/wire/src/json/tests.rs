use serde_json::{Value, json};

use super::*;
use crate::proto::Secrets;
use crate::schema::schema;

fn read_text(name: &str, text: &str) -> Result<Value, String> {
    read(schema(), schema().find(name).unwrap(), text.as_bytes()).map_err(|error| error.to_string())
}

fn written(name: &str, value: &Value) -> String {
    let mut out = Vec::new();
    write(schema(), schema().find(name).unwrap(), value, Secrets::Kept, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn api_p7_keys_are_matched_in_any_case_and_unknown_ones_ignored() {
    let request = "session.SessionCreateRequest";
    assert_eq!(
        read_text(request, r#"{"UserName": "a", "PASSWORD": "b", "foo": [1], "token": null}"#).unwrap(),
        json!({"username": "a", "password": "b"})
    );
    assert_eq!(
        read_text(request, r#"{"Username": "wrong", "username": "right"}"#).unwrap(),
        json!({"username": "right"}),
        "the exact one is preferred"
    );
    assert_eq!(read_text(request, "").unwrap(), json!({}), "no body is an empty message (API-P20)");
    assert_eq!(read_text(request, " null").unwrap(), json!({}));
    for (text, error) in [
        ("{", "invalid JSON at line 1 column 1"),
        (r#"{"username": 5}"#, "username: expected a text"),
        ("[]", "expected an object"),
        ("\"x\"", "expected an object"),
    ] {
        assert_eq!(read_text(request, text).unwrap_err(), error);
    }
    let secret = read_text(request, r#"{"password": "hunter2", x}"#).unwrap_err();
    assert!(!secret.contains("hunter2"), "{secret}");
}

#[test]
fn api_p7_numbers_are_numbers_and_bytes_base64() {
    let token = "account.CreateTokenRequest";
    assert_eq!(
        read_text(token, r#"{"expiresIn": 9007199254740993}"#).unwrap()["expiresIn"],
        9_007_199_254_740_993_i64
    );
    for wrong in ["\"5\"", "1.5", "1.0", "9223372036854775808", "true"] {
        let error = read_text(token, &format!(r#"{{"expiresIn": {wrong}}}"#)).unwrap_err();
        assert_eq!(error, "expiresIn: expected a whole number", "{wrong}");
    }
    let index =
        |text: &str| read_text("repository.RepoAppDetailsQuery", &format!(r#"{{"sourceIndex": {text}}}"#));
    assert!(index("2147483647").is_ok());
    assert!(index("2147483648").is_err(), "32 bits");
    let tls = |text: &str| read_text("v1.TLSClientConfig", &format!(r#"{{"caData": "{text}"}}"#));
    assert_eq!(tls("aGk=").unwrap(), json!({"caData": "aGk="}));
    assert_eq!(tls("aGk").unwrap_err(), "caData: expected a text of base64");
    let labels = r#"{"metadata": {"labels": {"a": null}}}"#;
    assert_eq!(read_text("v1.AppProject", labels).unwrap()["metadata"]["labels"], json!({"a": ""}));
}

#[test]
fn api_p8_messages_of_services_show_what_is_set() {
    assert_eq!(written("session.SessionResponse", &json!({"token": ""})), "{}");
    assert_eq!(written("project.EmptyResponse", &Value::Null), "{}");
    let entry = json!({"content": "hi", "last": false, "timeStampStr": "t", "podName": "p", "extra": 1});
    assert_eq!(
        written("application.LogEntry", &entry),
        r#"{"content":"hi","timeStamp":null,"last":false,"timeStampStr":"t","podName":"p"}"#
    );
    assert_eq!(written("application.ApplicationSyncWindowsResponse", &json!({})), r#"{"canSync":false}"#);
    assert_eq!(written("account.AccountsList", &json!({"items": []})), "{}");
    assert_eq!(written("v1.RepositoryList", &json!({})), r#"{"metadata":{},"items":null}"#);
    assert_eq!(written("v1.RepositoryList", &json!({"items": []})), r#"{"metadata":{},"items":[]}"#);
    assert_eq!(
        written("version.VersionMessage", &json!({"Version": "v3.0.0", "GoVersion": ""})),
        r#"{"Version":"v3.0.0"}"#
    );
}

#[test]
fn api_p9_objects_show_their_nested_objects() {
    assert_eq!(
        written("v1.Application", &json!({"metadata": {"name": "web"}, "spec": {"project": "p"}})),
        concat!(
            r#"{"metadata":{"name":"web"},"spec":{"destination":{},"project":"p"},"#,
            r#""status":{"sync":{"status":"","comparedTo":{"source":{"repoURL":""},"destination":{}}},"health":{},"#,
            r#""summary":{},"sourceHydrator":{}}}"#
        )
    );
    assert_eq!(
        written("v1.ApplicationSource", &json!({"repoURL": "u", "directory": {"jsonnet": {"libs": []}}})),
        r#"{"repoURL":"u","directory":{}}"#
    );
    assert_eq!(written("v1.ConnectionState", &json!({})), r#"{"status":"","message":"","attemptedAt":null}"#);
    assert_eq!(written("v1.HydrateOperation", &json!({})).find(r#""startedAt":null"#), Some(1));
    assert_eq!(written("v1.SyncPolicyAutomated", &json!({"prune": false})), r#"{"prune":false}"#);
    assert_eq!(
        written("v1.ListGenerator", &json!({"elements": []}))
            .find(r#"{"elements":[],"template":{"metadata":{},"#),
        Some(0)
    );
}

#[test]
fn api_p10_shapes_of_their_own() {
    assert_eq!(
        written("v1.ApplicationSourcePluginParameter", &json!({"map": {}, "array": []})),
        r#"{"name":"","map":{},"array":[]}"#
    );
    assert_eq!(
        written("v1.ApplicationSourcePluginParameter", &json!({"name": "p", "string": ""})),
        r#"{"name":"p","string":""}"#
    );
    let empty = r"jqPathExpressions: null\njsonPointers: null\nmanagedFieldsManagers: null\n";
    assert_eq!(
        written("v1.ResourceOverride", &json!({"health.lua": "x", "health.lua.useOpenLibs": true})),
        format!(
            r#"{{"health.lua":"x","ignoreDifferences":"{empty}","health.lua.useOpenLibs":true,"ignoreResourceUpdates":"{empty}"}}"#
        )
    );
    assert_eq!(written("v1.KustomizeReplica", &json!({})), r#"{"name":"","count":0}"#);
    assert_eq!(
        written("v1.KustomizeOptions", &json!({})),
        r#"{"BuildOptions":"","BinaryPath":"","Versions":null}"#
    );
    let helm = json!({"valuesObject": {"b": [1, {"c": null}]}});
    assert_eq!(written("v1.ApplicationSourceHelm", &helm), r#"{"valuesObject":{"b":[1,{"c":null}]}}"#);
    assert_eq!(
        read_text("v1.KustomizeReplica", r#"{"count": true}"#).unwrap_err(),
        "count: expected a whole number or a text"
    );
}

#[test]
fn values_that_do_not_fit_are_refused_with_their_place() {
    let write_error = |name: &str, value: Value| {
        write(schema(), schema().find(name).unwrap(), &value, Secrets::Kept, &mut Vec::new())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        write_error("v1.ApplicationTree", json!({"nodes": [{"name": 5}]})),
        "nodes.0.name: expected a text"
    );
    assert_eq!(write_error("v1.ApplicationTree", json!({"nodes": {"a": 1}})), "nodes: expected a list");
}
