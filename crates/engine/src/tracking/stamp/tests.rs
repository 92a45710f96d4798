use super::*;
use serde_json::json;
use std::collections::BTreeMap;
use tiphys_object::Object;

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
fn trk_79_hooks_are_marked_like_any_object() {
    for hook in ["PreSync", "PreDelete", "PostDelete"] {
        let metadata = json!({"name": "k", "annotations": {"argocd.argoproj.io/hook": hook}});
        let marked = stamped(&settings("annotation", ""), secret(&metadata));
        let annotations = &marked["metadata"]["annotations"];
        assert_eq!(annotations["argocd.argoproj.io/hook"], hook);
        assert!(annotations["argocd.argoproj.io/tracking-id"].as_str().unwrap().ends_with("/k"), "{marked}");
    }
}

#[test]
fn trk_77_custom_resource_definitions_are_not_marked() {
    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"}});
    assert_eq!(stamped(&settings("annotation+label", "id"), crd.clone()), crd);
}

fn with(pairs: &[(&str, &str)]) -> TrackingSettings {
    let map = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    TrackingSettings::from_settings(&map, "argocd")
}

const METHOD: &str = "application.resourceTrackingMethod";
const DIGEST: &str = "3fbe5782d494cc956140bc58386c971bf0e96fad";

/// TRK section 18, with the digest that TRK-51 publishes.
#[test]
fn trk_50_the_digest_stands_beside_a_readable_name() {
    let id = "61199294-412c-4e78-a237-3ebba6784fcd";
    let settings = with(&[(METHOD, "annotation+hash"), ("installationID", id)]);
    let mut object =
        secret(&json!({"name": "some-secret", "namespace": "some-namespace", "annotations": {}}));
    settings.stamp(&mut object, "some-application", "some-namespace").unwrap();
    assert_eq!(
        object["metadata"],
        json!({"name": "some-secret", "namespace": "some-namespace",
        "labels": {"app.kubernetes.io/instance": DIGEST},
        "annotations": {
            "argocd.argoproj.io/tracking-id": "some-application:/Secret:some-namespace/some-secret",
            "argocd.argoproj.io/installation-id": id,
            "argo-cd.argoproj.io/application-name": "some-application",
        }})
    );
    let mut object = secret(&json!({"name": "k"}));
    with(&[(METHOD, "hash")]).stamp(&mut object, "team-a_web", "shop").unwrap();
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"argo-cd.argoproj.io/application-name": "team-a/web"})
    );
}

#[test]
fn trk_56_the_readable_name_is_written_where_it_is_wanted() {
    let is_named = |method: &str, wanted: &str| {
        let settings = with(&[(METHOD, method), ("application.trackingNameAnnotation", wanted)]);
        let object = stamped(&settings, secret(&json!({"name": "k"})));
        object["metadata"]["annotations"]["argo-cd.argoproj.io/application-name"] == "ui"
    };
    for method in TrackingMethod::ALL {
        assert_eq!(is_named(method.as_str(), "auto"), method.is_hashed(), "{method}");
        assert!(is_named(method.as_str(), "true") && !is_named(method.as_str(), "false"), "{method}");
    }
}

/// Where the ID of an object stands under a carrier: in an annotation, in a label, or nowhere.
fn carried(method: TrackingMethod, carrier: &str) -> (bool, bool) {
    let settings =
        with(&[(METHOD, method.as_str()), ("installationID", "eu-1"), ("installationID.carrier", carrier)]);
    let object = stamped(&settings, secret(&json!({"name": "k"})));
    let metadata = &object["metadata"];
    let own = Object::from_value(&object).unwrap();
    assert!(settings.owns(own.metadata(), "ui"), "{method}, {carrier}: what is written is recognised");
    (
        metadata["annotations"]["argocd.argoproj.io/installation-id"] == "eu-1",
        metadata["labels"]["argo-cd.argoproj.io/installation-id"] == "eu-1",
    )
}

#[test]
fn trk_61_to_66_the_id_stands_where_its_carrier_says() {
    for method in TrackingMethod::ALL {
        let family = method.is_annotation_family();
        assert_eq!(carried(method, "annotation"), (family, false), "{method}");
        assert_eq!(carried(method, "hash"), (family, false), "{method}");
        assert_eq!(carried(method, "annotation-strict"), (true, false), "{method}");
        assert_eq!(carried(method, "label"), (false, true), "{method}");
    }
}

/// Two installations with an application of one name: what one writes is not the other's, but for the two gaps that are
/// documented (TRK-61, TRK-66: method `label` and carriers that it does not write).
#[test]
fn trk_62_to_66_the_objects_of_another_installation_are_not_ours() {
    for carrier in ["annotation", "annotation-strict", "label", "hash"] {
        for method in TrackingMethod::ALL {
            let of = |id: &str| {
                with(&[
                    (METHOD, method.as_str()),
                    ("installationID", id),
                    ("installationID.carrier", carrier),
                ])
            };
            let theirs = Object::from_value(&stamped(&of("us-1"), secret(&json!({"name": "k"})))).unwrap();
            let gap = match carrier {
                "annotation" => !method.is_annotation_family(),
                "hash" => method == TrackingMethod::Label,
                _ => false,
            };
            assert_eq!(of("eu-1").owns(theirs.metadata(), "ui"), gap, "{method}, {carrier}");
        }
    }
}

#[test]
fn trk_63_without_an_id_foreign_objects_can_be_rejected() {
    for carrier in ["annotation", "label"] {
        let theirs = with(&[("installationID", "us-1"), ("installationID.carrier", carrier)]);
        let theirs = Object::from_value(&stamped(&theirs, secret(&json!({"name": "k"})))).unwrap();
        let ours =
            |foreign: &str| with(&[("installationID.foreign", foreign), ("installationID.carrier", carrier)]);
        assert!(ours("ignore").owns(theirs.metadata(), "ui"), "{carrier}");
        assert!(!ours("reject").owns(theirs.metadata(), "ui"), "{carrier}");
    }
}

#[test]
fn trk_53_both_forms_of_sha_1_are_recognised_and_one_is_written() {
    let by = |algorithm: &str| with(&[(METHOD, "hash"), ("application.trackingHashAlgorithm", algorithm)]);
    for (writer, reader, is_ours) in
        [("sha1", "sha1-raw", true), ("sha1-raw", "sha1", true), ("sha1", "fnv1a", false)]
    {
        let object = Object::from_value(&stamped(&by(writer), secret(&json!({"name": "k"})))).unwrap();
        assert_eq!(by(reader).owns(object.metadata(), "ui"), is_ours, "{writer}, {reader}");
    }
}

/// TRK-36: the original proposal, whose tracking annotation has the key of the instance label.
#[test]
fn trk_36_one_key_may_serve_annotation_and_label() {
    let settings = with(&[
        (METHOD, "annotation+label"),
        ("application.trackingAnnotationKey", "app.kubernetes.io/instance"),
        ("application.trackingAnnotationFormat", "semicolon"),
        ("installationID", "eu-1"),
        ("installationID.key", "argo-cd.argoproj.io/installation-id"),
    ]);
    let mut object = secret(&json!({"name": "some-secret", "namespace": "some-namespace"}));
    settings.stamp(&mut object, "my-application", "").unwrap();
    assert_eq!(
        object["metadata"]["annotations"],
        json!({"app.kubernetes.io/instance": "my-application;/Secret/some-namespace/some-secret",
            "argo-cd.argoproj.io/installation-id": "eu-1"})
    );
    assert_eq!(object["metadata"]["labels"], json!({"app.kubernetes.io/instance": "my-application"}));
    let live = Object::from_value(&object).unwrap();
    assert!(
        settings.owns(live.metadata(), "my-application") && settings.is_self_referenced(None, Some(&live))
    );
}

/// TRK-81: what is committed for others to sync bears no marks; labels and annotations of users stay.
#[test]
fn trk_81_marks_are_taken_off_and_nothing_else() {
    for method in ["label", "annotation", "annotation+label", "hash", "annotation+hash"] {
        for id in ["", "eu-1"] {
            let settings = settings(method, id);
            for metadata in
                [json!({"name": "k"}), json!({"name": "k", "labels": {"a": "b"}, "annotations": {"c": "d"}})]
            {
                let mut object = stamped(&settings, secret(&metadata));
                assert_ne!(object, secret(&metadata), "{method} {id:?}");
                settings.unstamp(&mut object);
                assert_eq!(object, secret(&metadata), "{method} {id:?}");
            }
        }
    }
    let mut foreign = secret(&json!({"name": "k", "labels": {"app.kubernetes.io/instance": "chart"}}));
    settings("annotation", "").unstamp(&mut foreign);
    assert_eq!(foreign["metadata"]["labels"], json!({"app.kubernetes.io/instance": "chart"}), "no mark here");
}
