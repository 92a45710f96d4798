//! What the controller remembers about one application between passes. All of it can be lost: a restart
//! compares once more and arrives at the same place.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use sha2::{Digest, Sha256};
use smol_str::SmolStr;
use tiphys_api::application::{ApplicationSource, HealthStatus, ResourceResult};
use tiphys_engine::compare::DiffMemo;
use tiphys_engine::health::{Health, HealthError, HealthOverrides};
use tiphys_engine::tracking::{Marked, TrackingMethod};
use tiphys_engine::tree::NodeInfo;
use tiphys_lifecycle::refresh::Level;
use tiphys_object::{Object, ResourceKey};

use crate::rendering::Held;
use crate::updates::LiveChanges;

/// The live objects that an application was compared with (TRK-143).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MarkedObjects {
    /// The server of their cluster.
    pub(crate) cluster: SmolStr,
    pub(crate) method: TrackingMethod,
    /// How many there are, by whose marks they bear.
    pub(crate) counts: BTreeMap<Marked, usize>,
}

/// Memory of one application.
#[derive(Default)]
pub(crate) struct AppMemory {
    /// Highest level that was asked for and not yet served.
    pub(crate) requested: Option<Level>,
    /// Changes of live objects that were not looked at yet, and what these objects were before (CTL-95).
    pub(crate) changes: LiveChanges,
    /// Verdicts of earlier comparisons, by target and live version.
    pub(crate) diffs: DiffMemo,
    /// Health and details of live objects, by version. Emptied when the health rules change.
    pub(crate) verdicts: HashMap<ResourceKey, Verdict>,
    /// The rules these verdicts were made by.
    pub(crate) verdict_rules: Option<Arc<HealthOverrides>>,
    /// Objects without a target that are the application's by what its status listed before they lost it (TRK-104).
    pub(crate) recognised: BTreeSet<ResourceKey>,
    /// The tracking method that was asked for in vain and told of (TRK-110).
    pub(crate) told_method: Option<String>,
    /// Orphans beside it, when they were looked for and everything was known (CTL-74).
    pub(crate) orphans: Option<usize>,
    /// By whose marks its objects were found in the last comparison.
    pub(crate) marked: Option<MarkedObjects>,
    /// Targets of the last comparison.
    pub(crate) targets: Option<Targets>,
    /// Since when the repositories fail (CTL-33).
    pub(crate) repository_error_since: Option<Timestamp>,
    /// Last comparison at level 2 or above, written or not.
    pub(crate) reconciled: Option<Timestamp>,
    /// Whether a new revision may be written though it is all there is to write.
    pub(crate) may_show_revision: bool,
    /// No further pass of the running operation before this time (ENG-166).
    pub(crate) not_before: Option<Timestamp>,
    /// Start of the operation whose state this process has written, or has found to be the stored one.
    pub(crate) confirmed: Option<String>,
    /// Since when the destination of the running operation does not answer, on the clock's time since its start.
    pub(crate) unreached_since: Option<Duration>,
    /// All results of the running attempt: the status may have room for a part only.
    pub(crate) ledger: Option<LedgerCopy>,
    /// Room for a status after the API server refused a larger one, and the size of the rest of the object then
    /// (CTL-36).
    pub(crate) status_room: Option<StatusRoom>,
    /// The tracking profile that everything was marked by in the operation that runs; `None` when it changed meanwhile, or
    /// another process began.
    pub(crate) marks_by: Option<String>,
    /// When an operation that names its revision began, on the clock's time since its start. A listing of
    /// references from before says nothing about what is newer (INV-3).
    pub(crate) named_at: Option<Duration>,
    /// Renderings of the last successful sync (CTL-39).
    pub(crate) synced_ids: Option<Vec<[u8; 32]>>,
}

/// What was found out about one live object.
#[derive(Clone)]
pub(crate) struct Verdict {
    /// Version of the object.
    pub(crate) version: SmolStr,
    /// Its health.
    pub(crate) health: Result<Option<Health>, HealthError>,
    /// Its node details; `None` when there are none.
    pub(crate) info: Option<Arc<NodeInfo>>,
}

impl Verdict {
    /// The health as people are shown it; what is not known is left out.
    pub(crate) fn shown_health(&self) -> Option<HealthStatus> {
        let health = self.health.as_ref().ok()?.as_ref()?;
        let (status, message) = (health.status.into(), health.message.clone());
        Some(HealthStatus { status, message, ..HealthStatus::default() })
    }
}

/// Results of an attempt, and which attempt.
pub(crate) struct LedgerCopy {
    /// Start of the operation.
    pub(crate) started_at: String,
    /// Retries before it.
    pub(crate) retry_count: i64,
    /// The results.
    pub(crate) results: Vec<ResourceResult>,
}

/// Targets with everything they were made from.
#[derive(Clone)]
pub(crate) struct Targets {
    /// Objects of all sources, in order.
    pub(crate) objects: Arc<[Arc<Object>]>,
    /// Resolved revisions, one per source.
    pub(crate) revisions: Vec<String>,
    /// Types of the sources; empty for one that only carries `ref`.
    pub(crate) types: Vec<&'static str>,
    /// Sources they were made from.
    pub(crate) sources: SourcesId,
    /// Everything else they depend on: tracking, namespace, project, renderers.
    pub(crate) made_for: [u8; 32],
    /// The renderings they are from. Held, so that the same is not rendered again as long as this is in memory.
    pub(crate) renderings: Vec<Arc<Held>>,
}

/// Room for a status that the API server accepts beside the rest of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatusRoom {
    pub(crate) rest_bytes: usize,
    pub(crate) room: usize,
}

/// Tells values apart that were read from JSON: equal for equal ones.
pub(crate) fn identity_of<T: Serialize + Debug + ?Sized>(value: &T) -> [u8; 32] {
    // What was read from JSON can be written as JSON. If not, its text as it is shown tells it apart as well.
    let bytes = serde_json::to_vec(value).unwrap_or_else(|_unwritable| format!("{value:?}").into_bytes());
    Sha256::digest(&bytes).into()
}

/// Which sources: equal for equal ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourcesId([u8; 32]);

impl SourcesId {
    /// Of these sources.
    pub(crate) fn of(sources: &[ApplicationSource]) -> Self {
        Self(identity_of(sources))
    }
}

impl Targets {
    /// Identities of the renderings.
    pub(crate) fn ids(&self) -> impl Iterator<Item = [u8; 32]> {
        self.renderings.iter().map(|rendering| rendering.id)
    }
}

impl Targets {
    /// Whether all manifests come from the directories of the sources alone.
    pub(crate) fn is_within(&self) -> bool {
        !self.renderings.is_empty() && self.renderings.iter().all(|rendering| rendering.is_within)
    }
}

impl AppMemory {
    /// Raises the requested level.
    pub(crate) fn request(&mut self, level: Level) {
        self.requested = self.requested.max(Some(level));
    }
}
