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
    let live = object(live);
    let recorded = || if is_listed { [live.key()].into() } else { BTreeSet::new() };
    let stored = previous.map(TrackingSettings::profile);
    let previous = current.previous(stored.as_deref(), recorded);
    let of = Ownership { current, previous: &previous, instance: "ui", others: &() };
    of.of(&live) == Owned::Yes
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
            assert_eq!(seen, new.owns(object(&marked(&old)).metadata(), "ui"), "{before} to {now} without");
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
    assert!(owns(&none, Some(&eu), &marked(&eu), false), "an ID that was given up is not looked at (TRK-62)");
    let labels = ids("us-1", TrackingMethod::Label);
    assert!(!owns(&labels, Some(&us), &marked(&eu), true));
}

/// Applications that exist, by instance name.
struct Others(&'static [(&'static str, TrackingMethod)]);

impl Neighbours for Others {
    fn method_of(&self, instance: &str) -> Option<TrackingMethod> {
        self.0.iter().find(|(name, _)| *name == instance).map(|(_, method)| *method)
    }

    fn named_by(&self, _mark: &str) -> Option<SmolStr> {
        None
    }
}

#[test]
fn trk_91_an_annotation_of_another_application_wins_over_a_label() {
    let labels = method(TrackingMethod::Label);
    let both = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k", "namespace": "shop",
        "labels": {"app.kubernetes.io/instance": "ui"},
        "annotations": {"argocd.argoproj.io/tracking-id": "other:/Secret:shop/k"}}});
    let of = |others: &'static [(&str, TrackingMethod)], live: &Value| {
        let others = Others(others);
        Ownership { current: &labels, previous: &Previous::Same, instance: "ui", others: &others }
            .of(&object(live))
    };
    assert_eq!(of(&[("other", TrackingMethod::Annotation)], &both), Owned::No);
    assert_eq!(of(&[("other", TrackingMethod::Label)], &both), Owned::Yes, "it goes by labels itself");
    assert_eq!(of(&[], &both), Owned::Yes, "there is no such application");
    let mut copy = both;
    copy["metadata"]["name"] = "copy".into();
    assert_eq!(of(&[("other", TrackingMethod::Annotation)], &copy), Owned::Yes, "its annotation is a copy");
}

fn normalized(now: &TrackingSettings, previous: &Previous, live: &Value, target: &Value) -> Value {
    let ownership = Ownership { current: now, previous, instance: "ui", others: &() };
    let mut copy = live.clone();
    ownership.normalize_live(&object(live), &mut copy, target);
    copy
}

/// TRK-98: the record of what was applied last says the same as the marks.
#[test]
fn trk_98_the_record_of_the_last_apply_makes_no_difference_either() {
    let none = BTreeMap::new();
    let ignore = crate::normalize::IgnoreRules::compile(&[], &none).unwrap();
    let options =
        crate::diff::DiffOptions { ignore: &ignore, settings: crate::diff::DiffSettings::default() };
    for (before, now) in TrackingMethod::ALL.iter().flat_map(|a| TrackingMethod::ALL.map(|b| (*a, b))) {
        let (old, new) = (method(before), method(now));
        let (mut live, target) = (marked(&old), marked(&new));
        let record = live.to_string();
        live["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = record.into();
        let previous = new.previous(Some(&old.profile()), BTreeSet::new);
        let copy = normalized(&new, &previous, &live, &target);
        assert!(!crate::diff::is_modified(target, copy, &options).unwrap(), "{before} to {now}");
    }
}

/// TRK-98: in every direction, what was marked under the settings before compares equal.
#[test]
fn trk_98_a_changed_setting_makes_no_difference_in_any_direction() {
    let ids = [("", ""), ("", "eu-1"), ("eu-1", "eu-1")];
    for (before, now) in TrackingMethod::ALL.iter().flat_map(|a| TrackingMethod::ALL.map(|b| (*a, b))) {
        for (old_id, new_id) in ids {
            let with = |method: TrackingMethod, id: &str| {
                settings(&[("application.resourceTrackingMethod", method.as_str()), ("installationID", id)])
            };
            let (old, new) = (with(before, old_id), with(now, new_id));
            let (live, target) = (marked(&old), marked(&new));
            let previous = new.previous(Some(&old.profile()), BTreeSet::new);
            let copy = normalized(&new, &previous, &live, &target);
            let texts = |object: &Value| {
                let map = |name: &str| object["metadata"].get(name).cloned().unwrap_or_else(|| json!({}));
                (map("labels"), map("annotations"))
            };
            assert_eq!(texts(&copy), texts(&target), "{before} {old_id:?} to {now} {new_id:?}");
            if !new.is_same_profile(&old) {
                let ownership = Ownership { current: &new, previous: &previous, instance: "ui", others: &() };
                assert_eq!(
                    ownership.is_marked_otherwise(&object(&target), &object(&live)),
                    texts(&live) != texts(&target),
                    "{before} to {now}"
                );
            }
        }
    }
}

#[test]
fn trk_98_another_owner_and_other_texts_stay_visible() {
    let (old, new) = (method(TrackingMethod::Label), method(TrackingMethod::Annotation));
    let previous = new.previous(Some(&old.profile()), BTreeSet::new);
    let target = marked(&new);
    let mut stolen = marked(&old);
    stolen["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": "other:/Secret:shop/k"});
    let copy = normalized(&new, &previous, &stolen, &target);
    assert_eq!(copy["metadata"]["annotations"], stolen["metadata"]["annotations"]);
    let mut edited = marked(&old);
    edited["metadata"]["labels"]["tier"] = "gold".into();
    let copy = normalized(&new, &previous, &edited, &target);
    assert_eq!(copy["metadata"]["labels"], json!({"tier": "gold"}));
    // A chart's own label under the key that held ours.
    let mut chart = target;
    chart["metadata"]["labels"] = json!({"app.kubernetes.io/instance": "release"});
    let copy = normalized(&new, &previous, &marked(&old), &chart);
    assert_eq!(copy["metadata"]["labels"], chart["metadata"]["labels"]);
}

#[test]
fn trk_106_what_only_the_settings_before_find_is_released() {
    let (old, new) = (method(TrackingMethod::Label), method(TrackingMethod::Annotation));
    let previous = new.previous(Some(&old.profile()), BTreeSet::new);
    let ownership = Ownership { current: &new, previous: &previous, instance: "ui", others: &() };
    assert!(ownership.is_released_next(&object(&marked(&old))));
    assert!(!ownership.is_released_next(&object(&marked(&new))));
}

#[test]
fn trk_101_migration_can_be_switched_off() {
    let old = method(TrackingMethod::Label);
    let off = settings(&[("application.resourceTracking.migration", "off")]);
    assert_eq!(off.previous(Some(&old.profile()), BTreeSet::new), Previous::Same);
}

/// TRK-102, INV-17: the method changed in the middle of a sync and once more; by whichever method the application has marked
/// an object that it says it has applied, the object goes with it, unless an annotation says whose it is.
#[test]
fn trk_102_marks_made_in_passing_are_the_applications() {
    let eu = |method: TrackingMethod| {
        settings(&[
            ("application.resourceTrackingMethod", method.as_str()),
            ("installationID", "eu-1"),
            ("installationID.carrier", "annotation-strict"),
        ])
    };
    for now in TrackingMethod::ALL {
        let is_marked = |current: &TrackingSettings, live: &Value| {
            let of = Ownership { current, previous: &Previous::Same, instance: "ui", others: &() };
            of.is_marked_in_passing(&object(live))
        };
        for between in TrackingMethod::ALL {
            assert!(is_marked(&method(now), &marked(&method(between))), "{between}, now {now}");
            assert!(is_marked(&eu(now), &marked(&eu(between))), "{between}, now {now}, with ID");
            assert!(!is_marked(&method(now), &marked(&eu(between))), "{between}: another installation's");
        }
        let mut moved = marked(&method(TrackingMethod::Label));
        moved["metadata"]["annotations"] = json!({"argocd.argoproj.io/tracking-id": "db:/Secret:shop/k"});
        assert!(!is_marked(&method(now), &moved), "of another application, now {now}");
        let plain =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k", "namespace": "shop"}});
        assert!(!is_marked(&method(now), &plain));
    }
}

#[test]
fn trk_143_objects_are_told_apart_by_whose_marks_they_bear() {
    let current = settings(&[("installationID", "eu-1")]);
    let of = Ownership { current: &current, previous: &Previous::Same, instance: "ui", others: &() };
    let with = |annotations: Value| {
        let mut live =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k", "namespace": "shop"}});
        live["metadata"]["annotations"] = annotations;
        of.marked(&object(&live))
    };
    let id = |text: &str, installation: &str| json!({"argocd.argoproj.io/tracking-id": text, "argocd.argoproj.io/installation-id": installation});
    assert_eq!(with(id("ui:/Secret:shop/k", "eu-1")), Marked::Owned);
    assert_eq!(with(id("ui:/Secret:shop/other", "eu-1")), Marked::Copy);
    assert_eq!(with(id("db:/Secret:shop/k", "eu-1")), Marked::Foreign);
    assert_eq!(with(id("ui:/Secret:shop/k", "us-1")), Marked::Foreign);
    assert_eq!(with(json!({})), Marked::Unowned);
}
