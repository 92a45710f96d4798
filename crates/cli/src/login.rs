//! `login`, `logout` and `relogin` (CLI-200..206, CLI-210, CLI-211).

use reqwest::Method;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_oidc::Granted;

use crate::command::Command;
use crate::config_file::{Editor, Found, ServerEntry};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::forward;
use crate::server::{Access, Api, Ask, Trouble, trouble};
use crate::session::{self, Ended, OK, Session};
use crate::sso;
use crate::terminal::{Answer, Terminal};

const PASSWORD: Flag =
    flag("password", Kind::Text, "", "Password of the account; asked for when it is not given");
const SSO_PORT: Flag = flag("sso-port", Kind::Int, "8085", "Port for the answer of the provider");
const CALLBACK: Flag = flag("callback", Kind::Text, "", "HOST:PORT where the provider sends its answer");
const DEVICE: Flag = flag(
    "device",
    Kind::Bool,
    "false",
    "Sign in with a browser of another machine, by a code that is entered there",
);
const BROWSER: Flag = flag("sso-launch-browser", Kind::Bool, "true", "Open the browser");

const LOGIN_FLAGS: &[Flag] = &[
    flag("name", Kind::Text, "", "Name of the context; the server's address when it is not given"),
    flag("username", Kind::Text, "", "Name of the account; asked for when it is not given"),
    PASSWORD,
    flag("sso", Kind::Bool, "false", "Log in by single sign-on"),
    SSO_PORT,
    CALLBACK,
    flag("skip-test-tls", Kind::Bool, "false", "Do not try TLS first"),
    DEVICE,
    BROWSER,
];
const RELOGIN_FLAGS: &[Flag] = &[PASSWORD, SSO_PORT, CALLBACK, DEVICE, BROWSER];

/// The name of the context that stands for Kubernetes itself.
const CORE_CONTEXT: &str = "kubernetes";

const LOGIN: Command<()> =
    Command::new((), ("login", "SERVER"), "Log in to a server", &[LOGIN_FLAGS], (0, usize::MAX));
const LOGOUT: Command<()> = Command::new((), ("logout", "CONTEXT"), "Log out of a context", &[], (1, 1));
const RELOGIN: Command<()> =
    Command::new((), ("relogin", ""), "Log in to the current context again", &[RELOGIN_FLAGS], (0, 0));

/// Runs `login` and says the exit code.
pub(crate) fn login(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("", &LOGIN), async |session, ()| Box::pin(log_in(session)).await)
}

/// Runs `logout` and says the exit code.
pub(crate) fn logout(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("", &LOGOUT), async |session, ()| Box::pin(log_out(session)).await)
}

/// Runs `relogin` and says the exit code.
pub(crate) fn relogin(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("", &RELOGIN), async |session, ()| {
        Box::pin(log_in_again(session)).await
    })
}

/// What a token says, unverified: nothing is decided by it but what is shown.
pub(crate) fn claims(token: &str) -> Option<Value> {
    use base64::Engine as _;
    let parts: Vec<&str> = token.split('.').collect();
    let [_, claims, _] = parts.as_slice() else { return None };
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    serde_json::from_slice(&bytes).ok().filter(Value::is_object)
}

/// Whom a token is for (CLI-203).
fn person(claims: &Value) -> String {
    let text = |path: &str| claims.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let found = text("/email").or_else(|| text("/name")).or_else(|| text("/federated_claims/user_id"));
    found.or_else(|| text("/sub")).unwrap_or_default().to_owned()
}

async fn log_in(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    if flags.is_on("core") {
        let entry = ServerEntry { server: CORE_CONTEXT.to_owned(), core: true, ..ServerEntry::default() };
        let name = if flags.text("name").is_empty() { CORE_CONTEXT } else { flags.text("name") };
        store(session, name, &entry, ("", ""))?;
        session.terminal.line(&format!("Context '{name}' updated"));
        return Ok(OK);
    }
    let server = match flags.operands.as_slice() {
        // What is reached by way of Kubernetes has a name, and no address (CLI-200).
        [] if forward::is_wanted(flags) => forward::SERVER,
        [_] if forward::is_wanted(flags) => {
            return Err(Failure::fatal("--port-forward finds the server itself: name none"));
        }
        [server] => server,
        _ => return Ok(Ended::Help),
    };
    if flags.is_on("device") && !flags.is_on("sso") {
        return Err(Failure::fatal("--device is a way of --sso: give both"));
    }
    let mut access = Access::of(flags, server, None)?.heeding(session.terminal);
    session.forward(&mut access).await?;
    if !try_tls(session, &mut access).await? {
        return Ok(Ended::Code(1));
    }
    let granted = if flags.is_on("sso") {
        sso::sign_in(session, &access).await?
    } else {
        let username = match flags.text("username") {
            "" => session.terminal.ask_line("Username: ").await.ok_or_else(|| ended("username"))?,
            given => given.to_owned(),
        };
        Granted { id_token: by_password(session, &access, &username).await?, ..Granted::default() }
    };
    let root = &access.entry.grpc_web_root_path;
    let name = match (flags.text("name"), root.as_str()) {
        ("", "") => server.to_owned(),
        ("", root) => format!("{server}/{root}"),
        (given, _) => given.to_owned(),
    };
    let who = person(&claims(granted.id_token.expose()).unwrap_or_default());
    session.terminal.line(&format!("'{who}' logged in successfully"));
    store(session, &name, &access.entry, (granted.id_token.expose(), granted.refresh_token.expose()))?;
    session.terminal.line(&format!("Context '{name}' updated"));
    Ok(OK)
}

fn ended(what: &str) -> Failure {
    Failure::generic(format!("no {what}: standard input has ended; give it with --{what}"))
}

/// A token for the password that a flag or the person gives.
async fn by_password(
    session: &Session<'_>,
    access: &Access,
    username: &str,
) -> Result<Secret<String>, Failure> {
    let password = match session.flags.text("password") {
        "" => session.terminal.ask_password("Password: ").await.ok_or_else(|| ended("password"))?,
        given => Secret::from(given),
    };
    token(access, username, &password).await
}

/// Renews the token of the context after its own password was changed, which ended the sessions before (CLI-821).
pub(crate) async fn renew(
    session: &Session<'_>,
    username: &str,
    password: &Secret<String>,
) -> Result<(), Failure> {
    let flags = session.flags;
    if !flags.text("auth-token").is_empty() {
        // Somebody else keeps that one.
        return Ok(());
    }
    let Some(found) = context(session, flags.text("argocd-context"))? else { return Ok(()) };
    let mut access = Access::of(flags, flags.text("server"), Some(&found))?.heeding(session.terminal);
    session.forward(&mut access).await?;
    let token = token(&access, username, password).await?;
    let mut editor = Editor::open(flags.text("config"), session.terminal)?;
    editor.set_tokens(&found.user, (token.expose(), ""));
    editor.save()?;
    session.terminal.line(&format!("Context '{}' updated", found.name));
    Ok(())
}

async fn token(
    access: &Access,
    username: &str,
    password: &Secret<String>,
) -> Result<Secret<String>, Failure> {
    // An old token has no say in this.
    let api = Api::new(&Access { token: Secret::default(), ..access.clone() })?;
    let body = json!({"username": username, "password": password.expose()});
    let path = ["api", "v1", "session"];
    let answer = api.ask(&Ask { method: &Method::POST, path: &path, query: &[], body: Some(&body) }).await?;
    match answer.get("token").and_then(Value::as_str) {
        Some(token) if !token.is_empty() => Ok(Secret::from(token)),
        _ => Err(Failure::status("Internal", "the server sent no token")),
    }
}

/// Whether the server may be spoken to as it is; what the person allows is noted (CLI-201).
async fn try_tls(session: &Session<'_>, access: &mut Access) -> Result<bool, Failure> {
    if session.flags.is_on("skip-test-tls") || access.entry.plain_text || access.forwarded.is_some() {
        return Ok(true);
    }
    let failure = match Api::new(access)?.get(&["api", "version"], &[]).await {
        Ok(_) => return Ok(true),
        // Whatever it answers, it answers by TLS.
        Err(failure) if failure.message.starts_with("rpc error") => return Ok(true),
        Err(failure) => failure,
    };
    let found = match trouble(&failure.message) {
        Trouble::Other if is_plain(access).await => Trouble::NoTls,
        other => other,
    };
    let question = match found {
        Trouble::NoTls => "WARNING: server is not configured with TLS. Proceed (y/n)? ".to_owned(),
        Trouble::Certificate if !access.entry.insecure => {
            let cause = failure.message.rsplit(": ").next().unwrap_or_default();
            format!("WARNING: server certificate had error: {cause}. Proceed insecurely (y/n)? ")
        }
        Trouble::Certificate | Trouble::Other => return Err(Failure { code: 20, ..failure }),
    };
    if session.terminal.ask(&question, false).await != Some(Answer::Yes) {
        return Ok(false);
    }
    if found == Trouble::NoTls {
        access.entry.plain_text = true;
    } else {
        access.entry.insecure = true;
    }
    Ok(true)
}

/// Whether the server answers without TLS: some end the connection at the first word of it.
async fn is_plain(access: &Access) -> bool {
    let mut plain = Access { token: Secret::default(), ..access.clone() };
    plain.entry.plain_text = true;
    let Ok(api) = Api::new(&plain) else { return false };
    match api.get(&["api", "version"], &[]).await {
        Ok(_) => true,
        Err(failure) => failure.message.starts_with("rpc error"),
    }
}

fn store(
    session: &Session<'_>,
    name: &str,
    entry: &ServerEntry,
    tokens: (&str, &str),
) -> Result<(), Failure> {
    let mut editor = Editor::open(session.flags.text("config"), session.terminal)?;
    let before = editor.config.as_ref().map(|config| config.current().to_owned()).unwrap_or_default();
    editor.log_in(name, entry, tokens);
    if before != name && !before.is_empty() {
        editor.remember(&before)?;
    }
    editor.save()
}

/// The context of a command that is about the file itself; `None` without a file.
fn context(session: &Session<'_>, name: &str) -> Result<Option<Found>, Failure> {
    let config = crate::config_file::read(session.flags.text("config"), session.terminal);
    let config = config.map_err(|failure| Failure { code: 20, ..failure })?;
    config.map(|config| config.find(name)).transpose().map(Option::flatten)
}

async fn log_out(session: &Session<'_>) -> Result<Ended, Failure> {
    let name = session.operand(0);
    let config = crate::config_file::read(session.flags.text("config"), session.terminal);
    let config = config.map_err(|failure| Failure { code: 20, ..failure })?;
    let Some(config) = config else { return Err(Failure::fatal("Nothing to logout from")) };
    if !config.contexts().any(|(known, _)| known == name) {
        return Err(Failure::fatal(format!("Context {name} does not exist")));
    }
    let found = config.find(name)?;
    let question = format!("Are you sure you want to log out from '{name}'?");
    if !session.confirms(&question).await {
        session.terminal.line(&format!("Logout from '{name}' cancelled"));
        return Ok(OK);
    }
    let Some(found) = found else { return Err(Failure::fatal(format!("Context {name} does not exist"))) };
    if !found.server.core && !found.token.is_empty() {
        // Who cannot be reached cannot revoke; the tokens go all the same.
        if let Err(failure) = Box::pin(revoke(session, &found)).await {
            session.warn(&format!("the server did not revoke the token: {failure}"));
        }
    }
    let mut editor = Editor::open(session.flags.text("config"), session.terminal)?;
    editor.set_tokens(&found.user, ("", ""));
    editor.save()?;
    session.terminal.line(&format!("Logged out from '{name}'"));
    Ok(OK)
}

async fn revoke(session: &Session<'_>, found: &Found) -> Result<(), Failure> {
    let mut access = Access::of(session.flags, &found.server.server, Some(found))?;
    session.forward(&mut access).await?;
    if !try_tls(session, &mut access).await? {
        return Err(Failure::generic("it was not asked"));
    }
    Api::new(&access)?.log_out(&found.token).await
}

async fn log_in_again(session: &Session<'_>) -> Result<Ended, Failure> {
    let none = || Failure::fatal("No context found. Login using `argocd login`");
    let found = context(session, session.flags.text("argocd-context"))?.ok_or_else(none)?;
    if found.server.core {
        return Err(Failure::fatal(format!(
            "context '{}' stands for Kubernetes itself: there is no login",
            found.name
        )));
    }
    let mut access = Access::of(session.flags, &found.server.server, Some(&found))?;
    session.forward(&mut access).await?;
    let claims = claims(found.token.expose()).unwrap_or_default();
    // Without a token nobody knows who it was.
    let is_local = claims.get("iss").is_none_or(|issuer| issuer == "argocd");
    let granted = if is_local {
        let username = match claims.get("sub").and_then(Value::as_str) {
            Some(subject) => {
                // A session is "account:capability".
                let name = subject.split_once(':').map_or(subject, |(name, _)| name).to_owned();
                session.terminal.line(&format!("Relogging in as '{name}'"));
                name
            }
            None => session.terminal.ask_line("Username: ").await.ok_or_else(|| ended("username"))?,
        };
        Granted { id_token: by_password(session, &access, &username).await?, ..Granted::default() }
    } else {
        session.terminal.line("Reinitiating SSO login");
        sso::sign_in(session, &access).await?
    };
    let mut editor = Editor::open(session.flags.text("config"), session.terminal)?;
    editor.set_tokens(&found.user, (granted.id_token.expose(), granted.refresh_token.expose()));
    editor.save()?;
    session.terminal.line(&format!("Context '{}' updated", found.name));
    Ok(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_203_people_are_named_by_what_is_known_of_them() {
        assert_eq!(person(&json!({"email": "a@b", "name": "A", "sub": "x"})), "a@b");
        assert_eq!(person(&json!({"name": "A", "sub": "x"})), "A");
        assert_eq!(person(&json!({"federated_claims": {"user_id": "u"}, "sub": "x"})), "u");
        assert_eq!(person(&json!({"sub": "admin:login"})), "admin:login");
    }
}
