//! `tiphys rehearse`: what a sync, a roll-out or a deletion would do, and when (CLI-1060..1063).
//!
//! The stage is an API server in the process with a clock that stands still while something is to be done, the actor is
//! the product's own controller. Nothing outside is written, and nothing asked but an installation whose state the user
//! wants (`app/NAME`, `--from live`), which is read before it begins: repositories are folders that the user names, or
//! stand-ins with one workload for each application of a set.

mod arguments;
mod chart;
mod content;
mod fault;
mod files;
mod plan;
mod show;
mod stage;
mod steps;
mod sync;
mod tape;

use std::ffi::OsString;
use std::process::ExitCode;

use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_cli::live::{self, Placed, Taken, Way};
use tiphys_source::MemoryRepositories;

use arguments::Arguments;
use content::Content;
use stage::Stage;
use tape::Tape;

/// What is rehearsed.
struct Play {
    subject: Subject,
    /// Projects, Secrets and `ConfigMap`s.
    others: Vec<Value>,
    namespace: String,
    /// What is in destination clusters when it begins.
    objects: Vec<Placed>,
}

enum Subject {
    /// The roll-out, or the deletion, of a set.
    Set { set: Box<ApplicationSet>, manifest: Value },
    /// A sync of Applications.
    Applications(Vec<Value>),
}

/// How a rehearsal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Reached,
    /// It would stand still for ever, or fail.
    Stuck,
}

/// Carries out `tiphys rehearse`.
pub fn run(args: &[OsString]) -> ExitCode {
    let arguments = match tiphys_process::arguments::parse::<Arguments>("tiphys rehearse", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match play(&arguments) {
        Ok(End::Reached) => ExitCode::SUCCESS,
        Ok(End::Stuck) => ExitCode::from(1),
        Err(error) => {
            show::complain(&format!("error: {error:#}"));
            ExitCode::from(20)
        }
    }
}

fn play(arguments: &Arguments) -> anyhow::Result<End> {
    let play = files::read(arguments, |names, objects| take(arguments, names, objects))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build()?;
    runtime.block_on(rehearse(arguments, &play))
}

/// Reads from the installation, in real time and before anything is rehearsed.
fn take(arguments: &Arguments, names: &[String], objects: bool) -> anyhow::Result<Taken> {
    let way = Way {
        kubeconfig: arguments.kubeconfig.as_deref().unwrap_or_default(),
        context: arguments.kube_context.as_deref().unwrap_or_default(),
        namespace: arguments.namespace.as_deref().unwrap_or_default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let taken = runtime.block_on(live::take(&way, names, objects));
    // Watches that are being set up have nothing to finish.
    runtime.shutdown_background();
    taken.map_err(anyhow::Error::msg)
}

async fn rehearse(arguments: &Arguments, play: &Play) -> anyhow::Result<End> {
    match &play.subject {
        Subject::Set { set, manifest } => {
            arguments.check_for_set()?;
            rehearse_set(arguments, play, set, manifest).await
        }
        Subject::Applications(apps) => {
            arguments.check_for_applications()?;
            sync::rehearse(arguments, play, apps).await
        }
    }
}

async fn rehearse_set(
    arguments: &Arguments,
    play: &Play,
    set: &ApplicationSet,
    manifest: &Value,
) -> anyhow::Result<End> {
    let servers = MemoryRepositories::default();
    for folder in &arguments.source {
        folder.commit(&servers, arguments.to.as_deref())?;
    }
    // Once without stand-ins: what the set makes says which repositories are needed.
    let apps = {
        let stage = Stage::begin(play, servers.clone(), &[], &Tape::default()).await?;
        stage.admit_set(manifest).await?;
        let made = stage.until_made(set).await;
        stage.end();
        made?
    };
    let content =
        Content { folders: &arguments.source, delays: &arguments.health_delay, faults: &arguments.faults };
    content.stand_in(&servers, &apps)?;
    let namespaces = content::namespaces(&apps);
    let stage = Stage::begin(play, servers, &namespaces, &Tape::default()).await?;
    stage.admit_set(manifest).await?;
    let end = play_out(arguments, set, &stage, &apps).await;
    stage.end();
    end
}

async fn play_out(
    arguments: &Arguments,
    set: &ApplicationSet,
    stage: &Stage,
    apps: &[Value],
) -> anyhow::Result<End> {
    show::print(&plan::rollout(set, apps));
    let delay = content::longest(&arguments.health_delay);
    let rolled = show::rollout(stage, set, delay, !arguments.delete).await?;
    if rolled == End::Stuck || !arguments.delete {
        return Ok(rolled);
    }
    show::print(&plan::deletion(set, apps));
    show::deletion(stage, set).await
}
