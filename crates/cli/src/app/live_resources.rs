//! Single live resources of an application, by way of a server: `get-resource`, `patch-resource`, `delete-resource`,
//! and `actions` (CLI-541..545).

use serde_json::{Value, json};
use tiphys_object::{Gvk, access};

use crate::app::{Ended, NAMESPACE as APP_NAMESPACE, OK, Session};
use crate::command::Command;
use crate::core::{AppName, Core, Live, state};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::output::{Format, machine_format, print, unknown_format};
use crate::session::{self, Group};
use crate::table::Table;
use crate::terminal::Terminal;

const KIND: Flag = flag("kind", Kind::Text, "", "Kind of the resources");
const GROUP: Flag = flag("group", Kind::Text, "", "Group of the resources");
const NAME: Flag = flag("resource-name", Kind::Text, "", "Name of the resource");
const NAMESPACE: Flag = flag("namespace", Kind::Text, "", "Namespace of the resource");
const PROJECT: Flag = flag("project", Kind::Text, "", "Project of the application");
const ALL: Flag = flag("all", Kind::Bool, "false", "All resources that match, where there are several");

/// Flags of `get-resource`.
pub(super) const GET_FLAGS: &[Flag] = &[
    KIND,
    GROUP,
    NAME,
    NAMESPACE,
    PROJECT,
    flag("filter-fields", Kind::Csv, "", "Fields to show, with dots between names"),
    flag("show-managed-fields", Kind::Bool, "false", "Show managed fields"),
    flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o'),
    APP_NAMESPACE,
];

/// Flags of `patch-resource`.
pub(super) const PATCH_FLAGS: &[Flag] = &[
    flag("patch", Kind::Text, "", "The patch"),
    flag("patch-type", Kind::Text, "application/merge-patch+json", "Which patch it is: its media type"),
    KIND,
    GROUP,
    NAME,
    NAMESPACE,
    PROJECT,
    ALL,
    APP_NAMESPACE,
];

/// Flags of `delete-resource`.
pub(super) const DELETE_FLAGS: &[Flag] = &[
    KIND,
    GROUP,
    NAME,
    NAMESPACE,
    PROJECT,
    flag("force", Kind::Bool, "false", "Without waiting for a graceful end"),
    flag("orphan", Kind::Bool, "false", "Leave what depends on it"),
    ALL,
    APP_NAMESPACE,
];

const LIST_FLAGS: &[Flag] = &[
    KIND,
    GROUP,
    NAME,
    NAMESPACE,
    flag("output", Kind::Text, "", "Output format: json or yaml").or('o'),
    flag("out", Kind::Text, "", "The same"),
    APP_NAMESPACE,
];
const RUN_FLAGS: &[Flag] = &[
    KIND,
    GROUP,
    NAME,
    NAMESPACE,
    ALL,
    flag("param", Kind::Texts, "", "NAME=VALUE of a parameter of the action (repeatable)"),
    APP_NAMESPACE,
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    List,
    Run,
}

static ACTIONS: Group<Verb> = Group {
    name: "app actions",
    about: "Actions on resources",
    commands: &[
        Command::new(Verb::List, ("list", "APPNAME"), "List actions", &[LIST_FLAGS], (1, 1)),
        Command {
            required: &["kind"],
            ..Command::new(Verb::Run, ("run", "APPNAME ACTION"), "Run an action", &[RUN_FLAGS], (2, 2))
        },
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Runs `app actions …` and says the exit code.
pub(super) fn actions(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &ACTIONS, async |session, verb| match verb {
        Verb::List => Box::pin(list(session)).await,
        Verb::Run => Box::pin(run(session)).await,
    })
}

/// The resources that the flags mean, of an application (CLI-542).
async fn chosen(session: &Session<'_>, core: &Core) -> Result<(AppName, Vec<Live>), Failure> {
    let name = session.only_name(core);
    let project = session.flags.text("project");
    if !project.is_empty() && core.application(&name).await?.app.project() != project {
        return Err(Failure::status("PermissionDenied", "permission denied"));
    }
    let all = core.by_server()?.live(&name).await?;
    Ok((name, all.into_iter().filter(|live| matches(live, session.flags)).collect()))
}

fn matches(live: &Live, flags: &Parsed) -> bool {
    let is = |name: &str, text: &str| !flags.is_set(name) || flags.text(name) == text;
    is("kind", &live.kind)
        && is("group", &live.group)
        && is("namespace", &live.namespace)
        && is("resource-name", &live.name)
}

/// One of them, or all where that is said.
fn one_or_all(found: Vec<Live>, flags: &Parsed, what: &str) -> Result<Vec<Live>, Failure> {
    match found.len() {
        0 => Err(Failure::generic("no matching resource found")),
        1 => Ok(found),
        _ if flags.is_on("all") => Ok(found),
        _ => Err(Failure::generic(format!(
            "multiple resources match inputs, use the --all flag to {what} multiple resources"
        ))),
    }
}

/// `app get-resource` (CLI-541).
pub(super) async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let (name, found) = chosen(session, &core).await?;
    if found.is_empty() {
        return Err(Failure::generic("no matching resource found"));
    }
    let mut shown = Vec::with_capacity(found.len());
    for live in &found {
        let mut object = core.by_server()?.resource(&name, live).await?;
        if !flags.is_on("show-managed-fields")
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.remove("managedFields");
        }
        let fields = flags.texts("filter-fields");
        shown.push((live, if fields.is_empty() { object } else { filtered(&object, fields) }));
    }
    let names: Vec<&str> = found.iter().map(|live| live.name.as_str()).collect();
    session.terminal.log(session.style, "info", &format!("Resources '[{}]' fetched", names.join(" ")));
    match (machine_format(flags.text("output")), flags.text("output")) {
        (Some(format), _) => {
            for (at, (_, object)) in shown.iter().enumerate() {
                let between = if at > 0 && format == Format::Yaml { "---\n" } else { "" };
                session.terminal.data(&format!("{between}{}", print(object, format)?));
            }
        }
        (None, "wide" | "") => {
            let several = shown.len() > 1;
            let header: &[&str] =
                if several { &["FIELD", "RESOURCE NAME", "VALUE"] } else { &["FIELD", "VALUE"] };
            let mut table = Table::new(header);
            for (live, object) in &shown {
                let mut lines = Vec::new();
                flatten(String::new(), object, &mut lines);
                for (field, value) in lines {
                    table.row(if several {
                        vec![field, live.name.clone(), value]
                    } else {
                        vec![field, value]
                    });
                }
            }
            session.terminal.print(&table.print());
        }
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

/// The object with these fields alone.
fn filtered(object: &Value, fields: &[String]) -> Value {
    let mut kept = json!({});
    for field in fields {
        let parts: Vec<&str> = field.split('.').collect();
        let Some(found) = access::at(object, &parts) else { continue };
        let Some((last, before)) = parts.split_last() else { continue };
        let mut place = &mut kept;
        for part in before {
            place = access::ensure_object(place).entry(*part).or_insert_with(|| json!({}));
        }
        access::ensure_object(place).insert((*last).to_owned(), found.clone());
    }
    kept
}

/// Each value of an object with its path.
fn flatten(path: String, value: &Value, into: &mut Vec<(String, String)>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(below, member, into);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                flatten(format!("{path}[{at}]"), item, into);
            }
        }
        Value::String(text) => into.push((path, text.clone())),
        other => into.push((path, other.to_string())),
    }
}

/// `app patch-resource` (CLI-542).
pub(super) async fn patch(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let (name, found) = chosen(session, &core).await?;
    for live in one_or_all(found, flags, "patch")? {
        let patch = (flags.text("patch"), flags.text("patch-type"));
        core.by_server()?.patch_resource(&name, &live, patch).await?;
        session.terminal.log(session.style, "info", &format!("Resource '{}' patched", live.name));
    }
    Ok(OK)
}

/// `app delete-resource` (CLI-543).
pub(super) async fn delete(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let (name, found) = chosen(session, &core).await?;
    for live in one_or_all(found, flags, "delete")? {
        let Live { group, kind, namespace, name: resource, .. } = &live;
        let what = format!("{group}/{kind} {namespace}/{resource}");
        let question = format!("Are you sure you want to delete {what}? [y/n] ");
        if !session.confirms(&question).await {
            session.terminal.line(&format!("The command to delete {what} was cancelled."));
            continue;
        }
        let how = (flags.is_on("force"), flags.is_on("orphan"));
        core.by_server()?.delete_resource(&name, &live, how).await?;
        session.terminal.log(session.style, "info", &format!("Resource '{resource}' deleted"));
    }
    Ok(OK)
}

/// `app actions list` (CLI-544).
async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let (name, found) = chosen(session, &core).await?;
    let mut rows = Vec::new();
    for live in &found {
        for action in core.by_server()?.actions(&name, live).await? {
            let is_disabled = action.get("disabled").and_then(Value::as_bool).unwrap_or_default();
            rows.push((live, access::text(&action, "name").to_owned(), is_disabled));
        }
    }
    let key = |live: &Live| (live.group.clone(), live.kind.clone(), live.name.clone());
    rows.sort_by_cached_key(|(live, action, _)| (key(live), action.clone()));
    let output = if flags.text("output").is_empty() { flags.text("out") } else { flags.text("output") };
    match (machine_format(output), output) {
        (Some(format), _) => {
            let value = |(live, action, is_disabled): &(&Live, String, bool)| {
                json!({"Group": live.group, "Kind": live.kind, "Name": live.name, "Action": action,
                    "Disabled": is_disabled})
            };
            session.terminal.data(&print(&rows.iter().map(value).collect(), format)?);
        }
        (None, "" | "wide") => {
            let mut table = Table::new(&["GROUP", "KIND", "NAME", "ACTION", "DISABLED"]);
            for (live, action, is_disabled) in rows {
                let (group, kind, name) = key(live);
                table.row(vec![group, kind, name, action, is_disabled.to_string()]);
            }
            session.terminal.print(&table.print());
        }
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

/// `app actions run` (CLI-544, CLI-545).
async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let mut params = Vec::new();
    for text in flags.texts("param") {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            Failure::generic(format!("expected a parameter of the form: name=value. Received: {text}"))
        })?;
        params.push(json!({"name": name, "value": value}));
    }
    let core = session.connect().await?;
    let (name, found) = chosen(session, &core).await?;
    let groups: std::collections::BTreeSet<&str> = found.iter().map(|live| live.group.as_str()).collect();
    if groups.len() > 1 && !flags.is_set("group") {
        return Err(Failure::fatal(
            "Ambiguous resource group. Use flag --group to specify resource group explicitly.",
        ));
    }
    for live in one_or_all(found, flags, "run the action on")? {
        core.by_server()?.run_action(&name, &live, (session.operand(1), &params)).await?;
    }
    Ok(OK)
}

/// A live resource as a server tells of it; `None` where there is none.
pub(crate) fn live(resource: &Value) -> Result<Option<Live>, Failure> {
    let state = state(resource, "liveState")?;
    let part = |name: &str| access::text(resource, name).to_owned();
    Ok(state.is_object().then(|| Live {
        version: Gvk::of(&state).version.to_string(),
        group: part("group"),
        kind: part("kind"),
        namespace: part("namespace"),
        name: part("name"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_541_fields_have_paths() {
        let object = json!({"spec": {"replicas": 2, "ports": [{"port": 1}, {"port": 2}]}, "kind": "X"});
        let mut lines = Vec::new();
        flatten(
            String::new(),
            &filtered(&object, &["spec.ports".to_owned(), "no.such".to_owned()]),
            &mut lines,
        );
        let lines: Vec<(&str, &str)> = lines.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(lines, [("spec.ports[0].port", "1"), ("spec.ports[1].port", "2")]);
    }

    #[test]
    fn cli_542_several_resources_want_all() {
        let one = live(&json!({"group": "apps", "kind": "Deployment", "namespace": "n", "name": "a",
            "liveState": r#"{"apiVersion": "apps/v1", "kind": "Deployment"}"#}))
        .unwrap()
        .unwrap();
        assert_eq!((one.version.as_str(), live(&json!({"liveState": "null"}))), ("v1", Ok(None)));
        assert!(live(&json!({"liveState": "{"})).is_err(), "what cannot be read is not absent");
        let flags = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            crate::flags::parse(&args, &[PATCH_FLAGS]).unwrap()
        };
        let two = || vec![one.clone(), Live { name: "b".to_owned(), ..one.clone() }];
        let text = one_or_all(two(), &flags(&[]), "patch").unwrap_err().message;
        assert_eq!(text, "multiple resources match inputs, use the --all flag to patch multiple resources");
        assert_eq!(one_or_all(two(), &flags(&["--all"]), "patch").unwrap().len(), 2);
        assert_eq!(
            one_or_all(Vec::new(), &flags(&[]), "x").unwrap_err().message,
            "no matching resource found"
        );
        assert!(matches(&one, &flags(&["--kind", "Deployment", "--group", "apps"])));
        assert!(!matches(&one, &flags(&["--kind", "Deployment", "--group", ""])));
    }
}
