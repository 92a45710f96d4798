use super::*;

fn settings(pairs: &[(&str, &str)]) -> TrackingSettings {
    let map = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    TrackingSettings::from_settings(&map, "argocd")
}

#[test]
fn trk_7_missing_and_empty_mean_the_default() {
    for pairs in
        [&[][..], &[("application.resourceTrackingMethod", ""), ("application.instanceLabelKey", "")]]
    {
        let read = settings(pairs);
        assert_eq!(read.method, TrackingMethod::Annotation);
        assert_eq!(read.label_key, "app.kubernetes.io/instance");
        assert!(read.problems.is_empty());
    }
}

#[test]
fn trk_8_an_unrecognised_method_behaves_as_annotation() {
    for text in ["Annotation", " label", "labels"] {
        let read = settings(&[("application.resourceTrackingMethod", text)]);
        assert_eq!(read.method, TrackingMethod::Annotation);
    }
}

#[test]
fn trk_11_methods_print_as_their_setting() {
    for text in ["annotation", "annotation+label", "label", "hash", "annotation+hash"] {
        assert_eq!(TrackingMethod::parse(text).unwrap().to_string(), text);
    }
}

#[test]
fn trk_110_an_application_may_override_the_method_where_allowed() {
    let with = |allowed: &str| settings(&[("application.resourceTrackingMethod.overrides", allowed)]);
    let rows = [
        (settings(&[]), Some("label"), TrackingMethod::Label),
        (settings(&[]), Some("annotation+hash"), TrackingMethod::AnnotationAndHash),
        (with("label, hash"), Some("label"), TrackingMethod::Label),
        (with("label, hash"), Some("hash"), TrackingMethod::Hash),
        (with("label, hash"), Some("annotation+label"), TrackingMethod::Annotation),
        (with("label,*"), Some("annotation+label"), TrackingMethod::AnnotationAndLabel),
        (with(""), Some("label"), TrackingMethod::Annotation),
        (settings(&[]), Some("nonsense"), TrackingMethod::Annotation),
        (settings(&[]), None, TrackingMethod::Annotation),
    ];
    for (settings, wanted, expected) in rows {
        assert_eq!(settings.effective_method(wanted), expected, "{wanted:?} of {:?}", settings.overrides);
    }
    assert_eq!(with("label,labels").problems.len(), 1);
}

#[test]
fn trk_9_of_a_key_that_is_wrong_the_last_valid_one_stays() {
    let keys = [
        ("application.instanceLabelKey", "app.kubernetes.io/instance"),
        ("application.trackingAnnotationKey", "argocd.argoproj.io/tracking-id"),
        ("application.trackingNameAnnotationKey", "argo-cd.argoproj.io/application-name"),
        ("installationID.key", "argocd.argoproj.io/installation-id"),
    ];
    let of = |settings: &TrackingSettings| {
        let TrackingSettings { label_key, annotation_key, name_annotation_key, installation_id_key, .. } =
            settings;
        [label_key, annotation_key, name_annotation_key, installation_id_key].map(ToString::to_string)
    };
    for (index, (key, default)) in keys.into_iter().enumerate() {
        let valid = settings(&[(key, "example.com/own")]);
        assert_eq!(of(&valid)[index], "example.com/own");
        for wrong in ["a b", "/x", "Example.com/x", "-x", "a/b/c", &"x".repeat(64)] {
            let pairs = BTreeMap::from([(key.to_owned(), wrong.to_owned())]);
            let first = TrackingSettings::from_settings(&pairs, "argocd");
            assert_eq!((of(&first)[index].as_str(), first.problems.len()), (default, 1), "{key}: {wrong}");
            let next = TrackingSettings::after(Some(&valid), &pairs, "argocd");
            assert_eq!(of(&next)[index], "example.com/own", "{key}: {wrong}");
            assert!(next.problems[0].contains(key) && next.problems[0].contains("example.com/own"));
        }
    }
}

#[test]
fn trk_65_a_label_carries_only_what_is_a_labels_value() {
    let carried = |id: &str| settings(&[("installationID", id), ("installationID.carrier", "label")]);
    let fits = carried("eu-1");
    assert_eq!(
        (fits.carrier, fits.installation_id_key.as_str()),
        (Carrier::Label, "argo-cd.argoproj.io/installation-id")
    );
    let too_long = carried(&"x".repeat(64));
    assert_eq!(too_long.carrier, Carrier::Annotation);
    assert_eq!(too_long.installation_id_key, "argocd.argoproj.io/installation-id");
    assert_eq!(too_long.problems.len(), 1);
}

/// No value of a list is read as another, and none is accepted and ignored.
#[test]
fn trk_7_choices_are_read_exactly() {
    let read = settings(&[
        ("application.trackingAnnotationFormat", "semicolon"),
        ("application.trackingHashAlgorithm", "fnv1a"),
        ("application.trackingNameAnnotation", "true"),
        ("application.resourceTracking.migration", "off"),
        ("installationID.foreign", "reject"),
    ]);
    assert_eq!(read.annotation_format, TrackingFormat::Semicolon);
    assert_eq!(read.hash_algorithm, HashAlgorithm::Fnv1a64);
    assert_eq!(read.name_annotation, NameAnnotation::Always);
    assert!(!read.migrates && read.rejects_foreign && read.problems.is_empty());
    for key in [
        "application.trackingAnnotationFormat",
        "application.trackingHashAlgorithm",
        "application.trackingNameAnnotation",
        "application.resourceTracking.migration",
        "installationID.foreign",
        "installationID.carrier",
    ] {
        let wrong = settings(&[(key, "Nonsense")]);
        assert_eq!(wrong.problems.len(), 1, "{key}");
        assert_eq!(TrackingSettings { problems: Vec::new(), ..wrong }, settings(&[]), "{key}");
    }
}
