//! What of the marks is no difference (TRK-95..98).

use serde_json::Value;
use tiphys_api::names::LAST_APPLIED;
use tiphys_object::{Gvk, Object, access};

use super::{
    Carrier, Owned, Ownership, Previous, TrackingId, TrackingMethod, TrackingSettings, truncated_label,
};

impl Ownership<'_> {
    /// The live copy to compare. Besides what the settings in force hide, marks of the application that differ from the
    /// target's because they were made under other settings are no difference (TRK-98): a changed setting makes nobody
    /// `OutOfSync`.
    pub fn normalize_live(&self, object: &Object, live: &mut Value, target: &Value) {
        self.current.normalize_live(self.instance, live, target);
        if !self.is_migrating() || self.verdict(object) != Owned::Yes {
            return;
        }
        self.equalize_marks(live, target);
        // What was applied before is compared too, or its marks would look as if they were to be removed.
        let record =
            access::annotation(live, LAST_APPLIED).and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let Some(mut record) = record.filter(Value::is_object) {
            self.current.mask_name(self.instance, &mut record, target);
            self.equalize_marks(&mut record, target);
            access::set_annotation(live, LAST_APPLIED, &record.to_string());
        }
    }

    fn equalize_marks(&self, live: &mut Value, target: &Value) {
        let places = self.places();
        for key in places.iter().map(|place| place.annotation_key.as_str()) {
            let is_own = |id: &str| places.iter().any(|place| place.names(id, self.instance));
            equalize(live, target, (key, &ANNOTATION), is_own);
        }
        for key in places.iter().map(|place| place.installation_id_key.as_str()) {
            let is_own = |id: &str| places.iter().any(|place| place.installation_id == id);
            equalize(live, target, (key, &ANNOTATION), is_own);
            equalize(live, target, (key, &LABEL), is_own);
        }
        for key in places.iter().map(|place| place.label_key.as_str()) {
            let is_own = |label: &str| places.iter().any(|place| place.represents(self.instance, label));
            equalize(live, target, (key, &LABEL), is_own);
        }
    }

    /// Whether the marks of a live object are not those that an apply of the target would leave (TRK-105).
    pub fn is_marked_otherwise(&self, target: &Object, live: &Object) -> bool {
        self.is_migrating()
            && self.places().iter().any(|place| {
                let annotations = [&place.annotation_key, &place.installation_id_key];
                let labels = [&place.label_key, &place.installation_id_key];
                annotations.iter().any(|key| target.annotation(key) != live.annotation(key))
                    || labels.iter().any(|key| target.label(key) != live.label(key))
            })
    }

    /// Settings under whose keys marks of the application may stand.
    pub(super) fn places(&self) -> Vec<&TrackingSettings> {
        // What nobody stored was most likely usual (TRK-104).
        let is_unknown = matches!(self.previous, Previous::Unknown(_));
        let usual = is_unknown.then(|| TrackingSettings::usual(Carrier::default()));
        self.sides().chain(usual).collect()
    }
}

/// One of the two maps of texts in the metadata of an object.
struct TextMapAccess {
    get: for<'a> fn(&'a Value, &str) -> Option<&'a str>,
    set: fn(&mut Value, &str, &str),
    remove: fn(&mut Value, &str),
}

const ANNOTATION: TextMapAccess = TextMapAccess {
    get: |object, key| access::annotation(object, key),
    set: |object, key, text| access::set_annotation(object, key, text),
    remove: |object, key| {
        access::remove_annotation(object, key);
    },
};

const LABEL: TextMapAccess = TextMapAccess {
    get: |object, key| access::label(object, key),
    set: |object, key, text| access::set_label(object, key, text),
    remove: |object, key| {
        access::remove_label(object, key);
    },
};

/// Makes a text of the live copy the target's, where only our own marks make the difference.
fn equalize(
    live: &mut Value,
    target: &Value,
    (key, map): (&str, &TextMapAccess),
    is_own: impl Fn(&str) -> bool,
) {
    match ((map.get)(live, key), (map.get)(target, key)) {
        (None, Some(wanted)) if is_own(wanted) => (map.set)(live, key, wanted),
        (Some(found), Some(wanted)) if found != wanted && is_own(found) => (map.set)(live, key, wanted),
        (Some(found), None) if is_own(found) => (map.remove)(live, key),
        _ => {}
    }
}

impl TrackingSettings {
    /// The live copy to compare: marks that differ only because the tracking method was changed are made equal
    /// to the target's (TRK-95, TRK-97), and so is the readable name, which decides nothing (TRK-56). Nothing is applied
    /// from this copy.
    pub fn normalize_live(&self, instance: &str, live: &mut Value, target: &Value) {
        let Gvk { group, kind, .. } = Gvk::of(live);
        if group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition" {
            return;
        }
        self.mask_name(instance, live, target);
        if self.method == TrackingMethod::Label {
            return;
        }
        let Some(label) = access::label(live, &self.label_key).filter(|label| !label.is_empty()) else {
            return;
        };
        let is_ours = self.represents(instance, label);
        if access::annotation(live, &self.annotation_key).is_none()
            && let Some(id) = access::annotation(target, &self.annotation_key)
        {
            access::set_annotation(live, &self.annotation_key, id);
        }
        // Method `annotation` writes no label, so a label of any value is somebody else's matter (TRK-95 c).
        // Deviation (TRK-97): the others keep a foreign value in the diff, or the removal of a chart's own label
        // would never be seen.
        let is_masked = is_ours || self.method == TrackingMethod::Annotation;
        if is_masked && access::label(target, &self.label_key).is_none() {
            access::remove_label(live, &self.label_key);
        }
    }

    /// Whether the value of a tracking annotation names an application.
    fn names(&self, id: &str, instance: &str) -> bool {
        TrackingId::read(id, self.annotation_format).is_ok_and(|id| id.instance == instance)
    }

    /// Whether the value of an instance label stands for an application, under whichever method.
    pub(super) fn represents(&self, instance: &str, label: &str) -> bool {
        label == instance
            || truncated_label(instance) == Some(label)
            || self.digests(instance).any(|digest| digest == label)
    }

    /// Makes the readable name equal, where we write it or wrote it.
    fn mask_name(&self, instance: &str, live: &mut Value, target: &Value) {
        let key = &self.name_annotation_key;
        let (wanted, found) = (access::annotation(target, key), access::annotation(live, key));
        if wanted == found {
            return;
        }
        let name = self.readable_name(instance);
        match wanted {
            Some(wanted) if self.writes_name() && wanted == name => access::set_annotation(live, key, wanted),
            None if found == Some(name.as_str()) => {
                access::remove_annotation(live, key);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;
    use tiphys_api::names::annotation;

    fn settings(method: TrackingMethod) -> TrackingSettings {
        TrackingSettings::from_settings(&BTreeMap::new(), "argocd").with_method(method)
    }

    fn normalized(method: TrackingMethod, mut live: Value, target: &Value) -> Value {
        settings(method).normalize_live("ui", &mut live, target);
        live
    }

    #[test]
    fn trk_95_a_change_from_label_to_annotation_is_no_difference() {
        let target = json!({"kind": "Secret", "metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "ui:/Secret:s/k"}}});
        let live = json!({"kind": "Secret", "metadata": {"labels": {"app.kubernetes.io/instance": "ui"}}});
        assert_eq!(normalized(TrackingMethod::Annotation, live.clone(), &target), target);
        assert_eq!(normalized(TrackingMethod::Label, live.clone(), &target), live);
    }

    #[test]
    fn trk_95_another_owner_stays_visible() {
        let target = json!({"kind": "Secret", "metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "ui:/Secret:s/k"}}});
        let live = json!({"kind": "Secret", "metadata": {"labels": {"app.kubernetes.io/instance": "ui"},
            "annotations": {"argocd.argoproj.io/tracking-id": "ops:/Secret:s/k"}}});
        let copy = normalized(TrackingMethod::Annotation, live, &target);
        assert_eq!(access::annotation(&copy, annotation::TRACKING_ID), Some("ops:/Secret:s/k"));
        assert_eq!(access::label(&copy, "app.kubernetes.io/instance"), None);
    }

    #[test]
    fn trk_95_objects_without_the_label_are_left_alone() {
        let target =
            json!({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "ui:/Secret:s/k"}}});
        let live = json!({"kind": "Secret", "metadata": {"name": "k"}});
        assert_eq!(normalized(TrackingMethod::Annotation, live.clone(), &target), live);
    }

    #[test]
    fn trk_97_a_charts_own_label_stays_in_the_diff() {
        let live =
            json!({"kind": "Secret", "metadata": {"labels": {"app.kubernetes.io/instance": "release"}}});
        assert_eq!(
            normalized(TrackingMethod::AnnotationAndLabel, live.clone(), &json!({"metadata": {}})),
            live
        );
    }

    #[test]
    fn trk_95_with_annotations_a_foreign_label_is_masked_where_the_target_has_none() {
        let labelled = |value: &str| json!({"kind": "Secret", "metadata": {"labels": {"app.kubernetes.io/instance": value}}});
        let copy = normalized(TrackingMethod::Annotation, labelled("release"), &json!({"metadata": {}}));
        assert_eq!(access::label(&copy, "app.kubernetes.io/instance"), None);
        let copy = normalized(TrackingMethod::Annotation, labelled("release"), &labelled("other"));
        assert_eq!(access::label(&copy, "app.kubernetes.io/instance"), Some("release"));
    }

    /// TRK-95, TRK-97: whichever way the label stood for the application.
    #[test]
    fn trk_97_a_digest_is_a_label_of_our_own() {
        let target = json!({"kind": "Secret", "metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "ui:/Secret:s/k"}}});
        for algorithm in ["sha1", "sha1-raw"] {
            let digest = crate::tracking::HashAlgorithm::parse(algorithm).unwrap().digest("ui");
            let live =
                json!({"kind": "Secret", "metadata": {"labels": {"app.kubernetes.io/instance": digest}}});
            assert_eq!(normalized(TrackingMethod::AnnotationAndLabel, live, &target), target);
        }
    }

    #[test]
    fn trk_56_the_readable_name_alone_is_no_difference() {
        let named = |name: Option<&str>| {
            let mut object = json!({"kind": "Secret", "metadata": {"labels": {"l": "x"}}});
            if let Some(name) = name {
                access::set_annotation(&mut object, "argo-cd.argoproj.io/application-name", name);
            }
            object
        };
        let target = named(Some("ui"));
        for live in [None, Some("other"), Some("ui")] {
            assert_eq!(normalized(TrackingMethod::Hash, named(live), &target), target, "{live:?}");
        }
        assert_eq!(normalized(TrackingMethod::Annotation, named(Some("ui")), &named(None)), named(None));
        // What users write themselves stays in the diff.
        let own = named(Some("mine"));
        assert_eq!(normalized(TrackingMethod::Annotation, own.clone(), &named(None)), own);
        assert_eq!(normalized(TrackingMethod::Annotation, own.clone(), &target), own);
    }
}
