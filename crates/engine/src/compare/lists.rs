//! Comparing against a list of live objects instead of a cluster: `tiphys eval`, rehearsals, tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use tiphys_api::Application;
use tiphys_api::names::annotation;
use tiphys_object::{GroupKind, Object, ObjectError, ResourceKey, access};

use super::input::{CompareInput, Scope, managed_namespace_changed};
use super::memo::DiffMemo;
use super::outcome::Comparison;
use super::status::compare;
use crate::diff::DiffSettings;
use crate::normalize::{IgnoreError, IgnoreRules};
use crate::seen::Seen;
use crate::tracking::{Ownership, Previous, TrackingSettings};

/// A complete picture of the live objects of a cluster.
#[derive(Clone, Debug, Default)]
pub struct LiveObjects {
    by_key: BTreeMap<ResourceKey, Arc<Object>>,
}

impl LiveObjects {
    /// Takes the objects; the last of several with one key stays.
    pub fn new(objects: impl IntoIterator<Item = Arc<Object>>) -> Self {
        Self { by_key: objects.into_iter().map(|object| (object.key(), object)).collect() }
    }

    /// Looks one object up; a complete picture always has an answer.
    pub fn look(&self, key: &ResourceKey) -> Seen<Arc<Object>> {
        self.by_key.get(key).map_or(Seen::Absent, |object| Seen::Present(Arc::clone(object)))
    }

    /// Root objects that name the application as their owner, sorted by key (TRK-85, TRK-86).
    pub fn managed(&self, ownership: &Ownership<'_>) -> Vec<Arc<Object>> {
        self.by_key
            .values()
            .filter(|object| ownership.owns(object))
            .filter(|object| is_root(object))
            .map(Arc::clone)
            .collect()
    }

    /// Objects that go when the application is deleted: managed ones that are no copies (TRK-94b). Custom
    /// resource definitions have no claim and stay (TRK-77).
    pub fn cascade(&self, ownership: &Ownership<'_>) -> Vec<Arc<Object>> {
        let mut objects = self.managed(ownership);
        objects.retain(|object| ownership.goes_with_application(object));
        objects
    }
}

/// Whether an object has no owner, real or inferred (TRK-86).
pub fn is_root(object: &Object) -> bool {
    if !object.metadata().owner_references.is_empty() {
        return false;
    }
    let gvk = object.gvk();
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Endpoints") => false,
        ("operators.coreos.com", "ClusterServiceVersion") => {
            object.annotation("olm.operatorGroup").is_none_or(str::is_empty)
        }
        ("", "Secret") => {
            let names_account = ["kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"]
                .iter()
                .all(|key| object.annotation(key).is_some());
            !(names_account
                && object
                    .to_value()
                    .is_ok_and(|value| access::text(&value, "type") == "kubernetes.io/service-account-token"))
        }
        _ => true,
    }
}

/// What [`compare_lists`] looks at.
#[derive(Clone, Copy)]
pub struct ListsInput<'a> {
    /// The application: name, namespace, destination, sync policy, ignore rules, annotations.
    pub application: &'a Application,
    /// Desired objects as generated, marks included.
    pub targets: &'a [Arc<Object>],
    /// Everything that lives in the cluster.
    pub live: &'a LiveObjects,
    /// Data of `argocd-cm`.
    pub settings: &'a BTreeMap<String, String>,
    /// Namespace the product runs in.
    pub control_plane_namespace: &'a str,
    /// Scope of a kind.
    pub scope: &'a dyn Fn(&GroupKind) -> Option<Scope>,
    /// Whether the settings exclude a kind.
    pub excluded: &'a dyn Fn(&GroupKind) -> bool,
    /// Whether the project lets the application see a live object.
    pub permitted_live: &'a dyn Fn(&Object) -> bool,
    /// Whether the project permits the group, kind and name.
    pub permitted_kind: &'a dyn Fn(&ResourceKey) -> bool,
}

/// Why lists cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListsError {
    /// The ignore rules or the settings are wrong.
    #[error(transparent)]
    Ignore(#[from] IgnoreError),
    /// A manifest is no object.
    #[error(transparent)]
    Object(#[from] ObjectError),
}

/// Compares an application with lists of objects, its settings read on the spot (EVAL-602).
pub fn compare_lists(input: &ListsInput<'_>) -> Result<Comparison, ListsError> {
    let application = input.application;
    let metadata = &application.metadata;
    let base = TrackingSettings::from_settings(input.settings, input.control_plane_namespace);
    let method = base.effective_method(application.annotation(annotation::TRACKING_METHOD));
    let tracking = base.with_method(method);
    let instance = tracking.instance_name(&metadata.namespace, &metadata.name);
    // No other applications are known here, and no change of settings is in progress.
    let ownership =
        Ownership { current: &tracking, previous: &Previous::Same, instance: &instance, others: &() };
    let ignore = IgnoreRules::compile(&application.spec.ignore_differences, input.settings)?;
    let namespace = match metadata.namespace.as_str() {
        "" => input.control_plane_namespace,
        own => own,
    };
    let policy = application.spec.sync_policy.as_ref();
    let compared = CompareInput {
        application_namespace: namespace,
        application_name: &metadata.name,
        destination_namespace: &application.spec.destination.namespace,
        targets: input.targets,
        managed: &input.live.managed(&ownership),
        by_key: &|key| input.live.look(key),
        scope: input.scope,
        excluded: input.excluded,
        permitted_live: input.permitted_live,
        permitted_kind: input.permitted_kind,
        ownership,
        ignore: &ignore,
        diff: &DiffSettings::from_settings(input.settings)?,
        sync_options: application.sync_options(),
        managed_namespace: policy.and_then(|policy| policy.managed_namespace_metadata.as_ref()),
        managed_namespace_changed: managed_namespace_changed(application),
    };
    Ok(compare(&compared, &mut DiffMemo::default()))
}

impl std::fmt::Debug for ListsInput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ListsInput").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{SyncStatusCode, builtin_scope};
    use serde_json::{Value, json};
    use tiphys_api::names::annotation;

    fn object(value: &Value) -> Arc<Object> {
        Arc::new(Object::from_value(value).unwrap())
    }

    fn marked(kind: &str, extra: &Value) -> Arc<Object> {
        let mut metadata = json!({"name": "k", "namespace": "shop",
            "annotations": {annotation::TRACKING_ID: format!("ui:/{kind}:shop/k")}});
        for (key, value) in extra.as_object().unwrap() {
            metadata[key] = value.clone();
        }
        object(&json!({"apiVersion": "v1", "kind": kind, "metadata": metadata}))
    }

    fn tracking() -> TrackingSettings {
        TrackingSettings::from_settings(&BTreeMap::new(), "argocd")
    }

    fn ownership<'a>(current: &'a TrackingSettings, instance: &'a str) -> Ownership<'a> {
        Ownership { current, previous: &Previous::Same, instance, others: &() }
    }

    #[test]
    fn trk_86_only_roots_claim() {
        let owned = marked(
            "Secret",
            &json!({"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]}),
        );
        let endpoints = marked("Endpoints", &json!({}));
        let root = marked("ConfigMap", &json!({}));
        let live = LiveObjects::new([owned, endpoints, Arc::clone(&root)]);
        assert_eq!(live.managed(&ownership(&tracking(), "ui")), [root]);
        assert!(live.managed(&ownership(&tracking(), "other")).is_empty());
    }

    #[test]
    fn trk_94b_copies_are_not_deleted_with_the_application() {
        let own = marked("Secret", &json!({}));
        let copy = marked("Secret", &json!({"namespace": "other"}));
        let live = LiveObjects::new([Arc::clone(&own), copy]);
        assert_eq!(live.managed(&ownership(&tracking(), "ui")).len(), 2);
        assert_eq!(live.cascade(&ownership(&tracking(), "ui")), [own]);
    }

    /// INV-17: the mark of an object with `generateName` has no name; the objects made from it go all the same.
    #[test]
    fn inv_17_objects_with_generated_names_go_with_the_application() {
        let job = |metadata: &Value| {
            let id = json!({annotation::TRACKING_ID: "ui:batch/Job:shop/"});
            let mut metadata = metadata.clone();
            metadata["annotations"] = id;
            object(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}))
        };
        let made = job(&json!({"name": "migrate-x7k2p", "namespace": "shop", "generateName": "migrate-"}));
        let long = "m".repeat(70);
        let cut = format!("{}abcde", "m".repeat(58));
        let shortened = job(&json!({"name": cut, "namespace": "shop", "generateName": long}));
        let elsewhere = job(&json!({"name": "migrate-1", "namespace": "other", "generateName": "migrate-"}));
        let renamed = job(&json!({"name": "copy", "namespace": "shop", "generateName": "migrate-"}));
        let named = job(&json!({"name": "migrate-2", "namespace": "shop"}));
        let live = LiveObjects::new([Arc::clone(&made), Arc::clone(&shortened), elsewhere, renamed, named]);
        assert_eq!(live.cascade(&ownership(&tracking(), "ui")), [made, shortened]);
        // They are still not compared nor pruned (TRK-93): a sync leaves what earlier ones made.
        for object in live.cascade(&ownership(&tracking(), "ui")) {
            assert!(!tracking().is_self_referenced(None, Some(&object)));
        }
    }

    #[test]
    fn eval_602_lists_are_compared() {
        let application: Application = serde_json::from_value(json!({"metadata": {"name": "ui"},
            "spec": {"project": "p", "destination": {"namespace": "shop"}}}))
        .unwrap();
        let targets = [object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}))];
        let input = ListsInput {
            application: &application,
            targets: &targets,
            live: &LiveObjects::default(),
            settings: &BTreeMap::new(),
            control_plane_namespace: "argocd",
            scope: &builtin_scope,
            excluded: &|_| false,
            permitted_live: &|_| true,
            permitted_kind: &|_| true,
        };
        let found = compare_lists(&input).unwrap();
        assert_eq!(found.status, SyncStatusCode::OutOfSync);
        assert_eq!(found.resources[0].key.to_string(), "/ConfigMap/shop/c");
    }

    /// INV-1: with prune on, such a `ConfigMap` lost its kind on its way into the destination namespace, and the
    /// live one, which Git still declares, looked as if it had left Git.
    #[test]
    fn inv_1_a_target_that_is_nested_too_deep_is_an_error_and_its_live_object_is_not_extra() {
        let mut deep = json!("x");
        for _ in 0..130 {
            deep = json!([deep]);
        }
        let own = marked("ConfigMap", &json!({}));
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap", "extra": deep, "metadata": {"name": "k",
            "annotations": {annotation::TRACKING_ID: "ui:/ConfigMap:shop/k"}}});
        // Refused where it becomes an object: nothing is compared.
        let Ok(target) = Object::from_value(&manifest) else { return };
        let application: Application = serde_json::from_value(json!({"metadata": {"name": "ui"},
            "spec": {"project": "p", "destination": {"namespace": "shop"}}}))
        .unwrap();
        let input = ListsInput {
            application: &application,
            targets: &[Arc::new(target)],
            live: &LiveObjects::new([own]),
            settings: &BTreeMap::new(),
            control_plane_namespace: "argocd",
            scope: &builtin_scope,
            excluded: &|_| false,
            permitted_live: &|_| true,
            permitted_kind: &|_| true,
        };
        let found = compare_lists(&input).unwrap();
        assert!(!found.resources.iter().any(|resource| resource.requires_pruning), "{found:#?}");
    }

    #[test]
    fn eng_41_built_in_kinds_have_a_known_scope() {
        let scope = |group, kind| builtin_scope(&GroupKind::new(group, kind));
        assert_eq!(scope("", "Namespace"), Some(Scope::Cluster));
        assert_eq!(scope("", "Secret"), Some(Scope::Namespaced));
        assert_eq!(scope("apps", "Deployment"), Some(Scope::Namespaced));
        assert_eq!(scope("acme.test", "Queue"), None);
    }
}
