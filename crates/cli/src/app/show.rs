//! The commands that only look: `get`, `list`, `history`, `manifests`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tiphys_api::Application;
use tiphys_engine::mask::SecretMask;
use tiphys_engine::normalize::IgnoreRules;
use tiphys_policy::project::namespace_enabled;

use crate::app::list::{self, Columns, ListFilter};
use crate::app::summary::{self, qualified_name};
use crate::app::{Ended, NAMESPACE, OK, OUTPUT, Session, rows};
use crate::core::{AppName, Core, Destination, Remote, RenderPlan, Stored, World, state, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::output::{Format, machine_format, print, unknown_format};

/// Flags of `get`.
pub(super) const GET_FLAGS: &[Flag] = &[
    OUTPUT,
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
    if !matches!(output, "wide" | "") {
        return Err(unknown_format(output));
    }
    world.check_project(&stored.app)?;
    let mut app = stored.app;
    core.fill_health(&mut app, &world).await;
    let mut text = summary::summary(&app, &world.url(&app), &world.windows(&app, terminal.now())?);
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
    let table = rows::table(&app);
    if !table.is_empty() {
        text.push('\n');
        text.push_str(&table);
    }
    terminal.print(&text);
    Ok(OK)
}

/// The source the flags choose; the first of a single-source application (CLI-415).
fn source_index(app: &Application, flags: &Parsed) -> Result<usize, Failure> {
    if !app.is_multi_source() {
        return Ok(0);
    }
    let name = flags.text("source-name");
    if flags.is_set("source-position") && !name.is_empty() {
        return Err(Failure::generic("Only one of source-position and source-name can be specified."));
    }
    if !name.is_empty() {
        let found = app.sources().iter().position(|source| source.name == name);
        return found.ok_or_else(|| Failure::fatal(format!("Unknown source name '{name}'")));
    }
    let index = flags.int("source-position").checked_sub(1).and_then(|index| usize::try_from(index).ok());
    match index {
        None => Err(Failure::generic(
            "Source position should be specified and must be greater than 0 for applications with multiple sources",
        )),
        Some(index) if index >= app.sources().len() => Err(Failure::generic(
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
    if let Some(server) = core.server() {
        let values = manifests_of(session, server, &name).await?;
        for value in &values {
            session.terminal.data(&format!("---\n{}", print(value, Format::Yaml)?));
        }
        return Ok(OK);
    }
    let stored = core.application(&name).await?;
    let world = World::load(&core).await?;
    let mut values: Vec<Value> = match flags.text("source") {
        "live" => {
            let destination = Destination::of(&stored.app, &core, &world).await?;
            let objects = core.managed(&stored.app, &destination, &IgnoreRules::default()).await?;
            objects.iter().map(|object| value_of(object)).collect::<Result<_, _>>()?
        }
        "git" => {
            let plan = plan(&stored.app, flags)?;
            let rendered = core.render(&stored.app, &world, &plan, session.terminal).await?;
            rendered.objects.iter().map(|object| value_of(object)).collect::<Result<_, _>>()?
        }
        other => return Err(Failure::fatal(format!("Unknown source type '{other}'"))),
    };
    let mask = SecretMask::from_settings(world.settings.cm());
    for value in &mut values {
        mask.hide(&mut [&mut *value]).map_err(|error| Failure::generic(error.to_string()))?;
        session.terminal.data(&format!("---\n{}", print(value, Format::Yaml)?));
    }
    Ok(OK)
}

/// The manifests that a server shows: those of the source, or what is live.
async fn manifests_of(session: &Session<'_>, server: &Remote, name: &AppName) -> Result<Vec<Value>, Failure> {
    match session.flags.text("source") {
        "git" => {
            session.refuse_by_server(&["revisions", "source-positions", "source-names", "local"])?;
            server.manifests(name, session.flags.text("revision")).await
        }
        "live" => {
            let all = server.managed_resources(name).await?;
            let live = all.iter().map(|one| state(one, "liveState")).collect::<Result<Vec<_>, _>>()?;
            Ok(live.into_iter().filter(Value::is_object).collect())
        }
        other => Err(Failure::fatal(format!("Unknown source type '{other}'"))),
    }
}

/// What `manifests` and `diff` render: local files, given revisions, or what was last compared (CLI-504).
pub(super) fn plan(app: &Application, flags: &Parsed) -> Result<RenderPlan, Failure> {
    let count = app.sources().len();
    let revisions = flags.texts("revisions");
    let positions = flags.ints("source-positions");
    let names = flags.texts("source-names");
    if !positions.is_empty() && !names.is_empty() {
        return Err(Failure::generic("Only one of source-positions and source-names can be specified."));
    }
    for (given, what) in [(positions.len(), "source-positions"), (names.len(), "source-names")] {
        if given > 0 && given != revisions.len() {
            return Err(Failure::generic(format!(
                "While using --revisions and --{what}, length of values for both flags should be same."
            )));
        }
    }
    let mut chosen = compared_revisions(app);
    chosen.resize(count, String::new());
    if !revisions.is_empty() && app.is_multi_source() {
        let indexes = if names.is_empty() { by_position(&positions, count)? } else { by_name(app, names)? };
        for (index, revision) in indexes.into_iter().zip(revisions) {
            if let Some(slot) = chosen.get_mut(index) {
                slot.clone_from(revision);
            }
        }
        return Ok(RenderPlan::Revisions(chosen));
    }
    if flags.is_set("revision") {
        return Ok(RenderPlan::Revisions(vec![flags.text("revision").to_owned(); count]));
    }
    if flags.is_set("local") {
        return local(flags);
    }
    Ok(RenderPlan::Revisions(chosen))
}

/// The revisions of the last comparison, where it was about the present sources.
pub(crate) fn compared_revisions(app: &Application) -> Vec<String> {
    let sync = &app.status.sync;
    let is_current = if app.is_multi_source() {
        sync.compared_to.sources == app.spec.sources
    } else {
        sync.compared_to.source.as_ref() == app.single_source()
    };
    match (is_current, app.is_multi_source()) {
        (false, _) => Vec::new(),
        (true, true) => sync.revisions.clone(),
        (true, false) => vec![sync.revision.clone()],
    }
}

/// Indexes of sources from positions that count from 1.
pub(super) fn by_position(positions: &[i64], count: usize) -> Result<Vec<usize>, Failure> {
    let index = |position: &i64| {
        let index = position.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        index.filter(|index| *index < count).ok_or_else(|| {
            Failure::fatal(
                "source-position cannot be less than 1 or more than number of sources in the app. Counting starts at 1.",
            )
        })
    };
    positions.iter().map(index).collect()
}

/// Indexes of sources from their names.
pub(super) fn by_name(app: &Application, names: &[String]) -> Result<Vec<usize>, Failure> {
    let index = |name: &String| {
        let found = app.sources().iter().position(|source| source.name == *name);
        found.ok_or_else(|| Failure::fatal(format!("Unknown source name '{name}'")))
    };
    names.iter().map(index).collect()
}

/// A local directory; without a meaningful root it is its own repository.
pub(super) fn local(flags: &Parsed) -> Result<RenderPlan, Failure> {
    let resolve = |text: &str| {
        std::fs::canonicalize(text).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Failure::generic(format!("stat {text}: no such file or directory"))
            }
            _ => Failure::generic(format!("{text}: {error}")),
        })
    };
    let directory = resolve(flags.text("local"))?;
    let root = resolve(flags.text("local-repo-root"))?;
    // Reading a whole file system to find one directory helps nobody.
    let root = if root == Path::new("/") || !directory.starts_with(&root) { directory.clone() } else { root };
    let path = directory.strip_prefix(&root).map(PathBuf::from).unwrap_or_default();
    let path = if path.as_os_str().is_empty() { ".".to_owned() } else { path.to_string_lossy().into_owned() };
    Ok(RenderPlan::Local { root, path })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;
    use serde_json::json;

    fn app(multi: bool) -> Application {
        let (a, b) =
            (json!({"repoURL": "u", "path": "a", "name": "one"}), json!({"repoURL": "v", "path": "b"}));
        let value = if multi {
            json!({"metadata": {"name": "a"}, "spec": {"destination": {}, "sources": [a, b]},
                "status": {"sync": {"status": "Synced", "revisions": ["r1", "r2"], "comparedTo": {"destination": {}, "sources": [a, b]}}}})
        } else {
            json!({"metadata": {"name": "a"}, "spec": {"destination": {}, "source": a},
                "status": {"sync": {"status": "Synced", "revision": "r1", "comparedTo": {"destination": {}, "source": a}}}})
        };
        serde_json::from_value(value).unwrap()
    }

    fn planned(multi: bool, args: &[&str]) -> Result<RenderPlan, Failure> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        plan(&app(multi), &parse(&args, &[MANIFESTS_FLAGS]).unwrap())
    }

    fn revisions(list: &[&str]) -> RenderPlan {
        RenderPlan::Revisions(list.iter().map(|text| (*text).to_owned()).collect())
    }

    #[test]
    fn cli_504_what_is_rendered() {
        assert_eq!(planned(false, &[]).unwrap(), revisions(&["r1"]));
        assert_eq!(planned(false, &["--revision", "x"]).unwrap(), revisions(&["x"]));
        assert_eq!(
            planned(true, &["--revisions", "x", "--source-positions", "2"]).unwrap(),
            revisions(&["r1", "x"])
        );
        assert_eq!(
            planned(true, &["--revisions", "x", "--source-names", "one"]).unwrap(),
            revisions(&["x", "r2"])
        );
        let mut changed = app(false);
        changed.spec.source.as_mut().unwrap().path = "other".into();
        let none = parse(&[], &[MANIFESTS_FLAGS]).unwrap();
        assert_eq!(
            plan(&changed, &none).unwrap(),
            revisions(&[""]),
            "the comparison was about another source"
        );
    }

    #[test]
    fn cli_504_conflicts() {
        let text = |args: &[&str]| {
            let failure = planned(true, args).unwrap_err();
            (failure.message, failure.code)
        };
        assert_eq!(
            text(&["--revisions", "x", "--source-positions", "1", "--source-names", "one"]),
            ("Only one of source-positions and source-names can be specified.".to_owned(), 20)
        );
        assert_eq!(
            text(&["--revisions", "x", "--source-positions", "1,2"]),
            ("While using --revisions and --source-positions, length of values for both flags should be same.".to_owned(), 20)
        );
        assert_eq!(text(&["--revisions", "x", "--source-positions", "3"]).1, 1);
        assert_eq!(
            text(&["--revisions", "x", "--source-names", "no"]),
            ("Unknown source name 'no'".to_owned(), 1)
        );
    }

    #[test]
    fn cli_452_a_local_directory_is_its_own_root() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("apps/web");
        std::fs::create_dir_all(&inner).unwrap();
        let (root, inner) = (folder.path().canonicalize().unwrap(), inner.canonicalize().unwrap());
        let (root_text, inner_text) = (root.to_str().unwrap(), inner.to_str().unwrap());
        assert_eq!(
            planned(false, &["--local", inner_text, "--local-repo-root", "/"]).unwrap(),
            RenderPlan::Local { root: inner.clone(), path: ".".into() }
        );
        assert_eq!(
            planned(false, &["--local", inner_text, "--local-repo-root", root_text]).unwrap(),
            RenderPlan::Local { root: root.clone(), path: "apps/web".into() }
        );
        assert_eq!(planned(false, &["--local", "/nowhere/x"]).unwrap_err().code, 20);
    }
}
