//! `app sync` (CLI-510..517).

use serde_json::Value;
use tiphys_api::application::SyncResource;
use tiphys_object::{Gvk, access};

use crate::app::differences::differences;
use crate::app::operation::{SyncRequest, read};
use crate::app::selection::{self, Chosen};
use crate::app::wait::{Limits, until};
use crate::app::waiting::{Goal, Wait};
use crate::app::{Ended, NAMESPACE, OK, Session, TREE_OUTPUT, Work, diff, show, summary};
use crate::core::{AppName, Core, RenderPlan, Stored, World, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::terminal::Answer;

/// Flags of `sync`.
pub(super) const FLAGS: &[Flag] = &[
    flag("dry-run", Kind::Bool, "false", "Change nothing"),
    flag("prune", Kind::Bool, "false", "Delete what left the source"),
    flag("revision", Kind::Text, "", "Revision to sync to"),
    flag("revisions", Kind::Texts, "", "Revision of the source at the same position or name"),
    flag("source-positions", Kind::Ints, "", "Position of a source, from 1"),
    flag("source-names", Kind::Texts, "", "Name of a source"),
    flag("resource", Kind::Texts, "", "Sync some resources: GROUP:KIND:[NAMESPACE/]NAME, ! excludes"),
    flag("selector", Kind::Text, "", "Sync all applications with these labels").or('l'),
    flag("label", Kind::Texts, "", "Sync only resources with a label key=value"),
    flag("project", Kind::Texts, "", "Sync all applications of a project"),
    flag("timeout", Kind::Uint, "0", "Seconds to wait; 0 waits for ever"),
    flag("retry-limit", Kind::Int, "0", "Retries of a failed sync"),
    flag("retry-refresh", Kind::Bool, "false", "Take the newest revision on retries"),
    flag("retry-backoff-duration", Kind::Duration, "5s", "First wait before a retry"),
    flag("retry-backoff-max-duration", Kind::Duration, "3m0s", "Longest wait before a retry"),
    flag("retry-backoff-factor", Kind::Int, "2", "Growth of the wait"),
    flag("strategy", Kind::Text, "", "Sync strategy: apply or hook"),
    flag("force", Kind::Bool, "false", "Delete and create where a patch fails"),
    flag("replace", Kind::Bool, "false", "Replace instead of apply"),
    flag("server-side", Kind::Bool, "false", "Apply on the server's side"),
    flag("apply-out-of-sync-only", Kind::Bool, "false", "Apply only what is out of sync"),
    flag("async", Kind::Bool, "false", "Do not wait for the end"),
    flag("local", Kind::Text, "", "Directory with local manifests to sync"),
    flag("local-repo-root", Kind::Text, "/", "Root of the repository of the local directory"),
    flag("info", Kind::Texts, "", "Note name=value of the operation"),
    flag("preview-changes", Kind::Bool, "false", "Show the differences and ask first"),
    flag("assumeYes", Kind::Bool, "false", "Do not ask"),
    flag("server-side-diff", Kind::Bool, "false", "Accepted; differences are computed here"),
    flag("server-side-diff-concurrency", Kind::Int, "-1", "Accepted; differences are computed here"),
    flag("server-side-diff-max-batch-kb", Kind::Int, "250", "Accepted; differences are computed here"),
    flag(
        "ignore-normalizer-jq-execution-timeout",
        Kind::Duration,
        "1s",
        "Accepted; expressions are bounded by steps",
    ),
    TREE_OUTPUT,
    NAMESPACE,
];

/// `app sync`.
pub(super) async fn sync(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    if flags.operands.is_empty() && flags.text("selector").is_empty() && flags.texts("project").is_empty() {
        return Ok(Ended::Help);
    }
    let request = read(flags)?;
    let core = session.connect().await?;
    let names = names(session, &core).await?;
    let world = World::load(&core).await?;
    let work = Work { session, core: &core, world: &world };
    for name in &names {
        if Box::pin(sync_one(work, &request, name)).await? == Next::Stop {
            break;
        }
    }
    Ok(OK)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Application,
    Stop,
}

/// The applications named by operands, or found by selector and projects (CLI-511).
async fn names(session: &Session<'_>, core: &Core) -> Result<Vec<AppName>, Failure> {
    let flags = session.flags;
    if !flags.operands.is_empty() {
        return Ok(flags.operands.iter().map(|text| session.name(text, core)).collect());
    }
    let (selector, projects) = (flags.text("selector"), flags.texts("project"));
    let mut found = show::visible(session, core, selector).await?;
    if !projects.is_empty() {
        found.retain(|stored| projects.iter().any(|project| project == stored.app.project()));
    }
    if found.is_empty() {
        let mut parts = Vec::new();
        if !selector.is_empty() {
            parts.push(format!("selector {selector}"));
        }
        if !projects.is_empty() {
            parts.push(format!("projects [{}]", projects.join(" ")));
        }
        return Err(Failure::fatal(format!("No matching apps found for filter: {}", parts.join(" "))));
    }
    Ok(found.iter().map(Stored::name).collect())
}

async fn sync_one(work: Work<'_>, request: &SyncRequest, name: &AppName) -> Result<Next, Failure> {
    let Work { session, core, world } = work;
    let flags = session.flags;
    let stored = core.application(name).await?;
    request.check(&stored.app)?;
    world.check_windows(&stored.app, session.terminal.now())?;
    let manifests = if request.is_local {
        let plan = selection::local(flags)?.plan();
        let rendered = core.render(&stored.app, world, &plan, session.terminal).await?;
        rendered.objects.iter().map(|object| String::from_utf8_lossy(&object.raw()).into_owned()).collect()
    } else {
        Vec::new()
    };
    let labelled = labelled(work, &stored).await?;
    if flags.is_on("preview-changes") && !preview(work, &stored).await? {
        return Ok(Next::Stop);
    }
    core.start_operation(name, |app| request.operation(app, &labelled, &manifests)).await?;
    if flags.is_on("async") {
        return Ok(Next::Application);
    }
    let goal = Goal { operation: true, resources: request.resources.clone(), ..Goal::default() };
    let mut wait = Wait::new(goal);
    // The operation was seen: this program set it.
    wait.saw_operation = !request.dry_run;
    let limits = Limits::of(session, name);
    let awaited = Box::pin(until(work, wait, &limits)).await?;
    if let Some(stored) = awaited.stored {
        request.judge(&stored.app, awaited.operation_state.as_deref(), request.is_partial(&labelled))?;
    }
    Ok(Next::Application)
}

/// The desired objects with all labels of `--label` (CLI-512).
async fn labelled(work: Work<'_>, stored: &Stored) -> Result<Vec<SyncResource>, Failure> {
    let Work { session, core, world } = work;
    let labels = session.flags.texts("label");
    if labels.is_empty() {
        return Ok(Vec::new());
    }
    let mut pairs = Vec::with_capacity(labels.len());
    for label in labels {
        match label.split('=').collect::<Vec<_>>().as_slice() {
            [key, value] => pairs.push((*key, *value)),
            _ => {
                return Err(Failure::generic(format!(
                    "labels should have key=value, but instead got: {label}"
                )));
            }
        }
    }
    let revision = session.flags.text("revision").to_owned();
    let chosen = if revision.is_empty() { Chosen::Compared } else { Chosen::Revision(revision) };
    let desired: Vec<Value> =
        if let (Some(server), Some(revisions)) = (core.server(), chosen.revisions(&stored.app)) {
            server.manifests(&stored.name(), &revisions).await?
        } else {
            // Not those of the last comparison: the sync takes what is there now.
            let revision = session.flags.text("revision").to_owned();
            let plan = RenderPlan::Revisions(vec![revision; stored.app.sources().len()]);
            let rendered = core.render(&stored.app, world, &plan, session.terminal).await?;
            rendered.objects.iter().map(|object| value_of(object)).collect::<Result<_, _>>()?
        };
    let has_all = |value: &Value| pairs.iter().all(|(key, text)| access::label(value, key) == Some(text));
    let resources: Vec<SyncResource> = desired
        .iter()
        .filter(|value| has_all(value))
        .map(|value| resource_of(value, &stored.app.spec.destination.namespace))
        .collect();
    if resources.is_empty() {
        return Err(Failure::fatal(format!(
            "No matching resources found for labels: [{}]",
            labels.join(" ")
        )));
    }
    Ok(resources)
}

fn resource_of(value: &Value, namespace: &str) -> SyncResource {
    let gvk = Gvk::of(value);
    let own = access::namespace(value);
    SyncResource {
        group: gvk.group.to_string(),
        kind: gvk.kind.to_string(),
        name: access::name(value).to_owned(),
        namespace: if own.is_empty() { namespace.to_owned() } else { own.to_owned() },
        ..SyncResource::default()
    }
}

/// Shows the differences and asks; says whether to go on (CLI-517).
async fn preview(work: Work<'_>, stored: &Stored) -> Result<bool, Failure> {
    let Work { session, .. } = work;
    let terminal = session.terminal;
    let name = summary::qualified_name(&stored.app);
    terminal.line(&format!(
        "====== Previewing differences between live and desired state of application {name} ======"
    ));
    let differences = Box::pin(differences(work, stored)).await?;
    if differences.is_empty() {
        // Argo CD stops here too; a sync of equal states would change nothing.
        terminal.line("====== No Differences found ======");
        return Ok(false);
    }
    for difference in &differences {
        diff::show(terminal, difference).await?;
    }
    if session.flags.is_on("assumeYes") {
        return Ok(true);
    }
    let question = format!(
        "Please review changes to application {name} shown above. Do you want to continue the sync process? (y/n): "
    );
    Ok(terminal.ask(&question, false).await == Some(Answer::Yes))
}
