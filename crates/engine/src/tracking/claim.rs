//! Reading the mark of live objects, and telling originals from copies (TRK-85, 92..97).

use serde_json::Value;
use smol_str::SmolStr;
use tiphys_api::names::annotation;
use tiphys_object::{Gvk, Metadata, Object, ResourceKey, access};

use super::{TrackingId, TrackingMethod, TrackingSettings, truncated_label};

impl TrackingSettings {
    /// The instance name an object's mark names, if any (TRK-85).
    ///
    /// The mark of an object with owner references, real or inferred, counts for nothing (TRK-86): the caller
    /// asks only for root objects.
    pub fn claim(&self, metadata: &Metadata) -> Option<SmolStr> {
        if !self.method.is_annotation_family() {
            return metadata.labels.get(&self.label_key).filter(|value| !value.is_empty()).cloned();
        }
        if !self.installation_id.is_empty()
            && metadata.annotations.get(annotation::INSTALLATION_ID) != Some(&self.installation_id)
        {
            return None;
        }
        let id: TrackingId = metadata.annotations.get(annotation::TRACKING_ID)?.parse().ok()?;
        Some(id.instance).filter(|instance| !instance.is_empty())
    }

    /// Whether a live object carries its own mark, not a copy of another object's (TRK-92..94a).
    ///
    /// With a desired object the comparison is with that one, so that a change of API group does not lose the
    /// object; without one it is with the object's own tracking annotation.
    pub fn is_self_referenced(&self, target: Option<&Object>, live: Option<&Object>) -> bool {
        let Some(live) = live else { return true };
        if !self.method.is_annotation_family() {
            return true;
        }
        match target {
            Some(target) => is_same(&live.key(), &target.key(), GroupMove::Exact),
            None => match live.annotation(annotation::TRACKING_ID).map(str::parse::<TrackingId>) {
                Some(Ok(id)) => is_same(&live.key(), &id.key, GroupMove::FromExtensions),
                Some(Err(_)) | None => true,
            },
        }
    }

    /// The live copy to compare: marks that differ only because the tracking method was changed are made equal
    /// to the target's (TRK-95, TRK-97). Nothing is applied from this copy.
    pub fn normalize_live(&self, instance: &str, live: &mut Value, target: &Value) {
        if !self.method.is_annotation_family() {
            return;
        }
        let Some(label) = access::label(live, &self.label_key).filter(|label| !label.is_empty()) else {
            return;
        };
        let Gvk { group, kind, .. } = Gvk::of(live);
        if group == "apiextensions.k8s.io" && kind == "CustomResourceDefinition" {
            return;
        }
        let is_ours = label == instance || truncated_label(instance) == Some(label);
        if access::annotation(live, annotation::TRACKING_ID).is_none()
            && let Some(id) = access::annotation(target, annotation::TRACKING_ID)
        {
            access::set_annotation(live, annotation::TRACKING_ID, id);
        }
        // Method `annotation` writes no label, so a label of any value is somebody else's matter (TRK-95 c).
        // Deviation (TRK-97): the others keep a foreign value in the diff, or the removal of a chart's own label
        // would never be seen.
        let is_masked = is_ours || self.method == TrackingMethod::Annotation;
        if is_masked && access::label(target, &self.label_key).is_none() {
            access::remove_label(live, &self.label_key);
        }
    }
}

/// Whether a group the object has left counts as the same group.
#[derive(Clone, Copy)]
enum GroupMove {
    /// It does not.
    Exact,
    /// `extensions` does, for the groups its kinds moved to (TRK-94a).
    FromExtensions,
}

fn is_same(live: &ResourceKey, marked: &ResourceKey, group_move: GroupMove) -> bool {
    let same_group = live.group == marked.group
        || (matches!(group_move, GroupMove::FromExtensions)
            && marked.group == "extensions"
            && matches!(live.group.as_str(), "apps" | "networking.k8s.io" | "policy"));
    same_group
        && live.kind == marked.kind
        && live.name == marked.name
        && (live.namespace.is_empty() || live.namespace == marked.namespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn settings(method: TrackingMethod) -> TrackingSettings {
        TrackingSettings::from_settings(&BTreeMap::new(), "argocd").with_method(method)
    }

    fn object(value: &Value) -> Object {
        Object::from_value(value).unwrap()
    }

    fn secret(namespace: &str, annotations: &Value) -> Object {
        object(&json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "k", "namespace": namespace, "annotations": annotations}}))
    }

    fn marked(namespace: &str, id: &str) -> Object {
        secret(namespace, &json!({"argocd.argoproj.io/tracking-id": id}))
    }

    #[test]
    fn trk_85_the_claim_comes_from_annotation_or_label() {
        let live = object(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k",
            "annotations": {"argocd.argoproj.io/tracking-id": "ui:/Secret:shop/k"},
            "labels": {"app.kubernetes.io/instance": "chart"}}}));
        let claim = |method| settings(method).claim(live.metadata());
        assert_eq!(claim(TrackingMethod::Annotation).as_deref(), Some("ui"));
        assert_eq!(claim(TrackingMethod::AnnotationAndLabel).as_deref(), Some("ui"));
        assert_eq!(claim(TrackingMethod::Label).as_deref(), Some("chart"));
        assert_eq!(settings(TrackingMethod::Annotation).claim(secret("n", &json!({})).metadata()), None);
        assert_eq!(settings(TrackingMethod::Annotation).claim(marked("n", "rubbish").metadata()), None);
    }

    #[test]
    fn trk_62_a_foreign_installation_owns_nothing_here() {
        let ours =
            TrackingSettings { installation_id: "eu-1".into(), ..settings(TrackingMethod::Annotation) };
        let id = "ui:/Secret:shop/k";
        let with = |value: &str| {
            secret(
                "shop",
                &json!({"argocd.argoproj.io/tracking-id": id, "argocd.argoproj.io/installation-id": value}),
            )
        };
        assert_eq!(ours.claim(with("eu-1").metadata()).as_deref(), Some("ui"));
        assert_eq!(ours.claim(with("eu-2").metadata()), None);
        assert_eq!(ours.claim(marked("shop", id).metadata()), None);
        assert_eq!(
            settings(TrackingMethod::Annotation).claim(with("eu-2").metadata()).as_deref(),
            Some("ui")
        );
    }

    #[test]
    fn trk_92_copies_are_detected() {
        let tracking = settings(TrackingMethod::Annotation);
        let own = marked("shop", "ui:/Secret:shop/k");
        let copy = marked("other", "ui:/Secret:shop/k");
        assert!(tracking.is_self_referenced(None, None));
        assert!(tracking.is_self_referenced(None, Some(&own)));
        assert!(!tracking.is_self_referenced(None, Some(&copy)));
        assert!(tracking.is_self_referenced(None, Some(&secret("other", &json!({})))), "no annotation");
        assert!(
            tracking.is_self_referenced(None, Some(&marked("other", "rubbish"))),
            "no parsable annotation"
        );
        assert!(
            tracking.is_self_referenced(Some(&own), Some(&marked("shop", "x:/Secret:y/z"))),
            "target decides"
        );
        assert!(!tracking.is_self_referenced(Some(&own), Some(&copy)));
        assert!(settings(TrackingMethod::Label).is_self_referenced(None, Some(&copy)));
    }

    #[test]
    fn trk_92_cluster_scoped_objects_ignore_the_namespace() {
        let live = object(
            &json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {
            "name": "reader", "annotations":
            {"argocd.argoproj.io/tracking-id": "ui:rbac.authorization.k8s.io/ClusterRole:shop/reader"}}}),
        );
        assert!(settings(TrackingMethod::Annotation).is_self_referenced(None, Some(&live)));
    }

    #[test]
    fn trk_94a_kinds_that_left_extensions_stay_ours() {
        let live = |group: &str| {
            object(&json!({"apiVersion": format!("{group}/v1"), "kind": "Ingress", "metadata": {"name": "i",
                "namespace": "n", "annotations": {"argocd.argoproj.io/tracking-id": "ui:extensions/Ingress:n/i"}}}))
        };
        let tracking = settings(TrackingMethod::Annotation);
        assert!(tracking.is_self_referenced(None, Some(&live("networking.k8s.io"))));
        assert!(!tracking.is_self_referenced(None, Some(&live("acme.test"))));
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
}
