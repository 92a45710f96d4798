//! JSON Lines in, JSON Lines out, in order, with a bounded number of requests in flight (EVAL-1..4).
//!
//! One thread reads lines, `jobs` workers answer them, and the calling thread puts answers back in order, watches the
//! clock and writes. A gate keeps at most `2 · jobs` requests between reader and writer, so memory does not depend on
//! the length of the input. A worker whose request runs too long is abandoned: its line is answered with `Timeout`, a
//! new worker takes its place, and its late answer is dropped.

use super::fault::{Code, Fault};
use super::operation::{Strictness, evaluate};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::num::NonZeroUsize;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TryRecvError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stack of a worker. Nesting limits of the languages are far below what fits here.
const WORKER_STACK_BYTES: usize = 64 << 20;
/// How long answers may wait in the output buffer while others are being computed.
const FLUSH_AFTER: Duration = Duration::from_millis(1);

/// How a stream of requests is answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct StreamOptions {
    /// Requests evaluated at once.
    pub(super) jobs: NonZeroUsize,
    /// Whether unknown members are refused.
    pub(super) strictness: Strictness,
    /// Longest run of one operation.
    pub(super) timeout: Duration,
    /// Longest line, newline excluded.
    pub(super) line_bytes_max: usize,
}

/// What became of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StreamOutcome {
    /// Whether at least one answer was an error.
    pub(super) any_error: bool,
}

/// Why a stream ended before its input did.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    /// The input broke off.
    #[error("cannot read the input")]
    Read(#[source] io::Error),
    /// The output broke off.
    #[error("cannot write the answers")]
    Write(#[source] io::Error),
    /// A thread could not be started.
    #[error("cannot start a worker")]
    Worker(#[source] io::Error),
}

/// A request as it came in.
#[derive(Debug)]
pub(super) enum Request {
    /// A line of text, not yet looked at, and its number from 1.
    Line(Vec<u8>, u64),
    /// A line above the limit, and its number.
    TooLong(u64),
    /// A request out of a YAML file.
    Parsed(Value),
    /// A request of a YAML file that could not be completed.
    Broken(Value, Fault),
}

/// An answer and whether it is an error.
#[derive(Debug)]
struct Answer {
    line: String,
    is_error: bool,
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(default)]
    op: Value,
    #[serde(default)]
    input: Value,
}

/// A request that was read: its id as JSON text, and what it asks for.
struct Prepared {
    id: String,
    call: Result<(String, Value), Fault>,
}

/// Answers one line of JSON, as `tiphys eval` would on line 1 of its input, without the newline.
pub fn answer_line(line: &str, strictness: Strictness) -> String {
    let mut text = prepare(Request::Line(line.as_bytes().to_vec(), 1)).answer(strictness).line;
    text.pop();
    text
}

impl Prepared {
    fn refused(id: impl Into<String>, fault: Fault) -> Self {
        Self { id: id.into(), call: Err(fault) }
    }

    fn answer(self, strictness: Strictness) -> Answer {
        let outcome = self.call.and_then(|(operation, input)| evaluate(&operation, input, strictness));
        write_answer(&self.id, &outcome)
    }
}

fn prepare(request: Request) -> Prepared {
    match request {
        Request::TooLong(line) => {
            let fault = Fault::new(Code::TooLarge, "the line is longer than --max-line-bytes").at_line(line);
            Prepared::refused("null", fault)
        }
        Request::Broken(id, fault) => Prepared::refused(id.to_string(), fault),
        Request::Parsed(mut request) => {
            let id = request.get("id").map_or_else(|| "null".to_owned(), Value::to_string);
            let operation = request.get_mut("op").map(Value::take).unwrap_or_default();
            let input = request.get_mut("input").map(Value::take).unwrap_or_default();
            Prepared { id, call: call_of(operation, input) }
        }
        Request::Line(bytes, line) => {
            let mut prepared = prepare_line(&bytes);
            if let Err(fault) = &mut prepared.call {
                fault.line = Some(line);
            }
            prepared
        }
    }
}

fn prepare_line(bytes: &[u8]) -> Prepared {
    let refused = |id: String, why: String| Prepared::refused(id, Fault::new(Code::BadRequest, why));
    let null = || "null".to_owned();
    let Ok(text) = std::str::from_utf8(bytes) else {
        return refused(null(), "the line is not UTF-8".to_owned());
    };
    match serde_json::from_str::<Envelope<'_>>(text) {
        Ok(envelope) => Prepared {
            id: envelope.id.map_or("null", RawValue::get).to_owned(),
            call: call_of(envelope.op, envelope.input),
        },
        // The envelope may fail although the line is JSON, for example on a list or a repeated member.
        Err(problem) => match serde_json::from_str::<Value>(text) {
            Ok(Value::Object(members)) => {
                let id = members.get("id").map_or_else(null, Value::to_string);
                refused(id, format!("the line is not a request: {problem}"))
            }
            Ok(_) => refused(null(), "the line is not a JSON object".to_owned()),
            Err(problem) => refused(null(), format!("the line is not JSON: {problem}")),
        },
    }
}

fn call_of(operation: Value, input: Value) -> Result<(String, Value), Fault> {
    match operation {
        Value::String(name) => Ok((name, input)),
        Value::Null => Err(Fault::new(Code::BadRequest, "op: required member is missing")),
        _ => Err(Fault::new(Code::BadRequest, "op: expected text")),
    }
}

fn write_answer(id: &str, outcome: &Result<Value, Fault>) -> Answer {
    let (member, value) = match outcome {
        Ok(result) => ("result", result.to_string()),
        Err(fault) => ("error", fault.to_value().to_string()),
    };
    Answer { line: format!("{{\"id\":{id},\"{member}\":{value}}}\n"), is_error: outcome.is_err() }
}

/// Answers every request of `requests` on `output`, in order. A closed output ends quietly.
pub(super) fn answer_all<R>(
    requests: R,
    output: &mut dyn Write,
    options: StreamOptions,
) -> Result<StreamOutcome, StreamError>
where
    R: Iterator<Item = io::Result<Request>> + Send + 'static,
{
    let window = options.jobs.get().saturating_mul(2);
    let gate = Arc::new(Gate::new(window));
    let (to_workers, work) = mpsc::sync_channel(window);
    let (to_writer, events) = mpsc::sync_channel(window.saturating_mul(4));
    let pool =
        Pool { work: Arc::new(Mutex::new(work)), events: to_writer.clone(), strictness: options.strictness };
    for _ in 0..options.jobs.get() {
        pool.start_worker().map_err(StreamError::Worker)?;
    }
    let reader_gate = Arc::clone(&gate);
    std::thread::Builder::new()
        .name("eval-reader".into())
        .spawn(move || read_requests(requests, &reader_gate, &to_workers, &to_writer))
        .map_err(StreamError::Worker)?;
    Writer { pool, gate, timeout: options.timeout, pending: BTreeMap::new(), next: 0, end: None }
        .run(&events, output)
}

/// What the writer hears from the other threads.
enum Event {
    /// A worker took up this request, which has this id.
    Started(u64, String),
    Finished(u64, Answer),
    /// The input ended after so many requests, or broke off there.
    End(u64, Option<io::Error>),
}

fn read_requests(
    requests: impl Iterator<Item = io::Result<Request>>,
    gate: &Gate,
    work: &SyncSender<(u64, Request)>,
    events: &SyncSender<Event>,
) {
    let mut count = 0;
    let mut broken = None;
    for request in requests {
        match request {
            Ok(request) => {
                gate.enter();
                if work.send((count, request)).is_err() {
                    return;
                }
                count += 1;
            }
            Err(problem) => {
                broken = Some(problem);
                break;
            }
        }
    }
    // The writer is gone only when the output is closed; then nobody waits for the end.
    events.send(Event::End(count, broken)).ok();
}

/// Counts the requests between reader and writer.
struct Gate {
    free: Mutex<usize>,
    changed: Condvar,
}

impl Gate {
    fn new(free: usize) -> Self {
        Self { free: Mutex::new(free), changed: Condvar::new() }
    }

    fn enter(&self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.changed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
    }

    fn leave(&self) {
        *self.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_one();
    }
}

/// Starts workers, also in place of abandoned ones.
struct Pool {
    work: Arc<Mutex<Receiver<(u64, Request)>>>,
    events: SyncSender<Event>,
    strictness: Strictness,
}

impl Pool {
    fn start_worker(&self) -> io::Result<()> {
        let (work, events, strictness) = (Arc::clone(&self.work), self.events.clone(), self.strictness);
        let body = move || {
            loop {
                let taken = work.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok((number, request)) = taken else { return };
                let prepared = prepare(request);
                if events.send(Event::Started(number, prepared.id.clone())).is_err() {
                    return;
                }
                if events.send(Event::Finished(number, prepared.answer(strictness))).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("eval-worker".into()).stack_size(WORKER_STACK_BYTES).spawn(body)?;
        Ok(())
    }
}

/// A request between reader and writer.
enum Pending {
    Running(Instant, String),
    Answered(Answer),
}

struct Writer {
    pool: Pool,
    gate: Arc<Gate>,
    timeout: Duration,
    pending: BTreeMap<u64, Pending>,
    next: u64,
    end: Option<u64>,
}

impl Writer {
    fn run(mut self, events: &Receiver<Event>, output: &mut dyn Write) -> Result<StreamOutcome, StreamError> {
        let mut outcome = StreamOutcome::default();
        let mut output = io::BufWriter::with_capacity(1 << 16, output);
        let mut unflushed = false;
        let mut broken = None;
        while self.end != Some(self.next) {
            match self.receive(events, unflushed) {
                Wake::Event(Event::Started(number, id)) => {
                    self.pending.insert(number, Pending::Running(now(), id));
                }
                Wake::Event(Event::Finished(number, answer)) => self.finish(number, answer),
                Wake::Event(Event::End(count, problem)) => {
                    self.end = Some(count);
                    broken = problem;
                }
                Wake::Idle => {
                    self.abandon_overdue().map_err(StreamError::Worker)?;
                    if let Err(problem) = output.flush() {
                        return closed(problem, outcome);
                    }
                    unflushed = false;
                }
                Wake::Gone => break,
            }
            while let Some(Pending::Answered(_)) = self.pending.get(&self.next) {
                let Some(Pending::Answered(answer)) = self.pending.remove(&self.next) else { break };
                self.next += 1;
                self.gate.leave();
                outcome.any_error |= answer.is_error;
                unflushed = true;
                if let Err(problem) = output.write_all(answer.line.as_bytes()) {
                    return closed(problem, outcome);
                }
            }
        }
        if let Err(problem) = output.flush() {
            return closed(problem, outcome);
        }
        broken.map_or(Ok(outcome), |problem| Err(StreamError::Read(problem)))
    }

    /// Waits for the next event, but not past the moment when something is due without one.
    fn receive(&self, events: &Receiver<Event>, unflushed: bool) -> Wake {
        match events.try_recv() {
            Ok(event) => return Wake::Event(event),
            Err(TryRecvError::Disconnected) => return Wake::Gone,
            Err(TryRecvError::Empty) => {}
        }
        let oldest = self.pending.values().filter_map(|one| match one {
            Pending::Running(since, _) => Some(*since),
            Pending::Answered(_) => None,
        });
        let due = oldest.min().map(|since| (since + self.timeout).saturating_duration_since(now()));
        if unflushed && self.pending.is_empty() {
            return Wake::Idle;
        }
        let wait = match (unflushed, due) {
            (true, due) => Some(due.map_or(FLUSH_AFTER, |due| due.min(FLUSH_AFTER))),
            (false, due) => due,
        };
        let received = match wait {
            Some(wait) => events.recv_timeout(wait),
            None => events.recv().map_err(|_gone| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(event) => Wake::Event(event),
            Err(RecvTimeoutError::Timeout) => Wake::Idle,
            Err(RecvTimeoutError::Disconnected) => Wake::Gone,
        }
    }

    /// Keeps an answer, unless its request was given up meanwhile.
    fn finish(&mut self, number: u64, answer: Answer) {
        if number >= self.next
            && let Some(slot @ Pending::Running(..)) = self.pending.get_mut(&number)
        {
            *slot = Pending::Answered(answer);
        }
    }

    fn abandon_overdue(&mut self) -> io::Result<()> {
        let at = now();
        let timeout = self.timeout;
        for slot in self.pending.values_mut() {
            if let Pending::Running(since, id) = slot
                && at.duration_since(*since) >= timeout
            {
                *slot = Pending::Answered(write_answer(id, &Err(timed_out(timeout))));
                self.pool.start_worker()?;
            }
        }
        Ok(())
    }
}

enum Wake {
    Event(Event),
    Idle,
    Gone,
}

/// The error of an operation that ran too long.
pub(super) fn timed_out(timeout: Duration) -> Fault {
    Fault::new(Code::Timeout, format!("the operation ran longer than {} s", timeout.as_secs_f64()))
}

/// A reader that went away is no error: its user has seen enough (EVAL-8).
fn closed(problem: io::Error, outcome: StreamOutcome) -> Result<StreamOutcome, StreamError> {
    if problem.kind() == io::ErrorKind::BrokenPipe { Ok(outcome) } else { Err(StreamError::Write(problem)) }
}

#[expect(clippy::disallowed_methods, reason = "the watchdog of the shell; no decision sees this clock")]
fn now() -> Instant {
    Instant::now()
}

/// The lines of `input` as requests. Blank lines are left out but counted.
pub(super) fn lines(
    mut input: impl BufRead + Send + 'static,
    bytes_max: usize,
) -> impl Iterator<Item = io::Result<Request>> + Send + 'static {
    let mut number = 0;
    std::iter::from_fn(move || {
        loop {
            let mut line = Vec::new();
            match read_line(&mut input, &mut line, bytes_max) {
                Err(problem) => return Some(Err(problem)),
                Ok(Read::Nothing) => return None,
                Ok(Read::TooLong) => {
                    number += 1;
                    return Some(Ok(Request::TooLong(number)));
                }
                Ok(Read::Line) => {
                    number += 1;
                    if !line.trim_ascii().is_empty() {
                        return Some(Ok(Request::Line(line, number)));
                    }
                }
            }
        }
    })
}

enum Read {
    Nothing,
    Line,
    TooLong,
}

/// Reads up to the next newline, which is not kept. Of a line above the limit nothing is kept.
fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>, bytes_max: usize) -> io::Result<Read> {
    let mut seen = false;
    let mut too_long = false;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(problem) if problem.kind() == io::ErrorKind::Interrupted => continue,
            Err(problem) => return Err(problem),
        };
        if available.is_empty() {
            break;
        }
        seen = true;
        let newline = available.iter().position(|byte| *byte == b'\n');
        let part = available.get(..newline.unwrap_or(available.len())).unwrap_or_default();
        too_long |= line.len() + part.len() > bytes_max;
        if too_long {
            line.clear();
        } else {
            line.extend_from_slice(part);
        }
        let consumed = part.len() + usize::from(newline.is_some());
        input.consume(consumed);
        if newline.is_some() {
            break;
        }
    }
    Ok(match (seen, too_long) {
        (false, _) => Read::Nothing,
        (true, true) => Read::TooLong,
        (true, false) => Read::Line,
    })
}

#[cfg(test)]
mod tests;
