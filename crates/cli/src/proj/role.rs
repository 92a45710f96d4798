//! `proj role`: who may do what with the applications of a project (CLI-710 to CLI-712).

use std::cell::Cell;
use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;
use tiphys_api::AppProject;
use tiphys_api::project::ProjectRole;

use super::token;
use super::work::Work;
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::{Terminal, rfc_3339};

const POLICY_FLAGS: &[Flag] = &[
    flag("action", Kind::Text, "", "Action of the policy: get, create, list, update, delete, sync, …")
        .or('a'),
    flag("object", Kind::Text, "", "Object of the policy within the project, * for all").or('o'),
    flag("permission", Kind::Text, "allow", "Whether to allow or to deny").or('p'),
    flag("resource", Kind::Text, "applications", "Resource of the policy").or('r'),
];
const OUTPUT: &[Flag] =
    &[flag("output", Kind::Text, "wide", "Output format: wide, json, yaml or name").or('o')];
const CREATE_FLAGS: &[Flag] = &[flag("description", Kind::Text, "", "Description of the role")];
const TOKENS_FLAGS: &[Flag] = &[flag("unixtime", Kind::Bool, "false", "Print times as seconds").or('u')];
const CREATE_TOKEN_FLAGS: &[Flag] = &[
    flag(
        "expires-in",
        Kind::Text,
        "0s",
        "How long the token is valid, as 30s, 5m, 2h, 7d or 1w; 0s is for ever",
    )
    .or('e'),
    flag("id", Kind::Text, "", "Id of the token; a random one by default").or('i'),
    flag("token-only", Kind::Bool, "false", "Print the token only").or('t'),
];
const DELETE_TOKEN_FLAGS: &[Flag] = &[flag("yes", Kind::Bool, "false", "Do not ask").or('y')];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    AddGroup,
    AddPolicy,
    Create,
    CreateToken,
    Delete,
    DeleteToken,
    Get,
    List,
    ListTokens,
    RemoveGroup,
    RemovePolicy,
}

const TWO: (usize, usize) = (2, 2);
const THREE: (usize, usize) = (3, 3);

static GROUP: Group<Verb> = Group {
    name: "proj role",
    about: "Manage the roles of a project",
    commands: &[
        Command::new(Verb::AddGroup, ("add-group", "PROJECT ROLE GROUP"), "Give a group a role", &[], THREE),
        Command {
            required: &["action", "object"],
            ..Command::new(
                Verb::AddPolicy,
                ("add-policy", "PROJECT ROLE"),
                "Add a policy to a role",
                &[POLICY_FLAGS],
                TWO,
            )
        },
        Command::new(Verb::Create, ("create", "PROJECT ROLE"), "Create a role", &[CREATE_FLAGS], TWO),
        Command::new(
            Verb::CreateToken,
            ("create-token", "PROJECT ROLE"),
            "Create a token of a role",
            &[CREATE_TOKEN_FLAGS],
            TWO,
        ),
        Command::new(Verb::Delete, ("delete", "PROJECT ROLE"), "Delete a role", &[], TWO),
        Command::new(
            Verb::DeleteToken,
            ("delete-token", "PROJECT ROLE ISSUED-AT"),
            "Delete a token of a role",
            &[DELETE_TOKEN_FLAGS],
            THREE,
        ),
        Command::new(Verb::Get, ("get", "PROJECT ROLE"), "Show a role", &[], TWO),
        Command::new(Verb::List, ("list", "PROJECT"), "List the roles of a project", &[OUTPUT], (1, 1)),
        Command::new(
            Verb::ListTokens,
            ("list-tokens", "PROJECT ROLE"),
            "List the tokens of a role",
            &[TOKENS_FLAGS],
            TWO,
        ),
        Command::new(
            Verb::RemoveGroup,
            ("remove-group", "PROJECT ROLE GROUP"),
            "Take a role from a group",
            &[],
            THREE,
        ),
        Command {
            required: &["action", "object"],
            ..Command::new(
                Verb::RemovePolicy,
                ("remove-policy", "PROJECT ROLE"),
                "Remove a policy from a role",
                &[POLICY_FLAGS],
                TWO,
            )
        },
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[
        ("token-create", "create-token"),
        ("list-token", "list-tokens"),
        ("token-list", "list-tokens"),
        ("token-delete", "delete-token"),
        ("remove-token", "delete-token"),
    ],
};

/// Runs `proj role …` and says the exit code.
pub(super) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::AddGroup => Box::pin(edit_group(session, true)).await,
        Verb::AddPolicy => Box::pin(edit_policy(session, true)).await,
        Verb::Create => Box::pin(create(session)).await,
        Verb::CreateToken => Box::pin(token::create(session)).await,
        Verb::Delete => Box::pin(delete(session)).await,
        Verb::DeleteToken => Box::pin(token::delete(session)).await,
        Verb::Get => Box::pin(get(session)).await,
        Verb::List => Box::pin(list(session)).await,
        Verb::ListTokens => Box::pin(token::list(session)).await,
        Verb::RemoveGroup => Box::pin(edit_group(session, false)).await,
        Verb::RemovePolicy => Box::pin(edit_policy(session, false)).await,
    }
}

pub(super) fn role_mut<'a>(project: &'a mut AppProject, name: &str) -> Result<&'a mut ProjectRole, Failure> {
    let missing = missing(project, name);
    project.spec.roles.iter_mut().find(|role| role.name == name).ok_or(missing)
}

pub(super) fn role_of<'a>(project: &'a AppProject, name: &str) -> Result<&'a ProjectRole, Failure> {
    project.spec.roles.iter().find(|role| role.name == name).ok_or_else(|| missing(project, name))
}

fn missing(project: &AppProject, name: &str) -> Failure {
    Failure::generic(format!("role '{name}' does not exist in project '{}'", project.name()))
}

/// Edits the project, and prints the one or the other text: whether something changed.
async fn edited(
    session: &Session<'_>,
    (done, nothing): (&str, &str),
    edit: impl Fn(&mut AppProject) -> Result<bool, Failure>,
) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let changed = Cell::new(false);
    let tracked = |project: &mut AppProject| {
        changed.set(edit(project)?);
        Ok(changed.get())
    };
    work.edit_project(session.operand(0), tracked).await?;
    let text = if changed.get() { done } else { nothing };
    if !text.is_empty() {
        session.terminal.line(text);
    }
    Ok(OK)
}

async fn create(session: &Session<'_>) -> Result<Ended, Failure> {
    let name = session.operand(1);
    let texts = (format!("Role '{name}' created"), format!("Role '{name}' already exists"));
    edited(session, (&texts.0, &texts.1), |project| {
        if project.spec.roles.iter().any(|role| role.name == name) {
            return Ok(false);
        }
        project.spec.roles.push(ProjectRole {
            name: name.to_owned(),
            description: session.flags.text("description").to_owned(),
            ..ProjectRole::default()
        });
        Ok(true)
    })
    .await
}

async fn delete(session: &Session<'_>) -> Result<Ended, Failure> {
    let name = session.operand(1);
    let texts = (format!("Role '{name}' deleted"), format!("Role '{name}' does not exist in project"));
    edited(session, (&texts.0, &texts.1), |project| {
        let before = project.spec.roles.len();
        project.spec.roles.retain(|role| role.name != name);
        Ok(project.spec.roles.len() != before)
    })
    .await
}

/// The policy line that the flags mean (CLI-710).
fn policy(session: &Session<'_>) -> String {
    let (project, role, flags) = (session.operand(0), session.operand(1), session.flags);
    format!(
        "p, proj:{project}:{role}, {}, {}, {project}/{}, {}",
        flags.text("resource"),
        flags.text("action"),
        flags.text("object"),
        flags.text("permission")
    )
}

async fn edit_policy(session: &Session<'_>, adds: bool) -> Result<Ended, Failure> {
    let (line, name) = (policy(session), session.operand(1));
    edited(session, ("", ""), |project| {
        let role = role_mut(project, name)?;
        if adds {
            role.policies.push(line.clone());
            return Ok(true);
        }
        let at =
            role.policies.iter().position(|policy| *policy == line).ok_or_else(|| {
                Failure::generic(format!("policy '{line}' does not exist in role '{name}'"))
            })?;
        role.policies.remove(at);
        Ok(true)
    })
    .await
}

async fn edit_group(session: &Session<'_>, adds: bool) -> Result<Ended, Failure> {
    let (name, group) = (session.operand(1), session.operand(2));
    let texts = if adds {
        (
            format!("Group '{group}' added to role '{name}'"),
            format!("Group '{group}' already present in role '{name}'"),
        )
    } else {
        (
            format!("Group '{group}' removed from role '{name}'"),
            format!("Group '{group}' not present in role '{name}'"),
        )
    };
    edited(session, (&texts.0, &texts.1), |project| {
        let role = role_mut(project, name)?;
        let is_there = role.groups.iter().any(|other| other == group);
        if adds && !is_there {
            role.groups.push(group.to_owned());
        } else if !adds {
            role.groups.retain(|other| other != group);
        }
        Ok(adds != is_there)
    })
    .await
}

async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let project = work.project(session.operand(0)).await?;
    let role = role_of(&project, session.operand(1))?;
    session.terminal.print(&summary(&project, role, session.terminal.now(), &session.terminal.zone));
    Ok(OK)
}

/// What `proj role get` prints (CLI-711).
fn summary(project: &AppProject, role: &ProjectRole, now: Timestamp, zone: &TimeZone) -> String {
    let line = tiphys_api::printable::line;
    let mut out = format!(
        "{:15}{}\n{:15}{}\nPolicies:\n",
        "Role Name:",
        line(&role.name),
        "Description:",
        line(&role.description)
    );
    for policy in tiphys_policy::project::runtime_policy(project, role) {
        out.push_str(&line(&policy));
        out.push('\n');
    }
    out.push_str("Groups:\n");
    if role.groups.is_empty() {
        out.push_str("<none>\n");
    }
    for group in &role.groups {
        // Writing to a string cannot fail.
        let _written = writeln!(out, "  - {}", line(group));
    }
    out.push_str("JWT Tokens:\n");
    let mut table = Table::new(&["ID", "ISSUED-AT", "EXPIRES-AT"]);
    let tokens = project.status.jwt_tokens_by_role.get(&role.name);
    for token in tokens.map(|tokens| tokens.items.as_slice()).unwrap_or_default() {
        let expires = if token.exp > 0 { ago(token.exp, now, zone) } else { "<none>".to_owned() };
        table.row(vec![token.iat.to_string(), ago(token.iat, now, zone), expires]);
    }
    out + &table.print()
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let project = work.project(session.operand(0)).await?;
    let roles = &project.spec.roles;
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => session.terminal.data(&print(&json!(roles), machine)?),
        (None, "name") => roles.iter().for_each(|role| session.terminal.line(&role.name)),
        (None, "wide" | "") => {
            let mut table = Table::new(&["ROLE-NAME", "DESCRIPTION"]);
            for role in roles {
                table.row(vec![role.name.clone(), role.description.clone()]);
            }
            session.terminal.print(&table.print());
        }
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

/// A time with its distance from now, in words (CLI-711).
fn ago(seconds: i64, now: Timestamp, zone: &TimeZone) -> String {
    format!("{} ({})", rfc_3339(seconds, zone), distance(seconds.saturating_sub(now.as_second())))
}

fn distance(seconds: i64) -> String {
    const UNITS: [(i64, &str); 6] = [
        (31_104_000, "year"),
        (2_592_000, "month"),
        (604_800, "week"),
        (86_400, "day"),
        (3600, "hour"),
        (60, "minute"),
    ];
    let side = if seconds > 0 { "from now" } else { "ago" };
    let span = seconds.saturating_abs();
    if span == 0 {
        return "now".to_owned();
    }
    let (size, unit) = UNITS.into_iter().find(|(size, _)| span >= *size).unwrap_or((1, "second"));
    match span / size {
        1 => format!("1 {unit} {side}"),
        several => format!("{several} {unit}s {side}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_711_a_role_is_shown_with_its_policies_and_tokens() {
        let project: AppProject = serde_json::from_value(json!({"metadata": {"name": "demo"}, "spec": {"roles": [
            {"name": "ci", "description": "d\nx", "policies": ["p, proj:demo:ci, applications, get, demo/*, allow"],
                "groups": ["team"]}]},
            "status": {"jwtTokensByRole": {"ci": {"items": [{"iat": 1_785_319_200, "exp": 1_785_405_600}]}}}}))
        .unwrap();
        let now = "2026-08-01T10:00:00Z".parse().unwrap();
        assert_eq!(
            summary(&project, &project.spec.roles[0], now, &TimeZone::UTC),
            "Role Name:     ci\nDescription:   d\\nx\nPolicies:\np, proj:demo:ci, projects, get, demo, allow\n\
             p, proj:demo:ci, applications, get, demo/*, allow\ng, team, proj:demo:ci\nGroups:\n  - team\n\
             JWT Tokens:\nID          ISSUED-AT                          EXPIRES-AT\n\
             1785319200  2026-07-29T10:00:00Z (3 days ago)  2026-07-30T10:00:00Z (2 days ago)\n"
        );
    }

    #[test]
    fn cli_711_distances_in_words() {
        for (seconds, text) in [
            (0, "now"),
            (-1, "1 second ago"),
            (59, "59 seconds from now"),
            (-3600, "1 hour ago"),
            (-86_400 * 8, "1 week ago"),
            (86_400 * 400, "1 year from now"),
            (i64::MIN, "296533308798 years ago"),
        ] {
            assert_eq!(distance(seconds), text, "{seconds}");
        }
    }
}
