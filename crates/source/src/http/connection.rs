//! One question to one server: requests, credentials, and answers made of packets.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue, USER_AGENT,
    WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::direct::Direct;
use super::packet::{Packet, Packets};
use super::tls::Configurations;
use super::{HttpError, unexpected};

/// The service of git servers that clients read from.
pub(super) const SERVICE: &str = "git-upload-pack";
/// Servers tell git from browsers by this.
const AGENT: &str = "git/2 (tiphys)";

/// A connection for one question: kept between its requests, closed when dropped (RND-35).
pub(super) struct Connection<'a> {
    direct: &'a Direct,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
    is_asked: bool,
}

/// The answer to one request.
#[derive(Debug)]
pub(super) struct Body {
    incoming: Incoming,
    packets: Packets,
    bytes_left: usize,
    limit: usize,
}

impl<'a> Connection<'a> {
    /// `is_asked`: the server is known to ask for user name and password.
    pub(super) async fn new(
        direct: &'a Direct,
        tls: &Configurations,
        is_asked: bool,
    ) -> Result<Self, HttpError> {
        let is_tls = direct.url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
        let configuration = if is_tls { tls.of(&direct.roots).await? } else { Configurations::none()? };
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(configuration)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let client = Client::builder(TokioExecutor::new()).build(connector);
        let base = direct.url.strip_suffix('/').unwrap_or(&direct.url).to_owned();
        let is_asked = is_asked && direct.has_password;
        let header = if is_asked { &direct.asked } else { &direct.unasked };
        let authorization = header_value(header.expose())?;
        Ok(Self { direct, client, base, authorization, is_asked })
    }

    /// Whether the server asked for user name and password.
    pub(super) fn was_asked(&self) -> bool {
        self.is_asked
    }

    /// Asks what the server offers.
    pub(super) async fn get(&mut self, bytes_max: usize) -> Result<Body, HttpError> {
        let path = format!("/info/refs?service={SERVICE}");
        self.request(&Method::GET, &path, &Bytes::new(), bytes_max).await
    }

    /// Sends a command.
    pub(super) async fn post(&mut self, message: Vec<u8>, bytes_max: usize) -> Result<Body, HttpError> {
        self.request(&Method::POST, &format!("/{SERVICE}"), &message.into(), bytes_max).await
    }

    async fn request(
        &mut self,
        method: &Method,
        path: &str,
        message: &Bytes,
        limit: usize,
    ) -> Result<Body, HttpError> {
        let mut response = self.send(method, path, message).await?;
        if response.status() == StatusCode::UNAUTHORIZED && self.direct.has_password && !self.is_asked {
            if !offers_basic(response.headers()) {
                return Err(HttpError::Unusual("the server wants other credentials".to_owned()));
            }
            self.is_asked = true;
            self.authorization = header_value(self.direct.asked.expose())?;
            response = self.send(method, path, message).await?;
        }
        match response.status() {
            StatusCode::OK => {}
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                return Err(HttpError::Refused { status: status.as_u16(), was_asked: self.is_asked });
            }
            status => return Err(HttpError::Unusual(format!("the server answered with status {status}"))),
        }
        let kind = if method == Method::GET { "advertisement" } else { "result" };
        let expected = format!("application/x-{SERVICE}-{kind}");
        let is_expected =
            response.headers().get(CONTENT_TYPE).is_some_and(|found| found.as_bytes() == expected.as_bytes());
        if !is_expected || response.headers().contains_key(CONTENT_ENCODING) {
            return Err(unexpected("the headers"));
        }
        let incoming = response.into_body();
        Ok(Body { incoming, packets: Packets::default(), bytes_left: limit, limit })
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        message: &Bytes,
    ) -> Result<Response<Incoming>, HttpError> {
        let uri: Uri = format!("{}{path}", self.base)
            .parse()
            .map_err(|_error| HttpError::Unusual("the URL is not an ordinary one".to_owned()))?;
        let mut request = Request::new(Full::new(message.clone()));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert("git-protocol", HeaderValue::from_static("version=2"));
        if method == Method::GET {
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        } else {
            let kind = format!("application/x-{SERVICE}-request");
            headers.extend(header_value(&kind)?.map(|kind| (CONTENT_TYPE, kind)));
        }
        headers.extend(self.authorization.clone().map(|value| (AUTHORIZATION, value)));
        let failed = |_error| HttpError::Unusual("the server cannot be reached".to_owned());
        self.client.request(request).await.map_err(failed)
    }
}

impl Body {
    /// The next packet; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Packet>, HttpError> {
        loop {
            match self.packets.next() {
                Ok(Some(packet)) => return Ok(Some(packet)),
                Ok(None) => {}
                Err(error) => return Err(HttpError::Unusual(error.to_string())),
            }
            match self.incoming.frame().await {
                None if self.packets.is_empty() => return Ok(None),
                None => return Err(unexpected("the end")),
                Some(Err(_error)) => return Err(HttpError::Unusual("the answer breaks off".to_owned())),
                Some(Ok(frame)) => {
                    let Some(bytes) = frame.data_ref() else { continue };
                    let too_large = HttpError::TooLarge { limit: self.limit };
                    self.bytes_left = self.bytes_left.checked_sub(bytes.len()).ok_or(too_large)?;
                    self.packets.push(bytes);
                }
            }
        }
    }
}

fn header_value(text: &str) -> Result<Option<HeaderValue>, HttpError> {
    if text.is_empty() {
        return Ok(None);
    }
    let mut value = HeaderValue::from_str(text)
        .map_err(|_error| HttpError::Unusual("the credentials fit no header".to_owned()))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn offers_basic(headers: &HeaderMap) -> bool {
    let offers = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    offers
        .flat_map(|value| value.split(','))
        .any(|offer| offer.trim_start().get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("basic")))
}
