//! Which changes of a live object are a reason to compare (CTL-95, CTL-96).
//!
//! A heartbeat in a status, a counter in an annotation: some objects change every second and mean nothing by it.
//! [`UpdateRules::fingerprint`] is a number that changes when something may have been meant.

use std::collections::BTreeMap;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use crate::health::HealthCode;
use crate::normalize::{IgnoreError, IgnoreRules};

/// What of a change counts for nothing.
#[derive(Debug, Default)]
pub struct UpdateRules {
    ignored: IgnoreRules,
}

impl UpdateRules {
    /// Reads the overrides of the settings; `with_differences` adds what is no difference anyway
    /// (`ignoreDifferencesOnResourceUpdates`).
    ///
    /// # Errors
    /// When a key or an expression cannot be read.
    pub fn from_settings(
        settings: &BTreeMap<String, String>,
        with_differences: bool,
    ) -> Result<Self, IgnoreError> {
        Ok(Self { ignored: IgnoreRules::of_updates(settings, with_differences)? })
    }

    /// Takes away what counts for nothing.
    pub fn apply(&self, object: &mut Value) {
        self.ignored.apply(object);
    }

    /// Equal numbers: nothing has changed that a comparison would look at, and the health is the same. 64 bits of
    /// an object are kept instead of the object.
    pub fn fingerprint(&self, mut object: Value, health: Option<HealthCode>) -> u64 {
        self.ignored.apply(&mut object);
        let mut text = object.to_string();
        // No JSON text goes on after its end.
        text.push_str(health.map_or("", HealthCode::as_str));
        xxh3_64(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules(settings: &[(&str, &str)], with_differences: bool) -> UpdateRules {
        let settings = settings.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        UpdateRules::from_settings(&settings, with_differences).unwrap()
    }

    fn service(change: &Value) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "s", "namespace": "n", "resourceVersion": "1", "generation": 1,
                "managedFields": [{"manager": "m"}], "annotations": {"beat": "1", "note": "a"}},
            "spec": {"ports": [{"port": 1}], "weight": 1}, "status": {"seen": 1}});
        for (pointer, value) in change.as_object().unwrap() {
            *object.pointer_mut(pointer).unwrap() = value.clone();
        }
        object
    }

    /// Whether a change is a reason to compare.
    fn counts(rules: &UpdateRules, change: &Value) -> bool {
        let print = |object: Value| rules.fingerprint(object, Some(HealthCode::Healthy));
        print(service(&json!({}))) != print(service(change))
    }

    /// CTL-95: what the API server keeps books of never counts, anything else does.
    #[test]
    fn ctl_95_bookkeeping_never_counts() {
        let books = json!({"/metadata/resourceVersion": "2", "/metadata/generation": 2, "/metadata/managedFields": []});
        for with_differences in [true, false] {
            let rules = rules(&[], with_differences);
            assert!(!counts(&rules, &books));
            assert!(counts(&rules, &json!({"/spec/weight": 2})));
            assert!(counts(&rules, &json!({"/metadata/annotations/note": "b"})));
            assert_eq!(counts(&rules, &json!({"/status/seen": 2})), !with_differences);
        }
    }

    /// CTL-95: another health is a reason, whatever else is ignored.
    #[test]
    fn ctl_95_another_health_counts() {
        let rules = rules(&[], true);
        let print = |health| rules.fingerprint(service(&json!({})), health);
        assert_ne!(print(Some(HealthCode::Healthy)), print(Some(HealthCode::Degraded)));
        assert_ne!(print(None), print(Some(HealthCode::Healthy)));
        assert_eq!(print(None), print(None));
    }

    /// CTL-95, ENG-66: overrides by kind and for all, as pointers and as jq.
    #[test]
    fn ctl_95_overrides_name_what_does_not_count() {
        let beat = json!({"/metadata/annotations/beat": "2"});
        let weight = json!({"/spec/weight": 2});
        let pointers = "jsonPointers:\n- /metadata/annotations/beat\n";
        let by_kind = rules(&[("resource.customizations.ignoreResourceUpdates.Service", pointers)], false);
        assert!(!counts(&by_kind, &beat) && counts(&by_kind, &weight));
        let other =
            rules(&[("resource.customizations.ignoreResourceUpdates.apps_Deployment", pointers)], false);
        assert!(counts(&other, &beat));
        let all = "jqPathExpressions:\n- .spec.weight\n";
        let all = rules(&[("resource.customizations.ignoreResourceUpdates.all", all)], false);
        assert!(!counts(&all, &weight) && counts(&all, &beat));
        let map = "Service:\n  ignoreResourceUpdates: |\n    jsonPointers: [/spec/weight]\n";
        assert!(!counts(&rules(&[("resource.customizations", map)], false), &weight));
    }

    /// CTL-95: system differences count as ignored only where the option says so.
    #[test]
    fn ctl_95_system_differences_are_ignored_unless_told_otherwise() {
        let settings =
            [("resource.customizations.ignoreDifferences.Service", r#"{"jsonPointers": ["/spec/weight"]}"#)];
        let weight = json!({"/spec/weight": 2});
        assert!(!counts(&rules(&settings, true), &weight));
        assert!(counts(&rules(&settings, false), &weight));
    }

    #[test]
    fn ctl_95_what_cannot_be_read_is_an_error() {
        let settings = BTreeMap::from([(
            "resource.customizations.ignoreResourceUpdates.a_b_c".to_owned(),
            String::new(),
        )]);
        assert!(UpdateRules::from_settings(&settings, true).is_err());
    }
}
