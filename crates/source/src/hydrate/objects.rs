//! Trees, commits and notes of the repository of one run, read and written in this process.

use std::collections::BTreeMap;
use std::path::Path;

use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::objs::tree::{Entry, EntryKind};
use gix::objs::{Commit, Tree, TreeRef};
use jiff::Timestamp;
use tiphys_render::TreePath;

use super::plan::{Branch, Plan};
use crate::SourceError;

/// Bytes of one file that is compared or read.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Bytes of metadata that is read.
const METADATA_BYTES_MAX: u64 = 1024 * 1024;
/// Members of all directories that are looked at for stale ones.
const WALK_MAX: usize = 200_000;
/// Nesting of directories.
const DEPTH_MAX: usize = 64;

/// The repository of a run.
pub(super) struct Scratch {
    repository: gix::Repository,
}

/// A tree of it; `None` is the empty one.
pub(super) struct ScratchBranch<'a> {
    scratch: &'a Scratch,
    root: Option<ObjectId>,
}

impl Scratch {
    pub(super) fn open(directory: &Path) -> Result<Self, SourceError> {
        let options = gix::open::Options::isolated().open_path_as_is(true);
        let repository = gix::ThreadSafeRepository::open_opts(directory, options);
        let repository = repository.map_err(|error| cannot("be opened", &error))?.to_thread_local();
        Ok(Self { repository })
    }

    /// The tree of a commit.
    pub(super) fn branch(&self, commit: Option<&str>) -> Result<ScratchBranch<'_>, SourceError> {
        let root = commit.map(|commit| self.tree_of(parse(commit)?)).transpose()?;
        Ok(ScratchBranch { scratch: self, root })
    }

    fn tree_of(&self, commit: ObjectId) -> Result<ObjectId, SourceError> {
        let commit = self.repository.find_commit(commit).map_err(|error| cannot("be read", &error))?;
        commit.tree_id().map(gix::Id::detach).map_err(|error| cannot("be read", &error))
    }

    fn entries(&self, tree: ObjectId) -> Result<Vec<Entry>, SourceError> {
        let object = self.repository.find_object(tree).map_err(|error| cannot("be read", &error))?;
        let tree = TreeRef::from_bytes(&object.data, gix::hash::Kind::Sha1)
            .map_err(|error| cannot("be read", &error))?;
        Ok(tree.entries.iter().map(|entry| Entry::from(*entry)).collect())
    }

    fn find(&self, tree: ObjectId, name: &str) -> Result<Option<Entry>, SourceError> {
        Ok(self.entries(tree)?.into_iter().find(|entry| entry.filename == name))
    }

    fn blob(&self, id: ObjectId, bytes_max: u64) -> Result<Vec<u8>, SourceError> {
        let header = self.repository.find_header(id).map_err(|error| cannot("be read", &error))?;
        if header.size() > bytes_max {
            let text = format!("a file of the branch has more than {bytes_max} bytes");
            return Err(SourceError::Exhausted { text });
        }
        Ok(self.repository.find_object(id).map_err(|error| cannot("be read", &error))?.detach().data)
    }

    /// The note on a commit, wherever in the tree of notes it stands.
    pub(super) fn note(&self, notes: Option<&str>, commit: &str) -> Result<Option<String>, SourceError> {
        let Some(notes) = notes else { return Ok(None) };
        let mut tree = self.tree_of(parse(notes)?)?;
        let mut rest = commit;
        loop {
            if let Some(found) = self.find(tree, rest)? {
                let text = self.blob(found.oid, METADATA_BYTES_MAX)?;
                return Ok(Some(String::from_utf8_lossy(&text).into_owned()));
            }
            let Some((head, tail)) = rest.split_at_checked(2).filter(|(_, tail)| !tail.is_empty()) else {
                return Ok(None);
            };
            match self.find(tree, head)? {
                Some(entry) if entry.mode.is_tree() => (tree, rest) = (entry.oid, tail),
                _ => return Ok(None),
            }
        }
    }

    /// The tree of a commit with a plan carried out.
    pub(super) fn write(&self, branch: &ScratchBranch<'_>, plan: &Plan) -> Result<ObjectId, SourceError> {
        let mut changes = Changes::default();
        for (path, text) in &plan.files {
            let blob = match text {
                Some(text) => Some(
                    self.repository.write_blob(text).map_err(|error| cannot("be written", &error))?.detach(),
                ),
                None => None,
            };
            changes.add(path, blob);
        }
        match self.edit(branch.root, &changes, "")? {
            Some(tree) => Ok(tree),
            None => self.write_tree(Vec::new()),
        }
    }

    /// The empty tree.
    pub(super) fn empty(&self) -> Result<ObjectId, SourceError> {
        self.write_tree(Vec::new())
    }

    /// Writes a directory with changes; `None` when nothing is left of it. A directory is made where nothing stands; links
    /// and files are not followed and not replaced by one (CTL-116).
    fn edit(
        &self,
        base: Option<ObjectId>,
        changes: &Changes,
        at: &str,
    ) -> Result<Option<ObjectId>, SourceError> {
        let mut entries = match base {
            Some(base) => self.entries(base)?,
            None => Vec::new(),
        };
        for (name, change) in &changes.0 {
            let place = entries.iter().position(|entry| entry.filename == name.as_str());
            let known = place.and_then(|place| entries.get(place));
            let path = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
            let made = match change {
                Change::File(blob) => {
                    if known.is_some_and(|known| !known.mode.is_blob_or_symlink()) {
                        return Err(in_the_way(&path, "a directory stands where a file belongs"));
                    }
                    blob.map(|blob| (EntryKind::Blob, blob))
                }
                Change::Directory(below) => {
                    if known.is_some_and(|known| !known.mode.is_tree()) {
                        return Err(in_the_way(&path, "a link or a file stands where a directory belongs"));
                    }
                    self.edit(known.map(|known| known.oid), below, &path)?.map(|tree| (EntryKind::Tree, tree))
                }
            };
            let made =
                made.map(|(kind, oid)| Entry { mode: kind.into(), filename: name.as_str().into(), oid });
            match (place.and_then(|place| entries.get_mut(place)), made, place) {
                (Some(known), Some(made), _) => *known = made,
                (Some(_), None, Some(place)) => drop(entries.remove(place)),
                (None, Some(made), _) => entries.push(made),
                _ => {}
            }
        }
        if entries.is_empty() { Ok(None) } else { self.write_tree(entries).map(Some) }
    }

    fn write_tree(&self, mut entries: Vec<Entry>) -> Result<ObjectId, SourceError> {
        entries.sort();
        let written = self.repository.write_object(Tree { entries });
        written.map(gix::Id::detach).map_err(|error| cannot("be written", &error))
    }

    /// Writes a commit; nothing points at it.
    pub(super) fn commit(
        &self,
        tree: ObjectId,
        parent: Option<&str>,
        message: &str,
        author: &(String, String),
        now: Timestamp,
    ) -> Result<String, SourceError> {
        let who = gix::actor::Signature {
            name: author.0.as_str().into(),
            email: author.1.as_str().into(),
            time: gix::date::Time::new(now.as_second(), 0),
        };
        let parents: Vec<ObjectId> = parent.map(parse).transpose()?.into_iter().collect();
        let commit = Commit {
            tree,
            parents: parents.into_iter().collect(),
            author: who.clone(),
            committer: who,
            encoding: None,
            message: message.into(),
            extra_headers: Vec::new(),
        };
        let written = self.repository.write_object(&commit);
        written.map(|id| id.detach().to_string()).map_err(|error| cannot("be written", &error))
    }
}

/// Changes of a directory, by name.
#[derive(Default)]
struct Changes(BTreeMap<String, Change>);

enum Change {
    /// A file to write, or to take away.
    File(Option<ObjectId>),
    Directory(Changes),
}

impl Changes {
    fn add(&mut self, path: &TreePath, blob: Option<ObjectId>) {
        let mut changes = self;
        let mut parts = path.as_str().split('/').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                changes.0.insert(part.to_owned(), Change::File(blob));
                return;
            }
            let below =
                changes.0.entry(part.to_owned()).or_insert_with(|| Change::Directory(Self::default()));
            match below {
                Change::Directory(below) => changes = below,
                // A file of ours is named like a directory of ours: the directory is refused when it is written.
                Change::File(_) => return,
            }
        }
    }
}

impl Branch for ScratchBranch<'_> {
    fn file(&self, path: &TreePath) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(mut tree) = self.root else { return Ok(None) };
        let mut parts = path.as_str().split('/').peekable();
        while let Some(part) = parts.next() {
            let Some(entry) = self.scratch.find(tree, part)? else { return Ok(None) };
            match (parts.peek(), entry.mode.is_tree()) {
                (Some(_), true) => tree = entry.oid,
                (Some(_), false) => {
                    return Err(in_the_way(
                        path.as_str(),
                        "a link or a file stands where a directory belongs",
                    ));
                }
                // A link is no file with these bytes, whatever it leads to.
                (None, _) if entry.mode.is_blob() => {
                    return self.scratch.blob(entry.oid, FILE_BYTES_MAX).map(Some);
                }
                (None, _) => return Ok(None),
            }
        }
        Ok(None)
    }

    fn directories_with(&self, name: &str) -> Result<Vec<(TreePath, Vec<u8>)>, SourceError> {
        let mut found = Vec::new();
        let mut left = WALK_MAX;
        let mut pending: Vec<(TreePath, ObjectId, usize)> =
            self.root.into_iter().map(|root| (TreePath::root(), root, 0)).collect();
        while let Some((path, tree, depth)) = pending.pop() {
            for entry in self.scratch.entries(tree)? {
                left = left.checked_sub(1).ok_or_else(|| SourceError::Exhausted {
                    text: format!("the branch has more than {WALK_MAX} files and directories"),
                })?;
                let Ok(own) = entry.filename.to_str() else { continue };
                if entry.mode.is_tree() && depth < DEPTH_MAX {
                    pending.push((path.child(own), entry.oid, depth + 1));
                } else if own == name && entry.mode.is_blob() {
                    found.push((path.clone(), self.scratch.blob(entry.oid, METADATA_BYTES_MAX)?));
                }
            }
        }
        Ok(found)
    }
}

fn parse(commit: &str) -> Result<ObjectId, SourceError> {
    crate::store::parse_commit(commit)
}

fn in_the_way(path: &str, what: &str) -> SourceError {
    SourceError::Malformed { text: format!("{path:?} of the branch cannot be written: {what}") }
}

fn cannot(what: &str, error: &dyn std::fmt::Display) -> SourceError {
    tracing::debug!(%error, "the repository of a hydration");
    SourceError::Cache { text: format!("the repository of the hydration cannot {what}") }
}
