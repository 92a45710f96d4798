//! `resource.compareoptions` of `argocd-cm` (ENG-61, ENG-67).

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_go::yaml::{Dialect, Limits, parse};

use super::IgnoreError;

/// The settings key.
const KEY: &str = "resource.compareoptions";

/// For which kinds `status` is no difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StatusField {
    /// For all of them.
    #[default]
    All,
    /// For custom resource definitions.
    CustomResourceDefinitions,
    /// For none.
    None,
}

/// System-wide options of the comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CompareOptions {
    /// Whether rules of aggregated roles are left to the cluster.
    pub ignore_aggregated_roles: bool,
    /// For which kinds `status` is no difference.
    pub status_field: StatusField,
}

impl CompareOptions {
    /// Reads the options; absent means the defaults. An unrecognised value of `ignoreResourceStatusField` means
    /// `all`.
    pub fn from_settings(settings: &BTreeMap<String, String>) -> Result<Self, IgnoreError> {
        let Some(text) = settings.get(KEY).filter(|text| !text.is_empty()) else {
            return Ok(Self::default());
        };
        let fault = |reason: String| IgnoreError::Settings { key: KEY.to_owned(), reason };
        let options =
            parse(text, Dialect::Sigs, &Limits::default()).map_err(|error| fault(error.to_string()))?;
        let options = options.unwrap_or(Value::Null);
        let status_field = match options.get("ignoreResourceStatusField") {
            Some(Value::Bool(false)) => StatusField::None,
            Some(Value::String(text)) => match text.as_str() {
                "crd" => StatusField::CustomResourceDefinitions,
                "none" | "off" | "false" => StatusField::None,
                _ => StatusField::All,
            },
            _ => StatusField::All,
        };
        let aggregated = options.get("ignoreAggregatedRoles").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { ignore_aggregated_roles: aggregated, status_field })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(text: &str) -> StatusField {
        let settings = BTreeMap::from([(KEY.to_owned(), text.to_owned())]);
        CompareOptions::from_settings(&settings).unwrap().status_field
    }

    #[test]
    fn eng_67_status_is_ignored_unless_told_otherwise() {
        assert_eq!(CompareOptions::from_settings(&BTreeMap::new()).unwrap().status_field, StatusField::All);
        for (text, expected) in [
            ("all", StatusField::All),
            ("", StatusField::All),
            ("nonsense", StatusField::All),
            ("crd", StatusField::CustomResourceDefinitions),
            ("none", StatusField::None),
            ("off", StatusField::None),
            ("false", StatusField::None),
        ] {
            assert_eq!(
                status(&format!(r#"{{"ignoreResourceStatusField": "{text}"}}"#)),
                expected,
                "{text:?}"
            );
        }
        assert_eq!(status(r#"{"ignoreResourceStatusField": false}"#), StatusField::None);
    }
}
