//! Writes against a real API server.

use std::sync::Arc;

use serde_json::json;
use tiphys_cluster::{
    ApiError, ApplyMethod, ApplyOptions, DeleteOptions, Deleted, Known, ObjectEvent, ObjectQuery, Outcome,
    Propagation, Served, Target, watch_objects,
};
use tiphys_object::Gvk;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::{Bed, PATIENCE, Permitted, background};

fn config_map(name: &str, data: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "it-write"}, "data": {"k": data}})
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_180_client_side_apply_creates_configures_and_leaves_alone() {
    let Some(bed) = Bed::connect("eng_180_client_side_apply").await else { return };
    bed.namespace("it-write").await;
    let first = config_map("client", "one");
    bed.remove(&Target::of(&first)).await;
    let dry = ApplyOptions { is_dry_run: true, ..ApplyOptions::default() };
    let planned = bed.writer.apply(&first.permit(), &first, &dry).await.unwrap();
    assert_eq!(planned.message, "configmap/client created");
    assert!(bed.writer.get(&Target::of(&first)).await.unwrap().is_none(), "ENG-176");
    let mut messages = Vec::new();
    for object in [&first, &first, &config_map("client", "two")] {
        messages.push(
            bed.writer.apply(&object.permit(), object, &ApplyOptions::default()).await.unwrap().message,
        );
    }
    assert_eq!(
        messages,
        ["configmap/client created", "configmap/client unchanged", "configmap/client configured"]
    );
    let live = bed.writer.get(&Target::of(&first)).await.unwrap().unwrap();
    assert_eq!(live.to_value().unwrap()["data"]["k"], "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn f3_a_patch_for_an_older_state_is_made_anew() {
    let Some(bed) = Bed::connect("f3_older_state").await else { return };
    bed.namespace("it-write").await;
    let mut first = config_map("late", "one");
    bed.remove(&Target::of(&first)).await;
    bed.writer.apply(&first.permit(), &first, &ApplyOptions::default()).await.unwrap();
    let seen = bed.writer.get(&Target::of(&first)).await.unwrap().unwrap();
    // Somebody else applies another manifest, which the caller has not seen.
    let mut second = config_map("late", "two");
    second["data"]["more"] = "x".into();
    bed.writer.apply(&second.permit(), &second, &ApplyOptions::default()).await.unwrap();
    first["data"]["own"] = "y".into();
    let options = ApplyOptions { known: Known::Present(seen), ..ApplyOptions::default() };
    bed.writer.apply(&first.permit(), &first, &options).await.unwrap();
    let live = bed.writer.get(&Target::of(&first)).await.unwrap().unwrap().to_value().unwrap();
    assert_eq!(live["data"], json!({"k": "one", "own": "y"}));
    let record = &live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"];
    assert!(!record.as_str().unwrap().contains("more"));
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_175_server_side_apply_and_replace() {
    let Some(bed) = Bed::connect("eng_175_server_side").await else { return };
    bed.namespace("it-write").await;
    let object = config_map("server", "one");
    bed.remove(&Target::of(&object)).await;
    let server_side = ApplyOptions { method: ApplyMethod::ServerSide, ..ApplyOptions::default() };
    let applied = bed.writer.apply(&object.permit(), &object, &server_side).await.unwrap();
    assert_eq!(applied.message, "configmap/server serverside-applied");
    let replace = ApplyOptions { method: ApplyMethod::Replace, ..ApplyOptions::default() };
    let other = config_map("server", "two");
    let applied = bed.writer.apply(&other.permit(), &other, &replace).await.unwrap();
    assert_eq!(applied.message, "configmap/server replaced");
    assert_eq!(applied.object.unwrap().to_value().unwrap()["data"]["k"], "two");
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_175_force_replaces_what_cannot_be_changed() {
    let Some(bed) = Bed::connect("eng_175_force").await else { return };
    bed.namespace("it-write").await;
    let mut object = config_map("fixed", "one");
    object["immutable"] = true.into();
    bed.remove(&Target::of(&object)).await;
    bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap();
    object["data"]["k"] = "two".into();
    let refused = bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.reason()), (422, "Invalid"));
    let forced = ApplyOptions { is_forced: true, ..ApplyOptions::default() };
    let applied = bed.writer.apply(&object.permit(), &object, &forced).await.unwrap();
    assert_eq!(applied.outcome, Outcome::Replaced);
    bed.remove(&Target::of(&object)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_1_a_namesake_survives_a_deletion_by_uid() {
    let Some(bed) = Bed::connect("inv_1_a_namesake_survives").await else { return };
    bed.namespace("it-write").await;
    let object = config_map("namesake", "one");
    bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap();
    let other = DeleteOptions { uid: Some("0".into()), ..DeleteOptions::default() };
    let target = Target::of(&object);
    assert_eq!(bed.writer.delete(&target.permit(), &target, &other).await.unwrap(), Deleted::Absent);
    let live = bed.writer.get(&target).await.unwrap().unwrap();
    let right = DeleteOptions { uid: Some(live.metadata().uid.clone()), ..background() };
    assert_eq!(bed.writer.delete(&target.permit(), &target, &right).await.unwrap(), Deleted::Accepted);
    assert_eq!(bed.writer.delete(&target.permit(), &target, &right).await.unwrap(), Deleted::Absent);
}

/// A watch may be late: what changed since it was seen is read again, and goes only for a reason that still holds.
#[tokio::test(flavor = "multi_thread")]
async fn inv_1_an_object_that_changed_since_it_was_seen_is_looked_at_again() {
    let Some(bed) = Bed::connect("inv_1_an_object_that_changed").await else { return };
    bed.namespace("it-write").await;
    let mut object = config_map("changed", "one");
    let target = Target::of(&object);
    bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap();
    let seen = bed.writer.get(&target).await.unwrap().unwrap();
    object["data"]["k"] = "two".into();
    bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap();
    let go = Propagation::Background;
    let kept = bed.writer.delete_seen(&target.permit(), &target, &seen, go, |_| false).await.unwrap();
    assert_eq!(kept, Deleted::Absent);
    assert!(bed.writer.get(&target).await.unwrap().is_some());
    let gone = bed.writer.delete_seen(&target.permit(), &target, &seen, go, |_| true).await.unwrap();
    assert_eq!(gone, Deleted::Accepted);
    let again = bed.writer.delete_seen(&target.permit(), &target, &seen, go, |_| true).await.unwrap();
    assert_eq!(again, Deleted::Absent);
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_164_one_finalizer_is_removed_and_the_others_stay() {
    let Some(bed) = Bed::connect("eng_164_one_finalizer").await else { return };
    bed.namespace("it-write").await;
    let mut object = config_map("finalized", "one");
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap();
    let target = Target::of(&object);
    assert!(bed.writer.remove_finalizer(&target.permit(), &target, "example.com/a").await.unwrap());
    assert!(!bed.writer.remove_finalizer(&target.permit(), &target, "example.com/a").await.unwrap());
    let live = bed.writer.get(&target).await.unwrap().unwrap();
    assert_eq!(live.metadata().finalizers, ["example.com/b"]);
    assert!(bed.writer.remove_finalizer(&target.permit(), &target, "example.com/b").await.unwrap());
    bed.remove(&target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_180_a_kind_that_is_not_served_is_named() {
    let Some(bed) = Bed::connect("eng_180_not_served").await else { return };
    let object = json!({"apiVersion": "none.example/v1", "kind": "Nothing", "metadata": {"name": "a"}});
    let error = bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap_err();
    assert!(matches!(error, ApiError::NotServed(_)), "{error:?}");
    let hint = tiphys_cluster::hinted(&error, "Nothing");
    assert!(hint.contains("Make sure the \"Nothing\" CRD is installed"), "{hint}");
}

#[tokio::test(flavor = "multi_thread")]
async fn watched_objects_are_listed_followed_and_reported_gone() {
    let Some(bed) = Bed::connect("watched_objects").await else { return };
    bed.namespace("it-write").await;
    let mut object = config_map("followed", "one");
    object["metadata"]["labels"] = json!({"it": "followed"});
    let target = Target::of(&object);
    bed.remove(&target).await;
    let kinds = bed.discovery.kinds().await.unwrap();
    let Served::Yes(resource) = kinds.served(&Gvk::new("", "v1", "ConfigMap")) else { panic!() };
    let (sender, mut events) = mpsc::channel(16);
    let cancel = CancellationToken::new();
    let query = ObjectQuery {
        resource,
        namespace: "it-write".into(),
        label_selector: "it=followed".to_owned(),
        field_selector: String::new(),
    };
    let following =
        tokio::spawn(watch_objects(bed.connection.clone(), query, sender, Arc::new(|| 0.5), cancel.clone()));
    let mut next =
        async || tokio::time::timeout(PATIENCE, events.recv()).await.expect("an event").expect("open");
    assert!(matches!(next().await, ObjectEvent::Synced));
    bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap();
    let ObjectEvent::Upsert(seen) = next().await else { panic!("no upsert") };
    assert_eq!(seen.read().unwrap().name(), "followed");
    bed.remove(&target).await;
    assert!(matches!(next().await, ObjectEvent::Delete(key) if key.name == "followed"));
    cancel.cancel();
    following.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_177_a_binding_to_another_role_is_made_anew() {
    let Some(bed) = Bed::connect("eng_177_binding").await else { return };
    bed.namespace("it-write").await;
    let mut binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "bound", "namespace": "it-write"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "it-write"}]});
    bed.remove(&Target::of(&binding)).await;
    bed.writer.apply(&binding.permit(), &binding, &ApplyOptions::default()).await.unwrap();
    binding["roleRef"]["name"] = "two".into();
    bed.writer.apply(&binding.permit(), &binding, &ApplyOptions::default()).await.unwrap();
    let live = bed.writer.get(&Target::of(&binding)).await.unwrap().unwrap();
    assert_eq!(live.to_value().unwrap()["roleRef"]["name"], "two");
    bed.remove(&Target::of(&binding)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_178_server_side_apply_takes_fields_over_from_kubectl() {
    let Some(bed) = Bed::connect("eng_178_migration").await else { return };
    bed.namespace("it-write").await;
    let mut object = config_map("migrated", "one");
    let target = Target::of(&object);
    bed.remove(&target).await;
    object["data"]["old"] = "x".into();
    bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap();
    // Here our own name stands for kubectl's: it is the manager of the client-side apply above.
    let is_moved =
        bed.writer.migrate_client_side_apply(&target.permit(), &target, "argocd-controller").await.unwrap();
    assert!(is_moved);
    let again =
        bed.writer.migrate_client_side_apply(&target.permit(), &target, "argocd-controller").await.unwrap();
    assert!(!again);
    let server_side = ApplyOptions { method: ApplyMethod::ServerSide, ..ApplyOptions::default() };
    let applied = bed
        .writer
        .apply(&config_map("migrated", "one").permit(), &config_map("migrated", "one"), &server_side)
        .await
        .unwrap();
    assert!(applied.object.unwrap().to_value().unwrap()["data"].get("old").is_none());
    bed.remove(&target).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn eng_25_an_untracked_target_is_read_once_and_kept() {
    let Some(bed) = Bed::connect("eng_25_untracked_target").await else { return };
    bed.namespace("it-write").await;
    let object = config_map("untracked", "one");
    bed.writer.apply(&object.permit(), &object, &ApplyOptions::default()).await.unwrap();
    let started = bed.index();
    started.index.ready().await.unwrap();
    let target = Target::of(&object);
    let live = started.index.live(&bed.writer, &target).await.unwrap().unwrap();
    assert_eq!(live.to_value().unwrap()["data"]["k"], "one");
    assert!(matches!(started.index.get(&live.key()), tiphys_cluster::Seen::Present(_)));
    bed.remove(&target).await;
}
