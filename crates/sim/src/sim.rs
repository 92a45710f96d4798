//! The server as a value: state behind a lock, requests in, answers out.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Response, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::answer::{Reply, body};
use crate::clock::Clock;
use crate::controllers;
use crate::dispatch::{deprecation, dispatch};
use crate::fault::{Fault, Faults};
use crate::logs::Log;
use crate::request::Request;
use crate::signal::{Signal, Waiter};
use crate::state::State;
use crate::status::Status;
use crate::watch::Watch;

/// Bytes a request may have.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;
/// Time between two bookmarks of a quiet watch.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// How a server begins.
#[derive(Clone, Debug)]
pub struct Options {
    /// What uids, names and addresses are drawn from.
    pub seed: u64,
    /// Where time comes from.
    pub clock: Clock,
    /// Where objects are kept; `None` is memory only.
    pub data: Option<PathBuf>,
    /// How fast simulated workloads are: 2 halves every delay.
    pub speed: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { seed: 1, clock: Clock::System, data: None, speed: 1.0 }
    }
}

/// Why a server cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// The data directory cannot be used.
    #[error(transparent)]
    Data(#[from] crate::persist::DataError),
}

/// An API server. Cloning is cheap and gives the same server.
#[derive(Clone)]
pub struct Sim {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    clock: Clock,
    /// The version of the last write, for watches and controllers to wait on.
    changed: Signal,
    address: Mutex<String>,
    faults: Mutex<Option<Faults>>,
    controllers_task: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl std::fmt::Debug for Sim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sim").finish_non_exhaustive()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(task) = self.controllers_task.lock().take() {
            task.abort();
        }
    }
}

impl Sim {
    /// A server with what its data directory holds, or with nothing but the namespaces every cluster has. Its
    /// controllers run on the current runtime.
    #[expect(clippy::needless_pass_by_value, reason = "options are made for one server")]
    pub fn new(options: Options) -> Result<Self, SimError> {
        let now = options.clock.now();
        let mut state = State::new(options.seed);
        state.speed = if options.speed > 0.0 { options.speed } else { 1.0 };
        if let Some(directory) = &options.data {
            crate::persist::open(&mut state, directory, options.seed)?;
        }
        controllers::begin(&mut state, now);
        // What was before is no history: no client has seen it.
        state.store.compact();
        let changed = Signal::default();
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            clock: options.clock,
            changed,
            address: Mutex::default(),
            faults: Mutex::default(),
            controllers_task: Mutex::default(),
        });
        let task = tokio::spawn(run_controllers(Arc::downgrade(&shared), shared.changed.waiter()));
        *shared.controllers_task.lock() = Some(task);
        Ok(Self { shared })
    }

    /// Answers a request. The body of a watch or of a followed log goes on until its time is over.
    pub fn handle(&self, request: http::Request<Bytes>) -> Response<Body> {
        self.handle_with(request, Fault::default())
    }

    /// The same, with a fault. Its delay is the caller's to wait for: see [`Sim::call`].
    pub fn handle_with(&self, request: http::Request<Bytes>, fault: Fault) -> Response<Body> {
        if let Some(status) = &fault.refused {
            return refusal(status);
        }
        let forgotten = fault.forgotten.clone();
        let response = self.carry_out(request, fault);
        forgotten.map_or(response, |status| refusal(&status))
    }

    /// Answers a request with the fault that is due, if faults have been set.
    pub async fn call(&self, request: http::Request<Bytes>) -> Response<Body> {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let fault = self.shared.faults.lock().as_mut().map(|faults| faults.next(request.method(), is_watch));
        let fault = fault.unwrap_or_default();
        if !fault.delay.is_zero() {
            tokio::time::sleep(fault.delay).await;
        }
        self.handle_with(request, fault)
    }

    /// Sets what goes wrong from here on with requests from outside; `None` is nothing.
    pub fn set_faults(&self, faults: Option<Faults>) {
        *self.shared.faults.lock() = faults;
    }

    fn carry_out(&self, request: http::Request<Bytes>, fault: Fault) -> Response<Body> {
        let (parts, bytes) = request.into_parts();
        if bytes.len() > BODY_BYTES_MAX {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            return refusal(&Status::new(413, "RequestEntityTooLarge", message));
        }
        let request = Request::new(&parts, bytes, self.shared.clock.now(), fault);
        let address = self.shared.address.lock().clone();
        let reply = self.with_state(|state| dispatch(state, &request, &address));
        let mut response = self.answer(reply, &request);
        if let Some(text) = deprecation(&request) {
            warn(&mut response, text);
        }
        response
    }

    /// What leaves for a reply.
    fn answer(&self, reply: Result<Reply, Status>, request: &Request) -> Response<Body> {
        match reply {
            Err(status) => {
                let mut response = refusal_as(&status, &request.accept);
                for warning in &status.warnings {
                    warn(&mut response, warning);
                }
                response
            }
            Ok(Reply::Object { code, value, warnings }) => {
                let (content_type, bytes) = body(&value, &request.accept);
                let mut response = plain(code, content_type, bytes);
                for warning in warnings {
                    warn(&mut response, &warning);
                }
                response
            }
            Ok(Reply::Bytes { content_type, bytes }) => plain(200, content_type, bytes),
            Ok(Reply::Nothing) => plain(204, "application/json", Bytes::new()),
            Ok(Reply::Watch(watch)) => self.watch(*watch),
            Ok(Reply::Log(log)) => self.log(*log),
        }
    }

    /// Forgets the history: watches from earlier versions and pages of earlier lists are refused from here on.
    pub fn compact(&self) {
        self.shared.state.lock().store.compact();
    }

    /// The version of the last write.
    pub fn version(&self) -> u64 {
        self.shared.state.lock().store.version()
    }

    /// The server's time.
    pub fn now(&self) -> jiff::Timestamp {
        self.shared.clock.now()
    }

    pub(crate) fn set_address(&self, address: String) {
        *self.shared.address.lock() = address;
    }

    /// Works on the state, and tells everybody who waits when something was written.
    fn with_state<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        let (result, version) = {
            let mut state = self.shared.state.lock();
            let result = work(&mut state);
            (result, state.store.version())
        };
        self.shared.changed.tell(version);
        result
    }

    fn watch(&self, watch: Watch) -> Response<Body> {
        let lasts = Duration::from_secs(watch.seconds);
        let follow = Follow {
            sim: self.clone(),
            changed: self.shared.changed.waiter(),
            end: Instant::now() + lasts,
            bookmark: Instant::now() + BOOKMARK_PERIOD,
            watch,
        };
        let lines = futures::stream::unfold(follow, |mut follow| async move {
            let lines = follow.next().await?;
            Some((lines, follow))
        });
        stream("application/json", lines)
    }

    fn log(&self, log: Log) -> Response<Body> {
        let clock = self.shared.clock;
        let lines = futures::stream::unfold((log, false), move |(mut log, is_over)| async move {
            if is_over {
                return None;
            }
            let mut lines = log.advance(clock.now());
            if !log.follows {
                return Some((lines, (log, true)));
            }
            while lines.is_empty() {
                let wait = Duration::try_from(log.wait(clock.now())).unwrap_or(Duration::from_secs(1));
                tokio::time::sleep(wait).await;
                lines = log.advance(clock.now());
            }
            Some((lines, (log, false)))
        });
        stream("text/plain", lines)
    }
}

/// A watch that is being told.
struct Follow {
    sim: Sim,
    changed: Waiter,
    end: Instant,
    bookmark: Instant,
    watch: Watch,
}

impl Follow {
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            // Seen before looking, so that a write in between is not missed.
            self.changed.look();
            let lines = {
                let state = self.sim.shared.state.lock();
                self.watch.advance(&state, self.sim.shared.clock.now())?
            };
            if !lines.is_empty() {
                return Some(lines);
            }
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(self.end) => return None,
                () = self.changed.changed() => {}
                () = tokio::time::sleep_until(self.bookmark), if self.watch.has_bookmarks => {
                    self.bookmark = Instant::now() + BOOKMARK_PERIOD;
                    return Some(self.watch.bookmark());
                }
            }
        }
    }
}

/// Lets the controllers work whenever something changed or their time has come.
async fn run_controllers(shared: std::sync::Weak<Shared>, mut changed: Waiter) {
    loop {
        changed.look();
        let Some(held) = shared.upgrade() else { return };
        let (wake, version, is_done) = {
            let mut state = held.state.lock();
            let now = held.clock.now();
            let is_done = controllers::step(&mut state, now);
            (state.timers.first().map(|(time, _)| time.duration_since(now)), state.store.version(), is_done)
        };
        held.changed.tell(version);
        drop(held);
        if !is_done {
            tokio::task::yield_now().await;
            continue;
        }
        let wait = wake.map_or(Duration::from_hours(1), |wait| Duration::try_from(wait).unwrap_or_default());
        // Wake-ups due now still let others run first.
        let wait = wait.max(Duration::from_millis(1));
        tokio::select! {
            biased;
            () = changed.changed() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

fn refusal(status: &Status) -> Response<Body> {
    refusal_as(status, "")
}

/// A refusal in the form that is asked for.
fn refusal_as(status: &Status, accept: &str) -> Response<Body> {
    if let Some(text) = status.as_text() {
        return plain(status.code, "text/plain; charset=utf-8", Bytes::from(text.to_owned()));
    }
    let (content_type, bytes) = body(&status.to_value(), accept);
    let mut response = plain(status.code, content_type, bytes);
    if let Some(seconds) = status.details.get("retryAfterSeconds").and_then(serde_json::Value::as_u64) {
        response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

pub(crate) fn plain(code: u16, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(bytes).boxed_unsync());
    *response.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
    response
}

fn stream(
    content_type: &'static str,
    lines: impl futures::Stream<Item = Vec<u8>> + Send + 'static,
) -> Response<Body> {
    let frames = lines.map(|lines| Ok::<_, Infallible>(Frame::data(Bytes::from(lines))));
    let mut response = Response::new(StreamBody::new(frames).boxed_unsync());
    response.headers_mut().insert(header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, http::HeaderValue::from_static("no-cache, private"));
    response
}

/// Adds a warning for the caller.
fn warn(response: &mut Response<Body>, text: &str) {
    if let Ok(value) = http::HeaderValue::from_str(&format!("299 - {}", quoted(text))) {
        response.headers_mut().append(header::WARNING, value);
    }
}

/// A quoted string of a header.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(if letter.is_control() { ' ' } else { letter });
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
