//! One call of a plugin: gRPC over HTTP/2 over its socket (RND-128, RND-129).

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::future::{Either, select};
use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tiphys_exec::go_duration;
use tiphys_wire::frame::{FrameError, Messages, unescaped};
use tiphys_wire::status::Code;
use tokio::net::UnixStream;

use crate::message::{self, MessageError};
use crate::pack::PackError;

/// How long a socket may take to be opened.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that are read from the packed files at once.
const READ_BYTES: usize = 64 * 1024;
/// Bytes of headers and trailers: what a plugin says about a failure is one of them, often all that a command printed.
const HEADER_BYTES_MAX: u32 = 1 << 20;
/// Bytes of what a plugin says about a failure that are shown.
const TEXT_BYTES_MAX: usize = 8 * 1024;

/// Why there is no answer of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginError {
    /// Its socket cannot be opened: nobody listens.
    #[error("the plugin {plugin:?} cannot be reached: {text}")]
    Dial {
        /// The name of the socket.
        plugin: String,
        /// What the system says.
        text: String,
    },
    /// It took too long.
    #[error("the plugin {plugin:?} did not answer: timeout after {}", go_duration(*after))]
    Timeout {
        /// The name of the socket.
        plugin: String,
        /// After which time.
        after: Duration,
    },
    /// The connection broke, or what came is not the protocol.
    #[error("the plugin {plugin:?} broke the call: {text}")]
    Broken {
        /// The name of the socket.
        plugin: String,
        /// What happened.
        text: String,
    },
    /// It says that it failed.
    #[error("plugin {plugin:?}: {text}")]
    Failed {
        /// The name of the socket.
        plugin: String,
        /// The code.
        code: Code,
        /// Its text.
        text: String,
    },
    /// It answers more than is taken.
    #[error("the plugin {plugin:?} answers more than {limit} bytes")]
    TooLarge {
        /// The name of the socket.
        plugin: String,
        /// The bound.
        limit: usize,
    },
    /// The files cannot be packed.
    #[error(transparent)]
    Pack(#[from] PackError),
    /// A source that was a plugin's, and nobody who could say whether it still is.
    #[error(
        "the source was rendered by a plugin, and {0}; start the plugin, or say in the source what else it is, \
         for example `directory: {{}}`"
    )]
    Unknown(String),
    /// The directory of sockets cannot be read.
    #[error("cannot look for plugins in {directory}: {text}")]
    Directory {
        /// The directory.
        directory: String,
        /// What the system says.
        text: String,
    },
    /// A plugin wants credentials that cannot be handed over.
    #[error("{0}")]
    Credentials(String),
}

impl PluginError {
    /// Whether trying again without a new revision may help (RND-146).
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Dial { .. } | Self::Timeout { .. } | Self::Broken { .. } => true,
            Self::Unknown(_) | Self::Directory { .. } => true,
            Self::Failed { code, .. } => {
                matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::Canceled)
            }
            Self::Pack(error) => matches!(error, PackError::Disk(_) | PackError::Tree(_)),
            Self::TooLarge { .. } | Self::Credentials(_) => false,
        }
    }
}

/// A plugin that is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The name of its socket.
    pub(crate) plugin: &'a str,
    /// The socket.
    pub(crate) socket: &'a Path,
    /// Bytes of its answer.
    pub(crate) bytes_max: usize,
    /// Texts that no message may show.
    pub(crate) secrets: &'a [String],
}

/// The pieces of a request.
pub(crate) type Pieces = BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>;

/// A request of one message.
pub(crate) fn one(message: &[u8]) -> Pieces {
    let mut out = BytesMut::new();
    framed(&mut out, message);
    stream::iter([Ok(Frame::data(out.freeze()))]).boxed()
}

/// The metadata, and the packed files in pieces of so many bytes.
pub(crate) fn files(metadata: &[u8], file: Arc<File>, chunk_bytes: usize) -> Pieces {
    let mut first = BytesMut::new();
    framed(&mut first, metadata);
    // Whole pieces at a time. A call that was given up may still read, so each reads at its own place.
    let most = chunk_bytes * (READ_BYTES / chunk_bytes).max(1);
    let rest = stream::try_unfold((file, 0_u64), move |(file, at)| async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; most];
            let read = fill(&file, &mut bytes, at)?;
            bytes.truncate(read);
            Ok::<_, std::io::Error>((bytes, file))
        });
        let (bytes, file) = read.await.map_err(std::io::Error::other)??;
        if bytes.is_empty() {
            return Ok(None);
        }
        let at = at + bytes.len() as u64;
        let mut out = BytesMut::with_capacity(bytes.len() + bytes.len() / 32);
        let mut message = Vec::with_capacity(chunk_bytes + 16);
        for piece in bytes.chunks(chunk_bytes) {
            message.clear();
            message::chunk(&mut message, piece);
            framed(&mut out, &message);
        }
        Ok(Some((Frame::data(out.freeze()), (file, at))))
    });
    stream::iter([Ok(Frame::data(first.freeze()))]).chain(rest).boxed()
}

/// Reads from a place until the bytes are full or the file ends.
fn fill(file: &File, bytes: &mut [u8], at: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

fn framed(out: &mut BytesMut, message: &[u8]) {
    out.extend_from_slice(&[0]);
    out.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(message);
}

/// An error with what it comes from: hyper says only "http2 error" itself.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

impl Asked<'_> {
    fn broken(&self, text: impl std::fmt::Display) -> PluginError {
        PluginError::Broken { plugin: self.plugin.to_owned(), text: self.shown(&text.to_string()) }
    }

    /// A text of a plugin as users may see it: without secrets, bounded, and of one line where it is printed.
    fn shown(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for secret in self.secrets.iter().filter(|secret| !secret.is_empty()) {
            text = text.replace(secret.as_str(), "******");
        }
        if text.len() > TEXT_BYTES_MAX {
            let end = (0..=TEXT_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default();
            text.truncate(end);
            text.push_str(" …");
        }
        text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
    }

    pub(crate) fn message(&self, error: &MessageError) -> PluginError {
        self.broken(format!("what it answers is not the protocol: {error}"))
    }

    /// Calls a method. The whole call takes no longer than `timeout`, and the connection ends with it.
    pub(crate) async fn call(
        &self,
        method: &str,
        pieces: Pieces,
        timeout: Duration,
    ) -> Result<Bytes, PluginError> {
        let late = || PluginError::Timeout { plugin: self.plugin.to_owned(), after: timeout };
        tokio::time::timeout(timeout, self.exchange(method, pieces, timeout))
            .await
            .map_err(|_elapsed| late())?
    }

    async fn exchange(&self, method: &str, pieces: Pieces, timeout: Duration) -> Result<Bytes, PluginError> {
        let dial = |text: String| PluginError::Dial { plugin: self.plugin.to_owned(), text };
        let dialled = tokio::time::timeout(DIAL_TIMEOUT, UnixStream::connect(self.socket)).await;
        let stream = dialled.map_err(|_elapsed| dial("nobody accepts the connection".to_owned()))?;
        let stream = stream.map_err(|error| dial(error.kind().to_string()))?;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.max_header_list_size(HEADER_BYTES_MAX);
        let handshake = builder.handshake(TokioIo::new(stream));
        let (mut sender, connection) = handshake.await.map_err(|error| self.broken(chain(&error)))?;
        let request = Request::post(format!("http://localhost{}{method}", message::SERVICE))
            .header(header::CONTENT_TYPE, "application/grpc")
            .header(header::TE, "trailers")
            .header(header::USER_AGENT, "tiphys")
            .header("grpc-timeout", format!("{}m", timeout.as_millis().min(99_999_999)))
            .body(StreamBody::new(pieces))
            .map_err(|error| self.broken(error))?;
        let work = async {
            let response = sender.send_request(request).await.map_err(|error| self.broken(chain(&error)))?;
            self.read(response).await
        };
        match select(pin!(work), pin!(connection)).await {
            Either::Left((answer, _connection)) => answer,
            // What is not there now will not come.
            Either::Right((ended, work)) => match ended {
                Err(error) => Err(self.broken(chain(&error))),
                Ok(()) => work.await,
            },
        }
    }

    async fn read(&self, response: Response<Incoming>) -> Result<Bytes, PluginError> {
        let (parts, mut body) = response.into_parts();
        if parts.status != http::StatusCode::OK {
            return Err(self.broken(format!("status {} of HTTP", parts.status)));
        }
        // An outcome without any message stands in the headers.
        self.outcome(&parts.headers)?;
        let encoding = parts.headers.get("grpc-encoding").and_then(|value| value.to_str().ok());
        let mut messages = Messages::new(self.bytes_max, encoding).map_err(|error| self.frame(&error))?;
        let mut answer = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| self.broken(chain(&error)))?;
            match frame.into_data() {
                Ok(piece) => {
                    messages.push(&piece);
                    while let Some(message) = messages.take().map_err(|error| self.frame(&error))? {
                        if answer.replace(message).is_some() {
                            return Err(self.broken("more than one answer"));
                        }
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().unwrap_or_default();
                    self.outcome(&trailers)?;
                    if !trailers.contains_key("grpc-status") {
                        return Err(self.broken("the call ended without an outcome"));
                    }
                    return answer.ok_or_else(|| self.broken("there is no answer"));
                }
            }
        }
        Err(self.broken("the call ended without an outcome"))
    }

    /// Fails when headers say that the call did.
    fn outcome(&self, headers: &http::HeaderMap) -> Result<(), PluginError> {
        let Some(status) = headers.get("grpc-status") else { return Ok(()) };
        let number = status.to_str().ok().and_then(|text| text.parse::<i64>().ok()).unwrap_or(-1);
        if number == 0 {
            return Ok(());
        }
        let text = headers.get("grpc-message").map(|text| unescaped(text.as_bytes())).unwrap_or_default();
        Err(PluginError::Failed {
            plugin: self.plugin.to_owned(),
            code: Code::of_number(number),
            text: self.shown(&text),
        })
    }

    fn frame(&self, error: &FrameError) -> PluginError {
        match error.code {
            Code::ResourceExhausted => {
                PluginError::TooLarge { plugin: self.plugin.to_owned(), limit: self.bytes_max }
            }
            _ => self.broken(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_9_what_a_plugin_says_is_shown_without_secrets_and_bounded() {
        let secrets = ["hunter2".to_owned(), String::new()];
        let asked = Asked { plugin: "p", socket: Path::new("/s"), bytes_max: 1, secrets: &secrets };
        assert_eq!(asked.shown("login with hunter2\u{1b}[31m\nfailed"), "login with ******[31m\nfailed");
        let long = asked.shown(&"ä".repeat(TEXT_BYTES_MAX));
        assert!(long.len() <= TEXT_BYTES_MAX + 4 && long.ends_with('…'));
    }

    #[test]
    fn rnd_20_timeouts_are_told_as_go_does() {
        let error = PluginError::Timeout { plugin: "p".to_owned(), after: Duration::from_secs(90) };
        assert_eq!(error.to_string(), "the plugin \"p\" did not answer: timeout after 1m30s");
        assert!(error.is_transient());
    }
}
