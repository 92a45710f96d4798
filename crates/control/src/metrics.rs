//! Metrics of the controller (CTL-120): names, types and labels are the contract.
//!
//! Counters and histograms are updated where things happen: here, and for single applications in [`applications`].
//! Gauges of what is ([`found`]) are written at a scrape ([`scrape`]), so that an application that is gone leaves no
//! series behind.

mod applications;
mod body;
mod found;
mod github;
mod groups;
mod kubernetes;
mod scrape;
mod sources;

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::app_key::{AppKey, SetKey};
pub(crate) use applications::{ActionTally, AppCounters, CountedApp};
use body::Body;
pub(crate) use found::QueueInfo;
pub use found::{AppInfo, ClusterInfo, Found, SetInfo};
pub(crate) use github::GithubMetrics;
pub use groups::Group;
pub(crate) use groups::only;
pub(crate) use kubernetes::KubernetesMetrics;
pub(crate) use sources::{Lookup, RenderMetrics, SourceMetrics};

/// Labels of `argocd_app_reconcile`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct ReconcileLabels {
    /// Namespace of the application.
    pub namespace: String,
    /// Destination server.
    pub dest_server: String,
}

/// Labels of `argocd_appset_reconcile` (ASET-311).
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct SetLabels {
    /// Namespace of the set.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl SetLabels {
    pub(crate) fn of(key: &SetKey) -> Self {
        Self { namespace: key.namespace.to_string(), name: key.name.to_string() }
    }
}

/// Labels of `tiphys_work_total`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct WorkLabels {
    /// What was done: `render`, `fetch`, `status-patch` …
    pub work: &'static str,
}

/// Labels of `argocd_commitserver_commit_request_total` and its histogram (CTL-124).
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct CommitLabels {
    /// The repository that is written, normalised.
    pub repo: String,
    /// `success` or `failure`.
    pub response_type: &'static str,
}

/// Labels of `argocd_webhook_requests_total` (API-12) and of `argocd_commitserver_commit_pending_request_total` (CTL-124).
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct DeliveryLabels {
    /// A repository of an application, normalised: never what a delivery says.
    pub repo: String,
}

/// Labels of `tiphys_render_mismatch_total` (RND-159).
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct MismatchLabels {
    /// `helm` or `kustomize`
    pub tool: &'static str,
}

/// Something that is under way as long as this lives.
pub(crate) struct InFlight(Gauge);

impl InFlight {
    pub(crate) fn begin(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// The metrics of one controller.
pub struct Metrics {
    registry: Mutex<Registry>,
    /// What is counted of single applications.
    pub(crate) applications: AppCounters,
    reconciles: Family<ReconcileLabels, Histogram>,
    set_reconciles: Family<SetLabels, Histogram>,
    work: Family<WorkLabels, Counter>,
    deliveries: Family<DeliveryLabels, Counter>,
    pub(crate) deliveries_in_flight: Gauge,
    hydrating: Family<DeliveryLabels, Gauge>,
    commits: Family<CommitLabels, Counter>,
    commit_seconds: Family<CommitLabels, Histogram>,
    /// Questions to servers of sources.
    pub(crate) sources: SourceMetrics,
    /// Requests to API servers, and events of their watches.
    kubernetes: KubernetesMetrics,
    /// Renderings.
    pub(crate) renders: RenderMetrics,
    /// Questions to GitHub.
    pub(crate) github: GithubMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(KubernetesMetrics::default())
    }
}

impl Metrics {
    /// Registers everything; requests are counted since the process began.
    pub(crate) fn new(kubernetes: KubernetesMetrics) -> Self {
        let mut registry = Registry::default();
        // The encoder appends `_total` to counters (DEP-66).
        let reconciles = Family::<ReconcileLabels, Histogram>::new_with_constructor(|| {
            Histogram::new([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
        });
        registry.register("argocd_app_reconcile", "Seconds of one reconciliation", reconciles.clone());
        let set_reconciles = Family::<SetLabels, Histogram>::new_with_constructor(|| {
            Histogram::new([0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
        });
        registry.register("argocd_appset_reconcile", "Seconds of one look at a set", set_reconciles.clone());
        let work = Family::default();
        registry.register("tiphys_work", "Units of work done", work.clone());
        let deliveries = Family::default();
        let help = "Number of deliveries of webhooks about a repository of applications";
        registry.register("argocd_webhook_requests", help, deliveries.clone());
        let deliveries_in_flight = Gauge::default();
        let help = "Number of deliveries that are read";
        registry.register("argocd_webhook_handlers_in_flight", help, deliveries_in_flight.clone());
        let hydrating = Family::default();
        let help = "Number of hydrations that are under way";
        registry.register("argocd_commitserver_commit_pending_request_total", help, hydrating.clone());
        let commits = Family::default();
        registry.register("argocd_commitserver_commit_request", "Number of hydrations", commits.clone());
        let commit_seconds = Family::<CommitLabels, Histogram>::new_with_constructor(|| {
            Histogram::new([0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0, 20.0])
        });
        let help = "Seconds of one hydration";
        registry.register(
            "argocd_commitserver_commit_request_duration_seconds",
            help,
            commit_seconds.clone(),
        );
        let renders = RenderMetrics::default();
        let help = "Sources that a program renders otherwise than the built-in renderer";
        registry.register("tiphys_render_mismatch", help, renders.mismatches.clone());
        let github = GithubMetrics::register(&mut registry);
        let registry = Mutex::new(registry);
        Self {
            registry,
            applications: AppCounters::default(),
            reconciles,
            set_reconciles,
            work,
            deliveries,
            deliveries_in_flight,
            hydrating,
            commits,
            commit_seconds,
            sources: SourceMetrics::default(),
            kubernetes,
            renders,
            github,
        }
    }

    /// Records the time of a reconciliation in seconds.
    pub fn reconciled(&self, labels: &ReconcileLabels, seconds: f64) {
        self.reconciles.get_or_create(labels).observe(seconds);
    }

    /// Records the time of a look at a set in seconds.
    pub(crate) fn set_reconciled(&self, labels: &SetLabels, seconds: f64) {
        self.set_reconciles.get_or_create(labels).observe(seconds);
    }

    /// A set is gone, and so is what was recorded of it.
    pub(crate) fn set_gone(&self, labels: &SetLabels) {
        self.set_reconciles.remove(labels);
        self.github.set_gone(labels);
    }

    /// A hydration is under way until what this returns is dropped.
    pub(crate) fn hydrating(&self, repository: &str) -> InFlight {
        let labels = DeliveryLabels { repo: tiphys_api::repo_url::redact(repository) };
        InFlight::begin(&self.hydrating.get_or_create(&labels))
    }

    /// Records an ended hydration.
    pub(crate) fn hydrated(&self, repository: &str, is_success: bool, seconds: f64) {
        let response_type = if is_success { "success" } else { "failure" };
        let labels = CommitLabels { repo: tiphys_api::repo_url::redact(repository), response_type };
        self.commits.get_or_create(&labels).inc();
        self.commit_seconds.get_or_create(&labels).observe(seconds);
    }

    /// Counts a delivery of a webhook about a repository.
    pub(crate) fn delivered(&self, repository: &str) {
        let labels = DeliveryLabels { repo: tiphys_api::repo_url::redact(repository) };
        self.deliveries.get_or_create(&labels).inc();
    }

    /// Counts a unit of work.
    pub fn worked(&self, work: &'static str) {
        self.work.get_or_create(&WorkLabels { work }).inc();
    }

    /// What is counted of applications begins anew where the settings' period is over (CTL-126), and that of applications
    /// that are gone is forgotten.
    pub(crate) fn renew(&self, after: Duration, now: Duration, lives: impl Fn(&AppKey) -> bool) {
        if self.applications.expire(after, now) {
            self.reconciles.clear();
        }
        self.applications.keep(lives);
    }

    /// The text of a scrape: what was counted, then what is.
    pub fn scrape(&self, found: &Found<'_>) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ended = encode(&mut text, &self.registry.lock());
        let counted = text.trim_end().trim_end_matches("# EOF").len();
        text.truncate(counted);
        let mut body = Body::after(text);
        self.applications.write(&mut body);
        self.sources.write(&mut body);
        self.kubernetes.write(&mut body);
        self.renders.write(&mut body);
        scrape::write(&mut body, found);
        body.families(found.others);
        body.end()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::queue::{Priority, Queue};

    #[test]
    fn ctl_120_queues_are_measured_under_the_names_of_client_go() {
        let queue = Queue::new();
        queue.add("web", Priority::Urgent);
        let measures = queue.measures();
        let sets = QueueInfo { controller: "applicationset", name: "applicationset", measures };
        let found = Found {
            apps: &[],
            shows_conditions: false,
            sets: &[],
            clusters: &[],
            queues: &[sets],
            duplicate_credentials: 0,
            settings_problems: &BTreeMap::new(),
            others: "",
        };
        let body = Metrics::default().scrape(&found);
        let labels = "controller=\"applicationset\",name=\"applicationset\"";
        for line in [
            format!("workqueue_depth{{{labels}}} 1"),
            format!("workqueue_adds_total{{{labels}}} 1"),
            format!("workqueue_retries_total{{{labels}}} 0"),
            format!("workqueue_unfinished_work_seconds{{{labels}}} 0.0"),
            format!("workqueue_longest_running_processor_seconds{{{labels}}} 0.0"),
            format!("workqueue_queue_duration_seconds_bucket{{{labels},le=\"1e-8\"}} 0"),
            format!("workqueue_queue_duration_seconds_bucket{{{labels},le=\"+Inf\"}} 0"),
            format!("workqueue_work_duration_seconds_bucket{{{labels},le=\"10.0\"}} 0"),
            format!("workqueue_work_duration_seconds_sum{{{labels}}} 0.0"),
            format!("workqueue_work_duration_seconds_count{{{labels}}} 0"),
            "# TYPE workqueue_adds counter".to_owned(),
        ] {
            assert!(body.contains(&format!("\n{line}\n")), "{line}: {body}");
        }
        assert!(!body.contains("argocd_app_condition"), "only where the settings want them: {body}");
    }

    #[test]
    fn ctl_120_names_and_labels_are_those_of_the_contract() {
        let metrics = Metrics::default();
        let text = |s: &str| s.to_owned();
        let key = AppKey::new("argocd", "web");
        let counted = CountedApp { key: &key, project: "default", server: "s" };
        metrics.applications.synced(counted, ("Succeeded", false), Duration::from_secs(3));
        let app = AppInfo {
            name: text("we\"b"),
            project: text("default"),
            labels: vec![(text("acme.test/team"), "a\nb".into()), (text("tier"), "".into())],
            conditions: vec![("SyncError".into(), 2)],
            ..AppInfo::default()
        };
        let labels = vec![("acme.test/team".to_owned(), "a".to_owned())];
        let age = Some(Duration::from_secs(90));
        let cluster = ClusterInfo { name: text("eu"), labels, age, ..ClusterInfo::default() };
        let own = ClusterInfo { project: text("red"), age: None, objects: 3, ..cluster.clone() };
        let set = SetInfo {
            namespace: text("argocd"),
            name: text("all"),
            owned: 7_000,
            step: 2,
            labels: vec![("team".to_owned(), "a".to_owned())],
            ..SetInfo::default()
        };
        let queue = Queue::new();
        queue.add("web", Priority::Urgent);
        let found = Found {
            apps: &[app],
            shows_conditions: true,
            sets: &[set],
            clusters: &[cluster, own],
            queues: &[QueueInfo {
                controller: "application",
                name: "app_reconciliation_queue",
                measures: queue.measures(),
            }],
            duplicate_credentials: 2,
            settings_problems: &BTreeMap::from([("argocd-cm".to_owned(), "was deleted".to_owned())]),
            others: "# TYPE other gauge\nother 1\n",
        };
        metrics.delivered("https://u:p@h/r");
        drop(metrics.hydrating("https://u:p@h/r"));
        let in_flight = InFlight::begin(&metrics.deliveries_in_flight);
        let body = metrics.scrape(&found);
        drop(in_flight);
        for part in [
            concat!(
                "argocd_info{version=\"",
                env!("CARGO_PKG_VERSION"),
                "\"} 1\n# TYPE other gauge\nother 1\n# EOF\n"
            ),
            "argocd_webhook_requests_total{repo=\"https://h/r\"} 1\n",
            "argocd_webhook_handlers_in_flight 1\n",
            "argocd_commitserver_commit_pending_request_total{repo=\"https://h/r\"} 0\n",
        ] {
            assert!(body.contains(part), "API-12: {part}: {body}");
        }
        assert!(metrics.scrape(&found).contains("argocd_webhook_handlers_in_flight 0\n"));
        assert!(body.contains("argocd_app_sync_total{namespace=\"argocd\",name=\"web\""), "{body}");
        assert!(body.contains("name=\"we\\\"b\"") && body.contains("sync_status=\"Unknown\""), "{body}");
        assert!(
            body.contains("\nargocd_cluster_labels{label_acme_test_team=\"a\",name=\"eu\",server=\"\"} 1\n"),
            "{body}"
        );
        for line in [
            "argocd_app_labels{name=\"we\\\"b\",namespace=\"\",project=\"default\",label_acme_test_team=\"a\\nb\",label_tier=\"\"} 1",
            "argocd_app_condition{name=\"we\\\"b\",namespace=\"\",project=\"default\",condition=\"SyncError\"} 2",
            "argocd_cluster_cache_age_seconds{server=\"\"} 90",
            "argocd_cluster_api_resource_objects{server=\"\"} 0",
            "argocd_cluster_api_resource_objects{project=\"red\",server=\"\"} 3",
            "argocd_appset_info{name=\"all\",namespace=\"argocd\",resource_update_status=\"Unknown\"} 1",
            "argocd_appset_owned_applications{name=\"all\",namespace=\"argocd\"} 7000",
            "argocd_appset_rollout_step{name=\"all\",namespace=\"argocd\"} 2",
            "argocd_appset_labels{label_team=\"a\",name=\"all\",namespace=\"argocd\"} 1",
        ] {
            assert!(body.contains(&format!("\n{line}\n")), "{line}: {body}");
        }
        assert!(body.contains("\ntiphys_repository_duplicate_credentials 2\n"), "{body}");
        assert!(body.contains("\ntiphys_settings_problem{object=\"argocd-cm\"} 1\n"), "{body}");
        assert!(body.ends_with("# EOF\n") && body.matches("# EOF").count() == 1);
    }
}
