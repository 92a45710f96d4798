//! Tokens of roles: made, listed and ended (CLI-710, CLI-712).

use serde_json::Value;
use tiphys_api::names;
use tiphys_api::project::JwtToken;
use tiphys_api::secret::Secret;
use tiphys_cluster::Target;
use tiphys_object::Gvk;
use tiphys_service::project::token;

use super::remote;
use super::role::{role_mut, role_of};
use super::work::Work;
use crate::core::Core;
use crate::failure::Failure;
use crate::login::claims;
use crate::session::{Ended, OK, Session};
use crate::table::Table;
use crate::terminal::rfc_3339;

/// A token that is wanted.
pub(super) struct Wanted<'a> {
    pub(super) project: &'a str,
    pub(super) role: &'a str,
    /// Empty for one that is found.
    pub(super) id: &'a str,
    /// Seconds; zero for ever.
    pub(super) expires_in: i64,
}

/// `proj role create-token`: signed with the key of the server, by it or as it would (CLI-712, CLI-140).
pub(super) async fn create(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let wanted = Wanted {
        project: session.operand(0),
        role: session.operand(1),
        id: flags.text("id"),
        expires_in: seconds(flags.text("expires-in"))?,
    };
    let work = Work::begin(session).await?;
    let made = match work.core().server() {
        Some(server) => remote::create_token(server, &wanted).await?,
        None => sign(session, &work, &wanted).await?,
    };
    if flags.is_on("token-only") {
        session.terminal.line(made.expose());
        return Ok(OK);
    }
    let Some(claims) = claims(made.expose()) else {
        return Err(Failure::status("Internal", "the token that was made cannot be read"));
    };
    let second = |name: &str| claims.get(name).and_then(Value::as_i64).unwrap_or_default();
    let id = claims.get("jti").and_then(Value::as_str).unwrap_or_default();
    let zone = &session.terminal.zone;
    let expires = if second("exp") > 0 { rfc_3339(second("exp"), zone) } else { "Never".to_owned() };
    session.terminal.print(&format!(
        "Create token succeeded for proj:{}:{}.\n  ID: {}\n  Issued At: {}\n  Expires At: {expires}\n  Token: {}\n",
        wanted.project,
        wanted.role,
        tiphys_api::printable::line(id),
        rfc_3339(second("iat"), zone),
        made.expose()
    ));
    Ok(OK)
}

/// Makes a token as a server does.
async fn sign(session: &Session<'_>, work: &Work, wanted: &Wanted<'_>) -> Result<Secret<String>, Failure> {
    let random = match wanted.id {
        "" => {
            token::random_id().ok_or_else(|| Failure::generic("the system gives no randomness for an id"))?
        }
        id => id.to_owned(),
    };
    let Wanted { project, role, expires_in, .. } = *wanted;
    let issue = token::Issue { role, id: &random, expires_in, now: session.terminal.now() };
    let key = signing_key(work.core()).await?;
    work.edit_project(project, |stored| {
        *stored = token::plan_token(stored, &issue).map_err(tiphys_service::Error::from)?;
        Ok(true)
    })
    .await?;
    Ok(token::signed(project, &issue, &key))
}

/// What the server signs its tokens with.
async fn signing_key(core: &Core) -> Result<Secret<String>, Failure> {
    let target = Target::new(Gvk::new("", "v1", "Secret"), &core.namespace, names::SECRET);
    let stored = core.get(&target).await?;
    let key =
        stored.and_then(|object| tiphys_installation::objects::decoded(&object).remove("server.secretkey"));
    match key {
        Some(key) if !key.is_empty() => Ok(Secret::new(key)),
        _ => Err(Failure::status("FailedPrecondition", "server.secretkey is missing").hint(format!(
            "tokens are signed with this key of the Secret {}; the API server makes it at its first start",
            names::SECRET
        ))),
    }
}

/// A number and a unit: seconds, minutes, hours, days or weeks (CLI-712).
pub(crate) fn seconds(text: &str) -> Result<i64, Failure> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    let read = units.iter().find_map(|(unit, size)| {
        let number: i64 = text.strip_suffix(*unit)?.parse().ok()?;
        number.checked_mul(*size).filter(|seconds| *seconds >= 0)
    });
    read.ok_or_else(|| {
        Failure::generic(format!("cannot parse {text:?} as a duration: use 30s, 5m, 2h, 7d or 1w"))
    })
}

/// `proj role delete-token`. Removing an unknown token succeeds (REP-165).
pub(super) async fn delete(session: &Session<'_>) -> Result<Ended, Failure> {
    let (name, text) = (session.operand(1), session.operand(2));
    let issued_at: i64 = text.parse().map_err(|_not_a_number| {
        Failure::generic(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
    })?;
    let project = session.operand(0);
    if !session.confirms(&format!("Are you sure you want to delete '{project}' project token? [y/n] ")).await
    {
        return Ok(OK);
    }
    let work = Work::begin(session).await?;
    if let Some(server) = work.core().server() {
        remote::delete_token(server, (project, name), issued_at).await?;
        return Ok(OK);
    }
    work.edit_project(project, |project| {
        let stays = |token: &JwtToken| token.iat != issued_at;
        let role = role_mut(project, name)?;
        let before = role.jwt_tokens.len();
        role.jwt_tokens.retain(stays);
        let mut is_changed = role.jwt_tokens.len() != before;
        if let Some(tokens) = project.status.jwt_tokens_by_role.get_mut(name) {
            let before = tokens.items.len();
            tokens.items.retain(stays);
            is_changed |= tokens.items.len() != before;
        }
        Ok(is_changed)
    })
    .await?;
    Ok(OK)
}

/// `proj role list-tokens`.
pub(super) async fn list(session: &Session<'_>) -> Result<Ended, Failure> {
    let work = Work::begin(session).await?;
    let project = work.project(session.operand(0)).await?;
    let role = role_of(&project, session.operand(1))?;
    if role.jwt_tokens.is_empty() {
        session.terminal.line(&format!("No tokens for {}.{}", project.name(), role.name));
        return Ok(OK);
    }
    let time = |seconds: i64| match seconds {
        _ if session.flags.is_on("unixtime") => seconds.to_string(),
        0 => "Never".to_owned(),
        _ => rfc_3339(seconds, &session.terminal.zone),
    };
    let mut table = Table::new(&["ID", "ISSUED AT", "EXPIRES AT"]);
    for token in &role.jwt_tokens {
        table.row(vec![token.id.clone(), time(token.iat), time(token.exp)]);
    }
    session.terminal.print(&table.print());
    Ok(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_712_durations_have_one_unit() {
        for (text, expected) in [("0s", 0), ("5m", 300), ("2h", 7200), ("7d", 604_800), ("1w", 604_800)] {
            assert_eq!(seconds(text).unwrap(), expected, "{text}");
        }
        for text in ["", "5", "-1s", "1h30m", "s", "9223372036854775807w"] {
            assert_eq!(seconds(text).unwrap_err().code, 20, "{text}");
        }
    }
}
