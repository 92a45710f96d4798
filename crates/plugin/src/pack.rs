//! Packs the files of a source for a plugin: a tar of regular files, directories and links, with gzip (RND-129).

use std::fs::File;
use std::io::{BufWriter, Seek as _, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType, Header};
use tiphys_go::path_match;
use tiphys_render::{EntryKind, Tree, TreeError, TreePath};

/// Bytes of files, unpacked.
const BYTES_MAX: u64 = 1 << 30;
/// Files, directories and links.
const ENTRIES_MAX: usize = 500_000;
/// Levels of directories.
const DEPTH_MAX: usize = 200;

/// Packed files, in a file without a name.
#[derive(Debug)]
pub struct Packed {
    /// The file, at its beginning.
    pub file: File,
    /// Its bytes.
    pub size: u64,
    /// Its SHA-256, in hex.
    pub checksum: String,
}

/// Why files were not packed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// There are none.
    #[error("no files to send({0})")]
    Nothing(String),
    /// They are too many, or too large.
    #[error("the repository is too large for a plugin: {0}")]
    TooLarge(String),
    /// A pattern of what is left out is none.
    #[error("ARGOCD_REPO_SERVER_PLUGIN_TAR_EXCLUSIONS: {0:?} is no pattern")]
    Pattern(String),
    /// The tree cannot be read.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The file cannot be written.
    #[error("cannot pack the files for the plugin: {0}")]
    Disk(std::io::ErrorKind),
}

impl From<std::io::Error> for PackError {
    fn from(error: std::io::Error) -> Self {
        Self::Disk(error.kind())
    }
}

/// Packs what stands in a directory of a tree into a file in `parent`, without what `exclusions` match. The same files
/// give the same bytes. `stop` ends it.
///
/// # Errors
/// When there is nothing, or too much.
pub fn pack(
    tree: &dyn Tree,
    root: &TreePath,
    exclusions: &[String],
    parent: &Path,
    stop: &AtomicBool,
) -> Result<Packed, PackError> {
    for pattern in exclusions {
        path_match::is_match(pattern, "").map_err(|_bad| PackError::Pattern(pattern.clone()))?;
    }
    let file = tempfile::tempfile_in(parent)?;
    let counted = Counted { file: BufWriter::new(file), hash: Sha256::new(), size: 0 };
    let mut builder = Builder::new(GzEncoder::new(counted, Compression::fast()));
    let mut packer = Packer { tree, exclusions, entries: 0, bytes: 0, stop };
    packer.directory(&mut builder, root, "", 0)?;
    if packer.entries == 0 {
        let shown = if root.is_root() { ".".to_owned() } else { root.to_string() };
        return Err(PackError::Nothing(shown));
    }
    let Counted { file, hash, size } = builder.into_inner()?.finish()?;
    let mut file = file.into_inner().map_err(|error| PackError::Disk(error.error().kind()))?;
    file.rewind()?;
    let digest: [u8; 32] = hash.finalize().into();
    Ok(Packed { file, size, checksum: hex(&digest) })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

struct Counted {
    file: BufWriter<File>,
    hash: Sha256,
    size: u64,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        let part = bytes.get(..written).unwrap_or_default();
        self.hash.update(part);
        self.size += part.len() as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

struct Packer<'a> {
    tree: &'a dyn Tree,
    exclusions: &'a [String],
    entries: usize,
    bytes: u64,
    stop: &'a AtomicBool,
}

impl Packer<'_> {
    fn directory(
        &mut self,
        out: &mut Builder<impl Write>,
        from: &TreePath,
        below: &str,
        depth: usize,
    ) -> Result<(), PackError> {
        if depth > DEPTH_MAX {
            return Err(PackError::TooLarge(format!("more than {DEPTH_MAX} levels of directories")));
        }
        for (name, entry) in self.tree.list(from)? {
            if name.contains('/') || matches!(name.as_str(), "" | "." | "..") {
                continue;
            }
            let relative = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            if self.is_excluded(&relative) {
                continue;
            }
            if self.stop.load(Ordering::Relaxed) {
                return Err(TreeError::Cancelled.into());
            }
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return Err(PackError::TooLarge(format!("more than {ENTRIES_MAX} files and directories")));
            }
            let path = from.child(&name);
            match entry.kind {
                EntryKind::Directory => {
                    let mut header = header(EntryType::Directory, 0o755, 0);
                    out.append_data(&mut header, format!("{relative}/"), std::io::empty())?;
                    self.directory(out, &path, &relative, depth + 1)?;
                }
                EntryKind::File { executable } => {
                    let left = BYTES_MAX - self.bytes;
                    let content = match self.tree.read(&path, left) {
                        Err(TreeError::TooLarge { .. }) => {
                            return Err(PackError::TooLarge(format!("more than {BYTES_MAX} bytes")));
                        }
                        other => other?,
                    };
                    self.bytes += content.len() as u64;
                    let mode = if executable { 0o755 } else { 0o644 };
                    let mut header = header(EntryType::Regular, mode, content.len() as u64);
                    out.append_data(&mut header, &relative, content.as_ref())?;
                }
                EntryKind::Symlink { target } => {
                    let mut header = header(EntryType::Symlink, 0o777, 0);
                    out.append_link(&mut header, &relative, &target)?;
                }
                // Its content is not known: a plugin must not take it for an empty directory.
                EntryKind::Submodule => return Err(TreeError::submodule(self.tree, &path).into()),
            }
        }
        Ok(())
    }

    fn is_excluded(&self, relative: &str) -> bool {
        // They were read before.
        self.exclusions.iter().any(|pattern| path_match::is_match(pattern, relative).unwrap_or(false))
    }
}

fn header(kind: EntryType, mode: u32, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    // No time: the same files are the same bytes.
    header.set_mtime(0);
    header
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use tiphys_render::{MemoryEntry, MemoryTree};

    use super::*;

    fn tree() -> MemoryTree {
        MemoryTree::from_entries([
            ("app/a.yaml".to_owned(), MemoryEntry::File("a".into(), false)),
            ("app/run".to_owned(), MemoryEntry::File("r".into(), true)),
            ("app/link".to_owned(), MemoryEntry::Symlink("a.yaml".to_owned())),
            ("other/b".to_owned(), MemoryEntry::File("b".into(), false)),
        ])
        .unwrap()
    }

    fn names(packed: Packed) -> Vec<String> {
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed.file).read_to_end(&mut bytes).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let shown = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let entry = entry.unwrap();
            let link = entry.link_name().unwrap().map(|to| format!(" -> {}", to.display()));
            let mode = entry.header().mode().unwrap();
            format!("{} {mode:o}{}", entry.path().unwrap().display(), link.unwrap_or_default())
        };
        archive.entries().unwrap().map(shown).collect()
    }

    #[test]
    fn rnd_129_files_directories_and_links_are_packed_with_relative_names() {
        let folder = tempfile::tempdir().unwrap();
        let pack = |root: &str, exclusions: &[&str]| {
            let exclusions: Vec<String> = exclusions.iter().map(|&one| one.to_owned()).collect();
            pack(
                &tree(),
                &TreePath::parse(root).unwrap(),
                &exclusions,
                folder.path(),
                &AtomicBool::new(false),
            )
        };
        let all = [
            "app/ 755",
            "app/a.yaml 644",
            "app/link 777 -> a.yaml",
            "app/run 755",
            "other/ 755",
            "other/b 644",
        ];
        assert_eq!(names(pack("", &[]).unwrap()), all);
        assert_eq!(names(pack("app", &[]).unwrap()), ["a.yaml 644", "link 777 -> a.yaml", "run 755"]);
        assert_eq!(names(pack("", &["app", "other/*"]).unwrap()), ["other/ 755"]);
        let (one, two) = (pack("", &[]).unwrap(), pack("", &[]).unwrap());
        assert_eq!((one.checksum, one.size), (two.checksum, two.size), "the same files are the same bytes");
        assert_eq!(pack("", &["*"]).unwrap_err().to_string(), "no files to send(.)");
        assert!(matches!(pack("", &["["]).unwrap_err(), PackError::Pattern(_)));
        // The file has no name: nothing is left behind.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
