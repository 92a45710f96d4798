//! Streams as JSON: lines, or events of a browser (API-P27, API-P28).

use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use hyper::body::Frame;
use serde_json::{Map, Value, json};
use tiphys_wire::Method;
use tiphys_wire::selection::Selection;
use tiphys_wire::status::{Code, http_text};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Asked, EVENT_STREAM, json_headers, parsed};
use crate::call::{Form, Message, Status};
use crate::http::body::{self, Body};
use crate::http::grpc;
use crate::http::held::Held;
use crate::http::invoke::Ending;

/// Time between two signs of life of an event stream (API-P27).
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A stream that failed before its first message (API-P28).
pub(super) fn failed_stream(status: &Status, asked: Asked) -> Response<Body> {
    let mut response = Response::new(body::full(chunk(&error_chunk(status), asked.is_event_stream)));
    *response.status_mut() = StatusCode::from_u16(status.code.http()).unwrap_or_default();
    stream_headers(response.headers_mut(), asked.is_event_stream);
    response
}

/// The last chunk of a stream that failed; zeros are left out (API-P28).
fn error_chunk(status: &Status) -> Value {
    let http = status.code.http();
    let mut error = Map::from_iter([
        ("grpc_code".to_owned(), status.code.number().into()),
        ("http_code".to_owned(), http.into()),
        ("http_status".to_owned(), http_text(http).into()),
    ]);
    if !status.message.is_empty() {
        error.insert("message".to_owned(), status.message.as_str().into());
    }
    json!({"error": error})
}

/// A message in its frame; the blank before the line break is part of what clients expect (API-P27).
fn chunk(value: &Value, is_event_stream: bool) -> String {
    if is_event_stream { format!("data: {value} \n\n\n") } else { format!("{value}\n") }
}

fn stream_headers(headers: &mut HeaderMap, is_event_stream: bool) {
    json_headers(headers);
    if is_event_stream {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    }
}

/// Where the messages of a stream come from, and what ends it.
pub(super) struct Source {
    pub(super) stream: BoxStream<'static, Result<Message, Status>>,
    pub(super) deadline: Option<Instant>,
    pub(super) stopping: CancellationToken,
}

/// What a stream has sent, and what it sends with.
struct Sending {
    source: Source,
    method: &'static Method,
    selection: Option<Selection>,
    is_event_stream: bool,
    /// Digests of what was last said of each object (API-P31).
    said: std::collections::HashMap<smol_str::SmolStr, u64>,
    ending: Ending,
}

pub(super) fn stream_response(
    method: &'static Method,
    asked: Asked,
    selection: Option<Selection>,
    source: Source,
    (ending, held): (Ending, Held),
) -> Response<Body> {
    let is_event_stream = asked.is_event_stream;
    let said = std::collections::HashMap::new();
    let state = Sending { source, method, selection, is_event_stream, said, ending };
    let frames = futures::stream::unfold(Some(state), |state| async move {
        let mut sending = state?;
        let (text, is_last) = sending.next().await?;
        let frame = Frame::data(Bytes::from(text));
        Some((Ok(frame), (!is_last).then_some(sending)))
    });
    let mut response = Response::new(held.body(frames.boxed(), true));
    stream_headers(response.headers_mut(), is_event_stream);
    response
}

impl Sending {
    /// The text of the next message or a sign of life, and whether it is the last one.
    async fn next(&mut self) -> Option<(String, bool)> {
        loop {
            let next = grpc::next(&mut self.source.stream, self.source.deadline, &self.source.stopping);
            let item = if self.is_event_stream {
                match tokio::time::timeout(KEEP_ALIVE, next).await {
                    Ok(item) => item,
                    Err(_elapsed) => return Some((":\n".to_owned(), false)),
                }
            } else {
                next.await
            };
            let Some(item) = item else {
                self.ending.with(Code::Ok);
                return None;
            };
            match item.and_then(|message| self.text(&message)) {
                Ok(Some(text)) => {
                    self.ending.sent();
                    return Some((text, false));
                }
                Ok(None) => {}
                Err(status) => {
                    self.ending.with(status.code);
                    return Some((chunk(&error_chunk(&status), self.is_event_stream), true));
                }
            }
        }
    }

    /// A message as text; `None` when it says of its object what was said before.
    fn text(&mut self, message: &Message) -> Result<Option<String>, Status> {
        let pieces = message.write(self.method, Form::Json)?;
        let mut value = json!({"result": parsed(&pieces)?});
        if let Some(selection) = &self.selection {
            selection.apply(&mut value);
        }
        let text = chunk(&value, self.is_event_stream);
        if let Some(object) = message.object() {
            let digest = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
            if self.said.insert(object.clone(), digest) == Some(digest) {
                return Ok(None);
            }
        }
        Ok(Some(text))
    }
}
