//! `repo`: repositories and who may read them (CLI-800 to CLI-803).

mod remote;

use serde_json::Value;
use tiphys_api::repo_url;
use tiphys_api::repository::Repository;
use tiphys_service::connection::Asking;
use tiphys_service::repository::{Create, Listed, Repositories, shown};
use tiphys_service::{Caller, Secrets, Store};
use tiphys_source::Sources;

use crate::command::Command;
use crate::core::{Core, Loaded, Origins, World};
use crate::credentials;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

const PROJECT: Flag = flag("project", Kind::Text, "", "Project of the repository");
const OUTPUT: Flag = flag("output", Kind::Text, "wide", "Output format: wide, json, yaml or url").or('o');
const REFRESH: Flag = flag("refresh", Kind::Text, "", "Ask for the state of connections again: hard");

/// Flags that describe a repository, beside its credentials.
pub(crate) const DESCRIBED: &[Flag] = &[
    flag("name", Kind::Text, "", "Name of the repository, for Helm"),
    PROJECT,
    flag("insecure-ignore-host-key", Kind::Bool, "false", "Deprecated: --insecure-skip-server-verification"),
    flag(
        "insecure-skip-server-verification",
        Kind::Bool,
        "false",
        "Do not verify certificates and host keys",
    ),
    flag("enable-lfs", Kind::Bool, "false", "Fetch files of git-lfs"),
    flag("proxy", Kind::Text, "", "Proxy of the repository"),
    flag("no-proxy", Kind::Text, "", "Hosts that are reached without the proxy"),
    flag("depth", Kind::Int, "0", "Commits of history to fetch; 0 leaves the choice to the program"),
    flag(
        "webhook-manifest-cache-warm-disabled",
        Kind::Bool,
        "false",
        "Pushes do not warm the cache of manifests",
    ),
];
const LIST_FLAGS: &[Flag] = &[OUTPUT, REFRESH];
const GET_FLAGS: &[Flag] = &[PROJECT, OUTPUT, REFRESH];
const RM_FLAGS: &[Flag] = &[PROJECT];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    Get,
    List,
    Rm,
}

static GROUP: Group<Verb> = Group {
    name: "repo",
    about: "Manage repositories",
    commands: &[
        Command::new(
            Verb::Add,
            ("add", "REPOURL"),
            "Add a repository",
            &[credentials::FLAGS, credentials::UPSERT, DESCRIBED],
            (1, 1),
        ),
        Command::new(Verb::Get, ("get", "REPO"), "Show a repository", &[GET_FLAGS], (1, 1)),
        Command::new(Verb::List, ("list", ""), "List repositories", &[LIST_FLAGS], (0, usize::MAX)),
        Command::new(Verb::Rm, ("rm", "REPO..."), "Remove repositories", &[RM_FLAGS], (1, usize::MAX)),
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Runs `repo …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::Add => Box::pin(add(session)).await,
        Verb::Get => Box::pin(get(session)).await,
        Verb::List => Box::pin(list(session)).await,
        Verb::Rm => Box::pin(rm(session)).await,
    }
}

/// A repository as commands print it: in tables, and as the API shows it.
struct Found {
    listed: Listed,
    value: Value,
    /// Whether it has credentials, as far as that is known.
    has_credentials: bool,
}

impl Found {
    /// What was found out here.
    fn here(listed: Listed) -> Self {
        let has_credentials = listed.repository.credentials.is_present();
        Self { value: shown(&listed.shown(), &listed.state), listed, has_credentials }
    }

    fn url(&self) -> String {
        repo_url::mask_password(&self.listed.repository.url)
    }
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

    /// Whoever asks repositories, where somebody reads the states of connections.
    fn origins(&self, session: &Session<'_>, is_asked: bool) -> Result<Option<Origins>, Failure> {
        is_asked.then(|| Origins::open(&self.world, session.terminal)).transpose()
    }
}

fn calls<'a>(store: &'a Store, world: &'a World) -> Repositories<'a> {
    Repositories::new(store, Caller::operator(), world)
}

async fn add(session: &Session<'_>) -> Result<Ended, Failure> {
    let repository = wanted(session).await?;
    let url = repo_url::mask_password(&repository.url);
    let is_upsert = session.flags.is_on("upsert");
    let core = session.connect().await?;
    if let Some(server) = core.server() {
        remote::validate(server, &repository).await?;
        warn_of_what_has_no_effect(session, &repository);
        remote::create(server, &repository, is_upsert).await?;
    } else {
        let Direct { store, world, mut secrets } = Direct::begin(&core).await?;
        let origins = Origins::open(&world, session.terminal)?;
        calls(&store, &world).validate(&secrets, &repository, &origins.sources).await?;
        warn_of_what_has_no_effect(session, &repository);
        let create = Create { repository, upsert: is_upsert, is_validated: true };
        calls(&store, &world).create(&mut secrets, &create, &origins.sources).await?;
    }
    session.terminal.line(&format!("Repository '{url}' added"));
    Ok(OK)
}

/// The repository that the flags describe (CLI-800, CLI-801).
pub(crate) async fn wanted(session: &Session<'_>) -> Result<Repository, Failure> {
    let flags = session.flags;
    let url = session.operand(0);
    let is_named = || {
        if flags.text("type") == "helm" && flags.text("name").is_empty() {
            return Err(Failure::generic("Must specify --name for repos of type 'helm'"));
        }
        Ok(())
    };
    let mut credentials = credentials::read(session, url, is_named).await?;
    flags.text("proxy").clone_into(&mut credentials.proxy);
    flags.text("no-proxy").clone_into(&mut credentials.no_proxy);
    Ok(Repository {
        r#type: flags.text("type").to_owned(),
        name: flags.text("name").to_owned(),
        project: flags.text("project").to_owned(),
        insecure_ignore_host_key: flags.is_on("insecure-ignore-host-key"),
        insecure: flags.is_on("insecure-skip-server-verification"),
        enable_lfs: flags.is_on("enable-lfs"),
        depth: flags.int("depth"),
        webhook_manifest_cache_warm_disabled: flags.is_on("webhook-manifest-cache-warm-disabled"),
        credentials,
        ..Repository::bare(url)
    })
}

/// Says which of the fields are stored and do nothing in this version.
fn warn_of_what_has_no_effect(session: &Session<'_>, repository: &Repository) {
    let fields = repository.fields().into_iter().filter(|field| !field.is_zero);
    let data = fields.map(|field| (field.key.to_owned(), field.value.expose().clone())).collect();
    for text in tiphys_api::support::repository_reports(&data) {
        session.warn(&text);
    }
}

/// Nothing is remembered of a connection: who asks is told how it is now.
fn asking<'a>(sources: Option<&'a Sources>, session: &Session<'_>) -> Asking<'a> {
    Asking { sources, known: None, is_forced: false, now: session.terminal.now() }
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let is_forced = is_forced(session)?;
    let format = session.flags.text("output");
    let core = session.connect().await?;
    let found = if let Some(server) = core.server() {
        remote::list(server, is_forced).await?
    } else {
        let direct = Direct::begin(&core).await?;
        // Nobody reads the states of connections in a list of URLs.
        let origins = direct.origins(session, format != "url")?;
        let sources = origins.as_ref().map(|origins| &origins.sources);
        let found = calls(&direct.store, &direct.world).list(&direct.secrets, asking(sources, session)).await;
        found.into_iter().map(Found::here).collect()
    };
    match (machine_format(format), format) {
        (Some(machine), _) => {
            let values: Vec<Value> = found.into_iter().map(|one| one.value).collect();
            session.terminal.data(&print(&values.into(), machine)?);
        }
        (None, "url") => found.iter().for_each(|one| session.terminal.line(&one.url())),
        (None, "wide" | "") => session.terminal.print(&table(&found)),
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let is_forced = is_forced(session)?;
    let format = session.flags.text("output");
    let meant = (session.operand(0), project(session));
    let core = session.connect().await?;
    let found = if let Some(server) = core.server() {
        remote::get(server, meant, is_forced).await?
    } else {
        let direct = Direct::begin(&core).await?;
        let origins = direct.origins(session, format != "url")?;
        let sources = origins.as_ref().map(|origins| &origins.sources);
        let calls = calls(&direct.store, &direct.world);
        Found::here(calls.get(&direct.secrets, meant, asking(sources, session)).await?)
    };
    match (machine_format(format), format) {
        (Some(machine), _) => session.terminal.data(&print(&found.value, machine)?),
        (None, "url") => session.terminal.line(&found.url()),
        (None, "wide" | "") => session.terminal.print(&table(&[found])),
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

async fn rm(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let mut direct = if core.server().is_some() { None } else { Some(Direct::begin(&core).await?) };
    for url in &session.flags.operands {
        let name = repo_url::mask_password(url);
        if !session.confirms(&format!("Are you sure you want to delete repository '{name}'? [y/n] ")).await {
            session.terminal.line(&format!("The command to delete '{name}' was cancelled."));
            continue;
        }
        let meant = (url.as_str(), project(session));
        let left = if let Some(Direct { store, world, secrets }) = &mut direct {
            calls(store, world).delete(secrets, meant, None).await?
        } else {
            remote::delete(core.by_server()?, meant).await?;
            Vec::new()
        };
        session.terminal.line(&format!("Repository '{name}' removed"));
        if !left.is_empty() {
            session.warn(&format!(
                "the same repository is declared by other Secrets, one of which counts now: {}",
                left.join(", ")
            ));
        }
    }
    Ok(OK)
}

/// The project of a call; one that is empty means the unscoped repository, none the only one there is (CLI-803).
fn project<'a>(session: &Session<'a>) -> Option<&'a str> {
    session.flags.is_set("project").then(|| session.flags.text("project"))
}

/// Whether connections are to be tried now. Straight to Kubernetes nothing is remembered between two commands, so every
/// list is a fresh one.
fn is_forced(session: &Session<'_>) -> Result<bool, Failure> {
    match session.flags.text("refresh") {
        "" => Ok(false),
        "hard" => Ok(true),
        other => Err(Failure::generic(format!("unknown refresh value: {other}. Supported values: hard"))),
    }
}

fn unknown_format(format: &str) -> Failure {
    Failure::generic(format!("unknown output format: {format}. Supported formats: yaml|json|url|wide"))
}

fn table(found: &[Found]) -> String {
    let header = ["TYPE", "NAME", "REPO", "INSECURE", "OCI", "LFS", "CREDS", "STATUS", "MESSAGE", "PROJECT"];
    let mut table = Table::new(&header);
    for one in found {
        let Listed { repository, state, .. } = &one.listed;
        let credentials = match (repository.inherited_credentials, one.has_credentials) {
            (true, _) => "inherited",
            (false, true) => "true",
            (false, false) => "false",
        };
        table.row(vec![
            repository.effective_type().to_owned(),
            repository.name.clone(),
            one.url(),
            repository.is_insecure().to_string(),
            repository.credentials.enable_oci.to_string(),
            repository.enable_lfs.to_string(),
            credentials.to_owned(),
            state.status.as_str().to_owned(),
            state.message.clone(),
            repository.project.clone(),
        ]);
    }
    table.print()
}
