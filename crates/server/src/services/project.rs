//! Projects and the tokens of their roles (API-160..165).

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::project::JwtToken;
use tiphys_api::{AppProject, Application};
use tiphys_object::Object;
use tiphys_policy::permit::Own;
use tiphys_policy::project::{EffectiveInputs, effective, global_projects};
use tiphys_policy::rbac::{Authorized, Resource};
use tiphys_policy::window::is_active;
use tiphys_service::project::token::{Issue, plan_token, random_id, signed};
use tiphys_service::project::{ProjectError, Projects, Surroundings};
use tiphys_service::{Caller, cluster, repository};
use tiphys_wire::status::Code;

use super::audit::{self, Action};
use super::context::{Context, denied};
use super::{events, links, request, unimplemented};
use crate::call::{Reply, Status};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Write {
    project: Option<Value>,
    upsert: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Token {
    project: String,
    role: String,
    description: String,
    expires_in: i64,
    iat: i64,
    id: String,
}

pub(super) async fn call(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    let answer = match method {
        "List" => list(context)?,
        "Get" => shown(stored(context, &named(context, message)?).await?.as_ref())?,
        "GetDetailedProject" => detailed(context, &named(context, message)?)?,
        "GetGlobalProjects" => globals(context, &named(context, message)?)?,
        "GetSyncWindowsState" => windows(context, &named(context, message)?)?,
        "ListEvents" => {
            events::of(context, stored(context, &named(context, message)?).await?.as_ref()).await?
        }
        "ListLinks" => {
            let Named { name } = request::read(message)?;
            if !context.may(Resource::Projects, "get", &name) {
                // The text of API-189.
                return Err(denied(format!("unauthorized access to project {name}")));
            }
            let project = shown(stored(context, &name).await?.as_ref())?;
            links::of(context, "project.links", &links::of_project(project))?
        }
        "Create" => create(context, request::read(message)?).await?,
        "Update" => update(context, request::read(message)?).await?,
        "Delete" => delete(context, request::read(message)?).await?,
        "CreateToken" => create_token(context, request::read(message)?).await?,
        "DeleteToken" => delete_token(context, request::read(message)?).await?,
        _ => return Err(unimplemented(method)),
    };
    Ok(Reply::value(answer))
}

fn failed(error: ProjectError) -> Status {
    tiphys_service::Error::from(error).into()
}

/// The name of a call, whose caller may see the project of that name, whether there is one or not (API-164).
fn named(context: &Context<'_>, message: Value) -> Result<String, Status> {
    let Named { name } = request::read(message)?;
    context.check(Resource::Projects, "get", &name)?;
    Ok(name)
}

async fn stored(context: &Context<'_>, name: &str) -> Result<std::sync::Arc<Object>, Status> {
    let found = context.parts.store.get(Own::Project, name).await.map_err(tiphys_service::Error::from)?;
    found.ok_or_else(|| failed(ProjectError::NotFound(name.to_owned())))
}

/// The members of an answer.
fn shown(object: &Object) -> Result<Value, Status> {
    let mut value = object.to_value().map_err(|_unreadable| Status::internal("a project cannot be read"))?;
    if let Some(members) = value.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
        if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    }
    Ok(value)
}

fn value(project: &AppProject) -> Result<Value, Status> {
    serde_json::to_value(project).map_err(|_unreadable| Status::internal("a project cannot be written"))
}

fn list(context: &Context<'_>) -> Result<Value, Status> {
    let caller = context.caller();
    let seen = context.world.installation.projects.values().filter_map(|project| {
        // The proof is what is shown.
        caller.authorize("get", AppProject::clone(project), context.namespace()).ok()
    });
    let items: Vec<Value> =
        seen.map(|proof: Authorized<AppProject>| value(proof.get())).collect::<Result<_, _>>()?;
    Ok(json!({"metadata": {}, "items": items}))
}

/// The installation as projects are seen in it.
struct Around {
    projects: Vec<AppProject>,
    applications: Vec<Application>,
}

impl Around {
    /// # Errors
    /// When it is not known which applications there are: a project must not lose what nobody counted.
    fn read(context: &Context<'_>) -> Result<Self, Status> {
        if !context.parts.catalog.is_complete() {
            return Err(Status::new(Code::Unavailable, "applications are not known yet"));
        }
        let entries = context.parts.catalog.snapshot().entries;
        let enabled = entries.iter().filter(|entry| context.is_enabled(&entry.key.namespace));
        let applications = enabled.map(|entry| entry.application()).collect::<Result<_, _>>()?;
        Ok(Self { projects: context.world.projects(), applications })
    }

    fn surroundings<'a>(&'a self, context: &'a Context<'_>) -> Surroundings<'a> {
        Surroundings {
            inputs: inputs(context, &self.projects),
            clusters: &context.world.installation.clusters,
            applications: &self.applications,
            namespace: context.namespace(),
        }
    }
}

fn inputs<'a>(context: &'a Context<'_>, projects: &'a [AppProject]) -> EffectiveInputs<'a> {
    let installation = &context.world.installation;
    EffectiveInputs {
        projects,
        repositories: &installation.repositories,
        clusters: installation.clusters.all(),
        settings: &installation.settings,
    }
}

fn known<'p>(projects: &'p [AppProject], name: &str) -> Result<&'p AppProject, Status> {
    let found = projects.iter().find(|project| project.name() == name);
    found.ok_or_else(|| failed(ProjectError::NotFound(name.to_owned())))
}

/// A project with all that belongs to it (API-164).
fn detailed(context: &Context<'_>, name: &str) -> Result<Value, Status> {
    let projects = context.world.projects();
    let inputs = inputs(context, &projects);
    let project = known(&projects, name)?;
    let installation = &context.world.installation;
    let globals: Vec<Value> =
        global_projects(project, &inputs).into_iter().map(value).collect::<Result<_, _>>()?;
    let state = tiphys_service::connection::State::unknown("");
    let repositories: Vec<Value> = installation
        .repositories
        .iter()
        .filter(|repository| repository.project == name)
        .map(|found| repository::shown(found, &state))
        .collect();
    let of_project = installation.clusters.all().iter().filter(|cluster| cluster.project == name);
    let clusters: Vec<Value> =
        of_project.map(|found| cluster::shown(found, &cluster::State::not_asked(0))).collect();
    Ok(json!({
        "globalProjects": globals,
        "project": value(&effective(project, &inputs).shown())?,
        "repositories": repositories,
        "clusters": clusters,
    }))
}

fn globals(context: &Context<'_>, name: &str) -> Result<Value, Status> {
    let projects = context.world.projects();
    let found = global_projects(known(&projects, name)?, &inputs(context, &projects));
    let items: Vec<Value> = found.into_iter().map(value).collect::<Result<_, _>>()?;
    Ok(json!({"items": items}))
}

fn windows(context: &Context<'_>, name: &str) -> Result<Value, Status> {
    let projects = context.world.projects();
    let mut active = Vec::new();
    for (_, window) in known(&projects, name)?.windows() {
        let is_active = is_active(window, context.parts.clock.now())
            .map_err(|error| Status::new(Code::Unknown, format!("invalid sync windows: {error}")))?;
        if is_active {
            active.push(serde_json::to_value(window).unwrap_or_default());
        }
    }
    Ok(json!({"windows": active}))
}

/// The project that was sent.
fn wanted(value: Option<Value>) -> Result<AppProject, Status> {
    let value = value.ok_or_else(|| Status::invalid("missing payload 'project' in request"))?;
    request::read(value)
}

async fn create(context: &Context<'_>, asked: Write) -> Result<Value, Status> {
    let wanted = wanted(asked.project)?;
    let name = wanted.name().to_owned();
    let asks = context.asks();
    let calls = Projects::new(&context.parts.store, Caller::asking(&asks));
    let around = Around::read(context)?;
    let was_there = context.world.installation.projects.contains_key(&name);
    calls.create(&wanted, asked.upsert, &around.surroundings(context)).await?;
    let action = if was_there { Action::UpdatedProject } else { Action::CreatedProject };
    settled(context, &name, &action).await
}

async fn update(context: &Context<'_>, asked: Write) -> Result<Value, Status> {
    let wanted = wanted(asked.project)?;
    let name = wanted.name().to_owned();
    let around = Around::read(context)?;
    let asks = context.asks();
    let calls = Projects::new(&context.parts.store, Caller::asking(&asks));
    let edit = |stored: &AppProject| -> Result<Option<AppProject>, Status> {
        check_base(stored, &wanted)?;
        Ok(Some(AppProject { spec: wanted.spec.clone(), ..stored.clone() }))
    };
    calls.edit(&name, &around.surroundings(context), edit).await?;
    settled(context, &name, &Action::UpdatedProject).await
}

/// Whether an update is made from what is stored, and asks for nothing but its spec (REP-208).
fn check_base(stored: &AppProject, wanted: &AppProject) -> Result<(), Status> {
    let (a, b) = (&stored.metadata, &wanted.metadata);
    if !b.resource_version.is_empty() && a.resource_version != b.resource_version {
        let text = format!("project '{}' was changed meanwhile; read it again and repeat the change", a.name);
        return Err(Status::new(Code::Aborted, text));
    }
    let is_other = |name: &str| Status::invalid(format!("`{name}` of a project is not changed by an update"));
    if !b.labels.is_empty() && a.labels != b.labels {
        return Err(is_other("metadata.labels"));
    }
    if !b.annotations.is_empty() && a.annotations != b.annotations {
        return Err(is_other("metadata.annotations"));
    }
    Ok(())
}

async fn delete(context: &Context<'_>, asked: Named) -> Result<Value, Status> {
    let asks = context.asks();
    let calls = Projects::new(&context.parts.store, Caller::asking(&asks));
    let around = Around::read(context)?;
    let before =
        context.parts.store.get(Own::Project, &asked.name).await.map_err(tiphys_service::Error::from)?;
    calls.delete(&asked.name, &around.surroundings(context)).await?;
    if let Some(object) = before {
        audit::project(context, &object, &Action::DeletedProject);
    }
    context.catch_up(|world| !world.installation.projects.contains_key(&asked.name)).await;
    Ok(json!({}))
}

/// The project as it is now, recorded, when the snapshot shows it.
async fn settled(context: &Context<'_>, name: &str, action: &Action) -> Result<Value, Status> {
    let object = stored(context, name).await?;
    audit::project(context, &object, action);
    let version = object.metadata().resource_version.clone();
    context.catch_up(|world| world.has_project(name, &version)).await;
    shown(&object)
}

/// Whether the caller may deal with the tokens of a role: who may change the project, and members of the role
/// (API-165).
fn check_tokens(context: &Context<'_>, asked: &Token) -> Result<(), Status> {
    let refused = match context.check(Resource::Projects, "update", &asked.project) {
        Ok(()) => return Ok(()),
        Err(refused) => refused,
    };
    let groups = context.claims().map(|claims| claims.groups(context.world.scopes())).unwrap_or_default();
    let project = context.world.installation.projects.get(&asked.project);
    let role = project.and_then(|project| project.spec.roles.iter().find(|role| role.name == asked.role));
    let is_member = role.is_some_and(|role| role.groups.iter().any(|group| groups.contains(group)));
    if is_member { Ok(()) } else { Err(refused) }
}

/// Stores an edit of a project by somebody who was asked already.
async fn edit(
    context: &Context<'_>,
    name: &str,
    edit: impl Fn(&AppProject) -> Result<Option<AppProject>, Status>,
) -> Result<(), Status> {
    let around = Around::read(context)?;
    let calls = Projects::new(&context.parts.store, Caller::operator());
    calls.edit(name, &around.surroundings(context), edit).await
}

async fn create_token(context: &Context<'_>, asked: Token) -> Result<Value, Status> {
    check_tokens(context, &asked)?;
    if asked.expires_in < 0 {
        return Err(Status::invalid("a token cannot expire in the past"));
    }
    if !asked.description.is_empty() {
        // Projects have no field for it (API-165).
        return Err(Status::invalid("`description` of a token cannot be stored; leave it out"));
    }
    let id = if asked.id.is_empty() {
        random_id().ok_or_else(|| Status::internal("the system gives no randomness"))?
    } else {
        asked.id.clone()
    };
    let key = context.world.signing_key();
    if key.is_empty() {
        return Err(Status::internal("the installation has no key to sign tokens with"));
    }
    let issue =
        Issue { role: &asked.role, id: &id, expires_in: asked.expires_in, now: context.parts.clock.now() };
    edit(context, &asked.project, |project| plan_token(project, &issue).map(Some).map_err(failed)).await?;
    let token = signed(&asked.project, &issue, &key);
    settled(context, &asked.project, &Action::CreatedToken).await?;
    Ok(json!({"token": token.expose()}))
}

/// Takes a token out of both books; one that is in none is gone already (API-165).
async fn delete_token(context: &Context<'_>, asked: Token) -> Result<Value, Status> {
    check_tokens(context, &asked)?;
    let is_meant =
        |token: &JwtToken| if asked.id.is_empty() { token.iat == asked.iat } else { token.id == asked.id };
    edit(context, &asked.project, |project| {
        let mut wanted = project.clone();
        for role in wanted.spec.roles.iter_mut().filter(|role| role.name == asked.role) {
            role.jwt_tokens.retain(|token| !is_meant(token));
        }
        if let Some(books) = wanted.status.jwt_tokens_by_role.get_mut(&asked.role) {
            books.items.retain(|token| !is_meant(token));
        }
        Ok((wanted != *project).then_some(wanted))
    })
    .await?;
    settled(context, &asked.project, &Action::DeletedToken).await?;
    Ok(json!({}))
}
