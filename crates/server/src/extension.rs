//! Proxy extensions: requests of the web interface that are handed on to services of the operator (API-220..223).

mod config;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use http::request::Parts as Head;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use parking_lot::Mutex;
use reqwest::{Client, redirect};
use tiphys_api::cluster::Cluster;
use tokio::sync::Semaphore;

use crate::http::pass::{OF_CONNECTION, handed_back};
use crate::http::{Body, Front, Refused, Request, body};
use crate::services::Services;
use crate::world::World;
use config::{Backend, Extension};

pub(crate) use config::{Extensions, read};

/// Everything below this path.
const PREFIX: &str = "/extensions/";
/// Requests that are on their way to services at a time.
const REQUESTS_MAX: usize = 256;
/// Bytes of a request.
const REQUEST_BYTES_MAX: usize = 10 << 20;
/// Silence of a service in the middle of an answer.
const READ_TIMEOUT: Duration = Duration::from_mins(5);
/// What a browser says it is about (API-221).
pub(crate) const APPLICATION: HeaderName = HeaderName::from_static("argocd-application-name");
/// The project of that.
pub(crate) const PROJECT: HeaderName = HeaderName::from_static("argocd-project-name");
const NAMESPACE: HeaderName = HeaderName::from_static("argocd-namespace");
const CLUSTER_NAME: HeaderName = HeaderName::from_static("argocd-target-cluster-name");
const CLUSTER_URL: HeaderName = HeaderName::from_static("argocd-target-cluster-url");
const USERNAME: HeaderName = HeaderName::from_static("argocd-username");
const USER_ID: HeaderName = HeaderName::from_static("argocd-user-id");
const USER_GROUPS: HeaderName = HeaderName::from_static("argocd-user-groups");
/// What services believe because it comes from us: never from a browser (API-223).
const OURS: [HeaderName; 6] = [NAMESPACE, CLUSTER_NAME, CLUSTER_URL, USERNAME, USER_ID, USER_GROUPS];
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

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

/// What hands requests on.
#[derive(Clone)]
pub struct Proxy {
    services: Arc<Services>,
    world: Arc<ArcSwap<World>>,
    is_secure: bool,
    /// The clients of the extensions as they were read last.
    clients: Arc<Mutex<Vec<(Extension, Client)>>>,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Proxy")
    }
}

impl Proxy {
    /// A proxy for those whom the services know; `is_secure` says whether browsers come over TLS.
    pub fn new(services: Arc<Services>, world: Arc<ArcSwap<World>>, is_secure: bool) -> Self {
        let places = Arc::new(Semaphore::new(REQUESTS_MAX));
        Self { services, world, is_secure, clients: Arc::default(), places }
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

    async fn pass(&self, request: Request) -> Result<Response<Body>, Refused> {
        let (head, mut incoming) = request.http.into_parts();
        let (name, rest) = named(head.uri.path())?;
        let visit = self.services.visit(&head, request.peer, name).await?;
        let world = self.world.load_full();
        let missing = || Refused::new(StatusCode::NOT_FOUND, "Extension not found");
        let extension = world.extensions().get(name).ok_or_else(missing)?;
        let invalid = || Refused::new(StatusCode::BAD_REQUEST, "invalid extension");
        let backend = extension.backend(visit.cluster.as_ref()).ok_or_else(invalid)?;
        let busy = |_none| Refused::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests to extensions");
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(busy)?;
        let read = body::read(&mut incoming, REQUEST_BYTES_MAX).await;
        let bytes = read.map_err(|status| Refused::new(StatusCode::PAYLOAD_TOO_LARGE, status.message))?;
        let query = head.uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let url = format!("{}{rest}{query}", backend.url);
        let client = self.client(extension, world.extensions()).ok_or_else(invalid)?;
        let headers = self.headers(&head, request.peer, &visit, world.namespace(), backend);
        let sending = client.request(head.method.clone(), url).headers(headers).body(bytes);
        match sending.send().await {
            Ok(answer) => Ok(handed_back(answer, place)),
            Err(error) => {
                tracing::warn!(extension = name, error = %error.without_url(), "an extension cannot be reached");
                Err(Refused::new(StatusCode::BAD_GATEWAY, "the extension cannot be reached"))
            }
        }
    }

    /// A client with the times of an extension; one that is configured otherwise now gets another.
    fn client(&self, extension: &Extension, all: &Extensions) -> Option<Client> {
        let mut clients = self.clients.lock();
        if let Some((_, client)) = clients.iter().find(|(known, _)| known == extension) {
            return Some(client.clone());
        }
        tiphys_cloud::provide_crypto();
        let made = Client::builder()
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

    /// The headers that a service gets: those of the browser without its session, and what we know of it.
    fn headers(
        &self,
        head: &Head,
        peer: SocketAddr,
        visit: &Visit,
        namespace: &str,
        backend: &Backend,
    ) -> HeaderMap {
        let is_kept = |name: &HeaderName| {
            !OF_CONNECTION.contains(name)
                && !OURS.contains(name)
                && ![header::HOST, header::CONTENT_LENGTH, header::COOKIE, header::AUTHORIZATION]
                    .contains(name)
        };
        let kept = head.headers.iter().filter(|(name, _)| is_kept(name));
        let mut headers: HeaderMap = kept.map(|(name, value)| (name.clone(), value.clone())).collect();
        let before = head.headers.get(FORWARDED_FOR).and_then(|value| value.to_str().ok());
        let from = match before {
            Some(before) => format!("{before}, {}", peer.ip()),
            None => peer.ip().to_string(),
        };
        let host = head.headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let (cluster, server) = visit
            .cluster
            .as_ref()
            .map_or(("", ""), |cluster| (cluster.name.as_str(), cluster.server.as_str()));
        let groups = visit.groups.join(",");
        let known = [
            (FORWARDED_FOR, from.as_str()),
            (FORWARDED_HOST, host),
            (FORWARDED_PROTO, if self.is_secure { "https" } else { "http" }),
            (NAMESPACE, namespace),
            (CLUSTER_NAME, cluster),
            (CLUSTER_URL, server),
            (USERNAME, &visit.username),
            (USER_ID, &visit.user_id),
            (USER_GROUPS, &groups),
        ];
        for (name, value) in known {
            if let Ok(value) = HeaderValue::from_str(value)
                && !value.is_empty()
            {
                headers.insert(name, value);
            }
        }
        for (name, value) in &backend.headers {
            if let Ok(mut value) = HeaderValue::from_str(value.expose()) {
                value.set_sensitive(true);
                headers.insert(name.clone(), value);
            }
        }
        headers
    }
}

/// The name of an extension, and the path that its service gets: as it came, but never one that leads out of it.
fn named(path: &str) -> Result<(&str, &str), Refused> {
    let below = path.strip_prefix(PREFIX).unwrap_or_default();
    let (name, rest) = match below.find('/') {
        Some(at) => below.split_at(at),
        None => (below, ""),
    };
    if name.is_empty() {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "Invalid URL: extension name is missing"));
    }
    let leads_out = rest.split(['/', '\\']).any(|part| {
        let part = part.to_ascii_lowercase().replace("%2e", ".");
        part == ".." || part == "." || part.contains("%2f") || part.contains("%5c")
    });
    if leads_out {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "Invalid URL: its path leads elsewhere"));
    }
    Ok((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_223_a_path_stays_below_its_service() {
        assert_eq!(named("/extensions/httpbin/get/a%20b"), Ok(("httpbin", "/get/a%20b")));
        assert_eq!(named("/extensions/httpbin"), Ok(("httpbin", "")));
        assert_eq!(named("/extensions/httpbin/..a/b.."), Ok(("httpbin", "/..a/b..")));
        for bad in [
            "/extensions/",
            "/extensions//x",
            "/extensions/e/../x",
            "/extensions/e/a/%2E%2e/x",
            "/extensions/e/./x",
            "/extensions/e/a%2f..%2fb",
            "/extensions/e/..\\x",
        ] {
            assert_eq!(named(bad).unwrap_err().status, StatusCode::BAD_REQUEST, "{bad}");
        }
    }
}
