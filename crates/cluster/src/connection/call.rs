//! One request and its whole answer, or the start of a streamed answer.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, WARNING};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::Instant;

use super::{Connection, StreamSlot};
use crate::error::{ApiError, Refusal};
use crate::observer::Telling;

/// Bytes of one answer that is read as a whole.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Letters of a server's own message that are repeated.
const MESSAGE_LETTERS_MAX: usize = 16 << 10;
/// Attempts at a request the server asks to repeat (F10).
const ATTEMPTS_MAX: u32 = 4;
/// The longest time the server can make us wait before the next attempt.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);
/// The wait when the server names none.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);
/// Time between two looks at a kind whose objects the server is loading. It asks for a second, which a start would wait
/// for several times, one kind after another.
pub(crate) const INITIALIZING_WAIT: Duration = Duration::from_millis(100);
/// Looks until it is treated as any server that asks to wait.
pub(crate) const INITIALIZING_LOOKS: u32 = 50;

/// A request as data.
pub(crate) struct Call {
    pub(crate) what: &'static str,
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) body: Option<(Bytes, &'static str)>,
    pub(crate) accept: &'static str,
    pub(crate) timeout: Duration,
}

/// A successful answer.
pub(crate) struct Answer {
    pub(crate) bytes: Bytes,
    pub(crate) warnings: Vec<String>,
}

impl Call {
    pub(crate) fn get(what: &'static str, target: impl Into<String>, timeout: Duration) -> Self {
        Self {
            what,
            method: Method::GET,
            target: target.into(),
            body: None,
            accept: "application/json",
            timeout,
        }
    }

    pub(crate) fn with_body(mut self, method: Method, body: impl Into<Bytes>, kind: &'static str) -> Self {
        self.method = method;
        self.body = Some((body.into(), kind));
        self
    }

    /// The request; `patience` is what the server is told to take at most (REP-108).
    fn request(
        &self,
        impersonation: Option<&HeaderMap>,
        patience: Option<Duration>,
    ) -> Result<Request<Body>, ApiError> {
        let told = patience.map(|patience| {
            let mark = if self.target.contains('?') { '&' } else { '?' };
            format!("{}{mark}timeout={}ms", self.target, patience.as_millis().max(1))
        });
        let target = told.as_ref().unwrap_or(&self.target);
        let mut builder =
            Request::builder().method(self.method.clone()).uri(target).header(ACCEPT, self.accept);
        if let Some((_, kind)) = &self.body {
            builder = builder.header(CONTENT_TYPE, *kind);
        }
        if let (Some(impersonation), Some(headers)) = (impersonation, builder.headers_mut()) {
            headers.extend(impersonation.clone());
        }
        let body = self.body.as_ref().map_or_else(Body::empty, |(bytes, _)| Body::from(bytes.clone()));
        builder.body(body).map_err(|error| ApiError::Malformed { what: self.what, reason: error.to_string() })
    }
}

impl Connection {
    /// Makes a request and reads the whole answer. Repeats it when the server asks for that (F10). Ends early when
    /// the server answers nothing at all (CTL-141).
    pub(crate) async fn call(&self, call: &Call) -> Result<Answer, ApiError> {
        let (mut attempt, mut looks) = (1, 0);
        loop {
            self.turn(call).await;
            // Boxed: every caller's future would hold it several times over.
            let limit = self.patience().map_or(call.timeout, |patience| patience.min(call.timeout));
            let once = Box::pin(async {
                let answer = tokio::time::timeout(limit, self.attempt(call)).await;
                answer.map_err(|_elapsed| ApiError::Timeout { what: call.what, after: limit })?
            });
            let result = match self.fence() {
                Some(fence) if call.method != Method::GET => fence.guard(self.guarded(once)).await,
                _ => self.guarded(once).await,
            };
            if result.as_ref().is_err_and(ApiError::is_initializing) && looks < INITIALIZING_LOOKS {
                looks += 1;
                tokio::time::sleep(INITIALIZING_WAIT).await;
                continue;
            }
            let Err(ApiError::Refused(refusal)) = &result else { return result };
            // 429 says that nothing was done; 503 says so only to reads.
            let repeat = refusal.code == 429 || (refusal.code == 503 && call.method == Method::GET);
            if !repeat || attempt == ATTEMPTS_MAX {
                return result;
            }
            let wait = refusal.retry_after.unwrap_or(RETRY_AFTER_DEFAULT).min(RETRY_AFTER_MAX);
            for observer in self.observers.each() {
                observer.repeated(self.host(), call.method.as_str(), refusal.code);
            }
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }

    /// Waits until the server may be asked; the time does not count as one that it takes to answer.
    async fn turn(&self, call: &Call) {
        let Some(pace) = &self.pace else { return };
        let asked = Instant::now();
        pace.turn().await;
        for observer in self.observers.each() {
            observer.paced(self.host(), call.method.as_str(), asked.elapsed());
        }
    }

    /// Makes a request once.
    pub(super) async fn attempt(&self, call: &Call) -> Result<Answer, ApiError> {
        let request = call.request(self.impersonation(), self.patience())?;
        let mut telling = Telling::begin(self, call);
        let response = send(self.call_client(), request).await?;
        let (parts, body) = response.into_parts();
        telling.code = Some(parts.status.as_u16());
        let bytes = read_all(body, ANSWER_BYTES_MAX).await?;
        telling.received = Some(bytes.len());
        if !parts.status.is_success() {
            return Err(refusal(parts.status, &parts.headers, &bytes));
        }
        Ok(Answer { bytes, warnings: warnings(&parts.headers) })
    }

    /// Starts a streamed answer; the timeout covers the time to its head only.
    pub(crate) async fn open_stream(&self, slot: &StreamSlot, call: &Call) -> Result<Body, ApiError> {
        self.turn(call).await;
        let start = async {
            let request = call.request(self.impersonation(), None)?;
            let mut telling = Telling::begin(self, call);
            let response = send(&slot.client, request).await?;
            telling.code = Some(response.status().as_u16());
            if response.status().is_success() {
                return Ok(response.into_body());
            }
            let (parts, body) = response.into_parts();
            let bytes = read_all(body, ANSWER_BYTES_MAX).await?;
            Err(refusal(parts.status, &parts.headers, &bytes))
        };
        let head = Box::pin(async {
            let head = tokio::time::timeout(call.timeout, start).await;
            head.map_err(|_elapsed| ApiError::Timeout { what: call.what, after: call.timeout })?
        });
        self.guarded(head).await
    }
}

async fn send(client: &kube::Client, request: Request<Body>) -> Result<Response<Body>, ApiError> {
    client.send(request).await.map_err(|error| ApiError::unreachable(&error))
}

async fn read_all(mut body: Body, bytes_max: usize) -> Result<Bytes, ApiError> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ApiError::unreachable(&error))?;
        if let Ok(data) = frame.into_data() {
            if all.len() + data.len() > bytes_max {
                return Err(ApiError::TooLarge { bytes_max });
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(all.freeze())
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusBody {
    kind: String,
    api_version: String,
    status: String,
    code: u16,
    reason: String,
    message: String,
    details: StatusDetails,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusDetails {
    retry_after_seconds: u64,
}

/// A failure as the server tells it. Only a `Status` of Kubernetes is repeated: whoever names an address does not get to
/// read what another server answers there (SEC-38).
fn refusal(status: StatusCode, headers: &HeaderMap, bytes: &[u8]) -> ApiError {
    let body: StatusBody = serde_json::from_slice(bytes).unwrap_or_default();
    // What the time limit of an API server answers has no kind.
    let is_bare = body.kind.is_empty() && body.status == "Failure" && body.code == status.as_u16();
    let is_status = body.kind == "Status" && body.api_version == "v1" || is_bare && !body.reason.is_empty();
    let body = if is_status { body } else { StatusBody::default() };
    let header_wait = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let seconds =
        header_wait.or((body.details.retry_after_seconds > 0).then_some(body.details.retry_after_seconds));
    let message = match body.message.char_indices().nth(MESSAGE_LETTERS_MAX) {
        _ if body.message.is_empty() && is_status => format!("the server answered {status}"),
        _ if body.message.is_empty() => {
            format!("the server answered {status}, with something that is no Status of Kubernetes")
        }
        Some((end, _)) => format!("{}…", body.message.get(..end).unwrap_or_default()),
        None => body.message,
    };
    let code = if body.code == 0 { status.as_u16() } else { body.code };
    ApiError::Refused(Box::new(Refusal {
        code,
        reason: body.reason,
        message,
        retry_after: seconds.map(Duration::from_secs),
    }))
}

/// Reads a `Status` object that arrived inside a stream.
pub(crate) fn status_error(bytes: &[u8]) -> ApiError {
    let code = serde_json::from_slice::<StatusBody>(bytes).map_or(500, |body| body.code);
    refusal(StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &HeaderMap::new(), bytes)
}

/// Texts of the `Warning` headers, which look like `299 - "text"`.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let mut texts = Vec::new();
    for value in headers.get_all(WARNING) {
        let Ok(value) = value.to_str() else { continue };
        let Some((_, rest)) = value.split_once('"') else { continue };
        let text = rest.rsplit_once('"').map_or(rest, |(text, _)| text);
        texts.push(text.replace("\\\"", "\""));
    }
    texts
}

/// Escapes a text for a path segment or a query value.
pub(crate) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eng_180_a_refusal_keeps_code_reason_and_message() {
        let body =
            br#"{"kind":"Status","apiVersion":"v1","code":404,"reason":"NotFound","message":"configmaps \"a\" not found"}"#;
        let error = refusal(StatusCode::NOT_FOUND, &HeaderMap::new(), body);
        assert!(error.is_not_found());
        assert_eq!(error.reason(), "NotFound");
        assert_eq!(error.to_string(), "configmaps \"a\" not found");
    }

    #[test]
    fn sec_38_a_refusal_without_status_repeats_no_body() {
        let text = "the server answered 502 Bad Gateway, with something that is no Status of Kubernetes";
        for body in [
            "upstream died\n",
            "",
            r#"{"kind":"Other","apiVersion":"v1","code":404,"reason":"NotFound","message":"upstream died"}"#,
            r#"{"message":"upstream died"}"#,
            r#"{"kind":"Status","message":"upstream died"}"#,
        ] {
            let error = refusal(StatusCode::BAD_GATEWAY, &HeaderMap::new(), body.as_bytes());
            assert_eq!((error.code(), error.reason(), error.to_string().as_str()), (502, "", text), "{body}");
        }
        let long = serde_json::json!({"kind": "Status", "apiVersion": "v1", "message": "ä".repeat(20_000)});
        let error = refusal(StatusCode::BAD_GATEWAY, &HeaderMap::new(), long.to_string().as_bytes());
        assert_eq!(error.to_string().chars().count(), MESSAGE_LETTERS_MAX + 1);
    }

    #[test]
    fn f10_the_wait_is_read_from_header_or_body() {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, http::HeaderValue::from_static("7"));
        let ApiError::Refused(refusal_) = refusal(StatusCode::TOO_MANY_REQUESTS, &headers, b"") else {
            panic!()
        };
        assert_eq!(refusal_.retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn warnings_lose_code_and_quotes() {
        let mut headers = HeaderMap::new();
        headers.append(WARNING, http::HeaderValue::from_static("299 - \"field \\\"a\\\" is unknown\""));
        assert_eq!(warnings(&headers), ["field \"a\" is unknown"]);
    }

    #[test]
    fn names_are_escaped_in_paths() {
        assert_eq!(encode("system:a/b c"), "system%3Aa%2Fb%20c");
    }
}
