//! This program in the place of an Argo CD component: what a site starts that swaps the image in Argo CD's own manifests
//! (CLI-1).
//!
//! | name | here |
//! |---|---|
//! | `argocd-application-controller` | the controller: applications, `ApplicationSets`, hydration, rendering |
//! | `argocd-server` | the API server, beside a controller of its own that reads and writes nothing |
//! | `argocd-repo-server`, `argocd-commit-server`, `argocd-applicationset-controller` | nothing is left to do: the controller does it |
//! | `argocd-notifications` | not there in this version |
//! | `argocd-git-ask-pass` | of no use: `git` of a plugin is given credentials by its configuration |
//!
//! A component that has nothing to do says so, answers its probes and waits to be stopped. A container that ends would be
//! started again and again, and hold up the roll-out of a site that has not read this yet.

pub(crate) mod flags;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

use crate::run::{self, MetricsPort, NAMESPACE, Roles, Run};
use flags::{CONTROLLER, Known, SERVER, Told};
use tiphys_control::metrics::Group;
use tiphys_process::runtime::{self, fail};

/// Where the namespace of a pod stands.
const POD_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// A component of Argo CD that this program has another name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    Controller,
    Server,
    /// Done by another process, or by none.
    Idle(Idle),
    AskPass,
}

/// What is done elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    /// The port that is probed.
    port: u16,
    /// What to do about it.
    why: &'static str,
    /// Whether something is missing.
    is_missing: bool,
}

const RENDERS: &str =
    "sources are rendered in the process of argocd-application-controller; this Deployment can be removed";
const COMMITS: &str =
    "manifests are committed in the process of argocd-application-controller; this Deployment can be removed";
const SETS: &str = "ApplicationSets are worked on in the process of argocd-application-controller; this Deployment can be \
                    removed";
const NOTIFICATIONS: &str = "this version sends no notifications; leave this Deployment on Argo CD's own image, which works \
                             beside Tiphys, or scale it to 0";

impl Component {
    /// The component of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let idle = |port, why, is_missing| Some(Self::Idle(Idle { port, why, is_missing }));
        match name {
            "argocd-application-controller" => Some(Self::Controller),
            "argocd-server" => Some(Self::Server),
            "argocd-repo-server" => idle(8084, RENDERS, false),
            "argocd-commit-server" => idle(8087, COMMITS, false),
            "argocd-applicationset-controller" => idle(8080, SETS, false),
            "argocd-notifications" => idle(9001, NOTIFICATIONS, true),
            "argocd-git-ask-pass" => Some(Self::AskPass),
            _ => None,
        }
    }

    fn flags(self) -> &'static [Known] {
        match self {
            Self::Controller => CONTROLLER,
            Self::Server => SERVER,
            Self::Idle(_) | Self::AskPass => &[],
        }
    }

    /// Variables with the format and the level of the log.
    fn log_variables(self) -> (&'static str, &'static str) {
        match self {
            Self::Server => ("ARGOCD_SERVER_LOGFORMAT", "ARGOCD_SERVER_LOG_LEVEL"),
            _ => ("ARGOCD_APPLICATION_CONTROLLER_LOGFORMAT", "ARGOCD_APPLICATION_CONTROLLER_LOGLEVEL"),
        }
    }
}

/// Runs as a component.
pub(crate) fn run(name: &str, component: Component, arguments: &[OsString]) -> ExitCode {
    if component == Component::AskPass {
        return fail(
            "argocd-git-ask-pass asks an Argo CD repo-server for credentials, which there is none of here: `git` of a \
             plugin finds them in its configuration (GIT_CONFIG_*) where the plugin has provideGitCreds; do not set \
             GIT_ASKPASS",
            1,
        );
    }
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let told = flags::read(&words, component.flags());
    if told.wants_help {
        return crate::print(&help(name, component));
    }
    let mut environment = crate::environment();
    environment.extend(told.variables.clone());
    let (level, format) = log(component, &told, &environment);
    runtime::init_log(level, format);
    for (flag, why) in &told.inert {
        tracing::warn!(component = name, flag, why, "a flag has no effect");
    }
    match component {
        Component::Idle(idle) => runtime::block_on(wait(name.to_owned(), idle, told)),
        _ => run::start_as(settings(component, &told, &environment), roles(component, &told), environment),
    }
}

/// Level and format of the log: Argo CD's words, those of this program where they are others.
fn log<'a>(
    component: Component,
    told: &'a Told,
    environment: &'a BTreeMap<String, String>,
) -> (&'static str, &'static str) {
    let (format, level) = component.log_variables();
    let said = |flag: &'a Option<String>, variable: &str| {
        flag.as_deref().or_else(|| environment.get(variable).map(String::as_str)).unwrap_or_default()
    };
    let level = level_of(said(&told.loglevel, level));
    (level, if said(&told.logformat, format) == "text" { "text" } else { "json" })
}

/// A level in this program's words.
pub(crate) fn level_of(word: &str) -> &'static str {
    match word.to_ascii_lowercase().as_str() {
        "trace" | "debug" => "debug",
        "warn" | "warning" => "warn",
        "error" | "fatal" | "panic" => "error",
        _ => "info",
    }
}

/// What a process of this component is, in the words of `tiphys serve`.
fn settings(component: Component, told: &Told, environment: &BTreeMap<String, String>) -> Run {
    let address = told.address.as_deref().or_else(|| {
        let is_server = component == Component::Server;
        environment.get("ARGOCD_SERVER_LISTEN_ADDRESS").filter(|_| is_server).map(String::as_str)
    });
    let port = match component {
        Component::Server => told.port.unwrap_or(8080),
        _ => told.metrics_port.unwrap_or(8082),
    };
    let address = address.and_then(|text| text.parse().ok()).unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    Run {
        kubeconfig: told.kubeconfig.clone(),
        context: told.context.clone(),
        cache_dir: Some(cache_dir(component, environment)),
        ..Run::at(told.namespace.clone().unwrap_or_else(pod_namespace), address, port)
    }
}

fn roles(component: Component, told: &Told) -> Roles {
    match component {
        Component::Server => {
            let address = told.metrics_address.as_deref().and_then(|text| text.parse().ok());
            // What its own controller knows of applications is told by the other process.
            let groups = vec![Group::Api, Group::Info, Group::Requests];
            Roles {
                metrics: vec![MetricsPort { address, port: told.metrics_port.unwrap_or(8083), groups }],
                has_api: true,
                has_sets: true,
                only_looks: true,
                is_component: true,
                ..Roles::default()
            }
        }
        // It does the work of all others, whose metrics nobody else has.
        _ => Roles { has_sets: true, is_component: true, ..Roles::default() },
    }
}

/// The namespace of the pod.
pub(crate) fn pod_namespace() -> String {
    let text = std::fs::read_to_string(POD_NAMESPACE).unwrap_or_default();
    Some(text.trim()).filter(|text| !text.is_empty()).unwrap_or(NAMESPACE).to_owned()
}

/// A directory for the cache that can be written: containers of Argo CD's manifests have few of them.
fn cache_dir(component: Component, environment: &BTreeMap<String, String>) -> PathBuf {
    let folder = if component == Component::Server { "server" } else { "controller" };
    let home = environment.get("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let bases = environment.get("XDG_CACHE_HOME").map(PathBuf::from).into_iter().chain(home);
    let mut folders = bases.map(|base| base.join("tiphys").join(folder));
    let found = folders.find(|folder| std::fs::create_dir_all(folder).is_ok());
    found.unwrap_or_else(|| std::env::temp_dir().join("tiphys").join(folder))
}

/// Says that there is nothing to do, and answers probes until it is stopped.
async fn wait(name: String, idle: Idle, told: Told) -> anyhow::Result<()> {
    let Idle { port, why, is_missing } = idle;
    let address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), told.metrics_port.unwrap_or(port));
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    if is_missing {
        tracing::error!(component = name, "nothing is done here: {why}");
    } else {
        tracing::warn!(component = name, "nothing is done here: {why}");
    }
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(|| async { "" }))
        .fallback(move || async move { (StatusCode::NOT_FOUND, format!("nothing is done here: {why}\n")) });
    tokio::select! {
        served = axum::serve(listener, router) => served.context("the probes are answered no more"),
        () = run::stop_signal() => Ok(()),
    }
}

fn help(name: &str, component: Component) -> String {
    let about = match component {
        Component::Controller => {
            "The controller: compares and syncs applications, works on ApplicationSets, renders and hydrates."
        }
        Component::Server => {
            "The API server, beside a controller of its own that reads clusters and writes nothing to them."
        }
        Component::Idle(Idle { why, .. }) => why,
        Component::AskPass => "",
    };
    let mut text = format!("{about}\n\nUsage:\n  {name} [flags]\n");
    let known = component.flags();
    if !known.is_empty() {
        text.push_str(
            "\nFlags:\n  --namespace, --kubeconfig, --context, --address, --port, --metrics-port, --logformat, --loglevel\n",
        );
        text.extend(
            known.iter().map(|(flag, key)| format!("  --{flag}  as `{key}` of argocd-cmd-params-cm\n")),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn cli_1_names_of_components_are_those_of_argo_cd() {
        assert_eq!(Component::named("argocd-server"), Some(Component::Server));
        assert_eq!(Component::named("argocd-application-controller"), Some(Component::Controller));
        for idle in ["argocd-repo-server", "argocd-commit-server", "argocd-applicationset-controller"] {
            assert!(
                matches!(Component::named(idle), Some(Component::Idle(Idle { is_missing: false, .. }))),
                "{idle}"
            );
        }
        assert!(matches!(
            Component::named("argocd-notifications"),
            Some(Component::Idle(Idle { is_missing: true, .. }))
        ));
        for other in ["argocd", "tiphys", "argocd-linux-amd64", "", "server"] {
            assert_eq!(Component::named(other), None, "{other}");
        }
    }

    #[test]
    fn cli_1_ports_and_addresses_are_those_of_the_manifests() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        let variables = environment(&[("HOME", home), ("ARGOCD_SERVER_LISTEN_ADDRESS", "127.0.0.1")]);
        let told = Told { namespace: Some("cd".to_owned()), ..Told::default() };
        let server = settings(Component::Server, &told, &variables);
        let shown = |run: &Run| run.address.map(|address| address.to_string()).unwrap_or_default();
        assert_eq!((server.port, shown(&server).as_str()), (8080, "127.0.0.1"));
        let ports = roles(Component::Server, &told).metrics;
        assert_eq!(ports.iter().map(|port| port.port).collect::<Vec<_>>(), [8083]);
        assert!(
            !ports[0].groups.contains(&Group::Controller),
            "CTL-127: the controller tells of applications"
        );
        let controller = settings(Component::Controller, &told, &variables);
        assert_eq!((controller.port, shown(&controller).as_str()), (8082, "0.0.0.0"));
        assert_eq!(controller.namespace.as_deref(), Some("cd"));
        assert_ne!(server.cache_dir, controller.cache_dir, "two processes do not share one");
        // Nothing can be made below a file.
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let nowhere = environment(&[("HOME", file.to_str().unwrap())]);
        let found = cache_dir(Component::Server, &nowhere);
        assert!(found.starts_with(std::env::temp_dir()) && found.ends_with("tiphys/server"), "{found:?}");
    }

    #[test]
    fn cli_1_the_log_is_what_argo_cd_has_it_be() {
        let told = |format: Option<&str>, level: Option<&str>| Told {
            logformat: format.map(str::to_owned),
            loglevel: level.map(str::to_owned),
            ..Told::default()
        };
        let variables =
            environment(&[("ARGOCD_SERVER_LOGFORMAT", "text"), ("ARGOCD_SERVER_LOG_LEVEL", "WARN")]);
        assert_eq!(log(Component::Server, &told(None, None), &variables), ("warn", "text"));
        assert_eq!(log(Component::Controller, &told(None, None), &variables), ("info", "json"));
        assert_eq!(log(Component::Server, &told(Some("json"), Some("fatal")), &variables), ("error", "json"));
    }
}
