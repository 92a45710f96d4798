//! What a test has: the cluster, a Git server, a control-plane namespace and a process.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::api::{APPS, Api, CONFIG_MAPS, NAMESPACES, PROJECTS, SETS};
use crate::git::{GitServer, Repo};
use crate::program::{Launch, Program};

/// Tests that run at the same time; each has a process that watches the whole cluster.
static ROOM: Semaphore = Semaphore::const_new(3);
/// Longest time anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
const POLL: Duration = Duration::from_millis(50);

/// How a world begins.
#[derive(Default)]
pub(crate) struct Setup {
    /// Data of `argocd-cm`.
    pub(crate) settings: Vec<(&'static str, &'static str)>,
    /// Environment of the process.
    pub(crate) env: Vec<(&'static str, &'static str)>,
    /// Another way to the cluster.
    pub(crate) kubeconfig: Option<PathBuf>,
}

pub(crate) struct World {
    pub(crate) api: Api,
    pub(crate) git: GitServer,
    /// The control-plane namespace.
    pub(crate) cp: String,
    pub(crate) launch: Launch,
    pub(crate) program: Program,
    test: String,
    run: String,
    namespaces: Vec<String>,
    operations: AtomicU32,
    directory: TempDir,
    _room: SemaphorePermit<'static>,
}

/// The kubeconfig of the API server under test; says so when there is none.
pub(crate) fn kubeconfig() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "tests have no settings")]
    let path = std::env::var("TIPHYS_TEST_KUBECONFIG").ok();
    if path.is_none() {
        println!("skipped: no real control plane (make test starts one)");
    }
    path.map(PathBuf::from)
}

impl World {
    pub(crate) async fn start(test: &str) -> Option<Self> {
        Self::start_with(test, Setup::default()).await
    }

    pub(crate) async fn start_with(test: &str, setup: Setup) -> Option<Self> {
        let path = kubeconfig()?;
        let room = ROOM.acquire().await.unwrap();
        let api = Api::from_kubeconfig(&path);
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("git");
        std::fs::create_dir_all(&root).unwrap();
        let git = GitServer::start(&root).await;
        let run = format!("{:x}", std::process::id());
        let cp = format!("cp-{test}-{run}");
        let launch = Launch {
            kubeconfig: setup.kubeconfig.unwrap_or(path),
            namespace: cp.clone(),
            directory: directory.path().to_owned(),
            env: setup.env,
        };
        api.apply(NAMESPACES, &namespace(&cp)).await;
        let data: BTreeMap<_, _> = setup.settings.into_iter().collect();
        api.apply(CONFIG_MAPS, &settings(&cp, &json!(data))).await;
        let program = Program::start(&launch);
        let mut world = Self {
            api,
            git,
            launch,
            program,
            test: test.to_owned(),
            run,
            namespaces: vec![cp.clone()],
            cp,
            operations: AtomicU32::new(0),
            directory,
            _room: room,
        };
        world.ready().await;
        Some(world)
    }

    /// Waits until the process works.
    pub(crate) async fn ready(&mut self) {
        let url = format!("http://127.0.0.1:{}/readyz", self.program.port);
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.program.ended() {
                panic!("tiphys ended at its start: {status}");
            }
            if self.api.send(Method::GET, &url, &[], "").await.is_ok_and(|answer| answer.status() == 200) {
                return;
            }
            assert!(Instant::now() < deadline, "tiphys does not become ready");
            tokio::time::sleep(POLL).await;
        }
    }

    /// Ends the process without warning.
    pub(crate) async fn kill(&mut self) {
        self.program.kill().await;
    }

    /// Starts a new process where the old one was.
    pub(crate) async fn restart(&mut self) {
        let log = self.program.log();
        assert!(!log.contains("panicked"), "{log}");
        self.program = Program::start(&self.launch);
        self.ready().await;
    }

    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// A name that no other test has.
    pub(crate) fn name(&self, suffix: &str) -> String {
        format!("{}-{suffix}-{}", self.test, self.run)
    }

    /// Makes a destination namespace.
    pub(crate) async fn namespace(&mut self, suffix: &str) -> String {
        let name = self.later_namespace(suffix);
        self.api.apply(NAMESPACES, &namespace(&name)).await;
        name
    }

    /// The name of a destination namespace that the test lets somebody else make.
    pub(crate) fn later_namespace(&mut self, suffix: &str) -> String {
        let name = self.name(suffix);
        self.namespaces.push(name.clone());
        name
    }

    pub(crate) async fn repo(&self, name: &str, files: &[(&str, &str)]) -> Repo {
        Repo::create(&self.git, name, files).await
    }

    /// An Application of the folder `path`, with members changed by a merge patch.
    pub(crate) fn application(&self, name: &str, repo: &Repo, path: &str, ns: &str, change: &Value) -> Value {
        let mut application = json!({
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": name, "namespace": self.cp},
            "spec": {
                "project": "default",
                "source": {"repoURL": repo.url, "targetRevision": "main", "path": path},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": ns},
            },
        });
        merge(&mut application, change);
        application
    }

    /// Creates an Application; returns its name.
    pub(crate) async fn create(
        &self,
        suffix: &str,
        repo: &Repo,
        path: &str,
        ns: &str,
        change: &Value,
    ) -> String {
        let name = self.name(suffix);
        self.api.apply(APPS, &self.application(&name, repo, path, ns, change)).await;
        name
    }

    pub(crate) async fn app(&self, name: &str) -> Value {
        self.api.get(APPS, &self.cp, name).await.unwrap_or(Value::Null)
    }

    /// Changes an Application by a merge patch.
    pub(crate) async fn patch_app(&self, name: &str, patch: &Value) {
        self.api.patch(APPS, &self.cp, name, patch).await;
    }

    /// Replaces the data of `argocd-cm`.
    /// Changes the settings, and waits until a process that runs goes by them.
    pub(crate) async fn settings(&self, data: &Value) {
        let stored = self.api.apply(CONFIG_MAPS, &settings(&self.cp, data)).await;
        let version: u64 = stored["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let deadline = Instant::now() + PATIENCE;
        while self.program.is_running()
            && !self.program.settings_in_force().iter().any(|known| *known >= version)
        {
            assert!(Instant::now() < deadline, "the settings are not followed; log: {}", self.program.log());
            tokio::time::sleep(POLL).await;
        }
    }

    pub(crate) async fn project(&self, name: &str, spec: &Value) {
        let metadata = json!({"name": name, "namespace": self.cp});
        let project = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": metadata,
            "spec": spec});
        self.api.apply(PROJECTS, &project).await;
    }

    /// Waits until something holds, and returns what was seen; says what was seen last when it never does.
    pub(crate) async fn until<F: Future<Output = Value>>(
        &self,
        what: &str,
        look: impl Fn() -> F,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = look().await;
            if holds(&seen) {
                return seen;
            }
            assert!(
                Instant::now() < deadline,
                "{what} never came true; last seen: {:#}",
                without_noise(seen)
            );
            tokio::time::sleep(POLL).await;
        }
    }

    pub(crate) async fn until_app(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("{name}: {what}"), || self.app(name), holds).await
    }

    pub(crate) async fn until_synced(&self, name: &str) -> Value {
        self.until_app(name, "Synced and Healthy", is_synced).await
    }

    /// Waits until an object is there and satisfies the test.
    pub(crate) async fn until_object(
        &self,
        kind: &str,
        ns: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let look = || async { self.api.get(kind, ns, name).await.unwrap_or(Value::Null) };
        self.until(&format!("{kind} {name}: {what}"), look, |seen| !seen.is_null() && holds(seen)).await
    }

    pub(crate) async fn until_gone(&self, kind: &str, ns: &str, name: &str) {
        let look = || async { self.api.get(kind, ns, name).await.unwrap_or(Value::Null) };
        self.until(&format!("{kind} {name} gone"), look, Value::is_null).await;
    }

    pub(crate) async fn exists(&self, kind: &str, ns: &str, name: &str) -> bool {
        self.api.get(kind, ns, name).await.is_some()
    }

    /// Asks for a sync as `kubectl patch` would.
    pub(crate) async fn ask_sync(&self, name: &str, sync: &Value, change: &Value) -> String {
        let number = self.operations.fetch_add(1, Ordering::Relaxed).to_string();
        let mut operation = json!({"sync": sync, "info": [{"name": "number", "value": number}]});
        merge(&mut operation, change);
        self.patch_app(name, &json!({"operation": operation})).await;
        number
    }

    /// Syncs, and waits for the end; returns the operation's state.
    pub(crate) async fn sync(&self, name: &str, sync: &Value) -> Value {
        let number = self.ask_sync(name, sync, &Value::Null).await;
        self.until_operation(name, &number).await
    }

    /// Waits for the end of an operation that the test asked for; returns its state.
    pub(crate) async fn until_operation(&self, name: &str, number: &str) -> Value {
        let over = |app: &Value| {
            let state = &app["status"]["operationState"];
            state["operation"]["info"][0]["value"] == number && app["operation"].is_null() && is_over(state)
        };
        let mut app = self.until_app(name, "the operation is over", over).await;
        app["status"]["operationState"].take()
    }

    /// Asks for a refresh, and waits until it was made.
    pub(crate) async fn refresh(&self, name: &str, kind: &str) -> Value {
        let annotation = "argocd.argoproj.io/refresh";
        self.patch_app(name, &json!({"metadata": {"annotations": {annotation: kind}}})).await;
        self.until_app(name, "refreshed", |app| app["metadata"]["annotations"][annotation].is_null()).await
    }

    /// Tells the process about a push, as GitHub does.
    pub(crate) async fn announce(&self, repo: &Repo) {
        let url = format!("http://127.0.0.1:{}/api/webhook", self.program.port);
        let page = repo.url.trim_end_matches(".git");
        let payload = json!({"ref": "refs/heads/main", "after": repo.head().await,
            "repository": {"html_url": page, "default_branch": "main"}, "commits": []});
        let headers = [("x-github-event", "push"), ("content-type", "application/json")];
        let answer = self.api.send(Method::POST, &url, &headers, payload.to_string()).await.unwrap();
        assert_eq!(answer.status(), 200);
    }

    /// Commits, pushes and announces.
    pub(crate) async fn push(&self, repo: &Repo, files: &[(&str, &str)]) -> String {
        let commit = repo.commit(files).await;
        self.announce(repo).await;
        commit
    }

    /// Runs a verb in core mode: whether it succeeded, and what it printed.
    pub(crate) async fn command(&self, arguments: &[&str]) -> (bool, String) {
        let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_tiphys"))
            .args(arguments)
            .args(["--core", "-n", &self.cp])
            .env("KUBECONFIG", &self.launch.kubeconfig)
            .env("XDG_CACHE_HOME", self.directory().join("commands"))
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), format!("{}{}", text(&output.stdout), text(&output.stderr)))
    }

    pub(crate) async fn metrics(&self) -> String {
        let url = format!("http://127.0.0.1:{}/metrics", self.program.port);
        let answer = self.api.send(Method::GET, &url, &[], "").await.unwrap();
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    /// Versions of everything a test's namespaces hold, Events and leases aside.
    pub(crate) async fn versions(&self) -> BTreeMap<String, String> {
        const KINDS: [&str; 9] = [
            APPS,
            PROJECTS,
            CONFIG_MAPS,
            "v1/secrets",
            "v1/services",
            "v1/pods",
            crate::api::DEPLOYMENTS,
            crate::api::JOBS,
            "v1/serviceaccounts",
        ];
        let mut all = BTreeMap::new();
        for namespace in &self.namespaces {
            for kind in KINDS {
                for object in self.api.list(kind, namespace).await {
                    let metadata = &object["metadata"];
                    let key = format!("{kind} {namespace}/{}", metadata["name"].as_str().unwrap());
                    all.insert(key, metadata["resourceVersion"].as_str().unwrap().to_owned());
                }
            }
        }
        all
    }

    /// INV-5: nothing is written any more.
    pub(crate) async fn assert_quiet(&self, time: Duration) {
        let mut before = self.versions().await;
        // What goes on in the cluster itself may still settle.
        let deadline = Instant::now() + PATIENCE;
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let now = self.versions().await;
            if now == before {
                break;
            }
            assert!(Instant::now() < deadline, "the namespaces do not settle: {}", difference(&before, &now));
            before = now;
        }
        tokio::time::sleep(time).await;
        let after = self.versions().await;
        assert!(before == after, "something was written: {}", difference(&before, &after));
    }

    /// The end of every test: the process lives, never panicked, and its objects go.
    pub(crate) async fn finish(mut self) {
        assert_eq!(self.program.ended(), None);
        let url = format!("http://127.0.0.1:{}/healthz", self.program.port);
        assert_eq!(self.api.send(Method::GET, &url, &[], "").await.unwrap().status(), 200);
        let log = self.program.log();
        assert!(!log.contains("panicked"), "{log}");
        self.kill().await;
        for app in self.api.list(APPS, &self.cp).await {
            let name = app["metadata"]["name"].as_str().unwrap();
            if app["metadata"]["finalizers"].is_array() {
                self.patch_app(name, &json!({"metadata": {"finalizers": null}})).await;
            }
        }
        for set in self.api.list(SETS, &self.cp).await {
            let name = set["metadata"]["name"].as_str().unwrap();
            self.api.patch(SETS, &self.cp, name, &json!({"metadata": {"finalizers": null}})).await;
        }
        for namespace in &self.namespaces {
            self.api.delete(NAMESPACES, "", namespace).await;
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.program.log();
            let start = log.len().saturating_sub(6000);
            println!("end of the log of {}:\n{}", self.cp, log.get(start..).unwrap_or(&log));
        }
    }
}

fn difference(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> String {
    let changed = after.iter().filter(|(key, version)| before.get(*key) != Some(version));
    let gone = before.iter().filter(|(key, _)| !after.contains_key(*key));
    format!("changed {:?}, gone {:?}", changed.collect::<Vec<_>>(), gone.collect::<Vec<_>>())
}

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

fn settings(namespace: &str, data: &Value) -> Value {
    let labels = json!({"app.kubernetes.io/part-of": "argocd"});
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "namespace": namespace, "labels": labels}, "data": data})
}

fn without_noise(mut seen: Value) -> Value {
    if let Some(metadata) = seen.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    seen
}

/// A JSON merge patch, in place.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(members) = patch.as_object() else {
        if !patch.is_null() {
            *target = patch.clone();
        }
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in members {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name.as_str()], value);
        }
    }
}

pub(crate) fn is_synced(app: &Value) -> bool {
    let status = &app["status"];
    status["sync"]["status"] == "Synced"
        && status["health"]["status"] == "Healthy"
        && app["operation"].is_null()
}

pub(crate) fn is_over(state: &Value) -> bool {
    matches!(state["phase"].as_str(), Some("Succeeded" | "Failed" | "Error"))
}

/// Texts of the conditions of one type.
pub(crate) fn conditions(app: &Value, kind: &str) -> Vec<String> {
    let all = app["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let of_kind = all.iter().filter(|condition| condition["type"] == kind);
    of_kind.map(|condition| condition["message"].as_str().unwrap_or("").to_owned()).collect()
}

/// The entry of an operation's result about an object.
pub(crate) fn result_of(state: &Value, kind: &str, name: &str) -> Value {
    let all = state["syncResult"]["resources"].as_array().cloned().unwrap_or_default();
    all.into_iter().find(|entry| entry["kind"] == kind && entry["name"] == name).unwrap_or(Value::Null)
}
