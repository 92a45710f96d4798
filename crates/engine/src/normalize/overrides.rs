//! `ignoreDifferences` and `ignoreResourceUpdates` of the system settings, in map and split form (ENG-66).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use tiphys_go::yaml::{Dialect, Limits, parse};

use super::IgnoreError;

/// The settings key of the map form and the prefix of split keys.
const KEY: &str = "resource.customizations";
/// Part of an override that says what is no difference.
pub(super) const DIFFERENCES: &str = "ignoreDifferences";
/// Part of an override that says which changes are no reason to compare (CTL-95).
pub(super) const UPDATES: &str = "ignoreResourceUpdates";
/// Known types of split keys.
const TYPES: [&str; 6] = ["health", "useOpenLibs", "actions", DIFFERENCES, UPDATES, "knownTypeFields"];

/// What an override says to ignore.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Ignored {
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) json_pointers: Vec<String>,
    #[serde(rename = "jqPathExpressions", deserialize_with = "null_as_empty")]
    pub(super) jq_path_expressions: Vec<String>,
    #[serde(deserialize_with = "null_as_empty")]
    pub(super) managed_fields_managers: Vec<String>,
}

/// Group and kind an override is for.
pub(super) type Selector = (String, String);

fn null_as_empty<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::deserialize(d)?.unwrap_or_default())
}

/// Reads one part of all overrides, sorted by selector; split keys replace the map form.
pub(super) fn read(
    settings: &BTreeMap<String, String>,
    part: &str,
) -> Result<BTreeMap<Selector, Ignored>, IgnoreError> {
    let mut overrides = BTreeMap::new();
    let map_form = settings.get(KEY).map_or(Ok(None), |text| read_yaml(KEY, text))?;
    for (name, parts) in map_form.iter().filter_map(Value::as_object).flatten() {
        let Some(text) = parts.get(part).and_then(Value::as_str) else { continue };
        overrides.insert(map_selector(name)?, read_ignored(&format!("{KEY}: {name}"), text)?);
    }
    for (key, text) in settings.range(format!("{KEY}.")..) {
        let Some(rest) = key.strip_prefix(KEY).and_then(|rest| rest.strip_prefix('.')) else { break };
        let (kind_of_part, name) = rest.split_once('.').unwrap_or((rest, ""));
        if kind_of_part == part {
            overrides.insert(split_selector(key, name)?, read_ignored(key, text)?);
        } else if !TYPES.contains(&kind_of_part) && rest.split('.').count() == 2 {
            return Err(fault(key, format!("unknown type {kind_of_part:?}")));
        }
    }
    Ok(overrides)
}

fn map_selector(name: &str) -> Result<Selector, IgnoreError> {
    let mut parts = name.split('/');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(group), Some(kind), None) => Ok((group.to_owned(), kind.to_owned())),
        (Some(kind), None, _) => Ok((String::new(), kind.to_owned())),
        _ => Err(fault(KEY, format!("override key must be <group>/<kind> or <kind>, got {name:?}"))),
    }
}

fn split_selector(key: &str, name: &str) -> Result<Selector, IgnoreError> {
    if name == "all" {
        return Ok(("*".to_owned(), "*".to_owned()));
    }
    match name.split_once('_') {
        None => Ok((String::new(), name.to_owned())),
        Some((group, kind)) if !kind.contains('_') => Ok((group.to_owned(), kind.to_owned())),
        Some(_) => Err(fault(key, "more than one underscore".to_owned())),
    }
}

fn read_ignored(key: &str, text: &str) -> Result<Ignored, IgnoreError> {
    match read_yaml(key, text)? {
        None => Ok(Ignored::default()),
        Some(value) => serde_json::from_value(value).map_err(|error| fault(key, error.to_string())),
    }
}

fn read_yaml(key: &str, text: &str) -> Result<Option<Value>, IgnoreError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    parse(text, Dialect::Sigs, &Limits::default()).map_err(|error| fault(key, error.to_string()))
}

fn fault(key: &str, reason: String) -> IgnoreError {
    IgnoreError::Settings { key: key.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(pairs: &[(&str, &str)]) -> Result<BTreeMap<Selector, Ignored>, IgnoreError> {
        let settings = pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        read(&settings, DIFFERENCES)
    }

    fn pointers(pairs: &[(&str, &str)], group: &str, kind: &str) -> Vec<String> {
        let found = overrides(pairs).unwrap().remove(&(group.to_owned(), kind.to_owned()));
        found.unwrap_or_default().json_pointers
    }

    #[test]
    fn eng_66_split_keys_name_group_and_kind() {
        let text = r#"{"jsonPointers": ["/a"]}"#;
        for (name, group, kind) in [
            ("apps_Deployment", "apps", "Deployment"),
            ("ConfigMap", "", "ConfigMap"),
            ("cert-manager.io_Certificate", "cert-manager.io", "Certificate"),
            ("all", "*", "*"),
        ] {
            let key = format!("resource.customizations.ignoreDifferences.{name}");
            assert_eq!(pointers(&[(&key, text)], group, kind), ["/a"], "{name}");
        }
    }

    #[test]
    fn eng_66_split_keys_replace_the_map_form() {
        let map = r#"{"apps/Deployment": {"ignoreDifferences": "{\"jsonPointers\": [\"/map\"]}"},
            "ConfigMap": {"ignoreDifferences": "{\"jsonPointers\": [\"/core\"]}", "health.lua": "x"}}"#;
        let split =
            ("resource.customizations.ignoreDifferences.apps_Deployment", r#"{"jsonPointers": ["/split"]}"#);
        assert_eq!(pointers(&[("resource.customizations", map)], "apps", "Deployment"), ["/map"]);
        assert_eq!(pointers(&[("resource.customizations", map), split], "apps", "Deployment"), ["/split"]);
        assert_eq!(pointers(&[("resource.customizations", map), split], "", "ConfigMap"), ["/core"]);
    }

    #[test]
    fn eng_66_malformed_keys_are_errors() {
        assert!(overrides(&[("resource.customizations.ignoreDifferences.a_b_c", "")]).is_err());
        assert!(overrides(&[("resource.customizations.nonsense.x", "")]).is_err());
        assert!(
            overrides(&[("resource.customizations", r#"{"a/b/c": {"ignoreDifferences": ""}}"#)]).is_err()
        );
        assert!(overrides(&[("resource.customizations.health.x_Y", "")]).is_ok());
    }
}
