//! Clusters: what a call would change, and what it shows (REP part B).
//!
//! Pure functions over the Secrets as they were read; effects are in [`Clusters`]. What makes a cluster reachable
//! (accounts, roles and tokens inside it) is [`access`].

pub mod access;
mod message;
mod shell;
#[cfg(test)]
mod tests;
mod view;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tiphys_api::cluster::Cluster;
use tiphys_api::names::{IN_CLUSTER_SERVER, LAST_APPLIED, SECRET_TYPE_LABEL, annotation};
use tiphys_api::repository::{NameError, cluster_secret_name};
use tiphys_api::secret::Secret;
use tiphys_api::{printable, repo_url};
use tiphys_installation::objects;
use tiphys_object::{Object, TextMap};

use crate::change::Change;
use crate::error::Code;
use crate::managed::{self, SecretError};
use crate::planned::Planned;
use crate::secrets::{CLUSTER, Secrets};

pub use message::Message;
pub use shell::{Clusters, Create, ask};
pub use view::{Answer, State, Watched, shown};

/// Bytes of the `config` of a cluster.
const CONFIG_BYTES_MAX: usize = 256 << 10;
/// Bytes of any other value.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Why a call about a cluster fails. No text has credentials in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterCallError {
    /// The server is no URL (REP-100).
    #[error(transparent)]
    Server(#[from] NameError),
    /// The local cluster is switched off (REP-110).
    #[error("cannot register cluster: in-cluster has been disabled")]
    InClusterDisabled,
    /// An annotation that belongs to `kubectl` (REP-101).
    #[error("annotation {LAST_APPLIED} cannot be set")]
    LastApplied,
    /// It exists with other content (REP-113).
    #[error(
        "existing cluster spec is different; use upsert flag to force update; difference in keys \"{}\"", .0.join(",")
    )]
    Different(Vec<&'static str>),
    /// Several projects have one, and the shared scope has none.
    #[error("several projects have such a cluster: {}; name one as <project>/<server>", .0.join(", "))]
    Ambiguous(Vec<String>),
    /// The project it is to be moved to has one already.
    #[error("project {0:?} has a cluster with this server already")]
    Taken(String),
    /// Its server is no address of an API server.
    #[error("cluster server {0:?} is no URL of an API server: it begins with https:// or http://")]
    NoUrl(String),
    /// There is none, or the caller may not know (REP-112).
    #[error("permission denied")]
    Denied,
    /// A value has a control character.
    #[error("field {0:?} has a line break or another control character, remove it")]
    Control(&'static str),
    /// A value is too long.
    #[error("field {field:?} has {bytes} bytes, at most {bytes_max} are stored")]
    TooLong {
        /// Which.
        field: &'static str,
        /// Its length.
        bytes: usize,
        /// The bound.
        bytes_max: usize,
    },
    /// A label or annotation is not what Kubernetes takes; the text says which.
    #[error("{0}")]
    Label(String),
    /// The Secret cannot be written.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// `config` cannot be used.
    #[error(transparent)]
    Config(#[from] tiphys_api::cluster::ClusterError),
    /// Its credentials are no token (REP-114).
    #[error("Cluster '{0}' does not use bearer token authentication")]
    NoBearerToken(String),
    /// The token is not one of a service account.
    #[error("the bearer token of cluster '{0}' names no service account, so it cannot be rotated")]
    ForeignToken(String),
    /// It does not answer, or not as it should.
    #[error("{0}")]
    Connection(String),
}

impl ClusterCallError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::Denied => Code::PermissionDenied,
            Self::Secret(error) => error.code(),
            Self::Connection(_) | Self::Config(_) => Code::FailedPrecondition,
            _ => Code::InvalidArgument,
        }
    }
}

/// Which clusters a call means (REP-112).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector<'a> {
    /// The one with this server; behind a project and a `/` the project's entry of it.
    Server(&'a str),
    /// All with this name.
    Name(&'a str),
}

impl<'a> Selector<'a> {
    /// What an operand of the command line means: a URL is a server, everything else a name (CLI-813).
    pub fn parse(text: &'a str) -> Self {
        let (_, server) = in_project(text);
        if server.starts_with("https://") || server.starts_with("http://") {
            Self::Server(text)
        } else {
            Self::Name(text)
        }
    }

    fn means(self, cluster: &Cluster) -> bool {
        match self {
            Self::Server(text) => {
                let (project, server) = in_project(text);
                let is_of = |project: &str| cluster.project == project;
                cluster.server == server.trim_end_matches('/') && project.is_none_or(is_of)
            }
            Self::Name(name) => cluster.name == name,
        }
    }

    /// The clusters that are meant, all of one scope: the shared one, where several have some.
    fn among(self, all: Vec<Cluster>) -> Result<Vec<Cluster>, ClusterCallError> {
        let mut found: Vec<Cluster> = all.into_iter().filter(|cluster| self.means(cluster)).collect();
        let mut projects: Vec<String> = found.iter().map(|cluster| cluster.project.clone()).collect();
        projects.sort();
        projects.dedup();
        match projects.as_slice() {
            [] => Err(ClusterCallError::Denied),
            [_] => Ok(found),
            [first, ..] if first.is_empty() => {
                found.retain(|cluster| cluster.project.is_empty());
                Ok(found)
            }
            _ => Err(ClusterCallError::Ambiguous(projects)),
        }
    }
}

/// The project and the server of `<project>/<server>`; no project where none is written.
fn in_project(text: &str) -> (Option<&str>, &str) {
    let scheme = text.find("://").unwrap_or_default();
    match text.get(..scheme).and_then(|before| before.split_once('/')) {
        Some((project, _)) => (Some(project), text.get(project.len() + 1..).unwrap_or_default()),
        None => (None, text),
    }
}

/// Members that an update may change (REP-114); those that are absent stay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// Name.
    pub name: Option<String>,
    /// Namespaces; none means all.
    pub namespaces: Option<Vec<String>>,
    /// Whether cluster-scoped resources are managed in namespaced mode.
    pub cluster_resources: Option<bool>,
    /// Shard; `Some(None)` takes it away.
    pub shard: Option<Option<i64>>,
    /// Project.
    pub project: Option<String>,
    /// Labels, all of them.
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations, all of them.
    pub annotations: Option<BTreeMap<String, String>>,
    /// `config`.
    pub config: Option<Secret<String>>,
}

impl Update {
    /// The cluster after the update.
    pub fn apply(&self, stored: &Cluster) -> Cluster {
        fn set<T: Clone>(field: &mut T, value: Option<&T>) {
            if let Some(value) = value {
                field.clone_from(value);
            }
        }
        let mut wanted = stored.clone();
        set(&mut wanted.name, self.name.as_ref());
        set(&mut wanted.namespaces, self.namespaces.as_ref());
        set(&mut wanted.cluster_resources, self.cluster_resources.as_ref());
        set(&mut wanted.shard, self.shard.as_ref());
        set(&mut wanted.project, self.project.as_ref());
        set(&mut wanted.labels, self.labels.as_ref());
        set(&mut wanted.annotations, self.annotations.as_ref());
        set(&mut wanted.config, self.config.as_ref());
        wanted
    }
}

/// Whether a cluster may be stored.
///
/// # Errors
/// With the first thing that is wrong with it.
pub fn check(wanted: &Cluster) -> Result<(), ClusterCallError> {
    let namespaces = wanted.namespaces.join(",");
    let texts = [
        ("server", &wanted.server),
        ("name", &wanted.name),
        ("project", &wanted.project),
        ("namespaces", &namespaces),
    ];
    for (field, text) in texts {
        if text.len() > TEXT_BYTES_MAX {
            return Err(ClusterCallError::TooLong { field, bytes: text.len(), bytes_max: TEXT_BYTES_MAX });
        }
        if *printable::line(text) != **text {
            return Err(ClusterCallError::Control(field));
        }
    }
    let bytes = wanted.config.expose().len();
    if bytes > CONFIG_BYTES_MAX {
        return Err(ClusterCallError::TooLong { field: "config", bytes, bytes_max: CONFIG_BYTES_MAX });
    }
    if wanted.annotations.contains_key(LAST_APPLIED) {
        return Err(ClusterCallError::LastApplied);
    }
    if wanted.labels.contains_key(SECRET_TYPE_LABEL) {
        return Err(ClusterCallError::Label(format!("label {SECRET_TYPE_LABEL} cannot be set")));
    }
    wanted.parse_config()?;
    cluster_secret_name(&wanted.server)?;
    managed::check_project(&wanted.project)?;
    let is_url = ["https://", "http://"].iter().any(|scheme| wanted.server.starts_with(scheme));
    if is_url { Ok(()) } else { Err(ClusterCallError::NoUrl(repo_url::redact(&wanted.server))) }
}

/// What creating a cluster changes (REP-113): nothing when it exists as wanted, the existing one with `upsert`.
///
/// # Errors
/// When it exists and is different, or may not be stored.
pub fn plan_create(
    secrets: &Secrets,
    wanted: &Cluster,
    upsert: bool,
    in_cluster_enabled: bool,
) -> Result<Planned, ClusterCallError> {
    check(wanted)?;
    if wanted.server == IN_CLUSTER_SERVER && !in_cluster_enabled {
        return Err(ClusterCallError::InClusterDisabled);
    }
    let stored = secrets.clusters();
    // The same server in another project is another cluster (A2).
    let Some(existing) = stored.iter().find(|stored| stored.key() == wanted.key()) else {
        let name = managed::free_name(secrets, &cluster_secret_name(&wanted.server)?)?;
        let data = data_of(wanted)
            .into_iter()
            .filter_map(|(key, text)| Some((key.to_owned(), managed::encoded(&text?))));
        let mut sealed = managed::manifest(secrets.namespace(), &name, CLUSTER, &data.collect()).into_inner();
        let metadata = tiphys_object::access::metadata_mut(&mut sealed);
        for (member, map) in [("labels", &wanted.labels), ("annotations", &wanted.annotations)] {
            let members = tiphys_object::access::member_object_mut(metadata, member);
            members.extend(map.iter().map(|(key, text)| (key.clone(), json!(text))));
        }
        return Ok(Planned::created(wanted, Change::Create(crate::Sealed::new(sealed))));
    };
    let differing = differing_keys(existing, wanted);
    if differing.is_empty() {
        return Ok(Planned::created(wanted, Change::Keep));
    }
    if !upsert {
        return Err(ClusterCallError::Different(differing));
    }
    Ok(Planned::updated(existing, wanted, store(secrets, existing, wanted)))
}

/// What updating a cluster changes (REP-114). One without a Secret cannot be updated.
///
/// # Errors
/// When there is none, or it may not be stored.
pub fn plan_update(
    secrets: &Secrets,
    secret_name: &str,
    update: &Update,
) -> Result<Planned, ClusterCallError> {
    let stored = secrets.clusters();
    let existing =
        stored.iter().find(|stored| stored.secret_name == secret_name).ok_or(ClusterCallError::Denied)?;
    let wanted = update.apply(existing);
    check(&wanted)?;
    let is_moved = wanted.key() != existing.key();
    if is_moved && stored.iter().any(|other| other.key() == wanted.key()) {
        return Err(ClusterCallError::Taken(wanted.project));
    }
    Ok(Planned::updated(existing, &wanted, store(secrets, existing, &wanted)))
}

/// What deleting a cluster changes: its Secret goes, or loses its label (REP-3).
///
/// # Errors
/// When there is none.
pub fn plan_delete(secrets: &Secrets, secret_name: &str) -> Result<Planned, ClusterCallError> {
    let stored = secrets.clusters();
    let existing = stored.iter().find(|stored| stored.secret_name == secret_name);
    let found = existing.zip(secrets.get(secret_name));
    let (existing, object) = found.ok_or(ClusterCallError::Denied)?;
    Ok(Planned::deleted(existing, managed::delete(object)))
}

/// The keys of the Secret (REP B1); an absent text is a key that is not there.
fn data_of(cluster: &Cluster) -> [(&'static str, Option<String>); 7] {
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    // An API that stored no name would store the server as one.
    let name = if cluster.name.is_empty() { &cluster.server } else { &cluster.name };
    [
        ("server", Some(cluster.server.clone())),
        ("name", Some(name.clone())),
        ("config", Some(cluster.config.expose().clone())),
        ("namespaces", some(cluster.namespaces.join(","))),
        ("clusterResources", cluster.cluster_resources.then(|| "true".to_owned())),
        ("shard", cluster.shard.map(|shard| shard.to_string())),
        ("project", some(cluster.project.clone())),
    ]
}

/// Keys in which a stored cluster is not the wanted one; the project does not count (REP-113).
fn differing_keys(stored: &Cluster, wanted: &Cluster) -> Vec<&'static str> {
    let name = |cluster: &Cluster| {
        if cluster.name.is_empty() { cluster.server.clone() } else { cluster.name.clone() }
    };
    let config = |cluster: &Cluster| cluster.parse_config().ok();
    let is_same_config = config(stored).is_some() && config(stored) == config(wanted);
    [
        ("annotations", stored.annotations != wanted.annotations),
        ("clusterResources", stored.cluster_resources != wanted.cluster_resources),
        ("config", !is_same_config),
        ("labels", stored.labels != wanted.labels),
        ("name", name(stored) != name(wanted)),
        ("namespaces", stored.namespaces != wanted.namespaces),
        ("shard", stored.shard != wanted.shard),
    ]
    .into_iter()
    .filter_map(|(key, differs)| differs.then_some(key))
    .collect()
}

/// Rewrites our keys, labels and annotations. Deviation (REP-102): keys that nobody knows stay, and so do what says who
/// manages the Secret and what `kubectl` remembers.
fn store(secrets: &Secrets, existing: &Cluster, wanted: &Cluster) -> Change {
    let Some(object) = secrets.get(&existing.secret_name) else { return Change::Keep };
    let (present, texts) = (objects::texts(object), objects::decoded(object));
    let mut data = Map::new();
    for (key, text) in data_of(wanted) {
        let value = match text {
            Some(text) if texts.get(key) != Some(&text) => managed::encoded(&text),
            None if present.contains_key(key) => Value::Null,
            Some(_) | None => continue,
        };
        data.insert(key.to_owned(), value);
    }
    let mut metadata = Map::new();
    let kept = [SECRET_TYPE_LABEL, annotation::MANAGED_BY, LAST_APPLIED];
    for (member, wanted) in [("labels", &wanted.labels), ("annotations", &wanted.annotations)] {
        let changes = map_changes(stored_map(object, member), wanted, &kept);
        if !changes.is_empty() {
            metadata.insert(member.to_owned(), changes.into());
        }
    }
    let mut patch = Map::new();
    for (member, changes) in [("data", data), ("metadata", metadata)] {
        if !changes.is_empty() {
            patch.insert(member.to_owned(), changes.into());
        }
    }
    if patch.is_empty() { Change::Keep } else { managed::patch(object, patch.into()) }
}

fn stored_map<'a>(object: &'a Object, member: &str) -> &'a TextMap {
    let metadata = object.metadata();
    if member == "labels" { &metadata.labels } else { &metadata.annotations }
}

/// The merge patch that makes one map the other, except the keys that are not ours to change.
fn map_changes(stored: &TextMap, wanted: &BTreeMap<String, String>, kept: &[&str]) -> Map<String, Value> {
    let mut changes = Map::new();
    for (key, text) in wanted {
        if stored.get(key).is_some_and(|known| known == text) {
            continue;
        }
        changes.insert(key.clone(), json!(text));
    }
    let is_left = |key: &str| !wanted.contains_key(key) && !kept.contains(&key);
    for (key, _) in stored.iter().filter(|(key, _)| is_left(key)) {
        changes.insert(key.to_string(), Value::Null);
    }
    changes
}
