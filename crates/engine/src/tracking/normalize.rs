//! What of the marks is no difference (TRK-95..98).

use serde_json::Value;
use tiphys_object::{Gvk, access};

use super::{TrackingMethod, TrackingSettings, truncated_label};

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
