//! Repositories that are values in memory: what simulations put in place of git servers.
//!
//! [`MemoryRepositories`] is the servers' side: commits, references that move in every way git allows, and
//! troubles. [`Fetched`] is ours, in place of the cache on disk. Everything above, from the meaning of a
//! revision to listings that are remembered, is the code that real servers meet.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gix::ObjectId;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tiphys_render::{MemoryTree, PathError, Tree, TreePath};

use crate::hydrate::{Branch, Hydrated, Hydration, Pushed, check_branch, plan};
use crate::refs::RefList;
use crate::repository::hex;
use crate::store::parse_commit;
use crate::tree::CommitData;
use crate::{Repository, SourceError};

/// Servers with repositories. Cloning gives another handle to the same ones.
#[derive(Clone, Debug, Default)]
pub struct MemoryRepositories(Arc<Mutex<BTreeMap<String, Stored>>>);

#[derive(Debug, Default)]
struct Stored {
    /// Full names.
    refs: BTreeMap<String, String>,
    commits: BTreeMap<String, Commit>,
    /// By commit.
    notes: BTreeMap<String, String>,
    /// Whether nobody may push.
    is_read_only: bool,
    trouble: Trouble,
}

#[derive(Clone, Debug)]
struct Commit {
    files: Arc<BTreeMap<String, Bytes>>,
    tree: Arc<MemoryTree>,
    parent: Option<String>,
    seconds: i64,
}

/// What goes wrong with every question to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The answer's text, when the server refuses.
    pub failure: Option<String>,
    /// Time until the answer arrives. It says how things were when it was asked for.
    pub delay: Duration,
}

impl MemoryRepositories {
    /// Commits files, all that the commit has, to a branch; makes repository and branch where they are missing.
    /// Equal commits to equal histories have equal ids. Returns the id.
    ///
    /// # Errors
    /// When a path is not one of a tree.
    pub fn commit(
        &self,
        url: &str,
        branch: &str,
        files: BTreeMap<String, Bytes>,
        seconds: i64,
    ) -> Result<String, PathError> {
        let tree = MemoryTree::from_files(files.iter().map(|(path, content)| (path, content.clone())))?;
        let mut servers = self.0.lock();
        let stored = servers.entry(key(url)).or_default();
        let name = format!("refs/heads/{branch}");
        let parent = stored.refs.get(&name).cloned();
        let mut hash = Sha256::new();
        for part in [url, parent.as_deref().unwrap_or_default(), tree.id(), &seconds.to_string()] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let id: String = hex(&hash.finalize()).chars().take(40).collect();
        let commit = Commit { files: Arc::new(files), tree: Arc::new(tree), parent, seconds };
        stored.commits.insert(id.clone(), commit);
        stored.refs.insert(name, id.clone());
        Ok(id)
    }

    /// Points a reference, by its full name, at a commit: a force-push, a tag, a branch.
    pub fn set_ref(&self, url: &str, name: &str, commit: &str) {
        self.0.lock().entry(key(url)).or_default().refs.insert(name.to_owned(), commit.to_owned());
    }

    /// Deletes a reference by its full name.
    pub fn delete_ref(&self, url: &str, name: &str) {
        if let Some(stored) = self.0.lock().get_mut(&key(url)) {
            stored.refs.remove(name);
        }
    }

    /// The commit a full name means now.
    pub fn get_ref(&self, url: &str, name: &str) -> Option<String> {
        self.0.lock().get(&key(url))?.refs.get(name).cloned()
    }

    /// Files of a commit.
    pub fn files(&self, url: &str, commit: &str) -> Option<Arc<BTreeMap<String, Bytes>>> {
        Some(Arc::clone(&self.0.lock().get(&key(url))?.commits.get(commit)?.files))
    }

    /// The note on a commit.
    pub fn note(&self, url: &str, commit: &str) -> Option<String> {
        self.0.lock().get(&key(url))?.notes.get(commit).cloned()
    }

    /// From now on nobody may push to a repository.
    pub fn forbid_pushes(&self, url: &str) {
        self.0.lock().entry(key(url)).or_default().is_read_only = true;
    }

    /// Whether a commit is among the parents of another, at any distance; no commit is its own.
    pub fn is_ancestor(&self, url: &str, ancestor: &str, of: &str) -> bool {
        let servers = self.0.lock();
        let Some(stored) = servers.get(&key(url)) else { return false };
        let parent = |id: &str| stored.commits.get(id).and_then(|commit| commit.parent.clone());
        std::iter::successors(parent(of), |id| parent(id)).any(|id| id == ancestor)
    }

    /// What is wrong with a server from now on.
    pub fn set_trouble(&self, url: &str, trouble: Trouble) {
        self.0.lock().entry(key(url)).or_default().trouble = trouble;
    }

    /// The output of `git ls-remote --symref`, and what is wrong.
    fn listing(&self, url: &str) -> Option<(Vec<u8>, Trouble)> {
        let servers = self.0.lock();
        let stored = servers.get(&key(url))?;
        let mut text = String::new();
        // Writing to a text cannot fail.
        if let Some(main) = stored.refs.get("refs/heads/main") {
            let _ = writeln!(text, "ref: refs/heads/main\tHEAD\n{main}\tHEAD");
        }
        for (name, commit) in &stored.refs {
            let _ = writeln!(text, "{commit}\t{name}");
        }
        Some((text.into_bytes(), stored.trouble.clone()))
    }

    fn get(&self, url: &str, commit: &str) -> Option<(Commit, Trouble)> {
        let servers = self.0.lock();
        let stored = servers.get(&key(url))?;
        Some((stored.commits.get(commit)?.clone(), stored.trouble.clone()))
    }
}

fn key(url: &str) -> String {
    crate::sources::listing_group(url)
}

/// What was fetched of such repositories.
pub(crate) struct Fetched {
    repositories: MemoryRepositories,
    commits: Mutex<BTreeSet<(String, String)>>,
}

impl Fetched {
    pub(crate) fn new(repositories: MemoryRepositories) -> Self {
        Self { repositories, commits: Mutex::default() }
    }

    pub(crate) async fn list(
        &self,
        repository: &Repository,
        deadline: Duration,
    ) -> Result<Vec<u8>, SourceError> {
        let url = repository.url.expose();
        let Some((text, trouble)) = self.repositories.listing(url) else {
            return Err(SourceError::Unavailable { text: "repository not found".to_owned() });
        };
        suffer(trouble, deadline).await?;
        Ok(text)
    }

    pub(crate) async fn tree(
        &self,
        repository: &Repository,
        commit: &str,
        deadline: Duration,
    ) -> Result<Arc<dyn Tree>, SourceError> {
        let url = repository.url.expose();
        let (found, trouble) = self.found(url, commit)?;
        let key = (repository.store_key(), commit.to_owned());
        if !self.commits.lock().contains(&key) {
            suffer(trouble, deadline).await?;
            self.commits.lock().insert(key);
        }
        Ok(found.tree)
    }

    /// Commits manifests, as servers have it done to them.
    pub(crate) async fn hydrate(
        &self,
        repository: &Repository,
        wanted: &Hydration,
        seconds: i64,
        deadline: Duration,
    ) -> Result<Hydrated, SourceError> {
        check_branch(&wanted.sync_branch)?;
        check_branch(&wanted.target_branch)?;
        let list = RefList::parse(&self.list(repository, deadline).await?)?;
        let (servers, url) = (&self.repositories, repository.url.expose());
        if servers.0.lock().get(&key(url)).is_some_and(|stored| stored.is_read_only) {
            return Err(SourceError::Denied { text: "the repository is read-only".to_owned() });
        }
        if let Some(text) =
            wanted.as_default_branch.as_ref().filter(|_| list.is_default(&wanted.target_branch))
        {
            return Err(SourceError::Denied { text: text.clone() });
        }
        let head = |branch: &str| servers.get_ref(url, &format!("refs/heads/{branch}"));
        let invalid = |error: PathError| SourceError::Malformed { text: error.to_string() };
        if head(&wanted.sync_branch).is_none() && wanted.sync_branch != wanted.target_branch {
            servers.commit(url, &wanted.sync_branch, BTreeMap::new(), seconds).map_err(invalid)?;
        }
        if head(&wanted.target_branch).is_none()
            && let Some(sync) = head(&wanted.sync_branch)
        {
            servers.set_ref(url, &format!("refs/heads/{}", wanted.target_branch), &sync);
        }
        let known = head(&wanted.target_branch);
        let files = known.as_deref().and_then(|commit| servers.files(url, commit));
        let mut files = files.map(|files| BTreeMap::clone(&files)).unwrap_or_default();
        let plan = plan(&files, wanted)?;
        let (commit, pushed) = match known.filter(|_| plan.is_nothing()) {
            Some(commit) if servers.note(url, &commit).is_some_and(|note| wanted.is_noted(&note)) => {
                return Ok(Hydrated { commit, pushed: Pushed::Nothing });
            }
            Some(commit) => (commit, Pushed::Note),
            None => {
                for (path, text) in plan.files {
                    match text {
                        Some(text) => drop(files.insert(path.as_str().to_owned(), text.into())),
                        None => drop(files.remove(path.as_str())),
                    }
                }
                let commit = servers.commit(url, &wanted.target_branch, files, seconds).map_err(invalid)?;
                (commit, Pushed::Commit)
            }
        };
        let mut stored = servers.0.lock();
        stored.entry(key(url)).or_default().notes.insert(commit.clone(), wanted.note.clone());
        Ok(Hydrated { commit, pushed })
    }

    pub(crate) fn changed_files(
        &self,
        repository: &Repository,
        from: &str,
        to: &str,
    ) -> Result<Vec<String>, SourceError> {
        let url = repository.url.expose();
        let (old, new) = (self.found(url, from)?.0.files, self.found(url, to)?.0.files);
        let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        Ok(names.into_iter().filter(|name| old.get(*name) != new.get(*name)).cloned().collect())
    }

    pub(crate) fn metadata(&self, repository: &Repository, commit: &str) -> Result<CommitData, SourceError> {
        let (found, _) = self.found(repository.url.expose(), commit)?;
        Ok(CommitData {
            id: parse_commit(commit)?,
            root: ObjectId::null(gix::hash::Kind::Sha1),
            author: "Nobody <nobody@example.com>".to_owned(),
            seconds: found.seconds,
            message: String::new(),
        })
    }

    pub(crate) fn expand(&self, repository: &Repository, digits: &str) -> Option<String> {
        let servers = self.repositories.0.lock();
        let commits = &servers.get(&key(repository.url.expose()))?.commits;
        let mut found = commits.keys().filter(|id| id.starts_with(digits));
        let only = found.next().cloned();
        only.filter(|_| found.next().is_none())
    }

    fn found(&self, url: &str, commit: &str) -> Result<(Commit, Trouble), SourceError> {
        let missing = || SourceError::RevisionNotFound { revision: commit.to_owned() };
        self.repositories.get(url, commit).ok_or_else(missing)
    }
}

impl Branch for BTreeMap<String, Bytes> {
    fn file(&self, path: &TreePath) -> Result<Option<Vec<u8>>, SourceError> {
        Ok(self.get(path.as_str()).map(|content| content.to_vec()))
    }

    fn directories_with(&self, name: &str) -> Result<Vec<(TreePath, Vec<u8>)>, SourceError> {
        let found = self.iter().filter_map(|(path, content)| {
            let (directory, own) = path.rsplit_once('/').unwrap_or(("", path));
            Some((TreePath::parse(directory).ok().filter(|_| own == name)?, content.to_vec()))
        });
        Ok(found.collect())
    }
}

async fn suffer(trouble: Trouble, deadline: Duration) -> Result<(), SourceError> {
    if trouble.delay >= deadline {
        tokio::time::sleep(deadline).await;
        return Err(SourceError::Timeout { text: format!("timeout after {}s", deadline.as_secs()) });
    }
    if !trouble.delay.is_zero() {
        tokio::time::sleep(trouble.delay).await;
    }
    match trouble.failure {
        Some(text) => Err(SourceError::Unavailable { text }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, Freshness, SourceOptions, Sources};

    const URL: &str = "https://git.example/r.git";

    fn files(text: &str) -> BTreeMap<String, Bytes> {
        BTreeMap::from([("app/a.yaml".to_owned(), Bytes::copy_from_slice(text.as_bytes()))])
    }

    #[tokio::test(start_paused = true)]
    async fn sty_73_sources_in_memory_resolve_list_and_read() {
        let servers = MemoryRepositories::default();
        let first = servers.commit(URL, "main", files("a"), 1).unwrap();
        let second = servers.commit(URL, "main", files("b"), 2).unwrap();
        servers.set_ref(URL, "refs/tags/v1.0.0", &first);
        let clock = Clock::of_timers("2026-01-01T00:00:00Z".parse().unwrap());
        let options = SourceOptions { clock, ..SourceOptions::new("/nowhere".as_ref()) };
        let sources = Sources::in_memory(options, servers.clone());
        let repository = Repository::anonymous("https://git.example/R");
        let resolve = async |revision| sources.resolve(&repository, revision, Freshness::Fetch).await;
        assert_eq!(resolve("main").await.as_ref(), Ok(&second));
        assert_eq!(resolve("").await.as_ref(), Ok(&second));
        assert_eq!(resolve("v1.*").await.as_ref(), Ok(&first));
        assert_eq!(resolve(second.get(..10).unwrap()).await.as_ref(), Ok(&second));
        assert!(servers.is_ancestor(URL, &first, &second) && !servers.is_ancestor(URL, &second, &first));
        let changed = sources.changed_files(&repository, &first, &second).await;
        assert_eq!(changed.as_deref(), Ok(&["app/a.yaml".to_owned()][..]));
        assert_eq!(sources.revision_metadata(&repository, &first).await.unwrap().tags, ["v1.0.0"]);

        let trouble = Trouble { failure: Some("no".to_owned()), delay: Duration::from_secs(1) };
        servers.set_trouble(URL, trouble);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(resolve("main").await.is_err());
        assert!(sources.tree(&repository, &first).await.is_err());
        servers.set_trouble(URL, Trouble { delay: Duration::from_mins(1), ..Trouble::default() });
        assert!(matches!(resolve("main").await, Err(SourceError::Timeout { .. })));
        servers.set_trouble(URL, Trouble::default());
        assert_eq!(sources.tree(&repository, &second).await.unwrap().id().len(), 64);
    }
}
