//! The servers that are asked.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::client::Client;
use crate::kubectl;

/// One API server, and how patient to be with it.
pub(crate) struct Target {
    pub(crate) client: Client,
    /// The parsed kubeconfig.
    pub(crate) kubeconfig: Value,
    /// Folder or name of the program; `None` where there is none.
    pub(crate) kubectl: Option<PathBuf>,
    /// Longest wait for something to become true.
    pub(crate) patience: Duration,
    /// Whether its answers are those that the others must give.
    pub(crate) is_real: bool,
}

impl Target {
    /// The control plane named by the environment; says so when there is none.
    pub(crate) async fn real() -> Option<Self> {
        let Some(path) = setting("TIPHYS_TEST_KUBECONFIG") else {
            println!("skipped: no real control plane (make test starts one)");
            return None;
        };
        let text = std::fs::read_to_string(path).unwrap();
        let target = Self::new(&text, Duration::from_secs(30), true);
        let version = target.client.get("/version").await.unwrap();
        if version["gitVersion"].as_str().is_some_and(|version| version.contains("tiphys")) {
            println!("skipped: TIPHYS_TEST_KUBECONFIG names an embedded server");
            return None;
        }
        Some(target)
    }

    fn new(kubeconfig: &str, patience: Duration, is_real: bool) -> Self {
        let limits = tiphys_go::yaml::Limits::default();
        let kubeconfig =
            tiphys_go::yaml::parse(kubeconfig, tiphys_go::yaml::Dialect::Sigs, &limits).unwrap().unwrap();
        Self { client: Client::new(&kubeconfig), kubeconfig, kubectl: kubectl::find(), patience, is_real }
    }
}

/// An environment variable, when it says something.
pub(crate) fn setting(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "tests have no settings")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
