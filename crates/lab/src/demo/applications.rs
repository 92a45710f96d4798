//! What the Applications of the demo are doing: followed once, shown to the start, the feed and the verbs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tiphys_cluster::{Connection, Discovery, ObjectEvent, ObjectQuery, watch_objects};
use tiphys_object::{Gvk, Object};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::scenario::NAMESPACE;

/// Events that may wait; when full, the watch stalls, which is the backpressure we want.
const EVENTS_MAX: usize = 256;
/// Characters of a problem in the feed.
const PROBLEM_CHARS_MAX: usize = 160;

/// Kind of the Applications.
pub(crate) fn application_gvk() -> Gvk {
    Gvk::new("argoproj.io", "v1alpha1", "Application")
}

/// What one Application shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) sync: String,
    pub(crate) health: String,
    /// What is wrong, in one line; empty when nothing is.
    pub(crate) problem: String,
    /// Whether it was compared.
    pub(crate) is_compared: bool,
}

/// All Applications by name.
pub(crate) type All = BTreeMap<String, Shown>;

/// Follows the Applications until cancelled; the receiver sees every state, or a later one.
pub(crate) async fn follow(
    connection: &Connection,
    discovery: &Discovery,
    tasks: &TaskTracker,
    cancel: &CancellationToken,
) -> anyhow::Result<watch::Receiver<All>> {
    let query = query(discovery).await?;
    let (events, mut received) = mpsc::channel(EVENTS_MAX);
    let (sender, receiver) = watch::channel(All::new());
    tasks.spawn(watch_objects(connection.clone(), query, events, Arc::new(|| 0.5), cancel.clone()));
    tasks.spawn(async move {
        while let Some(event) = received.recv().await {
            sender.send_if_modified(|all| apply(all, &event));
        }
    });
    Ok(receiver)
}

/// The Applications as they are now.
pub(crate) async fn list(connection: &Connection, discovery: &Discovery) -> anyhow::Result<Vec<Value>> {
    let cancel = CancellationToken::new();
    let _end = cancel.clone().drop_guard();
    let (events, mut received) = mpsc::channel(EVENTS_MAX);
    let query = query(discovery).await?;
    let watch = tokio::spawn(watch_objects(connection.clone(), query, events, Arc::new(|| 0.5), cancel));
    let mut all = Vec::new();
    while let Some(event) = received.recv().await {
        match event {
            ObjectEvent::Upsert(received) => match received.read() {
                Ok(object) => all.push(object.to_value()?),
                Err(bad) => tracing::warn!(%bad, "left out"),
            },
            ObjectEvent::Synced => break,
            ObjectEvent::Delete(_) => {}
            ObjectEvent::Failed(why) => bail!("the Applications cannot be listed: {why}"),
        }
    }
    watch.abort();
    Ok(all)
}

async fn query(discovery: &Discovery) -> anyhow::Result<ObjectQuery> {
    let kinds = discovery.kinds().await.context("the embedded API does not answer")?;
    let Some(resource) = kinds.resource(&application_gvk()) else {
        bail!("the embedded API does not serve Applications");
    };
    Ok(ObjectQuery {
        resource: Arc::clone(resource),
        namespace: NAMESPACE.into(),
        label_selector: String::new(),
        field_selector: String::new(),
    })
}

/// Waits until all of these exist and were compared.
pub(crate) async fn compared(
    mut shown: watch::Receiver<All>,
    names: &[String],
    patience: Duration,
) -> anyhow::Result<()> {
    let done = |all: &All| names.iter().all(|name| all.get(name).is_some_and(|app| app.is_compared));
    let outcome = tokio::time::timeout(patience, shown.wait_for(done)).await.map(|seen| seen.map(drop));
    match outcome {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) => bail!("the watch of the Applications ended"),
        Err(_) => {
            let all = shown.borrow();
            let missing = names.iter().filter(|name| !all.get(*name).is_some_and(|app| app.is_compared));
            let missing: Vec<_> = missing.map(String::as_str).collect();
            bail!("not compared within {} s: {}", patience.as_secs(), missing.join(", "))
        }
    }
}

fn apply(all: &mut All, event: &ObjectEvent) -> bool {
    match event {
        ObjectEvent::Upsert(received) => match received.read() {
            Ok(object) => {
                let now = show(&object);
                all.insert(object.name().to_owned(), now.clone()) != Some(now)
            }
            Err(bad) => {
                tracing::warn!(%bad, "an Application cannot be shown");
                false
            }
        },
        ObjectEvent::Delete(key) => all.remove(key.name.as_str()).is_some(),
        ObjectEvent::Synced => false,
        ObjectEvent::Failed(why) => {
            tracing::warn!(why, "the Applications cannot be followed for the moment");
            false
        }
    }
}

fn show(object: &Object) -> Shown {
    let value = object.to_value().unwrap_or_default();
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or("").to_owned();
    let problem = problem(&value).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = problem.chars().take(PROBLEM_CHARS_MAX).collect();
    if short.len() < problem.len() {
        short.push('…');
    }
    Shown {
        sync: text("/status/sync/status"),
        health: text("/status/health/status"),
        problem: short,
        is_compared: !text("/status/reconciledAt").is_empty(),
    }
}

/// The error condition, else what an operation says that failed or will be tried again.
fn problem(app: &Value) -> String {
    let conditions = app.pointer("/status/conditions").and_then(Value::as_array);
    let mut errors = conditions.into_iter().flatten().filter_map(|condition| {
        let kind = condition.get("type")?.as_str()?;
        // A sync error repeats what its operation says.
        let is_error = kind.ends_with("Error") && kind != "SyncError";
        is_error.then(|| condition.get("message")?.as_str()).flatten()
    });
    if let Some(message) = errors.next() {
        return message.to_owned();
    }
    let state = app.pointer("/status/operationState");
    let part = |name: &str| state.and_then(|state| state.get(name)?.as_str()).unwrap_or("");
    match (part("phase"), part("message")) {
        ("Failed" | "Error", message) => message.to_owned(),
        ("Running", message) if message.contains("Retrying attempt") => message.to_owned(),
        _ => String::new(),
    }
}

/// Prints a line for each change of state, for a person who watches.
#[expect(clippy::print_stderr, reason = "the feed is for the person at the terminal")]
pub(crate) async fn feed(mut shown: watch::Receiver<All>) {
    let mut before = All::new();
    loop {
        let now = shown.borrow_and_update().clone();
        let width = now.keys().chain(before.keys()).map(String::len).max().unwrap_or(0);
        for line in changes(&before, &now, width) {
            eprintln!("{} {line}", jiff::Zoned::now().strftime("%H:%M:%S"));
        }
        before = now;
        if shown.changed().await.is_err() {
            return;
        }
    }
}

fn changes(before: &All, now: &All, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, app) in now {
        if app.sync.is_empty() || before.get(name) == Some(app) {
            continue;
        }
        let line = format!("{name:width$}  {:9}  {:11}  {}", app.sync, app.health, app.problem);
        lines.push(line.trim_end().to_owned());
    }
    let gone = before.keys().filter(|name| !now.contains_key(*name));
    lines.extend(gone.map(|name| format!("{name:width$}  deleted")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(status: &Value) -> Shown {
        let app = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": "web", "namespace": NAMESPACE}, "status": status});
        show(&Object::from_value(&app).unwrap())
    }

    #[test]
    fn cli_1001_only_changes_are_told() {
        let web = shown(&json!({"reconciledAt": "2026-08-01T10:00:00Z", "sync": {"status": "Synced"},
            "health": {"status": "Healthy"}}));
        let new = shown(&Value::Null);
        assert!(web.is_compared && !new.is_compared);
        let before = All::from([("new".to_owned(), new.clone()), ("old".to_owned(), web.clone())]);
        let now = All::from([("new".to_owned(), new), ("web".to_owned(), web)]);
        assert_eq!(changes(&before, &now, 4), ["web   Synced     Healthy", "old   deleted"]);
        assert!(changes(&now, &now, 4).is_empty());
    }

    #[test]
    fn cli_1001_a_problem_is_one_short_line() {
        let long = "x ".repeat(500);
        let app = shown(&json!({"conditions": [{"type": "SyncWarning", "message": "no"},
            {"type": "ComparisonError", "message": format!("bad\n  file {long}")}]}));
        assert!(app.problem.starts_with("bad file x x") && app.problem.ends_with('…'), "{}", app.problem);
        assert_eq!(app.problem.chars().count(), PROBLEM_CHARS_MAX + 1);
        let failed = shown(&json!({"operationState": {"phase": "Failed", "message": "hook failed"}}));
        assert_eq!(failed.problem, "hook failed");
        let over = shown(&json!({"operationState": {"phase": "Succeeded", "message": "done"}}));
        assert_eq!(over.problem, "");
    }
}
