//! `admin app|proj|repo|cluster generate-spec`: the manifests of what the commands with the same flags would store
//! (CLI-920). Nothing is asked and nothing is changed, except the file that `--inline` names.

use std::path::Path;

use serde_json::{Map, Value, json};
use tiphys_api::names::{GROUP, VERSION};
use tiphys_object::access;
use tiphys_service::{Caller, Change, Planned, Purpose, Secrets};

use super::inputs;
use crate::app::create as app;
use crate::app::spec_flags;
use crate::cluster::add as cluster;
use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::proj::options;
use crate::session::{Ended, OK, Session};
use crate::{credentials, outfile, remote, repo};

/// Namespace of the Secrets, where no other is named.
const NAMESPACE: &str = "argocd";

const OUTPUT: &[Flag] = &[flag("output", Kind::Text, "yaml", "Output format: json or yaml").or('o')];
const INLINE: &[Flag] =
    &[flag("inline", Kind::Bool, "false", "Write the result to the file that --file names").or('i')];
const FILE: &[Flag] =
    &[flag("file", Kind::Text, "", "File or URL with the project, - for standard input").or('f')];
const CLUSTER: &[Flag] = &[
    flag("bearer-token", Kind::Text, "", "Token that the installation uses for the cluster"),
    flag(
        "generate-bearer-token",
        Kind::Bool,
        "false",
        "Read the token of the service account from the cluster",
    ),
];
/// What stands for a token that nobody gives.
const PLACEHOLDER: &str = "bearer-token";

/// `admin app generate-spec`.
pub(super) const fn of_app<V: Copy>(verb: V) -> Command<V> {
    Command::new(
        verb,
        ("generate-spec", "APPNAME"),
        "Print the manifest of an application",
        &[spec_flags::FLAGS, app::FLAGS, OUTPUT, INLINE],
        (0, 1),
    )
}

/// `admin proj generate-spec`.
pub(super) const fn of_project<V: Copy>(verb: V) -> Command<V> {
    Command::new(
        verb,
        ("generate-spec", "PROJECT"),
        "Print the manifest of a project",
        &[options::FLAGS, FILE, OUTPUT, INLINE],
        (0, 1),
    )
}

/// `admin repo generate-spec`.
pub(super) const fn of_repository<V: Copy>(verb: V) -> Command<V> {
    Command::new(
        verb,
        ("generate-spec", "REPOURL"),
        "Print the Secret of a repository",
        &[credentials::FLAGS, repo::DESCRIBED, OUTPUT],
        (1, 1),
    )
}

/// `admin cluster generate-spec`.
pub(super) const fn of_cluster<V: Copy>(verb: V) -> Command<V> {
    Command::new(
        verb,
        ("generate-spec", "CONTEXT"),
        "Print the Secret of the cluster of a context",
        &[cluster::DESCRIBED, CLUSTER, OUTPUT],
        (0, 1),
    )
}

/// Prints the Application that the flags make.
pub(super) async fn app(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let file = flags.text("file");
    let text = if file.is_empty() { None } else { Some(remote::read(file).await?) };
    let literal = app::values_literal(session).await?;
    let Some((mut apps, notes)) = app::build(flags, text.as_deref(), literal)? else {
        return Ok(Ended::Help);
    };
    for note in notes {
        session.terminal.log(session.style, "error", &note);
    }
    match (apps.pop(), apps.is_empty()) {
        (Some(app), true) => write(session, &app),
        _ => Err(Failure::generic("failed to generate spec, more than one application is not supported")),
    }
}

/// Prints the project that the flags make.
pub(super) async fn project(session: &Session<'_>) -> Result<Ended, Failure> {
    let Some(project) = options::wanted(session).await? else { return Ok(Ended::Help) };
    let project = tiphys_service::project::prepared(&project).map_err(tiphys_service::Error::from)?;
    let member =
        |value: serde_json::Result<Value>| value.map_err(|error| Failure::generic(error.to_string()));
    let spec = member(serde_json::to_value(&project.spec))?;
    let metadata = member(serde_json::to_value(&project.metadata))?;
    write(
        session,
        &json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": "AppProject", "metadata": metadata, "spec": spec}),
    )
}

/// Prints the Secret that the flags make of a repository.
pub(super) async fn repository(session: &Session<'_>) -> Result<Ended, Failure> {
    let wanted = repo::wanted(session).await?;
    let none = Secrets::new(namespace(session), []);
    let planned = tiphys_service::repository::plan_create(&none, Purpose::Read, &wanted, false)
        .map_err(tiphys_service::Error::from)?;
    write_secret(session, &planned)
}

/// Prints the Secret that the flags make of a cluster.
pub(super) async fn cluster(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let token = async |writer: &tiphys_cluster::Writer| {
        let (given, account) = (flags.text("bearer-token"), flags.text("service-account"));
        if flags.is_on("generate-bearer-token") {
            let account = if account.is_empty() { tiphys_service::cluster::access::ACCOUNT } else { account };
            return cluster::token_of(writer, flags.text("system-namespace"), account).await;
        }
        Ok(if given.is_empty() { PLACEHOLDER } else { given }.into())
    };
    let Some(wanted) = cluster::described(session, token).await? else { return Ok(Ended::Code(1)) };
    let planned = tiphys_service::cluster::plan_create(&Secrets::new(NAMESPACE, []), &wanted, false, true)
        .map_err(tiphys_service::Error::from)?;
    write_secret(session, &planned)
}

/// Where the Secret of a repository belongs.
fn namespace<'a>(session: &Session<'a>) -> &'a str {
    match session.flags.text("namespace") {
        "" => NAMESPACE,
        named => named,
    }
}

fn write_secret(session: &Session<'_>, planned: &Planned) -> Result<Ended, Failure> {
    let Change::Create(sealed) = planned.for_caller(Caller::operator())? else {
        return Err(Failure::generic("there is nothing to make"));
    };
    let mut secret = sealed.expose().clone();
    inputs::decode_texts(&mut secret);
    write(session, &secret)
}

/// Prints the manifest, or puts it into the file that it came from.
fn write(session: &Session<'_>, manifest: &Value) -> Result<Ended, Failure> {
    let flags = session.flags;
    let format = flags.text("output");
    let format = machine_format(format).ok_or_else(|| unknown_format(format))?;
    let mut manifest = manifest.clone();
    // What only servers write is no part of a declaration.
    access::ensure_object(&mut manifest).remove("status");
    drop_empty(access::metadata_mut(&mut manifest));
    let text = print(&manifest, format)?;
    if !flags.is_on("inline") {
        session.terminal.data(&text);
        return Ok(OK);
    }
    let path = flags.text("file");
    if path.is_empty() || path == "-" || path.contains("://") {
        return Err(Failure::generic("--inline needs the path of a file in --file"));
    }
    outfile::replace_keeping_mode(Path::new(path), text.as_bytes())
        .map_err(|error| Failure::generic(format!("open {path}: {}", crate::terminal::io_text(&error))))?;
    Ok(OK)
}

/// Leaves members out that say nothing.
fn drop_empty(members: &mut Map<String, Value>) {
    members.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
}
