//! A cluster as an answer shows it (REP-115, REP-116).

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value, json};
use tiphys_api::cluster::Cluster;
use tiphys_go::time;

use crate::connection::Status;

/// What an API server said when it was asked for its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nobody asked.
    NotAsked,
    /// Its version, `v1.36.1`.
    Version(String),
    /// It did not answer, or not as it should.
    Failed(String),
}

/// API versions that an answer names: a cluster with very many kinds must not make every list as large.
const API_VERSIONS_MAX: usize = 10_000;

/// What a controller that watches a cluster knows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// `group/version` and `group/version/Kind` of all that it serves, sorted.
    pub api_versions: Vec<String>,
    /// Kinds that are watched.
    pub kinds: usize,
    /// Objects that are known.
    pub objects: usize,
}

/// What is known of the connection to a cluster (REP-116).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Applications that deploy to it.
    pub applications: usize,
    /// What it answered.
    pub answer: Answer,
    /// When it was asked.
    pub asked_at: Option<Timestamp>,
    /// What a controller knows; nothing where none watches it.
    pub watched: Option<Watched>,
}

impl State {
    /// Of a cluster that nobody asked.
    pub fn not_asked(applications: usize) -> Self {
        Self { applications, answer: Answer::NotAsked, asked_at: None, watched: None }
    }

    /// The word of the wire.
    pub fn status(&self) -> Status {
        match self.answer {
            Answer::NotAsked => Status::Unknown,
            Answer::Version(_) => Status::Successful,
            Answer::Failed(_) => Status::Failed,
        }
    }

    /// Why, for people.
    pub fn message(&self) -> &str {
        match &self.answer {
            Answer::Failed(why) => why,
            Answer::NotAsked if self.applications == 0 => {
                "Cluster has no applications and is not being monitored."
            }
            Answer::NotAsked | Answer::Version(_) => "",
        }
    }

    /// Its version; empty when it is not known.
    pub fn version(&self) -> &str {
        match &self.answer {
            Answer::Version(version) => version,
            Answer::NotAsked | Answer::Failed(_) => "",
        }
    }

    fn to_value(&self) -> Value {
        let at = self.asked_at.map(|at| time::format(time::RFC_3339, at, &TimeZone::UTC));
        json!({"status": self.status().as_str(), "message": self.message(), "attemptedAt": at})
    }
}

/// The members of an answer: of `config` only what opens no door (REP-115).
pub fn shown(cluster: &Cluster, state: &State) -> Value {
    let mut members = Map::new();
    members.insert("server".to_owned(), cluster.server.as_str().into());
    members.insert("name".to_owned(), cluster.name.as_str().into());
    members.insert("config".to_owned(), shown_config(cluster));
    members.insert("connectionState".to_owned(), state.to_value());
    members.insert("info".to_owned(), info(state));
    members.insert("serverVersion".to_owned(), state.version().into());
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

fn info(state: &State) -> Value {
    let (mut cache, mut versions) = (json!({}), Value::Null);
    if let Some(watched) = &state.watched {
        cache = json!({"resourcesCount": watched.objects, "apisCount": watched.kinds});
        let named = watched.api_versions.iter().take(API_VERSIONS_MAX);
        versions = named.map(String::as_str).collect();
    }
    let mut info = json!({"connectionState": state.to_value(), "cacheInfo": cache,
        "applicationsCount": state.applications, "serverVersion": state.version()});
    if let (Some(members), false) = (info.as_object_mut(), versions.is_null()) {
        members.insert("apiVersions".to_owned(), versions);
    }
    info
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
