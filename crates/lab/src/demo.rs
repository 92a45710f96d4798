//! `tiphys demo`: a working system in one process, without a cluster (CLI-1000..1004).
//!
//! The parts are those of the product: the controller, its endpoints, its commands. Around them are a
//! Kubernetes API in the process, a Git server with a sample repository, and a directory for all of it that
//! goes with the process. Nothing of the user's is read or written.

mod applications;
mod cgi;
mod cluster;
mod control;
mod directory;
mod edit;
mod git_server;
mod live;
mod options;
mod port;
mod progressive;
mod ready;
mod repository;
mod scenario;
mod verbs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use tiphys_process::runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;

use directory::Directory;
use live::Live;
use options::{Demo, Start, Verb};
use scenario::Scenario;

/// Time for everything to end.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// `tiphys demo`.
pub fn run(args: &[OsString]) -> ExitCode {
    let began = Instant::now();
    let demo = match tiphys_process::arguments::parse::<Demo>("tiphys demo", args) {
        Ok(demo) => demo,
        Err(code) => return code,
    };
    if let Some(verb) = demo.verb {
        return runtime::block_on(ask(verb));
    }
    runtime::init_log(&demo.start.loglevel, "text");
    runtime::block_on(start(demo.start, began))
}

/// How the user called us, for commands to copy.
fn program() -> String {
    let called = std::env::args_os().next().map(|name| name.to_string_lossy().into_owned());
    called.filter(|name| name.contains('/')).unwrap_or_else(|| "tiphys".to_owned())
}

/// Has a running demo do something.
async fn ask(verb: Verb) -> anyhow::Result<()> {
    let lines = control::ask(&verb, &program(), &std::env::temp_dir()).await?;
    ready::print(&format!("{}\n", lines.join("\n")));
    Ok(())
}

/// Runs a demo until it is stopped. Whatever happens, a temporary directory goes.
async fn start(start: Start, began: Instant) -> anyhow::Result<()> {
    let mut stop = Stop::new()?;
    let mut directory = match &start.data {
        Some(path) => Directory::kept(path, start.reset)?,
        None => Directory::temporary(&std::env::temp_dir())?,
    };
    let result = Box::pin(show(&start, &mut directory, &mut stop, began)).await;
    let path = directory.path().to_owned();
    if let Err(error) = directory.close() {
        tracing::warn!(path = %path.display(), %error, "the demo's directory cannot be removed");
    }
    result
}

async fn show(
    start: &Start,
    directory: &mut Directory,
    stop: &mut Stop,
    began: Instant,
) -> anyhow::Result<()> {
    let scenario = scenario_of(start, directory)?;
    let live = tokio::select! {
        live = Live::start(start, scenario, directory) => live?,
        () = stop.asked() => return Ok(()),
    };
    let place = ready::Place {
        program: program(),
        url: live.url(),
        login: live.login(),
        directory: directory.path(),
        data: start.data.as_deref(),
    };
    ready::print(&ready::text(&place, scenario, began.elapsed()));
    live.tell(&place.program, &place.data());
    match start.exit_after {
        Some(end) => tokio::select! {
            () = tokio::time::sleep(end.0) => {}
            () = stop.asked() => {}
        },
        None => stop.asked().await,
    }
    // A second signal ends at once what takes too long (CLI-10).
    tokio::select! {
        ended = tokio::time::timeout(STOP_TIMEOUT, live.stop()) => {
            if ended.is_err() {
                tracing::warn!("not everything ended in time");
            }
        }
        () = stop.asked() => {}
    }
    Ok(())
}

/// The scenario asked for, which a directory that is used again must hold.
fn scenario_of(start: &Start, directory: &Directory) -> anyhow::Result<Scenario> {
    let kept = directory.record().and_then(|record| Scenario::named(&record.scenario));
    match (start.scenario, kept) {
        (Some(asked), Some(kept)) if asked != kept => bail!(
            "{} holds the scenario {}; leave --scenario out, or start anew with --reset",
            directory.path().display(),
            kept.name()
        ),
        (asked, kept) => Ok(asked.or(kept).unwrap_or(Scenario::Guestbook)),
    }
}

/// The signals that end a demo.
struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    fn new() -> anyhow::Result<Self> {
        let on = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self { interrupt: on(SignalKind::interrupt())?, terminate: on(SignalKind::terminate())? })
    }

    /// The next signal.
    async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Where a demo's parts are inside its directory.
struct Paths {
    root: PathBuf,
}

impl Paths {
    fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    fn git(&self) -> PathBuf {
        self.root.join("git")
    }

    fn cluster(&self) -> PathBuf {
        self.root.join("cluster")
    }

    fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }
}
