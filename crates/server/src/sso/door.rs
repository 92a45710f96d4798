//! The browser's way in and out: `/auth/login`, `/auth/callback`, `/auth/logout` (API-62..64, API-79).

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use tiphys_api::secret::Secret;
use tiphys_oidc::flow::{self, Authorization, Callback};
use tiphys_oidc::metadata::ResponseType;
use tiphys_service::jwt;
use tiphys_source::Clock;

use super::dex::DexProxy;
use super::settings::SsoSettings;
use super::state::{self, LIFETIME_SECONDS, Pending};
use crate::http::cookie::{self, Cookies};
use crate::http::{Body, Front, Handler, Request, body, plain};
use crate::session::Sessions;
use crate::world::World;

/// Time that others get to be told that a token does not count any more.
const REVOKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a query that is looked at: a token and what is around it.
const QUERY_BYTES_MAX: usize = 160 << 10;

/// What answers browsers that log in and out.
#[derive(Clone)]
pub struct Door {
    /// The snapshot of the installation.
    pub world: Arc<ArcSwap<World>>,
    /// Sessions.
    pub sessions: Arc<Sessions>,
    /// How sessions become cookies.
    pub cookies: Cookies,
    /// The path below which everything is; no slashes around it.
    pub root_path: String,
    /// The time.
    pub clock: Clock,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Door").field("root_path", &self.root_path).finish_non_exhaustive()
    }
}

/// An answer that ends a request early.
type Ended = Box<Response<Body>>;

impl Door {
    /// Adds the paths to a front door (API-7).
    pub fn on(self, front: Front) -> Front {
        let dex = DexProxy::new(Arc::clone(&self.world), self.cookies.clone());
        let door = Arc::new(self);
        front
            .at("/auth/login", handler(&door, Self::login))
            .at("/auth/callback", handler(&door, Self::callback))
            .at("/auth/logout", handler(&door, Self::logout))
            .below("/api/dex/", Arc::new(move |request| dex.clone().serve(request).boxed()))
    }

    fn sso(&self, request: &Request) -> Result<Arc<SsoSettings>, Ended> {
        if request.http.method() != Method::GET {
            return Err(ended(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed\n"));
        }
        let settings = self.world.load().sso().cloned();
        settings.ok_or_else(|| ended(StatusCode::NOT_FOUND, "SSO is not configured\n"))
    }

    /// The one of our addresses that a request came to.
    fn base(&self, settings: &SsoSettings, request: &Request) -> String {
        settings.bases.of_request(host(request.http.headers()), &self.full_path(request))
    }

    fn full_path(&self, request: &Request) -> String {
        let root = if self.root_path.is_empty() { String::new() } else { format!("/{}", self.root_path) };
        format!("{root}{}", request.http.uri().path())
    }

    /// Begins a login.
    async fn login(self: Arc<Self>, request: Request) -> Result<Response<Body>, Ended> {
        let settings = self.sso(&request)?;
        let query = request.http.uri().query().unwrap_or_default();
        let asked = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "return_url");
        let asked = asked.map(|(_, value)| value.into_owned()).unwrap_or_default();
        let base = self.base(&settings, &request);
        let Some(return_url) = settings.bases.permitted(&asked, &base) else {
            let text = "Invalid redirect URL: the protocol and host (including port) must match and the path \
                        must be within allowed URLs if provided\n";
            return Err(ended(StatusCode::BAD_REQUEST, text));
        };
        let failed = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, "a login cannot begin");
            ended(
                StatusCode::BAD_GATEWAY,
                "The identity provider cannot be used; the log of the server says why.\n",
            )
        };
        let provider = self.sessions.providers().of(&settings).map_err(|error| failed(&error))?;
        let metadata = provider.metadata().await.map_err(|error| failed(&error))?;
        let chance = || {
            flow::random_text()
                .ok_or_else(|| ended(StatusCode::INTERNAL_SERVER_ERROR, "the system gives no randomness\n"))
        };
        let wants_code = metadata.response_type() == ResponseType::Code;
        let uses_verifier = settings.provider.uses_pkce && wants_code;
        let pending = Pending {
            state: chance()?,
            nonce: chance()?,
            return_url,
            redirect_uri: format!("{base}/auth/callback"),
            verifier: if uses_verifier { chance()? } else { String::new() },
            wants_code,
            ends: self.clock.now().as_second().saturating_add(LIFETIME_SECONDS),
        };
        let asked = Authorization {
            client_id: &settings.provider.client_id,
            redirect_uri: &pending.redirect_uri,
            scopes: &settings.provider.scopes,
            state: &pending.state,
            nonce: &pending.nonce,
            verifier: uses_verifier.then_some(pending.verifier.as_str()),
            id_token_claims: &settings.provider.id_token_claims,
            connector_id: &settings.connector_id,
            domain_hint: &settings.provider.domain_hint,
        };
        let url = flow::authorization_url(&metadata, &asked).map_err(|error| failed(&error))?;
        let sealed = pending.sealed(&self.world.load().signing_key()).ok_or_else(|| {
            ended(StatusCode::INTERNAL_SERVER_ERROR, "the installation has no key to seal logins with\n")
        })?;
        let mut response = redirect(&url)?;
        self.set_state(&sealed, LIFETIME_SECONDS, response.headers_mut());
        Ok(response)
    }

    /// Ends a login.
    async fn callback(self: Arc<Self>, request: Request) -> Result<Response<Body>, Ended> {
        let settings = self.sso(&request)?;
        let query = request.http.uri().query().unwrap_or_default();
        if query.len() > QUERY_BYTES_MAX {
            return Err(ended(StatusCode::URI_TOO_LONG, "URI Too Long\n"));
        }
        let callback = Callback::read(query);
        let state = match &callback {
            Callback::Refused(text) => return Err(told(StatusCode::BAD_REQUEST, text)),
            Callback::Nothing => return Ok(fragment_page()),
            Callback::Code { state, .. } | Callback::IdToken { state, .. } => state,
        };
        let bad = || ended(StatusCode::BAD_REQUEST, "Invalid state: begin the login again\n");
        let carried = cookie::all(request.http.headers()).find(|(name, _)| *name == state::NAME);
        let now = self.clock.now();
        let key = self.world.load().signing_key();
        let pending = carried.and_then(|(_, text)| Pending::open(text, &key, now.as_second()));
        let Some(pending) = pending.filter(|pending| pending.is_of(state)) else { return Err(bad()) };
        let granted = match callback {
            Callback::Code { code, .. } if pending.wants_code => {
                self.exchange(&settings, &pending, &code).await?
            }
            // The token itself counts where it was asked for, and only there.
            Callback::IdToken { token, .. } if !pending.wants_code => {
                tiphys_oidc::Granted { id_token: token, ..tiphys_oidc::Granted::default() }
            }
            _ => return Err(bad()),
        };
        let providers = self.sessions.providers();
        let shown = (granted.id_token.expose().as_str(), Some(pending.nonce.as_str()));
        let claims = providers.verify(&settings, shown, now).await.map_err(|error| {
            tracing::warn!(%error, "a login fails: the token of the identity provider does not count");
            told(StatusCode::UNAUTHORIZED, &format!("invalid session token: {error}"))
        })?;
        if claims.get("iss").and_then(serde_json::Value::as_str) == Some(jwt::ISSUER) {
            return Err(ended(StatusCode::UNAUTHORIZED, "invalid session token\n"));
        }
        let mut response = redirect(&pending.return_url)?;
        self.cookies.set(granted.id_token.expose(), response.headers_mut()).map_err(|error| {
            tracing::error!(%error, "a login fails: server.http.cookie.maxnumber says how many");
            ended(StatusCode::INTERNAL_SERVER_ERROR, "the token needs more cookies than are permitted\n")
        })?;
        self.set_state("", 0, response.headers_mut());
        let lifetime = self.world.load().session_duration;
        let ends = now.checked_add(lifetime).unwrap_or(now);
        providers.keep(&claims, &granted, ends);
        Ok(response)
    }

    async fn exchange(
        &self,
        settings: &Arc<SsoSettings>,
        pending: &Pending,
        code: &Secret<String>,
    ) -> Result<tiphys_oidc::Granted, Ended> {
        let outcome = async {
            let provider = self.sessions.providers().of(settings)?;
            let verifier = Some(pending.verifier.as_str()).filter(|verifier| !verifier.is_empty());
            let client = super::client(settings).await;
            provider.exchange(&client, code, (&pending.redirect_uri, verifier)).await
        };
        outcome.await.map_err(|error| {
            tracing::warn!(%error, "a login fails: the identity provider gives no token");
            told(StatusCode::BAD_GATEWAY, &format!("failed to get token: {error}"))
        })
    }

    /// Ends a session.
    async fn logout(self: Arc<Self>, request: Request) -> Result<Response<Body>, Ended> {
        let headers = request.http.headers();
        let token = cookie::token(headers).unwrap_or_default();
        if token.is_empty() {
            return Err(ended(StatusCode::BAD_REQUEST, "Failed to retrieve ArgoCD auth token\n"));
        }
        let settings = self.world.load().sso().cloned();
        let base = self.logout_base(settings.as_deref(), &request);
        let mut target = base.clone();
        if let Ok(session) = self.sessions.verify(&token).await {
            let claims = session.claims.all();
            self.sessions.providers().forget(claims);
            // Deviation (API-66, API-79): the reference revokes no token without an id or an expiry.
            match tokio::time::timeout(REVOKE_TIMEOUT, self.sessions.revoke(claims)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::error!(%error, "failed to store a logout for other processes"),
                Err(_elapsed) => tracing::error!("failed to store a logout for other processes in time"),
            }
            let logout_url = settings.as_ref().map_or("", |settings| &settings.provider.logout_url);
            if !logout_url.is_empty() && session.claims.text("iss") != jwt::ISSUER {
                target = logout_url.replace("{{token}}", &token).replace("{{logoutRedirectURL}}", &base);
            }
        }
        let mut response = redirect(&target)?;
        self.cookies.clear(headers, response.headers_mut());
        Ok(response)
    }

    /// Where whoever has logged out is sent (API-79).
    fn logout_base(&self, settings: Option<&SsoSettings>, request: &Request) -> String {
        if let Some(settings) = settings {
            return self.base(settings, request);
        }
        let world = self.world.load();
        let url = world.setting("url");
        let additional = super::additional_urls(&world.installation.settings);
        if let Some((bases, _)) = super::redirect::Bases::read(url, &additional) {
            return bases.of_request(host(request.http.headers()), &self.full_path(request));
        }
        let whole = format!("http://{}/{}", host(request.http.headers()), self.root_path);
        whole.trim_end_matches('/').to_owned()
    }

    fn set_state(&self, sealed: &str, seconds: i64, headers: &mut HeaderMap) {
        let cookie = self.cookies.passing(state::NAME, sealed, seconds);
        if let Ok(value) = HeaderValue::from_str(&cookie) {
            headers.append(header::SET_COOKIE, value);
        }
    }
}

fn handler<F>(door: &Arc<Door>, answer: impl Fn(Arc<Door>, Request) -> F + Send + Sync + 'static) -> Handler
where
    F: Future<Output = Result<Response<Body>, Ended>> + Send + 'static,
{
    let door = Arc::clone(door);
    Arc::new(move |request| -> BoxFuture<'static, Response<Body>> {
        let answering = answer(Arc::clone(&door), request);
        async move {
            let mut response = answering.await.unwrap_or_else(|ended| *ended);
            let headers = response.headers_mut();
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
            response
        }
        .boxed()
    })
}

fn host(headers: &HeaderMap) -> &str {
    headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn redirect(url: &str) -> Result<Response<Body>, Ended> {
    let place = HeaderValue::from_str(url)
        .map_err(|_no_header| ended(StatusCode::INTERNAL_SERVER_ERROR, "the address to go to is none\n"))?;
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, place);
    Ok(response)
}

#[expect(clippy::unnecessary_box_returns, reason = "the error of everything here")]
fn ended(status: StatusCode, text: &'static str) -> Ended {
    Box::new(plain(status, text))
}

/// A text that is not known beforehand: never as markup.
#[expect(clippy::unnecessary_box_returns, reason = "the error of everything here")]
fn told(status: StatusCode, text: &str) -> Ended {
    Box::new(plain(status, format!("{text}\n")))
}

fn fragment_page() -> Response<Body> {
    let (page, policy) = flow::fragment_page();
    let mut response = Response::new(body::full(page));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(policy) = HeaderValue::from_str(&policy) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}
