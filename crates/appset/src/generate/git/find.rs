//! Finds directories and files in a tree (ASET-47, ASET-49).

use std::sync::atomic::AtomicBool;

use tiphys_go::doublestar;
use tiphys_tree::links::{Resolved, WALK_DEPTH_MAX, resolve};
use tiphys_tree::{EntryKind, Tree, TreeError, TreePath, WalkLimit};

use crate::facts::{GitFile, Globbing};
use crate::pathspec::{Pathspec, PathspecError};

/// Files and directories of a repository that are looked at.
const ENTRIES_MAX: usize = 2_000_000;
/// Bytes of one file.
const FILE_BYTES_MAX: u64 = 10 << 20;
/// Bytes of all files together.
const FILES_BYTES_MAX: u64 = 64 << 20;

/// Why files or directories of a repository are not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GitError {
    /// The tree cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// git would refuse the pattern.
    #[error("error listing files by the pattern {pattern:?}: {error}")]
    Pathspec {
        /// The pattern.
        pattern: String,
        /// Why.
        error: PathspecError,
    },
    /// The pattern is no glob.
    #[error("error listing files by the pattern {0:?}: syntax error in pattern")]
    Glob(String),
    /// A pattern matches what is no file.
    #[error("unable to read {0}: is a directory")]
    Directory(String),
    /// All files together are too large.
    #[error("the files come to more than {FILES_BYTES_MAX} bytes")]
    TooLarge,
}

/// Directories below the root in lexical walk order; those whose names begin with a full stop, and what is below them,
/// only where asked for (ASET-47).
///
/// # Errors
/// When the tree cannot be read, is too large, or the time is up.
pub fn find_directories(
    tree: &dyn Tree,
    hidden: bool,
    cancelled: Option<&AtomicBool>,
) -> Result<Vec<String>, GitError> {
    let mut found = Vec::new();
    let mut limit = WalkLimit::new(ENTRIES_MAX, cancelled);
    walk(tree, &TreePath::root(), 0, &mut limit, &mut |path, kind| {
        let is_directory = matches!(kind, EntryKind::Directory | EntryKind::Submodule);
        let enters = is_directory && (hidden || !path.name().starts_with('.'));
        if enters {
            found.push(path.as_str().to_owned());
        }
        Ok(enters)
    })?;
    Ok(found)
}

/// Files that some pattern includes and none excludes, each once, in byte order of their paths (ASET-49).
///
/// # Errors
/// When a pattern is none or matches a directory, when the tree cannot be read, is too large, or the time is up.
pub fn find_files(
    tree: &dyn Tree,
    include: &[String],
    exclude: &[String],
    globbing: Globbing,
    cancelled: Option<&AtomicBool>,
) -> Result<Vec<GitFile>, GitError> {
    let include = Patterns::read(include, globbing)?;
    let exclude = Patterns::read(exclude, globbing)?;
    let mut selected: Vec<(TreePath, bool)> = Vec::new();
    let mut limit = WalkLimit::new(ENTRIES_MAX, cancelled);
    walk(tree, &TreePath::root(), 0, &mut limit, &mut |path, kind| {
        let is_directory = matches!(kind, EntryKind::Directory);
        // git knows no directories; a glob of files meets them.
        let counts = !is_directory || globbing == Globbing::Doublestar;
        if counts && include.matches(path.as_str())? && !exclude.matches(path.as_str())? {
            selected.push((path.clone(), is_directory));
        }
        Ok(is_directory)
    })?;
    selected.sort();
    let mut files = Vec::with_capacity(selected.len());
    let mut left = FILES_BYTES_MAX;
    for (path, is_directory) in selected {
        if is_directory {
            return Err(GitError::Directory(path.as_str().to_owned()));
        }
        let Some(content) = read(tree, &path)? else { continue };
        left = left.checked_sub(content.len() as u64).ok_or(GitError::TooLarge)?;
        files.push(GitFile { path: path.as_str().to_owned(), content });
    }
    Ok(files)
}

/// The content of a file, links followed; `None` for a link that leaves the repository.
fn read(tree: &dyn Tree, path: &TreePath) -> Result<Option<bytes::Bytes>, GitError> {
    match resolve(tree, path)? {
        Resolved::Found(found, entry) if entry.is_file() => Ok(Some(tree.read(&found, FILE_BYTES_MAX)?)),
        Resolved::Found(..) => Err(GitError::Directory(path.as_str().to_owned())),
        Resolved::Missing => Err(TreeError::NotFound { path: path.clone() }.into()),
        Resolved::Submodule(module) => Err(TreeError::submodule(tree, &module).into()),
        Resolved::Outside | Resolved::Loop => Ok(None),
    }
}

/// Looks at everything below a directory, in lexical order; `look` says whether a directory is entered.
fn walk(
    tree: &dyn Tree,
    directory: &TreePath,
    depth: usize,
    limit: &mut WalkLimit<'_>,
    look: &mut dyn FnMut(&TreePath, &EntryKind) -> Result<bool, GitError>,
) -> Result<(), GitError> {
    if depth > WALK_DEPTH_MAX {
        return Err(TreeError::Exceeded { what: "directories are nested too deeply".to_owned() }.into());
    }
    let members = tree.list(directory)?;
    limit.spend(members.len())?;
    for (name, entry) in members {
        let path = directory.child(&name);
        let enters = look(&path, &entry.kind)?;
        if enters && entry.is_directory() {
            walk(tree, &path, depth + 1, limit, look)?;
        }
    }
    Ok(())
}

enum Patterns {
    Pathspecs(Vec<Pathspec>),
    Globs(Vec<String>),
}

impl Patterns {
    fn read(patterns: &[String], globbing: Globbing) -> Result<Self, GitError> {
        let pathspec = |pattern: &String| {
            Pathspec::parse(pattern).map_err(|error| GitError::Pathspec { pattern: pattern.clone(), error })
        };
        let glob = |pattern: &String| match doublestar::is_match(pattern, "") {
            Ok(_) => Ok(pattern.clone()),
            Err(_) => Err(GitError::Glob(pattern.clone())),
        };
        Ok(match globbing {
            Globbing::Pathspec => Self::Pathspecs(patterns.iter().map(pathspec).collect::<Result<_, _>>()?),
            Globbing::Doublestar => Self::Globs(patterns.iter().map(glob).collect::<Result<_, _>>()?),
        })
    }

    fn matches(&self, path: &str) -> Result<bool, GitError> {
        match self {
            Self::Pathspecs(specs) => {
                for spec in specs {
                    let matches = spec.matches(path).map_err(|error| {
                        let pattern = spec.written().to_owned();
                        GitError::Pathspec { pattern, error }
                    })?;
                    if matches {
                        return Ok(true);
                    }
                }
            }
            Self::Globs(globs) => {
                for glob in globs {
                    if doublestar::is_match(glob, path).map_err(|_error| GitError::Glob(glob.clone()))? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}
