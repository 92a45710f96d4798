//! Logs of the pods of an application (API-149..153).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{BoxStream, SelectAll};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;
use tiphys_api::Application;
use tiphys_cluster::LogQuery;
use tiphys_object::ResourceKey;
use tiphys_policy::rbac::{Resource, application_object};
use tokio::time::Instant;

use super::access;
use super::requests::Named;
use super::resources::live;
use crate::call::{Message, Reply, Status};
use crate::catalog::AppKey;
use crate::live::Live;
use crate::services::context::{Context, hidden};
use crate::services::standing::{Owned, RECHECK_INTERVAL, Standing};

/// Lines of several pods that come within this time are put in order (API-151).
const WINDOW: Duration = Duration::from_millis(100);
/// Lines that wait to be put in order.
const WAITING_MAX: usize = 4_096;
/// Pods whose logs are shown at a time unless `server.maxPodLogsToRender` says otherwise.
const PODS_MAX: usize = 10;

/// `ApplicationPodLogsQuery`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Query {
    namespace: String,
    pod_name: String,
    container: String,
    since_seconds: i64,
    since_time: Option<String>,
    tail_lines: i64,
    follow: bool,
    until_time: String,
    filter: String,
    kind: String,
    group: String,
    resource_name: String,
    previous: bool,
    match_case: bool,
    #[serde(flatten)]
    named: Named,
}

impl Query {
    /// What the pods are or belong to: a pod by its name, or another resource.
    fn below(&self) -> ResourceKey {
        let (kind, name) = if self.pod_name.is_empty() {
            (self.kind.as_str(), self.resource_name.as_str())
        } else {
            ("Pod", self.pod_name.as_str())
        };
        ResourceKey::new(&self.group, kind, &self.namespace, name)
    }

    fn lines(&self) -> LogQuery {
        LogQuery {
            container: self.container.clone(),
            since_seconds: self.since_seconds,
            since_time: self.since_time.clone().unwrap_or_default(),
            tail_lines: self.tail_lines,
            follow: self.follow,
            previous: self.previous,
        }
    }

    fn until(&self) -> Result<Option<Timestamp>, Status> {
        if self.until_time.is_empty() {
            return Ok(None);
        }
        let read = self.until_time.parse::<Timestamp>();
        let wrong = |error| Status::invalid(format!("invalid untilTime parameter value: {error}"));
        read.map(Some).map_err(wrong)
    }
}

/// Which lines are shown (API-152).
struct Filter {
    text: String,
    is_inverted: bool,
    match_case: bool,
}

impl Filter {
    fn new(text: &str, match_case: bool) -> Self {
        let (is_inverted, text) = text.strip_prefix('!').map_or((false, text), |rest| (true, rest));
        let text = if match_case { text.to_owned() } else { text.to_lowercase() };
        Self { text, is_inverted, match_case }
    }

    fn shows(&self, line: &str) -> bool {
        if self.text.is_empty() {
            return true;
        }
        let found = if self.match_case {
            line.contains(&self.text)
        } else {
            line.to_lowercase().contains(&self.text)
        };
        found != self.is_inverted
    }
}

/// A line of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Line {
    pod: String,
    at: Option<Timestamp>,
    /// The time as the cluster wrote it.
    stamp: String,
    content: String,
}

impl Line {
    /// Reads `TIME CONTENT`.
    fn read(pod: &str, text: &str) -> Self {
        let (stamp, content) = text.split_once(' ').unwrap_or((text, ""));
        match stamp.parse::<Timestamp>() {
            Ok(at) => Self {
                pod: pod.to_owned(),
                at: Some(at),
                stamp: stamp.to_owned(),
                content: content.to_owned(),
            },
            // The rest of a line that was too long has no time of its own.
            Err(_) => Self { pod: pod.to_owned(), content: text.to_owned(), ..Self::default() },
        }
    }

    /// A log that cannot be read says why in one line (API-151).
    fn failed(why: &str) -> Self {
        Self { content: why.to_owned(), ..Self::default() }
    }

    fn message(&self, last: bool) -> Message {
        let seconds = self.at.and_then(|at| Timestamp::from_second(at.as_second()).ok());
        Message::new(
            json!({"content": self.content, "timeStamp": seconds.map(|at| at.to_string()), "last": last,
            "timeStampStr": self.stamp, "podName": self.pod}),
        )
    }
}

pub(super) async fn pod_logs(context: &Context<'_>, asked: Query) -> Result<Reply, Status> {
    let found = access::fresh(context, "get", &asked.named).await?;
    context.check(Resource::Logs, "get", &log_object(context, found.proof.get()))?;
    let until = asked.until()?;
    let live = Arc::clone(live(context)?);
    let pods = live.pods(&found.key, &asked.below()).await?;
    let pods_max = pods_max(context.world.setting("server.maxPodLogsToRender"));
    if pods.len() > pods_max {
        let text = "max pods to view logs are reached. Please provide more granular query";
        return Err(Status::invalid(text));
    }
    let mut logs: SelectAll<BoxStream<'static, Line>> = SelectAll::new();
    let query = asked.lines();
    for (namespace, pod) in &pods {
        let opened = live.log(&found.key, (namespace, pod), &query).await;
        logs.push(match opened {
            Ok(lines) => {
                let pod = pod.clone();
                let read = move |line: Result<bytes::Bytes, Status>| match line {
                    Ok(line) => Line::read(&pod, &String::from_utf8_lossy(&line)),
                    Err(status) => Line::failed(&status.message),
                };
                lines.map(read).boxed()
            }
            Err(status) => futures::stream::iter([Line::failed(&status.message)]).boxed(),
        });
    }
    let (is_ordered, is_empty) = (pods.len() < 2, pods.is_empty());
    let state = Reading {
        owned: context.owned(),
        named: asked.named,
        key: found.key,
        live,
        pods,
        logs,
        is_ordered,
        filter: Filter::new(&asked.filter, asked.match_case),
        until,
        waiting: Vec::new(),
        flush_at: None,
        ready: VecDeque::new(),
        check_at: Instant::now() + RECHECK_INTERVAL,
        is_over: is_empty,
    };
    let stream = futures::stream::unfold(state, |mut state| async move {
        let message = state.next().await?;
        Some((message, state))
    });
    Ok(Reply::stream(stream.boxed()))
}

fn pods_max(setting: &str) -> usize {
    let text = setting.trim();
    text.parse().unwrap_or_else(|_error| {
        if !text.is_empty() {
            tracing::warn!(
                text,
                PODS_MAX,
                "server.maxPodLogsToRender of argocd-cm is no number and has no effect"
            );
        }
        PODS_MAX
    })
}

/// What is shown next.
enum Next {
    Line(Line),
    /// The logs are over, which an entry says (API-153).
    End,
}

/// Logs that are being read by somebody.
struct Reading {
    owned: Owned,
    named: Named,
    key: AppKey,
    live: Arc<dyn Live>,
    /// Namespaces and names of the pods.
    pods: Vec<(String, String)>,
    logs: SelectAll<BoxStream<'static, Line>>,
    /// Lines of one pod come in order.
    is_ordered: bool,
    filter: Filter,
    until: Option<Timestamp>,
    waiting: Vec<Line>,
    flush_at: Option<Instant>,
    ready: VecDeque<Next>,
    check_at: Instant,
    is_over: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Result<Message, Status>> {
        loop {
            if let Err(status) = self.check().await {
                self.is_over = true;
                self.ready.clear();
                return Some(Err(status));
            }
            if let Some(next) = self.ready.pop_front() {
                let Next::Line(line) = next else {
                    self.is_over = true;
                    let now = self.owned.within(|context| context.parts.clock.now());
                    let last = Line { at: Some(now), stamp: now.to_string(), ..Line::default() };
                    return Some(Ok(last.message(true)));
                };
                if line.at.zip(self.until).is_some_and(|(at, until)| at > until) {
                    self.is_over = true;
                    self.ready.clear();
                    return Some(Ok(line.message(true)));
                }
                if self.filter.shows(&line.content) {
                    return Some(Ok(line.message(false)));
                }
                continue;
            }
            if self.is_over {
                return None;
            }
            let flush_at = self.flush_at.unwrap_or(self.check_at);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.check_at) => {
                    self.check_at = Instant::now() + RECHECK_INTERVAL;
                }
                () = tokio::time::sleep_until(flush_at), if self.flush_at.is_some() => self.flush(),
                line = self.logs.next() => if let Some(line) = line {
                    self.take(&line);
                } else {
                    self.flush();
                    self.ready.push_back(Next::End);
                },
            }
        }
    }

    fn take(&mut self, line: &Line) {
        // What a terminal would show over one another are lines of their own (API-151).
        for content in line.content.split('\r') {
            self.waiting.push(Line { content: content.to_owned(), ..line.clone() });
        }
        if self.is_ordered || self.waiting.len() >= WAITING_MAX {
            self.flush();
        } else {
            self.flush_at = self.flush_at.or_else(|| Some(Instant::now() + WINDOW));
        }
    }

    fn flush(&mut self) {
        self.flush_at = None;
        if !self.is_ordered {
            self.waiting.sort_by_key(|line| line.at);
        }
        self.ready.extend(self.waiting.drain(..).map(Next::Line));
    }

    /// Checks the session and the rights of the reader, and that the pods still belong to the application.
    async fn check(&mut self) -> Result<(), Status> {
        if self.is_over || self.owned.check().await? == Standing::Same {
            return Ok(());
        }
        // The application may have moved to another project.
        self.owned.within(|context| {
            let found = access::cached(context, "get", &self.named)?;
            context.check(Resource::Logs, "get", &log_object(context, found.proof.get()))
        })?;
        for (namespace, pod) in &self.pods {
            let key = ResourceKey::new("", "Pod", namespace, pod);
            // An unavailable cluster does not end the stream.
            if matches!(self.live.has(&self.key, &key).await, Ok(false)) {
                return Err(hidden());
            }
        }
        Ok(())
    }
}

/// RBAC object of an application's logs.
fn log_object(context: &Context<'_>, app: &Application) -> String {
    let Application { metadata, .. } = app;
    application_object(app.project(), &metadata.namespace, &metadata.name, context.namespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_149_a_number_of_pods_that_is_none_leaves_the_bound() {
        assert_eq!(["", "3", " 3 ", "many", "-1"].map(pods_max), [PODS_MAX, 3, 3, PODS_MAX, PODS_MAX]);
    }

    #[test]
    fn api_152_a_filter_is_a_part_of_the_line_or_not() {
        let shows = |filter: &str, match_case: bool, line: &str| Filter::new(filter, match_case).shows(line);
        assert!(
            shows("", false, "any") && shows("ERR", false, "an error") && !shows("ERR", true, "an error")
        );
        assert!(
            shows("!err", false, "fine") && !shows("!err", false, "ERROR") && shows("!err", true, "ERROR")
        );
        assert!(shows("!", false, "any"), "a mark with nothing behind it says nothing");
    }

    #[test]
    fn api_153_a_line_has_the_time_before_it() {
        let line = Line::read("p", "2026-01-02T03:04:05.123456789Z GET / 200");
        assert_eq!(
            (line.content.as_str(), line.stamp.as_str()),
            ("GET / 200", "2026-01-02T03:04:05.123456789Z")
        );
        assert_eq!(line.at.unwrap().as_second(), 1_767_323_045);
        let rest = Line::read("p", "the rest of a long line");
        assert_eq!((rest.content.as_str(), rest.at), ("the rest of a long line", None));
        assert_eq!(Line::read("p", "2026-01-02T03:04:05Z").content, "");
    }

    #[test]
    fn api_149_a_pod_by_name_is_a_pod_whatever_kind_is_sent() {
        let query = Query { pod_name: "p".to_owned(), kind: "Deployment".to_owned(), ..Query::default() };
        let below = query.below();
        assert_eq!((below.kind.as_str(), below.name.as_str()), ("Pod", "p"));
        let wrong = Query { until_time: "yesterday".to_owned(), ..Query::default() };
        assert!(wrong.until().unwrap_err().message.starts_with("invalid untilTime parameter value: "));
    }
}
