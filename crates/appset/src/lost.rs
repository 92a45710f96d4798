//! Fields that were written and are not stored: an installed definition of an older version drops them (ASET-261,
//! ASET-286).

use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_api::codes::SetReason;
use tiphys_api::names::LAST_APPLIED;

use crate::generate::Failure;

/// Fields whose loss changes what a set may do, as [`tiphys_api::crd::pruned_set_fields`] names them.
const PROJECT: &str = "spec.project";
const DELETION_SYNC: &str = "spec.strategy.deletionSync";

/// Fields that the manifest which was applied last has and the stored set has not. Whether somebody took them out or the
/// API server dropped them is not known from this.
pub fn missing_fields(set: &ApplicationSet) -> Vec<&'static str> {
    let Some(applied) = set.metadata.annotations.get(LAST_APPLIED) else { return Vec::new() };
    let applied: Value = serde_json::from_str(applied).unwrap_or_default();
    let has = |path: &str| {
        applied.pointer(path).is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
    };
    let mut missing = Vec::new();
    if set.spec.project.is_empty() && has("/spec/project") {
        missing.push(PROJECT);
    }
    let strategy = set.spec.strategy.as_ref();
    if strategy.is_none_or(|strategy| strategy.deletion_sync.is_none()) && has("/spec/strategy/deletionSync")
    {
        missing.push(DELETION_SYNC);
    }
    missing
}

/// The end of a look at a set that lost `fields`: nothing is created, changed or deleted.
pub fn refusal(fields: &[&str]) -> Failure {
    let reason = if fields.contains(&PROJECT) {
        SetReason::ApplicationSetProjectError
    } else {
        SetReason::ApplicationSetInvalidDeletionConfig
    };
    let message = format!(
        "the installed definition of ApplicationSets dropped {} of this set; install the definition anew with \
         `tiphys install --crds-only | kubectl apply --server-side -f -`, and apply the set again",
        fields.join(" and ")
    );
    Failure::new(reason, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn missing(applied: &Value, spec: &Value) -> Vec<&'static str> {
        let set = json!({"metadata": {"name": "s", "annotations": {LAST_APPLIED: applied.to_string()}}, "spec": spec});
        missing_fields(&serde_json::from_value(set).unwrap())
    }

    #[test]
    fn aset_286_what_was_applied_and_is_not_stored_is_missing() {
        let applied = json!({"spec": {"project": "shop", "strategy": {"deletionSync": {"steps": []}}}});
        assert_eq!(missing(&applied, &json!({})), [PROJECT, DELETION_SYNC]);
        assert_eq!(
            missing(&applied, &json!({"strategy": {"type": "RollingSync"}})),
            [PROJECT, DELETION_SYNC]
        );
        assert_eq!(missing(&applied, &applied["spec"]), [""; 0]);
        for plain in [json!({}), json!({"spec": {"project": ""}}), json!([]), json!("text")] {
            assert_eq!(missing(&plain, &json!({})), [""; 0]);
        }
    }

    #[test]
    fn aset_286_what_to_do_is_said() {
        let failure = refusal(&[DELETION_SYNC]);
        assert_eq!(failure.reason, SetReason::ApplicationSetInvalidDeletionConfig);
        assert!(failure.message.contains("dropped spec.strategy.deletionSync of this set"), "{failure:?}");
        assert_eq!(refusal(&[PROJECT, DELETION_SYNC]).reason, SetReason::ApplicationSetProjectError);
    }
}
