//! The handle to all repositories: resolves, fetches, compares.

mod artifacts;
mod charts;
mod hydrations;
mod lfs;
mod listings;
mod metadata;
mod modules;
mod options;
mod plugins;
mod reach;
mod signatures;
mod tools;
mod uploads;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tiphys_api::repo_url;
use tiphys_plugin::{CALLS_MAX as PLUGIN_CALLS_MAX, Plugins};
use tiphys_render::{Tree, TreeError};

use crate::address;
use crate::git::Git;
use crate::lfs::Pointers;
use crate::local;
use crate::memo::Memo;
use crate::memory::{Fetched, MemoryRepositories};
use crate::observer::{Request, observed};
use crate::packed::PackedFiles;
use crate::refs::{Wanted, check_revision, is_commit_sha};
use crate::registry::Registry;
use crate::store::{Store, parse_commit};
use crate::tree::{ChangesError, GitTree, Gitlink, changed_files};
use crate::web::Web;
use crate::work::{blocking, long};
use crate::{Repository, Resolution, SourceError, Trust, Turns};

pub(crate) use listings::listing_group;

pub use artifacts::ArtifactMetadata;
pub use charts::{ChartDetails, FetchedChart};
pub use metadata::RevisionMetadata;
pub use options::{LAYER_TYPES, Retry, SourceOptions, TokenUse};
pub use signatures::Signed;
pub use tiphys_api::commit::CommitReference;

/// Files of one comparison of commits.
const CHANGED_FILES_MAX: usize = 100_000;

/// Whether a remembered ref listing is good enough (RND-36).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// One within its time to live.
    Cached,
    /// One within its time to live that began at this time of the clock, counted from its start, or later.
    Since(Duration),
    /// One that began after the request did.
    Fetch,
}

/// What began this long before a request for something fresh still counts as fresh: no push can be followed by its
/// notification faster, and a burst of requests costs one question.
const FRESH_FOR: Duration = Duration::from_millis(20);

impl Freshness {
    /// The time of the clock at which an answer may have been asked for at the earliest, for whoever arrives now.
    pub(crate) fn oldest(self, arrived: Duration, ttl: Duration) -> Duration {
        match self {
            Self::Cached => arrived.saturating_sub(ttl),
            Self::Since(time) => arrived.saturating_sub(ttl).max(time),
            Self::Fetch => arrived.saturating_sub(FRESH_FOR),
        }
    }
}

/// A resolved revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// 40 hex digits.
    pub commit: String,
    /// Something the user should know (RND-32, RND-41).
    pub warning: Option<String>,
}

/// All repositories. Cloning gives another handle to the same ones.
#[derive(Clone)]
pub struct Sources(Arc<Shared>);

struct Shared {
    options: Arc<SourceOptions>,
    backend: Backend,
    /// By normalised URL, then by raw URL and credentials.
    listings: Mutex<BTreeMap<String, BTreeMap<String, Arc<listings::Listing>>>>,
    /// Directories whose repositories may be named by path.
    local_roots: Mutex<Arc<[PathBuf]>>,
    /// Who vouches for servers now.
    trust: Mutex<Trust>,
    uses: AtomicU64,
    listings_made: AtomicU64,
    /// How long a listing is used now.
    revision_ttl: Mutex<Duration>,
    /// Files of trees that Git LFS keeps, by the id of the tree.
    pointers: Mutex<BTreeMap<String, Arc<Pointers>>>,
    /// Who fetches into which directory of such files.
    lfs_turns: Mutex<BTreeMap<PathBuf, Weak<tokio::sync::Mutex<()>>>>,
    web: Arc<Web>,
    registry: Registry,
    packed: PackedFiles,
    /// Indexes of chart repositories.
    indexes: Memo<charts::Indexed>,
    /// Held while an index is read.
    index_turn: Turns,
    /// Tags of repositories of registries.
    tags: Memo<Vec<String>>,
    /// Digests of tags.
    digests: Memo<String>,
    /// Programs that render.
    tools: tools::Tools,
    /// Plugins that render.
    plugins: Plugins,
    plugin_turns: Turns,
    /// Who fetches which packed file.
    turns: Mutex<BTreeMap<String, Weak<tokio::sync::Mutex<()>>>>,
}

/// Bytes of indexes, of tags and of digests that are kept.
const INDEXES_BYTES_MAX: usize = 128 * 1024 * 1024;
const TAGS_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Repositories of charts and artifacts that are remembered.
const REMOTE_MAX: usize = 10_000;

/// Where content comes from.
enum Backend {
    /// Servers, and a cache on disk.
    Git { git: Box<Git>, stores: Stores },
    /// Values, for simulations.
    Memory(Fetched),
}

/// Repositories on disk by key, with the number of their last use.
type Stores = Mutex<BTreeMap<String, (u64, Arc<Store>)>>;

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sources").finish_non_exhaustive()
    }
}

impl Sources {
    /// Prepares the cache directory.
    ///
    /// # Errors
    /// When the directory cannot be written.
    pub fn new(options: SourceOptions) -> Result<Self, SourceError> {
        let options = Arc::new(options);
        let git = Box::new(Git::new(Arc::clone(&options))?);
        Ok(Self::with(options, Backend::Git { git, stores: Mutex::default() }))
    }

    /// Sources whose servers are values in memory. Nothing is read from or written to the disk, no process and
    /// no thread is started; resolving, remembered listings and time limits are those of real servers.
    pub fn in_memory(options: SourceOptions, repositories: MemoryRepositories) -> Self {
        Self::with(Arc::new(options), Backend::Memory(Fetched::new(repositories)))
    }

    fn with(options: Arc<SourceOptions>, backend: Backend) -> Self {
        let web = Arc::new(Web::new(Arc::clone(&options)));
        Self(Arc::new(Shared {
            revision_ttl: Mutex::new(options.revision_ttl),
            local_roots: Mutex::new(options.local_roots.clone().into()),
            trust: Mutex::default(),
            backend,
            listings: Mutex::default(),
            uses: AtomicU64::new(0),
            pointers: Mutex::default(),
            lfs_turns: Mutex::default(),
            registry: Registry::new(Arc::clone(&web), Arc::clone(&options)),
            web,
            packed: PackedFiles::new(&options.cache_dir, options.archives_bytes_max, options.clock.clone()),
            indexes: Memo::new(INDEXES_BYTES_MAX, REMOTE_MAX),
            index_turn: Turns::shared(1, 1, options.clock.clone()),
            tags: Memo::new(TAGS_BYTES_MAX, REMOTE_MAX),
            digests: Memo::new(TAGS_BYTES_MAX, REMOTE_MAX),
            tools: tools::Tools::new(&options.clock),
            plugins: Plugins::new(options.plugins.clone(), &options.cache_dir),
            plugin_turns: Turns::shared(PLUGIN_CALLS_MAX, PLUGIN_CALLS_MAX - 1, options.clock.clone()),
            turns: Mutex::default(),
            options,
            listings_made: AtomicU64::new(0),
        }))
    }

    /// The commit a revision means, 40 hex digits (RND-30).
    ///
    /// A full commit id is returned unchanged without asking anybody.
    pub async fn resolve(
        &self,
        repository: &Repository,
        revision: &str,
        freshness: Freshness,
    ) -> Result<String, SourceError> {
        self.resolve_tag(repository, revision, "", freshness).await.map(|resolved| resolved.commit)
    }

    /// Like [`Sources::resolve`], with a prefix for tags that ranges look at (RND-41), and with warnings.
    pub async fn resolve_tag(
        &self,
        repository: &Repository,
        revision: &str,
        tag_prefix: &str,
        freshness: Freshness,
    ) -> Result<Resolved, SourceError> {
        check_revision(revision)?;
        let repository = &*self.admit(repository).await?;
        if is_commit_sha(revision) {
            return Ok(Resolved { commit: revision.to_owned(), warning: None });
        }
        let list = self.refs(repository, Wanted::Revision { revision, tag_prefix }, freshness).await?;
        match list.resolve(revision, tag_prefix) {
            Resolution::Commit { commit, warning } => Ok(Resolved { commit, warning }),
            Resolution::Abbreviated => {
                let found = match &self.0.backend {
                    Backend::Git { git, stores } => {
                        self.store(stores, repository).expand(git, repository, revision, &list).await?
                    }
                    Backend::Memory(fetched) => fetched.expand(repository, revision),
                };
                match found {
                    Some(commit) => Ok(Resolved { commit, warning: None }),
                    None => Err(SourceError::RevisionNotFound { revision: revision.to_owned() }),
                }
            }
            Resolution::NotFound => Err(SourceError::RevisionNotFound { revision: revision.to_owned() }),
        }
    }

    /// Names the directories whose repositories may be named by path, from now on (REP-60).
    pub fn set_local_roots(&self, roots: Vec<PathBuf>) {
        *self.0.local_roots.lock() = roots.into();
    }

    /// Says who vouches for servers, from now on: nothing that was asked under another word counts any more
    /// (REP-80, REP-81).
    pub fn set_trust(&self, trust: Trust) {
        *self.0.trust.lock() = trust;
    }

    /// The repository as it is asked now, with what vouches for its server. Refuses what nobody may fetch, before
    /// anything is asked or answered from memory (RND-23, REP-60).
    async fn admit<'a>(&self, repository: &'a Repository) -> Result<Cow<'a, Repository>, SourceError> {
        let location = repository.location()?;
        let Some(path) = location.local_path().map(Path::to_owned) else {
            let trust = self.0.trust.lock().clone();
            if repository.is_foreign && !trust.local_addresses {
                address::check_host(location.host(), &repo_url::redact(repository.url.expose())).await?;
            }
            let admitted = trust.apply(repository)?;
            return match &self.0.backend {
                Backend::Git { git, .. } if admitted.token.is_some() => {
                    git.with_token(admitted.into_owned(), &trust).await.map(Cow::Owned)
                }
                _ => Ok(admitted),
            };
        };
        let shown = repo_url::redact(repository.url.expose());
        let roots = Arc::clone(&self.0.local_roots.lock());
        if roots.is_empty() {
            return Err(local::refusal(&shown));
        }
        let mut own_dirs = self.0.options.own_dirs.clone();
        own_dirs.push(self.0.options.cache_dir.clone());
        long(move || local::check(&path, &shown, &roots, &own_dirs)).await?;
        Ok(Cow::Borrowed(repository))
    }

    /// Asks a registry, and tells who wants to know (CTL-123).
    async fn asked<T>(
        &self,
        asked: (&Repository, Request, &str),
        asking: impl Future<Output = Result<T, SourceError>>,
    ) -> Result<T, SourceError> {
        observed(self.0.options.observer.as_ref(), asked, asking).await
    }

    /// Uses listings of references so long from now on (RND-36, CTL-133).
    pub fn set_revision_ttl(&self, ttl: Duration) {
        *self.0.revision_ttl.lock() = ttl;
    }

    /// Files of a commit. Fetches the commit when the cache lacks it.
    ///
    /// Content is served only when the present credentials listed the refs within the time to live (REP-63).
    ///
    /// Submodules hold what their repositories hold.
    pub async fn tree(&self, repository: &Repository, commit: &str) -> Result<Arc<dyn Tree>, SourceError> {
        let (tree, gitlinks) = self.git_tree(repository, commit).await?;
        self.with_modules(repository, tree, &gitlinks).await
    }

    /// The same, for whoever wants no submodules: theirs are not fetched (ASET-310).
    pub async fn tree_without_submodules(
        &self,
        repository: &Repository,
        commit: &str,
    ) -> Result<Arc<dyn Tree>, SourceError> {
        self.git_tree(repository, commit).await.map(|(tree, _)| tree)
    }

    /// Files of a commit, and its submodules, which have no content here.
    async fn git_tree(
        &self,
        repository: &Repository,
        commit: &str,
    ) -> Result<(Arc<dyn Tree>, Arc<[Gitlink]>), SourceError> {
        let id = parse_commit(commit)?;
        let repository = &*self.admit(repository).await?;
        self.refs(repository, Wanted::Access, Freshness::Cached).await?;
        let (git, stores) = match &self.0.backend {
            Backend::Git { git, stores } => (git, stores),
            Backend::Memory(fetched) => {
                let tree = fetched.tree(repository, commit, self.0.options.exec_timeout).await?;
                return Ok((tree, Arc::from([])));
            }
        };
        let store = self.store(stores, repository);
        for last in [false, true] {
            let generation = store.commit(git, repository, commit).await?;
            let known = generation.objects().known_root(id);
            let found = Arc::clone(&generation);
            let root = match known {
                Some(known) => Ok(known),
                None => blocking(move || Ok(found.objects().root(id))).await?,
            };
            match root {
                Ok((root, gitlinks)) => {
                    let tree = Arc::new(GitTree::new(generation, root));
                    return Ok((self.with_lfs(git, repository, tree).await?, gitlinks));
                }
                // Damage was noted; the next round fetches into a new repository.
                Err(error) if last => return Err(damaged(&error)),
                Err(_) => {}
            }
        }
        Err(SourceError::Cache { text: "the commit cannot be read".to_owned() })
    }

    /// Paths of files that differ between two commits, sorted, without rename detection (RND-47).
    pub async fn changed_files(
        &self,
        repository: &Repository,
        from: &str,
        to: &str,
    ) -> Result<Vec<String>, SourceError> {
        let (before, after) = (parse_commit(from)?, parse_commit(to)?);
        let repository = &*self.admit(repository).await?;
        self.refs(repository, Wanted::Access, Freshness::Cached).await?;
        let (git, stores) = match &self.0.backend {
            Backend::Git { git, stores } => (git, stores),
            Backend::Memory(fetched) => return fetched.changed_files(repository, from, to),
        };
        let store = self.store(stores, repository);
        let old = store.commit(git, repository, from).await?;
        let new = store.commit(git, repository, to).await?;
        long(move || {
            // Both commits are read through the repository of the newer one, where it has them.
            let before = old.objects().commit(before).map_err(|error| damaged(&error))?;
            let after = new.objects().commit(after).map_err(|error| damaged(&error))?;
            changed_files(new.objects(), before.root, after.root, CHANGED_FILES_MAX).map_err(|error| {
                match error {
                    ChangesError::Tree(error) => damaged(&error),
                    ChangesError::Submodule => SourceError::Exhausted {
                        text: "a submodule changed, and what is different in it is not known".to_owned(),
                    },
                    ChangesError::TooMany => SourceError::Exhausted {
                        text: format!("more than {CHANGED_FILES_MAX} files changed between the revisions"),
                    },
                }
            })
        })
        .await
    }

    /// Author, date, message and tags of a commit (RND-151).
    pub async fn revision_metadata(
        &self,
        repository: &Repository,
        commit: &str,
    ) -> Result<RevisionMetadata, SourceError> {
        let digits = (7..=40).contains(&commit.len()) && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !digits {
            let text = format!("revision {commit} must be resolved");
            return Err(SourceError::Version { text });
        }
        let commit = self.resolve(repository, commit, Freshness::Cached).await?;
        let id = parse_commit(&commit)?;
        let repository = &*self.admit(repository).await?;
        let list = self.refs(repository, Wanted::All, Freshness::Cached).await?;
        let (git, stores) = match &self.0.backend {
            Backend::Git { git, stores } => (git, stores),
            Backend::Memory(fetched) => {
                return metadata::read(fetched.metadata(repository, &commit)?, list.tags_of(&commit));
            }
        };
        let generation = self.store(stores, repository).commit(git, repository, &commit).await?;
        blocking(move || {
            let data = generation.objects().commit(id).map_err(|error| damaged(&error))?;
            let tags = list.tags_of(&data.id.to_string());
            metadata::read(data, tags)
        })
        .await
    }

    /// Time since the start, as freshness counts it.
    pub fn elapsed(&self) -> Duration {
        self.0.options.clock.elapsed()
    }

    fn store(&self, stores: &Stores, repository: &Repository) -> Arc<Store> {
        let key = repository.store_key();
        let now = self.0.uses.fetch_add(1, Ordering::Relaxed);
        let mut stores = stores.lock();
        if !stores.contains_key(&key) && stores.len() >= self.0.options.stores_max {
            let oldest = stores.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            if let Some((_, store)) = oldest.and_then(|key| stores.remove(&key)) {
                store.doom();
            }
        }
        let directory = self.0.options.cache_dir.join("git").join(&key);
        let entry = stores
            .entry(key)
            .or_insert_with(|| (now, Arc::new(Store::new(directory, self.0.options.fetches_max))));
        entry.0 = now;
        Arc::clone(&entry.1)
    }
}

fn damaged(error: &TreeError) -> SourceError {
    SourceError::Cache { text: error.to_string() }
}
