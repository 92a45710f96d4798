//! `admin cluster …`: which Secret is meant (REP-237), how to get into a cluster, what is deployed there (CLI-920,
//! CLI-923).

mod kubeconfig;
mod metrics;
mod namespaces;

use std::collections::{BTreeMap, BTreeSet};

use tiphys_api::Application;
use tiphys_api::cluster::{Cluster, ClusterKey};
use tiphys_api::repository::cluster_secret_name;

use super::inputs::{invalid, verb};
use super::spec;
use crate::command::Command;
use crate::core::{Core, Loaded, World};
use crate::failure::Failure;
use crate::flags::{self, Flag, Kind, flag};
use crate::global;
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

/// The one shard there is: the holder of the lease works on all clusters.
const SHARD: i64 = 0;

const STATS: &[Flag] = &[
    flag("shard", Kind::Int, "-1", "Only the clusters of a shard; -1 for all"),
    flag("replicas", Kind::Int, "0", "Accepted for old scripts: one controller works on all clusters"),
    flag(
        "sharding-method",
        Kind::Text,
        "legacy",
        "Accepted for old scripts: one controller works on all clusters",
    ),
    flag(
        "port-forward-redis",
        Kind::Bool,
        "true",
        "Reach the metrics of the controller through a port-forward",
    ),
    flag("metrics", Kind::Text, "", "Address of the controller's metrics, where they need no port-forward"),
];

#[derive(Clone, Copy, Debug)]
enum Verb {
    SecretName,
    GenerateSpec,
    Kubeconfig,
    Shards,
    Stats,
}

static GROUP: Group<Verb> = Group {
    name: "admin cluster",
    about: "Look after clusters, and say which Secret is meant",
    commands: &[
        spec::of_cluster(Verb::GenerateSpec),
        Command::new(
            Verb::Kubeconfig,
            ("kubeconfig", "CLUSTER_URL OUTPUT_PATH"),
            "Write a kubeconfig with what the installation knows of a cluster",
            &[],
            (2, 2),
        ),
        verb(Verb::SecretName, ("secret-name", "SERVER"), "Print the name of the Secret", &[], 1),
        Command::new(
            Verb::Shards,
            ("shards", ""),
            "Print how many objects each controller watches",
            &[STATS],
            (0, usize::MAX),
        ),
        Command::new(
            Verb::Stats,
            ("stats", ""),
            "Print what is deployed to each cluster",
            &[STATS],
            (0, usize::MAX),
        ),
    ],
    groups: &[("namespaces", "Print or change which namespaces of clusters are managed")],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin cluster …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    let mut rest = args.clone();
    match flags::take_word(&mut rest, global::WORD_TABLES).as_deref() {
        Some("namespaces") => namespaces::run(terminal, rest),
        _ => session::run(terminal, args, &GROUP, async |session: &Session<'_>, verb| match verb {
            Verb::SecretName => {
                let name = cluster_secret_name(session.operand(0));
                session.terminal.line(&name.map_err(|error| invalid(error.to_string()))?);
                Ok(OK)
            }
            Verb::GenerateSpec => Box::pin(spec::cluster(session)).await,
            Verb::Kubeconfig => Box::pin(kubeconfig::run(session)).await,
            Verb::Shards => Box::pin(shards(session)).await,
            Verb::Stats => Box::pin(stats(session)).await,
        }),
    }
}

/// The clusters of an installation, and the applications that deploy to each.
struct Deployed {
    loaded: Loaded,
    clusters: Vec<Cluster>,
    by_cluster: BTreeMap<ClusterKey, Vec<Application>>,
    /// Applications whose cluster is not known, with the reasons.
    homeless: Vec<String>,
}

impl Deployed {
    /// Reads them all; an application that cannot be read is a failure, as it may deploy anywhere.
    async fn read(core: &Core) -> Result<Self, Failure> {
        let loaded = World::load_all(core).await?;
        let only_own = loaded.world.settings.application_namespaces().is_empty();
        let namespace = if only_own { core.namespace.as_str() } else { "" };
        let stored = core.applications(namespace, "").await?;
        if let Some(unread) = core.left_out().into_iter().next() {
            return Err(Failure::generic(unread));
        }
        let clusters = loaded.world.clusters.all().to_vec();
        let (mut by_cluster, mut homeless) = (BTreeMap::<ClusterKey, Vec<Application>>::new(), Vec::new());
        for stored in stored {
            match loaded.world.cluster_of(&stored.app) {
                Ok(cluster) => by_cluster.entry(cluster.key()).or_default().push(stored.app),
                Err(error) => homeless.push(format!("application {}: {error}", stored.name())),
            }
        }
        Ok(Self { loaded, clusters, by_cluster, homeless })
    }

    fn applications(&self, cluster: &ClusterKey) -> &[Application] {
        self.by_cluster.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// Says whose cluster is not known.
    fn warn(&self, session: &Session<'_>) {
        for text in &self.homeless {
            session.warn(&format!("not counted: {text}"));
        }
    }
}

/// Says which flags do nothing here.
fn warn_of_shards(session: &Session<'_>) {
    for name in ["replicas", "sharding-method"] {
        if session.flags.is_set(name) {
            session
                .warn(&format!("--{name} changes nothing: one controller works on all clusters, as shard 0"));
        }
    }
}

fn is_chosen(session: &Session<'_>) -> bool {
    [-1, SHARD].contains(&session.flags.int("shard"))
}

async fn shards(session: &Session<'_>) -> Result<Ended, Failure> {
    warn_of_shards(session);
    let core = session.connect_to_cluster().await?;
    let known = metrics::read(session, &core).await?;
    let mut table = Table::new(&["SHARD", "RESOURCES COUNT", "% OF TOTAL", "% OF AVG PER SHARD"]);
    if is_chosen(session) {
        let total: u64 = known.objects.values().sum();
        // All of it, and with one shard the average.
        table.row(vec![SHARD.to_string(), total.to_string(), "100%".to_owned(), "100%".to_owned()]);
    }
    session.terminal.print(&table.print());
    Ok(OK)
}

async fn stats(session: &Session<'_>) -> Result<Ended, Failure> {
    warn_of_shards(session);
    let core = session.connect_to_cluster().await?;
    let deployed = Deployed::read(&core).await?;
    deployed.warn(session);
    let known = metrics::read(session, &core).await?;
    let mut table =
        Table::new(&["SERVER", "SHARD", "CONNECTION", "NAMESPACES COUNT", "APPS COUNT", "RESOURCES COUNT"]);
    for cluster in deployed.clusters.iter().filter(|_| is_chosen(session)) {
        let key = cluster.key();
        let applications = deployed.applications(&key);
        let namespaces: BTreeSet<&str> =
            applications.iter().map(|app| app.spec.destination.namespace.as_str()).collect();
        table.row(vec![
            key.to_string(),
            SHARD.to_string(),
            known.connection(&key).to_owned(),
            namespaces.len().to_string(),
            applications.len().to_string(),
            known.objects.get(&key).copied().unwrap_or_default().to_string(),
        ]);
    }
    session.terminal.print(&table.print());
    Ok(OK)
}
