//! Creating, changing and deleting applications (API-125..129).

use serde_json::Value;
use tiphys_api::Application;
use tiphys_cluster::{DeleteOptions, Deleted, Propagation};
use tiphys_object::Object;
use tiphys_policy::permit::Own;
use tiphys_policy::rbac::{Resource, application_object};
use tiphys_service::application::{self as rules, ApplicationError, Wanted};
use tiphys_service::{Caller, Change, Guarded, Planned};
use tiphys_wire::status::Code;

use super::requests::{Create, Delete, Named, Patch, Update, UpdateSpec};
use super::{access, failed, is_enabled, nothing, reply, revision, settle, store};
use crate::call::{Reply, Status};
use crate::catalog::AppKey;
use crate::services::audit::{self, Action};
use crate::services::context::{Context, hidden};

/// What was sent, in its form.
fn wanted(context: &Context<'_>, value: Option<Value>) -> Result<Wanted, Status> {
    let value = value.ok_or_else(|| Status::invalid("missing payload 'application' in request"))?;
    Wanted::read(value, context.namespace()).map_err(failed)
}

/// Whether an application may be stored by the rules of its project and of its sources (API-126).
async fn check(context: &Context<'_>, app: &Application, validate: bool) -> Result<(), Status> {
    rules::check_spec(&context.world.installation, app).map_err(failed)?;
    if !validate {
        return Ok(());
    }
    let invalid = |findings| failed(ApplicationError::Invalid { name: app.metadata.name.clone(), findings });
    revision::check_access(context, app).await.map_err(invalid)?;
    if let Some(live) = &context.parts.live {
        live.check_sources(app).await.map_err(invalid)?;
    }
    Ok(())
}

pub(super) async fn create(context: &Context<'_>, asked: Create) -> Result<Reply, Status> {
    let had_operation = asked.application.as_ref().is_some_and(|value| value.get("operation").is_some());
    let wanted = wanted(context, asked.application)?;
    let app = &wanted.application;
    let proof = context.authorize("create", app.clone())?;
    let app = proof.allows("create").unwrap_or(app);
    access::admitted(context, app)?;
    let key = AppKey::new(&app.metadata.namespace, &app.metadata.name);
    if !is_enabled(context, &key.namespace) {
        // Deviation (API-113): the reference gives no code.
        let text = format!("namespace '{}' is not permitted", key.namespace);
        return Err(Status::new(Code::PermissionDenied, text));
    }
    if had_operation {
        tracing::warn!(security = 3, application = %key.name, "an operation in a new application was left out");
    }
    check(context, app, asked.validate.unwrap_or(true)).await?;
    let store = store(context, &key.namespace);
    let existing = store.get(Own::Application, &key.name).await.map_err(tiphys_service::Error::from)?;
    let is_new = existing.is_none();
    let plan = |stored: Option<&Object>| -> Result<Planned, Status> {
        let Some(object) = stored else {
            let change = rules::plan_create(None, &wanted, asked.upsert).map_err(failed)?;
            return Ok(Planned::proven(change, &[&proof], &["create"])?);
        };
        let existing = rules::read(object).map_err(failed)?;
        // It may stand in another project, whose rights count.
        let existing = if asked.upsert {
            // Whoever may not see that project's applications does not learn its name.
            let may_see = context.authorize("get", existing.clone()).is_ok();
            let existing = context.authorize("update", existing);
            let existing = existing.map_err(|refusal| if may_see { refusal } else { hidden() })?;
            check_move(context, existing.get(), app)?;
            existing
        } else {
            // Whoever may not see that project's applications does not learn that there is one.
            context.authorize("get", existing).map_err(|_refused| failed(ApplicationError::Different))?
        };
        let change = rules::plan_create(Some(object), &wanted, asked.upsert).map_err(failed)?;
        if change == Change::Keep {
            return Ok(Planned::proven(change, &[&existing], &["get", "update"])?);
        }
        Ok(Planned::proven(change, &[&existing], &["update"])?)
    };
    let target = (Guarded::Application, &*key.name);
    let written = store.settle_guarded(target, Caller::operator(), plan).await?;
    let object = written.ok_or_else(|| access::not_found(&key.name))?;
    context.parts.catalog.catch_up(&key, &object.metadata().resource_version).await;
    let action = if is_new { Action::CreatedApplication } else { Action::UpdatedApplication };
    audit::application(context, &object, &action);
    reply(&object)
}

/// Whether an application may go to another project: by the rights in both, and by the rules of the new one (API-126,
/// REP-217).
fn check_move(context: &Context<'_>, old: &Application, new: &Application) -> Result<(), Status> {
    if old.project() == new.project() {
        return Ok(());
    }
    let object = |app: &Application| {
        application_object(app.project(), &old.metadata.namespace, &old.metadata.name, context.namespace())
    };
    context.check(Resource::Applications, "create", &object(new))?;
    context.check(Resource::Applications, "update", &object(new))?;
    context.check(Resource::Applications, "update", &object(old))?;
    access::admitted(context, new)
}

pub(super) async fn update(context: &Context<'_>, asked: Update) -> Result<Reply, Status> {
    let wanted = wanted(context, asked.application)?;
    let app = &wanted.application;
    context.authorize("update", app.clone())?;
    let named = Named {
        name: app.metadata.name.clone(),
        app_namespace: app.metadata.namespace.clone(),
        project: asked.project,
    };
    let found = access::fresh(context, "update", &named).await?;
    check_move(context, found.proof.get(), app)?;
    check(context, app, asked.validate.unwrap_or(true)).await?;
    let object = settle(context, &found.key, "update", |stored, object| {
        check_move(context, stored.get(), app)?;
        rules::plan_update(object, &wanted).map_err(failed)
    })
    .await?;
    audit::application(context, &object, &Action::UpdatedApplication);
    reply(&object)
}

pub(super) async fn update_spec(context: &Context<'_>, asked: UpdateSpec) -> Result<Reply, Status> {
    let spec = asked
        .spec
        .ok_or_else(|| Status::invalid("error updating application spec: spec is nil in request"))?;
    let found = access::fresh(context, "update", &asked.named).await?;
    let mut value = found.from.to_value().map_err(|error| Status::internal(error.to_string()))?;
    tiphys_object::access::ensure_object(&mut value).insert("spec".to_owned(), spec);
    let wanted = Wanted::read(value, &found.key.namespace).map_err(failed)?;
    check_move(context, found.proof.get(), &wanted.application)?;
    check(context, &wanted.application, asked.validate.unwrap_or(true)).await?;
    let spec = wanted.value.get("spec").cloned().unwrap_or_default();
    let object = settle(context, &found.key, "update", |stored, object| {
        check_move(context, stored.get(), &wanted.application)?;
        rules::plan_spec(object, &spec).map_err(failed)
    })
    .await?;
    audit::application(context, &object, &Action::UpdatedApplication);
    let shown = rules::shown(&object).map_err(failed)?;
    Ok(Reply::value(shown.get("spec").cloned().unwrap_or_default()))
}

pub(super) async fn patch(context: &Context<'_>, asked: Patch) -> Result<Reply, Status> {
    let found = access::fresh(context, "get", &asked.named).await?;
    context.authorize("update", found.proof.get().clone())?;
    let make = |object: &_| rules::patched(object, &asked.patch, &asked.patch_type);
    let wanted = make(&found.from).map_err(failed)?;
    check_move(context, found.proof.get(), &wanted.application)?;
    check(context, &wanted.application, false).await?;
    let project = found.proof.get().project().to_owned();
    let object = settle(context, &found.key, "update", |stored, object| {
        // What the patch makes of a newer state is checked as little as that state was: it has to be the same move.
        let made = make(object).map_err(failed)?;
        if made.application.project() != wanted.application.project() || stored.get().project() != project {
            return Err(failed(ApplicationError::Renamed));
        }
        rules::plan_update(object, &made).map_err(failed)
    })
    .await?;
    audit::application(context, &object, &Action::UpdatedApplication);
    reply(&object)
}

pub(super) async fn delete(context: &Context<'_>, asked: Delete) -> Result<Reply, Status> {
    let found = access::fresh(context, "get", &asked.named).await?;
    context.authorize("delete", found.proof.get().clone())?;
    let cascade = asked.cascade.unwrap_or(true);
    let policy = Some(asked.propagation_policy.as_str()).filter(|policy| !policy.is_empty());
    let object = settle(context, &found.key, "delete", |_, object| {
        rules::plan_finalizers(object, cascade, policy).map_err(failed)
    })
    .await?;
    let options = DeleteOptions {
        propagation: Propagation::Background,
        uid: Some(object.metadata().uid.clone()),
        ..DeleteOptions::default()
    };
    let deleted =
        store(context, &found.key.namespace).delete(Own::Application, &found.key.name, &options).await;
    match deleted.map_err(tiphys_service::Error::from)? {
        Deleted::Accepted => {
            audit::application(context, &object, &Action::DeletedApplication);
            Ok(nothing())
        }
        Deleted::Absent => Err(access::not_found(&found.key.name)),
    }
}
