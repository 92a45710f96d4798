//! The one HTTP client of cloud logins: small answers, short times, no redirects.

use std::sync::OnceLock;
use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Client, ClientBuilder, RequestBuilder, redirect};
use serde::de::DeserializeOwned;
use tiphys_api::secret::Secret;

use crate::CloudError;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Time for one request; the whole login has a deadline of its own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// A metadata server answers at once, or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Clients for the two ways out, made when they are needed: keys of the environment need none, and each one reads
/// the roots of the system.
#[derive(Default)]
pub(crate) struct Http {
    public: OnceLock<Client>,
    local: OnceLock<Client>,
}

impl Http {
    /// For the provider's public addresses; follows the proxies of our environment.
    pub(crate) fn public(&self) -> Result<&Client, CloudError> {
        client(&self.public, |builder| builder)
    }

    /// For what is on this machine; never through a proxy.
    pub(crate) fn local(&self) -> Result<&Client, CloudError> {
        client(&self.local, ClientBuilder::no_proxy)
    }
}

fn client(
    known: &OnceLock<Client>,
    way: impl FnOnce(ClientBuilder) -> ClientBuilder,
) -> Result<&Client, CloudError> {
    if let Some(client) = known.get() {
        return Ok(client);
    }
    crate::provide_crypto();
    let builder = Client::builder()
        .redirect(redirect::Policy::none())
        .timeout(REQUEST_TIMEOUT)
        .connect_timeout(CONNECT_TIMEOUT);
    let built = way(builder).build().map_err(|_error| CloudError::Unreachable)?;
    Ok(known.get_or_init(|| built))
}

/// The body of a successful answer.
pub(crate) async fn text_of(request: RequestBuilder) -> Result<Secret<String>, CloudError> {
    let mut response = request.send().await.map_err(|error| {
        // What cannot be built has an address or a header that cannot be.
        if error.is_builder() { CloudError::Value } else { CloudError::Unreachable }
    })?;
    if !response.status().is_success() {
        return Err(CloudError::Refused(response.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|_error| CloudError::Unreachable)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(CloudError::Answer);
        }
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body).map(Secret::from).map_err(|_error| CloudError::Answer)
}

/// The body of a successful answer, as JSON.
pub(crate) async fn json_of<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, CloudError> {
    let text = text_of(request).await?;
    serde_json::from_str(text.expose()).map_err(|_secret| CloudError::Answer)
}

/// A form as it is sent.
pub(crate) fn form(request: RequestBuilder, members: &[(&str, &str)]) -> RequestBuilder {
    request
        .header("content-type", "application/x-www-form-urlencoded")
        .body(crate::sigv4::query(members.iter().copied()))
}

/// An `OAuth` answer with a token.
#[derive(serde::Deserialize)]
pub(crate) struct Granted {
    access_token: String,
    /// Seconds, as a number or as digits in quotes (Azure's metadata server).
    expires_in: serde_json::Value,
}

impl Granted {
    pub(crate) fn token(self, now: Timestamp) -> Result<crate::CloudToken, CloudError> {
        let token = Secret::from(self.access_token);
        let seconds = match &self.expires_in {
            serde_json::Value::String(digits) => digits.parse().ok(),
            number => number.as_i64(),
        };
        let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds)).ok_or(CloudError::Answer)?;
        if token.is_empty() {
            return Err(CloudError::Answer);
        }
        let ends = now.checked_add(jiff::SignedDuration::from_secs(seconds));
        Ok(crate::CloudToken { token, ends: ends.map_err(|_error| CloudError::Answer)? })
    }
}
