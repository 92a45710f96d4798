//! Texts that operations and results carry; written exactly as specified.

use std::collections::HashSet;

use tiphys_object::{GroupKind, Gvk, ResourceKey};

use super::task::Task;

/// The tasks are not valid (ENG-159).
pub const INVALID: &str = "one or more synchronization tasks are not valid";
/// The destination namespace could not be made (ENG-160).
pub const NAMESPACE_FAILED: &str = "the namespace failed to apply";
/// The dry run failed (ENG-160).
pub const DRY_RUN_FAILED: &str = "one or more objects failed to apply (dry run)";
/// A task of an earlier step failed (ENG-164).
pub const TASKS_FAILED: &str = "one or more synchronization tasks completed unsuccessfully";
/// A task of this step failed (ENG-167).
pub const APPLY_FAILED: &str = "one or more objects failed to apply";
/// A `SyncFail` hook failed (ENG-184).
pub const SYNC_FAIL_FAILED: &str = "one or more SyncFail hooks failed";
/// Nothing was left to do (ENG-165).
pub const NO_MORE_TASKS: &str = "successfully synced (no more tasks)";
/// The last step was done (ENG-167).
pub const ALL_TASKS_RUN: &str = "successfully synced (all tasks run)";
/// The operation was ended (ENG-187).
pub const TERMINATED: &str = "Operation terminated";
/// The operation was ended, but not everything could be cleaned up (ENG-187).
pub const TERMINATED_WITH_ERRORS: &str = "Operation termination had errors";

/// What the discovery of a kind that is not served answers.
pub const NOT_SERVED: &str = "the server could not find the requested resource";

/// A hook whose manifest could not be given its name, finalizer and mark.
pub const UNREADABLE_HOOK: &str = "the manifest of the hook cannot be read; correct it in the repository";

/// What is waited for (ENG-169).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Completion,
    Deletion,
    Confirmation,
}

/// The message of a running operation; empty without tasks (ENG-169).
pub(super) fn waiting(wait: Wait, tasks: &[&Task]) -> String {
    let first_hook = tasks.iter().find(|task| task.hook);
    let Some(first) = first_hook.or_else(|| tasks.first()) else { return String::new() };
    let what = match (wait, first.hook) {
        (Wait::Completion, true) => "completion of hook",
        (Wait::Completion, false) => "healthy state of",
        (Wait::Deletion, true) => "deletion of hook",
        (Wait::Deletion, false) => "deletion of",
        (Wait::Confirmation, _) => "pruning confirmation of",
    };
    let mut text = format!("waiting for {what} {}", short(&first.key));
    let more = tasks.len() - 1;
    if more > 0 {
        let noun = if tasks.iter().all(|task| task.hook) { "hooks" } else { "resources" };
        text = format!("{text} and {more} more {noun}");
    }
    text
}

/// `<group>/<kind>/<name>`.
pub(super) fn short(key: &ResourceKey) -> String {
    format!("{}/{}/{}", key.group, key.kind, key.name)
}

/// A running object that is gone (ENG-162).
pub(super) fn missing(key: &ResourceKey) -> String {
    format!("Resource {} is missing, it might have been deleted", short(key))
}

/// A sentence with its reasons: distinct, empty ones left out (ENG-184).
pub(super) fn with_reasons<'a>(sentence: &str, reasons: impl IntoIterator<Item = &'a str>) -> String {
    let mut known = HashSet::new();
    let distinct: Vec<&str> =
        reasons.into_iter().filter(|reason| !reason.is_empty() && known.insert(*reason)).collect();
    if distinct.is_empty() {
        sentence.to_owned()
    } else {
        format!("{sentence}, reason: {}", distinct.join(","))
    }
}

/// The group that a kind of Kubernetes has moved to, for manifests that are older than the move.
pub fn moved_to(group_kind: &GroupKind) -> Option<GroupKind> {
    let group = match (group_kind.group.as_str(), group_kind.kind.as_str()) {
        ("extensions", "DaemonSet" | "Deployment" | "ReplicaSet") => "apps",
        ("extensions", "Ingress" | "NetworkPolicy") => "networking.k8s.io",
        ("extensions", "PodSecurityPolicy") => "policy",
        _ => return None,
    };
    Some(GroupKind::new(group, &group_kind.kind))
}

/// Text of a failed call with a hint for people behind it; the original text stays in front (ENG-180).
///
/// `served` is the kind in another version, or in the group it moved to, as the cluster serves it, if it does.
pub fn explain(text: &str, gvk: &Gvk, served: Option<&Gvk>) -> String {
    let kind_is_unknown = text == NOT_SERVED || text.contains("no matches for kind");
    match served {
        Some(served) if kind_is_unknown && served.group == gvk.group => format!(
            "{text}. Version {:?} of {}/{} is not served; the destination cluster has version {:?}.",
            gvk.version, gvk.group, gvk.kind, served.version
        ),
        Some(served) if kind_is_unknown => format!(
            "{text}. {:?} no longer has {:?}; the destination cluster has it in {:?}.",
            gvk.api_version().as_str(),
            gvk.kind,
            served.api_version().as_str()
        ),
        None if kind_is_unknown => {
            format!("{text}. Make sure the {:?} CRD is installed on the destination cluster.", gvk.kind)
        }
        _ if text.contains("metadata.annotations: Too long") => format!(
            "{text}. The object is too large for client-side apply, which keeps a copy of it in an annotation: \
             use the sync option ServerSideApply=true or Replace=true."
        ),
        _ => text.to_owned(),
    }
}

/// Kubectl-style text of a successful apply: `deployment.apps/web configured` (ENG-180).
pub fn applied(gvk: &Gvk, name: &str, verb: &str) -> String {
    let kind = gvk.kind.to_ascii_lowercase();
    if gvk.group.is_empty() {
        format!("{kind}/{name} {verb}")
    } else if is_builtin_group(&gvk.group) {
        format!("{kind}.{}/{name} {verb}", gvk.group)
    } else {
        format!("{}.{}/{name} {verb}", plural(&kind), gvk.group)
    }
}

/// Whether an API group belongs to the API server itself.
pub(super) fn is_builtin_group(group: &str) -> bool {
    const SHORT: [&str; 6] = ["", "apps", "autoscaling", "batch", "extensions", "policy"];
    SHORT.contains(&group) || group.ends_with(".k8s.io")
}

fn plural(kind: &str) -> String {
    if let Some(stem) = kind.strip_suffix('y')
        && !stem.ends_with(['a', 'e', 'i', 'o', 'u'])
    {
        return format!("{stem}ies");
    }
    let takes_es = ["s", "x", "z", "ch", "sh"].iter().any(|end| kind.ends_with(end));
    format!("{kind}{}", if takes_es { "es" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eng_180_texts_name_the_resource_as_kubectl_does() {
        let text = |group, kind| applied(&Gvk::new(group, "v1", kind), "a", "created");
        assert_eq!(text("", "Service"), "service/a created");
        assert_eq!(text("apps", "Deployment"), "deployment.apps/a created");
        assert_eq!(text("example.com", "Widget"), "widgets.example.com/a created");
        assert_eq!(text("example.com", "Policy"), "policies.example.com/a created");
    }

    #[test]
    fn eng_180_hints_keep_the_original_text_in_front() {
        let gvk = Gvk::new("example.com", "v1", "Widget");
        assert_eq!(
            explain(NOT_SERVED, &gvk, None),
            "the server could not find the requested resource. Make sure the \"Widget\" CRD is installed on the destination cluster."
        );
        let newer = Gvk::new("example.com", "v2", "Widget");
        assert!(explain(NOT_SERVED, &gvk, Some(&newer)).contains("has version \"v2\""));
        let old = Gvk::new("extensions", "v1beta1", "DaemonSet");
        assert_eq!(moved_to(&old.group_kind()), Some(GroupKind::new("apps", "DaemonSet")));
        assert_eq!(
            explain(NOT_SERVED, &old, Some(&Gvk::new("apps", "v1", "DaemonSet"))),
            "the server could not find the requested resource. \"extensions/v1beta1\" no longer has \"DaemonSet\"; \
             the destination cluster has it in \"apps/v1\"."
        );
        assert!(explain("x metadata.annotations: Too long: y", &gvk, None).starts_with("x metadata"));
        assert_eq!(explain("quota", &gvk, None), "quota");
    }

    #[test]
    fn eng_184_reasons_are_distinct() {
        assert_eq!(with_reasons("it failed", ["a", "b", "a", ""]), "it failed, reason: a,b");
        assert_eq!(with_reasons("it failed", [""]), "it failed");
        // SEC-07: one for each of many tasks; each compared with those before it took hours.
        let many: Vec<String> = (0..200_000).map(|task| format!("task {task:06}")).collect();
        let text = with_reasons("it failed", many.iter().chain(&many).map(String::as_str));
        assert_eq!(text.matches(',').count(), many.len());
    }
}
