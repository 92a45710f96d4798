//! `app logs`: what the pods of an application wrote, by way of a server (CLI-453, CLI-454).

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::Value;
use tiphys_object::access;

use crate::app::{Ended, NAMESPACE as APP_NAMESPACE, OK, Session};
use crate::core::{AppName, LogQuery, Remote};
use crate::failure::Failure;
use crate::flags::{Flag, Kind, Parsed, flag};
use crate::server::is_unavailable;

/// Flags of `logs`.
pub(super) const FLAGS: &[Flag] = &[
    flag("group", Kind::Text, "", "Group of the resource"),
    flag("kind", Kind::Text, "", "Kind of the resource"),
    flag("name", Kind::Text, "", "Name of the resource"),
    flag("namespace", Kind::Text, "", "Namespace of the resource"),
    flag("container", Kind::Text, "", "Container").or('c'),
    flag("follow", Kind::Bool, "false", "Print what is written from now on, too").or('f'),
    flag("tail", Kind::Int, "0", "Last lines to print; 0 for all"),
    flag("since-seconds", Kind::Int, "0", "Only lines of the last seconds; 0 for all"),
    flag("until-time", Kind::Text, "", "Only lines before this time (RFC 3339)"),
    flag("filter", Kind::Text, "", "Only lines with this text, or without it behind a leading !"),
    flag("match-case", Kind::Bool, "false", "Tell large from small letters in the filter").or('m'),
    flag("previous", Kind::Bool, "false", "Logs of the terminated container before").or('p'),
    flag("timestamps", Kind::Bool, "false", "Begin each line with its time"),
    APP_NAMESPACE,
];

/// Pods whose last lines are remembered; with more, a line may come twice after the stream broke.
const PODS_MAX: usize = 1_000;

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let flags = session.flags;
    let core = session.connect().await?;
    let name = session.only_name(&core);
    let server = core.by_server()?;
    let is_followed = flags.is_on("follow");
    let mut seen = Seen::default();
    loop {
        match read(session, (server, &name), &mut seen).await {
            Ok(()) => return Ok(OK),
            // The stream broke: what was written meanwhile is asked for, and what was printed is left out.
            Err(failure) if is_followed && is_unavailable(&failure) => {
                tokio::time::sleep(crate::server::BETWEEN_ATTEMPTS).await;
            }
            Err(failure) => return Err(failed(&failure)),
        }
    }
}

/// The failure in the words of this command: what the server says, and what keeps us from it.
fn failed(failure: &Failure) -> Failure {
    let is_told = failure.message.starts_with("rpc error: ");
    let what = if is_told { "stream read failed" } else { "failed to get pod logs" };
    let text = format!("{what}: {}", failure.message);
    Failure { message: text, code: 1, hint: failure.hint.clone() }
}

/// Prints one stream to its end.
async fn read(
    session: &Session<'_>,
    (server, name): (&Remote, &AppName),
    seen: &mut Seen,
) -> Result<(), Failure> {
    let flags = session.flags;
    seen.begin();
    let since = seen.since_seconds(flags.int("since-seconds"), session.terminal.now());
    let mut stream = server.logs(name, &query(flags, since, seen.is_resumed())).await?;
    while let Some(entry) = stream.next().await? {
        if entry.get("last").and_then(Value::as_bool) == Some(true) {
            return Ok(());
        }
        let (time, content) = (access::text(&entry, "timeStampStr"), access::text(&entry, "content"));
        if !seen.is_new(access::text(&entry, "podName"), time) {
            continue;
        }
        if flags.is_on("timestamps") {
            session.terminal.line(&format!("{time} {content}"));
        } else {
            session.terminal.line(content);
        }
    }
    Ok(())
}

/// What is asked for; a stream that is taken up again has no tail of its own.
fn query(flags: &Parsed, since_seconds: i64, is_resumed: bool) -> LogQuery<'_> {
    LogQuery {
        group: flags.text("group"),
        kind: flags.text("kind"),
        name: flags.text("name"),
        namespace: flags.text("namespace"),
        container: flags.text("container"),
        is_followed: flags.is_on("follow"),
        tail_lines: if is_resumed { 0 } else { flags.int("tail") },
        since_seconds,
        until_time: flags.text("until-time"),
        filter: flags.text("filter"),
        is_case_matched: flags.is_on("match-case"),
        is_previous: flags.is_on("previous"),
    }
}

/// How far each pod's log was printed.
#[derive(Debug, Default)]
struct Seen {
    last: BTreeMap<String, Timestamp>,
    /// The same when the stream began: what is not behind it was printed by the stream before.
    before: BTreeMap<String, Timestamp>,
}

impl Seen {
    /// A stream begins.
    fn begin(&mut self) {
        self.before.clone_from(&self.last);
    }

    /// Whether something was printed by an earlier stream.
    fn is_resumed(&self) -> bool {
        !self.before.is_empty()
    }

    /// How far back a stream has to begin so that nothing is missed.
    fn since_seconds(&self, given: i64, now: Timestamp) -> i64 {
        let Some(last) = self.before.values().min() else { return given };
        now.as_second().saturating_sub(last.as_second()).saturating_add(1).max(1)
    }

    /// Whether a line was not printed by an earlier stream.
    fn is_new(&mut self, pod: &str, time: &str) -> bool {
        let Ok(time) = time.parse::<Timestamp>() else { return true };
        if self.before.get(pod).is_some_and(|before| time <= *before) {
            return false;
        }
        let has_room = self.last.len() < PODS_MAX;
        match self.last.get_mut(pod) {
            Some(last) => *last = time.max(*last),
            None if has_room => drop(self.last.insert(pod.to_owned(), time)),
            None => {}
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::parse;

    #[test]
    fn cli_454_a_stream_that_is_taken_up_again_repeats_no_line() {
        let mut seen = Seen::default();
        let now = "2026-08-01T10:00:10Z".parse().unwrap();
        seen.begin();
        assert_eq!((seen.since_seconds(30, now), seen.is_resumed()), (30, false));
        assert!(seen.is_new("a", "2026-08-01T10:00:05.5Z") && seen.is_new("b", "2026-08-01T10:00:07Z"));
        assert!(seen.is_new("a", "2026-08-01T10:00:05.2Z"), "pods are merged within a window");
        seen.begin();
        assert_eq!((seen.since_seconds(30, now), seen.is_resumed()), (6, true));
        assert!(!seen.is_new("a", "2026-08-01T10:00:05.5Z") && seen.is_new("a", "2026-08-01T10:00:05.6Z"));
        assert!(seen.is_new("c", "2026-08-01T10:00:01Z") && seen.is_new("", "no time"));
    }

    #[test]
    fn cli_453_what_is_asked_for() {
        let args = ["-f", "--tail", "5", "-c", "main", "-m", "-p", "--filter", "!x", "--name", "web"];
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let flags = parse(&args, &[FLAGS]).unwrap();
        let asked = query(&flags, 0, false);
        assert!(asked.is_followed && asked.is_case_matched && asked.is_previous);
        assert_eq!((asked.tail_lines, asked.container, asked.filter, asked.name), (5, "main", "!x", "web"));
        assert_eq!(query(&flags, 3, true).tail_lines, 0);
    }

    #[test]
    fn cli_453_who_fails_is_named() {
        let told = failed(&Failure::status("PermissionDenied", "permission denied"));
        assert_eq!(
            (told.message.as_str(), told.code),
            ("stream read failed: rpc error: code = PermissionDenied desc = permission denied", 1)
        );
        let text = failed(&Failure::fatal("Failed to establish connection to x: y")).message;
        assert_eq!(text, "failed to get pod logs: Failed to establish connection to x: y");
    }
}
