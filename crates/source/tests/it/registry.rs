//! Registries: a real one on the loopback where it is installed, and doubles for what a real one does not do
//! (RND-113..119, F20).

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tiphys_render::TreePath;
use tiphys_source::exec::{self, Invocation};
use tiphys_source::{Freshness, Repository, Secret, SourceError};

use crate::web_server::{Asked, Reply, WebServer, packed, sha256};
use crate::world::World;

const CHART_CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART_CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// `pw`, hashed.
const LOGIN: &str = "ada:$2b$04$itSJY96riqYinjee1rqAf.ZagqtIB3R2sMuQ2UU/ReE5wLbSc/Ph2\n";

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256(bytes))
}

fn manifest(config: &str, layers: &[(&str, &[u8])]) -> Vec<u8> {
    let layers: Vec<Value> = layers
        .iter()
        .map(|(kind, bytes)| json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()}))
        .collect();
    let config = json!({"mediaType": config, "digest": digest(b"{}"), "size": 2});
    let annotations =
        json!({"org.opencontainers.image.description": "manifests", "org.opencontainers.image.version": "1"});
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers, "annotations": annotations});
    manifest.to_string().into_bytes()
}

fn plain(host: &str, path: &str) -> Repository {
    Repository { plain_http: true, ..Repository::anonymous(&format!("{host}{path}")) }
}

/// A running registry that asks for a login.
struct Registry {
    child: tokio::process::Child,
    host: String,
}

impl Registry {
    /// `None`, aloud, where none is installed.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    async fn start(directory: &Path) -> Option<Self> {
        let program = ["/usr/bin/docker-registry", "/usr/local/bin/registry"]
            .into_iter()
            .find(|path| Path::new(path).exists());
        let Some(program) = program else {
            eprintln!("skipped: docker-registry is not installed");
            return None;
        };
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let host = format!("127.0.0.1:{port}");
        std::fs::write(directory.join("login"), LOGIN).unwrap();
        let configuration = json!({
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": directory.join("registry")}},
            "http": {"addr": host, "secret": "x"},
            "auth": {"htpasswd": {"realm": "test", "path": directory.join("login")}},
        });
        std::fs::write(directory.join("registry.yaml"), configuration.to_string()).unwrap();
        let child = tokio::process::Command::new(program)
            .args(["serve", &directory.join("registry.yaml").to_string_lossy()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        for _ in 0..200 {
            if tokio::net::TcpStream::connect(&host).await.is_ok() {
                return Some(Self { child, host });
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the registry does not start");
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    async fn curl(&self, directory: &Path, arguments: &[&str]) -> String {
        let output = exec::run(Invocation {
            program: "curl".into(),
            arguments: ["-sS", "--fail", "-u", "ada:pw"].iter().chain(arguments).map(Into::into).collect(),
            environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
            directory: directory.to_owned(),
            deadline: Duration::from_mins(1),
            grace: Duration::from_secs(1),
            stdout_bytes_max: 1 << 20,
            limits: exec::Limits::default(),
        })
        .await
        .unwrap();
        assert_eq!(output.code, Some(0), "{arguments:?}: {}", output.stderr);
        String::from_utf8(output.stdout).unwrap()
    }

    async fn push_blob(&self, directory: &Path, name: &str, bytes: &[u8]) {
        std::fs::write(directory.join("blob"), bytes).unwrap();
        let start = format!("http://{}/v2/{name}/blobs/uploads/", self.host);
        let headers = self.curl(directory, &["-X", "POST", "-D", "-", "-o", "/dev/null", &start]).await;
        let place =
            headers.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap().trim().to_owned();
        let url = format!("{place}&digest={}", digest(bytes));
        self.curl(
            directory,
            &["-X", "PUT", "-H", "Content-Type: application/octet-stream", "--data-binary", "@blob", &url],
        )
        .await;
    }

    async fn push(
        &self,
        directory: &Path,
        name: &str,
        tag: &str,
        config: &str,
        layers: &[(&str, &[u8])],
    ) -> String {
        self.push_blob(directory, name, b"{}").await;
        for (_, bytes) in layers {
            self.push_blob(directory, name, bytes).await;
        }
        let manifest = manifest(config, layers);
        std::fs::write(directory.join("manifest"), &manifest).unwrap();
        let url = format!("http://{}/v2/{name}/manifests/{tag}", self.host);
        let kind = format!("Content-Type: {MANIFEST}");
        self.curl(directory, &["-X", "PUT", "-H", &kind, "--data-binary", "@manifest", &url]).await;
        digest(&manifest)
    }
}

#[tokio::test]
async fn rnd_113_to_118_charts_and_artifacts_come_from_a_real_registry() {
    let world = World::with(&[]).await;
    let Some(mut registry) = Registry::start(world.path()).await else { return };
    let chart = packed(&[("web/Chart.yaml", "name: web"), ("web/values.yaml", "a: 1")]);
    let files = packed(&[("app/cm.yaml", "kind: ConfigMap"), ("root.yaml", "kind: A")]);
    for tag in ["1.0.0", "1.2.0_build.5", "2.0.0-rc.1"] {
        registry.push(world.path(), "charts/web", tag, CHART_CONFIG, &[(CHART_CONTENT, &chart)]).await;
    }
    let pushed =
        registry.push(world.path(), "manifests", "v1.1.0", "application/x", &[(LAYER, &files)]).await;
    registry
        .push(world.path(), "manifests", "latest", "application/x", &[(LAYER, &files), (LAYER, &chart)])
        .await;

    let login = |repository: Repository| Repository {
        username: "ada".to_owned(),
        password: Secret::from("pw"),
        ..repository
    };
    let charts = login(Repository { enable_oci: true, ..plain(&registry.host, "/charts") });
    let mut versions = world.sources.chart_versions(&charts, "web", Freshness::Cached).await.unwrap();
    versions.sort();
    assert_eq!(versions, ["1.0.0", "1.2.0+build.5", "2.0.0-rc.1"]);
    let version = world.sources.resolve_chart(&charts, "web", "1.x", Freshness::Cached).await.unwrap();
    assert_eq!(version, "1.2.0+build.5");
    let fetched = world.sources.chart(&charts, "web", &version, false).await.unwrap();
    let values = fetched.tree.read(&TreePath::parse("web/values.yaml").unwrap(), 100).unwrap();
    assert_eq!((values, fetched.digest), ("a: 1".into(), sha256(&chart)));

    let manifests = login(plain(&format!("oci://{}", registry.host), "/manifests"));
    for revision in ["v1.1.0", "1.x", pushed.as_str()] {
        let found = world.sources.resolve_artifact(&manifests, revision, Freshness::Cached).await;
        assert_eq!(found.as_deref(), Ok(pushed.as_str()), "{revision}");
    }
    let tree = world.sources.artifact(&manifests, &pushed, false).await.unwrap();
    assert_eq!(tree.read(&TreePath::parse("app/cm.yaml").unwrap(), 100).unwrap(), "kind: ConfigMap");
    let metadata = world.sources.artifact_metadata(&manifests, &pushed).await.unwrap();
    assert_eq!((metadata.description.as_str(), metadata.version.as_str()), ("manifests", "1"));
    // A chart as an artifact: its one directory is the root (RND-116).
    let as_source = login(plain(&format!("oci://{}", registry.host), "/charts/web"));
    let digest = world.sources.resolve_artifact(&as_source, "1.0.0", Freshness::Cached).await.unwrap();
    let tree = world.sources.artifact(&as_source, &digest, false).await.unwrap();
    assert_eq!(tree.read(&TreePath::parse("Chart.yaml").unwrap(), 100).unwrap(), "name: web");

    let latest = world.sources.resolve_artifact(&manifests, "latest", Freshness::Cached).await.unwrap();
    let error = world.sources.artifact(&manifests, &latest, false).await.map(drop).unwrap_err();
    assert_eq!(error.to_string(), "expected only a single oci content layer, got 2");
    let error = world.sources.resolve_artifact(&manifests, "nothing", Freshness::Cached).await.unwrap_err();
    assert!(error.to_string().starts_with("invalid revision: "), "{error}");
    let wrong = Repository { password: Secret::from("canary"), ..manifests.clone() };
    let error = world.sources.resolve_artifact(&wrong, "v1.1.0", Freshness::Cached).await.unwrap_err();
    assert!(
        matches!(error, SourceError::Denied { .. }) && !error.to_string().contains("canary"),
        "{error:?}"
    );
    // Docker's configuration of the process, where the repository has no login.
    let docker = json!({"auths": {registry.host.clone(): {"username": "ada", "password": "pw"}}});
    std::fs::write(world.path().join("docker.json"), docker.to_string()).unwrap();
    let with_docker =
        world.restarted(|options| options.docker_config = Some(world.path().join("docker.json")));
    let anonymous = plain(&format!("oci://{}", registry.host), "/manifests");
    assert!(with_docker.resolve_artifact(&anonymous, "v1.1.0", Freshness::Cached).await.is_ok());
    assert!(world.sources.resolve_artifact(&anonymous, "v1.1.0", Freshness::Cached).await.is_err());
    assert!(registry.is_running());
}

/// A registry whose tokens end: F20, "401 after twelve hours".
#[tokio::test]
async fn f20_tokens_are_asked_for_again() {
    let world = World::with(&[]).await;
    let tokens = AtomicUsize::new(0);
    let files = packed(&[("a.yaml", "kind: A")]);
    let body = manifest("application/x", &[(LAYER, &files)]);
    let handler = move |asked: &Asked| {
        if asked.path.starts_with("/token") {
            let right = asked.header("authorization") == "Basic YWRhOnB3";
            let scope = asked.path.contains("service=reg&scope=repository%3Am%3Apull");
            if !right || !scope {
                return Reply::of(401, "");
            }
            let number = tokens.fetch_add(1, Ordering::Relaxed) + 1;
            return Reply::of(200, format!("{{\"token\": \"t{number}\", \"expires_in\": 43200}}"));
        }
        // The first token is thrown away by the registry after two questions.
        let given = tokens.load(Ordering::Relaxed);
        if given == 0
            || asked.header("authorization") != format!("Bearer t{given}")
            || asked.path.ends_with("/second") && given < 2
        {
            let challenge = format!("Bearer realm=\"http://{}/token\",service=\"reg\"", asked.header("host"));
            return Reply::of(401, "").with("WWW-Authenticate", &challenge);
        }
        match asked.path.rsplit('/').next() {
            Some(last) if last.starts_with("sha256:") => Reply::of(200, files.clone()),
            _ => Reply::of(200, body.clone()),
        }
    };
    let server = WebServer::start(handler).await;
    let repository = Repository {
        username: "ada".to_owned(),
        password: Secret::from("pw"),
        ..plain(&format!("oci://{}", server.host()), "/m")
    };
    let resolve = async |tag: &str| world.sources.resolve_artifact(&repository, tag, Freshness::Cached).await;
    resolve("first").await.unwrap();
    let before = server.asked().len();
    resolve("other").await.unwrap();
    assert_eq!(server.asked().len(), before + 1, "the token is used again");
    resolve("second").await.unwrap();
    assert_eq!(server.asked().iter().filter(|asked| asked.path.starts_with("/token")).count(), 2);
}

#[tokio::test]
async fn f20_bad_answers_of_a_registry() {
    let world = World::with(&[]).await;
    let good = packed(&[("a.yaml", "kind: A")]);
    let evil = packed(&[("a.yaml", "kind: Evil")]);
    let handler = {
        let (good, evil) = (good.clone(), evil.clone());
        move |asked: &Asked| {
            let parts: Vec<&str> = asked.path.split('/').collect();
            let (name, what) =
                (parts.get(2).copied().unwrap_or_default(), parts.get(3).copied().unwrap_or_default());
            let body = manifest("application/x", &[(LAYER, &good)]);
            match (name, what) {
                ("lying", "manifests") => {
                    Reply::of(200, body).with("Docker-Content-Digest", &format!("sha256:{}", "a".repeat(64)))
                }
                ("realm", _) => {
                    Reply::of(401, "").with("WWW-Authenticate", "Bearer realm=\"ftp://evil/token\"")
                }
                ("pages", _) => Reply::of(200, "{\"name\": \"pages\", \"tags\": [\"1.0.0\"]}")
                    .with("Link", "<http://evil.example/v2/x>; rel=\"next\""),
                ("endless", "tags") => Reply::of(200, "{\"name\": \"endless\", \"tags\": [\"1.0.0\"]}")
                    .with("Link", "</v2/endless/tags/list?n=1>; rel=\"next\""),
                ("page", "tags") => Reply::of(200, "<html>"),
                (_, "tags") => Reply::of(404, ""),
                ("index", "manifests") => {
                    Reply::of(200, "{\"manifests\": [{\"digest\": \"x\"}, {\"digest\": \"y\"}]}")
                }
                (_, "manifests") => Reply::of(200, body),
                ("swapped", "blobs") => Reply::of(200, evil.clone()),
                ("half", "blobs") => Reply { cut: Some(20), ..Reply::of(200, good.clone()) },
                ("busy", "blobs") => Reply::of(429, "canary"),
                _ => Reply::of(200, good.clone()),
            }
        }
    };
    let server = WebServer::start(handler).await;
    let of = |name: &str| plain(&format!("oci://{}", server.host()), &format!("/{name}"));
    let get = async |name: &str| {
        let repository = of(name);
        let digest = world.sources.resolve_artifact(&repository, "1.0.0", Freshness::Cached).await?;
        world.sources.artifact(&repository, &digest, false).await.map(drop)
    };
    assert!(get("fine").await.is_ok());
    for (name, expected) in [
        ("lying", "does not have the digest that it should have"),
        ("realm", "names a place for tokens that is not safe"),
        ("index", "expected only a single oci content layer, got 0"),
        ("swapped", "does not have the digest that it should have"),
        ("half", "breaks off"),
        ("busy", "status 429"),
    ] {
        let error = get(name).await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("canary"), "{name}: {error}");
    }
    for (name, expected) in
        [("pages", "elsewhere"), ("endless", "too many pages"), ("page", "no list of tags")]
    {
        let error = world.sources.oci_tags(&of(name), Freshness::Cached).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{name}: {error}");
    }
}

/// RND-118: tags are remembered.
#[tokio::test]
async fn rnd_118_tags_are_asked_for_once() {
    let world = World::with(&[]).await;
    let server =
        WebServer::start(|_| Reply::of(200, "{\"name\": \"m\", \"tags\": [\"1.0.0\", \"1.1.0\"]}")).await;
    let repository = plain(&format!("oci://{}", server.host()), "/m");
    for _ in 0..3 {
        assert_eq!(world.sources.oci_tags(&repository, Freshness::Cached).await.unwrap().len(), 2);
    }
    assert_eq!(server.asked().len(), 1);
    world.clock.advance(Duration::from_secs(1));
    world.sources.oci_tags(&repository, Freshness::Fetch).await.unwrap();
    assert_eq!(server.asked().len(), 2);
}
