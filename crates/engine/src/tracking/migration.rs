//! Who owns an object while the tracking settings change (TRK-101..107).

use tiphys_object::Object;

use super::{TrackingMethod, TrackingSettings};

/// Settings in force, and those under which an application was synced last.
#[derive(Clone, Copy, Debug)]
pub struct Migration<'a> {
    /// In force for the application.
    pub current: &'a TrackingSettings,
    /// Those of the stored profile; `None` when none is stored (TRK-104).
    pub previous: Option<&'a TrackingSettings>,
    /// The application.
    pub instance: &'a str,
}

impl Migration<'_> {
    /// Whether a root object is the application's and no copy, without a desired object to compare it with.
    ///
    /// `is_listed` says whether `status.resources` names the object as applied, which is the only evidence there is when
    /// no profile is stored.
    pub fn owns(&self, live: &Object, is_listed: bool) -> bool {
        // Nothing but its own installation deletes what bears an ID (TRK-70).
        if !self.current.migrates || self.is_foreign(live) {
            return self.is_original(self.current, live);
        }
        match self.previous {
            Some(previous) => self.owns_under_either(previous, live),
            None => self.is_original(self.current, live) || (is_listed && self.is_recognised(live)),
        }
    }

    fn owns_under_either(&self, previous: &TrackingSettings, live: &Object) -> bool {
        let sides = [self.current, previous];
        let family = |side: &&TrackingSettings| side.method.is_annotation_family();
        let has_annotation = |side: &TrackingSettings| matches!(side.tracking_id(live), Some(Ok(_)));
        // A copy that an operator made bears the old label too: where the annotation says what is a copy, it alone
        // decides (TRK-103).
        match sides.into_iter().filter(family).find(|side| has_annotation(side)) {
            Some(_) => sides.into_iter().filter(family).any(|side| self.is_original(side, live)),
            None => sides.into_iter().any(|side| self.is_original(side, live)),
        }
    }

    fn is_original(&self, side: &TrackingSettings, live: &Object) -> bool {
        side.owns(live.metadata(), self.instance) && side.is_self_referenced(None, Some(live))
    }

    /// First contact: the label under the current key, or the annotation without an ID, names the application (TRK-104).
    fn is_recognised(&self, live: &Object) -> bool {
        let current = self.current;
        let by_label = live.label(&current.label_key) == Some(self.instance);
        let without_id = TrackingSettings {
            method: TrackingMethod::Annotation,
            installation_id: "".into(),
            ..current.clone()
        };
        let is_without_id = live.annotation(&current.installation_id_key).is_none_or(str::is_empty);
        by_label || (is_without_id && self.is_original(&without_id, live))
    }

    /// Whether the object carries the ID of another installation (TRK-107).
    fn is_foreign(&self, live: &Object) -> bool {
        let key = &self.current.installation_id_key;
        let ids = [live.annotation(key), live.label(key)];
        ids.into_iter().flatten().any(|id| !id.is_empty() && id != self.current.installation_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn settings(pairs: &[(&str, &str)]) -> TrackingSettings {
        let map: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TrackingSettings::from_settings(&map, "argocd")
    }

    fn method(method: TrackingMethod) -> TrackingSettings {
        settings(&[("application.resourceTrackingMethod", method.as_str())])
    }

    /// A Secret as the application `ui` marks it.
    fn marked(by: &TrackingSettings) -> Value {
        let mut object =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k", "namespace": "shop"}});
        by.stamp(&mut object, "ui", "shop").unwrap();
        object
    }

    fn object(value: &Value) -> Object {
        Object::from_value(value).unwrap()
    }

    fn owns(
        current: &TrackingSettings,
        previous: Option<&TrackingSettings>,
        live: &Value,
        is_listed: bool,
    ) -> bool {
        Migration { current, previous, instance: "ui" }.owns(&object(live), is_listed)
    }

    #[test]
    fn trk_103_what_was_marked_before_or_is_marked_now_is_ours_in_every_direction() {
        for before in TrackingMethod::ALL {
            for now in TrackingMethod::ALL {
                let (old, new) = (method(before), method(now));
                for side in [&old, &new] {
                    assert!(
                        owns(&new, Some(&old), &marked(side), false),
                        "{before} to {now}, by {}",
                        side.method
                    );
                }
                let off = TrackingSettings { migrates: false, ..new.clone() };
                let seen = owns(&off, Some(&old), &marked(&old), false);
                assert_eq!(
                    seen,
                    new.owns(object(&marked(&old)).metadata(), "ui"),
                    "{before} to {now} without"
                );
            }
        }
    }

    /// The copy has the label of the original, and its annotation.
    #[test]
    fn trk_103_a_copy_is_nobodys_through_an_old_label() {
        let copy = |by: &TrackingSettings| {
            let mut copy = marked(by);
            copy["metadata"]["namespace"] = "other".into();
            copy
        };
        let (labels, both) = (method(TrackingMethod::Label), method(TrackingMethod::AnnotationAndLabel));
        assert!(!owns(&labels, Some(&both), &copy(&both), false));
        assert!(!owns(&both, Some(&labels), &copy(&both), false));
        assert!(owns(&both, Some(&labels), &copy(&labels), false), "no annotation says that it is one");
    }

    #[test]
    fn trk_104_without_a_profile_only_what_was_applied_is_recognised() {
        let (labels, annotations) = (method(TrackingMethod::Label), method(TrackingMethod::Annotation));
        let chart = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k", "namespace": "shop",
            "labels": {"app.kubernetes.io/instance": "ui"}}});
        assert!(!owns(&annotations, None, &chart, false), "a chart's label alone is never enough");
        assert!(owns(&annotations, None, &chart, true));
        let with_id = settings(&[("installationID", "eu-1")]);
        assert!(!owns(&with_id, None, &marked(&annotations), false));
        assert!(owns(&with_id, None, &marked(&annotations), true));
        assert!(owns(&labels, None, &marked(&annotations), true));
        let mut copy = marked(&annotations);
        copy["metadata"]["name"] = "copy".into();
        assert!(!owns(&with_id, None, &copy, true));
    }

    #[test]
    fn trk_107_an_object_of_another_installation_is_never_recognised() {
        let ids = |id: &str, method: TrackingMethod| settings(&[("installationID", id)]).with_method(method);
        let (eu, us) = (ids("eu-1", TrackingMethod::Annotation), ids("us-1", TrackingMethod::Annotation));
        let none = method(TrackingMethod::Annotation);
        assert!(!owns(&us, Some(&eu), &marked(&eu), true), "an ID that was changed");
        assert!(!owns(&us, None, &marked(&eu), true));
        assert!(!owns(&us, Some(&none), &marked(&eu), true));
        assert!(owns(&us, Some(&none), &marked(&none), false), "an ID that is new");
        assert!(
            owns(&none, Some(&eu), &marked(&eu), false),
            "an ID that was given up is not looked at (TRK-62)"
        );
        let labels = ids("us-1", TrackingMethod::Label);
        assert!(!owns(&labels, Some(&us), &marked(&eu), true));
    }
}
