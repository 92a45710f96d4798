//! What a provider tells of itself: its discovery document.

use serde::Deserialize;

/// What is used of the discovery document.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Its own name.
    pub issuer: String,
    /// Where browsers are sent.
    pub authorization_endpoint: String,
    /// Where codes are exchanged for tokens.
    pub token_endpoint: String,
    /// Where logins by a code begin; empty where there are none (CLI-207).
    pub device_authorization_endpoint: String,
    /// Where its keys are.
    pub jwks_uri: String,
    /// What it may answer with.
    pub response_types_supported: Vec<String>,
    /// How it signs.
    pub id_token_signing_alg_values_supported: Vec<String>,
    /// How clients prove who they are.
    pub token_endpoint_auth_methods_supported: Vec<String>,
    /// What may be asked for.
    pub scopes_supported: Vec<String>,
}

/// Why a discovery document cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MetadataError {
    /// It is none.
    #[error("the answer is no discovery document of OpenID Connect")]
    Malformed,
    /// It is another provider's.
    #[error("the provider calls itself {told:?}, and not {expected:?} as issuer of oidc.config says")]
    Issuer {
        /// What it calls itself.
        told: String,
        /// What it should.
        expected: String,
    },
    /// It lacks what nobody can log in without.
    #[error("the discovery document lacks {0}, or it is no HTTP address")]
    Missing(&'static str),
}

/// How a provider hands tokens over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseType {
    /// As a code, which we exchange.
    Code,
    /// As the token itself, in the fragment of the address that the browser comes back to.
    IdToken,
}

/// Where the discovery document of an issuer is.
pub fn address(issuer: &str) -> String {
    format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'))
}

impl Metadata {
    /// Reads the document of an issuer. Its name has to be the expected one to the letter (API-65).
    ///
    /// # Errors
    /// When it cannot be used.
    pub fn read(answer: &[u8], issuer: &str) -> Result<Self, MetadataError> {
        let read: Self = serde_json::from_slice(answer).map_err(|_invalid| MetadataError::Malformed)?;
        if read.issuer != issuer {
            let told: String = read.issuer.chars().take(200).collect();
            return Err(MetadataError::Issuer { told, expected: issuer.to_owned() });
        }
        let is_http = |text: &str| text.starts_with("https://") || text.starts_with("http://");
        for (name, place) in
            [("jwks_uri", &read.jwks_uri), ("authorization_endpoint", &read.authorization_endpoint)]
        {
            if !is_http(place) {
                return Err(MetadataError::Missing(name));
            }
        }
        if read.response_type() == ResponseType::Code && !is_http(&read.token_endpoint) {
            return Err(MetadataError::Missing("token_endpoint"));
        }
        Ok(read)
    }

    /// How tokens are handed over: as a code wherever that is possible (API-62).
    pub fn response_type(&self) -> ResponseType {
        let types = &self.response_types_supported;
        let has_code = types.is_empty() || types.iter().any(|kind| kind == "code");
        if has_code { ResponseType::Code } else { ResponseType::IdToken }
    }

    /// Whether clients prove who they are in the form, and not in a header.
    pub fn wants_secret_in_form(&self) -> bool {
        let methods = &self.token_endpoint_auth_methods_supported;
        let has = |name: &str| methods.iter().any(|method| method == name);
        has("client_secret_post") && !has("client_secret_basic")
    }
}
