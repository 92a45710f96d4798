//! What the store knows of an application's declared part without reading its object again: what events, metrics and
//! changes of settings ask for. The object itself is a few kilobytes of typed data, which ten thousand applications
//! need not have in memory all the time.

use sha2::{Digest, Sha256};
use smol_str::SmolStr;
use tiphys_api::Application;
use tiphys_api::application::Destination;
use tiphys_api::cluster::ClusterKey;
use tiphys_api::names::is_own_note;

/// The declared part of an application in short.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) project: SmolStr,
    pub(crate) destination: Destination,
    /// URLs of its sources, in their order.
    pub(crate) repositories: Box<[SmolStr]>,
    pub(crate) is_automated: bool,
    pub(crate) is_deleting: bool,
    pub(crate) has_operation: bool,
    /// Equal for the same declaration of the same application.
    digest: [u8; 32],
}

impl Declared {
    /// Reads an application.
    pub(crate) fn of(app: &Application) -> Self {
        Self {
            project: app.project().into(),
            destination: app.spec.destination.clone(),
            repositories: app.sources().iter().map(|source| SmolStr::new(&source.repo_url)).collect(),
            is_automated: app.automated().is_some(),
            is_deleting: app.metadata.deletion_timestamp.is_some(),
            has_operation: app.operation.is_some(),
            digest: digest(app),
        }
    }

    /// Whether a cluster may be the destination: objects of another project's cluster say nothing of the application,
    /// whatever they are marked with. Where a name counts, the round decides.
    pub(crate) fn may_be_on(&self, cluster: &ClusterKey) -> bool {
        let server = self.destination.server.trim_end_matches('/');
        (cluster.project.is_empty() || cluster.project == self.project.as_str())
            && (server.is_empty() || server == cluster.server)
    }

    /// Whether two declare the same: all that users control, of the same application.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.digest == other.digest
    }

    /// Whether an application declares this.
    pub(crate) fn is_of(&self, app: &Application) -> bool {
        self.digest == digest(app)
    }
}

/// How often an application has each type of condition: what metrics tell of its status.
pub(super) fn conditions(app: &Application) -> Box<[(SmolStr, usize)]> {
    let mut counts: Vec<(SmolStr, usize)> = Vec::new();
    for condition in &app.status.conditions {
        match counts.iter_mut().find(|(known, _)| *known == condition.r#type) {
            Some((_, count)) => *count += 1,
            None => counts.push((SmolStr::new(&condition.r#type), 1)),
        }
    }
    counts.into_boxed_slice()
}

fn digest(app: &Application) -> [u8; 32] {
    let metadata = &app.metadata;
    // The controller's own notes are nobody's declaration.
    let annotations = metadata.annotations.iter().filter(|(key, _)| !is_own_note(key));
    let declared = (
        &metadata.uid,
        annotations.collect::<Vec<_>>(),
        &metadata.labels,
        &metadata.finalizers,
        &metadata.deletion_timestamp,
        &app.spec,
        &app.operation,
    );
    // What was read from JSON can be written as JSON. If not, its text as it is shown tells it apart as well.
    let bytes =
        serde_json::to_vec(&declared).unwrap_or_else(|_unwritable| format!("{declared:?}").into_bytes());
    Sha256::digest(&bytes).into()
}
