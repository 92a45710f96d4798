//! How the marks of live objects are read when several settings are in use at once: applications that choose a method of
//! their own, and those that were synced under other settings (TRK-91, TRK-103, TRK-110).

use std::collections::BTreeSet;

use smol_str::SmolStr;
use tiphys_object::Metadata;

use super::{TrackingMethod, TrackingSettings};

/// Different ways to read marks that are in use at once. Those of the settings in force come first, so what is left out is
/// old: its objects are nobody's until they are marked anew, and nothing is deleted.
pub const READINGS_MAX: usize = 12;

/// One way to read a mark. Settings that differ in what they write alone are read alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reading(TrackingSettings);

impl Reading {
    /// How the marks of these settings are read.
    pub fn of(settings: &TrackingSettings) -> Self {
        let method = match settings.method {
            TrackingMethod::AnnotationAndLabel | TrackingMethod::AnnotationAndHash => {
                TrackingMethod::Annotation
            }
            method => method,
        };
        let plain = TrackingSettings::from_settings(&[].into(), &settings.control_plane_namespace);
        let TrackingSettings { label_key, annotation_key, annotation_format, carrier, .. } = settings;
        let is_annotation = method.is_annotation_family();
        let has_id = !settings.installation_id.is_empty() || settings.rejects_foreign;
        Self(TrackingSettings {
            method,
            label_key: if is_annotation { plain.label_key.clone() } else { label_key.clone() },
            annotation_key: if is_annotation { annotation_key.clone() } else { plain.annotation_key.clone() },
            annotation_format: if is_annotation { *annotation_format } else { plain.annotation_format },
            carrier: if has_id { *carrier } else { plain.carrier },
            installation_id: settings.installation_id.clone(),
            installation_id_key: if has_id {
                settings.installation_id_key.clone()
            } else {
                plain.installation_id_key.clone()
            },
            rejects_foreign: settings.rejects_foreign,
            ..plain
        })
    }
}

/// All ways in use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readings(Vec<Reading>);

impl Readings {
    /// The way of the settings in force alone.
    pub fn of(settings: &TrackingSettings) -> Self {
        Self(vec![Reading::of(settings)])
    }

    /// Adds a way; `false` when there are too many.
    pub fn add(&mut self, reading: Reading) -> bool {
        if self.0.contains(&reading) {
            return true;
        }
        let has_room = self.0.len() < READINGS_MAX;
        if has_room {
            self.0.push(reading);
        }
        has_room
    }

    /// Whether marks are read in this way too.
    pub fn has(&self, reading: &Reading) -> bool {
        self.0.contains(reading)
    }

    /// Every mark of an object; nothing without one.
    pub fn marks(&self, metadata: &Metadata) -> BTreeSet<SmolStr> {
        self.0.iter().filter_map(|reading| reading.0.mark(metadata)).collect()
    }

    /// Keys of labels and annotations that marks are read from.
    pub fn keys(&self) -> Vec<SmolStr> {
        let keys: BTreeSet<SmolStr> = self.0.iter().flat_map(|reading| reading.0.mark_keys()).collect();
        keys.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::setting;
    use serde_json::json;
    use std::collections::BTreeMap;
    use tiphys_object::Object;

    fn settings(pairs: &[(&str, &str)]) -> TrackingSettings {
        let map: BTreeMap<String, String> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        TrackingSettings::from_settings(&map, "argocd")
    }

    #[test]
    fn trk_91_settings_that_only_write_differently_are_read_alike() {
        let all =
            TrackingMethod::ALL.map(|method| Reading::of(&settings(&[(setting::METHOD, method.as_str())])));
        let distinct: std::collections::HashSet<Reading> = all.into_iter().collect();
        assert_eq!(distinct.len(), 3, "annotation, label, digest");
        let algorithm = settings(&[(setting::METHOD, "hash"), (setting::HASH_ALGORITHM, "fnv1a")]);
        assert!(distinct.contains(&Reading::of(&algorithm)));
        let id = settings(&[(setting::INSTALLATION_ID, "eu-1")]);
        assert!(!distinct.contains(&Reading::of(&id)));
    }

    /// A reading finds what the settings themselves find.
    #[test]
    fn trk_91_every_mark_is_found_by_the_application_that_made_it() {
        let ids = ["", "eu-1"];
        let carriers = ["annotation", "annotation-strict", "label", "hash"];
        let pairs = || ids.iter().flat_map(|id| carriers.map(|carrier| (*id, carrier)));
        for (method, (id, carrier)) in
            TrackingMethod::ALL.iter().flat_map(|method| pairs().map(move |pair| (method, pair)))
        {
            let tracking = settings(&[
                (setting::METHOD, method.as_str()),
                (setting::INSTALLATION_ID, id),
                (setting::CARRIER, carrier),
            ]);
            let mut object =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "k", "namespace": "shop"}});
            tracking.stamp(&mut object, "ui", "shop").unwrap();
            let object = Object::from_value(&object).unwrap();
            let mut readings = Readings::of(&settings(&[]));
            assert!(readings.add(Reading::of(&tracking)));
            let marks = readings.marks(object.metadata());
            let own = tracking.own_marks("ui");
            assert!(
                own.iter().any(|mark| marks.contains(mark)),
                "{method} {id} {carrier}: {marks:?} {own:?}"
            );
        }
    }

    #[test]
    fn trk_91_the_number_of_readings_is_bounded() {
        let mut readings = Readings::of(&settings(&[]));
        let added = (0..50)
            .filter(|number| {
                let key = format!("acme.test/{number}");
                readings.add(Reading::of(&settings(&[(setting::ANNOTATION_KEY, &key)])))
            })
            .count();
        assert_eq!(added, READINGS_MAX - 1);
    }
}
