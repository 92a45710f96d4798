//! Hiding what Secrets hold before anybody stores or shows them (ENG-93..95).
//!
//! [`SecretMask::hide`] takes the copies of one Secret that are shown together (target, live, their diff) and
//! replaces every value by a run of `+`. Inside one call equal values of a key get equal runs, in all copies and
//! in their last-applied annotations, so that a reader sees what changed and nothing else: neither content nor
//! length. What cannot be read is hidden whole.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use tiphys_api::names::LAST_APPLIED;
use tiphys_object::{Gvk, access};

use crate::diff::fold_string_data;

/// Length of the run for the first distinct value of a key.
const FIRST_RUN: usize = 8;
/// How much longer each further distinct value's run is.
const RUN_STEP: usize = 4;

/// Which annotations of Secrets are hidden along with their data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretMask {
    annotations: BTreeSet<String>,
}

/// A Secret whose data cannot be hidden because it is no map; nothing of it may be shown (ENG-95).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the data of the Secret is not a map")]
pub struct MaskError;

/// Runs given out so far: per kind of place and key, the distinct values in order of appearance.
type Runs = BTreeMap<(Place, String), Vec<Value>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Data,
    Annotation,
}

impl SecretMask {
    /// Reads `resource.sensitive.mask.annotations`: a comma list, spaces removed.
    pub fn from_settings(settings: &BTreeMap<String, String>) -> Self {
        let text = settings.get("resource.sensitive.mask.annotations").map_or("", String::as_str);
        let names = text.split(',').map(|name| name.replace(' ', "")).filter(|name| !name.is_empty());
        Self { annotations: names.collect() }
    }

    /// Hides the values of all given copies of one Secret. Copies that are no core Secret, and null, are left
    /// alone.
    pub fn hide(&self, copies: &mut [&mut Value]) -> Result<(), MaskError> {
        let mut runs = Runs::new();
        let mut records: Vec<Option<Value>> = Vec::with_capacity(copies.len());
        for copy in copies.iter_mut() {
            if !is_secret(copy) {
                records.push(None);
                continue;
            }
            records.push(
                access::annotation(copy, LAST_APPLIED).map(|text| {
                    serde_json::from_str(text).ok().filter(Value::is_object).unwrap_or(Value::Null)
                }),
            );
            self.hide_one(copy, &mut runs)?;
        }
        for (copy, record) in copies.iter_mut().zip(records) {
            let Some(record) = record else { continue };
            let text = self.hide_record(record, &mut runs).unwrap_or_else(|| "+".repeat(FIRST_RUN));
            access::set_annotation(copy, LAST_APPLIED, &text);
        }
        Ok(())
    }

    fn hide_one(&self, secret: &mut Value, runs: &mut Runs) -> Result<(), MaskError> {
        if secret.get("stringData").is_some_and(|texts| !texts.is_object() && !texts.is_null()) {
            return Err(MaskError);
        }
        fold_string_data(secret);
        if let Some(object) = secret.as_object_mut() {
            object.remove("stringData");
        }
        match secret.get_mut("data") {
            None | Some(Value::Null) => {}
            Some(Value::Object(data)) => hide_map(data, Place::Data, |_| true, runs),
            Some(_) => return Err(MaskError),
        }
        let annotations = secret.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"));
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            hide_map(annotations, Place::Annotation, |key| self.annotations.contains(key), runs);
        }
        Ok(())
    }

    /// The masked record; `None` when it must not be shown at all.
    fn hide_record(&self, mut record: Value, runs: &mut Runs) -> Option<String> {
        if record.is_null() || self.annotations.contains(LAST_APPLIED) {
            return None;
        }
        // A record inside the record is never shown.
        access::remove_annotation(&mut record, LAST_APPLIED);
        self.hide_one(&mut record, runs).ok()?;
        serde_json::to_string(&record).ok()
    }
}

fn is_secret(object: &Value) -> bool {
    let gvk = Gvk::of(object);
    gvk.group.is_empty() && gvk.kind == "Secret"
}

fn hide_map(map: &mut Map<String, Value>, place: Place, is_hidden: impl Fn(&str) -> bool, runs: &mut Runs) {
    for (key, value) in map.iter_mut().filter(|(key, _)| key.as_str() != LAST_APPLIED || place == Place::Data)
    {
        if !is_hidden(key) {
            continue;
        }
        let seen = runs.entry((place, key.clone())).or_default();
        let index = seen.iter().position(|other| other == value).unwrap_or_else(|| {
            seen.push(value.clone());
            seen.len().saturating_sub(1)
        });
        *value = Value::String("+".repeat(FIRST_RUN + RUN_STEP.saturating_mul(index)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secret(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data})
    }

    fn mask(names: &str) -> SecretMask {
        let settings = BTreeMap::from([("resource.sensitive.mask.annotations".to_owned(), names.to_owned())]);
        SecretMask::from_settings(&settings)
    }

    fn hidden(mask: &SecretMask, mut a: Value, mut b: Value) -> (Value, Value) {
        mask.hide(&mut [&mut a, &mut b]).unwrap();
        (a, b)
    }

    #[test]
    fn eng_93_equal_values_get_equal_runs() {
        let (a, b) = hidden(
            &mask(""),
            secret(&json!({"k": "QQ==", "l": "Qg=="})),
            secret(&json!({"k": "WlpaWlpa", "l": "Qg=="})),
        );
        assert_eq!(a["data"], json!({"k": "++++++++", "l": "++++++++"}));
        assert_eq!(b["data"], json!({"k": "++++++++++++", "l": "++++++++"}));
    }

    #[test]
    fn eng_93_listed_annotations_are_hidden() {
        let with = |value: &str| {
            let mut object = secret(&json!({}));
            object["metadata"]["annotations"] = json!({"token": value, "open": "x"});
            object
        };
        let (a, b) = hidden(&mask(" token , other"), with("1"), with("2"));
        assert_eq!(a["metadata"]["annotations"], json!({"token": "++++++++", "open": "x"}));
        assert_eq!(b["metadata"]["annotations"], json!({"token": "++++++++++++", "open": "x"}));
    }

    #[test]
    fn eng_94_the_record_of_the_last_apply_is_hidden_too() {
        let mut live = secret(&json!({"k": "QQ=="}));
        let record =
            json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"k": "A"}, "data": {"k": "Wg=="}});
        access::set_annotation(&mut live, LAST_APPLIED, &record.to_string());
        let (_, live) = hidden(&mask(""), secret(&json!({"k": "Qg=="})), live);
        assert_eq!(live["data"]["k"], "++++++++++++");
        let record: Value = serde_json::from_str(access::annotation(&live, LAST_APPLIED).unwrap()).unwrap();
        assert_eq!(record["data"]["k"], "++++++++++++", "the record holds the live value");
        assert!(record.get("stringData").is_none());
    }

    #[test]
    fn eng_94_an_unreadable_record_is_hidden_whole() {
        for (names, text) in
            [("", "{secret"), ("", "[\"secret\"]"), (LAST_APPLIED, "{}"), ("", r#"{"data": "secret"}"#)]
        {
            let mut live = secret(&json!({}));
            access::set_annotation(&mut live, LAST_APPLIED, text);
            mask(names).hide(&mut [&mut live]).unwrap();
            assert_eq!(access::annotation(&live, LAST_APPLIED), Some("++++++++"), "{text}");
        }
    }

    #[test]
    fn eng_95_odd_shapes_never_leak() {
        let mut null = secret(&Value::Null);
        null["stringData"] = json!({"k": "secret"});
        mask("").hide(&mut [&mut null]).unwrap();
        assert_eq!(null["data"], json!({"k": "++++++++"}));
        assert!(null.get("stringData").is_none());
        assert_eq!(mask("").hide(&mut [&mut secret(&json!("secret"))]), Err(MaskError));
        let mut odd = secret(&json!({}));
        odd["stringData"] = json!("secret");
        assert_eq!(mask("").hide(&mut [&mut odd]), Err(MaskError));
        let mut nested = secret(&json!({"k": {"deep": "secret"}}));
        mask("").hide(&mut [&mut nested]).unwrap();
        assert!(!nested.to_string().contains("secret\""), "{nested}");
    }

    /// SEC-41, SEC-42: neither side of a diff of Secrets shows what they hold, however it is made: not in `data`, not in
    /// `stringData`, not in the record of the last apply of the live or of the predicted object.
    #[test]
    fn sec_41_sec_42_a_diff_of_secrets_shows_nothing_of_them() {
        use crate::diff::{DiffOptions, DiffSettings, diff};
        use crate::normalize::IgnoreRules;
        use base64::Engine as _;
        let base64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let canaries = ["canary-live", "canary-wanted", "canary-recorded", "canary-text", "canary-nested"];
        let mut live = secret(&json!({"k": base64("canary-live"), "gone": base64("canary-nested")}));
        let mut record = secret(&json!({"k": base64("canary-recorded"), "gone": base64("canary-nested")}));
        record["stringData"] = json!({"t": "canary-text"});
        let inner = json!({"kind": "Secret", "data": {"k": base64("canary-nested")}}).to_string();
        access::set_annotation(&mut record, LAST_APPLIED, &inner);
        access::set_annotation(&mut live, LAST_APPLIED, &record.to_string());
        live["metadata"]["managedFields"] = json!([{"manager": "argocd-controller", "operation": "Apply",
            "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}, "f:gone": {}}}}]);
        let mut target = secret(&json!({"k": base64("canary-wanted")}));
        target["stringData"] = json!({"t": "canary-text"});
        let ignore = IgnoreRules::default();
        for server_side_apply in [false, true] {
            let settings = DiffSettings { server_side_apply, ..DiffSettings::default() };
            let options = DiffOptions { ignore: &ignore, settings };
            for (target, live) in [(Some(&target), Some(&live)), (Some(&target), None), (None, Some(&live))] {
                let result = diff(target, live, &options).unwrap();
                let (mut left, mut right) = (result.normalized_live, result.predicted_live);
                mask("").hide(&mut [&mut left, &mut right]).unwrap();
                let shown = format!("{left}{right}");
                for canary in canaries {
                    assert!(!shown.contains(canary) && !shown.contains(&base64(canary)), "{canary}: {shown}");
                }
            }
        }
    }

    /// SEC-42: who writes what looks like a mask learns nothing: runs are given by position, whatever a value is.
    #[test]
    fn sec_42_a_value_that_looks_like_a_mask_is_one_value_among_others() {
        for forged in ["++++++++", "++++++++++++", ""] {
            let (wanted, live) =
                hidden(&mask(""), secret(&json!({"k": forged})), secret(&json!({"k": "c2VjcmV0"})));
            assert_eq!(
                (&wanted["data"]["k"], &live["data"]["k"]),
                (&json!("++++++++"), &json!("++++++++++++"))
            );
            let (live, wanted) =
                hidden(&mask(""), secret(&json!({"k": "c2VjcmV0"})), secret(&json!({"k": forged})));
            assert_eq!(
                (&live["data"]["k"], &wanted["data"]["k"]),
                (&json!("++++++++"), &json!("++++++++++++"))
            );
        }
        // Nor does another spelling of the same group and version make it something else than a Secret.
        let mut live = secret(&json!({"k": "c2VjcmV0"}));
        live["apiVersion"] = json!("/v1");
        mask("").hide(&mut [&mut live]).unwrap();
        assert_eq!(live["data"]["k"], "++++++++");
    }

    #[test]
    fn eng_93_other_kinds_are_left_alone() {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
        let before = object.clone();
        mask("").hide(&mut [&mut object]).unwrap();
        assert_eq!(object, before);
    }
}
