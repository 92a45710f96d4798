//! The way to a port of a pod, by way of the API server (CLI-123).

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use tokio::io::DuplexStream;

use crate::connection::{Call, Connection, encode};
use crate::error::ApiError;
use crate::watch::OPEN_TIMEOUT;

/// What is attempted, in the words of errors.
const WHAT: &str = "forward a port";
/// Time for the list of pods.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Pods that are looked at.
const PODS_MAX: usize = 500;

#[derive(Deserialize)]
struct Pods {
    #[serde(default)]
    items: Vec<Seen>,
}

#[derive(Deserialize)]
struct Seen {
    metadata: Metadata,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
struct PodStatus {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

impl Seen {
    fn is_ready(&self) -> bool {
        let is_ready = |one: &Condition| one.r#type == "Ready" && one.status == "True";
        self.metadata.deletion_timestamp.is_none() && self.status.conditions.iter().any(is_ready)
    }
}

impl Connection {
    /// The first pod with a label that is ready.
    ///
    /// # Errors
    /// When the cluster does not say.
    pub async fn ready_pod(&self, namespace: &str, selector: &str) -> Result<Option<String>, ApiError> {
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector={}&limit={PODS_MAX}",
            encode(namespace),
            encode(selector)
        );
        let answer = self.call(&Call::get(WHAT, path, LIST_TIMEOUT)).await?;
        let pods: Pods =
            serde_json::from_slice(&answer.bytes).map_err(|error| ApiError::malformed(WHAT, &error))?;
        Ok(pods.items.into_iter().find(Seen::is_ready).map(|pod| pod.metadata.name))
    }

    /// Opens a connection to a port of a pod.
    ///
    /// # Errors
    /// When the server refuses, or does not answer.
    pub async fn forward(&self, namespace: &str, pod: &str, port: u16) -> Result<DuplexStream, ApiError> {
        let client = self.upgrade_client().map_err(|error| ApiError::unreachable(&error))?;
        let pods: kube::Api<Pod> = kube::Api::namespaced(client, namespace);
        let ports = [port];
        let opening = tokio::time::timeout(OPEN_TIMEOUT, pods.portforward(pod, &ports)).await;
        let opened = opening.map_err(|_elapsed| ApiError::Timeout { what: WHAT, after: OPEN_TIMEOUT })?;
        let mut opened = opened.map_err(crate::exec::failed)?;
        let missing = || ApiError::Malformed { what: WHAT, reason: "there is no stream".to_owned() };
        opened.take_stream(port).ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use futures::{SinkExt as _, StreamExt as _};
    use http::{HeaderValue, header};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::Message;
    use tokio_tungstenite::tungstenite::handshake::server;

    use super::*;
    use crate::connection::PluginPolicy;
    use crate::fake::{Fake, Reply};

    #[tokio::test]
    async fn cli_123_a_pod_that_is_ready_and_stays_is_chosen() {
        let fake = Fake::start(|request, _| {
            assert_eq!(request, "GET /api/v1/namespaces/argocd/pods?labelSelector=a%2Fb%3Dc&limit=500");
            Reply::json(
                r#"{"items": [{"metadata": {"name": "new"}},
                    {"metadata": {"name": "ill"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}},
                    {"metadata": {"name": "going", "deletionTimestamp": "x"},
                     "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
                    {"metadata": {"name": "good"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}]}"#,
            )
        })
        .await;
        assert_eq!(fake.connection.ready_pod("argocd", "a/b=c").await.unwrap().as_deref(), Some("good"));
        let none = Fake::start(|_, _| Reply::json(r#"{"items": []}"#)).await;
        assert_eq!(none.connection.ready_pod("argocd", "a").await.unwrap(), None);
    }

    #[tokio::test]
    async fn cli_123_what_goes_in_comes_out_at_the_port() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (asking, asked) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut target = String::new();
            #[expect(clippy::result_large_err, reason = "the type is that of the library")]
            let answer = |request: &server::Request, mut response: server::Response| {
                target = request.uri().to_string();
                let protocol = HeaderValue::from_static("v4.channel.k8s.io");
                response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
                Ok(response)
            };
            let mut socket = tokio_tungstenite::accept_hdr_async(stream, answer).await.unwrap();
            // Each of the two streams begins with its port.
            for stream in [0_u8, 1] {
                let mut begin = vec![stream];
                begin.extend(8080_u16.to_le_bytes());
                socket.send(Message::Binary(begin.into())).await.unwrap();
            }
            asking.send(target).unwrap();
            while let Some(Ok(message)) = socket.next().await {
                if let Message::Binary(bytes) = message {
                    socket.send(Message::Binary(bytes)).await.unwrap();
                }
            }
        });
        let connection =
            Connection::from_cluster_secret(&address, "{}", &PluginPolicy::default()).await.unwrap();
        let mut stream = connection.forward("argocd", "server-0", 8080).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut echoed = [0; 5];
        stream.read_exact(&mut echoed).await.unwrap();
        assert_eq!(&echoed, b"hello");
        let target = asked.await.unwrap();
        assert!(target.starts_with("/api/v1/namespaces/argocd/pods/server-0/portforward?"), "{target}");
        assert!(target.contains("ports=8080"), "{target}");
    }
}
