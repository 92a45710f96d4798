//! `cluster`: where applications deploy to (CLI-810 to CLI-814).

pub(crate) mod add;
mod remote;
mod show;

use std::collections::BTreeMap;
use std::path::Path;

use futures::StreamExt as _;
use jiff::Timestamp;
use serde_json::Value;
use tiphys_api::cluster::{Cluster, ClusterKey};
use tiphys_api::settings::ClientLimits;
use tiphys_cluster::{Connection, Discovery, Writer, error_chain};
use tiphys_service::cluster::{Clusters, Selector, State, Update, access, ask, shown};
use tiphys_service::{Action, Caller, Secrets, Store};

use crate::command::Command;
use crate::core::{Core, Loaded, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{Format, machine_format, print, unknown_format};
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
        Command::new(
            Verb::Add,
            ("add", "CONTEXT"),
            "Add the cluster of a context",
            &[add::DESCRIBED, add::FLAGS],
            (0, 1),
        ),
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

/// A cluster as commands print it: with what it is, and as the API shows it.
struct Found {
    cluster: Cluster,
    /// What is known of its connection, too.
    value: Value,
}

/// What a server would know, read by ourselves.
struct Direct {
    store: Store,
    world: World,
    secrets: Secrets,
}

impl Direct {
    async fn begin(core: &Core) -> Result<Self, Failure> {
        let Loaded { world, secrets, .. } = World::load_all(core).await?;
        Ok(Self { store: core.store()?, world, secrets })
    }

    fn calls(&self) -> Clusters<'_> {
        calls(&self.store, &self.world)
    }

    /// What is known of the connections, where somebody wants to know: how many applications deploy there, and what
    /// clusters with applications answer now; the others are nobody's concern (REP-116).
    async fn found(
        &self,
        core: &Core,
        clusters: Vec<Cluster>,
        now: Option<Timestamp>,
    ) -> Result<Vec<Found>, Failure> {
        let known = match now {
            Some(now) => self.states(core, clusters, now).await?,
            None => clusters.into_iter().map(|cluster| (cluster, State::not_asked(0))).collect(),
        };
        let found =
            known.into_iter().map(|(cluster, state)| Found { value: shown(&cluster, &state), cluster });
        Ok(found.collect())
    }

    async fn states(
        &self,
        core: &Core,
        clusters: Vec<Cluster>,
        now: Timestamp,
    ) -> Result<Vec<(Cluster, State)>, Failure> {
        let only_own = self.world.settings.application_namespaces().is_empty();
        let namespace = if only_own { core.namespace.as_str() } else { "" };
        let mut counts: BTreeMap<ClusterKey, usize> = BTreeMap::new();
        for stored in core.applications(namespace, "").await? {
            if let Ok(cluster) = self.world.cluster_of(&stored.app) {
                *counts.entry(cluster.key()).or_default() += 1;
            }
        }
        let policy = core.plugin_policy(&self.world);
        let (policy, home) = (&policy, core.connection()?);
        let asked = clusters.into_iter().map(|cluster| {
            let applications = counts.get(&cluster.key()).copied().unwrap_or_default();
            async move {
                let state = if applications == 0 {
                    State::not_asked(applications)
                } else {
                    let answer = ask(&cluster, home, policy).await;
                    State { answer, asked_at: Some(now), ..State::not_asked(applications) }
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

/// How clusters are printed: by a table or details, in a machine format, or as servers alone.
enum Output {
    Wide,
    Machine(Format),
    Servers,
}

impl Output {
    fn read(text: &str) -> Result<Self, Failure> {
        match (machine_format(text), text) {
            (Some(machine), _) => Ok(Self::Machine(machine)),
            (None, "server") => Ok(Self::Servers),
            (None, "wide") => Ok(Self::Wide),
            (None, other) => Err(unknown_format(other)),
        }
    }

    /// When connections are asked, where somebody wants to know of them.
    fn asked_at(&self, session: &Session<'_>) -> Option<Timestamp> {
        (!matches!(self, Self::Servers)).then(|| session.terminal.now())
    }
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let output = Output::read(match session.flags.text("output") {
        "" => "wide",
        given => given,
    })?;
    let found = if let Some(server) = core.server() {
        remote::list(server).await?
    } else {
        let direct = Direct::begin(&core).await?;
        direct.found(&core, direct.calls().list(&direct.secrets), output.asked_at(session)).await?
    };
    match output {
        Output::Machine(machine) => {
            let values: Vec<Value> = found.into_iter().map(|one| one.value).collect();
            session.terminal.data(&print(&values.into(), machine)?);
        }
        Output::Servers => found.iter().for_each(|one| session.terminal.line(&one.cluster.server)),
        Output::Wide => session.terminal.print(&show::table(&found)),
    }
    Ok(OK)
}

async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let output = Output::read(session.flags.text("output"))?;
    let selector = Selector::parse(session.operand(0));
    let found = if let Some(server) = core.server() {
        vec![remote::get(server, selector).await?]
    } else {
        let direct = Direct::begin(&core).await?;
        let selected = direct.calls().select(&direct.secrets, selector, Action::Get)?;
        direct.found(&core, selected, output.asked_at(session)).await?
    };
    for one in &found {
        match output {
            Output::Machine(machine) => session.terminal.data(&print(&one.value, machine)?),
            Output::Servers => session.terminal.line(&one.cluster.server),
            Output::Wide => session.terminal.print(&show::details(one)?),
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
    let core = session.connect().await?;
    let name = session.operand(0);
    if let Some(server) = core.server() {
        remote::update(server, name, &update).await?;
    } else {
        let Direct { store, world, mut secrets } = Direct::begin(&core).await?;
        calls(&store, &world).update(&mut secrets, Selector::Name(name), &update).await?;
    }
    session.terminal.line(&format!("Cluster '{name}' updated."));
    Ok(OK)
}

async fn rm(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let mut direct = if core.server().is_some() { None } else { Some(Direct::begin(&core).await?) };
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
        let found = if let Some(Direct { store, world, secrets }) = &mut direct {
            let found = calls(store, world).select(secrets, selector, Action::Delete)?;
            calls(store, world).delete(secrets, selector).await?;
            found
        } else {
            remote::delete(core.by_server()?, selector).await?
        };
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
    let core = session.connect().await?;
    let text = session.operand(0);
    let selector = Selector::parse(text);
    if let Some(server) = core.server() {
        remote::rotate_auth(server, selector).await?;
    } else {
        let Direct { store, world, mut secrets } = Direct::begin(&core).await?;
        let policy = core.plugin_policy(&world);
        calls(&store, &world).rotate_auth(&mut secrets, selector, &policy).await?;
    }
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
