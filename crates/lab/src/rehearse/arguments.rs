//! What the user asks for.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Parser, ValueEnum};

use super::content::{Delay, Folder};
use super::fault::Fault;

/// What `--from` calls a cluster without anything of the applications.
pub(super) const EMPTY: &str = "empty";
/// What `--from` calls what the clusters of an installation hold now.
pub(super) const LIVE: &str = "live";

/// Rehearse a sync of Applications, or the roll-out or the deletion of an application set, without a cluster and in no time.
#[derive(Parser, Debug)]
#[command(name = "tiphys rehearse", disable_version_flag = true)]
pub(super) struct Arguments {
    /// Files or folders with Applications or one application set, and the projects, cluster Secrets and settings that
    /// they need; app/NAME is an Application of the installation that the kubeconfig leads to, which is read and never
    /// written
    #[arg(value_name = "FILE|app/NAME", required = true)]
    pub(super) target: Vec<PathBuf>,
    /// Rehearse the deletion of the set once everything is rolled out
    #[arg(long)]
    pub(super) delete: bool,
    /// A folder for a repository; of a set, what no folder is given for deploys one workload per application
    #[arg(long, value_name = "URL=DIR")]
    pub(super) source: Vec<Folder>,
    /// What is deployed when the sync begins: a revision of the folders, which are checkouts then, what the clusters of
    /// the Applications hold now (live), or nothing (empty)
    #[arg(long, value_name = "REF|live|empty", default_value = EMPTY)]
    pub(super) from: String,
    /// The revision of the folders that is deployed [default: what is in the folders now]
    #[arg(long, value_name = "REF")]
    pub(super) to: Option<String>,
    /// Delete what the source does not have any more
    #[arg(long)]
    pub(super) prune: bool,
    /// A sync option in place of those of the Application, such as ApplyOutOfSyncOnly=true; may be given several times
    #[arg(long, value_name = "OPTION")]
    pub(super) sync_option: Vec<String>,
    /// How long workloads that do not say so themselves need to become healthy (or to end, for a Job); may be given
    /// several times
    #[arg(long, value_name = "KIND=DURATION", default_value = "Deployment=10s")]
    pub(super) health_delay: Vec<Delay>,
    /// What goes wrong: [GROUP/]KIND/NAME=WHAT[@TIME], where WHAT is Degraded, Progressing or Failed for a workload,
    /// Forbidden, Conflict or Timeout for every write to the object from that time of the sync on. For the stand-in of
    /// the application NAME of a set: apps/Deployment/NAME=Degraded or =Progressing
    #[arg(long, value_name = "OBJECT=WHAT")]
    pub(super) faults: Vec<Fault>,
    /// Draw when each object was written and became healthy
    #[arg(long)]
    pub(super) gantt: bool,
    /// Lines for people, or one JSON object for each step
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub(super) output: Output,
    /// Show each step when its time has come, one second for one second
    #[arg(long, conflicts_with = "speed")]
    pub(super) real_time: bool,
    /// The same, so many times as fast
    #[arg(long, value_name = "FACTOR")]
    pub(super) speed: Option<f64>,
    /// Namespace of the control plane [default: argocd, or where the installation is]
    #[arg(short, long)]
    pub(super) namespace: Option<String>,
    /// The kubeconfig that leads to the installation, for app/NAME and --from live
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<String>,
    /// The context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    pub(super) kube_context: Option<String>,
}

/// How steps are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Output {
    Text,
    Jsonl,
}

impl Arguments {
    /// Nothing that says nothing about a set.
    pub(super) fn check_for_set(&self) -> anyhow::Result<()> {
        let given = [
            (self.from != EMPTY, "--from"),
            (self.prune, "--prune"),
            (!self.sync_option.is_empty(), "--sync-option"),
            (self.gantt, "--gantt"),
            (self.output != Output::Text, "--output jsonl"),
            (self.real_time, "--real-time"),
            (self.speed.is_some(), "--speed"),
        ];
        if let Some((_, flag)) = given.iter().find(|(is_given, _)| *is_given) {
            bail!("{flag} is for the sync of Applications, not for a set; leave it out");
        }
        self.faults.iter().try_for_each(Fault::check_for_set)
    }

    /// Nothing that says nothing about a sync.
    pub(super) fn check_for_applications(&self) -> anyhow::Result<()> {
        if self.delete {
            bail!("--delete rehearses the deletion of an application set, and none is given");
        }
        if self.gantt && self.output != Output::Text {
            bail!("--gantt is for people, not for jsonl; leave one of them out");
        }
        if self.speed.is_some_and(|speed| !speed.is_finite() || speed <= 0.0) {
            bail!("--speed needs a factor above 0");
        }
        Ok(())
    }

    /// How many virtual seconds pass in a real one; `None` when nobody waits.
    pub(super) fn pace(&self) -> Option<f64> {
        if self.real_time { Some(1.0) } else { self.speed }
    }
}
