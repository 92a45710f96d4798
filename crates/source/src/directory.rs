//! Reads a local directory into a tree, or into an archive: for files a user gives on a command line.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
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
    let invalid = |error| SourceError::Cache { text: format!("the directory cannot be used: {error}") };
    MemoryTree::from_entries(entries(root)?).map_err(invalid)
}

/// A directory as a `tar.gz`, for who renders it elsewhere (API-147): files whose names are wanted, and links, all below
/// `prefix`. The same files make the same bytes.
///
/// # Errors
/// When something cannot be read, the directory is larger than the bounds, or no file of it is wanted.
pub fn pack_directory(
    root: &Path,
    prefix: &str,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<u8>, SourceError> {
    let mut entries = entries(root)?;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let failed = |error: std::io::Error| SourceError::Cache { text: format!("cannot pack files: {error}") };
    let packer = GzEncoder::new(Vec::new(), Compression::default());
    let mut archive = tar::Builder::new(packer);
    let mut has_files = false;
    for (path, entry) in entries {
        let name = path.rsplit('/').next().unwrap_or(&path);
        let place = if prefix.is_empty() { path.clone() } else { format!("{prefix}/{path}") };
        let mut header = tar::Header::new_gnu();
        header.set_mtime(0);
        match entry {
            MemoryEntry::File(content, is_executable) if is_wanted(name) => {
                header.set_size(content.len() as u64);
                header.set_mode(if is_executable { 0o755 } else { 0o644 });
                archive.append_data(&mut header, &place, &content[..]).map_err(failed)?;
                has_files = true;
            }
            MemoryEntry::Symlink(target) => {
                header.set_entry_type(tar::EntryType::Symlink);
                header.set_size(0);
                header.set_mode(0o777);
                archive.append_link(&mut header, &place, &target).map_err(failed)?;
            }
            MemoryEntry::File(..) | MemoryEntry::Directory | MemoryEntry::Submodule => {}
        }
    }
    if !has_files {
        return Err(SourceError::Cache { text: "no file of the directory matches the patterns".to_owned() });
    }
    archive.into_inner().and_then(GzEncoder::finish).map_err(failed)
}

fn entries(root: &Path) -> Result<Vec<(String, MemoryEntry)>, SourceError> {
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
    Ok(entries)
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

    #[test]
    fn api_147_a_directory_is_packed_with_what_is_wanted() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("a")).unwrap();
        for (name, text) in [("a/x.yaml", "kind: A"), ("a/secret.txt", "no"), ("b.json", "{}")] {
            fs::write(directory.path().join(name), text).unwrap();
        }
        let is_wanted = |name: &str| ["x.yaml", "b.json"].contains(&name);
        let packed = pack_directory(directory.path(), "apps/web", &is_wanted).unwrap();
        assert_eq!(packed, pack_directory(directory.path(), "apps/web", &is_wanted).unwrap());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&packed[..]));
        let names: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["apps/web/a/x.yaml", "apps/web/b.json"]);
        let none = pack_directory(directory.path(), "", &|_| false).unwrap_err();
        assert!(none.to_string().contains("no file of the directory matches"), "{none}");
    }
}
