//! `tiphys run`, and what `tiphys serve` and components start: the roles, their endpoints, and their end in order
//! (CLI-1010..1012).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use clap::Parser;
use serde_json::Value;
use tiphys_api::settings::ClientLimits;
use tiphys_cluster::{Connection, Discovery, KubeOverrides, Target, Writer};
use tiphys_control::http::Endpoints;
use tiphys_control::metrics::Group;
use tiphys_control::{Controller, ControllerOptions};
use tiphys_object::{Gvk, ResourceKey};
use tiphys_policy::permit::Permit;
use tiphys_server::listen::OwnHosts;
use tiphys_server::process::ServerError;
use tokio::net::TcpListener;

use tiphys_process::api_server;
use tiphys_process::runtime::{block_on, fail, init_log};

/// Namespace where nothing else says one.
pub(crate) const NAMESPACE: &str = "argocd";
/// The reference's controller of `ApplicationSets`.
const SET_CONTROLLER: &str = "argocd-applicationset-controller";
/// The reference's controller of Applications, and what it may be.
const CONTROLLER: &str = "argocd-application-controller";
const CONTROLLER_KINDS: [&str; 2] = ["StatefulSet", "Deployment"];
/// Where extensions of the web interface are in a pod (API-17).
const EXTENSIONS: &str = "/tmp/extensions";

/// Time for a first list of Applications, before somebody is told that the web interface is there.
const FIRST_LIST: Duration = Duration::from_secs(30);

/// Keep clusters equal to what Git declares, in the foreground.
#[derive(Parser, Debug)]
#[command(name = "tiphys run", disable_version_flag = true)]
pub(crate) struct Run {
    /// Kubeconfig file; without it `KUBECONFIG`, then the usual place, then the pod's account
    #[arg(long)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig
    #[arg(long)]
    pub(crate) context: Option<String>,
    /// Namespace with the Applications and settings: argocd, of a pod of `serve` its own
    #[arg(short, long)]
    pub(crate) namespace: Option<String>,
    /// Port of the API, and of the webhook, health and metrics endpoints
    #[arg(long, default_value_t = 8080)]
    pub(crate) port: u16,
    /// Address of these endpoints: 127.0.0.1, of `serve` 0.0.0.0
    #[arg(long)]
    pub(crate) address: Option<IpAddr>,
    /// Serve the API in plain text, whatever certificate the installation has
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Look, but write nothing
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Do not hold the lease that keeps a second process from writing; for where none can run
    #[arg(long)]
    pub(crate) no_lease: bool,
    /// Whether to install the custom resource definitions where they are missing
    #[arg(long, default_value = "ask", value_parser = ["ask", "yes", "no"])]
    pub(crate) install_crds: String,
    /// Directory of the git cache
    #[arg(long)]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Directories of this machine whose git repositories Applications may name, separated by commas
    #[arg(long, value_name = "ROOT", value_delimiter = ',')]
    pub(crate) local_repositories: Vec<String>,
    /// Run although an Argo CD application controller runs in the namespace
    #[arg(long)]
    pub(crate) force: bool,
    /// Format of the log: json or text, which is the default
    #[arg(long, value_parser = ["json", "text"])]
    pub(crate) logformat: Option<String>,
    /// Level of the log; info by default
    #[arg(long, value_parser = ["debug", "info", "warn", "error"])]
    pub(crate) loglevel: Option<String>,
    /// What counts instead of the kubeconfig
    #[arg(skip)]
    pub(crate) overrides: KubeOverrides,
    /// Where the API is for the one person who started it; for nobody alone without one
    #[arg(skip)]
    pub(crate) dashboard: Option<String>,
}

impl Run {
    /// A process that answers there, and everything else as it is by itself; definitions are not installed.
    pub(crate) fn at(namespace: String, address: IpAddr, port: u16) -> Self {
        Self {
            kubeconfig: None,
            context: None,
            namespace: Some(namespace),
            port,
            address: Some(address),
            insecure: false,
            read_only: false,
            no_lease: false,
            install_crds: "no".to_owned(),
            cache_dir: None,
            local_repositories: Vec::new(),
            force: false,
            logformat: None,
            loglevel: None,
            overrides: KubeOverrides::default(),
            dashboard: None,
        }
    }

    fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(NAMESPACE)
    }

    fn address(&self) -> IpAddr {
        self.address.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Begins the log as the flags say.
    pub(crate) fn begin_log(&self) {
        init_log(self.loglevel.as_deref().unwrap_or("info"), self.logformat.as_deref().unwrap_or("text"));
    }
}

/// A port for health and metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MetricsPort {
    /// Its address; that of the API where it has none of its own.
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    /// The families of `/metrics`.
    pub(crate) groups: Vec<Group>,
}

/// What a process does: nothing, unless it is said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles {
    /// Ports beside the first one.
    pub(crate) metrics: Vec<MetricsPort>,
    /// A port for webhooks of sets.
    pub(crate) set_webhooks: Option<u16>,
    /// Whether it answers the API.
    pub(crate) has_api: bool,
    /// Whether it works on `ApplicationSets`.
    pub(crate) has_sets: bool,
    /// Whether the controller is there for the API alone: it looks, and writes nothing.
    pub(crate) only_looks: bool,
    /// Whether it stands in the place of a component of Argo CD, under whose name nobody else runs then.
    pub(crate) is_component: bool,
}

/// `tiphys run`.
pub(crate) fn run(args: &[OsString]) -> ExitCode {
    let roles = Roles { has_api: true, has_sets: true, ..Roles::default() };
    match tiphys_process::arguments::parse::<Run>("tiphys run", args) {
        Ok(run) => start(run, roles),
        Err(code) => code,
    }
}

/// `admin dashboard` (CLI-903): the API without logins, beside a controller that only looks; what it may do is what the
/// kubeconfig may.
pub(crate) fn dashboard(panel: tiphys_cli::Panel) -> u8 {
    init_log(if panel.is_verbose { "debug" } else { "error" }, "text");
    let address = match panel.address.as_str() {
        "localhost" => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        text => text.parse().ok(),
    };
    let Some(address) = address else {
        fail(&format!("--address: {:?} is no address; name one as 127.0.0.1", panel.address), 20);
        return 20;
    };
    if !address.is_loopback() {
        tracing::error!(%address, "whoever reaches this address may do what your kubeconfig may, without a login");
    }
    let run = Run {
        kubeconfig: panel.kubeconfig,
        context: panel.context,
        insecure: true,
        overrides: panel.overrides,
        dashboard: Some(format!("http://{}:{}", panel.address, panel.port)),
        ..Run::at(panel.namespace, address, panel.port)
    };
    let mut environment = environment(&run);
    environment.insert("ARGOCD_SERVER_DISABLE_AUTH".to_owned(), "true".to_owned());
    let roles = Roles { has_api: true, has_sets: true, only_looks: true, ..Roles::default() };
    u8::from(start_as(run, roles, environment) != ExitCode::SUCCESS) * 20
}

fn start(run: Run, roles: Roles) -> ExitCode {
    run.begin_log();
    let environment = environment(&run);
    start_as(run, roles, environment)
}

/// The same, where the log has begun, with this environment.
pub(crate) fn start_as(run: Run, roles: Roles, environment: BTreeMap<String, String>) -> ExitCode {
    // What is asked of TLS counts before anything is done (API-5).
    match tiphys_server::process::check_tls(&environment) {
        Err(ServerError::Listed(names)) if roles.has_api => return crate::print(&(names.join("\n") + "\n")),
        Err(error) if roles.has_api => return fail(&error.to_string(), 20),
        _ => {}
    }
    block_on(main(run, roles, environment))
}

/// What the port of a process answers besides the API. One that only looks tells nobody of a webhook.
fn router(endpoints: &Endpoints, only_looks: bool) -> axum::Router {
    let router = tiphys_control::http::router(endpoints.clone());
    if !only_looks {
        return router;
    }
    let elsewhere = || async {
        let text = "webhooks are acted on by the process of argocd-application-controller: send them to its port 8082\n";
        (StatusCode::SERVICE_UNAVAILABLE, text)
    };
    axum::Router::new().route("/api/webhook", axum::routing::any(elsewhere)).fallback_service(router)
}

async fn main(run: Run, roles: Roles, environment: BTreeMap<String, String>) -> anyhow::Result<()> {
    let reads = run.read_only || roles.only_looks;
    let endpoints = Endpoints::new();
    let (address, namespace) = (SocketAddr::new(run.address(), run.port), run.namespace());
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}; choose another port with --port"))?;
    let mut servers = Vec::new();
    let api = if roles.has_api {
        let router = router(&endpoints, roles.only_looks);
        let api = api_server::open(&router, &[], address.ip().is_loopback());
        let counts = api.counts().clone();
        endpoints.with_metrics(move || counts.text());
        api.listen(listener);
        Some(api)
    } else {
        servers.push(serve_http(listener, tiphys_control::http::router(endpoints.clone())));
        None
    };
    let others = roles.metrics.iter().filter(|other| other.port != run.port);
    let others = others.map(|other| {
        let router = tiphys_control::http::metrics_router(endpoints.clone(), other.groups.clone());
        (SocketAddr::new(other.address.unwrap_or(address.ip()), other.port), router)
    });
    let for_sets = roles.set_webhooks.map(|port| {
        let router = tiphys_control::http::set_router(endpoints.clone());
        (SocketAddr::new(address.ip(), port), router)
    });
    for (address, router) in others.chain(for_sets) {
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        servers.push(serve_http(listener, router));
    }
    let way = (run.kubeconfig.as_deref(), run.context.as_deref());
    let connection = connect_with(way, &run.overrides, &environment).await?;
    let discovery = Discovery::new(connection.clone());
    let application_sets = prepare(&run, &roles, &connection, &discovery).await? && roles.has_sets;
    let surroundings = tiphys_process::worker::surroundings();
    let options = ControllerOptions {
        namespace: namespace.to_owned(),
        connection: connection.clone(),
        cache_dir: cache_dir(&run)?,
        own_dirs: Vec::new(),
        env: environment.clone(),
        read_only: reads,
        lease: (!run.no_lease && !reads).then(identity),
        application_sets,
        workers: 0,
        surroundings: surroundings.clone(),
    };
    let controller = tokio::select! {
        started = Controller::start(options) => started?,
        () = stop_signal() => return Ok(()),
    };
    if let Some(api) = &api {
        let place = api_server::Place {
            connection,
            namespace: namespace.to_owned(),
            env: environment,
            read_only: run.read_only,
            insecure: run.insecure,
            // A port that nobody else reaches needs none.
            makes_certificate: roles.is_component || !address.ip().is_loopback(),
            extensions: Some(EXTENSIONS.into()),
            clock: surroundings.clock,
            jitter: surroundings.random.jitter(),
        };
        // What runs in the clusters does not depend on who can ask about it.
        if let Err(error) = api_server::start(api, &controller, place).await {
            if roles.only_looks || run.dashboard.is_some() {
                return Err(error.context("the API server cannot start"));
            }
            tracing::error!(
                error = format!("{error:#}"),
                "the API server cannot start; the controller works without it"
            );
        }
    }
    if roles.only_looks {
        tracing::info!(
            "this process answers the API and writes nothing to clusters: actions, changes and terminals of single \
             resources, and webhooks, are for `tiphys run` or `tiphys serve`, which do everything in one process"
        );
    }
    endpoints.ready(controller.clone());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        namespace,
        address = %address,
        read_only = reads,
        "Tiphys is running"
    );
    let announce = async {
        if let (Some(address), Some(api)) = (&run.dashboard, &api) {
            api.knows_applications(FIRST_LIST).await;
            crate::print(&format!("Argo CD UI is available at {address}\n"));
        }
        std::future::pending().await
    };
    let lost = tokio::select! {
        lost = announce => lost,
        () = stop_signal() => false,
        () = controller.lost() => true,
    };
    tracing::info!("stopping");
    let stop_api = async {
        if let Some(api) = api {
            api.stop().await;
        }
    };
    // No request is taken any more while the rounds end.
    tokio::join!(stop_api, controller.stop());
    for server in servers {
        server.abort();
    }
    if lost {
        bail!("another process has taken the lease of the installation; of two only one works");
    }
    Ok(())
}

/// A name that no other process has. A container that starts again in its pod is the same one: what ran there before
/// is dead.
fn identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && !host.is_empty() {
        return host.to_owned();
    }
    let chance = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), 0_u8);
    format!("{host}_{}_{:x}", std::process::id(), chance)
}

/// The environment, with the settings that the command line overrides.
pub(crate) fn environment(run: &Run) -> BTreeMap<String, String> {
    let mut environment = crate::environment();
    if !run.local_repositories.is_empty() {
        let variable = tiphys_api::settings::LOCAL_REPOSITORIES_VARIABLE.to_owned();
        environment.insert(variable, run.local_repositories.join(","));
    }
    environment
}

/// Serves a router; on loopback for requests that name loopback (CLI-1000).
fn serve_http(listener: TcpListener, router: axum::Router) -> tokio::task::JoinHandle<()> {
    let listening = listener.local_addr().ok().map(|address| address.ip());
    let router = router.layer(axum::middleware::from_fn(
        move |request: axum::extract::Request, next: axum::middleware::Next| {
            let is_named = |ip| OwnHosts::default().are_named(ip, request.uri(), request.headers());
            let is_ours = listening.is_none_or(is_named);
            async move {
                if is_ours {
                    next.run(request).await
                } else {
                    StatusCode::MISDIRECTED_REQUEST.into_response()
                }
            }
        },
    ));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::error!(%error, "the HTTP endpoints ended");
        }
    })
}

/// A workload of the reference that is there and not scaled to 0.
async fn running(writer: &Writer, kind: &str, namespace: &str, name: &str) -> anyhow::Result<Option<Value>> {
    let found = writer.get(&Target::new(Gvk::new("apps", "v1", kind), namespace, name)).await?;
    let value = found.map(|object| object.to_value()).transpose()?;
    Ok(value.filter(|value| value.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0)))
}

/// Whether a workload runs the image of the application controller: then it is this program, which leaves the work to the
/// controller.
async fn is_of_controller(
    writer: &Writer,
    namespace: &str,
    workload: Option<&Value>,
) -> anyhow::Result<bool> {
    let Some(workload) = workload else { return Ok(false) };
    for kind in CONTROLLER_KINDS {
        if let Some(own) = running(writer, kind, namespace, CONTROLLER).await? {
            return Ok(has_image_of(workload, &own));
        }
    }
    Ok(false)
}

/// Whether a container of a workload has the image of one of another.
fn has_image_of(workload: &Value, other: &Value) -> bool {
    let images = |of: &Value| -> Vec<String> {
        let containers = of.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let image = |container: &Value| Some(container.get("image")?.as_str()?.to_owned());
        containers.into_iter().flatten().filter_map(image).collect()
    };
    let known = images(other);
    images(workload).iter().any(|image| known.contains(image))
}

/// The way to the cluster: as the flags say, else as `KUBECONFIG` does, else that of the pod.
pub(crate) async fn connect(
    (kubeconfig, context): (Option<&Path>, Option<&str>),
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<Connection> {
    connect_with((kubeconfig, context), &KubeOverrides::default(), environment).await
}

/// The same, with what counts instead of the kubeconfig.
async fn connect_with(
    (kubeconfig, context): (Option<&Path>, Option<&str>),
    overrides: &KubeOverrides,
    environment: &BTreeMap<String, String>,
) -> anyhow::Result<Connection> {
    let limits = ClientLimits::of(environment);
    let in_pod = environment.contains_key("KUBERNETES_SERVICE_HOST");
    let named = kubeconfig.is_some() || context.is_some() || environment.contains_key("KUBECONFIG");
    if in_pod && !named {
        return Connection::in_cluster(limits).await.context("cannot use the pod's service account");
    }
    Connection::from_kubeconfig_with(kubeconfig, context, overrides, limits)
        .await
        .context("cannot use the kubeconfig; name one with --kubeconfig or KUBECONFIG")
}

/// Refuses where another controller works, and sees that the definitions are there. Says whether `ApplicationSets` are ours:
/// two controllers that make their Applications would work against each other.
async fn prepare(
    run: &Run,
    roles: &Roles,
    connection: &Connection,
    discovery: &Discovery,
) -> anyhow::Result<bool> {
    let (reads, namespace) = (run.read_only || roles.only_looks, run.namespace());
    let kinds =
        discovery.kinds().await.map_err(|error| anyhow!("cannot reach {}: {error}", connection.server()))?;
    let writer = Writer::new(connection.clone(), discovery.clone());
    let mut application_sets = true;
    if !run.force && !reads {
        let sets = running(&writer, "Deployment", namespace, SET_CONTROLLER).await?;
        let is_own = roles.is_component && is_of_controller(&writer, namespace, sets.as_ref()).await?;
        if sets.is_some() && !is_own {
            tracing::warn!(
                namespace,
                "ApplicationSets are left to the Deployment {SET_CONTROLLER}, which runs here; scale it to 0 and start \
                 again, or use --force"
            );
            application_sets = false;
        }
        // Under its name that is this process; of several the lease lets one work.
        for kind in CONTROLLER_KINDS.into_iter().filter(|_| !roles.is_component) {
            if running(&writer, kind, namespace, CONTROLLER).await?.is_some() {
                bail!(
                    "an Argo CD application controller runs in namespace {namespace:?} ({kind} \
                     argocd-application-controller); scale it to 0, or use --read-only to look, or --force"
                );
            }
        }
    }
    let target = Target::new(Gvk::new("", "v1", "Namespace"), "", namespace);
    if !reads && writer.get(&target).await?.is_none() {
        if run.install_crds != "yes" {
            bail!(
                "the namespace {namespace:?} does not exist; run `kubectl create namespace {namespace}`, name another one \
                 with -n, or start with --install-crds=yes"
            );
        }
        let manifest =
            serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        writer.create(&Permit::operator(ResourceKey::of(&manifest)), &manifest).await?;
    }
    let served = |kind: &str| kinds.resource(&Gvk::new("argoproj.io", "v1alpha1", kind)).is_some();
    if ["Application", "AppProject", "ApplicationSet"].into_iter().all(served) {
        return Ok(application_sets);
    }
    // Definitions installed a moment ago are not in discovery yet; the controller waits for them.
    let mut installed = true;
    for name in ["applications", "appprojects", "applicationsets"] {
        let definition = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let target = Target::new(definition, "", &format!("{name}.argoproj.io"));
        installed &= writer.get(&target).await?.is_some();
    }
    if installed {
        return Ok(application_sets);
    }
    if run.install_crds == "no" || reads || !(run.install_crds == "yes" || agrees()?) {
        bail!(
            "the custom resource definitions are not installed; \
             run `tiphys install --crds-only | kubectl apply --server-side -f -` or start with --install-crds=yes"
        );
    }
    for manifest in tiphys_api::crd::manifests() {
        let options = tiphys_cluster::ApplyOptions {
            method: tiphys_cluster::ApplyMethod::ServerSide,
            ..tiphys_cluster::ApplyOptions::default()
        };
        let applied =
            writer.apply(&Permit::operator(ResourceKey::of(&manifest)), &manifest, &options).await?;
        tracing::info!(message = %applied.message, "definition installed");
    }
    discovery.refresh().await?;
    Ok(application_sets)
}

#[expect(clippy::print_stderr, reason = "a question to the person at the terminal")]
fn agrees() -> anyhow::Result<bool> {
    use std::io::IsTerminal as _;
    if !std::io::stdin().is_terminal() {
        return Ok(false);
    }
    eprint!("The custom resource definitions are not installed in this cluster. Install them? [y/n] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn cache_dir(run: &Run) -> anyhow::Result<PathBuf> {
    if let Some(dir) = &run.cache_dir {
        return Ok(dir.clone());
    }
    let base = std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")))
        .ok_or_else(|| anyhow!("no directory for the git cache; name one with --cache-dir"))?;
    // One directory per port: two processes must not share it.
    Ok(base.join("tiphys").join(format!("run-{}", run.port)))
}

pub(crate) async fn stop_signal() {
    let terminate = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => {
                signal.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminate => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cli_1_a_workload_with_the_controllers_image_is_this_program() {
        let workload = |images: &[&str]| {
            let containers: Vec<Value> = images.iter().map(|image| json!({"image": image})).collect();
            json!({"spec": {"template": {"spec": {"containers": containers}}}})
        };
        let controller = workload(&["r/tiphys:1"]);
        assert!(has_image_of(&workload(&["sidecar", "r/tiphys:1"]), &controller));
        assert!(!has_image_of(&workload(&["quay.io/argoproj/argocd:v3.6.0"]), &controller));
        assert!(!has_image_of(&json!({}), &json!({})), "what is not known is another's");
    }
}
