//! Questions to a provider: small answers, short times, no redirects, so that nothing of ours is sent on to others.

use std::time::Duration;

use reqwest::{Certificate, Client, RequestBuilder, StatusCode, redirect};
use serde_json::Value;
use tiphys_api::secret::Secret;
use tiphys_cluster::error_chain;

/// A client of HTTP for a provider.
pub type HttpClient = Client;

/// What an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for a question with its answer.
    pub time: Duration,
    /// Bytes of an answer.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), bytes: 1 << 20 }
    }
}

/// The way to a provider (API-72).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transport {
    /// Certificates in PEM that vouch for it, beside those of the system.
    pub root_ca: String,
    /// Whether its certificate is not checked.
    pub skips_verification: bool,
    /// Addresses that begin with the first are asked at the second: a provider behind our own address (API-73).
    pub detour: Option<(String, String)>,
    /// What answers may take.
    pub limits: Limits,
}

/// Why a provider did not answer, in words without secrets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The way to it cannot be set up.
    #[error("rootCA of oidc.config holds no certificates that can be used")]
    RootCa,
    /// It cannot be reached.
    #[error("{place} cannot be reached: {reason}")]
    Unreachable {
        /// Who.
        place: String,
        /// Why.
        reason: String,
    },
    /// It said no.
    #[error("{place} answers with status {status}{told}")]
    Refused {
        /// Who.
        place: String,
        /// The status of HTTP.
        status: u16,
        /// The error that it named, behind a colon; else nothing.
        told: String,
    },
    /// It said too much.
    #[error("the answer of {place} is larger than {bytes} bytes")]
    TooLarge {
        /// Who.
        place: String,
        /// What is read at most.
        bytes: usize,
    },
}

/// A client for one provider.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    client: Client,
    transport: Transport,
}

impl Http {
    pub(crate) fn new(transport: &Transport) -> Result<Self, HttpError> {
        Ok(Self { client: client(transport)?, transport: transport.clone() })
    }

    /// Where an address is asked.
    fn way(&self, url: &str) -> String {
        match &self.transport.detour {
            Some((from, to)) => match url.strip_prefix(from.as_str()) {
                Some(rest) if rest.is_empty() || rest.starts_with(['/', '?']) => format!("{to}{rest}"),
                _ => url.to_owned(),
            },
            None => url.to_owned(),
        }
    }

    /// The body of an address.
    pub(crate) async fn get(&self, url: &str) -> Result<Vec<u8>, HttpError> {
        self.answer(self.client.get(self.way(url)).header("accept", "application/json"), url).await
    }

    /// The body of an address that wants a token.
    pub(crate) async fn get_as(&self, url: &str, token: &Secret<String>) -> Result<Vec<u8>, HttpError> {
        let request = self.client.get(self.way(url)).header("accept", "application/json, application/jwt");
        self.answer(request.bearer_auth(token.expose()), url).await
    }

    /// The body that a JSON is answered with by an address that wants a token.
    pub(crate) async fn post_as(
        &self,
        url: &str,
        token: &Secret<String>,
        body: &Value,
    ) -> Result<Vec<u8>, HttpError> {
        let request = self
            .client
            .post(self.way(url))
            .header("accept", "application/json")
            .header("content-type", "application/json")
            .body(body.to_string());
        self.answer(request.bearer_auth(token.expose()), url).await
    }

    /// The body that a form is answered with.
    pub(crate) async fn form(
        &self,
        url: &str,
        members: &[(&str, &str)],
        authorization: Option<&Secret<String>>,
    ) -> Result<Vec<u8>, HttpError> {
        let body: String = form_urlencoded::Serializer::new(String::new()).extend_pairs(members).finish();
        let mut request = self
            .client
            .post(self.way(url))
            .header("accept", "application/json")
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        if let Some(value) = authorization {
            request = request.header("authorization", value.expose());
        }
        self.answer(request, url).await
    }

    async fn answer(&self, request: RequestBuilder, url: &str) -> Result<Vec<u8>, HttpError> {
        let place = shown(url);
        let failed = |error: reqwest::Error| {
            let reason = if error.is_timeout() {
                format!("no answer within {} s", self.transport.limits.time.as_secs())
            } else {
                error_chain(&error.without_url())
            };
            HttpError::Unreachable { place: place.clone(), reason }
        };
        let mut response = request.send().await.map_err(failed)?;
        let (status, bytes) = (response.status(), self.transport.limits.bytes);
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(failed)? {
            if body.len().saturating_add(piece.len()) > bytes {
                return Err(HttpError::TooLarge { place, bytes });
            }
            body.extend_from_slice(&piece);
        }
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(HttpError::Refused { place, status: status.as_u16(), told: told(&body) })
    }
}

/// A client with the trust that a provider needs.
///
/// # Errors
/// When its certificates cannot be read.
pub fn client(transport: &Transport) -> Result<Client, HttpError> {
    tiphys_cloud::provide_crypto();
    let mut builder = Client::builder()
        .redirect(redirect::Policy::none())
        .timeout(transport.limits.time)
        .pool_max_idle_per_host(2)
        .tls_danger_accept_invalid_certs(transport.skips_verification);
    if !transport.root_ca.trim().is_empty() {
        let found = Certificate::from_pem_bundle(transport.root_ca.as_bytes());
        let found = found.ok().filter(|found| !found.is_empty()).ok_or(HttpError::RootCa)?;
        builder = builder.tls_certs_merge(found);
    }
    builder.build().map_err(|_unusable| HttpError::RootCa)
}

/// What an error of `OAuth` says: its word alone, since descriptions may quote what was sent.
fn told(body: &[u8]) -> String {
    let read: Option<Value> = serde_json::from_slice(body).ok();
    let word = read.as_ref().and_then(|read| read.get("error")).and_then(Value::as_str).unwrap_or_default();
    let is_word = !word.is_empty()
        && word.len() <= 80
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if is_word { format!(": {word}") } else { String::new() }
}

/// An address without what may be secret in it.
fn shown(url: &str) -> String {
    let bare = url.split(['?', '#']).next().unwrap_or_default();
    tiphys_api::repo_url::redact(bare)
}
