//! References to the Secret inside services (NTF-5).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Replaces every `$name` in the texts of a value, keys included, by the entry of the Secret; names that it does not have
/// stay and are warned of. Values are put in as texts, so that nothing of them is read as YAML.
pub(crate) fn resolve(value: &Value, secret: &BTreeMap<String, String>, warnings: &mut Vec<String>) -> Value {
    match value {
        Value::String(text) => Value::String(replace(text, secret, warnings)),
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| resolve(item, secret, warnings)).collect())
        }
        Value::Object(members) => {
            let mut resolved = Map::new();
            for (key, value) in members {
                resolved.insert(replace(key, secret, warnings), resolve(value, secret, warnings));
            }
            Value::Object(resolved)
        }
        other => other.clone(),
    }
}

fn replace(text: &str, secret: &BTreeMap<String, String>, warnings: &mut Vec<String>) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        made.push_str(before);
        let end = after.find(|letter: char| !is_part_of_name(letter)).unwrap_or(after.len());
        let (name, left) = after.split_at(end);
        if let Some(value) = secret.get(name).filter(|_| !name.is_empty()) {
            made.push_str(value);
        } else {
            made.push('$');
            made.push_str(name);
            if !name.is_empty() {
                warnings.push(format!("config referenced '${name}', but key does not exist in secret"));
            }
        }
        rest = left;
    }
    made.push_str(rest);
    made
}

fn is_part_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ntf_5_references_are_replaced_in_every_text() {
        let secret =
            BTreeMap::from([("tok".to_owned(), "a: b".to_owned()), ("k".to_owned(), "key".to_owned())]);
        let mut warnings = Vec::new();
        let given = json!({"token": "xoxb-$tok", "$k": ["$tok$tok", "$no.x", "$", 5], "colon": "$tok:x"});
        let found = resolve(&given, &secret, &mut warnings);
        let expected = json!({"token": "xoxb-a: b", "key": ["a: ba: b", "$no.x", "$", 5], "colon": "a: b:x"});
        assert_eq!(found, expected);
        assert_eq!(warnings, ["config referenced '$no', but key does not exist in secret"]);
    }
}
