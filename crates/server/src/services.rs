//! What answers calls: one module per service, each method behind the question whether the caller may.
//!
//! A method gets its [`Context`]: the snapshot that the call began with, who calls, and what the policy of roles says
//! about them. It reads its request into a type of its own, asks, and calls the functions that the command line calls in
//! core mode (`tiphys-service`).

mod account;
mod admit;
mod allowance;
mod application;
mod application_set;
pub mod audit;
mod certificate;
mod cluster;
mod context;
mod events;
mod health;
mod links;
mod notification;
mod payload;
mod project;
mod reflection;
mod repository;
mod request;
mod session;
mod settings;
mod standing;
mod terminal;
mod version;
mod viewer;
mod visit;
mod watching;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tiphys_cluster::Connection;
use tiphys_service::Store;
use tiphys_service::connection::Connections;
use tiphys_source::{Clock, Sources};
use tiphys_wire::status::Code;

use crate::call::{Admitted, Api, Head, Reply, Requests, Status};
use crate::catalog::Catalog;
use crate::counts::{Counts, Step};
use crate::http::CallerKey;
use crate::identity::Identity;
use crate::live::Live;
use crate::session::Sessions;
use crate::sets::SetCatalog;
use crate::world::World;
use context::Context;
pub use terminal::Terminals;
pub use version::{Build, COMPATIBLE_VERSION};
pub(crate) use visit::Visitor;

/// What a server is made of.
pub struct Parts {
    /// The snapshot of the installation.
    pub world: Arc<ArcSwap<World>>,
    /// Sessions.
    pub sessions: Arc<Sessions>,
    /// The way to the installation's objects.
    pub store: Store,
    /// The time.
    pub clock: Clock,
    /// The applications.
    pub catalog: Arc<Catalog>,
    /// Their sets.
    pub sets: Arc<SetCatalog>,
    /// What knows sources and destinations; nobody in a process without a controller.
    pub live: Option<Arc<dyn Live>>,
    /// What asks repositories.
    pub sources: Option<Sources>,
    /// What is known of the connections of repositories.
    pub connections: Connections,
    /// The way to the cluster of the installation.
    pub home: Connection,
    /// The way to those who write Events.
    pub recorder: audit::Recorder,
    /// What runs here.
    pub build: Build,
    /// What is counted of calls.
    pub counts: Counts,
    /// Whether nobody is asked who they are (API-32).
    pub without_authentication: bool,
}

/// The services.
pub struct Services {
    parts: Arc<Parts>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Services")
    }
}

impl Services {
    /// Services of an installation.
    pub fn new(parts: Parts) -> Self {
        Self { parts: Arc::new(parts) }
    }

    /// What is counted.
    pub(crate) fn counts(&self) -> &Counts {
        &self.parts.counts
    }

    async fn dispatch(self: Arc<Self>, call: Admitted, requests: Requests) -> Result<Reply, Status> {
        let path = call.head.description().path.as_str();
        let Some((service, method)) = path.strip_prefix('/').and_then(|path| path.split_once('/')) else {
            return Err(unimplemented(path));
        };
        let context = Context::new(&self.parts, call.clone());
        match service {
            "version.VersionService" => Ok(version::version(&context)),
            "cluster.SettingsService" => settings::call(&context, method),
            "application.ApplicationService" if method == "GetManifestsWithFiles" => {
                application::manifests_with_files(&context, request::several(method, requests)?).await
            }
            "application.ApplicationService" => {
                application::call(&context, method, request::one(method, requests)?).await
            }
            "session.SessionService" => {
                session::call(&context, method, request::one(method, requests)?).await
            }
            "account.AccountService" => {
                account::call(&context, method, request::one(method, requests)?).await
            }
            "applicationset.ApplicationSetService" => {
                application_set::call(&context, method, request::one(method, requests)?).await
            }
            "project.ProjectService" => {
                project::call(&context, method, request::one(method, requests)?).await
            }
            "repository.RepositoryService" => {
                repository::call(&context, method, request::one(method, requests)?).await
            }
            "repocreds.RepoCredsService" => {
                repository::templates(&context, method, request::one(method, requests)?).await
            }
            "cluster.ClusterService" => {
                cluster::call(&context, method, request::one(method, requests)?).await
            }
            "certificate.CertificateService" => {
                certificate::call(&context, method, request::one(method, requests)?).await
            }
            "notification.NotificationService" => notification::call(&context, method),
            "gpgkey.GPGKeyService" => {
                certificate::keys(&context, method, request::one(method, requests)?).await
            }
            "grpc.health.v1.Health" => health::call(&context, method, request::one(method, requests)?),
            "grpc.reflection.v1.ServerReflection" | "grpc.reflection.v1alpha.ServerReflection" => {
                Ok(reflection::call(&context, request::several(method, requests)?))
            }
            _ => Err(unimplemented(path)),
        }
    }
}

/// A method that the tables have and nobody answers.
fn unimplemented(method: &str) -> Status {
    Status::new(Code::Unimplemented, format!("{method} is not implemented"))
}

impl Api for Services {
    fn admit(self: Arc<Self>, head: Head) -> BoxFuture<'static, Result<Admitted, Status>> {
        async move { admit::admit(&self.parts, head).await }.boxed()
    }

    fn bytes_max(&self, call: &Admitted) -> Result<usize, Status> {
        allowance::bytes_max(&Context::new(&self.parts, call.clone()))
    }

    fn call(
        self: Arc<Self>,
        call: Admitted,
        requests: Requests,
    ) -> BoxFuture<'static, Result<Reply, Status>> {
        let method = call.head.description();
        if let Requests::One(request) = &requests
            && tracing::enabled!(tracing::Level::DEBUG)
            && let Some(payload) = payload::shown(method, request)
        {
            tracing::debug!(method = method.path.as_str(), payload, "request");
        }
        let owner = CallerKey::of(&call.identity, call.head.peer.ip()).owner();
        let work = self.dispatch(call, requests).boxed();
        async move { tiphys_source::on_behalf_of(&owner, work).await }.boxed()
    }

    fn step(&self, head: &Head, step: Step) {
        self.parts.counts.step(head.description(), step);
    }

    fn ended(&self, head: &Head, identity: Option<&Identity>, code: Code, took: Duration) {
        let user = identity.and_then(Identity::claims).map(|claims| claims.text("sub")).unwrap_or_default();
        self.parts.counts.ended(head.description(), code);
        let (method, time_ms) = (head.description().path.as_str(), took.as_millis());
        tracing::info!(method, code = code.as_str(), time_ms, user = %tiphys_api::printable::line(user), "call");
    }
}

#[cfg(test)]
mod tests;
