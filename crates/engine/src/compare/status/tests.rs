use super::*;
use crate::compare::Scope;
use crate::diff::DiffSettings;
use crate::normalize::IgnoreRules;
use crate::seen::Seen;
use crate::tracking::{Previous, TrackingMethod, TrackingSettings};
use serde_json::{Value, json};
use std::cell::Cell;
use tiphys_api::application::NamespaceMetadata;
use tiphys_object::GroupKind;

/// A comparison of application `argocd/ui` with destination namespace `shop`.
struct Case {
    targets: Vec<Arc<Object>>,
    managed: Vec<Arc<Object>>,
    others: Vec<Arc<Object>>,
    unknown: Option<&'static str>,
    excluded: Option<GroupKind>,
    hidden: Option<&'static str>,
    forbidden: Option<&'static str>,
    tracking: TrackingSettings,
    previous: Previous,
    sync_options: Vec<String>,
    managed_namespace: Option<NamespaceMetadata>,
    managed_namespace_changed: bool,
    destination: &'static str,
    looks: Cell<usize>,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            managed: Vec::new(),
            others: Vec::new(),
            unknown: None,
            excluded: None,
            hidden: None,
            forbidden: None,
            tracking: TrackingSettings::from_settings(&BTreeMap::new(), "argocd"),
            previous: Previous::Same,
            sync_options: Vec::new(),
            managed_namespace: None,
            managed_namespace_changed: false,
            destination: "shop",
            looks: Cell::new(0),
        }
    }
}

impl Case {
    fn run(&self) -> Comparison {
        self.run_with(&mut DiffMemo::default())
    }

    fn run_with(&self, memo: &mut DiffMemo) -> Comparison {
        let by_key = |key: &ResourceKey| {
            self.looks.set(self.looks.get() + 1);
            match self.unknown {
                Some(why) => Seen::Unknown(why.to_owned()),
                None => match self.others.iter().find(|object| object.key() == *key) {
                    Some(object) => Seen::Present(Arc::clone(object)),
                    None => Seen::Absent,
                },
            }
        };
        let scope = |kind: &GroupKind| match kind.kind.as_str() {
            "Namespace" | "ClusterRole" | "CustomResourceDefinition" => Some(Scope::Cluster),
            "Mystery" => None,
            _ => Some(Scope::Namespaced),
        };
        let input = CompareInput {
            application_namespace: "argocd",
            application_name: "ui",
            destination_namespace: self.destination,
            targets: &self.targets,
            managed: &self.managed,
            by_key: &by_key,
            scope: &scope,
            excluded: &|kind| self.excluded.as_ref() == Some(kind),
            permitted_live: &|object| self.hidden != Some(object.name()),
            permitted_kind: &|key| self.forbidden != Some(key.name.as_str()),
            ownership: Ownership {
                current: &self.tracking,
                previous: &self.previous,
                instance: "ui",
                others: &(),
            },
            ignore: &IgnoreRules::compile(&[], &BTreeMap::new()).unwrap(),
            diff: &DiffSettings::default(),
            sync_options: &self.sync_options,
            managed_namespace: self.managed_namespace.as_ref(),
            managed_namespace_changed: self.managed_namespace_changed,
        };
        compare(&input, memo)
    }
}

fn object(value: &Value) -> Arc<Object> {
    Arc::new(Object::from_value(value).unwrap())
}

fn edited(base: &Arc<Object>, edit: impl FnOnce(&mut Value)) -> Arc<Object> {
    let mut value = base.to_value().unwrap();
    edit(&mut value);
    object(&value)
}

/// A config map as generated: marked, without a namespace.
fn config_map(name: &str, value: &str) -> Arc<Object> {
    object(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "annotations":
        {"argocd.argoproj.io/tracking-id": format!("ui:/ConfigMap:shop/{name}")}}, "data": {"k": value}}))
}

/// The same, as it lives in `shop`.
fn live(name: &str, value: &str) -> Arc<Object> {
    edited(&config_map(name, value), |object| {
        object["metadata"]["namespace"] = json!("shop");
        object["metadata"]["uid"] = json!(format!("uid-{name}"));
        object["metadata"]["resourceVersion"] = json!("1");
    })
}

fn annotated(base: &Arc<Object>, key: &str, text: &str) -> Arc<Object> {
    edited(base, |object| tiphys_object::access::set_annotation(object, key, text))
}

fn statuses(comparison: &Comparison) -> Vec<(String, &'static str)> {
    comparison
        .resources
        .iter()
        .map(|resource| (resource.key.to_string(), resource.status.map_or("", SyncStatusCode::as_str)))
        .collect()
}

fn messages(comparison: &Comparison) -> Vec<String> {
    comparison
        .conditions
        .iter()
        .map(|condition| format!("{}: {}", condition.r#type, condition.message))
        .collect()
}

fn only(comparison: &Comparison) -> &ComparedResource {
    assert_eq!(comparison.resources.len(), 1, "{:?}", statuses(comparison));
    &comparison.resources[0]
}

#[test]
fn eval_602_a_missing_object_is_out_of_sync() {
    let found = Case { targets: vec![config_map("c", "1")], ..Case::default() }.run();
    assert_eq!(found.status, SyncStatusCode::OutOfSync);
    assert_eq!(statuses(&found), [("/ConfigMap/shop/c".to_owned(), "OutOfSync")]);
    assert!(!only(&found).requires_pruning);
}

#[test]
fn eng_51_equal_objects_are_synced_and_others_not() {
    let targets = vec![config_map("a", "1"), config_map("b", "1")];
    let found =
        Case { targets: targets.clone(), managed: vec![live("a", "1"), live("b", "1")], ..Case::default() }
            .run();
    assert_eq!(found.status, SyncStatusCode::Synced);
    let found = Case { targets, managed: vec![live("a", "1"), live("b", "2")], ..Case::default() }.run();
    assert_eq!(found.status, SyncStatusCode::OutOfSync);
    assert_eq!(
        statuses(&found),
        [("/ConfigMap/shop/a".to_owned(), "Synced"), ("/ConfigMap/shop/b".to_owned(), "OutOfSync")]
    );
}

#[test]
fn eng_51_extra_objects_need_pruning() {
    let found = Case { managed: vec![live("x", "1")], ..Case::default() }.run();
    assert_eq!(found.status, SyncStatusCode::OutOfSync);
    assert!(only(&found).requires_pruning && !only(&found).modified);
    let tolerated = annotated(&live("x", "1"), "argocd.argoproj.io/compare-options", "IgnoreExtraneous");
    let found = Case { managed: vec![tolerated], ..Case::default() }.run();
    assert_eq!(found.status, SyncStatusCode::Synced);
    assert_eq!(only(&found).status, Some(SyncStatusCode::OutOfSync));
    assert!(only(&found).requires_pruning);
}

#[test]
fn eng_41_objects_get_their_namespace_and_a_new_mark() {
    let role = object(&json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r", "namespace": "wrong"}}));
    let mystery = object(&json!({"apiVersion": "x/v1", "kind": "Mystery", "metadata": {"name": "m"}}));
    let found = Case { targets: vec![config_map("c", "1"), role, mystery], ..Case::default() }.run();
    let keys: Vec<String> = found.resources.iter().map(|resource| resource.key.to_string()).collect();
    assert_eq!(keys, ["/ConfigMap/shop/c", "rbac.authorization.k8s.io/ClusterRole//r", "x/Mystery/shop/m"]);
    let mark = |index: usize| {
        found.resources[index]
            .target
            .as_ref()
            .unwrap()
            .annotation("argocd.argoproj.io/tracking-id")
            .unwrap()
            .to_owned()
    };
    assert_eq!(mark(1), "ui:rbac.authorization.k8s.io/ClusterRole:shop/r");
    assert_eq!(mark(2), "ui:x/Mystery:shop/m");
}

#[test]
fn trk_78_a_misplaced_crd_is_not_marked() {
    let crd = object(&json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "c", "namespace": "wrong"}}));
    let found = Case { targets: vec![crd], ..Case::default() }.run();
    let target = only(&found).target.clone().unwrap();
    assert_eq!(target.namespace(), "");
    assert_eq!(target.annotation("argocd.argoproj.io/tracking-id"), None);
}

#[test]
fn eng_42_repeats_collapse_to_the_last() {
    let targets = vec![config_map("c", "1"), config_map("d", "1"), config_map("c", "2")];
    let found = Case { targets, managed: vec![live("c", "2"), live("d", "1")], ..Case::default() }.run();
    assert_eq!(found.status, SyncStatusCode::Synced);
    assert_eq!(
        messages(&found),
        ["RepeatedResourceWarning: Resource /ConfigMap/shop/c appeared 2 times among application resources."]
    );
}

#[test]
fn eng_42_generated_names_do_not_collide() {
    let job = object(&json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "j-"}}));
    let found = Case { targets: vec![Arc::clone(&job), job], ..Case::default() }.run();
    assert_eq!(found.resources.len(), 2);
    assert!(found.conditions.is_empty());
}

#[test]
fn eng_43_excluded_kinds_are_dropped() {
    let case = Case {
        targets: vec![config_map("c", "1")],
        excluded: Some(GroupKind::new("", "ConfigMap")),
        ..Case::default()
    };
    let found = case.run();
    assert!(found.resources.is_empty());
    assert_eq!(
        messages(&found),
        ["ExcludedResourceWarning: Resource /ConfigMap c is excluded in the settings"]
    );
}

#[test]
fn eng_44_hidden_live_objects_are_neither_compared_nor_pruned() {
    let found = Case { managed: vec![live("x", "1")], hidden: Some("x"), ..Case::default() }.run();
    assert!(found.resources.is_empty());
    let found = Case {
        targets: vec![config_map("x", "1")],
        others: vec![live("x", "1")],
        hidden: Some("x"),
        ..Case::default()
    }
    .run();
    assert!(only(&found).live.is_none());
}

#[test]
fn trk_131_shared_objects_are_warned_about() {
    let foreign = edited(&live("c", "1"), |object| {
        object["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"] =
            json!("ops_vault:/ConfigMap:shop/c");
    });
    let found = Case { targets: vec![config_map("c", "1")], others: vec![foreign], ..Case::default() }.run();
    assert_eq!(
        messages(&found),
        ["SharedResourceWarning: ConfigMap/c is part of applications argocd/ui and ops/vault"]
    );
    assert_eq!(found.status, SyncStatusCode::OutOfSync, "the other owner is a difference");
    assert_eq!(
        shared_warning("argocd/ui", "Secret", "k", "ops_vault"),
        "Secret/k is part of applications argocd/ui and ops/vault"
    );
}

#[test]
fn trk_132_a_sync_may_fail_on_shared_objects() {
    let shared = |message: &str, owner_exists| SharedResource { message: message.to_owned(), owner_exists };
    let found = [shared("b", true), shared("a", false)];
    let fails = |option: &str, shared: &[SharedResource]| fail_on_shared(&[option.to_owned()], shared);
    let on = "FailOnSharedResource=true";
    assert_eq!(fails(on, &found).as_deref(), Some("Shared resource found: a"));
    assert_eq!(fails(on, &[]), None);
    assert_eq!(fails("Prune=false", &found), None);
    let existing = "FailOnSharedResource=existing";
    assert_eq!(fails(existing, &found).as_deref(), Some("Shared resource found: b"), "TRK-134");
    assert_eq!(fails(existing, &found[1..]), None, "a label that a chart made");
}

#[test]
fn eng_47_hooks_are_set_aside() {
    let pre_sync = annotated(&config_map("h", "1"), "argocd.argoproj.io/hook", "PreSync");
    let wave = annotated(&pre_sync, "argocd.argoproj.io/sync-wave", "-3");
    let ignored = annotated(&config_map("i", "1"), "argocd.argoproj.io/hook", "Nonsense");
    let deletion = annotated(&config_map("d", "1"), "argocd.argoproj.io/hook", "PostDelete");
    let live_hook = edited(&wave, |object| object["metadata"]["namespace"] = json!("shop"));
    let found =
        Case { targets: vec![wave, ignored, deletion], managed: vec![live_hook], ..Case::default() }.run();
    assert_eq!(found.hooks.iter().map(|hook| hook.name()).collect::<Vec<_>>(), ["h"]);
    assert_eq!(found.status, SyncStatusCode::Synced);
    let hook = only(&found);
    assert!(hook.hook && hook.status.is_none() && hook.target.is_none());
    assert_eq!(hook.sync_wave, -3);
}

#[test]
fn eng_51_skipped_objects_have_no_status() {
    let skipped = annotated(&config_map("c", "1"), "argocd.argoproj.io/hook", "Skip");
    let found = Case { targets: vec![skipped], ..Case::default() }.run();
    assert_eq!(found.status, SyncStatusCode::Synced);
    assert_eq!(only(&found).status, None);
    assert!(!only(&found).hook);
}

#[test]
fn trk_93_copies_do_not_count() {
    let copy = edited(&live("c", "1"), |object| object["metadata"]["namespace"] = json!("other"));
    let found = Case { managed: vec![copy], ..Case::default() }.run();
    assert_eq!(found.status, SyncStatusCode::Synced);
    assert_eq!(only(&found).status, None);
    assert!(!only(&found).requires_pruning && !only(&found).self_referenced);
}

#[test]
fn eng_47_unknown_scopes_are_looked_for_in_both_places() {
    let mystery = |namespace: Option<&str>| {
        let mut value = json!({"apiVersion": "x/v1", "kind": "Mystery", "metadata": {"name": "m", "annotations":
            {"argocd.argoproj.io/tracking-id": "ui:x/Mystery:shop/m"}}});
        if let Some(namespace) = namespace {
            value["metadata"]["namespace"] = json!(namespace);
        }
        object(&value)
    };
    for namespace in [Some("shop"), None] {
        let found =
            Case { targets: vec![mystery(None)], managed: vec![mystery(namespace)], ..Case::default() }.run();
        assert_eq!(found.status, SyncStatusCode::Synced, "{namespace:?}");
    }
}

#[test]
fn trk_130_unclaimed_objects_are_adopted() {
    let by_hand = edited(&live("c", "1"), |object| {
        object["metadata"].as_object_mut().unwrap().remove("annotations");
    });
    let found = Case { targets: vec![config_map("c", "1")], others: vec![by_hand], ..Case::default() }.run();
    assert!(only(&found).live.is_some());
    assert_eq!(found.status, SyncStatusCode::OutOfSync, "the mark is missing (TRK-96)");
}

#[test]
fn eng_48_other_views_of_one_object_are_dropped() {
    let view = |group: &str| {
        object(
            &json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": "t", "namespace": "shop", "uid": "u",
            "annotations": {"argocd.argoproj.io/tracking-id": "ui:b.test/Thing:shop/t"}}}),
        )
    };
    let found = Case {
        targets: vec![view("b.test")],
        managed: vec![view("a.test"), view("b.test"), view("c.test")],
        ..Case::default()
    }
    .run();
    assert_eq!(only(&found).key.group, "b.test");
    let found =
        Case { managed: vec![view("c.test"), view("a.test"), view("b.test")], ..Case::default() }.run();
    assert_eq!(only(&found).key.group, "a.test");
    let nameless = |name: &str| edited(&live(name, "1"), |object| object["metadata"]["uid"] = json!(""));
    let found = Case { managed: vec![nameless("x"), nameless("y")], ..Case::default() }.run();
    assert_eq!(found.resources.len(), 2);
}

#[test]
fn eng_49_the_managed_namespace_is_wanted() {
    let namespace = object(
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b", "kubernetes.io/metadata.name": "shop"},
        "annotations": {"argocd.argoproj.io/sync-options": "ServerSideApply=true", "argocd.argoproj.io/tracking-id": "ui:/Namespace:/shop"}}}),
    );
    let wanted = NamespaceMetadata {
        labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        ..NamespaceMetadata::default()
    };
    let case =
        Case { managed: vec![Arc::clone(&namespace)], managed_namespace: Some(wanted), ..Case::default() };
    let found = case.run();
    assert_eq!(statuses(&found), [("/Namespace//shop".to_owned(), "Synced")]);
    assert!(!only(&found).requires_pruning);
    let without = Case { managed: vec![namespace], ..Case::default() }.run();
    assert!(only(&without).requires_pruning);
}

#[test]
fn eng_51_a_managed_namespace_that_is_missing_is_no_difference() {
    let target = object(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}));
    let case = Case {
        targets: vec![target],
        managed_namespace: Some(NamespaceMetadata::default()),
        ..Case::default()
    };
    assert_eq!(case.run().status, SyncStatusCode::Synced);
    assert_eq!(Case { managed_namespace: None, ..case }.run().status, SyncStatusCode::OutOfSync);
}

#[test]
fn eng_51_changed_namespace_metadata_is_a_difference() {
    assert_eq!(
        Case { managed_namespace_changed: true, ..Case::default() }.run().status,
        SyncStatusCode::OutOfSync
    );
}

#[test]
fn eng_50_a_missing_namespace_is_named() {
    let found = Case { targets: vec![config_map("c", "1")], destination: "", ..Case::default() }.run();
    assert_eq!(messages(&found), ["InvalidSpecError: Namespace for c /v1, Kind=ConfigMap is missing."]);
}

#[test]
fn eng_51_kinds_the_project_forbids_are_unknown() {
    let found = Case {
        targets: vec![config_map("c", "1")],
        managed: vec![live("c", "1")],
        forbidden: Some("c"),
        ..Case::default()
    }
    .run();
    assert_eq!(only(&found).status, Some(SyncStatusCode::Unknown));
    assert_eq!(found.status, SyncStatusCode::Synced);
}

#[test]
fn eng_53_a_look_without_an_answer_makes_everything_unknown() {
    let case = Case {
        targets: vec![config_map("a", "1"), config_map("b", "1")],
        managed: vec![live("b", "1")],
        unknown: Some("cluster is gone"),
        ..Case::default()
    };
    let found = case.run();
    assert_eq!(found.status, SyncStatusCode::Unknown);
    assert_eq!(
        statuses(&found),
        [("/ConfigMap/shop/a".to_owned(), "Unknown"), ("/ConfigMap/shop/b".to_owned(), "Unknown")]
    );
    assert_eq!(found.failed.as_deref(), Some("Failed to load live state: cluster is gone"));
    assert_eq!(messages(&found), ["ComparisonError: Failed to load live state: cluster is gone"]);
}

#[test]
fn eng_52_confirmation_comes_from_the_object_then_the_application() {
    let needs = |annotation: Option<&str>, options: &[&str]| {
        let target = match annotation {
            Some(text) => annotated(&config_map("c", "1"), "argocd.argoproj.io/sync-options", text),
            None => config_map("c", "1"),
        };
        let sync_options = options.iter().map(|option| (*option).to_owned()).collect();
        only(&Case { targets: vec![target], sync_options, ..Case::default() }.run())
            .requires_deletion_confirmation
    };
    assert!(!needs(None, &[]));
    assert!(needs(Some("Prune=confirm"), &[]));
    assert!(needs(Some("Delete=confirm"), &[]));
    assert!(needs(None, &["Prune=confirm"]));
    assert!(!needs(Some("Prune=false"), &["Prune=confirm"]));
    assert!(needs(Some("Prune=false"), &["Delete=confirm"]));
}

#[test]
fn eng_39_a_change_of_method_is_no_difference() {
    let labelled = edited(&live("c", "1"), |object| {
        object["metadata"].as_object_mut().unwrap().remove("annotations");
        object["metadata"]["labels"] = json!({"app.kubernetes.io/instance": "ui"});
    });
    let found =
        Case { targets: vec![config_map("c", "1")], others: vec![Arc::clone(&labelled)], ..Case::default() }
            .run();
    assert_eq!(found.status, SyncStatusCode::Synced);
    let tracking =
        TrackingSettings::from_settings(&BTreeMap::new(), "argocd").with_method(TrackingMethod::Label);
    let found = Case { managed: vec![labelled], tracking, ..Case::default() }.run();
    assert!(only(&found).requires_pruning);
}

#[test]
fn sty_101_unchanged_pairs_come_from_the_memo() {
    let mut memo = DiffMemo::default();
    let case = Case { targets: vec![config_map("a", "1")], managed: vec![live("a", "1")], ..Case::default() };
    let first = case.run_with(&mut memo);
    let again = case.run_with(&mut memo);
    assert!(
        Arc::ptr_eq(first.resources[0].target.as_ref().unwrap(), again.resources[0].target.as_ref().unwrap()),
        "the defaulted object is the same one"
    );
    assert_eq!(again.status, SyncStatusCode::Synced);
    let changed =
        Case { targets: vec![config_map("a", "1")], managed: vec![live("a", "2")], ..Case::default() };
    assert_eq!(changed.run_with(&mut memo).status, SyncStatusCode::OutOfSync);
    assert_eq!(case.run_with(&mut memo).status, SyncStatusCode::Synced);
}

#[test]
fn trk_87_claimed_objects_are_not_looked_up() {
    let case = Case { targets: vec![config_map("a", "1")], managed: vec![live("a", "1")], ..Case::default() };
    case.run();
    assert_eq!(case.looks.get(), 0);
}
