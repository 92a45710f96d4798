//! A demo at work: its parts, in the order in which they start and end.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use serde_json::{Value, json};
use tiphys_api::settings::ClientLimits;
use tiphys_cluster::{ApplyMethod, ApplyOptions, Connection, Discovery, Target, Writer};
use tiphys_control::http::Endpoints;
use tiphys_control::{Controller, ControllerOptions};
use tiphys_object::{Gvk, ResourceKey};
use tiphys_policy::permit::Permit;
use tiphys_server::process::Server;
use tiphys_service::account::INITIAL_SECRET;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::applications::{self, All, application_gvk};
use super::cluster::{self, Cluster};
use super::directory::Directory;
use super::git_server::{GitServer, PATH};
use super::options::Start;
use super::repository::Repository;
use super::scenario::{NAMESPACE, Scenario};
use super::verbs::Running;
use super::{Paths, control, port, progressive};
use tiphys_process::api_server;

/// Time until every Application was compared once.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time that requests to the Git server have to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval at which the repository is looked at when nothing was announced.
const POLL: &str = "10s";

/// A running demo.
pub(crate) struct Live {
    cluster: Cluster,
    controller: Controller,
    server: GitServer,
    api: Server,
    login: String,
    tasks: TaskTracker,
    cancel: CancellationToken,
    shown: watch::Receiver<All>,
    url: String,
    running: Running,
    scenario: Scenario,
    is_new: bool,
}

impl Live {
    /// Starts everything; returns when all Applications were compared once.
    pub(crate) async fn start(
        start: &Start,
        scenario: Scenario,
        directory: &mut Directory,
    ) -> anyhow::Result<Self> {
        let paths = Paths { root: directory.path().to_owned() };
        let record = directory.record().cloned();
        let former = record.as_ref().and_then(|record| port_of(&record.repository));
        let listener = port::listen(start.address, start.port, former).await?;
        let url = repository_url(listener.local_addr()?);
        let seed = record.as_ref().map_or_else(new_seed, |record| record.seed);
        if record.is_none() {
            directory.write(scenario, seed, &url, false)?;
        }
        let repository = Repository::new(paths.git().join("demo.git"));
        let server = GitServer::new(paths.git(), repository.clone(), &url);
        let endpoints = Endpoints::new();
        let api = serve(listener, &endpoints, &server);
        let data = (!directory.is_temporary()).then(|| paths.cluster());
        let options = cluster::Options { seed, data: data.as_deref(), speed: start.speed };
        let former_url = record.as_ref().map(|record| record.repository.as_str());
        let cluster = match former_url {
            None => tokio::try_join!(Cluster::start(&options), repository.create(scenario, &url))?.0,
            Some(former) => {
                // A directory that the cluster refuses is left as it is.
                let cluster = Cluster::start(&options).await?;
                if former != url {
                    repository.readdress(former, &url).await?;
                }
                cluster
            }
        };
        cluster.write_kubeconfig(&paths.kubeconfig())?;
        let connection =
            Connection::from_kubeconfig(Some(&paths.kubeconfig()), None, ClientLimits::default()).await?;
        let discovery = Discovery::new(connection.clone());
        let writer = Writer::new(connection.clone(), discovery.clone());
        install(&writer).await.context("the embedded API refuses the installation")?;
        // Before the controller looks: it shall see no Application with a former address.
        discovery.refresh().await?;
        let mut names: Vec<_> = scenario.names().into_iter().map(str::to_owned).collect();
        match former_url {
            None => create(&writer, scenario, &url).await?,
            Some(former) => names = readdress(&connection, &discovery, &writer, former, &url).await?,
        }
        let surroundings = tiphys_process::worker::surroundings();
        let controller = Controller::start(ControllerOptions {
            namespace: NAMESPACE.to_owned(),
            connection: connection.clone(),
            cache_dir: paths.cache(),
            own_dirs: vec![directory.path().to_owned()],
            env: environment(),
            read_only: false,
            lease: None,
            application_sets: true,
            workers: 0,
            surroundings: surroundings.clone(),
        })
        .await?;
        server.follow(controller.clone()).await?;
        endpoints.ready(controller.clone());
        let place = api_server::Place {
            connection: connection.clone(),
            namespace: NAMESPACE.to_owned(),
            env: environment(),
            read_only: false,
            insecure: true,
            makes_certificate: false,
            // Where they are in a pod, anybody could put some here.
            extensions: None,
            clock: surroundings.clock,
            jitter: surroundings.random.jitter(),
        };
        api_server::start(&api, &controller, place).await?;
        let login = login(&writer, &url).await?;
        let (tasks, cancel) = (TaskTracker::new(), CancellationToken::new());
        let shown = applications::follow(&connection, &discovery, &tasks, &cancel).await?;
        applications::compared(shown.clone(), &names, PATIENCE).await?;
        directory.write(scenario, seed, &url, true)?;
        let running = Running {
            repository,
            server: server.clone(),
            writer,
            url: url.clone(),
            applications: shown.clone(),
        };
        let socket = control::listen(directory.path())?;
        tasks.spawn(control::serve(socket, running.clone(), cancel.clone()));
        let is_new = record.is_none();
        cluster.set_faults(seed, start.faults);
        Ok(Self {
            cluster,
            controller,
            server,
            api,
            login,
            tasks,
            cancel,
            shown,
            url,
            running,
            scenario,
            is_new,
        })
    }

    /// Address of the repository.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The command that logs in to the API.
    pub(crate) fn login(&self) -> &str {
        &self.login
    }

    /// Begins to show what happens, once the user knows where everything is.
    /// `program` and `data` are what commands to copy begin and end with.
    pub(crate) fn tell(&self, program: &str, data: &str) {
        if std::io::stderr().is_terminal() {
            let (feed, cancel) = (applications::feed(self.shown.clone()), self.cancel.clone());
            self.tasks.spawn(async move {
                tokio::select! {
                    () = feed => {}
                    () = cancel.cancelled() => {}
                }
            });
        }
        if self.scenario == Scenario::Progressive && self.is_new {
            let story = progressive::tell(self.running.clone(), program.to_owned(), data.to_owned());
            let cancel = self.cancel.clone();
            self.tasks.spawn(async move {
                if let Some(Err(error)) = cancel.run_until_cancelled(story).await {
                    tracing::warn!(error = format!("{error:#}"), "the story ends early");
                }
            });
        }
        if self.scenario == Scenario::Drift && self.is_new {
            let (running, shown, cancel) = (self.running.clone(), self.shown.clone(), self.cancel.clone());
            self.tasks.spawn(async move {
                tokio::select! {
                    () = first_drift(running, shown) => {}
                    () = cancel.cancelled() => {}
                }
            });
        }
    }

    /// Ends everything: first the work, then what it works on.
    pub(crate) async fn stop(self) {
        self.cancel.cancel();
        self.controller.stop().await;
        if tokio::time::timeout(STOP_TIMEOUT, self.api.stop()).await.is_err() {
            tracing::debug!("requests to the API are cut off");
        }
        if tokio::time::timeout(STOP_TIMEOUT, self.server.stop()).await.is_err() {
            tracing::debug!("requests to the Git server are cut off");
        }
        self.tasks.close();
        self.tasks.wait().await;
        self.cluster.stop();
    }
}

/// The scenario `drift` begins with one drift each: one is healed, one is shown.
async fn first_drift(running: Running, mut shown: watch::Receiver<All>) {
    let is_well = |all: &All| all.values().all(|app| app.sync == "Synced" && app.health == "Healthy");
    if shown.wait_for(is_well).await.is_err() {
        return;
    }
    for app in Scenario::Drift.names() {
        let request = control::Request { app: app.to_owned(), action: control::Action::Drift };
        if let Err(error) = running.act(&request).await {
            tracing::warn!(app, error = format!("{error:#}"), "the first drift failed");
        }
    }
}

/// One port for everything that speaks HTTP.
fn serve(listener: TcpListener, endpoints: &Endpoints, server: &GitServer) -> Server {
    let router = Router::new().merge(tiphys_control::http::router(endpoints.clone())).merge(server.router());
    let api = api_server::open(&router, &["/git/"], true);
    let counts = api.counts().clone();
    endpoints.with_metrics(move || counts.text());
    api.listen(listener);
    api
}

/// How one logs in: with the password of the first start, as long as it is there.
async fn login(writer: &Writer, url: &str) -> anyhow::Result<String> {
    let place = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let secret = Target::new(Gvk::new("", "v1", "Secret"), NAMESPACE, INITIAL_SECRET);
    let stored = writer.get(&secret).await?;
    let password =
        stored.and_then(|object| tiphys_installation::objects::decoded(&object).remove("password"));
    let password = password.map(|password| format!(" --password {password}")).unwrap_or_default();
    Ok(format!("argocd login {place} --plaintext --username admin{password}"))
}

/// What every installation has: namespace, settings and custom resources.
async fn install(writer: &Writer) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    let settings = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "argocd-cm",
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/part-of": "argocd"},
        },
        // A new installation has an ID from the beginning (TRK-67).
        "data": {
            "timeout.reconciliation": POLL,
            "timeout.reconciliation.jitter": "0s",
            "installationID.autoGenerate": "true",
        },
    });
    let parameters = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "argocd-cmd-params-cm",
            "namespace": NAMESPACE,
            "labels": {"app.kubernetes.io/part-of": "argocd"},
        },
        "data": {"applicationsetcontroller.enable.progressive.syncs": "true"},
    });
    // Those of an earlier run may have been changed since.
    for manifest in [namespace, settings, parameters] {
        if writer.get(&Target::of(&manifest)).await?.is_none() {
            writer.create(&Permit::operator(ResourceKey::of(&manifest)), &manifest).await?;
        }
    }
    let definitions = tiphys_api::crd::manifests();
    futures::future::try_join_all(definitions.iter().map(|manifest| define(writer, manifest))).await?;
    Ok(())
}

/// Creates a custom resource definition, or brings it to the state of this version.
async fn define(writer: &Writer, manifest: &Value) -> anyhow::Result<()> {
    if writer.get(&Target::of(manifest)).await?.is_none() {
        writer.create(&Permit::operator(ResourceKey::of(manifest)), manifest).await?;
    } else {
        let options = ApplyOptions { method: ApplyMethod::Replace, ..ApplyOptions::default() };
        writer.apply(&Permit::operator(ResourceKey::of(manifest)), manifest, &options).await?;
    }
    Ok(())
}

async fn create(writer: &Writer, scenario: Scenario, url: &str) -> anyhow::Result<()> {
    for object in scenario.objects(url)? {
        writer.create(&Permit::operator(ResourceKey::of(&object)), &object).await?;
    }
    Ok(())
}

/// Lets Applications of an earlier run follow the repository's new address; returns the names of all.
async fn readdress(
    connection: &Connection,
    discovery: &Discovery,
    writer: &Writer,
    former: &str,
    url: &str,
) -> anyhow::Result<Vec<String>> {
    // What a set makes follows the set.
    if former != url && writer.get(&progressive::set_target()).await?.is_some() {
        let target = progressive::set_target();
        let patch = json!({"spec": {"template": {"spec": {"source": {"repoURL": url}}}}});
        writer.merge_patch(&Permit::operator(target.key()), &target, None, &patch).await?;
    }
    let all = applications::list(connection, discovery).await?;
    for app in &all {
        let source = app.pointer("/spec/source/repoURL").and_then(Value::as_str);
        if former != url && source == Some(former) {
            let target = Target::new(application_gvk(), NAMESPACE, name(app));
            let patch = json!({"spec": {"source": {"repoURL": url}}});
            writer.merge_patch(&Permit::operator(target.key()), &target, None, &patch).await?;
        }
    }
    Ok(all.iter().map(|app| name(app).to_owned()).collect())
}

fn name(object: &Value) -> &str {
    object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("")
}

/// The controller's environment: nothing of the user's settings, only where programs are.
fn environment() -> BTreeMap<String, String> {
    let path = std::env::var_os("PATH").unwrap_or_default().to_string_lossy().into_owned();
    BTreeMap::from([("PATH".to_owned(), path)])
}

/// The repository's address as the Applications name it.
fn repository_url(address: SocketAddr) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    format!("http://{}{PATH}", SocketAddr::new(ip, address.port()))
}

/// The port in a repository's address.
fn port_of(url: &str) -> Option<u16> {
    url.strip_prefix("http://")?.strip_suffix(PATH)?.parse::<SocketAddr>().ok().map(|at| at.port())
}

fn new_seed() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_nanosecond()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_1000_the_address_of_the_repository_leads_back_to_its_port() {
        for (address, expected) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/git/demo.git"),
            ("0.0.0.0:81", "http://127.0.0.1:81/git/demo.git"),
            ("[::1]:82", "http://[::1]:82/git/demo.git"),
        ] {
            let address: SocketAddr = address.parse().unwrap();
            let url = repository_url(address);
            assert_eq!(url, expected);
            assert_eq!(port_of(&url), Some(address.port()));
        }
        assert_eq!(port_of("https://elsewhere/git/demo.git"), None);
    }
}
