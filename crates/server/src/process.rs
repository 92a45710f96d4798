//! The API server of a process: what follows the installation, the services, and the port.
//!
//! The port is open from the beginning; calls are answered when the installation is known.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::StatusCode;
use jiff::SignedDuration;
use rustls::ServerConfig;
use tiphys_api::Settings;
use tiphys_api::settings::SettingsData;
use tiphys_cluster::{Connection, Discovery, Jitter, Writer};
use tiphys_service::connection::Connections;
use tiphys_service::{Store, account};
use tiphys_source::{Clock, Sources};
use tiphys_wire::status::Code;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::{Admitted, Api, Head, Reply, Requests, Status};
use crate::catalog::{CHANGES_MAX, Catalog};
use crate::counts::Counts;
use crate::extension::Proxy;
use crate::follow::{FollowError, Following, Home};
use crate::http::cookie::Cookies;
use crate::http::{Bounds, Budget, Front, FrontOptions, Handler, plain};
use crate::identity::Identity;
use crate::listen::certificate::{self, May};
use crate::listen::tls::{TlsError, TlsOptions, TlsVersion, cipher_names};
use crate::listen::{Doors, Listener, OwnHosts};
use crate::live::Live;
use crate::pages::{Pages, PagesOptions, Program};
use crate::services::audit::{Recorder, write};
use crate::services::{Build, Parts, Services};
use crate::session::Sessions;
use crate::sets::SetCatalog;
use crate::sso::Door;

/// How long what is known of a connection counts, unless it is set.
const CONNECTION_LIFETIME: SignedDuration = SignedDuration::from_hours(1);
/// Megabytes of a message that can be set.
const MESSAGE_MEGABYTES_MAX: usize = 2_047;
/// What is set instead of ciphers by whoever wants to see their names.
const CIPHERS_WANTED: &str = "list";
/// Changes that a watch may be behind, as far as it can be set: room for all is taken at once.
const WATCH_CHANGES_MAX: usize = 100_000;
/// Time that requests get to end (API-11); the port ends them a little earlier.
const REQUESTS_TIMEOUT: Duration = Duration::from_secs(22);
/// Time that everything else gets after them.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How an API server is started.
pub struct ServerOptions {
    /// The way to the installation's cluster.
    pub connection: Connection,
    /// The installation's namespace.
    pub namespace: String,
    /// Environment variables, read once at start.
    pub env: BTreeMap<String, String>,
    /// Spreads attempts.
    pub jitter: Jitter,
    /// The time.
    pub clock: Clock,
    /// What knows sources and destinations.
    pub live: Option<Arc<dyn Live>>,
    /// What asks repositories.
    pub sources: Option<Sources>,
    /// What runs here.
    pub build: Build,
    /// Whether keys and the first password may be made where they are missing.
    pub may_write: bool,
    /// Whether the port speaks plain text even where there is a certificate.
    pub insecure: bool,
    /// Whether a certificate is made where the installation has none (API-4); it is kept if `may_write`.
    pub makes_certificate: bool,
    /// Where scripts are that extend the web interface (API-17).
    pub extensions: Option<PathBuf>,
    /// The file of the program itself, which is handed out (API-10).
    pub program: Option<PathBuf>,
}

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// The installation cannot be followed.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// What the first start makes cannot be made.
    #[error("the first start of the API server failed: {0}")]
    FirstStart(#[from] tiphys_service::Error),
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(String),
    /// Nothing is wrong: these are the ciphers that can be set, as the value `list` asks (API-5).
    #[error("server.tls.ciphers is `list`: the server does not start, it lists the ciphers that can be set: {names}", names = .0.join(", "))]
    Listed(Vec<String>),
}

/// An API server, from the opening of its port on.
pub struct Server {
    /// Counts what is in memory of requests and answers.
    budget: Budget,
    front: Arc<ArcSwap<Front>>,
    tls: Arc<ArcSwapOption<ServerConfig>>,
    others: Others,
    counts: Counts,
    /// The applications, since the installation is known.
    catalog: ArcSwapOption<Catalog>,
    /// The port, and what goes on after a request.
    serving: TaskTracker,
    /// What follows and writes.
    tracker: TaskTracker,
    /// Ends what follows and writes.
    cancel: CancellationToken,
    /// Ends connections.
    stopping: CancellationToken,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Server")
    }
}

/// Answers that are no calls of the API.
#[derive(Clone)]
pub struct Others {
    /// Those to one path each.
    pub at: Vec<(&'static str, Handler)>,
    /// Those to everything below a path.
    pub below: Vec<(&'static str, Handler)>,
}

impl std::fmt::Debug for Others {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Others")
    }
}

/// The API before the installation is known.
struct Starting;

impl Api for Starting {
    fn admit(self: Arc<Self>, _head: Head) -> BoxFuture<'static, Result<Admitted, Status>> {
        async { Err(Status::new(Code::Unavailable, "the server is starting")) }.boxed()
    }

    fn call(
        self: Arc<Self>,
        _call: Admitted,
        _requests: Requests,
    ) -> BoxFuture<'static, Result<Reply, Status>> {
        async { Err(Status::new(Code::Unavailable, "the server is starting")) }.boxed()
    }

    fn ended(&self, _head: &Head, _identity: Option<&Identity>, _code: Code, _took: Duration) {}
}

impl Server {
    /// A server that does not know its installation yet.
    pub fn new(others: Others) -> Self {
        let stopping = CancellationToken::new();
        let budget = Budget::default();
        let options = front_options(&Settings::default(), false, &budget);
        let front = front(Arc::new(Starting), options, &others, &stopping);
        Self {
            budget,
            front: Arc::new(ArcSwap::from_pointee(front)),
            tls: Arc::new(ArcSwapOption::empty()),
            others,
            counts: Counts::default(),
            catalog: ArcSwapOption::empty(),
            serving: TaskTracker::new(),
            tracker: TaskTracker::new(),
            cancel: CancellationToken::new(),
            stopping,
        }
    }

    /// What is counted of calls (API-12).
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Serves a port from now on.
    pub fn listen(&self, socket: TcpListener) {
        let (front, tls) = (Arc::clone(&self.front), Arc::clone(&self.tls));
        self.serving.spawn(Listener::new(socket, front, tls).run(self.stopping.clone()));
    }

    /// Serves one connection that was made without a port, in plain text, until the client closes it.
    pub fn serve_stream<S>(&self, stream: S, peer: SocketAddr)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let doors = Doors { front: Arc::clone(&self.front), tls: Arc::default(), listening: None };
        let stopping = self.stopping.clone();
        self.serving.spawn(async move { doors.requests(stream, peer, stopping).await });
    }

    /// Gets to know the installation, makes what a first start needs, and answers calls from then on.
    ///
    /// # Errors
    /// When the installation cannot be followed, or a setting cannot be used.
    pub async fn start(&self, options: ServerOptions) -> Result<(), ServerError> {
        let home = Home {
            connection: options.connection.clone(),
            namespace: options.namespace.clone(),
            env: options.env,
            jitter: options.jitter,
        };
        let discovery = Discovery::new(options.connection.clone());
        let store = Store::new(Writer::new(options.connection.clone(), discovery), &options.namespace);
        let (tracker, cancel) = (&self.tracker, &self.cancel);
        let following = Following::start(&home, tracker, cancel).await?;
        let world = Arc::new(ArcSwap::from_pointee(following.world()));
        let settings = world.load().installation.settings.clone();
        let tls = tls_options(&settings)?;
        if options.may_write {
            let is_admin_enabled = settings.cm().get("admin.enabled").map(String::as_str) != Some("false");
            account::first_start(&store, is_admin_enabled, options.clock.now()).await?;
        }
        let catalog = Arc::new(Catalog::holding(&options.namespace, watch_changes_max(&settings)));
        self.catalog.store(Some(Arc::clone(&catalog)));
        following.applications(&home, Arc::clone(&catalog), &world.load(), (tracker, cancel))?;
        let sets = Arc::new(SetCatalog::holding(watch_changes_max(&settings)));
        following.application_sets(&home, Arc::clone(&sets), &world.load(), (tracker, cancel));
        let sessions = Sessions::new(Arc::clone(&world), options.clock.clone(), Some(store.clone()));
        let sessions = Arc::new(sessions);
        tracker.spawn(following.run(Arc::clone(&world), Arc::clone(&sessions)));
        let (recorder, records) = Recorder::new();
        let writing = write(store.clone(), records);
        tracker.spawn(cancel.clone().run_until_cancelled_owned(writing));
        if !(options.insecure || is_on(&settings, "server.insecure", "ARGOCD_SERVER_INSECURE")) {
            let may = May { make: options.makes_certificate, write: options.may_write };
            let snapshot = world.load_full();
            let first = certificate::first((&snapshot, &store), &tls, may, options.clock.now()).await;
            self.tls.store(first.map_err(ServerError::Setting)?);
            let following = certificate::follow(Arc::clone(&self.tls), Arc::clone(&world), tls);
            tracker.spawn(cancel.clone().run_until_cancelled_owned(following));
        }
        let (in_and_out, doors, clock) = (Arc::clone(&sessions), Arc::clone(&world), options.clock.clone());
        let (version, extensions) = (options.build.version.clone(), options.extensions);
        let machine = options.build.platform.strip_prefix("linux/").map(str::to_owned);
        let program = options.program.zip(machine).map(|(path, machine)| Program { path, machine });
        let shown = Arc::clone(&catalog);
        let services = Services::new(Parts {
            world: Arc::clone(&world),
            sessions,
            store,
            clock: options.clock,
            catalog,
            sets,
            live: options.live,
            sources: options.sources,
            connections: Connections::new(connection_lifetime(&settings)?),
            home: options.connection,
            recorder,
            build: options.build,
            counts: self.counts.clone(),
            without_authentication: is_on(&settings, "server.disable.auth", "ARGOCD_SERVER_DISABLE_AUTH"),
        });
        let is_secure = self.tls.load().is_some();
        let options = front_options(&settings, is_secure, &self.budget);
        let base = options.cookies.base().to_owned();
        let pages = PagesOptions::read(&settings, &base);
        let pages = pages.map_err(|error| ServerError::Setting(error.to_string()))?;
        let pages = PagesOptions { gzip: options.gzip, version, extensions, program, ..pages };
        let proxied = Arc::clone(&world);
        let door = Door {
            world: doors,
            sessions: in_and_out,
            cookies: options.cookies.clone(),
            root_path: options.root_path.trim_matches('/').to_owned(),
            clock,
        };
        let terminals = services.terminals(options.cookies.clone(), &self.serving, &self.stopping);
        let has_extensions =
            is_on(&settings, "server.enable.proxy.extension", "ARGOCD_SERVER_ENABLE_PROXY_EXTENSION");
        let services = Arc::new(services);
        let pages = Pages { options: pages, world, catalog: shown, services: Arc::clone(&services) };
        let running = (&self.serving, &self.stopping);
        let proxy = has_extensions.then(|| Proxy::new(Arc::clone(&services), proxied, is_secure, running));
        let front = front(services, options, &self.others, &self.stopping);
        let front = pages.on(door.on(terminals.on(front)));
        self.front.store(Arc::new(match proxy {
            Some(proxy) => proxy.on(front),
            None => front,
        }));
        Ok(())
    }

    /// Waits until it is known which applications there are, so long at most: until then calls about them are answered that
    /// nobody knows.
    pub async fn knows_applications(&self, within: Duration) {
        if let Some(catalog) = self.catalog.load_full()
            && tokio::time::timeout(within, catalog.completed()).await.is_err()
        {
            tracing::warn!("the applications are not listed yet");
        }
    }

    /// Stops everything at once: requests are cut off, and records that were not written are lost, as in a crash.
    pub fn abandon(self) {
        self.stopping.cancel();
        self.cancel.cancel();
        self.serving.close();
        self.tracker.close();
    }

    /// Takes no connection any more, lets requests end, and then ends everything else (API-11).
    pub async fn stop(self) {
        self.stopping.cancel();
        self.serving.close();
        if tokio::time::timeout(REQUESTS_TIMEOUT, self.serving.wait()).await.is_err() {
            tracing::warn!("some requests to the API server are cut off");
        }
        // Until here requests wait for what they wrote, and records of them are written.
        self.cancel.cancel();
        self.tracker.close();
        if tokio::time::timeout(STOP_TIMEOUT, self.tracker.wait()).await.is_err() {
            tracing::warn!("the API server did not end in time");
        }
    }
}

fn front(api: Arc<dyn Api>, options: FrontOptions, others: &Others, stopping: &CancellationToken) -> Front {
    let front = Front::new(api, options, stopping.clone()).otherwise(Arc::new(|_| {
        async { plain(StatusCode::SERVICE_UNAVAILABLE, "the server is starting\n") }.boxed()
    }));
    let front = others.at.iter().fold(front, |front, (path, handler)| front.at(path, Arc::clone(handler)));
    others.below.iter().fold(front, |front, (path, handler)| front.below(path, Arc::clone(handler)))
}

/// A switch of the parameters that is off unless it is on.
pub(crate) fn is_on(settings: &Settings, key: &str, variable: &str) -> bool {
    matches!(settings.param(key, variable), Some("1" | "t" | "T" | "TRUE" | "true" | "True"))
}

fn front_options(settings: &Settings, is_secure: bool, budget: &Budget) -> FrontOptions {
    let urls = crate::sso::additional_urls(settings);
    let url = settings.cm().get("url").map(String::as_str);
    let param = |key: &str, variable: &str| settings.param(key, variable).unwrap_or_default().to_owned();
    let root_path = param("server.rootpath", "ARGOCD_SERVER_ROOTPATH");
    let base = param("server.basehref", "ARGOCD_SERVER_BASEHREF");
    let base = if root_path.is_empty() {
        base
    } else {
        if !["", root_path.trim_matches('/')].contains(&base.trim_matches('/')) {
            tracing::warn!(root_path, base, "server.basehref is not that of server.rootpath, which counts");
        }
        root_path.clone()
    };
    let types =
        settings.param("server.api.content.types", "ARGOCD_API_CONTENT_TYPES").unwrap_or("application/json");
    let pieces = settings.param("server.http.cookie.maxnumber", "ARGOCD_MAX_COOKIE_NUMBER");
    FrontOptions {
        root_path,
        content_types: types
            .split(';')
            .map(|kind| kind.trim().to_ascii_lowercase())
            .filter(|kind| !kind.is_empty())
            .collect(),
        gzip: !matches!(settings.param("server.enable.gzip", "ARGOCD_SERVER_ENABLE_GZIP"), Some("false")),
        cookies: Cookies::new(&base, is_secure, pieces.and_then(|text| text.parse().ok()).unwrap_or(20)),
        bounds: bounds(settings),
        budget: budget.clone(),
        own_hosts: OwnHosts::of_urls(urls.iter().map(String::as_str).chain(url)),
    }
}

/// How much the port takes (API-23); what is out of range has its default.
fn bounds(settings: &Settings) -> Bounds {
    let megabytes = settings.env().get("ARGOCD_GRPC_MAX_SIZE_MB").and_then(|text| text.trim().parse().ok());
    let bytes = megabytes.filter(|megabytes: &usize| (1..=MESSAGE_MEGABYTES_MAX).contains(megabytes));
    let default = Bounds::default();
    Bounds { message_bytes_max: bytes.map_or(default.message_bytes_max, |bytes| bytes << 20), ..default }
}

/// How far a watch of applications or of sets may be behind (API-123, API-155).
fn watch_changes_max(settings: &Settings) -> usize {
    let set = settings.env().get("ARGOCD_WATCH_API_BUFFER_SIZE").and_then(|text| text.trim().parse().ok());
    set.filter(|count| (1..=WATCH_CHANGES_MAX).contains(count)).unwrap_or(CHANGES_MAX)
}

/// How long what is known of a connection counts (REP-79).
fn connection_lifetime(settings: &Settings) -> Result<SignedDuration, ServerError> {
    let (key, variable) =
        ("server.connection.status.cache.expiration", "ARGOCD_SERVER_CONNECTION_STATUS_CACHE_EXPIRATION");
    let Some(text) = settings.param(key, variable).filter(|text| !text.is_empty()) else {
        return Ok(CONNECTION_LIFETIME);
    };
    let read = tiphys_go::duration::parse(text);
    read.map_err(|error| ServerError::Setting(format!("{key}: {error}")))
}

/// Checks what variables of the environment say of TLS before anything is asked of the cluster (API-5).
///
/// # Errors
/// With what cannot be used, or [`ServerError::Listed`].
pub fn check_tls(env: &BTreeMap<String, String>) -> Result<(), ServerError> {
    let data = SettingsData { env: env.clone(), ..SettingsData::default() };
    tls_options(&Settings::new(data)).map(drop)
}

fn tls_options(settings: &Settings) -> Result<TlsOptions, ServerError> {
    let failed = |error: TlsError| ServerError::Setting(error.to_string());
    let mut options = TlsOptions::default();
    if let Some(text) = settings.param("server.tls.minversion", "ARGOCD_TLS_MIN_VERSION") {
        options.version_min = TlsVersion::lowest(text).map_err(failed)?;
    }
    if let Some(text) = settings.param("server.tls.maxversion", "ARGOCD_TLS_MAX_VERSION") {
        options.version_max = TlsVersion::parse(text).map_err(failed)?;
    }
    if let Some(text) = settings.param("server.tls.ciphers", "ARGOCD_TLS_CIPHERS") {
        if text == CIPHERS_WANTED {
            return Err(ServerError::Listed(cipher_names().map(str::to_owned).collect()));
        }
        text.clone_into(&mut options.ciphers);
    }
    options.check().map_err(failed)?;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_23_what_the_port_takes_can_be_set_within_bounds() {
        let read = |size: &str, buffer: &str| {
            let env = [("ARGOCD_GRPC_MAX_SIZE_MB", size), ("ARGOCD_WATCH_API_BUFFER_SIZE", buffer)];
            let env = env.into_iter().map(|(key, text)| (key.to_owned(), text.to_owned())).collect();
            let data = SettingsData { env, ..SettingsData::default() };
            let settings = Settings::new(data);
            (bounds(&settings).message_bytes_max, watch_changes_max(&settings))
        };
        assert_eq!(read("300", "5000"), (300 << 20, 5_000));
        for (size, buffer) in [("", ""), ("0", "0"), ("-1", "x"), ("99999", "100001")] {
            assert_eq!(read(size, buffer), (200 << 20, 1_000), "{size} {buffer}");
        }
    }

    #[test]
    fn api_5_what_is_said_of_tls_holds_or_stops_the_start() {
        let check = |env: &[(&str, &str)]| {
            let env = env.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
            check_tls(&env).map_err(|error| error.to_string()).err().unwrap_or_default()
        };
        let (min, max, ciphers) = ("ARGOCD_TLS_MIN_VERSION", "ARGOCD_TLS_MAX_VERSION", "ARGOCD_TLS_CIPHERS");
        for env in [
            vec![],
            vec![(min, ""), (max, ""), (ciphers, "")],
            vec![(min, "1.0"), (max, "1.2")],
            vec![(ciphers, "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256:TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384")],
            vec![(min, "1.3"), (ciphers, "ignored")],
        ] {
            assert_eq!(check(&env), "", "{env:?}");
        }
        assert_eq!(check(&[(min, "1.3"), (max, "1.2")]), "the minimum TLS version is above the maximum");
        assert_eq!(check(&[(max, "1.1")]), "TLS version \"1.1\" is not supported; 1.2 and 1.3 are");
        assert!(check(&[(ciphers, "TLS_RSA_WITH_RC4_128_SHA")]).starts_with("TLS cipher \"TLS_RSA"));
        let listed = check(&[(ciphers, "list")]);
        assert!(
            listed.contains("list") && listed.contains("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
            "{listed}"
        );
    }
}
