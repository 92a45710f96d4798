//! Which Helm is followed.

/// A generation of Helm (RND-164). Charts that are loaded for one must not be rendered with the other: value
/// files with several documents read differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HelmVersion {
    /// Helm 3.19.
    V3,
    /// Helm 4.3.
    #[default]
    V4,
}

impl HelmVersion {
    /// What `.Capabilities.HelmVersion.Version` says in a build without further marks.
    pub const fn build(self) -> &'static str {
        match self {
            Self::V3 => "v3.19",
            Self::V4 => "v4.3",
        }
    }

    /// The Kubernetes version that is assumed when a request names none, as major and minor.
    pub const fn default_kubernetes(self) -> (u64, u64) {
        match self {
            Self::V3 => (1, 34),
            Self::V4 => (1, 37),
        }
    }
}
