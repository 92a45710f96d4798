//! The commands that only look: `get`, `list`, `history`, `manifests`.

use std::time::Duration;

use serde_json::Value;
use tiphys_api::Application;
use tiphys_api::application::ApplicationSource;
use tiphys_engine::mask::SecretMask;
use tiphys_engine::normalize::IgnoreRules;
use tiphys_policy::project::namespace_enabled;

use crate::app::list::{self, Columns, ListFilter};
use crate::app::summary::{self, qualified_name};
use crate::app::tree::Detail;
use crate::app::{Ended, NAMESPACE, OK, Session, TREE_OUTPUT, rows, selection, tree};
use crate::core::{Core, Destination, Stored, World, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::output::{Format, machine_format, print, unknown_format};

/// Flags of `get`.
pub(super) const GET_FLAGS: &[Flag] = &[
    TREE_OUTPUT,
    flag("refresh", Kind::Bool, "false", "Compare again first"),
    flag("hard-refresh", Kind::Bool, "false", "Compare again first, without caches"),
    flag("timeout", Kind::Uint, "0", "Seconds to wait for the comparison; 0 waits for ever"),
    flag("show-operation", Kind::Bool, "false", "Show the last operation"),
    flag("show-params", Kind::Bool, "false", "Show Helm parameters"),
    flag("source-position", Kind::Int, "-1", "Position of the source, from 1"),
    flag("source-name", Kind::Text, "", "Name of the source"),
    NAMESPACE,
];

/// Flags of `list`.
pub(super) const LIST_FLAGS: &[Flag] = &[
    flag("output", Kind::Text, "wide", "Output format: wide, name, json or yaml").or('o'),
    flag("selector", Kind::Text, "", "Label selector").or('l'),
    flag("project", Kind::Texts, "", "Project").or('p'),
    flag("repo", Kind::Text, "", "Repository URL").or('r'),
    flag("cluster", Kind::Text, "", "Name or URL of the cluster").or('c'),
    flag("path", Kind::Text, "", "Path in the repository").or('P'),
    NAMESPACE,
];

/// Flags of `history`.
pub(super) const HISTORY_FLAGS: &[Flag] =
    &[flag("output", Kind::Text, "wide", "Output format: wide or id").or('o'), NAMESPACE];

/// Flags of `manifests`.
pub(super) const MANIFESTS_FLAGS: &[Flag] = &[
    flag("source", Kind::Text, "git", "Where manifests come from: git or live"),
    flag("revision", Kind::Text, "", "Revision to render"),
    flag("revisions", Kind::Texts, "", "Revision of the source at the same position or name"),
    flag("source-positions", Kind::Ints, "", "Position of a source, from 1"),
    flag("source-names", Kind::Texts, "", "Name of a source"),
    flag("local", Kind::Text, "", "Directory with local manifests"),
    flag("local-repo-root", Kind::Text, ".", "Root of the repository of the local directory"),
    NAMESPACE,
];

/// `app list`.
pub(super) async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let stored = visible(session, &core, flags.text("selector")).await?;
    let filter = ListFilter {
        projects: flags.texts("project").to_vec(),
        repository: flags.text("repo").to_owned(),
        cluster: flags.text("cluster").to_owned(),
        path: flags.text("path").to_owned(),
    };
    let stored: Vec<Stored> = stored.into_iter().filter(|stored| filter.matches(&stored.app)).collect();
    let apps = || stored.iter().map(|stored| stored.app.clone()).collect::<Vec<_>>();
    let text = match flags.text("output") {
        "wide" => list::table(&apps(), Columns::Wide),
        "" => list::table(&apps(), Columns::Short),
        "name" => lines(stored.iter().map(|stored| qualified_name(&stored.app))),
        other => match machine_format(other) {
            Some(format) => print(&Value::Array(stored.iter().map(Stored::value).collect()), format)?,
            None => return Err(unknown_format(other)),
        },
    };
    match machine_format(flags.text("output")) {
        Some(_) => session.terminal.data(&text),
        None => session.terminal.print(&text),
    }
    Ok(OK)
}

/// Texts with a line end each.
fn lines(texts: impl Iterator<Item = String>) -> String {
    let mut out = String::new();
    for text in texts {
        out.push_str(&tiphys_api::printable::line(&text));
        out.push('\n');
    }
    out
}

/// The applications that a list without a namespace shows: those of all namespaces that are enabled.
pub(super) async fn visible(
    session: &Session<'_>,
    core: &Core,
    selector: &str,
) -> Result<Vec<Stored>, Failure> {
    let given = session.flags.text("app-namespace");
    let all = if !given.is_empty() || core.server().is_some() {
        core.applications(given, selector).await?
    } else {
        let settings = World::settings(core).await?;
        if settings.application_namespaces().is_empty() {
            core.applications(&core.namespace, selector).await?
        } else {
            let mut all = core.applications("", selector).await?;
            all.retain(|stored| namespace_enabled(&settings, stored.object.namespace(), &core.namespace));
            all
        }
    };
    name_left_out(session, core);
    Ok(all)
}

/// Names the applications that a list has to do without; one that cannot be read does not hide the others.
pub(super) fn name_left_out(session: &Session<'_>, core: &Core) {
    for bad in core.left_out() {
        session.terminal.log(session.style, "warning", &bad);
    }
}

/// `app get`.
pub(super) async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let terminal = session.terminal;
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let hard = flags.is_on("hard-refresh");
    let mut stored = core.application(&name).await?;
    if hard || flags.is_on("refresh") {
        let refresh = core.refresh(&name, hard);
        stored = match flags.uint("timeout") {
            0 => refresh.await?,
            // When the time is up the stored state is shown (CLI-440).
            seconds => match tokio::time::timeout(Duration::from_secs(seconds), refresh).await {
                Ok(refreshed) => refreshed?,
                Err(_) => core.application(&name).await?,
            },
        };
    }
    let output = flags.text("output");
    if let Some(format) = machine_format(output) {
        terminal.data(&print(&stored.value(), format)?);
        return Ok(OK);
    }
    let world = World::load(&core).await?;
    let detail = Detail::of(output);
    if detail.is_none() && !matches!(output, "wide" | "") {
        return Err(unknown_format(output));
    }
    world.check_project(&stored.app)?;
    let mut app = stored.app;
    core.fill_health(&mut app, &world).await;
    let mut text = summary::summary(&app, &world.url(&app, &core), &world.windows(&app, terminal.now())?);
    text.push_str(&summary::tracking_method(&app, world.tracking_of(&app).method));
    text.push_str(&summary::conditions(&app, terminal));
    if let Some(state) = app.status.operation_state.as_ref().filter(|_| flags.is_on("show-operation")) {
        text.push('\n');
        text.push_str(&summary::operation(state, terminal));
    }
    if flags.is_on("show-params") {
        let index = source_index(&app, flags)?;
        text.push_str(&summary::parameters(app.sources().get(index)));
    }
    let table = resource_table(session, (&core, &world), &app).await?;
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table);
    }
    terminal.print(&text);
    Ok(OK)
}

/// The resources of an application, as a table or, where the output is one, as a tree; empty without resources.
pub(super) async fn resource_table(
    session: &Session<'_>,
    (core, world): (&Core, &World),
    app: &Application,
) -> Result<String, Failure> {
    match Detail::of(session.flags.text("output")) {
        Some(detail) if !app.status.resources.is_empty() => {
            let nodes = core.tree(app, world).await?.nodes;
            Ok(tree::table(app, &nodes, detail, session.terminal.now()))
        }
        _ => Ok(rows::table(app)),
    }
}

/// The source the flags choose; the first of a single-source application (CLI-415).
fn source_index(app: &Application, flags: &Parsed) -> Result<usize, Failure> {
    if app.is_multi_source() { chosen_source(app.sources(), flags) } else { Ok(0) }
}

/// Which of several sources the flags choose (CLI-415).
pub(super) fn chosen_source(sources: &[ApplicationSource], flags: &Parsed) -> Result<usize, Failure> {
    let name = flags.text("source-name");
    if flags.is_set("source-position") && !name.is_empty() {
        return Err(Failure::generic("Only one of source-position and source-name can be specified."));
    }
    if !name.is_empty() {
        let found = sources.iter().position(|source| source.name == name);
        return found.ok_or_else(|| Failure::fatal(format!("Unknown source name '{name}'")));
    }
    let index = flags.int("source-position").checked_sub(1).and_then(|index| usize::try_from(index).ok());
    match index {
        None => Err(Failure::generic(
            "Source position should be specified and must be greater than 0 for applications with multiple sources",
        )),
        Some(index) if index >= sources.len() => Err(Failure::generic(
            "Source position should be less than the number of sources in the application",
        )),
        Some(index) => Ok(index),
    }
}

/// `app history`.
pub(super) async fn history(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let stored = core.application(&session.only_name(&core)).await?;
    let entries = &stored.app.status.history;
    let text = if session.flags.text("output") == "id" {
        lines(entries.iter().map(|entry| entry.id.to_string()))
    } else {
        list::history(entries, session.terminal)
    };
    session.terminal.print(&text);
    Ok(OK)
}

/// `app manifests`.
pub(super) async fn manifests(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let stored = core.application(&name).await?;
    let chosen = selection::chosen(&stored.app, flags)?;
    let world = World::load(&core).await?;
    let mut values: Vec<Value> = match (flags.text("source"), core.server()) {
        ("live", Some(server)) => {
            let objects = server.live_objects(&name).await?;
            objects.iter().map(|object| value_of(object)).collect::<Result<_, _>>()?
        }
        ("live", None) => {
            let destination = Destination::of(&stored.app, &core, &world).await?;
            let objects = core.managed(&stored.app, &destination, &IgnoreRules::default()).await?;
            objects.iter().map(|object| value_of(object)).collect::<Result<_, _>>()?
        }
        ("git", server) => {
            if let (Some(server), Some(revisions)) = (server, chosen.revisions(&stored.app)) {
                server.manifests(&name, &revisions).await?
            } else {
                let plan = chosen.plan(&stored.app);
                let rendered = core.render(&stored.app, &world, &plan, session.terminal).await?;
                rendered.objects.iter().map(|object| value_of(object)).collect::<Result<_, _>>()?
            }
        }
        (other, _) => return Err(Failure::fatal(format!("Unknown source type '{other}'"))),
    };
    let mask = SecretMask::from_settings(world.settings.cm());
    for value in &mut values {
        mask.hide(&mut [&mut *value]).map_err(|error| Failure::generic(error.to_string()))?;
        session.terminal.data(&format!("---\n{}", print(value, Format::Yaml)?));
    }
    Ok(OK)
}
