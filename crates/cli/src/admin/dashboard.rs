//! `admin dashboard`: the API and the web interface in this process, for whoever has the kubeconfig (CLI-903).
//!
//! The server itself is the program's, which hands it in ([`crate::Own`]); here is how it is asked for.

use std::cell::RefCell;
use std::path::PathBuf;

use tiphys_cluster::KubeOverrides;

use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::session::{self, Ended, OK, Session};
use crate::terminal::Terminal;

const FLAGS: &[Flag] = &[
    flag("port", Kind::Uint, "8080", "Port to answer on"),
    flag("address", Kind::Text, "localhost", "Address to answer on"),
];

/// The command.
pub(super) const COMMAND: Command<()> = Command::new(
    (),
    ("dashboard", ""),
    "Answer the API and the web interface here, without a login",
    &[FLAGS],
    (0, 0),
);

/// A server for one person.
#[derive(Clone, Debug)]
pub struct Panel {
    /// Path of the kubeconfig; the usual place without one.
    pub kubeconfig: Option<PathBuf>,
    /// Its context.
    pub context: Option<String>,
    /// What counts instead of it.
    pub overrides: KubeOverrides,
    /// Namespace of the installation.
    pub namespace: String,
    /// Address to answer on: a name or numbers.
    pub address: String,
    /// Port to answer on.
    pub port: u16,
    /// Whether the log tells everything.
    pub is_verbose: bool,
}

/// Runs a server until it is stopped, and says the exit code.
pub type Dashboard = fn(Panel) -> u8;

/// Runs the command and says the exit code.
pub(super) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    let found = RefCell::new(None);
    // The server has threads of its own, and begins when those of the command have ended.
    let code = session::run_command(terminal, args, ("admin", &COMMAND), async |session, ()| {
        let panel = Box::pin(panel(session)).await?;
        found.replace(Some(panel));
        Ok::<Ended, Failure>(OK)
    });
    match (found.into_inner(), terminal.dashboard) {
        (Some(panel), Some(dashboard)) => dashboard(panel),
        _ => code,
    }
}

async fn panel(session: &Session<'_>) -> Result<Panel, Failure> {
    let flags = session.flags;
    let port = flags.uint("port");
    let port = u16::try_from(port)
        .ok()
        .filter(|port| *port > 0)
        .ok_or_else(|| Failure::generic(format!("--port: {port} is no port; name one from 1 to 65535")))?;
    if session.terminal.dashboard.is_none() {
        return Err(Failure::generic("this program has no server in it"));
    }
    // Whether there is an installation, and where, is found out as for every other command.
    let core = session.connect_to_cluster().await?;
    let text = |name: &str| Some(flags.text(name)).filter(|text| !text.is_empty()).map(str::to_owned);
    Ok(Panel {
        kubeconfig: text("kubeconfig").map(PathBuf::from),
        context: text("kube-context").or_else(|| text("context")),
        overrides: session.overrides(),
        namespace: core.namespace,
        address: flags.text("address").to_owned(),
        port,
        is_verbose: flags.text("loglevel") == "debug",
    })
}
