//! Packed files as a tree: charts and artifacts (RND-112, RND-117).
//!
//! An archive is unpacked into one anonymous file, which vanishes with the tree; nothing of it ever stands under a
//! name of the archive's choice. The index is in memory, and every read is held against the digest that was taken
//! while unpacking (F19). Names, links and kinds that could do harm on a disk are refused all the same (SEC-09), and
//! everything has a bound: bytes, entries, depth, and how much larger the content is than what it was packed into.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest as _, Sha256};
use tar::EntryType;
use tiphys_render::{Entry, EntryKind, Tree, TreeError, TreePath};

use crate::repository::hex;

/// How many times larger than its archive the content may be, beyond the first mebibyte. Gzip cannot do 1 to 1,100.
const RATIO_MAX: u64 = 1_100;
const RATIO_FREE: u64 = 1 << 20;
/// Members of one archive.
const ENTRIES_MAX: usize = 200_000;
/// Bytes of headers and padding, beside the content.
const OVERHEAD_MAX: u64 = 256 << 20;
/// Directories below each other.
const DEPTH_MAX: usize = 256;

/// Why an archive gives no tree.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArchiveError {
    /// It is no archive, or breaks off.
    #[error("the archive cannot be read: {0}")]
    Broken(String),
    /// A bound was reached.
    #[error("{0}")]
    Exceeded(String),
    /// A member would stand outside, or is no file.
    #[error("illegal filepath in archive: {0:?}")]
    Path(String),
    /// A link leads outside.
    #[error("illegal filepath in symlink: {0:?}")]
    Link(String),
    /// The disk failed.
    #[error("the cache directory cannot be used: {0}")]
    Disk(std::io::ErrorKind),
}

/// How an archive is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    None,
}

/// The files of an archive.
pub(crate) struct ArchiveTree {
    content: File,
    root: Node,
    id: String,
}

enum Node {
    File { offset: u64, size: u64, digest: [u8; 32], executable: bool },
    Link { target: String },
    Directory { members: BTreeMap<String, Self>, digest: [u8; 32] },
}

impl Node {
    fn directory() -> Self {
        Self::Directory { members: BTreeMap::new(), digest: [0; 32] }
    }
}

impl std::fmt::Debug for ArchiveTree {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchiveTree").field("id", &self.id).finish_non_exhaustive()
    }
}

impl ArchiveTree {
    /// Unpacks an archive whose files have at most so many bytes together. Temporary files are made in `directory`.
    pub(crate) fn unpack(
        packed: &Path,
        packing: Packing,
        bytes_max: u64,
        directory: &Path,
    ) -> Result<Self, ArchiveError> {
        let disk = |error: std::io::Error| ArchiveError::Disk(error.kind());
        let file = File::open(packed).map_err(disk)?;
        let length = file.metadata().map_err(disk)?.len();
        let reader = BufReader::new(file);
        let content = tempfile::tempfile_in(directory).map_err(disk)?;
        let mut out = BufWriter::new(content);
        let written = match packing {
            Packing::Gzip => {
                let most = length.saturating_mul(RATIO_MAX).saturating_add(RATIO_FREE);
                copy(
                    &mut MultiGzDecoder::new(reader),
                    &mut out,
                    bytes_max.saturating_add(OVERHEAD_MAX).min(most),
                )
            }
            Packing::None => copy(&mut { reader }, &mut out, bytes_max.saturating_add(OVERHEAD_MAX)),
        };
        written?;
        let mut content = out.into_inner().map_err(|error| disk(error.into_error()))?;
        content.seek(SeekFrom::Start(0)).map_err(disk)?;
        let mut root = index(&content, bytes_max)?;
        let id = hex(&seal(&mut root));
        Ok(Self { content, root, id })
    }

    /// The tree below its only directory.
    pub(crate) fn below_top(self) -> Result<Self, ArchiveError> {
        let Node::Directory { members, .. } = self.root else { return Err(no_single_top()) };
        let mut members = members.into_values();
        match (members.next(), members.next()) {
            (Some(top @ Node::Directory { .. }), None) => {
                let id = match &top {
                    Node::Directory { digest, .. } => hex(digest),
                    Node::File { .. } | Node::Link { .. } => String::new(),
                };
                Ok(Self { content: self.content, root: top, id })
            }
            _ => Err(no_single_top()),
        }
    }

    fn node(&self, path: &TreePath) -> Option<&Node> {
        path.components().try_fold(&self.root, |node, name| match node {
            Node::Directory { members, .. } => members.get(name),
            Node::File { .. } | Node::Link { .. } => None,
        })
    }
}

fn no_single_top() -> ArchiveError {
    ArchiveError::Broken("it does not hold a single directory".to_owned())
}

/// Copies up to so many bytes; more is an error.
fn copy(from: &mut dyn Read, to: &mut BufWriter<File>, bytes_max: u64) -> Result<(), ArchiveError> {
    let mut buffer = vec![0_u8; 64 * 1024];
    let mut left = bytes_max;
    loop {
        let read = match from.read(&mut buffer) {
            Ok(0) => return to.flush().map_err(|error| ArchiveError::Disk(error.kind())),
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ArchiveError::Broken(error.to_string())),
        };
        left = left.checked_sub(read as u64).ok_or_else(|| {
            ArchiveError::Exceeded("the archive unpacks to more bytes than it may".to_owned())
        })?;
        let piece = buffer.get(..read).unwrap_or_default();
        to.write_all(piece).map_err(|error| ArchiveError::Disk(error.kind()))?;
    }
}

/// Reads the members of an unpacked archive.
fn index(content: &File, bytes_max: u64) -> Result<Node, ArchiveError> {
    let broken = |error: std::io::Error| ArchiveError::Broken(error.to_string());
    let mut archive = tar::Archive::new(BufReader::new(content));
    let mut root = Node::directory();
    let (mut left, mut entries) = (bytes_max, 0_usize);
    for entry in archive.entries().map_err(broken)? {
        let mut entry = entry.map_err(broken)?;
        entries += 1;
        if entries > ENTRIES_MAX {
            return Err(ArchiveError::Exceeded(format!("the archive has more than {ENTRIES_MAX} members")));
        }
        let kind = entry.header().entry_type();
        if kind == EntryType::XGlobalHeader {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let path = inside(&name)?;
        let target = || {
            let target = entry.link_name_bytes().unwrap_or_default();
            String::from_utf8_lossy(&target).into_owned()
        };
        let node = match kind {
            EntryType::Directory => Node::directory(),
            EntryType::Symlink => {
                let target = target();
                // A link may not lead outside, whatever is made of it later (SEC-04).
                let depth = path.components().count().saturating_sub(1);
                if tiphys_render::links::link_climb(&target, depth) != Some(0) {
                    return Err(ArchiveError::Link(name));
                }
                Node::Link { target }
            }
            EntryType::Link => {
                let target = inside(&target()).map_err(|_outside| ArchiveError::Link(name.clone()))?;
                match find(&root, &target) {
                    Some(Node::File { offset, size, digest, executable }) => {
                        Node::File { offset: *offset, size: *size, digest: *digest, executable: *executable }
                    }
                    _ => return Err(ArchiveError::Link(name)),
                }
            }
            EntryType::Regular | EntryType::Continuous => {
                let (offset, size) = (entry.raw_file_position(), entry.size());
                left = left.checked_sub(size).ok_or_else(|| {
                    ArchiveError::Exceeded(format!("the archive unpacks to more than {bytes_max} bytes"))
                })?;
                let executable = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
                let (mut hash, mut read) = (Sha256::new(), 0_u64);
                let mut buffer = [0_u8; 16 * 1024];
                loop {
                    let count = entry.read(&mut buffer).map_err(broken)?;
                    if count == 0 {
                        break;
                    }
                    read += count as u64;
                    hash.update(buffer.get(..count).unwrap_or_default());
                }
                if read != size {
                    return Err(ArchiveError::Broken("it ends inside of a file".to_owned()));
                }
                Node::File { offset, size, digest: hash.finalize().into(), executable }
            }
            // Devices, pipes, files with holes.
            _ => return Err(ArchiveError::Path(name)),
        };
        insert(&mut root, &path, node).ok_or(ArchiveError::Path(name))?;
    }
    // Not an empty tree: its objects would count as removed (INV-1).
    if entries == 0 { Err(ArchiveError::Broken("it holds nothing".to_owned())) } else { Ok(root) }
}

/// The path of a member; it stays inside and is written without tricks.
fn inside(name: &str) -> Result<TreePath, ArchiveError> {
    let bad = || ArchiveError::Path(name.to_owned());
    if name.contains('\\') {
        return Err(bad());
    }
    let path = TreePath::parse(name).map_err(|_error| bad())?;
    let depth = path.components().count();
    if name.split('/').any(|part| part == "..") || depth > DEPTH_MAX { Err(bad()) } else { Ok(path) }
}

fn find<'a>(root: &'a Node, path: &TreePath) -> Option<&'a Node> {
    path.components().try_fold(root, |node, name| match node {
        Node::Directory { members, .. } => members.get(name),
        Node::File { .. } | Node::Link { .. } => None,
    })
}

/// `None` when the path leads through something that is no directory: a link most likely, which a disk would follow.
fn insert(root: &mut Node, path: &TreePath, node: Node) -> Option<()> {
    let mut parts: Vec<&str> = path.components().collect();
    let Some(name) = parts.pop() else { return matches!(node, Node::Directory { .. }).then_some(()) };
    let mut directory = root;
    for part in parts {
        let Node::Directory { members, .. } = directory else { return None };
        directory = members.entry(part.to_owned()).or_insert_with(Node::directory);
    }
    let Node::Directory { members, .. } = directory else { return None };
    match (members.get(name), &node) {
        // Named again; what it holds stays.
        (Some(Node::Directory { .. }), Node::Directory { .. }) => {}
        (Some(Node::Directory { .. }), _) => return None,
        _ => {
            members.insert(name.to_owned(), node);
        }
    }
    Some(())
}

/// Computes the digests of directories. The depth is bounded by that of paths.
fn seal(node: &mut Node) -> [u8; 32] {
    match node {
        Node::File { digest, executable, .. } => Sha256::new()
            .chain_update(if *executable { b"x" } else { b"f" })
            .chain_update(*digest)
            .finalize()
            .into(),
        Node::Link { target } => {
            Sha256::new().chain_update(b"l").chain_update(target.as_bytes()).finalize().into()
        }
        Node::Directory { members, digest } => {
            let mut hash = Sha256::new();
            hash.update(b"d");
            for (name, member) in members {
                hash.update(u64::try_from(name.len()).unwrap_or(u64::MAX).to_be_bytes());
                hash.update(name.as_bytes());
                hash.update(seal(member));
            }
            *digest = hash.finalize().into();
            *digest
        }
    }
}

fn entry_of(node: &Node) -> Entry {
    let kind = match node {
        Node::File { executable, .. } => EntryKind::File { executable: *executable },
        Node::Link { target } => EntryKind::Symlink { target: target.clone() },
        Node::Directory { .. } => EntryKind::Directory,
    };
    Entry { kind }
}

impl Tree for ArchiveTree {
    fn id(&self) -> &str {
        &self.id
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        Ok(match self.node(path) {
            Some(Node::Directory { digest, .. }) => Some(hex(digest)),
            _ => None,
        })
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        Ok(self.node(path).map(entry_of))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        match self.node(path) {
            Some(Node::Directory { members, .. }) => {
                Ok(members.iter().map(|(name, node)| (name.clone(), entry_of(node))).collect())
            }
            Some(_) => Err(TreeError::NotADirectory { path: path.clone() }),
            None => Err(TreeError::NotFound { path: path.clone() }),
        }
    }

    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError> {
        match self.node(path) {
            Some(Node::File { size, .. }) if *size > max_bytes => {
                Err(TreeError::TooLarge { path: path.clone(), limit: max_bytes })
            }
            Some(Node::File { offset, size, digest, .. }) => {
                let damaged = || TreeError::Damaged { what: format!("{path} is not what was unpacked") };
                let mut content = vec![0_u8; usize::try_from(*size).map_err(|_error| damaged())?];
                self.content.read_exact_at(&mut content, *offset).map_err(|_error| damaged())?;
                if <[u8; 32]>::from(Sha256::digest(&content)) == *digest {
                    Ok(content.into())
                } else {
                    Err(damaged())
                }
            }
            Some(_) => Err(TreeError::NotAFile { path: path.clone() }),
            None => Err(TreeError::NotFound { path: path.clone() }),
        }
    }
}

#[cfg(test)]
mod tests;
