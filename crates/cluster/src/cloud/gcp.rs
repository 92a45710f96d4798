//! Tokens for GKE: the application default credentials.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use serde::Deserialize;
use serde_json::json;
use tiphys_api::secret::Secret;

use super::http::{self, Granted, Http};
use super::{CloudError, CloudToken, Environment, read_file};

const SCOPES: &str =
    "https://www.googleapis.com/auth/cloud-platform https://www.googleapis.com/auth/userinfo.email";
const TOKENS: &str = "https://oauth2.googleapis.com/token";

/// A file of credentials.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Known {
    ServiceAccount {
        client_email: String,
        private_key: Secret<String>,
        #[serde(default)]
        private_key_id: String,
        /// Where its tokens are granted; empty means Google's own place.
        #[serde(default)]
        token_uri: String,
    },
    AuthorizedUser {
        client_id: String,
        client_secret: Secret<String>,
        refresh_token: Secret<String>,
    },
    #[serde(other)]
    Other,
}

/// The token: from the file that the environment names, from the one `gcloud` wrote, or from the metadata server.
pub(super) async fn token(
    http: &Http,
    environment: &Environment,
    now: Timestamp,
) -> Result<CloudToken, CloudError> {
    let Some(file) = file(environment).await? else {
        let host = environment.get("GCE_METADATA_HOST").unwrap_or("metadata.google.internal");
        let url = format!("http://{host}/computeMetadata/v1/instance/service-accounts/default/token");
        let request = http.local()?.get(url).header("metadata-flavor", "Google");
        return http::json_of::<Granted>(request).await?.token(now);
    };
    let known: Known = serde_json::from_str(file.expose()).map_err(|_secret| CloudError::File)?;
    let granted: Granted = match known {
        Known::ServiceAccount { client_email, private_key, private_key_id, token_uri } => {
            let place = if token_uri.is_empty() { TOKENS } else { token_uri.as_str() };
            let assertion = assertion(&client_email, &private_key, &private_key_id, place, now)?;
            let members = [
                ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
                ("assertion", assertion.expose()),
            ];
            http::json_of(http::form(http.public()?.post(place), &members)).await?
        }
        Known::AuthorizedUser { client_id, client_secret, refresh_token } => {
            let members = [
                ("grant_type", "refresh_token"),
                ("client_id", &client_id),
                ("client_secret", client_secret.expose()),
                ("refresh_token", refresh_token.expose()),
            ];
            http::json_of(http::form(http.public()?.post(TOKENS), &members)).await?
        }
        Known::Other => return Err(CloudError::Unsupported),
    };
    granted.token(now)
}

async fn file(environment: &Environment) -> Result<Option<Secret<String>>, CloudError> {
    if let Some(path) = environment.get("GOOGLE_APPLICATION_CREDENTIALS") {
        return read_file(path).await.map(Some);
    }
    let Some(home) = environment.get("HOME") else { return Ok(None) };
    let path = std::path::Path::new(home).join(".config/gcloud/application_default_credentials.json");
    match tokio::fs::try_exists(&path).await {
        Ok(true) => read_file(&path).await.map(Some),
        Ok(false) => Ok(None),
        Err(_) => Err(CloudError::File),
    }
}

/// What a service account says of itself, signed with its key.
pub(super) fn assertion(
    email: &str,
    key: &Secret<String>,
    key_id: &str,
    place: &str,
    now: Timestamp,
) -> Result<Secret<String>, CloudError> {
    use aws_lc_rs::{rand, rsa, signature};
    let parsed =
        PrivateKeyDer::from_pem_slice(key.expose().as_bytes()).map_err(|_secret| CloudError::File)?;
    let pair = match &parsed {
        PrivateKeyDer::Pkcs8(der) => rsa::KeyPair::from_pkcs8(der.secret_pkcs8_der()),
        PrivateKeyDer::Pkcs1(der) => rsa::KeyPair::from_der(der.secret_pkcs1_der()),
        _ => return Err(CloudError::File),
    };
    let pair = pair.map_err(|_secret| CloudError::File)?;
    let header = json!({"alg": "RS256", "typ": "JWT", "kid": key_id});
    let at = now.as_second();
    let claims = json!({"iss": email, "scope": SCOPES, "aud": place, "iat": at, "exp": at + 3600});
    let part = |value: &serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let mut proof = vec![0; pair.public_modulus_len()];
    pair.sign(&signature::RSA_PKCS1_SHA256, &rand::SystemRandom::new(), signed.as_bytes(), &mut proof)
        .map_err(|_error| CloudError::File)?;
    Ok(Secret::from(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(proof))))
}
