//! `app delete` and `app terminate-op` (CLI-530, CLI-531).

use serde_json::json;
use tiphys_object::access;

use crate::app::{Ended, NAMESPACE, OK, Session};
use crate::core::{AppName, Change, Core, Stored, value_of};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::terminal::Answer;

/// Flags of `delete`.
pub(super) const FLAGS: &[Flag] = &[
    flag("cascade", Kind::Bool, "true", "Delete the resources too"),
    flag("propagation-policy", Kind::Text, "foreground", "How dependants go: foreground or background")
        .or('p'),
    flag("yes", Kind::Bool, "false", "Do not ask").or('y'),
    flag("selector", Kind::Text, "", "Delete all applications with these labels").or('l'),
    flag("wait", Kind::Bool, "false", "Wait until the applications are gone"),
    NAMESPACE,
];

/// Flags of `terminate-op`.
pub(super) const TERMINATE_FLAGS: &[Flag] = &[NAMESPACE];

/// `app delete`.
pub(super) async fn delete(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let selector = flags.text("selector");
    if flags.operands.is_empty() && selector.is_empty() {
        return Ok(Ended::Help);
    }
    let cascade = flags.is_on("cascade");
    let policy = flags.is_set("propagation-policy").then(|| flags.text("propagation-policy"));
    wanted_finalizers(&[], cascade, policy)?;
    let core = session.connect().await?;
    let mut names = flags.operands.clone();
    if !selector.is_empty() {
        let found = core.applications(&namespace(session, &core), selector).await?;
        super::show::name_left_out(session, &core);
        if found.is_empty() {
            return Err(Failure::generic(format!("no apps match selector {selector}")));
        }
        names = found.iter().map(|stored| stored.name().to_string()).collect();
    }
    let deletion = Deletion { cascade, policy, wait: flags.is_on("wait") };
    let asks = cascade && session.terminal.stdout_is_tty && !flags.is_on("yes");
    let mut all = !asks;
    for text in &names {
        if !all {
            match ask(session, text, names.len() > 1).await {
                Answer::Yes => {}
                Answer::All => all = true,
                Answer::No => {
                    session.terminal.line(&format!("The command to delete '{text}' was cancelled."));
                    continue;
                }
            }
        }
        let name = session.name(text, &core);
        Box::pin(delete_one(&core, &name, deletion)).await?;
        session.terminal.line(&format!("application '{text}' deleted"));
    }
    Ok(OK)
}

fn namespace(session: &Session<'_>, core: &Core) -> String {
    let given = session.flags.text("app-namespace");
    if given.is_empty() { core.namespace.clone() } else { given.to_owned() }
}

async fn ask(session: &Session<'_>, name: &str, several: bool) -> Answer {
    let choice = if several {
        "[y/n/a] where 'a' is to delete all specified apps and their resources without prompting "
    } else {
        "[y/n] "
    };
    let question = format!("Are you sure you want to delete '{name}' and all its resources? {choice}");
    session.terminal.ask(&question, several).await.unwrap_or(Answer::No)
}

/// The finalizers to write before the deletion; `None` leaves them as they are (API-129).
fn wanted_finalizers(
    present: &[String],
    cascade: bool,
    policy: Option<&str>,
) -> Result<Option<Vec<String>>, Failure> {
    let wanted = tiphys_service::application::wanted_finalizers(present, cascade, policy);
    Ok(wanted.map_err(tiphys_service::Error::from)?)
}

/// How an application is deleted.
#[derive(Clone, Copy)]
struct Deletion<'a> {
    cascade: bool,
    policy: Option<&'a str>,
    wait: bool,
}

async fn delete_one(core: &Core, name: &AppName, deletion: Deletion<'_>) -> Result<(), Failure> {
    let Deletion { cascade, policy, wait } = deletion;
    if let Some(server) = core.server() {
        // Before, so that a namesake made meanwhile is told apart.
        let uid = if wait { core.find(name).await?.map(|stored| stored.app.metadata.uid) } else { None };
        server.delete(name, cascade, policy).await?;
        return if wait { gone(core, name, uid.as_deref()).await } else { Ok(()) };
    }
    let finalizers = |stored: &Stored| {
        let metadata = &stored.app.metadata;
        if metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        let Some(list) = wanted_finalizers(&metadata.finalizers, cascade, policy)? else { return Ok(None) };
        let mut value = value_of(&stored.object)?;
        access::metadata_mut(&mut value).insert("finalizers".to_owned(), json!(list));
        Ok(Some(value))
    };
    let stored = core.change(name, finalizers).await?;
    let uid = stored.app.metadata.uid.clone();
    core.delete(&stored).await?;
    if wait { gone(core, name, Some(&uid)).await } else { Ok(()) }
}

/// Waits until an application is gone.
async fn gone(core: &Core, name: &AppName, uid: Option<&str>) -> Result<(), Failure> {
    let mut follow = core.follow(name).await?;
    loop {
        match follow.next().await? {
            Change::Now(now) if uid.is_none_or(|uid| now.app.metadata.uid == uid) => {}
            // A namesake made meanwhile is another application.
            Change::Now(_) | Change::Gone => return Ok(()),
        }
    }
}

/// `app terminate-op`.
pub(super) async fn terminate(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect().await?;
    let name = session.only_name(&core);
    core.terminate(&name).await?;
    session.terminal.line(&format!("Application '{}' operation terminating", name.name));
    Ok(OK)
}

#[cfg(test)]
mod tests {
    use tiphys_api::names::finalizer;

    use super::*;

    fn wanted(present: &[&str], cascade: bool, policy: Option<&str>) -> Option<Vec<String>> {
        let present: Vec<String> = present.iter().map(|text| (*text).to_owned()).collect();
        wanted_finalizers(&present, cascade, policy).unwrap()
    }

    #[test]
    fn ctl_77_cascade_adds_its_finalizer() {
        assert_eq!(wanted(&["x"], true, None), Some(vec!["x".into(), finalizer::CASCADE.into()]));
        assert_eq!(wanted(&[finalizer::CASCADE_BACKGROUND], true, None), None);
        assert_eq!(
            wanted(&[finalizer::CASCADE, "x"], true, Some("Background")),
            Some(vec!["x".into(), finalizer::CASCADE_BACKGROUND.into()])
        );
        assert_eq!(wanted(&[finalizer::CASCADE_FOREGROUND], true, Some("foreground")), None);
    }

    #[test]
    fn ctl_77_without_cascade_all_forms_go() {
        assert_eq!(
            wanted(&[finalizer::CASCADE, "x", finalizer::CASCADE_FOREGROUND], false, None),
            Some(vec!["x".into()])
        );
        assert_eq!(wanted(&["x"], false, None), None);
        let failure = wanted_finalizers(&[], false, Some("foreground")).unwrap_err();
        assert!(failure.message.ends_with("cannot set propagation policy when cascading is disabled"));
        assert!(
            wanted_finalizers(&[], true, Some("x"))
                .unwrap_err()
                .message
                .ends_with("invalid propagation policy: x")
        );
    }
}
