//! `cert`: certificates of servers and host keys for SSH (CLI-830, CLI-831).

mod remote;

use std::collections::BTreeSet;

use tiphys_api::trust::{HostPattern, KnownHosts, Pem, PemError, certificates};
use tiphys_service::certificate::{CertificateError, CertificateType, Certificates, Filter, Item};
use tiphys_service::{Caller, Error};

use crate::command::Command;
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::output::{machine_format, print, unknown_format};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::{Terminal, read_input};

const FROM: Flag = flag("from", Kind::Text, "", "File to read instead of standard input").or('f');
const UPSERT: Flag = flag("upsert", Kind::Bool, "false", "Replace what is there and different");
const CERT_TYPE: Flag = flag("cert-type", Kind::Text, "", "Only of this type: ssh or https");

const ADD_TLS_FLAGS: &[Flag] = &[FROM, UPSERT];
const ADD_SSH_FLAGS: &[Flag] =
    &[FROM, UPSERT, flag("batch", Kind::Bool, "false", "Add all lines of known hosts that are read")];
const LIST_FLAGS: &[Flag] = &[
    flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o'),
    flag("sort", Kind::Text, "", "Sort by hostname or type"),
    CERT_TYPE,
    flag("hostname-pattern", Kind::Text, "", "Only of hosts that fit this pattern"),
];
const RM_FLAGS: &[Flag] =
    &[CERT_TYPE, flag("cert-sub-type", Kind::Text, "", "Only SSH keys of this kind, for example ssh-rsa")];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    AddTls,
    AddSsh,
    List,
    Rm,
}

static GROUP: Group<Verb> = Group {
    name: "cert",
    about: "Manage certificates and SSH known hosts",
    commands: &[
        Command::new(
            Verb::AddTls,
            ("add-tls", "SERVERNAME"),
            "Add the certificates that vouch for a server",
            &[ADD_TLS_FLAGS],
            (1, 1),
        ),
        Command::new(
            Verb::AddSsh,
            ("add-ssh", "--batch"),
            "Add host keys",
            &[ADD_SSH_FLAGS],
            (0, usize::MAX),
        ),
        Command::new(
            Verb::List,
            ("list", ""),
            "List certificates and host keys",
            &[LIST_FLAGS],
            (0, usize::MAX),
        ),
        Command::new(
            Verb::Rm,
            ("rm", "REPOSERVER"),
            "Remove certificates and host keys of a server",
            &[RM_FLAGS],
            (1, 1),
        ),
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[],
};

/// Runs `cert …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::AddTls => Box::pin(add_tls(session)).await,
        Verb::AddSsh => Box::pin(add_ssh(session)).await,
        Verb::List => Box::pin(list(session)).await,
        Verb::Rm => Box::pin(rm(session)).await,
    }
}

/// What is to be read: a file, or standard input.
async fn input(session: &Session<'_>) -> Result<String, Failure> {
    match session.flags.text("from") {
        "" => read_input("-").await,
        named => read_input(named).await,
    }
}

async fn add_tls(session: &Session<'_>) -> Result<Ended, Failure> {
    let (terminal, host) = (session.terminal, session.operand(0));
    let found = match certificates(&input(session).await?) {
        Ok(found) => found,
        Err(PemError::None) => {
            terminal.line("No valid certificates have been detected in the stream.");
            return Ok(OK);
        }
        Err(error) => return Err(Error::from(CertificateError::from(error)).into()),
    };
    let (mut seen, mut unique) = (BTreeSet::new(), Vec::new());
    for pem in found {
        let fingerprint = pem.fingerprint();
        if !seen.insert(fingerprint.clone()) {
            let subject = pem.certificate().map(|found| found.subject).unwrap_or_default();
            terminal.line(&format!(
                "WARNING: Duplicate certificate detected (SHA256 fingerprint {fingerprint}, subject '{subject}'), \
                 skipping."
            ));
            continue;
        }
        unique.push(pem);
    }
    let text: String = unique.iter().map(Pem::text).collect();
    let (core, is_upsert) = (session.connect().await?, session.flags.is_on("upsert"));
    if let Some(server) = core.server() {
        remote::create_tls(server, (host, &text), is_upsert).await?;
    } else {
        let store = core.store()?;
        Certificates::new(&store, Caller::operator()).create_tls(host, &text, is_upsert).await?;
    }
    terminal.line(&format!(
        "Created/updated TLS certificate entry for repository server {host} with {} unique PEM certificates",
        unique.len()
    ));
    Ok(OK)
}

async fn add_ssh(session: &Session<'_>) -> Result<Ended, Failure> {
    if !session.flags.is_on("batch") {
        return Err(Failure::generic("you need to specify --batch or specify --help for usage instructions"));
    }
    let wanted: Vec<_> = KnownHosts::read(&input(session).await?).entries().cloned().collect();
    if wanted.is_empty() {
        return Err(Failure::generic("No valid SSH known hosts data found."));
    }
    let (core, is_upsert) = (session.connect().await?, session.flags.is_on("upsert"));
    let made = if let Some(server) = core.server() {
        remote::create_ssh(server, &wanted, is_upsert).await?
    } else {
        let store = core.store()?;
        Certificates::new(&store, Caller::operator()).create_ssh(&wanted, is_upsert).await?.len()
    };
    session.terminal.line(&format!("Successfully created {made} SSH known host entries"));
    Ok(OK)
}

/// Which certificates the flags mean.
struct Meant<'a> {
    host: &'a str,
    kind: Option<CertificateType>,
    sub_type: &'a str,
}

impl<'a> Meant<'a> {
    fn read(session: &Session<'a>, host: &'a str) -> Result<Self, Failure> {
        let kind = CertificateType::read(session.flags.text("cert-type")).map_err(Error::from)?;
        Ok(Self { host, kind, sub_type: session.flags.text("cert-sub-type") })
    }

    fn filter(&self) -> Filter {
        Filter { host: HostPattern::new(self.host), kind: self.kind, sub_type: self.sub_type.to_owned() }
    }
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let meant = Meant::read(session, session.flags.text("hostname-pattern"))?;
    let sort: fn(&Item, &Item) -> std::cmp::Ordering = match session.flags.text("sort") {
        "" => |_, _| std::cmp::Ordering::Equal,
        "hostname" => |a, b| a.host.cmp(&b.host),
        "type" => |a, b| a.kind.cmp(&b.kind),
        other => {
            return Err(Failure::generic(format!("unknown order: {other}. Supported orders: hostname|type")));
        }
    };
    let core = session.connect().await?;
    let mut found = if let Some(server) = core.server() {
        remote::list(server, &meant).await?
    } else {
        Certificates::new(&core.store()?, Caller::operator()).list(&meant.filter()).await?
    };
    found.sort_by(sort);
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => {
            let values: Vec<_> = found.iter().map(Item::to_value).collect();
            session.terminal.data(&print(&values.into(), machine)?);
        }
        (None, "wide" | "") => session.terminal.print(&table(found)),
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

fn table(found: Vec<Item>) -> String {
    let mut table = Table::new(&["HOSTNAME", "TYPE", "SUBTYPE", "INFO"]);
    for Item { host, kind, sub_type, info } in found {
        table.row(vec![host, kind.as_str().to_owned(), sub_type, info]);
    }
    table.print()
}

async fn rm(session: &Session<'_>) -> Result<Ended, Failure> {
    let host = session.operand(0);
    if host == "*" {
        return Err(Failure::generic("A single wildcard is not allowed as REPOSERVER name."));
    }
    let meant = Meant::read(session, host)?;
    if !session.confirms(&format!("Are you sure you want to remove all certs for '{host}'? [y/n] ")).await {
        session.terminal.line(&format!("The command to remove all certs for '{host}' was cancelled."));
        return Ok(OK);
    }
    let core = session.connect().await?;
    let removed = if let Some(server) = core.server() {
        remote::delete(server, &meant).await?
    } else {
        Certificates::new(&core.store()?, Caller::operator()).delete(&meant.filter()).await?
    };
    if removed.is_empty() {
        session.terminal.line("No certificates were removed (none matched the given pattern)");
    }
    for Item { host, kind, sub_type, .. } in removed {
        let kind = kind.as_str();
        session.terminal.line(&format!("Removed cert for '{host}' of type '{kind}' (subtype '{sub_type}')"));
    }
    Ok(OK)
}
