//! Where a demo lives: a temporary directory that goes with it, or one of the user's that stays (CLI-1004).
//!
//! A directory is a demo's when it has its record, `demo.json`; anything else that is not empty is somebody
//! else's and is left alone. The lock file says whether its demo is alive: the lock ends with the process, also
//! when the process is killed. Everything that is ever removed is removed by name, from a directory that has a
//! record, or below a temporary directory of our own making.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::scenario::Scenario;

const RECORD: &str = "demo.json";
const LOCK: &str = "lock";
/// What a demo keeps beside its record and its lock.
const KEPT: [&str; 6] = ["kubeconfig", "control.sock", "git", "cluster", "cache", "demo.json.new"];
const PREFIX: &str = "tiphys-demo-";
/// The form of the record that this version writes and reads.
const FORMAT: u32 = 1;
/// Age at which an empty directory is not one that is just being made.
const EMPTY_AGE: Duration = Duration::from_mins(1);
/// Bytes of a record; ours have a few hundred.
const RECORD_BYTES_MAX: u64 = 64 * 1024;
/// Names that are tried for a new directory.
const NAMES_MAX: u32 = 100;

/// What a demo writes down about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Record {
    format: u32,
    /// Name of the scenario.
    pub(crate) scenario: String,
    /// Where randomness begins.
    pub(crate) seed: u64,
    /// Address of the repository, which Applications name.
    pub(crate) repository: String,
    /// Whether the demo was ready once.
    pub(crate) is_complete: bool,
}

/// The directory of this process, locked.
pub(crate) struct Directory {
    path: PathBuf,
    is_temporary: bool,
    record: Option<Record>,
    _lock: File,
}

impl Directory {
    /// A new temporary directory; what killed demos left behind is removed first.
    pub(crate) fn temporary(parent: &Path) -> anyhow::Result<Self> {
        remove_stale(parent);
        let process = std::process::id();
        for number in 0..NAMES_MAX {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            let path = parent.join(format!("{PREFIX}{process}{suffix}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot create {}", path.display()));
                }
            }
            if let Ok(lock) = lock(&path) {
                return Ok(Self { path, is_temporary: true, record: None, _lock: lock });
            }
        }
        bail!("no name is free for a directory in {}", parent.display())
    }

    /// A directory of the user's: new, empty, or that of an earlier demo.
    pub(crate) fn kept(path: &Path, reset: bool) -> anyhow::Result<Self> {
        std::fs::DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(path)
            .with_context(|| format!("cannot create the directory {}", path.display()))?;
        let path = path.canonicalize().with_context(|| format!("cannot use {}", path.display()))?;
        let state = read_record(&path)?;
        if let State::Foreign = state {
            bail!(
                "{} is not empty and was not made by `tiphys demo`; nothing in it was touched; \
                 name another directory with --data",
                path.display()
            );
        }
        if let (State::Damaged(why), false) = (&state, reset) {
            bail!(
                "{} cannot be used: {why}; nothing in it was touched; start anew in it with --reset, \
                 or name another directory with --data",
                path.display()
            );
        }
        let lock = lock(&path)?;
        let record = match state {
            State::Known(record) if record.is_complete && !reset => Some(record),
            State::Known(_) | State::Damaged(_) => {
                // Asked for, or it never was ready.
                clear(&path)?;
                None
            }
            State::Empty | State::Foreign => None,
        };
        Ok(Self { path, is_temporary: false, record, _lock: lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What an earlier demo here wrote down.
    pub(crate) fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    pub(crate) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Writes the record.
    pub(crate) fn write(
        &mut self,
        scenario: Scenario,
        seed: u64,
        repository: &str,
        is_complete: bool,
    ) -> anyhow::Result<()> {
        let (scenario, repository) = (scenario.name().to_owned(), repository.to_owned());
        let record = Record { format: FORMAT, scenario, seed, repository, is_complete };
        let text = serde_json::to_vec_pretty(&record)?;
        write_private(&self.path.join("demo.json.new"), &text)
            .and_then(|()| std::fs::rename(self.path.join("demo.json.new"), self.path.join(RECORD)))
            .with_context(|| format!("cannot write to {}", self.path.display()))?;
        self.record = Some(record);
        Ok(())
    }

    /// The end: a temporary directory goes, another keeps what the next start needs.
    pub(crate) fn close(self) -> std::io::Result<()> {
        if self.is_temporary {
            return std::fs::remove_dir_all(&self.path);
        }
        for name in ["control.sock", "kubeconfig", LOCK] {
            remove(&self.path.join(name))?;
        }
        Ok(())
    }
}

/// Directories below `parent` whose demo of this user is alive.
pub(crate) fn running(parent: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = ours(parent).filter(|path| is_locked(path)).collect();
    found.sort();
    found
}

/// Whether a demo lives in a directory.
pub(crate) fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path.join(LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Writes a file that only the user may read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(bytes)
}

/// What is in a directory.
enum State {
    Empty,
    Foreign,
    Known(Record),
    Damaged(String),
}

fn read_record(path: &Path) -> anyhow::Result<State> {
    let unreadable = || format!("cannot read {}", path.display());
    let mut text = String::new();
    match File::open(path.join(RECORD)) {
        Ok(file) => {
            if let Err(error) = file.take(RECORD_BYTES_MAX).read_to_string(&mut text) {
                return Ok(State::Damaged(format!("its {RECORD} cannot be read ({error})")));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            // A lock is all that a demo leaves that was killed in its first moment.
            let names = std::fs::read_dir(path).with_context(unreadable)?.flatten();
            let is_empty = names.map(|entry| entry.file_name()).all(|name| name == LOCK);
            return Ok(if is_empty { State::Empty } else { State::Foreign });
        }
        Err(error) => return Err(error).with_context(unreadable),
    }
    match serde_json::from_str::<Record>(&text) {
        Ok(record) if record.format != FORMAT => Ok(State::Damaged(format!(
            "its {RECORD} has form {}, this version reads {FORMAT}",
            record.format
        ))),
        Ok(record) if Scenario::named(&record.scenario).is_none() => {
            Ok(State::Damaged(format!("its {RECORD} names the unknown scenario {:?}", record.scenario)))
        }
        Ok(record) if record.is_complete && !path.join("git").join("demo.git").join("HEAD").is_file() => {
            Ok(State::Damaged("its Git repository is missing".to_owned()))
        }
        Ok(record) => Ok(State::Known(record)),
        Err(error) => Ok(State::Damaged(format!("its {RECORD} is damaged ({error})"))),
    }
}

/// Takes the lock of a directory, and writes down who has it.
fn lock(path: &Path) -> anyhow::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    let opened =
        options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path.join(LOCK));
    let mut file = opened.with_context(|| format!("cannot write to {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let known = file.read_to_string(&mut owner).is_ok() && !owner.trim().is_empty();
            let who = if known { format!(" (process {})", owner.trim()) } else { String::new() };
            bail!("a demo runs in {}{who}; stop it, or name another directory with --data", path.display());
        }
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    // Somebody who tidies up may have removed the file between the two calls.
    let there = std::fs::metadata(path.join(LOCK)).map(|found| found.ino()).ok();
    if there != file.metadata().map(|own| own.ino()).ok() {
        bail!("{} was removed meanwhile", path.display());
    }
    file.set_len(0)?;
    file.write_all(std::process::id().to_string().as_bytes())?;
    Ok(file)
}

/// Removes what a demo keeps in a directory of the user's.
fn clear(path: &Path) -> anyhow::Result<()> {
    // The record goes last: while it is there, the directory is known as ours.
    for name in KEPT.into_iter().chain([RECORD]) {
        remove(&path.join(name)).with_context(|| format!("cannot remove {name} in {}", path.display()))?;
    }
    Ok(())
}

fn remove(path: &Path) -> std::io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Temporary directories of this user that have our name.
fn ours(parent: &Path) -> impl Iterator<Item = PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    named.map(|entry| entry.path()).filter(move |path| {
        std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == user)
    })
}

/// Removes the directories of demos that were killed.
fn remove_stale(parent: &Path) {
    for path in ours(parent) {
        let removed = match File::open(path.join(LOCK)) {
            Ok(file) => match file.try_lock() {
                Ok(()) => std::fs::remove_dir_all(&path),
                // Alive.
                Err(_) => continue,
            },
            Err(_) if is_old(&path) => std::fs::remove_dir(&path),
            Err(_) => continue,
        };
        if let Err(error) = removed {
            tracing::warn!(path = %path.display(), %error, "what a former demo left cannot be removed");
        }
    }
}

fn is_old(path: &Path) -> bool {
    let modified = std::fs::metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > EMPTY_AGE))
}

#[cfg(test)]
#[path = "directory/tests.rs"]
mod tests;
