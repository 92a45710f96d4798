//! Connections, and the calls on them.

use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tiphys_wire::frame::{self, FrameError, Messages};
use tiphys_wire::status::Code;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::ServerOptions;
use super::commands::Commands;
use crate::message::{self, Flags, Manifests, Metadata, StreamRequest, stream_request};
use crate::unpack::unpack;

/// Calls that run commands at a time.
const CALLS_MAX: u16 = 16;
/// Bytes of packed files.
const PACKED_BYTES_MAX: u64 = 1 << 30;
/// How much earlier than its caller a call ends (RND-135).
const HEAD_START: Duration = Duration::from_millis(100);
/// Time of a call whose caller does not say how long it waits.
const TIMEOUT: Duration = Duration::from_secs(90);
/// Bytes of what is said about a failure: a header has to hold it.
const TEXT_BYTES_MAX: usize = 3 * 1024;

/// An outcome that is no answer.
pub(super) struct Status {
    code: Code,
    text: String,
}

impl Status {
    pub(super) fn unknown(text: impl Into<String>) -> Self {
        Self { code: Code::Unknown, text: text.into() }
    }

    pub(super) fn of(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

impl From<FrameError> for Status {
    fn from(error: FrameError) -> Self {
        Self { code: error.code, text: error.message }
    }
}

/// The calls of one server.
pub(super) struct Calls {
    options: Arc<ServerOptions>,
    turns: Semaphore,
}

impl Calls {
    pub(super) fn new(options: Arc<ServerOptions>) -> Self {
        Self { options, turns: Semaphore::new(CALLS_MAX.into()) }
    }
}

/// Serves one connection until it ends, or the server does.
pub(super) async fn connection(stream: UnixStream, calls: Arc<Calls>, stopping: CancellationToken) {
    let service = service_fn(move |request| {
        let calls = Arc::clone(&calls);
        async move { Ok::<_, std::convert::Infallible>(answer(&calls, request).await) }
    });
    let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    builder.max_concurrent_streams(u32::from(CALLS_MAX));
    let serving = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stopping.cancelled() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(error = %error, "a connection broke");
    }
}

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

async fn answer(calls: &Calls, request: Request<Incoming>) -> Response<Body> {
    let mut trailers = HeaderMap::new();
    let outcome = call(calls, request).await;
    let (code, text, body) = match outcome {
        Ok(message) => (Code::Ok, String::new(), Some(message)),
        Err(Status { code, text }) => (code, text, None),
    };
    trailers.insert("grpc-status", HeaderValue::from(u16::from(code.number())));
    if let Ok(text) = HeaderValue::from_str(&frame::escaped(&shortened(&text))) {
        trailers.insert("grpc-message", text);
    }
    let message = body.map(|message| {
        let mut out = BytesMut::with_capacity(message.len() + 5);
        out.put_u8(0);
        out.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
        out.put_slice(&message);
        out.freeze()
    });
    let body = Full::new(message.unwrap_or_default());
    let body = body.with_trailers(std::future::ready(Some(Ok(trailers)))).boxed_unsync();
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn shortened(text: &str) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=TEXT_BYTES_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or_default();
    format!("{} …", text.get(..end).unwrap_or_default())
}

async fn call(calls: &Calls, request: Request<Incoming>) -> Result<Vec<u8>, Status> {
    let (parts, body) = request.into_parts();
    let options = &calls.options;
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let waits = header("grpc-timeout").and_then(frame::timeout).unwrap_or(TIMEOUT);
    let ends = Instant::now() + waits.saturating_sub(HEAD_START);
    let messages = Messages::new(options.message_bytes_max, header("grpc-encoding"))?;
    let method = parts.uri.path().strip_prefix(message::SERVICE).unwrap_or_default();
    let spec = &options.config.spec;
    let late = |_elapsed| Status::of(Code::DeadlineExceeded, "context deadline exceeded");
    match method {
        message::CHECK => {
            let setup = Flags { first: spec.discover.is_configured(), second: spec.provide_git_creds };
            Ok(setup.encode())
        }
        message::GENERATE | message::MATCH | message::PARAMETERS => {
            let work = async {
                // It is never closed.
                let _turn = calls.turns.acquire().await;
                let received = receive(options, body, messages).await?;
                let commands = Commands {
                    options,
                    root: received.root(),
                    directory: received.directory()?,
                    metadata: &received.metadata,
                    ends,
                };
                let answer = match method {
                    message::GENERATE => {
                        let manifests = commands.generate().await?;
                        Manifests { manifests, source_type: options.config.name.clone() }.encode()
                    }
                    message::MATCH => {
                        let first = commands.matches().await?;
                        Flags { first, second: spec.discover.is_configured() }.encode()
                    }
                    _ => message::encode_announcements(&commands.parameters().await?),
                };
                if answer.len() > options.message_bytes_max {
                    let text = format!(
                        "trying to send message larger than max ({} vs. {})",
                        answer.len(),
                        options.message_bytes_max
                    );
                    return Err(Status::of(Code::ResourceExhausted, text));
                }
                Ok(answer)
            };
            // Commands end by themselves at that time, and then say which it was.
            let last = ends + options.grace + HEAD_START;
            tokio::time::timeout_at(last, work).await.map_err(late)?
        }
        _ => {
            let text = format!("unknown method {}", frame::escaped(parts.uri.path()));
            Err(Status::of(Code::Unimplemented, text))
        }
    }
}

/// Files that were sent, in a directory that goes with this value.
struct Received {
    folder: TempDir,
    metadata: Metadata,
}

impl Received {
    fn root(&self) -> PathBuf {
        self.folder.path().join("files")
    }

    /// The directory of the source. It may be a link, but leads nowhere else.
    fn directory(&self) -> Result<PathBuf, Status> {
        let wrong =
            || Status::of(Code::InvalidArgument, "the path of the application is not in what was sent");
        let root = std::fs::canonicalize(self.root()).map_err(|_gone| wrong())?;
        let relative = Path::new(&self.metadata.app_rel_path);
        let found = std::fs::canonicalize(root.join(relative)).map_err(|_missing| wrong())?;
        if found.starts_with(&root) && found.is_dir() { Ok(found) } else { Err(wrong()) }
    }
}

/// Reads a stream of requests, and unpacks what it holds.
async fn receive(
    options: &ServerOptions,
    mut body: Incoming,
    mut messages: Messages,
) -> Result<Received, Status> {
    let disk =
        |error: std::io::Error| Status::unknown(format!("cannot write what was sent: {}", error.kind()));
    let malformed = |error: message::MessageError| Status::of(Code::InvalidArgument, error.to_string());
    let folder = tempfile::tempdir_in(&options.work).map_err(disk)?;
    let file = tempfile::tempfile_in(&options.work).map_err(disk)?;
    let mut file = std::io::BufWriter::new(file);
    let (mut metadata, mut hash, mut size) = (None, Sha256::new(), 0_u64);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_broken| Status::of(Code::Canceled, "the caller went away"))?;
        let Ok(piece) = frame.into_data() else { continue };
        messages.push(&piece);
        while let Some(message) = messages.take()? {
            match (stream_request(&message).map_err(malformed)?, metadata.is_some()) {
                (StreamRequest::Metadata(found), false) => metadata = Some(found),
                (StreamRequest::Chunk(piece), true) => {
                    size += piece.len() as u64;
                    if size > PACKED_BYTES_MAX {
                        let text = format!("the files have more than {PACKED_BYTES_MAX} bytes");
                        return Err(Status::of(Code::ResourceExhausted, text));
                    }
                    hash.update(piece);
                    // Small pieces into the memory of the system: it is the disk of nobody else.
                    file.write_all(piece).map_err(disk)?;
                }
                (StreamRequest::Nothing, true) => {}
                (StreamRequest::Metadata(_), true) => {
                    return Err(Status::of(Code::InvalidArgument, "metadata came twice"));
                }
                (_, false) => {
                    return Err(Status::of(Code::InvalidArgument, "the first message should be metadata"));
                }
            }
        }
    }
    let metadata = metadata.ok_or_else(|| Status::of(Code::InvalidArgument, "no metadata came"))?;
    let digest: [u8; 32] = hash.finalize().into();
    if crate::pack::hex(&digest) != metadata.checksum.to_ascii_lowercase() {
        return Err(Status::unknown("file checksum validation error"));
    }
    let mut file = file.into_inner().map_err(|error| disk(error.into_error()))?;
    file.rewind().map_err(disk)?;
    let received = Received { folder, metadata };
    let (place, preserve) = (received.root(), options.config.spec.preserve_file_mode);
    std::fs::create_dir(&place).map_err(disk)?;
    let work = tokio::task::spawn_blocking(move || unpack(std::io::BufReader::new(file), &place, preserve));
    let unpacked = work.await.map_err(|error| Status::of(Code::Internal, error.to_string()))?;
    unpacked.map_err(|error| Status::unknown(format!("cannot unpack what was sent: {error}")))?;
    Ok(received)
}
