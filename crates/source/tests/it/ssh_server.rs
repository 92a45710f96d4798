//! A server of git over SSH in the test process: one host key, one key that may come in, fetches and pushes.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use russh::keys::ssh_key::LineEnding;
use russh::keys::{Algorithm, PrivateKey, PublicKey};
use russh::server::{Auth, ChannelOpenHandle, Config, Handler, Msg, Session, VerifiedPublicKey};
use russh::{Channel, ChannelId};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Stops with the value.
pub(crate) struct SshServer {
    port: u16,
    host: PrivateKey,
    client: PrivateKey,
    task: JoinHandle<()>,
}

impl SshServer {
    /// Serves the repositories below `root`.
    pub(crate) async fn start(root: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (host, client) = (generate(), generate());
        let config = Arc::new(Config { keys: vec![host.clone()], ..Config::default() });
        let (root, allowed) = (root.to_owned(), client.public_key().clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = Connection { root: root.clone(), allowed: allowed.clone(), channel: None };
                let config = Arc::clone(&config);
                tokio::spawn(async move {
                    if let Ok(session) = russh::server::run_stream(config, stream, connection).await {
                        // How a client leaves is its own affair.
                        drop(session.await);
                    }
                });
            }
        });
        Self { port, host, client, task }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A line of `known_hosts` for this server.
    pub(crate) fn known_host(&self) -> String {
        known_host(self.port, &self.host)
    }

    /// A line that names another key for this server.
    pub(crate) fn other_host(&self) -> String {
        known_host(self.port, &generate())
    }

    /// The private key that may come in.
    pub(crate) fn client_key(&self) -> String {
        self.client.to_openssh(LineEnding::LF).unwrap().to_string()
    }

    /// A private key that may not.
    pub(crate) fn strange_key() -> String {
        generate().to_openssh(LineEnding::LF).unwrap().to_string()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn generate() -> PrivateKey {
    PrivateKey::random(&mut russh::keys::key::safe_rng(), Algorithm::Ed25519).unwrap()
}

fn known_host(port: u16, key: &PrivateKey) -> String {
    format!("[127.0.0.1]:{port} {}\n", key.public_key().to_openssh().unwrap())
}

struct Connection {
    root: PathBuf,
    allowed: PublicKey,
    channel: Option<Channel<Msg>>,
}

impl Handler for Connection {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, _user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        let is_allowed = key.public_key.key_data() == self.allowed.key_data();
        Ok(if is_allowed { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channel = Some(channel);
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let command = String::from_utf8_lossy(command);
        let asked = ["upload-pack", "receive-pack"].into_iter().find_map(|service| {
            let rest = command.strip_prefix(&format!("git-{service} '"))?;
            Some((service, rest.strip_suffix('\'')?))
        });
        let (Some((service, path)), Some(channel)) = (asked, self.channel.take()) else {
            return session.channel_failure(id);
        };
        session.channel_success(id)?;
        tokio::spawn(serve(service, self.root.join(path.trim_start_matches('/')), channel));
        Ok(())
    }
}

async fn serve(service: &'static str, repository: PathBuf, channel: Channel<Msg>) {
    let mut child = tokio::process::Command::new("git")
        .arg(service)
        .arg(&repository)
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
    let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (mut read, write) = channel.split();
    let receiving = tokio::spawn(async move {
        drop(tokio::io::copy(&mut read.make_reader(), &mut stdin).await);
    });
    let mut writer = write.make_writer();
    drop(tokio::io::copy(&mut stdout, &mut writer).await);
    drop(writer.flush().await);
    let status = child.wait().await.unwrap().code().and_then(|code| u32::try_from(code).ok()).unwrap_or(1);
    drop(write.exit_status(status).await);
    drop(write.eof().await);
    drop(write.close().await);
    receiving.abort();
}
