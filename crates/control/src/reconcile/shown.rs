//! What people are shown of an application beyond its status: the manifests, the pairs of a comparison, the tree of
//! resources (API-136..146).
//!
//! These are questions beside the rounds. They ask what a round asks, with a memory of their own, and write nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tiphys_api::Application;
use tiphys_api::application::{ApplicationSource, ResourceStatus};
use tiphys_api::names::{GROUP, VERSION};
use tiphys_cluster::{ParentRef, TreeNode};
use tiphys_engine::diff::{DiffOptions, diff};
use tiphys_engine::mask::SecretMask;
use tiphys_engine::tree::{self, NodeInfo};
use tiphys_lifecycle::refresh::{Level, Reason, Refresh, RefreshKind};
use tiphys_object::host::{Amounts, HostUse};
use tiphys_object::{Gvk, Object, ResourceKey};

use super::compare::{self, Compared};
use super::desired::{self, Unavailable, Wanted};
use super::load::{self, AppContext, Others};
use super::resolve::{self, Resolved, Unresolved};
use super::visible::{VisibleNode, VisibleObjects};
use crate::app_key::AppKey;
use crate::clusters::custom_labels;
use crate::context::Context;
use crate::memory::{AppMemory, Targets, Verdict};
use crate::queue::Priority;
use crate::scripts::Programs;
use crate::targets::Upload;

/// Why something cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShowError {
    /// There is no such application, or no such object in it.
    #[error("{0}")]
    NotFound(String),
    /// It cannot be told now.
    #[error("{0}")]
    Unavailable(String),
    /// The project does not permit it.
    #[error("{0}")]
    Denied(String),
    /// It cannot be told as things are: a spec, a source or a cluster is wrong.
    #[error("{0}")]
    Failed(String),
}

impl From<Unavailable> for ShowError {
    fn from(error: Unavailable) -> Self {
        match error {
            Unavailable::Failed(text) => Self::Failed(text),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

pub(super) fn begin<'a>(controller: &'a Context, key: &AppKey) -> Result<AppContext<'a>, ShowError> {
    let mut cx = match load::load(controller, key, Priority::Urgent) {
        Ok(Some(cx)) => cx,
        Ok(None) => return Err(ShowError::NotFound(format!("application {key} is not known"))),
        Err(_) => return Err(ShowError::Failed(format!("application {key} cannot be read"))),
    };
    // Rounds go on meanwhile: what they remember is theirs.
    let own = {
        let memory = cx.memory.lock();
        AppMemory {
            targets: memory.targets.clone(),
            recognised: memory.recognised.clone(),
            ..AppMemory::default()
        }
    };
    cx.memory = Arc::new(Mutex::new(own));
    Ok(cx)
}

/// Whether the sources of an application can be rendered, whether it is stored or not (API-126).
pub(crate) async fn check_sources(controller: &Context, app: Application) -> Result<(), ShowError> {
    let key = AppKey::new(&app.metadata.namespace, &app.metadata.name);
    let world = controller.world.load_full();
    let tracking = Arc::new(world.tracking_of(&app));
    let instance = tracking.instance_name(&key.namespace, &key.name).to_string();
    let value = serde_json::to_value(&app).map_err(|error| ShowError::Failed(error.to_string()))?;
    let object =
        Object::from_value(&with_kind(value)).map_err(|error| ShowError::Failed(error.to_string()))?;
    let interpreters = &controller.interpreters;
    let runner = interpreters.runner(&instance, world.settings.controller().jq_timeout);
    let scripted = (app.project(), world.scripted);
    let programs = Programs::new(interpreters, &controller.compute, scripted, runner);
    let cx = AppContext {
        controller,
        key,
        priority: Priority::Urgent,
        object: Arc::new(object),
        app,
        instance,
        memory: Arc::new(Mutex::new(AppMemory::default())),
        others: Others::of(controller, &world),
        programs,
        world,
        tracking,
        is_behind: false,
    };
    let resolved = resolved(&cx).await?;
    let refresh = Refresh { level: Level::ForceLatest, kind: RefreshKind::Normal, reason: Reason::Requested };
    let wanted = Wanted { refresh, sources: Some(rendered(&cx.app)), revisions: &[] };
    desired::load(&cx, &resolved, wanted).await?;
    Ok(())
}

fn with_kind(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
        members.insert("kind".to_owned(), "Application".into());
    }
    value
}

pub(super) async fn resolved(cx: &AppContext<'_>) -> Result<Resolved, ShowError> {
    resolve::resolve(cx).await.map_err(|unresolved| match unresolved {
        Unresolved::Invalid(conditions) => {
            let texts: Vec<String> = conditions.into_iter().map(|condition| condition.message).collect();
            ShowError::Failed(texts.join("; "))
        }
        Unresolved::NotReady => ShowError::Unavailable("the cluster is being listed".to_owned()),
        Unresolved::Unreachable(why) => ShowError::Unavailable(why),
    })
}

/// What is rendered for an application: the dry source where there is a hydrator (API-146).
fn rendered(app: &Application) -> &[ApplicationSource] {
    let dry = app.spec.source_hydrator.as_ref().map(|hydrator| std::slice::from_ref(hydrator.dry_source()));
    dry.unwrap_or_else(|| app.sources())
}

/// The revisions that were compared last; none where the sources changed since.
pub(super) fn compared_revisions(cx: &AppContext<'_>) -> Vec<String> {
    let sync = &cx.app.status.sync;
    let all = if cx.app.is_multi_source() { sync.revisions.clone() } else { vec![sync.revision.clone()] };
    let is_complete = all.len() == cx.app.sources().len() && all.iter().all(|revision| !revision.is_empty());
    if is_complete { all } else { Vec::new() }
}

pub(super) fn wanted<'a>(cx: &'a AppContext<'_>, revisions: &'a [String]) -> Wanted<'a> {
    let refresh = Refresh { level: Level::Recent, kind: RefreshKind::Normal, reason: Reason::Internal };
    // Sources that are named are not remembered by those who hold the application.
    Wanted { refresh, sources: Some(cx.app.sources()), revisions }
}

pub(super) fn value_of(object: &Object) -> Result<Value, ShowError> {
    object.to_value().map_err(|error| ShowError::Failed(error.to_string()))
}

pub(super) fn mask(cx: &AppContext<'_>) -> SecretMask {
    SecretMask::from_settings(cx.world.settings.cm())
}

/// Hides secrets in copies of one object; what cannot be hidden is not shown.
pub(super) fn hide(mask: &SecretMask, copies: &mut [&mut Value]) -> Result<(), ShowError> {
    mask.hide(copies).map_err(|error| ShowError::Failed(error.to_string()))
}

/// The manifests of the sources, at those of the last comparison or at revisions by position, without secrets.
pub(crate) async fn manifests(
    controller: &Context,
    key: &AppKey,
    given: &[(usize, String)],
) -> Result<Vec<Value>, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    // The revisions of the last comparison are those of the branch with manifests.
    let is_hydrated = cx.app.spec.source_hydrator.is_some();
    let mut revisions = if is_hydrated { Vec::new() } else { compared_revisions(&cx) };
    if !given.is_empty() {
        revisions.resize(cx.app.sources().len(), String::new());
    }
    for (at, revision) in given {
        let place = revisions.get_mut(*at);
        let place = place.ok_or_else(|| ShowError::Failed("source position is out of range".to_owned()))?;
        place.clone_from(revision);
    }
    let wanted = Wanted { sources: Some(rendered(&cx.app)), ..wanted(&cx, &revisions) };
    let targets = desired::load(&cx, &resolved, wanted).await?;
    shown_targets(&cx, &targets)
}

/// Renders with the files of a `tar.gz` instead of the first source's repository (API-147). Programs and plugins receive
/// them only if the caller may update the application.
pub(crate) async fn manifests_with_files(
    controller: &Context,
    key: &AppKey,
    (packed, may_run_programs): (Bytes, bool),
) -> Result<Vec<Value>, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let upload = controller.sources.uploaded(packed).await;
    let tree = upload.map_err(|error| ShowError::Failed(error.to_string()))?;
    let upload = Upload { tree, may_run_programs };
    let targets = desired::load_uploaded(&cx, &resolved, upload).await?;
    shown_targets(&cx, &targets)
}

/// Targets without secrets.
fn shown_targets(cx: &AppContext<'_>, targets: &Targets) -> Result<Vec<Value>, ShowError> {
    let mask = mask(cx);
    let mut shown = Vec::with_capacity(targets.objects.len());
    for object in targets.objects.iter() {
        let mut value = value_of(object)?;
        hide(&mask, &mut [&mut value])?;
        shown.push(value);
    }
    Ok(shown)
}

async fn compared(cx: &AppContext<'_>, resolved: &Resolved) -> Result<Compared, ShowError> {
    let revisions = compared_revisions(cx);
    let compared = compare::application(cx, resolved, wanted(cx, &revisions)).await?;
    match &compared.comparison.failed {
        Some(why) => Err(ShowError::Failed(why.clone())),
        None => Ok(compared),
    }
}

/// What an application manages, wanted and live, without secrets (API-138): a list of `ResourceDiff`.
pub(crate) async fn managed(controller: &Context, key: &AppKey) -> Result<Vec<Value>, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let compared = compared(&cx, &resolved).await?;
    let pairs = &compared.comparison.resources;
    let show = || -> Result<Vec<Value>, ShowError> {
        let rules = cx.world.ignore_rules(&cx.app.spec.ignore_differences, &cx.programs.runner);
        let ignore = rules.map_err(ShowError::Failed)?;
        let options =
            DiffOptions { ignore: &ignore, settings: cx.world.diff.for_application(cx.app.sync_options()) };
        let mask = mask(&cx);
        let mut shown = Vec::with_capacity(pairs.len());
        for pair in pairs.iter().filter(|pair| !pair.hook) {
            let mut target = pair.target.as_deref().map(value_of).transpose()?.unwrap_or(Value::Null);
            let mut live = pair.live.as_deref().map(value_of).transpose()?.unwrap_or(Value::Null);
            let (wanted, found) =
                (Some(&target).filter(|it| !it.is_null()), Some(&live).filter(|it| !it.is_null()));
            let result =
                diff(wanted, found, &options).map_err(|error| ShowError::Failed(error.to_string()))?;
            let (mut normalized, mut predicted) = (result.normalized_live, result.predicted_live);
            hide(&mask, &mut [&mut target, &mut live, &mut normalized, &mut predicted])?;
            let version = pair.live.as_ref().map(|live| live.metadata().resource_version.to_string());
            shown.push(json!({
                "group": pair.key.group, "kind": pair.key.kind, "namespace": pair.key.namespace,
                "name": pair.key.name,
                "targetState": target.to_string(),
                "liveState": live.to_string(),
                "normalizedLiveState": normalized.to_string(),
                "predictedLiveState": predicted.to_string(),
                "hook": pair.hook,
                "resourceVersion": version.unwrap_or_default(),
                "modified": result.modified,
            }));
        }
        Ok(shown)
    };
    cx.programs.compute(pairs.len(), show).await
}

/// The tree of an application's resources (API-137): an `ApplicationTree`.
pub(crate) async fn resource_tree(controller: &Context, key: &AppKey) -> Result<Value, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let compared = compared(&cx, &resolved).await?;
    let statuses = with_health(&cx, &compared);
    let pairs = &compared.comparison.resources;
    let labels = custom_labels(&cx.world);
    let objects = VisibleObjects::of(&cx, &resolved);
    let found = objects.of_comparison(&compared);
    let known: HashSet<&ResourceKey> = found.iter().map(VisibleNode::key).collect();
    let mut nodes: Vec<Value> = Vec::with_capacity(found.len());
    for node in found.iter().map(VisibleNode::as_node) {
        let text = node.object.as_deref().map(value_of).transpose()?;
        nodes.push(shown_node(node, text.as_ref(), statuses.get(&node.key), &labels));
    }
    // What the index does not watch was read by the comparison, and what is missing is a node, too.
    for pair in pairs.iter().filter(|pair| !known.contains(&pair.key)) {
        nodes.push(match &pair.live {
            Some(live) => {
                let status = statuses.get(&pair.key);
                shown_object(live, &value_of(live)?, status, &labels)
            }
            None => missing_node(&pair.key, &pair.gvk),
        });
    }
    let orphans = objects.orphans(&found);
    let orphaned: Vec<Value> =
        orphans.iter().map(|orphan| shown_node(orphan.as_node(), None, None, &labels)).collect();
    let mut shown = Map::new();
    shown.insert("nodes".to_owned(), nodes.into());
    if !orphaned.is_empty() {
        shown.insert("orphanedNodes".to_owned(), orphaned.into());
    }
    let hosts = objects.hosts(&found);
    if !hosts.is_empty() {
        shown.insert("hosts".to_owned(), hosts.iter().map(shown_host).collect());
    }
    Ok(Value::Object(shown))
}

/// The states of the roots with the health that this comparison found: a status that is stored may leave it out.
fn with_health(cx: &AppContext<'_>, compared: &Compared) -> HashMap<ResourceKey, ResourceStatus> {
    let memory = cx.memory.lock();
    let with = |status: &ResourceStatus| {
        let (key, mut status) = (key_of(status), status.clone());
        let judged = || memory.verdicts.get(&key).and_then(Verdict::shown_health);
        status.health = status.health.take().or_else(judged);
        (key, status)
    };
    compared.resources.iter().map(with).collect()
}

pub(super) fn key_of(status: &ResourceStatus) -> ResourceKey {
    ResourceKey::new(&status.group, &status.kind, &status.namespace, &status.name)
}

fn identity(key: &ResourceKey, version: &str) -> Map<String, Value> {
    let mut members = Map::new();
    for (name, text) in [
        ("group", key.group.as_str()),
        ("version", version),
        ("kind", key.kind.as_str()),
        ("namespace", key.namespace.as_str()),
        ("name", key.name.as_str()),
    ] {
        if !text.is_empty() {
            members.insert(name.to_owned(), text.into());
        }
    }
    members
}

fn parent(parent: &ParentRef) -> Value {
    let mut members = identity(&parent.key, "");
    members.insert("uid".to_owned(), parent.uid.as_str().into());
    Value::Object(members)
}

fn shown_node(
    node: &TreeNode,
    text: Option<&Value>,
    status: Option<&ResourceStatus>,
    labels: &[String],
) -> Value {
    let mut members = identity(&node.key, &node.version);
    members.insert("uid".to_owned(), node.uid.as_str().into());
    members.insert("resourceVersion".to_owned(), node.resource_version.as_str().into());
    if !node.parents.is_empty() {
        members.insert("parentRefs".to_owned(), node.parents.iter().map(parent).collect());
    }
    if let Some(created) =
        Timestamp::from_second(node.created_seconds).ok().filter(|_| node.created_seconds != 0)
    {
        members.insert("createdAt".to_owned(), created.to_string().into());
    }
    // The manifests of descendants are not kept, but what they say about themselves.
    let packed = node.derived.as_ref().and_then(|derived| derived.node.as_deref());
    if let Some(text) = text {
        put_info(&mut members, &tree::node_info(text, labels));
    } else if let Some(packed) = packed {
        put_info(&mut members, &NodeInfo::unpacked(packed));
    }
    let derived = node.derived.as_ref().and_then(|derived| derived.health.as_ref());
    if let Some(health) = status.and_then(|status| status.health.as_ref()) {
        members.insert("health".to_owned(), json!(health));
    } else if let Some((status, message)) = derived {
        let mut health = Map::from_iter([("status".to_owned(), Value::from(status.as_str()))]);
        if !message.is_empty() {
            health.insert("message".to_owned(), message.as_str().into());
        }
        members.insert("health".to_owned(), health.into());
    }
    Value::Object(members)
}

/// A node with Pods of an application: what it has, and who asks how much of it (ENG-203).
fn shown_host(host: &HostUse) -> Value {
    let (has, shown) = host.node.as_ref().map_or((Amounts::default(), "{}"), |(has, shown)| (*has, shown));
    let others = host.asked_by_all.with(host.asked, i64::saturating_sub);
    let resources = has.named().into_iter().zip(host.asked.named()).zip(others.named());
    let resources = resources.filter(|(((_, capacity), _), _)| *capacity > 0).map(|(((name, capacity), (_, app)), (_, neighbors))| {
        json!({"resourceName": name, "capacity": capacity, "requestedByApp": app, "requestedByNeighbors": neighbors.max(0)})
    });
    // It was written as an object.
    let mut members: Map<String, Value> = serde_json::from_str(shown).unwrap_or_default();
    members.insert("name".to_owned(), host.name.as_str().into());
    members.insert("resourcesInfo".to_owned(), resources.collect());
    Value::Object(members)
}

fn shown_object(object: &Object, text: &Value, status: Option<&ResourceStatus>, labels: &[String]) -> Value {
    let mut members = identity(&object.key(), &object.gvk().version);
    members.insert("uid".to_owned(), object.metadata().uid.as_str().into());
    members.insert("resourceVersion".to_owned(), object.metadata().resource_version.as_str().into());
    if let Some(created) = text.pointer("/metadata/creationTimestamp") {
        members.insert("createdAt".to_owned(), created.clone());
    }
    put_info(&mut members, &tree::node_info(text, labels));
    if let Some(health) = status.and_then(|status| status.health.as_ref()) {
        members.insert("health".to_owned(), json!(health));
    }
    Value::Object(members)
}

fn missing_node(key: &ResourceKey, gvk: &Gvk) -> Value {
    let mut members = identity(key, &gvk.version);
    members.insert(
        "health".to_owned(),
        json!({"status": "Missing", "message": "Resource has not been created"}),
    );
    Value::Object(members)
}

/// What an object says about itself becomes members of its node.
fn put_info(members: &mut Map<String, Value>, info: &NodeInfo) {
    if let Value::Object(more) = json!(info) {
        members.extend(more);
    }
}
