//! Tracking by digests.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;

use crate::api::{APPS, CONFIG_MAPS, path};
use crate::fixtures::{automated, config_map, file};
use crate::world::{Setup, World, merge};

const INSTANCE: &str = "app.kubernetes.io/instance";

/// What `echo NAME | sha1sum` prints, by that program.
async fn published(name: &str) -> String {
    let mut program = tokio::process::Command::new("sha1sum")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sha1sum");
    program.stdin.take().unwrap().write_all(format!("{name}\n").as_bytes()).await.unwrap();
    let output = program.wait_with_output().await.unwrap();
    String::from_utf8_lossy(&output.stdout).split_whitespace().next().unwrap().to_owned()
}

/// What the published command prints, by the programs it names; `None` where there is no `kubectl`.
async fn by_kubectl(world: &World, namespace: &str, name: &str) -> Option<Vec<String>> {
    #[expect(clippy::disallowed_methods, reason = "tests have no settings")]
    let (programs, path) = (std::env::var("TIPHYS_TEST_PROGRAMS").ok()?, std::env::var("PATH").unwrap());
    let line = format!(
        "kubectl get configmaps -n {namespace} -o name -l {INSTANCE}=$(echo {name} | sha1sum | cut -d' ' -f1)"
    );
    let output = tokio::process::Command::new("sh")
        .args(["-c", &line])
        .env("PATH", format!("{programs}:{path}"))
        .env("KUBECONFIG", &world.launch.kubeconfig)
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("$ {line}\n{text}");
    Some(text.lines().map(str::to_owned).collect())
}

/// TRK-6, TRK-50..56: an application whose name is far too long for a label is tracked by a digest, selected as the
/// documentation says, pruned and deleted; a change between the two forms of SHA-1 loses nothing.
#[tokio::test]
async fn trk_50_a_long_name_is_tracked_selected_pruned_and_deleted_by_its_digest() {
    let setup = Setup { settings: vec![("application.resourceTrackingMethod", "hash")], ..Setup::default() };
    let Some(mut world) = World::start_with("hashed", setup).await else { return };
    let ns = world.namespace("ns").await;
    let files = [("cm.yaml", file(&[config_map("cm", "1")])), ("old.yaml", file(&[config_map("old", "1")]))];
    let repo = world.repo("app", &files.each_ref().map(|(name, text)| (*name, text.as_str()))).await;
    let mut change = automated();
    merge(&mut change, &json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}));
    let rest = 200 - world.name("").len();
    let app = world.create(&"x".repeat(rest), &repo, ".", &ns, &change).await;
    assert_eq!(app.len(), 200, "{app}");
    world.until_synced(&app).await;

    let live = world.api.get(CONFIG_MAPS, &ns, "cm").await.unwrap();
    let digest = published(&app).await;
    assert_eq!(live["metadata"]["labels"][INSTANCE], digest);
    assert_eq!(live["metadata"]["annotations"]["argo-cd.argoproj.io/application-name"], app);
    assert!(live["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"].is_null());
    let selected = format!("{}?labelSelector={INSTANCE}%3D{digest}", path(CONFIG_MAPS, &ns, ""));
    let found = world.api.read(&selected).await;
    assert_eq!(found["items"].as_array().map(Vec::len), Some(2), "{found}");

    if let Some(printed) = by_kubectl(&world, &ns, &app).await {
        assert_eq!(printed, ["configmap/cm", "configmap/old"]);
    }

    // Objects that bear the other form of the digest are still ours.
    let raw = json!({"application.resourceTrackingMethod": "hash", "application.trackingHashAlgorithm": "sha1-raw"});
    world.settings(&raw).await;
    world.push(&repo, &[("old.yaml", "")]).await;
    world.until_gone(CONFIG_MAPS, &ns, "old").await;
    let is_new = |cm: &Value| cm["metadata"]["labels"][INSTANCE] != digest;
    world.until_object(CONFIG_MAPS, &ns, "cm", "is marked anew", is_new).await;
    world.until_synced(&app).await;

    world.api.delete(APPS, &world.cp, &app).await;
    world.until_gone(APPS, &world.cp, &app).await;
    assert!(!world.exists(CONFIG_MAPS, &ns, "cm").await);
    world.finish().await;
}
