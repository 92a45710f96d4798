//! A program in a container, with a terminal (API-190, API-191): the `exec` subresource of a pod, over a WebSocket.
//!
//! Both directions are messages whose first byte says which stream they belong to.

use std::pin::Pin;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::future::ready;
use futures::stream::BoxStream;
use futures::{Sink, SinkExt as _, StreamExt as _};
use http::Request;
use serde::Deserialize;
use serde_json::json;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use crate::connection::{Connection, encode};
use crate::error::{ApiError, Refusal};
use crate::watch::OPEN_TIMEOUT;

/// What is attempted, in the words of errors.
const WHAT: &str = "start a program in a container";
/// First bytes of messages, as Kubernetes numbers the streams.
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const OUTCOME: u8 = 3;
const RESIZE: u8 = 4;

/// Which program in which container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecQuery {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container.
    pub container: String,
    /// The program and its arguments. No shell reads them.
    pub command: Vec<String>,
}

impl ExecQuery {
    fn target(&self) -> String {
        let mut target = format!(
            "/api/v1/namespaces/{}/pods/{}/exec?container={}&stdin=true&stdout=true&tty=true",
            encode(&self.namespace),
            encode(&self.pod),
            encode(&self.container)
        );
        for word in &self.command {
            target.push_str("&command=");
            target.push_str(&encode(word));
        }
        target
    }
}

/// What a program is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecInput {
    /// What is typed.
    Typed(Bytes),
    /// The terminal has another size now.
    Size {
        /// Characters in a line.
        columns: u16,
        /// Lines.
        rows: u16,
    },
}

impl ExecInput {
    fn message(self) -> Message {
        let (stream, content) = match self {
            Self::Typed(bytes) => (STDIN, bytes),
            Self::Size { columns, rows } => {
                (RESIZE, json!({"Width": columns, "Height": rows}).to_string().into())
            }
        };
        let mut framed = BytesMut::with_capacity(content.len() + 1);
        framed.put_u8(stream);
        framed.put(content);
        Message::Binary(framed.freeze())
    }
}

/// What a program does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    /// It writes.
    Output(Bytes),
    /// It ended, or was never started; `None` when it ended well.
    Ended(Option<String>),
}

/// How a program ended, as Kubernetes tells.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Outcome {
    status: String,
    message: String,
}

impl ExecEvent {
    /// Reads a message; `None` when it says nothing.
    fn read(message: &Message) -> Option<Self> {
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Close(_) => return Some(Self::Ended(Some("the connection was closed".to_owned()))),
            _ => return None,
        };
        let (stream, content) = bytes.split_first()?;
        match *stream {
            STDOUT | STDERR if !content.is_empty() => Some(Self::Output(bytes.slice(1..))),
            OUTCOME => {
                let outcome: Outcome = serde_json::from_slice(content).unwrap_or_default();
                let message = if outcome.message.is_empty() {
                    "it is not told how the program ended".to_owned()
                } else {
                    outcome.message
                };
                Some(Self::Ended((outcome.status != "Success").then_some(message)))
            }
            _ => None,
        }
    }
}

/// The way to a program.
pub type ExecSink = Pin<Box<dyn Sink<ExecInput, Error = ApiError> + Send>>;
/// What comes from a program.
pub type ExecStream = BoxStream<'static, Result<ExecEvent, ApiError>>;

impl Connection {
    /// Starts a program in a container, with a terminal. It ends when both halves are dropped.
    ///
    /// # Errors
    /// When the server refuses, or does not answer. That there is no such program comes as an event.
    pub async fn exec(&self, query: &ExecQuery) -> Result<(ExecSink, ExecStream), ApiError> {
        let client = self.upgrade_client().map_err(|error| ApiError::unreachable(&error))?;
        let mut request = Request::get(query.target());
        if let (Some(impersonation), Some(headers)) = (self.impersonation(), request.headers_mut()) {
            headers.extend(impersonation.clone());
        }
        let request = request.body(Vec::new());
        let request =
            request.map_err(|error| ApiError::Malformed { what: WHAT, reason: error.to_string() })?;
        let opening = tokio::time::timeout(OPEN_TIMEOUT, client.connect(request)).await;
        let opened = opening.map_err(|_elapsed| ApiError::Timeout { what: WHAT, after: OPEN_TIMEOUT })?;
        let (sink, stream) = opened.map_err(failed)?.into_stream().split();
        let sink = sink.with(|input: ExecInput| ready(Ok::<_, SocketError>(input.message())));
        let sink = sink.sink_map_err(|error| ApiError::unreachable(&error));
        let events = stream.filter_map(|message| {
            ready(match message {
                Ok(message) => ExecEvent::read(&message).map(Ok),
                Err(error) => Some(Err(ApiError::unreachable(&error))),
            })
        });
        Ok((Box::pin(sink), events.boxed()))
    }
}

pub(crate) fn failed(error: kube::Error) -> ApiError {
    match error {
        kube::Error::Api(status) => ApiError::Refused(Box::new(Refusal {
            code: status.code,
            reason: status.reason,
            message: status.message,
            retry_after: None,
        })),
        error => ApiError::unreachable(&error),
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;
    use http::{HeaderValue, header};
    use tokio::net::TcpListener;
    use tokio_tungstenite::tungstenite::handshake::server;

    use super::*;
    use crate::connection::PluginPolicy;

    /// A server that takes one exec, shows what it is sent, and ends the program when it is told to.
    async fn kubelet(listener: TcpListener, asked: tokio::sync::oneshot::Sender<String>) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut target = String::new();
        #[expect(clippy::result_large_err, reason = "the type is that of the library")]
        let answer = |request: &server::Request, mut response: server::Response| {
            target =
                format!("{} {}", request.headers()[header::AUTHORIZATION].to_str().unwrap(), request.uri());
            let protocol = HeaderValue::from_static("v5.channel.k8s.io");
            response.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
            Ok(response)
        };
        let mut socket = tokio_tungstenite::accept_hdr_async(stream, answer).await.unwrap();
        asked.send(target).unwrap();
        while let Some(Ok(message)) = socket.next().await {
            let Message::Binary(bytes) = message else { continue };
            let answer = match bytes.split_first() {
                Some((&STDIN, b"exit")) => [&[OUTCOME][..], br#"{"status":"Success"}"#].concat(),
                Some((&STDIN, typed)) => [&[STDOUT][..], typed].concat(),
                Some((_, size)) => [&[STDERR][..], size].concat(),
                None => continue,
            };
            socket.send(Message::Binary(answer.into())).await.unwrap();
        }
    }

    /// Over HTTP/1.1, with the credentials of the connection.
    #[tokio::test]
    async fn api_191_a_program_is_typed_to_and_shows_what_it_writes() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        let (asking, asked) = tokio::sync::oneshot::channel();
        let serving = tokio::spawn(kubelet(listener, asking));
        let config = r#"{"bearerToken": "t"}"#;
        let policy = PluginPolicy::default();
        let connection = Connection::from_cluster_secret(&server, config, &policy).await.unwrap();
        let command = vec!["sh".to_owned()];
        let query = ExecQuery { namespace: "n".into(), pod: "p".into(), container: "c".into(), command };
        let (mut input, mut events) = connection.exec(&query).await.unwrap();
        assert_eq!(asked.await.unwrap(), format!("Bearer t {}", query.target()));
        let typed = Bytes::from(vec![b'x'; 100_000]);
        input.send(ExecInput::Typed(typed.clone())).await.unwrap();
        assert_eq!(events.next().await.unwrap().unwrap(), ExecEvent::Output(typed));
        input.send(ExecInput::Size { columns: 1, rows: 2 }).await.unwrap();
        let size = Bytes::from_static(br#"{"Height":2,"Width":1}"#);
        assert_eq!(events.next().await.unwrap().unwrap(), ExecEvent::Output(size));
        input.send(ExecInput::Typed(Bytes::from_static(b"exit"))).await.unwrap();
        assert_eq!(events.next().await.unwrap().unwrap(), ExecEvent::Ended(None));
        drop((input, events));
        serving.await.unwrap();
    }

    #[tokio::test]
    async fn api_190_a_refusal_of_the_server_is_told_in_its_words() {
        let fake = crate::fake::Fake::start(|_, _| crate::fake::Reply::refused(403, "Forbidden")).await;
        let error = fake.connection.exec(&ExecQuery::default()).await.err().unwrap();
        assert_eq!((error.code(), error.reason()), (403, "Forbidden"));
    }

    #[test]
    fn api_191_a_program_is_named_word_by_word() {
        let query = ExecQuery {
            namespace: "n".to_owned(),
            pod: "web-0".to_owned(),
            container: "c&d".to_owned(),
            command: vec!["sh".to_owned(), "-c".to_owned(), "a b".to_owned()],
        };
        let target = "/api/v1/namespaces/n/pods/web-0/exec?container=c%26d&stdin=true&stdout=true&tty=true";
        assert_eq!(query.target(), format!("{target}&command=sh&command=-c&command=a%20b"));
    }

    #[test]
    fn api_192_messages_begin_with_the_number_of_their_stream() {
        let typed = ExecInput::Typed(Bytes::from_static(b"ls\r")).message();
        assert_eq!(typed, Message::Binary(Bytes::from_static(b"\0ls\r")));
        let size = ExecInput::Size { columns: 80, rows: 24 }.message();
        assert_eq!(size.into_data(), b"\x04{\"Height\":24,\"Width\":80}"[..]);
    }

    #[test]
    fn api_191_how_a_program_ended_is_told_once_and_nothing_else_is_taken_for_output() {
        let read = |bytes: &'static [u8]| ExecEvent::read(&Message::Binary(Bytes::from_static(bytes)));
        assert_eq!(read(b"\x01a\x00b"), Some(ExecEvent::Output(Bytes::from_static(b"a\x00b"))));
        assert_eq!(read(b"\x02e"), Some(ExecEvent::Output(Bytes::from_static(b"e"))));
        assert_eq!(read(b"\x03{\"status\":\"Success\"}"), Some(ExecEvent::Ended(None)));
        let refused = read(b"\x03{\"status\":\"Failure\",\"message\":\"no such file\"}");
        assert_eq!(refused, Some(ExecEvent::Ended(Some("no such file".to_owned()))));
        assert!(matches!(read(b"\x03nonsense"), Some(ExecEvent::Ended(Some(_)))));
        for silent in [&b"\x01"[..], b"", b"\x00x", b"\x09x"] {
            assert_eq!(read(silent), None, "{silent:?}");
        }
        assert_eq!(ExecEvent::read(&Message::Ping(Bytes::new())), None);
        assert!(matches!(ExecEvent::read(&Message::Close(None)), Some(ExecEvent::Ended(Some(_)))));
    }
}
