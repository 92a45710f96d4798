//! `tiphys cmp-server`, and this program under the name `argocd-cmp-server`: serves a config management plugin (RND-127,
//! CLI-1).

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use tiphys_plugin::server::{CONFIG_DIRECTORY, Server, ServerOptions};
use tiphys_process::runtime::fail;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The name.
pub(crate) const NAME: &str = "argocd-cmp-server";

const HELP: &str = "\
Serve a config management plugin: read plugin.yaml, listen on <name>[-<version>].sock, and run its commands.

Usage:
  tiphys cmp-server [--config-dir-path DIR] [--loglevel LEVEL] [--logformat text|json]

Flags:
  --config-dir-path  directory of plugin.yaml (default /home/argocd/cmp-server/config)
  --loglevel         debug, info, warn or error (default info)
  --logformat        text or json (default text)

Environment:
  ARGOCD_PLUGINSOCKFILEPATH  directory of the socket (default /home/argocd/cmp-server/plugins)
  ARGOCD_CMP_WORKDIR         where files that are sent stand (default TMPDIR, or /tmp)
  ARGOCD_GRPC_MAX_SIZE_MB    size of one message (default 100)
";

/// Serves until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let mut directory = CONFIG_DIRECTORY.to_owned();
    let (mut level, mut format) = ("info".to_owned(), "text".to_owned());
    let mut words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
    while let Some(word) = words.next() {
        let (flag, inline) = match word.split_once('=') {
            Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
            None => (word, None),
        };
        let place = match flag.as_str() {
            "--config-dir-path" => &mut directory,
            "--loglevel" => &mut level,
            "--logformat" => &mut format,
            "--help" | "-h" | "help" => return crate::print(HELP),
            other => return fail(&format!("unknown flag {other:?}; see tiphys cmp-server --help"), 1),
        };
        match inline.or_else(|| words.next()) {
            Some(value) => *place = value,
            None => return fail(&format!("{flag} needs a value"), 1),
        }
    }
    if let Err(text) = log_to_stderr(&level, &format) {
        return fail(&text, 1);
    }
    let options = ServerOptions::read(Path::new(&directory), crate::environment());
    let options = match options {
        Ok(options) => options,
        Err(error) => return fail(&error.to_string(), 20),
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("the runtime does not start: {error}"), 20),
    };
    let served = runtime.block_on(async {
        let socket = options.socket();
        // Asked for before the socket is there: whoever sees it may end this process.
        let (Ok(mut terminate), Ok(mut interrupt)) =
            (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
        else {
            return Err("signals cannot be awaited".to_owned());
        };
        let server = Server::open(options).map_err(|error| error.to_string())?;
        tracing::info!(socket = %socket.display(), "the plugin is served");
        let stopping = CancellationToken::new();
        let stop = stopping.clone();
        let asked = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            stop.cancel();
        };
        tokio::join!(server.run(stopping), asked);
        Ok(())
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => fail(&text, 20),
    }
}

fn log_to_stderr(level: &str, format: &str) -> Result<(), String> {
    let level: tracing::Level =
        level.parse().map_err(|_unknown| format!("--loglevel {level:?} is no level"))?;
    let builder =
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false);
    match format {
        "text" => builder.init(),
        "json" => builder.json().init(),
        other => return Err(format!("--logformat {other:?} is neither text nor json")),
    }
    Ok(())
}
