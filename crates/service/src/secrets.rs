//! The Secrets of the control plane's namespace, as far as they were read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use tiphys_api::application::Metadata;
use tiphys_api::cluster::Cluster;
use tiphys_api::names::SECRET_TYPE_LABEL;
use tiphys_api::repository::{CredentialTemplate, Repository, SecretKind};
use tiphys_installation::objects;
use tiphys_object::Object;

/// Type of the Secrets that declare clusters (REP A1).
pub(crate) const CLUSTER: &str = "cluster";

/// Secrets by name: those that carry the label of a kind, and those that a name was found to be taken by. Decisions
/// are made on it; the shell keeps it up to date with what it learns.
#[derive(Clone, Default)]
pub struct Secrets {
    namespace: String,
    by_name: BTreeMap<String, Arc<Object>>,
    touched: BTreeSet<String>,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Secrets {
    /// Takes the Secrets of a namespace.
    pub fn new(namespace: &str, objects: impl IntoIterator<Item = Arc<Object>>) -> Self {
        let by_name = objects.into_iter().map(|object| (object.name().to_owned(), object)).collect();
        Self { namespace: namespace.to_owned(), by_name, touched: BTreeSet::new() }
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The Secret of a name.
    pub fn get(&self, name: &str) -> Option<&Arc<Object>> {
        self.by_name.get(name)
    }

    /// Remembers what a Secret is now; `None` when it is gone.
    pub fn put(&mut self, name: &str, object: Option<Arc<Object>>) {
        self.touched.insert(name.to_owned());
        match object {
            Some(object) => drop(self.by_name.insert(name.to_owned(), object)),
            None => drop(self.by_name.remove(name)),
        }
    }

    /// The Secrets that were told since, as they are; `None` for those that are gone.
    pub fn touched(&self) -> impl Iterator<Item = (&str, Option<&Arc<Object>>)> {
        self.touched.iter().map(|name| (name.as_str(), self.by_name.get(name)))
    }

    /// Repositories of a kind, by the name of their Secret.
    pub fn repositories(&self, kind: SecretKind) -> Vec<Repository> {
        self.read(kind, |metadata, object| Repository::from_secret(metadata, &objects::decoded(object)))
    }

    /// Credential templates of a kind, by the name of their Secret.
    pub fn templates(&self, kind: SecretKind) -> Vec<CredentialTemplate> {
        self.read(kind, |metadata, object| {
            CredentialTemplate::from_secret(metadata, &objects::decoded(object))
        })
    }

    /// Clusters that a Secret declares, by the name of the Secret.
    pub fn clusters(&self) -> Vec<Cluster> {
        self.of_type(CLUSTER, |metadata, object| Cluster::from_secret(metadata, &objects::decoded(object)))
    }

    fn read<T>(&self, kind: SecretKind, read: impl Fn(&Metadata, &Object) -> T) -> Vec<T> {
        self.of_type(kind.secret_type(), read)
    }

    fn of_type<T>(&self, secret_type: &str, read: impl Fn(&Metadata, &Object) -> T) -> Vec<T> {
        let of_kind = |object: &&Arc<Object>| object.label(SECRET_TYPE_LABEL) == Some(secret_type);
        let labelled = self.by_name.values().filter(of_kind);
        // One whose metadata is no metadata cannot have been listed.
        labelled.filter_map(|object| Some(read(&objects::metadata(object).ok()?, object))).collect()
    }
}
