use super::*;
use serde_json::json;

fn judge(live: &Value) -> String {
    match assess(live, &HealthOverrides::default()) {
        None => "none".to_owned(),
        Some(health) if health.message.is_empty() => health.status.to_string(),
        Some(health) => format!("{}: {}", health.status, health.message),
    }
}

fn object(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": "x", "generation": 2},
        "spec": spec, "status": status
    })
}

#[test]
fn eng_96_codes_are_ordered_best_to_worst() {
    use HealthCode::{Degraded, Healthy, Missing, Progressing, Suspended, Unknown};
    let codes = [Healthy, Suspended, Progressing, Missing, Degraded, Unknown];
    assert!(codes.is_sorted());
    assert!(codes.iter().all(|code| HealthCode::parse(code.as_str()) == Some(*code)));
}

#[test]
fn eng_97_objects_on_their_way_out_are_progressing_unless_they_are_finished_hooks() {
    let mut live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    assert_eq!(judge(&live), "Progressing: Pending deletion");
    live["metadata"]["finalizers"] = json!(["argocd.argoproj.io/hook-finalizer"]);
    assert_eq!(judge(&live), "none");
}

#[test]
fn eng_98_a_script_wins_over_the_rule() {
    let settings = [
        (
            "resource.customizations.health.acme.test_Queue",
            "return {status=\"Suspended\", message=obj.status.note}",
        ),
        ("resource.customizations.health.Service", "error('no')"),
    ];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let overrides = HealthOverrides::from_settings(&settings).unwrap();
    let queue = json!({"apiVersion": "acme.test/v1", "kind": "Queue", "status": {"note": "drained"}});
    assert_eq!(assess(&queue, &overrides), Some(Health::new(HealthCode::Suspended, "drained")));
    let service = json!({"apiVersion": "v1", "kind": "Service"});
    assert_eq!(assess(&service, &overrides), Some(Health::new(HealthCode::Unknown, "<string>:1: no")));
    assert!(evaluate(&service, &overrides).is_err());
}

#[test]
fn eng_100_deployments() {
    let judge = |spec: Value, status: Value| judge(&object("apps/v1", "Deployment", &spec, &status));
    assert_eq!(judge(json!({"paused": true}), json!({})), "Suspended: Deployment is paused");
    assert!(
        judge(json!({}), json!({"observedGeneration": 1}))
            .starts_with("Progressing: Waiting for rollout to finish: observed")
    );
    let seen = |mut status: Value| {
        status["observedGeneration"] = json!(2);
        judge(json!({"replicas": 3}), status)
    };
    let deadline = json!([{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]);
    assert_eq!(
        seen(json!({"conditions": deadline})),
        "Degraded: Deployment \"x\" exceeded its progress deadline"
    );
    assert_eq!(
        seen(json!({"updatedReplicas": 1})),
        "Progressing: Waiting for rollout to finish: 1 out of 3 new replicas have been updated..."
    );
    assert_eq!(
        seen(json!({"updatedReplicas": 3, "replicas": 4})),
        "Progressing: Waiting for rollout to finish: 1 old replicas are pending termination..."
    );
    assert_eq!(
        seen(json!({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 2})),
        "Progressing: Waiting for rollout to finish: 2 of 3 updated replicas are available..."
    );
    assert_eq!(seen(json!({"updatedReplicas": 3, "replicas": 3, "availableReplicas": 3})), "Healthy");
    assert!(seen(json!({"updatedReplicas": "3"})).starts_with("Unknown: failed to convert"));
}

#[test]
fn eng_101_stateful_sets() {
    let judge = |spec: Value, status: Value| judge(&object("apps/v1", "StatefulSet", &spec, &status));
    assert_eq!(
        judge(json!({}), json!({})),
        "Progressing: Waiting for statefulset spec update to be observed..."
    );
    let status = json!({"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 1, "currentReplicas": 2,
        "currentRevision": "a", "updateRevision": "b"});
    assert_eq!(
        judge(json!({"replicas": 3}), status.clone()),
        "Progressing: Waiting for 1 pods to be ready..."
    );
    let rolling = |rolling: Value| json!({"replicas": 2, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling}});
    assert_eq!(
        judge(rolling(json!({"partition": 0})), status.clone()),
        "Progressing: Waiting for partitioned roll out to finish: 1 out of 2 new pods have been updated..."
    );
    assert_eq!(
        judge(rolling(json!({"partition": 1})), status.clone()),
        "Healthy: partitioned roll out complete: 1 new pods have been updated..."
    );
    let on_delete = json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}});
    assert_eq!(judge(on_delete, status.clone()), "Healthy: statefulset has 2 ready pods");
    assert_eq!(
        judge(json!({"replicas": 2}), status),
        "Progressing: waiting for statefulset rolling update to complete 1 pods at revision b..."
    );
}

#[test]
fn eng_102_daemon_sets() {
    let judge = |spec: Value, status: Value| judge(&object("apps/v1", "DaemonSet", &spec, &status));
    let status = json!({"observedGeneration": 2, "updatedNumberScheduled": 1, "desiredNumberScheduled": 2});
    assert_eq!(
        judge(json!({}), status.clone()),
        "Progressing: Waiting for daemon set \"x\" rollout to finish: 1 out of 2 new pods have been updated..."
    );
    assert_eq!(
        judge(json!({"updateStrategy": {"type": "OnDelete"}}), status),
        "Healthy: daemon set 1 out of 2 new pods have been updated"
    );
}

#[test]
fn eng_103_replica_sets() {
    let failure = json!([{"type": "ReplicaFailure", "status": "True", "message": "quota"}]);
    let status = json!({"observedGeneration": 2, "conditions": failure});
    assert_eq!(judge(&object("apps/v1", "ReplicaSet", &json!({}), &status)), "Degraded: quota");
    let status = json!({"observedGeneration": 2, "availableReplicas": 1});
    assert_eq!(
        judge(&object("apps/v1", "ReplicaSet", &json!({"replicas": 2}), &status)),
        "Progressing: Waiting for rollout to finish: 1 out of 2 new replicas are available..."
    );
}

#[test]
fn eng_104_services_ingresses_and_claims() {
    assert_eq!(judge(&object("v1", "Service", &json!({"type": "ClusterIP"}), &json!({}))), "Healthy");
    assert_eq!(judge(&object("v1", "Service", &json!({"type": "LoadBalancer"}), &json!({}))), "Progressing");
    let balanced = json!({"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}});
    assert_eq!(judge(&object("networking.k8s.io/v1", "Ingress", &json!({}), &balanced)), "Healthy");
    assert_eq!(judge(&object("extensions/v1beta1", "Ingress", &json!({}), &json!({}))), "Progressing");
    let claim =
        |phase: &str| judge(&object("v1", "PersistentVolumeClaim", &json!({}), &json!({"phase": phase})));
    assert_eq!(
        ["Lost", "Pending", "Bound", "?"].map(claim),
        ["Degraded", "Progressing", "Healthy", "Unknown"]
    );
}

#[test]
fn eng_105_pods() {
    let judge =
        |policy: &str, status: Value| judge(&object("v1", "Pod", &json!({"restartPolicy": policy}), &status));
    let waiting = json!({"phase": "Running", "containerStatuses": [
        {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "a"}}},
        {"state": {"waiting": {"reason": "ContainerCreating", "message": "b"}}},
        {"state": {"waiting": {"reason": "ErrImagePull", "message": "c"}}}
    ]});
    assert_eq!(judge("Always", waiting.clone()), "Degraded: a, c");
    assert_eq!(judge("Never", waiting), "Progressing");
    let failed = json!({"phase": "Failed", "containerStatuses": [
        {"name": "ok", "state": {"terminated": {"exitCode": 0}}},
        {"name": "bad", "state": {"terminated": {"exitCode": 3}}}
    ]});
    assert_eq!(judge("Never", failed), "Degraded: container \"bad\" failed with exit code 3");
    let crashed = json!({"phase": "Running", "containerStatuses": [{"lastState": {"terminated": {}}}]});
    assert_eq!(judge("Always", crashed), "Degraded");
    assert_eq!(
        judge("Always", json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
        "Healthy"
    );
    assert_eq!(judge("", json!({"phase": "Running"})), "Unknown");
}

#[test]
fn eng_106_jobs_count_conditions_whatever_their_status() {
    let judge =
        |conditions: Value| judge(&object("batch/v1", "Job", &json!({}), &json!({"conditions": conditions})));
    assert_eq!(judge(json!([])), "Progressing");
    assert_eq!(judge(json!([{"type": "Complete", "message": "done"}])), "Healthy: done");
    assert_eq!(
        judge(json!([{"type": "Failed", "message": "bad"}, {"type": "Complete", "message": "done"}])),
        "Degraded: bad"
    );
    assert_eq!(judge(json!([{"type": "Suspended", "status": "True", "message": "s"}])), "Suspended: s");
    assert_eq!(judge(json!([{"type": "Suspended", "status": "False", "message": "r"}])), "Healthy: r");
}

#[test]
fn eng_107_autoscalers() {
    let judge_v2 = |conditions: Value| {
        judge(&object(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            &json!({}),
            &json!({"conditions": conditions}),
        ))
    };
    assert_eq!(judge_v2(json!([])), "Progressing: Waiting to Autoscale");
    assert_eq!(
        judge_v2(json!([
            {"type": "AbleToScale", "status": "True", "message": "able"},
            {"type": "ScalingActive", "reason": "InvalidSelector", "message": "bad"}
        ])),
        "Degraded: bad"
    );
    let mut v1 = object("autoscaling/v1", "HorizontalPodAutoscaler", &json!({}), &json!({}));
    assert_eq!(judge(&v1), "Progressing: Waiting to Autoscale");
    v1["metadata"]["annotations"] = json!({
        "autoscaling.alpha.kubernetes.io/conditions": "[{\"type\":\"ScalingLimited\",\"status\":\"True\",\"message\":\"m\"}]"
    });
    assert_eq!(judge(&v1), "Healthy: m");
    v1["metadata"]["annotations"] = json!({"autoscaling.alpha.kubernetes.io/conditions": "["});
    assert!(judge(&v1).starts_with("Unknown"));
}

#[test]
fn eng_108_and_109_services_of_the_api_and_workflows() {
    let available =
        json!({"conditions": [{"type": "Available", "status": "False", "reason": "R", "message": "m"}]});
    assert_eq!(
        judge(&object("apiregistration.k8s.io/v1", "APIService", &json!({}), &available)),
        "Progressing: R: m"
    );
    let workflow = |phase: &str| {
        judge(&object("argoproj.io/v1alpha1", "Workflow", &json!({}), &json!({"phase": phase})))
    };
    assert_eq!(
        ["", "Running", "Succeeded", "Error", "?"].map(workflow),
        ["Progressing", "Progressing", "Healthy", "Degraded", "Unknown"]
    );
    assert_eq!(judge(&object("argoproj.io/v1alpha1", "Application", &json!({}), &json!({}))), "none");
}

#[test]
fn eng_111_cron_jobs() {
    let judge = |status: Value| judge(&object("batch/v1", "CronJob", &json!({}), &status));
    assert_eq!(judge(Value::Null), "Progressing: Waiting for CronJob");
    assert_eq!(judge(json!({})), "Healthy: CronJob has not been scheduled yet");
    let times = |last: &str, success: &str| json!({"lastScheduleTime": last, "lastSuccessfulTime": success});
    assert_eq!(judge(times("2", "1")), "Degraded: CronJob has not completed its last execution successfully");
    assert_eq!(judge(times("1", "2")), "Healthy: CronJob has completed its last execution successfully");
}

#[test]
fn eng_113_definitions_without_status_cannot_be_judged() {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"});
    assert!(judge(&definition).starts_with("Unknown"));
}

/// Kinds of the open corpus whose rules are ours to agree on.
#[test]
fn eng_111_to_120_agree_with_the_corpus() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpus/health/third-party.jsonl");
    let Ok(rows) = std::fs::read_to_string(path) else {
        println!("skipped: the shared corpus is not here");
        return;
    };
    let (mut judged, mut agreed, mut silent) = (0, 0, 0);
    let mut wrong = Vec::new();
    for row in rows.lines() {
        let row: Value = serde_json::from_str(row).unwrap();
        let object = &row["object"];
        let found = builtin(&Gvk::of(object), object);
        let Some(health) =
            found.unwrap_or_else(|error| Some(Health::new(HealthCode::Unknown, error.message)))
        else {
            silent += 1;
            continue;
        };
        judged += 1;
        let message = row.get("message").and_then(Value::as_str);
        if health.status.as_str() == row["status"] && message.is_none_or(|message| message == health.message)
        {
            agreed += 1;
        } else {
            wrong.push(format!(
                "{}: {} {:?}, wanted {} {message:?}",
                row["id"], health.status, health.message, row["status"]
            ));
        }
    }
    println!("judged {judged}, agreed {agreed}, without rule {silent}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
