//! What is asked of repositories for somebody who writes an application: references, tags, charts, and folders that hold
//! applications (API-174, REP-51..53).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::AppProject;
use tiphys_api::repo_url::has_dot_segment;
use tiphys_api::repository::{SecretKind, select, select_for_api};
use tiphys_policy::rbac::{Located, Resource, application_object};
use tiphys_render::kind::type_of_names;
use tiphys_render::{EnabledTools, SourceType};
use tiphys_service::Caller;
use tiphys_service::repository::Repositories;
use tiphys_source::{Freshness, Repository, Size, StopOnDrop};
use tiphys_tree::{EntryKind, Tree, TreePath};
use tiphys_wire::status::Code;

use super::Query;
use super::details::compute_of;
use crate::call::Status;
use crate::services::context::{Context, denied, hidden, source_failed};

/// Folders that are looked into; a repository with more has to be asked about otherwise.
const FOLDERS_MAX: usize = 20_000;
/// How long they are looked for.
const FOLDERS_TIMEOUT: Duration = Duration::from_secs(30);
/// Levels of folders that are looked into.
const DEPTH_MAX: usize = 64;

/// `RepoAppsQuery`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AppsQuery {
    repo: String,
    revision: String,
    app_name: String,
    app_project: String,
}

/// The repository that a call means, with the credentials of a project (REP-20). Without a project it is the one that the
/// caller sees, if they see one of this URL only (REP-52).
///
/// # Errors
/// When the caller may not `get` what is found, or the project does not permit it: whatever else is wrong is told to nobody
/// (REP-53).
pub(super) fn find(context: &Context<'_>, (url, project): (&str, &str)) -> Result<Repository, Status> {
    if has_dot_segment(url) {
        return Err(hidden());
    }
    let secrets = context.world.secrets();
    let installation = &context.world.installation;
    let mut project = project.to_owned();
    if project.is_empty() {
        let asks = context.asks();
        let calls = Repositories::new(&context.parts.store, Caller::asking(&asks), installation);
        if let Ok(only) = select_for_api(&calls.visible(&secrets), url, None) {
            project.clone_from(&only.project);
        }
    }
    let stored = secrets.repositories(SecretKind::Repository);
    let selected = select(&stored, url, &project).map(|found| found.chosen);
    let scope = selected.map_or("", |found| found.project.as_str());
    // Both count: what was asked for, and what is used, whatever it is called (A2).
    let addresses = [Some(url), selected.map(|found| found.url.as_str())];
    let check = |project, address| {
        context.check_located(Resource::Repositories, "get", &Located { project, address })
    };
    if addresses.into_iter().flatten().any(|address| check(scope, address).is_err()) {
        // Those who may not get it where nobody registered it are not told whether somebody did (SEC-25).
        check("", url)?;
        return Err(hidden());
    }
    if !project.is_empty() {
        let known = installation.project(&project).map_err(|_unknown| hidden())?;
        check_permitted(context, known, url)?;
    }
    let found = installation.repository(url, &project).map_err(|why| {
        tracing::error!(project, why, "a repository cannot be used");
        hidden()
    })?;
    Ok(Repository::from(&found))
}

/// Whether a project may read a repository.
///
/// # Errors
/// With a text that names both, which the caller named.
pub(super) fn check_permitted(context: &Context<'_>, project: &AppProject, url: &str) -> Result<(), Status> {
    if context.world.installation.repository_refusal(project, url).is_none() {
        return Ok(());
    }
    let url = tiphys_api::repo_url::redact(url);
    Err(denied(format!("repository '{url}' not permitted in project '{}'", project.name())))
}

/// How new an answer has to be.
fn freshness(query: &Query) -> Freshness {
    if query.force_refresh { Freshness::Fetch } else { Freshness::Cached }
}

/// Branches and tags, by their short names.
pub(super) async fn references(context: &Context<'_>, query: &Query) -> Result<Value, Status> {
    let repository = find(context, (&query.repo, &query.app_project))?;
    let found = context.sources()?.list_refs(&repository, freshness(query)).await;
    let found = found.map_err(|error| source_failed(&error))?;
    Ok(json!({"branches": found.branches().collect::<Vec<_>>(), "tags": found.tags().collect::<Vec<_>>()}))
}

/// Tags of a repository of artifacts.
pub(super) async fn tags(context: &Context<'_>, query: &Query) -> Result<Value, Status> {
    let repository = find(context, (&query.repo, &query.app_project))?;
    let found = context.sources()?.oci_tags(&repository, freshness(query)).await;
    Ok(json!({"tags": *found.map_err(|error| source_failed(&error))?}))
}

/// Charts of a repository, with their versions (RND-157).
pub(super) async fn charts(context: &Context<'_>, query: &Query) -> Result<Value, Status> {
    let repository = find(context, (&query.repo, &query.app_project))?;
    let found = context.sources()?.chart_index(&repository, Freshness::Fetch).await;
    let found = found.map_err(|error| source_failed(&error))?;
    let chart = |(name, versions): (&str, &[tiphys_source::ChartVersion])| {
        let versions: Vec<&str> = versions.iter().map(|one| one.version.as_str()).collect();
        json!({"name": name, "versions": versions})
    };
    Ok(json!({"items": found.charts().map(chart).collect::<Vec<_>>()}))
}

/// Folders that hold a chart or an overlay (RND-65). Who asks has to be about to write an application there.
pub(super) async fn applications(context: &Context<'_>, asked: &AppsQuery) -> Result<Value, Status> {
    let repository = find(context, (&asked.repo, &asked.app_project))?;
    let app =
        application_object(&asked.app_project, context.namespace(), &asked.app_name, context.namespace());
    let may = |action| context.may(Resource::Applications, action, &app);
    if !may("create") && !may("update") {
        return Err(hidden());
    }
    let installation = &context.world.installation;
    let project = installation.project(&asked.app_project).map_err(|_unknown| hidden())?;
    check_permitted(context, project, &asked.repo)?;
    let sources = context.sources()?;
    let commit = sources.resolve(&repository, &asked.revision, Freshness::Cached).await;
    let commit = commit.map_err(|error| source_failed(&error))?;
    let tree = sources.tree(&repository, &commit).await.map_err(|error| source_failed(&error))?;
    let enabled = EnabledTools::from(&installation.settings);
    let compute = compute_of(context);
    let turn = compute.turn(project.name(), Size::Small).await;
    let waiting = StopOnDrop::default();
    let is_dropped = waiting.is_dropped();
    let looking = compute.run(move || {
        let _turn = turn;
        folders(&*tree, enabled, &is_dropped)
    });
    let late = |_elapsed| {
        let text = format!("looking at the folders took longer than {} s", FOLDERS_TIMEOUT.as_secs());
        Status::new(Code::ResourceExhausted, text)
    };
    let looked = tokio::time::timeout(FOLDERS_TIMEOUT, looking).await.map_err(late)?;
    let found = looked.map_err(|_panic| Status::internal("the repository cannot be looked at"))??;
    let items: Vec<Value> =
        found.iter().map(|(path, kind)| json!({"path": path, "type": kind.as_str()})).collect();
    Ok(json!({"items": items}))
}

/// Folders whose type is not just that of any folder, in the order of their paths.
fn folders(
    tree: &dyn Tree,
    enabled: EnabledTools,
    is_dropped: &AtomicBool,
) -> Result<Vec<(String, SourceType)>, Status> {
    let mut found = Vec::new();
    let (mut open, mut looked) = (vec![(TreePath::root(), 0)], 0);
    while let Some((path, depth)) = open.pop() {
        looked += 1;
        if is_dropped.load(Ordering::Relaxed) {
            return Err(Status::new(Code::Canceled, "nobody waits for the folders any more"));
        }
        if looked + open.len() > FOLDERS_MAX || depth > DEPTH_MAX {
            let text = format!("the repository has more than {FOLDERS_MAX} folders or {DEPTH_MAX} levels");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        let members = tree.list(&path).map_err(|error| Status::new(Code::Unavailable, error.to_string()))?;
        let mut files = Vec::new();
        for (name, entry) in &members {
            match entry.kind {
                EntryKind::Directory => open.push((path.child(name), depth + 1)),
                EntryKind::File { .. } | EntryKind::Symlink { .. } => files.push(name.as_str()),
                EntryKind::Submodule => {}
            }
        }
        let kind = type_of_names(files, enabled);
        if kind != SourceType::Directory {
            found.push((path.to_string(), kind));
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}
