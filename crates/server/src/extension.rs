//! Proxy extensions: requests of the web interface that are handed on to services of the operator (API-220..223).

mod config;
mod outgoing;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use http::request::Parts as Head;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use reqwest::{Client, redirect};
use tiphys_api::cluster::Cluster;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::counts::Visiting;
use crate::http::pass::{MayGoOn, handed_back, head_of};
use crate::http::{
    Body, Front, Full, Permit, Place, Places, Pool, Refused, Request, cookie, intake, socket as handshake,
};
use crate::services::{Services, Visitor};
use crate::world::World;
use config::Extension;
use outgoing::Facts;

pub(crate) use config::{Extensions, read};

/// Everything below this path.
const PREFIX: &str = "/extensions/";
/// Requests that are on their way to services at a time; a caller has a quarter of them.
const REQUESTS_MAX: usize = 256;
/// `WebSockets` at a time, which last longer; a caller has a quarter of them.
const SOCKETS_MAX: usize = 200;
/// Time for a service to answer a handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of access checks while a response is streamed.
const ANSWER_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 10 << 20;
/// Silence of a service in the middle of an answer.
const READ_TIMEOUT: Duration = Duration::from_mins(5);
/// What a browser says it is about (API-221).
pub(crate) const APPLICATION: HeaderName = HeaderName::from_static("argocd-application-name");
/// The project of that.
pub(crate) const PROJECT: HeaderName = HeaderName::from_static("argocd-project-name");
/// Who asks an extension about which application, after all questions were asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visit {
    /// The cluster of the application, where it is known.
    pub(crate) cluster: Option<Cluster>,
    /// The name that people know; empty for nobody.
    pub(crate) username: String,
    /// Who it is; empty for nobody.
    pub(crate) user_id: String,
    /// The groups.
    pub(crate) groups: Vec<String>,
}

/// Whoever may not learns nothing about why (API-222).
pub(crate) fn unauthorized() -> Refused {
    Refused::new(StatusCode::UNAUTHORIZED, "Unauthorized extension request")
}

fn busy(full: Full) -> Refused {
    match full {
        Full::Caller => Refused::new(
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests of this caller to extensions are under way; send fewer at a time, and try again",
        ),
        Full::Process => Refused::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests to extensions"),
    }
}

fn unreachable(extension: &str, error: &dyn std::fmt::Display) -> Refused {
    tracing::warn!(extension, %error, "an extension cannot be reached");
    Refused::new(StatusCode::BAD_GATEWAY, "the extension cannot be reached")
}

/// Streams a response while its visitor has access; its measurement ends with it.
fn counted(
    answer: reqwest::Response,
    place: Place,
    visitor: Arc<Visitor>,
    visiting: &mut Option<Visiting>,
) -> Response<Body> {
    let mut visiting = visiting.take();
    if let Some(visiting) = &mut visiting {
        visiting.answered(answer.status());
    }
    let may_go_on: MayGoOn = Box::new(move || {
        let visitor = Arc::clone(&visitor);
        async move { visitor.may_stay().await }.boxed()
    });
    let mut response = handed_back(answer, (place, visiting), (may_go_on, ANSWER_CHECK_INTERVAL));
    drop_session_cookies(response.headers_mut());
    response
}

/// Removes cookies of the session from a service's answer: only the server starts and ends sessions.
fn drop_session_cookies(headers: &mut HeaderMap) {
    let is_ours =
        |value: &HeaderValue| value.as_bytes().trim_ascii_start().starts_with(cookie::NAME.as_bytes());
    if headers.get_all(header::SET_COOKIE).iter().any(is_ours) {
        let kept: Vec<HeaderValue> =
            headers.get_all(header::SET_COOKIE).iter().filter(|value| !is_ours(value)).cloned().collect();
        headers.remove(header::SET_COOKIE);
        for value in kept {
            headers.append(header::SET_COOKIE, value);
        }
    }
}

/// What hands requests on.
#[derive(Clone)]
pub struct Proxy {
    services: Arc<Services>,
    world: Arc<ArcSwap<World>>,
    is_secure: bool,
    /// The clients of the extensions as they were read last.
    clients: Arc<Mutex<Vec<(Extension, Client)>>>,
    places: Places,
    sockets: Places,
    tracker: TaskTracker,
    stopping: CancellationToken,
}

/// What is handed on: everything was asked, and all of it is known.
struct Errand {
    extension: Extension,
    client: Client,
    url: String,
    headers: HeaderMap,
    /// Caller whose access is checked while the response is streamed.
    visitor: Arc<Visitor>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proxy")
    }
}

impl Proxy {
    /// A proxy for those whom the services know; `is_secure` says whether browsers come over TLS. Its sockets end with
    /// `stopping`.
    pub fn new(
        services: Arc<Services>,
        world: Arc<ArcSwap<World>>,
        is_secure: bool,
        (tracker, stopping): (&TaskTracker, &CancellationToken),
    ) -> Self {
        Self {
            services,
            world,
            is_secure,
            clients: Arc::default(),
            places: Places::of(REQUESTS_MAX),
            sockets: Places::of(SOCKETS_MAX),
            tracker: tracker.clone(),
            stopping: stopping.clone(),
        }
    }

    /// Adds the paths to a front door.
    #[must_use]
    pub fn on(self, front: Front) -> Front {
        front.below(PREFIX, Arc::new(move |request| self.clone().serve(request).boxed()))
    }

    async fn serve(self, request: Request) -> Response<Body> {
        match self.pass(request).await {
            Ok(response) => response,
            Err(refused) => refused.response(),
        }
    }

    async fn pass(&self, mut request: Request) -> Result<Response<Body>, Refused> {
        let upgrade = hyper::upgrade::on(&mut request.http);
        let Request { http, peer, budget } = request;
        let (head, incoming) = http.into_parts();
        let (name, rest) = outgoing::named(head.uri.path())?;
        let (visit, visitor) = self.services.visit(&head, peer, name).await?;
        let errand = self.errand(&head, peer, (name, rest), &visit, visitor)?;
        let mut visiting = Some(self.services.counts().visit(name));
        let answered = if handshake::is_named(&head) {
            self.open(errand, head, upgrade, &mut visiting).await
        } else {
            let permit = budget.permit(Pool::Small, errand.visitor.caller());
            self.send(errand, &head, (incoming, permit), &mut visiting).await
        };
        if let (Err(refused), Some(visiting)) = (&answered, &mut visiting) {
            visiting.answered(refused.status);
        }
        answered
    }

    /// Hands a request on, and its answer back.
    async fn send(
        &self,
        errand: Errand,
        head: &Head,
        (mut incoming, mut permit): (Incoming, Permit),
        visiting: &mut Option<Visiting>,
    ) -> Result<Response<Body>, Refused> {
        let Errand { extension, client, url, headers, visitor } = errand;
        let name = &extension.name;
        let place = self.places.enter(visitor.caller()).map_err(busy)?;
        let read = intake::read(&mut incoming, REQUEST_BYTES_MAX, &mut permit).await;
        let bytes = read.map_err(|status| Refused::of_body(&status))?;
        let sending = client.request(head.method.clone(), url).headers(headers).body(bytes);
        match sending.send().await {
            // Nobody asked for that.
            Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                Err(unreachable(name, &"101"))
            }
            Ok(answer) => Ok(counted(answer, place, visitor, visiting)),
            Err(error) => Err(unreachable(name, &error.without_url())),
        }
    }

    /// Where a request goes, and with what.
    fn errand(
        &self,
        head: &Head,
        peer: SocketAddr,
        (name, rest): (&str, &str),
        visit: &Visit,
        visitor: Visitor,
    ) -> Result<Errand, Refused> {
        let world = self.world.load_full();
        let missing = || Refused::new(StatusCode::NOT_FOUND, "Extension not found");
        let extension = world.extensions().get(name).ok_or_else(missing)?;
        let invalid = || Refused::new(StatusCode::BAD_REQUEST, "invalid extension");
        let backend = extension.backend(visit.cluster.as_ref()).ok_or_else(invalid)?;
        let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let facts = Facts { peer, visit, namespace: world.namespace(), is_secure: self.is_secure };
        Ok(Errand {
            client: self.client(extension, world.extensions()).ok_or_else(invalid)?,
            url: format!("{}{rest}{query}", backend.url),
            headers: outgoing::headers(head, &facts, backend),
            extension: extension.clone(),
            visitor: Arc::new(visitor),
        })
    }

    /// Hands a handshake on, and joins both ends when the service agrees (API-223).
    async fn open(
        &self,
        errand: Errand,
        head: Head,
        upgrade: OnUpgrade,
        visiting: &mut Option<Visiting>,
    ) -> Result<Response<Body>, Refused> {
        if !handshake::is_own_page(&head.headers) {
            return Err(Refused::new(StatusCode::FORBIDDEN, "the page belongs to another site"));
        }
        if handshake::key(&head).is_none() {
            return Err(Refused::new(StatusCode::BAD_REQUEST, "this is no handshake of a WebSocket"));
        }
        let Errand { extension, client, url, mut headers, visitor } = errand;
        let place = self.sockets.enter(visitor.caller()).map_err(busy)?;
        let name = extension.name.clone();
        handshake::switch(&mut headers);
        let sending = tokio::time::timeout(HANDSHAKE_TIMEOUT, client.get(url).headers(headers).send());
        let answer = match sending.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Err(unreachable(&name, &error.without_url())),
            Err(elapsed) => return Err(unreachable(&name, &elapsed)),
        };
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(counted(answer, place, visitor, visiting));
        }
        let mut response = head_of(&answer);
        drop_session_cookies(response.headers_mut());
        handshake::switch(response.headers_mut());
        let service = answer.upgrade().await.map_err(|error| unreachable(&name, &error.without_url()))?;
        // A socket that is open has been answered, however long it lasts.
        if let Some(mut visiting) = visiting.take() {
            visiting.answered(StatusCode::SWITCHING_PROTOCOLS);
        }
        let (proxy, stopping) = (self.clone(), self.stopping.clone());
        self.tracker.spawn(async move {
            let _place = place;
            let client = match upgrade.await {
                Ok(client) => TokioIo::new(client),
                Err(error) => {
                    tracing::debug!(extension = name, %error, "a socket of an extension did not begin");
                    return;
                }
            };
            let is_allowed = || proxy.is_allowed(&extension, &visitor);
            let end = socket::join(client, service, is_allowed, &stopping).await;
            tracing::debug!(extension = name, ?end, "a socket of an extension ended");
        });
        Ok(response)
    }

    /// Whether a socket that began may go on: the same questions as at its beginning, of the extension as it was.
    async fn is_allowed(&self, extension: &Extension, visitor: &Visitor) -> bool {
        let is_same = self.world.load().extensions().get(&extension.name) == Some(extension);
        is_same && visitor.may_stay().await
    }

    /// A client with the times of an extension; one that is configured otherwise now gets another.
    fn client(&self, extension: &Extension, all: &Extensions) -> Option<Client> {
        let mut clients = self.clients.lock();
        if let Some((_, client)) = clients.iter().find(|(known, _)| known == extension) {
            return Some(client.clone());
        }
        tiphys_cloud::provide_crypto();
        // WebSockets need HTTP/1.1.
        let made = Client::builder()
            .http1_only()
            .redirect(redirect::Policy::none())
            .connect_timeout(extension.connection_timeout)
            .read_timeout(READ_TIMEOUT)
            .tcp_keepalive(extension.keep_alive)
            .pool_idle_timeout(extension.idle_timeout)
            .pool_max_idle_per_host(extension.idle_max)
            .build();
        let client = made.inspect_err(|error| tracing::error!(%error, "an extension has no client")).ok()?;
        clients.retain(|(known, _)| all.get(&known.name) == Some(known));
        clients.push((extension.clone(), client.clone()));
        Some(client)
    }
}
