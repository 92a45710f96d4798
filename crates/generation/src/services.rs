//! Services that generators ask: plugins of users (ASET-69), and providers of repositories (ASET-58, ASET-64).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use reqwest::redirect;
use tiphys_api::secret::Secret;
use tiphys_api::settings::ApplicationSets;
use tiphys_appset::facts::{ProviderQuestion, TextMap};
use tiphys_appset::generate::PLUGIN_USER_AGENT;
use tiphys_appset::params::Params;

use crate::ScmProviders;

/// Bytes of a plugin's answer.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// Redirects of one call.
const REDIRECTS_MAX: usize = 5;
/// Longest call that a plugin's settings can ask for.
const TIMEOUT_MAX: Duration = Duration::from_mins(10);

/// Who asks services. Cloning gives another handle to the same.
#[derive(Clone, Debug)]
pub struct Services {
    /// Calls plugins.
    pub plugins: Arc<dyn Plugins>,
    /// Asks providers.
    pub providers: Arc<dyn Providers>,
}

impl Services {
    /// Services of the network.
    pub fn of_network() -> Self {
        Self { plugins: Arc::new(HttpPlugins::default()), providers: Arc::new(ScmProviders::default()) }
    }
}

/// A call of a plugin.
#[derive(Clone, Debug)]
pub struct PluginCall {
    /// Where to.
    pub url: String,
    /// What proves who asks.
    pub token: Secret<String>,
    /// JSON that is sent.
    pub body: String,
    /// How long it may take.
    pub timeout: Duration,
}

/// Calls plugins.
pub trait Plugins: Send + Sync + fmt::Debug {
    /// Sends a body; answers with a status and a body.
    fn post(&self, call: PluginCall) -> BoxFuture<'_, Result<(u16, Bytes), String>>;
}

/// What a provider is asked with.
#[derive(Clone)]
pub struct ProviderAsk {
    /// What is asked.
    pub question: ProviderQuestion,
    /// Name of the set, for metrics; its namespace is in the question.
    pub set: String,
    /// Which providers may be asked and how.
    pub settings: Arc<ApplicationSets>,
    /// Reads the Secrets and `ConfigMaps` that the question names.
    pub objects: Arc<dyn References>,
    /// Our environment: a token for GitHub, and who we are at AWS.
    pub environment: Arc<BTreeMap<String, String>>,
    /// Whether templates of the set are in Go's language, which alone shows labels of pull requests (ASET-63).
    pub is_go: bool,
    /// Is told about questions to GitHub, where the settings want that (ASET-311).
    pub observer: Option<Arc<dyn tiphys_scm::Observer>>,
}

/// A Secret or a `ConfigMap`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Referenced {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Data; that of Secrets decoded.
    pub data: TextMap,
}

/// Reads what generators refer to.
pub trait References: Send + Sync {
    /// A Secret; `None` when there is none.
    fn secret<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Referenced>, String>>;

    /// A `ConfigMap`; `None` when there is none.
    fn config_map<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Referenced>, String>>;
}

/// Asks providers of repositories. What they do not say completely is an error (INV-8).
pub trait Providers: Send + Sync + fmt::Debug {
    /// Repositories, as parameters without `values`.
    fn repositories(&self, ask: ProviderAsk) -> BoxFuture<'_, Result<Vec<Params>, String>>;

    /// Pull requests, as parameters without `values`.
    fn pull_requests(&self, ask: ProviderAsk) -> BoxFuture<'_, Result<Vec<Params>, String>>;
}

/// Plugins that are asked over HTTP.
#[derive(Debug, Default)]
pub struct HttpPlugins {
    /// Made when it is needed: it reads the roots of the system.
    client: OnceLock<reqwest::Client>,
}

impl HttpPlugins {
    fn client(&self) -> Result<&reqwest::Client, String> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        tiphys_cloud::provide_crypto();
        let redirects = redirect::Policy::custom(|attempt| {
            if is_followed(attempt.previous(), attempt.url()) { attempt.follow() } else { attempt.stop() }
        });
        let built = reqwest::Client::builder().user_agent(PLUGIN_USER_AGENT).redirect(redirects).build();
        let built = built.map_err(|error| shown(&error))?;
        Ok(self.client.get_or_init(|| built))
    }

    async fn call(&self, call: PluginCall) -> Result<(u16, Bytes), String> {
        let request = self
            .client()?
            .post(&call.url)
            .timeout(call.timeout.min(TIMEOUT_MAX))
            .bearer_auth(call.token.expose())
            .header("content-type", "application/json")
            .body(call.body);
        let mut response = request.send().await.map_err(|error| shown(&error))?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| shown(&error))? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(format!("the answer has more than {ANSWER_BYTES_MAX} bytes"));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, body.into()))
    }
}

/// Whether a redirect stays where the token is for: the same scheme, host and port, a few times.
fn is_followed(previous: &[reqwest::Url], next: &reqwest::Url) -> bool {
    let is_same = |from: &reqwest::Url| from.origin() == next.origin();
    previous.len() <= REDIRECTS_MAX && previous.first().is_some_and(is_same)
}

impl Plugins for HttpPlugins {
    fn post(&self, call: PluginCall) -> BoxFuture<'_, Result<(u16, Bytes), String>> {
        Box::pin(self.call(call))
    }
}

/// What went wrong, without the URL, which may have a password, and with its causes.
fn shown(error: &reqwest::Error) -> String {
    let mut text = match error {
        error if error.is_timeout() => "it took too long".to_owned(),
        error if error.is_connect() => "it cannot be reached".to_owned(),
        error if error.is_builder() => "its address cannot be used".to_owned(),
        _ => "the call failed".to_owned(),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(source) = cause {
        text.push_str(": ");
        text.push_str(&source.to_string());
        cause = source.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_plugin_redirects_stay_at_one_server() {
        let url = |text: &str| text.parse::<reqwest::Url>().unwrap();
        let follows = |from: &str, to: &str| is_followed(&[url(from)], &url(to));
        assert!(follows("https://a/x", "https://a/y") && follows("https://a/x", "https://a:443/y"));
        for to in ["https://b/x", "https://a:444/x", "http://a/x", "https://a.evil/x", "https://user@b/x"] {
            assert!(!follows("https://a/x", to), "{to}");
        }
        let many = vec![url("https://a/x"); REDIRECTS_MAX + 1];
        assert!(!is_followed(&many, &url("https://a/y")));
    }
}
