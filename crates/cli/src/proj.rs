//! `proj`: what applications may use, and who may do what with them (CLI-700 to CLI-730).
//!
//! Most commands are edits of a project's spec. They are functions from spec to spec ([`edit`], [`options`], [`role`],
//! [`windows`], [`integrity`]); [`Work::edit`] stores the result by the rules of the service layer, or has a server do so.

mod edit;
mod integrity;
pub(crate) mod options;
mod remote;
mod role;
mod show;
mod text;
mod token;
mod windows;
pub(crate) mod work;

pub(crate) use token::seconds;

use tiphys_api::project::AppProjectSpec;
use work::Work;

use crate::command::Command;
use crate::core::value_of;
use crate::failure::Failure;
use crate::flags::{self, Flag, Kind, flag};
use crate::global;
use crate::output::{as_api, machine_format, print, unknown_format};
use crate::session::{self, Ended, Group, OK, Session};
use crate::terminal::Terminal;

const CREATE_FLAGS: &[Flag] = &[
    flag("file", Kind::Text, "", "File with the project, - for standard input").or('f'),
    flag("upsert", Kind::Bool, "false", "Change a project that exists"),
];
const GET_FLAGS: &[Flag] = &[flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o')];
const LIST_FLAGS: &[Flag] =
    &[flag("output", Kind::Text, "wide", "Output format: wide, json, yaml or name").or('o')];
const DELETE_FLAGS: &[Flag] = &[flag("yes", Kind::Bool, "false", "Do not ask").or('y')];
const ALLOW_LIST: &[Flag] = &[flag("list", Kind::Text, "allow", "List to change: allow or deny").or('l')];
const DENY_LIST: &[Flag] = &[flag("list", Kind::Text, "deny", "List to change: allow or deny").or('l')];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Create,
    Delete,
    Edit(edit::Editor),
    EditText,
    Get,
    List,
    Set,
}

const fn editor(
    editor: edit::Editor,
    name: (&'static str, &'static str),
    about: &'static str,
    operands: (usize, usize),
) -> Command<Verb> {
    Command::new(Verb::Edit(editor), name, about, &[], operands)
}

#[expect(clippy::needless_pass_by_value, reason = "it becomes a part of the table")]
const fn editor_with(command: Command<Verb>, flags: &'static [&'static [Flag]]) -> Command<Verb> {
    Command { flags, ..command }
}

static GROUP: Group<Verb> = Group {
    name: "proj",
    about: "Manage projects",
    commands: &[
        Command::new(
            Verb::Create,
            ("create", "PROJECT"),
            "Create a project",
            &[options::FLAGS, CREATE_FLAGS],
            (0, 1),
        ),
        Command::new(
            Verb::Delete,
            ("delete", "PROJECT..."),
            "Delete projects",
            &[DELETE_FLAGS],
            (1, usize::MAX),
        ),
        Command::new(Verb::Get, ("get", "PROJECT"), "Show a project", &[GET_FLAGS], (1, 1)),
        Command::new(Verb::List, ("list", ""), "List projects", &[LIST_FLAGS], (0, usize::MAX)),
        Command::new(Verb::Set, ("set", "PROJECT"), "Change a project", &[options::FLAGS], (1, 1)),
        Command::new(Verb::EditText, ("edit", "PROJECT"), "Change a project in an editor", &[], (1, 1)),
        editor(edit::Editor::AddSource, ("add-source", "PROJECT URL"), "Permit a repository", (2, 2)),
        editor(
            edit::Editor::RemoveSource,
            ("remove-source", "PROJECT URL"),
            "Take a repository away",
            (2, 2),
        ),
        editor(
            edit::Editor::AddSourceNamespace,
            ("add-source-namespace", "PROJECT NAMESPACE"),
            "Permit applications of a namespace",
            (2, 2),
        ),
        editor(
            edit::Editor::RemoveSourceNamespace,
            ("remove-source-namespace", "PROJECT NAMESPACE"),
            "Take a namespace of applications away",
            (2, 2),
        ),
        editor_with(
            editor(
                edit::Editor::AddDestination,
                ("add-destination", "PROJECT SERVER/NAME NAMESPACE"),
                "Permit a destination",
                (3, 3),
            ),
            &[edit::DESTINATION_FLAGS],
        ),
        editor(
            edit::Editor::RemoveDestination,
            ("remove-destination", "PROJECT SERVER NAMESPACE"),
            "Take a destination away",
            (3, 3),
        ),
        editor_with(
            editor(
                edit::Editor::AddAccount,
                ("add-destination-service-account", "PROJECT SERVER NAMESPACE SERVICE_ACCOUNT"),
                "Set the account that a destination is synced with",
                (4, 4),
            ),
            &[edit::ACCOUNT_FLAGS],
        ),
        editor_with(
            editor(
                edit::Editor::RemoveAccount,
                ("remove-destination-service-account", "PROJECT SERVER NAMESPACE SERVICE_ACCOUNT"),
                "Take the account of a destination away",
                (4, 4),
            ),
            &[edit::ACCOUNT_FLAGS],
        ),
        editor_with(
            editor(
                edit::Editor::AddOrphanIgnore,
                ("add-orphaned-ignore", "PROJECT GROUP KIND"),
                "Do not count a kind as orphaned",
                (3, 3),
            ),
            &[edit::ORPHAN_FLAGS],
        ),
        editor_with(
            editor(
                edit::Editor::RemoveOrphanIgnore,
                ("remove-orphaned-ignore", "PROJECT GROUP KIND"),
                "Count a kind as orphaned again",
                (3, 3),
            ),
            &[edit::ORPHAN_FLAGS],
        ),
        editor(
            edit::Editor::AddSignatureKey,
            ("add-signature-key", "PROJECT KEY-ID"),
            "Require a signature (deprecated)",
            (2, 2),
        ),
        editor(
            edit::Editor::RemoveSignatureKey,
            ("remove-signature-key", "PROJECT KEY-ID"),
            "Take a key of signatures away (deprecated)",
            (2, 2),
        ),
        Command::new(
            Verb::Edit(edit::Editor::AllowClusterResource),
            ("allow-cluster-resource", "PROJECT GROUP KIND [NAME]"),
            "Permit a cluster-scoped kind",
            &[ALLOW_LIST],
            (3, 4),
        ),
        Command::new(
            Verb::Edit(edit::Editor::DenyClusterResource),
            ("deny-cluster-resource", "PROJECT GROUP KIND [NAME]"),
            "Forbid a cluster-scoped kind",
            &[ALLOW_LIST],
            (3, 4),
        ),
        Command::new(
            Verb::Edit(edit::Editor::AllowNamespaceResource),
            ("allow-namespace-resource", "PROJECT GROUP KIND"),
            "Permit a namespaced kind",
            &[DENY_LIST],
            (3, 3),
        ),
        Command::new(
            Verb::Edit(edit::Editor::DenyNamespaceResource),
            ("deny-namespace-resource", "PROJECT GROUP KIND"),
            "Forbid a namespaced kind",
            &[DENY_LIST],
            (3, 3),
        ),
    ],
    groups: &[
        ("role", "Manage the roles of a project"),
        ("windows", "Manage the sync windows of a project"),
        ("source-integrity", "Manage which sources must be signed"),
    ],
    bare_code: 1,
    aliases: &[],
};

/// Runs `proj …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, mut args: Vec<String>) -> u8 {
    let mut rest = args.clone();
    match flags::take_word(&mut rest, global::WORD_TABLES).as_deref() {
        Some("role") => role::run(terminal, rest),
        Some("windows") => windows::run(terminal, rest),
        Some("source-integrity") => integrity::run(terminal, rest),
        _ => session::run(terminal, std::mem::take(&mut args), &GROUP, perform),
    }
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::Create => Box::pin(create(session)).await,
        Verb::Delete => Box::pin(delete(session)).await,
        Verb::Edit(editor) => Box::pin(edit::run(session, editor)).await,
        Verb::EditText => Box::pin(text::run(session)).await,
        Verb::Get => Box::pin(get(session)).await,
        Verb::List => Box::pin(list(session)).await,
        Verb::Set => Box::pin(set(session)).await,
    }
}

async fn create(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let Some(project) = options::wanted(session).await? else { return Ok(Ended::Help) };
    let work = Work::begin(session).await?;
    work.create(&project, flags.is_on("upsert")).await?;
    Ok(OK)
}

async fn set(session: &Session<'_>) -> Result<Ended, Failure> {
    if !options::FLAGS.iter().any(|flag| session.flags.is_set(flag.long)) {
        session.terminal.log(session.style, "error", "Please set at least one option to update");
        return Ok(Ended::Help);
    }
    let work = Work::begin(session).await?;
    let edit = |spec: &mut AppProjectSpec| options::apply(spec, session.flags).map(|()| true);
    work.edit(session.operand(0), edit).await?;
    Ok(OK)
}

async fn delete(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    for name in &session.flags.operands {
        if !session.confirms(&format!("Are you sure you want to delete {name}? [y/n] ")).await {
            session.terminal.line(&format!("The command to delete {name} was cancelled."));
            continue;
        }
        work.delete(name).await?;
    }
    Ok(OK)
}

async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let object = work.object(session.operand(0)).await?;
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => session.terminal.data(&print(&as_api(value_of(&object)?), machine)?),
        (None, "wide" | "") => {
            let project = work::read(&object)?;
            let scoped = work.scoped(project.name()).await?;
            session.terminal.print(&show::summary(&project, scoped));
        }
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let objects = core.projects().await?;
    let format = session.flags.text("output");
    if let Some(machine) = machine_format(format) {
        let values = objects
            .iter()
            .map(|object| Ok(as_api(value_of(object)?)))
            .collect::<Result<Vec<_>, Failure>>()?;
        session.terminal.data(&print(&values.into(), machine)?);
        return Ok(OK);
    }
    let mut projects = Vec::with_capacity(objects.len());
    for object in &objects {
        match tiphys_service::project::read(object) {
            Ok(project) => projects.push(project),
            Err(error) => session.warn(&error.to_string()),
        }
    }
    match format {
        "name" => projects.iter().for_each(|project| session.terminal.line(project.name())),
        "wide" | "" => session.terminal.print(&show::table(&projects)),
        other => return Err(unknown_format(other)),
    }
    Ok(OK)
}
