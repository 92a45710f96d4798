//! Logs of simulated pods: lines that follow from the pod and the time, so that nothing is kept.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tiphys_object::access;

use crate::answer::Reply;
use crate::clock::seconds;
use crate::request::{Place, Request};
use crate::state::State;
use crate::status::{FieldError, Status};

/// Seconds between two lines.
const LINE_SECONDS: i64 = 5;
/// Lines a log begins with at most: older ones have been rotated away.
const LINES_MAX: i64 = 1_000;

/// A log that is being read.
#[derive(Debug)]
pub(crate) struct Log {
    container: String,
    image: String,
    started: Timestamp,
    ended: Option<Timestamp>,
    fails: bool,
    has_times: bool,
    next: i64,
    /// Whether new lines are waited for.
    pub(crate) follows: bool,
}

/// `GET` of the log of a pod.
pub(crate) fn log(state: &mut State, request: &Request, place: &Place) -> Result<Reply, Status> {
    let range = Range::parse(request, &place.name)?;
    let key = state.builtin_key("", "pods", &place.namespace, &place.name);
    let pod = state.tree(&key).ok_or_else(|| Status::not_found("", "pods", &place.name))?;
    let container = container(&pod, request.query.get("container").unwrap_or(""), &place.name)?;
    if access::text_at(&pod, &["spec", "nodeName"]).is_empty() {
        return Ok(Reply::Nothing);
    }
    let name = access::text(container, "name").to_owned();
    let statuses = access::at(&pod, &["status", "containerStatuses"]).and_then(Value::as_array);
    let status = statuses.into_iter().flatten().find(|one| access::text(one, "name") == name);
    let refuse =
        |why: &str| Err(Status::bad_request(format!("container {name:?} in pod {:?} is {why}", place.name)));
    let Some(status) = status else { return refuse("waiting to start: ContainerCreating") };
    let is_previous = request.query.flag("previous");
    let restarts = status.get("restartCount").and_then(Value::as_i64).unwrap_or(0);
    if is_previous && restarts == 0 {
        return Err(Status::bad_request(format!(
            "previous terminated container {name:?} in pod {:?} not found",
            place.name
        )));
    }
    let waiting = access::text_at(status, &["state", "waiting", "reason"]);
    if !waiting.is_empty() && restarts == 0 {
        return refuse(&format!("waiting to start: {waiting}"));
    }
    let time = |path: &[&str]| access::text_at(status, path).parse::<Timestamp>().ok();
    let pod_started = access::text_at(&pod, &["status", "startTime"]).parse().unwrap_or(request.now);
    let started = time(&["state", "running", "startedAt"])
        .or_else(|| time(&["state", "terminated", "startedAt"]))
        .unwrap_or(pod_started);
    let ended = time(&["state", "terminated", "finishedAt"])
        .or_else(|| time(&["lastState", "terminated", "finishedAt"]));
    let exit = access::at(status, &["state", "terminated", "exitCode"])
        .or_else(|| access::at(status, &["lastState", "terminated", "exitCode"]))
        .and_then(Value::as_i64);
    let mut log = Log {
        image: access::text(container, "image").to_owned(),
        container: name,
        started,
        ended,
        fails: exit.is_some_and(|code| code != 0),
        has_times: request.query.flag("timestamps"),
        next: 0,
        follows: request.query.flag("follow") && ended.is_none(),
    };
    let lines = log.lines_until(request.now);
    log.next = (lines - LINES_MAX).max(0);
    if let Some(tail) = range.tail {
        log.next = log.next.max(lines - tail);
    }
    if let Some(since) = range.since_seconds {
        let age = request.now.duration_since(started).as_secs();
        log.next = log.next.max((age - since).div_euclid(LINE_SECONDS) + 1);
    }
    Ok(Reply::Log(Box::new(log)))
}

/// Which part of a log is asked for.
struct Range {
    tail: Option<i64>,
    since_seconds: Option<i64>,
}

impl Range {
    fn parse(request: &Request, pod: &str) -> Result<Self, Status> {
        let tail = request.query.number("tailLines")?;
        let since_seconds = request.query.number("sinceSeconds")?;
        let limit_bytes = request.query.number("limitBytes")?;
        let mut errors = Vec::new();
        let mut check = |field: &str, given: Option<i64>, least: i64, why: &str| {
            if let Some(given) = given.filter(|given| *given < least) {
                errors.push(FieldError::invalid(field, &Value::from(given), why));
            }
        };
        check("tailLines", tail, 0, "must be greater than or equal to 0");
        check("limitBytes", limit_bytes, 1, "must be greater than 0");
        check("sinceSeconds", since_seconds, 1, "must be greater than 0");
        if errors.is_empty() {
            Ok(Self { tail, since_seconds })
        } else {
            Err(Status::invalid("", "PodLogOptions", pod, &errors))
        }
    }
}

fn container<'a>(pod: &'a Value, asked: &str, pod_name: &str) -> Result<&'a Value, Status> {
    let list = |member: &str| {
        access::at(pod, &["spec", member]).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    };
    let containers = list("containers");
    if !asked.is_empty() {
        let mut all = containers.iter().chain(list("initContainers")).chain(list("ephemeralContainers"));
        return all.find(|one| access::text(one, "name") == asked).ok_or_else(|| {
            Status::bad_request(format!("container {asked} is not valid for pod {pod_name}"))
        });
    }
    match containers {
        [one] => Ok(one),
        [] => Err(Status::bad_request(format!("pod {pod_name} has no containers"))),
        many => {
            let names: Vec<&str> = many.iter().map(|one| access::text(one, "name")).collect();
            Err(Status::bad_request(format!(
                "a container name must be specified for pod {pod_name}, choose one of: [{}]",
                names.join(" ")
            )))
        }
    }
}

impl Log {
    /// Lines that have been written by a time.
    fn lines_until(&self, now: Timestamp) -> i64 {
        let end = self.ended.map_or(now, |ended| ended.min(now));
        let passed = end.duration_since(self.started).as_secs();
        if passed < 0 { 0 } else { passed / LINE_SECONDS + 1 + i64::from(self.ended.is_some()) }
    }

    /// The lines that are new.
    pub(crate) fn advance(&mut self, now: Timestamp) -> Vec<u8> {
        let mut text = String::new();
        let end = self.lines_until(now);
        while self.next < end {
            self.line(self.next, end, &mut text);
            self.next += 1;
        }
        text.into_bytes()
    }

    /// Time until the next line.
    pub(crate) fn wait(&self, now: Timestamp) -> SignedDuration {
        let due = SignedDuration::from_secs(self.next.saturating_mul(LINE_SECONDS));
        let due = self.started.checked_add(due).unwrap_or(Timestamp::MAX);
        due.duration_since(now).max(SignedDuration::from_millis(10))
    }

    fn line(&self, number: i64, end: i64, text: &mut String) {
        let passed = SignedDuration::from_secs(number.saturating_mul(LINE_SECONDS));
        let time = self.started.checked_add(passed).unwrap_or(Timestamp::MAX);
        if self.has_times {
            text.push_str(&seconds(time));
            text.push(' ');
        }
        let is_last = self.ended.is_some() && number + 1 == end;
        let message = match (number, is_last, self.fails) {
            (_, true, true) => format!("{}: told to fail, exit code 1", self.container),
            (_, true, false) => format!("{}: done", self.container),
            (0, ..) => format!("{}: started from {} (simulated)", self.container, self.image),
            (number, ..) => format!("{}: heartbeat {number}", self.container),
        };
        text.push_str(&message);
        text.push('\n');
    }
}
