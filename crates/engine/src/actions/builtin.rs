//! Actions that come with the product (ENG-141, ENG-142): for the kinds of Kubernetes itself, and for Applications.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_object::access;

use super::{Action, ActionError, Step};

const RESTART: &str = "fa fa-fw fa-redo";
const PAUSE: &str = "fa fa-fw fa-pause-circle";
const RESUME: &str = "fa fa-fw fa-play-circle";
const SCALE: &str = "fa fa-fw fa-plus-circle";

fn action(name: &str, icon: &str, is_possible: bool) -> Action {
    Action { name: name.to_owned(), disabled: !is_possible, icon: icon.to_owned(), ..Action::default() }
}

fn scale() -> Action {
    Action { params: vec!["replicas".to_owned()], ..action("scale", SCALE, true) }
}

fn kind_of(object: &Value) -> (&str, &str) {
    let version = access::text(object, "apiVersion");
    (version.split_once('/').map_or("", |(group, _)| group), access::text(object, "kind"))
}

fn is_set(object: &Value, path: &[&str]) -> bool {
    access::at(object, path).and_then(Value::as_bool).unwrap_or(false)
}

fn is_finished(job: &Value) -> bool {
    let conditions = access::at(job, &["status", "conditions"]).and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        ["Complete", "Failed"].contains(&access::text(condition, "type"))
            && access::text(condition, "status") == "True"
    })
}

/// Whether an Application syncs itself.
fn is_automated(app: &Value) -> bool {
    access::at(app, &["spec", "syncPolicy", "automated"])
        .filter(|automated| automated.is_object())
        .is_some_and(|automated| automated.get("enabled").and_then(Value::as_bool).unwrap_or(true))
}

/// What can be done with an object (ENG-136, ENG-141), by name.
pub(super) fn available(object: &Value) -> Vec<Action> {
    let restart = action("restart", RESTART, true);
    match kind_of(object) {
        ("apps", "Deployment") => {
            let is_paused = is_set(object, &["spec", "paused"]);
            vec![action("pause", PAUSE, !is_paused), restart, action("resume", RESUME, is_paused), scale()]
        }
        ("apps", "StatefulSet") => vec![restart, scale()],
        ("apps", "DaemonSet") => vec![restart],
        ("batch", "CronJob") => {
            let is_suspended = is_set(object, &["spec", "suspend"]);
            vec![
                Action { display_name: "Create Job".to_owned(), ..action("create-job", SCALE, true) },
                action("resume", RESUME, is_suspended),
                action("suspend", PAUSE, !is_suspended),
            ]
        }
        ("batch", "Job") => {
            let (is_suspended, runs) = (is_set(object, &["spec", "suspend"]), !is_finished(object));
            vec![
                action("resume", RESUME, runs && is_suspended),
                action("suspend", PAUSE, runs && !is_suspended),
                action("terminate", "fa fa-fw fa-stop-circle", runs),
            ]
        }
        ("argoproj.io", "Application") => {
            let (display_name, icon) = if is_automated(object) {
                ("Disable Auto-Sync", PAUSE)
            } else {
                ("Enable Auto-Sync", RESUME)
            };
            vec![Action { display_name: display_name.to_owned(), ..action("toggle-auto-sync", icon, true) }]
        }
        _ => Vec::new(),
    }
}

/// What an action writes (ENG-137, ENG-141).
///
/// # Errors
/// When the kind has no such action, or a parameter is wrong.
pub(super) fn run(
    object: &Value,
    name: &str,
    params: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<Vec<Step>, ActionError> {
    let mut changed = object.clone();
    if !available(object).iter().any(|action| action.name == name) {
        return Err(ActionError::Unknown(name.to_owned()));
    }
    match (kind_of(object), name) {
        (("apps", _), "restart") => {
            let path = ["spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"];
            set(&mut changed, &path, seconds(now).into());
        }
        (("apps", _), "scale") => {
            let text = params.get("replicas").map_or("", String::as_str);
            let count: i32 = text.trim().parse().map_err(|_text| ActionError::Number(text.to_owned()))?;
            set(&mut changed, &["spec", "replicas"], count.into());
        }
        (("apps", _), "pause" | "resume") => {
            set(&mut changed, &["spec", "paused"], (name == "pause").into());
        }
        (("batch", "CronJob"), "create-job") => return Ok(vec![Step::Create(job_of(object, now))]),
        (("batch", _), "suspend" | "resume") => {
            set(&mut changed, &["spec", "suspend"], (name == "suspend").into());
        }
        (("batch", _), "terminate") => {
            let conditions = access::at(object, &["status", "conditions"]).and_then(Value::as_array);
            let mut conditions = conditions.cloned().unwrap_or_default();
            conditions.retain(|condition| access::text(condition, "type") != "FailureTarget");
            conditions.push(
                json!({"type": "FailureTarget", "status": "True", "reason": "ManuallyTerminated",
                "message": "Job terminated manually via Argo CD", "lastTransitionTime": seconds(now),
                "lastProbeTime": seconds(now)}),
            );
            set(&mut changed, &["status", "conditions"], conditions.into());
        }
        (_, "toggle-auto-sync") => {
            set(
                &mut changed,
                &["spec", "syncPolicy", "automated", "enabled"],
                (!is_automated(object)).into(),
            );
        }
        _ => return Err(ActionError::Unknown(name.to_owned())),
    }
    Ok(vec![Step::Patch(changed)])
}

fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Puts a value where a path leads, through objects that are made where they are missing.
fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, above)) = path.split_last() else { return };
    let mut at = object;
    for name in above {
        at = access::ensure_object(at).entry((*name).to_owned()).or_insert(Value::Null);
    }
    access::ensure_object(at).insert((*last).to_owned(), value);
}

/// The Job that a `CronJob` would make now.
fn job_of(cron_job: &Value, now: Timestamp) -> Value {
    let metadata = cron_job.get("metadata").cloned().unwrap_or_default();
    let template = access::at(cron_job, &["spec", "jobTemplate"]).cloned().unwrap_or_default();
    let stamp = now.strftime("%y%m%d%H%M");
    let name = format!("{}-{stamp}", access::text(&metadata, "name"));
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": metadata.get("namespace")}});
    for part in ["labels", "annotations"] {
        if let Some(given) = access::at(&template, &["metadata", part]).filter(|given| given.is_object()) {
            set(&mut job, &["metadata", part], given.clone());
        }
    }
    set(&mut job, &["metadata", "annotations", "cronjob.kubernetes.io/instantiate"], "manual".into());
    let owner = json!({"apiVersion": "batch/v1", "kind": "CronJob", "name": metadata.get("name"),
        "uid": metadata.get("uid"), "controller": true, "blockOwnerDeletion": true});
    set(&mut job, &["metadata", "ownerReferences"], vec![owner].into());
    set(&mut job, &["spec"], template.get("spec").cloned().unwrap_or_default());
    job
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-04T05:06:07.8Z".parse().unwrap()
    }

    fn patched(object: &Value, name: &str, params: &[(&str, &str)]) -> Value {
        let params = params.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        match run(object, name, &params, now()).unwrap().remove(0) {
            Step::Patch(value) => value,
            other => panic!("{other:?}"),
        }
    }

    fn enabled(object: &Value) -> Vec<String> {
        available(object).into_iter().filter(|action| !action.disabled).map(|action| action.name).collect()
    }

    #[test]
    fn eng_141_workloads_restart_pause_and_scale() {
        let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}});
        assert_eq!(enabled(&deployment), ["pause", "restart", "scale"]);
        let restarted = patched(&deployment, "restart", &[]);
        assert_eq!(
            restarted["spec"]["template"]["metadata"]["annotations"],
            json!({"kubectl.kubernetes.io/restartedAt": "2026-03-04T05:06:07Z"})
        );
        assert_eq!(patched(&deployment, "scale", &[("replicas", "3")])["spec"]["replicas"], 3);
        let wrong = run(&deployment, "scale", &BTreeMap::new(), now()).unwrap_err();
        assert_eq!(wrong.to_string(), "invalid number: ");
        deployment = patched(&deployment, "pause", &[]);
        assert_eq!(enabled(&deployment), ["restart", "resume", "scale"]);
        assert_eq!(patched(&deployment, "resume", &[])["spec"]["paused"], false);
        let daemons = json!({"apiVersion": "apps/v1", "kind": "DaemonSet"});
        assert_eq!(enabled(&daemons), ["restart"]);
        let unknown = run(&daemons, "scale", &BTreeMap::new(), now()).unwrap_err();
        assert!(matches!(unknown, ActionError::Unknown(name) if name == "scale"));
        assert_eq!(enabled(&json!({"apiVersion": "v1", "kind": "Deployment"})), [] as [&str; 0]);
    }

    #[test]
    fn eng_141_a_cron_job_makes_a_job_of_its_own() {
        let cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob",
            "metadata": {"name": "nightly", "namespace": "web", "uid": "u"},
            "spec": {"suspend": true, "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}}});
        assert_eq!(enabled(&cron_job), ["create-job", "resume"]);
        let steps = run(&cron_job, "create-job", &BTreeMap::new(), now()).unwrap();
        let expected = json!({"apiVersion": "batch/v1", "kind": "Job", "spec": {"x": 1}, "metadata": {
            "name": "nightly-2603040506", "namespace": "web", "labels": {"a": "b"},
            "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "u",
                "controller": true, "blockOwnerDeletion": true}]}});
        assert_eq!(steps, [Step::Create(expected)]);
    }

    #[test]
    fn eng_141_a_job_that_runs_can_be_ended() {
        let job =
            json!({"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": [{"type": "Other"}]}});
        assert_eq!(enabled(&job), ["suspend", "terminate"]);
        let ended = patched(&job, "terminate", &[]);
        let conditions = ended["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 2);
        assert_eq!(conditions[1]["reason"], "ManuallyTerminated");
        let done = json!({"apiVersion": "batch/v1", "kind": "Job",
            "status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(enabled(&done), [] as [&str; 0]);
    }

    #[test]
    fn eng_141_an_application_is_told_to_sync_itself_or_not() {
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": {}});
        assert_eq!(available(&app)[0].display_name, "Enable Auto-Sync");
        let on = patched(&app, "toggle-auto-sync", &[]);
        assert_eq!(on["spec"]["syncPolicy"]["automated"]["enabled"], true);
        assert_eq!(available(&on)[0].display_name, "Disable Auto-Sync");
        let old = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "spec": {"syncPolicy": {"automated": {"prune": true}}}});
        let off = patched(&old, "toggle-auto-sync", &[]);
        assert_eq!(off["spec"]["syncPolicy"]["automated"], json!({"prune": true, "enabled": false}));
    }
}
