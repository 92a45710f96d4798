//! Hands `/api/dex/` on to the Dex beside us (API-73).

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;
use tiphys_oidc::http::{HttpClient, client};

use super::settings::SsoSettings;
use crate::http::cookie::{self, Cookies};
use crate::http::pass::{OF_CONNECTION, head_of, leads_out};
use crate::http::{Body, CallerKey, Pool, Refused, Request, body, intake, plain};
use crate::world::World;

/// Bytes of a request to Dex: forms with passwords, and answers of SAML providers.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Bytes of an answer of Dex: pages, pictures and scripts.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// The client that was made last, with the settings that it was made by.
type Known = Option<(Arc<SsoSettings>, HttpClient)>;

/// The way to Dex.
#[derive(Clone)]
pub(super) struct DexProxy {
    world: Arc<ArcSwap<World>>,
    cookies: Cookies,
    client: Arc<Mutex<Known>>,
}

impl DexProxy {
    pub(super) fn new(world: Arc<ArcSwap<World>>, cookies: Cookies) -> Self {
        Self { world, cookies, client: Arc::default() }
    }

    pub(super) async fn serve(self, request: Request) -> Response<Body> {
        let settings = self.world.load().sso().cloned();
        let dex = settings.as_ref().and_then(|settings| Some((settings, settings.dex.as_ref()?)));
        let Some((settings, dex)) = dex else { return plain(StatusCode::NOT_FOUND, "Not Found\n") };
        let Some(client) = self.client(settings) else {
            return plain(StatusCode::BAD_GATEWAY, "Dex cannot be reached\n");
        };
        let (parts, mut incoming) = request.http.into_parts();
        if leads_out(parts.uri.path()) {
            return plain(StatusCode::BAD_REQUEST, "Bad Request\n");
        }
        let mut permit = request.budget.permit(Pool::Unknown, CallerKey::Address(request.peer.ip()));
        let bytes = match intake::read(&mut incoming, REQUEST_BYTES_MAX, &mut permit).await {
            Ok(bytes) => bytes,
            Err(status) => return Refused::of_body(&status).response(),
        };
        let target = parts.uri.path_and_query().map_or("/api/dex/", http::uri::PathAndQuery::as_str);
        let url = format!("{}{target}", dex.address);
        let mut sending = client.request(parts.method, url).body(bytes);
        for (name, value) in forwarded(&parts.headers) {
            sending = sending.header(name, value);
        }
        let mut answer = match sending.send().await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::error!(error = %error.without_url(), "Dex cannot be reached");
                return plain(StatusCode::BAD_GATEWAY, "Dex cannot be reached\n");
            }
        };
        if answer.status() == StatusCode::INTERNAL_SERVER_ERROR {
            return self.failed();
        }
        let mut response = head_of(&answer);
        let mut whole = Vec::new();
        loop {
            match answer.chunk().await {
                Ok(Some(piece)) if whole.len().saturating_add(piece.len()) <= ANSWER_BYTES_MAX => {
                    whole.extend_from_slice(&piece);
                }
                Ok(None) => break,
                Ok(Some(_)) | Err(_) => return plain(StatusCode::BAD_GATEWAY, "Dex does not answer\n"),
            }
        }
        *response.body_mut() = body::full(whole);
        response
    }

    /// Dex is not well; the page of the login says so.
    fn failed(&self) -> Response<Body> {
        let mut response = Response::new(body::empty());
        *response.status_mut() = StatusCode::SEE_OTHER;
        let place = format!("{}/login?has_sso_error=true", self.cookies.base());
        if let Ok(place) = HeaderValue::from_str(&place) {
            response.headers_mut().insert(header::LOCATION, place);
        }
        response
    }

    /// A client with the trust that Dex needs; it does not follow redirects, which are the browser's.
    fn client(&self, settings: &Arc<SsoSettings>) -> Option<HttpClient> {
        let mut known = self.client.lock();
        if let Some((of, client)) = &*known
            && of == settings
        {
            return Some(client.clone());
        }
        let made = client(&settings.provider.transport).ok()?;
        *known = Some((Arc::clone(settings), made.clone()));
        Some(made)
    }
}

/// The headers that Dex gets: not those of the connection, and no session of ours.
fn forwarded(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let is_ours = |name: &HeaderName| {
        OF_CONNECTION.contains(name)
            || [header::HOST, header::CONTENT_LENGTH, header::COOKIE, header::AUTHORIZATION].contains(name)
            // Answers are handed on as they come.
            || name == header::ACCEPT_ENCODING
    };
    let mut found: Vec<(HeaderName, HeaderValue)> = headers
        .iter()
        .filter(|(name, _)| !is_ours(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // The token endpoint of Dex reads the secret of a client here; a session of ours is a Bearer.
    let basic = headers.get(header::AUTHORIZATION);
    let basic = basic.filter(|value| value.as_bytes().to_ascii_lowercase().starts_with(b"basic "));
    found.extend(basic.map(|value| (header::AUTHORIZATION, value.clone())));
    let foreign = cookie::all(headers).filter(|(name, _)| !name.starts_with("argocd."));
    let pairs: Vec<String> = foreign.map(|(name, value)| format!("{name}={value}")).collect();
    if !pairs.is_empty()
        && let Ok(value) = HeaderValue::from_str(&pairs.join("; "))
    {
        found.push((header::COOKIE, value));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_73_dex_gets_no_session_of_ours() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("cookie", "argocd.token=a.b.c; dex=x; argocd.oauthstate=y"),
            ("authorization", "Bearer a.b.c"),
            ("connection", "close"),
            ("accept", "text/html"),
        ] {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let text = |headers: &HeaderMap| -> Vec<String> {
            forwarded(headers)
                .iter()
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
                .collect()
        };
        assert_eq!(text(&headers), ["accept: text/html", "cookie: dex=x"]);
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic eA=="));
        assert_eq!(text(&headers), ["accept: text/html", "authorization: Basic eA==", "cookie: dex=x"]);
    }
}
