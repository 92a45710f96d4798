//! Versions and constraints of Masterminds/semver 3.4: target revisions, charts, kube versions.
//!
//! Constraints are comparisons joined by blanks or commas (and) and `||` (or), with `x` as wildcard, `~`, `^`
//! and hyphen ranges. Versions are read leniently (`v1.2`), because tags and charts spell them so.
//!
//! Golden rows: `semver.jsonl`, `semver-max.jsonl`.

mod constraint;
mod version;

pub use constraint::Constraint;
pub use version::Version;

/// Why a version or constraint is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SemverError {
    /// The text is not a version.
    #[error("invalid semantic version {0:?}")]
    Version(String),
    /// A numeric part of a pre-release starts with a zero.
    #[error("version segment starts with 0 in {0:?}")]
    LeadingZero(String),
    /// A number of a version does not fit into 64 bits.
    #[error("version segment {0} is too large")]
    TooLarge(String),
    /// A comparison of the constraint is with something that is no version.
    #[error("improper constraint: {0}")]
    ConstraintVersion(String),
    /// A part of the constraint is not a comparison.
    #[error("improper constraint: {0}")]
    Constraint(String),
    /// The constraint is too long to be one.
    #[error("improper constraint: it has more than {limit} bytes")]
    ConstraintLength {
        /// The limit.
        limit: usize,
    },
}

/// The highest of the versions that parse and satisfy the constraint, as written; the first among equals
/// (EVAL-757). Texts that are no versions are skipped.
pub fn max<'a>(constraint: &Constraint, versions: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut highest: Option<(Version, &str)> = None;
    for text in versions {
        let Ok(version) = Version::parse(text) else { continue };
        let higher = highest.as_ref().is_none_or(|(current, _)| version > *current);
        if higher && constraint.matches(&version) {
            highest = Some((version, text));
        }
    }
    highest.map(|(_, text)| text)
}

/// Whether a version satisfies a constraint, both as text (EVAL-754).
pub fn satisfies(constraint: &str, version: &str) -> Result<bool, SemverError> {
    let constraint = Constraint::parse(constraint)?;
    Ok(constraint.matches(&Version::parse(version)?))
}
