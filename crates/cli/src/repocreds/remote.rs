//! Credential templates by way of an API server (API-176).

use reqwest::Method;
use serde_json::{Map, Value};
use tiphys_api::repository::CredentialTemplate;
use tiphys_service::template::{read, sent};

use super::Found;
use crate::core::{Remote, items, word};
use crate::failure::Failure;

/// A template of an answer.
fn found(value: Value) -> Found {
    Found { template: read(value.as_object().unwrap_or(&Map::new())), value }
}

/// The templates that may be seen.
pub(super) async fn list(server: &Remote) -> Result<Vec<Found>, Failure> {
    let mut answer = server.api.call(Method::GET, &["repocreds"], (&[], None)).await?;
    Ok(items(&mut answer, "items").into_iter().map(found).collect())
}

/// Stores a new template, or changes the one of its URL.
pub(super) async fn create(
    server: &Remote,
    template: &CredentialTemplate,
    is_upsert: bool,
) -> Result<(), Failure> {
    let (query, body) = ([("upsert", word(is_upsert))], sent(template));
    server.api.call(Method::POST, &["repocreds"], (&query, Some(&body))).await.map(drop)
}

/// Removes the template with exactly this URL.
pub(super) async fn delete(server: &Remote, url: &str) -> Result<(), Failure> {
    server.api.call(Method::DELETE, &["repocreds", url], (&[], None)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cli_805_a_template_is_printed_as_the_server_shows_it() {
        let value = json!({"url": "https://h", "username": "u", "type": "git"});
        let Found { template, value: kept } = found(value.clone());
        assert_eq!((template.credentials.username.as_str(), kept), ("u", value));
        assert_eq!(sent(&template), json!({"url": "https://h", "username": "u", "type": "git"}));
    }
}
