//! `tiphys rehearse`: what a roll-out or a deletion of an `ApplicationSet` would do, and when (CLI-1060..1063).
//!
//! The stage is an API server in the process with a clock that stands still while something is to be done, the actor is
//! the product's own controller. Nothing outside is asked or written: repositories are folders that the user names, or
//! stand-ins with one workload for each application.

mod content;
mod plan;
mod show;
mod stage;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Parser;
use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_source::MemoryRepositories;

use content::{Content, Delay, Fault, Folder};
use stage::Stage;

/// Bytes of a file with manifests.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Rehearse the roll-out or the deletion of an application set, without a cluster and in no time.
#[derive(Parser, Debug)]
#[command(name = "tiphys rehearse", disable_version_flag = true)]
struct Arguments {
    /// Files with one application set, and the projects, cluster Secrets and settings that it needs
    #[arg(value_name = "FILE", required = true)]
    target: Vec<PathBuf>,
    /// Rehearse the deletion of the set once everything is rolled out
    #[arg(long)]
    delete: bool,
    /// A folder for a repository; what no folder is given for deploys one workload per application
    #[arg(long, value_name = "URL=DIR")]
    source: Vec<Folder>,
    /// How long the workloads of stand-ins need to become healthy
    #[arg(long, value_name = "KIND=DURATION", default_value = "Deployment=10s")]
    health_delay: Delay,
    /// What goes wrong: apps/Deployment/NAME=Degraded or =Progressing, for the stand-in of the application NAME
    #[arg(long, value_name = "OBJECT=WHAT")]
    faults: Vec<Fault>,
    /// Namespace of the control plane
    #[arg(short, long, default_value = "argocd")]
    namespace: String,
}

/// What is rehearsed.
struct Play {
    set: ApplicationSet,
    manifest: Value,
    others: Vec<Value>,
    namespace: String,
}

/// How a rehearsal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Reached,
    /// It would stand still for ever.
    Stuck,
}

/// Carries out `tiphys rehearse`.
pub fn run(args: &[OsString]) -> ExitCode {
    let arguments = match crate::arguments::parse::<Arguments>("tiphys rehearse", args) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let rehearsed =
        runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(rehearse(&arguments)));
    match rehearsed {
        Ok(End::Reached) => ExitCode::SUCCESS,
        Ok(End::Stuck) => ExitCode::from(1),
        Err(error) => {
            show::complain(&format!("error: {error:#}"));
            ExitCode::from(20)
        }
    }
}

async fn rehearse(arguments: &Arguments) -> anyhow::Result<End> {
    let play = read(arguments)?;
    let servers = MemoryRepositories::default();
    for folder in &arguments.source {
        folder.commit(&servers)?;
    }
    // Once without stand-ins: what the set makes says which repositories are needed.
    let apps = {
        let stage = Stage::begin(&play, servers.clone(), &[]).await?;
        let made = stage.until_made().await;
        stage.end();
        made?
    };
    let content =
        Content { folders: &arguments.source, delay: &arguments.health_delay, faults: &arguments.faults };
    content.stand_in(&servers, &apps)?;
    let namespaces = content::namespaces(&apps);
    let stage = Stage::begin(&play, servers, &namespaces).await?;
    let end = play_out(arguments, &play, &stage, &apps).await;
    stage.end();
    end
}

async fn play_out(arguments: &Arguments, play: &Play, stage: &Stage, apps: &[Value]) -> anyhow::Result<End> {
    show::print(&plan::rollout(&play.set, apps));
    let rolled = show::rollout(stage, &play.set, arguments.health_delay.time(), !arguments.delete).await?;
    if rolled == End::Stuck || !arguments.delete {
        return Ok(rolled);
    }
    show::print(&plan::deletion(&play.set, apps));
    show::deletion(stage, &play.set).await
}

fn read(arguments: &Arguments) -> anyhow::Result<Play> {
    let (mut sets, mut others) = (Vec::new(), Vec::new());
    for path in &arguments.target {
        let shown = path.display();
        let length = std::fs::metadata(path).with_context(|| format!("cannot read {shown}"))?.len();
        if length > FILE_BYTES_MAX {
            bail!("{shown} has more than {FILE_BYTES_MAX} bytes");
        }
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let limits = tiphys_go::yaml::Limits::default();
        let documents = tiphys_go::yaml::parse_documents(&text, tiphys_go::yaml::Dialect::Sigs, &limits);
        for document in documents.with_context(|| format!("cannot read {shown}"))? {
            match document.get("kind").and_then(Value::as_str) {
                Some("ApplicationSet") => sets.push(document),
                Some("AppProject" | "Secret" | "ConfigMap") => others.push(document),
                Some(kind) => bail!(
                    "{shown}: {kind} cannot be rehearsed; there are ApplicationSet, and beside it AppProject, Secret and ConfigMap"
                ),
                None if document.is_null() => {}
                None => bail!("{shown}: a document has no kind"),
            }
        }
    }
    let count = sets.len();
    let (Some(manifest), 1) = (sets.pop(), count) else {
        bail!("one ApplicationSet is needed, {count} are given");
    };
    let set: ApplicationSet =
        serde_json::from_value(manifest.clone()).context("this is no ApplicationSet")?;
    let namespace = arguments.namespace.clone();
    if !set.metadata.namespace.is_empty() && set.metadata.namespace != namespace {
        bail!(
            "the set is in the namespace {}; say so with -n, or rehearse it in {namespace}",
            set.metadata.namespace
        );
    }
    Ok(Play { set, manifest, others, namespace })
}
