//! What a source holds, for somebody who edits it (API-174, REP-51, RND-153).

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tiphys_api::application::ApplicationSource;
use tiphys_api::{AppProject, Application};
use tiphys_policy::permit::Own;
use tiphys_policy::rbac::{Resource, application_object};
use tiphys_render::details::{Details, HelmDetails, ParameterDetails, details};
use tiphys_render::needs::{Conversation, Need, Outcome, Supply};
use tiphys_render::plan::RenderContext;
use tiphys_render::{Budget, Code as RenderCode, Inputs, Reason, RenderError};
use tiphys_service::application as rules;
use tiphys_service::fetcher::{FetchError, Fetcher, content};
use tiphys_source::{Compute, Repository, Size, StopOnDrop, Turn};
use tiphys_tree::Tree;
use tiphys_wire::status::Code;

use super::questions::{check_permitted, find};
use crate::call::Status;
use crate::services::context::{Context, denied, hidden, source_failed};

/// Threads of a process without a controller, in whose turns sources are computed otherwise.
static OWN_COMPUTE: LazyLock<Compute> = LazyLock::new(Compute::threads);
/// Time for one.
const TIMEOUT: Duration = Duration::from_secs(90);

/// `RepoAppDetailsQuery`.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct DetailsQuery {
    source: Option<ApplicationSource>,
    app_name: String,
    app_project: String,
    source_index: i64,
    version_id: i64,
}

/// The details of a source, for somebody who may see the repository, and the application or write one there.
pub(super) async fn app_details(context: &Context<'_>, asked: DetailsQuery) -> Result<Value, Status> {
    let source = asked.source.clone().ok_or_else(|| Status::invalid("missing payload in request"))?;
    let repository = find(context, (&source.repo_url, &asked.app_project))?;
    let app = permitted(context, &asked, &source).await?;
    let installation = &context.world.installation;
    let project = installation.project(&asked.app_project).map_err(|_unknown| hidden())?;
    check_permitted(context, project, &source.repo_url)?;
    let look = Look { context, asked: &asked, source: &source, project, app: app.as_ref() };
    let late = |_elapsed| Status::new(Code::DeadlineExceeded, "timeout after 1m30s");
    let found = tokio::time::timeout(TIMEOUT, look.at(&repository)).await.map_err(late)??;
    Ok(shown(found))
}

/// The application of a query, if there is one, and if the caller may ask this about it.
async fn permitted(
    context: &Context<'_>,
    asked: &DetailsQuery,
    source: &ApplicationSource,
) -> Result<Option<Application>, Status> {
    let (namespace, name) = asked.app_name.split_once('/').unwrap_or((context.namespace(), &asked.app_name));
    if !context.is_enabled(namespace) {
        return Err(hidden());
    }
    let object = application_object(&asked.app_project, namespace, name, context.namespace());
    context.check(Resource::Applications, "get", &object)?;
    let stored = if name.is_empty() {
        None
    } else {
        let read = context.parts.store.of(namespace).get(Own::Application, name).await;
        read.map_err(|error| Status::new(Code::Unavailable, error.to_string()))?
    };
    let Some(stored) = stored else {
        context.check(Resource::Applications, "create", &object)?;
        return Ok(None);
    };
    let app = match rules::read(&stored) {
        Ok(app) => app,
        // Only callers of its project may learn that it exists (SEC-25).
        Err(error) if rules::names_project(&stored, &asked.app_project) => {
            return Err(tiphys_service::Error::from(error).into());
        }
        Err(_unreadable) => return Err(hidden()),
    };
    if app.project() != asked.app_project || !is_of(&app, source) {
        return Err(hidden());
    }
    Ok(Some(app))
}

/// Whether a source is one of an application's, or was: with what it targeted, or with what that was.
fn is_of(app: &Application, source: &ApplicationSource) -> bool {
    let at = |one: &ApplicationSource, revision: &str| {
        one == source
            || (ApplicationSource { target_revision: revision.to_owned(), ..one.clone() }) == *source
    };
    app.sources().contains(source)
        || app.status.history.iter().any(|entry| {
            let several = entry.sources.iter().zip(&entry.revisions).any(|(one, revision)| at(one, revision));
            several || entry.source.as_ref().is_some_and(|one| at(one, &entry.revision))
        })
}

/// One look at a source.
struct Look<'a> {
    context: &'a Context<'a>,
    asked: &'a DetailsQuery,
    source: &'a ApplicationSource,
    project: &'a AppProject,
    app: Option<&'a Application>,
}

impl Look<'_> {
    async fn at(&self, repository: &Repository) -> Result<Details, Status> {
        let sources = self.context.sources()?;
        let installation = &self.context.world.installation;
        let all = self.sources()?;
        let was_plugin = self.app.is_some_and(Application::was_plugin);
        let name = self.asked.app_name.rsplit('/').next().unwrap_or_default();
        let context = RenderContext { instance_name: name.to_owned(), ..RenderContext::default() };
        let context = context.with_settings(&installation.settings).with_sources(&all);
        let context = context.with_plugins(sources.plugins().settings(None, was_plugin));
        let fetched = content(sources, repository, self.source, &self.source.target_revision).await;
        let (revision, tree) = fetched.map_err(|error| source_failed(&error))?;
        let request = Arc::new(context.request(self.source, &revision));
        let waiting = StopOnDrop::default();
        let cancelled = Some(waiting.is_dropped());
        let budget = Budget { cancelled, ..Budget::of(installation.settings.renderers()) };
        let compute = compute_of(self.context);
        let mut conversation = Conversation::default();
        loop {
            let (request, files) = (Arc::clone(&request), Arc::clone(&tree));
            let supplies = Arc::clone(conversation.supplies());
            let work = move |budget: &Budget| {
                details(&request, &Inputs { supplies: &supplies, ..Inputs::of(files.as_ref()) }, budget)
            };
            // The turn ends before anything is fetched.
            let needs = match in_turn(&compute, self.project.name(), &budget, work).await? {
                Outcome::Done(found) => return Ok(found),
                Outcome::Needs(needs) => needs,
            };
            for need in conversation.wanted(needs).map_err(|error| failed(&error))? {
                let supply = self.bring(&need, &all, &tree).await?;
                conversation.add(need, supply).map_err(|error| failed(&error))?;
            }
        }
    }

    /// The sources that this one may name: of the application, or of one of its deployments.
    fn sources(&self) -> Result<Vec<ApplicationSource>, Status> {
        let Some(app) = self.app else { return Ok(Vec::new()) };
        let all = if self.asked.version_id > 0 {
            let entry = app.status.history.iter().find(|entry| entry.id == self.asked.version_id);
            let missing = || {
                Status::invalid(format!(
                    "revision history not found for version ID {}",
                    self.asked.version_id
                ))
            };
            entry.ok_or_else(missing)?.sources.clone()
        } else {
            app.sources().to_vec()
        };
        let is_index = usize::try_from(self.asked.source_index).is_ok_and(|at| at == 0 || at < all.len());
        if is_index {
            return Ok(all);
        }
        Err(Status::invalid(format!(
            "source index {} not found because there are only {} sources",
            self.asked.source_index,
            all.len()
        )))
    }

    async fn bring(
        &self,
        need: &Need,
        all: &[ApplicationSource],
        tree: &Arc<dyn Tree>,
    ) -> Result<Supply, Status> {
        let sources = self.context.sources()?;
        let installation = &self.context.world.installation;
        if let Need::Ref { name } = need
            && let Some(other) = all.iter().find(|other| other.r#ref == *name)
        {
            if let Some(refusal) = installation.repository_refusal(self.project, &other.repo_url) {
                return Err(denied(refusal));
            }
            let found = installation.repository(&other.repo_url, self.project.name());
            let found = found.map_err(|text| Status::new(Code::FailedPrecondition, text))?;
            let fetched = content(sources, &Repository::from(&found), other, &other.target_revision).await;
            return Ok(Supply::tree(fetched.map_err(|error| source_failed(&error))?.1));
        }
        let fetcher = Fetcher {
            installation,
            project: self.project,
            sources,
            source: self.source,
            tree,
            is_fresh: false,
        };
        fetcher.bring(need).await.map_err(|error| match error {
            FetchError::Source(error) => source_failed(&error),
            FetchError::Refused(text) => denied(text),
            FetchError::Plugin(error) if error.is_transient() => {
                Status::new(Code::Unavailable, error.to_string())
            }
            FetchError::Plugin(error) => Status::new(Code::FailedPrecondition, error.to_string()),
        })
    }
}

/// Where computations of calls run: beside those of the controller, where there is one.
pub(super) fn compute_of(context: &Context<'_>) -> Compute {
    let compute = context.parts.live.as_ref().and_then(|live| live.compute());
    compute.unwrap_or_else(|| OWN_COMPUTE.clone())
}

/// Computes in a turn of a project: in a small one, and in the large one if the memory of that does not suffice (INV-16).
async fn in_turn<T: Send + 'static>(
    compute: &Compute,
    project: &str,
    budget: &Budget,
    work: impl Fn(&Budget) -> Result<T, RenderError> + Clone + Send + 'static,
) -> Result<T, Status> {
    let small =
        attempt(compute.turn(project, Size::Small).await, compute, budget.small(), work.clone()).await?;
    let found = match small {
        Err(error) if error.reason == Reason::MemoryExceeded => {
            attempt(compute.turn(project, Size::Large).await, compute, budget.clone(), work).await?
        }
        found => found,
    };
    found.map_err(|error| failed(&error))
}

/// Computes within a budget. The turn ends with the work, also when the caller does not wait for it any more.
async fn attempt<T: Send + 'static>(
    turn: Turn,
    compute: &Compute,
    budget: Budget,
    work: impl FnOnce(&Budget) -> Result<T, RenderError> + Send + 'static,
) -> Result<Result<T, RenderError>, Status> {
    let run = move || {
        let _turn = turn;
        work(&budget)
    };
    compute.run(run).await.map_err(|_panic| Status::internal("the source cannot be looked at"))
}

/// A source that cannot be looked at (RND-11).
fn failed(error: &RenderError) -> Status {
    let code = match error.reason {
        Reason::PathNotFound | Reason::PathNotDirectory | Reason::PathAbsolute | Reason::PathOutsideRepo => {
            Code::InvalidArgument
        }
        _ => match error.code() {
            RenderCode::Unknown => Code::Unknown,
            RenderCode::InvalidArgument => Code::InvalidArgument,
            RenderCode::NotFound => Code::NotFound,
            RenderCode::PermissionDenied => Code::PermissionDenied,
            RenderCode::ResourceExhausted => Code::ResourceExhausted,
            RenderCode::FailedPrecondition => Code::FailedPrecondition,
            RenderCode::Unavailable => Code::Unavailable,
        },
    };
    Status::new(code, tiphys_api::repo_url::redact_text(&error.message))
}

fn shown(found: Details) -> Value {
    let kind = found.source_type().as_str();
    match found {
        Details::Directory => json!({"type": kind, "directory": {}}),
        Details::Kustomize { images } => json!({"type": kind, "kustomize": {"images": images}}),
        Details::Plugin { announcements } => {
            let announcements: Vec<Value> = announcements.into_iter().map(announcement).collect();
            json!({"type": kind, "plugin": {"parametersAnnouncement": announcements}})
        }
        Details::Helm(HelmDetails { value_files, values, parameters, file_parameters }) => {
            let parameter = |one: &ParameterDetails, value: &str| json!({"name": one.name, "value": value});
            let printed: Vec<Value> = parameters.iter().map(|one| parameter(one, &one.value)).collect();
            // Those alone of which the reference loses digits (RND-154).
            let differing = parameters.iter().filter(|one| one.plain != one.value);
            let plain: Vec<Value> = differing.map(|one| parameter(one, &one.plain)).collect();
            let files: Vec<Value> =
                file_parameters.iter().map(|one| json!({"name": one.name, "path": one.path})).collect();
            json!({"type": kind, "helm": {"valueFiles": value_files, "values": values, "parameters": printed,
                "fileParameters": files, "plainParameters": plain}})
        }
    }
}

/// An announcement with the members that the API has: what a plugin says besides is told to nobody.
fn announcement(one: Value) -> Value {
    let Value::Object(members) = one else { return json!({}) };
    let is_known = |name: &str, value: &Value| match name {
        "name" | "title" | "tooltip" | "itemType" | "collectionType" | "string" => value.is_string(),
        "required" => value.is_boolean(),
        "array" => value.as_array().is_some_and(|items| items.iter().all(Value::is_string)),
        "map" => value.as_object().is_some_and(|members| members.values().all(Value::is_string)),
        _ => false,
    };
    Value::Object(members.into_iter().filter(|(name, value)| is_known(name, value)).collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    /// Each caller had one of two turns, also while it waited for another server.
    #[tokio::test]
    async fn inv_16_details_of_a_source_take_a_turn_of_the_project() {
        let compute = Compute::inline();
        let budget = Budget::default();
        let sizes = |budget: &Budget| Ok(budget.live_bytes);
        let held = [compute.turn("blue", Size::Small).await, compute.turn("green", Size::Small).await];
        let mut waiting = Box::pin(in_turn(&compute, "red", &budget, sizes));
        assert!((&mut waiting).now_or_never().is_none());
        drop(held);
        assert_eq!(waiting.await.unwrap(), budget.small().live_bytes);
        // Nothing is held between two questions.
        assert!(compute.turn("blue", Size::Small).now_or_never().is_some());
    }

    #[tokio::test]
    async fn sec_07_details_of_a_source_have_the_bounds_of_renderings() {
        let compute = Compute::inline();
        let budget = Budget { live_bytes: 200 << 20, ..Budget::default() };
        let needs = |budget: &Budget| match budget.live_bytes {
            bytes if bytes >= 200 << 20 => Ok(bytes),
            _ => Err(RenderError::new(Reason::MemoryExceeded, "too large")),
        };
        assert_eq!(in_turn(&compute, "red", &budget, needs).await.unwrap(), 200 << 20);
        let small = Budget::default();
        assert!(in_turn(&compute, "red", &small, needs).await.is_err());
        assert!(compute.turn("red", Size::Large).now_or_never().is_some());
    }
}
