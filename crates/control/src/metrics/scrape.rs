//! Writes what is, at the time of a scrape.

use std::collections::BTreeMap;

use super::body::{Body, label_name};
use super::found::{AppInfo, ClusterInfo, Found, QueueInfo, SetInfo};
use crate::histogram::Histogram;

/// All families that nobody counts.
pub(super) fn write(body: &mut Body, found: &Found<'_>) {
    app_info(body, found.apps);
    app_labels(body, found.apps);
    app_conditions(body, found);
    orphans(body, found.apps);
    marked(body, found.apps);
    sets(body, found.sets);
    clusters(body, found.clusters);
    cluster_labels(body, found.clusters);
    let name = "tiphys_repository_duplicate_credentials";
    body.family(name, "gauge", "Number of repositories and templates that several Secrets declare");
    body.sample(name, [], found.duplicate_credentials);
    settings_problems(body, found);
    queues(body, found.queues);
    absent(body);
    body.family("argocd_info", "gauge", "Information about the process");
    body.sample("argocd_info", [("version", env!("CARGO_PKG_VERSION"))], 1);
}

/// Settings whose last content, or whose defaults, are in effect because their object cannot be followed (API-89).
fn settings_problems(body: &mut Body, found: &Found<'_>) {
    let name = "tiphys_settings_problem";
    body.family(name, "gauge", "Settings objects that were deleted, lost their label or cannot be read");
    for object in found.settings_problems.keys() {
        body.sample(name, [("object", object.as_str())], 1);
    }
}

/// Families of what there is not: no `kubectl`, no Redis, no client-go (CTL-121, CTL-127). Whoever asks for them finds that
/// nothing was counted.
const ABSENT: [(&str, &str, &str); 11] = [
    ("argocd_kubectl_exec", "counter", "Number of runs of kubectl"),
    ("argocd_kubectl_exec_pending", "gauge", "Number of runs of kubectl that are under way"),
    ("argocd_kubectl_exec_plugin_call", "counter", "Number of calls of credential plugins by client-go"),
    (
        "argocd_kubectl_dns_resolution_duration_seconds",
        "histogram",
        "Seconds of resolving a name by client-go",
    ),
    (
        "argocd_kubectl_client_cert_rotation_age_seconds",
        "histogram",
        "Age of certificates rotated by client-go",
    ),
    ("argocd_kubectl_transport_cache_entries", "gauge", "Number of transports kept by client-go"),
    ("argocd_kubectl_transport_create_calls", "counter", "Number of transports made by client-go"),
    (
        "argocd_commitserver_userinfo_request_duration_seconds",
        "histogram",
        "Seconds of asking who a credential belongs to",
    ),
    ("argocd_redis_request", "counter", "Number of requests to Redis"),
    ("argocd_redis_request_duration", "histogram", "Seconds of a request to Redis"),
    ("argocd_redis_request_duration_seconds", "histogram", "Seconds of a request to Redis"),
];

fn absent(body: &mut Body) {
    for (name, kind, help) in ABSENT {
        body.family(name, kind, help);
    }
}

/// What is shown of a status that nobody has found out yet.
fn known(status: &str) -> &str {
    if status.is_empty() { "Unknown" } else { status }
}

/// The labels of an application (CTL-120).
fn named(app: &AppInfo) -> [(&str, &str); 3] {
    [("name", &app.name), ("namespace", &app.namespace), ("project", &app.project)]
}

fn app_info(body: &mut Body, apps: &[AppInfo]) {
    body.family("argocd_app_info", "gauge", "Information about applications");
    for app in apps {
        let own = [
            ("autosync_enabled", if app.autosync { "true" } else { "false" }),
            ("dest_namespace", &app.dest_namespace),
            ("dest_server", &app.dest_server),
            ("health_status", known(&app.health_status)),
            ("operation", app.operation),
            ("repo", &app.repo),
            ("sync_status", known(&app.sync_status)),
        ];
        body.sample("argocd_app_info", own.into_iter().chain(named(app)), 1);
    }
}

/// Labels of applications, where the settings name some (CTL-120).
fn app_labels(body: &mut Body, apps: &[AppInfo]) {
    if apps.iter().all(|app| app.labels.is_empty()) {
        return;
    }
    body.family("argocd_app_labels", "gauge", "Labels of applications");
    for app in apps {
        let labels = normalised(&app.labels);
        let own = labels.iter().map(|(key, value)| (key.as_str(), *value));
        body.sample("argocd_app_labels", named(app).into_iter().chain(own), 1);
    }
}

/// Conditions of applications, where the settings name some (CTL-120).
fn app_conditions(body: &mut Body, found: &Found<'_>) {
    if !found.shows_conditions {
        return;
    }
    body.family("argocd_app_condition", "gauge", "Conditions of applications");
    for app in found.apps {
        for (condition, count) in &app.conditions {
            let own = [("condition", condition.as_str())];
            body.sample("argocd_app_condition", named(app).into_iter().chain(own), count);
        }
    }
}

/// Orphans by application (CTL-74).
fn orphans(body: &mut Body, apps: &[AppInfo]) {
    let name = "argocd_app_orphaned_resources_count";
    body.family(name, "gauge", "Number of orphaned resources");
    for app in apps {
        let Some(count) = app.orphans else { continue };
        body.sample(name, named(app), count);
    }
}

/// Live objects that applications were compared with (TRK-143).
fn marked(body: &mut Body, apps: &[AppInfo]) {
    let name = "tiphys_tracking_objects";
    let help = "Number of objects that applications were compared with, by whose marks they bear";
    body.family(name, "gauge", help);
    let mut sums: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for marked in apps.iter().filter_map(|app| app.marked.as_ref()) {
        for (state, count) in &marked.counts {
            *sums.entry((&marked.cluster, marked.method.as_str(), state.as_str())).or_default() += count;
        }
    }
    for ((cluster, method, state), count) in sums {
        body.sample(name, [("cluster", cluster), ("method", method), ("state", state)], count);
    }
}

/// Sets of Applications (ASET-311, ASET-312).
fn sets(body: &mut Body, sets: &[SetInfo]) {
    fn named(set: &SetInfo) -> [(&str, &str); 2] {
        [("name", &set.name), ("namespace", &set.namespace)]
    }
    body.family("argocd_appset_info", "gauge", "Information about ApplicationSets");
    for set in sets {
        let own = [("resource_update_status", known(&set.status))];
        body.sample("argocd_appset_info", named(set).into_iter().chain(own), 1);
    }
    let name = "argocd_appset_owned_applications";
    body.family(name, "gauge", "Number of Applications of an ApplicationSet");
    for set in sets {
        body.sample(name, named(set), set.owned);
    }
    let name = "argocd_appset_rollout_step";
    body.family(name, "gauge", "Step of the roll-out, 0 when there is none");
    for set in sets {
        body.sample(name, named(set), set.step);
    }
    if sets.iter().all(|set| set.labels.is_empty()) {
        return;
    }
    body.family("argocd_appset_labels", "gauge", "Labels of ApplicationSets");
    for set in sets {
        let labels = normalised(&set.labels);
        let own = labels.iter().map(|(key, value)| (key.as_str(), *value));
        body.sample("argocd_appset_labels", own.chain(named(set)), 1);
    }
}

/// What names a cluster: its server, and the project where the entry belongs to one. Two entries may have one server.
fn entry(cluster: &ClusterInfo) -> impl Iterator<Item = (&str, &str)> {
    let project = Some(cluster.project.as_str()).filter(|project| !project.is_empty());
    project.map(|project| ("project", project)).into_iter().chain([("server", cluster.server.as_str())])
}

fn clusters(body: &mut Body, clusters: &[ClusterInfo]) {
    body.family("argocd_cluster_info", "gauge", "Information about clusters");
    for cluster in clusters {
        let labels = [("k8s_version", cluster.version.as_str()), ("name", cluster.name.as_str())];
        body.sample("argocd_cluster_info", labels.into_iter().chain(entry(cluster)), 1);
    }
    let mut gauge = |name: &str, help: &str, value: &dyn Fn(&ClusterInfo) -> Option<usize>| {
        body.family(name, "gauge", help);
        for cluster in clusters {
            let Some(value) = value(cluster) else { continue };
            body.sample(name, entry(cluster), value);
        }
    };
    gauge("argocd_cluster_api_resources", "Number of watched kinds", &|c| Some(c.kinds));
    gauge("argocd_cluster_api_resource_objects", "Number of known objects", &|c| Some(c.objects));
    let help = "Seconds since the oldest list of a kind that is watched";
    gauge("argocd_cluster_cache_age_seconds", help, &|c| usize::try_from(c.age?.as_secs()).ok());
    let help = "Number of objects that exist and cannot be read";
    gauge("tiphys_cluster_unreadable_objects", help, &|c| Some(c.unreadable));
    let name = "argocd_cluster_events";
    body.family(name, "counter", "Number of events of watches");
    for cluster in clusters {
        for (kind, count) in &cluster.events {
            let labels = [("group", kind.group.as_str()), ("kind", kind.kind.as_str())];
            body.sample("argocd_cluster_events_total", entry(cluster).chain(labels), count);
        }
    }
    let name = "argocd_cluster_connection_status";
    body.family(name, "gauge", "Whether the cluster answers");
    for cluster in clusters {
        let labels = [("k8s_version", cluster.version.as_str())];
        body.sample(name, labels.into_iter().chain(entry(cluster)), u8::from(cluster.connected));
    }
}

/// Labels of clusters, where the settings name some (CTL-120).
fn cluster_labels(body: &mut Body, clusters: &[ClusterInfo]) {
    if clusters.iter().all(|cluster| cluster.labels.is_empty()) {
        return;
    }
    body.family("argocd_cluster_labels", "gauge", "Labels of clusters");
    for cluster in clusters {
        let labels = normalised(&cluster.labels);
        let own = labels.iter().map(|(key, value)| (key.as_str(), *value));
        let named = [("name", cluster.name.as_str())].into_iter().chain(entry(cluster));
        body.sample("argocd_cluster_labels", own.chain(named), 1);
    }
}

/// Labels of Kubernetes under their names in metrics; of two that have one name there the later counts.
fn normalised<V: AsRef<str>>(labels: &[(String, V)]) -> BTreeMap<String, &str> {
    labels.iter().map(|(key, value)| (label_name(key), value.as_ref())).collect()
}

/// The queues, under the names of client-go (CTL-120).
fn queues(body: &mut Body, queues: &[QueueInfo]) {
    fn named(queue: &QueueInfo) -> [(&str, &str); 2] {
        [("controller", queue.controller), ("name", queue.name)]
    }
    body.family("workqueue_depth", "gauge", "Number of keys that wait");
    for queue in queues {
        body.sample("workqueue_depth", named(queue), queue.measures.depth);
    }
    body.family("workqueue_adds", "counter", "Number of keys that began to wait");
    for queue in queues {
        body.sample("workqueue_adds_total", named(queue), queue.measures.counted.adds);
    }
    body.family("workqueue_retries", "counter", "Number of keys that were asked for at a later time");
    for queue in queues {
        body.sample("workqueue_retries_total", named(queue), queue.measures.counted.retries);
    }
    let name = "workqueue_unfinished_work_seconds";
    body.family(name, "gauge", "Seconds that keys have been worked on, of those that are worked on");
    for queue in queues {
        let seconds = queue.measures.unfinished.as_secs_f64();
        body.sample(name, named(queue), format_args!("{seconds:?}"));
    }
    let name = "workqueue_longest_running_processor_seconds";
    body.family(name, "gauge", "Seconds that the key has been worked on for which it is the longest");
    for queue in queues {
        let seconds = queue.measures.longest.as_secs_f64();
        body.sample(name, named(queue), format_args!("{seconds:?}"));
    }
    let mut histogram = |name: &str, help: &str, of: fn(&QueueInfo) -> &Histogram| {
        body.family(name, "histogram", help);
        for queue in queues {
            let seconds = of(queue);
            body.histogram(name, &named(queue), seconds);
        }
    };
    let help = "Seconds that keys waited";
    histogram("workqueue_queue_duration_seconds", help, |queue| &queue.measures.counted.waits);
    let help = "Seconds that keys were worked on";
    histogram("workqueue_work_duration_seconds", help, |queue| &queue.measures.counted.work);
}
