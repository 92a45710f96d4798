//! Manifests by way of an API server, and what a cluster is like for who renders here (API-146, API-147, API-166).

use std::fmt::Write as _;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_object::{Object, access};

use super::state;
use crate::core::{AppName, Remote};
use crate::failure::Failure;

/// Bytes of one part of files that are sent.
const CHUNK_BYTES: usize = 512 << 10;

/// Which revisions a server renders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revisions {
    /// Of the only source; empty for what was compared last.
    pub(crate) single: String,
    /// Of sources by their position, from 1.
    pub(crate) by_position: Vec<(i64, String)>,
}

impl Remote {
    /// The manifests of an application, as texts of JSON (API-146).
    pub(crate) async fn manifests(
        &self,
        name: &AppName,
        revisions: &Revisions,
    ) -> Result<Vec<Value>, Failure> {
        let positions: Vec<String> = revisions.by_position.iter().map(|(at, _)| at.to_string()).collect();
        let mut query = vec![("revision", revisions.single.as_str())];
        for (at, (_, revision)) in positions.iter().zip(&revisions.by_position) {
            query.extend([("sourcePositions", at.as_str()), ("revisions", revision)]);
        }
        read(&self.call(Method::GET, name, &["manifests"], (&query, None)).await?)
    }

    /// The same with files in place of the first source's repository: a `tar.gz` (API-147).
    pub(crate) async fn manifests_with_files(
        &self,
        name: &AppName,
        packed: &[u8],
    ) -> Result<Vec<Value>, Failure> {
        let path = ["api", "v1", "applications", "manifestsWithFiles"];
        read(&self.api.send_all(&path, &parts(name, packed)).await?)
    }

    /// The live objects of an application, as a comparison saw them, without secrets (API-138).
    pub(crate) async fn live_objects(&self, name: &AppName) -> Result<Vec<Arc<Object>>, Failure> {
        let all = self.managed_resources(name).await?;
        let live = all.iter().map(|one| state(one, "liveState")).collect::<Result<Vec<_>, _>>()?;
        live.iter().filter(|state| state.is_object()).map(object).collect()
    }

    /// The version of the destination, and what it serves.
    pub(in crate::core) async fn served(&self, app: &Application) -> Result<(String, Vec<String>), Failure> {
        let destination = &app.spec.destination;
        let (operand, query) = if destination.server.is_empty() {
            (&destination.name, &[("id.type", "name")][..])
        } else {
            (&destination.server, &[][..])
        };
        let cluster = self.api.get(&["api", "v1", "clusters", operand], query).await?;
        let info = cluster.get("info").unwrap_or(&Value::Null);
        let version = [access::text(&cluster, "serverVersion"), access::text(info, "serverVersion")];
        let version = version.into_iter().find(|version| !version.is_empty()).unwrap_or_default();
        let served = info.get("apiVersions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let served = served.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Ok((version.to_owned(), served))
    }
}

/// A manifest as an object.
pub(crate) fn object(value: &Value) -> Result<Arc<Object>, Failure> {
    Object::from_value(value)
        .map(Arc::new)
        .map_err(|error| Failure::status("Internal", format!("the server sent no object: {error}")))
}

fn read(answer: &Value) -> Result<Vec<Value>, Failure> {
    let texts = answer.get("manifests").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let read = |text: &Value| {
        serde_json::from_str(text.as_str().unwrap_or_default())
            .map_err(|_invalid| Failure::status("Internal", "the server sent a manifest that is no JSON"))
    };
    texts.iter().map(read).collect()
}

/// The messages that send files: what they are, then the files in pieces.
fn parts(name: &AppName, packed: &[u8]) -> Vec<Value> {
    let mut checksum = String::with_capacity(64);
    for byte in digest(&SHA256, packed).as_ref() {
        // Writing to a text cannot fail.
        let _written = write!(checksum, "{byte:02x}");
    }
    let query = json!({"query": {"name": name.name, "appNamespace": name.namespace, "checksum": checksum}});
    let chunks = packed.chunks(CHUNK_BYTES).map(|chunk| json!({"chunk": {"chunk": STANDARD.encode(chunk)}}));
    std::iter::once(query).chain(chunks).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_147_files_are_sent_behind_their_checksum() {
        let name = AppName { namespace: "argocd".into(), name: "web".into() };
        let sent = parts(&name, &vec![7; CHUNK_BYTES + 1]);
        assert_eq!(sent.len(), 3);
        assert_eq!(sent[0]["query"]["name"], "web");
        assert_eq!(sent[0]["query"]["checksum"].as_str().unwrap().len(), 64);
        assert_eq!(sent[2]["chunk"]["chunk"], "Bw==");
        assert_eq!(parts(&name, &[]).len(), 1);
    }

    #[test]
    fn api_146_manifests_are_texts_of_json() {
        assert_eq!(read(&json!({"manifests": [r#"{"kind": "X"}"#]})).unwrap(), [json!({"kind": "X"})]);
        assert!(read(&json!({"manifests": ["{"]})).unwrap_err().message.contains("no JSON"));
        assert!(read(&json!({})).unwrap().is_empty());
    }
}
