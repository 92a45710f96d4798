//! A server of gRPC that behaves as a test wants.

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sha2::{Digest as _, Sha256};
use tiphys_plugin::message::{self, Flags, Manifests, Metadata, StreamRequest, stream_request};
use tiphys_wire::frame::Messages;
use tokio::net::UnixListener;
use tokio::sync::Notify;

pub(crate) type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// How manifests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With one.
    Well,
    /// Never.
    Hangs,
    /// With the beginning of a message of a gigabyte.
    Gigabyte,
    /// With what is no message.
    Garbage,
    /// With a message that is packed and small, and huge when it is unpacked.
    Bomb,
    /// Without an outcome.
    Breaks,
    /// With two answers.
    Twice,
    /// With a failure that says as much as a command may have printed.
    Wordy,
    /// With 30 MB.
    Amply,
    /// With one, after it said that this connection takes no more calls, as servers do that bound its age.
    Aged,
    /// With a part of one, before its process ends.
    Dies,
}

/// What a double saw.
#[derive(Default)]
pub(crate) struct Seen {
    /// Calls for manifests.
    pub(crate) generated: AtomicUsize,
    /// Questions whether files are its own.
    pub(crate) matched: AtomicUsize,
    /// The metadata of the last call, if its digest and its size were right.
    pub(crate) metadata: std::sync::Mutex<Option<Metadata>>,
    /// The longest piece of a file.
    pub(crate) piece: AtomicUsize,
    /// Connections that have ended.
    pub(crate) ended: AtomicUsize,
}

/// Listens on a socket.
pub(crate) fn listen(socket: &Path, setup: Flags, way: Way) -> Arc<Seen> {
    let listener = UnixListener::bind(socket).unwrap();
    let seen = Arc::new(Seen::default());
    let known = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = Arc::clone(&known);
            tokio::spawn(async move {
                let (calls, asked) = (Arc::clone(&seen), Arc::new(Notify::new()));
                let manifests = Arc::clone(&asked);
                let service = service_fn(move |request: Request<Incoming>| {
                    let (seen, asked) = (Arc::clone(&calls), Arc::clone(&manifests));
                    async move {
                        let is_first = request.uri().path().ends_with(message::CHECK);
                        let response = answer(&seen, setup, way, request).await;
                        if !is_first {
                            asked.notify_one();
                        }
                        Ok::<_, std::convert::Infallible>(response)
                    }
                });
                let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let mut served = pin!(builder.serve_connection(TokioIo::new(stream), service));
                let is_over = tokio::select! {
                    _ended = &mut served => true,
                    () = asked.notified(), if matches!(way, Way::Aged | Way::Dies) => way == Way::Dies,
                };
                if !is_over {
                    served.as_mut().graceful_shutdown();
                    let _ended = served.await;
                }
                seen.ended.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    seen
}

async fn answer(seen: &Seen, setup: Flags, way: Way, request: Request<Incoming>) -> Response<Body> {
    let (parts, body) = request.into_parts();
    assert_eq!(parts.headers["content-type"], "application/grpc");
    assert_eq!(parts.headers["te"], "trailers");
    let method = parts.uri.path().strip_prefix(message::SERVICE).unwrap().to_owned();
    if method == message::CHECK {
        return framed(&setup.encode(), 0);
    }
    receive(seen, body).await;
    if method == message::MATCH {
        seen.matched.fetch_add(1, Ordering::SeqCst);
        return framed(&Flags { first: true, second: true }.encode(), 0);
    }
    seen.generated.fetch_add(1, Ordering::SeqCst);
    let one = Manifests { manifests: vec!["kind: A\napiVersion: v1\n".into()], source_type: String::new() };
    match way {
        Way::Well | Way::Aged => framed(&one.encode(), 0),
        Way::Hangs => std::future::pending().await,
        Way::Gigabyte => {
            let mut bytes = vec![0];
            bytes.extend_from_slice(&(1_u32 << 30).to_be_bytes());
            bytes.extend(std::iter::repeat_n(b'x', 100_000));
            raw(bytes, Some(0))
        }
        Way::Garbage => framed(b"\x0a\xff\xff\xff\xff\x7f", 0),
        Way::Bomb => {
            use std::io::Write as _;
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            for _ in 0..5 {
                packer.write_all(&vec![0; 1 << 20]).unwrap();
            }
            let packed = packer.finish().unwrap();
            let mut bytes = vec![1];
            bytes.extend_from_slice(&u32::try_from(packed.len()).unwrap().to_be_bytes());
            bytes.extend(packed);
            let mut response = raw(bytes, Some(0));
            response.headers_mut().insert("grpc-encoding", HeaderValue::from_static("gzip"));
            response
        }
        Way::Breaks => raw(Vec::new(), None),
        Way::Amply => {
            let long = format!("apiVersion: v1\nkind: A\nlong: {}\n", "x".repeat(30 << 20));
            framed(&Manifests { manifests: vec![long], source_type: String::new() }.encode(), 0)
        }
        Way::Dies => {
            let beginning = vec![0, 0, 0, 1, 0, b'x'];
            let frames = futures::stream::iter([Ok(Frame::data(Bytes::from(beginning)))]);
            let mut response =
                Response::new(StreamBody::new(frames.chain(futures::stream::pending())).boxed_unsync());
            response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
            response
        }
        Way::Wordy => {
            let mut response = raw(Vec::new(), None);
            let text = HeaderValue::from_str(&"word%0A".repeat(50_000)).unwrap();
            response.headers_mut().insert("grpc-status", HeaderValue::from_static("2"));
            response.headers_mut().insert("grpc-message", text);
            response
        }
        Way::Twice => {
            let message = one.encode();
            let mut bytes = Vec::new();
            for _ in 0..2 {
                bytes.push(0);
                bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
                bytes.extend_from_slice(&message);
            }
            raw(bytes, Some(0))
        }
    }
}

/// Reads the stream of a call, and holds it against its metadata.
async fn receive(seen: &Seen, mut body: Incoming) {
    let mut messages = Messages::new(10 << 20, None).unwrap();
    let (mut metadata, mut hash, mut size) = (None, Sha256::new(), 0);
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(piece) = frame.into_data() else { continue };
        messages.push(&piece);
        while let Some(message) = messages.take().unwrap() {
            match stream_request(&message).unwrap() {
                StreamRequest::Metadata(found) => metadata = Some(found),
                StreamRequest::Chunk(piece) => {
                    seen.piece.fetch_max(piece.len(), Ordering::SeqCst);
                    hash.update(piece);
                    size += piece.len() as u64;
                }
                StreamRequest::Nothing => {}
            }
        }
    }
    let digest: [u8; 32] = hash.finalize().into();
    let digest = digest.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
    let right = metadata.filter(|metadata: &Metadata| metadata.checksum == digest && metadata.size == size);
    *seen.metadata.lock().unwrap() = right;
}

fn framed(message: &[u8], status: u16) -> Response<Body> {
    let mut bytes = vec![0];
    bytes.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend_from_slice(message);
    raw(bytes, Some(status))
}

fn raw(bytes: Vec<u8>, status: Option<u16>) -> Response<Body> {
    let body = if let Some(status) = status {
        let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from(status))]);
        Full::new(Bytes::from(bytes)).with_trailers(std::future::ready(Some(Ok(trailers)))).boxed_unsync()
    } else {
        let nothing = futures::stream::iter([Ok(Frame::data(Bytes::from(bytes)))]);
        StreamBody::new(nothing).boxed_unsync()
    };
    let mut response = Response::new(body);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}
