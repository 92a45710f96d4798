//! The servers that are asked.

use std::path::PathBuf;

use serde_json::Value;
use tiphys_sim::{Options, Server, Sim};

use crate::client::Client;
use crate::kubectl;

/// One API server.
pub(crate) struct Target {
    pub(crate) client: Client,
    /// The parsed kubeconfig.
    pub(crate) kubeconfig: Value,
    /// Folder or name of the program; `None` where there is none.
    pub(crate) kubectl: Option<PathBuf>,
    /// Whether its answers are those that the others must give.
    pub(crate) is_real: bool,
    /// The embedded server, which ends with this.
    _server: Option<Server>,
}

impl Target {
    /// The control plane named by the environment; says so when there is none.
    pub(crate) fn real() -> Option<Self> {
        let Some(path) = setting("TIPHYS_TEST_KUBECONFIG") else {
            println!("skipped: no real control plane (make test starts one)");
            return None;
        };
        let text = std::fs::read_to_string(path).unwrap();
        let target = Self::new(&text, true);
        if target.kubeconfig["current-context"] == "tiphys" {
            println!("skipped: TIPHYS_TEST_KUBECONFIG names an embedded server");
            return None;
        }
        Some(target)
    }

    /// A fresh server in this process.
    pub(crate) async fn embedded() -> Self {
        let sim = Sim::new(Options { seed: 1, ..Options::default() }).unwrap();
        let server = Server::start(sim, "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let target = Self::new(&server.kubeconfig(), false);
        Self { _server: Some(server), ..target }
    }

    fn new(kubeconfig: &str, is_real: bool) -> Self {
        let limits = tiphys_go::yaml::Limits::default();
        let kubeconfig =
            tiphys_go::yaml::parse(kubeconfig, tiphys_go::yaml::Dialect::Sigs, &limits).unwrap().unwrap();
        Self {
            client: Client::new(&kubeconfig),
            kubeconfig,
            kubectl: kubectl::find(),
            is_real,
            _server: None,
        }
    }
}

/// An environment variable, when it says something.
pub(crate) fn setting(name: &str) -> Option<String> {
    #[expect(clippy::disallowed_methods, reason = "tests have no settings")]
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
