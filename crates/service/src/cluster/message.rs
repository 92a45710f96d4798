//! A cluster as a request has it (API-167).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tiphys_api::cluster::{Cluster, ClusterError};
use tiphys_api::secret::Secret;

use super::Update;

/// A cluster of a request or an answer; what only answers have is not looked at.
#[derive(Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Message {
    /// URL of its server.
    pub server: String,
    /// Its name.
    pub name: String,
    config: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shard: Option<i64>,
    #[serde(skip_serializing_if = "is_off")]
    cluster_resources: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    project: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<String, String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over references")]
fn is_off(flag: &bool) -> bool {
    !flag
}

impl Message {
    /// A cluster as it is sent, with everything that opens doors.
    ///
    /// # Errors
    /// When its `config` is no object of JSON.
    pub fn of(cluster: &Cluster) -> Result<Self, ClusterError> {
        Ok(Self {
            server: cluster.server.clone(),
            name: cluster.name.clone(),
            config: members(&cluster.config)?,
            namespaces: cluster.namespaces.clone(),
            shard: cluster.shard,
            cluster_resources: cluster.cluster_resources,
            project: cluster.project.clone(),
            labels: cluster.labels.clone(),
            annotations: cluster.annotations.clone(),
        })
    }

    /// A change as it is sent: the members, and which of them count.
    ///
    /// # Errors
    /// When its `config` is no object of JSON.
    pub fn of_update(update: &Update) -> Result<(Self, Vec<&'static str>), ClusterError> {
        let message = Self {
            server: String::new(),
            name: update.name.clone().unwrap_or_default(),
            config: update.config.as_ref().map(members).transpose()?.unwrap_or_default(),
            namespaces: update.namespaces.clone().unwrap_or_default(),
            shard: update.shard.unwrap_or_default(),
            cluster_resources: update.cluster_resources.unwrap_or_default(),
            project: update.project.clone().unwrap_or_default(),
            labels: update.labels.clone().unwrap_or_default(),
            annotations: update.annotations.clone().unwrap_or_default(),
        };
        let given = [
            ("name", update.name.is_some()),
            ("namespaces", update.namespaces.is_some()),
            ("clusterResources", update.cluster_resources.is_some()),
            ("shard", update.shard.is_some()),
            ("project", update.project.is_some()),
            ("labels", update.labels.is_some()),
            ("annotations", update.annotations.is_some()),
            ("config", update.config.is_some()),
        ];
        let named = given.into_iter().filter(|(_, is_given)| *is_given).map(|(field, _)| field);
        Ok((message, named.collect()))
    }

    fn config(&self) -> Secret<String> {
        Secret::new(Value::Object(self.config.clone()).to_string())
    }

    /// The cluster that is meant.
    pub fn cluster(&self) -> Cluster {
        let name = if self.name.is_empty() { &self.server } else { &self.name };
        Cluster {
            name: name.clone(),
            server: self.server.trim_end_matches('/').to_owned(),
            namespaces: self.namespaces.clone(),
            cluster_resources: self.cluster_resources,
            project: self.project.clone(),
            shard: self.shard,
            labels: self.labels.clone(),
            annotations: self.annotations.clone(),
            config: self.config(),
            ..Cluster::default()
        }
    }

    /// The change of the fields that are named; of all where none is (API-167).
    pub fn update(&self, fields: &[String]) -> Update {
        let has = |field: &str| fields.is_empty() || fields.iter().any(|named| named == field);
        Update {
            name: has("name").then(|| self.name.clone()),
            namespaces: has("namespaces").then(|| self.namespaces.clone()),
            cluster_resources: has("clusterResources").then_some(self.cluster_resources),
            shard: has("shard").then_some(self.shard),
            project: has("project").then(|| self.project.clone()),
            labels: has("labels").then(|| self.labels.clone()),
            annotations: has("annotations").then(|| self.annotations.clone()),
            config: has("config").then(|| self.config()),
        }
    }
}

fn members(config: &Secret<String>) -> Result<Map<String, Value>, ClusterError> {
    if config.expose().trim().is_empty() {
        return Ok(Map::new());
    }
    serde_json::from_str(config.expose())
        .map_err(|error| ClusterError::Config { line: error.line(), column: error.column() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn api_167_what_is_sent_is_read_as_it_was() {
        let cluster = Cluster {
            name: "eu".to_owned(),
            server: "https://eu".to_owned(),
            shard: Some(2),
            labels: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
            config: r#"{"bearerToken":"t"}"#.into(),
            ..Cluster::default()
        };
        let sent = serde_json::to_value(Message::of(&cluster).unwrap()).unwrap();
        assert_eq!(
            sent,
            json!({"name": "eu", "server": "https://eu", "shard": 2, "labels": {"a": "b"}, "config": {"bearerToken": "t"}})
        );
        assert_eq!(serde_json::from_value::<Message>(sent).unwrap().cluster(), cluster);
        assert!(Message::of(&Cluster { config: "[]".into(), ..cluster }).is_err());
    }

    #[test]
    fn api_167_an_update_names_what_it_changes() {
        let update = Update { labels: Some(BTreeMap::new()), namespaces: Some(vec![]), ..Update::default() };
        let (message, fields) = Message::of_update(&update).unwrap();
        assert_eq!(fields, ["namespaces", "labels"]);
        let fields: Vec<String> = fields.into_iter().map(str::to_owned).collect();
        assert_eq!(message.update(&fields), update);
    }
}
