use super::*;
use serde_json::json;
use std::collections::BTreeMap;

fn settings(method: &str, id: &str) -> TrackingSettings {
    let map = BTreeMap::from([
        ("application.resourceTrackingMethod".to_owned(), method.to_owned()),
        ("installationID".to_owned(), id.to_owned()),
    ]);
    TrackingSettings::from_settings(&map, "argocd")
}

fn secret(metadata: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})
}

fn stamped(settings: &TrackingSettings, mut object: Value) -> Value {
    settings.stamp(&mut object, "ui", "shop").unwrap();
    object
}

#[test]
fn trk_20_marks_overwrite_what_is_there() {
    let object = stamped(
        &settings("annotation", ""),
        secret(&json!({"name": "k", "annotations": {"argocd.argoproj.io/tracking-id": "x", "a": "b"}})),
    );
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"argocd.argoproj.io/tracking-id": "ui:/Secret:shop/k", "a": "b"})
    );
}

#[test]
fn trk_21_annotation_leaves_the_label_alone() {
    let labels = json!({"app.kubernetes.io/instance": "chart"});
    let object = stamped(&settings("annotation", ""), secret(&json!({"name": "k", "labels": labels})));
    assert_eq!(object["metadata"]["labels"], labels);
}

#[test]
fn trk_22_label_leaves_annotations_alone() {
    let annotations =
        json!({"argocd.argoproj.io/tracking-id": "x", "argocd.argoproj.io/installation-id": "y"});
    let object = stamped(&settings("label", "id"), secret(&json!({"name": "k", "annotations": annotations})));
    assert_eq!(object["metadata"]["annotations"], annotations);
    assert_eq!(object["metadata"]["labels"], json!({"app.kubernetes.io/instance": "ui"}));
}

#[test]
fn trk_23_the_installation_id_is_set_or_removed() {
    let with = stamped(&settings("annotation", "eu-1"), secret(&json!({"name": "k"})));
    assert_eq!(with["metadata"]["annotations"]["argocd.argoproj.io/installation-id"], "eu-1");
    let without = stamped(&settings("annotation", ""), with);
    assert_eq!(
        without["metadata"]["annotations"],
        json!({"argocd.argoproj.io/tracking-id": "ui:/Secret:shop/k"})
    );
}

#[test]
fn trk_24_null_maps_count_as_empty() {
    let object = stamped(
        &settings("annotation+label", ""),
        secret(&json!({"name": "k", "annotations": null, "labels": null})),
    );
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"argocd.argoproj.io/tracking-id": "ui:/Secret:shop/k"})
    );
    assert_eq!(object["metadata"]["labels"], json!({"app.kubernetes.io/instance": "ui"}));
}

#[test]
fn trk_24_values_that_are_no_text_fail() {
    let fail = |method: &str, id: &str, metadata: Value| {
        settings(method, id).stamp(&mut secret(&metadata), "ui", "shop").unwrap_err().to_string()
    };
    assert_eq!(
        fail("annotation", "", json!({"name": "k", "namespace": "n", "annotations": {"a": 1}})),
        "failed to set app instance tracking info on manifest: failed to get annotations for /v1, Kind=Secret n/k: \
         .metadata.annotations accessor error: contains non-string value in the map under key \"a\": \
         1 is of the type int64, expected string"
    );
    assert_eq!(
        fail("annotation", "id", json!({"name": "k", "annotations": {"a": null}})),
        "failed to set app instance tracking info on manifest: failed to get annotations from target object \
         /v1, Kind=Secret /k: .metadata.annotations accessor error: contains non-string value in the map under \
         key \"a\": <nil> is of the type <nil>, expected string"
    );
    assert_eq!(
        fail("label", "", json!({"name": "k", "labels": {"a": {"b": [true, 1.5]}}})),
        "failed to set app instance tracking info on manifest: failed to set app instance label: failed to get labels \
         from target object /v1, Kind=Secret /k: .metadata.labels accessor error: contains non-string value in the map \
         under key \"a\": map[b:[true 1.5]] is of the type map[string]interface {}, expected string"
    );
    // The other map is not looked at.
    assert!(settings("label", "").stamp(&mut secret(&json!({"annotations": {"a": 1}})), "ui", "").is_ok());
}

#[test]
fn trk_25_pod_templates_are_left_alone_but_for_the_legacy_key() {
    let workload = json!({"apiVersion": "extensions/v1beta1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"template": {"metadata": {"labels": {"a": "b"}}}}});
    let object = stamped(&settings("label", ""), workload.clone());
    assert_eq!(object["spec"], workload["spec"]);
    let legacy = TrackingSettings { label_key: LEGACY_LABEL_KEY.into(), ..settings("label", "") };
    let object = stamped(&legacy, workload);
    assert_eq!(
        object["spec"]["template"]["metadata"]["labels"],
        json!({"a": "b", "applications.argoproj.io/app-name": "ui"})
    );
    assert_eq!(object["spec"]["selector"]["matchLabels"], json!({"a": "b"}));
}

#[test]
fn trk_42_long_names_are_cut() {
    let a = |n: usize| "a".repeat(n);
    assert_eq!(truncated_label(&format!("{}-b", a(62))), Some(a(62).as_str()));
    assert_eq!(truncated_label(&format!("{}b", a(63))), Some(a(63).as_str()));
    let short = format!("{}-", a(62));
    assert_eq!(truncated_label(&short), Some(short.as_str()));
}

#[test]
fn trk_41_a_split_character_is_removed_whole() {
    assert_eq!(truncated_label(&format!("{}äb", "a".repeat(62))), Some("a".repeat(62).as_str()));
}

#[test]
fn trk_40_nothing_left_is_an_error() {
    assert_eq!(truncated_label(&"-".repeat(64)), None);
    let fault =
        settings("annotation+label", "").stamp(&mut secret(&json!({"name": "k"})), &"-".repeat(64), "");
    assert_eq!(
        fault.unwrap_err().to_string(),
        "failed to set app instance label: unable to truncate label to not end with a special character"
    );
}

#[test]
fn trk_44_label_never_truncates() {
    let name = "a".repeat(70);
    let mut object = secret(&json!({"name": "k"}));
    settings("label", "").stamp(&mut object, &name, "").unwrap();
    assert_eq!(object["metadata"]["labels"]["app.kubernetes.io/instance"], name);
    assert!(settings("label", "").label_too_long(&name).unwrap().contains("is 70 bytes long"));
    assert_eq!(settings("annotation", "").label_too_long(&name), None);
}

#[test]
fn trk_75_nothing_happens_without_an_instance() {
    let mut object = secret(&json!({"name": "k"}));
    settings("annotation", "").stamp(&mut object, "", "shop").unwrap();
    assert_eq!(object, secret(&json!({"name": "k"})));
}

#[test]
fn trk_76_lists_are_expanded() {
    let objects = vec![
        json!({"kind": "SecretList", "items": [{"kind": "Secret"}, {"kind": "ConfigMap"}]}),
        json!({"kind": "Shell", "items": null}),
        json!({"kind": "Kept", "items": null, "spec": {}}),
        json!({"kind": "Basket", "items": []}),
    ];
    let kinds: Vec<_> = expand_lists(objects).iter().map(|o| access::text(o, "kind").to_owned()).collect();
    assert_eq!(kinds, ["Secret", "ConfigMap", "Kept", "Basket"]);
}

#[test]
fn trk_77_custom_resource_definitions_are_not_marked() {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"}});
    assert_eq!(stamped(&settings("annotation+label", "id"), crd.clone()), crd);
}
