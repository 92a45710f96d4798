//! Charts of `helmCharts`: who inflates them (RND-236).

use bytes::Bytes;
use smol_str::SmolStr;
use tiphys_tree::{Tree, TreePath};

/// A chart to be inflated, as `helm template` is told.
pub struct ChartRequest<'r> {
    /// The tree that the chart is in.
    pub tree: &'r dyn Tree,
    /// Its directory there.
    pub directory: TreePath,
    /// Name of the chart, as the kustomization has it.
    pub name: &'r str,
    /// Version, as the kustomization has it; may be empty.
    pub version: &'r str,
    /// URL of the repository, as the kustomization has it; may be empty.
    pub repository: &'r str,
    /// Name of the release; empty for one that is to be generated.
    pub release_name: &'r str,
    /// Template of the name of the release; may be empty.
    pub name_template: &'r str,
    /// Namespace of the release; may be empty.
    pub namespace: &'r str,
    /// Texts of files of values; later ones count more.
    pub values: Vec<Bytes>,
    /// Whether the objects of `crds/` are a part of the output.
    pub include_crds: bool,
    /// Whether hooks are left out.
    pub skip_hooks: bool,
    /// Whether tests are left out.
    pub skip_tests: bool,
    /// Versions that the cluster has besides those of Helm.
    pub api_versions: &'r [SmolStr],
    /// Version of the cluster; empty for that of Helm.
    pub kube_version: &'r str,
    /// Whether development versions of dependencies count.
    pub devel: bool,
}

/// Inflates charts.
pub trait ChartInflator {
    /// The text that `helm template` prints: kustomize reads it by its own rules.
    ///
    /// # Errors
    /// With the text of Helm's error.
    fn inflate(&self, request: &ChartRequest<'_>) -> Result<String, String>;
}

/// No chart can be inflated.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCharts;

impl ChartInflator for NoCharts {
    fn inflate(&self, _request: &ChartRequest<'_>) -> Result<String, String> {
        Err("helm charts are not available here".to_owned())
    }
}
