//! `admin`: what looks after an installation (CLI-900 to CLI-930), by Kubernetes or without any cluster.

mod app;
mod backup;
mod cluster;
mod dashboard;
mod export;
mod import;
mod initial_password;
mod inputs;
mod notifications;
mod overrides;
mod policies;
mod policy_file;
mod project;
mod rbac;
mod redis;
mod repository;
mod settings;
mod spec;
mod tracking;

use crate::flags;
use crate::global;
use crate::session::{self, Group};
use crate::terminal::Terminal;
pub use dashboard::{Dashboard, Panel};
pub(crate) use inputs::files;

static ADMIN: Group<()> = Group {
    name: "admin",
    about: "Look after an installation",
    commands: &[
        dashboard::COMMAND,
        export::COMMAND,
        import::COMMAND,
        initial_password::COMMAND,
        redis::COMMAND,
    ],
    groups: &[
        ("app", "Make manifests of applications, and compare what became of them"),
        ("cluster", "Look after clusters"),
        ("notifications", "Try triggers and templates of notifications"),
        ("proj", "Make and change projects, and say what one permits"),
        ("repo", "Make Secrets of repositories, and say which one is meant"),
        ("settings", "Check settings"),
        ("tracking", "Say how objects are marked, and to whom they belong"),
    ],
    bare_code: 0,
    aliases: &[],
};

/// Runs `admin …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, mut args: Vec<String>) -> u8 {
    match flags::take_word(&mut args, global::WORD_TABLES).as_deref() {
        Some("dashboard") => dashboard::run(terminal, &args),
        Some("export") => export::run(terminal, &args),
        Some("import") => import::run(terminal, &args),
        Some("initial-password") => initial_password::run(terminal, &args),
        Some("app") => app::run(terminal, args),
        Some("notifications") => notifications::run(terminal, args),
        Some("redis-initial-password") => redis::run(terminal, &args),
        Some("tracking") => tracking::run(terminal, args),
        Some("proj") => project::run(terminal, args),
        Some("repo") => repository::run(terminal, args),
        Some("cluster") => cluster::run(terminal, args),
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
