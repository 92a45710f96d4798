//! Paths inside a tree: relative, normalised, without `..` and NUL.

use std::fmt;

use smol_str::SmolStr;

/// Longest path in bytes; longer ones exist in no file system we read.
const PATH_BYTES_MAX: usize = 4096;

/// Why a text is no path inside a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path begins with `/`.
    #[error("path is absolute")]
    Absolute,
    /// The path leaves the root.
    #[error("path is outside the root")]
    Outside,
    /// The path contains a NUL byte or is too long.
    #[error("path is not valid")]
    Invalid,
}

/// A path below the root of a tree; the empty path is the root itself.
///
/// ```
/// # use tiphys_tree::TreePath;
/// assert_eq!(TreePath::parse("a/./b/../c/")?.as_str(), "a/c");
/// assert!(TreePath::parse("../a").is_err());
/// # Ok::<(), tiphys_tree::PathError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreePath(SmolStr);

impl TreePath {
    /// The root.
    pub fn root() -> Self {
        Self::default()
    }

    /// Cleans a relative path; `.` and the empty text are the root.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        Self::root().join(text)
    }

    /// The path that `text`, taken relative to this directory, names.
    pub fn join(&self, text: &str) -> Result<Self, PathError> {
        if text.starts_with('/') {
            return Err(PathError::Absolute);
        }
        if text.contains('\0') || self.0.len() + text.len() > PATH_BYTES_MAX {
            return Err(PathError::Invalid);
        }
        let mut parts: Vec<&str> = self.components().collect();
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop().ok_or(PathError::Outside)?;
                }
                name => parts.push(name),
            }
        }
        Ok(Self(parts.join("/").into()))
    }

    /// A member of this directory. The name must be one component, as trees list them.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.is_root() { Self(name.into()) } else { Self(smol_str::format_smolstr!("{}/{name}", self.0)) }
    }

    /// The path as text, without leading and trailing slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The directory above; `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        Some(self.0.rsplit_once('/').map_or_else(Self::root, |(parent, _)| Self(parent.into())))
    }

    /// The last component; empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The components from the root down.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// Whether this path is `directory` or stands below it; whole components are compared (RND-56).
    pub fn is_within(&self, directory: &Self) -> bool {
        directory.is_root()
            || self
                .0
                .strip_prefix(directory.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The part of this path below `directory`, which must contain it.
    pub fn relative_to(&self, directory: &Self) -> Option<&str> {
        if directory.is_root() {
            return Some(&self.0);
        }
        let rest = self.0.strip_prefix(directory.as_str())?;
        if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_root() { "." } else { &self.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sty_112_paths_cannot_leave_the_root() {
        for (text, expected) in [
            ("", Ok("")),
            (".", Ok("")),
            ("a//b/", Ok("a/b")),
            ("a/../b", Ok("b")),
            ("..", Err(PathError::Outside)),
            ("a/../../a", Err(PathError::Outside)),
            ("/a", Err(PathError::Absolute)),
            ("a\0b", Err(PathError::Invalid)),
        ] {
            assert_eq!(
                TreePath::parse(text).as_ref().map(TreePath::as_str).map_err(|e| *e),
                expected,
                "{text:?}"
            );
        }
        assert_eq!(TreePath::parse(&"x/".repeat(3000)), Err(PathError::Invalid));
    }

    #[test]
    fn rnd_56_containment_compares_components() {
        let path = |text: &str| TreePath::parse(text).unwrap();
        assert!(!path("a/repo2").is_within(&path("a/repo")));
        assert!(path("a/repo/x").is_within(&path("a/repo")));
        assert_eq!(path("a/repo/x").relative_to(&path("a/repo")), Some("x"));
        assert_eq!(path("a/repo2").relative_to(&path("a/repo")), None);
        assert_eq!(path("a/b").parent(), Some(path("a")));
        assert_eq!(path("a").child("b").name(), "b");
    }
}
