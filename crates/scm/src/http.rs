//! Questions to a server: one origin, one login, answers with a bound.
//!
//! Redirects are followed on the same host only, so that credentials never reach another one. Whatever is not a whole
//! answer is an error; 404 is an answer, since callers know what it means.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use jiff::Timestamp;
use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, Method, Response, StatusCode, Url};
use serde_json::Value;
use tiphys_api::secret::Secret;
use tiphys_go::json::decode_kubernetes_within;
use tiphys_go::memory::Memory;

use crate::ScmError;
use crate::item::Item;
use crate::observe::{Asked, Observed};
use crate::paging::{Page, Paging};
use crate::refusal::{is_throttled, refusal};

/// Redirects that are followed.
const REDIRECTS_MAX: usize = 5;
/// What the program calls itself.
const AGENT: &str = "tiphys";

/// What questions may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time for one request with its answer.
    pub request: Duration,
    /// Time for all questions of a generator.
    pub total: Duration,
    /// Bytes of one answer.
    pub answer_bytes: usize,
    /// Bytes that the values of one answer take in memory.
    pub answer_memory: usize,
    /// Pages of one list.
    pub pages: usize,
    /// Repositories, branches, labels or pull requests of one list, and of all branches together.
    pub items: usize,
    /// Requests of one generator.
    pub requests: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request: Duration::from_secs(30),
            total: Duration::from_mins(10),
            answer_bytes: 16 << 20,
            answer_memory: 128 << 20,
            pages: 1_000,
            items: 50_000,
            requests: 100_000,
        }
    }
}

/// How we log in at a server.
#[derive(Clone, Debug)]
pub(crate) enum Login {
    Nobody,
    Basic {
        username: String,
        password: Secret<String>,
    },
    /// The value of `Authorization` behind this word.
    Token {
        scheme: &'static str,
        token: Secret<String>,
    },
    /// The value of a header of the provider's own.
    Header {
        name: &'static str,
        token: Secret<String>,
    },
}

/// A question.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// What is asked for, for errors.
    pub(crate) doing: &'static str,
    /// The path without the names in it, for metrics.
    pub(crate) endpoint: &'static str,
    pub(crate) headers: Vec<(&'static str, Secret<String>)>,
    pub(crate) body: String,
    /// A refusal with status 400 says why, which the caller wants to know.
    pub(crate) tells_why: bool,
    /// Whether more than the head of the answer is wanted.
    pub(crate) reads_body: bool,
}

impl Ask {
    pub(crate) fn get(url: Url, doing: &'static str, endpoint: &'static str) -> Self {
        Self {
            method: Method::GET,
            url,
            doing,
            endpoint,
            headers: Vec::new(),
            body: String::new(),
            tells_why: false,
            reads_body: true,
        }
    }
}

/// An answer of the 200s, or one that says that there is no such thing.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) is_found: bool,
    pub(crate) headers: HeaderMap,
    /// Null where there is no body, and where nothing was found.
    pub(crate) body: Value,
    /// Where nothing was found: what the body says about it, as far as it is JSON.
    pub(crate) why: Value,
}

/// A server, and who we are to it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) client: Client,
    pub(crate) base: Url,
    pub(crate) login: Login,
    /// Headers of every question.
    pub(crate) headers: &'static [(&'static str, &'static str)],
    pub(crate) limits: Limits,
    pub(crate) observed: Option<Observed>,
    /// Questions of the generator so far.
    pub(crate) requests: Arc<Mutex<usize>>,
}

impl Site {
    /// The host, as errors name it.
    pub(crate) fn host(&self) -> String {
        host(&self.base)
    }

    /// An address below the base. Each segment is one name, whatever it holds.
    pub(crate) fn url(&self, segments: &[&str], query: &[(&str, &str)]) -> Result<Url, ScmError> {
        let mut url = self.base.clone();
        if let Some(segment) = segments.iter().find(|segment| matches!(**segment, "" | "." | "..")) {
            return Err(ScmError::Block(format!("{segment:?} is no name at {}", self.host())));
        }
        let not_a_base = |()| ScmError::Block(format!("{} is no address of an API", self.host()));
        url.path_segments_mut().map_err(not_a_base)?.pop_if_empty().extend(segments);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    /// Asks for JSON.
    pub(crate) async fn get(
        &self,
        url: Url,
        doing: &'static str,
        endpoint: &'static str,
    ) -> Result<Answer, ScmError> {
        self.ask(Ask::get(url, doing, endpoint)).await
    }

    /// All items of a list, page by page; nothing when the first page is not there.
    pub(crate) async fn list<T>(
        &self,
        first: Url,
        (doing, endpoint): (&'static str, &'static str),
        paging: Paging,
        read: impl Fn(&Value) -> Result<Vec<T>, String>,
    ) -> Result<Option<Vec<T>>, ScmError> {
        let mut items = Vec::new();
        let mut url = first;
        for page in 0..self.limits.pages {
            let answer = self.get(url.clone(), doing, endpoint).await?;
            if !answer.is_found {
                // A page that vanished is no end of the list.
                return if page == 0 { Ok(None) } else { Err(self.not_found(doing)) };
            }
            let found = read(&answer.body).map_err(|problem| self.unreadable(doing, problem))?;
            let here = found.len();
            items.extend(found);
            if items.len() > self.limits.items {
                return Err(self.too_many(doing, self.limits.items, "items"));
            }
            let seen =
                Page { url: &url, headers: &answer.headers, body: &answer.body, here, so_far: items.len() };
            match paging.following(&seen).map_err(|problem| self.unreadable(doing, problem))? {
                None => return Ok(Some(items)),
                Some(next) => url = next,
            }
        }
        Err(self.too_many(doing, self.limits.pages, "pages"))
    }

    /// All items of a list that has to be there.
    pub(crate) async fn all<T>(
        &self,
        first: Url,
        about: (&'static str, &'static str),
        paging: Paging,
        read: impl Fn(&Value) -> Result<Vec<T>, String>,
    ) -> Result<Vec<T>, ScmError> {
        self.list(first, about, paging, read).await?.ok_or_else(|| self.not_found(about.0))
    }

    /// The one item that an answer is.
    pub(crate) fn one<T>(
        &self,
        answer: &Answer,
        (name, doing): (&'static str, &'static str),
        read: impl FnOnce(Item<'_>) -> Result<T, String>,
    ) -> Result<Vec<T>, ScmError> {
        let read = read(Item::of(name, &answer.body)).map_err(|problem| self.unreadable(doing, problem))?;
        Ok(vec![read])
    }

    /// Whether something is there, without its content; for servers that are documented to answer HEAD.
    pub(crate) async fn has(
        &self,
        url: Url,
        doing: &'static str,
        endpoint: &'static str,
    ) -> Result<bool, ScmError> {
        let ask = Ask { method: Method::HEAD, ..Ask::get(url.clone(), doing, endpoint) };
        match self.ask(ask).await {
            // Not every proxy before such a server lets it through.
            Err(ScmError::Status { status: 405 | 501, .. }) => self.gets(url, doing, endpoint).await,
            answer => Ok(answer?.is_found),
        }
    }

    /// The same for servers that answer GET alone: what they send after the head is not read.
    pub(crate) async fn gets(
        &self,
        url: Url,
        doing: &'static str,
        endpoint: &'static str,
    ) -> Result<bool, ScmError> {
        let ask = Ask { reads_body: false, ..Ask::get(url, doing, endpoint) };
        Ok(self.ask(ask).await?.is_found)
    }

    pub(crate) fn not_found(&self, doing: &'static str) -> ScmError {
        ScmError::NotFound { host: self.host(), doing }
    }

    pub(crate) fn unreadable(&self, doing: &'static str, problem: impl Into<String>) -> ScmError {
        ScmError::Answer { host: self.host(), doing, problem: problem.into() }
    }

    pub(crate) fn too_many(&self, doing: &'static str, limit: usize, what: &'static str) -> ScmError {
        ScmError::TooMany { host: self.host(), doing, limit, what }
    }

    /// Asks; what is neither in the 200s nor 404 is an error.
    pub(crate) async fn ask(&self, ask: Ask) -> Result<Answer, ScmError> {
        {
            let mut requests = self.requests.lock();
            *requests += 1;
            if *requests > self.limits.requests {
                return Err(self.too_many(ask.doing, self.limits.requests, "things to be asked"));
            }
        }
        let doing = ask.doing;
        let began = tokio::time::Instant::now();
        let told = Mutex::new(None);
        let answered = tokio::time::timeout(self.limits.request, self.answered(&ask, &told)).await;
        let answer = answered.unwrap_or_else(|_elapsed| Err(ScmError::Timeout { host: self.host(), doing }));
        if let Some(observed) = &self.observed {
            let told: Option<(u16, HeaderMap)> = told.into_inner();
            observed.tell(&Asked {
                method: ask.method.as_str(),
                endpoint: ask.endpoint,
                status: told.as_ref().map(|(status, _)| *status),
                duration: began.elapsed(),
                headers: told.as_ref().map(|(_, headers)| headers),
                now: Timestamp::now(),
            });
        }
        answer
    }

    /// The answer; `told` is its head, which is known before the rest is, and also of refusals.
    async fn answered(&self, ask: &Ask, told: &Mutex<Option<(u16, HeaderMap)>>) -> Result<Answer, ScmError> {
        let response = self.send(ask).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        *told.lock() = Some((status.as_u16(), headers.clone()));
        // A part of an answer is none.
        if status.is_success() && status != StatusCode::PARTIAL_CONTENT {
            let has_body = ask.reads_body && ask.method != Method::HEAD && status != StatusCode::NO_CONTENT;
            let body = if has_body { self.body(ask, response).await? } else { Value::Null };
            return Ok(Answer { is_found: true, headers, body, why: Value::Null });
        }
        let may_be_absence =
            status == StatusCode::NOT_FOUND || ask.tells_why && status == StatusCode::BAD_REQUEST;
        // Why something is not there is worth a look, but no error of its own.
        let why =
            if may_be_absence { self.body(ask, response).await.unwrap_or_default() } else { Value::Null };
        if may_be_absence && !is_throttled(&why) {
            return Ok(Answer { is_found: false, headers, body: Value::Null, why });
        }
        Err(refusal(status.as_u16(), &headers, &why, &self.host(), ask.doing, Timestamp::now()))
    }

    /// The body as JSON, whose whole numbers stay whole.
    async fn body(&self, ask: &Ask, mut response: Response) -> Result<Value, ScmError> {
        let too_large = || self.too_many(ask.doing, self.limits.answer_bytes, "bytes");
        let limit = self.limits.answer_bytes;
        if response.content_length().is_some_and(|length| length > u64::try_from(limit).unwrap_or(u64::MAX)) {
            return Err(too_large());
        }
        let mut body = BytesMut::new();
        let broken = |_error| self.unreadable(ask.doing, "it breaks off");
        while let Some(chunk) = response.chunk().await.map_err(broken)? {
            if body.len() + chunk.len() > limit {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        let mut memory = Memory::new(self.limits.answer_memory);
        // What the text says may be a secret; where it is wrong is not.
        decode_kubernetes_within(&body, &mut memory)
            .map_err(|_error| self.unreadable(ask.doing, "it is no JSON"))
    }

    /// Sends, and follows redirects on the same host.
    async fn send(&self, ask: &Ask) -> Result<Response, ScmError> {
        let mut url = ask.url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let mut request = self.client.request(ask.method.clone(), url.clone()).headers(self.heads(ask)?);
            if !ask.body.is_empty() {
                request = request.body(ask.body.clone());
            }
            let failed = |error: reqwest::Error| {
                let host = self.host();
                if error.is_timeout() {
                    ScmError::Timeout { host, doing: ask.doing }
                } else {
                    ScmError::Unreachable { host, doing: ask.doing }
                }
            };
            let response = request.send().await.map_err(failed)?;
            if !response.status().is_redirection() || !is_repeatable(&ask.method) {
                return Ok(response);
            }
            let target = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let target = target.and_then(|to| url.join(to).ok());
            let target = target.ok_or_else(|| self.unreadable(ask.doing, "it redirects to nowhere"))?;
            if !is_same_place(&url, &target) {
                return Err(ScmError::Redirected { host: self.host(), doing: ask.doing, to: host(&target) });
            }
            url = target;
        }
        Err(self.unreadable(ask.doing, "it redirects too often"))
    }

    fn heads(&self, ask: &Ask) -> Result<HeaderMap, ScmError> {
        let mut headers = HeaderMap::new();
        let given = self.headers.iter().map(|(name, value)| (*name, Secret::from(*value)));
        let own = ask.headers.iter().cloned();
        let login = match &self.login {
            Login::Nobody => None,
            Login::Basic { username, password } => Some(("authorization", basic(username, password))),
            Login::Token { scheme, token } => {
                Some(("authorization", Secret::from(format!("{scheme} {}", token.expose()))))
            }
            Login::Header { name, token } => Some((*name, token.clone())),
        };
        headers.insert("user-agent", HeaderValue::from_static(AGENT));
        headers.insert("accept", HeaderValue::from_static("application/json"));
        for (name, value) in given.chain(own).chain(login) {
            let wrong = || ScmError::Credentials(format!("the credentials fit no header of HTTP ({name})"));
            let mut value = HeaderValue::from_str(value.expose()).map_err(|_error| wrong())?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }
}

fn basic(username: &str, password: &Secret<String>) -> Secret<String> {
    use base64::Engine as _;
    let both = Secret::from(format!("{username}:{}", password.expose()));
    Secret::from(format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(both.expose())))
}

fn is_repeatable(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// Whether credentials for one address may be shown at another: the same host and port, not with less protection; or
/// the usual ports of HTTP and then HTTPS.
fn is_same_place(from: &Url, to: &Url) -> bool {
    let is_upgrade = from.scheme() == "http" && to.scheme() == "https";
    let same_port = from.port_or_known_default() == to.port_or_known_default();
    let usual_ports = from.port().is_none() && to.port().is_none();
    from.host_str() == to.host_str()
        && (from.scheme() == to.scheme() && same_port || is_upgrade && (usual_ports || same_port))
}

/// Host and port of an address.
fn host(url: &Url) -> String {
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_owned(),
        (None, _) => "a server without a name".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aset_59_credentials_stay_where_they_belong() {
        let same = |from: &str, to: &str| is_same_place(&from.parse().unwrap(), &to.parse().unwrap());
        assert!(same("https://a/x", "https://a/y"));
        assert!(same("https://a/x", "https://a:443/y"));
        assert!(same("http://a/x", "https://a/y"));
        assert!(!same("https://a/x", "http://a/y"));
        assert!(!same("https://a/x", "https://b/y"));
        assert!(!same("https://a/x", "https://a:444/y"));
        assert!(!same("http://a:8080/x", "https://a/y"));
        assert!(!same("https://a/x", "https://a.evil/y"));
    }
}
