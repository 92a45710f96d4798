//! The HTTP endpoints of the controller: health tied to progress, metrics, and the webhook receiver.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use parking_lot::Mutex;
use tiphys_api::printable;
use tiphys_lifecycle::webhook::{self, Delivery, SetDelivery, SetEvent};
use tokio::time::Instant;

use crate::Controller;
use crate::intake::{Intake, NoBody, Received};
use crate::metrics::{Group, only};

/// Time without progress, while something waits, after which the process is unhealthy (INV-14).
const STUCK_AFTER: Duration = Duration::from_secs(55);

/// Writes families of metrics in the text of a scrape, without its end.
pub type Families = Box<dyn Fn() -> String + Send + Sync>;

/// The state behind the endpoints. Cloning is cheap; the controller is added when it has started.
#[derive(Clone)]
pub struct Endpoints {
    shared: Arc<Shared>,
}

struct Shared {
    controller: OnceLock<Controller>,
    seen: Mutex<Seen>,
    intake: Intake,
    /// Deliveries that are read at the same time, as the settings said when the first one came (API-199).
    readings: OnceLock<tokio::sync::Semaphore>,
    /// What others of the process add to the metrics.
    others: OnceLock<Families>,
    /// Scrapes that are written at the same time.
    scrapes: tokio::sync::Semaphore,
    /// Questions to the API server for `/healthz` at the same time.
    probes: tokio::sync::Semaphore,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self::new()
    }
}

impl Endpoints {
    /// Endpoints of a process that starts.
    pub fn new() -> Self {
        let seen = Mutex::new(Seen { count: 0, since: Instant::now() });
        let intake = Intake::default();
        let (scrapes, probes) = (tokio::sync::Semaphore::new(1), tokio::sync::Semaphore::new(1));
        let (controller, others) = (OnceLock::new(), OnceLock::new());
        let readings = OnceLock::new();
        Self { shared: Arc::new(Shared { controller, seen, intake, readings, others, scrapes, probes }) }
    }

    /// Metrics have families of somebody else, too. There is one such somebody in a process.
    pub fn with_metrics(&self, families: impl Fn() -> String + Send + Sync + 'static) {
        drop(self.shared.others.set(Box::new(families)));
    }

    /// The controller works from now on.
    pub fn ready(&self, controller: Controller) {
        // There is one controller in a process; a second call changes nothing.
        drop(self.shared.controller.set(controller));
    }
}

struct Seen {
    count: u64,
    since: Instant,
}

/// Serves `/healthz`, `/readyz`, `/metrics` and `/api/webhook`.
///
/// While the controller starts, `/healthz` answers and the others say 503.
pub fn router(endpoints: Endpoints) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/api/webhook", any(receive))
        .with_state(endpoints.shared)
}

/// Alive while work is done or there is none: a queue that waits without any progress is a stuck loop. With `full=true`
/// the API server that holds the installation has to answer, too (API-8).
async fn healthz(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    let Some(controller) = shared.controller.get() else { return "ok\n".into_response() };
    if let Some(text) = stuck(&shared, controller) {
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    }
    let is_full = query.is_some_and(|query| query.split('&').any(|pair| pair == "full=true"));
    if is_full {
        // Anybody may ask: one after another, so that nobody makes us flood the API server.
        let Ok(_turn) = shared.probes.acquire().await else {
            return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
        };
        if let Err(error) = controller.reads_settings().await {
            tracing::warn!(%error, "the settings could not be read for /healthz");
            return (StatusCode::SERVICE_UNAVAILABLE, "the settings cannot be read\n").into_response();
        }
    }
    "ok\n".into_response()
}

/// Why the process counts as stuck.
fn stuck(shared: &Shared, controller: &Controller) -> Option<String> {
    let (count, waiting) = controller.progress();
    let mut seen = shared.seen.lock();
    if count != seen.count || waiting == 0 {
        *seen = Seen { count, since: Instant::now() };
    }
    let seconds = seen.since.elapsed().as_secs();
    (seen.since.elapsed() > STUCK_AFTER)
        .then(|| format!("no progress for {seconds} s while {waiting} applications wait\n"))
}

async fn readyz(State(shared): State<Arc<Shared>>) -> Response {
    match shared.controller.get() {
        Some(_) => "ok".into_response(),
        None => (StatusCode::SERVICE_UNAVAILABLE, "starting").into_response(),
    }
}

/// Serves what a port of metrics has: `/metrics` with the families of some groups, `/metrics/all` with all, `/healthz` and
/// `/readyz` (API-1, CTL-127).
pub fn metrics_router(endpoints: Endpoints, groups: Vec<Group>) -> Router {
    let groups: Arc<[Group]> = groups.into();
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(move |State(shared): State<Arc<Shared>>| scraped(shared, Some(groups))))
        .route("/metrics/all", get(metrics))
        .with_state(endpoints.shared)
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    scraped(shared, None).await
}

async fn scraped(shared: Arc<Shared>, groups: Option<Arc<[Group]>>) -> Response {
    let Some(controller) = shared.controller.get().cloned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "starting").into_response();
    };
    // Ten thousand lines take a while to write: on a thread of its own, and one scrape at a time.
    let Ok(_turn) = shared.scrapes.acquire().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping").into_response();
    };
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    let others = Arc::clone(&shared);
    let writing = move || {
        let text = controller.metrics_beside(&others.others.get().map(|write| write()).unwrap_or_default());
        groups.map(|groups| only(&text, &groups)).unwrap_or(text)
    };
    match tokio::task::spawn_blocking(writing).await {
        Ok(text) => ([(header::CONTENT_TYPE, kind)], text).into_response(),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be written").into_response(),
    }
}

/// The listener of its own that webhooks of sets may have: `POST /api/webhook` (ASET-185).
pub fn set_router(endpoints: Endpoints) -> Router {
    Router::new().route("/api/webhook", any(receive_for_sets)).with_state(endpoints.shared)
}

/// A delivery as it came in.
struct Arrived {
    method: Method,
    headers: HeaderMap,
    body: Vec<u8>,
    megabytes_max: Option<String>,
}

/// Answers one delivery (API-197, ASET-185); what it causes happens later. Sets listen here too, so that one address is
/// enough.
#[expect(clippy::redundant_closure, reason = "a function of one lifetime is not one for all")]
async fn receive(state: State<Arc<Shared>>, method: Method, headers: HeaderMap, body: Body) -> Response {
    let Some(controller) = state.0.controller.get().cloned() else { return starting() };
    let read = |controller: Controller, arrived: Arrived| {
        let of_applications = arrived.with_request(&controller, |request| webhook::receive(request));
        (of_applications, arrived.with_request(&controller, |request| webhook::receive_for_sets(request)))
    };
    let ((provider, delivery), of_sets) =
        match arrive(&state.0, controller.clone(), (method, headers, body), read).await {
            Ok(read) => read,
            Err(answer) => return answer,
        };
    let is_for_sets = !matches!(of_sets, SetDelivery::Refused { .. });
    if let Err(answer) = tell_sets(&controller, of_sets) {
        return answer;
    }
    match delivery {
        Delivery::Pushes(pushes) => {
            let provider = provider.map_or("", webhook::Provider::name);
            for push in &pushes {
                let concerned = controller.pushed(push);
                // A name from outside does not write the log's next line.
                let revision = printable::line(&push.revision);
                tracing::info!(provider, %revision, concerned, "push received");
            }
            StatusCode::OK.into_response()
        }
        Delivery::Tag(tag) => {
            let concerned = controller.tagged(&tag);
            let provider = provider.map_or("", webhook::Provider::name);
            tracing::info!(provider, tag = %printable::line(&tag.tag), concerned, "tag received");
            StatusCode::OK.into_response()
        }
        Delivery::Ignored => StatusCode::OK.into_response(),
        // Nothing for Applications, and something that sets understand.
        Delivery::Refused { .. } if is_for_sets => StatusCode::OK.into_response(),
        Delivery::Refused { status, body } => refused(status, body),
    }
}

/// Answers one delivery for sets alone (ASET-185).
#[expect(clippy::redundant_closure, reason = "a function of one lifetime is not one for all")]
async fn receive_for_sets(
    state: State<Arc<Shared>>,
    method: Method,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Some(controller) = state.0.controller.get().cloned() else { return starting() };
    let read = |controller: Controller, arrived: Arrived| {
        arrived.with_request(&controller, |request| webhook::receive_for_sets(request))
    };
    match arrive(&state.0, controller.clone(), (method, headers, body), read).await {
        Ok(SetDelivery::Refused { status, body }) => refused(status, body),
        Ok(delivery) => match tell_sets(&controller, delivery) {
            Ok(()) => StatusCode::OK.into_response(),
            Err(answer) => answer,
        },
        Err(answer) => answer,
    }
}

fn starting() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "starting").into_response()
}

fn refused(status: u16, body: String) -> Response {
    (StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST), body).into_response()
}

/// Hands a delivery on to the sets.
#[expect(clippy::result_large_err, reason = "the answer is sent at once")]
fn tell_sets(controller: &Controller, delivery: SetDelivery) -> Result<(), Response> {
    let SetDelivery::Event(mut event) = delivery else { return Ok(()) };
    if let SetEvent::Pushes(pushes) = &mut event {
        // Sets do not ask which files changed, and many deliveries may wait.
        for push in pushes {
            push.files = Vec::new();
        }
    }
    if controller.told_sets(event) {
        return Ok(());
    }
    Err((StatusCode::SERVICE_UNAVAILABLE, "Queue is full, discarding webhook payload").into_response())
}

/// Takes the body in and reads it where computations run.
async fn arrive<T: Send + 'static>(
    shared: &Shared,
    controller: Controller,
    (method, headers, body): (Method, HeaderMap, Body),
    read: impl FnOnce(Controller, Arrived) -> T + Send + 'static,
) -> Result<T, Response> {
    let _in_flight = controller.begin_delivery();
    let megabytes_max = controller.setting("webhook.maxPayloadSizeMB");
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let secret = |key: &str| controller.secret(key);
    let megabytes = megabytes_max.as_deref();
    let limit = webhook::body_bytes_max(header, secret, megabytes)
        .max(webhook::set_body_bytes_max(header, secret, megabytes));
    let body = if method == Method::POST { body } else { Body::empty() };
    let mut received = match shared.intake.read(body, limit).await {
        Ok(received) => Some(received),
        // An empty body is what the checks below refuse with the right words.
        Err(NoBody::TooLarge) => None,
        Err(NoBody::Stalled) => {
            let text = "the payload did not arrive in time";
            return Err((StatusCode::REQUEST_TIMEOUT, text).into_response());
        }
        Err(NoBody::Busy) => {
            let text = "other payloads arrive at this moment; try again";
            return Err((StatusCode::SERVICE_UNAVAILABLE, text).into_response());
        }
    };
    let body = received.as_mut().map(Received::take).unwrap_or_default();
    let arrived = Arrived { method, headers, body, megabytes_max };
    let worker = controller.clone();
    // Those that wait here are bounded by the places for bodies.
    let readings =
        shared.readings.get_or_init(|| tokio::sync::Semaphore::new(controller.webhook_parallelism()));
    let Ok(turn) = readings.acquire().await else { return Err(starting()) };
    // A signature over, and the text of, a large body take long.
    let read = controller.compute().run(move || read(worker, arrived)).await;
    drop((turn, received));
    read.map_err(|panic| {
        tracing::error!(panic, "a payload could not be read");
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    })
}

/// How headers and secrets are looked up.
type Lookup<'a, T> = &'a dyn Fn(&str) -> T;

impl Arrived {
    fn with_request<T>(
        &self,
        controller: &Controller,
        read: impl for<'a> FnOnce(&webhook::Request<'a, Lookup<'a, Option<&'a str>>, Lookup<'a, String>>) -> T,
    ) -> T {
        let header = |name: &str| self.headers.get(name).and_then(|value| value.to_str().ok());
        let secret = |key: &str| controller.secret(key);
        read(&webhook::Request {
            method: self.method.as_str(),
            header: &header,
            body: &self.body,
            secret: &secret,
            megabytes_max: self.megabytes_max.as_deref(),
            allow_without_secret: controller.setting(webhook::ALLOW_WITHOUT_SECRET).as_deref()
                == Some("true"),
        })
    }
}
