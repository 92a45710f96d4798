//! The cluster an application's objects live in.

use std::sync::Arc;

use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_api::cluster::Cluster;
use tiphys_api::names::IN_CLUSTER_SERVER;
use tiphys_cluster::{ApiError, Connection, Discovery, Kinds, Target, Writer};
use tiphys_engine::seen::Seen;
use tiphys_object::{Object, ResourceKey};

use crate::core::{Core, Kubernetes, World};
use crate::failure::Failure;

/// A destination cluster that is read.
pub(crate) struct Destination {
    writer: Writer,
    pub(crate) connection: Connection,
    pub(crate) discovery: Discovery,
    /// The cluster, as configured.
    pub(crate) cluster: Cluster,
    /// What it serves.
    pub(crate) kinds: Arc<Kinds>,
}

impl Destination {
    /// The destination of an application; the cluster of the kubeconfig stands for the local one.
    pub(crate) async fn of(app: &Application, core: &Core, world: &World) -> Result<Self, Failure> {
        let cluster = world.cluster_of(app).map_err(|error| Failure::status("FailedPrecondition", error))?;
        let config = cluster.config.expose();
        let (connection, discovery) = if cluster.server == IN_CLUSTER_SERVER && config.trim().is_empty() {
            let Kubernetes { connection, discovery, .. } = core.kubernetes()?;
            (connection.clone(), discovery.clone())
        } else {
            let policy = core.plugin_policy(world);
            let connection =
                Connection::from_cluster_secret(&cluster.server, config, &policy).await.map_err(|error| {
                    Failure::status("FailedPrecondition", tiphys_cluster::error_chain(&error))
                })?;
            let connection = match core.rate(world) {
                Some(rate) => connection.paced(rate),
                None => connection,
            };
            let discovery = Discovery::new(connection.clone());
            (connection, discovery)
        };
        let kinds = discovery.kinds().await?;
        let writer = Writer::new(connection.clone(), discovery.clone());
        Ok(Self { writer, connection, discovery, cluster: cluster.clone(), kinds })
    }

    /// Looks at one object, with what these field managers own. What cannot be read is unknown, not absent.
    pub(crate) async fn look(
        &self,
        key: &ResourceKey,
        version: &str,
        managers: &[SmolStr],
    ) -> Seen<Arc<Object>> {
        match self.writer.get_with_books(&Core::target_of(key, version), managers).await {
            Ok(Some(object)) => Seen::Present(object),
            Ok(None) | Err(ApiError::NotServed(_)) => Seen::Absent,
            Err(error) => Seen::Unknown(error.to_string()),
        }
    }

    /// Reads one object, with what these field managers own; what cannot be read is a failure.
    pub(crate) async fn read(
        &self,
        target: &Target,
        managers: &[SmolStr],
    ) -> Result<Option<Arc<Object>>, Failure> {
        match self.writer.get_with_books(target, managers).await {
            Err(ApiError::NotServed(_)) => Ok(None),
            other => Ok(other?),
        }
    }
}
