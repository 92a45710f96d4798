//! JSON over HTTP (API-P19..P33).

mod stream;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::{Frame, Incoming};
use serde_json::{Value, json};
use tiphys_wire::rest::{self, NoRoute};
use tiphys_wire::selection::Selection;
use tiphys_wire::status::Code;
use tiphys_wire::{Method, schema};
use tokio_util::sync::CancellationToken;

use super::body::{self, Body};
use super::budget::Budget;
use super::compress::{self, Encoding, Packed};
use super::cookie::Cookies;
use super::held::Held;
use super::intake::Intake;
use super::invoke::{self, Bounds, Ending};
use super::{download, plain};
use crate::call::{Admitted, Api, Form, Head, Message, Payload, Pieces, Reply, Requests, Status, Via};
use crate::listen::meter::Meter;
use stream::{Source, failed_stream, stream_response};

/// The kind of an event stream.
const EVENT_STREAM: &str = "text/event-stream";
/// Methods that take the `fields` parameter by its general rule (API-P29); lists of applications have their own.
const SELECTABLE: [&str; 6] = [
    "/project.ProjectService/List",
    "/application.ApplicationService/ManagedResources",
    "/application.ApplicationService/Watch",
    "/applicationset.ApplicationSetService/Watch",
    "/application.ApplicationService/WatchResourceTree",
    "/application.ApplicationService/PodLogs",
];
/// Bytes of a refused body that are taken, so that its sender sees why.
const REFUSED_BYTES_MAX: usize = 8 << 20;
const POD_LOGS: &str = "/application.ApplicationService/PodLogs";

/// What the REST layer is set up with.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    /// Bounds of what comes in.
    pub(crate) bounds: Bounds,
    /// Counts what is in memory of requests and answers.
    pub(crate) budget: Budget,
    /// Whether answers are compressed (API-20).
    pub(crate) gzip: bool,
    /// How sessions become cookies (API-33).
    pub(crate) cookies: Cookies,
    /// Ends streams.
    pub(crate) stopping: CancellationToken,
}

impl Rest {
    /// Answers one request below `/api/`.
    pub(crate) async fn serve(
        &self,
        api: Arc<dyn Api>,
        request: Request<Incoming>,
        path: &str,
        peer: SocketAddr,
    ) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let route = match rest::find(schema(), parts.method.as_str(), path) {
            Ok(route) => route,
            Err(NoRoute::NotFound) => return plain(StatusCode::NOT_FOUND, "Not Found\n"),
            Err(NoRoute::MethodNotAllowed) => {
                return plain(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n");
            }
            Err(NoRoute::Malformed) => return plain(StatusCode::BAD_REQUEST, "Bad Request\n"),
        };
        let query = parts.uri.query().unwrap_or_default();
        let parameter = |name: &str| {
            form_urlencoded::parse(query.as_bytes())
                .find(|(key, _)| key == name)
                .map(|(_, text)| text.into_owned())
        };
        let deadline = invoke::deadline(parts.headers.get("grpc-timeout").and_then(|it| it.to_str().ok()));
        let fields = parameter("fields").and_then(|text| Selection::read(&text));
        let head =
            Head { method: route.method, via: Via::Rest, headers: parts.headers, peer, deadline, fields };
        let asked = Asked {
            is_download: head.description().path == POD_LOGS
                && parameter("download").as_deref() == Some("true"),
            is_event_stream: head.header("accept") == Some(EVENT_STREAM),
            encoding: if self.gzip { compress::accepted(&head.headers) } else { Encoding::Identity },
        };
        let mut ending = Ending::new(&api, &head);
        let came = (&route, query, body, parts.extensions.get::<Meter>().cloned());
        match self.exchange(&api, head.clone(), came, asked, &mut ending).await {
            Ok(Exchanged { shown, reply, renewed, held }) => {
                let warnings = reply.warning_texts();
                let session = reply.session.or(renewed);
                let mut response = self.answered(&head, asked, (&shown, reply.payload), (ending, held));
                for text in warnings {
                    // As Kubernetes has them: RFC 9110 knows no better header.
                    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
                    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
                        response.headers_mut().append(header::WARNING, value);
                    }
                }
                if let Some(token) = session.as_ref()
                    && self.cookies.set(token.expose(), response.headers_mut()).is_err()
                {
                    // API-34: a session that the client cannot keep is none.
                    return failed(&Status::internal("the token is too long for cookies"));
                }
                response
            }
            Err(status) => {
                ending.with(status.code);
                if head.description().server_streams {
                    failed_stream(&status, asked)
                } else {
                    failed(&status)
                }
            }
        }
    }

    /// From the request to the reply.
    async fn exchange(
        &self,
        api: &Arc<dyn Api>,
        head: Head,
        (route, query, mut body, meter): (&rest::Route<'_>, &str, Incoming, Option<Meter>),
        asked: Asked,
        ending: &mut Ending,
    ) -> Result<Exchanged, Status> {
        let is_stream = head.description().client_streams;
        let intake = Intake::begin(&self.budget, head.peer.ip(), (&head.headers, meter), self.bounds)?;
        let admitted: Admitted = invoke::admit(api, head).await?;
        ending.known(&admitted);
        let mut intake = intake.known(&admitted)?;
        let has_body = route.binding.body != schema::Body::None;
        let bytes =
            if has_body { body_of(api, &admitted, &mut body, &mut intake).await? } else { Bytes::new() };
        intake.values(&bytes)?;
        let kept = intake.kept();
        let renewed = admitted.renewed_token.clone();
        let bind =
            |bytes: &[u8]| route.bind(query, bytes).map_err(|error| Status::invalid(error.to_string()));
        if is_stream {
            let read =
                |bytes: Result<&[u8], Status>| bind(bytes?).map_err(|status| unreadable(&status.message));
            let messages = messages(&bytes).map(read).collect::<Result<Vec<_>, _>>()?;
            drop(bytes);
            let stream = futures::stream::iter(messages.into_iter().map(Ok)).boxed();
            let requests = ending.received(Requests::Stream(stream));
            let reply = invoke::call(api, admitted, requests).await?;
            let held = Held::new(kept.for_answer());
            return Ok(Exchanged { shown: Value::Null, reply, renewed, held });
        }
        let message = bind(&bytes)?;
        drop(bytes);
        // Files are named after what was asked for.
        let shown = if asked.is_download { message.clone() } else { Value::Null };
        let requests = ending.received(Requests::One(message));
        let reply = invoke::call(api, admitted, requests).await?;
        Ok(Exchanged { shown, reply, renewed, held: Held::new(kept.for_answer()) })
    }

    fn answered(
        &self,
        head: &Head,
        asked: Asked,
        (message, payload): (&Value, Payload),
        (mut ending, mut held): (Ending, Held),
    ) -> Response<Body> {
        let method = head.description();
        let selection = head.fields.as_ref().filter(|_| SELECTABLE.contains(&method.path.as_str()));
        match payload {
            Payload::One(answer) => {
                let pieces = written(&answer, method, selection, &mut held);
                let packed = pieces.and_then(|pieces| compress::pack(pieces, asked.encoding));
                match packed.and_then(|packed| json_response(packed, held)) {
                    Ok(response) => {
                        ending.sent();
                        ending.with(Code::Ok);
                        response
                    }
                    Err(status) => {
                        ending.with(status.code);
                        failed(&status)
                    }
                }
            }
            Payload::Stream(stream) if asked.is_download => {
                download::response(message, stream, self.stopping.clone(), ending)
            }
            Payload::Stream(stream) => {
                let source = Source { stream, deadline: head.deadline, stopping: self.stopping.clone() };
                stream_response(method, asked, selection.cloned(), source, (ending, held))
            }
        }
    }
}

/// A call that was answered.
struct Exchanged {
    /// What was asked for, where the answer needs it.
    shown: Value,
    reply: Reply,
    /// The token that replaces the caller's.
    renewed: Option<tiphys_api::secret::Secret<String>>,
    held: Held,
}

/// The body of a request, as long as its sender may make it.
async fn body_of(
    api: &Arc<dyn Api>,
    call: &Admitted,
    body: &mut Incoming,
    intake: &mut Intake,
) -> Result<Bytes, Status> {
    let reading = intake.body(api, call, body);
    let read = match call.head.deadline {
        None => reading.await,
        Some(at) => tokio::time::timeout_at(at, reading).await.map_err(|_elapsed| invoke::late())?,
    };
    if read.as_ref().is_err_and(|status| status.code != Code::Canceled) {
        body::drain(body, REFUSED_BYTES_MAX).await;
    }
    read
}

/// The messages of a body that holds several JSON values one after another, each as it stands.
fn messages(body: &[u8]) -> impl Iterator<Item = Result<&[u8], Status>> {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter::<serde::de::IgnoredAny>();
    std::iter::from_fn(move || {
        let begins = values.byte_offset();
        let value = values.next()?;
        let found = value.map(|_skipped| body.get(begins..values.byte_offset()).unwrap_or_default());
        Some(found.map_err(|error| unreadable(&error)))
    })
}

/// One of several messages of a body is none.
fn unreadable(why: &dyn std::fmt::Display) -> Status {
    Status::invalid(format!("request cannot be read: {why}"))
}

/// How an answer is wanted.
#[derive(Clone, Copy, Debug)]
struct Asked {
    is_download: bool,
    is_event_stream: bool,
    encoding: Encoding,
}

/// The JSON of a message, without what was not selected; counted, where it is whole in memory.
fn written(
    message: &Message,
    method: &Method,
    selection: Option<&Selection>,
    held: &mut Held,
) -> Result<Pieces, Status> {
    if selection.is_none() && !message.is_value() {
        return message.pieces(method, Form::Json);
    }
    let mut pieces = message.write(method, Form::Json)?;
    if let Some(selection) = selection {
        let mut value = parsed(&pieces)?;
        selection.apply(&mut value);
        pieces = vec![value.to_string().into()];
    }
    held.keep(pieces.iter().map(Bytes::len).sum())?;
    Ok(Box::new(pieces.into_iter().map(Ok)))
}

fn parsed(pieces: &[Bytes]) -> Result<Value, Status> {
    let whole = pieces.concat();
    serde_json::from_slice(&whole).map_err(|_unreadable| Status::internal("the answer cannot be read"))
}

fn json_response(packed: Packed, mut held: Held) -> Result<Response<Body>, Status> {
    let is_gzip = matches!(packed, Packed::Gzip(_) | Packed::GzipMade(_));
    let whole = |pieces: Vec<Bytes>| {
        futures::stream::iter(pieces.into_iter().map(|piece| Ok(Frame::data(piece)))).boxed()
    };
    let frames = match packed {
        Packed::Whole(pieces) => whole(pieces),
        Packed::Made(pieces) | Packed::GzipMade(pieces) => body::made(pieces),
        Packed::Gzip(bytes) => {
            held.keep(bytes.len())?;
            whole(vec![bytes])
        }
    };
    let mut response = Response::new(held.body(frames, false));
    json_headers(response.headers_mut());
    if is_gzip {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    Ok(response)
}

fn json_headers(headers: &mut HeaderMap) {
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The body of an error (API-P25).
pub(crate) fn failed(status: &Status) -> Response<Body> {
    let value =
        json!({"error": status.message, "code": status.code.number(), "message": status.message}).to_string();
    let mut response = Response::new(body::full(value));
    *response.status_mut() = StatusCode::from_u16(status.code.http()).unwrap_or_default();
    json_headers(response.headers_mut());
    response
}
