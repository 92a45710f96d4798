//! What charts are told about the cluster (RND-180, RND-181).

use tiphys_go::semver;

use crate::HelmVersion;

/// Versions of Kubernetes' own API that are always there, whatever a cluster serves, in Helm's order.
const ALWAYS: &[(&str, &[&str])] = &[
    ("", &["v1"]),
    ("admissionregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1beta1", "v1alpha1"]),
    ("coordination.k8s.io", &["v1alpha2", "v1beta1", "v1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1", "v1beta1", "v1beta2", "v1beta3"]),
    ("lifecycle.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1beta1", "v1alpha1"]),
    ("resource.k8s.io", &["v1", "v1beta2", "v1beta1", "v1alpha3"]),
    ("scheduling.k8s.io", &["v1alpha3", "v1beta1", "v1"]),
    ("storage.k8s.io", &["v1beta1", "v1", "v1alpha1"]),
    ("storagemigration.k8s.io", &["v1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1beta1", "v1"]),
];

/// The groups in which Helm 3.19 has others; an empty list takes the group away.
const IN_V3: &[(&str, &[&str])] = &[
    ("autoscaling", &["v1", "v2", "v2beta1", "v2beta2"]),
    ("lifecycle.k8s.io", &[]),
    ("scheduling.k8s.io", &["v1alpha1", "v1beta1", "v1"]),
    ("storagemigration.k8s.io", &["v1alpha1"]),
];

/// The API versions that charts see: those that are always there, then those of the cluster.
pub(crate) fn api_versions(version: HelmVersion, of_cluster: &[String]) -> Vec<String> {
    let versions = |group: &str, usual: &'static [&'static str]| {
        let other = IN_V3.iter().find(|(other, _)| version == HelmVersion::V3 && *other == group);
        other.map_or(usual, |(_, versions)| versions)
    };
    let mut all = Vec::with_capacity(64 + of_cluster.len());
    for (group, usual) in ALWAYS {
        for version in versions(group, usual) {
            all.push(if group.is_empty() { (*version).to_owned() } else { format!("{group}/{version}") });
        }
    }
    all.extend(of_cluster.iter().cloned());
    all
}

/// A version of Kubernetes, as charts see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeVersion {
    /// With everything that was written behind the numbers.
    pub version: String,
    /// The numbers only; what constraints are checked with.
    pub normalized: String,
    /// First number.
    pub major: String,
    /// Second number.
    pub minor: String,
}

/// A text that is no version of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid kube version '{given}': could not parse {given:?} as version")]
pub struct KubeVersionError {
    given: String,
}

impl KubeVersion {
    /// Reads a version of at least two numbers; `v` before it and anything behind it is allowed.
    pub fn parse(text: &str, version: HelmVersion) -> Result<Self, KubeVersionError> {
        let wrong = || KubeVersionError { given: text.to_owned() };
        let plain = text.trim_start().trim_start_matches('v');
        let end = plain.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(plain.len());
        let numbers = plain.get(..end).unwrap_or_default();
        let mut parts: Vec<&str> = numbers.split('.').collect();
        // A dot that no digit follows belongs to the rest.
        if let Some(at) = parts.iter().position(|part| part.is_empty()) {
            parts.truncate(at);
        }
        let numbers: Result<Vec<u64>, _> = parts.iter().map(|part| part.parse::<u64>()).collect();
        let numbers = numbers.map_err(|_invalid| wrong())?;
        let has_zero = parts.first().is_some_and(|first| first.len() > 1 && first.starts_with('0'));
        let (Some(major), Some(minor), false) = (numbers.first(), numbers.get(1), has_zero) else {
            return Err(wrong());
        };
        let joined: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let normalized = format!("v{}", joined.join("."));
        let version = match version {
            HelmVersion::V3 => normalized.clone(),
            HelmVersion::V4 if text.starts_with('v') => text.to_owned(),
            HelmVersion::V4 => format!("v{text}"),
        };
        Ok(Self { version, normalized, major: major.to_string(), minor: minor.to_string() })
    }

    /// The version that is taken when a request names none.
    pub fn default_of(version: HelmVersion) -> Self {
        let (major, minor) = version.default_kubernetes();
        let normalized = format!("v{major}.{minor}.0");
        Self { version: normalized.clone(), normalized, major: major.to_string(), minor: minor.to_string() }
    }

    /// Whether a constraint of a chart holds. One that cannot be read holds for nothing.
    pub fn satisfies(&self, constraint: &str) -> bool {
        semver::satisfies(constraint, &self.normalized).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_180_versions_of_the_cluster_come_on_top() {
        let all = api_versions(HelmVersion::V4, &["x.io/v1/Thing".to_owned()]);
        assert_eq!(all.first().map(String::as_str), Some("v1"));
        assert_eq!(all.last().map(String::as_str), Some("x.io/v1/Thing"));
        assert!(all.contains(&"policy/v1beta1".to_owned()));
        assert!(!all.contains(&"autoscaling/v2beta1".to_owned()));
        let v3 = api_versions(HelmVersion::V3, &[]);
        assert!(v3.contains(&"autoscaling/v2beta1".to_owned()));
        assert!(!v3.iter().any(|version| version.starts_with("lifecycle")));
    }

    #[test]
    fn rnd_181_versions_of_clusters_are_read_leniently() {
        for (text, version, normalized) in [
            ("1.31.0", "v1.31.0", "v1.31.0"),
            ("v1.33.4-gke.1245000", "v1.33.4-gke.1245000", "v1.33.4"),
            ("1.28+", "v1.28+", "v1.28"),
            ("1.30.2.x", "v1.30.2.x", "v1.30.2"),
        ] {
            let read = KubeVersion::parse(text, HelmVersion::V4).unwrap();
            assert_eq!((read.version.as_str(), read.normalized.as_str()), (version, normalized));
        }
        for text in ["", "1", "abc", "01.2", "x1.2"] {
            assert!(KubeVersion::parse(text, HelmVersion::V4).is_err(), "{text}");
        }
        let cluster = KubeVersion::parse("1.31.2-eks", HelmVersion::V4).unwrap();
        assert!(cluster.satisfies(">=1.25.0"));
        assert!(!cluster.satisfies("<1.25.0"));
        assert!(!cluster.satisfies("nonsense"));
    }
}
