//! Follows what happens and shows it, line by line, in virtual time (CLI-1061, CLI-1063).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use serde_json::Value;
use tiphys_api::ApplicationSet;
use tiphys_appset::rollout::is_rolling;

use super::End;
use super::content::name;
use super::plan::count;
use super::stage::{Stage, condition};

/// Time between two looks while something happens …
const LOOK: Duration = Duration::from_millis(100);
/// … and when nothing did for a while.
const LATER: Duration = Duration::from_secs(5);
const WHILE: Duration = Duration::from_mins(1);
/// Without a change for this long, beyond what workloads need, it stands still.
const STILL: Duration = Duration::from_mins(10);

/// Writes to standard output; a closed pipe ends quietly (CLI-1106).
pub(super) fn print(text: &str) {
    drop(std::io::stdout().lock().write_all(text.as_bytes()));
}

pub(super) fn complain(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

/// What an application shows: its step, and what it does.
type Seen = BTreeMap<String, (String, String)>;

pub(super) fn seconds(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    if tenths.is_multiple_of(10) {
        format!("{}s", tenths / 10)
    } else {
        format!("{}.{}s", tenths / 10, tenths % 10)
    }
}

fn line(at: Duration, step: &str, app: &str, width: usize, text: &str) -> String {
    let step = if step.is_empty() || step == "-1" { String::new() } else { format!("step {step}") };
    format!("{:>8}  {step:7} {app:width$}  {text}", seconds(at)).trim_end().to_owned() + "\n"
}

/// Follows something until it is over or stands still; `look` says what is seen and whether it is over.
struct Follow {
    began: Duration,
    last: Seen,
    changed: Duration,
    /// Longest time without a change.
    still: Duration,
    /// Letters of the longest name.
    width: usize,
}

impl Follow {
    fn begin(at: Duration, delay: Duration, width: usize) -> Self {
        Self { began: at, last: Seen::new(), changed: at, still: STILL.saturating_add(delay), width }
    }

    /// Takes what is seen; the lines about what changed.
    fn take(&mut self, at: Duration, seen: Seen) -> Vec<String> {
        let width = seen.keys().map(String::len).max().unwrap_or(0).max(self.width);
        let is_news = |(app, now): &(&String, &(String, String))| self.last.get(*app) != Some(*now);
        let news: Vec<String> = seen
            .iter()
            .filter(is_news)
            .map(|(app, (step, text))| line(at.saturating_sub(self.began), step, app, width, text))
            .collect();
        if !news.is_empty() {
            self.changed = at;
        }
        self.last = seen;
        news
    }

    fn is_still(&self, at: Duration) -> bool {
        at.saturating_sub(self.changed) >= self.still
    }

    async fn wait(&self, at: Duration) {
        let time = if at.saturating_sub(self.changed) < WHILE { LOOK } else { LATER };
        tokio::time::sleep(time).await;
    }
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Shows a roll-out; silently when only its end is wanted.
pub(super) async fn rollout(
    stage: &Stage,
    set: &ApplicationSet,
    delay: Duration,
    is_shown: bool,
) -> anyhow::Result<End> {
    let is_rolling = is_rolling(set.spec.strategy.as_ref());
    let mut follow = Follow::begin(Duration::ZERO, delay, 0);
    loop {
        let (at, live, apps) = (stage.elapsed(), stage.set(&set.metadata.name).await, stage.apps().await);
        let seen = if is_rolling { phases(&live) } else { states(&apps) };
        for line in follow.take(at, seen).iter().filter(|_| is_shown) {
            print(line);
        }
        let is_concluded = !condition(&live, "ResourcesUpToDate").0.is_empty();
        let is_well = |app: &Value| {
            text(app, "/status/sync/status") == "Synced" && text(app, "/status/health/status") == "Healthy"
        };
        let is_over = if is_rolling {
            condition(&live, "RolloutProgressing").0 == "False" && follow.last.len() >= apps.len()
        } else {
            apps.iter().all(is_well)
        };
        if is_concluded && is_over {
            if is_shown {
                let steps = tiphys_appset::rollout::steps_of(set.spec.strategy.as_ref()).len();
                let steps = if is_rolling { format!(" · {}", count(steps, "step")) } else { String::new() };
                let apps = count(apps.len(), "application");
                print(&format!("Result: rolled out in {} (virtual) · {apps}{steps}\n", seconds(at)));
            }
            return Ok(End::Reached);
        }
        if follow.is_still(at) {
            print(&still(&live, &apps, follow.changed));
            return Ok(End::Stuck);
        }
        follow.wait(at).await;
    }
}

/// The bookkeeping of a roll-out.
fn phases(set: &Value) -> Seen {
    let entries = set.pointer("/status/applicationStatus").and_then(Value::as_array);
    let of = |entry: &Value| {
        let shown = match text(entry, "/status") {
            "Waiting" => "Waiting",
            "Pending" => "Pending      a sync is asked for",
            "Progressing" => "Progressing  waits until it is Healthy",
            other => other,
        };
        (text(entry, "/application").to_owned(), (text(entry, "/step").to_owned(), shown.to_owned()))
    };
    entries.into_iter().flatten().map(of).collect()
}

fn states(apps: &[Value]) -> Seen {
    let of = |app: &Value| {
        let state = format!("{} {}", text(app, "/status/sync/status"), text(app, "/status/health/status"));
        (name(app).to_owned(), (String::new(), state.trim().to_owned()))
    };
    apps.iter().map(of).collect()
}

/// Why nothing happens any more.
fn still(set: &Value, apps: &[Value], since: Duration) -> String {
    let (_, _, message) = condition(set, "RolloutProgressing");
    let mut told = format!("Result: stands still since {} (virtual)", seconds(since));
    if !message.is_empty() {
        told = format!("{told}: {message}");
    }
    told.push('\n');
    let phases = phases(set);
    let step = phases
        .values()
        .filter(|(step, text)| step != "-1" && text != "Healthy")
        .map(|(step, _)| step.as_str());
    let step =
        step.min_by_key(|step| step.parse::<usize>().unwrap_or(usize::MAX)).unwrap_or_default().to_owned();
    for app in apps {
        let phase = phases.get(name(app));
        if phase.is_some_and(|(of, text)| *of != step || text == "Healthy") {
            continue;
        }
        let operation = text(app, "/status/operationState/message");
        let conditions = app.pointer("/status/conditions").and_then(Value::as_array);
        let problem = conditions.into_iter().flatten().map(|condition| text(condition, "/message")).next();
        let resources = app.pointer("/status/resources").and_then(Value::as_array);
        let sick = resources
            .into_iter()
            .flatten()
            .find_map(|row| Some(text(row, "/health/message")).filter(|text| !text.is_empty()));
        let why = problem.or(sick).unwrap_or(operation);
        let (sync, health) = (text(app, "/status/sync/status"), text(app, "/status/health/status"));
        let colon = if why.is_empty() { "" } else { ": " };
        let _written = writeln!(told, "  waits for {}: {sync} {health}{colon}{why}", name(app));
    }
    told
}

/// An object that an application deployed.
struct Deployed {
    app: String,
    what: String,
    path: String,
    destination: Value,
}

/// Shows a deletion.
pub(super) async fn deletion(stage: &Stage, set: &ApplicationSet) -> anyhow::Result<End> {
    let apps = stage.apps().await;
    let mut deployed = Vec::new();
    for object in apps.iter().flat_map(rows) {
        // Of kinds that are named otherwise nothing is said.
        if stage.has(&object.destination, &object.path).await {
            deployed.push(object);
        }
    }
    let mut there: Vec<String> = apps.iter().map(|app| name(app).to_owned()).collect();
    let width = there.iter().map(String::len).max().unwrap_or(0);
    let mut follow = Follow::begin(stage.elapsed(), Duration::ZERO, width);
    stage.delete_set(&set.metadata.name).await?;
    loop {
        let at = stage.elapsed();
        let since = at.saturating_sub(follow.began);
        let live = stage.set(&set.metadata.name).await;
        let apps = stage.apps().await;
        let going = |app: &&Value| !text(app, "/metadata/deletionTimestamp").is_empty();
        let seen: Seen = apps
            .iter()
            .filter(going)
            .map(|app| (name(app).to_owned(), (String::new(), "is being deleted".to_owned())))
            .collect();
        for line in follow.take(at, seen) {
            print(&line);
        }
        let mut left = Vec::new();
        for object in deployed {
            if stage.has(&object.destination, &object.path).await {
                left.push(object);
            } else {
                print(&line(since, "", &object.app, width, &format!("  {} is gone", object.what)));
                follow.changed = at;
            }
        }
        deployed = left;
        let gone = |app: &String| !apps.iter().any(|live| name(live) == app);
        for app in there.iter().filter(|app| gone(app)) {
            print(&line(since, "", app, width, "is gone"));
            follow.changed = at;
        }
        there.retain(|app| !gone(app));
        if live.is_null() && there.is_empty() {
            print(&format!(
                "Result: deleted in {} (virtual), the set {} went last\n",
                seconds(since),
                set.metadata.name
            ));
            return Ok(End::Reached);
        }
        if follow.is_still(at) {
            let message = condition(&live, "DeletionProgressing").2;
            let waits = if live.is_null() {
                format!("the set is gone, left are {}", there.join(", "))
            } else {
                message
            };
            print(&format!(
                "Result: stands still since {} (virtual): {waits}\n",
                seconds(follow.changed.saturating_sub(follow.began))
            ));
            return Ok(End::Stuck);
        }
        follow.wait(at).await;
    }
}

/// What an application deployed, of the kinds whose place is known without asking.
fn rows(app: &Value) -> Vec<Deployed> {
    let resources = app.pointer("/status/resources").and_then(Value::as_array);
    let destination = app.pointer("/spec/destination").cloned().unwrap_or_default();
    let row = |row: &Value| {
        let (group, version) = (text(row, "/group"), text(row, "/version"));
        let (kind, namespace) = (text(row, "/kind"), text(row, "/namespace"));
        let plural = plural(kind);
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
        let shown = if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") };
        Deployed {
            app: name(app).to_owned(),
            what: format!("{shown} {}", text(row, "/name")),
            path: format!("{root}{place}/{plural}/{}", text(row, "/name")),
            destination: destination.clone(),
        }
    };
    resources.into_iter().flatten().map(row).collect()
}

/// How the API names a kind in paths: as all built-in kinds are named.
fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) if !kind.ends_with("ay") && !kind.ends_with("ey") => format!("{stem}ies"),
        _ if kind == "endpoints" => kind,
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    }
}
