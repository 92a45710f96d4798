//! Repositories and the credentials of many of them (API-170..177).

mod details;
mod questions;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tiphys_service::connection::Asking;
use tiphys_service::repository::{Create, Repositories, read, shown};
use tiphys_service::template::{self, Templates};
use tiphys_service::{Caller, Purpose, Secrets};

use super::context::Context;
use super::{request, unimplemented};
use crate::call::{Reply, Status};

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Query {
    repo: String,
    force_refresh: bool,
    app_project: String,
}

impl Query {
    fn project(&self) -> Option<&str> {
        Some(self.app_project.as_str()).filter(|project| !project.is_empty())
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Write {
    repo: Option<Map<String, Value>>,
    upsert: bool,
    creds_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WriteTemplate {
    creds: Option<Map<String, Value>>,
    upsert: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct TemplateQuery {
    url: String,
}

/// The method without the word that says what a repository is for, and that purpose.
fn purpose(method: &str) -> (String, Purpose) {
    match method.find("Write") {
        Some(_) => (method.replacen("Write", "", 1), Purpose::Push),
        None => (method.to_owned(), Purpose::Read),
    }
}

pub(super) async fn call(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    let (word, purpose) = purpose(method);
    let settings = &context.world.installation.settings;
    let (asks, store, installation) = (context.asks(), &context.parts.store, &context.world.installation);
    let caller = Caller::asking(&asks);
    let calls = match purpose {
        Purpose::Read => Repositories::new(store, caller, installation),
        Purpose::Push => {
            Repositories::to_push(store, caller, installation, settings.controller().hydrator_enabled)?
        }
    };
    let answer = match word.as_str() {
        "List" | "ListRepositories" => list(context, &calls, request::read(message)?).await?,
        "Get" => get(context, &calls, request::read(message)?).await?,
        "Create" | "CreateRepository" => create(context, &calls, request::read(message)?).await?,
        "Update" | "UpdateRepository" => update(context, &calls, request::read(message)?).await?,
        "Delete" | "DeleteRepository" => delete(context, &calls, request::read(message)?).await?,
        "ValidateAccess" => {
            let wanted = read(&message_members(message));
            calls.validate(&context.world.secrets(), &wanted, context.sources()?).await?;
            json!({})
        }
        "ListRefs" if purpose == Purpose::Read => {
            questions::references(context, &request::read(message)?).await?
        }
        "ListOCITags" if purpose == Purpose::Read => {
            questions::tags(context, &request::read(message)?).await?
        }
        "GetHelmCharts" if purpose == Purpose::Read => {
            questions::charts(context, &request::read(message)?).await?
        }
        "ListApps" if purpose == Purpose::Read => {
            questions::applications(context, &request::read(message)?).await?
        }
        "GetAppDetails" if purpose == Purpose::Read => {
            details::app_details(context, request::read(message)?).await?
        }
        _ => return Err(unimplemented(method)),
    };
    Ok(Reply::value(answer))
}

fn message_members(message: Value) -> Map<String, Value> {
    match message {
        Value::Object(mut members) => {
            // The query of validations has spellings of its own.
            for (sent, known) in
                [("enableOci", "enableOCI"), ("insecureOciForceHttp", "insecureOCIForceHttp")]
            {
                if let Some(flag) = members.remove(sent) {
                    members.insert(known.to_owned(), flag);
                }
            }
            members
        }
        _ => Map::new(),
    }
}

/// How connections are found out: from what is known of them, unless somebody wants it anew (REP-79).
fn asking<'c>(context: &'c Context<'_>, query: &Query) -> Asking<'c> {
    Asking {
        sources: context.parts.sources.as_ref(),
        known: Some(&context.parts.connections),
        is_forced: query.force_refresh,
        now: context.parts.clock.now(),
    }
}

async fn list(context: &Context<'_>, calls: &Repositories<'_>, query: Query) -> Result<Value, Status> {
    let fields = [("repo", &query.repo), ("appProject", &query.app_project)];
    if let Some((field, _)) = fields.into_iter().find(|(_, text)| !text.is_empty()) {
        return Err(request::unused(field));
    }
    let found = calls.list(&context.world.secrets(), asking(context, &query)).await;
    let items: Vec<Value> = found.iter().map(|it| shown(&it.shown(), &it.state)).collect();
    Ok(json!({"metadata": {}, "items": items}))
}

async fn get(context: &Context<'_>, calls: &Repositories<'_>, query: Query) -> Result<Value, Status> {
    let secrets = context.world.secrets();
    let meant = (query.repo.as_str(), query.project());
    let found = calls.get(&secrets, meant, asking(context, &query)).await?;
    Ok(shown(&found.shown(), &found.state))
}

fn wanted(repo: Option<Map<String, Value>>) -> Result<tiphys_api::repository::Repository, Status> {
    Ok(read(&repo.ok_or_else(|| Status::invalid("missing payload in request"))?))
}

/// What is told of a repository that was stored (API-173).
fn told(repository: &tiphys_api::repository::Repository) -> Value {
    json!({"repo": repository.url, "type": repository.effective_type(), "name": repository.name})
}

async fn create(context: &Context<'_>, calls: &Repositories<'_>, asked: Write) -> Result<Value, Status> {
    let repository = wanted(asked.repo)?;
    let call = Create { repository, upsert: asked.upsert, is_validated: asked.creds_only };
    let mut secrets = context.world.secrets();
    calls.create(&mut secrets, &call, context.sources()?).await?;
    context.see(&secrets).await;
    Ok(told(&call.repository))
}

async fn update(context: &Context<'_>, calls: &Repositories<'_>, asked: Write) -> Result<Value, Status> {
    let repository = wanted(asked.repo)?;
    let mut secrets = context.world.secrets();
    calls.update(&mut secrets, &repository).await?;
    context.see(&secrets).await;
    Ok(told(&repository))
}

async fn delete(context: &Context<'_>, calls: &Repositories<'_>, query: Query) -> Result<Value, Status> {
    let mut secrets = context.world.secrets();
    let left =
        calls.delete(&mut secrets, (&query.repo, query.project()), Some(&context.parts.connections)).await?;
    if !left.is_empty() {
        tracing::warn!(secrets = left.join(","), "other Secrets declare the repository that was deleted");
    }
    context.see(&secrets).await;
    Ok(json!({}))
}

/// The credentials of many repositories.
pub(super) async fn templates(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    let (word, purpose) = purpose(method);
    let (asks, store) = (context.asks(), &context.parts.store);
    let caller = Caller::asking(&asks);
    let hydrates = context.world.installation.settings.controller().hydrator_enabled;
    let calls = match purpose {
        Purpose::Read => Templates::new(store, caller),
        Purpose::Push => Templates::to_push(store, caller, hydrates)?,
    };
    let mut secrets: Secrets = context.world.secrets();
    let answer = match word.as_str() {
        "ListRepositoryCredentials" => {
            let TemplateQuery { url } = request::read(message)?;
            if !url.is_empty() {
                return Err(request::unused("url"));
            }
            let items: Vec<Value> = calls.list(&secrets).iter().map(template::shown).collect();
            json!({"metadata": {}, "items": items})
        }
        "CreateRepositoryCredentials" | "UpdateRepositoryCredentials" => {
            let asked: WriteTemplate = request::read(message)?;
            let members = asked.creds.ok_or_else(|| Status::invalid("missing payload 'creds' in request"))?;
            let wanted = template::read(&members);
            if wanted.url.is_empty() {
                return Err(Status::invalid("must specify URL"));
            }
            if word.starts_with("Create") {
                calls.create(&mut secrets, &wanted, asked.upsert).await?;
            } else {
                calls.update(&mut secrets, &wanted).await?;
            }
            json!({"url": wanted.url})
        }
        "DeleteRepositoryCredentials" => {
            let TemplateQuery { url } = request::read(message)?;
            calls.delete(&mut secrets, &url).await?;
            json!({})
        }
        _ => return Err(unimplemented(method)),
    };
    context.see(&secrets).await;
    Ok(Reply::value(answer))
}
