//! `proj source-integrity git policies`: which git sources must be signed, and by whom (CLI-730).

use std::cell::RefCell;

use tiphys_api::project::{
    AppProjectSpec, GitIntegrity, GitIntegrityPolicy, GpgPolicy, IntegrityRepo, SourceIntegrity,
};

use super::work::Work;
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{self, Flag, Kind, Parsed, flag};
use crate::global;
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

const ADD_FLAGS: &[Flag] = &[
    flag("gpg-mode", Kind::Text, "", "What must be signed: strict, head or none"),
    flag("gpg-key", Kind::Csv, "", "Id of a key that may sign"),
    flag("repo-url", Kind::Csv, "", "Glob of repositories the policy is for, ! negates"),
];
const UPDATE_FLAGS: &[Flag] = &[
    flag("add-gpg-key", Kind::Csv, "", "Id of a key to add"),
    flag("delete-gpg-key", Kind::Csv, "", "Id of a key to remove"),
    flag("add-repo-url", Kind::Csv, "", "Glob of repositories to add"),
    flag("delete-repo-url", Kind::Csv, "", "Glob of repositories to remove"),
    flag("yes", Kind::Bool, "false", "Do not ask").or('y'),
];
const DELETE_FLAGS: &[Flag] = &[flag("yes", Kind::Bool, "false", "Do not ask").or('y')];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    Delete,
    List,
    Update,
}

static GROUP: Group<Verb> = Group {
    name: "proj source-integrity git policies",
    about: "Manage which git sources must be signed",
    commands: &[
        Command::new(Verb::Add, ("add", "PROJECT"), "Add a policy", &[ADD_FLAGS], (1, 1)),
        Command::new(
            Verb::Delete,
            ("delete", "PROJECT POLICY_ID..."),
            "Delete policies",
            &[DELETE_FLAGS],
            (2, usize::MAX),
        ),
        Command::new(Verb::List, ("list", "PROJECT"), "List policies", &[], (1, 1)),
        Command::new(
            Verb::Update,
            ("update", "PROJECT POLICY_ID"),
            "Change a policy",
            &[ADD_FLAGS, UPDATE_FLAGS],
            (2, 2),
        ),
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Groups that only lead to others.
const NO_COMMANDS: &[Command<Verb>] = &[];
static OUTER: Group<Verb> = Group {
    name: "proj source-integrity",
    about: "Manage which sources must be signed",
    commands: NO_COMMANDS,
    groups: &[("git", "Manage rules for git sources")],
    bare_code: 1,
    aliases: &[],
};
static MIDDLE: Group<Verb> = Group {
    name: "proj source-integrity git",
    about: "Manage rules for git sources",
    commands: NO_COMMANDS,
    groups: &[("policies", "Manage policies")],
    bare_code: 1,
    aliases: &[],
};

/// Runs `proj source-integrity …` and says the exit code.
pub(super) fn run(terminal: &Terminal, mut args: Vec<String>) -> u8 {
    for (group, word) in [(&OUTER, "git"), (&MIDDLE, "policies")] {
        let taken = flags::take_word(&mut args, global::WORD_TABLES);
        if taken.as_deref() != Some(word) {
            session::show_group(terminal, group, taken.as_deref());
            return u8::from(!args.iter().any(|arg| arg == "--help" || arg == "-h") || taken.is_some());
        }
    }
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    let done = match verb {
        Verb::List => Box::pin(list(session)).await?,
        Verb::Add | Verb::Delete | Verb::Update => Box::pin(change(session, verb)).await?,
    };
    match done {
        Ok(()) => Ok(OK),
        // These errors have a form of their own (CLI-730).
        Err(text) => {
            session.terminal.print(&format!("Error: {text}\n"));
            Ok(Ended::Code(1))
        }
    }
}

/// What the command itself refuses, in its own form.
type Refusable<T> = Result<T, String>;

async fn change(session: &Session<'_>, verb: Verb) -> Result<Refusable<()>, Failure> {
    if verb == Verb::Delete && !session.confirms("Are you sure you want to delete the policies? [y/n] ").await
    {
        return Ok(Ok(()));
    }
    let work = Work::begin(session).await?;
    let refused = RefCell::new(None);
    let edit = |spec: &mut AppProjectSpec| {
        let ids = session.flags.operands.get(1..).unwrap_or_default();
        let done = apply(verb, spec, ids, session.flags);
        let is_done = done.is_ok();
        *refused.borrow_mut() = done.err();
        Ok(is_done)
    };
    work.edit(session.operand(0), edit).await?;
    if let Some(text) = refused.into_inner() {
        return Ok(Err(text));
    }
    let project = work.project(session.operand(0)).await?;
    for policy in policies(&project.spec) {
        let gpg = policy.gpg.clone().unwrap_or_default();
        if policy.repos.is_empty() {
            session.warn("a policy without repository URLs applies to nothing");
        }
        if gpg.keys.is_empty() && gpg.mode != "none" {
            session.warn("a policy without keys permits no commit");
        }
    }
    Ok(Ok(()))
}

fn policies(spec: &AppProjectSpec) -> &[GitIntegrityPolicy] {
    let git = spec.source_integrity.as_ref().and_then(|integrity| integrity.git.as_ref());
    git.map(|git| git.policies.as_slice()).unwrap_or_default()
}

/// Edits the policies of a spec.
fn apply(verb: Verb, spec: &mut AppProjectSpec, ids: &[String], flags: &Parsed) -> Refusable<()> {
    let integrity: &mut SourceIntegrity = spec.source_integrity.get_or_insert_default();
    let git: &mut GitIntegrity = integrity.git.get_or_insert_default();
    let policies = &mut git.policies;
    match verb {
        Verb::List => {}
        Verb::Add => policies.push(GitIntegrityPolicy {
            repos: repositories(flags.texts("repo-url")).collect(),
            gpg: Some(GpgPolicy { mode: mode(flags)?, keys: flags.texts("gpg-key").to_vec() }),
            ..GitIntegrityPolicy::default()
        }),
        Verb::Delete => {
            let mut places = ids.iter().map(|id| place(id, policies.len())).collect::<Refusable<Vec<_>>>()?;
            places.sort_unstable();
            places.dedup();
            for at in places.into_iter().rev() {
                policies.remove(at);
            }
        }
        Verb::Update => {
            let at = place(ids.first().map(String::as_str).unwrap_or_default(), policies.len())?;
            if let Some(policy) = policies.get_mut(at) {
                update(policy, flags)?;
            }
        }
    }
    Ok(())
}

fn repositories(urls: &[String]) -> impl Iterator<Item = IntegrityRepo> {
    urls.iter().map(|url| IntegrityRepo { url: url.clone() })
}

fn mode(flags: &Parsed) -> Refusable<String> {
    match flags.text("gpg-mode") {
        "" => Err("gpg-mode must be set".to_owned()),
        mode @ ("strict" | "head" | "none") => Ok(mode.to_owned()),
        _ => Err("gpg-mode must be one of: strict, head, none".to_owned()),
    }
}

fn place(id: &str, count: usize) -> Refusable<usize> {
    let at: usize = id.parse().map_err(|_not_a_number| format!("invalid POLICY_ID '{id}'"))?;
    match count.checked_sub(1) {
        Some(last) if at <= last => Ok(at),
        Some(last) => Err(format!("the POLICY_ID {at} is out of range (0-{last})")),
        None => Err(format!("the POLICY_ID {at} is out of range (there are no policies)")),
    }
}

/// Sets, adds and removes what is given.
fn update(policy: &mut GitIntegrityPolicy, flags: &Parsed) -> Refusable<()> {
    for (all, add, delete) in
        [("gpg-key", "add-gpg-key", "delete-gpg-key"), ("repo-url", "add-repo-url", "delete-repo-url")]
    {
        if flags.is_set(all) && (flags.is_set(add) || flags.is_set(delete)) {
            return Err(format!("option --{all}, cannot be combined with --{add} or --{delete}"));
        }
    }
    let gpg = policy.gpg.get_or_insert_default();
    if flags.is_set("gpg-mode") {
        gpg.mode = mode(flags)?;
    }
    if flags.is_set("gpg-key") {
        gpg.keys = flags.texts("gpg-key").to_vec();
    }
    let added = flags.texts("add-gpg-key").iter().filter(|key| !gpg.keys.contains(key));
    let added: Vec<String> = added.cloned().collect();
    gpg.keys.extend(added);
    gpg.keys.retain(|key| !flags.texts("delete-gpg-key").contains(key));
    if flags.is_set("repo-url") {
        policy.repos = repositories(flags.texts("repo-url")).collect();
    }
    let added = repositories(flags.texts("add-repo-url")).filter(|repo| !policy.repos.contains(repo));
    let added: Vec<IntegrityRepo> = added.collect();
    policy.repos.extend(added);
    policy.repos.retain(|repo| !flags.texts("delete-repo-url").contains(&repo.url));
    Ok(())
}

async fn list(session: &Session<'_>) -> Result<Refusable<()>, Failure> {
    let work = Work::begin(session).await?;
    let project = work.project(session.operand(0)).await?;
    let found = policies(&project.spec);
    if found.is_empty() {
        return Ok(Err(format!(
            "no source integrity git policies defined for project \"{}\"",
            project.name()
        )));
    }
    session.terminal.print(&table(found));
    Ok(Ok(()))
}

fn table(found: &[GitIntegrityPolicy]) -> String {
    let list = |items: Vec<String>| if items.is_empty() { "<none>".to_owned() } else { items.join(", ") };
    let mut table = Table::new(&["ID", "GPG-MODE", "GPG-KEYS", "REPO-URLS"]);
    for (at, policy) in found.iter().enumerate() {
        let gpg = policy.gpg.clone().unwrap_or_default();
        table.row(vec![
            at.to_string(),
            if gpg.mode.is_empty() { "<none>".to_owned() } else { gpg.mode },
            list(gpg.keys),
            list(policy.repos.iter().map(|repo| repo.url.clone()).collect()),
        ]);
    }
    table.print()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    fn done(spec: &mut AppProjectSpec, verb: Verb, ids: &[&str], args: &[&str]) -> Refusable<()> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        apply(verb, spec, &words(ids), &parse(&words(args), &[ADD_FLAGS, UPDATE_FLAGS]).unwrap())
    }

    #[test]
    fn cli_730_policies_are_added_changed_and_deleted() {
        let mut spec = AppProjectSpec::default();
        let add = ["--gpg-mode", "strict", "--gpg-key", "A,B", "--repo-url", "https://h/*"];
        done(&mut spec, Verb::Add, &[], &add).unwrap();
        let change = [
            "--add-gpg-key",
            "C,A",
            "--delete-gpg-key",
            "B",
            "--gpg-mode",
            "head",
            "--add-repo-url",
            "!https://h/x",
        ];
        done(&mut spec, Verb::Update, &["0"], &change).unwrap();
        assert_eq!(
            table(policies(&spec)),
            "ID  GPG-MODE  GPG-KEYS  REPO-URLS\n0   head      A, C      https://h/*, !https://h/x\n"
        );
        let mut refused = |verb, ids: &[&str], args: &[&str]| done(&mut spec, verb, ids, args).unwrap_err();
        assert_eq!(refused(Verb::Add, &[], &[]), "gpg-mode must be set");
        assert_eq!(
            refused(Verb::Add, &[], &["--gpg-mode", "x"]),
            "gpg-mode must be one of: strict, head, none"
        );
        assert_eq!(refused(Verb::Update, &["x"], &[]), "invalid POLICY_ID 'x'");
        assert_eq!(refused(Verb::Delete, &["0", "7"], &[]), "the POLICY_ID 7 is out of range (0-0)");
        assert_eq!(
            refused(Verb::Update, &["0"], &["--gpg-key", "A", "--add-gpg-key", "B"]),
            "option --gpg-key, cannot be combined with --add-gpg-key or --delete-gpg-key"
        );
        done(&mut spec, Verb::Delete, &["0", "0"], &[]).unwrap();
        assert!(policies(&spec).is_empty());
    }
}
