//! Git over smart HTTP, for cloning and pushing: each request is handed to `git http-backend`.
//!
//! There are no users: any client that reaches the port may push, which is why the demo listens on loopback, where the port
//! answers only requests that name it (a web page elsewhere cannot borrow the browser's way here). A push is announced
//! to the controller as soon as it is stored, like a webhook would.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures::TryStreamExt as _;
use tiphys_control::Controller;
use tiphys_lifecycle::webhook::Push;
use tiphys_source::exec::{self, Invocation, Piped};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio_util::io::{ReaderStream, StreamReader};
use tokio_util::task::TaskTracker;

use super::cgi;
use super::repository::{Repository, environment};
use super::scenario::BRANCH;

/// Path of the repository on the server.
pub(crate) const PATH: &str = "/git/demo.git";
/// Requests that are answered at the same time.
const REQUESTS_MAX: usize = 16;
/// Time that a request waits for its turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time until the head of an answer; a push is stored by then.
const HEAD_TIMEOUT: Duration = Duration::from_mins(2);
/// Time for a whole answer.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
/// Bytes of a request, in transfer form.
const REQUEST_BYTES_MAX: u64 = 256 << 20;
/// Bytes of an answer between git and the client; when full, git waits.
const BUFFER_BYTES: usize = 64 << 10;

/// The server's state. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct GitServer {
    shared: Arc<Shared>,
}

struct Shared {
    root: PathBuf,
    repository: Repository,
    url: String,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    controller: OnceLock<Controller>,
    /// What was announced last, by branch.
    announced: Mutex<BTreeMap<String, String>>,
}

impl GitServer {
    /// Serves `demo.git` below `root`.
    pub(crate) fn new(root: PathBuf, repository: Repository, url: &str) -> Self {
        Self {
            shared: Arc::new(Shared {
                root,
                repository,
                url: url.to_owned(),
                places: Arc::new(Semaphore::new(REQUESTS_MAX)),
                tasks: TaskTracker::new(),
                controller: OnceLock::new(),
                announced: Mutex::default(),
            }),
        }
    }

    /// The routes of the repository.
    pub(crate) fn router(&self) -> Router {
        Router::new()
            .route("/git/demo.git/info/refs", get(answer))
            .route("/git/demo.git/git-upload-pack", post(answer))
            .route("/git/demo.git/git-receive-pack", post(answer))
            .with_state(self.clone())
    }

    /// Pushes go to this controller from now on; what is in the repository already is known to it.
    pub(crate) async fn follow(&self, controller: Controller) -> anyhow::Result<()> {
        *self.shared.announced.lock().await = self.shared.repository.heads().await?;
        // There is one controller; a second call changes nothing.
        drop(self.shared.controller.set(controller));
        Ok(())
    }

    /// Tells the controller which branches moved.
    pub(crate) async fn announce(&self) {
        let mut announced = self.shared.announced.lock().await;
        let heads = match self.shared.repository.heads().await {
            Ok(heads) => heads,
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "a push is not announced; polling will find it");
                return;
            }
        };
        let Some(controller) = self.shared.controller.get() else { return };
        for (branch, commit) in &heads {
            let before = announced.get(branch);
            if before != Some(commit) {
                let push = Push {
                    web_urls: vec![self.shared.url.trim_end_matches(".git").to_owned()],
                    revision: branch.clone(),
                    touched_head: branch == BRANCH,
                    before: before.cloned().unwrap_or_default(),
                    after: commit.clone(),
                    ..Push::default()
                };
                let concerned = controller.pushed(&push);
                tracing::info!(branch, revision = commit, concerned, "push received");
            }
        }
        *announced = heads;
    }

    /// Waits for requests that are being answered.
    pub(crate) async fn stop(&self) {
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }

    /// Starts `git http-backend` for a request; its body is sent meanwhile.
    fn start(&self, request: Request) -> Result<Piped, exec::ExecError> {
        let (head, body) = request.into_parts();
        let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
        let mut environment = environment(&self.shared.root);
        let mut set = |name: &str, value: &str| environment.push((name.into(), OsString::from(value)));
        set("GIT_HTTP_EXPORT_ALL", "1");
        set("GATEWAY_INTERFACE", "CGI/1.1");
        set("PATH_INFO", head.uri.path().strip_prefix("/git").unwrap_or_default());
        set("QUERY_STRING", head.uri.query().unwrap_or(""));
        set("REQUEST_METHOD", head.method.as_str());
        set("CONTENT_TYPE", text("content-type"));
        set("HTTP_CONTENT_ENCODING", text("content-encoding"));
        set("GIT_PROTOCOL", text("git-protocol"));
        if let Some(length) = text("content-length").parse::<u64>().ok().map(|length| length.to_string()) {
            set("CONTENT_LENGTH", &length);
        }
        environment.push(("GIT_PROJECT_ROOT".into(), self.shared.root.clone().into()));
        let mut child = exec::start(&Invocation {
            program: "git".into(),
            arguments: vec!["http-backend".into()],
            environment,
            directory: self.shared.root.clone(),
            deadline: ANSWER_TIMEOUT,
            grace: Duration::ZERO,
            stdout_bytes_max: 0,
            limits: exec::Limits::default(),
        })?;
        if let Some(mut stdin) = child.take_stdin() {
            let body = body.into_data_stream().map_err(std::io::Error::other);
            let mut body = Box::pin(StreamReader::new(body)).take(REQUEST_BYTES_MAX);
            self.shared.tasks.spawn(async move {
                // Git says in its answer what it missed; a client that went away needs none.
                let sent = tokio::time::timeout(ANSWER_TIMEOUT, tokio::io::copy(&mut body, &mut stdin)).await;
                tracing::trace!(?sent, "request sent to git");
            });
        }
        Ok(child)
    }

    /// Passes the rest of an answer on, waits for the end of git, and announces what was pushed.
    async fn finish(
        self,
        child: Piped,
        mut output: impl AsyncRead + Unpin,
        mut client: tokio::io::DuplexStream,
        is_push: bool,
        place: OwnedSemaphorePermit,
    ) {
        let passed = tokio::time::timeout(ANSWER_TIMEOUT, tokio::io::copy(&mut output, &mut client)).await;
        if !matches!(passed, Ok(Ok(_))) {
            tracing::debug!("the client of the Git server went away");
        }
        drop(output);
        match tokio::time::timeout(HEAD_TIMEOUT, child.finish()).await {
            Ok(Ok(end)) if end.code == Some(0) => {}
            Ok(Ok(end)) => tracing::warn!(code = end.code, stderr = end.stderr, "git http-backend failed"),
            Ok(Err(error)) => tracing::warn!(%error, "git http-backend failed"),
            Err(_) => tracing::warn!("git http-backend does not end and is killed"),
        }
        if is_push {
            self.announce().await;
        }
        // The client sees the end of its push when it was announced.
        drop(client.shutdown().await);
        drop(place);
    }
}

async fn answer(State(server): State<GitServer>, request: Request) -> Response {
    let turn = Arc::clone(&server.shared.places).acquire_owned();
    let Ok(Ok(place)) = tokio::time::timeout(TURN_TIMEOUT, turn).await else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too many requests at once; try again\n");
    };
    let is_push = request.uri().path().ends_with("/git-receive-pack");
    let started = server.start(request);
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            tracing::error!(%error, "git http-backend cannot be started");
            return refuse(StatusCode::INTERNAL_SERVER_ERROR, "git cannot be started\n");
        }
    };
    let Some(mut output) = child.take_stdout() else {
        return refuse(StatusCode::INTERNAL_SERVER_ERROR, "git has no output\n");
    };
    let head = tokio::time::timeout(HEAD_TIMEOUT, cgi::read_head(&mut output)).await.ok().flatten();
    let Some(head) = head else {
        let said = tokio::time::timeout(Duration::from_secs(1), child.finish()).await;
        let stderr = said.ok().and_then(Result::ok).map(|end| end.stderr).unwrap_or_default();
        tracing::warn!(stderr, "git http-backend gave no answer");
        return refuse(StatusCode::BAD_GATEWAY, "git gave no answer\n");
    };
    let (ours, theirs) = tokio::io::duplex(BUFFER_BYTES);
    let rest = std::io::Cursor::new(head.body).chain(output);
    server.shared.tasks.spawn(server.clone().finish(child, rest, ours, is_push, place));
    let mut response = Response::new(Body::from_stream(ReaderStream::new(theirs)));
    *response.status_mut() = head.status;
    *response.headers_mut() = head.headers;
    response
}

fn refuse(status: StatusCode, text: &'static str) -> Response {
    (status, text).into_response()
}
