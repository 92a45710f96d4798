//! A server of HTTP/1.1 that answers by method and target, and remembers what it was asked.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which the lints do not recognise")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};
use tiphys_api::secret::Secret;
use tiphys_scm::{
    Credentials, Limits, PullRequest, PullRequestGenerator, Repository, Request, Scm, ScmError, ScmGenerator,
    ScmOptions, SetName,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A question as it came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub method: String,
    /// Path and query, as they were sent.
    pub target: String,
    pub headers: BTreeMap<String, String>,
    pub body: String,
}

/// What is answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// The body never ends.
    pub stalls: bool,
}

pub(crate) fn ok(body: impl Into<Value>) -> Reply {
    Reply { status: 200, body: body.into().to_string(), ..Reply::default() }
}

pub(crate) fn status(status: u16) -> Reply {
    Reply { status, body: "{}".to_owned(), ..Reply::default() }
}

impl Reply {
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

type Answers = dyn Fn(&Asked) -> Reply + Send + Sync;

/// The server.
pub(crate) struct Double {
    pub url: String,
    pub port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Double {
    /// Answers over plain HTTP.
    pub(crate) async fn start(answers: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::listen(answers, None).await
    }

    /// Answers over TLS, or plain HTTP.
    pub(crate) async fn listen(
        answers: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
        tls: Option<tokio_rustls::TlsAcceptor>,
    ) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let (noted, answers): (_, Arc<Answers>) = (Arc::clone(&asked), Arc::new(answers));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (noted, answers, tls) = (Arc::clone(&noted), Arc::clone(&answers), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &noted, &*answers).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &noted, &*answers).await;
                            }
                        }
                    }
                });
            }
        });
        Self { url: format!("{scheme}://127.0.0.1:{port}"), port, asked }
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Methods and targets of what it was asked.
    pub(crate) fn targets(&self) -> Vec<String> {
        self.asked().iter().map(|asked| format!("{} {}", asked.method, asked.target)).collect()
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    noted: &Mutex<Vec<Asked>>,
    answers: &Answers,
) {
    let mut bytes = Vec::new();
    let asked = loop {
        let mut part = [0; 8192];
        let read = stream.read(&mut part).await.unwrap_or(0);
        bytes.extend(part.iter().take(read));
        if let Some(asked) = whole(&bytes) {
            break asked;
        }
        if read == 0 {
            return;
        }
    };
    noted.lock().unwrap().push(asked.clone());
    let reply = answers(&asked);
    let length = if reply.stalls { reply.body.len() + 1_000_000 } else { reply.body.len() };
    let mut head = format!("HTTP/1.1 {} X\r\nconnection: close\r\n", reply.status);
    if reply.status != 204 {
        head += &format!("content-length: {length}\r\n");
    }
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    let _sent = stream.write_all(format!("{head}\r\n").as_bytes()).await;
    if asked.method != "HEAD" {
        let _sent = stream.write_all(reply.body.as_bytes()).await;
    }
    let _flushed = stream.flush().await;
    if reply.stalls {
        std::future::pending::<()>().await;
    }
    let _closed = stream.shutdown().await;
}

/// The request, once all of it is there.
fn whole(bytes: &[u8]) -> Option<Asked> {
    let text = String::from_utf8_lossy(bytes);
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    (body.len() >= length).then(|| Asked {
        method: first.next().unwrap_or_default().to_owned(),
        target: first.next().unwrap_or_default().to_owned(),
        headers,
        body: body.to_owned(),
    })
}

/// Short times, so that what never answers is found out.
pub(crate) fn limits() -> Limits {
    Limits { request: Duration::from_secs(5), total: Duration::from_secs(20), ..Limits::default() }
}

pub(crate) fn options() -> ScmOptions {
    ScmOptions { limits: limits(), ..ScmOptions::default() }
}

pub(crate) fn token(token: &str) -> Credentials {
    Credentials { token: Some(Secret::from(token)), ..Credentials::default() }
}

pub(crate) fn password(password: &str) -> Credentials {
    Credentials { password: Some(Secret::from(password)), ..Credentials::default() }
}

pub(crate) fn block(block: &Value) -> Map<String, Value> {
    let Value::Object(block) = block else { panic!("{block} is no block") };
    block.clone()
}

pub(crate) async fn repositories_with(
    options: ScmOptions,
    generator: &Value,
    credentials: &Credentials,
) -> Result<Vec<Repository>, ScmError> {
    let generator = ScmGenerator::read(&block(generator))?;
    let set = SetName { namespace: "argocd".to_owned(), name: "set".to_owned() };
    Scm::new(options).repositories(Request { generator: &generator, credentials, set: &set }).await
}

pub(crate) async fn repositories(
    generator: &Value,
    credentials: &Credentials,
) -> Result<Vec<Repository>, ScmError> {
    repositories_with(options(), generator, credentials).await
}

pub(crate) async fn pull_requests(
    generator: &Value,
    credentials: &Credentials,
) -> Result<Vec<PullRequest>, ScmError> {
    let generator = PullRequestGenerator::read(&block(generator))?;
    let set = SetName { namespace: "argocd".to_owned(), name: "set".to_owned() };
    Scm::new(options()).pull_requests(Request { generator: &generator, credentials, set: &set }).await
}

/// `name@branch` of each.
pub(crate) fn shown(found: &[Repository]) -> Vec<String> {
    found.iter().map(|one| format!("{}@{}", one.repository, one.branch)).collect()
}
