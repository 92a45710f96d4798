//! What a comparison found.

use std::sync::Arc;

use tiphys_api::application::Condition;
pub use tiphys_api::codes::SyncStatusCode;
use tiphys_object::{Gvk, Object, ResourceKey};

/// One object of the application: desired, live or both (ENG-52).
#[derive(Clone, Debug)]
pub struct ComparedResource {
    /// The key; that of the live object when there is one.
    pub key: ResourceKey,
    /// The type; that of the live object when there is one.
    pub gvk: Gvk,
    /// The desired object, namespace defaulted and marked.
    pub target: Option<Arc<Object>>,
    /// The live object.
    pub live: Option<Arc<Object>>,
    /// The status; `None` when the object does not count.
    pub status: Option<SyncStatusCode>,
    /// Whether the diff says that an apply would change the live object.
    pub modified: bool,
    /// Whether it is a hook.
    pub hook: bool,
    /// Whether a sync would delete it.
    pub requires_pruning: bool,
    /// Whether its mark is its own (TRK-92).
    pub self_referenced: bool,
    /// Whether it bears other marks than an apply of the target would leave, because the tracking settings changed (TRK-105).
    pub is_marked_otherwise: bool,
    /// Whether it is the application's only because of settings that are in force no more, and nobody's after its next sync
    /// (TRK-106).
    pub is_released_next: bool,
    /// The wave.
    pub sync_wave: i64,
    /// Whether a person has to confirm its deletion.
    pub requires_deletion_confirmation: bool,
}

/// A live object that a target names and another application claims (TRK-131).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedResource {
    /// The text of its condition.
    pub message: String,
    /// Whether the other application is there; a chart may write its own label.
    pub owner_exists: bool,
}

/// The result of [`compare`](super::compare).
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Status of the application.
    pub status: SyncStatusCode,
    /// All objects, sorted by key.
    pub resources: Vec<ComparedResource>,
    /// Desired hooks that take part in a sync, in generation order.
    pub hooks: Vec<Arc<Object>>,
    /// Conditions, sorted by type and message, without times.
    pub conditions: Vec<Condition>,
    /// Objects that another application claims.
    pub shared: Vec<SharedResource>,
    /// Why the comparison could not be made; every status is `Unknown` then.
    pub failed: Option<String>,
    /// Whether ignore rules were stopped: differences may be told that do not count. Nothing is done about them
    /// without being asked.
    pub incomplete: bool,
}
