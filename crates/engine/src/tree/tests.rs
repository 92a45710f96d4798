use super::*;
use serde_json::json;

fn items(object: &Value) -> Vec<(String, String)> {
    node_info(object, &["team".to_owned()]).info.into_iter().map(|item| (item.name, item.value)).collect()
}

fn pod(status: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {"team": "red"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}],
                 "initContainers": [{"name": "i", "image": "y"}]},
        "status": status,
    })
}

fn entry<'a>(found: &'a [(String, String)], name: &str) -> &'a str {
    found.iter().find(|(entry, _)| entry == name).map_or("", |(_, value)| value)
}

#[test]
fn eng_199_pods_show_the_status_column() {
    let running = pod(&json!({"phase": "Running", "containerStatuses": [
        {"name": "a", "ready": true, "restartCount": 2, "state": {"running": {}}},
        {"name": "b", "ready": false, "restartCount": 1, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    ]}));
    let found = items(&running);
    assert_eq!(entry(&found, "Status Reason"), "CrashLoopBackOff");
    assert_eq!(entry(&found, "Containers"), "1/2");
    assert_eq!(entry(&found, "Restart Count"), "3");
    assert_eq!(entry(&found, "Node"), "n1");
    assert_eq!(entry(&found, "team"), "red");
    let starting =
        pod(&json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}));
    assert_eq!(entry(&items(&starting), "Status Reason"), "Init:0/1");
    let mut going = running;
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(entry(&items(&going), "Status Reason"), "Terminating");
}

#[test]
fn eng_199_images_are_found_in_every_template() {
    assert_eq!(images(&pod(&json!({}))), ["x", "y"]);
    let template = json!({"spec": {"template": {"spec": {"containers": [{"image": "t"}]}}}});
    assert_eq!(images(&template), ["t"]);
    let cron =
        json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"image": "c"}]}}}}}});
    assert_eq!(images(&cron), ["c"]);
}

#[test]
fn eng_199_revisions() {
    let deployment = |revision: &str| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"annotations": {"deployment.kubernetes.io/revision": revision}}})
    };
    assert_eq!(entry(&items(&deployment("3")), "Revision"), "Rev:3");
    assert_eq!(entry(&items(&deployment("0")), "Revision"), "");
    assert_eq!(entry(&items(&json!({"kind": "ControllerRevision", "revision": 2})), "Revision"), "Rev:2");
}

fn urls(ingress: &Value) -> Vec<String> {
    node_info(ingress, &[]).networking.map(|networking| networking.external_urls).unwrap_or_default()
}

/// SEC-43 to SEC-46: a link of an annotation that is no address of the web is not shown.
#[test]
fn eng_201_ingress_urls() {
    let mut ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"namespace": "n", "annotations": {}},
        "spec": {
            "tls": [{"hosts": ["a.test"]}],
            "rules": [
                {"host": "a.test", "http": {"paths": [
                    {"path": "/*", "backend": {"service": {"name": "s"}}}, {"path": "/api"}]}},
                {"host": "b.test", "http": {"paths": [{"path": "/"}]}},
                {"http": {"paths": [{"path": "/x"}]}}
            ]
        },
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
    });
    let wanted = ["http://1.2.3.4/x", "http://b.test", "https://a.test", "https://a.test/api"];
    assert_eq!(urls(&ingress), wanted);
    let networking = node_info(&ingress, &[]).networking.unwrap();
    assert_eq!(networking.target_refs[0].name, "s");
    ingress["metadata"]["annotations"] = json!({
        "argocd.argoproj.io/ignore-default-links": "true",
        "link.argocd.argoproj.io/a": "https://docs.test",
        "link.argocd.argoproj.io/b": "javascript:alert(1)",
    });
    assert_eq!(urls(&ingress), ["https://docs.test"]);
}

#[test]
fn eng_202_the_summary_is_sorted_and_distinct() {
    let first = node_info(&pod(&json!({})), &[]);
    let node = |group, kind| SummaryNode { group, kind, info: &first };
    let nodes = [node("", "Pod"), node("argoproj.io", "Application")];
    let annotations = [("link.argocd.argoproj.io/x".to_owned(), "title|https://x".to_owned())].into();
    let summary = summary(nodes, &annotations);
    assert_eq!(summary.images, ["x", "y"]);
    assert_eq!(summary.external_urls, ["title|https://x"]);
    assert!(summary.is_app_of_apps);
}

/// ENG-197: what is kept of an object instead of its manifest says the same, as members of a node.
#[test]
fn eng_197_what_is_packed_is_what_a_node_shows() {
    let status = json!({"phase": "Running"});
    let info = node_info(&pod(&status), &["team".to_owned()]);
    let packed = info.packed().unwrap();
    assert_eq!(NodeInfo::unpacked(&packed), info);
    let value: Value = serde_json::from_str(&packed).unwrap();
    assert_eq!(value["images"], json!(["x", "y"]));
    assert_eq!(value["networkingInfo"], json!({"labels": {"team": "red"}}));
    assert!(value["info"].as_array().unwrap().contains(&json!({"name": "Node", "value": "n1"})));
    assert_eq!(node_info(&json!({"kind": "ConfigMap"}), &[]).packed(), None);
}

/// SEC-07: an object that says much about itself is no reason to keep much.
#[test]
fn sec_07_of_an_object_that_says_too_much_less_is_kept() {
    let containers: Vec<Value> = (0..2_000).map(|number| json!({"image": format!("i{number}")})).collect();
    let mut pod = pod(&json!({"phase": "Running"}));
    pod["spec"]["containers"] = containers.into();
    let kept = NodeInfo::unpacked(&node_info(&pod, &[]).packed().unwrap());
    assert!(kept.images.is_empty() && kept.networking.is_none() && !kept.info.is_empty());
    pod["metadata"]["labels"]["team"] = "r".repeat(10_000).into();
    assert_eq!(node_info(&pod, &["team".to_owned()]).packed(), None);
}

/// SEC-07: what anybody may write into an object is looked through once, on the way of all events.
#[test]
fn sec_07_many_images_are_told_apart_once() {
    let containers: Vec<Value> =
        (0..200_000).map(|number| json!({"image": format!("i{}", number / 2)})).collect();
    let object = json!({"apiVersion": "acme.test/v1", "kind": "Queue", "spec": {"containers": containers}});
    assert_eq!(images(&object).len(), 100_000);
}

#[test]
fn sec_07_many_init_containers_are_told_apart_once() {
    let specs: Vec<Value> =
        (0..100_000).map(|number| json!({"name": format!("i{number}"), "restartPolicy": "Always"})).collect();
    let statuses: Vec<Value> =
        (0..100_000).map(|number| json!({"name": format!("i{number}"), "started": true})).collect();
    let mut pod = pod(&json!({"phase": "Running", "initContainerStatuses": statuses}));
    pod["spec"]["initContainers"] = json!(specs);
    assert_eq!(entry(&items(&pod), "Status Reason"), "Running");
}

#[test]
fn sec_07_addresses_and_paths_do_not_multiply() {
    let addresses: Vec<Value> = (0..30_000).map(|number| json!({"ip": format!("10.0.{number}")})).collect();
    let rules: Vec<Value> =
        (0..30_000).map(|number| json!({"http": {"paths": [{"path": format!("/{number}")}]}})).collect();
    let ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"},
        "spec": {"rules": rules}, "status": {"loadBalancer": {"ingress": addresses}}});
    let urls = node_info(&ingress, &[]).networking.unwrap().external_urls;
    assert_eq!(urls.len(), 1_000);
    let long = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"},
        "spec": {"rules": [{"http": {"paths": [{"path": "/x".repeat(20_000)}]}}]},
        "status": {"loadBalancer": {"ingress": addresses}}});
    assert_eq!(node_info(&long, &[]).networking.unwrap().external_urls.len(), 1);
}
