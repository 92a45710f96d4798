//! Syncs, rollbacks, and ending them (API-130..135).

use serde_json::{Value, json};
use tiphys_api::Application;
use tiphys_api::application::{Operation, OperationInitiator};
use tiphys_api::project::SyncWindow;
use tiphys_lifecycle::request::{SyncRequest, rollback_operation, sync_operation};
use tiphys_policy::rbac::{Authorized, Resource, application_object};
use tiphys_policy::window::{SyncAttempt, can_sync_application, is_active, matches};
use tiphys_service::application::{self as rules, ApplicationError};
use tiphys_wire::status::Code;

use super::requests::{Named, Rollback, Sync};
use super::{access, nothing, reply_in_full, revision, settle};
use crate::call::{Reply, Status};
use crate::services::audit::{self, Action};
use crate::services::context::Context;

/// Seconds of retries of a conflict are the store's; texts are the specification's.
fn precondition(text: impl Into<String>) -> Status {
    Status::new(Code::FailedPrecondition, text)
}

fn failed(error: ApplicationError) -> Status {
    tiphys_service::Error::from(error).into()
}

/// Asks for another action on an application that was found (API-130).
fn also(context: &Context<'_>, app: &Application, action: &str) -> Result<(), Status> {
    let metadata = &app.metadata;
    let object = application_object(app.project(), &metadata.namespace, &metadata.name, context.namespace());
    context.check(Resource::Applications, action, &object)
}

pub(super) async fn sync(context: &Context<'_>, asked: Sync) -> Result<Reply, Status> {
    let found = access::fresh(context, "get", &asked.named).await?;
    let proof: Authorized<Application> = context.authorize("sync", found.proof.get().clone()).map_or_else(
        |refusal| {
            // The windows are told about first (API-130).
            check_windows(context, found.proof.get()).and(Err(refusal))
        },
        Ok,
    )?;
    let app = proof.get();
    check_windows(context, app)?;
    let is_automated = app.automated().is_some();
    if !asked.manifests.is_empty() {
        also(context, app, "override")?;
        if is_automated && !asked.dry_run {
            let text = "cannot use local sync when Automatic Sync Policy is enabled unless for dry run";
            return Err(precondition(text));
        }
    }
    if app.metadata.deletion_timestamp.is_some() {
        return Err(precondition("application is deleting"));
    }
    let (revision, revisions) = revisions(app, &asked)?;
    check_override(context, app, &revision, &revisions)?;
    check_options(context, app, &asked)?;
    let is_local = !asked.manifests.is_empty();
    let means =
        if is_local { None } else { revision::resolve(context, app, (&revision, &revisions)).await? };
    let request = SyncRequest {
        dry_run: asked.dry_run,
        prune: asked.prune,
        revision,
        revisions,
        resources: asked.resources,
        manifests: asked.manifests,
        strategy: asked.strategy,
        options: asked.sync_options.map(|options| options.items),
        retry: asked.retry_strategy,
        info: asked.infos,
    };
    let text = sync_text(app, &request, means.as_deref());
    let make = |app: &Application| -> Result<Operation, ApplicationError> {
        let mut operation = sync_operation(app, request.clone())?;
        if let (Some(sync), Some(means)) = (&mut operation.sync, &means) {
            // Of several sources only those that were named are held to what they meant.
            if !app.is_multi_source() {
                sync.revision = means.first().cloned().unwrap_or_default();
            } else if !request.revisions.is_empty() {
                sync.revisions.clone_from(means);
            }
        }
        operation.initiated_by = initiator(context);
        Ok(operation)
    };
    let object = settle(context, &found.key, "sync", |stored, object| {
        check_same(app, stored.get())?;
        let operation = make(stored.get()).map_err(failed)?;
        rules::plan_operation(object, &operation).map_err(failed)
    })
    .await?;
    audit::application(context, &object, &Action::StartedOperation(text));
    reply_in_full(context, &found.key, &object).await
}

/// Whether an application is still in the project that rights were asked for: an operation was made for that one.
fn check_same(asked: &Application, stored: &Application) -> Result<(), Status> {
    if asked.project() == stored.project() {
        return Ok(());
    }
    let text = "the application was moved to another project meanwhile; read it again and repeat the call";
    Err(Status::new(Code::Aborted, text))
}

fn initiator(context: &Context<'_>) -> OperationInitiator {
    OperationInitiator { username: context.username(), ..OperationInitiator::default() }
}

fn check_windows(context: &Context<'_>, app: &Application) -> Result<(), Status> {
    let installation = &context.world.installation;
    let Ok(project) = installation.project(app.project()) else { return access::admitted(context, app) };
    rules::check_windows(installation, project, app, context.parts.clock.now()).map_err(failed)
}

/// The revisions of a sync: one for the only source, or one for each (API-131).
fn revisions(app: &Application, asked: &Sync) -> Result<(String, Vec<String>), Status> {
    if !app.is_multi_source() {
        if !asked.revisions.is_empty() || !asked.source_positions.is_empty() {
            return Err(Status::invalid(
                "`revisions` and `sourcePositions` are for several sources; use `revision`",
            ));
        }
        return Ok((asked.revision.clone(), Vec::new()));
    }
    // Forms that begin with the first source's revision send it along.
    let first = app.sources().first().map(|source| source.target_revision.as_str()).unwrap_or_default();
    if ![first, "HEAD", ""].contains(&asked.revision.as_str()) {
        return Err(Status::invalid("`revision` is for one source; use `revisions` and `sourcePositions`"));
    }
    if asked.source_positions.len() != asked.revisions.len() {
        // Deviation (API-131): the reference pairs what there is.
        return Err(Status::invalid("source positions and revisions have to be as many"));
    }
    if asked.revisions.is_empty() {
        return Ok((String::new(), Vec::new()));
    }
    let mut all: Vec<String> = app.sources().iter().map(|source| source.target_revision.clone()).collect();
    for (position, revision) in asked.source_positions.iter().zip(&asked.revisions) {
        let at = usize::try_from(*position).ok().and_then(|position| position.checked_sub(1));
        let place = at.and_then(|at| all.get_mut(at));
        let place = place.ok_or_else(|| Status::invalid("source position is out of range"))?;
        place.clone_from(revision);
    }
    Ok((String::new(), all))
}

/// A sync to another revision than the spec's needs a right of its own, where that is set (API-131, SEC-29).
fn check_override(
    context: &Context<'_>,
    app: &Application,
    revision: &str,
    revisions: &[String],
) -> Result<(), Status> {
    if !context.world.is_set("application.sync.requireOverridePrivilegeForRevisionSync") {
        return Ok(());
    }
    let head = |text: &str| if text.is_empty() { "HEAD".to_owned() } else { text.to_owned() };
    let is_other = if revisions.is_empty() {
        let target = app.sources().first().map(|source| head(&source.target_revision)).unwrap_or_default();
        !revision.is_empty() && head(revision) != target
    } else {
        app.sources().iter().zip(revisions).any(|(source, to)| head(&source.target_revision) != head(to))
    };
    if is_other { also(context, app, "override") } else { Ok(()) }
}

/// Options and manifests that the installation does not permit (API-130).
fn check_options(context: &Context<'_>, app: &Application, asked: &Sync) -> Result<(), Status> {
    let installation = &context.world.installation;
    let options = match &asked.sync_options {
        Some(options) => options.items.as_slice(),
        None => app.sync_options(),
    };
    let allowed =
        installation.settings.param("server.sync.replace.allowed", "ARGOCD_SYNC_WITH_REPLACE_ALLOWED");
    if allowed == Some("false") && options.iter().any(|option| option == "Replace=true") {
        let text = "sync with replace was disabled on the API Server level via the server configuration";
        return Err(precondition(text));
    }
    if asked.manifests.is_empty() {
        return Ok(());
    }
    let Ok(project) = installation.project(app.project()) else { return access::admitted(context, app) };
    let is_signed = |url: &str| !matches!(installation.signature_rule(project, url), Ok(None));
    if app.sources().iter().any(|source| is_signed(&source.repo_url)) {
        return Err(precondition("Cannot use local manifests when source integrity is enforced"));
    }
    Ok(())
}

/// What records say of a sync (API-132): each revision as it was named, and what it means.
fn sync_text(app: &Application, request: &SyncRequest, means: Option<&[String]>) -> String {
    let partial = if request.resources.is_empty() { "" } else { "partial " };
    if !request.manifests.is_empty() {
        return format!("initiated {partial}sync locally");
    }
    let shown = |(at, source): (usize, &tiphys_api::application::ApplicationSource)| {
        let named = request.revisions.get(at).unwrap_or(&request.revision);
        let named = [named.as_str(), source.target_revision.as_str(), "HEAD"];
        let named = named.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
        match means.and_then(|means| means.get(at)) {
            Some(meant) if meant != named => format!("{named} ({})", meant.get(..7).unwrap_or(meant)),
            _ => named.to_owned(),
        }
    };
    let to: Vec<String> = app.sources().iter().enumerate().map(shown).collect();
    format!("initiated {partial}sync to {}", to.join(","))
}

pub(super) async fn rollback(context: &Context<'_>, asked: Rollback) -> Result<Reply, Status> {
    let action = context.caller().rollback_action();
    let found = access::fresh(context, action, &asked.named).await?;
    let make = |app: &Application| -> Result<Operation, Status> {
        // Whether it may be rolled back at all comes before which entry is meant.
        rollback_operation(app, &tiphys_api::application::HistoryEntry::default(), asked.prune)
            .map_err(|error| failed(error.into()))?;
        let entry = app.status.history.iter().find(|entry| entry.id == asked.id);
        let name = format!("{}/{}", found.key.namespace, found.key.name);
        let entry = entry.ok_or_else(|| {
            Status::invalid(format!("application {name} does not have deployment with id {}", asked.id))
        })?;
        let has_source = entry.source.as_ref().is_some_and(|source| !source.repo_url.is_empty());
        if !has_source && entry.sources.is_empty() {
            return Err(precondition(
                "cannot rollback to revision deployed with Argo CD v0.12 or lower. sync to revision instead.",
            ));
        }
        let mut operation =
            rollback_operation(app, entry, asked.prune).map_err(|error| failed(error.into()))?;
        if let Some(sync) = &mut operation.sync {
            sync.dry_run = asked.dry_run;
            // Hooks do not run again.
            sync.sync_strategy = serde_json::from_value(json!({"apply": {}})).ok();
        }
        operation.initiated_by = initiator(context);
        Ok(operation)
    };
    let operation = make(found.proof.get())?;
    let object = settle(context, &found.key, action, |stored, object| {
        check_same(found.proof.get(), stored.get())?;
        rules::plan_operation(object, &operation).map_err(failed)
    })
    .await?;
    let text = format!("initiated rollback to {}", asked.id);
    audit::application(context, &object, &Action::StartedOperation(text));
    reply_in_full(context, &found.key, &object).await
}

pub(super) async fn terminate(context: &Context<'_>, named: Named) -> Result<Reply, Status> {
    let found = access::fresh(context, "sync", &named).await?;
    let object =
        settle(context, &found.key, "sync", |_, object| rules::plan_terminate(object).map_err(failed))
            .await?;
    audit::application(context, &object, &Action::TerminatedOperation);
    Ok(nothing())
}

/// The windows of an application, and whether a sync by hand may run now (API-135).
pub(super) async fn windows(context: &Context<'_>, named: Named) -> Result<Reply, Status> {
    let found = access::fresh(context, "get", &named).await?;
    let app = found.proof.get();
    let installation = &context.world.installation;
    let Ok(project) = installation.project(app.project()) else {
        access::admitted(context, app)?;
        return Ok(Reply::value(json!({"canSync": false})));
    };
    let (subject, now) = (installation.window_subject(app), context.parts.clock.now());
    let shown = |window: &SyncWindow| -> Value {
        json!({"kind": window.kind, "schedule": window.schedule, "duration": window.duration,
            "manualSync": window.manual_sync})
    };
    let (mut assigned, mut active) = (Vec::new(), Vec::new());
    for (_, window) in project.windows().filter(|(_, window)| matches(window, subject)) {
        assigned.push(shown(window));
        let is_active = is_active(window, now)
            .map_err(|error| Status::new(Code::Unknown, format!("invalid sync windows: {error}")))?;
        if is_active {
            active.push(shown(window));
        }
    }
    let attempt = SyncAttempt { manual: true, operation_started_at: None, now };
    let can_sync = can_sync_application(project, subject, attempt).allowed;
    Ok(Reply::value(json!({"activeWindows": active, "assignedWindows": assigned, "canSync": can_sync})))
}
