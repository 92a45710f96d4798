//! `repocreds`: credentials for all repositories whose URLs begin alike (CLI-805).

mod remote;

use serde_json::Value;
use tiphys_api::repo_url;
use tiphys_api::repository::CredentialTemplate;
use tiphys_service::template::{Templates, shown};
use tiphys_service::{Caller, Secrets, Store};

use crate::command::Command;
use crate::core::{Core, Loaded, World};
use crate::credentials;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::Terminal;

const ADD_FLAGS: &[Flag] = &[flag("proxy-url", Kind::Text, "", "Proxy of the repositories")];
const LIST_FLAGS: &[Flag] =
    &[flag("output", Kind::Text, "wide", "Output format: wide, json, yaml or url").or('o')];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Add,
    List,
    Rm,
}

static GROUP: Group<Verb> = Group {
    name: "repocreds",
    about: "Manage credential templates",
    commands: &[
        Command::new(
            Verb::Add,
            ("add", "REPOURL"),
            "Add credentials for all repositories below a URL",
            &[credentials::FLAGS, credentials::UPSERT, ADD_FLAGS],
            (1, 1),
        ),
        Command::new(Verb::List, ("list", ""), "List credential templates", &[LIST_FLAGS], (0, usize::MAX)),
        Command::new(Verb::Rm, ("rm", "CREDSURL..."), "Remove credential templates", &[], (1, usize::MAX)),
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Runs `repocreds …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::Add => Box::pin(add(session)).await,
        Verb::List => Box::pin(list(session)).await,
        Verb::Rm => Box::pin(rm(session)).await,
    }
}

/// A template as commands print it: in tables, and as the API shows it.
struct Found {
    template: CredentialTemplate,
    value: Value,
}

async fn begin(core: &Core) -> Result<(Store, Secrets), Failure> {
    let Loaded { secrets, .. } = World::load_all(core).await?;
    Ok((core.store()?, secrets))
}

async fn add(session: &Session<'_>) -> Result<Ended, Failure> {
    let url = session.operand(0);
    let mut credentials = credentials::read(session, url, || Ok(())).await?;
    session.flags.text("proxy-url").clone_into(&mut credentials.proxy);
    let template = CredentialTemplate {
        url: url.to_owned(),
        r#type: session.flags.text("type").to_owned(),
        credentials,
        ..CredentialTemplate::default()
    };
    let core = session.connect().await?;
    let fields = template.fields().into_iter().filter(|field| !field.is_zero);
    let data = fields.map(|field| (field.key.to_owned(), field.value.expose().clone())).collect();
    for text in tiphys_api::support::repository_reports(&data) {
        session.warn(&text);
    }
    let is_upsert = session.flags.is_on("upsert");
    if let Some(server) = core.server() {
        remote::create(server, &template, is_upsert).await?;
    } else {
        let (store, mut secrets) = begin(&core).await?;
        Templates::new(&store, Caller::operator()).create(&mut secrets, &template, is_upsert).await?;
    }
    session.terminal.line(&format!("Repository credentials for '{}' added", repo_url::mask_password(url)));
    Ok(OK)
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let found = if let Some(server) = core.server() {
        remote::list(server).await?
    } else {
        let (store, secrets) = begin(&core).await?;
        let found = Templates::new(&store, Caller::operator()).list(&secrets).into_iter();
        found.map(|template| Found { value: shown(&template), template }).collect()
    };
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => {
            let values: Vec<Value> = found.into_iter().map(|one| one.value).collect();
            session.terminal.data(&print(&values.into(), machine)?);
        }
        (None, "url") => {
            for one in &found {
                session.terminal.line(&repo_url::mask_password(&one.template.url));
            }
        }
        (None, "wide" | "") => session.terminal.print(&table(&found)),
        (None, other) => return Err(crate::output::unknown_format(other)),
    }
    Ok(OK)
}

fn table(found: &[Found]) -> String {
    let mut table = Table::new(&["URL PATTERN", "USERNAME", "SSH_CREDS", "TLS_CREDS"]);
    for Found { template: CredentialTemplate { url, credentials, .. }, .. } in found {
        let user = if credentials.username.is_empty() { "-" } else { &credentials.username };
        table.row(vec![
            repo_url::mask_password(url),
            user.to_owned(),
            (!credentials.ssh_private_key.is_empty()).to_string(),
            (!credentials.tls_client_cert_data.is_empty()).to_string(),
        ]);
    }
    table.print()
}

async fn rm(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let mut direct = if core.server().is_some() { None } else { Some(begin(&core).await?) };
    for url in &session.flags.operands {
        let name = repo_url::mask_password(url);
        if !session.confirms(&format!("Are you sure you want to remove '{name}'? [y/n] ")).await {
            session.terminal.line(&format!("The command to remove '{name}' was cancelled."));
            continue;
        }
        let left = if let Some((store, secrets)) = &mut direct {
            Templates::new(store, Caller::operator()).delete(secrets, url).await?
        } else {
            remote::delete(core.by_server()?, url).await?;
            Vec::new()
        };
        session.terminal.line(&format!("Repository credentials for '{name}' removed"));
        if !left.is_empty() {
            session.warn(&format!(
                "the same template is declared by other Secrets, one of which counts now: {}",
                left.join(", ")
            ));
        }
    }
    Ok(OK)
}
