//! The tracking settings of `argocd-cm` as one snapshot (TRK-7, 8, 11, 140).

use std::collections::BTreeMap;
use std::fmt;

use smol_str::SmolStr;

/// Default key of the instance label (TRK section 1).
const INSTANCE_LABEL_KEY: &str = "app.kubernetes.io/instance";

/// How ownership is marked (TRK section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrackingMethod {
    /// The tracking annotation alone.
    #[default]
    Annotation,
    /// The tracking annotation, plus an informational label.
    AnnotationAndLabel,
    /// The instance label alone.
    Label,
}

impl TrackingMethod {
    /// Reads a settings value exactly: no trimming, case-sensitive. `None` for anything unrecognised.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "annotation" => Some(Self::Annotation),
            "annotation+label" => Some(Self::AnnotationAndLabel),
            "label" => Some(Self::Label),
            _ => None,
        }
    }

    /// The settings value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Annotation => "annotation",
            Self::AnnotationAndLabel => "annotation+label",
            Self::Label => "label",
        }
    }

    /// Whether the tracking annotation decides who owns an object.
    pub fn is_annotation_family(self) -> bool {
        match self {
            Self::Annotation | Self::AnnotationAndLabel => true,
            Self::Label => false,
        }
    }
}

impl fmt::Display for TrackingMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One consistent snapshot of everything that decides ownership (TRK-140).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrackingSettings {
    /// The method: the system's, or the effective one of an application.
    pub method: TrackingMethod,
    /// Key of the instance label.
    pub label_key: SmolStr,
    /// Installation ID; empty means none (TRK-60).
    pub installation_id: SmolStr,
    /// Namespace the product runs in.
    pub control_plane_namespace: SmolStr,
    /// The value of the method setting when it is not recognised. `annotation` is in force then (TRK-8); the
    /// caller reports it once per load of the settings.
    pub unrecognized_method: Option<SmolStr>,
}

impl TrackingSettings {
    /// Reads the keys of `argocd-cm` (TRK-7, TRK-8). Total: what is missing or empty takes its default.
    pub fn from_settings(settings: &BTreeMap<String, String>, control_plane_namespace: &str) -> Self {
        let text = |key: &str| settings.get(key).map_or("", String::as_str);
        let written = text("application.resourceTrackingMethod");
        let parsed =
            if written.is_empty() { Some(TrackingMethod::default()) } else { TrackingMethod::parse(written) };
        let label_key = text("application.instanceLabelKey");
        Self {
            method: parsed.unwrap_or_default(),
            label_key: if label_key.is_empty() { INSTANCE_LABEL_KEY } else { label_key }.into(),
            installation_id: text("installationID").into(),
            control_plane_namespace: control_plane_namespace.into(),
            unrecognized_method: parsed.is_none().then(|| written.into()),
        }
    }

    /// The same settings with the effective method of one application (TRK-110).
    #[must_use]
    pub fn with_method(&self, method: TrackingMethod) -> Self {
        Self { method, ..self.clone() }
    }

    /// The effective method of an application: its annotation when that names a known method that the override
    /// list allows, else the system's (TRK-110, TRK-111).
    pub fn effective_method(
        &self,
        annotation: Option<&str>,
        settings: &BTreeMap<String, String>,
    ) -> TrackingMethod {
        let Some(wanted) = annotation.and_then(TrackingMethod::parse) else { return self.method };
        let allowed =
            settings.get("application.resourceTrackingMethod.overrides").map_or("*", String::as_str);
        let permitted = allowed.split(',').map(str::trim).any(|item| item == "*" || item == wanted.as_str());
        if permitted { wanted } else { self.method }
    }

    /// The instance name of an application (TRK-1).
    pub fn instance_name(&self, namespace: &str, name: &str) -> SmolStr {
        super::instance_name(namespace, name, &self.control_plane_namespace)
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(read.unrecognized_method, None);
        }
    }

    #[test]
    fn trk_8_an_unrecognised_method_behaves_as_annotation_and_is_reported() {
        for text in ["Annotation", " label", "labels"] {
            let read = settings(&[("application.resourceTrackingMethod", text)]);
            assert_eq!(read.method, TrackingMethod::Annotation);
            assert_eq!(read.unrecognized_method.as_deref(), Some(text));
        }
    }

    #[test]
    fn trk_11_methods_print_as_their_setting() {
        for text in ["annotation", "annotation+label", "label"] {
            assert_eq!(TrackingMethod::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn trk_110_an_application_may_override_the_method_where_allowed() {
        let none = BTreeMap::new();
        let only_label =
            BTreeMap::from([("application.resourceTrackingMethod.overrides".to_owned(), "label".to_owned())]);
        let off =
            BTreeMap::from([("application.resourceTrackingMethod.overrides".to_owned(), String::new())]);
        let base = settings(&[]);
        assert_eq!(base.effective_method(Some("label"), &none), TrackingMethod::Label);
        assert_eq!(base.effective_method(Some("label"), &only_label), TrackingMethod::Label);
        assert_eq!(base.effective_method(Some("annotation+label"), &only_label), TrackingMethod::Annotation);
        assert_eq!(base.effective_method(Some("label"), &off), TrackingMethod::Annotation);
        assert_eq!(base.effective_method(Some("nonsense"), &none), TrackingMethod::Annotation);
        assert_eq!(base.effective_method(None, &none), TrackingMethod::Annotation);
    }
}
