//! `account`: local accounts, their passwords and tokens (CLI-820 to CLI-822).
//!
//! In core mode nobody is logged in: Kubernetes decides what the person may do, and an account is named.

mod remote;

use serde_json::{Value, json};
use tiphys_api::account::{Account, Accounts as All};
use tiphys_api::secret::Secret;
use tiphys_policy::rbac::check_words;
use tiphys_service::account::{AccountCallError, Accounts, Issue, hashed, shown};
use tiphys_service::project::token::random_id;
use tiphys_service::{Caller, Error};

use crate::command::Command;
use crate::config_file;
use crate::core::{Core, World};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::login::{self, claims};
use crate::output::{Format, machine_format, print, unknown_format};
use crate::session::{self, Ended, Group, OK, Session};
use crate::table::Table;
use crate::terminal::{Terminal, read_input};

const ACCOUNT: Flag = flag("account", Kind::Text, "", "Name of the account").or('a');
const OUTPUT: Flag = flag("output", Kind::Text, "wide", "Output format: wide, json or yaml").or('o');

const LIST_FLAGS: &[Flag] = &[OUTPUT];
const GET_FLAGS: &[Flag] = &[ACCOUNT, OUTPUT];
const INFO_FLAGS: &[Flag] = &[flag("output", Kind::Text, "", "Output format: json or yaml").or('o')];
const CAN_FLAGS: &[Flag] = &[flag("exit-code", Kind::Bool, "false", "End with code 1 when the answer is no")];
const PASSWORD_FLAGS: &[Flag] = &[
    flag("account", Kind::Text, "", "Name of the account"),
    flag("current-password", Kind::Text, "", "Password of the person who is logged in"),
    flag("new-password", Kind::Text, "", "New password; asked for twice when it is not given"),
];
const TOKEN_FLAGS: &[Flag] = &[
    ACCOUNT,
    flag("expires-in", Kind::Text, "0s", "Time until the token ends, 30s, 5m, 2h, 7d or 1w; 0s is never")
        .or('e'),
    flag("id", Kind::Text, "", "Id of the token; a random one when it is not given"),
];
const DELETE_FLAGS: &[Flag] = &[ACCOUNT];
const BCRYPT_FLAGS: &[Flag] =
    &[flag("password", Kind::Text, "", "Password; read from standard input when it is not given")];
const SESSION_FLAGS: &[Flag] = &[flag("output", Kind::Text, "", "Output format: json").or('o')];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Bcrypt,
    CanI,
    DeleteToken,
    GenerateToken,
    Get,
    GetUserInfo,
    List,
    SessionToken,
    UpdatePassword,
}

static GROUP: Group<Verb> = Group {
    name: "account",
    about: "Manage accounts",
    commands: &[
        Command::new(Verb::Bcrypt, ("bcrypt", ""), "Print the hash of a password", &[BCRYPT_FLAGS], (0, 0)),
        Command::new(
            Verb::CanI,
            ("can-i", "ACTION RESOURCE SUBRESOURCE"),
            "Say whether it is allowed",
            &[CAN_FLAGS],
            (3, 3),
        ),
        Command::new(Verb::DeleteToken, ("delete-token", "ID"), "End a token", &[DELETE_FLAGS], (1, 1)),
        Command::new(Verb::GenerateToken, ("generate-token", ""), "Make a token", &[TOKEN_FLAGS], (0, 0)),
        Command::new(Verb::Get, ("get", ""), "Show an account", &[GET_FLAGS], (0, 0)),
        Command::new(
            Verb::GetUserInfo,
            ("get-user-info", ""),
            "Show who is logged in",
            &[INFO_FLAGS],
            (0, 0),
        ),
        Command::new(Verb::List, ("list", ""), "List accounts", &[LIST_FLAGS], (0, usize::MAX)),
        Command::new(
            Verb::SessionToken,
            ("session-token", ""),
            "Print the token of the context",
            &[SESSION_FLAGS],
            (0, 0),
        ),
        Command::new(
            Verb::UpdatePassword,
            ("update-password", ""),
            "Set a password",
            &[PASSWORD_FLAGS],
            (0, 0),
        ),
    ],
    groups: &[],
    bare_code: 1,
    aliases: &[("whoami", "get-user-info")],
};

/// Runs `account …` and says the exit code.
pub(crate) fn run(terminal: &Terminal, args: Vec<String>) -> u8 {
    session::run(terminal, args, &GROUP, perform)
}

async fn perform(session: &Session<'_>, verb: Verb) -> Result<Ended, Failure> {
    match verb {
        Verb::Bcrypt => bcrypt(session).await,
        Verb::CanI => Box::pin(can_i(session)).await,
        Verb::DeleteToken => Box::pin(delete_token(session)).await,
        Verb::GenerateToken => Box::pin(generate_token(session)).await,
        Verb::Get => Box::pin(get(session)).await,
        Verb::GetUserInfo => Box::pin(user_info(session)).await,
        Verb::List => Box::pin(list(session)).await,
        Verb::SessionToken => session_token(session),
        Verb::UpdatePassword => Box::pin(update_password(session)).await,
    }
}

/// The account that a command is about; in core mode there is none of one's own.
fn named<'a>(session: &Session<'a>) -> Result<&'a str, Failure> {
    match session.flags.text("account") {
        "" => Err(Failure::generic("nobody is logged in, so the account has to be named")
            .hint("add `--account NAME`; `account list` shows the names")),
        name => Ok(name),
    }
}

/// Asks the service layer on behalf of the person at the terminal.
async fn with_accounts<T>(
    core: &Core,
    ask: impl AsyncFnOnce(Accounts<'_>) -> Result<T, Error>,
) -> Result<T, Failure> {
    let settings = World::settings(core).await?;
    let store = core.store()?;
    ask(Accounts::new(&store, Caller::operator(), settings.cm())).await.map_err(|error| match &error {
        Error::Account(AccountCallError::NoKey) => Failure::from(error).hint(format!(
            "tokens are signed with this key of the Secret {}; the API server makes it at its first start",
            tiphys_api::names::SECRET
        )),
        _ => Failure::from(error),
    })
}

async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let found = match core.server() {
        Some(server) => {
            let all = remote::list(server).await?.into_iter();
            let all = all.map(|account| (account.name.clone(), account)).collect();
            All { all, warnings: Vec::new() }
        }
        None => with_accounts(&core, async |accounts| accounts.list().await).await?,
    };
    for warning in &found.warnings {
        session.warn(warning);
    }
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => {
            let values: Vec<Value> = found.all.values().map(shown).collect();
            session.terminal.data(&print(&values.into(), machine)?);
        }
        (None, "name") => found.all.keys().for_each(|name| session.terminal.line(name)),
        (None, "wide" | "") => {
            let mut table = Table::new(&["NAME", "ENABLED", "CAPABILITIES"]);
            for account in found.all.values() {
                table.row(vec![account.name.clone(), account.is_enabled.to_string(), capabilities(account)]);
            }
            session.terminal.print(&table.print());
        }
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

async fn get(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let account = if let Some(server) = core.server() {
        remote::get(server, session.flags.text("account")).await?
    } else {
        let name = named(session)?;
        with_accounts(&core, async |accounts| accounts.get(name).await).await?
    };
    let format = session.flags.text("output");
    match (machine_format(format), format) {
        (Some(machine), _) => session.terminal.data(&print(&shown(&account), machine)?),
        (None, "name") => session.terminal.line(&account.name),
        (None, "wide" | "") => session.terminal.print(&details(session, &account)),
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

fn capabilities(account: &Account) -> String {
    account.capabilities.iter().map(|capability| capability.as_str()).collect::<Vec<_>>().join(", ")
}

/// What `account get` prints (CLI-820).
fn details(session: &Session<'_>, account: &Account) -> String {
    let line = |label: &str, text: &str| format!("{label:20}{text}\n");
    let mut out = line("Name:", &account.name)
        + &line("Enabled:", &account.is_enabled.to_string())
        + &line("Capabilities:", &capabilities(account))
        + "\nTokens:\n";
    if account.tokens.is_empty() {
        return out + "NONE\n";
    }
    let time = |second: i64| session.terminal.rfc_3339(second);
    let mut table = Table::new(&["ID", "ISSUED AT", "EXPIRING AT"]);
    for token in &account.tokens {
        let ends = if token.exp > 0 { time(token.exp) } else { "never".to_owned() };
        table.row(vec![token.id.clone(), time(token.iat), ends]);
    }
    out.push_str(&table.print());
    out
}

/// Who is logged in: nobody, where there is no server (CLI-821).
async fn user_info(session: &Session<'_>) -> Result<Ended, Failure> {
    let format = session.flags.text("output");
    // That the installation is there at all.
    let core = session.connect().await?;
    let info = match core.server() {
        Some(server) => remote::user_info(server).await?,
        None => json!({"loggedIn": false}),
    };
    match (machine_format(format), format) {
        (Some(machine), _) => session.terminal.data(&print(&info, machine)?),
        (None, "") => remote::told(&info).iter().for_each(|line| session.terminal.line(line)),
        (None, other) => return Err(unknown_format(other)),
    }
    Ok(OK)
}

/// In core mode Kubernetes decides, whatever the policy of the installation says (CLI-140).
async fn can_i(session: &Session<'_>) -> Result<Ended, Failure> {
    let (action, resource) = (session.operand(0), session.operand(1));
    check_words(action, resource).map_err(|error| Failure::status("InvalidArgument", error))?;
    let core = session.connect().await?;
    if let Some(server) = core.server() {
        let answer = remote::can_i(server, (action, resource, session.operand(2))).await?;
        session.terminal.line(&answer);
        let is_no = answer != "yes" && session.flags.is_on("exit-code");
        return Ok(if is_no { Ended::Code(1) } else { OK });
    }
    session.warn("in core mode your rights in Kubernetes decide, and nobody asked them");
    session.terminal.line("yes");
    Ok(OK)
}

async fn update_password(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let given = session.flags.text("new-password");
    if let Some(server) = core.server() {
        let own = remote::name(server, "").await?;
        let current = match session.flags.text("current-password") {
            "" => {
                let question = format!("*** Enter password of currently logged in user ({own}): ");
                session.terminal.ask_password(&question).await.ok_or_else(no_password)?
            }
            given => Secret::from(given),
        };
        let name = match session.flags.text("account") {
            "" => own.clone(),
            named => named.to_owned(),
        };
        let password = if given.is_empty() { asked(session, &name).await? } else { Secret::from(given) };
        remote::set_password(server, &name, (&current, &password)).await?;
        session.terminal.line("Password updated");
        if name == own {
            login::renew(session, &name, &password).await?;
        }
        return Ok(OK);
    }
    let name = named(session)?;
    let password = if given.is_empty() { asked(session, name).await? } else { Secret::from(given) };
    let now = session.terminal.now();
    with_accounts(&core, async |accounts| accounts.set_password(name, &password, now).await).await?;
    session.terminal.line("Password updated");
    Ok(OK)
}

fn no_password() -> Failure {
    Failure::generic(
        "no password: standard input has ended; give it with --current-password and --new-password",
    )
}

async fn asked(session: &Session<'_>, name: &str) -> Result<Secret<String>, Failure> {
    let terminal = session.terminal;
    let first = terminal.ask_password(&format!("*** Enter new password for user {name}: ")).await;
    let first = first.ok_or_else(no_password)?;
    let second = terminal.ask_password(&format!("*** Confirm new password for user {name}: ")).await;
    if second.ok_or_else(no_password)? != first {
        return Err(Failure::generic("Passwords do not match"));
    }
    Ok(first)
}

async fn generate_token(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let expires_in = crate::proj::seconds(flags.text("expires-in"))?;
    let core = session.connect().await?;
    if let Some(server) = core.server() {
        let name = remote::name(server, flags.text("account")).await?;
        let token = remote::create_token(server, &name, (flags.text("id"), expires_in)).await?;
        session.terminal.line(token.expose());
        return Ok(OK);
    }
    let account = named(session)?;
    let random = match flags.text("id") {
        "" => random_id().ok_or_else(|| Failure::generic("the system gives no randomness for an id"))?,
        id => id.to_owned(),
    };
    let issue = Issue { account, id: &random, expires_in, now: session.terminal.now() };
    let token = with_accounts(&core, async |accounts| accounts.create_token(&issue).await).await?;
    session.terminal.line(token.expose());
    Ok(OK)
}

async fn delete_token(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let id = session.operand(0);
    let question = format!("Are you sure you want to delete '{id}' token? [y/n] ");
    if !session.confirms(&question).await {
        session.terminal.line(&format!("The command to delete '{id}' was cancelled."));
        return Ok(OK);
    }
    if let Some(server) = core.server() {
        let name = remote::name(server, session.flags.text("account")).await?;
        remote::delete_token(server, &name, id).await?;
        return Ok(OK);
    }
    let name = named(session)?;
    with_accounts(&core, async |accounts| accounts.delete_token(name, id).await).await?;
    Ok(OK)
}

async fn bcrypt(session: &Session<'_>) -> Result<Ended, Failure> {
    let password = if session.flags.is_set("password") {
        Secret::from(session.flags.text("password"))
    } else {
        let text = Secret::new(read_input("-").await?);
        Secret::new(text.expose().trim_end_matches(['\r', '\n']).to_owned())
    };
    let hash = hashed(&password).map_err(|error| Failure::generic(error.to_string()))?;
    session.terminal.print(hash.as_str());
    Ok(OK)
}

/// The token of a context, from the configuration file alone (CLI-822).
fn session_token(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let format = flags.text("output");
    if !matches!(format, "" | "json") {
        return Err(unknown_format(format));
    }
    let login = "Please login first with 'argocd login'";
    let config = config_file::read(flags.text("config"), session.terminal)?
        .ok_or_else(|| Failure::fatal(format!("No configuration found. {login}")))?;
    let token = config.token(flags.text("argocd-context"))?;
    let token = token.ok_or_else(|| Failure::fatal(format!("No context found. {login}")))?;
    if token.is_empty() {
        return Err(Failure::fatal(format!("No authentication token found. {login}")));
    }
    let relogin = "Please run 'argocd relogin'";
    let claims =
        claims(token.expose()).ok_or_else(|| Failure::fatal(format!("Invalid token format. {relogin}")))?;
    let is_over = claims
        .get("exp")
        .and_then(Value::as_i64)
        .is_some_and(|exp| exp <= session.terminal.now().as_second());
    if is_over {
        return Err(Failure::fatal(format!("Token is invalid or expired. {relogin}")));
    }
    if format == "json" {
        session.terminal.data(&print(&json!({"token": token.expose()}), Format::Json)?);
    } else {
        session.terminal.line(token.expose());
    }
    Ok(OK)
}
