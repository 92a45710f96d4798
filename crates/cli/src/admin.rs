//! `admin`: what looks after an installation (CLI-900 to CLI-930). There are `settings rbac can` and
//! `settings rbac validate` so far; both answer from a file without any cluster.

mod policy_file;
mod rbac;

use crate::command::Command;
use crate::group::{Group, take_word};
use crate::terminal::Terminal;

/// A group inside a group.
const fn group(name: &'static str, about: &'static str) -> Command<()> {
    Command { name, usage: "", about, flags: &[], operands: (0, 0), usage_code: 0, verb: () }
}

static ADMIN: Group<()> = Group {
    path: "admin",
    about: "Look after an installation",
    commands: &[group("settings", "Check settings")],
    bare_code: 0,
};

static SETTINGS: Group<()> = Group {
    path: "admin settings",
    about: "Check settings",
    commands: &[group("rbac", "Check who may do what")],
    bare_code: 0,
};

/// Runs `admin …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, mut args: Vec<String>) -> u8 {
    for (above, name) in [(&ADMIN, "settings"), (&SETTINGS, "rbac")] {
        let word = take_word(&mut args);
        if word.as_deref() != Some(name) {
            return above.help(terminal, &args, word.as_deref());
        }
    }
    rbac::run(terminal, args)
}
