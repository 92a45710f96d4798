//! What the API server shows beyond the objects of its own installation: sources, and what is in destination clusters.
//!
//! A port: in a process with a controller that controller answers, from what it knows anyway. Without one nobody does,
//! and the calls that need it say so.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde_json::Value;
use tiphys_api::application::HealthStatus;
use tiphys_api::cluster::ClusterKey;
use tiphys_api::{Application, ApplicationSet};
use tiphys_appset::preview::{Existing, Preview};
use tiphys_cluster::{ExecQuery, ExecSink, ExecStream, LogQuery, PatchKind, Removal};
use tiphys_object::{Object, ResourceKey};
use tiphys_service::cluster::Watched;
use tiphys_source::Compute;

use crate::call::Status;
use crate::catalog::AppKey;

/// Lines of a log.
pub type Lines = BoxStream<'static, Result<Bytes, Status>>;

/// A pair that a dry run is asked about (API-145). What is named is the same in all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// What it is.
    pub key: ResourceKey,
    /// The live object as the caller was shown it.
    pub live: Option<Value>,
    /// The manifest.
    pub target: Option<Value>,
}

/// Answers about sources and destinations of applications. Nothing of them holds secrets.
pub trait Live: Send + Sync {
    /// Whether the sources of an application can be rendered, whether it is stored or not; else what is wrong, in the
    /// words of its conditions.
    fn check_sources<'a>(&'a self, app: &'a Application) -> BoxFuture<'a, Result<(), String>>;

    /// Threads and turns that renderings of the process share; nothing where it renders nothing else.
    fn compute(&self) -> Option<Compute> {
        None
    }

    /// The tree of an application's resources: an `ApplicationTree`.
    fn tree<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Value, Status>>;

    /// What an application manages, desired and live: a list of `ResourceDiff`.
    fn managed<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// Compares pairs by dry runs at the destination, where the project permits that: a list of `ResourceDiff`, in their
    /// order.
    fn server_side_diff<'a>(
        &'a self,
        key: &'a AppKey,
        pairs: &'a [Pair],
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// Tells when the tree of an application may have become another, from now on.
    fn tree_changes(&self, key: &AppKey) -> BoxStream<'static, ()>;

    /// The manifests of the sources, at the revisions that were compared last or at others, by the position of their
    /// source.
    fn manifests<'a>(
        &'a self,
        key: &'a AppKey,
        revisions: &'a [(usize, String)],
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// The manifests with the files of a `tar.gz` in place of the first source's repository (API-147). The files may use
    /// only the application's own sources, and programs and plugins only if `may_run_programs`.
    fn manifests_with_files<'a>(
        &'a self,
        key: &'a AppKey,
        packed: Bytes,
        may_run_programs: bool,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// A live object of an application.
    fn resource<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Value, Status>>;

    /// Changes a live object of an application, where its project permits that; the answer is the object.
    fn patch<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
        patch: (PatchKind, &'a Value),
    ) -> BoxFuture<'a, Result<Value, Status>>;

    /// Deletes a live object of an application, where its project permits that.
    fn delete<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
        how: Removal,
    ) -> BoxFuture<'a, Result<(), Status>>;

    /// What can be done with a live object of an application: a list of `ResourceAction`.
    fn actions<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// Runs an action on a live object of an application, where its project permits what comes of it; the answer is the
    /// object as it was.
    fn run<'a>(
        &'a self,
        key: &'a AppKey,
        resource: &'a ResourceKey,
        action: (&'a str, &'a BTreeMap<String, String>),
    ) -> BoxFuture<'a, Result<Arc<Object>, Status>>;

    /// The Events about a resource of an application, by its namespace, name and uid.
    fn events<'a>(
        &'a self,
        key: &'a AppKey,
        about: (&'a str, &'a str, &'a str),
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// The pods of an application that are a resource or belong to one: namespace and name of each. Empty members of the
    /// key say nothing.
    fn pods<'a>(
        &'a self,
        key: &'a AppKey,
        below: &'a ResourceKey,
    ) -> BoxFuture<'a, Result<Vec<(String, String)>, Status>>;

    /// The lines of the log of one of these pods, each with its time before it.
    fn log<'a>(
        &'a self,
        key: &'a AppKey,
        pod: (&'a str, &'a str),
        query: &'a LogQuery,
    ) -> BoxFuture<'a, Result<Lines, Status>>;

    /// Starts a program in a running container of a pod of an application, with a terminal (API-190).
    fn exec<'a>(
        &'a self,
        key: &'a AppKey,
        query: &'a ExecQuery,
    ) -> BoxFuture<'a, Result<(ExecSink, ExecStream), Status>>;

    /// Whether callers of an application may see a resource now. Streams check repeatedly. An error if that is unknown at
    /// the moment.
    fn has<'a>(&'a self, key: &'a AppKey, resource: &'a ResourceKey) -> BoxFuture<'a, Result<bool, Status>>;

    /// Health of the resources that the status of an application lists, as far as it is known (API-118).
    fn health<'a>(&'a self, key: &'a AppKey) -> BoxFuture<'a, Vec<(ResourceKey, HealthStatus)>>;

    /// What is known of a cluster that is watched (API-168).
    fn cluster(&self, cluster: &ClusterKey) -> Option<Watched>;

    /// The Applications that a set would make, and what becomes of those that exist, where that is asked for.
    fn generate<'a>(
        &'a self,
        set: &'a ApplicationSet,
        existing: Existing,
    ) -> BoxFuture<'a, Result<Preview, Status>>;

    /// The sets of parameters that the generators of a set give.
    fn parameters<'a>(&'a self, set: &'a ApplicationSet) -> BoxFuture<'a, Result<Vec<Value>, Status>>;
}
