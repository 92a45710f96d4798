//! Sync options: those of the application, and how annotations of one object change them (ENG-174..176).

use std::collections::HashSet;

use tiphys_api::application::SyncOperation;
use tiphys_api::names::annotation;
use tiphys_object::Object;

use super::action::Propagation;
use crate::hook::Annotated;

/// The application's sync options, as the operation carries them.
#[derive(Clone, Debug)]
pub(super) struct Options {
    items: HashSet<String>,
    propagation: Propagation,
}

/// What an object's and the application's `Prune=` options say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PruneRule {
    Allowed,
    Forbidden,
    Confirm,
}

impl Options {
    pub(super) fn new(operation: &SyncOperation) -> Self {
        let items = operation.sync_options.iter().map(|item| item.trim());
        let propagation = items.clone().rev().find_map(|item| item.strip_prefix("PrunePropagationPolicy="));
        let propagation = match propagation {
            Some("background") => Propagation::Background,
            Some("orphan") => Propagation::Orphan,
            _ => Propagation::Foreground,
        };
        Self { items: items.map(str::to_owned).collect(), propagation }
    }

    pub(super) fn has(&self, option: &str) -> bool {
        self.items.contains(option)
    }

    /// Whether the application or the object has an option.
    pub(super) fn has_for(&self, option: &str, object: Option<&Object>) -> bool {
        self.has(option) || object_has(object, option)
    }

    /// Propagation of prunes (ENG-174).
    pub(super) fn propagation(&self) -> Propagation {
        self.propagation
    }

    /// Whether a live object may be pruned; its annotation wins over the application (ENG-173, ENG-174).
    pub(super) fn prune_rule(&self, live: Option<&Object>) -> PruneRule {
        let own: Vec<&str> =
            live.map(|live| live.annotation_list(annotation::SYNC_OPTIONS)).unwrap_or_default();
        let is_own = own.iter().any(|item| item.starts_with("Prune="));
        let has = |option: &str| if is_own { own.contains(&option) } else { self.has(option) };
        if has("Prune=confirm") {
            PruneRule::Confirm
        } else if has("Prune=false") {
            PruneRule::Forbidden
        } else {
            PruneRule::Allowed
        }
    }
}

/// Whether an object's annotation has a sync option.
pub(super) fn object_has(object: Option<&Object>, option: &str) -> bool {
    object.is_some_and(|object| object.has_option(annotation::SYNC_OPTIONS, option))
}
