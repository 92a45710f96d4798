//! Files of one revision: the port that the renderers read through (STY-112).
//!
//! A [`Tree`] is immutable and content-addressed: an id names a directory's whole content, so two equal ids
//! prove that nothing changed. Implementations do not follow symbolic links; [`links`] does, and stays
//! inside the root while doing so. [`MemoryTree`] holds files given as values.

pub mod links;
mod memory;
mod path;

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

pub use memory::{MemoryEntry, MemoryTree};
pub use path::{PathError, TreePath};

/// What stands at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File {
        /// Whether the file may be executed.
        executable: bool,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// The text of the link.
        target: String,
    },
    /// A commit of another repository; its content is not part of the tree.
    Submodule,
}

/// One member of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
}

impl Entry {
    /// Whether the entry is a regular file.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, EntryKind::File { .. })
    }

    /// Whether the entry is a directory. A submodule, whose content is absent, is none: it must never pass for
    /// an empty one.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, EntryKind::Directory)
    }
}

/// Why something in a tree could not be read. No text contains a path of the host (STY-56).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// Nothing stands at the path.
    #[error("{path}: no such file or directory")]
    NotFound {
        /// The path.
        path: TreePath,
    },
    /// Something other than a file stands at the path.
    #[error("{path}: not a regular file")]
    NotAFile {
        /// The path.
        path: TreePath,
    },
    /// Something other than a directory stands at the path.
    #[error("{path}: not a directory")]
    NotADirectory {
        /// The path.
        path: TreePath,
    },
    /// The path is, or leads through, a submodule, whose content is not here.
    #[error("{path} is a git submodule, and its content is not known{why}")]
    Submodule {
        /// The path of the submodule.
        path: TreePath,
        /// Nothing, or a colon and the reason.
        why: String,
    },
    /// The file has more bytes than the caller wants.
    #[error("{path}: file has more than {limit} bytes")]
    TooLarge {
        /// The path.
        path: TreePath,
        /// The caller's limit.
        limit: u64,
    },
    /// The tree is larger, or nested deeper, than a walk may go.
    #[error("{what}")]
    Exceeded {
        /// What is too large, and the limit.
        what: String,
    },
    /// The caller's time was up during a walk (RND-20).
    #[error("timeout after 1m30s")]
    Cancelled,
    /// The store behind the tree is damaged or gone; fetching again helps.
    #[error("the stored content cannot be read: {what}")]
    Damaged {
        /// What failed.
        what: String,
    },
}

impl TreeError {
    /// A submodule that a tree has no content of, with the reason as far as the tree knows it.
    pub fn submodule(tree: &dyn Tree, path: &TreePath) -> Self {
        match tree.list(path) {
            Err(error) => error,
            Ok(_members) => Self::Submodule { path: path.clone(), why: String::new() },
        }
    }
}

/// How much of a tree one walk may look at. What is counted is what is really looked at: a directory that stands
/// at many paths and whose answer is remembered counts once.
#[derive(Debug)]
pub struct WalkLimit<'a> {
    entries: usize,
    left: usize,
    cancelled: Option<&'a AtomicBool>,
}

impl<'a> WalkLimit<'a> {
    /// A walk over so many members of directories, until the flag is set.
    pub fn new(entries: usize, cancelled: Option<&'a AtomicBool>) -> Self {
        Self { entries, left: entries, cancelled }
    }

    /// Counts members that are about to be looked at.
    ///
    /// # Errors
    /// When they are too many, or the time is up.
    pub fn spend(&mut self, entries: usize) -> Result<(), TreeError> {
        if self.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            return Err(TreeError::Cancelled);
        }
        let what = || format!("the tree has more than {} files and directories", self.entries);
        self.left = self.left.checked_sub(entries).ok_or_else(|| TreeError::Exceeded { what: what() })?;
        Ok(())
    }
}

/// What was learned about a directory before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownDirectory {
    /// Id of its content; `None` when no directory stands there.
    pub id: Option<String>,
    /// Whether no link leaves the tree that it is in.
    pub is_clean: bool,
}

/// Files of one revision. All methods are total: what cannot be read is an error, never an empty answer.
pub trait Tree: Send + Sync {
    /// Id of the root directory's content.
    fn id(&self) -> &str;

    /// Id of a directory's content; `None` when no directory stands there.
    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError>;

    /// What is known of a directory without reading anything; `None` when that has to be asked for.
    fn known(&self, _path: &TreePath) -> Option<KnownDirectory> {
        None
    }

    /// What stands at a path, links not followed; `None` when nothing does.
    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError>;

    /// Members of a directory, sorted by the bytes of their names.
    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError>;

    /// Bytes of a regular file, at most `max_bytes`.
    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError>;

    /// The first link that leaves the root (RND-54). Implementations in which one directory can stand at many
    /// paths must remember answers by id: the number of paths grows exponentially with the levels.
    fn escaping_link(&self, limit: &mut WalkLimit<'_>) -> Result<Option<TreePath>, TreeError> {
        links::find_escaping_link(self, &TreePath::root(), 0, limit)
    }
}
