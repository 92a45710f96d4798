//! A repository as a request has it, and as an answer shows it: without anything that opens a door (REP-13).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tiphys_api::application::Metadata;
use tiphys_api::repo_url::mask_password;
use tiphys_api::repository::{Field, Repository};

use crate::connection::State;

/// The repository of a request. Its members are the keys of a Secret, but for the URL; what only answers have is not
/// looked at.
pub fn read(members: &Map<String, Value>) -> Repository {
    let mut data = texts(members);
    if let Some(url) = data.remove("repo") {
        data.insert("url".to_owned(), url);
    }
    Repository::from_secret(&Metadata::default(), &data)
}

/// The members of a request about a repository: the counterpart of [`read`], with everything that opens a door.
pub fn sent(repository: &Repository) -> Value {
    let mut members = set_members(&repository.fields());
    if let Some(url) = members.remove("url") {
        members.insert("repo".to_owned(), url);
    }
    Value::Object(members)
}

/// Fields that are not zero, as messages spell them (API-P7).
pub(crate) fn set_members(fields: &[Field]) -> Map<String, Value> {
    let set = fields.iter().filter(|field| !field.is_zero);
    set.map(|field| (spelled(field).to_owned(), field.exposed())).collect()
}

/// Secrets have two spellings of some keys, messages one.
fn spelled(field: &Field) -> &'static str {
    field.alias.filter(|alias| alias.ends_with("Id")).unwrap_or(field.key)
}

/// The members of a request that are set, as a Secret has them.
pub(crate) fn texts(members: &Map<String, Value>) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    };
    let texts = members.iter().filter_map(|(key, value)| Some((key.clone(), text(value)?)));
    texts.filter(|(_, text)| !text.is_empty()).collect()
}

/// The members of an answer (REP-13). Zero values are left out, except the URL and the state of the connection.
pub fn shown(repository: &Repository, state: &State) -> Value {
    let credentials = &repository.credentials;
    let texts = [
        ("type", repository.effective_type()),
        ("name", &repository.name),
        ("username", &credentials.username),
        ("noProxy", &credentials.no_proxy),
        ("project", &repository.project),
        ("githubAppEnterpriseBaseUrl", &credentials.github_app_enterprise_base_url),
        ("azureServicePrincipalClientId", &credentials.azure_client_id),
        ("azureServicePrincipalTenantId", &credentials.azure_tenant_id),
        ("azureActiveDirectoryEndpoint", &credentials.azure_active_directory_endpoint),
    ];
    let flags = [
        ("insecure", repository.is_insecure()),
        ("enableLfs", repository.enable_lfs),
        ("enableOCI", credentials.enable_oci),
        ("forceHttpBasicAuth", credentials.force_http_basic_auth),
        ("inheritedCreds", repository.inherited_credentials),
        ("useAzureWorkloadIdentity", credentials.use_azure_workload_identity),
    ];
    let numbers = [
        ("githubAppID", credentials.github_app_id),
        ("githubAppInstallationID", credentials.github_app_installation_id),
        ("depth", repository.depth),
    ];
    let mut members = Map::new();
    members.insert("repo".to_owned(), mask_password(&repository.url).into());
    members.insert("connectionState".to_owned(), state.to_value());
    members.extend(
        texts.iter().filter(|(_, text)| !text.is_empty()).map(|(key, text)| ((*key).to_owned(), json!(text))),
    );
    members
        .extend(flags.iter().filter(|(_, flag)| *flag).map(|(key, flag)| ((*key).to_owned(), json!(flag))));
    members.extend(numbers.iter().filter(|(_, it)| *it != 0).map(|(key, it)| ((*key).to_owned(), json!(it))));
    if !credentials.proxy.is_empty() {
        members.insert("proxy".to_owned(), masked_proxy(&credentials.proxy).into());
    }
    Value::Object(members)
}

/// Deviation (REP-13): the reference shows user and password of a proxy.
fn masked_proxy(proxy: &str) -> String {
    match proxy.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?.1))) {
        Some((scheme, host)) => format!("{scheme}://***@{host}"),
        None => proxy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tiphys_api::repository::Credentials;

    use super::*;

    #[test]
    fn api_p7_what_is_sent_is_read_as_it_was() {
        let credentials = Credentials {
            username: "u".to_owned(),
            password: "p".into(),
            github_app_id: 7,
            azure_client_id: "c".to_owned(),
            enable_oci: true,
            ..Credentials::default()
        };
        let repository =
            Repository { depth: 3, enable_lfs: true, credentials, ..Repository::bare("https://h/r") };
        let value = sent(&repository);
        assert_eq!(
            value,
            json!({"repo": "https://h/r", "depth": 3, "enableLfs": true, "username": "u", "password": "p",
                "githubAppID": 7, "azureServicePrincipalClientId": "c", "enableOCI": true})
        );
        assert_eq!(read(value.as_object().unwrap()), repository);
    }
}
