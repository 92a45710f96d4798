//! Metrics of the controller (CTL-120): names, types and labels are the contract.
//!
//! Counters and histograms are updated where things happen; per-application gauges are produced at scrape time
//! from the store, so that an application that is gone leaves no series behind.

mod github;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::app_key::SetKey;
use crate::memory::MarkedObjects;
pub(crate) use github::GithubMetrics;

/// Labels of `argocd_app_sync_total`.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct SyncLabels {
    /// Namespace of the application.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Destination server.
    pub dest_server: String,
    /// Phase the operation ended in.
    pub phase: String,
    /// Whether it was a dry run.
    pub dry_run: String,
}

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

/// What is shown of a set (ASET-311, ASET-312).
#[derive(Clone, Debug, Default)]
pub struct SetInfo {
    /// Namespace of the set.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Reason of its condition `ResourcesUpToDate`; empty shows as `Unknown`.
    pub status: String,
    /// How many Applications it has.
    pub owned: i64,
    /// The step of its roll-out, from 1; 0 when there is none.
    pub step: usize,
    /// Labels that the settings want to see, with their values.
    pub labels: Vec<(String, String)>,
}

/// Labels of `argocd_git_request_total`.
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

/// Labels of `argocd_webhook_requests_total` (API-12).
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

/// One line of `argocd_app_info`.
#[derive(Clone, Debug, Default)]
pub struct AppInfo {
    /// Namespace of the application.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its project.
    pub project: String,
    /// Whether automatic sync is on.
    pub autosync: bool,
    /// Normalised URL of its first source.
    pub repo: String,
    /// Destination server.
    pub dest_server: String,
    /// Destination namespace.
    pub dest_namespace: String,
    /// Sync status; empty shows as `Unknown`.
    pub sync_status: String,
    /// Health status; empty shows as `Unknown`.
    pub health_status: String,
    /// `sync`, `delete` or empty.
    pub operation: &'static str,
    /// Orphans beside it, where they are looked for and known.
    pub orphans: Option<usize>,
    /// By whose marks its objects are found: cluster, tracking method and how many by state.
    pub(crate) marked: Option<MarkedObjects>,
}

/// One line of the cluster gauges.
#[derive(Clone, Debug, Default)]
pub struct ClusterInfo {
    /// API server URL.
    pub server: String,
    /// Name of the cluster.
    pub name: String,
    /// Kubernetes version.
    pub version: String,
    /// Watched kinds.
    pub kinds: usize,
    /// Known objects.
    pub objects: usize,
    /// Objects that exist and cannot be read.
    pub unreadable: usize,
    /// Whether every kind could be listed.
    pub connected: bool,
    /// Labels that the settings want to see, with their values (CTL-120).
    pub labels: Vec<(String, String)>,
}

/// What is, at the time of a scrape.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// All applications.
    pub apps: &'a [AppInfo],
    /// The sets that are worked on.
    pub sets: &'a [SetInfo],
    /// Sets that wait for a worker.
    pub set_queue_depth: usize,
    /// The clusters in use.
    pub clusters: &'a [ClusterInfo],
    /// Applications that wait for a worker.
    pub queue_depth: usize,
    /// Applications that wait for a look at what to hydrate, and groups that wait for a run (CTL-22).
    pub hydration_depths: (usize, usize),
    /// Repositories and templates that several Secrets declare (REP-21).
    pub duplicate_credentials: usize,
    /// Families of others of the process, as text.
    pub others: &'a str,
}

/// The metrics of one controller.
pub struct Metrics {
    registry: Mutex<Registry>,
    syncs: Family<SyncLabels, Counter>,
    reconciles: Family<ReconcileLabels, Histogram>,
    set_reconciles: Family<SetLabels, Histogram>,
    work: Family<WorkLabels, Counter>,
    deliveries: Family<DeliveryLabels, Counter>,
    pub(crate) deliveries_in_flight: Gauge,
    commits: Family<CommitLabels, Counter>,
    commit_seconds: Family<CommitLabels, Histogram>,
    /// Sources that a program renders otherwise than this process.
    pub(crate) mismatches: Family<MismatchLabels, Counter>,
    /// Questions to GitHub.
    pub(crate) github: GithubMetrics,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Registers everything.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let syncs = Family::default();
        // The encoder appends `_total` to counters (DEP-66).
        registry.register("argocd_app_sync", "Number of application syncs", syncs.clone());
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
        let mismatches = Family::default();
        let help = "Sources that a program renders otherwise than the built-in renderer";
        registry.register("tiphys_render_mismatch", help, mismatches.clone());
        let github = GithubMetrics::register(&mut registry);
        let registry = Mutex::new(registry);
        Self {
            registry,
            syncs,
            reconciles,
            set_reconciles,
            work,
            deliveries,
            deliveries_in_flight,
            commits,
            commit_seconds,
            mismatches,
            github,
        }
    }

    /// Counts an ended operation.
    pub fn synced(&self, labels: &SyncLabels) {
        self.syncs.get_or_create(labels).inc();
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

    /// The text of a scrape: what was counted, then what is.
    pub fn scrape(&self, found: &Found<'_>) -> String {
        let Found { apps, sets, set_queue_depth, clusters, queue_depth, duplicate_credentials, .. } = *found;
        let (checks, groups) = found.hydration_depths;
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ended = encode(&mut text, &self.registry.lock());
        let mut body = text.trim_end().trim_end_matches("# EOF").to_owned();
        body.push_str(
            "# HELP argocd_app_info Information about applications.\n# TYPE argocd_app_info gauge\n",
        );
        for app in apps {
            let known = |text: &str| if text.is_empty() { "Unknown".to_owned() } else { escape(text) };
            let _ended = writeln!(
                body,
                "argocd_app_info{{autosync_enabled=\"{}\",dest_namespace=\"{}\",dest_server=\"{}\",health_status=\"{}\",name=\"{}\",namespace=\"{}\",operation=\"{}\",project=\"{}\",repo=\"{}\",sync_status=\"{}\"}} 1",
                app.autosync,
                escape(&app.dest_namespace),
                escape(&app.dest_server),
                known(&app.health_status),
                escape(&app.name),
                escape(&app.namespace),
                app.operation,
                escape(&app.project),
                escape(&app.repo),
                known(&app.sync_status),
            );
        }
        orphan_gauge(&mut body, apps);
        marked_gauge(&mut body, apps);
        set_gauges(&mut body, sets);
        cluster_gauges(&mut body, clusters);
        cluster_label_gauge(&mut body, clusters);
        let _ended = writeln!(
            body,
            "# HELP tiphys_repository_duplicate_credentials Number of repositories and templates that several Secrets \
             declare.\n# TYPE tiphys_repository_duplicate_credentials gauge\ntiphys_repository_duplicate_credentials \
             {duplicate_credentials}"
        );
        let _ended = writeln!(
            body,
            "# HELP workqueue_depth Number of keys that wait.\n# TYPE workqueue_depth gauge\nworkqueue_depth{{controller=\"application\",name=\"app_reconciliation_queue\"}} {queue_depth}\nworkqueue_depth{{controller=\"application\",name=\"app_hydration_queue\"}} {checks}\nworkqueue_depth{{controller=\"application\",name=\"manifest_hydration_queue\"}} {groups}\nworkqueue_depth{{controller=\"applicationset\",name=\"applicationset\"}} {set_queue_depth}"
        );
        let _ended = writeln!(
            body,
            "# HELP argocd_info Information about the process.\n# TYPE argocd_info gauge\nargocd_info{{version=\"{}\"}} 1",
            env!("CARGO_PKG_VERSION")
        );
        body.push_str(found.others);
        body.push_str("# EOF\n");
        body
    }
}

/// Orphans by application (CTL-74).
fn orphan_gauge(body: &mut String, apps: &[AppInfo]) {
    body.push_str(
        "# HELP argocd_app_orphaned_resources_count Number of orphaned resources.\n# TYPE \
         argocd_app_orphaned_resources_count gauge\n",
    );
    for app in apps {
        let Some(count) = app.orphans else { continue };
        // Writing to a String cannot fail.
        let _ended = writeln!(
            body,
            "argocd_app_orphaned_resources_count{{name=\"{}\",namespace=\"{}\",project=\"{}\"}} {count}",
            escape(&app.name),
            escape(&app.namespace),
            escape(&app.project),
        );
    }
}

/// Live objects that applications were compared with (TRK-143).
fn marked_gauge(body: &mut String, apps: &[AppInfo]) {
    body.push_str(
        "# HELP tiphys_tracking_objects Number of objects that applications were compared with, by whose marks they \
         bear.\n# TYPE tiphys_tracking_objects gauge\n",
    );
    let mut sums: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for marked in apps.iter().filter_map(|app| app.marked.as_ref()) {
        for (state, count) in &marked.counts {
            *sums.entry((&marked.cluster, marked.method.as_str(), state.as_str())).or_default() += count;
        }
    }
    for ((cluster, method, state), count) in sums {
        let cluster = escape(cluster);
        // Writing to a String cannot fail.
        let _ended = writeln!(
            body,
            "tiphys_tracking_objects{{cluster=\"{cluster}\",method=\"{method}\",state=\"{state}\"}} {count}"
        );
    }
}

/// Sets of Applications (ASET-311, ASET-312).
fn set_gauges(body: &mut String, sets: &[SetInfo]) {
    let mut family = |name: &str, help: &str, line: &dyn Fn(&SetInfo) -> String| {
        // Writing to a String cannot fail.
        let _ended = writeln!(body, "# HELP {name} {help}\n# TYPE {name} gauge");
        for set in sets {
            let _ended = writeln!(body, "{name}{}", line(set));
        }
    };
    let named =
        |set: &SetInfo| format!("name=\"{}\",namespace=\"{}\"", escape(&set.name), escape(&set.namespace));
    family("argocd_appset_info", "Information about ApplicationSets.", &|set| {
        let status = if set.status.is_empty() { "Unknown".to_owned() } else { escape(&set.status) };
        format!("{{{},resource_update_status=\"{status}\"}} 1", named(set))
    });
    family("argocd_appset_owned_applications", "Number of Applications of an ApplicationSet.", &|set| {
        format!("{{{}}} {}", named(set), set.owned)
    });
    family("argocd_appset_rollout_step", "Step of the roll-out, 0 when there is none.", &|set| {
        format!("{{{}}} {}", named(set), set.step)
    });
    if sets.iter().all(|set| set.labels.is_empty()) {
        return;
    }
    family("argocd_appset_labels", "Labels of ApplicationSets.", &|set| {
        let mut labels: BTreeMap<String, &str> =
            set.labels.iter().map(|(key, value)| (label_name(key), value.as_str())).collect();
        labels.insert("name".to_owned(), &set.name);
        labels.insert("namespace".to_owned(), &set.namespace);
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
        format!("{{{}}} 1", labels.join(","))
    });
}

fn cluster_gauges(body: &mut String, clusters: &[ClusterInfo]) {
    let mut family = |name: &str, help: &str, line: &dyn Fn(&ClusterInfo) -> String| {
        let _ended = writeln!(body, "# HELP {name} {help}\n# TYPE {name} gauge");
        for cluster in clusters {
            let _ended = writeln!(body, "{name}{}", line(cluster));
        }
    };
    family("argocd_cluster_info", "Information about clusters.", &|c| {
        format!(
            "{{k8s_version=\"{}\",name=\"{}\",server=\"{}\"}} 1",
            escape(&c.version),
            escape(&c.name),
            escape(&c.server)
        )
    });
    family("argocd_cluster_api_resources", "Number of watched kinds.", &|c| {
        format!("{{server=\"{}\"}} {}", escape(&c.server), c.kinds)
    });
    family("argocd_cluster_api_resource_objects", "Number of known objects.", &|c| {
        format!("{{server=\"{}\"}} {}", escape(&c.server), c.objects)
    });
    family("tiphys_cluster_unreadable_objects", "Number of objects that exist and cannot be read.", &|c| {
        format!("{{server=\"{}\"}} {}", escape(&c.server), c.unreadable)
    });
    family("argocd_cluster_connection_status", "Whether the cluster answers.", &|c| {
        format!(
            "{{k8s_version=\"{}\",server=\"{}\"}} {}",
            escape(&c.version),
            escape(&c.server),
            u8::from(c.connected)
        )
    });
}

/// Labels of clusters, where the settings name some (CTL-120).
fn cluster_label_gauge(body: &mut String, clusters: &[ClusterInfo]) {
    if clusters.iter().all(|cluster| cluster.labels.is_empty()) {
        return;
    }
    body.push_str("# HELP argocd_cluster_labels Labels of clusters.\n# TYPE argocd_cluster_labels gauge\n");
    for cluster in clusters {
        let mut labels: BTreeMap<String, &str> =
            cluster.labels.iter().map(|(key, value)| (label_name(key), value.as_str())).collect();
        labels.insert("name".to_owned(), &cluster.name);
        labels.insert("server".to_owned(), &cluster.server);
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
        // Writing to a String cannot fail.
        let _ended = writeln!(body, "argocd_cluster_labels{{{}}} 1", labels.join(","));
    }
}

/// The name that a label of Kubernetes has in metrics.
fn label_name(key: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    format!("label_{}", key.chars().map(plain).collect::<String>())
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctl_120_names_and_labels_are_those_of_the_contract() {
        let metrics = Metrics::new();
        let text = |s: &str| s.to_owned();
        metrics.synced(&SyncLabels {
            namespace: text("argocd"),
            name: text("web"),
            project: text("default"),
            dest_server: text("s"),
            phase: text("Succeeded"),
            dry_run: text("false"),
        });
        let app = AppInfo { name: text("we\"b"), ..AppInfo::default() };
        let labels = vec![("acme.test/team".to_owned(), "a".to_owned())];
        let cluster = ClusterInfo { name: text("eu"), labels, ..ClusterInfo::default() };
        let set = SetInfo {
            namespace: text("argocd"),
            name: text("all"),
            owned: 7_000,
            step: 2,
            labels: vec![("team".to_owned(), "a".to_owned())],
            ..SetInfo::default()
        };
        let found = Found {
            apps: &[app],
            sets: &[set],
            set_queue_depth: 4,
            clusters: &[cluster],
            queue_depth: 3,
            hydration_depths: (1, 2),
            duplicate_credentials: 2,
            others: "# TYPE other gauge\nother 1\n",
        };
        metrics.delivered("https://u:p@h/r");
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
            "argocd_appset_info{name=\"all\",namespace=\"argocd\",resource_update_status=\"Unknown\"} 1",
            "argocd_appset_owned_applications{name=\"all\",namespace=\"argocd\"} 7000",
            "argocd_appset_rollout_step{name=\"all\",namespace=\"argocd\"} 2",
            "argocd_appset_labels{label_team=\"a\",name=\"all\",namespace=\"argocd\"} 1",
        ] {
            assert!(body.contains(&format!("\n{line}\n")), "{line}: {body}");
        }
        assert!(body.contains("\ntiphys_repository_duplicate_credentials 2\n"), "{body}");
        assert!(body.ends_with("# EOF\n") && body.matches("# EOF").count() == 1);
    }
}
