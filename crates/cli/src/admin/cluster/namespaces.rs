//! `admin cluster namespaces`: where in each cluster something is deployed, and clusters that are managed there alone
//! (CLI-923).

use std::collections::BTreeSet;

use tiphys_api::cluster::ClusterKey;
use tiphys_policy::pattern;
use tiphys_service::Caller;
use tiphys_service::cluster::{Clusters, Selector, Update};

use super::Deployed;
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{self, Flag, Kind, flag};
use crate::global;
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

/// Namespaces that a row names.
const SHOWN_MAX: usize = 4;

const DRY: Flag = flag("dry-run", Kind::Bool, "true", "Print what would be done");
const ENABLE: &[Flag] = &[
    DRY,
    flag("cluster-resources", Kind::Bool, "false", "Manage objects without a namespace, too"),
    flag("max-namespace-count", Kind::Int, "0", "Leave clusters with more namespaces as they are"),
];
const DISABLE: &[Flag] = &[DRY];

#[derive(Clone, Copy, Debug)]
enum Verb {
    List,
    Enable,
    Disable,
}

const LIST: Command<Verb> = Command::new(
    Verb::List,
    ("namespaces", ""),
    "Print in which namespaces of clusters something is deployed",
    &[],
    (0, usize::MAX),
);

static GROUP: Group<Verb> = Group {
    name: "admin cluster namespaces",
    about: "Print in which namespaces of clusters something is deployed, or manage those alone",
    commands: &[
        Command::new(
            Verb::Disable,
            ("disable-namespaced-mode", "PATTERN"),
            "Manage all namespaces of clusters whose servers match",
            &[DISABLE],
            (1, 1),
        ),
        Command::new(
            Verb::Enable,
            ("enable-namespaced-mode", "PATTERN"),
            "Manage only the namespaces in which something is deployed",
            &[ENABLE],
            (1, 1),
        ),
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin cluster namespaces …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    let mut rest = args.clone();
    // Alone it is a command; whoever asks what there is, is told of the others, too.
    let word = flags::take_word(&mut rest, global::WORD_TABLES);
    let wants_help = args.iter().any(|arg| arg == "--help" || arg == "-h");
    if word.is_none() && !wants_help && !terminal.is_listing() {
        return session::run_command(terminal, &args, ("admin cluster", &LIST), perform);
    }
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::List => Box::pin(list(session)).await,
        Verb::Enable | Verb::Disable => Box::pin(change(session, verb)).await,
    }
}

impl Deployed {
    /// The namespaces in which the applications of a cluster have objects; those that they name, where nothing is known
    /// of objects. Short names come first.
    fn namespaces(&self, cluster: &ClusterKey) -> Vec<String> {
        let mut found = BTreeSet::new();
        for app in self.applications(cluster) {
            let resources = &app.status.resources;
            if resources.is_empty() {
                found.insert(app.spec.destination.namespace.clone());
            }
            found.extend(resources.iter().map(|resource| resource.namespace.clone()));
        }
        let mut found: Vec<String> = found.into_iter().filter(|namespace| !namespace.is_empty()).collect();
        found.sort_by_key(String::len);
        found
    }
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect_to_cluster().await?;
    let deployed = Deployed::read(&core).await?;
    deployed.warn(session);
    let mut table = Table::new(&["CLUSTER", "NAMESPACES"]);
    for cluster in &deployed.clusters {
        let found = deployed.namespaces(&cluster.key());
        let shown = found.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join(",");
        let total = found.len();
        let cell = if total > SHOWN_MAX { format!("{shown} (total {total})") } else { shown };
        table.row(vec![cluster.key().to_string(), cell]);
    }
    session.terminal.print(&table.print());
    Ok(OK)
}

async fn change(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    let (flags, terminal) = (session.flags, session.terminal);
    let is_dry = flags.is_on("dry-run");
    let pattern = session.operand(0);
    let core = session.connect_to_cluster().await?;
    let mut deployed = Deployed::read(&core).await?;
    let enables = matches!(verb, Verb::Enable);
    if enables && let Some(homeless) = deployed.homeless.first() {
        // What is not in the list would not be watched any more.
        return Err(Failure::generic(format!("nobody knows where everything is deployed: {homeless}")));
    }
    let most = usize::try_from(flags.int("max-namespace-count")).unwrap_or_default();
    if enables && most == 0 {
        session.warn("clusters with more than 0 namespaces are left as they are; see --max-namespace-count");
    }
    let store = core.store()?;
    let in_cluster_enabled = deployed.loaded.world.settings.in_cluster_enabled();
    let calls = Clusters::new(&store, Caller::operator(), in_cluster_enabled);
    for cluster in deployed.clusters.clone() {
        let server = &cluster.server;
        if !pattern::glob(pattern, server) {
            continue;
        }
        let update = if enables {
            let namespaces = deployed.namespaces(&cluster.key());
            if namespaces.is_empty() || namespaces.len() > most {
                continue;
            }
            terminal.print(&format!("Setting cluster {server} namespaces to [{}]...", namespaces.join(" ")));
            let cluster_resources = Some(flags.is_on("cluster-resources"));
            Update { namespaces: Some(namespaces), cluster_resources, ..Update::default() }
        } else {
            if cluster.namespaces.is_empty() {
                continue;
            }
            terminal.print(&format!("Disabling namespaced mode for cluster {server}..."));
            Update { namespaces: Some(Vec::new()), ..Update::default() }
        };
        if !is_dry {
            let entry = cluster.key().to_string();
            let done = calls.update(&mut deployed.loaded.secrets, Selector::Server(&entry), &update).await;
            if done.is_err() {
                terminal.print("\n");
            }
            done?;
        }
        terminal.line(if is_dry { "done (dry run)" } else { "done" });
    }
    Ok(OK)
}
