//! `admin redis-initial-password` (CLI-904): the Secret that a Redis of the installation takes its password from.
//!
//! Tiphys has no Redis. Whoever starts one beside it with Argo CD's manifests has this command in its Pods, and without
//! the Secret they do not start.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use tiphys_cluster::{Discovery, Target, Writer};
use tiphys_object::{Gvk, ResourceKey};
use tiphys_policy::permit::Permit;

use crate::command::Command;
use crate::core::value_of;
use crate::failure::Failure;
use crate::session::{self, Ended, OK, Session};
use crate::terminal::Terminal;

/// The Secret.
const SECRET: &str = "argocd-redis";
/// The password in it.
const KEY: &str = "auth";
/// Bytes of chance in a new password.
const CHANCE_BYTES: usize = 24;

/// The command.
pub(super) const COMMAND: Command<()> = Command::new(
    (),
    ("redis-initial-password", ""),
    "See that there is a password for a Redis; Tiphys needs none",
    &[],
    (0, usize::MAX),
);

/// Runs the command and says the exit code.
pub(super) fn run(terminal: &Terminal, args: &[String]) -> u8 {
    session::run_command(terminal, args, ("admin", &COMMAND), async |session, ()| {
        Box::pin(ensure(session)).await
    })
}

async fn ensure(session: &Session<'_>) -> Result<Ended, Failure> {
    // It runs before anything else of an installation is there.
    let connection = session.connection().await?;
    let namespace = match session.flags.text("namespace") {
        "" => connection.default_namespace().to_owned(),
        named => named.to_owned(),
    };
    let writer = Writer::new(connection.clone(), Discovery::new(connection));
    let target = Target::new(Gvk::new("", "v1", "Secret"), &namespace, SECRET);
    session
        .terminal
        .line(&format!("Checking for initial Redis password in secret {namespace}/{SECRET} at key {KEY}."));
    let mut found = writer.get(&target).await?;
    if found.is_none() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": SECRET, "namespace": namespace}, "stringData": {KEY: password()?}});
        match writer.create(&Permit::operator(ResourceKey::of(&secret)), &secret).await {
            Ok(created) => found = Some(created),
            // Another Pod was faster.
            Err(error) if error.is_already_exists() => found = writer.get(&target).await?,
            Err(error) => return Err(error.into()),
        }
    }
    session.terminal.line(&format!("Argo CD Redis secret state confirmed: secret name {SECRET}."));
    let has_key = match found {
        Some(secret) => value_of(&secret)?.pointer(&format!("/data/{KEY}")).is_some(),
        None => false,
    };
    if !has_key {
        return Err(Failure::generic(format!("key {KEY} doesn't exist in secret {SECRET}.")));
    }
    session.terminal.line("Password secret is configured properly.");
    Ok(OK)
}

/// A password that nobody guesses.
fn password() -> Result<String, Failure> {
    let mut bytes = [0; CHANCE_BYTES];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_unspecified| Failure::generic("the system gives no random bytes for a password"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
