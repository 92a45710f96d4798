//! `admin settings resource-overrides`: what the customisations of a kind make of one object (CLI-913).

use std::collections::BTreeMap;

use serde_json::Value;
use tiphys_engine::actions::{Rules, Step, patch};
use tiphys_engine::health::{HealthOverrides, assess_with, is_scripted};
use tiphys_engine::normalize::IgnoreRules;
use tiphys_engine::scripts::Runner;
use tiphys_engine::updates::UpdateRules;
use tiphys_installation::Installation;
use tiphys_object::{Gvk, access, merge_patch};

use super::{inputs, settings};
use crate::app::diff;
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{Format, print};
use crate::scripts;
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

const PARAMS: &[Flag] =
    &[flag("param", Kind::Texts, "", "NAME=VALUE of a parameter of the action (repeatable)")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Health,
    IgnoreDifferences,
    IgnoreResourceUpdates,
    ListActions,
    RunAction,
}

const fn command(
    verb: Verb,
    name: &'static str,
    about: &'static str,
    flags: &'static [&'static [Flag]],
    usage: (&'static str, usize),
) -> Command<Verb> {
    Command::new(verb, (name, usage.0), about, flags, (usage.1, usage.1))
}

static GROUP: Group<Verb> = Group {
    name: "admin settings resource-overrides",
    about: "Say what the customisations of a kind make of one object",
    commands: &[
        command(Verb::Health, "health", "Assess its health", &[settings::SOURCES], ("FILE", 1)),
        command(
            Verb::IgnoreDifferences,
            "ignore-differences",
            "Show the fields whose differences are ignored",
            &[settings::SOURCES],
            ("FILE", 1),
        ),
        command(
            Verb::IgnoreResourceUpdates,
            "ignore-resource-updates",
            "Show the fields whose changes are no reason to compare",
            &[settings::SOURCES],
            ("FILE", 1),
        ),
        command(Verb::ListActions, "list-actions", "List its actions", &[settings::SOURCES], ("FILE", 1)),
        command(
            Verb::RunAction,
            "run-action",
            "Show what an action makes of it",
            &[settings::SOURCES, PARAMS],
            ("FILE ACTION", 2),
        ),
    ],
    groups: &[],
    bare_code: 0,
    aliases: &[("action", "list-actions")],
};

/// Runs `admin settings resource-overrides …`, and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, async |session: &Session<'_>, verb| {
        Box::pin(perform(session, verb)).await
    })
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    let object = object(session.operand(0)).await?;
    let installation = Installation::build(&settings::load(session).await?);
    let cm = installation.settings.cm();
    let scripts = scripts::runner("admin settings resource-overrides", &installation.settings);
    match verb {
        Verb::Health => health(session, &object, cm, &scripts),
        Verb::IgnoreDifferences => {
            let rules = IgnoreRules::compile_with(&[], cm, scripts).map_err(|error| wrong(&error))?;
            let mut after = object.clone();
            rules.apply(&mut after);
            if let Some(note) = rules.stopped().pop_first() {
                return Err(Failure::generic(note));
            }
            ignored(session, ("ignoreDifferences", cm), (&object, &after)).await
        }
        Verb::IgnoreResourceUpdates => {
            let with_differences =
                installation.settings.compare_options().ignore_differences_on_resource_updates;
            let rules = UpdateRules::from_settings(cm, with_differences).map_err(|error| wrong(&error))?;
            let mut after = object.clone();
            rules.apply(&mut after);
            ignored(session, ("ignoreResourceUpdates", cm), (&object, &after)).await
        }
        Verb::ListActions => {
            let found = rules(cm, &object)?.available(&object, &scripts, session.terminal.now());
            let mut table = Table::new(&["NAME", "DISABLED"]);
            for action in found.map_err(|error| wrong(&error))? {
                table.row(vec![action.name, action.disabled.to_string()]);
            }
            session.terminal.print(&table.print());
            Ok(OK)
        }
        Verb::RunAction => run_action(session, &object, cm, &scripts).await,
    }
}

fn wrong(error: &dyn std::fmt::Display) -> Failure {
    Failure::generic(error.to_string())
}

/// The one object of a file.
async fn object(path: &str) -> Result<Value, Failure> {
    let found = inputs::documents("FILE", path).await?;
    match found.as_slice() {
        [object] if !Gvk::of(object).kind.is_empty() => Ok(object.clone()),
        [_] => Err(inputs::invalid(format!("{path}: the object has no kind"))),
        several => Err(inputs::invalid(format!("{path}: {} objects, where one is expected", several.len()))),
    }
}

fn rules(cm: &BTreeMap<String, String>, object: &Value) -> Result<Rules, Failure> {
    let gvk = Gvk::of(object);
    Rules::of(cm, &gvk.group, &gvk.kind).map_err(|error| wrong(&error))
}

fn health(
    session: &Session<'_>,
    object: &Value,
    cm: &BTreeMap<String, String>,
    scripts: &Runner,
) -> Result<Ended, Failure> {
    let overrides = HealthOverrides::from_settings(cm).map_err(|error| wrong(&error))?;
    let gvk = Gvk::of(object);
    if !is_scripted(object, &overrides) {
        let text = format!("Health script is not configured for '{}/{}'", gvk.group, gvk.kind);
        session.terminal.line(&text);
        return Ok(OK);
    }
    let now = session.terminal.now();
    let overrides = overrides.with_clock(std::sync::Arc::new(move || now));
    let (status, message) = assess_with(object, &overrides, scripts)
        .map_or_else(|| ("", String::new()), |health| (health.status.as_str(), health.message));
    session.terminal.line(&format!("STATUS: {status}"));
    session.terminal.line(&format!("MESSAGE: {message}"));
    Ok(OK)
}

/// Shows what of an object counts for nothing.
async fn ignored(
    session: &Session<'_>,
    (kind, cm): (&str, &BTreeMap<String, String>),
    (before, after): (&Value, &Value),
) -> Result<Ended, Failure> {
    if before != after {
        let name = access::name(before);
        session.terminal.print(&diff::text(session.terminal, name, (before, after)).await?);
        return Ok(OK);
    }
    let prefix = format!("resource.customizations.{kind}.");
    let settings: Vec<&str> =
        cm.iter().filter(|(key, _)| key.starts_with(&prefix)).map(|(_, text)| text.as_str()).collect();
    session.terminal.line(&format!("No fields are ignored by {kind} settings: \n{}", settings.join("\n")));
    Ok(OK)
}

async fn run_action(
    session: &Session<'_>,
    object: &Value,
    cm: &BTreeMap<String, String>,
    scripts: &Runner,
) -> Result<Ended, Failure> {
    let mut params = BTreeMap::new();
    for text in session.flags.texts("param") {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::generic(format!("expected a parameter of the form: name=value. Received: {text}"))
        })?;
        params.insert(name.to_owned(), value.to_owned());
    }
    let asked = (session.operand(1), &params);
    let steps = rules(cm, object)?.run(object, asked, scripts, session.terminal.now());
    for step in steps.map_err(|error| wrong(&error))? {
        let after = match &step {
            Step::Create(made) => {
                session.terminal.line("Following resource was created:");
                session.terminal.data(&print(made, Format::Yaml)?);
                continue;
            }
            Step::Patch(wanted) => merge_patch::apply(object.clone(), &Value::Object(patch(object, wanted))),
            Step::Merge(wanted) if access::name(wanted) == access::name(object) => {
                merge_patch::apply(object.clone(), wanted)
            }
            Step::Merge(wanted) => {
                // Only its name and what it gets are known of an object that is not in the file.
                session.terminal.line("Following resource was changed:");
                session.terminal.data(&print(wanted, Format::Yaml)?);
                continue;
            }
        };
        session.terminal.print(&diff::text(session.terminal, access::name(object), (object, &after)).await?);
    }
    Ok(OK)
}
