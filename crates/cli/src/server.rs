//! Requests to an API server (CLI-120..124): its REST API, which says the same as its gRPC.
//!
//! [`Api`] asks and waits for the answer, [`Events`] reads a stream. Refusals keep the server's code (CLI-9).

mod access;
mod events;
mod web;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Method, StatusCode, Url};
use serde_json::Value;
use tiphys_api::secret::Secret;

use crate::failure::Failure;

pub(crate) use access::{Access, Trouble, trouble};
pub(crate) use events::Events;

/// Time until a server has to accept a connection (CLI-124).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for an answer; a comparison that is asked for may take a while.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);
/// Attempts at a question that changes nothing, a second after another (CLI-121).
const ATTEMPTS: u32 = 3;
pub(crate) const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// A server, and who asks it.
pub(crate) struct Api {
    client: reqwest::Client,
    base: Url,
    address: String,
    token: Secret<String>,
    headers: Vec<(String, Secret<String>)>,
    /// How often a question that changes nothing is asked.
    attempts: u32,
    /// Bytes of one answer (CLI-106).
    answer_bytes_max: usize,
    /// What the server said besides its answers.
    warnings: Mutex<Vec<String>>,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a Method,
    /// Segments of the path; each is escaped by itself.
    pub(crate) path: &'a [&'a str],
    /// Pairs of the query; those without a value are left out.
    pub(crate) query: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a Value>,
}

/// What a request carries.
#[derive(Clone, Copy)]
enum Body<'a> {
    Message(Option<&'a Value>),
    Messages(&'a [Value]),
}

impl Body<'_> {
    /// As it is sent: messages stand on lines of their own.
    fn bytes(self) -> Result<Option<Vec<u8>>, Failure> {
        let messages = match self {
            Body::Message(None) => return Ok(None),
            Body::Message(Some(message)) => std::slice::from_ref(message),
            Body::Messages(messages) => messages,
        };
        let mut bytes = Vec::new();
        for message in messages {
            if !bytes.is_empty() {
                bytes.push(b'\n');
            }
            serde_json::to_writer(&mut bytes, message)
                .map_err(|error| Failure::generic(error.to_string()))?;
        }
        Ok(Some(bytes))
    }
}

impl Api {
    /// A way to a server; nothing is asked yet.
    pub(crate) fn new(access: &Access) -> Result<Self, Failure> {
        let client = access.client(CONNECT_TIMEOUT)?;
        Ok(Self {
            client,
            base: access.url()?,
            address: access.address(),
            token: access.token.clone(),
            headers: access.headers()?,
            attempts: ATTEMPTS.max(access.retries.saturating_add(1)),
            answer_bytes_max: access.answer_bytes_max,
            warnings: Mutex::default(),
        })
    }

    /// How often a question that changes nothing is asked.
    #[cfg(test)]
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// What the server wanted to be said since somebody asked last (CLI-11).
    pub(crate) fn warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The server's address for people: `https://host`, without the port that it has by itself.
    pub(crate) fn shown_address(&self) -> String {
        let host = self.address.strip_suffix(":443").unwrap_or(&self.address);
        format!("{}://{host}", self.base.scheme())
    }

    /// Has a token revoked, as a browser does by its cookie (CLI-210).
    pub(crate) async fn log_out(&self, token: &Secret<String>) -> Result<(), Failure> {
        let url = self.base.join("auth/logout").map_err(|error| Failure::generic(error.to_string()))?;
        let cookie = format!("argocd.token={}", token.expose());
        let request = self.client.post(url).timeout(CONNECT_TIMEOUT).header("cookie", cookie);
        let answer = request.send().await.map_err(|error| self.unreached(error))?;
        let status = answer.status();
        if status.is_success() || status.is_redirection() {
            return Ok(());
        }
        Err(Failure::generic(format!("POST /auth/logout: {status}")))
    }

    /// Reads.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Value, Failure> {
        self.ask(&Ask { method: &Method::GET, path, query, body: None }).await
    }

    /// Asks something below `/api/v1`.
    pub(crate) async fn call(
        &self,
        method: Method,
        more: &[&str],
        (query, body): (&[(&str, &str)], Option<&Value>),
    ) -> Result<Value, Failure> {
        let path: Vec<&str> = ["api", "v1"].iter().chain(more).copied().collect();
        self.ask(&Ask { method: &method, path: &path, query, body }).await
    }

    /// Asks, and reads the answer. What changes nothing is asked again when the server is not there.
    pub(crate) async fn ask(&self, ask: &Ask<'_>) -> Result<Value, Failure> {
        let mut attempt = 1;
        loop {
            let answer = self.once(ask).await;
            let may_repeat = *ask.method == Method::GET && attempt < self.attempts;
            match answer {
                Err(failure) if may_repeat && is_passing(&failure) => attempt += 1,
                answer => return answer,
            }
            tokio::time::sleep(BETWEEN_ATTEMPTS).await;
        }
    }

    /// Sends a stream of messages, and reads the one answer.
    pub(crate) async fn send_all(&self, path: &[&str], messages: &[Value]) -> Result<Value, Failure> {
        let ask = Ask { method: &Method::POST, path, query: &[], body: None };
        let answer = self.send_body(&ask, Body::Messages(messages), Some(ANSWER_TIMEOUT)).await?;
        self.answer(answer).await
    }

    async fn once(&self, ask: &Ask<'_>) -> Result<Value, Failure> {
        let answer = self.send(ask, Some(ANSWER_TIMEOUT)).await?;
        self.answer(answer).await
    }

    async fn answer(&self, answer: reqwest::Response) -> Result<Value, Failure> {
        let said = answer.headers().get_all("warning").iter().filter_map(|value| value.to_str().ok());
        let said: Vec<String> = said.filter_map(warning).collect();
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(said);
        let bytes = self.read(answer).await?;
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&bytes).map_err(|_invalid| {
            Failure::status("Internal", format!("{} did not answer with JSON", self.address))
        })
    }

    /// A request by who asks.
    fn request(&self, method: Method, url: Url) -> reqwest::RequestBuilder {
        let mut request = self.client.request(method, url);
        if !self.token.is_empty() {
            request = request.bearer_auth(self.token.expose());
        }
        for (name, value) in &self.headers {
            request = request.header(name, value.expose());
        }
        request
    }

    /// Sends a request and waits for the answer to begin; a refusal is read whole.
    async fn send(&self, ask: &Ask<'_>, timeout: Option<Duration>) -> Result<reqwest::Response, Failure> {
        self.send_body(ask, Body::Message(ask.body), timeout).await
    }

    async fn send_body(
        &self,
        ask: &Ask<'_>,
        body: Body<'_>,
        timeout: Option<Duration>,
    ) -> Result<reqwest::Response, Failure> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => drop(segments.pop_if_empty().extend(ask.path)),
            Err(()) => return Err(Failure::fatal(format!("{} is no address of a server", self.address))),
        }
        // Servers read a `+` in the URL of a repository or a cluster as a blank (API-P23).
        let escaped = url.path().replace('+', "%2B");
        url.set_path(&escaped);
        let given: Vec<_> = ask.query.iter().filter(|(_, value)| !value.is_empty()).collect();
        if !given.is_empty() {
            url.query_pairs_mut().extend_pairs(given.into_iter().map(|(name, value)| (name, value)));
        }
        let mut request = self.request(ask.method.clone(), url);
        if let Some(timeout) = timeout {
            request = request.timeout(timeout);
        }
        if *ask.method != Method::GET {
            // What a form of another site cannot send (API-18).
            request = request.header("content-type", "application/json");
        }
        if let Some(bytes) = body.bytes()? {
            request = request.body(bytes);
        }
        let answer = request.send().await.map_err(|error| self.unreached(error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let bytes = self.read(answer).await?;
        Err(refusal(status, &bytes, ask))
    }

    async fn read(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| self.unreached(error))? {
            if bytes.len().saturating_add(chunk.len()) > self.answer_bytes_max {
                let text = format!("the answer has more than {} bytes", self.answer_bytes_max);
                return Err(Failure::status("ResourceExhausted", text));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// A server that does not answer (CLI-124).
    fn unreached(&self, error: reqwest::Error) -> Failure {
        let is_timeout = error.is_timeout() && !error.is_connect();
        let cause = tiphys_cluster::error_chain(&error.without_url());
        if is_timeout {
            return Failure::status("DeadlineExceeded", format!("{} did not answer: {cause}", self.address));
        }
        let failure = Failure::fatal(format!("Failed to establish connection to {}: {cause}", self.address));
        match trouble(&cause) {
            Trouble::NoTls => failure.hint("the server speaks without TLS: add `--plaintext`"),
            Trouble::Certificate => failure
                .hint("name its roots with `--server-crt FILE`, or add `--insecure` to trust it unseen"),
            Trouble::Other if cause.contains("reset by peer") || cause.contains("EOF") => {
                failure.hint("if the server speaks without TLS, add `--plaintext`")
            }
            Trouble::Other => failure,
        }
    }
}

/// The text of a header that warns: a code, who says it, and the text in quotes.
fn warning(header: &str) -> Option<String> {
    let quoted = header.split_once('"')?.1.strip_suffix('"')?;
    let mut text = String::with_capacity(quoted.len());
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        text.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    Some(text)
}

/// Whether the same question may be answered a moment later.
fn is_passing(failure: &Failure) -> bool {
    ["Unavailable", "ResourceExhausted"]
        .iter()
        .any(|code| failure.message.starts_with(&format!("rpc error: code = {code} ")))
}

/// A refusal in the words of gRPC (CLI-9).
fn refusal(status: StatusCode, body: &[u8], ask: &Ask<'_>) -> Failure {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    // Streams have a form of their own for refusals (API-P28).
    let told = told.get("error").filter(|error| error.is_object()).unwrap_or(&told);
    let text = told.get("message").or_else(|| told.get("error")).and_then(Value::as_str);
    let code = ["grpc_code", "code"].iter().find_map(|name| told.get(name).and_then(Value::as_u64));
    let code = code.and_then(|code| usize::try_from(code).ok());
    if let (Some(code), Some(text)) = (code.and_then(|code| CODES.get(code)), text) {
        return of_code(code, text);
    }
    let Ask { method, path, .. } = ask;
    of_code(by_status(status), &format!("{method} /{}: {status}", path.join("/")))
}

fn of_code(code: &str, text: &str) -> Failure {
    let failure = Failure::status(code, text);
    match code {
        "Unauthenticated" => failure.hint("log in again: `relogin`, or `login SERVER`"),
        _ => failure,
    }
}

/// The codes of gRPC, by number.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// What somebody in front of the server means.
fn by_status(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "Internal",
        401 => "Unauthenticated",
        403 => "PermissionDenied",
        404 => "Unimplemented",
        429 | 502..=504 => "Unavailable",
        _ => "Unknown",
    }
}

/// Whether a server, or the way to it, was not there for a moment.
pub(crate) fn is_unavailable(failure: &Failure) -> bool {
    failure.message.starts_with("rpc error: code = Unavailable ")
}

/// Whether a refusal says that there is no such thing.
pub(crate) fn is_not_found(failure: &Failure) -> bool {
    failure.message.starts_with("rpc error: code = NotFound ")
}

/// Whether somebody else changed meanwhile what was to be changed.
pub(crate) fn is_aborted(failure: &Failure) -> bool {
    failure.message.starts_with("rpc error: code = Aborted ")
}

/// Whether a refusal is one of rights.
pub(crate) fn is_denied(failure: &Failure) -> bool {
    failure.message.starts_with("rpc error: code = PermissionDenied ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_9_refusals_keep_their_code() {
        let ask = Ask { method: &Method::GET, path: &["api", "v1", "applications"], query: &[], body: None };
        let told = |status: u16, body: &str| {
            refusal(StatusCode::from_u16(status).unwrap(), body.as_bytes(), &ask).message
        };
        assert_eq!(
            told(403, r#"{"error":"permission denied","code":7,"message":"permission denied"}"#),
            "rpc error: code = PermissionDenied desc = permission denied"
        );
        assert_eq!(
            told(502, "<html>"),
            "rpc error: code = Unavailable desc = GET /api/v1/applications: 502 Bad Gateway"
        );
        assert_eq!(
            told(403, r#"{"error":{"grpc_code":7,"http_code":403,"message":"permission denied"}}"#),
            "rpc error: code = PermissionDenied desc = permission denied"
        );
        assert_eq!(told(500, r#"{"code":99,"message":"x"}"#), told(500, ""));
        let messages = [Value::from(1), Value::from("a")];
        assert_eq!(Body::Messages(&messages).bytes().unwrap().unwrap(), b"1\n\"a\"");
        assert!(is_passing(&refusal(StatusCode::BAD_GATEWAY, b"", &ask)));
        assert!(is_not_found(&Failure::status("NotFound", "x")));
    }

    #[test]
    fn cli_11_a_server_warns_in_a_header() {
        assert_eq!(warning(r#"299 - "a \"b\" \\ c""#).unwrap(), r#"a "b" \ c"#);
        assert_eq!(warning("299 - text"), None);
    }
}
