//! A demo under test.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use crate::api::{APPS, Api};

/// Demos that run at the same time.
static ROOM: Semaphore = Semaphore::const_new(2);
/// Longest time anything may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(5);
/// Time between two looks.
pub(crate) const POLL: Duration = Duration::from_millis(30);
/// Lines of the text that says that a demo is ready.
const READY_LINES: usize = 6;

/// A place for temporary directories.
pub(crate) struct Place {
    pub(crate) temporary: TempDir,
    _room: SemaphorePermit<'static>,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let room = ROOM.acquire().await.unwrap();
        Self { temporary: tempfile::tempdir().unwrap(), _room: room }
    }

    pub(crate) fn path(&self) -> &Path {
        self.temporary.path()
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiphys"));
        command
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", self.path())
            .env("HOME", "/nonexistent")
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs to the end.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Output {
        timeout(PATIENCE, self.command(arguments).output()).await.expect("it ends").unwrap()
    }

    /// Runs a verb that succeeds; returns what it says.
    pub(crate) async fn verb(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// Runs something that is refused; returns what it says.
    pub(crate) async fn refused(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments).await;
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert_eq!(output.stdout, b"", "{arguments:?}");
        text
    }

    /// Names of what is in the temporary directory.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

/// A running demo; killed when dropped.
pub(crate) struct Demo {
    child: Child,
    stdout: BufReader<ChildStdout>,
    /// What it said when it was ready, line by line.
    pub(crate) ready: Vec<String>,
    pub(crate) api: Api,
}

impl Demo {
    /// Starts one and waits until it is ready.
    pub(crate) async fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut child =
            place.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ready = Vec::new();
        let reading = async {
            for _ in 0..READY_LINES {
                let mut line = String::new();
                stdout.read_line(&mut line).await.unwrap();
                ready.push(line.trim_end().to_owned());
            }
        };
        timeout(PATIENCE, reading).await.expect("the demo is ready in time");
        if ready[0].is_empty() {
            let mut said = String::new();
            child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
            panic!("the demo did not start: {said}");
        }
        let kubeconfig = fact(&ready, "kubectl").replace("export KUBECONFIG=", "");
        let api = Api::from_kubeconfig(Path::new(&kubeconfig));
        Self { child, stdout, ready, api }
    }

    /// What it says from now on, up to a line that begins so.
    pub(crate) async fn told_until(&mut self, end: &str) -> Vec<String> {
        let mut told = Vec::new();
        let reading = async {
            loop {
                let mut line = String::new();
                assert!(self.stdout.read_line(&mut line).await.unwrap() > 0, "it ended: {told:#?}");
                if line.starts_with(end) {
                    return;
                }
                told.push(line.trim_end().to_owned());
            }
        };
        timeout(PATIENCE, reading).await.expect("it is told in time");
        told
    }

    /// Address of the repository.
    pub(crate) fn git(&self) -> String {
        fact(&self.ready, "Git").split(' ').next().unwrap().to_owned()
    }

    pub(crate) fn directory(&self) -> PathBuf {
        let kubeconfig = fact(&self.ready, "kubectl").replace("export KUBECONFIG=", "");
        Path::new(&kubeconfig).parent().unwrap().to_owned()
    }

    pub(crate) fn port(&self) -> u16 {
        let url = self.git();
        url.split(['/', ':']).find_map(|part| part.parse().ok()).unwrap()
    }

    pub(crate) async fn app(&self, name: &str) -> Value {
        self.api.get(APPS, "argocd", name).await.unwrap_or(Value::Null)
    }

    /// Waits until an object satisfies the test; returns it. What is not there is null.
    pub(crate) async fn until(
        &self,
        kind: &str,
        namespace: &str,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.api.get(kind, namespace, name).await.unwrap_or(Value::Null);
            if holds(&seen) {
                return seen;
            }
            assert!(Instant::now() < deadline, "{name} never {what}; last seen: {:#}", seen["status"]);
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until an Application shows this sync and health status.
    pub(crate) async fn until_app(&self, name: &str, sync: &str, health: &str) -> Value {
        let shows = |app: &Value| {
            app["status"]["sync"]["status"] == sync && app["status"]["health"]["status"] == health
        };
        self.until(APPS, "argocd", name, &format!("{sync} and {health}"), shows).await
    }

    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Ends it with a signal; it must end well and say nothing more.
    pub(crate) async fn stop(mut self, signal: rustix::process::Signal) {
        let process = i32::try_from(self.child.id().unwrap()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(process).unwrap(), signal).unwrap();
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it stops").unwrap();
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).await.unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        assert_eq!((status.code(), status.signal()), (Some(0), None), "{said}");
        assert_eq!(rest, "", "more on standard output");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// What a line of the ready text says.
fn fact(ready: &[String], name: &str) -> String {
    let line = ready.iter().find(|line| line.starts_with(&format!("  {name} "))).unwrap();
    line.trim_start().trim_start_matches(name).trim().to_owned()
}

/// A clone of the demo's repository.
pub(crate) struct Clone(PathBuf);

impl Clone {
    pub(crate) async fn of(demo: &Demo, path: &Path) -> Self {
        git(Path::new("/"), &["clone", "-q", &demo.git(), path.to_str().unwrap()]).await;
        Self(path.to_owned())
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.0.join(path)).unwrap()
    }

    /// Commits a change and pushes it; no text removes the file.
    pub(crate) async fn push(&self, path: &str, text: Option<&str>) {
        let file = self.0.join(path);
        match text {
            Some(text) => {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
            None => std::fs::remove_file(file).unwrap(),
        }
        git(&self.0, &["add", "-A"]).await;
        git(&self.0, &["commit", "-q", "-m", "change"]).await;
        git(&self.0, &["push", "-q", "origin", "HEAD:main"]).await;
    }

    pub(crate) async fn pull(&self) {
        git(&self.0, &["pull", "-q"]).await;
    }
}

pub(crate) async fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .current_dir(directory)
        .args(arguments)
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .envs([("GIT_AUTHOR_NAME", "Ada"), ("GIT_AUTHOR_EMAIL", "ada@example.test")])
        .envs([("GIT_COMMITTER_NAME", "Ada"), ("GIT_COMMITTER_EMAIL", "ada@example.test")])
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}
