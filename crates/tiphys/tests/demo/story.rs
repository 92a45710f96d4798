//! The story of the default scenario: look, push, heal, prune, break, fix.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::api::{APPS, CONFIG_MAPS, DEPLOYMENTS, NAMESPACES};
use crate::process::{Clone, Demo, Place};

const SERVICES: &str = "v1/services";
const APPLICATIONS: [&str; 5] = ["apps", "guestbook", "guestbook-helm", "guestbook-kustomize", "shop"];

fn replicas(count: u64) -> impl Fn(&Value) -> bool {
    move |deployment| deployment["spec"]["replicas"] == count
}

/// Whether the Pods have followed the last change.
fn rolled_out(count: u64) -> impl Fn(&Value) -> bool {
    move |deployment| {
        let status = &deployment["status"];
        let counts = ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"];
        status["observedGeneration"] == deployment["metadata"]["generation"]
            && counts.iter().all(|name| status[name] == count)
    }
}

/// A workload as its writers other than the cluster's own controllers left it: those go on writing its status.
fn without_status(mut object: Value) -> Value {
    object.as_object_mut().unwrap().remove("status");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    let books = metadata.get_mut("managedFields").and_then(Value::as_array_mut);
    books.unwrap().retain(|book| book["subresource"] != "status");
    object
}

#[tokio::test]
async fn cli_1001_the_ready_text_has_its_facts_in_their_order() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    let lines = &demo.ready;
    let time = lines[0].strip_prefix("Tiphys demo is ready (").and_then(|rest| rest.strip_suffix("s)"));
    time.unwrap().parse::<f64>().unwrap();
    let git = format!("http://127.0.0.1:{}/git/demo.git", demo.port());
    assert_eq!(lines[1], format!("  Git         {git}     clone, edit, push: the apps follow"));
    assert!(lines[2].starts_with("  kubectl     export KUBECONFIG=/"), "{lines:#?}");
    assert!(
        lines[3].starts_with("  CLI         ") && lines[3].contains("tiphys app list --core"),
        "{lines:#?}"
    );
    let login = format!(
        "  API         argocd login 127.0.0.1:{} --plaintext --username admin --password ",
        demo.port()
    );
    assert!(lines[4].starts_with(&login), "{lines:#?}");
    assert!(lines[5].starts_with("Try:  ") && lines[5].contains(" demo break guestbook "), "{lines:#?}");
    assert!(lines[5].ends_with("Ctrl-C stops and removes everything"), "{lines:#?}");
    // What the lines promise is there: every Application was compared.
    for name in APPLICATIONS {
        assert!(demo.app(name).await["status"]["reconciledAt"].is_string(), "{name}");
    }
    assert_eq!(place.left().len(), 1);
    demo.stop(Signal::INT).await;
    assert_eq!(place.left(), Vec::<String>::new());
}

#[tokio::test]
async fn cli_1000_what_is_pushed_is_there_and_what_is_changed_by_hand_is_healed() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    for name in APPLICATIONS {
        demo.until_app(name, "Synced", "Healthy").await;
    }
    let folder = tempfile::tempdir().unwrap();
    let clone = Clone::of(&demo, &folder.path().join("clone")).await;

    // A push arrives.
    let text = clone.read("guestbook/deployment.yaml").replace("replicas: 2", "replicas: 5");
    clone.push("guestbook/deployment.yaml", Some(&text)).await;
    demo.until(DEPLOYMENTS, "guestbook", "guestbook", "scaled", replicas(5)).await;

    // A change behind Git's back is put right.
    demo.api.delete(SERVICES, "guestbook", "guestbook").await;
    demo.until(SERVICES, "guestbook", "guestbook", "came back", |seen| !seen.is_null()).await;
    place.verb(&["drift", "guestbook"]).await;
    demo.until(DEPLOYMENTS, "guestbook", "guestbook", "healed", replicas(5)).await;

    // A file that goes takes its object along.
    clone.push("shop/config.yaml", None).await;
    demo.until(CONFIG_MAPS, "shop", "shop", "went", Value::is_null).await;

    // A manifest that cannot be read is shown, and nothing is touched.
    demo.until_app("guestbook", "Synced", "Healthy").await;
    demo.until(DEPLOYMENTS, "guestbook", "guestbook", "rolled out", rolled_out(5)).await;
    let before = demo.api.get(DEPLOYMENTS, "guestbook", "guestbook").await.unwrap();
    clone.push("guestbook/service.yaml", Some("apiVersion: v1\nkind: Service\nmetadata: [")).await;
    let broken = demo.until_app("guestbook", "Unknown", "Healthy").await;
    assert_eq!(broken["status"]["conditions"][0]["type"], "ComparisonError");
    let after = demo.api.get(DEPLOYMENTS, "guestbook", "guestbook").await.unwrap();
    assert_eq!(without_status(before), without_status(after));
    assert!(demo.api.get(SERVICES, "guestbook", "guestbook").await.is_some());

    // An Application that leaves Git leaves with all it had.
    clone.push("apps/shop.yaml", None).await;
    demo.until(DEPLOYMENTS, "shop", "web", "went", Value::is_null).await;
    demo.until(APPS, "argocd", "shop", "went", Value::is_null).await;
    assert!(demo.api.get(NAMESPACES, "", "shop").await.is_some());
    demo.stop(Signal::TERM).await;
}

#[tokio::test]
async fn cli_1003_break_fix_drift_and_scale_say_what_they_did_and_do_it() {
    let place = Place::new().await;
    let text = place.refused(20, &["break", "guestbook"]).await;
    assert!(text.starts_with("error: no demo is running; start one with `"), "{text}");

    let demo = Demo::start(&place, &[]).await;
    demo.until_app("guestbook", "Synced", "Healthy").await;
    let text = place.refused(20, &["break", "guestbok"]).await;
    let there = APPLICATIONS.join(", ");
    assert_eq!(text, format!("error: there is no application \"guestbok\"; there are {there}\n"));

    let said = place.verb(&["break", "guestbook"]).await;
    assert!(said.starts_with("pushed ") && said.contains("guestbook/deployment.yaml"), "{said}");
    assert!(said.contains(" demo fix guestbook\n"), "{said}");
    demo.until_app("guestbook", "Synced", "Degraded").await;
    let text = place.refused(20, &["break", "guestbook"]).await;
    assert!(text.contains("is broken already"), "{text}");
    let said = place.verb(&["fix", "guestbook"]).await;
    assert!(said.contains("guestbook/deployment.yaml as before the break"), "{said}");
    demo.until_app("guestbook", "Synced", "Healthy").await;
    let text = place.refused(20, &["fix", "guestbook"]).await;
    assert!(text.contains("nothing to fix"), "{text}");

    // An Application without workloads is broken by a file that cannot be read.
    place.verb(&["break", "apps"]).await;
    demo.until_app("apps", "Unknown", "Healthy").await;
    place.verb(&["fix", "apps"]).await;
    demo.until_app("apps", "Synced", "Healthy").await;
    let text = place.refused(20, &["drift", "apps"]).await;
    assert!(text.contains("try another one"), "{text}");

    let said = place.verb(&["scale", "guestbook", "4"]).await;
    assert!(said.contains("from 2 to 4"), "{said}");
    demo.until(DEPLOYMENTS, "guestbook", "guestbook", "scaled", replicas(4)).await;
    let text = place.refused(20, &["scale", "guestbook", "4"]).await;
    assert!(text.contains("has 4 replicas already"), "{text}");

    // The chart and the overlay follow as the plain manifests do.
    let said = place.verb(&["break", "guestbook-helm"]).await;
    assert!(said.contains("guestbook-helm/values-demo.yaml"), "{said}");
    demo.until_app("guestbook-helm", "Synced", "Degraded").await;
    place.verb(&["fix", "guestbook-helm"]).await;
    demo.until_app("guestbook-helm", "Synced", "Healthy").await;
    place.verb(&["scale", "guestbook-helm", "3"]).await;
    let (ns, name) = ("guestbook-helm", "guestbook-helm");
    demo.until(DEPLOYMENTS, ns, name, "scaled", replicas(3)).await;
    place.verb(&["scale", "guestbook-kustomize", "3"]).await;
    let (ns, name) = ("guestbook-kustomize", "guestbook-kustomize");
    demo.until(DEPLOYMENTS, ns, name, "scaled", replicas(3)).await;

    // What the demo pushed is history like any other.
    let folder = tempfile::tempdir().unwrap();
    let clone = Clone::of(&demo, &folder.path().join("clone")).await;
    assert!(clone.read("guestbook/deployment.yaml").contains("replicas: 4"));
    place.verb(&["scale", "shop", "3"]).await;
    clone.pull().await;
    clone.push("guestbook/extra.yaml", Some(&config_map("extra"))).await;
    demo.until(CONFIG_MAPS, "guestbook", "extra", "came", |seen| !seen.is_null()).await;

    let second = Demo::start(&place, &[]).await;
    assert_ne!(second.port(), demo.port());
    let text = place.refused(20, &["fix", "guestbook"]).await;
    assert!(text.contains("2 demos are running"), "{text}");
    let which = demo.directory();
    place.verb(&["break", "guestbook", "--data", which.to_str().unwrap()]).await;
    second.stop(Signal::TERM).await;
    demo.stop(Signal::TERM).await;
}

fn config_map(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}).to_string()
}
