//! The way to one API server: address, trust, credentials, and the HTTP connections themselves.
//!
//! HTTP/2 is used where the server offers it: one TLS connection carries about sixty watches instead of one
//! each. A server limits the streams of a connection (100 by default) and further ones wait in silence, so
//! watches are spread over *lanes* of sixty, and calls have a lane of their own.
//!
//! Answers are never asked for in compressed form: inside a data centre compression costs both sides more time
//! than it saves.

mod call;
mod calm;
mod contexts;
mod fence;
mod handshake;
mod overrides;
mod pace;
mod plugin;
mod reach;
mod secret_config;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{self, Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use parking_lot::Mutex;
use tiphys_api::settings::ClientLimits;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

use crate::observer::Observers;

use calm::Calm;
use handshake::{Handshake, announce};
use pace::Pace;
use plugin::{Identity, Plugin};
use reach::Reach;

pub use contexts::{KubeContext, contexts};
pub use fence::Fence;
pub use overrides::KubeOverrides;
pub use plugin::PluginPolicy;

pub(crate) use call::{Answer, Call, INITIALIZING_LOOKS, INITIALIZING_WAIT, encode, status_error};

/// Time between two HTTP/2 pings, which find dead connections under silent watches.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time for the answer to a ping.
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// Streams on one watch lane; servers allow 100 on a connection by default.
const LANE_STREAMS_MAX: usize = 60;
/// Bytes one stream may have in flight.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// Bytes one connection may have in flight; bounds what a burst of lists can occupy.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Why a connection could not be set up. Nothing here contains credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The kubeconfig cannot be read or has no such context.
    #[error("cannot use the kubeconfig")]
    Kubeconfig(#[source] Box<kube::config::KubeconfigError>),
    /// The kubeconfig has no user entry of this name.
    #[error("auth info {name:?} does not exist")]
    User {
        /// The name.
        name: String,
    },
    /// The pod has no service account, or does not run in a cluster.
    #[error("cannot use the service account of the pod")]
    InCluster(#[source] Box<kube::config::InClusterError>),
    /// The `config` of a cluster Secret cannot be used (REP-104, REP-107).
    #[error(transparent)]
    Config(#[from] tiphys_api::cluster::ClusterError),
    /// A member of the `config` of a cluster Secret has a value that cannot be used.
    #[error("a member of the cluster config has an unexpected value")]
    Member,
    /// The proxy has a scheme that is not supported (REP-107).
    #[error("failed to parse proxy url, unsupported scheme {scheme:?}, must be http, https, or socks5")]
    ProxyScheme {
        /// The scheme found.
        scheme: String,
    },
    /// Certificates, keys or credentials cannot be used.
    #[error("cannot set up TLS or credentials")]
    Credentials(#[source] Box<kube::Error>),
    /// The server name for TLS is not valid.
    #[error("invalid TLS server name {name:?}")]
    ServerName {
        /// The name found.
        name: String,
    },
}

/// The identity a request is made as, instead of the connection's own (REP C10).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// User name, for example `system:serviceaccount:team:deployer`.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// A way to one API server. Cloning is cheap and shares the connections.
#[derive(Clone)]
pub struct Connection {
    shared: Arc<Shared>,
    impersonation: Option<Arc<HeaderMap>>,
    /// Who may write; everybody without one.
    fence: Option<Fence>,
    /// How fast the server is asked, where that is bounded.
    pace: Option<Pace>,
    /// Who is told of requests.
    pub(crate) observers: Observers,
}

struct Shared {
    server: String,
    default_namespace: String,
    calls: kube::Client,
    streams: Streams,
    reach: Reach,
    /// How long the server may work at a request, where an operator bounds it.
    patience: Option<Duration>,
}

/// What long-running answers travel over.
enum Streams {
    /// HTTP connections, opened as they are needed.
    Lanes { way: Box<Way>, lanes: Mutex<Vec<Lane>> },
    /// The service that answers calls too; it has room for all.
    Service,
}

/// Address, trust and credentials.
#[derive(Clone)]
struct Way {
    config: kube::Config,
    /// The plugin that gives the credentials, if one does.
    plugin: Option<Arc<Plugin>>,
    limits: ClientLimits,
}

#[derive(Clone)]
struct Lane {
    client: kube::Client,
    free: Arc<Semaphore>,
}

/// A client with room for one long-running stream; the room is given back when this is dropped.
pub(crate) struct StreamSlot {
    pub(crate) client: kube::Client,
    _room: Option<OwnedSemaphorePermit>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("server", &self.shared.server).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects as a kubeconfig says; without a path the usual places are searched, without a context the
    /// current one is used.
    pub async fn from_kubeconfig(
        path: Option<&Path>,
        context: Option<&str>,
        limits: ClientLimits,
    ) -> Result<Self, ConnectError> {
        Self::from_kubeconfig_with(path, context, &KubeOverrides::default(), limits).await
    }

    /// The same, with what a command line says in place of the file.
    pub async fn from_kubeconfig_with(
        path: Option<&Path>,
        context: Option<&str>,
        overrides: &KubeOverrides,
        limits: ClientLimits,
    ) -> Result<Self, ConnectError> {
        let mut kubeconfig = match path {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        }
        .map_err(|error| ConnectError::Kubeconfig(Box::new(error)))?;
        let mut options =
            KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
        overrides.apply(&mut kubeconfig, &mut options)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|error| ConnectError::Kubeconfig(Box::new(error)))?;
        Self::new(Way { config, plugin: None, limits })
    }

    /// Connects to the cluster the process runs in, with the service account of its pod. Needs a runtime.
    #[expect(clippy::unused_async, reason = "building the client needs a runtime")]
    pub async fn in_cluster(limits: ClientLimits) -> Result<Self, ConnectError> {
        let config = kube::Config::incluster().map_err(|error| ConnectError::InCluster(Box::new(error)))?;
        Self::new(Way { config, plugin: None, limits })
    }

    /// Connects as a cluster Secret says: its server and its `config` JSON; empty is all defaults (REP-104,
    /// REP-105). A credential plugin runs when the first request needs it, if the policy allows it; the environment of the
    /// policy also has the limits of connections (REP-108).
    pub async fn from_cluster_secret(
        server: &str,
        config_json: &str,
        policy: &PluginPolicy,
    ) -> Result<Self, ConnectError> {
        let (config, plugin) = secret_config::kube_config(server, config_json, policy).await?;
        let limits = ClientLimits::of(&policy.environment);
        Self::new(Way { config, plugin: plugin.map(Arc::new), limits })
    }

    fn new(way: Way) -> Result<Self, ConnectError> {
        tiphys_cloud::provide_crypto();
        let calls = client(&way, Traffic::Calls)?;
        let server = way.config.cluster_url.to_string().trim_end_matches('/').to_owned();
        let default_namespace = way.config.default_namespace.clone();
        let patience = way.limits.request;
        let streams = Streams::Lanes { way: Box::new(way), lanes: Mutex::default() };
        Ok(Self {
            shared: Arc::new(Shared {
                server,
                default_namespace,
                calls,
                streams,
                reach: Reach::default(),
                patience,
            }),
            impersonation: None,
            fence: None,
            pace: None,
            observers: Observers::default(),
        })
    }

    /// A way to an API server in this process: requests go to a function, without sockets and TLS. Their
    /// targets are paths. An error is a connection that broke. Needs a runtime.
    pub fn over<F, A, B>(server: &str, answer: F) -> Self
    where
        F: Fn(Request<Bytes>) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = answer.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect().await?.to_bytes();
                answer(Request::from_parts(parts, bytes)).await
            }
        });
        let shared = Shared {
            server: server.trim_end_matches('/').to_owned(),
            default_namespace: "default".to_owned(),
            calls: kube::Client::new(service, "default"),
            streams: Streams::Service,
            reach: Reach::default(),
            patience: None,
        };
        Self {
            shared: Arc::new(shared),
            impersonation: None,
            fence: None,
            pace: None,
            observers: Observers::default(),
        }
    }

    /// URL of the API server, without a trailing slash.
    pub fn server(&self) -> &str {
        &self.shared.server
    }

    /// Namespace of the context or of the pod.
    pub fn default_namespace(&self) -> &str {
        &self.shared.default_namespace
    }

    /// The same connection, with requests made as somebody else (DEP-38). Texts that cannot be header values
    /// are an error of the caller's configuration.
    pub fn impersonating(&self, identity: &Impersonation) -> Result<Self, http::header::InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(HeaderName::from_static("impersonate-user"), HeaderValue::from_str(&identity.user)?);
        for group in &identity.groups {
            headers.append(HeaderName::from_static("impersonate-group"), HeaderValue::from_str(group)?);
        }
        Ok(Self { impersonation: Some(Arc::new(headers)), ..self.clone() })
    }

    /// Room for one stream, on a new lane when all are full.
    pub(crate) fn stream_slot(&self) -> Result<StreamSlot, ConnectError> {
        let Streams::Lanes { way, lanes } = &self.shared.streams else {
            return Ok(StreamSlot { client: self.shared.calls.clone(), _room: None });
        };
        let mut lanes = lanes.lock();
        for lane in lanes.iter() {
            if let Ok(room) = Arc::clone(&lane.free).try_acquire_owned() {
                return Ok(StreamSlot { client: lane.client.clone(), _room: Some(room) });
            }
        }
        let lane =
            Lane { client: client(way, Traffic::Watches)?, free: Arc::new(Semaphore::new(LANE_STREAMS_MAX)) };
        let room = Arc::clone(&lane.free).try_acquire_owned().ok();
        lanes.push(lane.clone());
        Ok(StreamSlot { client: lane.client, _room: room })
    }

    /// A client with connections of its own for one request that becomes something else.
    pub(crate) fn upgrade_client(&self) -> Result<kube::Client, ConnectError> {
        match &self.shared.streams {
            Streams::Lanes { way, .. } => client(way, Traffic::Upgrades),
            Streams::Service => Ok(self.shared.calls.clone()),
        }
    }

    pub(crate) fn call_client(&self) -> &kube::Client {
        &self.shared.calls
    }

    /// How long the server may work at a request at most.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.shared.patience
    }

    pub(crate) fn impersonation(&self) -> Option<&HeaderMap> {
        self.impersonation.as_deref()
    }
}

/// One HTTP client with connections of its own.
fn client(way: &Way, traffic: Traffic) -> Result<kube::Client, ConnectError> {
    let config = &way.config;
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    http.set_connect_timeout(way.limits.tcp_connect);
    http.set_keepalive(way.limits.tcp_keep_alive);
    let Some(proxy) = &config.proxy_url else { return client_for(way, http, traffic) };
    match proxy.scheme_str() {
        Some("socks5") => client_for(way, SocksV5::new(proxy.clone(), http), traffic),
        Some("http") => client_for(way, Tunnel::new(proxy.clone(), http), traffic),
        Some("https") => {
            let to_proxy = config
                .rustls_https_connector_with_connector(http.map_response(announce))
                .map_err(|error| ConnectError::Credentials(Box::new(error)))?;
            let to_proxy = Handshake::new(to_proxy, way.limits.tls_handshake);
            client_for(way, Tunnel::new(proxy.clone(), to_proxy), traffic)
        }
        other => Err(ConnectError::ProxyScheme { scheme: other.unwrap_or("").to_owned() }),
    }
}

/// Which traffic a client carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    /// Requests somebody waits for.
    Calls,
    /// Watches, whose small events may arrive together.
    Watches,
    /// Requests that become something else, which HTTP/2 does not have.
    Upgrades,
}

fn client_for<C>(way: &Way, connector: C, traffic: Traffic) -> Result<kube::Client, ConnectError>
where
    C: tower::Service<http::Uri> + Clone + Send + Sync + 'static,
    C::Response: hyper::rt::Read + hyper::rt::Write + connect::Connection + Send + Unpin + 'static,
    C::Future: Send + 'static,
    C::Error: Into<BoxError> + 'static,
{
    match traffic {
        Traffic::Calls | Traffic::Upgrades => client_over(way, connector.map_response(announce), traffic),
        Traffic::Watches => {
            let calm = connector.map_response(|stream| TokioIo::new(Calm::new(TokioIo::new(stream))));
            client_over(way, calm.map_response(announce), traffic)
        }
    }
}

fn client_over<C>(way: &Way, connector: C, traffic: Traffic) -> Result<kube::Client, ConnectError>
where
    C: tower::Service<http::Uri> + Clone + Send + Sync + 'static,
    Handshake<hyper_rustls::HttpsConnector<C>>: Connect + Clone + Send + Sync + 'static,
{
    let credentials = |error| ConnectError::Credentials(Box::new(error));
    let config = &way.config;
    let transport = Arc::new(Transport::new(way, connector, traffic)?);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(credentials)?)
        .layer(config.extra_headers_layer().map_err(credentials)?)
        .map_err(BoxError::from)
        .service(tower::service_fn(move |request: Request<Body>| {
            let transport = Arc::clone(&transport);
            async move { transport.send(request).await }
        }));
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

type HttpClient<C> = hyper_util::client::legacy::Client<Handshake<hyper_rustls::HttpsConnector<C>>, Body>;

/// Sends requests, with the credentials of a plugin where there is one.
struct Transport<C> {
    way: Way,
    connector: C,
    traffic: Traffic,
    plain: HttpClient<C>,
    /// Connections with a client certificate that the plugin gave.
    identified: Mutex<Option<(Identity, HttpClient<C>)>>,
}

impl<C> Transport<C>
where
    C: tower::Service<http::Uri> + Clone + Send + Sync + 'static,
    Handshake<hyper_rustls::HttpsConnector<C>>: Connect + Clone + Send + Sync + 'static,
{
    fn new(way: &Way, connector: C, traffic: Traffic) -> Result<Self, ConnectError> {
        let plain = http_client(&way.config, &way.limits, connector.clone(), traffic)?;
        Ok(Self { way: way.clone(), connector, traffic, plain, identified: Mutex::default() })
    }

    async fn send(&self, mut request: Request<Body>) -> Result<Response<hyper::body::Incoming>, BoxError> {
        let Some(plugin) = &self.way.plugin else { return Ok(self.plain.request(request).await?) };
        let credential = plugin.credential().await?;
        if let Some(authorization) = credential.authorization {
            request.headers_mut().insert(http::header::AUTHORIZATION, authorization);
        }
        let client = match credential.identity {
            Some(identity) => self.identified(identity)?,
            None => self.plain.clone(),
        };
        let response = client.request(request).await?;
        if response.status() == http::StatusCode::UNAUTHORIZED {
            plugin.forget().await;
        }
        Ok(response)
    }

    fn identified(&self, identity: Identity) -> Result<HttpClient<C>, ConnectError> {
        use base64::Engine as _;
        let mut identified = self.identified.lock();
        if let Some((_, client)) = identified.as_ref().filter(|(known, _)| *known == identity) {
            return Ok(client.clone());
        }
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        let mut config = self.way.config.clone();
        config.auth_info.client_certificate_data = Some(encode(&identity.certificate));
        config.auth_info.client_key_data = Some(encode(&identity.key).into());
        let client = http_client(&config, &self.way.limits, self.connector.clone(), self.traffic)?;
        *identified = Some((identity, client.clone()));
        Ok(client)
    }
}

fn http_client<C>(
    config: &kube::Config,
    limits: &ClientLimits,
    connector: C,
    traffic: Traffic,
) -> Result<HttpClient<C>, ConnectError>
where
    C: tower::Service<http::Uri> + Clone + Send + Sync + 'static,
    Handshake<hyper_rustls::HttpsConnector<C>>: Connect + Clone + Send + Sync + 'static,
{
    let tls = config.rustls_client_config().map_err(|error| ConnectError::Credentials(Box::new(error)))?;
    let mut builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let parsed = rustls::pki_types::ServerName::try_from(name.clone())
            .map_err(|_invalid| ConnectError::ServerName { name: name.clone() })?;
        builder = builder.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(parsed));
    }
    let connector = match traffic {
        Traffic::Calls | Traffic::Watches => builder.enable_all_versions().wrap_connector(connector),
        Traffic::Upgrades => builder.enable_http1().wrap_connector(connector),
    };
    let connector = Handshake::new(connector, limits.tls_handshake);
    Ok(hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(limits.idle_connections.unwrap_or(usize::MAX))
        .pool_idle_timeout(limits.idle)
        .http2_initial_stream_window_size(STREAM_WINDOW_BYTES)
        .http2_initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build::<_, Body>(connector))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn sty_73_a_function_can_be_the_server() {
        let answer = async |request: Request<Bytes>| {
            if request.uri().path() == "/broken" {
                return Err(BoxError::from("connection reset"));
            }
            let text = format!("{} {}", request.uri(), request.headers()["impersonate-user"].to_str()?);
            Ok(Response::new(http_body_util::Full::new(Bytes::from(text))))
        };
        let connection = Connection::over("https://kubernetes.default.svc/", answer);
        assert_eq!(connection.server(), "https://kubernetes.default.svc");
        let identity = Impersonation { user: "me".to_owned(), groups: Vec::new() };
        let connection = connection.impersonating(&identity).unwrap();
        let get = |path: &str| Call::get("test", path, Duration::from_secs(1));
        assert_eq!(connection.call(&get("/a?b=c")).await.unwrap().bytes, "/a?b=c me");
        assert_eq!(connection.call(&get("/broken")).await.err().map(|error| error.code()), Some(0));
        let slots: Vec<_> = (0..1000).map(|_| connection.stream_slot().unwrap()).collect();
        let mut body = connection.open_stream(&slots[999], &get("/w")).await.unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "/w me");
    }

    /// REP-108: what the environment bounds is bounded, and is told to the server where it is about its work.
    #[tokio::test]
    async fn rep_108_limits_of_the_environment_reach_the_connections() {
        let of = async |server: &str, name: &str, value: &str| {
            let environment = [(name.to_owned(), value.to_owned())].into();
            let policy = PluginPolicy { programs: None, environment };
            Connection::from_cluster_secret(server, r#"{"tlsClientConfig": {"insecure": true}}"#, &policy)
                .await
                .unwrap()
        };
        let get = |path: &str| Call::get("test", path, Duration::from_mins(1));
        let fake = crate::fake::Fake::start(|_, _| crate::fake::Reply::json("{}")).await;
        let told = of(fake.connection.server(), "ARGOCD_K8S_SERVER_SIDE_TIMEOUT", "1500ms").await;
        told.call(&get("/version")).await.unwrap();
        told.call(&get("/api?limit=1")).await.unwrap();
        drop(told.open_stream(&told.stream_slot().unwrap(), &get("/w?watch=true")).await.unwrap());
        fake.connection.call(&get("/free")).await.unwrap();
        let asked = [
            "GET /version?timeout=1500ms",
            "GET /api?limit=1&timeout=1500ms",
            "GET /w?watch=true",
            "GET /free",
        ];
        assert_eq!(fake.requests(), asked);

        // Somebody takes connections, and says nothing.
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = format!("https://{}", listener.local_addr().unwrap());
        let impatient = of(&silent, "ARGOCD_K8S_TLS_HANDSHAKE_TIMEOUT", "30ms").await;
        let error = impatient.call(&get("/version")).await.err().unwrap();
        assert!(crate::error_chain(&error).contains("no TLS handshake within 30ms"), "{error:?}");
        let impatient = of(&silent, "ARGOCD_K8S_SERVER_SIDE_TIMEOUT", "30ms").await;
        let error = impatient.call(&get("/version")).await.err().unwrap();
        assert!(
            matches!(error, crate::ApiError::Timeout { after, .. } if after.as_millis() == 30),
            "{error:?}"
        );
    }
}
