//! The cluster an application's objects live in, and the repositories they come from, as their crates want them.

use std::sync::Arc;

use tiphys_api::Application;
use tiphys_api::names::IN_CLUSTER_SERVER;
use tiphys_api::repository::Repository;
use tiphys_cluster::{ApiError, Connection, Discovery, Kinds, Target, Writer};
use tiphys_engine::seen::Seen;
use tiphys_object::{Object, ResourceKey};

use crate::core::{Core, World, chain};
use crate::failure::Failure;

/// A destination cluster that is read.
pub(crate) struct Destination {
    writer: Writer,
    /// What it serves.
    pub(crate) kinds: Arc<Kinds>,
}

impl Destination {
    /// The destination of an application; the cluster of the kubeconfig stands for the local one.
    pub(crate) async fn of(app: &Application, core: &Core, world: &World) -> Result<Self, Failure> {
        let cluster = world
            .clusters
            .resolve(&app.spec.destination)
            .map_err(|error| Failure::status("FailedPrecondition", error))?;
        let config = cluster.config.expose();
        let (writer, discovery) = if cluster.server == IN_CLUSTER_SERVER && config.trim().is_empty() {
            (core.writer.clone(), core.discovery.clone())
        } else {
            let connection = Connection::from_cluster_secret(&cluster.server, config)
                .await
                .map_err(|error| Failure::status("FailedPrecondition", chain(&error)))?;
            let discovery = Discovery::new(connection.clone());
            (Writer::new(connection, discovery.clone()), discovery)
        };
        let kinds = discovery.kinds().await?;
        Ok(Self { writer, kinds })
    }

    /// Looks at one object. What cannot be read is unknown, not absent.
    pub(crate) async fn look(&self, key: &ResourceKey, version: &str) -> Seen<Arc<Object>> {
        match self.writer.get(&Core::target_of(key, version)).await {
            Ok(Some(object)) => Seen::Present(object),
            Ok(None) | Err(ApiError::NotServed(_)) => Seen::Absent,
            Err(error) => Seen::Unknown(error.to_string()),
        }
    }

    /// Reads one object; what cannot be read is a failure.
    pub(crate) async fn read(&self, target: &Target) -> Result<Option<Arc<Object>>, Failure> {
        match self.writer.get(target).await {
            Err(ApiError::NotServed(_)) => Ok(None),
            other => Ok(other?),
        }
    }
}

/// A repository as the source crate wants it.
pub(super) fn source_repository(found: &Repository) -> tiphys_source::Repository {
    let credentials = &found.credentials;
    let secret = |text: &str| tiphys_source::Secret::from(text);
    tiphys_source::Repository {
        username: credentials.username.clone(),
        password: secret(credentials.password.expose()),
        bearer_token: secret(credentials.bearer_token.expose()),
        ssh_private_key: secret(credentials.ssh_private_key.expose()),
        force_http_basic_auth: credentials.force_http_basic_auth,
        insecure: found.is_insecure(),
        tls: tiphys_source::Tls {
            client_certificate: credentials.tls_client_cert_data.clone(),
            client_key: secret(credentials.tls_client_cert_key.expose()),
            roots: String::new(),
        },
        proxy: secret(&credentials.proxy),
        no_proxy: credentials.no_proxy.clone(),
        project: found.project.clone(),
        depth: u32::try_from(found.depth).unwrap_or(0),
        ..tiphys_source::Repository::anonymous(&found.url)
    }
}
