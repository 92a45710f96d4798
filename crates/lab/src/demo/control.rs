//! How the verbs reach a running demo: one request and one answer, each a line of JSON, over a Unix socket in
//! the demo's directory (CLI-1003). Only the user who runs the demo is answered.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;

use super::directory::{is_locked, running};
use super::options::{Manipulate, Verb};
use super::verbs::Running;

const SOCKET: &str = "control.sock";
/// Longest path that a socket's address holds on every system.
const PATH_BYTES_MAX: usize = 100;
/// Bytes of a request or an answer.
const LINE_BYTES_MAX: u64 = 64 * 1024;
/// Time for a request to arrive.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for the work, and on the other side for the answer.
const WORK_TIMEOUT: Duration = Duration::from_secs(30);

/// What a client wants.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) app: String,
    pub(crate) action: Action,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    Break,
    Fix,
    Drift,
    Scale(Option<u32>),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Lines(Vec<String>),
    Error(String),
}

/// Answers verbs until cancelled, one after the other: they change one repository.
pub(crate) async fn serve(listener: UnixListener, demo: Running, cancel: CancellationToken) {
    loop {
        let stream = tokio::select! {
            () = cancel.cancelled() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a verb did not reach the demo");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        if let Err(error) = answer(stream, &demo).await {
            tracing::debug!(error = format!("{error:#}"), "a verb was not answered");
        }
    }
}

async fn answer(stream: UnixStream, demo: &Running) -> anyhow::Result<()> {
    let user = rustix::process::getuid().as_raw();
    if ![user, 0].contains(&stream.peer_cred()?.uid()) {
        bail!("another user");
    }
    let (reading, mut writing) = stream.into_split();
    let mut line = String::new();
    let mut reading = BufReader::new(reading).take(LINE_BYTES_MAX);
    tokio::time::timeout(REQUEST_TIMEOUT, reading.read_line(&mut line)).await??;
    let answer = match serde_json::from_str::<Request>(&line) {
        Ok(request) => match tokio::time::timeout(WORK_TIMEOUT, demo.act(&request)).await {
            Ok(Ok(lines)) => Answer::Lines(lines),
            Ok(Err(error)) => Answer::Error(format!("{error:#}")),
            Err(_) => Answer::Error(format!("it took longer than {} s", WORK_TIMEOUT.as_secs())),
        },
        Err(_) => Answer::Error("the demo is of another version of tiphys and does not know this".to_owned()),
    };
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    writing.write_all(&line).await?;
    Ok(())
}

/// Listens in a directory.
pub(crate) fn listen(directory: &Path) -> anyhow::Result<UnixListener> {
    let (_open, path) = socket(directory)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).context("cannot replace the control socket");
        }
        _ => {}
    }
    let listener = UnixListener::bind(&path).context("cannot create the control socket")?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// The way to the socket; through the open directory where its own path is too long for an address.
fn socket(directory: &Path) -> anyhow::Result<(File, PathBuf)> {
    let open = File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    let path = directory.join(SOCKET);
    if path.as_os_str().as_bytes().len() <= PATH_BYTES_MAX {
        return Ok((open, path));
    }
    let path = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())).join(SOCKET);
    Ok((open, path))
}

/// Asks a running demo; returns what it did, as lines for the user. `program` is how the user called us.
pub(crate) async fn ask(verb: &Verb, program: &str, temporary: &Path) -> anyhow::Result<Vec<String>> {
    let (manipulate, action) = match verb {
        Verb::Break(manipulate) => (manipulate, Action::Break),
        Verb::Fix(manipulate) => (manipulate, Action::Fix),
        Verb::Drift(manipulate) => (manipulate, Action::Drift),
        Verb::Scale { manipulate, replicas } => (manipulate, Action::Scale(*replicas)),
    };
    let directory = find(manipulate, program, temporary)?;
    let request = Request { app: manipulate.app.clone(), action };
    let text = tokio::time::timeout(WORK_TIMEOUT, send(&directory, &request))
        .await
        .context("the demo does not answer")?
        .with_context(|| format!("cannot speak with the demo in {}", directory.display()))?;
    // Where the directory had to be named it has to be named again.
    let data =
        manipulate.data.as_ref().map_or_else(String::new, |data| format!(" --data {}", data.display()));
    let words = |text: String| text.replace("{program}", program).replace("{data}", &data);
    match serde_json::from_str::<Answer>(&text).context("the demo's answer cannot be read")? {
        Answer::Lines(lines) => Ok(lines.into_iter().map(words).collect()),
        Answer::Error(text) => Err(anyhow::Error::msg(words(text))),
    }
}

async fn send(directory: &Path, request: &Request) -> anyhow::Result<String> {
    let (_open, path) = socket(directory)?;
    let mut stream = UnixStream::connect(path).await?;
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    let mut text = String::new();
    stream.take(LINE_BYTES_MAX).read_to_string(&mut text).await?;
    Ok(text)
}

/// The directory of the demo that is meant.
fn find(manipulate: &Manipulate, program: &str, temporary: &Path) -> anyhow::Result<PathBuf> {
    if let Some(data) = &manipulate.data {
        if !is_locked(data) {
            bail!("no demo runs in {}; start it with `{program} demo --data {0}`", data.display());
        }
        return Ok(data.clone());
    }
    let mut found = running(temporary);
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => Ok(only),
        (None, _) => bail!(
            "no demo is running; start one with `{program} demo`, or name its directory with --data if it has one"
        ),
        (Some(last), false) => {
            found.push(last);
            let list: Vec<_> = found.iter().map(|path| path.display().to_string()).collect();
            bail!("{} demos are running; say which one with --data: {}", list.len(), list.join(", "))
        }
    }
}
