//! Tokens for GKE: the application default credentials.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tiphys_api::secret::Secret;

use crate::http::{self, Granted, Http};
use crate::{CloudError, CloudToken, Environment, jwt, read_file};

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
pub(crate) async fn token(
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
pub(crate) fn assertion(
    email: &str,
    key: &Secret<String>,
    key_id: &str,
    place: &str,
    now: Timestamp,
) -> Result<Secret<String>, CloudError> {
    let at = now.as_second();
    let claims = json!({"iss": email, "scope": SCOPES, "aud": place, "iat": at, "exp": at + 3600});
    jwt::signed(&claims, key, Some(key_id)).map_err(|_key| CloudError::File)
}
