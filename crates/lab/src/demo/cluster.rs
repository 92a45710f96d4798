//! The Kubernetes API of the demo, inside the process.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use tiphys_go::yaml::{Dialect, Limits};
use tiphys_sim::{Faults, Server, Sim};

use super::directory::write_private;
use super::scenario::NAMESPACE;

/// How the cluster is made.
pub(crate) struct Options<'a> {
    pub(crate) seed: u64,
    /// Where it keeps its objects; in memory without.
    pub(crate) data: Option<&'a Path>,
    pub(crate) speed: f64,
}

/// A running API server.
pub(crate) struct Cluster {
    sim: Sim,
    server: Server,
}

impl Cluster {
    /// Starts it on a free port of the loopback address, whatever else listens where.
    pub(crate) async fn start(options: &Options<'_>) -> anyhow::Result<Self> {
        let sim = Sim::new(tiphys_sim::Options {
            seed: options.seed,
            data: options.data.map(Path::to_owned),
            speed: options.speed,
            ..tiphys_sim::Options::default()
        })
        .map_err(|error| anyhow!("the embedded API cannot start: {error}"))?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let server = Server::start(sim.clone(), address).await.context("the embedded API cannot listen")?;
        Ok(Self { sim, server })
    }

    /// Writes the kubeconfig, with the Applications' namespace as its own, so that `kubectl get applications`
    /// shows them.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> anyhow::Result<()> {
        let parsed = tiphys_go::yaml::parse(&self.server.kubeconfig(), Dialect::Sigs, &Limits::default());
        let mut config =
            parsed.ok().flatten().context("the kubeconfig of the embedded API cannot be read")?;
        let context = config.pointer_mut("/contexts/0/context").and_then(Value::as_object_mut);
        let context = context.ok_or_else(|| anyhow!("the kubeconfig of the embedded API has no context"))?;
        context.insert("namespace".to_owned(), NAMESPACE.into());
        let text = tiphys_go::yaml::to_string(&config)?;
        write_private(path, text.as_bytes()).context("cannot write the kubeconfig")
    }

    /// From here on so many of a thousand requests go wrong.
    pub(crate) fn set_faults(&self, seed: u64, per_mille: u16) {
        self.sim.set_faults((per_mille > 0).then(|| Faults::new(seed, per_mille)));
    }

    /// Ends it. Connections end with their clients.
    pub(crate) fn stop(&self) {
        self.server.stop();
    }
}
