//! Config management plugins: this program as the server of one, beside a process that knows the cluster.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::api::CONFIG_MAPS;
use crate::rendered::{is, measure, with_source};
use crate::world::{PATIENCE, Setup, World, conditions};

/// A plugin that prints a `ConfigMap` with the text of a file and the name of its application.
const PLUGIN: &str = "apiVersion: argoproj.io/v1alpha1
kind: ConfigManagementPlugin
metadata: {name: printer}
spec:
  version: v1
  generate:
    command: [sh, -c]
    args:
    - |
      printf 'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: printed}\\ndata: {text: \"%s\", of: \"%s\", region: \"%s\"}\\n' \
        \"$(cat text)\" \"$ARGOCD_APP_NAME\" \"$ARGOCD_ENV_REGION\"
";

/// Starts the server of the plugin and waits until it listens; it is killed when it is dropped.
async fn sidecar(config: &Path, sockets: &Path) -> Child {
    let child = Command::new(env!("CARGO_BIN_EXE_tiphys"))
        .args(["cmp-server", "--config-dir-path"])
        .arg(config)
        .env("ARGOCD_PLUGINSOCKFILEPATH", sockets)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let began = Instant::now();
    while tokio::net::UnixStream::connect(sockets.join("printer-v1.sock")).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "the server of the plugin never listens");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    child
}

/// RND-127, RND-133: a plugin whose server appears after its application, and disappears again.
#[tokio::test]
async fn rnd_133_a_plugin_goes_live_when_its_server_appears_and_prunes_nothing_when_it_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (config, sockets) = (folder.path().join("config"), folder.path().join("plugins"));
    std::fs::create_dir_all(&config).unwrap();
    std::fs::create_dir_all(&sockets).unwrap();
    std::fs::write(config.join("plugin.yaml"), PLUGIN).unwrap();
    let place: &'static str = sockets.to_str().unwrap().to_owned().leak();
    let setup = Setup { env: vec![("ARGOCD_PLUGINSOCKFILEPATH", place)], ..Setup::default() };
    let Some(mut world) = World::start_with("plugin", setup).await else { return };
    let ns = world.namespace("ns").await;
    let repo = world.repo("app", &[("app/text", "one")]).await;
    let source = json!({"plugin": {"name": "printer-v1", "env": [{"name": "REGION", "value": "eu"}]}});
    let app = world.create("app", &repo, "app", &ns, &with_source(&source)).await;
    let failed = |app: &serde_json::Value| !conditions(app, "ComparisonError").is_empty();
    let seen = world.until_app(&app, "has no plugin", failed).await;
    let said = conditions(&seen, "ComparisonError").join(" ");
    assert!(said.contains("could not find cmp-server plugin with name \"printer-v1\""), "{said}");

    let mut server = sidecar(&config, &sockets).await;
    world.refresh(&app, "hard").await;
    let synced = world.until_synced(&app).await;
    assert_eq!(synced["status"]["sourceType"], "Plugin");
    let printed = world.api.get(CONFIG_MAPS, &ns, "printed").await.unwrap();
    assert_eq!((&printed["data"]["text"], &printed["data"]["region"]), (&json!("one"), &json!("eu")));
    assert_eq!(printed["data"]["of"], app.as_str());
    measure(&world, "plugin", &repo, &ns, "printed", |text| ("app/text".to_owned(), text.to_owned())).await;

    world.until_synced(&app).await;
    server.kill().await.unwrap();
    world.push(&repo, &[("app/text", "two")]).await;
    let seen = world.until_app(&app, "lost its plugin", failed).await;
    assert_eq!(seen["status"]["sync"]["status"], "Unknown");
    world.until_object(CONFIG_MAPS, &ns, "printed", "stays", is("round 4")).await;

    let _server = sidecar(&config, &sockets).await;
    world.refresh(&app, "hard").await;
    world.until_object(CONFIG_MAPS, &ns, "printed", "follows", is("two")).await;
    world.finish().await;
}
