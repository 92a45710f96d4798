//! The tracking profile of an application: under which settings its objects were marked last (TRK-102).

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;
use tiphys_object::selector::{is_label_key, is_label_value};

use super::{Carrier, HashAlgorithm, TrackingFormat, TrackingMethod, TrackingSettings};

/// Longest stored profile that is read, in bytes.
const PROFILE_BYTES_MAX: usize = 4096;

/// Its stored form. A member that has its default is left out.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Profile {
    method: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    label_key: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    annotation_key: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    annotation_format: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    hash_algorithm: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    carrier: SmolStr,
    #[serde(skip_serializing_if = "SmolStr::is_empty")]
    installation_id_key: SmolStr,
    #[serde(rename = "installationID", skip_serializing_if = "SmolStr::is_empty")]
    installation_id: SmolStr,
}

impl TrackingSettings {
    /// The text that is stored on the Application.
    pub fn profile(&self) -> String {
        let usual = Self::usual(self.carrier);
        let unless = |text: &str, usual: &str| if text == usual { SmolStr::default() } else { text.into() };
        let profile = Profile {
            method: self.method.as_str().into(),
            label_key: unless(&self.label_key, &usual.label_key),
            annotation_key: unless(&self.annotation_key, &usual.annotation_key),
            annotation_format: unless(self.annotation_format.as_str(), usual.annotation_format.as_str()),
            hash_algorithm: unless(self.hash_algorithm.as_str(), usual.hash_algorithm.as_str()),
            carrier: unless(self.carrier.as_str(), Carrier::default().as_str()),
            installation_id_key: unless(&self.installation_id_key, &usual.installation_id_key),
            installation_id: self.installation_id.clone(),
        };
        // A struct of texts has a JSON form.
        serde_json::to_string(&profile).unwrap_or_default()
    }

    /// The settings of a stored profile; what is no part of it is as in these. `None` for a text that is no profile: then
    /// nobody knows what was in force.
    pub fn of_profile(&self, text: &str) -> Option<Self> {
        if text.len() > PROFILE_BYTES_MAX {
            return None;
        }
        let stored: Profile = serde_json::from_str(text).ok()?;
        let carrier = optional(&stored.carrier, Carrier::parse)?;
        let usual = self.with_defaults(carrier);
        let key = |text: &SmolStr, usual: &SmolStr| match text.as_str() {
            "" => Some(usual.clone()),
            key => is_label_key(key).then(|| key.into()),
        };
        let id = &stored.installation_id;
        if carrier == Carrier::Label && !id.is_empty() && !is_label_value(id) {
            return None;
        }
        Some(Self {
            method: TrackingMethod::parse(&stored.method)?,
            label_key: key(&stored.label_key, &usual.label_key)?,
            annotation_key: key(&stored.annotation_key, &usual.annotation_key)?,
            annotation_format: optional(&stored.annotation_format, TrackingFormat::parse)?,
            hash_algorithm: optional(&stored.hash_algorithm, HashAlgorithm::parse)?,
            installation_id_key: key(&stored.installation_id_key, &usual.installation_id_key)?,
            installation_id: id.clone(),
            ..usual
        })
    }

    /// Whether both mark and find objects alike.
    pub fn is_same_profile(&self, other: &Self) -> bool {
        self.method == other.method
            && self.label_key == other.label_key
            && self.annotation_key == other.annotation_key
            && self.annotation_format == other.annotation_format
            && self.hash_algorithm == other.hash_algorithm
            && self.carrier == other.carrier
            && self.installation_id_key == other.installation_id_key
            && self.installation_id == other.installation_id
    }

    /// These settings where every member of a profile but the carrier has its default.
    fn with_defaults(&self, carrier: Carrier) -> Self {
        Self {
            name_annotation: self.name_annotation,
            name_annotation_key: self.name_annotation_key.clone(),
            overrides: self.overrides.clone(),
            migrates: self.migrates,
            rejects_foreign: self.rejects_foreign,
            problems: Vec::new(),
            control_plane_namespace: self.control_plane_namespace.clone(),
            ..Self::usual(carrier).clone()
        }
    }
}

/// An empty text is the default; another one has to be known.
fn optional<T: Default>(text: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    if text.is_empty() { Some(T::default()) } else { parse(text) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::setting;
    use std::collections::BTreeMap;

    fn settings(pairs: &[(&str, &str)]) -> TrackingSettings {
        let map: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TrackingSettings::from_settings(&map, "argocd")
    }

    #[test]
    fn trk_102_a_profile_is_short_and_tells_everything() {
        let plain = settings(&[]);
        assert_eq!(plain.profile(), r#"{"method":"annotation"}"#);
        let full = settings(&[
            (setting::METHOD, "annotation+hash"),
            (setting::LABEL_KEY, "acme.test/app"),
            (setting::ANNOTATION_KEY, "acme.test/id"),
            (setting::ANNOTATION_FORMAT, "semicolon"),
            (setting::HASH_ALGORITHM, "fnv1a-128"),
            (setting::CARRIER, "label"),
            (setting::INSTALLATION_ID, "eu-1"),
        ]);
        assert_eq!(plain.of_profile(&full.profile()).unwrap(), full);
        assert_eq!(full.of_profile(&plain.profile()).unwrap(), plain);
        assert!(full.is_same_profile(&plain.of_profile(&full.profile()).unwrap()));
        assert!(!full.is_same_profile(&plain));
    }

    #[test]
    fn trk_102_what_is_no_profile_tells_nothing() {
        let plain = settings(&[]);
        for text in [
            "",
            "{}",
            "x",
            r#"{"method":"labels"}"#,
            r#"{"method":"label","labelKey":"a/b/c"}"#,
            r#"{"method":"label","carrier":"label","installationID":"no value!"}"#,
            r#"{"method":"label","hashAlgorithm":"md5"}"#,
            &format!(r#"{{"method":"label","installationID":"{}"}}"#, "x".repeat(5000)),
        ] {
            assert_eq!(plain.of_profile(text), None, "{text}");
        }
    }
}
