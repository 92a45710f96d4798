//! Clusters by way of an API server (API-166..169).

use reqwest::Method;
use serde_json::{Value, json};
use tiphys_api::cluster::Cluster;
use tiphys_service::cluster::{Create, Message, Selector, Update};

use super::Found;
use crate::core::{Remote, items, word};
use crate::failure::Failure;

/// A cluster of an answer.
fn found(value: Value) -> Result<Found, Failure> {
    let message: Message = serde_json::from_value(value.clone())
        .map_err(|error| Failure::status("Internal", format!("the server sent no cluster: {error}")))?;
    Ok(Found { cluster: message.cluster(), value })
}

/// Where a cluster is in the API, and what that text is (API-166).
fn meant(selector: Selector<'_>) -> (&str, (&'static str, &'static str)) {
    match selector {
        Selector::Server(server) => (server, ("id.type", "url")),
        Selector::Name(name) => (name, ("id.type", "name")),
    }
}

/// The clusters that may be seen.
pub(super) async fn list(server: &Remote) -> Result<Vec<Found>, Failure> {
    let mut answer = server.api.call(Method::GET, &["clusters"], (&[], None)).await?;
    items(&mut answer, "items").into_iter().map(found).collect()
}

/// The cluster that is meant; the first, where several have the name.
pub(super) async fn get(server: &Remote, selector: Selector<'_>) -> Result<Found, Failure> {
    let (id, kind) = meant(selector);
    found(server.api.call(Method::GET, &["clusters", id], (&[kind], None)).await?)
}

/// The call that says what somebody may. The address of a cluster in that of a request would be another one behind proxies
/// that merge slashes.
const CAN_I: &str = "/account.AccountService/CanI";

/// Refuses somebody whom the server would not let store a cluster: before anything is made inside of it (CLI-812).
pub(super) async fn check_create(
    server: &Remote,
    (url, project): (&str, &str),
    is_upsert: bool,
) -> Result<(), Failure> {
    let object = if project.is_empty() { url.to_owned() } else { format!("{project}/{url}") };
    let actions = if is_upsert { &["create", "update"][..] } else { &["create"] };
    for action in actions {
        let asked = json!({"resource": "clusters", "action": action, "subresource": object});
        let Value::Object(asked) = asked else { continue };
        let answer = server.api.ask_web(CAN_I, &asked).await?;
        if answer.get("value").and_then(Value::as_str) == Some("no") {
            let text = format!("permission denied: clusters, {action}, {object}");
            return Err(Failure::status("PermissionDenied", text)
                .hint("nothing was made in the cluster; ask for the right, or name a `--project` of yours"));
        }
    }
    Ok(())
}

/// Stores a new cluster, or changes the one of its server (API-167).
pub(super) async fn create(server: &Remote, create: &Create) -> Result<(), Failure> {
    let query = [("upsert", word(create.upsert))];
    let body = body(&described(Message::of(&create.cluster))?)?;
    server.api.call(Method::POST, &["clusters"], (&query, Some(&body))).await.map(drop)
}

/// Changes what an update names (API-167).
pub(super) async fn update(server: &Remote, name: &str, update: &Update) -> Result<(), Failure> {
    let (message, fields) = described(Message::of_update(update))?;
    let (id, kind) = meant(Selector::Name(name));
    let mut query = vec![kind];
    query.extend(fields.into_iter().map(|field| ("updatedFields", field)));
    let body = body(&message)?;
    server.api.call(Method::PUT, &["clusters", id], (&query, Some(&body))).await.map(drop)
}

/// Removes the cluster that is meant; what it was.
pub(super) async fn delete(server: &Remote, selector: Selector<'_>) -> Result<Vec<Cluster>, Failure> {
    let found = get(server, selector).await?;
    let (id, kind) = meant(selector);
    server.api.call(Method::DELETE, &["clusters", id], (&[kind], None)).await?;
    Ok(vec![found.cluster])
}

/// Has a cluster given a new token (API-169).
pub(super) async fn rotate_auth(server: &Remote, selector: Selector<'_>) -> Result<(), Failure> {
    let (id, kind) = meant(selector);
    server.api.call(Method::POST, &["clusters", id, "rotate-auth"], (&[kind], None)).await.map(drop)
}

fn described<T>(described: Result<T, tiphys_api::cluster::ClusterError>) -> Result<T, Failure> {
    described.map_err(|error| Failure::generic(error.to_string()))
}

fn body(message: &Message) -> Result<Value, Failure> {
    serde_json::to_value(message).map_err(|error| Failure::generic(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_166_a_url_is_a_server_and_everything_else_a_name() {
        assert_eq!(meant(Selector::parse("https://eu")), ("https://eu", ("id.type", "url")));
        assert_eq!(meant(Selector::parse("eu")), ("eu", ("id.type", "name")));
    }

    #[test]
    fn cli_813_a_cluster_is_printed_as_the_server_shows_it() {
        let value = json!({"server": "https://eu", "name": "eu", "namespaces": ["a", "b"], "serverVersion": "1.36",
            "config": {"tlsClientConfig": {"insecure": true}},
            "connectionState": {"status": "Successful", "message": "", "attemptedAt": null}});
        let found = found(value.clone()).unwrap();
        assert_eq!(found.value, value);
        let text = super::super::show::details(&found).unwrap();
        assert!(text.contains("Cert validation:       false"), "{text}");
        let table = super::super::show::table(&[found]);
        assert!(table.contains("https://eu (2 namespaces)  eu    1.36     Successful"), "{table}");
    }
}
