//! Talks to Kubernetes: discovery, watch index, apply, prune.
//!
//! The only crate that holds a Kubernetes client. [`Connection`] is the way to one API server, [`Discovery`]
//! knows what it serves, [`ClusterIndex`] watches what it holds, [`watch_objects`] follows the objects of one
//! kind in full, and [`Writer`] is the one place from which changes leave. What the API server refuses is an
//! [`ApiError`] with code, reason and text.
//!
//! Nothing here decides what should be in a cluster; that is the engine's and the controllers' work.

mod about;
mod connection;
mod error;
mod exec;
#[cfg(test)]
mod fake;
mod forward;
mod index;
mod kinds;
mod logs;
mod objects;
mod observer;
mod watch;
mod write;

pub use about::events_about;
pub use connection::{
    ConnectError, Connection, Fence, Impersonation, KubeContext, KubeOverrides, PluginPolicy, contexts,
};
pub use error::{ApiError, Refusal, error_chain};
pub use exec::{ExecEvent, ExecInput, ExecQuery, ExecSink, ExecStream};
pub use index::{
    Claim, Claims, ClusterIndex, Derive, Derived, IndexEvent, IndexOptions, KindState, Managed, OrphanQuery,
    ParentRef, Seen, TreeNode,
};
pub use kinds::{
    ApiResource, Discovery, FilterError, Kinds, ResourceFilter, Scope, Served, discover, server_version,
};
pub use logs::{LogLines, LogQuery};
pub use objects::{
    ObjectEvent, ObjectQuery, Received, Unreadable, list_since, next_of_first_list, watch_objects,
};
pub use observer::{Asked, Observer};
pub use watch::Jitter;
pub use write::{
    Applied, ApplyMethod, ApplyOptions, DeleteOptions, Deleted, Known, Outcome, PatchKind, Propagation,
    Removal, Target, Writer, hinted, without_values,
};
