//! Reading the mark of live objects, and telling originals from copies (TRK-85, 92..97).

use smol_str::{SmolStr, format_smolstr};
use tiphys_object::{Metadata, Object, ResourceKey};

use super::stamp::Place;
use super::{Carrier, TrackingId, TrackingIdError, TrackingMethod, TrackingSettings};

/// Bytes of a `generateName` that the API server uses; five of its own follow.
const GENERATED_BASE_MAX: usize = 58;

impl TrackingSettings {
    /// By what an object names its owner, if it does (TRK-85): a mark under which an index finds it. [`Self::own_marks`]
    /// are those of an application.
    ///
    /// The mark of an object with owner references, real or inferred, counts for nothing (TRK-86): the caller
    /// asks only for root objects.
    pub fn mark(&self, metadata: &Metadata) -> Option<SmolStr> {
        self.named_owner(metadata).map(|name| self.mark_of(&name))
    }

    /// The marks by which objects name an application as their owner; several where two forms of a digest stand for
    /// each other (TRK-53).
    pub fn own_marks(&self, instance: &str) -> Vec<SmolStr> {
        match self.method {
            TrackingMethod::Hash => self.digests(instance).map(|digest| self.mark_of(&digest)).collect(),
            TrackingMethod::Annotation
            | TrackingMethod::AnnotationAndLabel
            | TrackingMethod::AnnotationAndHash
            | TrackingMethod::Label => vec![self.mark_of(instance)],
        }
    }

    /// Whether an object's mark names an application.
    pub fn owns(&self, metadata: &Metadata, instance: &str) -> bool {
        let Some(name) = self.named_owner(metadata) else { return false };
        match self.method {
            TrackingMethod::Hash => self.digests(instance).any(|digest| name == digest),
            _ => name == instance,
        }
    }

    /// The instance name of the application that an object's mark names. `named` finds it for a mark; without it a
    /// digest says nothing (TRK-54).
    pub fn claim(&self, metadata: &Metadata, named: impl Fn(&str) -> Option<SmolStr>) -> Option<SmolStr> {
        let name = self.named_owner(metadata)?;
        if self.method == TrackingMethod::Hash { named(&self.mark_of(&name)) } else { Some(name) }
    }

    /// Keys of labels and annotations that marks are read from.
    pub fn mark_keys(&self) -> [SmolStr; 3] {
        [self.annotation_key.clone(), self.installation_id_key.clone(), self.label_key.clone()]
    }

    /// What stands where the owner is named: an instance name, or with method `hash` a digest.
    fn named_owner(&self, metadata: &Metadata) -> Option<SmolStr> {
        if !self.is_of_installation(metadata) {
            return None;
        }
        let name = if self.method.is_annotation_family() {
            let text = metadata.annotations.get(&self.annotation_key)?;
            TrackingId::read(text, self.annotation_format).ok()?.instance
        } else {
            metadata.labels.get(&self.label_key)?.clone()
        };
        Some(name).filter(|name| !name.is_empty())
    }

    /// The same with where it was read, so that an application that is called like the digest of another, or like the value
    /// of a chart's label, is not taken for it.
    fn mark_of(&self, name: &str) -> SmolStr {
        let place = match self.method {
            TrackingMethod::Hash => '#',
            TrackingMethod::Label => '=',
            TrackingMethod::Annotation
            | TrackingMethod::AnnotationAndLabel
            | TrackingMethod::AnnotationAndHash => '@',
        };
        format_smolstr!("{place}{name}")
    }

    /// The name or digest in a mark, without where it was read.
    pub fn bare_mark(mark: &str) -> &str {
        mark.strip_prefix(['#', '=', '@']).unwrap_or(mark)
    }

    /// The same settings as an application with tracking annotations has them.
    pub(super) fn by_annotation(&self) -> Self {
        let method =
            if self.method.is_annotation_family() { self.method } else { TrackingMethod::Annotation };
        self.with_method(method)
    }

    /// Whether an object may be of this installation (TRK-62..66).
    fn is_of_installation(&self, metadata: &Metadata) -> bool {
        let key = &self.installation_id_key;
        if self.installation_id.is_empty() {
            let carried = match self.carrier {
                Carrier::Label => metadata.labels.get(key),
                _ => metadata.annotations.get(key),
            };
            return !self.rejects_foreign || carried.is_none_or(SmolStr::is_empty);
        }
        match self.installation_place() {
            None => true,
            Some(Place::Annotation) => metadata.annotations.get(key) == Some(&self.installation_id),
            Some(Place::Label) => metadata.labels.get(key) == Some(&self.installation_id),
        }
    }

    /// What a live object's tracking annotation says, if it has one.
    pub(super) fn tracking_id(&self, live: &Object) -> Option<Result<TrackingId, TrackingIdError>> {
        live.annotation(&self.annotation_key).map(|text| TrackingId::read(text, self.annotation_format))
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
            None => match self.tracking_id(live) {
                Some(Ok(id)) => is_same(&live.key(), &id.key, GroupMove::FromExtensions),
                Some(Err(_)) | None => true,
            },
        }
    }

    /// Whether the object's name was made from the `generateName` of the manifest that its mark is about (TRK-32).
    pub(super) fn made(&self, live: &Object) -> bool {
        let Some(Ok(id)) = self.tracking_id(live) else { return false };
        let prefix = live.metadata().generate_name.as_str();
        // The server shortens what leaves no room for its own part.
        let shortened = prefix.get(..GENERATED_BASE_MAX).unwrap_or(prefix);
        let is_made = !prefix.is_empty() && live.name().starts_with(shortened);
        let own = ResourceKey { name: live.metadata().name.clone(), ..id.key.clone() };
        id.key.name.is_empty() && is_made && is_same(&live.key(), &own, GroupMove::FromExtensions)
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
    use serde_json::{Value, json};
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
        let claim = |method| settings(method).mark(live.metadata());
        assert_eq!(claim(TrackingMethod::Annotation).as_deref(), Some("@ui"));
        assert_eq!(claim(TrackingMethod::AnnotationAndLabel).as_deref(), Some("@ui"));
        assert_eq!(claim(TrackingMethod::Label).as_deref(), Some("=chart"));
        assert_eq!(settings(TrackingMethod::Annotation).mark(secret("n", &json!({})).metadata()), None);
        assert_eq!(settings(TrackingMethod::Annotation).mark(marked("n", "rubbish").metadata()), None);
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
        assert_eq!(ours.mark(with("eu-1").metadata()).as_deref(), Some("@ui"));
        assert_eq!(ours.mark(with("eu-2").metadata()), None);
        assert_eq!(ours.mark(marked("shop", id).metadata()), None);
        assert_eq!(
            settings(TrackingMethod::Annotation).mark(with("eu-2").metadata()).as_deref(),
            Some("@ui")
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
}
