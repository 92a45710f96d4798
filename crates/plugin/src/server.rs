//! The server of a plugin: listens on a socket, and runs the plugin's commands on the files that it is sent.
//!
//! It is what stands in a sidecar, whoever asks: this program's controller, or another that speaks the protocol.

mod commands;
mod serve;

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::{Config, ConfigError};
use crate::options::{SOCKETS, message_bytes_max};

/// Where the configuration is when nobody says otherwise (RND-131).
pub const CONFIG_DIRECTORY: &str = "/home/argocd/cmp-server/config";
/// Name of the configuration.
const CONFIG_FILE: &str = "plugin.yaml";
/// The directory of files that were sent.
const WORK: &str = "_cmp_server";
/// Connections at a time.
const CONNECTIONS_MAX: usize = 256;
/// How long calls may go on when the server is asked to end.
const GRACE: Duration = Duration::from_secs(10);

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Its configuration cannot be read.
    #[error("cannot read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// Its configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A directory or the socket cannot be made.
    #[error("cannot make {0}: {1}")]
    Make(PathBuf, std::io::Error),
    /// A variable of the environment is wrong.
    #[error("{0}")]
    Environment(String),
}

/// What a server needs to know.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The plugin.
    pub config: Config,
    /// The directory of sockets.
    pub sockets: PathBuf,
    /// The directory of files that are sent; emptied at the start.
    pub work: PathBuf,
    /// The environment of commands.
    pub environment: Vec<(String, String)>,
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// Time between asking a command to end and killing it (RND-135).
    pub grace: Duration,
}

impl ServerOptions {
    /// Reads the configuration, and what the environment says.
    ///
    /// # Errors
    /// When the configuration is missing or wrong.
    pub fn read(
        config_directory: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ServerError> {
        let path = config_directory.join(CONFIG_FILE);
        let text = fs::read_to_string(&path).map_err(|error| ServerError::Read(path, error))?;
        let environment: Vec<(String, String)> = environment.into_iter().collect();
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
            found.filter(|value| !value.is_empty())
        };
        let above = variable("ARGOCD_CMP_WORKDIR").or_else(|| variable("TMPDIR")).unwrap_or("/tmp");
        let bytes = message_bytes_max(variable("ARGOCD_GRPC_MAX_SIZE_MB"));
        Ok(Self {
            config: Config::read(&text)?,
            sockets: variable("ARGOCD_PLUGINSOCKFILEPATH").unwrap_or(SOCKETS).into(),
            work: Path::new(above).join(WORK),
            message_bytes_max: bytes.map_err(ServerError::Environment)?,
            environment,
            grace: Duration::from_secs(5),
        })
    }

    /// The socket (RND-127).
    pub fn socket(&self) -> PathBuf {
        self.sockets.join(format!("{}.sock", self.config.socket()))
    }
}

/// A server that listens.
pub struct Server {
    listener: UnixListener,
    options: std::sync::Arc<ServerOptions>,
}

impl Server {
    /// Empties the directory of files and opens the socket.
    ///
    /// # Errors
    /// When one of them cannot be made.
    pub fn open(options: ServerOptions) -> Result<Self, ServerError> {
        let make = |path: &Path, error| ServerError::Make(path.to_owned(), error);
        match fs::remove_dir_all(&options.work) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(make(&options.work, error));
            }
            _ => {}
        }
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(&options.work).map_err(|error| make(&options.work, error))?;
        let socket = options.socket();
        // One of a server that ended without saying so is in the way; a file of somebody else's stays.
        if fs::symlink_metadata(&socket).is_ok_and(|metadata| metadata.file_type().is_socket()) {
            fs::remove_file(&socket).map_err(|error| make(&socket, error))?;
        }
        let listener = UnixListener::bind(&socket).map_err(|error| make(&socket, error))?;
        Ok(Self { listener, options: options.into() })
    }

    /// Answers until it is asked to end; calls that are under way have some seconds left.
    pub async fn run(self, stopping: CancellationToken) {
        let Self { listener, options } = self;
        let calls = std::sync::Arc::new(serve::Calls::new(std::sync::Arc::clone(&options)));
        let places = std::sync::Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
        let tasks = TaskTracker::new();
        loop {
            // Cancel-safe: whoever was not accepted waits in the line of the socket.
            let accepted = tokio::select! {
                () = stopping.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let place = std::sync::Arc::clone(&places).acquire_owned().await;
            match (accepted, place) {
                (Ok((stream, _)), Ok(place)) => {
                    let (calls, stopping) = (std::sync::Arc::clone(&calls), stopping.clone());
                    tasks.spawn(async move {
                        serve::connection(stream, calls, stopping).await;
                        drop(place);
                    });
                }
                (Err(error), _) => {
                    tracing::warn!(error = %error, "a connection is not accepted");
                    // The system has no room: nobody is helped by asking again at once.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                (_, Err(_closed)) => break,
            }
        }
        tasks.close();
        if tokio::time::timeout(GRACE, tasks.wait()).await.is_err() {
            tracing::warn!("calls are cut off");
        }
        // The next one makes its own.
        drop(fs::remove_file(options.socket()));
        drop(fs::remove_dir_all(&options.work));
    }
}
