use super::*;
use serde_json::json;

fn defaulted(mut object: Value) -> Value {
    let gvk = Gvk::of(&object);
    apply(&mut object, &gvk);
    object
}

#[test]
fn eng_210_doing_it_twice_changes_nothing() {
    for object in [
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"image": "a"}], "volumes": [{"name": "v"}]}}}}),
        json!({"apiVersion": "v1", "kind": "Service", "spec": {"type": "NodePort", "ports": [{"port": 1}]}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}),
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": {"behavior": {}}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}),
    ] {
        let once = defaulted(object);
        assert_eq!(defaulted(once.clone()), once);
    }
}

#[test]
fn eng_210_present_members_stay() {
    let object = defaulted(json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "spec": {"replicas": 0, "strategy": {"type": "Recreate"}, "template": {"spec": {"restartPolicy": "Never"}}}}));
    assert_eq!(object["spec"]["replicas"], 0);
    assert_eq!(object["spec"]["strategy"], json!({"type": "Recreate"}));
    assert_eq!(object["spec"]["template"]["spec"]["restartPolicy"], "Never");
    assert_eq!(object["spec"]["revisionHistoryLimit"], 10);
}

#[test]
fn eng_210_controllers() {
    let spec = |api_version: &str, kind: &str| {
        defaulted(json!({"apiVersion": api_version, "kind": kind, "spec": {}}))["spec"].clone()
    };
    assert_eq!(
        spec("apps/v1", "StatefulSet"),
        json!({"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"}})
    );
    assert_eq!(
        spec("apps/v1", "DaemonSet"),
        json!({"revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}})
    );
    assert_eq!(spec("apps/v1", "ReplicaSet"), json!({"replicas": 1}));
    assert_eq!(
        spec("batch/v1", "CronJob"),
        json!({"concurrencyPolicy": "Allow", "suspend": false, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})
    );
    assert_eq!(spec("acme.test/v1", "Deployment"), json!({}), "unknown types are left alone");
}

#[test]
fn eng_210_jobs_take_their_labels_from_the_template() {
    let job = defaulted(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"parallelism": 2, "podFailurePolicy": {"rules": []}, "template": {"metadata": {"labels": {"a": "b"}}}}}));
    assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(job["spec"].get("completions"), None);
    assert_eq!(job["spec"]["podReplacementPolicy"], "Failed");
    assert_eq!(job["spec"]["backoffLimit"], 6);
}

#[test]
fn eng_210_services_by_type() {
    let spec =
        |spec: Value| defaulted(json!({"apiVersion": "v1", "kind": "Service", "spec": spec}))["spec"].clone();
    assert_eq!(
        spec(json!({"ports": [{"port": 80}]})),
        json!({"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
            "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]})
    );
    assert_eq!(
        spec(json!({"type": "ExternalName"})),
        json!({"type": "ExternalName", "sessionAffinity": "None"})
    );
    assert_eq!(spec(json!({"type": "LoadBalancer"}))["allocateLoadBalancerNodePorts"], true);
    assert_eq!(
        spec(json!({"sessionAffinity": "ClientIP"}))["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"],
        10800
    );
}

#[test]
fn eng_210_pods() {
    let pod = defaulted(
        json!({"apiVersion": "v1", "kind": "Pod", "spec": {"hostNetwork": true, "volumes": [{"name": "e"}, {"name": "h", "hostPath": {"path": "/x"}}],
        "containers": [{"image": "a:1", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1", "memory": "2"}, "requests": {"cpu": "0"}},
            "livenessProbe": {"grpc": {"port": 1}}}]}}),
    );
    let container = &pod["spec"]["containers"][0];
    assert_eq!(container["ports"], json!([{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]));
    assert_eq!(container["resources"]["requests"], json!({"cpu": "0", "memory": "2"}));
    assert_eq!(container["livenessProbe"]["grpc"], json!({"port": 1, "service": ""}));
    assert_eq!(
        pod["spec"]["volumes"],
        json!([{"name": "e", "emptyDir": {}}, {"name": "h", "hostPath": {"path": "/x", "type": ""}}])
    );
    assert_eq!(pod["spec"]["enableServiceLinks"], true);
    let template =
        defaulted(json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {"template": {"spec": {}}}}));
    assert_eq!(template["spec"]["template"]["spec"].get("enableServiceLinks"), None);
}

#[test]
fn eng_210_autoscalers_by_version() {
    let spec = |version: &str| {
        defaulted(json!({"apiVersion": format!("autoscaling/{version}"), "kind": "HorizontalPodAutoscaler", "spec": {}}))["spec"].clone()
    };
    assert_eq!(spec("v1"), json!({"minReplicas": 1}));
    assert_eq!(spec("v2")["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
}

#[test]
fn eng_210_configuration_and_access() {
    let filled = |object: Value| defaulted(object);
    assert_eq!(filled(json!({"apiVersion": "v1", "kind": "Secret"}))["type"], "Opaque");
    assert_eq!(
        filled(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}))["metadata"]["labels"],
        json!({"kubernetes.io/metadata.name": "n"})
    );
    let limits = filled(
        json!({"apiVersion": "v1", "kind": "LimitRange", "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1"}}]}}),
    );
    assert_eq!(limits["spec"]["limits"][0]["default"], json!({"cpu": "2"}));
    assert_eq!(limits["spec"]["limits"][0]["defaultRequest"], json!({"cpu": "2", "memory": "1"}));
    let policy = filled(
        json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {"egress": [{"ports": [{"port": 53}]}]}}),
    );
    assert_eq!(policy["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
    assert_eq!(policy["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
    let hook = filled(
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "webhooks": [{"name": "w", "clientConfig": {"service": {"name": "s", "namespace": "n"}}, "rules": [{"operations": ["CREATE"]}]}]}),
    );
    assert_eq!(
        hook["webhooks"][0],
        json!({"name": "w", "failurePolicy": "Fail", "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
            "timeoutSeconds": 10, "reinvocationPolicy": "Never", "rules": [{"operations": ["CREATE"], "scope": "*"}],
            "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443}}})
    );
}
