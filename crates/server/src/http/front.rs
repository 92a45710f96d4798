//! The dispatch of requests over everything that is served on one port (API-7).

use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::BoxFuture;
use http::{Method, Response, StatusCode, Uri, Version, header};
use tokio_util::sync::CancellationToken;

use super::body::Body;
use super::budget::Budget;
use super::cookie::Cookies;
use super::grpc::{self, Dialect};
use super::invoke::Bounds;
use super::plain;
use super::rest::Rest;
use crate::call::Api;
use crate::listen::OwnHosts;
use crate::listen::meter::Meter;

pub use hyper::body::Incoming;

/// A request that is not a call.
#[derive(Debug)]
pub struct Request {
    /// As it came, with a path below the root path.
    pub http: http::Request<Incoming>,
    /// Who is at the other end of the connection.
    pub peer: SocketAddr,
    /// Counts what is in memory of requests and answers.
    pub(crate) budget: Budget,
}

/// Something that answers requests.
pub type Handler = Arc<dyn Fn(Request) -> BoxFuture<'static, Response<Body>> + Send + Sync>;

/// How the front door is set up.
#[derive(Clone, Debug)]
pub struct FrontOptions {
    /// The path below which everything is (API-6); no slashes around it.
    pub root_path: String,
    /// Content types of requests that change something; none allows all (API-18).
    pub content_types: Vec<String>,
    /// Whether answers are compressed (API-20).
    pub gzip: bool,
    /// How sessions become cookies.
    pub cookies: Cookies,
    /// Bounds of what comes in.
    pub bounds: Bounds,
    /// Counts what is in memory of requests and answers, of all front doors of a process.
    pub budget: Budget,
    /// Names of the server besides those of its addresses.
    pub own_hosts: OwnHosts,
}

/// Where requests go.
#[derive(Clone)]
pub struct Front {
    api: Arc<dyn Api>,
    rest: Rest,
    root_path: String,
    content_types: Vec<String>,
    own_hosts: OwnHosts,
    exact: Vec<(&'static str, Handler)>,
    below: Vec<(&'static str, Handler)>,
    rest_of: Option<Handler>,
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").field("root_path", &self.root_path).finish_non_exhaustive()
    }
}

impl Request {
    /// The request with a body whose pieces count as progress of its connection.
    pub fn into_metered(self) -> http::Request<Body> {
        let meter = self.http.extensions().get::<Meter>().cloned();
        self.http.map(|incoming| {
            use futures::StreamExt as _;
            let frames = http_body_util::BodyStream::new(incoming).map(move |frame| {
                meter.iter().for_each(Meter::progress);
                frame.map_err(|_gone| super::body::CutOff)
            });
            super::body::fallible(frames)
        })
    }
}

impl Front {
    /// A front door to an API; `stopping` ends its streams.
    pub fn new(api: Arc<dyn Api>, options: FrontOptions, stopping: CancellationToken) -> Self {
        let FrontOptions { root_path, content_types, gzip, cookies, bounds, budget, own_hosts } = options;
        Self {
            api,
            rest: Rest { bounds, budget, gzip, cookies, stopping },
            own_hosts,
            root_path: root_path.trim_matches('/').to_owned(),
            content_types,
            exact: Vec::new(),
            below: Vec::new(),
            rest_of: None,
        }
    }

    /// What is in memory of requests and answers.
    pub(crate) fn budget(&self) -> &Budget {
        &self.rest.budget
    }

    /// Names of the server besides those of its addresses.
    pub(crate) fn own_hosts(&self) -> &OwnHosts {
        &self.own_hosts
    }

    /// The path below which everything is; no slashes around it.
    pub(crate) fn root_path(&self) -> &str {
        &self.root_path
    }

    /// The same with an answer for one path.
    #[must_use]
    pub fn at(mut self, path: &'static str, handler: Handler) -> Self {
        self.exact.push((path, handler));
        self
    }

    /// The same with an answer for all paths that begin so; the longest beginning counts.
    #[must_use]
    pub fn below(mut self, prefix: &'static str, handler: Handler) -> Self {
        self.below.push((prefix, handler));
        self.below.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        self
    }

    /// The same with an answer for everything else.
    #[must_use]
    pub fn otherwise(mut self, handler: Handler) -> Self {
        self.rest_of = Some(handler);
        self
    }

    /// Answers one request.
    pub async fn serve(&self, mut request: http::Request<Incoming>, peer: SocketAddr) -> Response<Body> {
        let Some(path) = self.path_of(request.uri()) else {
            return plain(StatusCode::NOT_FOUND, "Not Found\n");
        };
        let dialect = Dialect::of(request.headers(), request.version() == Version::HTTP_2);
        if let Some((_, handler)) = self.exact.iter().find(|(exact, _)| *exact == path) {
            return self.handled(handler, request, &path, peer).await;
        }
        if let Some(dialect) = dialect.filter(|_| request.method() == Method::POST) {
            let stopping = self.rest.stopping.clone();
            let api = Arc::clone(&self.api);
            let bounds = (self.rest.bounds, &self.rest.budget);
            return grpc::serve(api, bounds, stopping, request, (&path, peer, dialect)).await;
        }
        // The longest beginning counts, and `/api/` is one of them.
        if let Some((_, handler)) = self.below.iter().find(|(prefix, _)| is_below(&path, prefix)) {
            return self.handled(handler, request, &path, peer).await;
        }
        if path.starts_with("/api/") {
            if !self.is_guarded(&request) {
                return plain(StatusCode::UNSUPPORTED_MEDIA_TYPE, "Invalid content type\n");
            }
            if !self.root_path.is_empty() {
                *request.uri_mut() = with_path(request.uri(), &path);
            }
            return self.rest.serve(Arc::clone(&self.api), request, &path, peer).await;
        }
        match &self.rest_of {
            Some(handler) => self.handled(handler, request, &path, peer).await,
            None => plain(StatusCode::NOT_FOUND, "Not Found\n"),
        }
    }

    async fn handled(
        &self,
        handler: &Handler,
        mut http: http::Request<Incoming>,
        path: &str,
        peer: SocketAddr,
    ) -> Response<Body> {
        if !self.root_path.is_empty() {
            *http.uri_mut() = with_path(http.uri(), path);
        }
        handler(Request { http, peer, budget: self.rest.budget.clone() }).await
    }

    /// The path below the root path; `None` when it is not there (API-6).
    fn path_of(&self, uri: &Uri) -> Option<String> {
        let path = uri.path();
        if self.root_path.is_empty() || path == "/healthz" {
            return Some(path.to_owned());
        }
        let rest = path.strip_prefix('/')?.strip_prefix(self.root_path.as_str())?;
        match rest {
            "" => Some("/".to_owned()),
            rest if rest.starts_with('/') => Some(rest.to_owned()),
            _ => None,
        }
    }

    /// Whether a request that may change something says what it is: pages of others can not make a browser say so
    /// (API-18, SEC-34).
    fn is_guarded(&self, request: &http::Request<Incoming>) -> bool {
        if self.content_types.is_empty() || request.method() == Method::GET {
            return true;
        }
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        // Beyond the reference: parameters of the type do not matter.
        let kind = kind.and_then(|kind| kind.split(';').next()).map(|kind| kind.trim().to_ascii_lowercase());
        kind.is_some_and(|kind| self.content_types.contains(&kind))
    }
}

/// Whether a path begins with a prefix; one without a slash at its end is whole words of the path.
fn is_below(path: &str, prefix: &str) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => prefix.ends_with('/') || rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

fn with_path(uri: &Uri, path: &str) -> Uri {
    let text = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    text.parse().unwrap_or_else(|_invalid| uri.clone())
}
