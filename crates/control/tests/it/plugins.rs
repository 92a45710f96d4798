//! Applications whose sources are a config management plugin's, with a server of one on a real socket (RND-127..135).

use std::time::Duration;

use http::Method;
use serde_json::json;
use tempfile::TempDir;
use tiphys_control::Compute;
use tiphys_plugin::config::Config;
use tiphys_plugin::server::{Server, ServerOptions};
use tiphys_source::Clock;
use tokio_util::sync::CancellationToken;

use crate::world::World;

const APP: &str = "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications/shop";

struct Bench {
    folder: TempDir,
    world: World,
}

impl Bench {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["cache", "sockets"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let sockets = folder.path().join("sockets").to_str().unwrap().to_owned();
        let world = World::start_with(|options| {
            options.cache_dir = folder.path().join("cache");
            options.env.insert("ARGOCD_PLUGINSOCKFILEPATH".to_owned(), sockets);
            options.surroundings.clock = Clock::real();
            options.surroundings.compute = Compute::threads();
        })
        .await;
        Self { folder, world }
    }

    /// Starts a server whose plugin passes the files on, with a word about itself.
    fn serve(&self) -> CancellationToken {
        let script = "sed s/VALUE/$ARGOCD_ENV_WORD/ shop.yaml";
        let text = format!(
            "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: p}}\nspec: {{generate: {{command: [sh, -c, '{script}']}}, discover: {{fileName: shop.yaml}}}}\n"
        );
        let options = ServerOptions {
            config: Config::read(&text).unwrap(),
            sockets: self.folder.path().join("sockets"),
            work: self.folder.path().join("work"),
            environment: vec![
                ("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned()),
                ("ARGOCD_ENV_WORD".to_owned(), "nothing".to_owned()),
            ],
            message_bytes_max: 1 << 20,
            grace: Duration::from_secs(1),
        };
        let stopping = CancellationToken::new();
        tokio::spawn(Server::open(options).unwrap().run(stopping.clone()));
        stopping
    }

    fn refresh(&self) {
        self.world.change(&json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rnd_133_a_plugin_that_appears_renders_and_one_that_is_gone_removes_nothing() {
    let bench = Bench::start().await;
    bench.world.commit("one-VALUE");
    let plugin = json!({"name": "p", "env": [{"name": "WORD", "value": "w"}]});
    bench.world.create_with(&json!({"spec": {"source": {"plugin": plugin}}}));
    let missing = "could not find cmp-server plugin with name \\\"p\\\" supporting the given repository";
    bench.world.until(|conditions, value| conditions.contains(missing) && value.is_empty()).await;

    let stopping = bench.serve();
    bench.refresh();
    bench.world.until(|conditions, value| value == "one-w" && !conditions.contains("ComparisonError")).await;
    assert_eq!(bench.world.app()["status"]["sourceType"], "Plugin");
    bench.world.commit("two-VALUE");
    bench.refresh();
    bench.world.until(|_, value| value == "two-w").await;

    // Found by its discovery as well.
    bench.world.ask(Method::PATCH, APP, &json!({"spec": {"source": {"plugin": null}}}));
    bench.refresh();
    bench.world.until(|_, value| value == "two-nothing").await;

    // INV-1: that nobody is there does not make the source a directory, whose files say something else.
    stopping.cancel();
    while bench.folder.path().join("sockets/p.sock").exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bench.world.commit("three-VALUE");
    bench.refresh();
    bench
        .world
        .until(|conditions, _| {
            conditions.contains("the source was rendered by a plugin, and no plugin is there")
        })
        .await;
    assert_eq!(bench.world.value(), "two-nothing");
    bench.world.ask(Method::PATCH, APP, &json!({"spec": {"source": {"directory": {"recurse": true}}}}));
    bench.refresh();
    bench
        .world
        .until(|conditions, value| value == "three-VALUE" && !conditions.contains("ComparisonError"))
        .await;
}
