//! The one HTTP client of cloud logins: small answers, short times, no redirects.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::{Client, RequestBuilder, redirect};
use serde::de::DeserializeOwned;
use tiphys_api::secret::Secret;

use super::CloudError;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 256 << 10;
/// Time for one request; the whole login has a deadline of its own.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(8);
/// A metadata server answers at once, or is not there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Clients for the two ways out.
pub(super) struct Http {
    /// For the provider's public addresses; follows the proxies of our environment.
    pub(super) public: Client,
    /// For what is on this machine; never through a proxy.
    pub(super) local: Client,
}

impl Http {
    pub(super) fn new() -> Result<Self, CloudError> {
        crate::connection::provide_crypto();
        let builder = || {
            Client::builder()
                .redirect(redirect::Policy::none())
                .timeout(REQUEST_TIMEOUT)
                .connect_timeout(CONNECT_TIMEOUT)
        };
        let built =
            |builder: reqwest::ClientBuilder| builder.build().map_err(|_error| CloudError::Unreachable);
        Ok(Self { public: built(builder())?, local: built(builder().no_proxy())? })
    }
}

/// The body of a successful answer.
pub(super) async fn text_of(request: RequestBuilder) -> Result<Secret<String>, CloudError> {
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
pub(super) async fn json_of<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, CloudError> {
    let text = text_of(request).await?;
    serde_json::from_str(text.expose()).map_err(|_secret| CloudError::Answer)
}

/// A form as it is sent.
pub(super) fn form(request: RequestBuilder, members: &[(&str, &str)]) -> RequestBuilder {
    request
        .header("content-type", "application/x-www-form-urlencoded")
        .body(super::sigv4::query(members.iter().copied()))
}

/// An `OAuth` answer with a token.
#[derive(serde::Deserialize)]
pub(super) struct Granted {
    access_token: String,
    /// Seconds, as a number or as digits in quotes (Azure's metadata server).
    expires_in: serde_json::Value,
}

impl Granted {
    pub(super) fn token(self, now: Timestamp) -> Result<super::CloudToken, CloudError> {
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
        Ok(super::CloudToken { token, ends: ends.map_err(|_error| CloudError::Answer)? })
    }
}
