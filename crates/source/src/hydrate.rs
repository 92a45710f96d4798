//! Commits manifests to a branch and pushes it (CTL-113..116).
//!
//! Everything happens in a bare repository that is made for one run and gone after it: there is no worktree, so nothing
//! that a tree names can lead to a file of this machine. What differs is decided over any branch ([`plan`]), written as
//! objects in this process ([`objects`]), and pushed by the `git` program ([`run`]).

mod objects;
mod plan;
mod run;

use std::collections::BTreeMap;
use std::sync::Arc;

use tiphys_render::TreePath;

use crate::SourceError;

pub(crate) use plan::{Branch, plan};
pub(crate) use run::run;

/// Longest name of a branch in bytes.
const BRANCH_BYTES_MAX: usize = 250;
/// The reference with the notes (CTL-114).
pub(crate) const NOTES: &str = "refs/notes/hydrator.metadata";

/// Whether what stands in a directory of a branch is not wanted any more, by its path and its metadata (CTL-119).
pub type IsStale = Arc<dyn Fn(&TreePath, &str) -> bool + Send + Sync>;

/// Manifests to commit.
#[derive(Clone)]
pub struct Hydration {
    /// The branch that applications sync from.
    pub sync_branch: String,
    /// The branch that is written; made from the other one where it is missing.
    pub target_branch: String,
    /// The directories, with what is written to them.
    pub directories: BTreeMap<TreePath, Directory>,
    /// Files of the root, by name; written with every commit.
    pub root: BTreeMap<String, String>,
    /// Name of the file with manifests …
    pub manifest: &'static str,
    /// … and of the one beside it that says what they were made from.
    pub metadata: &'static str,
    /// What is taken away besides; nothing where nobody says.
    pub is_stale: Option<IsStale>,
    /// Whether others commit to the branch: a note of theirs stays while nothing of ours changes.
    pub is_shared: bool,
    /// The refusal where the branch is the default branch of the repository.
    pub as_default_branch: Option<String>,
    /// Message of the commit.
    pub message: String,
    /// What the note on the commit says.
    pub note: String,
    /// Who commits: name and email.
    pub author: (String, String),
}

impl Hydration {
    /// Whether a note on the head of the branch stays while no manifest changes.
    pub(crate) fn is_noted(&self, note: &str) -> bool {
        self.is_shared || note.trim() == self.note.trim()
    }
}

/// What is written to a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Directory {
    /// The manifests.
    pub manifest: String,
    /// Further files, by name; written when the manifests changed.
    pub beside: BTreeMap<String, String>,
}

/// What a run led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The branch was as wanted, and its note too.
    Nothing,
    /// The branch was as wanted; the note was added.
    Note,
    /// A commit was pushed.
    Commit,
}

/// The branch as it is after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hydrated {
    /// Its commit.
    pub commit: String,
    /// What was done for that.
    pub pushed: Pushed,
}

/// Refuses what is no name of a branch, before it becomes a part of a command (RND-34).
pub(crate) fn check_branch(name: &str) -> Result<(), SourceError> {
    let is_bad_part = |part: &str| {
        part.is_empty()
            || part.starts_with('.')
            || part.ends_with('.')
            || part.strip_suffix(".lock").is_some()
    };
    let refused = name.starts_with('-')
        || name.len() > BRANCH_BYTES_MAX
        || name == "@"
        || name.contains("..")
        || name.contains("@{")
        || name.chars().any(|c| c.is_control() || c.is_whitespace() || "~^:?*[\\+".contains(c))
        || name.split('/').any(is_bad_part);
    if refused { Err(SourceError::InvalidRevision { revision: name.to_owned() }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctl_114_only_names_of_branches_reach_git() {
        for good in ["main", "environments/dev", "a-b.c_d", "émile", "next#1"] {
            assert!(check_branch(good).is_ok(), "{good}");
        }
        for bad in [
            "", "-f", "a:b", "+a", "a b", "a..b", "a/", "/a", "a//b", ".a", "a/.b", "a.lock", "a~1", "a^",
            "a*", "@", "a@{1}", "a\\b", "a\n",
        ] {
            assert!(check_branch(bad).is_err(), "{bad:?}");
        }
    }
}
