//! How the marks of live objects are read when several settings are in use at once: applications that choose a method of
//! their own, and those that were synced under other settings (TRK-91, TRK-103, TRK-110).

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use smol_str::SmolStr;
use tiphys_object::Metadata;

use super::{TrackingMethod, TrackingSettings};

/// Former ways to read marks that are in use at once, by all projects together.
pub const FORMER_READINGS_MAX: usize = 64;
/// Former ways that the applications of one project may ask for: the profile stands on an Application, and whoever may
/// write one could crowd out those of others.
pub const FORMER_READINGS_PER_PROJECT_MAX: usize = 8;

/// One way to read a mark. Settings that differ in what they write alone are read alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    settings: TrackingSettings,
    id: u64,
}

impl Reading {
    /// How the marks of these settings are read.
    pub fn of(settings: &TrackingSettings) -> Self {
        let method = match settings.method {
            TrackingMethod::AnnotationAndLabel | TrackingMethod::AnnotationAndHash => {
                TrackingMethod::Annotation
            }
            method => method,
        };
        let plain = TrackingSettings::usual(super::Carrier::default());
        let TrackingSettings { label_key, annotation_key, annotation_format, carrier, .. } = settings;
        let is_annotation = method.is_annotation_family();
        let has_id = !settings.installation_id.is_empty() || settings.rejects_foreign;
        let chosen = |is_read: bool, own: &SmolStr, usual: &SmolStr| {
            if is_read { own.clone() } else { usual.clone() }
        };
        let id_key = chosen(has_id, &settings.installation_id_key, &plain.installation_id_key);
        let settings = TrackingSettings {
            method,
            label_key: chosen(!is_annotation, label_key, &plain.label_key),
            annotation_key: chosen(is_annotation, annotation_key, &plain.annotation_key),
            annotation_format: if is_annotation { *annotation_format } else { plain.annotation_format },
            carrier: if has_id { *carrier } else { plain.carrier },
            installation_id: settings.installation_id.clone(),
            installation_id_key: id_key,
            rejects_foreign: settings.rejects_foreign,
            ..plain.clone()
        };
        let mut hasher = DefaultHasher::new();
        settings.hash(&mut hasher);
        Self { settings, id: hasher.finish() }
    }

    /// Names the way within this process.
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// All ways in use.
#[derive(Clone, Debug, Default)]
pub struct Readings {
    all: BTreeMap<u64, Reading>,
    /// The projects whose applications brought the former ones.
    brought: Vec<SmolStr>,
}

/// Who brought a way first makes no difference.
impl PartialEq for Readings {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl Eq for Readings {}

impl Readings {
    /// The way of the settings in force alone.
    pub fn of(settings: &TrackingSettings) -> Self {
        let mut readings = Self::default();
        readings.add_current(Reading::of(settings));
        readings
    }

    /// Adds the way of settings that are in force for an application. Applications choose among methods alone, so that
    /// there are three of these at most.
    pub fn add_current(&mut self, reading: Reading) {
        self.all.insert(reading.id, reading);
    }

    /// Adds a way that was in force for an application of this project before; `false` when there are too many. What it
    /// marked is then not found until it is synced: it is nobody's, and nothing is deleted.
    pub fn add_former(&mut self, reading: Reading, project: &str) -> bool {
        if self.has(reading.id) {
            return true;
        }
        let of_project = self.brought.iter().filter(|other| *other == project).count();
        let has_room =
            self.brought.len() < FORMER_READINGS_MAX && of_project < FORMER_READINGS_PER_PROJECT_MAX;
        if has_room {
            self.all.insert(reading.id, reading);
            self.brought.push(project.into());
        }
        has_room
    }

    /// Whether marks are read in the way of this name too.
    pub fn has(&self, way: u64) -> bool {
        self.all.contains_key(&way)
    }

    /// The names of all ways.
    pub fn ids(&self) -> Vec<u64> {
        self.all.keys().copied().collect()
    }

    /// Every mark of an object; nothing without one.
    pub fn marks(&self, metadata: &Metadata) -> BTreeSet<SmolStr> {
        self.all.values().filter_map(|reading| reading.settings.mark(metadata)).collect()
    }

    /// Keys of labels and annotations that marks are read from.
    pub fn keys(&self) -> Vec<SmolStr> {
        let keys: BTreeSet<SmolStr> =
            self.all.values().flat_map(|reading| reading.settings.mark_keys()).collect();
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
        let distinct: BTreeSet<u64> = all.iter().map(Reading::id).collect();
        assert_eq!(distinct.len(), 3, "annotation, label, digest");
        let algorithm = settings(&[(setting::METHOD, "hash"), (setting::HASH_ALGORITHM, "fnv1a")]);
        assert!(distinct.contains(&Reading::of(&algorithm).id()));
        let id = settings(&[(setting::INSTALLATION_ID, "eu-1")]);
        assert!(!distinct.contains(&Reading::of(&id).id()));
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
            readings.add_current(Reading::of(&tracking));
            let marks = readings.marks(object.metadata());
            let own = tracking.own_marks("ui");
            assert!(
                own.iter().any(|mark| marks.contains(mark)),
                "{method} {id} {carrier}: {marks:?} {own:?}"
            );
        }
    }

    /// A hostile project fills its own share, and nobody's but its own objects are not looked for.
    #[test]
    fn trk_91_former_ways_are_bounded_by_project_and_those_in_force_are_always_read() {
        let keyed = |key: &str| Reading::of(&settings(&[(setting::ANNOTATION_KEY, key)]));
        let mut readings = Readings::of(&settings(&[]));
        let mut add = |project: &str, number: usize| {
            readings.add_former(keyed(&format!("{project}.test/{number}")), project)
        };
        assert_eq!((0..50).filter(|number| add("hostile", *number)).count(), FORMER_READINGS_PER_PROJECT_MAX);
        assert!(add("shop", 1), "another project has room");
        let added = (0..50).filter(|number| add(&format!("p{number}"), 1)).count();
        assert_eq!(added, 50);
        assert!((50..60).any(|number| !add(&format!("p{number}"), 1)), "all together are bounded too");
        for method in TrackingMethod::ALL {
            let current = Reading::of(&settings(&[(setting::METHOD, method.as_str())]));
            let way = current.id();
            readings.add_current(current);
            assert!(readings.has(way));
        }
        assert_eq!(readings.ids().len(), FORMER_READINGS_MAX + 3);
    }
}
