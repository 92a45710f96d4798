//! What every document goes through before it is compared (ENG-57..63).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tiphys_object::{Gvk, builtin};

use super::DiffOptions;

/// All of it, for target and live.
pub(super) fn prepare(value: Value, options: &DiffOptions<'_>) -> Value {
    let gvk = Gvk::of(&value);
    without_encoding(encode(value, &gvk), &gvk, options)
}

/// Typed canonicalisation (ENG-57).
pub(super) fn encode(value: Value, gvk: &Gvk) -> Value {
    builtin::canonicalize(value, gvk).0
}

/// Everything but the typed canonicalisation; this much the last-applied document gets too (ENG-63).
pub(super) fn without_encoding(mut value: Value, gvk: &Gvk, options: &DiffOptions<'_>) -> Value {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Secret") => fold_string_data(&mut value),
        ("", "Endpoints") => sort_endpoints(&mut value),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            normalize_rules(&mut value, options.settings.ignore_aggregated_roles);
        }
        _ => {}
    }
    options.ignore.apply(&mut value);
    value
}

/// Moves `stringData` into `data`, where its entries win, and turns null values of `data` into empty texts
/// (ENG-60).
pub(crate) fn fold_string_data(secret: &mut Value) {
    let Some(object) = secret.as_object_mut() else { return };
    if let Some(Value::Object(texts)) = object.remove_entry("stringData").map(|(_, value)| value)
        && !texts.is_empty()
    {
        let data = object.entry("data").or_insert(Value::Null);
        if data.is_null() {
            *data = Value::Object(Map::new());
        }
        if let Value::Object(data) = data {
            for (key, value) in texts {
                let value = match value {
                    Value::String(text) => Value::String(STANDARD.encode(text)),
                    other => other,
                };
                data.insert(key, value);
            }
        }
    }
    if let Some(Value::Object(data)) = object.get_mut("data") {
        for value in data.values_mut().filter(|value| value.is_null()) {
            *value = Value::String(String::new());
        }
    }
}

/// `rules: []` means null; aggregated roles lose their rules where the settings say so (ENG-61).
fn normalize_rules(role: &mut Value, ignore_aggregated: bool) {
    let is_aggregated = role.get("aggregationRule").is_some_and(Value::is_object);
    let Some(object) = role.as_object_mut() else { return };
    if ignore_aggregated && is_aggregated {
        object.insert("rules".to_owned(), Value::Null);
    } else if let Some(rules) = object.get_mut("rules")
        && rules.as_array().is_some_and(Vec::is_empty)
    {
        *rules = Value::Null;
    }
}

/// Ports without a protocol are TCP; subsets, addresses and ports have no order (ENG-62).
fn sort_endpoints(endpoints: &mut Value) {
    let Some(subsets) = endpoints.get_mut("subsets").and_then(Value::as_array_mut) else { return };
    for subset in subsets.iter_mut() {
        for member in ["addresses", "notReadyAddresses", "ports"] {
            let Some(items) = subset.get_mut(member).and_then(Value::as_array_mut) else { continue };
            if member == "ports" {
                for port in items.iter_mut().filter_map(Value::as_object_mut) {
                    port.entry("protocol").or_insert_with(|| Value::from("TCP"));
                }
            }
            items.sort_by_cached_key(Value::to_string);
        }
    }
    subsets.sort_by_cached_key(Value::to_string);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::DiffSettings;
    use crate::normalize::IgnoreRules;
    use serde_json::json;

    fn prepared(value: Value, ignore_aggregated_roles: bool) -> Value {
        let ignore = IgnoreRules::default();
        let options = DiffOptions {
            ignore: &ignore,
            settings: DiffSettings { ignore_aggregated_roles, ..DiffSettings::default() },
        };
        prepare(value, &options)
    }

    #[test]
    fn eng_59_the_creation_time_is_removed() {
        let object =
            prepared(json!({"kind": "X", "metadata": {"name": "a", "creationTimestamp": null}}), false);
        assert_eq!(object["metadata"], json!({"name": "a"}));
    }

    #[test]
    fn eng_60_string_data_moves_to_data_and_wins() {
        let secret = prepared(
            json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"a": "x"}, "data": {"a": "b2xk", "b": null, "c": "Yw=="}}),
            false,
        );
        assert_eq!(secret["data"], json!({"a": "eA==", "b": "", "c": "Yw=="}));
        assert!(secret.get("stringData").is_none());
        let mut odd = json!({"stringData": {"a": 1}, "data": null});
        fold_string_data(&mut odd);
        assert_eq!(odd, json!({"data": {"a": 1}}));
    }

    #[test]
    fn eng_61_empty_rules_are_null() {
        let role = |rules: Value| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "rules": rules});
        assert_eq!(prepared(role(json!([])), false)["rules"], Value::Null);
        let mut aggregated = role(json!([{"verbs": ["get"]}]));
        aggregated["aggregationRule"] = json!({"clusterRoleSelectors": []});
        assert_eq!(prepared(aggregated.clone(), true)["rules"], Value::Null);
        assert_ne!(prepared(aggregated.clone(), false)["rules"], Value::Null);
        aggregated["aggregationRule"] = json!("malformed");
        assert_ne!(prepared(aggregated, true)["rules"], Value::Null);
    }

    #[test]
    fn eng_62_endpoints_have_no_order() {
        let endpoints = |subsets: Value| {
            prepared(json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": subsets}), false)
        };
        let a = endpoints(
            json!([{"addresses": [{"ip": "2"}, {"ip": "1"}], "ports": [{"port": 2}, {"port": 1, "protocol": "TCP"}]}, {"addresses": []}]),
        );
        let b = endpoints(
            json!([{"addresses": []}, {"addresses": [{"ip": "1"}, {"ip": "2"}], "ports": [{"port": 1}, {"port": 2}]}]),
        );
        assert!(crate::diff::is_equal(&a, &b), "{a} {b}");
    }
}
