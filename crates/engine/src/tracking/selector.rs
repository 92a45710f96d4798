//! How users select an application's objects (TRK-120).

use super::stamp::Place;
use super::{StampError, TrackingMethod, TrackingSettings};

/// Why there is no label selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unselectable {
    /// The method writes no label.
    #[error("application \"{0}\" is tracked by annotation only and cannot be selected with a label selector")]
    AnnotationOnly(String),
    /// The label cannot be written.
    #[error(transparent)]
    Label(#[from] StampError),
}

impl TrackingSettings {
    /// The label selector that finds an application's objects. With `all_variants` the other form of a digest of the
    /// SHA-1 family is looked for too.
    ///
    /// # Errors
    /// With the text that users see when no label says what belongs to the application.
    pub fn selector(&self, instance: &str, all_variants: bool) -> Result<String, Unselectable> {
        let value = self.label_value(instance)?;
        let Some(value) = value else { return Err(Unselectable::AnnotationOnly(instance.to_owned())) };
        let key = &self.label_key;
        let digests: Vec<String> = self.digests(instance).collect();
        let several = all_variants && self.method.is_hashed() && digests.len() > 1;
        let mut selector =
            if several { format!("{key} in ({})", digests.join(",")) } else { format!("{key}={value}") };
        if self.installation_place() == Some(Place::Label) {
            selector.push(',');
            selector.push_str(&self.installation_id_key);
            selector.push('=');
            selector.push_str(&self.installation_id);
        }
        Ok(selector)
    }

    /// Whether the label does not hold the whole instance name (TRK-43, TRK-122).
    pub fn is_truncated(&self, instance: &str) -> bool {
        let value = self.label_value(instance).ok().flatten();
        self.method == TrackingMethod::AnnotationAndLabel && value.is_some_and(|value| value != instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn settings(pairs: &[(&str, &str)]) -> TrackingSettings {
        let map: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TrackingSettings::from_settings(&map, "argocd")
    }

    #[test]
    fn trk_120_every_method_with_a_label_can_be_selected() {
        let with = |method: &str| settings(&[("application.resourceTrackingMethod", method)]);
        let digest = "3fbe5782d494cc956140bc58386c971bf0e96fad";
        let raw = "ba3a075f913f5c82a67b4cab14b038ddc03f284e";
        let name = "some-application";
        assert_eq!(
            with("label").selector(name, false).unwrap(),
            "app.kubernetes.io/instance=some-application"
        );
        for method in ["hash", "annotation+hash"] {
            assert_eq!(
                with(method).selector(name, false).unwrap(),
                format!("app.kubernetes.io/instance={digest}")
            );
            let both = format!("app.kubernetes.io/instance in ({digest},{raw})");
            assert_eq!(with(method).selector(name, true).unwrap(), both);
        }
        let long = format!("{}-b", "a".repeat(62));
        let short = format!("app.kubernetes.io/instance={}", "a".repeat(62));
        assert_eq!(with("annotation+label").selector(&long, true).unwrap(), short);
        assert!(with("annotation+label").is_truncated(&long) && !with("label").is_truncated(&long));
        assert_eq!(
            with("annotation").selector("ui", false).unwrap_err().to_string(),
            "application \"ui\" is tracked by annotation only and cannot be selected with a label selector"
        );
    }

    #[test]
    fn trk_120_the_id_is_selected_where_a_label_carries_it() {
        let carried = settings(&[
            ("application.resourceTrackingMethod", "label"),
            ("installationID", "eu-1"),
            ("installationID.carrier", "label"),
        ]);
        assert_eq!(
            carried.selector("ui", false).unwrap(),
            "app.kubernetes.io/instance=ui,argo-cd.argoproj.io/installation-id=eu-1"
        );
    }
}
