//! What may follow on a command line, for shells (CLI-214, CLI-1104).
//!
//! The scripts know nothing: they ask this program, whose commands say by their own tables what they offer
//! ([`Terminal::lists`]). So a script stays right when the program changes, and takes no time when a shell starts.
//!
//! Deviation (DEP-64): no `clap_complete`, as there is no clap command to generate from; its scripts for these tables
//! would have hundreds of kilobytes.

mod names;

use std::collections::BTreeSet;

use crate::command::Command;
use crate::flags::{Flag, FlagError, Kind, parse};
use crate::session::Group;
use crate::terminal::Terminal;
use crate::{global, plugin};
use names::Named;

/// The command that scripts ask with: `__complete SHELL :CURRENT WORD...`.
pub(crate) const ASKED: &str = "__complete";

/// What there is at some place of the tree of commands.
#[derive(Clone, Debug)]
pub(crate) enum Listing {
    /// Commands.
    Group {
        /// The words that lead there.
        words: String,
        about: &'static str,
        /// Names, with what they do.
        commands: Vec<(&'static str, &'static str)>,
    },
    /// One command.
    Command {
        words: String,
        /// Its operands.
        usage: &'static str,
        about: &'static str,
        /// Its own flags, then those that others have, too.
        flags: Vec<Flag>,
        /// How many are its own.
        own: usize,
        /// The same flags, as they are read.
        tables: Vec<&'static [Flag]>,
    },
}

impl Listing {
    pub(crate) fn of_group<V>(group: &Group<V>) -> Self {
        let commands = group.commands.iter().map(|command| (command.name, command.about));
        let mut commands: Vec<_> = commands.chain(group.groups.iter().copied()).collect();
        commands.sort_unstable();
        Self::Group { words: group.name.to_owned(), about: group.about, commands }
    }

    pub(crate) fn of_command<V>(group: &str, command: &Command<V>, tables: &[&'static [Flag]]) -> Self {
        let words =
            if group.is_empty() { command.name.to_owned() } else { format!("{group} {}", command.name) };
        Self::Command {
            words,
            usage: command.usage,
            about: command.about,
            flags: tables.iter().flat_map(|table| table.iter().copied()).collect(),
            own: command.flags.iter().map(|table| table.len()).sum(),
            tables: tables.to_vec(),
        }
    }

    /// What these words of a command line lead to.
    pub(crate) fn at(terminal: &Terminal, words: Vec<String>) -> Option<Self> {
        let listing = terminal.listing();
        let _code = crate::run(&listing, words);
        listing.listed()
    }
}

/// Shells that scripts are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Power,
}

impl Shell {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "bash" => Some(Self::Bash),
            "zsh" => Some(Self::Zsh),
            "fish" => Some(Self::Fish),
            "powershell" => Some(Self::Power),
            _ => None,
        }
    }

    fn script(self) -> &'static str {
        match self {
            Self::Bash => include_str!("completion/bash.txt"),
            Self::Zsh => include_str!("completion/zsh.txt"),
            Self::Fish => include_str!("completion/fish.txt"),
            Self::Power => include_str!("completion/powershell.txt"),
        }
    }
}

const USAGE: &str = "Print the completion script of a shell";

/// Runs `completion` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    const COMMAND: Command<()> =
        Command::new((), ("completion", "bash|zsh|fish|powershell"), USAGE, &[], (1, 1));
    if terminal.lists(|| Listing::of_command("", &COMMAND, &[global::FLAGS])) {
        return 0;
    }
    let help = || crate::command::command_help(&terminal.program, "", &COMMAND, global::FLAGS);
    let operands = match parse(args, &[global::FLAGS]) {
        Ok(parsed) => parsed.operands,
        Err(FlagError::Help) => {
            terminal.print(&help());
            return 0;
        }
        Err(FlagError::Usage(text)) => {
            terminal.print(&format!("Error: {text}\n"));
            return 1;
        }
    };
    let [name] = operands.as_slice() else {
        terminal.print(&help());
        return 1;
    };
    let Some(shell) = Shell::parse(name) else {
        terminal.line(&format!("Invalid shell '{name}'. The supported shells are bash, zsh and fish."));
        return 1;
    };
    // The program's name is part of names of functions.
    let function: String = terminal.program.chars().filter(char::is_ascii_alphanumeric).collect();
    let script = shell.script().replace("FUNCTION", &function).replace("PROGRAM", &terminal.program);
    terminal.data(&script);
    0
}

/// Answers a script, and says the exit code. What cannot be completed has no answer.
pub(crate) fn complete(terminal: &Terminal, args: &[String]) -> u8 {
    let [shell, current, words @ ..] = args else { return 0 };
    let (Some(shell), Some(current)) = (Shell::parse(shell), current.strip_prefix(':')) else { return 0 };
    let (words, current) = match shell {
        Shell::Bash => joined(words, current),
        _ => (words.to_vec(), current.to_owned()),
    };
    let mut out = String::new();
    for (word, about) in candidates(terminal, &words, &current) {
        match shell {
            Shell::Bash => out.push_str(behind_breaks(&current, &word)),
            _ => out.extend([word.as_str(), "\t", &about]),
        }
        out.push('\n');
    }
    terminal.data(&out);
    0
}

/// The words of a line that bash broke at `=` and `:`, whole again.
fn joined(words: &[String], current: &str) -> (Vec<String>, String) {
    let is_break = |word: &str| matches!(word, "=" | ":");
    let mut whole: Vec<String> = Vec::with_capacity(words.len());
    let mut is_open = false;
    for word in words.iter().map(String::as_str).chain([current]) {
        match whole.last_mut() {
            Some(last) if is_open || is_break(word) => last.push_str(word),
            _ => whole.push(word.to_owned()),
        }
        is_open = is_break(word);
    }
    let current = whole.pop().unwrap_or_default();
    (whole, current)
}

/// What bash puts in the place of the part that it takes for the current word.
fn behind_breaks<'a>(current: &str, word: &'a str) -> &'a str {
    let begins = current.rfind(['=', ':']).map_or(0, |at| at.saturating_add(1));
    word.get(begins..).unwrap_or_default()
}

/// Words that may stand in the place of the current one, each with what it is.
fn candidates(terminal: &Terminal, words: &[String], current: &str) -> Vec<(String, String)> {
    let Some(listing) = Listing::at(terminal, words.to_vec()) else { return Vec::new() };
    let mut found: Vec<(String, String)> = match listing {
        Listing::Group { commands, words, .. } if !current.starts_with('-') => {
            let own = commands.iter().map(|(name, about)| ((*name).to_owned(), (*about).to_owned()));
            // Programs of others stand first alone (CLI-18).
            let others = if words.is_empty() { plugin::words(terminal) } else { BTreeSet::new() };
            own.chain(others.into_iter().map(|word| (word, "a program on PATH".to_owned()))).collect()
        }
        Listing::Group { .. } => flag_words(global::FLAGS),
        Listing::Command { words: path, flags, usage, tables, .. } => {
            let awaits = words.last().and_then(|last| awaits_value(last, &flags));
            let joined = current.split_once('=').and_then(|(name, _)| {
                Some((name, flags.iter().find(|flag| name == format!("--{}", flag.long))?))
            });
            let names = |words: &[String], named: Option<Named>, current: &str| {
                let named = named.into_iter();
                named.flat_map(|named| names::names(terminal, (words, &tables), named, current)).collect()
            };
            let of_flag = |flag: &Flag, words: &[String], current: &str| -> Vec<String> {
                match values(flag) {
                    known if known.is_empty() => names(words, names::of_flag(flag), current),
                    known => known,
                }
            };
            match (awaits, joined) {
                (Some(flag), _) => {
                    // A flag without its value cannot be read.
                    let (_flag, before) = words.split_last().unwrap_or((&path, &[]));
                    let found = of_flag(flag, before, current);
                    found.into_iter().map(|value| (value, String::new())).collect()
                }
                (None, Some((name, flag))) => {
                    let begun = current.split_once('=').map_or("", |(_, value)| value);
                    let value = |value| (format!("{name}={value}"), String::new());
                    of_flag(flag, words, begun).into_iter().map(value).collect()
                }
                (None, None) if current.starts_with('-') => flag_words(&flags),
                (None, None) => {
                    let known: Vec<String> = choices(usage).map(str::to_owned).collect();
                    let found = if known.is_empty() {
                        let position = operands(words, &tables, &path);
                        let named = position.and_then(|position| names::of_operand(&path, usage, position));
                        names(words, named, current)
                    } else {
                        known
                    };
                    found.into_iter().map(|word| (word, String::new())).collect()
                }
            }
        }
    };
    found.retain(|(word, _)| word.starts_with(current));
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    found
}

/// How many operands stand behind the words that lead to a command; `None` where they cannot be read.
fn operands(words: &[String], tables: &[&'static [Flag]], path: &str) -> Option<usize> {
    let read = parse(words, tables).ok()?;
    read.operands.len().checked_sub(path.split(' ').count())
}

fn flag_words(flags: &[Flag]) -> Vec<(String, String)> {
    flags.iter().map(|flag| (format!("--{}", flag.long), flag.help.to_owned())).collect()
}

/// The flag whose value is the next word.
fn awaits_value<'a>(last: &str, flags: &'a [Flag]) -> Option<&'a Flag> {
    let long = last.strip_prefix("--");
    let short = last.strip_prefix('-').filter(|_| long.is_none()).and_then(|rest| rest.chars().last());
    let found = flags.iter().find(|flag| match long {
        Some(long) => flag.long == long,
        None => short.is_some() && flag.short == short,
    });
    found.filter(|flag| flag.kind != Kind::Bool)
}

/// The values of a flag, where its help ends with all of them: `Output format: wide, json or yaml`.
fn values(flag: &Flag) -> Vec<String> {
    if flag.kind == Kind::Bool {
        return vec!["false".to_owned(), "true".to_owned()];
    }
    let Some((_, list)) = flag.help.rsplit_once(": ") else { return Vec::new() };
    let values: Vec<&str> = list.split(", ").flat_map(|item| item.split(" or ")).collect();
    let is_list = values.len() > 1 && values.iter().all(|value| !value.contains([' ', '[', ';']));
    let values = values.into_iter().filter(|value| is_list && *value != "empty");
    values.map(str::to_owned).collect()
}

/// The operands of a command that takes one of some words: `bash|zsh`.
fn choices(usage: &'static str) -> impl Iterator<Item = &'static str> {
    let is_choice =
        usage.contains('|') && usage.chars().all(|letter| letter.is_ascii_lowercase() || letter == '|');
    usage.split('|').filter(move |_| is_choice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(words: &[&str], current: &str) -> String {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let terminal = Terminal::memory("argocd", &[]);
        let found = candidates(&terminal, &words, current);
        found.into_iter().map(|(word, _)| word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn cli_214_commands_are_completed_at_any_depth() {
        assert_eq!(found(&[], "re"), "relogin render repo repocreds");
        assert_eq!(found(&["app"], "re"), "remove-source resources");
        assert_eq!(found(&["--server", "x", "app", "actions"], ""), "list run");
        assert_eq!(found(&["proj", "role"], "list"), "list list-tokens");
        assert_eq!(found(&["proj", "source-integrity"], ""), "git");
        assert_eq!(found(&["admin"], "se"), "settings");
        assert_eq!(found(&["project", "windows"], "add"), "add");
        assert_eq!(found(&["nosuch"], ""), "");
        assert_eq!(found(&["app", "nosuch"], ""), "");
        assert_eq!(found(&["completion"], "z"), "zsh");
    }

    #[test]
    fn cli_1104_flags_and_their_values_are_completed() {
        assert_eq!(found(&["app", "get", "web"], "--hard"), "--hard-refresh");
        assert_eq!(found(&["app", "get", "-o"], "tree"), "tree tree=detailed");
        assert_eq!(found(&["app", "get", "--output"], "y"), "yaml");
        assert_eq!(found(&["app", "get"], "--output=j"), "--output=json");
        assert_eq!(found(&["app", "get"], "--refresh="), "--refresh=false --refresh=true");
        assert_eq!(found(&["app", "get", "--refresh"], "x"), "");
        assert_eq!(found(&["app", "get"], "--kube-c"), "--kube-context");
        assert_eq!(found(&["app"], "--core"), "--core");
        assert_eq!(found(&["login"], "--sso-p"), "--sso-port");
        assert_eq!(found(&["render"], "--helm-set-f"), "--helm-set-file");
    }

    /// CLI-1104: names come from the server that the command would ask, and nothing comes where nobody answers.
    #[test]
    fn cli_1104_names_are_asked_of_the_installation() {
        let address = crate::tests::web::serve(|request| {
            let line = request.lines().next().unwrap_or_default();
            let body = match line.split(' ').nth(1).unwrap_or_default() {
                "/api/v1/settings" => r#"{"controllerNamespace": "argocd"}"#,
                path if path.starts_with("/api/v1/applications?") && path.contains("fields=") => {
                    r#"{"items": [{"metadata": {"name": "web", "namespace": "argocd"}},
                        {"metadata": {"name": "wiki", "namespace": "team"}},
                        {"metadata": {"name": "w$(id)", "namespace": "argocd"}}]}"#
                }
                "/api/v1/projects" => {
                    r#"{"items": [{"metadata": {"name": "shop"}}, {"metadata": {"name": "default"}}]}"#
                }
                "/api/v1/clusters" => r#"{"items": [{"server": "https://eu:6443", "name": "eu"}]}"#,
                "/api/v1/repositories" => {
                    r#"{"items": [{"repo": "https://h/r"}, {"repo": "https://u:***@h/x"}]}"#
                }
                _ => r#"{"items": []}"#,
            };
            (200, "", body.to_owned())
        });
        let asked = |words: &[&str], current: &str| {
            let way = ["--server", &address, "--plaintext", "--auth-token", "t0ken"];
            found(&[words, &way].concat(), current)
        };
        assert_eq!(asked(&["app", "get"], ""), "team/wiki web", "what a shell would run is left out");
        assert_eq!(asked(&["app", "get"], "we"), "web");
        assert_eq!(asked(&["app", "get", "web"], ""), "", "one is enough");
        assert_eq!(asked(&["app", "delete", "web"], "argocd/"), "argocd/web");
        assert_eq!(asked(&["app", "sync", "web"], "t"), "team/wiki");
        assert_eq!(asked(&["app", "create"], ""), "", "it is to be made");
        assert_eq!(asked(&["proj", "role", "list"], ""), "default shop");
        assert_eq!(asked(&["cluster", "get"], "e"), "eu");
        assert_eq!(asked(&["repo", "rm"], ""), "https://h/r");
        assert_eq!(asked(&["app", "list"], "--project=s"), "--project=shop");
        let way = ["--server", &address, "--plaintext", "--auth-token", "t0ken", "app", "list", "--project"];
        assert_eq!(found(&way, "d"), "default");
        // Nobody is there, and nobody is named.
        let nobody = ["--server", "127.0.0.1:1", "--plaintext", "app", "get"];
        assert_eq!(found(&nobody, ""), "");
        assert_eq!(found(&["app", "get"], ""), "");
    }

    #[test]
    fn cli_214_bash_breaks_words_and_gets_what_is_behind_the_break() {
        let words: Vec<String> = ["app", "get", "--output", "="].map(str::to_owned).to_vec();
        let (words, current) = joined(&words, "js");
        assert_eq!((words.join(" ").as_str(), current.as_str()), ("app get", "--output=js"));
        assert_eq!(behind_breaks(&current, "--output=json"), "json");
        let terminal = Terminal::memory("argocd", &[]);
        let args = ["bash", ":=", "app", "get", "--output"].map(str::to_owned);
        assert_eq!(complete(&terminal, &args), 0);
        assert_eq!(terminal.written().stdout, "json\ntree\ntree=detailed\nwide\nyaml\n");
        let none = Terminal::memory("argocd", &[]);
        assert_eq!((complete(&none, &[]), none.written().stdout.as_str()), (0, ""));
    }

    #[test]
    fn cli_214_scripts_are_those_of_the_program_that_was_called() {
        let printed = |args: &[&str]| {
            let terminal = Terminal::memory("argocd", &[]);
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let code = run(&terminal, &args);
            (terminal.written().stdout, code)
        };
        for shell in ["bash", "zsh", "fish", "powershell"] {
            let (script, code) = printed(&[shell]);
            assert!(script.contains("argocd __complete ") && !script.contains("PROGRAM"), "{script}");
            assert_eq!(code, 0);
        }
        let expected = "Invalid shell 'csh'. The supported shells are bash, zsh and fish.\n";
        assert_eq!(printed(&["csh"]), (expected.to_owned(), 1));
        assert_eq!(printed(&[]).1, 1);
        assert_eq!(printed(&["--help"]).1, 0);
    }
}
