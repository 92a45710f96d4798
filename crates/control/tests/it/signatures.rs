//! A controller that verifies signatures, with the `git` and the `gpg` of this machine (REP-86, REP-200..202).

use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tiphys_control::Compute;
use tiphys_exec::{Invocation, Limits, Output};
use tiphys_source::Clock;

use crate::world::World;

const MAPS: &str = "/api/v1/namespaces/argocd/configmaps";
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A folder with a repository, and the home of somebody who signs.
struct Bench {
    folder: TempDir,
    world: World,
}

impl Bench {
    /// `None`, with a word about it, where there is no `gpg`.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    async fn start() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        for name in ["repo/shop", "home", "cache"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(folder.path().join("home"), private).unwrap();
        let make =
            ["--batch", "--passphrase", "", "--quick-generate-key", "Ada <ada@acme.test>", "ed25519", "sign"];
        let Some(made) = run(folder.path(), "gpg", &make).await else {
            eprintln!("skipped: gpg is not installed");
            return None;
        };
        assert_eq!(made.code, Some(0), "{}", made.stderr);
        let world = World::start_with(|options| {
            options.cache_dir = folder.path().join("cache");
            let roots = folder.path().to_str().unwrap().to_owned();
            options.env.insert("ARGOCD_REPO_SERVER_LOCAL_REPOSITORIES".to_owned(), roots);
            options.env.insert("PATH".to_owned(), PATH.to_owned());
            options.surroundings.repositories = None;
            options.surroundings.clock = Clock::real();
            options.surroundings.compute = Compute::threads();
        })
        .await;
        let bench = Self { folder, world };
        bench.run("git", &["-C", "repo", "init", "-q", "-b", "main"]).await;
        Some(bench)
    }

    async fn run(&self, program: &str, arguments: &[&str]) -> String {
        let output = run(self.folder.path(), program, arguments).await.unwrap();
        assert_eq!(output.code, Some(0), "{program} {arguments:?}: {}", output.stderr);
        String::from_utf8(output.stdout).unwrap()
    }

    async fn commit(&self, value: &str, sign: &str) {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shop"},
            "data": {"value": value}});
        std::fs::write(self.folder.path().join("repo/shop/shop.yaml"), object.to_string()).unwrap();
        self.run("git", &["-C", "repo", "add", "-A"]).await;
        self.run("git", &["-C", "repo", "commit", "-q", sign, "-m", value]).await;
    }
}

async fn run(folder: &Path, program: &str, arguments: &[&str]) -> Option<Output> {
    let home = folder.join("home");
    let environment = [
        ("PATH", PATH),
        ("HOME", "/dev/null"),
        ("GNUPGHOME", home.to_str()?),
        ("GIT_AUTHOR_NAME", "Ada"),
        ("GIT_AUTHOR_EMAIL", "ada@acme.test"),
        ("GIT_COMMITTER_NAME", "Ada"),
        ("GIT_COMMITTER_EMAIL", "ada@acme.test"),
    ];
    tiphys_exec::run(Invocation {
        program: program.into(),
        arguments: arguments.iter().map(Into::into).collect(),
        environment: environment.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        directory: folder.to_owned(),
        deadline: Duration::from_mins(1),
        grace: Duration::from_secs(1),
        stdout_bytes_max: 1 << 20,
        limits: Limits::default(),
    })
    .await
    .ok()
}

#[tokio::test]
async fn rep_202_what_is_not_signed_is_not_deployed_and_keys_count_at_once() {
    let Some(bench) = Bench::start().await else { return };
    let text = bench.run("gpg", &["--armor", "--export"]).await;
    let id = tiphys_api::trust::public_keys(&text).unwrap()[0].key_id().to_owned();
    let keys = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {&id: text},
        "metadata": {"name": "argocd-gpg-keys-cm", "labels": {"app.kubernetes.io/part-of": "argocd"}}});
    bench.world.ask(Method::POST, MAPS, &keys);
    bench.world.project(
        "team",
        &json!({"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": "*"}],
            "signatureKeys": [{"keyID": id}]}),
    );
    bench.commit("unsigned", "--no-gpg-sign").await;
    let url = bench.folder.path().join("repo");
    bench.world.create_with(&json!({"spec": {"project": "team", "source": {"repoURL": url}}}));
    bench
        .world
        .until(|conditions, _| conditions.contains("by 'Ada <ada@acme.test>': unsigned (key_id=)"))
        .await;
    assert_eq!(bench.world.value(), "");

    let refresh = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
    bench.commit("signed", "-S").await;
    bench.world.change(&refresh);
    bench.world.until(|conditions, value| value == "signed" && !conditions.contains("ComparisonError")).await;

    // Nobody asks for a refresh: the key is gone, so nothing is known to be right any more.
    let map = format!("{MAPS}/argocd-gpg-keys-cm");
    bench.world.change_object(&map, &json!({"data": {&id: null}}));
    bench.world.until(|conditions, _| conditions.contains("signed with key not in keyring")).await;
    bench.world.change_object(&map, &json!({"data": {&id: text}}));
    bench.world.until(|conditions, _| !conditions.contains("ComparisonError")).await;
    // Without its ConfigMap the keys stay in effect (API-89): what is signed with them is deployed, nothing else is.
    bench.world.ask(Method::DELETE, &map, &Value::Null);
    bench.commit("signed again", "-S").await;
    bench.world.change(&refresh);
    bench.world.until(|_, value| value == "signed again").await;
    bench.commit("unsigned again", "--no-gpg-sign").await;
    bench.world.change(&refresh);
    bench.world.until(|conditions, _| conditions.contains("unsigned (key_id=)")).await;
    assert_eq!(bench.world.value(), "signed again");
    drop(run(bench.folder.path(), "gpgconf", &["--kill", "all"]).await);
}
