//! What `ConfigMaps` and Secrets hold.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::Value;
use tiphys_api::application::Metadata;
use tiphys_api::cluster::{Cluster, UnreadCluster};
use tiphys_api::names::SECRET_TYPE_LABEL;
use tiphys_object::Object;

/// `data` of a `ConfigMap`; members that are no texts are left out.
pub fn texts(object: &Object) -> BTreeMap<String, String> {
    // Objects that are no JSON are not taken into the data that a snapshot is built from.
    let value = object.to_value().unwrap_or_default();
    let members = value.get("data").and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Decoded `data` of a Secret; values that are no base64 of text are left out.
pub fn decoded(object: &Object) -> BTreeMap<String, String> {
    texts(object).into_iter().filter_map(|(key, text)| Some((key, decode(&text)?))).collect()
}

fn decode(text: &str) -> Option<String> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    String::from_utf8(bytes).ok()
}

/// Looks at a Secret that cannot be read as a whole: whether it may be a cluster's, and which. `None` when it is none.
pub fn unread_cluster(name: &str, text: &[u8], reason: String) -> Option<UnreadCluster> {
    #[derive(serde::Deserialize)]
    struct Labels {
        #[serde(default)]
        labels: BTreeMap<String, String>,
    }
    #[derive(serde::Deserialize)]
    struct Glimpse {
        metadata: Labels,
        #[serde(default)]
        data: BTreeMap<String, String>,
    }
    let unread = |seen| Some(UnreadCluster { secret_name: name.to_owned(), reason, seen });
    // What is passed over may be nested as it likes.
    let Ok(Glimpse { metadata, data }) = serde_json::from_slice(text) else { return unread(None) };
    if metadata.labels.get(SECRET_TYPE_LABEL).is_none_or(|kind| kind != "cluster") {
        return None;
    }
    // Nothing else of it is used, credentials least of all.
    let wanted = data.into_iter().filter(|(key, _)| ["name", "server", "project"].contains(&key.as_str()));
    let decoded: Option<BTreeMap<String, String>> =
        wanted.map(|(key, text)| Some((key, decode(&text)?))).collect();
    let metadata = Metadata { name: name.to_owned(), labels: metadata.labels, ..Metadata::default() };
    unread(decoded.map(|data| Cluster::from_secret(&metadata, &data)))
}

/// The metadata in typed form.
///
/// # Errors
/// When it is no metadata.
pub fn metadata(object: &Object) -> Result<Metadata, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Envelope {
        metadata: Metadata,
    }
    serde_json::from_slice::<Envelope>(&object.raw()).map(|envelope| envelope.metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> Option<UnreadCluster> {
        unread_cluster("eu", text.as_bytes(), "it is nested too deep".to_owned())
    }

    /// INV-8, INV-15: what can be told of a Secret is told, and nothing is guessed.
    #[test]
    fn inv_15_a_secret_that_cannot_be_read_is_looked_at() {
        let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
        let text = format!(
            r#"{{"metadata":{{"labels":{{"argocd.argoproj.io/secret-type":"cluster","env":"prod"}},"managedFields":{deep}}},"data":{{"name":"ZXU=","server":"aHR0cHM6Ly9ldQ==","project":"cmVk","config":"!"}}}}"#
        );
        let seen = look(&text).unwrap().seen.unwrap();
        assert_eq!((seen.name.as_str(), seen.server.as_str()), ("eu", "https://eu"));
        assert_eq!((seen.project.as_str(), seen.labels["env"].as_str()), ("red", "prod"));
        assert!(seen.config.expose().is_empty());
        assert_eq!(look(&text.replace("secret-type\":\"cluster", "secret-type\":\"repository")), None);
        assert_eq!(look(&text.replace("cmVk", "!")).unwrap().seen, None, "its project is not known");
        assert_eq!(look(&text.replace("\"prod\"", "7")).unwrap().seen, None, "its labels are not known");
        assert_eq!(look("{").unwrap().seen, None);
    }
}
