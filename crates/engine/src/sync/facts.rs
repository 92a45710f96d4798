//! What a pass knows before it starts, and what it may ask while it runs.

use std::sync::Arc;

use jiff::Timestamp;
use smol_str::SmolStr;
use tiphys_api::application::{NamespaceMetadata, ResourceResult, SyncOperation};
use tiphys_object::{Gvk, Object};

use crate::compare::SharedResource;
use crate::health::{Health, HealthError};

/// Everything known at the start of a pass, taken at one instant.
#[derive(Clone, Debug, Default)]
pub struct SyncFacts {
    /// The operation's sync block; its options are the application's options (ENG-175).
    pub operation: SyncOperation,
    /// The resolved revision (ENG-149).
    pub revision: String,
    /// When this attempt of the operation started.
    pub started_at: Timestamp,
    /// Retries so far; part of the mark on hooks (INV-9).
    pub attempt: i64,
    /// Namespace of the destination; empty when none is configured.
    pub destination_namespace: SmolStr,
    /// `spec.syncPolicy.managedNamespaceMetadata` (ENG-157).
    pub managed_namespace_metadata: Option<NamespaceMetadata>,
    /// The Application's `deletion-approved` annotation, when it is a time (ENG-173).
    pub deletion_approved: Option<Timestamp>,
    /// The Application's `client-side-apply-migration-manager` annotation (ENG-178).
    pub migration_manager: Option<SmolStr>,
    /// Objects that other applications claim, as compared (ENG-182).
    pub shared: Vec<SharedResource>,
    /// All pairs of the comparison, live-only ones and live hooks included.
    pub resources: Vec<SyncPair>,
    /// Targets that are hooks, namespaces already defaulted (ENG-41). Their live objects are found in
    /// `resources`.
    pub hooks: Vec<Arc<Object>>,
    /// Results recorded by earlier passes of this attempt.
    pub results: Vec<ResourceResult>,
    /// Whether the operation is to be ended instead of continued (ENG-187).
    pub terminate: bool,
}

/// One target and its live object, as compared.
#[derive(Clone, Debug, Default)]
pub struct SyncPair {
    /// Desired manifest, namespace already defaulted (ENG-41).
    pub target: Option<Arc<Object>>,
    /// Live object.
    pub live: Option<Arc<Object>>,
    /// Whether the comparison found a difference.
    pub modified: bool,
    /// Whether the live object's tracking data is about itself (ENG-38).
    pub self_referenced: bool,
}

/// Answer of discovery about one kind (ENG-158).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Served {
    /// The kind is served.
    Yes {
        /// Whether its objects live in namespaces.
        namespaced: bool,
    },
    /// The kind is not served.
    No,
    /// Discovery failed with this text.
    Error(String),
}

/// Facts about the cluster and the project that a pass asks for, one object at a time.
pub trait Cluster {
    /// Whether a kind is served.
    fn served(&self, gvk: &Gvk) -> Served;

    /// Whether the project permits this object at this destination; the error is the text of the refusal.
    ///
    /// # Errors
    /// When it does not.
    fn permitted(&self, object: &Object, namespaced: bool) -> Result<(), String>;

    /// Health of a live object; `None` when its kind has none.
    ///
    /// # Errors
    /// When the rule of its kind failed.
    fn health(&self, object: &Object) -> Result<Option<Health>, HealthError>;
}

impl<C: Cluster + ?Sized> Cluster for &C {
    fn served(&self, gvk: &Gvk) -> Served {
        (**self).served(gvk)
    }

    fn permitted(&self, object: &Object, namespaced: bool) -> Result<(), String> {
        (**self).permitted(object, namespaced)
    }

    fn health(&self, object: &Object) -> Result<Option<Health>, HealthError> {
        (**self).health(object)
    }
}

impl<C: Cluster + ?Sized> Cluster for Arc<C> {
    fn served(&self, gvk: &Gvk) -> Served {
        (**self).served(gvk)
    }

    fn permitted(&self, object: &Object, namespaced: bool) -> Result<(), String> {
        (**self).permitted(object, namespaced)
    }

    fn health(&self, object: &Object) -> Result<Option<Health>, HealthError> {
        (**self).health(object)
    }
}
