//! A second control plane, and a way to it that can be cut.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::Api;
use crate::world::World;

const TESTBED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../hack/testbed/testbed");

/// What the way to a cluster does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It carries everything.
    Open,
    /// Nobody listens; what was open is closed.
    Refused,
    /// Everything is accepted, and nothing arrives anywhere.
    Silent,
}

/// Carries bytes to one address.
pub(crate) struct Link {
    pub(crate) port: u16,
    way: watch::Sender<Way>,
    listens: watch::Receiver<bool>,
    task: JoinHandle<()>,
}

impl Link {
    async fn start(address: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (way, seen) = watch::channel(Way::Open);
        let (told, listens) = watch::channel(true);
        let task = tokio::spawn(listen(listener, port, address, seen, told));
        Self { port, way, listens, task }
    }

    /// From now on it does this; the port is closed, or open again, when this returns.
    pub(crate) async fn set(&self, way: Way) {
        self.way.send_replace(way);
        let mut listens = self.listens.clone();
        listens.wait_for(|listens| *listens == (way != Way::Refused)).await.unwrap();
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(
    first: TcpListener,
    port: u16,
    address: String,
    way: watch::Receiver<Way>,
    listens: watch::Sender<bool>,
) {
    let mut next = Some(first);
    let mut changes = way.clone();
    loop {
        let listener = match next.take() {
            Some(listener) => listener,
            None => TcpListener::bind(("127.0.0.1", port)).await.unwrap(),
        };
        listens.send_replace(true);
        loop {
            tokio::select! {
                _refused = changes.wait_for(|way| *way == Way::Refused) => break,
                accepted = listener.accept() => {
                    let (stream, _) = accepted.unwrap();
                    tokio::spawn(carry(stream, address.clone(), way.clone()));
                }
            }
        }
        drop(listener);
        listens.send_replace(false);
        if changes.wait_for(|way| *way != Way::Refused).await.is_err() {
            return;
        }
    }
}

async fn carry(near: TcpStream, address: String, way: watch::Receiver<Way>) {
    let mut opened = way.clone();
    let work = async {
        opened.wait_for(|way| *way == Way::Open).await.ok()?;
        let far = TcpStream::connect(address).await.ok()?;
        let (near_in, near_out) = near.into_split();
        let (far_in, far_out) = far.into_split();
        tokio::join!(pump(near_in, far_out, way.clone()), pump(far_in, near_out, way.clone()));
        Some(())
    };
    let mut cut = way.clone();
    tokio::select! {
        _closed = work => {}
        _cut = cut.wait_for(|way| *way == Way::Refused) => {}
    }
}

async fn pump(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    mut way: watch::Receiver<Way>,
) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count) = from.read(&mut buffer).await {
        if count == 0
            || way.wait_for(|way| *way == Way::Open).await.is_err()
            || to.write_all(&buffer[..count]).await.is_err()
        {
            break;
        }
    }
    drop(to.shutdown().await);
}

/// A control plane of its own; stopped when dropped.
pub(crate) struct Second {
    /// Its own: it has to be there until everything in it has stopped.
    directory: TempDir,
    /// The server behind all links.
    pub(crate) api: Api,
    pub(crate) link: Link,
    kubeconfig: Value,
}

impl Second {
    /// Starts one; says so when the programs are missing.
    pub(crate) async fn start() -> Option<Self> {
        let programs = std::env::var_os("TIPHYS_TEST_PROGRAMS");
        if programs.is_none() {
            println!("skipped: no programs for a second control plane (make test has them)");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        run(directory.path(), &["up", "--no-kwok"]);
        let path = directory.path().join("kubeconfig");
        let kubeconfig: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let server = kubeconfig["clusters"][0]["cluster"]["server"].as_str().unwrap();
        let link = Link::start(server.trim_start_matches("https://").to_owned()).await;
        Some(Self { directory, api: Api::from_kubeconfig(&path), link, kubeconfig })
    }

    /// The URL of the server, by the link.
    pub(crate) fn server(&self) -> String {
        format!("https://127.0.0.1:{}", self.link.port)
    }

    /// A kubeconfig with the installation as the current context, and the second cluster, as `second`, by the link.
    pub(crate) fn kubeconfig_with(&self, world: &World) -> PathBuf {
        let home = std::fs::read_to_string(&world.launch.kubeconfig).unwrap();
        let limits = tiphys_go::yaml::Limits::default();
        let mut config =
            tiphys_go::yaml::parse(&home, tiphys_go::yaml::Dialect::Sigs, &limits).unwrap().unwrap();
        config["contexts"][0]["context"]["namespace"] = json!(world.cp);
        let mut cluster = self.kubeconfig["clusters"][0].clone();
        cluster["name"] = json!("second");
        cluster["cluster"]["server"] = json!(self.server());
        let mut user = self.kubeconfig["users"][0].clone();
        user["name"] = json!("second");
        let context = json!({"name": "second", "context": {"cluster": "second", "user": "second"}});
        for (list, entry) in [("clusters", cluster), ("users", user), ("contexts", context)] {
            config[list].as_array_mut().unwrap().push(entry);
        }
        let path = world.directory().join("both.json");
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        run(self.directory.path(), &["down"]);
    }
}

#[expect(clippy::disallowed_methods, reason = "it ends when it is dropped, where nothing can be awaited")]
fn run(directory: &Path, words: &[&str]) {
    let status = Command::new("python3")
        .arg(TESTBED)
        .args(words)
        .arg(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    if !std::thread::panicking() {
        assert!(status.success(), "testbed {words:?}: {status}");
    }
}
