//! Trees of a bare repository, read in-process (DEP-51).
//!
//! [`Objects`] is one repository opened for any number of threads, with the directories that were decoded
//! lately. A [`GitTree`] is one commit of it. Ids are git's, so an unchanged directory keeps its id across
//! commits, and what was learned about it (its members, how far its links reach) is kept by id.

mod changes;
mod climb;
mod gitlinks;
mod signed;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use gix::ObjectId;
use gix::bstr::ByteSlice as _;
use gix::object::tree::EntryKind as GitKind;
use gix::objs::Kind;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use parking_lot::Mutex;
use smol_str::SmolStr;
use tiphys_render::{Entry, EntryKind, KnownDirectory, Tree, TreeError, TreePath, WalkLimit};

use crate::SourceError;
use crate::store::Generation;

pub(crate) use changes::{ChangesError, changed_files};
pub(crate) use gitlinks::{GITLINKS_MAX, Gitlink};
pub(crate) use signed::{Seal, SignedData};

/// Members of decoded directories kept per repository; about 64 bytes each.
const CACHED_MEMBERS_MAX: u64 = 60_000;
/// Bytes of one directory object: a quarter of a million members, which take twice as much once they are read.
const DIRECTORY_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Bytes of a usual member of a directory object: its mode, a short name and its id.
const MEMBER_BYTES: usize = 32;
/// Bytes of a link's text.
const LINK_BYTES_MAX: u64 = 4096;
/// Bytes of a commit or tag.
const COMMIT_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of one object in memory, and of every object that it is a difference to.
pub(crate) const OBJECT_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Differences in a row that one object is stored as; git makes fifty, and 250 when told to try hard.
const DELTAS_MAX: u32 = 300;
/// Packs of one repository: more than any generation gathers.
const PACKS_MAX: u16 = 2048;
/// Commits whose root directories are remembered.
const ROOTS_MAX: usize = 1000;
/// Tags that point at each other before a commit comes.
const TAGS_MAX: usize = 16;
/// Objects whose ids begin alike that are looked at.
const CANDIDATES_MAX: usize = 1000;

/// One member of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: SmolStr,
    pub(crate) kind: GitKind,
    pub(crate) id: ObjectId,
}

type Members = Arc<[Member]>;
/// A root directory and its submodules.
type Root = (ObjectId, Arc<[Gitlink]>);

/// A repository opened for reading.
pub(crate) struct Objects {
    repository: gix::ThreadSafeRepository,
    directories: Cache<ObjectId, Members>,
    /// Root directories of commits, with the submodules that they name.
    roots: Mutex<HashMap<ObjectId, Root>>,
    /// Levels that links below a directory reach above it; `usize::MAX` for absolute links.
    climbs: Mutex<HashMap<ObjectId, usize>>,
    damaged: AtomicBool,
}

impl Objects {
    pub(crate) fn open(directory: &Path) -> Result<Self, SourceError> {
        let options = gix::open::Options::isolated()
            .open_path_as_is(true)
            .object_store_slots(gix::odb::store::init::Slots::Given(PACKS_MAX))
            .config_overrides([format!("gitoxide.objects.allocLimit={OBJECT_BYTES_MAX}")]);
        let repository = gix::ThreadSafeRepository::open_opts(directory, options).map_err(|_error| {
            SourceError::Cache { text: "the cached repository cannot be opened".to_owned() }
        })?;
        let directories = Cache::builder()
            .max_capacity(CACHED_MEMBERS_MAX)
            // Those of a new commit are wanted, however often others were.
            .eviction_policy(EvictionPolicy::lru())
            .weigher(|_, members: &Members| {
                u32::try_from(members.len()).unwrap_or(u32::MAX).saturating_add(1)
            })
            .build();
        let (roots, climbs) = (Mutex::default(), Mutex::default());
        Ok(Self { repository, directories, roots, climbs, damaged: AtomicBool::new(false) })
    }

    /// Whether a read failed in a way that only fetching again can mend.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    fn damage(&self, what: &str) -> TreeError {
        self.damaged.store(true, Ordering::Relaxed);
        TreeError::Damaged { what: what.to_owned() }
    }

    /// Finds objects that a pack refers to.
    pub(crate) fn finder(&self) -> impl gix::objs::Find + use<> {
        self.repository.to_thread_local().objects
    }

    /// An object that cannot be decoded: damaged, or with a base that is too large for us, which fetching again
    /// does not mend.
    fn unreadable(&self, error: &gix::Error) -> TreeError {
        if error.classify().is_resource_exhausted() {
            return TreeError::Damaged { what: "an object is too large".to_owned() };
        }
        self.damage("an object is damaged")
    }

    /// An object that is not what refers to it says. When its content has the right hash it was made so, and
    /// fetching again does not mend it.
    fn unexpected(&self, id: ObjectId, kind: Kind, data: &[u8], what: &str) -> TreeError {
        match gix::objs::compute_hash(gix::hash::Kind::Sha1, kind, data) {
            Ok(found) if found == id => TreeError::Damaged { what: what.to_owned() },
            _ => self.damage(what),
        }
    }

    /// Kind and bytes of an object; `Ok(None)` when it is larger than `max_bytes`, which its header tells before
    /// anything of it is held in memory.
    fn any_object(&self, id: ObjectId, max_bytes: u64) -> Result<Option<(Kind, Vec<u8>)>, TreeError> {
        let repository = self.repository.to_thread_local();
        let header = repository.find_header(id).map_err(|_error| self.damage("an object is missing"))?;
        if header.size() > max_bytes {
            return Ok(None);
        }
        // Each is applied to read the object, however small that is in the end.
        if header.num_deltas().is_some_and(|deltas| deltas > DELTAS_MAX) {
            let what = format!("an object is stored as more than {DELTAS_MAX} differences in a row");
            return Err(TreeError::Exceeded { what });
        }
        let object = repository.find_object(id).map_err(|error| self.unreadable(&error))?.detach();
        // The disk is a cache that others may have written to, or that forgets: content counts when it is what its
        // name says (SEC-57, F19).
        match gix::objs::compute_hash(gix::hash::Kind::Sha1, object.kind, &object.data) {
            Ok(found) if found == id => Ok(Some((object.kind, object.data))),
            _ => Err(self.damage("an object is not what its name says")),
        }
    }

    /// Bytes of an object; `Ok(None)` when it is larger than `max_bytes`.
    fn object(&self, id: ObjectId, kind: Kind, max_bytes: u64) -> Result<Option<Vec<u8>>, TreeError> {
        match self.any_object(id, max_bytes)? {
            None => Ok(None),
            Some((found, data)) if found == kind => Ok(Some(data)),
            Some((found, data)) => Err(self.unexpected(id, found, &data, "an object has the wrong kind")),
        }
    }

    /// Members of a directory, sorted by name.
    pub(crate) fn members(&self, id: ObjectId) -> Result<Members, TreeError> {
        if let Some(members) = self.directories.get(&id) {
            return Ok(members);
        }
        let too_large = || TreeError::Exceeded {
            what: format!("a directory has more than {DIRECTORY_BYTES_MAX} bytes of names"),
        };
        let data = self.object(id, Kind::Tree, DIRECTORY_BYTES_MAX)?.ok_or_else(too_large)?;
        let mut members = Vec::with_capacity(data.len() / MEMBER_BYTES);
        for entry in gix::objs::TreeRefIter::from_bytes(&data, gix::hash::Kind::Sha1) {
            let entry =
                entry.map_err(|_error| self.unexpected(id, Kind::Tree, &data, "a directory is damaged"))?;
            members.push(Member {
                name: String::from_utf8_lossy(entry.filename).into(),
                kind: entry.mode.kind(),
                id: entry.oid.to_owned(),
            });
        }
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let members: Members = members.into();
        self.directories.insert(id, Arc::clone(&members));
        Ok(members)
    }

    /// Whether everything below a directory is here. Members that a complete directory has under the same path
    /// are not looked at.
    pub(crate) fn is_complete(
        &self,
        root: ObjectId,
        complete: Option<ObjectId>,
        interrupt: &AtomicBool,
    ) -> Result<bool, TreeError> {
        let repository = self.repository.to_thread_local();
        let mut seen = HashSet::new();
        let mut pending = vec![(root, complete)];
        while let Some((id, complete)) = pending.pop() {
            if interrupt.load(Ordering::Relaxed) {
                return Err(TreeError::Damaged { what: "reading was interrupted".to_owned() });
            }
            let known = complete.map(|id| self.members(id)).transpose()?;
            // Both are sorted by name.
            let mut known = known.as_deref().unwrap_or_default().iter().peekable();
            for member in self.members(id)?.iter() {
                while known.next_if(|other| other.name < member.name).is_some() {}
                let before = known.peek().filter(|other| other.name == member.name);
                if before.is_some_and(|before| before.id == member.id) || !seen.insert(member.id) {
                    continue;
                }
                match member.kind {
                    GitKind::Tree => {
                        let before = before.filter(|before| before.kind == GitKind::Tree);
                        pending.push((member.id, before.map(|before| before.id)));
                    }
                    GitKind::Blob | GitKind::BlobExecutable | GitKind::Link => {
                        if !repository.has_object(member.id) {
                            return Ok(false);
                        }
                    }
                    // A commit of another repository.
                    GitKind::Commit => {}
                }
            }
        }
        Ok(true)
    }

    /// Text of a link.
    fn link(&self, id: ObjectId) -> Result<String, TreeError> {
        let too_long =
            || TreeError::Exceeded { what: format!("a link has more than {LINK_BYTES_MAX} bytes") };
        let data = self.object(id, Kind::Blob, LINK_BYTES_MAX)?.ok_or_else(too_long)?;
        Ok(String::from_utf8_lossy(&data).into_owned())
    }

    /// The commit an id means; tags are followed, and of what is neither only the header is read. `Ok(None)` when
    /// no commit stands there.
    fn peel(&self, id: ObjectId) -> Result<Option<(ObjectId, Vec<u8>)>, TreeError> {
        let repository = self.repository.to_thread_local();
        let mut id = id;
        for _ in 0..=TAGS_MAX {
            let header = repository.find_header(id).map_err(|_error| self.damage("a commit is missing"))?;
            if !matches!(header.kind(), Kind::Commit | Kind::Tag) {
                return Ok(None);
            }
            let too_large = || TreeError::Damaged { what: "a commit is too large".to_owned() };
            let (kind, data) = self.any_object(id, COMMIT_BYTES_MAX)?.ok_or_else(too_large)?;
            if kind == Kind::Commit {
                return Ok(Some((id, data)));
            }
            id = gix::objs::TagRef::from_bytes(&data, gix::hash::Kind::Sha1)
                .map_err(|_error| self.unexpected(id, kind, &data, "a tag is damaged"))?
                .target();
        }
        Ok(None)
    }

    /// The commit an id means, with its root directory; tags are followed. `Ok(None)` when something else stands
    /// there, however large.
    pub(crate) fn find_commit(&self, id: ObjectId) -> Result<Option<CommitData>, TreeError> {
        let Some((id, data)) = self.peel(id)? else { return Ok(None) };
        let damaged = |_error| self.unexpected(id, Kind::Commit, &data, "a commit is damaged");
        let fields = || gix::objs::CommitRefIter::from_bytes(&data, gix::hash::Kind::Sha1);
        let root = fields().tree_id().map_err(damaged)?;
        let author = fields().author().map_err(damaged)?;
        // Whatever stands after the header, also when that is an unusual one.
        let message = data.find(b"\n\n").and_then(|end| data.get(end + 2..)).unwrap_or_default();
        Ok(Some(CommitData {
            id,
            root,
            author: format!("{} <{}>", author.name, author.email),
            seconds: author.seconds(),
            message: String::from_utf8_lossy(message).into_owned(),
        }))
    }

    /// The root directory of a commit, if that was read before.
    pub(crate) fn known_root(&self, commit: ObjectId) -> Option<Root> {
        self.roots.lock().get(&commit).cloned()
    }

    /// The root directory of a commit, with the submodules that it names.
    pub(crate) fn root(&self, commit: ObjectId) -> Result<Root, TreeError> {
        let root = self.commit(commit)?.root;
        let root = (root, self.gitlinks(root)?);
        let mut roots = self.roots.lock();
        if roots.len() >= ROOTS_MAX {
            roots.clear();
        }
        roots.insert(commit, root.clone());
        Ok(root)
    }

    /// Like [`Self::find_commit`], for what must be a commit.
    pub(crate) fn commit(&self, id: ObjectId) -> Result<CommitData, TreeError> {
        let other = || TreeError::Damaged { what: "the revision is not a commit".to_owned() };
        self.find_commit(id)?.ok_or_else(other)
    }

    /// Whether an object is here.
    pub(crate) fn has(&self, id: ObjectId) -> bool {
        self.repository.to_thread_local().has_object(id)
    }

    /// The only commit whose id, or whose tag's id, begins with these digits.
    pub(crate) fn expand(&self, digits: &str) -> Option<String> {
        let prefix = gix::hash::Prefix::from_hex(digits).ok()?;
        let repository = self.repository.to_thread_local();
        let mut candidates = HashSet::new();
        // What it answers beside the candidates is whether there is only one.
        let _is_only = repository.objects.lookup_prefix(prefix, Some(&mut candidates)).ok()?;
        let candidates = candidates.into_iter().take(CANDIDATES_MAX);
        let found: HashSet<ObjectId> =
            candidates.filter_map(|id| self.peel(id).ok()?.map(|(commit, _)| commit)).collect();
        let mut found = found.into_iter();
        found.next().filter(|_only| found.next().is_none()).map(|commit| commit.to_string())
    }
}

/// A decoded commit.
pub(crate) struct CommitData {
    pub(crate) id: ObjectId,
    pub(crate) root: ObjectId,
    pub(crate) author: String,
    /// Seconds since 1970 at which the author wrote it.
    pub(crate) seconds: i64,
    pub(crate) message: String,
}

/// The id of what was found, if it is a directory.
fn directory_id(found: Option<(GitKind, ObjectId)>) -> Option<String> {
    found.filter(|(kind, _)| *kind == GitKind::Tree).map(|(_, id)| id.to_string())
}

/// Files of one commit.
pub(crate) struct GitTree {
    generation: Arc<Generation>,
    root: ObjectId,
    id: String,
}

impl GitTree {
    pub(crate) fn new(generation: Arc<Generation>, root: ObjectId) -> Self {
        Self { generation, root, id: root.to_string() }
    }

    fn objects(&self) -> &Objects {
        self.generation.objects()
    }

    fn find(&self, path: &TreePath) -> Result<Option<(GitKind, ObjectId)>, TreeError> {
        self.find_in(path, |id| self.objects().members(id))
    }

    fn find_in<E>(
        &self,
        path: &TreePath,
        members: impl Fn(ObjectId) -> Result<Members, E>,
    ) -> Result<Option<(GitKind, ObjectId)>, E> {
        let mut found = (GitKind::Tree, self.root);
        for name in path.components() {
            if found.0 != GitKind::Tree {
                return Ok(None);
            }
            let members = members(found.1)?;
            let Ok(index) = members.binary_search_by(|member| member.name.as_str().cmp(name)) else {
                return Ok(None);
            };
            let Some(member) = members.get(index) else { return Ok(None) };
            found = (member.kind, member.id);
        }
        Ok(Some(found))
    }

    fn entry_of(&self, kind: GitKind, id: ObjectId) -> Result<Entry, TreeError> {
        let kind = match kind {
            GitKind::Tree => EntryKind::Directory,
            GitKind::Blob => EntryKind::File { executable: false },
            GitKind::BlobExecutable => EntryKind::File { executable: true },
            GitKind::Link => EntryKind::Symlink { target: self.objects().link(id)? },
            GitKind::Commit => EntryKind::Submodule,
        };
        Ok(Entry { kind })
    }
}

impl Tree for GitTree {
    fn id(&self) -> &str {
        &self.id
    }

    fn subtree_id(&self, path: &TreePath) -> Result<Option<String>, TreeError> {
        Ok(directory_id(self.find(path)?))
    }

    fn known(&self, path: &TreePath) -> Option<KnownDirectory> {
        let is_clean = self.objects().known_climb(self.root)? == 0;
        let found = self.find_in(path, |id| self.objects().directories.get(&id).ok_or(())).ok()?;
        Some(KnownDirectory { id: directory_id(found), is_clean })
    }

    fn entry(&self, path: &TreePath) -> Result<Option<Entry>, TreeError> {
        self.find(path)?.map(|(kind, id)| self.entry_of(kind, id)).transpose()
    }

    fn list(&self, path: &TreePath) -> Result<Vec<(String, Entry)>, TreeError> {
        match self.find(path)? {
            Some((GitKind::Tree, id)) => {
                let members = self.objects().members(id)?;
                let entry = |member: &Member| {
                    self.entry_of(member.kind, member.id).map(|entry| (member.name.to_string(), entry))
                };
                members.iter().map(entry).collect()
            }
            Some((GitKind::Commit, _)) => {
                Err(TreeError::Submodule { path: path.clone(), why: String::new() })
            }
            Some(_) => Err(TreeError::NotADirectory { path: path.clone() }),
            None => Err(TreeError::NotFound { path: path.clone() }),
        }
    }

    fn read(&self, path: &TreePath, max_bytes: u64) -> Result<Bytes, TreeError> {
        match self.find(path)? {
            Some((GitKind::Blob | GitKind::BlobExecutable, id)) => {
                let too_large = || TreeError::TooLarge { path: path.clone(), limit: max_bytes };
                self.objects().object(id, Kind::Blob, max_bytes)?.map(Bytes::from).ok_or_else(too_large)
            }
            Some(_) => Err(TreeError::NotAFile { path: path.clone() }),
            None => Err(TreeError::NotFound { path: path.clone() }),
        }
    }

    fn escaping_link(&self, limit: &mut WalkLimit<'_>) -> Result<Option<TreePath>, TreeError> {
        self.objects().escaping_link(self.root, limit)
    }
}
