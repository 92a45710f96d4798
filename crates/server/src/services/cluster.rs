//! Clusters (API-166..169).

use futures::StreamExt as _;
use jiff::tz::TimeZone;
use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::cluster::Cluster;
use tiphys_cluster::PluginPolicy;
use tiphys_go::time;
use tiphys_service::cluster::{self, Clusters, Create, Selector, State, ask};
use tiphys_service::{Action, Caller};

use super::context::{Context, hidden};
use super::{request, unimplemented};
use crate::call::{Reply, Status};

/// Clusters that are asked at a time.
const ASKED_MAX: usize = 8;

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Id {
    r#type: String,
    value: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Query {
    server: String,
    name: String,
    id: Option<Id>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CreateCall {
    cluster: Option<cluster::Message>,
    upsert: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct UpdateCall {
    cluster: Option<cluster::Message>,
    updated_fields: Vec<String>,
    id: Option<Id>,
}

/// Which cluster a call means (API-166).
enum Meant {
    Server(String),
    Name(String),
}

impl Meant {
    fn read(query: &Query) -> Result<Self, Status> {
        let meant = match &query.id {
            Some(id) if id.r#type == "name" => Self::Name(id.value.clone()),
            Some(id) if id.r#type == "name_escaped" => Self::Name(unescaped(&id.value)),
            Some(id) if !id.value.is_empty() => Self::Server(id.value.clone()),
            _ if !query.server.is_empty() => Self::Server(query.server.clone()),
            _ => Self::Name(query.name.clone()),
        };
        match &meant {
            Self::Server(text) | Self::Name(text) if text.is_empty() => Err(hidden()),
            _ => Ok(meant),
        }
    }

    fn selector(&self) -> Selector<'_> {
        match self {
            Self::Server(server) => Selector::Server(server),
            Self::Name(name) => Selector::Name(name),
        }
    }
}

/// A text of a query string.
fn unescaped(text: &str) -> String {
    let pair = format!("v={text}");
    form_urlencoded::parse(pair.as_bytes()).next().map_or_else(String::new, |(_, value)| value.into_owned())
}

pub(super) async fn call(context: &Context<'_>, method: &str, message: Value) -> Result<Reply, Status> {
    let asks = context.asks();
    let settings = &context.world.installation.settings;
    let calls = Clusters::new(&context.parts.store, Caller::asking(&asks), settings.in_cluster_enabled());
    let plugins = PluginPolicy {
        programs: settings.controller().cluster_exec_programs.clone(),
        environment: settings.env().clone(),
    };
    let mut secrets = context.world.secrets();
    let answer = match method {
        "List" => {
            let query: Query = request::read(message)?;
            let mut found = calls.list(&secrets);
            found.retain(|cluster| {
                query.server.is_empty() || cluster.server == query.server.trim_end_matches('/')
            });
            found.retain(|cluster| query.name.is_empty() || cluster.name == query.name);
            if !(query.server.is_empty() && query.name.is_empty()) {
                // The first one, and that of the shared scope before those of projects.
                found.sort_by_key(|cluster| !cluster.project.is_empty());
                found.truncate(1);
            }
            let shown: Vec<_> = found.into_iter().map(|cluster| shown(context, cluster, &plugins)).collect();
            let items: Vec<Value> = futures::stream::iter(shown).buffered(ASKED_MAX).collect().await;
            json!({"metadata": {}, "items": items})
        }
        "Get" => {
            let meant = Meant::read(&request::read(message)?)?;
            let found = calls.select(&secrets, meant.selector(), Action::Get)?;
            let cluster = found.into_iter().next().ok_or_else(hidden)?;
            shown(context, cluster, &plugins).await
        }
        "Create" => {
            let asked: CreateCall = request::read(message)?;
            let wire =
                asked.cluster.ok_or_else(|| Status::invalid("missing payload 'cluster' in request"))?;
            let create = Create { cluster: wire.cluster(), upsert: asked.upsert };
            calls.create(&mut secrets, &create, &plugins).await?;
            context.see(&secrets).await;
            shown(context, create.cluster, &plugins).await
        }
        "Update" => {
            let asked: UpdateCall = request::read(message)?;
            let wire =
                asked.cluster.ok_or_else(|| Status::invalid("missing payload 'cluster' in request"))?;
            let query = Query { server: wire.server.clone(), name: wire.name.clone(), id: asked.id };
            let meant = Meant::read(&query)?;
            let update = wire.update(&asked.updated_fields);
            let updated = calls.updated(&secrets, meant.selector(), &update)?;
            for (_, wanted) in &updated {
                check_answer(context, wanted, &plugins).await?;
            }
            calls.update(&mut secrets, meant.selector(), &update).await?;
            context.see(&secrets).await;
            let (_, cluster) = updated.into_iter().next().ok_or_else(hidden)?;
            shown(context, cluster, &plugins).await
        }
        "Delete" => {
            let meant = Meant::read(&request::read(message)?)?;
            calls.delete(&mut secrets, meant.selector()).await?;
            context.see(&secrets).await;
            json!({})
        }
        "RotateAuth" => {
            let meant = Meant::read(&request::read(message)?)?;
            calls.rotate_auth(&mut secrets, meant.selector(), &plugins).await?;
            context.see(&secrets).await;
            json!({})
        }
        "InvalidateCache" => {
            let meant = Meant::read(&request::read(message)?)?;
            let now = time::format(time::RFC_3339, context.parts.clock.now(), &TimeZone::UTC);
            let found = calls.select(&secrets, meant.selector(), Action::Update)?;
            calls.invalidate(&mut secrets, meant.selector(), &now).await?;
            context.see(&secrets).await;
            let cluster = found.into_iter().next().ok_or_else(hidden)?;
            shown(context, cluster, &plugins).await
        }
        _ => return Err(unimplemented(method)),
    };
    Ok(Reply::value(answer))
}

/// Whether a cluster answers as it would be stored (API-167).
async fn check_answer(
    context: &Context<'_>,
    cluster: &Cluster,
    plugins: &PluginPolicy,
) -> Result<(), Status> {
    match ask(cluster, &context.parts.home, plugins).await {
        cluster::Answer::Failed(why) => {
            let error = cluster::ClusterCallError::Connection(why);
            Err(tiphys_service::Error::from(error).into())
        }
        _ => Ok(()),
    }
}

/// A cluster without what opens doors, with what it answers (API-168).
async fn shown(context: &Context<'_>, cluster: Cluster, plugins: &PluginPolicy) -> Value {
    let answer = ask(&cluster, &context.parts.home, plugins).await;
    let entries = context.parts.catalog.snapshot().entries;
    let clusters = &context.world.installation.clusters;
    let key = cluster.key();
    let there = entries.iter().filter(|entry| {
        let found = clusters.of_project(&entry.project).resolve(&entry.destination);
        found.is_ok_and(|found| found.key() == key)
    });
    let applications = there.count();
    let watched = context.parts.live.as_ref().and_then(|live| live.cluster(&key));
    let state = State { applications, answer, asked_at: Some(context.parts.clock.now()), watched };
    cluster::shown(&cluster, &state)
}
