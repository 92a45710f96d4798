//! What the controller remembers about one application between passes. All of it can be lost: a restart
//! compares once more and arrives at the same place.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::application::ApplicationSource;
use tiphys_engine::compare::DiffMemo;
use tiphys_engine::health::Health;
use tiphys_object::{Object, ResourceKey};

use crate::decide::refresh::Level;

/// Memory of one application.
#[derive(Default)]
pub struct AppMemory {
    /// Highest level that was asked for and not yet served.
    pub requested: Option<Level>,
    /// Verdicts of earlier comparisons, by target and live version.
    pub diffs: DiffMemo,
    /// Health of live objects, by version.
    pub health: HashMap<ResourceKey, (SmolStr, Option<Health>)>,
    /// Targets of the last comparison.
    pub targets: Option<Targets>,
    /// Since when the repositories fail (CTL-33).
    pub repository_error_since: Option<Timestamp>,
    /// When a self-heal or retry is due.
    pub wake: Option<Timestamp>,
    /// Last comparison at level 2 or above, written or not.
    pub reconciled: Option<Timestamp>,
    /// Renderings of the last successful sync (CTL-39).
    pub synced_ids: Option<Vec<[u8; 32]>>,
}

/// Targets with everything they were made from.
#[derive(Clone)]
pub struct Targets {
    /// Objects of all sources, in order.
    pub objects: Arc<[Arc<Object>]>,
    /// Resolved revisions, one per source.
    pub revisions: Vec<String>,
    /// Types of the sources; empty for one that only carries `ref`.
    pub types: Vec<&'static str>,
    /// Sources they were made from.
    pub sources: Vec<ApplicationSource>,
    /// Identities of the renderings.
    pub ids: Vec<[u8; 32]>,
}

impl AppMemory {
    /// Raises the requested level.
    pub fn request(&mut self, level: Level) {
        self.requested = self.requested.max(Some(level));
    }
}
