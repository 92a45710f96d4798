//! `admin initial-password`: the password that the API server made at its first start (CLI-900).

use tiphys_cluster::Target;
use tiphys_installation::objects;
use tiphys_object::Gvk;

use crate::command::Command;
use crate::failure::Failure;
use crate::session::{self, Ended, OK, Session};
use crate::terminal::Terminal;

/// The Secret that holds it.
const SECRET: &str = "argocd-initial-admin-secret";
/// What stands below it; the space at the beginning is a part of it.
const ADVICE: &str = " This password must be only used for first time login. We strongly recommend you update the \
                      password using `argocd account update-password`.";

/// The command.
pub(super) const COMMAND: Command<()> =
    Command::new((), ("initial-password", ""), "Print the password of the first login", &[], (0, 0));

/// Runs the command and says the exit code.
pub(super) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("admin", &COMMAND), async |session, ()| {
        Box::pin(print(session)).await
    })
}

async fn print(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect_to_cluster().await?;
    let target = Target::new(Gvk::new("", "v1", "Secret"), &core.namespace, SECRET);
    let found = core.get(&target).await?.ok_or_else(|| {
        Failure::generic(format!("secrets \"{SECRET}\" not found")).hint(
            "somebody has changed the password and removed it, or this is not the namespace; see `-n NAMESPACE`",
        )
    })?;
    if let Some(password) = objects::decoded(&found).remove("password") {
        session.terminal.line(&password);
        session.terminal.print(&format!("\n{ADVICE}\n"));
    }
    Ok(OK)
}
