//! Files that Git LFS keeps outside of a repository (RND-44): pointers to them, and trees that hold their content.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use gix::config::file::Metadata;
use gix::config::file::init::Options;
use sha2::{Digest as _, Sha256};
use tiphys_render::{Entry, EntryKind, KnownDirectory, Tree, TreeError, TreePath, WalkLimit};

use crate::repository::hex;

/// Bytes of a pointer.
const POINTER_BYTES_MAX: u64 = 1023;
/// Bytes of `.gitattributes` and `.lfsconfig`.
const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;
/// Files and directories of a tree in which pointers are looked for.
const ENTRIES_MAX: usize = 500_000;
/// Files of one tree that are kept in Git LFS.
const POINTERS_MAX: usize = 2_000;
/// Bytes of these files together.
const TREE_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Bytes of one of them: it is held in memory while it is fetched and read.
pub(crate) const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// What stands in a repository in place of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pointer {
    /// SHA-256 of the file, in 64 hex digits.
    pub(crate) oid: String,
    /// Bytes of the file.
    pub(crate) size: u64,
}

impl Pointer {
    /// Reads a pointer; `None` for every other file. Nothing but digits gets into `oid`, which names a file on the disk.
    fn parse(content: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(content).ok()?.lines();
        if lines.next()? != "version https://git-lfs.github.com/spec/v1" {
            return None;
        }
        let (mut oid, mut size) = (None, None);
        for line in lines {
            match line.split_once(' ')? {
                ("oid", value) => oid = value.strip_prefix("sha256:"),
                ("size", value) => size = value.parse().ok(),
                // Extensions change what the server keeps, and only their programs change it back.
                (key, _) if key.starts_with("ext-") => return None,
                _ => {}
            }
        }
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let oid = oid.filter(|oid| oid.len() == 64 && oid.bytes().all(is_digit))?;
        Some(Self { oid: oid.to_owned(), size: size? })
    }

    /// Whether these bytes are the file.
    pub(crate) fn is_of(&self, content: &[u8]) -> bool {
        u64::try_from(content.len()) == Ok(self.size) && hex(&Sha256::digest(content)) == self.oid
    }
}

/// The files of a tree that are kept in Git LFS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pointers {
    pub(crate) by_path: BTreeMap<TreePath, Pointer>,
    /// Where the repository says that they are, as written in `.lfsconfig`.
    pub(crate) url: Option<String>,
}

impl Pointers {
    /// Looks below directories whose `.gitattributes` name the filter of Git LFS, as a checkout does.
    ///
    /// # Errors
    /// When the tree cannot be read, or holds more than anybody may ask for.
    pub(crate) fn of(tree: &dyn Tree) -> Result<Self, TreeError> {
        let mut found = Self::default();
        let mut limit = WalkLimit::new(ENTRIES_MAX, None);
        let mut bytes = 0_u64;
        let mut open = vec![(TreePath::root(), false)];
        while let Some((directory, is_above)) = open.pop() {
            let members = tree.list(&directory)?;
            limit.spend(members.len())?;
            let is_file = |entry: &Entry| matches!(entry.kind, EntryKind::File { .. });
            let has_attributes =
                members.iter().any(|(name, entry)| name == ".gitattributes" && is_file(entry));
            let is_kept =
                is_above || (has_attributes && names_filter(tree, &directory.child(".gitattributes"))?);
            for (name, entry) in members {
                let path = directory.child(&name);
                match entry.kind {
                    EntryKind::Directory => open.push((path, is_kept)),
                    EntryKind::File { .. } if is_kept => {
                        let Some(pointer) =
                            small(tree, &path, POINTER_BYTES_MAX)?.and_then(|text| Pointer::parse(&text))
                        else {
                            continue;
                        };
                        bytes = bytes.saturating_add(pointer.size);
                        if pointer.size > FILE_BYTES_MAX {
                            let limit = FILE_BYTES_MAX;
                            return Err(TreeError::Exceeded {
                                what: format!("{path} is kept in Git LFS and has more than {limit} bytes"),
                            });
                        }
                        found.by_path.insert(path, pointer);
                    }
                    EntryKind::File { .. } | EntryKind::Symlink { .. } | EntryKind::Submodule => {}
                }
            }
            if found.by_path.len() > POINTERS_MAX || bytes > TREE_BYTES_MAX {
                return Err(TreeError::Exceeded {
                    what: format!(
                        "more than {POINTERS_MAX} files or {TREE_BYTES_MAX} bytes of the tree are kept in Git LFS"
                    ),
                });
            }
        }
        if !found.by_path.is_empty() {
            found.url = configured(tree)?;
        }
        Ok(found)
    }
}

/// A file that has no more bytes than this.
fn small(tree: &dyn Tree, path: &TreePath, bytes_max: u64) -> Result<Option<Bytes>, TreeError> {
    match tree.read(path, bytes_max) {
        Ok(content) => Ok(Some(content)),
        Err(TreeError::TooLarge { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

fn names_filter(tree: &dyn Tree, path: &TreePath) -> Result<bool, TreeError> {
    let text = small(tree, path, SETTINGS_BYTES_MAX)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&text).lines().any(|line| {
        let mut words = line.split_ascii_whitespace();
        words.next().is_some_and(|pattern| !pattern.starts_with('#'))
            && words.any(|word| word == "filter=lfs")
    }))
}

/// `lfs.url` of `.lfsconfig`.
fn configured(tree: &dyn Tree) -> Result<Option<String>, TreeError> {
    let path = TreePath::root().child(".lfsconfig");
    let is_file = tree.entry(&path)?.is_some_and(|entry| matches!(entry.kind, EntryKind::File { .. }));
    if !is_file {
        return Ok(None);
    }
    let text = small(tree, &path, SETTINGS_BYTES_MAX)?.unwrap_or_default();
    let read = gix::config::File::from_bytes_no_includes(&text, Metadata::api(), Options::default());
    let Ok(file) = read else { return Ok(None) };
    Ok(file.string("lfs.url").map(|url| url.to_string()))
}

/// A tree whose pointers are the files that they stand for. The pointers are part of its id, and name what they stand for.
pub(crate) struct LfsTree {
    tree: Arc<dyn Tree>,
    pointers: Arc<Pointers>,
    directory: PathBuf,
    id: String,
}

impl LfsTree {
    /// The files are in this directory.
    pub(crate) fn new(tree: Arc<dyn Tree>, pointers: Arc<Pointers>, directory: PathBuf) -> Self {
        Self { id: with_files(tree.id()), tree, pointers, directory }
    }
}

/// The same pointers give other files where nobody asks for what they stand for.
fn with_files(id: &str) -> String {
    format!("{id}+lfs")
}

impl Tree for LfsTree {
    fn id(&self) -> &str {
        &self.id
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        Ok(self.tree.subtree_id(path)?.as_deref().map(with_files))
    }

    fn known(&self, path: &TreePath) -> Option<KnownDirectory> {
        let known = self.tree.known(path)?;
        Some(KnownDirectory { id: known.id.as_deref().map(with_files), ..known })
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        self.tree.entry(path)
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        self.tree.list(path)
    }

    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError> {
        let Some(pointer) = self.pointers.by_path.get(path) else { return self.tree.read(path, max_bytes) };
        if pointer.size > max_bytes {
            return Err(TreeError::TooLarge { path: path.clone(), limit: max_bytes });
        }
        stored(&self.directory, pointer).ok_or_else(|| TreeError::Damaged {
            what: format!("{path}, which is kept in Git LFS, is not in the cache any more"),
        })
    }

    fn escaping_link(&self, limit: &mut WalkLimit<'_>) -> Result<Option<TreePath>, TreeError> {
        self.tree.escaping_link(limit)
    }
}

/// A file of the cache. Others may have written there, or taken away: only the right bytes count.
fn stored(directory: &Path, pointer: &Pointer) -> Option<Bytes> {
    let path = directory.join(&pointer.oid);
    let has_size = path.metadata().is_ok_and(|metadata| metadata.len() == pointer.size);
    let content = has_size.then(|| std::fs::read(&path).ok()).flatten()?;
    pointer.is_of(&content).then(|| Bytes::from(content))
}

#[cfg(test)]
mod tests {
    use tiphys_render::{MemoryEntry, MemoryTree};

    use super::*;

    const OID: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

    fn pointer(oid: &str, size: &str) -> String {
        format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n")
    }

    fn tree(files: &[(&str, &str)]) -> MemoryTree {
        let file = |text: &str| MemoryEntry::File(Bytes::copy_from_slice(text.as_bytes()), false);
        MemoryTree::from_entries(files.iter().map(|(path, text)| (*path, file(text))).collect::<Vec<_>>())
            .unwrap()
    }

    #[test]
    fn rnd_44_what_a_pointer_is() {
        let found = Pointer::parse(pointer(OID, "5").as_bytes()).unwrap();
        assert_eq!((found.oid.as_str(), found.size), (OID, 5));
        assert!(found.is_of(b"hello") && !found.is_of(b"hellO") && !found.is_of(b"hello "));
        for other in [
            pointer("../../../../etc/passwd", "5"),
            pointer(&OID.to_uppercase(), "5"),
            pointer(OID, "-5"),
            pointer(OID, ""),
            pointer(OID, "5").replace("sha256", "md5"),
            pointer(OID, "5") + "ext-0-case sha256:x\n",
            "version https://git-lfs.github.com/spec/v1\n".to_owned(),
            String::new(),
            "apiVersion: v1\n".to_owned(),
        ] {
            assert_eq!(Pointer::parse(other.as_bytes()), None, "{other:?}");
        }
    }

    #[test]
    fn rnd_44_pointers_count_where_attributes_say_so() {
        let text = pointer(OID, "5");
        let attributes = "# *.txt filter=lfs\n*.yaml filter=lfs diff=lfs merge=lfs -text\n";
        let found = Pointers::of(&tree(&[
            ("a.yaml", &text),
            ("kept/.gitattributes", attributes),
            ("kept/b.yaml", &text),
            ("kept/deep/c.yaml", &text),
            ("kept/plain.yaml", "kind: x"),
            ("noted/.gitattributes", "# *.yaml filter=lfs"),
            ("noted/d.yaml", &text),
        ]))
        .unwrap();
        let paths: Vec<&str> = found.by_path.keys().map(TreePath::as_str).collect();
        assert_eq!(paths, ["kept/b.yaml", "kept/deep/c.yaml"]);
        assert_eq!(found.url, None);
        let found = Pointers::of(&tree(&[
            (".gitattributes", attributes),
            (".lfsconfig", "[lfs]\n\turl = https://lfs.acme.test/x\n"),
            ("a.yaml", &text),
        ]));
        assert_eq!(found.unwrap().url.as_deref(), Some("https://lfs.acme.test/x"));
    }

    #[test]
    fn sec_10_files_that_are_too_large_are_an_error() {
        let huge = pointer(OID, "99999999999");
        let error =
            Pointers::of(&tree(&[(".gitattributes", "* filter=lfs"), ("a.yaml", &huge)])).unwrap_err();
        assert_eq!(error.to_string(), "a.yaml is kept in Git LFS and has more than 67108864 bytes");
    }

    #[test]
    fn f19_only_the_right_bytes_are_read_from_the_cache() {
        let directory = tempfile::tempdir().unwrap();
        let text = pointer(OID, "5");
        let inner: Arc<dyn Tree> = Arc::new(tree(&[(".gitattributes", "* filter=lfs"), ("a.yaml", &text)]));
        let pointers = Arc::new(Pointers::of(inner.as_ref()).unwrap());
        let found = LfsTree::new(Arc::clone(&inner), pointers, directory.path().to_owned());
        let path = TreePath::parse("a.yaml").unwrap();
        assert!(found.read(&path, 9).unwrap_err().to_string().contains("not in the cache any more"));
        std::fs::write(directory.path().join(OID), "hello").unwrap();
        assert_eq!(found.read(&path, 9).unwrap(), "hello");
        assert!(matches!(found.read(&path, 4), Err(TreeError::TooLarge { .. })));
        std::fs::write(directory.path().join(OID), "hellO").unwrap();
        assert!(found.read(&path, 9).is_err());
        assert_ne!(found.id(), inner.id());
        assert_ne!(
            found.subtree_id(&TreePath::root()).unwrap(),
            inner.subtree_id(&TreePath::root()).unwrap()
        );
    }
}
