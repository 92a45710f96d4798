//! What an application owns, also while its tracking settings change (TRK-85..94b, TRK-98, TRK-101..107).

use std::collections::BTreeSet;
use std::fmt;

use smol_str::SmolStr;
use tiphys_api::application::ResourceStatus;
use tiphys_object::{Metadata, Object, ResourceKey};

use super::{Reading, TrackingId, TrackingMethod, TrackingSettings};

/// Under which settings an application was synced last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Previous {
    /// Those in force, or a change is not followed up (`application.resourceTracking.migration: off`).
    Same,
    /// Those of the stored profile (TRK-103).
    Profile(Box<TrackingSettings>),
    /// Nobody stored them (TRK-104). These objects are listed in `status.resources` as applied.
    Unknown(BTreeSet<ResourceKey>),
}

/// Objects that a status lists as applied (TRK-104): what is to be pruned was not, and a hook is nobody's target.
pub fn applied(resources: &[ResourceStatus]) -> BTreeSet<ResourceKey> {
    let applied = resources.iter().filter(|r| !r.requires_pruning && !r.hook);
    applied.map(|r| ResourceKey::new(&r.group, &r.kind, &r.namespace, &r.name)).collect()
}

/// Knows the other applications of the installation.
pub trait Neighbours: Sync {
    /// The effective method of the application with this instance name, if there is one.
    fn method_of(&self, instance: &str) -> Option<TrackingMethod>;
    /// The instance name of the application that a mark stands for, if there is one (TRK-54).
    fn named_by(&self, mark: &str) -> Option<SmolStr>;
}

/// Where no other applications are known.
impl Neighbours for () {
    fn method_of(&self, _instance: &str) -> Option<TrackingMethod> {
        None
    }

    fn named_by(&self, _mark: &str) -> Option<SmolStr> {
        None
    }
}

impl TrackingSettings {
    /// Under which settings an application was synced last: by the profile that it stores, and without one by what its status
    /// lists as applied.
    pub fn previous(
        &self,
        stored: Option<&str>,
        recorded: impl FnOnce() -> BTreeSet<ResourceKey>,
    ) -> Previous {
        if !self.migrates {
            return Previous::Same;
        }
        match stored.and_then(|text| self.of_profile(text)) {
            Some(profile) if self.is_same_profile(&profile) => Previous::Same,
            Some(profile) => Previous::Profile(Box::new(profile)),
            None => Previous::Unknown(recorded()),
        }
    }
}

/// What a live object is to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// Nothing.
    No,
    /// It bears the application's mark, which was made for another object (TRK-93).
    Copy,
    /// The application's.
    Yes,
}

/// Whose marks an object bears, as an application sees it (TRK-143).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Marked {
    /// The application's.
    Owned,
    /// The application's, but they were made for another object.
    Copy,
    /// Those of another application or installation.
    Foreign,
    /// Nobody's.
    Unowned,
}

impl Marked {
    /// The word that a metric has for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Owned => "owned",
            Self::Copy => "copy",
            Self::Foreign => "foreign",
            Self::Unowned => "unowned",
        }
    }
}

/// All that decides what an application owns.
#[derive(Clone, Copy)]
pub struct Ownership<'a> {
    /// In force for the application.
    pub current: &'a TrackingSettings,
    /// Those it was synced under last.
    pub previous: &'a Previous,
    /// The application.
    pub instance: &'a str,
    /// The others.
    pub others: &'a dyn Neighbours,
}

impl fmt::Debug for Ownership<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ownership")
            .field("instance", &self.instance)
            .field("current", &self.current)
            .field("previous", &self.previous)
            .finish_non_exhaustive()
    }
}

impl<'a> Ownership<'a> {
    /// What a root object is to the application, without a desired object to compare it with.
    pub fn of(&self, live: &Object) -> Owned {
        let verdict = self.verdict(live);
        if verdict != Owned::No && self.is_named_elsewhere(live) { Owned::No } else { verdict }
    }

    /// Whose marks a root object bears.
    pub fn marked(&self, live: &Object) -> Marked {
        match self.of(live) {
            Owned::Yes => Marked::Owned,
            Owned::Copy => Marked::Copy,
            Owned::No if self.is_foreign(live) || self.current.mark(live.metadata()).is_some() => {
                Marked::Foreign
            }
            Owned::No => Marked::Unowned,
        }
    }

    /// Whether an object names the application as its owner, be it a copy or not.
    pub fn owns(&self, live: &Object) -> bool {
        self.of(live) != Owned::No
    }

    /// Whether an object is the application's, or is to be: `target` is the desired object of the same name (TRK-92).
    pub fn is_original(&self, target: Option<&Object>, live: Option<&Object>) -> bool {
        match (target, live) {
            (None, Some(live)) => self.of(live) == Owned::Yes,
            (target, live) => self.current.is_self_referenced(target, live),
        }
    }

    /// Whether a live object goes with the application (TRK-94b): it carries its own mark, or that of a manifest without a
    /// name (TRK-32) from whose `generateName` its name was made. Nothing else would find those, and they would stay for
    /// ever (INV-17).
    pub fn goes_with_application(&self, live: &Object) -> bool {
        match self.of(live) {
            Owned::No => false,
            Owned::Yes => true,
            Owned::Copy => {
                self.sides().any(|side| side.owns(live.metadata(), self.instance) && side.made(live))
            }
        }
    }

    /// The marks by which objects of the application are found; what they find is for [`Self::of`] to judge.
    pub fn marks(&self) -> Vec<SmolStr> {
        let mut marks: Vec<SmolStr> = self.sides().flat_map(|side| side.own_marks(self.instance)).collect();
        marks.sort_unstable();
        marks.dedup();
        marks
    }

    /// The ways in which [`Self::marks`] are read: of what is in force, and of what was. A list that was made without one of
    /// them says nothing about what was marked in it.
    pub fn ways(&self) -> Vec<u64> {
        self.sides().map(|side| Reading::of(side).id()).collect()
    }

    /// The way in which marks of the settings in force are read.
    pub fn current_way(&self) -> u64 {
        Reading::of(self.current).id()
    }

    /// Objects that no mark finds and that may be the application's all the same (TRK-104).
    pub fn recorded(&self) -> impl Iterator<Item = &'a ResourceKey> + use<'a> {
        let recorded = match self.previous {
            Previous::Unknown(recorded) => Some(recorded),
            Previous::Same | Previous::Profile(_) => None,
        };
        recorded.into_iter().flatten()
    }

    /// Whether the application was synced last under other settings, as far as anybody knows (TRK-103).
    pub fn is_migrating(&self) -> bool {
        *self.previous != Previous::Same
    }

    /// What stands on an object where marks of the application may stand. While that stays, the object does not change
    /// hands.
    pub fn evidence(&self, metadata: &Metadata) -> Vec<Option<SmolStr>> {
        let mut found = Vec::new();
        for place in self.places() {
            for key in [&place.annotation_key, &place.installation_id_key] {
                found.push(metadata.annotations.get(key).cloned());
            }
            for key in [&place.label_key, &place.installation_id_key] {
                found.push(metadata.labels.get(key).cloned());
            }
        }
        found
    }

    /// Whether an object is the application's only because of what was in force before (TRK-106).
    pub fn is_released_next(&self, live: &Object) -> bool {
        let now = Self { previous: &Previous::Same, ..*self };
        self.of(live) == Owned::Yes && now.of(live) != Owned::Yes
    }

    /// The settings that may have made a mark.
    pub fn sides(&self) -> impl Iterator<Item = &'a TrackingSettings> + Clone + use<'a> {
        let previous = match self.previous {
            Previous::Profile(previous) => Some(&**previous),
            Previous::Same | Previous::Unknown(_) => None,
        };
        std::iter::once(self.current).chain(previous)
    }

    pub(super) fn verdict(&self, live: &Object) -> Owned {
        // Nothing but its own installation deletes what bears an ID (TRK-70).
        if self.is_foreign(live) {
            return self.under(self.current, live);
        }
        match self.previous {
            Previous::Same => self.under(self.current, live),
            Previous::Profile(_) => self.under_either(live),
            Previous::Unknown(recorded) => match self.under(self.current, live) {
                Owned::No if recorded.contains(&live.key()) && self.is_recognised(live) => Owned::Yes,
                verdict => verdict,
            },
        }
    }

    fn under(&self, side: &TrackingSettings, live: &Object) -> Owned {
        if !side.owns(live.metadata(), self.instance) {
            Owned::No
        } else if side.is_self_referenced(None, Some(live)) {
            Owned::Yes
        } else {
            Owned::Copy
        }
    }

    /// Whether an object bears the application's own mark by whichever method, under the keys in force. To be asked about
    /// objects alone that the application's last sync says it has applied: where the settings changed in the middle of it,
    /// what it marked first is found by neither side (TRK-102), and would stay for ever (INV-17).
    pub fn is_marked_in_passing(&self, live: &Object) -> bool {
        let by = TrackingMethod::ALL.map(|method| TrackingSettings { method, ..self.current.clone() });
        !self.is_foreign(live) && self.under_any(by.each_ref(), live) == Owned::Yes
    }

    fn under_either(&self, live: &Object) -> Owned {
        self.under_any(self.sides(), live)
    }

    fn under_any<'s>(
        &self,
        sides: impl IntoIterator<Item = &'s TrackingSettings, IntoIter: Clone>,
        live: &Object,
    ) -> Owned {
        let sides = sides.into_iter();
        let best = |one, other| match (one, other) {
            (Owned::Yes, _) | (_, Owned::Yes) => Owned::Yes,
            (Owned::Copy, _) | (_, Owned::Copy) => Owned::Copy,
            (Owned::No, Owned::No) => Owned::No,
        };
        let has_annotation = |side: &&TrackingSettings| matches!(side.tracking_id(live), Some(Ok(_)));
        let by_annotation = || sides.clone().filter(|side| side.method.is_annotation_family());
        // A copy that an operator made bears the old label too: where the annotation says what is a copy, it alone
        // decides (TRK-103).
        if by_annotation().any(|side| has_annotation(&side)) {
            by_annotation().map(|side| self.under(side, live)).fold(Owned::No, best)
        } else {
            sides.map(|side| self.under(side, live)).fold(Owned::No, best)
        }
    }

    /// First contact: the label under the current key, or the annotation without an ID, names the application (TRK-104).
    fn is_recognised(&self, live: &Object) -> bool {
        let current = self.current;
        let by_label = live.label(&current.label_key) == Some(self.instance);
        let without_id = TrackingSettings { installation_id: "".into(), ..current.by_annotation() };
        let is_without_id = live.annotation(&current.installation_id_key).is_none_or(str::is_empty);
        by_label || (is_without_id && self.under(&without_id, live) == Owned::Yes)
    }

    /// Whether the object carries the ID of another installation (TRK-107).
    fn is_foreign(&self, live: &Object) -> bool {
        let key = &self.current.installation_id_key;
        let ids = [live.annotation(key), live.label(key)];
        ids.into_iter().flatten().any(|id| !id.is_empty() && id != self.current.installation_id)
    }

    /// Whether a label leads here and an annotation of its own to another application that goes by annotations (TRK-91).
    fn is_named_elsewhere(&self, live: &Object) -> bool {
        if self.sides().all(|side| side.method.is_annotation_family()) {
            return false;
        }
        let reader = self.current.by_annotation();
        let Some(Ok(TrackingId { instance, .. })) = reader.tracking_id(live) else { return false };
        instance != self.instance
            && reader.owns(live.metadata(), &instance)
            && reader.is_self_referenced(None, Some(live))
            && self.others.method_of(&instance).is_some_and(TrackingMethod::is_annotation_family)
    }
}

#[cfg(test)]
mod tests;
