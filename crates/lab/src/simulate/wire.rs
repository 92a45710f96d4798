//! The way between a controller and the API server: everything that passes is observed, and some of it goes
//! wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tiphys_sim::{Fault, Sim};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::chance::Chance;
use super::faults::Faults;
use super::observer::{Call, Observer};
use super::watching;

pub(super) type Error = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = UnsyncBoxBody<Bytes, Error>;

/// Writes by which a stale read is late at most (F3).
const STALE_WRITES_MAX: u64 = 30;

/// Objects whose trees are kept.
const TREES_MAX: usize = 256;
/// Where the objects are that the tenant may change through the API server.
const CALLERS_OBJECTS: &str = "/namespaces/hostile/";

/// What all ways share; it outlives the controllers.
pub(super) struct Wires {
    pub(super) sim: Sim,
    pub(super) observer: Arc<Mutex<Observer>>,
    pub(super) state: Mutex<State>,
    /// Told when a controller has to die.
    pub(super) crash: Notify,
    pub(super) origin: Instant,
    pub(super) prints: bool,
    /// Objects as they were when they were read last, by their address: most are read again as they were.
    trees: Mutex<BTreeMap<String, (Bytes, Arc<Value>)>>,
}

pub(super) struct State {
    pub(super) faults: Faults,
    pub(super) chance: Chance,
    pub(super) requests: u64,
    /// The numbers of those that write.
    pub(super) writing: Vec<u64>,
    /// Whether nothing of this run was ever hidden or late: an event may be on its way for long.
    is_visible: bool,
    /// Names of objects that a caller of the API server asked to have changed.
    pub(super) touched: BTreeSet<String>,
    /// Objects that are being written.
    under_way: BTreeSet<String>,
    /// Hash of everything that was asked, with its time.
    trace: std::hash::DefaultHasher,
}

impl Wires {
    pub(super) fn new(
        sim: Sim,
        observer: Arc<Mutex<Observer>>,
        faults: Faults,
        chance: Chance,
        prints: bool,
    ) -> Self {
        // The keys of this hasher are fixed.
        let trace = std::hash::DefaultHasher::new();
        let state = State {
            is_visible: faults.are_visible(),
            touched: BTreeSet::new(),
            faults,
            chance,
            requests: 0,
            writing: Vec::new(),
            under_way: BTreeSet::new(),
            trace,
        };
        let (crash, origin) = (Notify::new(), Instant::now());
        Self { sim, observer, state: Mutex::new(state), crash, origin, prints, trees: Mutex::default() }
    }

    /// From now on everything works.
    pub(super) fn calm(&self) {
        let mut state = self.state.lock();
        state.faults = state.faults.only(state.faults.death);
    }

    /// From now on everything works, but for lists of one kind.
    pub(super) fn blind(&self, refused: (String, u16)) {
        let mut state = self.state.lock();
        state.is_visible = false;
        state.faults = Faults { refused: Some(refused), ..state.faults.only(state.faults.death) };
    }

    /// Whether a controller knows at once what the server knows: then an order that is broken is its own doing.
    pub(super) fn sees_at_once(&self) -> bool {
        self.state.lock().is_visible
    }

    /// Whether everything can be listed now.
    pub(super) fn is_visible(&self) -> bool {
        self.state.lock().faults.refused.is_none()
    }

    /// A number that is equal for equal histories.
    pub(super) fn trace(&self) -> u64 {
        self.state.lock().trace.finish()
    }

    pub(super) fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A request that meets no fault and is not the controller's.
    pub(super) fn direct(&self, method: Method, target: &str, kind: &str, body: &Value) -> (u16, Value) {
        let (status, bytes) = self.asked(method, target, kind, body);
        (status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    fn asked(&self, method: Method, target: &str, kind: &str, body: &Value) -> (u16, Bytes) {
        let bytes = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        let request = Request::builder()
            .method(method)
            .uri(target)
            .header(http::header::CONTENT_TYPE, kind)
            .header(http::header::ACCEPT, "application/json")
            .body(bytes)
            .unwrap_or_default();
        let (status, bytes) = whole(self.sim.handle(request));
        (status.as_u16(), bytes)
    }

    /// An object as it is now.
    pub(super) fn get(&self, target: &str) -> Option<Value> {
        let (status, object) = self.direct(Method::GET, target, "application/json", &Value::Null);
        (status == 200).then_some(object)
    }

    /// The same, shared with whoever read it before.
    pub(super) fn tree(&self, target: &str) -> Option<Arc<Value>> {
        let (status, bytes) = self.asked(Method::GET, target, "application/json", &Value::Null);
        (status == 200).then(|| self.kept(target, bytes))
    }

    /// The tree of an object that was just read or written.
    fn kept(&self, target: &str, bytes: Bytes) -> Arc<Value> {
        let mut trees = self.trees.lock();
        if let Some((known, tree)) = trees.get(target)
            && *known == bytes
        {
            return Arc::clone(tree);
        }
        let tree: Arc<Value> = Arc::new(serde_json::from_slice(&bytes).unwrap_or(Value::Null));
        if trees.len() >= TREES_MAX {
            trees.clear();
        }
        trees.insert(target.to_owned(), (bytes, Arc::clone(&tree)));
        tree
    }

    /// Notes a request; its number.
    pub(super) fn note(&self, request: &Request<Bytes>) -> u64 {
        let mut state = self.state.lock();
        state.requests += 1;
        let number = state.requests;
        if request.method() != Method::GET {
            state.writing.push(number);
        }
        let now = self.now();
        state.trace.write_u128(now.as_nanos());
        state.trace.write(request.method().as_str().as_bytes());
        state.trace.write(request.uri().to_string().as_bytes());
        state.trace.write(request.body());
        if self.prints {
            print(now, request);
        }
        number
    }
}

#[expect(clippy::print_stderr, reason = "--verbose shows what is asked")]
fn print(now: Duration, request: &Request<Bytes>) {
    let body = String::from_utf8_lossy(request.body());
    eprintln!("{:10.3} asks   {} {} {body}", now.as_secs_f64(), request.method(), request.uri());
}

/// A whole answer that is there already.
pub(super) fn whole<B>(response: Response<B>) -> (StatusCode, Bytes)
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
{
    use futures::FutureExt as _;
    let (parts, body) = response.into_parts();
    let collected = body.collect().now_or_never().and_then(Result::ok);
    (parts.status, collected.map(http_body_util::Collected::to_bytes).unwrap_or_default())
}

/// One controller's way.
#[derive(Clone)]
pub(super) struct Wire {
    pub(super) wires: Arc<Wires>,
    /// Whether the controller at the end of it is dead.
    pub(super) is_cut: Arc<AtomicBool>,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Answered,
    Crash,
    CrashAfter,
    Lost,
    AnswerLost,
    Refused(u16),
    Stale,
}

impl Wire {
    pub(super) async fn handle(self, request: Request<Bytes>) -> Result<Response<Body>, Error> {
        if self.is_cut.load(Ordering::Relaxed) {
            return std::future::pending().await;
        }
        let number = self.wires.note(&request);
        let request = self.paged(request);
        if self.refuses_streams(&request) {
            return Ok(refusal(400));
        }
        let body = (request.method() != Method::GET)
            .then(|| serde_json::from_slice(request.body()).unwrap_or(Value::Null));
        let _turn = body.as_ref().map(|body| Turn::take(&self.wires, &request, body));
        self.travel().await;
        let fate = self.fate(&request, number);
        match fate {
            Fate::Crash => return self.die().await,
            Fate::Lost => return Err("connection reset".into()),
            Fate::Refused(code) => return Ok(refusal(code)),
            Fate::Answered | Fate::CrashAfter | Fate::AnswerLost | Fate::Stale => {}
        }
        let response = self.answer(request, body, fate == Fate::Stale);
        match fate {
            Fate::CrashAfter => return self.die().await,
            Fate::AnswerLost => return Err("connection reset".into()),
            _ => {}
        }
        self.travel().await;
        Ok(response)
    }

    /// The same request for smaller pages (F5).
    fn paged(&self, mut request: Request<Bytes>) -> Request<Bytes> {
        let Some(page) = self.wires.state.lock().faults.page else { return request };
        let target = request.uri().to_string();
        let Some((head, tail)) = target.split_once("limit=") else { return request };
        let rest = tail.trim_start_matches(|letter: char| letter.is_ascii_digit());
        if let Ok(uri) = format!("{head}limit={page}{rest}").parse() {
            *request.uri_mut() = uri;
        }
        request
    }

    fn refuses_streams(&self, request: &Request<Bytes>) -> bool {
        let is_stream = request.uri().query().is_some_and(|query| query.contains("sendInitialEvents"));
        is_stream && self.wires.state.lock().faults.page.is_some()
    }

    async fn travel(&self) {
        let wait = {
            let mut state = self.wires.state.lock();
            let micros = u64::try_from(state.faults.latency.as_micros()).unwrap_or(0);
            Duration::from_micros(state.chance.below(micros))
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Ends the controller here.
    async fn die(&self) -> Result<Response<Body>, Error> {
        self.is_cut.store(true, Ordering::Relaxed);
        self.wires.crash.notify_one();
        std::future::pending().await
    }

    fn fate(&self, request: &Request<Bytes>, number: u64) -> Fate {
        let is_read = request.method() == Method::GET;
        let is_watch = is_watch(request);
        let mut state = self.wires.state.lock();
        let State { faults, chance, .. } = &mut *state;
        if let Some(death) = faults.death.filter(|death| death.request == number) {
            if death.is_after { Fate::CrashAfter } else { Fate::Crash }
        } else if chance.permille(faults.crash) {
            Fate::Crash
        } else if !is_read && chance.permille(faults.crash_after_write) {
            Fate::CrashAfter
        } else if chance.permille(faults.lost_answer) {
            if chance.permille(500) { Fate::Lost } else { Fate::AnswerLost }
        } else if chance.permille(faults.refused_call) {
            Fate::Refused(if chance.permille(500) { 500 } else { 429 })
        } else if let Some((kind, code)) = &faults.refused
            && is_read
            && is_collection_of(request, kind)
        {
            Fate::Refused(*code)
        } else if is_read && !is_watch && chance.permille(faults.stale_read) {
            Fate::Stale
        } else {
            Fate::Answered
        }
    }

    fn answer(&self, request: Request<Bytes>, body: Option<Value>, stale: bool) -> Response<Body> {
        let wires = &self.wires;
        if wires.state.lock().chance_of_compaction() {
            wires.sim.compact();
        }
        if is_watch(&request) {
            let path = request.uri().path().to_owned();
            let is_initial = request.uri().query().is_some_and(|query| query.contains("sendInitialEvents"));
            let response = wires.sim.handle(request);
            let (parts, body) = response.into_parts();
            let body = watching::body(Arc::clone(wires), body, &path, is_initial);
            return Response::from_parts(parts, body);
        }
        match body {
            None => self.read(request, stale),
            Some(body) => self.write(request, body),
        }
    }

    fn read(&self, request: Request<Bytes>, stale: bool) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let (fault, missing) = {
            let mut state = self.wires.state.lock();
            let State { faults, chance, .. } = &mut *state;
            let fault = Fault {
                writes_behind: if stale { chance.within(1, STALE_WRITES_MAX) } else { 0 },
                is_empty: faults.emptied.take_if(|kind| path.ends_with(&format!("/{kind}"))).is_some(),
                ..Fault::default()
            };
            (fault, faults.missing_group.clone())
        };
        if missing.as_ref().is_some_and(|group| path == format!("/apis/{group}/v1")) {
            return refusal(503);
        }
        let (mut parts, body) = self.wires.sim.handle_with(request, fault).into_parts();
        let (_, mut bytes) = whole(Response::new(body));
        if let Some(group) = missing.filter(|_| path == "/apis") {
            bytes = without_group(&bytes, &group);
        }
        parts.headers.remove(http::header::CONTENT_LENGTH);
        Response::from_parts(parts, full(bytes))
    }

    fn write(&self, request: Request<Bytes>, body: Value) -> Response<Body> {
        let wires = &self.wires;
        let mut call = Call {
            at: wires.now(),
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
            is_dry_run: request.uri().query().is_some_and(|query| query.contains("dryRun=All")),
            body,
            raw: request.body().clone(),
            live: None,
            status: 0,
            stored: Arc::default(),
        };
        let address = call.path.strip_suffix("/status").unwrap_or(&call.path).to_owned();
        if call.method != Method::POST {
            call.live = wires.tree(&address);
        }
        let mut observer = wires.observer.lock();
        observer.before(wires, &call);
        let (parts, body) = wires.sim.handle(request).into_parts();
        let (_, bytes) = whole(Response::new(body));
        call.status = parts.status.as_u16();
        call.stored = wires.kept(&address, bytes.clone());
        observer.after(wires, call);
        drop(observer);
        Response::from_parts(parts, full(bytes))
    }
}

impl State {
    fn chance_of_compaction(&mut self) -> bool {
        self.chance.permille(self.faults.compact)
    }
}

pub(super) fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

/// A write that is under way: nobody else of ours may write the same object meanwhile (INV-4).
struct Turn {
    wires: Arc<Wires>,
    object: String,
}

impl Turn {
    fn take(wires: &Arc<Wires>, request: &Request<Bytes>, body: &Value) -> Self {
        let mut object = request.uri().path().to_owned();
        if request.method() == Method::POST {
            object.push('/');
            object.push_str(body.pointer("/metadata/name").and_then(Value::as_str).unwrap_or("?"));
        }
        // Applications of a set have two controllers, and each says which version it saw.
        let mut is_shared = object.contains("/events/") || object.contains("/applications/set-");
        let is_first = {
            let mut state = wires.state.lock();
            // What a caller patches or deletes, its Application may heal or prune at the same time, as with kubectl.
            is_shared |= object
                .rsplit_once('/')
                .is_some_and(|(path, name)| path.contains(CALLERS_OBJECTS) && state.touched.contains(name));
            state.under_way.insert(object.clone())
        };
        // What is hydrated has a second writer, of `status.sourceHydrator`; what that writes besides names a version.
        // Both are refused when it is gone.
        let is_hydrated =
            || wires.get(&object).is_none_or(|app| app.pointer("/spec/sourceHydrator").is_some());
        if !is_first && !is_shared && !is_hydrated() {
            let text = format!("two writes of {object} at the same time");
            wires.observer.lock().broken(wires.now(), "INV-4", text);
        }
        Self { wires: Arc::clone(wires), object }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.wires.state.lock().under_way.remove(&self.object);
    }
}

fn is_watch(request: &Request<Bytes>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

fn is_collection_of(request: &Request<Bytes>, plural: &str) -> bool {
    // The control plane's own settings stay readable: without them no controller starts.
    let path = request.uri().path();
    path.ends_with(&format!("/{plural}")) && !path.contains("/namespaces/argocd/")
}

pub(super) fn refusal(code: u16) -> Response<Body> {
    let reason = match code {
        403 => "Forbidden",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the simulation refuses", "reason": reason, "code": code});
    let mut response = Response::new(full(Bytes::from(status.to_string())));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

/// Discovery as it is when a group's server does not answer.
fn without_group(bytes: &Bytes, group: &str) -> Bytes {
    let Ok(mut root) = serde_json::from_slice::<Value>(bytes) else { return bytes.clone() };
    let items = root.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten();
    for item in items.filter(|item| item.pointer("/metadata/name").is_some_and(|name| name == group)) {
        for version in item.get_mut("versions").and_then(Value::as_array_mut).into_iter().flatten() {
            version["freshness"] = json!("Stale");
            version["resources"] = json!([]);
        }
    }
    Bytes::from(root.to_string())
}
