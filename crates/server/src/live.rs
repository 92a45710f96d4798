//! What the API server shows beyond the objects of its own installation: sources, and what is in destination clusters.
//!
//! A port: in a process with a controller that controller answers, from what it knows anyway. Without one nobody does,
//! and the calls that need it say so.

use futures::future::BoxFuture;
use serde_json::Value;
use tiphys_api::Application;

use crate::call::Status;
use crate::catalog::AppKey;

/// An object of a destination cluster, as a call names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceName {
    /// Group; empty for the core one.
    pub group: String,
    /// Version; empty takes that of the tree.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; empty for cluster-scoped ones.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Answers about sources and destinations of applications.
pub trait Live: Send + Sync {
    /// Whether the sources of an application can be rendered; else what is wrong, in the words of its conditions.
    fn check_sources<'a>(&'a self, app: &'a Application) -> BoxFuture<'a, Result<(), String>>;

    /// The tree of an application's resources: an `ApplicationTree`.
    fn tree<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Value, Status>>;

    /// What an application manages, desired and live, without secrets: a list of `ResourceDiff`.
    fn managed<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// The manifests of the sources at revisions; none takes those of the spec.
    fn manifests<'a>(
        &'a self,
        app: &'a Application,
        revisions: &'a [(usize, String)],
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// A live object, with its secrets.
    fn resource<'a>(
        &'a self,
        app: &'a Application,
        name: &'a ResourceName,
    ) -> BoxFuture<'a, Result<Value, Status>>;
}
