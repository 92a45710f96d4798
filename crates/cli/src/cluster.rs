//! `cluster`: where applications deploy to (CLI-810 to CLI-814).

mod add;
mod show;

use std::collections::BTreeMap;
use std::path::Path;

use futures::StreamExt as _;
use jiff::Timestamp;
use tiphys_api::cluster::Cluster;
use tiphys_api::settings::ClientLimits;
use tiphys_cluster::{Connection, Discovery, Writer, error_chain};
use tiphys_service::cluster::{Clusters, Selector, State, Update, access, ask, shown};
use tiphys_service::{Action, Caller, Secrets, Store};

use crate::command::Command;
use crate::core::{Core, Loaded, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::session::{self, Ended, Group, OK, Session};
use crate::terminal::{Answer, Terminal};

/// Clusters that are asked at a time.
const ASKED_MAX: usize = 8;

const LIST_FLAGS: &[Flag] =
    &[flag("output", Kind::Text, "wide", "Output format: wide, json, yaml or server").or('o')];
const GET_FLAGS: &[Flag] =
    &[flag("output", Kind::Text, "yaml", "Output format: yaml, json, wide or server").or('o')];
const SET_FLAGS: &[Flag] = &[
    flag("name", Kind::Text, "", "New name"),
    flag("namespace", Kind::Texts, "", "Namespace that is managed; * for all"),
    flag("label", Kind::Texts, "", "Label key=value; the labels as a whole are replaced"),
    flag("annotation", Kind::Texts, "", "Annotation key=value; the annotations as a whole are replaced"),
];
const RM_FLAGS: &[Flag] = &[flag("yes", Kind::Bool, "false", "Do not ask").or('y')];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    Get,
    List,
    Rm,
    RotateAuth,
    Set,
}

static GROUP: Group<Verb> = Group {
    name: "cluster",
    about: "Manage clusters",
    commands: &[
        Command::new(Verb::Add, ("add", "CONTEXT"), "Add the cluster of a context", &[add::FLAGS], (0, 1)),
        Command::new(Verb::Get, ("get", "SERVER/NAME"), "Show a cluster", &[GET_FLAGS], (1, 1)),
        Command::new(Verb::List, ("list", ""), "List clusters", &[LIST_FLAGS], (0, usize::MAX)),
        Command::new(Verb::Rm, ("rm", "SERVER/NAME..."), "Remove clusters", &[RM_FLAGS], (1, usize::MAX)),
        Command::new(
            Verb::RotateAuth,
            ("rotate-auth", "SERVER/NAME"),
            "Replace the token of a cluster",
            &[],
            (1, 1),
        ),
        Command::new(Verb::Set, ("set", "NAME"), "Change a cluster", &[SET_FLAGS], (1, 1)),
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Runs `cluster …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::Add => Box::pin(add::run(session)).await,
        Verb::Get => Box::pin(get(session)).await,
        Verb::List => Box::pin(list(session)).await,
        Verb::Rm => Box::pin(rm(session)).await,
        Verb::RotateAuth => Box::pin(rotate_auth(session)).await,
        Verb::Set => Box::pin(set(session)).await,
    }
}

/// What the commands work with.
struct Work {
    core: Core,
    store: Store,
    world: World,
    secrets: Secrets,
}

impl Work {
    async fn begin(session: &Session<'_>) -> Result<Self, Failure> {
        let core = session.connect().await?;
        let Loaded { world, secrets, .. } = World::load_all(&core).await?;
        Ok(Self { store: core.store()?, core, world, secrets })
    }

    fn calls(&self) -> Clusters<'_> {
        calls(&self.store, &self.world)
    }

    /// What is known of the connections: how many applications deploy there, and what clusters with applications answer
    /// now; the others are nobody's concern (REP-116).
    async fn states(&self, clusters: Vec<Cluster>, now: Timestamp) -> Result<Vec<(Cluster, State)>, Failure> {
        let only_own = self.world.settings.application_namespaces().is_empty();
        let namespace = if only_own { self.core.namespace.as_str() } else { "" };
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for stored in self.core.applications(namespace, "").await? {
            if let Ok(cluster) = self.world.clusters.resolve(&stored.app.spec.destination) {
                *counts.entry(cluster.server.clone()).or_default() += 1;
            }
        }
        let policy = self.core.plugin_policy(&self.world);
        let (policy, home) = (&policy, self.core.connection()?);
        let asked = clusters.into_iter().map(|cluster| {
            let applications = counts.get(&cluster.server).copied().unwrap_or_default();
            async move {
                let state = if applications == 0 {
                    State::not_asked(applications)
                } else {
                    let answer = ask(&cluster, home, policy).await;
                    State { applications, answer, asked_at: Some(now) }
                };
                (cluster, state)
            }
        });
        Ok(futures::stream::iter(asked).buffered(ASKED_MAX).collect().await)
    }
}

fn calls<'a>(store: &'a Store, world: &World) -> Clusters<'a> {
    Clusters::new(store, Caller::operator(), world.settings.in_cluster_enabled())
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let found = work.calls().list(&work.secrets);
    let format = session.flags.text("output");
    let machine = machine_format(format);
    if format == "server" {
        for cluster in &found {
            session.terminal.line(&cluster.server);
        }
        return Ok(OK);
    }
    if machine.is_none() && !matches!(format, "wide" | "") {
        return Err(unknown_format(format));
    }
    let found = work.states(found, session.terminal.now()).await?;
    match machine {
        Some(machine) => {
            let values: Vec<_> = found.iter().map(|(cluster, state)| shown(cluster, state)).collect();
            session.terminal.data(&print(&values.into(), machine)?);
        }
        None => session.terminal.print(&show::table(&found)),
    }
    Ok(OK)
}

async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let found = work.calls().select(&work.secrets, Selector::parse(session.operand(0)), Action::Get)?;
    let format = session.flags.text("output");
    let machine = machine_format(format);
    if format == "server" {
        for cluster in &found {
            session.terminal.line(&cluster.server);
        }
        return Ok(OK);
    }
    if machine.is_none() && format != "wide" {
        return Err(unknown_format(format));
    }
    for (cluster, state) in &work.states(found, session.terminal.now()).await? {
        match machine {
            Some(machine) => session.terminal.data(&print(&shown(cluster, state), machine)?),
            None => session.terminal.print(&show::details(cluster, state)?),
        }
    }
    Ok(OK)
}

async fn set(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    if !SET_FLAGS.iter().any(|flag| flags.is_set(flag.long)) {
        session.terminal.line("Specify the cluster field to be updated.");
        return Ok(OK);
    }
    let update = Update {
        name: flags.is_set("name").then(|| flags.text("name").to_owned()),
        namespaces: flags.is_set("namespace").then(|| namespaces(flags.texts("namespace"))),
        labels: flags.is_set("label").then(|| pairs(flags.texts("label"), "label")).transpose()?,
        annotations: flags
            .is_set("annotation")
            .then(|| pairs(flags.texts("annotation"), "annotation"))
            .transpose()?,
        ..Update::default()
    };
    let Work { store, world, mut secrets, .. } = Work::begin(session).await?;
    let name = session.operand(0);
    calls(&store, &world).update(&mut secrets, Selector::Name(name), &update).await?;
    session.terminal.line(&format!("Cluster '{name}' updated."));
    Ok(OK)
}

async fn rm(session: &Session<'_>) -> Result<Ended, Failure> {
    let Work { store, world, mut secrets, .. } = Work::begin(session).await?;
    for text in &session.flags.operands {
        // This one always asks: applications that deploy there are left without their cluster (CLI-814).
        let question = format!(
            "Are you sure you want to remove '{text}'? Any Apps deploying to this cluster will go to health status \
             Unknown.[y/n] "
        );
        let is_sure = session.flags.is_on("yes")
            || matches!(session.terminal.ask(&question, false).await, Some(Answer::Yes));
        if !is_sure {
            session.terminal.line(&format!("The command to remove '{text}' was cancelled."));
            continue;
        }
        let selector = Selector::parse(text);
        let found = calls(&store, &world).select(&secrets, selector, Action::Delete)?;
        calls(&store, &world).delete(&mut secrets, selector).await?;
        session.terminal.line(&format!("Cluster '{text}' removed"));
        for cluster in found {
            // Deviation (CLI-814): the entry is gone, so what is left behind is a warning.
            if let Err(why) = take_rights_away(session, &cluster.name).await {
                session.warn(&format!("the account {} of the cluster stays: {why}", access::ACCOUNT));
            }
        }
    }
    Ok(OK)
}

/// Removes the account that `cluster add` made, by the context that is called as the cluster is.
async fn take_rights_away(session: &Session<'_>, name: &str) -> Result<(), String> {
    let path = kubeconfig(session);
    let found = tiphys_cluster::contexts(path).map_err(|error| error_chain(&error))?;
    if !found.iter().any(|context| context.name == name) {
        return Err(format!("context {name} does not exist in kubeconfig"));
    }
    let limits = ClientLimits::of(&session.terminal.env);
    let connection =
        Connection::from_kubeconfig(path, Some(name), limits).await.map_err(|error| error_chain(&error))?;
    let writer = Writer::new(connection.clone(), Discovery::new(connection));
    access::uninstall(&writer, add::SYSTEM_NAMESPACE).await.map_err(|error| error.to_string())
}

async fn rotate_auth(session: &Session<'_>) -> Result<Ended, Failure> {
    let Work { core, store, world, mut secrets } = Work::begin(session).await?;
    let text = session.operand(0);
    let policy = core.plugin_policy(&world);
    calls(&store, &world).rotate_auth(&mut secrets, Selector::parse(text), &policy).await?;
    session.terminal.line(&format!("Cluster '{text}' rotated auth"));
    Ok(OK)
}

/// The file that `--kubeconfig` names.
fn kubeconfig<'a>(session: &Session<'a>) -> Option<&'a Path> {
    let path = session.flags.text("kubeconfig");
    (!path.is_empty()).then(|| Path::new(path))
}

/// Namespaces as flags give them; `*` is all, which is no list.
fn namespaces(given: &[String]) -> Vec<String> {
    if given.iter().any(|namespace| namespace == "*") { Vec::new() } else { given.to_vec() }
}

/// Texts of the form `key=value`.
fn pairs(given: &[String], what: &str) -> Result<BTreeMap<String, String>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(Failure::generic(format!("{what}s should have key=value, but instead got: {text}"))),
    };
    given.iter().map(pair).collect()
}
