//! What the watches of an installation's objects do to what is known of it: one answer for every role.

use std::sync::Arc;

use tiphys_api::names;
use tiphys_object::{Gvk, Metadata, Object};

use crate::{InstallationData, objects};

/// A kind of objects that an installation is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataKind {
    /// `ConfigMaps` with settings.
    ConfigMap,
    /// Secrets with settings, repositories and clusters.
    Secret,
    /// `AppProjects`.
    Project,
}

impl DataKind {
    /// All of them, in the order in which their first lists are taken.
    pub const ALL: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::Project];

    /// The kind in the cluster.
    #[must_use]
    pub fn gvk(self) -> Gvk {
        match self {
            Self::ConfigMap => Gvk::new("", "v1", "ConfigMap"),
            Self::Secret => Gvk::new("", "v1", "Secret"),
            Self::Project => Gvk::new(names::GROUP, names::VERSION, "AppProject"),
        }
    }
}

/// What a watch says of one object.
#[derive(Clone, Debug)]
pub enum DataEvent {
    /// It is there, like this.
    Upsert(Arc<Object>),
    /// It is there and cannot be read.
    Unreadable {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
        /// What was sent, in which more may be seen.
        text: Vec<u8>,
    },
    /// It is gone, or no longer selected.
    Delete {
        /// Its name.
        name: String,
    },
}

impl DataEvent {
    /// The name of the object.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Upsert(object) => object.name(),
            Self::Unreadable { name, .. } | Self::Delete { name } => name,
        }
    }
}

/// What an event came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DataChange {
    /// Whether another snapshot is due.
    pub is_change: bool,
    /// What the operator has to know, in one sentence.
    pub problem: Option<String>,
}

impl DataChange {
    fn of(is_change: bool) -> Self {
        Self { is_change, problem: None }
    }

    fn with(is_change: bool, problem: String) -> Self {
        Self { is_change, problem: Some(problem) }
    }
}

impl InstallationData {
    /// Takes an event.
    ///
    /// Settings that vanish, lose their label or cannot be read any more do not fall back to defaults: another
    /// installation's objects could become ours (law 2). What only ever adds trust or rights goes with its object: the
    /// policy of roles (API-89), certificates, known hosts and keys (REP-80..82). A project that cannot be read permits
    /// nothing, and a Secret that never could may be a cluster's (INV-15).
    pub fn apply(&mut self, kind: DataKind, event: DataEvent) -> DataChange {
        match event {
            DataEvent::Upsert(object) => DataChange::of(is_selected(kind, &object) && self.take(object)),
            DataEvent::Unreadable { name, reason, text } => self.unreadable(kind, name, reason, &text),
            DataEvent::Delete { name } => self.delete(kind, &name),
        }
    }

    /// What is known of an object: what a watch showed, or the answer to a write of our own.
    #[must_use]
    pub fn known(&self, kind: DataKind, name: &str) -> Option<&Metadata> {
        let known = match kind {
            DataKind::ConfigMap => &self.config_maps,
            DataKind::Secret => &self.secrets,
            DataKind::Project => &self.projects,
        };
        known.get(name).map(|object| object.metadata())
    }

    fn unreadable(&mut self, kind: DataKind, name: String, reason: String, sent: &[u8]) -> DataChange {
        let is_known = self.known(kind, &name).is_some();
        match kind {
            DataKind::Project => {
                let text =
                    format!("AppProject {name} cannot be read: {reason}; its applications are not worked on");
                self.projects.remove(&name);
                self.bad_projects.insert(name, reason);
                DataChange::with(true, text)
            }
            DataKind::Secret if !is_known => {
                let Some(unread) = objects::unread_cluster(&name, sent, reason.clone()) else {
                    let text = format!("Secret {name} cannot be read: {reason}; it is no cluster's");
                    return DataChange::with(self.bad_secrets.remove(&name).is_some(), text);
                };
                let text = format!("Secret {name} cannot be read: {reason}; it is or may be a cluster's");
                let is_change = self.bad_secrets.get(&name) != Some(&unread);
                self.bad_secrets.insert(name, unread);
                DataChange::with(is_change, text)
            }
            DataKind::ConfigMap | DataKind::Secret => DataChange::with(
                false,
                format!(
                    "{} {name} cannot be read: {reason}; its last content stays in force",
                    kind.gvk().kind
                ),
            ),
        }
    }

    fn delete(&mut self, kind: DataKind, name: &str) -> DataChange {
        match kind {
            DataKind::ConfigMap if is_given_up(name) => {
                let is_change = self.config_maps.remove(name).is_some();
                let text = format!("ConfigMap {name} is gone, and with it what it allowed");
                DataChange { is_change, problem: is_change.then_some(text) }
            }
            DataKind::ConfigMap => self.kept(kind, name),
            DataKind::Secret if name == names::SECRET => self.kept(kind, name),
            DataKind::Secret => {
                let was_bad = self.bad_secrets.remove(name).is_some();
                DataChange::of(self.secrets.remove(name).is_some() || was_bad)
            }
            DataKind::Project => {
                let was_bad = self.bad_projects.remove(name).is_some();
                DataChange::of(self.projects.remove(name).is_some() || was_bad)
            }
        }
    }

    fn kept(&self, kind: DataKind, name: &str) -> DataChange {
        let text = || format!("{} {name} is gone; its last content stays in force", kind.gvk().kind);
        DataChange { is_change: false, problem: self.known(kind, name).map(|_| text()) }
    }
}

/// Whether an object is one of the installation's settings. The policy needs no label (API-89, API-228).
fn is_selected(kind: DataKind, object: &Object) -> bool {
    !matches!(kind, DataKind::ConfigMap)
        || object.name() == names::RBAC_CONFIG_MAP
        || object.label(names::PART_OF_LABEL) == Some(names::PART_OF)
}

/// Whether what a `ConfigMap` allows ends with it.
fn is_given_up(name: &str) -> bool {
    let given_up = [
        names::RBAC_CONFIG_MAP,
        names::TLS_CERTS_CONFIG_MAP,
        names::KNOWN_HOSTS_CONFIG_MAP,
        names::GPG_KEYS_CONFIG_MAP,
    ];
    given_up.contains(&name)
}
