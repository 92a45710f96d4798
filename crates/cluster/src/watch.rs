//! One list and watch that never ends: what the index and the watches of the controllers stand on.
//!
//! A *round* begins with a full list and ends when every object of it was handed over; what the receiver had
//! from before and did not see again is gone. Where the server offers streaming lists, the list and the watch
//! are one request; else the list is paged. After that the watch is resumed at the last resource version, so
//! a restarted connection costs nothing; only `410 Gone` and the resync age begin a new round.
//!
//! A list that lost most of what was there before is not believed: it is read once more, by another way (F7).

mod lean;
pub(crate) mod parse;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::connection::{Call, Connection, INITIALIZING_LOOKS, INITIALIZING_WAIT, status_error};
use crate::error::ApiError;
use parse::{EventHead, Head, Page, PageMetadata};

/// Time to the head of a watch's answer.
pub(crate) const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for one page of a list.
const PAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// Silence after which a streaming list is given up and read in pages.
const INITIAL_SILENCE_MAX: Duration = Duration::from_secs(20);
/// How long the server keeps one watch open; half of it again is added at random.
const WATCH_SECONDS: u64 = 300;
/// Time the server gets to end a watch before we do.
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// First wait after a failure; doubles with each further one.
const BACKOFF_FIRST: Duration = Duration::from_millis(500);
/// Longest wait after a failure.
const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// A watch that cannot be resumed for so long is no witness any more.
const LOST_AFTER: Duration = Duration::from_mins(1);
/// Time over which the watches of a server that answers again are spread.
const BACK_SPREAD: Duration = Duration::from_secs(1);
/// A watch that ends sooner is not reopened at once.
const SESSION_MIN: Duration = Duration::from_secs(1);
/// Bytes of one watch event.
const LINE_BYTES_MAX: usize = 16 << 20;

/// A page with fewer bytes is followed by larger ones.
const PAGE_BYTES_SMALL: usize = 4 << 20;
/// Objects of the largest page asked for by ourselves.
const PAGE_OBJECTS_MAX: u32 = 5000;
/// Objects per page after an answer without pages was too large.
const PAGE_OBJECTS_SMALL: u32 = 50;

/// A source of numbers from 0 (included) to 1 (excluded), used to spread waits.
pub type Jitter = Arc<dyn Fn() -> f64 + Send + Sync>;

/// What to list and watch.
#[derive(Clone)]
pub(crate) struct Source {
    pub(crate) connection: Connection,
    /// Path of the collection.
    pub(crate) path: String,
    /// Further query, for example `labelSelector=…`, without a leading `&`.
    pub(crate) query: String,
    /// Objects per page.
    pub(crate) page_size: u32,
    /// Bounds concurrent lists of a cluster.
    pub(crate) lists: Arc<Semaphore>,
    /// Age after which a new round begins.
    pub(crate) resync: Option<Duration>,
    pub(crate) jitter: Jitter,
}

/// What a receiver thinks of a finished round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accepted,
    /// Too much is gone to be believed from one witness.
    Doubted,
}

/// Who saw the round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Witness {
    First,
    Second,
}

/// Receives what a source shows.
pub(crate) trait Sink: Send {
    /// A full list begins.
    fn begin(&mut self);
    /// An object of the list (`listed`) or a change. `raw` gives the object's text.
    ///
    /// One that cannot be read is one bad object, never the end of what is followed (INV-15).
    fn upsert<'a>(&mut self, head: &Head<'a>, raw: &'a [u8], form: Form, listed: bool);
    /// An object is gone.
    fn delete(&mut self, head: &Head<'_>, raw: &[u8]);
    /// Every object of the list was handed over.
    fn end(&mut self, resource_version: &str, witness: Witness) -> Verdict;
    /// Nothing can be known at the moment.
    fn lost(&mut self, error: &ApiError);
    /// The watch goes on where it stopped, or has advanced to this version.
    fn advanced(&mut self, resource_version: &str);
    /// Passes on what has gathered; called after each piece of input.
    fn flush(&mut self) -> impl Future<Output = ()> + Send;
}

/// What the text given to a receiver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A watch event around the object.
    Event,
    /// The object itself.
    Object,
}

impl Form {
    /// The object's own text.
    pub(crate) fn object(self, raw: &[u8]) -> Result<&[u8], ApiError> {
        match self {
            Self::Object => Ok(raw),
            Self::Event => {
                parse::event_object(raw).map_err(|error| ApiError::malformed("read a watch event", &error))
            }
        }
    }
}

/// State of one source between sessions.
struct Follower<'a, S> {
    source: &'a Source,
    sink: &'a mut S,
    /// Where to resume; `None` asks for a new round.
    resume: Option<String>,
    synced_at: Instant,
    heard_at: Instant,
    streaming: bool,
    doubted: bool,
    failures: u32,
    /// Looks while the server loads the objects.
    looks: u32,
}

/// Follows a source until cancelled.
pub(crate) async fn follow<S: Sink>(source: &Source, sink: &mut S, cancel: &CancellationToken) {
    let now = Instant::now();
    let mut follower = Follower {
        source,
        sink,
        resume: None,
        synced_at: now,
        heard_at: now,
        streaming: true,
        doubted: false,
        failures: 0,
        looks: 0,
    };
    // Cancel-safe: a cancelled follower is dropped as a whole.
    tokio::select! {
        biased;
        () = cancel.cancelled() => {}
        () = follower.run() => {}
    }
}

impl<S: Sink> Follower<'_, S> {
    async fn run(&mut self) {
        loop {
            if self.source.resync.is_some_and(|age| self.synced_at.elapsed() >= age) {
                self.resume = None;
            }
            let begun = Instant::now();
            let was_doubted = self.doubted;
            let result = self.session().await;
            self.sink.flush().await;
            match result {
                Ok(()) => {
                    (self.failures, self.looks) = (0, 0);
                    // The second look at a doubted list goes elsewhere: a stream comes from the server's cache, a page
                    // from its store. That needs no pause, which a new installation would feel.
                    let looks_elsewhere = self.streaming && self.doubted && !was_doubted;
                    if !looks_elsewhere && begun.elapsed() < SESSION_MIN {
                        tokio::time::sleep(self.spread(SESSION_MIN)).await;
                    }
                }
                Err(error) => {
                    self.failed(&error);
                    self.sink.flush().await;
                    if error.is_initializing() && self.looks < INITIALIZING_LOOKS {
                        self.looks += 1;
                        tokio::time::sleep(self.spread(INITIALIZING_WAIT)).await;
                        continue;
                    }
                    let wait = BACKOFF_FIRST.saturating_mul(1 << self.failures.min(8)).min(BACKOFF_MAX);
                    self.failures += 1;
                    // A gone version is repaired by listing, and waiting repairs nothing.
                    let wait = if error.is_gone() && self.failures == 1 { Duration::ZERO } else { wait };
                    tokio::time::sleep(self.spread(wait)).await;
                    // A server that answers nothing is asked by one, not by every watch.
                    if self.source.connection.unreachable().is_some() {
                        self.source.connection.reachable().await;
                        tokio::time::sleep(self.spread(BACK_SPREAD)).await;
                    }
                }
            }
        }
    }

    fn failed(&mut self, error: &ApiError) {
        debug!(path = self.source.path, %error, "watch failed");
        if error.is_gone() {
            self.resume = None;
            return;
        }
        let is_refused = error.code() != 0 && !error.is_transient();
        if matches!(error.code(), 400 | 422) {
            // The version may be what is refused; a new round tells.
            self.resume = None;
        }
        if self.resume.is_none() || is_refused || self.heard_at.elapsed() >= LOST_AFTER {
            self.sink.lost(error);
        }
    }

    fn spread(&self, wait: Duration) -> Duration {
        wait.mul_f64(0.5 + (self.source.jitter)().clamp(0.0, 1.0) / 2.0)
    }

    async fn session(&mut self) -> Result<(), ApiError> {
        match self.resume.clone() {
            Some(version) => self.watch(&version).await,
            None if self.doubted || !self.streaming => self.list().await,
            None => match self.stream().await {
                Err(error) if is_streaming_refused(&error) => {
                    debug!(path = self.source.path, %error, "no streaming list, reading pages");
                    self.streaming = false;
                    self.list().await
                }
                other => other,
            },
        }
    }

    /// A streaming list: initial objects, a bookmark that ends them, then the watch.
    async fn stream(&mut self) -> Result<(), ApiError> {
        let slot = self.list_turn().await?;
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        self.sink.begin();
        self.follow_stream(query, Some(slot)).await
    }

    async fn watch(&mut self, version: &str) -> Result<(), ApiError> {
        self.follow_stream(&format!("resourceVersion={}", crate::connection::encode(version)), None).await
    }

    async fn list_turn(&self) -> Result<tokio::sync::OwnedSemaphorePermit, ApiError> {
        Arc::clone(&self.source.lists).acquire_owned().await.map_err(|_closed| ApiError::Malformed {
            what: "wait for a list's turn",
            reason: "the index was stopped".to_owned(),
        })
    }

    async fn follow_stream(
        &mut self,
        query: &str,
        mut turn: Option<tokio::sync::OwnedSemaphorePermit>,
    ) -> Result<(), ApiError> {
        let slot = self
            .source
            .connection
            .stream_slot()
            .map_err(|error| ApiError::Unreachable { reason: error.to_string() })?;
        let spread = Duration::from_secs(WATCH_SECONDS / 2).mul_f64((self.source.jitter)().clamp(0.0, 1.0));
        let seconds = WATCH_SECONDS + spread.as_secs();
        let target = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&{query}{}",
            self.source.path,
            suffix(&self.source.query)
        );
        let call = Call::get("open a watch", target, OPEN_TIMEOUT);
        let mut body = self.source.connection.open_stream(&slot, &call).await?;
        if let (None, Some(version)) = (&turn, &self.resume) {
            self.sink.advanced(version);
        }
        let deadline = Instant::now() + Duration::from_secs(seconds) + WATCH_GRACE;
        let mut lines = Lines::default();
        loop {
            let is_initial = turn.is_some();
            let until = if is_initial { Instant::now() + INITIAL_SILENCE_MAX } else { deadline };
            // After a silence of the whole server nobody knows whether this connection still lives.
            let chunk = tokio::select! {
                biased;
                chunk = next_chunk(&mut body, until) => chunk?,
                reason = self.source.connection.lost() => return Err(ApiError::Unreachable { reason }),
            };
            let Some(chunk) = chunk else { break };
            let ended = self.lines(&mut lines, &chunk, is_initial)?;
            if ended == Ended::Doubted {
                return Ok(());
            }
            if ended == Ended::Accepted {
                turn = None;
            }
            self.heard_at = Instant::now();
            self.sink.flush().await;
        }
        if turn.is_some() {
            return Err(ApiError::Unreachable { reason: "the list ended early".to_owned() });
        }
        Ok(())
    }

    /// Takes the complete lines of a piece of input. At most one end of initial events is in a session.
    fn lines(&mut self, lines: &mut Lines, chunk: &Bytes, mut is_initial: bool) -> Result<Ended, ApiError> {
        let mut ended = Ended::Not;
        let mut rest = chunk.as_ref();
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (head, tail) = rest.split_at(at);
            rest = tail.get(1..).unwrap_or_default();
            let verdict = if lines.partial.is_empty() {
                self.line(head, is_initial)?
            } else {
                lines.partial.extend_from_slice(head);
                let line = lines.partial.split();
                self.line(&line, is_initial)?
            };
            match verdict {
                Ended::Not => {}
                Ended::Doubted => return Ok(Ended::Doubted),
                Ended::Accepted => {
                    is_initial = false;
                    ended = Ended::Accepted;
                }
            }
        }
        if lines.partial.len() + rest.len() > LINE_BYTES_MAX {
            return Err(ApiError::Malformed {
                what: "watch",
                reason: format!("an event of more than {LINE_BYTES_MAX} bytes"),
            });
        }
        lines.partial.extend_from_slice(rest);
        Ok(ended)
    }

    fn line(&mut self, line: &[u8], is_initial: bool) -> Result<Ended, ApiError> {
        if line.is_empty() {
            return Ok(Ended::Not);
        }
        let event: EventHead<'_> = serde_json::from_slice(line)
            .map_err(|error| ApiError::malformed("read a watch event", &error))?;
        let version = event.object.metadata.resource_version.as_str();
        match event.kind.as_str() {
            "ADDED" | "MODIFIED" => self.sink.upsert(&event.object, line, Form::Event, is_initial),
            "DELETED" => self.sink.delete(&event.object, line),
            "BOOKMARK" if is_initial && parse::is_initial_events_end(&event.object) => {
                let version = version.to_owned();
                return Ok(self.ended(&version, Witness::First));
            }
            "BOOKMARK" if is_initial => {}
            "BOOKMARK" => self.sink.advanced(version),
            "ERROR" => {
                let status = parse::event_object(line).unwrap_or_default();
                return Err(status_error(status));
            }
            other => {
                return Err(ApiError::Malformed { what: "watch", reason: format!("event type {other:?}") });
            }
        }
        if !is_initial && !version.is_empty() {
            self.resume = Some(version.to_owned());
        }
        Ok(Ended::Not)
    }

    fn ended(&mut self, version: &str, witness: Witness) -> Ended {
        match self.sink.end(version, witness) {
            Verdict::Accepted => {
                self.doubted = false;
                self.synced_at = Instant::now();
                self.heard_at = self.synced_at;
                self.failures = 0;
                self.resume = Some(version.to_owned());
                Ended::Accepted
            }
            Verdict::Doubted => {
                self.doubted = true;
                self.resume = None;
                Ended::Doubted
            }
        }
    }

    /// A paged list. The first page asks for the newest state, so it is a consistent read.
    async fn list(&mut self) -> Result<(), ApiError> {
        let _turn = self.list_turn().await?;
        let witness = if self.doubted { Witness::Second } else { Witness::First };
        self.sink.begin();
        let mut size = self.source.page_size;
        let mut token = String::new();
        loop {
            let mut target = format!("{}?limit={size}{}", self.source.path, suffix(&self.source.query));
            if !token.is_empty() {
                target.push_str("&continue=");
                target.push_str(&crate::connection::encode(&token));
            }
            let answer = match self.source.connection.call(&Call::get("list", target, PAGE_TIMEOUT)).await {
                // Five hundred objects can be half a gigabyte.
                Err(ApiError::TooLarge { .. }) if size != 1 => {
                    size = if size == 0 { PAGE_OBJECTS_SMALL } else { (size / 8).max(1) };
                    continue;
                }
                other => other?,
            };
            let page = self.page(&answer.bytes)?;
            self.sink.flush().await;
            token = page.continue_token.unwrap_or_default();
            if token.is_empty() {
                let version = page.resource_version.unwrap_or_default();
                if self.ended(&version, witness) == Ended::Doubted {
                    debug!(path = self.source.path, "most objects are gone, reading again");
                }
                self.sink.flush().await;
                return Ok(());
            }
            // Larger pages cost the server half of what small ones do.
            if answer.bytes.len() < PAGE_BYTES_SMALL {
                size = size.saturating_mul(4).min(PAGE_OBJECTS_MAX).max(size);
            }
        }
    }

    /// Hands the objects of one page over.
    fn page(&mut self, bytes: &[u8]) -> Result<PageMetadata, ApiError> {
        let page: Page<'_> =
            serde_json::from_slice(bytes).map_err(|error| ApiError::malformed("list", &error))?;
        for item in page.items {
            let raw = item.get().as_bytes();
            let head: Head<'_> = serde_json::from_slice(raw)
                .map_err(|error| ApiError::malformed("read a listed object", &error))?;
            self.sink.upsert(&head, raw, Form::Object, true);
        }
        Ok(page.metadata)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Not,
    Accepted,
    Doubted,
}

/// The beginning of a line whose end has not arrived.
#[derive(Default)]
struct Lines {
    partial: BytesMut,
}

fn suffix(query: &str) -> String {
    if query.is_empty() { String::new() } else { format!("&{query}") }
}

/// Servers and aggregated APIs that do not know streaming lists refuse the parameters, or never end the
/// initial events.
fn is_streaming_refused(error: &ApiError) -> bool {
    matches!(error.code(), 400 | 405 | 406 | 415 | 422)
        || matches!(error, ApiError::Timeout { what: "watch", .. })
}

async fn next_chunk(body: &mut Body, until: Instant) -> Result<Option<Bytes>, ApiError> {
    loop {
        let frame = tokio::time::timeout_at(until, body.frame())
            .await
            .map_err(|_elapsed| ApiError::Timeout { what: "watch", after: INITIAL_SILENCE_MAX })?;
        match frame {
            None => return Ok(None),
            Some(Err(error)) => return Err(ApiError::unreachable(&error)),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
