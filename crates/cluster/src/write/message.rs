//! Texts of results, as `kubectl` writes them (ENG-180).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::error::ApiError;
use crate::kinds::ApiResource;

/// What an apply did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The object did not exist and was created.
    Created,
    /// The object was changed.
    Configured,
    /// Nothing had to be done, and nothing was sent.
    Unchanged,
    /// The object was applied by the server; whether it changed is not said.
    ServerSideApplied,
    /// The object was replaced, or deleted and created again.
    Replaced,
    /// The object was updated in place, keeping its version (Namespaces and definitions with `Replace`).
    Updated,
}

/// The text of a success: `deployment.apps/web configured`, with warnings before it.
pub(super) fn success(resource: &ApiResource, name: &str, outcome: Outcome, warnings: &[String]) -> String {
    let mut singular = resource.gvk.kind.to_lowercase();
    if !resource.gvk.group.is_empty() {
        singular.push('.');
        singular.push_str(&resource.gvk.group);
    }
    let text = match outcome {
        Outcome::Created => format!("{singular}/{name} created"),
        Outcome::Configured => format!("{singular}/{name} configured"),
        Outcome::Unchanged => format!("{singular}/{name} unchanged"),
        Outcome::ServerSideApplied => format!("{singular}/{name} serverside-applied"),
        Outcome::Replaced => format!("{singular}/{name} replaced"),
        Outcome::Updated => format!("{}/{name} updated", resource.gvk.kind),
    };
    let mut parts: Vec<&str> = vec![&text];
    parts.extend(warnings.iter().map(String::as_str));
    parts.join(". ")
}

/// What API servers write before they quote the object: JSON readers before 1.23, server-side apply today.
const QUOTES_OBJECT: [&str; 2] = [", error found in #", ", got &value"];
/// Shorter values cannot be told from other words of a message.
const VALUE_BYTES_MIN: usize = 4;

/// The text of a failure about a Secret, without anything the Secret holds (SEC-37).
pub fn without_values(text: &str, secret: &Value) -> String {
    let mut text = text.to_owned();
    if let Some(end) = QUOTES_OBJECT.iter().filter_map(|quotes| text.find(quotes)).min() {
        text.truncate(end);
        text.push_str(" (the rest shows what is secret)");
    }
    let mut values = Vec::new();
    for part in ["data", "stringData"] {
        match &secret[part] {
            Value::Object(map) => map.values().for_each(|value| texts(value, &mut values)),
            other => texts(other, &mut values),
        }
    }
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    for value in values {
        if text.contains(value.as_str()) {
            text = text.replace(value.as_str(), "++++++++");
        }
    }
    text
}

/// All texts in a value, also decoded. Nested keys count: what is no valid Secret has them anywhere.
fn texts(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let decoded = BASE64.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            found.extend(decoded.into_iter().chain([text.clone()]).filter(|t| t.len() >= VALUE_BYTES_MIN));
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Object(map) => {
            for (key, value) in map {
                texts(&Value::String(key.clone()), found);
                texts(value, found);
            }
        }
        Value::Number(number) => {
            found.extend(Some(number.to_string()).filter(|text| text.len() >= VALUE_BYTES_MIN));
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// The text of a failure with a hint where we know one; the original text stays in front (ENG-180).
pub fn hinted(error: &ApiError, kind: &str) -> String {
    let text = error.to_string();
    if let ApiError::NotServed(gvk) = error {
        return format!(
            "{text}. Make sure the \"{}\" CRD is installed on the destination cluster.",
            gvk.kind
        );
    }
    if text.contains("the server could not find the requested resource") {
        return format!(
            "{text}. Make sure the \"{kind}\" CRD is installed on the destination cluster, and that the version is served."
        );
    }
    if text.contains("metadata.annotations: Too long") {
        return format!(
            "{text}. The last-applied annotation does not fit; use the sync option ServerSideApply=true or Replace=true."
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tiphys_object::Gvk;

    use super::*;
    use crate::error::Refusal;
    use crate::kinds::Scope;

    fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
        ApiResource {
            gvk: Gvk::new(group, "v1", kind),
            plural: plural.into(),
            scope: Scope::Namespaced,
            verbs: BTreeSet::new(),
        }
    }

    #[test]
    fn eng_180_messages_read_like_kubectl() {
        let service = resource("", "Service", "services");
        assert_eq!(success(&service, "web", Outcome::Configured, &[]), "service/web configured");
        let widget = resource("example.com", "Widget", "widgets");
        assert_eq!(success(&widget, "a", Outcome::Created, &[]), "widget.example.com/a created");
        let namespace = resource("", "Namespace", "namespaces");
        assert_eq!(success(&namespace, "n", Outcome::Updated, &[]), "Namespace/n updated");
        let warned = success(&service, "web", Outcome::Created, &["old version".to_owned()]);
        assert_eq!(warned, "service/web created. old version");
    }

    #[test]
    fn sec_37_errors_about_secrets_show_nothing_of_them() {
        let secret = serde_json::json!({"data": {"key": "aHVudGVyMg==", "bad": ["hunter3"]},
            "stringData": {"key": {"hunter4": 55_555}}});
        for (text, shown) in [
            (
                "illegal base64 data, error found in #10 byte of ...|hunter2|..., bigger context",
                "illegal base64 data",
            ),
            (
                ".stringData.key: expected string, got &value.v{map[hunter4:55555]}",
                ".stringData.key: expected string",
            ),
            ("bad hunter2, aHVudGVyMg==, hunter3, hunter4 and 55555", "bad ++++++++, ++++++++, ++++++++"),
            ("data.key is wrong", "data.key is wrong"),
        ] {
            let text = without_values(text, &secret);
            assert!(text.starts_with(shown), "{text}");
            assert!(!text.contains("hunter") && !text.contains("55555"), "{text}");
        }
    }

    #[test]
    fn eng_180_hints_follow_the_original_text() {
        let gvk = Gvk::new("example.com", "v1", "Widget");
        let text = hinted(&ApiError::NotServed(gvk), "Widget");
        assert!(
            text.ends_with("Make sure the \"Widget\" CRD is installed on the destination cluster."),
            "{text}"
        );
        let refusal = Refusal {
            code: 422,
            reason: "Invalid".to_owned(),
            message: "x is invalid: metadata.annotations: Too long: must have at most 262144 bytes"
                .to_owned(),
            retry_after: None,
        };
        assert!(hinted(&ApiError::Refused(Box::new(refusal)), "X").contains("ServerSideApply=true"));
    }
}
