//! Reads a local directory into a tree: for files a user gives on a command line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tiphys_render::{MemoryEntry, MemoryTree};

use crate::SourceError;

/// Bytes of all files together: the bound of streamed files (RND section 16).
const BYTES_MAX: u64 = 1_000_000_000;
/// Files and directories.
const ENTRIES_MAX: usize = 500_000;

/// A snapshot of a directory, taken now. Links are kept as links, `.git` at the top is left out, what is
/// neither file, directory nor link is skipped.
///
/// # Errors
/// When something cannot be read, or the directory is larger than the bounds.
pub fn read_directory(root: &Path) -> Result<MemoryTree, SourceError> {
    let mut entries = Vec::new();
    let mut bytes_left = BYTES_MAX;
    let mut pending = vec![(root.to_owned(), String::new())];
    while let Some((directory, prefix)) = pending.pop() {
        let failed = |error: &std::io::Error| SourceError::Cache {
            text: format!("cannot read the directory {prefix:?}: {}", error.kind()),
        };
        for member in fs::read_dir(&directory).map_err(|error| failed(&error))? {
            let member = member.map_err(|error| failed(&error))?;
            let name = member.file_name().to_string_lossy().into_owned();
            if prefix.is_empty() && name == ".git" {
                continue;
            }
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            let kind = member.file_type().map_err(|error| failed(&error))?;
            let entry = if kind.is_symlink() {
                let target = fs::read_link(member.path()).map_err(|error| failed(&error))?;
                MemoryEntry::Symlink(target.to_string_lossy().into_owned())
            } else if kind.is_dir() {
                pending.push((member.path(), path.clone()));
                MemoryEntry::Directory
            } else if kind.is_file() {
                let metadata = member.metadata().map_err(|error| failed(&error))?;
                bytes_left = bytes_left.checked_sub(metadata.len()).ok_or_else(too_large)?;
                let content = fs::read(member.path()).map_err(|error| failed(&error))?;
                MemoryEntry::File(content.into(), metadata.permissions().mode() & 0o111 != 0)
            } else {
                continue;
            };
            entries.push((path, entry));
            if entries.len() > ENTRIES_MAX {
                return Err(too_large());
            }
        }
    }
    let invalid = |error| SourceError::Cache { text: format!("the directory cannot be used: {error}") };
    MemoryTree::from_entries(entries).map_err(invalid)
}

fn too_large() -> SourceError {
    SourceError::Exhausted { text: "the directory is too large".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiphys_render::{EntryKind, Tree, TreePath};

    #[test]
    fn sty_112_a_directory_becomes_a_tree() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a/b")).unwrap();
        fs::create_dir_all(directory.path().join(".git")).unwrap();
        fs::write(directory.path().join(".git/config"), "secret").unwrap();
        fs::write(directory.path().join("a/x.yaml"), "kind: A").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", directory.path().join("a/l")).unwrap();
        let tree = read_directory(directory.path()).unwrap();
        let path = |text: &str| TreePath::parse(text).unwrap();
        assert_eq!(tree.list(&TreePath::root()).unwrap().len(), 1);
        assert_eq!(tree.read(&path("a/x.yaml"), 100).unwrap(), "kind: A");
        let link = tree.entry(&path("a/l")).unwrap().unwrap();
        assert_eq!(link.kind, EntryKind::Symlink { target: "/etc/passwd".to_owned() });
        assert_eq!(tree.escaping_link(&mut tiphys_render::WalkLimit::new(100, None)), Ok(Some(path("a/l"))));
    }
}
