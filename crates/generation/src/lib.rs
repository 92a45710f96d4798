//! Runs the generators of `ApplicationSet`s for whoever asks: the controller, and the command line in core mode.
//!
//! What a generation is, is decided in `tiphys-appset`; its questions are answered here, from repositories, plugins,
//! providers and the control plane:
//!
//! ```text
//! Inputs::converse ──▶ generate ──▶ Stop::Pending ──▶ open questions ──▶ Answerer ──▶ Ledger ──▶ generate …
//! ```
//!
//! A question that cannot be answered completely is an error with a text, never an empty list (INV-8).

mod answer;
#[cfg(test)]
mod fixtures;
mod inputs;
mod ledger;
mod listings;
mod providers;
mod references;
pub mod services;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use tiphys_cluster::{Connection, Discovery, Jitter, ObjectQuery};
use tiphys_installation::Installation;
use tiphys_object::Object;
use tiphys_source::{Compute, Sources};
use tokio_util::sync::CancellationToken;

pub use answer::FromHome;
pub use inputs::{Chance, Inputs, Subject};
pub use ledger::{Ledger, Remembered};
use listings::Listings;
pub use providers::ScmProviders;
use services::{References, Services};

/// One snapshot of an installation, and whatever its owner keeps with it.
pub type World = Arc<dyn Deref<Target = Installation> + Send + Sync>;

/// Everything outside of a generation that its questions are answered from.
#[derive(Clone)]
pub struct Outside {
    /// Services that generators name.
    pub services: Services,
    /// Secrets and `ConfigMaps` that generators name.
    pub objects: Arc<dyn References>,
    /// Is told about questions to GitHub, where the settings want that (ASET-311).
    pub observer: Option<Arc<dyn tiphys_scm::Observer>>,
    /// Our environment: a token for GitHub, and who we are at AWS (ASET-58).
    pub environment: Arc<BTreeMap<String, String>>,
    /// Repositories.
    pub sources: Sources,
    /// Namespace Tiphys runs in.
    pub namespace: String,
    /// Where computations run.
    pub compute: Compute,
    /// The control plane's cluster.
    pub connection: Connection,
    /// Its kinds.
    pub discovery: Discovery,
    /// Spreads waits.
    pub jitter: Jitter,
    /// Ends what may end at any time.
    pub cancel: CancellationToken,
}

/// Answers questions of generations. Cloning gives another handle to the same.
#[derive(Clone)]
pub struct Answerer {
    outside: Outside,
    listings: Listings,
}

impl Deref for Answerer {
    type Target = Outside;

    fn deref(&self) -> &Outside {
        &self.outside
    }
}

impl Answerer {
    /// Answers from these.
    pub fn new(outside: Outside) -> Self {
        Self { outside, listings: Listings::default() }
    }

    /// All objects of a query, as they are now, at most `max`.
    ///
    /// # Errors
    /// When they are not all known, or one of them cannot be read.
    pub async fn list(&self, query: ObjectQuery, max: usize) -> Result<Vec<Arc<Object>>, String> {
        answer::list(self, query, max).await
    }
}
