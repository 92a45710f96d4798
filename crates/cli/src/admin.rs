//! `admin`: what looks after an installation (CLI-900 to CLI-930). There are `settings …`, `tracking …`, `proj …`, `repo …`
//! and `cluster secret-name`, which answer without any cluster, and `initial-password` so far.

mod initial_password;
mod inputs;
mod overrides;
mod policy_file;
mod project;
mod rbac;
mod repository;
mod settings;
mod tracking;

use crate::flags;
use crate::global;
use crate::session::{self, Group};
use crate::terminal::Terminal;
pub(crate) use inputs::files;

static ADMIN: Group<()> = Group {
    name: "admin",
    about: "Look after an installation",
    commands: &[initial_password::COMMAND],
    groups: &[
        ("cluster", "Say which Secret of a cluster is meant"),
        ("proj", "Say what a project permits"),
        ("repo", "Say which repository and which Secret is meant"),
        ("settings", "Check settings"),
        ("tracking", "Say how objects are marked, and to whom they belong"),
    ],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, mut args: Vec<String>) -> u8 {
    match flags::take_word(&mut args, global::WORD_TABLES).as_deref() {
        Some("initial-password") => initial_password::run(terminal, &args),
        Some("tracking") => tracking::run(terminal, args),
        Some("proj") => project::run(terminal, args),
        Some("repo") => repository::run(terminal, args),
        Some("cluster") => repository::run_cluster(terminal, args),
        Some("settings") => {
            let mut rest = args.clone();
            match flags::take_word(&mut rest, global::WORD_TABLES).as_deref() {
                Some("rbac") => rbac::run(terminal, rest),
                Some("resource-overrides") => overrides::run(terminal, rest),
                _ => settings::run(terminal, args),
            }
        }
        word => help(terminal, &ADMIN, word),
    }
}

/// Prints what there is, and says the exit code (CLI-3, CLI-4).
fn help(terminal: &Terminal, group: &Group<()>, word: Option<&str>) -> u8 {
    session::show_group(terminal, group, word);
    u8::from(word.is_some())
}
