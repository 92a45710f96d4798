//! A look at one application: whether its group is to be hydrated (CTL-106, CTL-107).

use std::time::Duration;

use tiphys_api::Application;
use tiphys_api::application::Hydrator;
use tiphys_api::names::annotation;
use tiphys_go::steps::Steps;
use tiphys_lifecycle::hydration::check::{Check, FAILED_AGAIN, check, look_again};
use tiphys_lifecycle::hydration::group::GroupKey;
use tiphys_lifecycle::hydration::record as decided;
use tiphys_lifecycle::hydration::record::Request;
use tiphys_lifecycle::refresh::is_skipped;
use tiphys_lifecycle::webhook::{STEPS_MAX, source_paths};
use tiphys_policy::project::namespace_enabled;
use tiphys_render::refresh::{ChangedFiles, RefreshPaths};
use tiphys_source::Freshness;

use super::run::Subject;
use super::standing::NotHeld;
use super::{record, run, standing};
use crate::app_key::AppKey;
use crate::context::Context;
use crate::queue::Priority;
use crate::world::World;

/// Time until a dry source that could not be looked at is looked at again.
const UNKNOWN_AGAIN: Duration = Duration::from_secs(30);
/// Time until a status that could not be written is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(5);

/// Whether an application is one that is hydrated here.
pub(super) fn is_ours(context: &Context, world: &World, key: &AppKey, app: &Application) -> bool {
    app.metadata.deletion_timestamp.is_none()
        && !is_skipped(app)
        && namespace_enabled(&world.settings, &key.namespace, &context.namespace)
}

/// Looks at an application; answers when to look again, if nothing happens before.
pub(super) async fn look(context: &Context, key: &AppKey) -> Option<Duration> {
    let is_pushed = context.hydrations.pushed.lock().remove(key);
    let world = context.world.load_full();
    let app = context.store.get(key)?.parse().ok()?;
    if !is_ours(context, &world, key, &app) {
        return None;
    }
    let request = Request::of(&app);
    let is_enabled = world.settings.controller().hydrator_enabled;
    let Some(hydrator) = app.spec.source_hydrator.as_ref().filter(|_| is_enabled) else {
        // Whoever asked is not kept waiting for what nobody does.
        return done(context, key, &request, None).await;
    };
    if let Err(text) = standing::standing(context, &world, key, (&app, hydrator)) {
        return refused(context, key, (&app, hydrator), &text).await;
    }
    match standing::hold(context, &world, key).await {
        Ok(()) => {}
        Err(NotHeld::Refused(text)) => return refused(context, key, (&app, hydrator), &text).await,
        Err(NotHeld::Unwritten(error)) => {
            tracing::warn!(application = %key, error, "failed to write the claim of a directory");
            return Some(WRITE_AGAIN);
        }
    }
    let group = GroupKey::of(hydrator, app.project());
    let (now, patience) = (context.clock.now(), Context::intervals(&world, key).soft);
    match check(&app, patience, now) {
        Check::Hydrate(reason) => hydrate(context, key, group, reason),
        // A run that nobody makes was lost with the process that made it.
        Check::Running if !context.hydrations.is_running(&group) => {
            hydrate(context, key, group, "the process that began it is gone");
        }
        Check::Running => {}
        Check::Nothing => return done(context, key, &request, None).await,
        Check::Changes(since) => {
            let is_asked = is_pushed || !request.is_none();
            match changes(context, &world, (&app, hydrator), since.as_deref(), is_asked).await {
                Ok(Changes::Some) => hydrate(context, key, group, "the dry source changed"),
                Ok(Changes::None(sha)) => {
                    let is_newer = since.as_deref() != Some(sha.as_str());
                    return done(context, key, &request, Some(sha).filter(|_| is_newer)).await;
                }
                Err(error) => {
                    tracing::warn!(application = %key, error, "the dry source cannot be looked at");
                    return Some(UNKNOWN_AGAIN);
                }
            }
        }
    }
    let wait = look_again(&app, patience)?.duration_since(now);
    Some(Duration::try_from(wait).unwrap_or_default().max(Duration::from_secs(1)))
}

fn hydrate(context: &Context, key: &AppKey, group: GroupKey, reason: &str) {
    tracing::info!(application = %key.name, app_namespace = %key.namespace, reason, "hydration requested");
    context.hydrations.groups.add(group, Priority::Urgent);
}

/// The application is hydrated by no group, and its status alone says why; it is looked at again, as that may change
/// with another application.
async fn refused(
    context: &Context,
    key: &AppKey,
    (app, hydrator): (&Application, &Hydrator),
    text: &str,
) -> Option<Duration> {
    let (outcome, is_told) = decided::refused(app, hydrator, text);
    let subject = Subject::of(key, app.clone(), hydrator.clone());
    if !is_told || !subject.is_unasked() {
        run::start(context, &subject).await;
        run::end(context, &subject, &outcome).await;
    }
    Some(Duration::try_from(FAILED_AGAIN).unwrap_or(UNKNOWN_AGAIN))
}

/// Nothing is to be hydrated: the request is served, and a newer revision is noted.
async fn done(
    context: &Context,
    key: &AppKey,
    request: &Request,
    compared: Option<String>,
) -> Option<Duration> {
    if request.is_none() && compared.is_none() {
        return None;
    }
    let written = record::write(context, key, |app| {
        if let Some(sha) = &compared {
            decided::compared(app, sha);
        }
        decided::served(app, request);
    });
    match written.await {
        Ok(()) => None,
        Err(error) => {
            tracing::warn!(application = %key, error, "the state of the hydration could not be written");
            Some(WRITE_AGAIN)
        }
    }
}

/// What a dry source has that is new.
enum Changes {
    Some,
    /// Nothing that concerns the application; its revision.
    None(String),
}

/// Looks at a dry source. What cannot be compared counts as changed (CTL-40).
async fn changes(
    context: &Context,
    world: &World,
    (app, hydrator): (&Application, &Hydrator),
    since: Option<&str>,
    is_asked: bool,
) -> Result<Changes, String> {
    let source = hydrator.dry_source();
    let Ok(project) = world.project(app.project()) else {
        // The run says what is wrong.
        return Ok(Changes::Some);
    };
    if world.repository_refusal(project, &source.repo_url).is_some() {
        return Ok(Changes::Some);
    }
    let repository = world.repository(&source.repo_url, project.name())?;
    let freshness = if is_asked { Freshness::Fetch } else { Freshness::Cached };
    let (revision, prefix) = (&source.target_revision, &source.tag_prefix);
    let resolved = context.sources.resolve_tag(&repository, revision, prefix, freshness).await;
    let sha = resolved.map_err(|error| error.to_string())?.commit;
    let Some(since) = since else { return Ok(Changes::Some) };
    if since == sha {
        return Ok(Changes::None(sha));
    }
    let names_paths = app.annotation(annotation::MANIFEST_GENERATE_PATHS).is_some();
    if !names_paths || repository.depth != 0 {
        return Ok(Changes::Some);
    }
    let Ok(paths @ RefreshPaths::Some { .. }) = source_paths(app, source) else { return Ok(Changes::Some) };
    let Ok(files) = context.sources.changed_files(&repository, since, &sha).await else {
        return Ok(Changes::Some);
    };
    // No file at all differs: that is known here, while an empty list of a push says nothing.
    let is_concerned = !files.is_empty()
        && paths.concern(&ChangedFiles::new(&files), &mut Steps::new(STEPS_MAX)).unwrap_or(true);
    Ok(if is_concerned { Changes::Some } else { Changes::None(sha) })
}
