//! A tree held in memory: for values given on a command line, for local directories, and for tests.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::{Entry, EntryKind, PathError, Tree, TreeError, TreePath};

#[derive(Clone, Debug)]
enum Node {
    File { content: Bytes, executable: bool },
    Link { target: String },
    Directory(BTreeMap<String, Self>),
    Submodule,
}

/// A tree whose files are values. Ids are SHA-256 over names, kinds and contents.
///
/// ```
/// # use tiphys_tree::{MemoryTree, Tree, TreePath};
/// let tree = MemoryTree::from_files([("apps/web.yaml", "kind: A")])?;
/// assert_eq!(tree.list(&TreePath::parse("apps")?).unwrap().len(), 1);
/// # Ok::<(), tiphys_tree::PathError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryTree {
    root: Node,
    id: String,
}

impl Default for MemoryTree {
    fn default() -> Self {
        Self::from_nodes(BTreeMap::new())
    }
}

impl MemoryTree {
    /// A tree of regular files; directories arise from the paths.
    pub fn from_files<P: AsRef<str>, C: Into<Bytes>>(
        files: impl IntoIterator<Item = (P, C)>,
    ) -> Result<Self, PathError> {
        Self::from_entries(
            files.into_iter().map(|(path, content)| (path, MemoryEntry::File(content.into(), false))),
        )
    }

    /// A tree of files, links and empty directories. A later entry replaces an earlier one of its path; an entry
    /// below a file is refused.
    pub fn from_entries<P: AsRef<str>>(
        entries: impl IntoIterator<Item = (P, MemoryEntry)>,
    ) -> Result<Self, PathError> {
        let mut root = BTreeMap::new();
        for (path, entry) in entries {
            let path = TreePath::parse(path.as_ref())?;
            let mut parts: Vec<&str> = path.components().collect();
            let Some(name) = parts.pop() else { continue };
            let mut directory = &mut root;
            for part in parts {
                let next =
                    directory.entry(part.to_owned()).or_insert_with(|| Node::Directory(BTreeMap::new()));
                let Node::Directory(next) = next else { return Err(PathError::Invalid) };
                directory = next;
            }
            let node = match entry {
                MemoryEntry::File(content, executable) => Node::File { content, executable },
                MemoryEntry::Symlink(target) => Node::Link { target },
                MemoryEntry::Directory => {
                    directory.entry(name.to_owned()).or_insert_with(|| Node::Directory(BTreeMap::new()));
                    continue;
                }
                MemoryEntry::Submodule => Node::Submodule,
            };
            directory.insert(name.to_owned(), node);
        }
        Ok(Self::from_nodes(root))
    }

    fn from_nodes(root: BTreeMap<String, Node>) -> Self {
        let root = Node::Directory(root);
        let id = hex(&digest(&root));
        Self { root, id }
    }

    fn node(&self, path: &TreePath) -> Option<&Node> {
        path.components().try_fold(&self.root, |node, name| match node {
            Node::Directory(members) => members.get(name),
            _ => None,
        })
    }
}

/// What [`MemoryTree::from_entries`] takes.
#[derive(Clone, Debug)]
pub enum MemoryEntry {
    /// A file's bytes, and whether it may be executed.
    File(Bytes, bool),
    /// A link's text.
    Symlink(String),
    /// A directory that may stay empty.
    Directory,
    /// A commit of another repository.
    Submodule,
}

impl Tree for MemoryTree {
    fn id(&self) -> &str {
        &self.id
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        Ok(self.node(path).filter(|node| matches!(node, Node::Directory(_))).map(|node| hex(&digest(node))))
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        Ok(self.node(path).map(entry_of))
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        match self.node(path) {
            Some(Node::Directory(members)) => {
                Ok(members.iter().map(|(name, node)| (name.clone(), entry_of(node))).collect())
            }
            Some(Node::Submodule) => Err(TreeError::Submodule { path: path.clone(), why: String::new() }),
            Some(_) => Err(TreeError::NotADirectory { path: path.clone() }),
            None => Err(TreeError::NotFound { path: path.clone() }),
        }
    }

    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError> {
        match self.node(path) {
            Some(Node::File { content, .. }) if content.len() as u64 > max_bytes => {
                Err(TreeError::TooLarge { path: path.clone(), limit: max_bytes })
            }
            Some(Node::File { content, .. }) => Ok(content.clone()),
            Some(_) => Err(TreeError::NotAFile { path: path.clone() }),
            None => Err(TreeError::NotFound { path: path.clone() }),
        }
    }
}

fn entry_of(node: &Node) -> Entry {
    let kind = match node {
        Node::File { executable, .. } => EntryKind::File { executable: *executable },
        Node::Link { target } => EntryKind::Symlink { target: target.clone() },
        Node::Directory(_) => EntryKind::Directory,
        Node::Submodule => EntryKind::Submodule,
    };
    Entry { kind }
}

/// Digest of a node. Depth is bounded by the length of a path.
fn digest(node: &Node) -> [u8; 32] {
    let mut hash = Sha256::new();
    match node {
        Node::File { content, executable } => {
            hash.update(if *executable { b"x" } else { b"f" });
            hash.update(content);
        }
        Node::Link { target } => {
            hash.update(b"l");
            hash.update(target.as_bytes());
        }
        Node::Directory(members) => {
            hash.update(b"d");
            for (name, member) in members {
                hash.update((name.len() as u64).to_be_bytes());
                hash.update(name.as_bytes());
                hash.update(digest(member));
            }
        }
        Node::Submodule => hash.update(b"s"),
    }
    hash.finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_name_content() {
        let one = MemoryTree::from_files([("a/x", "1"), ("b/y", "2")]).unwrap();
        let two = MemoryTree::from_files([("b/y", "2"), ("a/x", "3")]).unwrap();
        let at = |tree: &MemoryTree, path: &str| tree.subtree_id(&TreePath::parse(path).unwrap()).unwrap();
        assert_ne!(one.id(), two.id());
        assert_eq!(at(&one, "b"), at(&two, "b"));
        assert_ne!(at(&one, "a"), at(&two, "a"));
        assert_eq!(at(&one, "a/x"), None);
        assert_eq!(at(&one, "").as_deref(), Some(one.id()));
    }

    #[test]
    fn sty_114_reads_are_bounded() {
        let tree = MemoryTree::from_files([("x", "12345")]).unwrap();
        let path = TreePath::parse("x").unwrap();
        assert_eq!(tree.read(&path, 4), Err(TreeError::TooLarge { path: path.clone(), limit: 4 }));
        assert_eq!(tree.read(&path, 5).unwrap(), "12345");
    }
}
