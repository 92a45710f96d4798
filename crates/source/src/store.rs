//! One bare repository on disk per (normalised URL, scope) (DEP-52, REP-61).
//!
//! Commits are fetched one by one without history; a ref `refs/tiphys/<commit>`, written last, proves that all
//! its objects are there. Every fetch leaves small files behind, so after some hundred of them the newest commits
//! are copied into a new *generation* of the repository, and the old directory goes when its last reader does.
//! A second repository with all branches and tags exists only where abbreviated commits, or servers that give
//! out advertised commits only, make it necessary.
//!
//! The directory belongs to one process.

mod history;
mod sweep;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gix::ObjectId;
use parking_lot::Mutex;

use crate::allowance::{Allowance, held_bytes, hold};
use crate::git::{Cause, Failed, Git};
use crate::observer::{Request, observed};
use crate::refs::RefList;
use crate::tree::Objects;
use crate::work::{blocking, interruptible, long};
use crate::{Repository, SourceError, pack};
use sweep::{Sweep, remove_leftovers};

/// Refs that a fetch offers as known. The server walks the whole tree of each: on 1,000 directories a fetch
/// takes 35 ms with one and 50 ms with nine, and the answer hardly gets smaller.
const KNOWN_REFS_MAX: usize = 4;
/// A bare repository and the commits it holds completely.
pub(crate) struct Generation {
    directory: PathBuf,
    objects: Objects,
    commits: Mutex<Commits>,
    fetches: AtomicU64,
    is_doomed: AtomicBool,
}

#[derive(Default)]
struct Commits {
    complete: BTreeSet<String>,
    /// Commits that still have a ref, oldest first.
    refs: VecDeque<String>,
}

impl Generation {
    fn open(directory: PathBuf) -> Result<Self, SourceError> {
        remove_leftovers(&directory);
        let objects = Objects::open(&directory)?;
        let mut found: Vec<(std::time::SystemTime, String)> = Vec::new();
        if let Ok(members) = std::fs::read_dir(directory.join("refs/tiphys")) {
            for member in members.flatten() {
                let written = member.metadata().and_then(|metadata| metadata.modified());
                let name = member.file_name().to_string_lossy().into_owned();
                if crate::refs::is_commit_sha(&name) {
                    found.push((written.unwrap_or(std::time::UNIX_EPOCH), name));
                }
            }
        }
        found.sort();
        let refs: VecDeque<String> = found.into_iter().map(|(_, name)| name).collect();
        // Every fetched commit is a line of this file.
        let shallow = std::fs::read(directory.join("shallow")).unwrap_or_default();
        let fetches = AtomicU64::new(shallow.split(|byte| *byte == b'\n').count().saturating_sub(1) as u64);
        let commits = Mutex::new(Commits { complete: refs.iter().cloned().collect(), refs });
        Ok(Self { directory, objects, commits, fetches, is_doomed: AtomicBool::new(false) })
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Where the repository is.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn has(&self, commit: &str) -> bool {
        self.commits.lock().complete.contains(commit)
    }

    fn newest(&self, count: usize) -> Vec<String> {
        self.commits.lock().refs.iter().rev().take(count).cloned().collect()
    }

    fn add(&self, commit: &str) {
        let mut commits = self.commits.lock();
        commits.complete.insert(commit.to_owned());
        commits.refs.push_back(commit.to_owned());
        while commits.refs.len() > KNOWN_REFS_MAX {
            let Some(oldest) = commits.refs.pop_front() else { break };
            // Objects are never collected, so the commit stays complete without its ref.
            drop(std::fs::remove_file(self.directory.join("refs/tiphys").join(oldest)));
        }
    }

    /// The directory goes with the last reader.
    fn doom(&self) {
        self.is_doomed.store(true, Ordering::Relaxed);
    }
}

impl Drop for Generation {
    fn drop(&mut self) {
        if self.is_doomed.load(Ordering::Relaxed) {
            // What stays is removed when the store is opened again.
            drop(std::fs::remove_dir_all(&self.directory));
        }
    }
}

/// The cache of one repository.
pub(crate) struct Store {
    directory: PathBuf,
    /// Fetches into one generation before the next one begins.
    fetches_max: u64,
    /// Held while git writes.
    fetching: tokio::sync::Mutex<()>,
    attempts: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Fetches in a row that used all they might, and when the repository is asked again.
    exhausted: Option<Exhaustion>,
    current: Option<Arc<Generation>>,
    full: Option<Full>,
    /// Last failure per commit.
    failures: BTreeMap<String, Failure>,
}

/// A repository that sends more, or more work, than it may (INV-16).
#[derive(Clone)]
struct Exhaustion {
    fetches: u32,
    error: SourceError,
    /// Time of the clock until which nothing is fetched.
    holds_until: Duration,
}

struct Failure {
    /// Number of the attempt.
    attempt: u64,
    error: SourceError,
}

struct Full {
    generation: Arc<Generation>,
    /// The listing that the content follows.
    as_of: Option<Arc<RefList>>,
}

impl State {
    /// Notes that a fetch used all it might; any other failure says nothing about that.
    fn exhaust(&mut self, git: &Git, error: &SourceError) {
        if !matches!(error, SourceError::Exhausted { .. }) {
            return;
        }
        let fetches = self.exhausted.as_ref().map_or(0, |exhausted| exhausted.fetches).saturating_add(1);
        let holds_until = git.now() + hold(fetches);
        self.exhausted = Some(Exhaustion { fetches, error: error.clone(), holds_until });
    }
}

/// Failures that are remembered for those who wait.
const FAILURES_MAX: usize = 100;

impl Store {
    pub(crate) fn new(directory: PathBuf, fetches_max: u64) -> Self {
        let state = Mutex::default();
        Self {
            directory,
            fetches_max,
            fetching: tokio::sync::Mutex::new(()),
            attempts: AtomicU64::new(0),
            state,
        }
    }

    /// A generation that holds a commit completely; fetches when there is none. All callers that ask while a
    /// fetch runs share it, and share its failure.
    pub(crate) async fn commit(
        &self,
        git: &Git,
        repository: &Repository,
        commit: &str,
    ) -> Result<Arc<Generation>, SourceError> {
        let commit = commit.to_ascii_lowercase();
        if let Some(generation) = self.holder(&commit) {
            return Ok(generation);
        }
        let seen = self.attempts.load(Ordering::SeqCst);
        let _fetching = self.fetching.lock().await;
        if let Some(generation) = self.holder(&commit) {
            return Ok(generation);
        }
        if let Some(failure) = self.state.lock().failures.get(&commit)
            && failure.attempt > seen
        {
            return Err(failure.error.clone());
        }
        self.check_exhaustion(git)?;
        let attempt = self.attempts.fetch_add(1, Ordering::SeqCst) + 1;
        let result = self.fetch_commit(git, repository, &commit).await;
        let mut state = self.state.lock();
        match &result {
            Ok(_) => {
                state.failures.remove(&commit);
                state.exhausted = None;
            }
            Err(error) => {
                if state.failures.len() >= FAILURES_MAX {
                    state.failures.clear();
                }
                state.exhaust(git, error);
                state.failures.insert(commit, Failure { attempt, error: error.clone() });
            }
        }
        result
    }

    /// Nothing is fetched for a while from a repository that used all it might: every try costs that much.
    fn check_exhaustion(&self, git: &Git) -> Result<(), SourceError> {
        let exhausted = self.state.lock().exhausted.clone();
        match exhausted.filter(|exhausted| git.now() < exhausted.holds_until) {
            Some(exhausted) => Err(exhausted.error),
            None => Ok(()),
        }
    }

    /// What a fetch into a generation may use.
    fn allowance(&self, git: &Git, into: &Generation) -> Allowance {
        let (current, exhausted) = {
            let state = self.state.lock();
            let exhausted = state.exhausted.as_ref().map_or(0, |exhausted| exhausted.fetches);
            (state.current.clone(), exhausted)
        };
        let of_current = current.map_or(0, |current| held_bytes(&current.directory));
        git.allowance(held_bytes(&into.directory).max(of_current), exhausted)
    }

    /// The full id of an abbreviated commit, looked for in all branches and tags (RND-30).
    pub(crate) async fn expand(
        &self,
        git: &Git,
        repository: &Repository,
        digits: &str,
        list: &Arc<RefList>,
    ) -> Result<Option<String>, SourceError> {
        let _fetching = self.fetching.lock().await;
        let generation = self.full(git, repository, list).await?;
        let digits = digits.to_ascii_lowercase();
        blocking(move || Ok(generation.objects.expand(&digits))).await
    }

    /// Forgets everything; the directories go with their last readers.
    pub(crate) fn doom(&self) {
        let mut state = self.state.lock();
        if let Some(generation) = state.current.take() {
            generation.doom();
        }
        if let Some(full) = state.full.take() {
            full.generation.doom();
        }
    }

    fn holder(&self, commit: &str) -> Option<Arc<Generation>> {
        let state = self.state.lock();
        let generations = state.current.iter().chain(state.full.iter().map(|full| &full.generation));
        let mut sound = generations.filter(|generation| !generation.objects.is_damaged());
        sound.find(|generation| generation.has(commit)).map(Arc::clone)
    }

    async fn fetch_commit(
        &self,
        git: &Git,
        repository: &Repository,
        commit: &str,
    ) -> Result<Arc<Generation>, SourceError> {
        let generation = self.writable(git).await?;
        if generation.has(commit) {
            // An earlier process fetched it.
            return Ok(generation);
        }
        let had_content = generation.fetches.load(Ordering::Relaxed) > 0;
        let allowance = self.allowance(git, &generation);
        let fetched = fetch_one(git, repository, (&generation, commit), &allowance).await;
        let Failed { error, cause } = match fetched {
            Ok(()) => return Ok(generation),
            Err(failed) => failed,
        };
        let revision = commit.to_owned();
        match cause {
            Cause::NotFound => return Err(SourceError::RevisionNotFound { revision }),
            Cause::Unadvertised => {
                let generation = self.full(git, repository, &Arc::new(RefList::default())).await?;
                if generation.objects.expand(commit).is_none() {
                    return Err(SourceError::RevisionNotFound { revision });
                }
                generation.commits.lock().complete.insert(revision);
                return Ok(generation);
            }
            Cause::Damage if had_content => {
                tracing::warn!(repository = %repository.url, "the cached repository is damaged and is fetched again");
            }
            _ if matches!(error, SourceError::Cache { .. }) && generation.objects.is_damaged() => {}
            _ => return Err(error),
        }
        let generation = self.replace(git, &generation).await?;
        fetch_one(git, repository, (&generation, commit), &allowance).await?;
        Ok(generation)
    }

    /// The generation to fetch into: opened, made, or renewed.
    async fn writable(&self, git: &Git) -> Result<Arc<Generation>, SourceError> {
        let current = self.state.lock().current.clone();
        let generation = if let Some(generation) = current {
            generation
        } else {
            let directory = self.directory.clone();
            let in_use = self.state.lock().full.as_ref().map(|full| full.generation.directory.clone());
            let opening = blocking(move || Ok(open_newest(&directory, in_use.as_deref())));
            let Some(generation) = opening.await? else {
                let generation = self.create(git, &self.next_directory("g")).await?;
                return Ok(self.install(generation));
            };
            self.install(generation)
        };
        if generation.objects.is_damaged() {
            return self.replace(git, &generation).await;
        }
        if generation.fetches.load(Ordering::Relaxed) >= self.fetches_max {
            return self.renew(git, &generation).await;
        }
        Ok(generation)
    }

    fn install(&self, generation: Generation) -> Arc<Generation> {
        let generation = Arc::new(generation);
        let old = self.state.lock().current.replace(Arc::clone(&generation));
        if let Some(old) = old {
            old.doom();
        }
        generation
    }

    /// An empty generation in place of a damaged one.
    async fn replace(&self, git: &Git, damaged: &Arc<Generation>) -> Result<Arc<Generation>, SourceError> {
        damaged.doom();
        let generation = self.create(git, &self.next_directory("g")).await?;
        Ok(self.install(generation))
    }

    /// A new generation with the newest commits of the old one, copied without the network.
    async fn renew(&self, git: &Git, old: &Arc<Generation>) -> Result<Arc<Generation>, SourceError> {
        let new = self.create(git, &self.next_directory("g")).await?;
        let origin = Repository::anonymous(&old.directory.to_string_lossy());
        let commits = old.newest(KNOWN_REFS_MAX);
        let refspecs: Vec<String> = commits.iter().map(|commit| proof(commit)).collect();
        let allowance = self.allowance(git, old);
        match git.fetch(&origin, &new.directory, (1, &refspecs), &allowance).await {
            Ok(()) => commits.iter().rev().for_each(|commit| new.add(commit)),
            Err(error) => tracing::debug!(%error, "the cached commits were not copied"),
        }
        Ok(self.install(new))
    }

    async fn create(&self, git: &Git, directory: &Path) -> Result<Generation, SourceError> {
        let target = directory.to_owned();
        long(move || {
            // What a crash left under this name is in the way.
            match std::fs::remove_dir_all(&target) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(cache_error(&error));
                }
                _ => {}
            }
            std::fs::create_dir_all(&target).map_err(|error| cache_error(&error))
        })
        .await?;
        git.init(directory).await?;
        let directory = directory.to_owned();
        blocking(move || Generation::open(directory)).await
    }

    fn next_directory(&self, prefix: &str) -> PathBuf {
        let numbers = members(&self.directory).into_iter();
        let last = numbers.filter_map(|name| name.strip_prefix(prefix)?.parse::<u64>().ok()).max();
        self.directory.join(format!("{prefix}{}", last.unwrap_or(0).saturating_add(1)))
    }

    /// The repository with all branches and tags, as of a listing. The caller holds `fetching`.
    async fn full(
        &self,
        git: &Git,
        repository: &Repository,
        list: &Arc<RefList>,
    ) -> Result<Arc<Generation>, SourceError> {
        let known = self.state.lock().full.as_ref().map(|full| {
            let is_current = full.as_of.as_ref().is_some_and(|as_of| Arc::ptr_eq(as_of, list));
            (Arc::clone(&full.generation), is_current)
        });
        let generation = match known {
            Some((generation, true)) if !generation.objects.is_damaged() => return Ok(generation),
            Some((generation, false)) if !generation.objects.is_damaged() => generation,
            _ => Arc::new(self.create(git, &self.next_directory("full")).await?),
        };
        let refspecs = ["+refs/heads/*:refs/heads/*".to_owned(), "+refs/tags/*:refs/tags/*".to_owned()];
        self.check_exhaustion(git)?;
        let sweep = Sweep::of(&generation.directory);
        let allowance = self.allowance(git, &generation);
        let fetching = git.fetch(repository, &generation.directory, (0, &refspecs), &allowance);
        if let Err(error) = observed(git.observer(), (repository, Request::Fetch, ""), fetching).await {
            sweep.now().await;
            self.state.lock().exhaust(git, &error.error);
            return Err(error.into());
        }
        sweep.disarm();
        let full = Full { generation: Arc::clone(&generation), as_of: Some(Arc::clone(list)) };
        self.state.lock().full = Some(full);
        Ok(generation)
    }
}

/// Fetches a commit and checks it; a generation that holds others gets the difference only. Whatever goes wrong,
/// no temporary file stays.
async fn fetch_one(
    git: &Git,
    repository: &Repository,
    (generation, commit): (&Arc<Generation>, &str),
    allowance: &Allowance,
) -> Result<(), Failed> {
    let sweep = Sweep::of(&generation.directory);
    let fetching = fetch_into(git, repository, (generation, commit), allowance);
    let result = observed(git.observer(), (repository, Request::Fetch, commit), fetching).await;
    match &result {
        Ok(()) => sweep.disarm(),
        Err(_failed) => sweep.now().await,
    }
    result
}

async fn fetch_into(
    git: &Git,
    repository: &Repository,
    (generation, commit): (&Arc<Generation>, &str),
    allowance: &Allowance,
) -> Result<(), Failed> {
    generation.fetches.fetch_add(1, Ordering::Relaxed);
    let (refspecs, id) = ([proof(commit)], parse_commit(commit)?);
    let known = generation.newest(KNOWN_REFS_MAX);
    if let Some(increment) = git.increment(repository, commit, &known, &refspecs).await? {
        let into = Arc::clone(generation);
        let stored = interruptible(git.exec_timeout(), move |interrupt| {
            pack::add(&into.directory, &into.objects, id, &increment, &known, interrupt)
                .map_err(|error| SourceError::Cache { text: error.to_string() })
        });
        match stored.await {
            Ok(()) => {
                generation.add(commit);
                return Ok(());
            }
            Err(error @ SourceError::Timeout { .. }) => return Err(error.into()),
            Err(error) => {
                tracing::warn!(repository = %repository.url, %error, "the commit is fetched by git");
            }
        }
    }
    git.fetch(repository, &generation.directory, (1, &refspecs), allowance).await?;
    let checked = Arc::clone(generation);
    let revision = commit.to_owned();
    blocking(move || {
        let damaged = |error: tiphys_render::TreeError| SourceError::Cache { text: error.to_string() };
        let Some(data) = checked.objects.find_commit(id).map_err(damaged)? else {
            // A file behind a tag, say. Git has noted it as fetched.
            drop(std::fs::remove_file(checked.directory.join("refs/tiphys").join(&revision)));
            return Err(SourceError::RevisionNotFound { revision });
        };
        checked.objects.members(data.root).map(drop).map_err(damaged)
    })
    .await?;
    generation.add(commit);
    Ok(())
}

/// The refspec that fetches a commit and proves afterwards that it is complete.
fn proof(commit: &str) -> String {
    format!("+{commit}:refs/tiphys/{commit}")
}

pub(crate) fn parse_commit(commit: &str) -> Result<ObjectId, SourceError> {
    let invalid = |_error| SourceError::InvalidRevision { revision: commit.to_owned() };
    ObjectId::from_hex(commit.as_bytes()).map_err(invalid)
}

/// Opens the newest generation of a store that an earlier process left, and removes everything else but what this one
/// has in use.
fn open_newest(directory: &Path, in_use: Option<&Path>) -> Option<Generation> {
    let mut numbers: Vec<(u64, String)> = Vec::new();
    for name in members(directory) {
        if in_use == Some(directory.join(&name).as_path()) {
            continue;
        }
        match name.strip_prefix('g').and_then(|digits| digits.parse().ok()) {
            Some(number) => numbers.push((number, name)),
            None => {
                drop(std::fs::remove_dir_all(directory.join(name)));
            }
        }
    }
    numbers.sort_unstable();
    let mut opened = None;
    for (_, name) in numbers.into_iter().rev() {
        let path = directory.join(name);
        if opened.is_none() {
            opened = Generation::open(path.clone()).ok();
            if opened.is_some() {
                continue;
            }
        }
        drop(std::fs::remove_dir_all(path));
    }
    opened
}

fn members(directory: &Path) -> Vec<String> {
    let Ok(members) = std::fs::read_dir(directory) else { return Vec::new() };
    members.flatten().map(|member| member.file_name().to_string_lossy().into_owned()).collect()
}

fn cache_error(error: &std::io::Error) -> SourceError {
    SourceError::Cache { text: format!("the cache directory cannot be written: {}", error.kind()) }
}
