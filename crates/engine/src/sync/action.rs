//! What a pass asks the shell to do, what the shell answers, and how a pass ends.

use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_api::application::ResourceResult;
pub use tiphys_api::codes::OperationPhase;
use tiphys_object::{Gvk, Object, ResourceKey};

use crate::hook::{SyncPhase, Wave};

/// What to do next.
#[derive(Clone, Debug)]
pub enum Step {
    /// Run these concurrently and answer with one [`Outcome`] per action, in order. Never empty.
    Do(Vec<Action>),
    /// The pass is over.
    Finish(PassEnd),
}

/// How a pass ended.
#[derive(Clone, Debug, PartialEq)]
pub struct PassEnd {
    /// Phase of the operation.
    pub phase: OperationPhase,
    /// Message of the operation.
    pub message: String,
    /// All results, those of earlier passes included, in order of first recording.
    pub results: Vec<ResourceResult>,
    /// Whether to wait `ARGOCD_SYNC_WAVE_DELAY` before the next pass (ENG-166).
    pub wave_delay: bool,
}

/// One call on the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Read the object: answer [`Outcome::Object`], [`Outcome::NotFound`] or [`Outcome::Failed`].
    Read,
    /// Client-side, local dry run of applying the manifest (ENG-176).
    DryRun,
    /// Client-side apply: three-way patch with the last-applied annotation.
    Apply,
    /// Server-side apply by `argocd-controller`, conflicts forced.
    ServerSideApply,
    /// Create; the object is not there.
    Create,
    /// Replace the object, or delete and recreate it when forced.
    Replace,
    /// Update with the live resource version.
    Update,
    /// Delete an object that left the source.
    Prune,
    /// Delete a hook.
    Delete,
    /// Remove the hook finalizer (ENG-150).
    RemoveFinalizer,
}

impl Op {
    /// Whether the call may change the cluster.
    pub fn is_write(self) -> bool {
        !matches!(self, Self::Read | Self::DryRun)
    }
}

/// Propagation of a prune (ENG-174).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents first. The default.
    #[default]
    Foreground,
    /// Dependents later.
    Background,
    /// Dependents stay.
    Orphan,
}

impl Propagation {
    /// The name in sync options.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
            Self::Orphan => "orphan",
        }
    }
}

/// One call on the cluster with everything it needs.
#[derive(Clone, Debug)]
pub struct Action {
    /// What to do.
    pub op: Op,
    /// The object; without namespace when it is cluster-scoped.
    pub key: ResourceKey,
    /// Its kind with version.
    pub gvk: Gvk,
    /// What to submit; hooks are named and marked already. Absent for reads and deletions.
    pub manifest: Option<Arc<Object>>,
    /// The live object at the start of the pass.
    pub live: Option<Arc<Object>>,
    /// Phase of the task.
    pub phase: SyncPhase,
    /// Wave of the task, after all adjustments.
    pub wave: Wave,
    /// Whether the object is created or replaced instead of applied; said of dry runs too (ENG-175).
    pub replaces: bool,
    /// Delete and recreate where a patch or replace fails.
    pub force: bool,
    /// Whether the API server validates the schema.
    pub validate: bool,
    /// Propagation of a prune.
    pub propagation: Option<Propagation>,
    /// Manager whose client-side-applied fields move over before a server-side apply, if the live object has
    /// an `Update` entry of it (ENG-178).
    pub migrate_from: Option<SmolStr>,
    /// Whether the operation is a dry run.
    pub dry_run: bool,
}

/// What came of an action.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Done, with the text to record.
    Done {
        /// For applies the kubectl-style message (ENG-180); else unused.
        message: String,
    },
    /// Answer of [`Op::Read`]; `None` means not found.
    Object(Option<Arc<Object>>),
    /// The call failed.
    Failed {
        /// Text of the error.
        message: String,
    },
    /// The object is not there.
    NotFound,
}

impl Outcome {
    /// A success without text.
    pub fn done() -> Self {
        Self::Done { message: String::new() }
    }

    /// A failure.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::Failed { message: message.into() }
    }
}
