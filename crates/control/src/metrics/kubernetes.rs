//! Requests to API servers (CTL-121), and events of their watches (CTL-120).
//!
//! Servers are those of clusters that somebody added: beyond [`SERVERS_MAX`] the others are counted together as [`OTHER`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_cluster::{Asked, Observer};

use super::body::Body;
use crate::histogram::Histogram;

/// Servers that are counted under their own names.
const SERVERS_MAX: usize = 1_000;
/// What all others are counted as.
const OTHER: &str = "other";
/// Bounds of the seconds of a request.
const SECONDS: [f64; 6] = [0.005, 0.1, 0.5, 2.0, 8.0, 30.0];
/// Bounds of the bytes of a body.
const BYTES: [f64; 6] = [64.0, 512.0, 4096.0, 65536.0, 1_048_576.0, 16_777_216.0];
/// Bounds of the seconds of a batch of events.
const BATCH: [f64; 7] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0];
/// What client-go calls a request without an answer.
const NO_ANSWER: &str = "<error>";

/// The counters. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KubernetesMetrics(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// By host, then by method.
    hosts: BTreeMap<SmolStr, BTreeMap<SmolStr, Requests>>,
    /// By server.
    batches: BTreeMap<SmolStr, Batches>,
}

/// Requests of one method to one host.
#[derive(Debug)]
struct Requests {
    codes: BTreeMap<Option<u16>, u64>,
    repeated: BTreeMap<u16, u64>,
    seconds: Histogram,
    paced: Option<Histogram>,
    sent: Histogram,
    received: Histogram,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            codes: BTreeMap::new(),
            repeated: BTreeMap::new(),
            seconds: Histogram::new(&SECONDS),
            paced: None,
            sent: Histogram::new(&BYTES),
            received: Histogram::new(&BYTES),
        }
    }
}

/// Batches of events of one server.
#[derive(Debug)]
struct Batches {
    seconds: Histogram,
    /// Events of the last one.
    last: usize,
}

/// What one server is counted under.
fn named<'a, T>(all: &'a mut BTreeMap<SmolStr, T>, name: &str, new: impl FnOnce() -> T) -> &'a mut T {
    let is_known = all.len() < SERVERS_MAX || all.contains_key(name);
    all.entry(SmolStr::new(if is_known { name } else { OTHER })).or_insert_with(new)
}

impl State {
    fn requests(&mut self, host: &str, method: &str) -> &mut Requests {
        // Methods are those that this program uses.
        named(&mut self.hosts, host, BTreeMap::new).entry(SmolStr::new(method)).or_default()
    }
}

impl Observer for KubernetesMetrics {
    fn asked(&self, asked: &Asked<'_>) {
        let mut state = self.0.lock();
        let requests = state.requests(asked.host, asked.method);
        *requests.codes.entry(asked.code).or_default() += 1;
        requests.seconds.observe(asked.took.as_secs_f64());
        requests.sent.observe(bytes(asked.sent));
        if let Some(received) = asked.received {
            requests.received.observe(bytes(received));
        }
    }

    fn repeated(&self, host: &str, method: &str, code: u16) {
        *self.0.lock().requests(host, method).repeated.entry(code).or_default() += 1;
    }

    fn paced(&self, host: &str, method: &str, waited: Duration) {
        let mut state = self.0.lock();
        let paced = &mut state.requests(host, method).paced;
        paced.get_or_insert_with(|| Histogram::new(&SECONDS)).observe(waited.as_secs_f64());
    }

    fn batch(&self, server: &str, events: usize, took: Duration) {
        let new = || Batches { seconds: Histogram::new(&BATCH), last: 0 };
        let mut state = self.0.lock();
        let batches = named(&mut state.batches, server, new);
        batches.seconds.observe(took.as_secs_f64());
        batches.last = events;
    }
}

fn bytes(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// One histogram of requests.
type Pick = fn(&Requests) -> Option<&Histogram>;

impl KubernetesMetrics {
    /// Writes the families.
    pub(super) fn write(&self, body: &mut Body) {
        let state = self.0.lock();
        let all = || {
            let hosts = state.hosts.iter();
            hosts.flat_map(|(host, methods)| methods.iter().map(move |(method, it)| (host, method, it)))
        };
        body.family("argocd_kubectl_requests", "counter", "Number of requests to Kubernetes");
        for (host, method, requests) in all() {
            for (code, count) in &requests.codes {
                let code = code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string());
                let labels = [("host", host.as_str()), ("method", method.as_str()), ("code", code.as_str())];
                body.sample("argocd_kubectl_requests_total", labels, count);
            }
        }
        let name = "argocd_kubectl_request_retries";
        body.family(name, "counter", "Number of requests to Kubernetes that were made once more");
        for (host, method, requests) in all() {
            for (code, count) in &requests.repeated {
                let code = code.to_string();
                let labels = [("host", host.as_str()), ("method", method.as_str()), ("code", code.as_str())];
                body.sample("argocd_kubectl_request_retries_total", labels, count);
            }
        }
        let histograms: [(&str, &str, &str, Pick); 4] = [
            (
                "argocd_kubectl_request_duration_seconds",
                "Seconds of a request to Kubernetes",
                "verb",
                |requests| Some(&requests.seconds),
            ),
            (
                "argocd_kubectl_rate_limiter_duration_seconds",
                "Seconds that a request to Kubernetes waited for its turn",
                "verb",
                |requests| requests.paced.as_ref(),
            ),
            ("argocd_kubectl_request_size_bytes", "Bytes of a request to Kubernetes", "method", |requests| {
                Some(&requests.sent)
            }),
            (
                "argocd_kubectl_response_size_bytes",
                "Bytes of an answer of Kubernetes",
                "method",
                |requests| Some(&requests.received),
            ),
        ];
        for (name, help, label, pick) in histograms {
            body.family(name, "histogram", help);
            for (host, method, requests) in all() {
                let Some(histogram) = pick(requests) else { continue };
                body.histogram(name, &[("host", host), (label, method)], histogram);
            }
        }
        let name = "argocd_resource_events_processing";
        body.family(name, "histogram", "Seconds of taking in events that came together");
        for (server, batches) in &state.batches {
            body.histogram(name, &[("server", server)], &batches.seconds);
        }
        let name = "argocd_resource_events_processed_in_batch";
        body.family(name, "gauge", "Number of events that came together last");
        for (server, batches) in &state.batches {
            body.sample(name, [("server", server.as_str())], batches.last);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctl_121_requests_are_counted_by_host_method_and_code() {
        let metrics = KubernetesMetrics::default();
        let took = Duration::from_millis(50);
        let get =
            Asked { host: "h:6443", method: "GET", code: Some(200), took, sent: 0, received: Some(600) };
        metrics.asked(&get);
        metrics.asked(&Asked { code: None, received: None, ..get });
        metrics.asked(&Asked { method: "PATCH", code: Some(409), sent: 70, ..get });
        metrics.repeated("h:6443", "GET", 429);
        metrics.paced("h:6443", "PATCH", Duration::from_secs(1));
        metrics.batch("https://h:6443", 7, took);
        let mut body = Body::after(String::new());
        metrics.write(&mut body);
        let body = body.end();
        for line in [
            "argocd_kubectl_requests_total{host=\"h:6443\",method=\"GET\",code=\"200\"} 1",
            "argocd_kubectl_requests_total{host=\"h:6443\",method=\"GET\",code=\"<error>\"} 1",
            "argocd_kubectl_requests_total{host=\"h:6443\",method=\"PATCH\",code=\"409\"} 1",
            "argocd_kubectl_request_retries_total{host=\"h:6443\",method=\"GET\",code=\"429\"} 1",
            "argocd_kubectl_request_duration_seconds_bucket{host=\"h:6443\",verb=\"GET\",le=\"0.1\"} 2",
            "argocd_kubectl_rate_limiter_duration_seconds_count{host=\"h:6443\",verb=\"PATCH\"} 1",
            "argocd_kubectl_request_size_bytes_bucket{host=\"h:6443\",method=\"PATCH\",le=\"64.0\"} 0",
            "argocd_kubectl_request_size_bytes_bucket{host=\"h:6443\",method=\"PATCH\",le=\"512.0\"} 1",
            "argocd_kubectl_response_size_bytes_count{host=\"h:6443\",method=\"GET\"} 1",
            "argocd_resource_events_processing_bucket{server=\"https://h:6443\",le=\"0.25\"} 1",
            "argocd_resource_events_processed_in_batch{server=\"https://h:6443\"} 7",
        ] {
            assert!(body.contains(&format!("\n{line}\n")), "{line}: {body}");
        }
    }

    #[test]
    fn ctl_121_servers_have_a_bound() {
        let metrics = KubernetesMetrics::default();
        for number in 0..SERVERS_MAX + 3 {
            metrics.repeated(&format!("h{number}"), "GET", 429);
        }
        let state = metrics.0.lock();
        assert_eq!(state.hosts.len(), SERVERS_MAX + 1);
        assert_eq!(state.hosts[OTHER]["GET"].repeated[&429], 3);
    }
}
