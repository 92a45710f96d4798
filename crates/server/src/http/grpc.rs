//! gRPC over HTTP/2, and gRPC-web over either version (API-P1..P18).

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{BufMut as _, Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use hyper::body::{Frame, Incoming};
use tiphys_wire::frame::{Messages, TRAILERS, escaped, framed};
use tiphys_wire::status::Code;
use tiphys_wire::{Method, schema};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::body::{self, Body};
use super::budget::Budget;
use super::held::Held;
use super::intake::Intake;
use super::invoke::{self, Bounds, Ending, Reader};
use crate::call::{Api, Form, Head, Message, Payload, Reply, Status, Via};
use crate::listen::meter::Meter;

const GRPC_STATUS: &str = "grpc-status";
const GRPC_MESSAGE: &str = "grpc-message";
const RENEW_TOKEN: &str = "renew-token";
/// Metadata with what the caller should know although the call went well.
const WARNING: &str = "warning";

/// How trailers are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// As trailers of HTTP/2.
    Grpc,
    /// As a message at the end of the body.
    Web,
}

impl Dialect {
    /// The dialect of a request, by its content type (API-2, API-P13).
    pub(crate) fn of(headers: &HeaderMap, is_http2: bool) -> Option<Self> {
        match headers.get(header::CONTENT_TYPE)?.to_str().ok()? {
            "application/grpc" | "application/grpc+proto" if is_http2 => Some(Self::Grpc),
            "application/grpc-web" | "application/grpc-web+proto" => Some(Self::Web),
            _ => None,
        }
    }

    fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Grpc => "application/grpc",
            Self::Web => "application/grpc-web+proto",
        })
    }

    fn via(self) -> Via {
        match self {
            Self::Grpc => Via::Grpc,
            Self::Web => Via::GrpcWeb,
        }
    }
}

/// Answers one call.
pub(crate) async fn serve(
    api: Arc<dyn Api>,
    (bounds, budget): (Bounds, &Budget),
    stopping: CancellationToken,
    request: Request<Incoming>,
    (path, peer, dialect): (&str, SocketAddr, Dialect),
) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let Some(method) = schema().method_at(path) else { return failed(dialect, &unknown(path)) };
    let text = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let encoding = text("grpc-encoding").map(str::to_owned);
    let deadline = invoke::deadline(text("grpc-timeout"));
    let head = Head { method, via: dialect.via(), headers: parts.headers, peer, deadline, fields: None };
    let description = head.description();
    let mut ending = Ending::new(&api, &head);
    let came = (body, encoding.as_deref(), dialect, parts.extensions.get::<Meter>().cloned());
    let exchanged = exchange(&api, (bounds, budget), head, came, &mut ending).await;
    let (reply, renewed, held) = match exchanged {
        Ok(exchanged) => exchanged,
        Err(status) => {
            ending.with(status.code);
            return failed(dialect, &status);
        }
    };
    let answer = Answer { method: description, dialect, bytes_max: bounds.message_bytes_max, ending };
    let warnings = reply.warning_texts();
    let mut response = match reply.payload {
        Payload::One(message) => answer.one(&message, held),
        Payload::Stream(stream) => answer.stream(stream, held, deadline, stopping),
    };
    if let Some(token) = renewed {
        response.headers_mut().insert(RENEW_TOKEN, token);
    }
    for text in warnings {
        if let Ok(value) = HeaderValue::from_str(&text) {
            response.headers_mut().append(WARNING, value);
        }
    }
    response
}

/// From the request to the reply, with the token that replaces the caller's, and what counts the answer.
async fn exchange(
    api: &Arc<dyn Api>,
    (bounds, budget): (Bounds, &Budget),
    head: Head,
    (body, encoding, dialect, meter): (Incoming, Option<&str>, Dialect, Option<Meter>),
    ending: &mut Ending,
) -> Result<(Reply, Option<HeaderValue>, Held), Status> {
    if dialect == Dialect::Web && head.description().client_streams {
        // API-P17.
        return Err(Status::new(Code::Unimplemented, "streams of requests need gRPC over HTTP/2"));
    }
    let deadline = head.deadline;
    let intake = Intake::begin(budget, head.peer.ip(), (&head.headers, meter), bounds)?;
    let admitted = invoke::admit(api, head).await?;
    ending.known(&admitted);
    let intake = intake.known(&admitted)?;
    let bytes_max = bounds.message_bytes_max;
    let messages = Messages::new(bytes_max, encoding)?;
    let call = admitted.clone();
    let reading = Reader { api: Arc::clone(api), call, body, messages, intake, bytes_max }.requests();
    let (requests, kept) = match deadline {
        None => reading.await?,
        Some(at) => tokio::time::timeout_at(at, reading).await.map_err(|_elapsed| invoke::late())??,
    };
    let renewed = admitted.renewed_token.as_ref();
    let renewed = renewed.and_then(|token| HeaderValue::from_str(token.expose()).ok());
    let requests = ending.received(requests);
    let reply = invoke::call(api, admitted, requests).await?;
    Ok((reply, renewed, Held::new(kept.for_answer())))
}

/// A call that has an answer.
struct Answer {
    method: &'static Method,
    dialect: Dialect,
    bytes_max: usize,
    ending: Ending,
}

impl Answer {
    fn written(&self, message: &Message) -> Result<Vec<Bytes>, Status> {
        Ok(framed(message.write(self.method, Form::Binary)?, self.bytes_max)?)
    }

    fn one(mut self, message: &Message, mut held: Held) -> Response<Body> {
        let pieces = self.written(message).and_then(|pieces| {
            held.keep(pieces.iter().map(Bytes::len).sum())?;
            Ok(pieces)
        });
        match pieces {
            Err(status) => {
                self.ending.with(status.code);
                failed(self.dialect, &status)
            }
            Ok(pieces) => {
                self.ending.sent();
                self.ending.with(Code::Ok);
                let end = trailers(self.dialect, None);
                let frames = pieces.into_iter().map(Frame::data).chain([end]).map(Ok);
                respond(self.dialect, held.body(futures::stream::iter(frames).boxed(), false))
            }
        }
    }

    fn stream(
        self,
        messages: BoxStream<'static, Result<Message, Status>>,
        held: Held,
        deadline: Option<Instant>,
        stopping: CancellationToken,
    ) -> Response<Body> {
        let dialect = self.dialect;
        let state = Some((self, messages));
        let frames = futures::stream::unfold(state, move |state| {
            let stopping = stopping.clone();
            async move {
                let (mut answer, mut messages) = state?;
                let item = next(&mut messages, deadline, &stopping).await;
                let (status, pieces) =
                    match item.map(|item| item.and_then(|message| answer.written(&message))) {
                        Some(Ok(pieces)) => (None, Some(pieces)),
                        Some(Err(status)) => (Some(status), None),
                        None => (None, None),
                    };
                if let Some(pieces) = pieces {
                    answer.ending.sent();
                    let frames: Vec<_> = pieces.into_iter().map(Frame::data).collect();
                    return Some((frames, Some((answer, messages))));
                }
                answer.ending.with(status.as_ref().map_or(Code::Ok, |status| status.code));
                Some((vec![trailers(dialect, status.as_ref())], None))
            }
        });
        respond(dialect, held.body(frames.flat_map(futures::stream::iter).map(Ok).boxed(), true))
    }
}

/// The next message; a stream ends with its deadline and with the process.
pub(super) async fn next(
    messages: &mut BoxStream<'static, Result<Message, Status>>,
    deadline: Option<Instant>,
    stopping: &CancellationToken,
) -> Option<Result<Message, Status>> {
    let late = async {
        match deadline {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    };
    // Every branch is cancel-safe: a stream that is not polled loses nothing.
    tokio::select! {
        item = messages.next() => item,
        () = late => Some(Err(invoke::late())),
        () = stopping.cancelled() => Some(Err(Status::new(Code::Unavailable, "the server is stopping"))),
    }
}

fn unknown(path: &str) -> Status {
    let path = tiphys_api::printable::line(path);
    let text = match path.strip_prefix('/').and_then(|rest| rest.split_once('/')) {
        None => format!("malformed method name: {path:?}"),
        Some((service, method)) if schema().services().iter().any(|it| it.full == service) => {
            format!("unknown method {method} for service {service}")
        }
        Some((service, _)) => format!("unknown service {service}"),
    };
    Status::new(Code::Unimplemented, text)
}

fn respond(dialect: Dialect, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, dialect.content_type());
    response
}

/// A call that failed before it had an answer: its status is in the headers, where clients of gRPC-web look (API-P15).
fn failed(dialect: Dialect, status: &Status) -> Response<Body> {
    let mut response = respond(dialect, body::empty());
    response.headers_mut().extend(fields(Some(status)));
    response
}

fn fields(status: Option<&Status>) -> HeaderMap {
    let mut fields = HeaderMap::new();
    let code = status.map_or(Code::Ok, |status| status.code);
    fields.insert(GRPC_STATUS, HeaderValue::from(u16::from(code.number())));
    if let Some(text) = status.and_then(|status| HeaderValue::from_str(&escaped(&status.message)).ok()) {
        fields.insert(GRPC_MESSAGE, text);
    }
    fields
}

fn trailers(dialect: Dialect, status: Option<&Status>) -> Frame<Bytes> {
    match dialect {
        Dialect::Grpc => Frame::trailers(fields(status)),
        Dialect::Web => {
            let code = status.map_or(Code::Ok, |status| status.code);
            let message = status.map(|status| escaped(&status.message)).unwrap_or_default();
            let text = format!("{GRPC_STATUS}: {}\r\n{GRPC_MESSAGE}: {message}\r\n", code.number());
            let mut frame = BytesMut::with_capacity(text.len() + 5);
            frame.put_u8(TRAILERS);
            frame.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
            frame.put_slice(text.as_bytes());
            Frame::data(frame.freeze())
        }
    }
}
