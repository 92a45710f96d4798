//! The order of versions: stable ones before betas before alphas, higher numbers first.

use std::cmp::Reverse;

/// How stable a version says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stability {
    /// `v1`.
    Stable,
    /// `v1beta1`.
    Beta,
    /// `v1alpha1`.
    Alpha,
    /// Any other name.
    Unknown,
}

/// Sort key of a version; what a client should prefer comes first.
pub(super) type Rank = (Stability, Reverse<u64>, Reverse<u64>, String);

/// The place of a version among the versions of its group.
pub(super) fn rank(version: &str) -> Rank {
    match parse(version) {
        Some((stability, major, minor)) => (stability, Reverse(major), Reverse(minor), String::new()),
        None => (Stability::Unknown, Reverse(0), Reverse(0), version.to_owned()),
    }
}

fn parse(version: &str) -> Option<(Stability, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at_checked(end)?;
    let major = number(major)?;
    if rest.is_empty() {
        return Some((Stability::Stable, major, 0));
    }
    if let Some(minor) = rest.strip_prefix("beta") {
        return Some((Stability::Beta, major, number(minor)?));
    }
    Some((Stability::Alpha, major, number(rest.strip_prefix("alpha")?)?))
}

/// A number without a sign or leading zeros.
fn number(text: &str) -> Option<u64> {
    if !text.starts_with(|first: char| first.is_ascii_digit() && first != '0') {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_before_betas_and_alphas() {
        let mut versions =
            ["foo10", "v1", "v11alpha2", "v3beta1", "v10", "v12alpha1", "v2", "v10beta3", "foo1", "v11beta2"];
        versions.sort_by_cached_key(|version| rank(version));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
        );
    }
}
