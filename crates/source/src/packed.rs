//! Packed charts and artifacts on disk, and the trees that were made of them.
//!
//! A file stands in a directory named by what it was asked for, under the digest of its own bytes. Whoever reads it
//! computes that digest again, so a cache that somebody else wrote, or that lost a bit, is never believed (F19).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tiphys_render::Tree;

use crate::archive::{ArchiveError, ArchiveTree, Packing};
use crate::repository::hex;
use crate::work::long;
use crate::{Clock, SourceError};

/// Trees that are kept open although nobody reads them.
const TREES_MAX: usize = 32;

/// A packed file of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackedFile {
    pub(crate) path: PathBuf,
    /// SHA-256 of the file, in hex digits.
    pub(crate) digest: String,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct PackedFiles {
    directory: PathBuf,
    bytes_max: u64,
    clock: Clock,
    numbers: AtomicU64,
    trees: Mutex<BTreeMap<String, (u64, Arc<ArchiveTree>)>>,
}

impl PackedFiles {
    pub(crate) fn new(cache_dir: &Path, bytes_max: u64, clock: Clock) -> Self {
        Self {
            directory: cache_dir.join("archives"),
            bytes_max,
            clock,
            numbers: AtomicU64::new(0),
            trees: Mutex::default(),
        }
    }

    /// The file that is known under a key, unless it is older than `ttl`.
    pub(crate) async fn find(
        &self,
        key: &str,
        ttl: Option<Duration>,
    ) -> Result<Option<PackedFile>, SourceError> {
        let directory = self.directory.join(key);
        let now = SystemTime::from(self.clock.now());
        long(move || {
            let Ok(members) = std::fs::read_dir(&directory) else { return Ok(None) };
            let mut newest: Option<(SystemTime, PackedFile)> = None;
            for member in members.flatten() {
                let digest = member.file_name().to_string_lossy().into_owned();
                let written = member.metadata().and_then(|metadata| metadata.modified());
                let Ok(written) = written else { continue };
                let is_old = ttl.is_some_and(|ttl| now.duration_since(written).is_ok_and(|age| age > ttl));
                if digest.len() != 64 || is_old {
                    continue;
                }
                if newest.as_ref().is_none_or(|(time, _)| *time < written) {
                    newest = Some((written, PackedFile { path: member.path(), digest }));
                }
            }
            Ok(newest.map(|(_, file)| file))
        })
        .await
    }

    /// A place for a file that is being fetched, which goes unless it is kept.
    pub(crate) async fn place(&self) -> Result<tempfile::TempPath, SourceError> {
        let directory = self.directory.join("incoming");
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        long(move || {
            std::fs::create_dir_all(&directory).map_err(|error| disk(&error))?;
            let name = format!("{}-{number}", std::process::id());
            tempfile::TempPath::try_from_path(directory.join(name)).map_err(|error| disk(&error))
        })
        .await
    }

    /// Keeps a fetched file under a key, and makes room for it.
    pub(crate) async fn keep(
        &self,
        key: &str,
        place: tempfile::TempPath,
        digest: String,
    ) -> Result<PackedFile, SourceError> {
        let (directory, root, bytes_max) = (self.directory.join(key), self.directory.clone(), self.bytes_max);
        long(move || {
            std::fs::create_dir_all(&directory).map_err(|error| disk(&error))?;
            let path = directory.join(&digest);
            place.persist(&path).map_err(|error| disk(&error.error))?;
            // What was there before under this key is not asked for any more.
            for member in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                if member.file_name().to_string_lossy() != digest {
                    drop(std::fs::remove_file(member.path()));
                }
            }
            make_room(&root, bytes_max, &path);
            Ok(PackedFile { path, digest })
        })
        .await
    }

    /// The bytes of a file, which are what its name says.
    pub(crate) async fn read(&self, file: &PackedFile) -> Result<bytes::Bytes, SourceError> {
        let file = file.clone();
        long(move || {
            let content = std::fs::read(&file.path).map_err(|error| disk(&error))?;
            if hex(&Sha256::digest(&content)) == file.digest {
                return Ok(content.into());
            }
            drop(std::fs::remove_file(&file.path));
            Err(damaged())
        })
        .await
    }

    /// The files of an archive that nobody keeps, of at most so many bytes: it goes with them (API-147).
    pub(crate) async fn uploaded(
        &self,
        packed: bytes::Bytes,
        content_max: u64,
    ) -> Result<Arc<dyn Tree>, SourceError> {
        let (place, directory) = (self.place().await?, self.directory.clone());
        long(move || {
            std::fs::write(&place, &packed).map_err(|error| disk(&error))?;
            let tree = ArchiveTree::unpack(&place, Packing::Gzip, content_max, &directory);
            Ok(Arc::new(tree.map_err(of_archive)?) as Arc<dyn Tree>)
        })
        .await
    }

    /// The files of an archive.
    pub(crate) async fn tree(
        &self,
        file: &PackedFile,
        packing: Packing,
        (bytes_max, below_top): (u64, bool),
    ) -> Result<Arc<dyn Tree>, SourceError> {
        let key = format!("{}-{packing:?}-{below_top}-{bytes_max}", file.digest);
        let used = self.numbers.fetch_add(1, Ordering::Relaxed);
        if let Some((last, tree)) = self.trees.lock().get_mut(&key) {
            *last = used;
            return Ok(Arc::clone(tree) as Arc<dyn Tree>);
        }
        let (file, directory) = (file.clone(), self.directory.clone());
        let tree = long(move || {
            if digest_of(&file.path)? != file.digest {
                drop(std::fs::remove_file(&file.path));
                return Err(damaged());
            }
            let tree = ArchiveTree::unpack(&file.path, packing, bytes_max, &directory);
            let tree = if below_top { tree.and_then(ArchiveTree::below_top) } else { tree };
            tree.map(Arc::new).map_err(of_archive)
        })
        .await?;
        let mut trees = self.trees.lock();
        if trees.len() >= TREES_MAX {
            let oldest = trees.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|key| trees.remove(&key));
        }
        trees.insert(key, (used, Arc::clone(&tree)));
        Ok(tree)
    }
}

fn digest_of(path: &Path) -> Result<String, SourceError> {
    let mut file = std::fs::File::open(path).map_err(|error| disk(&error))?;
    let (mut hash, mut buffer) = (Sha256::new(), vec![0_u8; 64 * 1024]);
    loop {
        let count = std::io::Read::read(&mut file, &mut buffer).map_err(|error| disk(&error))?;
        if count == 0 {
            return Ok(hex(&hash.finalize()));
        }
        hash.update(buffer.get(..count).unwrap_or_default());
    }
}

fn damaged() -> SourceError {
    SourceError::Cache { text: "a file of the cache was damaged and is fetched again".to_owned() }
}

fn of_archive(error: ArchiveError) -> SourceError {
    match error {
        ArchiveError::Exceeded(text) => SourceError::Exhausted { text },
        ArchiveError::Disk(_) => SourceError::Cache { text: error.to_string() },
        error => SourceError::Malformed { text: error.to_string() },
    }
}

fn disk(error: &std::io::Error) -> SourceError {
    SourceError::Cache { text: format!("the cache directory cannot be used: {}", error.kind()) }
}

/// Removes what was written first until the rest fits; never the file that was kept just now.
fn make_room(root: &Path, bytes_max: u64, new: &Path) {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for key in std::fs::read_dir(root).into_iter().flatten().flatten() {
        for member in std::fs::read_dir(key.path()).into_iter().flatten().flatten() {
            if let Ok(metadata) = member.metadata() {
                let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                files.push((written, metadata.len(), member.path()));
            }
        }
    }
    files.sort();
    let mut bytes: u64 = files.iter().map(|(_, length, _)| length).sum();
    for (_, length, path) in files {
        if bytes <= bytes_max {
            return;
        }
        if path != new && std::fs::remove_file(&path).is_ok() {
            bytes = bytes.saturating_sub(length);
        }
    }
}
