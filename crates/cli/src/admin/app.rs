//! `admin app`: manifests of applications (CLI-920), and what a comparison says of all of them before and after a change
//! of the installation (CLI-921).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::application::Condition;
use tiphys_api::codes::{ConditionType, HealthCode};
use tiphys_engine::compare::SyncStatusCode;
use tiphys_go::yaml::{self, Dialect, Limits};

use super::spec;
use crate::app::diff;
use crate::command::Command;
use crate::core::{Core, RenderPlan, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::outfile;
use crate::output::{Format, machine_format, print};
use crate::session::{self, Ended, Group, OK, Session};
use crate::terminal::{Terminal, io_text, read_input};

const RESULTS: &[Flag] = &[
    flag("l", Kind::Text, "", "Label selector"),
    flag("o", Kind::Text, "yaml", "Format of the file: yaml or json"),
    flag("refresh", Kind::Bool, "false", "Compare here and now, instead of reading what the controller said"),
    flag("repo-server", Kind::Text, "", "Accepted; sources are rendered here"),
    flag("server-side-diff", Kind::Bool, "false", "Accepted; differences are computed here"),
];

#[derive(Clone, Copy, Debug)]
enum Verb {
    GenerateSpec,
    Get,
    Diff,
}

static GROUP: Group<Verb> = Group {
    name: "admin app",
    about: "Make manifests of applications, and compare what became of them",
    commands: &[
        Command::new(
            Verb::Diff,
            ("diff-reconcile-results", "PATH1 PATH2"),
            "Print how two files of get-reconcile-results differ",
            &[],
            (2, 2),
        ),
        spec::of_app(Verb::GenerateSpec),
        Command::new(
            Verb::Get,
            ("get-reconcile-results", "PATH"),
            "Write health, status and conditions of all applications to a file",
            &[RESULTS],
            (1, 1),
        ),
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin app …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, async |session: &Session<'_>, verb| match verb {
        Verb::GenerateSpec => Box::pin(spec::app(session)).await,
        Verb::Get => Box::pin(get(session)).await,
        Verb::Diff => Box::pin(differ(session)).await,
    })
}

async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let (flags, path) = (session.flags, session.operand(0));
    let format = flags.text("o");
    let format = machine_format(format)
        .ok_or_else(|| Failure::generic(format!("format {format} is not supported")))?;
    let core = session.connect_to_cluster().await?;
    let mut stored = core.applications(&core.namespace, flags.text("l")).await?;
    // Half of the applications would look like a change of the others.
    if let Some(unread) = core.left_out().into_iter().next() {
        return Err(Failure::generic(unread));
    }
    let mut results = Vec::with_capacity(stored.len());
    if flags.is_on("refresh") {
        for (name, does) in
            [("repo-server", "sources are rendered"), ("server-side-diff", "differences are computed")]
        {
            if flags.is_set(name) {
                session.warn(&format!("--{name} changes nothing: {does} here"));
            }
        }
        let world = World::load(&core).await?;
        stored.sort_by(|a, b| a.app.spec.destination.server.cmp(&b.app.spec.destination.server));
        let mut before = None;
        for one in &stored {
            let server = &one.app.spec.destination.server;
            if before != Some(server) {
                session.terminal.line(&format!("Reconciling apps of {server}"));
                before = Some(server);
            }
            session.terminal.line(&one.app.metadata.name);
            results.push(Box::pin(compared(session, (&core, &world), &one.app)).await);
        }
    } else {
        results.extend(stored.iter().map(|one| told(&one.app)));
    }
    let value = json!({"applications": results});
    let text = if format == Format::Json { value.to_string() } else { print(&value, format)? };
    outfile::replace_keeping_mode(Path::new(path), text.as_bytes())
        .map_err(|error| Failure::generic(format!("open {path}: {}", io_text(&error))))?;
    Ok(OK)
}

/// What the controller said last.
fn told(app: &Application) -> Value {
    let status = &app.status;
    json!({"name": app.metadata.name, "health": status.health, "sync": status.sync, "conditions": status.conditions})
}

/// What it would say now. What cannot be compared is unknown, and the condition says why.
async fn compared(session: &Session<'_>, (core, world): (&Core, &World), app: &Application) -> Value {
    let plan = RenderPlan::Revisions(app.sources().iter().map(|_| String::new()).collect());
    let verdict = async {
        let rendered = core.render(app, world, &plan, session.terminal).await?;
        core.verdict(app, world, &rendered.objects).await
    };
    let (status, health, conditions) = match verdict.await {
        Ok(verdict) => {
            let health = match verdict.health.message.as_str() {
                "" => json!({"status": verdict.health.status.as_str()}),
                why => json!({"status": verdict.health.status.as_str(), "message": why}),
            };
            (verdict.status, health, verdict.conditions)
        }
        Err(failure) => (
            SyncStatusCode::Unknown,
            json!({"status": HealthCode::Unknown.as_str()}),
            vec![Condition::new(ConditionType::ComparisonError, failure.message)],
        ),
    };
    let sources = app.sources();
    let against = match sources {
        [only] if app.spec.sources.is_empty() => {
            json!({"destination": app.spec.destination, "source": only})
        }
        several => json!({"destination": app.spec.destination, "sources": several}),
    };
    json!({"name": app.metadata.name, "health": health, "conditions": conditions,
        "sync": {"status": status.as_str(), "comparedTo": against}})
}

async fn differ(session: &Session<'_>) -> Result<Ended, Failure> {
    let (mut first, mut second) = (results(session.operand(0)).await?, results(session.operand(1)).await?);
    let names: std::collections::BTreeSet<String> = first.keys().chain(second.keys()).cloned().collect();
    for name in names {
        let sides = (first.remove(&name).unwrap_or_default(), second.remove(&name).unwrap_or_default());
        session.terminal.line(&name);
        if sides.0 != sides.1 {
            session.terminal.print(&diff::text(session.terminal, &name, (&sides.0, &sides.1)).await?);
        }
    }
    Ok(OK)
}

/// The results in a file, by the names of applications.
async fn results(path: &str) -> Result<BTreeMap<String, Value>, Failure> {
    let bad = |why: &str| Failure::generic(format!("{path}: {why}"));
    let text = read_input(path).await?;
    let value =
        yaml::parse(&text, Dialect::Sigs, &Limits::default()).map_err(|error| bad(&error.to_string()))?;
    let mut value = value.unwrap_or_default();
    let found = match value.get_mut("applications").map(Value::take) {
        Some(Value::Array(found)) => found,
        Some(Value::Null) => Vec::new(),
        _ => return Err(bad("there are no applications; was it written by get-reconcile-results?")),
    };
    let named = |result: Value| match result.get("name").and_then(Value::as_str) {
        Some(name) => Ok((name.to_owned(), result)),
        None => Err(bad("an application has no name")),
    };
    found.into_iter().map(named).collect()
}
