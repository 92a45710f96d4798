//! What a scrape shows that nobody counts: what is, at that time.

use std::collections::BTreeMap;
use std::time::Duration;

use smol_str::SmolStr;
use tiphys_object::GroupKind;

use crate::memory::MarkedObjects;
use crate::queue::Measures;

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
    /// Labels that the settings want to see, with their values (CTL-120).
    pub(crate) labels: Vec<(String, SmolStr)>,
    /// How often it has each of the conditions that the settings want to see (CTL-120).
    pub(crate) conditions: Vec<(SmolStr, usize)>,
}

/// One line of the cluster gauges.
#[derive(Clone, Debug, Default)]
pub struct ClusterInfo {
    /// API server URL.
    pub server: String,
    /// Project that the entry belongs to; empty for the shared scope.
    pub project: String,
    /// Name of the cluster.
    pub name: String,
    /// Kubernetes version.
    pub version: String,
    /// Watched kinds.
    pub kinds: usize,
    /// Known objects.
    pub objects: usize,
    /// Events of the watches of each kind, of those that had any.
    pub events: Vec<(GroupKind, u64)>,
    /// Age of the oldest list of a watched kind; `None` before the first.
    pub age: Option<Duration>,
    /// Objects that exist and cannot be read.
    pub unreadable: usize,
    /// Whether every kind could be listed.
    pub connected: bool,
    /// Labels that the settings want to see, with their values (CTL-120).
    pub labels: Vec<(String, String)>,
}

/// A queue, with the labels that it has always had.
#[derive(Clone, Debug)]
pub(crate) struct QueueInfo {
    /// What its keys are.
    pub(crate) controller: &'static str,
    /// Its name.
    pub(crate) name: &'static str,
    /// How it does.
    pub(crate) measures: Measures,
}

/// What is, at the time of a scrape.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// All applications.
    pub apps: &'a [AppInfo],
    /// Whether the settings want to see conditions of applications.
    pub shows_conditions: bool,
    /// The sets that are worked on.
    pub sets: &'a [SetInfo],
    /// The clusters in use.
    pub clusters: &'a [ClusterInfo],
    /// The queues.
    pub(crate) queues: &'a [QueueInfo],
    /// Repositories and templates that several Secrets declare (REP-21).
    pub duplicate_credentials: usize,
    /// Settings objects that cannot be followed any more, by name (API-89).
    pub settings_problems: &'a BTreeMap<String, String>,
    /// Families of others of the process, as text.
    pub others: &'a str,
}
