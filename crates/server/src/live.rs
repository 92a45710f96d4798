//! What the API server shows beyond the objects of its own installation: sources, and what is in destination clusters.
//!
//! A port: in a process with a controller that controller answers, from what it knows anyway. Without one nobody does,
//! and the calls that need it say so.

use futures::future::BoxFuture;
use serde_json::Value;
use tiphys_api::{Application, ApplicationSet};
use tiphys_object::ResourceKey;

use crate::call::Status;
use crate::catalog::AppKey;

/// Answers about sources and destinations of applications. Nothing of them holds secrets.
pub trait Live: Send + Sync {
    /// Whether the sources of an application can be rendered, whether it is stored or not; else what is wrong, in the
    /// words of its conditions.
    fn check_sources<'a>(&'a self, app: &'a Application) -> BoxFuture<'a, Result<(), String>>;

    /// The tree of an application's resources: an `ApplicationTree`.
    fn tree<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Value, Status>>;

    /// What an application manages, desired and live: a list of `ResourceDiff`.
    fn managed<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// The manifests of the sources, at the revisions that were compared last or at others, by the position of their
    /// source.
    fn manifests<'a>(
        &'a self,
        key: &'a AppKey,
        revisions: &'a [(usize, String)],
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// A live object of an application.
    fn resource<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Value, Status>>;

    /// The Applications that a set would make.
    fn generate<'a>(&'a self, set: &'a ApplicationSet) -> BoxFuture<'a, Result<Vec<Value>, Status>>;
}
