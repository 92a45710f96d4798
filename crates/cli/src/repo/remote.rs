//! Repositories by way of an API server (API-170..173).

use reqwest::Method;
use serde_json::{Map, Value};
use tiphys_api::repository::{ApiSelectionError, Repository};
use tiphys_service::connection::State;
use tiphys_service::repository::{Listed, read, sent};

use super::Found;
use crate::core::{Remote, items, word};
use crate::failure::Failure;

/// The call that tries a repository. REST would have its credentials in the address.
const VALIDATE: &str = "/repository.RepositoryService/ValidateAccess";

/// A repository of an answer.
fn found(value: Value) -> Found {
    let empty = Map::new();
    let repository = Repository {
        inherited_credentials: value.get("inheritedCreds").and_then(Value::as_bool).unwrap_or_default(),
        ..read(value.as_object().unwrap_or(&empty))
    };
    let state = State::read(value.get("connectionState").unwrap_or(&Value::Null));
    // A server shows no secrets (API-172); a user name or the id of an app stands there because of one.
    let credentials = &repository.credentials;
    let has_credentials = credentials.is_present()
        || credentials.github_app_id != 0
        || credentials.github_app_installation_id != 0
        || !credentials.azure_client_id.is_empty();
    Found { listed: Listed { stored: repository.clone(), repository, state }, value, has_credentials }
}

/// The repositories that may be seen.
pub(super) async fn list(server: &Remote, is_forced: bool) -> Result<Vec<Found>, Failure> {
    let query = [("forceRefresh", word(is_forced))];
    let mut answer = server.api.call(Method::GET, &["repositories"], (&query, None)).await?;
    Ok(items(&mut answer, "items").into_iter().map(found).collect())
}

/// The repository that is meant (API-170).
pub(super) async fn get(
    server: &Remote,
    (url, project): (&str, Option<&str>),
    is_forced: bool,
) -> Result<Found, Failure> {
    let query = [("appProject", project.unwrap_or_default()), ("forceRefresh", word(is_forced))];
    let found = found(server.api.call(Method::GET, &["repositories", url], (&query, None)).await?);
    // To a server no project and the empty one are the same, and the only repository there is may be of another.
    if project == Some("") && !found.listed.repository.project.is_empty() {
        let none =
            ApiSelectionError::Ambiguous { url: url.to_owned(), project: String::new(), matching: vec![] };
        return Err(Failure::status("InvalidArgument", none));
    }
    Ok(found)
}

/// Whether the server reaches a repository as it is described.
pub(super) async fn validate(server: &Remote, repository: &Repository) -> Result<(), Failure> {
    server.api.call_web(VALIDATE, &tried(repository)).await
}

/// A repository in the words of the call that tries it: some are other ones.
fn tried(repository: &Repository) -> Map<String, Value> {
    let Value::Object(mut members) = sent(repository) else { return Map::new() };
    for (known, told) in [
        ("enableOCI", "enableOci"),
        ("insecureOCIForceHttp", "insecureOciForceHttp"),
        ("insecureIgnoreHostKey", "insecure"),
    ] {
        if let Some(value) = members.remove(known) {
            members.insert(told.to_owned(), value);
        }
    }
    members
}

/// Stores a new repository, or changes the one of its URL and project (API-173).
pub(super) async fn create(server: &Remote, repository: &Repository, is_upsert: bool) -> Result<(), Failure> {
    let query = [("upsert", word(is_upsert))];
    let body = sent(repository);
    server.api.call(Method::POST, &["repositories"], (&query, Some(&body))).await.map(drop)
}

/// Removes the repository that is meant (API-170).
pub(super) async fn delete(server: &Remote, meant: (&str, Option<&str>)) -> Result<(), Failure> {
    let (url, project) = meant;
    if project == Some("") {
        get(server, meant, false).await?;
    }
    let query = [("appProject", project.unwrap_or_default())];
    server.api.call(Method::DELETE, &["repositories", url], (&query, None)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiphys_service::repository::shown;

    use super::*;

    #[test]
    fn cli_802_a_repository_is_printed_as_the_server_shows_it() {
        let value = json!({"repo": "https://h/r", "type": "git", "project": "p", "username": "u", "depth": 3,
            "inheritedCreds": true, "connectionState":
                {"status": "Failed", "message": "m", "attemptedAt": "2026-08-01T10:00:00Z"}});
        let Found { listed, value: kept, .. } = found(value.clone());
        assert_eq!(kept, value);
        assert_eq!(shown(&listed.repository, &listed.state), value);
    }

    #[test]
    fn api_172_what_a_server_tells_of_credentials_is_shown() {
        let has = |name: &str, value: Value| {
            let mut told = json!({"repo": "https://h/r", "type": "git"});
            told[name] = value;
            found(told).has_credentials
        };
        for (name, value) in [
            ("username", json!("u")),
            ("githubAppID", json!("1")),
            ("githubAppInstallationID", json!(2)),
            ("useAzureWorkloadIdentity", json!(true)),
            ("azureServicePrincipalClientId", json!("c")),
        ] {
            assert!(has(name, value), "{name}");
        }
        // Addresses and proxies are no credentials.
        for (name, value) in
            [("githubAppEnterpriseBaseUrl", json!("https://g")), ("proxy", json!("http://p"))]
        {
            assert!(!has(name, value), "{name}");
        }
    }

    #[test]
    fn api_173_a_repository_is_tried_in_the_words_of_the_call() {
        let mut repository = Repository::bare("https://h/r");
        repository.insecure_ignore_host_key = true;
        repository.credentials.enable_oci = true;
        repository.credentials.password = "p".into();
        assert_eq!(
            Value::Object(tried(&repository)),
            json!({"repo": "https://h/r", "insecure": true, "enableOci": true, "password": "p"})
        );
    }
}
