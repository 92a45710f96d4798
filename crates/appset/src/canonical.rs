//! One form for each spec: what means the same is equal (ASET-134).
//!
//! Fields that are empty, false or 0 are absent in Go's types, and so are blocks of such fields. Where presence itself
//! says something (`automated: {}`), it stays; maps of the user's own keep every key; free-form JSON stays whole.

use serde_json::{Map, Number, Value};

/// What stands under a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Treatment {
    /// Fields of ours: empty ones are absent.
    Fields,
    /// Keys of the user's: all of them count.
    Map,
    /// One value.
    Opaque,
}

fn treatment(key: &str) -> Treatment {
    match key {
        "valuesObject" => Treatment::Opaque,
        "labels" | "annotations" | "commonLabels" | "commonAnnotations" | "options" | "map" => Treatment::Map,
        _ => Treatment::Fields,
    }
}

/// Blocks that say something by being there.
const PRESENT: [&str; 9] = [
    "automated",
    "retry",
    "backoff",
    "managedNamespaceMetadata",
    "plugin",
    "source",
    "sourceHydrator",
    "hydrateTo",
    "valuesObject",
];

/// Scalars that are absent or not, whatever they say.
const OPTIONAL: [&str; 4] = ["enabled", "factor", "revisionHistoryLimit", "string"];

/// The form in which specs are compared and from which patches are made.
///
/// Nesting was bounded by whoever read the values.
pub(crate) fn spec(spec: &Map<String, Value>) -> Map<String, Value> {
    let mut canonical = fields(spec);
    let project = canonical.entry("project").or_insert_with(|| tiphys_api::project::DEFAULT_PROJECT.into());
    if project == "" {
        *project = tiphys_api::project::DEFAULT_PROJECT.into();
    }
    canonical
}

fn fields(members: &Map<String, Value>) -> Map<String, Value> {
    let mut kept = Map::new();
    for (key, member) in members {
        let value = match treatment(key) {
            Treatment::Fields => value(member),
            Treatment::Map | Treatment::Opaque => opaque(member),
        };
        if !is_absent(key, &value) {
            kept.insert(key.clone(), value);
        }
    }
    kept
}

fn value(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(fields(members)),
        Value::Array(items) => Value::Array(items.iter().map(self::value).collect()),
        other => opaque(other),
    }
}

/// Without nulls, which a merge patch cannot write; numbers in one spelling.
fn opaque(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let kept = members.iter().filter(|(_, member)| !member.is_null());
            Value::Object(kept.map(|(key, member)| (key.clone(), opaque(member))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(opaque).collect()),
        Value::Number(number) => Value::Number(whole(number)),
        other => other.clone(),
    }
}

/// 1.0 is 1 once it was stored.
fn whole(number: &Number) -> Number {
    let float = number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 1e15);
    let integer = float.and_then(|float| format!("{float:.0}").parse::<i64>().ok());
    integer.map_or_else(|| number.clone(), Number::from)
}

fn is_absent(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(true) => false,
        Value::Bool(false) => !OPTIONAL.contains(&key),
        Value::Number(number) => number.as_f64() == Some(0.0) && !OPTIONAL.contains(&key),
        Value::String(text) => text.is_empty() && !OPTIONAL.contains(&key),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty() && !PRESENT.contains(&key),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn same(a: Value, b: Value) -> bool {
        let read = |value: Value| spec(value.as_object().unwrap());
        read(a) == read(b)
    }

    #[test]
    fn aset_134_what_means_the_same_is_equal() {
        for (a, b) in [
            (json!({}), json!({"project": "default"})),
            (json!({"project": ""}), json!({"project": "default"})),
            (json!({"syncPolicy": {}}), json!({})),
            (json!({"syncPolicy": {"syncOptions": []}}), json!({})),
            (json!({"source": {"repoURL": "u", "helm": {}}}), json!({"source": {"repoURL": "u"}})),
            (json!({"source": {"helm": {"releaseName": "", "parameters": null}}}), json!({"source": {}})),
            (json!({"source": {"kustomize": {"images": []}}}), json!({"source": {}})),
            (json!({"source": {"directory": {"recurse": false, "jsonnet": {}}}}), json!({"source": {}})),
            (
                json!({"syncPolicy": {"automated": {"prune": false}}}),
                json!({"syncPolicy": {"automated": {}}}),
            ),
            (
                json!({"source": {"helm": {"valuesObject": {"a": 1.0}}}}),
                json!({"source": {"helm": {"valuesObject": {"a": 1}}}}),
            ),
            (json!({"sources": null, "info": []}), json!({})),
        ] {
            assert!(same(a.clone(), b.clone()), "{a} {b}");
        }
    }

    #[test]
    fn aset_134_what_says_something_stays() {
        for (a, b) in [
            (json!({"syncPolicy": {"automated": {}}}), json!({})),
            (
                json!({"syncPolicy": {"automated": {"enabled": false}}}),
                json!({"syncPolicy": {"automated": {}}}),
            ),
            (json!({"syncPolicy": {"retry": {}}}), json!({})),
            (json!({"revisionHistoryLimit": 0}), json!({})),
            (
                json!({"source": {"helm": {"valuesObject": {"a": false}}}}),
                json!({"source": {"helm": {"valuesObject": {}}}}),
            ),
            (json!({"source": {"kustomize": {"commonLabels": {"a": ""}}}}), json!({"source": {}})),
            (json!({"source": {"plugin": {}}}), json!({"source": {}})),
            (json!({"source": {"repoURL": "u"}}), json!({"source": {"repoURL": "v"}})),
        ] {
            assert!(!same(a.clone(), b.clone()), "{a} {b}");
        }
    }
}
