//! Questions to GitHub (ASET-311), where `enable.github.api.metrics` wants them counted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tiphys_scm::{GithubRequest, Observer};

use super::SetLabels;

/// Labels of `argocd_github_api_requests_total`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: String,
    endpoint: String,
    status: String,
    appset_namespace: String,
    appset_name: String,
}

/// Labels of `argocd_github_api_request_duration_seconds`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DurationLabels {
    method: String,
    endpoint: String,
    appset_namespace: String,
    appset_name: String,
}

/// Labels of `argocd_github_api_rate_limit_*`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct LimitLabels {
    endpoint: String,
    appset_namespace: String,
    appset_name: String,
    resource: String,
}

type Durations = Family<DurationLabels, Histogram, fn() -> Histogram>;

/// What was recorded of a set, so that nothing of it is left when it is gone.
#[derive(Default)]
struct Recorded {
    requests: HashSet<RequestLabels>,
    durations: HashSet<DurationLabels>,
    limits: HashSet<LimitLabels>,
}

/// The metrics. Cloning gives another handle to the same.
#[derive(Clone)]
pub(crate) struct GithubMetrics {
    requests: Family<RequestLabels, Counter>,
    durations: Durations,
    remaining: Family<LimitLabels, Gauge>,
    limit: Family<LimitLabels, Gauge>,
    reset: Family<LimitLabels, Gauge>,
    used: Family<LimitLabels, Gauge>,
    recorded: Arc<Mutex<BTreeMap<(String, String), Recorded>>>,
}

impl GithubMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let durations: fn() -> Histogram = || Histogram::new([0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0]);
        let new = Self {
            requests: Family::default(),
            durations: Family::new_with_constructor(durations),
            remaining: Family::default(),
            limit: Family::default(),
            reset: Family::default(),
            used: Family::default(),
            recorded: Arc::default(),
        };
        registry.register("argocd_github_api_requests", "Number of requests to GitHub", new.requests.clone());
        registry.register(
            "argocd_github_api_request_duration_seconds",
            "Seconds of a request to GitHub",
            new.durations.clone(),
        );
        let mut gauge = |name: &str, help: &str, family: &Family<LimitLabels, Gauge>| {
            registry.register(format!("argocd_github_api_rate_limit_{name}"), help, family.clone());
        };
        gauge("remaining", "Requests to GitHub that are left", &new.remaining);
        gauge("limit", "Requests to GitHub in a period", &new.limit);
        gauge("reset_seconds", "Seconds until the period of GitHub ends", &new.reset);
        gauge("used", "Requests to GitHub that were made in the period", &new.used);
        new
    }

    /// A set is gone, and so is what was recorded of it.
    pub(super) fn set_gone(&self, set: &SetLabels) {
        let recorded = self.recorded.lock().remove(&(set.namespace.clone(), set.name.clone()));
        let Some(recorded) = recorded else { return };
        for labels in &recorded.requests {
            self.requests.remove(labels);
        }
        for labels in &recorded.durations {
            self.durations.remove(labels);
        }
        for labels in &recorded.limits {
            for family in [&self.remaining, &self.limit, &self.reset, &self.used] {
                family.remove(labels);
            }
        }
    }
}

impl Observer for GithubMetrics {
    fn github(&self, request: &GithubRequest<'_>) {
        let (appset_namespace, appset_name) = (request.set.namespace.clone(), request.set.name.clone());
        let (method, endpoint) = (request.method.to_owned(), request.endpoint.to_owned());
        let mut recorded = self.recorded.lock();
        let own = recorded.entry((appset_namespace.clone(), appset_name.clone())).or_default();
        let labels = RequestLabels {
            method: method.clone(),
            endpoint: endpoint.clone(),
            // Without an answer there is no status.
            status: request.status.map_or_else(|| "0".to_owned(), |status| status.to_string()),
            appset_namespace: appset_namespace.clone(),
            appset_name: appset_name.clone(),
        };
        self.requests.get_or_create(&labels).inc();
        own.requests.insert(labels);
        let labels = DurationLabels {
            method,
            endpoint: endpoint.clone(),
            appset_namespace: appset_namespace.clone(),
            appset_name: appset_name.clone(),
        };
        self.durations.get_or_create(&labels).observe(request.duration.as_secs_f64());
        own.durations.insert(labels);
        let Some(limit) = &request.rate_limit else { return };
        let labels =
            LimitLabels { endpoint, appset_namespace, appset_name, resource: limit.resource.clone() };
        self.remaining.get_or_create(&labels).set(limit.remaining);
        self.limit.get_or_create(&labels).set(limit.limit);
        self.reset.get_or_create(&labels).set(limit.reset_seconds);
        self.used.get_or_create(&labels).set(limit.used);
        own.limits.insert(labels);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus_client::encoding::text::encode;
    use tiphys_scm::{RateLimit, SetName};

    use super::*;

    #[test]
    fn aset_311_questions_to_github_are_counted_until_the_set_is_gone() {
        let mut registry = Registry::default();
        let metrics = GithubMetrics::register(&mut registry);
        let set = SetName { namespace: "argocd".to_owned(), name: "all".to_owned() };
        metrics.github(&GithubRequest {
            set: &set,
            method: "GET",
            endpoint: "/orgs/{org}/repos",
            status: Some(200),
            duration: Duration::from_millis(300),
            rate_limit: Some(RateLimit {
                remaining: 7,
                limit: 60,
                used: 53,
                reset_seconds: 9,
                resource: "core".to_owned(),
            }),
        });
        let text = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        let shown = text();
        for line in [
            "argocd_github_api_requests_total{method=\"GET\",endpoint=\"/orgs/{org}/repos\",status=\"200\",appset_namespace=\"argocd\",appset_name=\"all\"} 1",
            "argocd_github_api_rate_limit_remaining{endpoint=\"/orgs/{org}/repos\",appset_namespace=\"argocd\",appset_name=\"all\",resource=\"core\"} 7",
            "argocd_github_api_rate_limit_reset_seconds{endpoint=\"/orgs/{org}/repos\",appset_namespace=\"argocd\",appset_name=\"all\",resource=\"core\"} 9",
        ] {
            assert!(shown.contains(line), "{shown}");
        }
        assert!(shown.contains("argocd_github_api_request_duration_seconds_count{"), "{shown}");
        metrics.set_gone(&SetLabels { namespace: "argocd".to_owned(), name: "all".to_owned() });
        assert!(!text().contains("appset_name=\"all\""), "{}", text());
    }
}
