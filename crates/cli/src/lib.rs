//! Speaks from a terminal: straight to Kubernetes, or to the pure crates.
//!
//! [`main`] reads the process once, finds the command, reads its flags by their tables, and runs it. A command
//! is three things: its flags as data, pure functions that turn flags and objects into requests and text, and a
//! thin shell that reads, patches and watches objects. What scripts parse (standard output, exit codes, flag
//! names) is Argo CD's byte for byte; `CLI-n` in a comment names the rule.
//!
//! Requests go to an API server (`server`), or to Kubernetes itself (`--core`, CLI-140): then the kubeconfig is the
//! credential and its rights are the permissions, and manifests are rendered in this process.

mod account;
mod admin;
mod app;
mod appset;
mod cert;
mod cluster;
mod command;
mod completion;
mod config_file;
mod contexts;
mod core;
mod credentials;
mod described;
mod editor;
mod failure;
mod flags;
mod forward;
mod global;
mod gpg;
pub mod live;
mod login;
mod man;
mod outfile;
mod output;
mod plugin;
mod proj;
mod remote;
mod render;
mod repo;
mod repocreds;
mod scripts;
mod server;
mod session;
mod sso;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod version;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

pub use crate::admin::{Dashboard, Panel};
use crate::completion::Listing;
pub use crate::described::{Describe, Described, Subject};
pub use crate::scripts::Scripts;
use crate::terminal::Terminal;

/// What only the program can do, of which this crate is a part.
#[derive(Clone, Copy)]
pub struct Own {
    /// Reads the file of `appset generate --offline` (ASET-305).
    pub describe: Describe,
    /// Answers the API for `admin dashboard` (CLI-903).
    pub dashboard: Dashboard,
    /// Runs users' programs in children of the program.
    pub scripts: Scripts,
}

/// Runs the user's command. `args` are the arguments behind the program's name.
pub fn main(args: &[OsString], own: Own) -> ExitCode {
    let mut env = std::collections::BTreeMap::new();
    for (key, value) in std::env::vars_os() {
        if let (Ok(key), Ok(value)) = (key.into_string(), value.into_string()) {
            env.insert(key, value);
        }
    }
    let called = std::env::args_os().next().unwrap_or_default();
    let called = std::path::Path::new(&called).file_name().map(|name| name.to_string_lossy().into_owned());
    let program = match env.get("ARGOCD_BINARY_NAME") {
        Some(name) if !name.is_empty() => name.clone(),
        _ => called.unwrap_or_else(|| "tiphys".to_owned()),
    };
    let mut terminal = Terminal::process(program, env);
    terminal.describe = Some(own.describe);
    terminal.dashboard = Some(own.dashboard);
    scripts::install(own.scripts);
    let mut words = Vec::with_capacity(args.len());
    for arg in args {
        words.push(arg.to_string_lossy().into_owned());
    }
    ExitCode::from(run(&terminal, words))
}

/// Runs a command and says its exit code.
fn run(terminal: &Terminal, mut args: Vec<String>) -> u8 {
    let at = flags::word_at(&args, &[global::FLAGS]);
    match flags::take_word(&mut args, &[global::FLAGS]).as_deref() {
        Some("account") => account::run(terminal, args),
        Some("admin") => admin::run(terminal, args),
        Some("app") => app::run(terminal, args),
        Some("appset") => appset::run(terminal, args),
        Some("cert") => cert::run(terminal, args),
        Some("cluster") => cluster::run(terminal, args),
        Some("configure") => contexts::configure(terminal, &args),
        Some("context" | "ctx") => contexts::context(terminal, &args),
        Some("gpg") => gpg::run(terminal, args),
        Some("login") => login::login(terminal, &args),
        Some("logout") => login::logout(terminal, &args),
        Some("relogin") => login::relogin(terminal, &args),
        Some("version") => version::run(terminal, &args),
        Some("proj" | "project") => proj::run(terminal, args),
        Some("render") => render::run(terminal, &args),
        Some("repo") => repo::run(terminal, args),
        Some("repocreds") => repocreds::run(terminal, args),
        Some("completion") => completion::run(terminal, &args),
        Some(completion::ASKED) => completion::complete(terminal, &args),
        Some("man") => man::run(terminal, &args),
        Some("help") | None => {
            if !terminal.lists(|| Listing::Group {
                words: String::new(),
                about: ABOUT,
                commands: ROOT.to_vec(),
            }) {
                terminal.print(&root_help(&terminal.program));
            }
            0
        }
        // What stands before the word is ours, what stands behind it the program's.
        Some(word) => plugin::run(terminal, word, args.split_off(at.unwrap_or_default())),
    }
}

const ABOUT: &str = "controls applications from a terminal";

/// The commands that stand first, with what they do.
const ROOT: [(&str, &str); 18] = [
    ("account", "Manage accounts"),
    ("admin", "Look after an installation"),
    ("app", "Manage applications"),
    ("appset", "Manage ApplicationSets"),
    ("cert", "Manage certificates and SSH known hosts"),
    ("cluster", "Manage clusters"),
    ("completion", "Print the completion script of a shell"),
    ("configure", "Change local settings"),
    ("context", "Show contexts, or choose one"),
    ("gpg", "Manage keys for signature verification"),
    ("login", "Log in to a server"),
    ("logout", "Log out of a context"),
    ("proj", "Manage projects"),
    ("relogin", "Log in to the current context again"),
    ("render", "Render sources from files, without a cluster"),
    ("repo", "Manage repositories"),
    ("repocreds", "Manage credential templates"),
    ("version", "Print versions"),
];

fn root_help(program: &str) -> String {
    let mut out = format!("{program} {ABOUT}\n\nUsage:\n  {program} [command]\n\nAvailable Commands:\n");
    for (name, about) in ROOT {
        // Writing to a string cannot fail.
        let _written = writeln!(out, "  {name:<11} {about}");
    }
    let _written =
        writeln!(out, "\nUse \"{program} [command] --help\" for more information about a command.");
    out
}
