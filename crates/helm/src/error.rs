//! Why a chart is not rendered.

use crate::cache::CrdError;
use crate::capabilities::KubeVersionError;
use crate::chart::ChartError;
use crate::dependencies::{MissingCharts, PartsError};
use crate::output::OutputError;
use crate::release::ReleaseNameError;
use crate::user_values::UserValuesError;
use crate::values::ValuesError;

/// Why a chart is not rendered. Printing gives the text that users see; texts that Helm has are Helm's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HelmError {
    /// The chart cannot be loaded.
    #[error(transparent)]
    Chart(#[from] ChartError),
    /// Charts are missing that have to be fetched first (RND-103).
    #[error("{text}")]
    Missing {
        /// Which, and what has to be fetched.
        missing: MissingCharts,
        /// What Helm says.
        text: String,
    },
    /// The values of the user cannot be used.
    #[error(transparent)]
    UserValues(#[from] UserValuesError),
    /// The name of the release is none.
    #[error("{before}{source}")]
    ReleaseName {
        /// What Helm 4 says before.
        before: &'static str,
        /// What is wrong with it.
        source: ReleaseNameError,
    },
    /// The version of the cluster is none.
    #[error(transparent)]
    KubeVersion(#[from] KubeVersionError),
    /// A library chart cannot be rendered by itself.
    #[error("{0} charts are not installable")]
    NotInstallable(String),
    /// The chart is not for this version of Kubernetes (RND-181).
    #[error("chart requires kubeVersion: {constraint} which is incompatible with Kubernetes {version}")]
    Incompatible {
        /// The constraint of the chart.
        constraint: String,
        /// The version of the cluster.
        version: String,
    },
    /// The charts do not go together.
    #[error("{before}{source}")]
    Parts {
        /// What Helm 4 says before.
        before: &'static str,
        /// What does not fit.
        source: PartsError,
    },
    /// The values do not go together.
    #[error(transparent)]
    Values(#[from] ValuesError),
    /// The values do not fit the schema of a chart (RND-176).
    #[error("values don't meet the specifications of the schema(s) in the following chart(s):\n{text}")]
    Schema {
        /// By chart, what does not fit.
        text: String,
        /// An address that a schema refers to and that nobody has given, the first of them.
        remote: Option<String>,
    },
    /// A template is none, or failed.
    #[error("{0}")]
    Template(String),
    /// What was rendered are no manifests.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// A file of `crds/` cannot be read.
    #[error("failed to unmarshal manifest: {0}")]
    Crd(#[from] CrdError),
    /// A bound of memory of ours.
    #[error("{0}")]
    Exceeded(String),
    /// A bound of work of ours: time is not among them. More memory does not help.
    #[error("{0}")]
    Work(String),
    /// The caller's time was up (RND-20).
    #[error("timeout after 1m30s")]
    Cancelled,
}

impl HelmError {
    /// Whether the rendering takes more memory than the limits allow: with larger ones it may succeed.
    pub fn is_memory(&self) -> bool {
        match self {
            Self::Exceeded(_) => true,
            Self::Chart(error) => error.is_memory(),
            Self::UserValues(UserValuesError::File { source, .. }) => source.is_memory(),
            Self::Parts { source: PartsError::Values(error), .. } | Self::Values(error) => {
                matches!(error, ValuesError::Held { .. })
            }
            Self::Crd(error) => error.is_memory(),
            Self::Output(error) => matches!(error, OutputError::Memory { .. } | OutputError::Held { .. }),
            _ => false,
        }
    }
}
