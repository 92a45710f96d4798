//! `ConfigMap`s and Secrets.

use serde_json::{Value, json};

use super::{immutable, names};
use crate::status::FieldError;
use crate::tree;

/// Bytes of all values together.
const MOST_DATA: usize = 1024 * 1024;

/// Errors of a `ConfigMap`.
pub(super) fn config_map(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(old) = old.filter(|old| tree::flag(old, &["immutable"])) {
        frozen(old, object, &["data", "binaryData"], &mut errors);
    }
    let (data, binary) = (tree::members(object, &["data"]), tree::members(object, &["binaryData"]));
    let mut size = 0;
    for (key, value) in data.into_iter().flatten() {
        errors.extend(keys("data", key));
        if binary.is_some_and(|binary| binary.contains_key(key)) {
            let message = format!("duplicate of key present in {}", "binaryData");
            errors.push(FieldError::invalid(format!("data[{key}]"), &json!(key), &message));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in binary.into_iter().flatten() {
        errors.extend(keys("binaryData", key));
        size += value.as_str().map_or(0, str::len) / 4 * 3;
    }
    if size > MOST_DATA {
        errors.push(super::too_long("[]", MOST_DATA));
    }
    errors
}

/// Errors of a Secret.
pub(super) fn secret(object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(old) = old {
        if object.get("type") != old.get("type") {
            errors.push(immutable("type", object.get("type").unwrap_or(&Value::Null)));
        }
        if tree::flag(old, &["immutable"]) {
            frozen(old, object, &["data"], &mut errors);
        }
    }
    let data = tree::members(object, &["data"]);
    let mut size = 0;
    for (key, value) in data.into_iter().flatten() {
        errors.extend(keys("data", key));
        size += value.as_str().map_or(0, str::len) / 4 * 3;
    }
    if size > MOST_DATA {
        errors.push(super::too_long("data", MOST_DATA));
    }
    errors.extend(secret_type(object));
    errors
}

/// What may not change once `immutable` is true, that included.
fn frozen(old: &Value, object: &Value, members: &[&str], errors: &mut Vec<FieldError>) {
    let problem = "field is immutable when `immutable` is set";
    if !tree::flag(object, &["immutable"]) {
        errors.push(FieldError::forbidden("immutable", problem));
    }
    for name in members {
        if old.get(*name) != object.get(*name) {
            errors.push(FieldError::forbidden(*name, problem));
        }
    }
}

fn keys(member: &str, key: &str) -> Vec<FieldError> {
    let problems = names::config_key(key);
    problems.iter().map(|one| FieldError::invalid(format!("{member}[{key}]"), &json!(key), one)).collect()
}

/// Keys that a type of Secret must have.
fn secret_type(object: &Value) -> Vec<FieldError> {
    let has = |key: &str| tree::at(object, &["data", key]).is_some();
    let missing = |keys: &[&str]| {
        let keys = keys.iter().filter(|key| !has(key));
        keys.map(|key| FieldError::required(format!("data[{key}]"), "")).collect()
    };
    match tree::text(object, &["type"]) {
        "kubernetes.io/service-account-token" => {
            let path = ["metadata", "annotations", "kubernetes.io/service-account.name"];
            if tree::text(object, &path).is_empty() {
                let field = "metadata.annotations[kubernetes.io/service-account.name]";
                return vec![FieldError::required(field, "")];
            }
            Vec::new()
        }
        "kubernetes.io/dockercfg" => json_member(object, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => json_member(object, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            missing(&["username", "password"])
        }
        "kubernetes.io/ssh-auth" => missing(&["ssh-privatekey"]),
        "kubernetes.io/tls" => missing(&["tls.crt", "tls.key"]),
        _ => Vec::new(),
    }
}

fn json_member(object: &Value, key: &str) -> Vec<FieldError> {
    use base64::Engine;
    let field = format!("data[{key}]");
    let Some(text) = tree::at(object, &["data", key]).and_then(Value::as_str) else {
        return vec![FieldError::required(field, "")];
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    let why = match serde_json::from_slice::<Value>(&bytes) {
        Ok(Value::Object(_) | Value::Null) => return Vec::new(),
        Ok(_) => "json: cannot unmarshal value into Go value of type map[string]interface {}".to_owned(),
        Err(_) => match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
            None | Some(b'{') => "unexpected end of JSON input".to_owned(),
            Some(byte) => format!("invalid character '{}' looking for beginning of value", char::from(*byte)),
        },
    };
    vec![FieldError {
        reason: "FieldValueInvalid",
        field,
        message: format!("Invalid value: \"<secret contents redacted>\": {why}"),
    }]
}
