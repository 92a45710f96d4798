//! One resource of an application: reading it, changing it, deleting it, its Events and the logs below it
//! (API-139..144, API-149). Who asks was authorized for the application; here the project is asked for the object.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tiphys_api::application::HealthStatus;
use tiphys_api::codes::HealthCode;
use tiphys_cluster::{
    ApiError, Deleted, ExecQuery, ExecSink, ExecStream, LogLines, LogQuery, PatchKind, Removal, Seen,
    TreeNode, events_about,
};
use tiphys_object::{GroupKind, Object, ResourceKey};

use super::bound;
use super::compare::{Subject, is_declared};
use super::load::AppContext;
use super::resolve;
use super::shown::{ShowError, begin, hide, key_of, mask, resolved, value_of};
use super::visible::{VisibleNode, VisibleObjects, missing};
use crate::app_key::AppKey;
use crate::context::Context;

/// A live object of an application, without secrets (API-139).
pub(crate) async fn resource(
    controller: &Context,
    key: &AppKey,
    named: &ResourceKey,
) -> Result<Value, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let objects = VisibleObjects::of(&cx, &resolved);
    let object = objects.read(&objects.find(named).await?).await?;
    shown(&cx, &object)
}

fn shown(cx: &AppContext<'_>, object: &Object) -> Result<Value, ShowError> {
    let mut value = value_of(object)?;
    hide(&mask(cx), &mut [&mut value])?;
    Ok(value)
}

/// Words about a failed change; those about a Secret tell nothing of it (API-140).
pub(super) fn failed(word: &str, key: &ResourceKey, error: &ApiError) -> ShowError {
    if key.kind == "Secret" && key.group.is_empty() {
        return ShowError::Failed(format!("failed to {word} Secret {}/{}", key.namespace, key.name));
    }
    ShowError::Failed(error.to_string())
}

/// Changes a live object of an application; the answer is the object without secrets (API-140).
pub(crate) async fn patch(
    controller: &Context,
    key: &AppKey,
    named: &ResourceKey,
    (kind, patch): (PatchKind, &Value),
) -> Result<Value, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    resolved.refusal(named, &cx.world).map_or(Ok(()), |refusal| Err(ShowError::Denied(refusal)))?;
    let objects = VisibleObjects::of(&cx, &resolved);
    let node = objects.find(named).await?;
    let object = objects.read(&node).await?;
    let permit = resolved.permit(&object, &cx.world).map_err(ShowError::Denied)?;
    let (target, uid, writer) = (node.target(), &object.metadata().uid, &resolved.destination.writer);
    let patch = bound::bound(kind, patch, uid).map_err(ShowError::Failed)?;
    match writer.patch_of(&permit, &target, kind, &patch).await {
        Ok(written) => shown(&cx, &written),
        Err(error) => Err(bound::refused(&cx, writer, (&target, uid), ("patch", error)).await),
    }
}

/// Deletes a live object of an application (API-140).
pub(crate) async fn delete(
    controller: &Context,
    key: &AppKey,
    named: &ResourceKey,
    removal: Removal,
) -> Result<(), ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    resolved.refusal(named, &cx.world).map_or(Ok(()), |refusal| Err(ShowError::Denied(refusal)))?;
    let objects = VisibleObjects::of(&cx, &resolved);
    let node = objects.find(named).await?;
    let object = objects.read(&node).await?;
    let permit = resolved.permit(&object, &cx.world).map_err(ShowError::Denied)?;
    let options = removal.options(object.metadata());
    match resolved.destination.writer.delete(&permit, &node.target(), &options).await {
        Ok(Deleted::Accepted) => Ok(()),
        Ok(Deleted::Absent) => Err(missing(&cx, named)),
        Err(error) => Err(failed("delete", named, &error)),
    }
}

/// The Events about a resource of an application, or about one of its orphans (API-144).
pub(crate) async fn events(
    controller: &Context,
    key: &AppKey,
    (namespace, name, uid): (&str, &str, &str),
) -> Result<Vec<Value>, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let is_meant = |visible: &VisibleNode| {
        let node = visible.as_node();
        node.uid == uid && node.key.name == name && node.key.namespace == namespace
    };
    let objects = VisibleObjects::of(&cx, &resolved);
    let found = objects.all(None).await?;
    let is_known = found.iter().any(is_meant) || objects.orphans(&found).iter().any(is_meant);
    if !is_known {
        let text = format!("{name} not found as part of application {}", cx.key.name);
        return Err(ShowError::NotFound(text));
    }
    let index = &resolved.destination.index;
    let listed = events_about(index.connection(), index.discovery(), (namespace, name, uid)).await;
    listed.map_err(ShowError::Unavailable)
}

/// The pods of an application that are a resource or belong to one: namespace and name of each (API-149). An empty member
/// of the key says nothing.
pub(crate) async fn pods(
    controller: &Context,
    key: &AppKey,
    below: &ResourceKey,
) -> Result<Vec<(String, String)>, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let found = VisibleObjects::of(&cx, &resolved).all(Some(&GroupKind::new("", "Pod"))).await?;
    Ok(matching_pods(found.iter().map(VisibleNode::as_node), below))
}

/// Pods that match, or that something belongs to which does.
fn matching_pods<'n>(
    nodes: impl Iterator<Item = &'n TreeNode> + Clone,
    below: &ResourceKey,
) -> Vec<(String, String)> {
    let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let matches = |key: &ResourceKey| {
        is(&below.group, &key.group)
            && is(&below.kind, &key.kind)
            && is(&below.namespace, &key.namespace)
            && is(&below.name, &key.name)
    };
    let by_key: HashMap<&ResourceKey, &TreeNode> = nodes.clone().map(|node| (&node.key, node)).collect();
    let is_meant = |pod: &TreeNode| {
        let (mut open, mut seen) = (vec![&pod.key], HashSet::new());
        while let Some(key) = open.pop() {
            if matches(key) {
                return true;
            }
            if seen.insert(key) {
                open.extend(by_key.get(key).into_iter().flat_map(|node| &node.parents).map(|it| &it.key));
            }
        }
        false
    };
    let pods = nodes.filter(|node| node.key.kind == "Pod" && node.key.group.is_empty());
    let pods = pods.filter(|pod| is_meant(pod));
    let mut found: Vec<(String, String)> =
        pods.map(|pod| (pod.key.namespace.to_string(), pod.key.name.to_string())).collect();
    found.sort();
    found.dedup();
    found
}

/// Starts reading the log of a pod of the application.
pub(crate) async fn log(
    controller: &Context,
    key: &AppKey,
    (namespace, pod): (&str, &str),
    query: &LogQuery,
) -> Result<LogLines, ShowError> {
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let named = ResourceKey::new("", "Pod", namespace, pod);
    let objects = VisibleObjects::of(&cx, &resolved);
    // Another one of the same name may have taken its place since it was seen.
    objects.read(&objects.find(&named).await?).await?;
    let connection = resolved.destination.index.connection();
    connection.log(namespace, pod, query).await.map_err(|error| ShowError::Unavailable(error.to_string()))
}

/// Starts a program in a container of a pod of the application, with a terminal (API-190). The pod that is there has to be
/// the one that belongs to the application, and the container has to run.
pub(crate) async fn exec(
    controller: &Context,
    key: &AppKey,
    query: &ExecQuery,
) -> Result<(ExecSink, ExecStream), ShowError> {
    if controller.read_only {
        return Err(ShowError::Denied(ApiError::ReadOnly.to_string()));
    }
    let cx = begin(controller, key)?;
    let resolved = resolved(&cx).await?;
    let named = ResourceKey::new("", "Pod", &query.namespace, &query.pod);
    let foreign = || ShowError::NotFound("Pod doesn't belong to specified app".to_owned());
    let objects = VisibleObjects::of(&cx, &resolved);
    let node = objects.find(&named).await.map_err(|error| match error {
        ShowError::NotFound(_) => foreign(),
        error => error,
    })?;
    let read = resolved.destination.writer.get(&node.target()).await;
    let pod = read.map_err(|error| ShowError::Unavailable(error.to_string()))?;
    let pod = pod.ok_or_else(|| ShowError::NotFound("Cannot find pod".to_owned()))?;
    // Another one of the same name may have taken its place since it was seen.
    if !objects.is_same(&node, &pod) {
        return Err(foreign());
    }
    if !is_running(&value_of(&pod)?, &query.container) {
        let text = format!("Cannot find container {:?} running in the pod", query.container);
        return Err(ShowError::NotFound(text));
    }
    let opened = resolved.destination.index.connection().exec(query).await;
    opened.map_err(|error| ShowError::Unavailable(error.to_string()))
}

/// Whether a container of a pod runs, whatever it is there for.
fn is_running(pod: &Value, container: &str) -> bool {
    let lists = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];
    let statuses = lists.iter().filter_map(|list| pod.get("status")?.get(list)?.as_array()).flatten();
    statuses
        .filter(|status| status.get("name").and_then(Value::as_str) == Some(container))
        .any(|status| status.pointer("/state/running").is_some())
}

/// Whether callers of an application may see an object now. Streams check repeatedly; an unavailable cluster is an error
/// and does not revoke anything.
pub(crate) async fn is_visible(
    controller: &Context,
    key: &AppKey,
    named: &ResourceKey,
) -> Result<bool, ShowError> {
    let found = async {
        let cx = begin(controller, key)?;
        let resolved = resolved(&cx).await?;
        VisibleObjects::of(&cx, &resolved).find(named).await.map(drop)
    };
    match found.await {
        Ok(()) => Ok(true),
        Err(error @ ShowError::Unavailable(_)) => Err(error),
        Err(ShowError::NotFound(_) | ShowError::Denied(_) | ShowError::Failed(_)) => Ok(false),
    }
}

/// Health of the resources of an application's status where the status leaves it to the tree (API-118): as it was found
/// at the last comparison, and `Missing` for declared objects that do not exist. Unknown health is left out, and so are
/// entries of the status that the comparison did not contain.
pub(crate) async fn health(controller: &Context, key: &AppKey) -> Vec<(ResourceKey, HealthStatus)> {
    let Ok(cx) = begin_with_verdicts(controller, key) else { return Vec::new() };
    let Ok(resolved) = resolve::resolve(&cx).await else { return Vec::new() };
    let memory = cx.memory.lock();
    let subject = Subject { cx: &cx, resolved: &resolved };
    let namespace = &cx.app.spec.destination.namespace;
    let of = |key: &ResourceKey, is_hook: bool| {
        let is_declared = memory.targets.as_ref().is_some_and(|targets| is_declared(targets, namespace, key));
        if matches!(resolved.destination.index.get(key), Seen::Absent) {
            let message = "Resource has not been created".to_owned();
            let status = HealthCode::Missing.into();
            let missing = HealthStatus { status, message, ..HealthStatus::default() };
            return (is_declared && !is_hook).then_some(missing);
        }
        memory.verdicts.get(key)?.shown_health()
    };
    let keys = cx.app.status.resources.iter().map(|resource| (key_of(resource), resource.hook));
    let visible = keys.filter(|(key, _)| subject.is_visible(key));
    visible.filter_map(|(key, is_hook)| of(&key, is_hook).map(|health| (key, health))).collect()
}

/// The application with the memory of its rounds, which is only looked at.
fn begin_with_verdicts<'a>(controller: &'a Context, key: &AppKey) -> Result<AppContext<'a>, ShowError> {
    match super::load::load(controller, key, crate::queue::Priority::Urgent) {
        Ok(Some(cx)) => Ok(cx),
        Ok(None) | Err(_) => Err(ShowError::NotFound(format!("application {key} is not known"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tiphys_cluster::ParentRef;

    use super::*;

    #[test]
    fn api_190_a_container_runs_or_does_not() {
        let pod = json!({"status": {
            "containerStatuses": [{"name": "a", "state": {"running": {"startedAt": "x"}}},
                {"name": "b", "state": {"waiting": {}}}],
            "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}});
        let found = ["a", "b", "i", "c", ""].map(|name| is_running(&pod, name));
        assert_eq!(found, [true, false, true, false, false]);
        assert!(!is_running(&json!({}), "a"));
    }

    fn node(group: &str, kind: &str, name: &str, parents: &[(&str, &str, &str)]) -> TreeNode {
        let key = |group: &str, kind: &str, name: &str| ResourceKey::new(group, kind, "web", name);
        TreeNode {
            key: key(group, kind, name),
            version: "v1".into(),
            uid: name.into(),
            resource_version: "1".into(),
            created_seconds: 0,
            is_terminating: false,
            parents: parents
                .iter()
                .map(|(group, kind, name)| ParentRef { key: key(group, kind, name), uid: (*name).into() })
                .collect(),
            claims: Vec::new(),
            object: None,
            derived: None,
        }
    }

    #[test]
    fn api_149_pods_are_found_by_what_they_belong_to() {
        let nodes = [
            node("apps", "Deployment", "web", &[]),
            node("apps", "ReplicaSet", "web-1", &[("apps", "Deployment", "web")]),
            node("", "Pod", "web-1-b", &[("apps", "ReplicaSet", "web-1")]),
            node("", "Pod", "web-1-a", &[("apps", "ReplicaSet", "web-1")]),
            // Owners in a circle are no reason not to end.
            node("", "Pod", "odd", &[("", "Pod", "odd")]),
        ];
        let names = |below: ResourceKey| -> Vec<String> {
            matching_pods(nodes.iter(), &below).into_iter().map(|(_, name)| name).collect()
        };
        assert_eq!(names(ResourceKey::new("", "", "", "")), ["odd", "web-1-a", "web-1-b"]);
        let of = |group: &str, kind: &str, name: &str| ResourceKey::new(group, kind, "", name);
        assert_eq!(names(of("apps", "Deployment", "web")), ["web-1-a", "web-1-b"]);
        assert_eq!(names(of("", "Pod", "web-1-b")), ["web-1-b"]);
        assert_eq!(names(of("", "Deployment", "other")), [] as [&str; 0]);
        assert_eq!(names(ResourceKey::new("", "", "else", "")), [] as [&str; 0]);
    }
}
