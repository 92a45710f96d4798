//! Fetches the files of a tree that Git LFS keeps (RND-44).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Uri};
use serde_json::{Value, json};
use tiphys_api::repo_url;
use tiphys_exec::ExecError;
use tiphys_render::{Tree, TreeError};

use super::Sources;
use crate::address;
use crate::git::Git;
use crate::http::{Ask, Direct, HttpAnswer};
use crate::lfs::{LfsTree, Pointer, Pointers};
use crate::modules;
use crate::repository::Transport;
use crate::work::long;
use crate::{Repository, SourceError};

/// Trees whose pointers are remembered.
const KNOWN_TREES_MAX: usize = 1_000;
/// Files that one question to a server is about.
const BATCH_MAX: usize = 100;
/// Bytes of the files on disk, of all repositories; the one that was not used for the longest time goes first.
const DISK_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;
const JSON: &str = "application/vnd.git-lfs+json";

impl Sources {
    /// The tree with its files in place of pointers, where the repository asks for them.
    ///
    /// # Errors
    /// When one of the files cannot be had: then nobody knows what the tree holds.
    pub(super) async fn with_lfs(
        &self,
        git: &Git,
        repository: &Repository,
        tree: Arc<dyn Tree>,
    ) -> Result<Arc<dyn Tree>, SourceError> {
        if !repository.lfs {
            return Ok(tree);
        }
        let directory = self.0.options.cache_dir.join("lfs").join(repository.store_key());
        let after = self.0.options.exec_timeout;
        let text = || format!("fetching files of Git LFS failed {}", ExecError::Timeout { after });
        let work = self.kept_files(git, repository, &tree, &directory);
        let pointers = tokio::time::timeout(after, work).await;
        let pointers = pointers.map_err(|_elapsed| SourceError::Timeout { text: text() })??;
        if pointers.by_path.is_empty() {
            return Ok(tree);
        }
        Ok(Arc::new(LfsTree::new(tree, pointers, directory)))
    }

    /// What of a tree is kept in Git LFS, when all of it is on the disk.
    async fn kept_files(
        &self,
        git: &Git,
        repository: &Repository,
        tree: &Arc<dyn Tree>,
        directory: &Path,
    ) -> Result<Arc<Pointers>, SourceError> {
        if let Some(known) = self.known_pointers(tree)
            && self.missing(&known, directory).await?.is_empty()
        {
            return Ok(known);
        }
        // Many applications of one repository ask at once; one of them looks and fetches.
        let turn = self.turn(directory);
        let _turn = turn.lock().await;
        let pointers = self.pointers(tree).await?;
        let missing = self.missing(&pointers, directory).await?;
        if !missing.is_empty() {
            self.fetch_files(git, repository, (&pointers, &missing), directory).await?;
        }
        Ok(pointers)
    }

    /// The turn to fetch into a directory.
    fn turn(&self, directory: &Path) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lfs_turns.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(directory).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(directory.to_owned(), Arc::downgrade(&turn));
        turn
    }

    fn known_pointers(&self, tree: &Arc<dyn Tree>) -> Option<Arc<Pointers>> {
        self.0.pointers.lock().get(tree.id()).map(Arc::clone)
    }

    async fn pointers(&self, tree: &Arc<dyn Tree>) -> Result<Arc<Pointers>, SourceError> {
        if let Some(known) = self.known_pointers(tree) {
            return Ok(known);
        }
        let read = Arc::clone(tree);
        let failed = |error: TreeError| match error {
            TreeError::Exceeded { what } => SourceError::Exhausted { text: what },
            other => SourceError::Cache { text: other.to_string() },
        };
        let found = Arc::new(long(move || Pointers::of(read.as_ref()).map_err(failed)).await?);
        let mut known = self.0.pointers.lock();
        if known.len() >= KNOWN_TREES_MAX {
            known.clear();
        }
        known.insert(tree.id().to_owned(), Arc::clone(&found));
        Ok(found)
    }

    /// What is not in the directory yet.
    async fn missing(&self, pointers: &Arc<Pointers>, directory: &Path) -> Result<Vec<Pointer>, SourceError> {
        let (wanted, there) = (Arc::clone(pointers), directory.to_owned());
        let now = SystemTime::from(self.0.options.clock.now());
        long(move || Ok(missing(&wanted, &there, now))).await
    }

    /// Fetches what is missing.
    async fn fetch_files(
        &self,
        git: &Git,
        repository: &Repository,
        (pointers, missing): (&Arc<Pointers>, &[Pointer]),
        directory: &Path,
    ) -> Result<(), SourceError> {
        let server = match &pointers.url {
            Some(url) => self.admit(&modules::server_of_files(repository, url)?).await?.into_owned(),
            None => Repository { url: endpoint(repository)?.as_str().into(), ..repository.clone() },
        };
        let direct = Direct::of(&server, &self.0.options)?.ok_or_else(|| unusable(&server))?;
        for batch in missing.chunks(BATCH_MAX) {
            let answer = git.http().json(batch_of(&direct, batch)).await.map_err(unavailable)?;
            let answer = accepted(answer)?;
            for pointer in batch {
                let content = self.fetch_file(git, &direct, pointer, &answer).await?;
                let (path, directory) = (directory.join(&pointer.oid), directory.to_owned());
                long(move || write(&directory, &path, &content)).await?;
            }
        }
        let (all, kept) = (self.0.options.cache_dir.join("lfs"), Arc::clone(pointers));
        long(move || {
            sweep(&all, &kept, DISK_BYTES_MAX);
            Ok(())
        })
        .await
    }

    /// The bytes of one file, from where the server says they are.
    async fn fetch_file(
        &self,
        git: &Git,
        direct: &Direct,
        pointer: &Pointer,
        answer: &Value,
    ) -> Result<Vec<u8>, SourceError> {
        let objects = answer.get("objects").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let of_pointer = |object: &&Value| object.get("oid").and_then(Value::as_str) == Some(&pointer.oid);
        let download = objects.iter().find(of_pointer).and_then(|object| object.pointer("/actions/download"));
        let href = download.and_then(|download| download.get("href")).and_then(Value::as_str);
        let Some((href, download)) = href.zip(download) else {
            return Err(unavailable(&format!("it does not have the file {}", pointer.oid)));
        };
        // Certificates and exemptions are for the host that they were given for.
        let trust = self.0.trust.lock().clone();
        let place = trust.apply(&server_of(href)?)?.into_owned();
        let other = Direct::of(&place, &self.0.options)?.ok_or_else(|| unusable(&place))?;
        let is_same_server = other.server() == direct.server();
        if !is_same_server && !trust.local_addresses {
            address::check_host(&place.host(), &repo_url::redact(place.url.expose())).await?;
        }
        let mut headers = HeaderMap::new();
        if is_same_server {
            direct.authorize(&mut headers);
        }
        for (name, value) in download.get("header").and_then(Value::as_object).into_iter().flatten() {
            let name = HeaderName::from_bytes(name.as_bytes());
            let value = HeaderValue::from_str(value.as_str().unwrap_or_default());
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err(unavailable("it asks for a header that cannot be sent"));
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let roots = if is_same_server { direct.roots.clone() } else { other.roots };
        let ask = Ask { headers, roots, ..Ask::get(href) };
        let bytes_max = usize::try_from(pointer.size).unwrap_or(usize::MAX);
        let (status, content) = git.http().send(ask, bytes_max).await.map_err(unavailable)?;
        if !(200..300).contains(&status) {
            return Err(unavailable(&format!("the file {} was answered with status {status}", pointer.oid)));
        }
        if !pointer.is_of(&content) {
            return Err(unavailable(&format!("what it sent for the file {} is something else", pointer.oid)));
        }
        Ok(content.to_vec())
    }
}

/// Where the files of a repository are when it does not say so itself.
fn endpoint(repository: &Repository) -> Result<String, SourceError> {
    if repository.transport()? != Transport::Http {
        return Err(unusable(repository));
    }
    let url = repository.url.expose().trim().trim_end_matches('/');
    Ok(format!("{}.git/info/lfs", url.strip_suffix(".git").unwrap_or(url)))
}

/// The server that a file is fetched from; what follows its name is its own affair.
fn server_of(href: &str) -> Result<Repository, SourceError> {
    let uri: Option<Uri> = href.parse().ok();
    let found = uri.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?)));
    let Some((scheme, authority)) = found else {
        return Err(unavailable("it names a place that is no URL"));
    };
    let server = Repository::anonymous(&format!("{scheme}://{authority}/files"));
    if server.transport()? == Transport::Http { Ok(server) } else { Err(unusable(&server)) }
}

fn batch_of(direct: &Direct, batch: &[Pointer]) -> Ask {
    let objects: Vec<Value> =
        batch.iter().map(|pointer| json!({"oid": pointer.oid, "size": pointer.size})).collect();
    let body =
        json!({"operation": "download", "transfers": ["basic"], "hash_algo": "sha256", "objects": objects});
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(JSON));
    direct.authorize(&mut headers);
    Ask {
        method: Method::POST,
        headers,
        body: body.to_string(),
        content_type: JSON,
        roots: direct.roots.clone(),
        ..Ask::get(&format!("{}/objects/batch", direct.url.trim_end_matches('/')))
    }
}

fn accepted((status, answer): HttpAnswer<Value>) -> Result<Value, SourceError> {
    match status {
        200..300 => Ok(answer),
        401 | 403 => Err(SourceError::Denied {
            text: format!("the server of Git LFS does not let us in: it answered with status {status}"),
        }),
        404 => Err(unavailable("it keeps none of them, or none for this repository (status 404)")),
        _ => Err(unavailable(&format!("it answered with status {status}"))),
    }
}

fn unavailable(why: &str) -> SourceError {
    SourceError::Unavailable { text: format!("files of Git LFS cannot be fetched from their server: {why}") }
}

fn unusable(server: &Repository) -> SourceError {
    let why = match server.transport() {
        Ok(Transport::Http) => "a proxy or a client certificate is not used for them yet",
        _ => "they are fetched over HTTP alone; name their place in lfs.url of .lfsconfig",
    };
    SourceError::InvalidRepository { text: format!("files of Git LFS cannot be fetched: {why}") }
}

/// Files that are not on the disk, each once; those that are count as used now.
fn missing(pointers: &Pointers, directory: &Path, now: SystemTime) -> Vec<Pointer> {
    let mut wanted: Vec<Pointer> = pointers.by_path.values().cloned().collect();
    wanted.sort();
    wanted.dedup();
    wanted.retain(|pointer| {
        let file = std::fs::File::options().write(true).open(directory.join(&pointer.oid));
        let is_there = |file: &std::fs::File| file.metadata().is_ok_and(|found| found.len() == pointer.size);
        // A time that cannot be set only lets the file go earlier.
        !file.is_ok_and(|file| is_there(&file) && file.set_modified(now).is_ok())
    });
    wanted
}

/// Nobody sees half of a file.
fn write(directory: &Path, path: &Path, content: &[u8]) -> Result<(), SourceError> {
    let store = || -> std::io::Result<()> {
        std::fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        std::io::Write::write_all(&mut file, content)?;
        file.persist(path).map(drop).map_err(|error| error.error)
    };
    store().map_err(|error| SourceError::Cache {
        text: format!("a file of Git LFS cannot be stored: {}", error.kind()),
    })
}

/// Removes files that were not used for the longest time, and none of these, until the others have room.
fn sweep(all: &Path, kept: &Pointers, bytes_max: u64) {
    let mut found: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    let members = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
    for file in members(all).flat_map(|store| members(&store.path())) {
        if let Ok(metadata) = file.metadata() {
            let used = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            found.push((used, metadata.len(), file.path()));
        }
    }
    found.sort();
    let mut bytes: u64 = found.iter().map(|(_, size, _)| size).sum();
    for (_, size, path) in found {
        if bytes <= bytes_max {
            return;
        }
        let is_kept = |pointer: &Pointer| path.file_name().is_some_and(|name| name == pointer.oid.as_str());
        if !kept.by_path.values().any(is_kept) && std::fs::remove_file(&path).is_ok() {
            bytes = bytes.saturating_sub(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_44_the_place_of_files_follows_from_the_url() {
        let of = |url: &str| endpoint(&Repository::anonymous(url));
        assert_eq!(of("https://h/o/r").as_deref(), Ok("https://h/o/r.git/info/lfs"));
        assert_eq!(of("https://h/o/r.git/").as_deref(), Ok("https://h/o/r.git/info/lfs"));
        for url in ["git@h:o/r", "/srv/r"] {
            assert!(of(url).unwrap_err().to_string().contains(".lfsconfig"), "{url}");
        }
    }

    #[test]
    fn sec_10_the_disk_has_room_for_so_many_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let store = directory.path().join("store");
        std::fs::create_dir(&store).unwrap();
        for (name, age) in [("old", 30), ("kept", 20), ("new", 10)] {
            std::fs::write(store.join(name), "12345").unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000 - age);
            std::fs::File::options().write(true).open(store.join(name)).unwrap().set_modified(time).unwrap();
        }
        let pointer = Pointer { oid: "kept".to_owned(), size: 5 };
        let path = tiphys_render::TreePath::parse("a").unwrap();
        let kept = Pointers { by_path: [(path, pointer)].into(), url: None };
        let left = || {
            let names =
                std::fs::read_dir(&store).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            names
        };
        sweep(directory.path(), &kept, 15);
        assert_eq!(left(), ["kept", "new", "old"]);
        sweep(directory.path(), &kept, 10);
        assert_eq!(left(), ["kept", "new"]);
        sweep(directory.path(), &kept, 0);
        assert_eq!(left(), ["kept"]);
    }
}
