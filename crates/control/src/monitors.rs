//! Who wants to know of objects that concern no application: those whose project looks for orphans, by the namespace that
//! they deploy to (TRK-90, REP-195).

use std::collections::{BTreeSet, HashMap};

use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_api::cluster::ClusterKey;

use crate::app_key::AppKey;

/// A namespace of a cluster.
pub(crate) type Place = (ClusterKey, SmolStr);

/// The applications by where they look for orphans.
#[derive(Default)]
pub(crate) struct Monitors(Mutex<Known>);

#[derive(Default)]
struct Known {
    by_place: HashMap<Place, BTreeSet<AppKey>>,
    places: HashMap<AppKey, Place>,
}

impl Monitors {
    /// An application looks for orphans here, or nowhere any more.
    pub(crate) fn set(&self, key: &AppKey, place: Option<Place>) {
        let mut known = self.0.lock();
        if known.places.get(key) == place.as_ref() {
            return;
        }
        if let Some(before) = known.places.remove(key)
            && let Some(others) = known.by_place.get_mut(&before)
        {
            others.remove(key);
            if others.is_empty() {
                known.by_place.remove(&before);
            }
        }
        if let Some(place) = place {
            known.by_place.entry(place.clone()).or_default().insert(key.clone());
            known.places.insert(key.clone(), place);
        }
    }

    /// Who looks for orphans in a namespace.
    pub(crate) fn of(&self, place: &Place) -> Vec<AppKey> {
        self.0.lock().by_place.get(place).into_iter().flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trk_90_whoever_looks_elsewhere_or_nowhere_is_not_told() {
        let monitors = Monitors::default();
        let place = |namespace: &str| (ClusterKey::shared("https://c"), SmolStr::new(namespace));
        let (ui, api) = (AppKey::new("argocd", "ui"), AppKey::new("argocd", "api"));
        monitors.set(&ui, Some(place("shop")));
        monitors.set(&api, Some(place("shop")));
        assert_eq!(monitors.of(&place("shop")), [api.clone(), ui.clone()]);
        monitors.set(&ui, Some(place("other")));
        monitors.set(&api, None);
        assert_eq!(monitors.of(&place("shop")), []);
        assert_eq!(monitors.of(&place("other")), std::slice::from_ref(&ui));
        monitors.set(&ui, None);
        assert!(monitors.0.lock().by_place.is_empty() && monitors.0.lock().places.is_empty());
    }
}
