//! `version` (CLI-215).

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use tiphys_api::names::COMPATIBLE_VERSION;

use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::global::{self, Route};
use crate::output::{Format, machine_format, print};
use crate::server::Api;
use crate::session::{self, Ended, OK, Session};
use crate::terminal::Terminal;

const FLAGS: &[Flag] = &[
    flag("client", Kind::Bool, "false", "This program alone, without a server"),
    flag("short", Kind::Bool, "false", "Versions alone"),
    flag("output", Kind::Text, "wide", "Output format: wide, short, json or yaml").or('o'),
];

const COMMAND: Command<()> = Command::new((), ("version", ""), "Print versions", &[FLAGS], (0, 0));

/// Members of the message, and how they are shown.
const SHOWN: [(&str, &str); 7] = [
    ("BuildDate", "BuildDate"),
    ("GitCommit", "GitCommit"),
    ("GitTreeState", "GitTreeState"),
    ("GitTag", "GitTag"),
    ("GoVersion", "GoVersion"),
    ("Compiler", "Compiler"),
    ("Platform", "Platform"),
];
const OF_SERVERS: [(&str, &str); 4] = [
    ("KustomizeVersion", "Kustomize Version"),
    ("HelmVersion", "Helm Version"),
    ("KubectlVersion", "Kubectl Version"),
    ("JsonnetVersion", "Jsonnet Version"),
];

/// Runs `version` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("", &COMMAND), async |session, ()| Box::pin(show(session)).await)
}

/// What this program is.
fn own() -> Value {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "Version": format!("{COMPATIBLE_VERSION}+tiphys.{}", env!("CARGO_PKG_VERSION")),
        "GoVersion": "rustc",
        "Compiler": "rustc",
        "Platform": format!("{}/{machine}", std::env::consts::OS),
    })
}

async fn show(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let output = if flags.is_on("short") && !flags.is_set("output") { "short" } else { flags.text("output") };
    let machine = machine_format(output);
    if machine.is_none() && !matches!(output, "wide" | "short" | "") {
        return Err(Failure::fatal(format!("unknown output format: {output}")));
    }
    let program = session.terminal.program.as_str();
    let is_short = flags.is_on("short") || output == "short";
    if machine.is_none() {
        session.terminal.print(&lines(program, &own(), is_short));
    }
    let server = if flags.is_on("client") { None } else { ask(session).await? };
    match (machine, server) {
        (None, Some(server)) => session.terminal.print(&lines("argocd-server", &server, is_short)),
        (None, None) => {}
        (Some(format), server) => session.terminal.data(&told(format, server, is_short)?),
    }
    Ok(OK)
}

/// The server's answer; `None` where there is none and nobody expects one.
async fn ask(session: &Session<'_>) -> Result<Option<Value>, Failure> {
    match global::route(session.flags, session.terminal)? {
        Route::Server(mut access, _) => {
            session.forward(&mut access).await?;
            let answer = Api::new(&access)?.get(&["api", "version"], &[]).await;
            answer.map(Some).map_err(|failure| Failure { code: 20, ..failure })
        }
        Route::Core => Ok(None),
        // Whoever asks for the version of `tiphys` does not have to have a server.
        Route::Unspecified if session.terminal.program == "tiphys" => Ok(None),
        Route::Unspecified => Err(Failure::fatal("Argo CD server address unspecified")
            .hint("add `--client`, or `--server ADDRESS`")),
    }
}

/// The lines of one program.
fn lines(name: &str, version: &Value, is_short: bool) -> String {
    let text = |member: &str| version.get(member).and_then(Value::as_str).unwrap_or_default();
    let mut out = format!("{name}: {}\n", text("Version"));
    if is_short {
        return out;
    }
    for (member, label) in SHOWN.into_iter().chain(OF_SERVERS) {
        if !text(member).is_empty() {
            // Writing to a String cannot fail.
            let _written = writeln!(out, "  {label}: {}", text(member));
        }
    }
    out
}

fn told(format: Format, server: Option<Value>, is_short: bool) -> Result<String, Failure> {
    let mut all = Map::new();
    let one = |name: &str, version: Value| {
        if is_short { json!({name: version.get("Version").cloned().unwrap_or_default()}) } else { version }
    };
    all.insert("client".to_owned(), one("argocd", own()));
    if let Some(server) = server {
        all.insert("server".to_owned(), one("argocd-server", server));
    }
    print(&Value::Object(all), format)
}
