//! The watch index against a real API server.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;
use tiphys_cluster::{ApplyOptions, IndexEvent, KindState, ResourceFilter, Seen, Target};
use tiphys_object::{Gvk, ResourceKey};

use crate::support::{Bed, Permitted, TRACKING};

fn config_map(namespace: &str, name: &str, instance: &str) -> serde_json::Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace}, "data": {"k": "v"}});
    if !instance.is_empty() {
        object["metadata"]["annotations"] =
            json!({TRACKING: format!("{instance}:/ConfigMap:{namespace}/{name}")});
    }
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_12_every_kind_becomes_complete() {
    let Some(bed) = Bed::connect("eng_12_every_kind_becomes_complete").await else { return };
    let begun = tokio::time::Instant::now();
    let started = bed.index();
    started.index.ready().await.unwrap();
    println!("all kinds complete after {} ms (target 150)", begun.elapsed().as_millis());
    let states = started.index.kind_states();
    for (kind, state) in &states {
        assert!(matches!(state, KindState::Complete { .. }), "{kind}: {state:?}");
    }
    assert!(states.len() > 30, "{}", states.len());
    let missing = ResourceKey::new("", "ConfigMap", "default", "no-such-object");
    assert!(matches!(started.index.get(&missing), Seen::Absent));
    let event = ResourceKey::new("", "Event", "default", "x");
    assert!(matches!(started.index.get(&event), Seen::Unknown(_)), "ENG-7 excluded kinds are unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_25_tracked_objects_are_managed_and_their_changes_are_events() {
    let Some(bed) = Bed::connect("eng_25_tracked_objects").await else { return };
    bed.namespace("it-index").await;
    let target = Target::new(Gvk::new("", "v1", "ConfigMap"), "it-index", "ours");
    bed.remove(&target).await;
    bed.remove(&Target { name: "foreign".into(), ..target.clone() }).await;
    let mut started = bed.index();
    started.index.ready().await.unwrap();

    for object in [config_map("it-index", "foreign", ""), config_map("it-index", "ours", "it-app")] {
        bed.writer.create(&object.permit(), &object).await.unwrap();
    }
    let key = ResourceKey::new("", "ConfigMap", "it-index", "ours");
    let is_here =
        |event: &IndexEvent| matches!(event, IndexEvent::Changed { key, .. } if key.namespace == "it-index");
    let event = started.event(is_here).await;
    let IndexEvent::Changed { key: changed, applications, is_managed, is_deleted, .. } = event else {
        panic!()
    };
    assert_eq!(changed, key, "the untracked object makes no event (B16)");
    assert!(is_managed && !is_deleted && applications.contains("it-app"));
    let managed = started.index.managed(&["it-app"], &[]);
    assert_eq!(managed.objects.len(), 1);
    // Another test makes kinds of this group meanwhile.
    let is_ours = |kind: &tiphys_object::GroupKind| kind.group != "it.example.com";
    let incomplete: Vec<_> = managed.incomplete.iter().filter(|(kind, _)| is_ours(kind)).collect();
    assert!(incomplete.is_empty(), "{incomplete:?}");
    let text = String::from_utf8(managed.objects[0].raw().to_vec()).unwrap();
    assert!(!text.contains("managedFields") && text.contains("\"k\":\"v\""), "{text}");
    let foreign = ResourceKey::new("", "ConfigMap", "it-index", "foreign");
    assert!(matches!(started.index.get(&foreign), Seen::Reference { .. }));

    bed.remove(&target).await;
    let is_gone =
        |event: &IndexEvent| is_here(event) && matches!(event, IndexEvent::Changed { is_deleted: true, .. });
    started.event(is_gone).await;
    assert!(started.index.managed(&["it-app"], &[]).objects.is_empty());
    assert!(matches!(started.index.get(&key), Seen::Absent));
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_30_descendants_belong_to_the_application_of_their_owner() {
    let Some(bed) = Bed::connect("eng_30_descendants").await else { return };
    bed.namespace("it-tree").await;
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "it-tree",
            "annotations": {TRACKING: "it-tree:apps/Deployment:it-tree/web"}},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "registry.example/c:1"}]}}}});
    let target = Target::of(&deployment);
    bed.remove(&target).await;
    let mut started = bed.index();
    started.index.ready().await.unwrap();
    bed.writer.apply(&deployment.permit(), &deployment, &ApplyOptions::default()).await.unwrap();
    let is_ours = |event: &IndexEvent| {
        matches!(event, IndexEvent::Changed { key, applications, .. }
            if ["Deployment", "ReplicaSet"].contains(&key.kind.as_str()) && applications.contains("it-tree"))
    };
    // A ReplicaSet carries the annotations of its Deployment, and each kind has a watch of its own: either may be
    // told first.
    let mut told = BTreeSet::new();
    while told.len() < 2 {
        let IndexEvent::Changed { key, .. } = started.event(is_ours).await else { panic!() };
        told.insert(key.kind);
    }
    let root = ResourceKey::new("apps", "Deployment", "it-tree", "web");
    let nodes = started.index.tree(std::slice::from_ref(&root), &|_| true);
    assert_eq!(nodes[0].key, root);
    assert!(nodes[0].parents.is_empty() && nodes[0].object.is_some());
    let child = nodes.iter().find(|node| node.key.kind == "ReplicaSet").unwrap();
    assert_eq!(child.parents[0].key, root);
    assert_eq!(child.derived.as_ref().unwrap().health.as_ref().unwrap().0, "ReplicaSet");
    assert!(started.index.applications_of(&child.key).contains("it-tree"));
    bed.remove(&target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_16_new_definitions_are_watched_and_removed_ones_leave() {
    let Some(bed) = Bed::connect("eng_16_new_definitions").await else { return };
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.it.example.com"},
        "spec": {"group": "it.example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    let target = Target::of(&definition);
    bed.remove(&target).await;
    while bed.writer.get(&target).await.unwrap().is_some() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut started = bed.index();
    started.index.ready().await.unwrap();
    let applied =
        bed.writer.apply(&definition.permit(), &definition, &ApplyOptions::default()).await.unwrap();
    assert_eq!(
        applied.message,
        "customresourcedefinition.apiextensions.k8s.io/gadgets.it.example.com created"
    );
    let is_gadget = |wanted: bool| {
        move |event: &IndexEvent| {
            matches!(event, IndexEvent::KindChanged { group_kind, state }
                if group_kind.kind == "Gadget" && matches!(state, Some(KindState::Complete { .. })) == wanted
                    && state.is_some() == wanted)
        }
    };
    started.event(is_gadget(true)).await;
    let gadget = json!({"apiVersion": "it.example.com/v1", "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "default",
            "annotations": {TRACKING: "gadgets:it.example.com/Gadget:default/g"}}});
    bed.writer.apply(&gadget.permit(), &gadget, &ApplyOptions::default()).await.unwrap();
    started.event(|event| matches!(event, IndexEvent::Changed { key, .. } if key.kind == "Gadget")).await;
    bed.remove(&target).await;
    started.event(is_gadget(false)).await;
    assert!(started.index.managed(&["gadgets"], &[]).objects.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_16_objects_in_the_first_list_of_a_kind_that_comes_later_are_events() {
    let Some(bed) = Bed::connect("eng_16_first_list").await else { return };
    bed.namespace("it-late").await;
    let target = Target::new(Gvk::new("", "v1", "ConfigMap"), "it-late", "ours");
    bed.remove(&target).await;
    let late = config_map("it-late", "ours", "it-late");
    bed.writer.create(&late.permit(), &late).await.unwrap();
    let without = ResourceFilter::parse("- {apiGroups: [''], kinds: [ConfigMap]}", "").unwrap();
    let mut started = bed.index_with(|options| options.filter = without);
    started.index.ready().await.unwrap();
    let key = ResourceKey::new("", "ConfigMap", "it-late", "ours");
    assert!(matches!(started.index.get(&key), Seen::Unknown(_)));
    started.index.set_filter(ResourceFilter::default());
    let is_told = |event: &IndexEvent| matches!(event, IndexEvent::Changed { key: told, .. } if *told == key);
    started.event(is_told).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_21_namespaced_mode_watches_only_the_listed_namespaces() {
    let Some(bed) = Bed::connect("eng_21_namespaced_mode").await else { return };
    bed.namespace("it-scoped").await;
    let started = bed.index_with(|options| {
        options.namespaces = vec!["it-scoped".into()];
        options.cluster_resources = false;
    });
    started.index.ready().await.unwrap();
    assert!(started.index.kind_states().keys().all(|kind| kind.kind != "Namespace"));
    let inside = ResourceKey::new("", "ConfigMap", "it-scoped", "none");
    assert!(matches!(started.index.get(&inside), Seen::Absent));
    let outside = ResourceKey::new("", "ConfigMap", "default", "kube-root-ca.crt");
    assert!(matches!(started.index.get(&outside), Seen::Unknown(_)));
}
