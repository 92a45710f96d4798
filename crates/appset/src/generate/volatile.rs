//! Functions whose results are new at every look (ASET-106).

use serde_json::Value;
use tiphys_api::ApplicationSet;

/// Functions of time, chance and keys.
const VOLATILE: [&str; 20] = [
    "ago",
    "bcrypt",
    "encryptAES",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "htpasswd",
    "now",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randBytes",
    "randInt",
    "randNumeric",
    "shuffle",
    "uuidv4",
];

/// A warning about a set whose Applications change at every look; `None` for others.
pub(super) fn warning(set: &ApplicationSet) -> Option<String> {
    if !set.spec.go_template {
        return None;
    }
    let mut found: Vec<&str> = Vec::new();
    let mut look = |text: &str| {
        for action in text.split("{{").skip(1) {
            let action = action.split("}}").next().unwrap_or("");
            let words = action.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            for word in words {
                let known = VOLATILE.iter().find(|name| **name == word);
                found.extend(known.filter(|name| !found.contains(*name)));
            }
        }
    };
    texts(&Value::Object(set.spec.template.clone()), &mut look);
    set.spec.generators.iter().for_each(|entry| texts(&Value::Object(entry.clone()), &mut look));
    set.spec.template_patch.iter().for_each(|patch| look(patch));
    if found.is_empty() {
        return None;
    }
    found.sort_unstable();
    Some(format!(
        "the templates of ApplicationSet {} use {}: its Applications change at every look",
        set.metadata.name,
        found.join(", ")
    ))
}

/// All strings of a value. What is stored is nested less deeply than a stack can bear.
fn texts(value: &Value, look: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => look(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, look)),
        Value::Object(members) => members.iter().for_each(|(key, member)| {
            look(key);
            texts(member, look);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aset_106_functions_of_time_and_chance_are_named() {
        let with = |name: &str, is_go: bool| {
            let spec =
                json!({"goTemplate": is_go, "generators": [], "template": {"metadata": {"name": name}}});
            warning(&serde_json::from_value(json!({"metadata": {"name": "s"}, "spec": spec})).unwrap())
        };
        assert_eq!(with("now {{ .now_x }} uuidv4", true), None);
        assert_eq!(with("{{ now }}", false), None);
        assert!(
            with("a{{ now | date \"06\" }}-{{ randAlphaNum 3 }}", true)
                .unwrap()
                .contains(" use now, randAlphaNum:")
        );
    }
}
