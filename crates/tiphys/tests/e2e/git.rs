//! Git repositories of a test, and a web server in front of `git http-backend` that serves them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::Response;
use base64::Engine as _;
use http::{HeaderMap, Method, Uri};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Serves the bare repositories of a folder.
pub(crate) struct GitServer {
    root: PathBuf,
    port: u16,
    task: JoinHandle<()>,
    guard: Arc<Mutex<Guard>>,
}

/// Who may read which repository; those that are not named are open.
#[derive(Default)]
struct Guard {
    /// What may stand in the `Authorization` header, and whose it is, by repository.
    accepted: BTreeMap<String, BTreeMap<String, String>>,
    /// Users who logged in, by repository.
    logins: BTreeMap<String, Vec<String>>,
}

impl Guard {
    /// Whether a request is let through.
    fn admits(&mut self, path: &str, authorization: &str) -> bool {
        let Some((name, accepted)) =
            self.accepted.iter().find(|(name, _)| path.starts_with(&format!("/{name}.git/")))
        else {
            return true;
        };
        let Some(user) = accepted.get(authorization) else { return false };
        self.logins.entry(name.clone()).or_default().push(user.clone());
        true
    }
}

impl GitServer {
    pub(crate) async fn start(root: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let guard = Arc::<Mutex<Guard>>::default();
        let router = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::disable())
            .with_state((Arc::new(root.to_owned()), Arc::clone(&guard)));
        let task = tokio::spawn(async move {
            drop(axum::serve(listener, router).await);
        });
        Self { root: root.to_owned(), port, task, guard }
    }

    /// From now on a repository is read with one of these names and passwords.
    pub(crate) fn require(&self, name: &str, logins: &[(&str, &str)]) {
        let header = |(user, password): &(&str, &str)| {
            let text = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"));
            (format!("Basic {text}"), (*user).to_owned())
        };
        let accepted = logins.iter().map(header).collect();
        self.guard.lock().unwrap().accepted.insert(name.to_owned(), accepted);
    }

    /// Who has read a repository that asks.
    pub(crate) fn logins(&self, name: &str) -> Vec<String> {
        self.guard.lock().unwrap().logins.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}.git", self.port)
    }
}

impl Drop for GitServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    State((root, guard)): State<(Arc<PathBuf>, Arc<Mutex<Guard>>)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let header =
        |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned();
    if !guard.lock().unwrap().admits(uri.path(), &header("authorization")) {
        let refusal = Response::builder().status(401).header("www-authenticate", "Basic realm=\"git\"");
        return refusal.body(Vec::new().into()).unwrap();
    }
    let mut child = tokio::process::Command::new("git")
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root.as_path())
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("PATH_INFO", uri.path())
        .env("QUERY_STRING", uri.query().unwrap_or(""))
        .env("REQUEST_METHOD", method.as_str())
        .env("CONTENT_TYPE", header("content-type"))
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .env("HOME", "/dev/null")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = tokio::spawn(async move { stdin.write_all(&body).await });
    let output = child.wait_with_output().await.unwrap();
    drop(writer.await);
    let end = output.stdout.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(0);
    let (head, body) = output.stdout.split_at(end);
    let mut response = Response::builder();
    for line in String::from_utf8_lossy(head).lines() {
        match line.split_once(": ") {
            Some(("Status", text)) => {
                response = response.status(text.split(' ').next().unwrap().parse::<u16>().unwrap());
            }
            Some((name, value)) => response = response.header(name, value),
            None => {}
        }
    }
    response.body(body.get(4..).unwrap_or(b"").to_vec().into()).unwrap()
}

/// A bare repository with a work tree beside it.
pub(crate) struct Repo {
    pub(crate) url: String,
    tree: PathBuf,
}

impl Repo {
    /// A repository with one commit on `main` that holds these files.
    pub(crate) async fn create(server: &GitServer, name: &str, files: &[(&str, &str)]) -> Self {
        let bare = server.root.join(format!("{name}.git"));
        let tree = server.root.join(format!("{name}-tree"));
        std::fs::create_dir_all(&bare).unwrap();
        std::fs::create_dir_all(&tree).unwrap();
        git(&bare, &["init", "-q", "--bare", "-b", "main", "."]).await;
        git(&tree, &["init", "-q", "-b", "main", "."]).await;
        git(&tree, &["remote", "add", "origin", bare.to_str().unwrap()]).await;
        let repo = Self { url: server.url(name), tree };
        repo.commit(files).await;
        repo
    }

    /// Commits these files and pushes; an empty text removes the file. Returns the commit.
    pub(crate) async fn commit(&self, files: &[(&str, &str)]) -> String {
        for (path, text) in files {
            let file = self.tree.join(path);
            if text.is_empty() {
                std::fs::remove_file(file).unwrap();
            } else {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, text).unwrap();
            }
        }
        git(&self.tree, &["add", "-A"]).await;
        git(&self.tree, &["commit", "-q", "--allow-empty", "-m", "change"]).await;
        git(&self.tree, &["push", "-q", "origin", "HEAD:main"]).await;
        self.head().await
    }

    pub(crate) async fn head(&self) -> String {
        git(&self.tree, &["rev-parse", "HEAD"]).await
    }
}

pub(crate) async fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = tokio::process::Command::new("git")
        .current_dir(directory)
        .args(arguments)
        .env("HOME", "/dev/null")
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
