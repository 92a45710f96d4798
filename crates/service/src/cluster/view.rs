//! A cluster as an answer shows it (REP-115, REP-116).

use serde_json::{Map, Value, json};
use tiphys_api::cluster::Cluster;

/// What is known of the connection to a cluster (REP-116). Without the memory of a controller nothing is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Applications that deploy to it.
    pub applications: usize,
}

impl State {
    /// The word of the wire.
    pub fn status(&self) -> &'static str {
        "Unknown"
    }

    /// Why, for people.
    pub fn message(&self) -> &'static str {
        if self.applications == 0 { "Cluster has no applications and is not being monitored." } else { "" }
    }

    fn to_value(&self) -> Value {
        json!({"status": self.status(), "message": self.message(), "attemptedAt": null})
    }
}

/// The members of an answer: of `config` only what opens no door (REP-115).
pub fn shown(cluster: &Cluster, state: &State) -> Value {
    let mut members = Map::new();
    members.insert("server".to_owned(), cluster.server.as_str().into());
    members.insert("name".to_owned(), cluster.name.as_str().into());
    members.insert("config".to_owned(), shown_config(cluster));
    members.insert("connectionState".to_owned(), state.to_value());
    members.insert(
        "info".to_owned(),
        json!({"connectionState": state.to_value(), "cacheInfo": {}, "applicationsCount": state.applications}),
    );
    if !cluster.namespaces.is_empty() {
        members.insert("namespaces".to_owned(), json!(cluster.namespaces));
    }
    if cluster.cluster_resources {
        members.insert("clusterResources".to_owned(), true.into());
    }
    if let Some(shard) = cluster.shard {
        members.insert("shard".to_owned(), shard.into());
    }
    if !cluster.project.is_empty() {
        members.insert("project".to_owned(), cluster.project.as_str().into());
    }
    for (key, map) in [("labels", &cluster.labels), ("annotations", &cluster.annotations)] {
        if !map.is_empty() {
            members.insert(key.to_owned(), json!(map));
        }
    }
    Value::Object(members)
}

fn shown_config(cluster: &Cluster) -> Value {
    let Ok(config) = cluster.parse_config() else { return json!({"tlsClientConfig": {"insecure": false}}) };
    let mut tls = Map::new();
    tls.insert("insecure".to_owned(), config.tls_client_config.insecure.into());
    if !config.tls_client_config.server_name.is_empty() {
        tls.insert("serverName".to_owned(), config.tls_client_config.server_name.as_str().into());
    }
    let mut shown = Map::new();
    shown.insert("tlsClientConfig".to_owned(), tls.into());
    if let Some(aws) = &config.aws_auth_config {
        shown.insert("awsAuthConfig".to_owned(), aws.to_value());
    }
    if config.disable_compression {
        shown.insert("disableCompression".to_owned(), true.into());
    }
    if !config.proxy_url.is_empty() {
        shown.insert("proxyUrl".to_owned(), tiphys_api::repo_url::mask_password(&config.proxy_url).into());
    }
    Value::Object(shown)
}
