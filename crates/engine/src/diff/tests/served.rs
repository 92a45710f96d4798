//! Pairs as a real API server makes them: what was asked for, and what is read back (ENG-84).

use super::*;

fn served_metadata(mut object: Value) -> Value {
    let metadata = access::metadata_mut(&mut object);
    for (key, value) in [
        ("uid", json!("4d0c4b7e-95a4-4c8e-8f43-5a2a7bd0a2b1")),
        ("resourceVersion", json!("4711")),
        ("generation", json!(3)),
        ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
        (
            "managedFields",
            json!([{"manager": "argocd-controller", "operation": "Update", "apiVersion": "v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]),
        ),
    ] {
        metadata.insert(key.to_owned(), value);
    }
    access::set_annotation(&mut object, "deployment.kubernetes.io/revision", "3");
    access::set_label(&mut object, "added.by/webhook", "yes");
    object
}

fn deployment() -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
        "metadata": {"labels": {"app": "web"}, "creationTimestamp": null},
        "spec": {
            "serviceAccountName": "web",
            "initContainers": [{"name": "init", "image": "busybox", "command": ["true"]}],
            "containers": [{"name": "web", "image": "nginx:1.27", "ports": [{"containerPort": 80, "name": "http"}],
                "env": [{"name": "MODE", "value": "prod"},
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.5, "memory": "512Mi"}},
                "readinessProbe": {"httpGet": {"port": "http"}},
                "livenessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 5},
                "securityContext": {"capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "conf", "mountPath": "/etc/conf"}, {"name": "tmp", "mountPath": "/tmp"}]}],
            "volumes": [{"name": "conf", "configMap": {"name": "web"}}, {"name": "tmp"},
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}],
            "tolerations": [{"key": "a", "operator": "Exists"}]
        }}}})
}

fn live_deployment() -> Value {
    served_metadata(
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"progressDeadlineSeconds": 600, "replicas": 2, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "containers": [
                    {"name": "web", "image": "nginx:1.27", "imagePullPolicy": "IfNotPresent",
                    "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
                    "env": [{"name": "MODE", "value": "prod"},
                        {"name": "POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
                    "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "512Mi"}},
                    "readinessProbe": {"failureThreshold": 3, "httpGet": {"path": "/", "port": "http", "scheme": "HTTP"},
                        "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
                    "livenessProbe": {"failureThreshold": 3, "initialDelaySeconds": 5, "tcpSocket": {"port": 80},
                        "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1},
                    "securityContext": {"capabilities": {"drop": ["ALL"]}},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    "volumeMounts": [{"mountPath": "/etc/conf", "name": "conf"}, {"mountPath": "/tmp", "name": "tmp"}]},
                    {"name": "istio-proxy", "image": "proxy:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
                "initContainers": [{"name": "init", "image": "busybox", "command": ["true"], "imagePullPolicy": "Always",
                    "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "serviceAccount": "web", "serviceAccountName": "web",
                "terminationGracePeriodSeconds": 30, "tolerations": [{"key": "a", "operator": "Exists"}],
                "volumes": [{"name": "conf", "configMap": {"defaultMode": 420, "name": "web"}}, {"name": "tmp", "emptyDir": {}},
                    {"name": "token", "projected": {"defaultMode": 420,
                        "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}]}}]}}},
        "status": {"availableReplicas": 2, "observedGeneration": 3, "replicas": 2,
            "conditions": [{"type": "Available", "status": "True"}]}}),
    )
}

/// Pairs that are synced.
pub(super) fn pairs() -> Vec<(Value, Value)> {
    let custom = |spec: Value| json!({"apiVersion": "acme.test/v1", "kind": "Queue", "metadata": {"name": "q", "namespace": "n", "labels": {"a": "b"}}, "spec": spec});
    let queue = (
        custom(json!({"a": 1, "list": [{"x": 1, "y": [1, 2]}], "m": {"k": {"l": true}}})),
        served_metadata(custom(
            json!({"a": 1, "list": [{"x": 1, "y": [1, 2], "z": 0}], "m": {"k": {"l": true}, "o": 1}, "p": null}),
        )),
    );
    vec![(deployment(), live_deployment()), service(), stateful_set(), autoscaler(), queue]
}

/// Pointers to every value of a document but the root.
pub(super) fn pointers(document: &Value) -> Vec<String> {
    fn walk(value: &Value, pointer: &str, found: &mut Vec<String>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => {
                map.iter().map(|(key, value)| (key.replace('~', "~0").replace('/', "~1"), value)).collect()
            }
            Value::Array(items) => {
                items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
            }
            _ => Vec::new(),
        };
        for (key, value) in children {
            let pointer = format!("{pointer}/{key}");
            walk(value, &pointer, found);
            found.push(pointer);
        }
    }
    let mut found = Vec::new();
    walk(document, "", &mut found);
    found
}

#[test]
fn eng_84_a_deployment_is_synced() {
    assert_synced(&deployment(), &live_deployment());
    assert_synced(&deployment(), &applied_before(live_deployment(), &deployment()));
}

#[test]
fn eng_77_a_changed_deployment_names_its_paths() {
    let mut target = deployment();
    target["spec"]["template"]["spec"]["containers"][0]["image"] = json!("nginx:1.28");
    assert_eq!(changed_paths(&target, &live_deployment()), ["/spec/template/spec/containers/0/image"]);
    let mut target = deployment();
    target["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = json!("test");
    assert_eq!(changed_paths(&target, &live_deployment()), ["/spec/template/spec/containers/0/env/0/value"]);
}

#[test]
fn eng_77_items_that_are_no_longer_said_are_deleted() {
    let live = applied_before(live_deployment(), &deployment());
    let mut target = deployment();
    target["spec"]["template"]["spec"]["containers"][0]["env"].as_array_mut().unwrap().pop();
    assert_eq!(changed_paths(&target, &live), ["/spec/template/spec/containers/0/env"]);
    let mut target = deployment();
    target["spec"].as_object_mut().unwrap().remove("replicas");
    assert_eq!(changed_paths(&target, &live), ["/spec/replicas"]);
    // Without a record of the last apply nobody knows that the item was ours.
    let mut target = deployment();
    target["spec"]["template"]["spec"]["containers"][0]["env"].as_array_mut().unwrap().pop();
    assert_synced(&target, &live_deployment());
}

#[test]
fn eng_77_lists_without_a_key_are_replaced() {
    let mut target = deployment();
    target["spec"]["template"]["spec"]["tolerations"] = json!([]);
    let mut live = live_deployment();
    live["spec"]["template"]["spec"]["tolerations"] =
        json!([{"key": "b"}, {"key": "a", "operator": "Exists"}]);
    assert_eq!(changed_paths(&deployment(), &live), ["/spec/template/spec/tolerations"]);
}

#[test]
fn eng_207_a_volume_may_change_its_source() {
    let mut target = deployment();
    target["spec"]["template"]["spec"]["volumes"][0] =
        json!({"name": "conf", "secret": {"secretName": "web"}});
    assert_eq!(
        changed_paths(&target, &live_deployment()),
        ["/spec/template/spec/volumes/0/configMap", "/spec/template/spec/volumes/0/secret"]
    );
    let mut target = deployment();
    target["spec"]["strategy"] = json!({"type": "Recreate"});
    assert_eq!(
        changed_paths(&target, &live_deployment()),
        ["/spec/strategy/rollingUpdate", "/spec/strategy/type"]
    );
    let mut target = deployment();
    target["spec"]["strategy"] = json!({"type": "RollingUpdate"});
    assert_synced(&target, &live_deployment());
}

fn service() -> (Value, Value) {
    let target = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "LoadBalancer", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80}, {"name": "tls", "port": 443, "targetPort": "tls", "protocol": "TCP"}]}});
    let live = served_metadata(
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop",
            "finalizers": ["service.kubernetes.io/load-balancer-cleanup"]},
        "spec": {"allocateLoadBalancerNodePorts": true, "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
            "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "healthCheckNodePort": 30000, "sessionAffinity": "None", "type": "LoadBalancer",
            "selector": {"app": "web"}, "ports": [
                {"name": "http", "nodePort": 31000, "port": 80, "protocol": "TCP", "targetPort": 80},
                {"name": "tls", "nodePort": 31001, "port": 443, "protocol": "TCP", "targetPort": "tls"}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}}),
    );
    (target, live)
}

#[test]
fn eng_84_a_service_is_synced() {
    let (target, live) = service();
    assert_synced(&target, &live);
    let mut moved = target;
    moved["spec"]["ports"][0]["targetPort"] = json!(8080);
    assert_eq!(changed_paths(&moved, &live), ["/spec/ports/0/targetPort"]);
}

fn stateful_set() -> (Value, Value) {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}});
    let target = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "postgres:17"}]}},
            "volumeClaimTemplates": [claim]}});
    let live = served_metadata(
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10, "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}}, "updateStrategy": {"rollingUpdate": {"partition": 0}, "type": "RollingUpdate"},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
                "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "db", "image": "postgres:17", "imagePullPolicy": "IfNotPresent", "resources": {},
                    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]}},
            "volumeClaimTemplates": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"}}]},
        "status": {"replicas": 1}}),
    );
    (target, live)
}

#[test]
fn eng_84_a_stateful_set_is_synced() {
    let (target, live) = stateful_set();
    assert_synced(&target, &live);
    assert_synced(&target, &applied_before(live.clone(), &target));
    let mut bigger = target;
    bigger["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] = json!("2Gi");
    assert_eq!(
        changed_paths(&bigger, &live),
        ["/spec/volumeClaimTemplates/0/spec/resources/requests/storage"]
    );
}

#[test]
fn eng_84_a_job_is_synced() {
    let target = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "mig", "namespace": "shop"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": "mig:1"}]}}}});
    let live = served_metadata(
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "mig", "namespace": "shop",
            "labels": {"batch.kubernetes.io/job-name": "mig", "job-name": "mig"}},
        "spec": {"backoffLimit": 6, "completionMode": "NonIndexed", "completions": 1, "manualSelector": false, "parallelism": 1,
            "podReplacementPolicy": "TerminatingOrFailed", "suspend": false,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
            "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": "u", "job-name": "mig"}},
                "spec": {"dnsPolicy": "ClusterFirst", "restartPolicy": "Never", "schedulerName": "default-scheduler",
                    "securityContext": {}, "terminationGracePeriodSeconds": 30,
                    "containers": [{"name": "m", "image": "mig:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}]}}},
        "status": {"succeeded": 1}}),
    );
    assert_synced(&target, &live);
}

fn metric(kind: &str) -> Value {
    json!({"type": "Resource", "resource": {"name": kind, "target": {"type": "Utilization", "averageUtilization": 70}}})
}

fn autoscaler() -> (Value, Value) {
    let target = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5,
            "metrics": [metric("cpu")], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}}});
    let live = served_metadata(
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 5, "minReplicas": 1,
            "metrics": [metric("cpu")], "behavior": {
                "scaleDown": {"policies": [{"periodSeconds": 15, "type": "Percent", "value": 100}], "selectPolicy": "Max",
                    "stabilizationWindowSeconds": 60},
                "scaleUp": {"policies": [{"periodSeconds": 15, "type": "Pods", "value": 4},
                    {"periodSeconds": 15, "type": "Percent", "value": 100}], "selectPolicy": "Max", "stabilizationWindowSeconds": 0}}},
        "status": {"currentReplicas": 1}}),
    );
    (target, live)
}

#[test]
fn eng_84_an_autoscaler_is_synced() {
    let (target, live) = autoscaler();
    assert_synced(&target, &live);
    let mut other = target;
    other["spec"]["metrics"] = json!([metric("cpu"), metric("memory")]);
    assert_eq!(changed_paths(&other, &live), ["/spec/metrics"]);
}

#[test]
fn eng_84_a_bare_pod_is_synced() {
    let target = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "finalizers": ["a/b"]},
        "spec": {"serviceAccountName": "sa", "containers": [{"name": "c", "image": "c", "resources": {"limits": {"cpu": 1}}}]}});
    let live = served_metadata(json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "finalizers": ["a/b", "other/one"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "u"}]},
        "spec": {"serviceAccount": "sa", "serviceAccountName": "sa", "nodeName": "node-1", "priority": 0, "enableServiceLinks": true,
            "preemptionPolicy": "PreemptLowerPriority", "dnsPolicy": "ClusterFirst", "restartPolicy": "Always",
            "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30,
            "tolerations": [{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
            "volumes": [{"name": "kube-api-access-x", "projected": {"defaultMode": 420, "sources": []}}],
            "containers": [{"name": "c", "image": "c", "imagePullPolicy": "Always",
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                "volumeMounts": [{"mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "name": "kube-api-access-x", "readOnly": true}]}]},
        "status": {"phase": "Running"}}));
    assert_synced(&target, &live);
}

#[test]
fn eng_84_network_and_access_objects_are_synced() {
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}});
    let live = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "n"},
        "spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80, "protocol": "TCP"}]}], "policyTypes": ["Ingress"]}});
    assert_synced(&policy, &served_metadata(live));
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
    let live = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "b"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
    assert_synced(&binding, &served_metadata(live));
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"},
        "spec": {"rules": [{"host": "a", "http": {"paths": [{"path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "web", "port": {"number": 80}}}}]}}]}});
    assert_synced(&ingress, &served_metadata(ingress.clone()));
}

#[test]
fn eng_57_empty_values_of_built_in_types_are_no_difference() {
    let mut target = deployment();
    target["spec"]["paused"] = json!(false);
    target["spec"]["template"]["spec"]["nodeSelector"] = json!({});
    target["spec"]["template"]["spec"]["hostAliases"] = Value::Null;
    target["spec"]["template"]["spec"]["containers"][0]["args"] = json!([]);
    assert_synced(&target, &live_deployment());
}
