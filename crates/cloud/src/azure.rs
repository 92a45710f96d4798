//! Tokens for AKS: workload identity, a service principal, or the machine's managed identity.

use jiff::Timestamp;

use crate::http::{self, Granted, Http};
use crate::{CloudError, CloudToken, Environment, read_file};

/// The application that stands for all AKS API servers.
pub(crate) const SERVER: &str = "6dae42f8-4368-4678-94ff-3960e28e3630";
/// Where the machine tells who it is.
const METADATA: &str = "http://169.254.169.254";
const BY_TOKEN: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The token for `server`, by the method that `AAD_LOGIN_METHOD` names; without one, the pod's identity if it has one,
/// else the principal's, else the machine's.
pub(crate) async fn token(
    http: &Http,
    environment: &Environment,
    server: &str,
    now: Timestamp,
) -> Result<CloudToken, CloudError> {
    let client = environment.first(&["AAD_SERVICE_PRINCIPAL_CLIENT_ID", "AZURE_CLIENT_ID"]);
    let secret = environment.first(&["AAD_SERVICE_PRINCIPAL_CLIENT_SECRET", "AZURE_CLIENT_SECRET"]);
    let identity = environment.get("AZURE_FEDERATED_TOKEN_FILE");
    let method = environment.get("AAD_LOGIN_METHOD").unwrap_or(match (identity, secret) {
        (Some(_), _) => "workloadidentity",
        (None, Some(_)) => "spn",
        (None, None) => "msi",
    });
    let scope = format!("{server}/.default");
    let need = |value: Option<&'_ str>| value.map(str::to_owned).ok_or(CloudError::NoIdentity);
    let granted: Granted = match method {
        "workloadidentity" => {
            let (client, assertion) = (need(client)?, read_file(need(identity)?).await?);
            let members = [
                ("grant_type", "client_credentials"),
                ("client_id", client.as_str()),
                ("scope", &scope),
                ("client_assertion_type", BY_TOKEN),
                ("client_assertion", assertion.expose().trim()),
            ];
            http::json_of(http::form(http.public()?.post(tokens(environment)?), &members)).await?
        }
        "spn" => {
            let (client, secret) = (need(client)?, secret.ok_or(CloudError::NoIdentity)?);
            let members = [
                ("grant_type", "client_credentials"),
                ("client_id", client.as_str()),
                ("scope", &scope),
                ("client_secret", secret),
            ];
            http::json_of(http::form(http.public()?.post(tokens(environment)?), &members)).await?
        }
        "msi" => {
            let address = environment.get("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or(METADATA);
            let mut members = vec![("api-version", "2018-02-01"), ("resource", server)];
            members.extend(client.map(|client| ("client_id", client)));
            let query = crate::sigv4::query(members);
            let url = format!("{}/metadata/identity/oauth2/token?{query}", address.trim_end_matches('/'));
            http::json_of(http.local()?.get(url).header("metadata", "true")).await?
        }
        _ => return Err(CloudError::Unsupported),
    };
    granted.token(now)
}

/// Where tokens are granted to the tenant.
fn tokens(environment: &Environment) -> Result<String, CloudError> {
    let tenant = environment.get("AZURE_TENANT_ID").ok_or(CloudError::NoIdentity)?;
    // It becomes a part of a path.
    if !tenant.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte))
        || tenant.contains("..")
    {
        return Err(CloudError::Value);
    }
    let authority = match (environment.get("AZURE_AUTHORITY_HOST"), environment.get("AAD_ENVIRONMENT_NAME")) {
        (Some(host), _) => host,
        (None, None | Some("AzurePublicCloud")) => "https://login.microsoftonline.com",
        (None, Some("AzureUSGovernmentCloud")) => "https://login.microsoftonline.us",
        (None, Some("AzureChinaCloud")) => "https://login.chinacloudapi.cn",
        (None, Some(_)) => return Err(CloudError::Value),
    };
    Ok(format!("{}/{tenant}/oauth2/v2.0/token", authority.trim_end_matches('/')))
}
