//! `ApplicationSets` (API-154..159).

mod generate;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::ApplicationSet;
use tiphys_appset::live::LiveApplication;
use tiphys_appset::permission::{self, ApiFacts, Verb};
use tiphys_appset::preview::Preview;
use tiphys_appset::stale;
use tiphys_cluster::{DeleteOptions, Deleted, Propagation};
use tiphys_object::selector::Selector;
use tiphys_object::{Object, access};
use tiphys_policy::permit::Own;
use tiphys_policy::rbac::{Authorized, Resource, application_object};
use tiphys_service::application_set::{self as rules, ApplicationSetError, Wanted};
use tiphys_service::{Caller, Change, Guarded, Planned};
use tiphys_wire::status::Code;

use self::generate::generated;
use super::context::{Context, hidden};
use super::{events, request, unimplemented};
use crate::call::{Reply, Status};
use crate::catalog::AppKey;

/// Time for finding out what a change leaves behind; the change itself does not wait longer.
const GENERATION_TIMEOUT: Duration = Duration::from_secs(15);

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Named {
    name: String,
    appset_namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Query {
    projects: Vec<String>,
    selector: String,
    appset_namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Create {
    applicationset: Option<Value>,
    upsert: bool,
    dry_run: bool,
}

pub(super) async fn call(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    let answer = match method {
        "List" => list(context, &request::read(message)?)?,
        "Get" => rules::shown(&found(context, "get", &request::read(message)?).await?.1).map_err(failed)?,
        "ResourceTree" => {
            rules::tree(&found(context, "get", &request::read(message)?).await?.1).map_err(failed)?
        }
        "ListResourceEvents" => {
            events::of(context, &found(context, "get", &request::read(message)?).await?.1).await?
        }
        "Create" => {
            let (answer, warnings) = create(context, request::read(message)?).await?;
            return Ok(Reply { warnings, ..Reply::value(answer) });
        }
        "Generate" => generate::generate(context, request::read(message)?).await?,
        "Watch" => return watch::watch(context, request::read(message)?),
        "Delete" => delete(context, request::read(message)?).await?,
        _ => return Err(unimplemented(method)),
    };
    Ok(Reply::value(answer))
}

fn failed(error: ApplicationSetError) -> Status {
    tiphys_service::Error::from(error).into()
}

/// The namespace of a call, which has to be enabled (API-154).
fn namespace_of<'c>(context: &'c Context<'_>, given: &'c str) -> Result<&'c str, Status> {
    let namespace = if given.is_empty() { context.namespace() } else { given };
    if context.is_set_enabled(namespace) {
        return Ok(namespace);
    }
    // Deviation (API-113): the reference gives no code.
    Err(Status::new(Code::PermissionDenied, format!("namespace '{namespace}' is not permitted")))
}

/// A set that the caller may do this with.
///
/// # Errors
/// Missing and hidden sets get the same error (SEC-25). Deviation (API-154): the reference distinguishes them. The error is
/// `NotFound`, not `PermissionDenied` as for applications: `argocd appset create` creates a set only after `NotFound`.
async fn found(
    context: &Context<'_>,
    action: &str,
    named: &Named,
) -> Result<(Authorized<ApplicationSet>, Arc<Object>), Status> {
    let namespace = namespace_of(context, &named.appset_namespace)?;
    let store = context.parts.store.of(namespace);
    let object = store.get(Own::ApplicationSet, &named.name).await.map_err(tiphys_service::Error::from)?;
    let missing = || failed(ApplicationSetError::NotFound(named.name.clone()));
    let object = object.ok_or_else(missing)?;
    let set = match rules::read(&object) {
        Ok(set) => set,
        // The error names contents of the set.
        Err(error) => return Err(if may_see_unread(context, &object) { failed(error) } else { missing() }),
    };
    let is_visible = context.authorize("get", &set).is_ok();
    match context.authorize(action, set) {
        Ok(proof) => Ok((proof, object)),
        Err(refused) if is_visible => Err(refused),
        Err(_refused) => {
            tracing::warn!(
                security = 2,
                user = %tiphys_api::printable::line(&context.username()),
                set = %tiphys_api::printable::line(&named.name),
                namespace = %tiphys_api::printable::line(namespace),
                action,
                "access to an ApplicationSet was denied"
            );
            Err(missing())
        }
    }
}

/// Whether the caller may see an unreadable set, by its project and its name.
fn may_see_unread(context: &Context<'_>, object: &Object) -> bool {
    let project = project_of(object);
    let name = application_object(&project, object.namespace(), object.name(), context.namespace());
    context.may(Resource::ApplicationSets, "get", &name)
}

fn selector_of(text: &str) -> Result<Selector, Status> {
    if text.is_empty() {
        return Ok(Selector::everything());
    }
    let parsed = text.parse::<Selector>();
    parsed.map_err(|error| Status::invalid(format!("error parsing the selector: {error}")))
}

fn list(context: &Context<'_>, query: &Query) -> Result<Value, Status> {
    let selector = selector_of(&query.selector)?;
    let namespace = match query.appset_namespace.as_str() {
        "" => None,
        given => Some(namespace_of(context, given)?),
    };
    let known = context.parts.sets.all();
    let (objects, version) =
        known.ok_or_else(|| Status::new(Code::Unavailable, "ApplicationSets are not known yet"))?;
    let mut shown = Vec::new();
    for object in objects.iter().filter(|object| context.is_set_enabled(object.namespace())) {
        if namespace.is_some_and(|namespace| namespace != object.namespace())
            || !selector.matches(|key| object.label(key))
        {
            continue;
        }
        // One that cannot be read hides no other.
        let Ok(set) = rules::read(object) else { continue };
        let project = project_of(object);
        if !(query.projects.is_empty() || query.projects.contains(&project)) {
            continue;
        }
        if context.authorize("get", set).is_ok() {
            shown.push((object.name().to_owned(), rules::shown(object).map_err(failed)?));
        }
    }
    shown.sort_by(|a, b| a.0.cmp(&b.0));
    let items: Vec<Value> = shown.into_iter().map(|(_, set)| set).collect();
    Ok(json!({"metadata": {"resourceVersion": version.to_string()}, "items": items}))
}

fn project_of(object: &Object) -> String {
    // What cannot be read is not shown either.
    rules::project_of(&object.to_value().unwrap_or_default()).to_owned()
}

fn wanted(context: &Context<'_>, value: Option<Value>) -> Result<Wanted, Status> {
    let value = value.ok_or_else(|| Status::invalid("missing payload 'applicationset' in request"))?;
    let wanted = Wanted::read(value, context.namespace()).map_err(failed)?;
    if let Some(reason) = tiphys_appset::generator::unrecognized(&wanted.set) {
        return Err(failed(ApplicationSetError::Invalid { name: wanted.set.metadata.name, reason }));
    }
    Ok(wanted)
}

/// Whether the caller may have such a set, in place of one that is there, and its project is there (API-156, ASET-280,
/// ASET-281).
fn admit(
    context: &Context<'_>,
    wanted: &Wanted,
    verb: Verb,
    existing: Option<&ApplicationSet>,
) -> Result<(), Status> {
    let installation = &context.world.installation;
    let project = |name: &str| installation.project(name).ok().map(|project| &**project);
    let facts = ApiFacts {
        settings: &installation.settings,
        project: &project,
        control_plane_namespace: context.namespace(),
    };
    namespace_of(context, &wanted.set.metadata.namespace)?;
    permission::permit(verb, &context.caller(), Some(&wanted.set), existing, &facts).map_err(|refusal| {
        let code = match refusal.code {
            permission::Code::InvalidArgument => Code::InvalidArgument,
            permission::Code::NotFound => Code::NotFound,
            permission::Code::PermissionDenied => Code::PermissionDenied,
            permission::Code::Unknown => Code::Unknown,
        };
        Status::new(code, refusal.message)
    })
}

/// What adding a project to a set leaves behind, in words for who does it (ASET-285).
async fn left_behind(context: &Context<'_>, before: &ApplicationSet, after: &ApplicationSet) -> Vec<String> {
    if !stale::confines(before, after) {
        return Vec::new();
    }
    let owned = owned(context, after);
    let generated = tokio::time::timeout(GENERATION_TIMEOUT, generated(context, after)).await;
    let settings = context.world.installation.settings.application_sets();
    let said = match (owned, generated) {
        (Ok(owned), Ok(Ok(preview))) => {
            let names = preview.applications.iter().map(|app| app.metadata.name.as_str()).collect();
            stale::warning(after, settings, &names, owned.iter().map(String::as_str))
        }
        (Err(status), _) | (_, Ok(Err(status))) => Some(stale::unknown(after, &status.message)),
        (_, Err(_elapsed)) => Some(stale::unknown(after, "generating takes too long")),
    };
    said.into_iter().collect()
}

/// Names of the applications that a set has.
fn owned(context: &Context<'_>, set: &ApplicationSet) -> Result<Vec<String>, Status> {
    let catalog = &context.parts.catalog;
    if !catalog.is_complete() {
        return Err(Status::new(Code::Unavailable, "applications are not known yet"));
    }
    let mut names = Vec::new();
    for entry in catalog.snapshot().entries {
        if entry.key.namespace != set.metadata.namespace {
            continue;
        }
        let live = LiveApplication::from_value(entry.value()?)
            .map_err(|error| Status::internal(format!("application {}: {error}", entry.key.name)))?;
        if live.is_of(set) {
            names.push(live.name);
        }
    }
    Ok(names)
}

/// Creates a set, or changes it; the answer, and what the caller should know besides.
async fn create(context: &Context<'_>, asked: Create) -> Result<(Value, Vec<String>), Status> {
    let wanted = wanted(context, asked.applicationset)?;
    admit(context, &wanted, Verb::Create, None)?;
    let store = context.parts.store.of(&wanted.set.metadata.namespace);
    let name = &wanted.set.metadata.name;
    let mut warnings = Vec::new();
    let existing = if asked.dry_run && !asked.upsert {
        None
    } else {
        store.get(Own::ApplicationSet, name).await.map_err(tiphys_service::Error::from)?
    };
    if let Some(existing) = &existing {
        let different = || failed(ApplicationSetError::Different);
        let existing = rules::read(existing)
            .map_err(|error| if may_see_unread(context, existing) { failed(error) } else { different() })?;
        // An existing set may belong to another project, whose rights count. The error reveals nothing else about it.
        let existing = if asked.upsert {
            let is_visible = context.authorize("get", &existing).is_ok();
            let authorized = context.authorize("update", existing);
            authorized.map_err(|refused| if is_visible { refused } else { hidden() })?
        } else {
            context.authorize("get", existing).map_err(|_refused| different())?
        };
        if asked.upsert {
            admit(context, &wanted, Verb::Update, Some(existing.get()))?;
            // Once it is stored, they may be gone before anybody has asked.
            warnings = left_behind(context, existing.get(), &wanted.set).await;
        }
    }
    if asked.dry_run {
        let preview = generated(context, &wanted.set).await?;
        warnings.extend(generate::warnings(&preview));
        return Ok((dry_run(wanted, &preview)?, warnings));
    }
    let plan = |stored: Option<&Object>| -> Result<Planned, Status> {
        let change = rules::plan_create(stored, &wanted, asked.upsert).map_err(failed)?;
        let Some(stored) = stored else {
            let proof = context.authorize("create", wanted.set.clone())?;
            return Ok(Planned::proven(change, &[&proof], &["create"])?);
        };
        // What is there now may be another set than the one that was looked at, of another project.
        let stored = rules::read(stored).map_err(failed)?;
        if change == Change::Keep {
            let proof = context.authorize("get", stored)?;
            return Ok(Planned::proven(change, &[&proof], &["get"])?);
        }
        admit(context, &wanted, Verb::Update, Some(&stored))?;
        let proofs = [context.authorize("update", stored)?, context.authorize("update", wanted.set.clone())?];
        Ok(Planned::proven(change, &[&proofs[0], &proofs[1]], &["update"])?)
    };
    let written = store.settle_guarded((Guarded::ApplicationSet, name), Caller::operator(), plan).await?;
    let object = written.ok_or_else(|| failed(ApplicationSetError::NotFound(name.clone())))?;
    super::audit::set(context, &object, existing.is_none());
    let key = AppKey::new(object.namespace(), object.name());
    context.parts.sets.catch_up(&key, Some(&object.metadata().resource_version)).await;
    Ok((rules::shown(&object).map_err(failed)?, warnings))
}

/// A set as it would be stored, with the applications that it would make (ASET-302).
fn dry_run(wanted: Wanted, preview: &Preview) -> Result<Value, Status> {
    let resources: Vec<Value> = (generate::values(preview)?.iter())
        .map(|app| {
            json!({"group": tiphys_api::names::GROUP, "version": tiphys_api::names::VERSION,
                "kind": "Application", "name": access::name(app), "namespace": access::namespace(app)})
        })
        .collect();
    let mut value = wanted.value;
    if let Some(members) = value.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
        members.insert("status".to_owned(), json!({"resources": resources}));
    }
    Ok(value)
}

async fn delete(context: &Context<'_>, named: Named) -> Result<Value, Status> {
    let (_proof, object) = found(context, "delete", &named).await?;
    let store = context.parts.store.of(object.namespace());
    let options = DeleteOptions {
        propagation: Propagation::Background,
        uid: Some(object.metadata().uid.clone()),
        ..DeleteOptions::default()
    };
    let deleted = store.delete(Own::ApplicationSet, &named.name, &options).await;
    match deleted.map_err(tiphys_service::Error::from)? {
        Deleted::Accepted => {
            super::audit::deleted_set(context, &object);
            Ok(
                json!({"project": project_of(&object), "applicationset": rules::shown(&object).map_err(failed)?}),
            )
        }
        Deleted::Absent => Err(failed(ApplicationSetError::NotFound(named.name))),
    }
}
