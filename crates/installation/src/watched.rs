//! What the watches of an installation's objects do to what is known of it: one answer for every role.

use std::sync::Arc;

use tiphys_api::names;
use tiphys_object::{Gvk, Metadata, Object};

use crate::{InstallationData, objects};

/// `ConfigMaps` whose content takes effect while the process runs.
const SETTINGS_MAPS: [&str; 6] = [
    names::SETTINGS_CONFIG_MAP,
    names::PARAMS_CONFIG_MAP,
    names::RBAC_CONFIG_MAP,
    names::TLS_CERTS_CONFIG_MAP,
    names::KNOWN_HOSTS_CONFIG_MAP,
    names::GPG_KEYS_CONFIG_MAP,
];

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
    /// Settings that are deleted, lose their label or become unreadable do not fall back to defaults, which would drop
    /// impersonation, denied rights and pinned certificates, and could claim objects of another installation (law 2,
    /// API-89): their last content stays in effect and the snapshot reports it, until the object returns or the process
    /// restarts. A project that cannot be read permits nothing, and a Secret that never could may be a cluster's
    /// (INV-15).
    pub fn apply(&mut self, kind: DataKind, event: DataEvent) -> DataChange {
        match event {
            DataEvent::Upsert(object) if is_selected(kind, &object) => {
                let is_repaired = self.repaired(kind, object.name());
                let is_change = self.take(object);
                DataChange::of(is_change || is_repaired)
            }
            DataEvent::Upsert(object) => self.unlabelled(kind, object.name()),
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
            DataKind::ConfigMap | DataKind::Secret => {
                let why = format!("cannot be read: {reason}");
                self.impaired(kind, &name, &why)
            }
        }
    }

    /// A `ConfigMap` without the label that makes it count.
    fn unlabelled(&mut self, kind: DataKind, name: &str) -> DataChange {
        if !is_settings(kind, name) {
            return DataChange::of(self.config_maps.remove(name).is_some());
        }
        let why = format!("does not have the label {}={}", names::PART_OF_LABEL, names::PART_OF);
        self.impaired(kind, name, &why)
    }

    /// Reports settings that cannot be followed, once for each reason.
    fn impaired(&mut self, kind: DataKind, name: &str, why: &str) -> DataChange {
        let effect = match self.known(kind, name) {
            Some(_) => "its last content stays in effect until it is fixed or the process restarts",
            None => "it is ignored, and the defaults are in effect",
        };
        let text = format!("{} {name} {why}; {effect}", kind.gvk().kind);
        if !is_settings(kind, name) {
            return DataChange::with(false, text);
        }
        if self.settings_problems.get(name) == Some(&text) {
            return DataChange::default();
        }
        self.settings_problems.insert(name.to_owned(), text.clone());
        DataChange::with(true, text)
    }

    fn repaired(&mut self, kind: DataKind, name: &str) -> bool {
        is_settings(kind, name) && self.settings_problems.remove(name).is_some()
    }

    fn delete(&mut self, kind: DataKind, name: &str) -> DataChange {
        match kind {
            _ if is_settings(kind, name) => self.kept(kind, name),
            DataKind::ConfigMap => DataChange::of(self.config_maps.remove(name).is_some()),
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

    /// Settings that were deleted. A watch that selects by label reports a lost label in the same way.
    fn kept(&mut self, kind: DataKind, name: &str) -> DataChange {
        if self.known(kind, name).is_none() {
            let was_bad = self.bad_secrets.remove(name).is_some();
            return DataChange::of(self.repaired(kind, name) || was_bad);
        }
        let why = match kind {
            DataKind::ConfigMap => "was deleted or lost its label",
            DataKind::Secret | DataKind::Project => "was deleted",
        };
        self.impaired(kind, name, why)
    }
}

/// Whether this object's last content outlives it.
fn is_settings(kind: DataKind, name: &str) -> bool {
    match kind {
        DataKind::ConfigMap => SETTINGS_MAPS.contains(&name),
        DataKind::Secret => name == names::SECRET,
        DataKind::Project => false,
    }
}

/// Whether the settings are read from an object. The policy needs no label (API-89, API-228).
fn is_selected(kind: DataKind, object: &Object) -> bool {
    !matches!(kind, DataKind::ConfigMap)
        || object.name() == names::RBAC_CONFIG_MAP
        || object.label(names::PART_OF_LABEL) == Some(names::PART_OF)
}
