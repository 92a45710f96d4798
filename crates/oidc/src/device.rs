//! Logins by a code that a person enters in a browser somewhere else (RFC 8628, CLI-207).

use std::time::Duration;

use serde::Deserialize;
use tiphys_api::secret::Secret;

use crate::provider::{Client, Granted, Provider, ProviderError};

/// What the grant is called.
const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// Time between two questions where the provider names none, and what is taken of what it names.
const INTERVAL: Duration = Duration::from_secs(5);
const INTERVAL_MAX: Duration = Duration::from_mins(1);
/// What a provider that is asked too often adds.
const SLOWER: Duration = Duration::from_secs(5);
/// What is taken of the time that a code counts.
const LIFETIME_MAX: Duration = Duration::from_mins(30);

/// A login that a person has to allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// What the person enters.
    pub user_code: String,
    /// Where.
    pub verification_uri: String,
    /// Where nothing has to be entered; empty where there is no such place.
    pub verification_uri_complete: String,
    /// How long it counts.
    pub lifetime: Duration,
    /// Time between two questions.
    pub interval: Duration,
    code: Secret<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct DeviceAnswer {
    device_code: Secret<String>,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: String,
    expires_in: u64,
    interval: Option<u64>,
}

/// What became of a login so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The person allowed it.
    Granted(Granted),
    /// Nobody has decided.
    Pending,
    /// The same, and it was asked too early.
    TooEarly,
}

impl Device {
    fn read(answer: &[u8]) -> Option<Self> {
        let answer: DeviceAnswer = serde_json::from_slice(answer).ok()?;
        let is_http = |text: &str| text.starts_with("https://") || text.starts_with("http://");
        if answer.device_code.is_empty() || answer.user_code.is_empty() || !is_http(&answer.verification_uri)
        {
            return None;
        }
        let whole = Some(answer.verification_uri_complete).filter(|text| is_http(text));
        Some(Self {
            user_code: answer.user_code,
            verification_uri: answer.verification_uri,
            verification_uri_complete: whole.unwrap_or_default(),
            lifetime: Duration::from_secs(answer.expires_in).min(LIFETIME_MAX),
            interval: answer.interval.map_or(INTERVAL, Duration::from_secs).min(INTERVAL_MAX),
            code: answer.device_code,
        })
    }

    /// The same, asked less often.
    #[must_use]
    pub fn slower(self) -> Self {
        Self { interval: self.interval.saturating_add(SLOWER).min(INTERVAL_MAX), ..self }
    }
}

impl Provider {
    /// Begins a login by a code.
    ///
    /// # Errors
    /// When the provider does not offer it, or does not answer.
    pub async fn begin_device(&self, client: &Client, scopes: &[String]) -> Result<Device, ProviderError> {
        let metadata = self.metadata().await?;
        let place = metadata.device_authorization_endpoint.as_str();
        if place.is_empty() {
            return Err(ProviderError::NoDeviceLogins);
        }
        let scopes = scopes.join(" ");
        let answer = self.form(place, client, vec![("scope", scopes.as_str())]).await?;
        Device::read(&answer).ok_or(ProviderError::NoDeviceCode)
    }

    /// Asks whether the person has decided.
    ///
    /// # Errors
    /// When they refused, or took too long, or the provider does not answer.
    pub async fn poll_device(&self, client: &Client, device: &Device) -> Result<Poll, ProviderError> {
        let members = vec![("grant_type", GRANT), ("device_code", device.code.expose().as_str())];
        match self.granted(client, members).await {
            Ok(granted) => Ok(Poll::Granted(granted)),
            Err(error) => match error.told() {
                Some("authorization_pending") => Ok(Poll::Pending),
                Some("slow_down") => Ok(Poll::TooEarly),
                _ => Err(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_207_what_a_provider_asks_a_person_to_do() {
        let read = |text: &str| Device::read(text.as_bytes());
        let device = read(
            r#"{"device_code": "d", "user_code": "AB-CD", "verification_uri": "https://sso/device",
                "verification_uri_complete": "https://sso/device?c=AB-CD", "expires_in": 999999, "interval": 3}"#,
        )
        .unwrap();
        assert_eq!((device.lifetime, device.interval), (LIFETIME_MAX, Duration::from_secs(3)));
        assert_eq!(device.clone().slower().interval, Duration::from_secs(8));
        assert!(!format!("{device:?}").contains("\"d\""), "{device:?}");
        let plain = r#"{"device_code": "d", "user_code": "A", "verification_uri": "http://sso", "expires_in": 60,
            "verification_uri_complete": "javascript:x"}"#;
        let plain = read(plain).unwrap();
        assert_eq!((plain.verification_uri_complete.as_str(), plain.interval), ("", INTERVAL));
        for bad in ["", "{}", r#"{"device_code": "d", "user_code": "A", "verification_uri": "file:///x"}"#] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
