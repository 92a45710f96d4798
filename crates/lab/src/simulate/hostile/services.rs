//! Plugins and providers of repositories as the controller asks them, watched for what they would be sent.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use tiphys_appset::params::Params;
use tiphys_control::services::{PluginCall, Plugins, ProviderAsk, Providers, Services};
use tiphys_generation::ScmProviders;

use super::account::VAULT_PLUGIN_URL;
use crate::simulate::wire::Wires;

/// What is asked in place of the network.
struct Watched {
    wires: Arc<Wires>,
    /// Who answers what is no attack.
    inner: Option<Arc<dyn Plugins>>,
}

impl fmt::Debug for Watched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Watched").finish_non_exhaustive()
    }
}

/// Services that tell the observer what reaches them and must not.
pub(in crate::simulate) fn watched(wires: &Arc<Wires>, inner: Option<&Services>) -> Services {
    let inner = inner.map(|services| Arc::clone(&services.plugins));
    let watched = Arc::new(Watched { wires: Arc::clone(wires), inner });
    Services { plugins: Arc::clone(&watched) as Arc<dyn Plugins>, providers: watched }
}

impl Watched {
    fn broken(&self, invariant: &'static str, text: String) {
        let now = self.wires.now();
        self.wires.observer.lock().broken(now, invariant, text);
    }

    /// A provider that cannot be reached, after what it would be sent was looked at.
    async fn ask<T>(&self, ask: ProviderAsk) -> Result<T, String> {
        let canary = self.wires.observer.lock().model.canary.clone();
        for secret in ScmProviders::secrets(&ask).await? {
            if secret.expose().contains(&canary) {
                let block = &ask.question.block;
                self.broken("INV-7", format!("a secret is sent for the set {}: {block:?}", ask.set));
            }
        }
        Err("the provider cannot be reached".to_owned())
    }
}

impl Plugins for Watched {
    fn post(&self, call: PluginCall) -> BoxFuture<'_, Result<(u16, Bytes), String>> {
        if call.url.starts_with(VAULT_PLUGIN_URL) {
            self.broken("INV-6", format!("another project's plugin is called: {}", call.url));
        }
        match &self.inner {
            Some(inner) => inner.post(call),
            None => Box::pin(async { Err("the plugin cannot be reached".to_owned()) }),
        }
    }
}

impl Providers for Watched {
    fn repositories(&self, ask: ProviderAsk) -> BoxFuture<'_, Result<Vec<Params>, String>> {
        Box::pin(self.ask(ask))
    }

    fn pull_requests(&self, ask: ProviderAsk) -> BoxFuture<'_, Result<Vec<Params>, String>> {
        Box::pin(self.ask(ask))
    }
}
