//! Which tag a version range selects (RND-37..41).

use tiphys_go::semver::{self, Constraint, Version};

/// Why no tag was selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VersionError {
    /// The revision is no constraint; other ways of resolving it may still work.
    #[error("failed to determine semver constraint: {reason}")]
    NotAConstraint {
        /// What the parser said.
        reason: String,
    },
    /// A prefix of tags was given with a revision that is no constraint.
    #[error(
        "tagPrefix {prefix:?} requires targetRevision to be a semver constraint, but {revision:?} is not a valid constraint"
    )]
    PrefixNeedsConstraint {
        /// The prefix.
        prefix: String,
        /// The revision.
        revision: String,
    },
    /// No tag satisfies the constraint.
    #[error("version matching constraint not found in {tags} tags")]
    NotFound {
        /// How many tags were candidates.
        tags: usize,
    },
}

/// The greatest tag that satisfies the revision read as a constraint, as spelled.
///
/// Tags that are no versions are ignored. A revision that is a version itself, or is spelled like one of the
/// tags, is a pin: it is answered as given, whether or not there is such a tag (RND-40, EVAL-702).
pub fn resolve_version<'a>(
    revision: &str,
    tags: impl IntoIterator<Item = &'a str>,
    tag_prefix: &str,
) -> Result<String, VersionError> {
    let candidates: Vec<&str> = tags.into_iter().filter_map(|tag| tag.strip_prefix(tag_prefix)).collect();
    if Version::parse(revision).is_ok() || candidates.contains(&revision) {
        return Ok(format!("{tag_prefix}{revision}"));
    }
    let constraint = Constraint::parse(revision).map_err(|error| {
        if tag_prefix.is_empty() {
            VersionError::NotAConstraint { reason: error.to_string() }
        } else {
            VersionError::PrefixNeedsConstraint {
                prefix: tag_prefix.to_owned(),
                revision: revision.to_owned(),
            }
        }
    })?;
    match semver::max(&constraint, candidates.iter().copied()) {
        Some(tag) => Ok(format!("{tag_prefix}{tag}")),
        None => Err(VersionError::NotFound { tags: candidates.len() }),
    }
}

/// Whether [`resolve_version`] has to look at other tags than the one that is spelled like the revision.
pub fn needs_tags(revision: &str, tag_prefix: &str) -> bool {
    !tag_prefix.is_empty() || (Version::parse(revision).is_err() && Constraint::parse(revision).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TAGS: [&str; 7] = ["0.5.3", "0.5.4", "0.7.2", "v1.0.0", "v1.2.3", "v1.2.3-rc.1", "v3"];

    #[test]
    fn rnd_41_table() {
        for (revision, expected) in
            [("0.7.*", "0.7.2"), ("~0.5.3", "0.5.4"), ("^1.0", "v1.2.3"), (">1.0", "v3"), ("*", "v3")]
        {
            assert_eq!(resolve_version(revision, TAGS, "").as_deref(), Ok(expected), "{revision}");
        }
        let tags = ["prod/v1.0.0", "prod/v1.0.1", "staging/v2.0.0"];
        assert_eq!(resolve_version("v1.0.*", tags, "prod/").as_deref(), Ok("prod/v1.0.1"));
    }

    #[test]
    fn rnd_40_an_exact_version_is_spelled_exactly() {
        for pin in ["1.2.3", "v1", "99.99"] {
            assert_eq!(
                resolve_version(pin, TAGS, "").as_deref(),
                Ok(pin),
                "whether or not there is such a tag"
            );
        }
        assert_eq!(resolve_version("1.2.3", ["p/2.0.0"], "p/").as_deref(), Ok("p/1.2.3"));
        assert_eq!(resolve_version("~1", ["~1", "1.2.3"], "").as_deref(), Ok("~1"));
        assert_eq!(resolve_version("v1.2.3", TAGS, "").as_deref(), Ok("v1.2.3"));
    }

    #[test]
    fn rnd_36_only_ranges_and_prefixes_need_other_tags() {
        for (revision, prefix) in
            [("~1", ""), ("1.*", ""), (">1.0", ""), ("*", ""), ("main", "p/"), ("1.0", "p/")]
        {
            assert!(needs_tags(revision, prefix), "{revision} {prefix}");
        }
        for pin in ["main", "HEAD", "v1", "99.99", "1.2.3", "refs/heads/a", "0123abc", ""] {
            assert!(!needs_tags(pin, ""), "{pin}");
        }
    }

    #[test]
    fn rnd_41_a_prefix_needs_a_constraint() {
        assert_eq!(
            resolve_version("main", TAGS, "p/").unwrap_err().to_string(),
            r#"tagPrefix "p/" requires targetRevision to be a semver constraint, but "main" is not a valid constraint"#
        );
        assert!(matches!(resolve_version("main", TAGS, ""), Err(VersionError::NotAConstraint { .. })));
    }
}
