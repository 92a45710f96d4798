//! One question to a server that is none of git's: those that give out tokens, and those that keep files of Git LFS.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue, USER_AGENT};
use hyper::{HeaderMap, Method, Request, Uri};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

use super::Http;
use super::direct::Roots;
use super::tls::Configurations;

/// Bytes of an answer.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// What a form says that it is.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// A question.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) url: String,
    pub(crate) headers: HeaderMap,
    /// Nothing, or a text of this type.
    pub(crate) body: String,
    pub(crate) content_type: &'static str,
    pub(crate) roots: Roots,
}

impl Ask {
    /// Asks for what a URL names.
    pub(crate) fn get(url: &str) -> Self {
        Self {
            method: Method::GET,
            url: url.to_owned(),
            headers: HeaderMap::new(),
            body: String::new(),
            content_type: FORM,
            roots: Roots::System,
        }
    }
}

/// Status and answer.
pub(crate) type Answer<T> = (u16, T);

impl Http {
    /// Status and answer, whose whole numbers stay whole.
    pub(crate) async fn json(&self, ask: Ask) -> Result<Answer<Value>, &'static str> {
        let (status, body) = self.send(ask, ANSWER_BYTES_MAX).await?;
        // What is said beside a refusal is for nobody.
        if !(200..300).contains(&status) {
            return Ok((status, Value::Null));
        }
        let value = tiphys_go::json::decode_kubernetes(&body).map_err(|_error| "its answer is no JSON")?;
        Ok((status, value))
    }

    /// Status and answer. Redirects are not followed; the connection ends with the answer. No text repeats anything that was
    /// sent or answered.
    pub(crate) async fn send(&self, ask: Ask, bytes_max: usize) -> Result<Answer<Bytes>, &'static str> {
        let uri: Uri = ask.url.parse().map_err(|_error| "its URL is not valid")?;
        let is_tls = uri.scheme_str() == Some("https");
        if !is_tls && uri.scheme_str() != Some("http") || uri.host().is_none() {
            return Err("its URL is not one of HTTP");
        }
        let settings = if is_tls { self.tls.of(&ask.roots).await } else { Configurations::none() };
        let settings = settings.map_err(|_error| "the trusted certificates cannot be read")?;
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(settings)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
        let has_body = !ask.body.is_empty();
        let mut request = Request::new(Full::new(Bytes::from(ask.body)));
        *request.method_mut() = ask.method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.extend(ask.headers);
        headers.insert(USER_AGENT, HeaderValue::from_static("tiphys"));
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
        if has_body {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(ask.content_type));
        }
        let unreachable = |_error| "it cannot be reached, or nobody vouches for its certificate";
        let answer = client.request(request).await.map_err(unreachable)?;
        let status = answer.status().as_u16();
        let body = Limited::new(answer.into_body(), bytes_max.max(ANSWER_BYTES_MAX)).collect().await;
        let body = body.map_err(|_error| "its answer breaks off, or is too long")?.to_bytes();
        Ok((status, body))
    }
}
