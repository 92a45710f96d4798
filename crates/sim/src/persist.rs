//! The data directory: every write as a line of a journal, read back at the start.
//!
//! A line is the checksum of what follows it, and JSON: the version, and the object or the fact that it is gone.
//! A last line without an end is what a killed process leaves; the write was not finished and is forgotten.
//! Anything else that does not fit is damage: the directory is refused as a whole, never loaded in part.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tiphys_object::access;
use xxhash_rust::xxh3::xxh3_64;

use crate::clock::Rng;
use crate::state::State;
use crate::store::{Key, Kind};

/// Name of the journal in the directory.
const JOURNAL: &str = "cluster.journal";
/// The first line's mark: what the file is, and in which form.
const MARK: &str = "tiphys embedded cluster 1";
/// Bytes appended before the journal is written anew.
const APPENDED_BYTES_MAX: u64 = 64 << 20;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// It cannot be read or written.
    #[error("cannot use the data directory: {path}: {problem}")]
    Unusable {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        problem: io::Error,
    },
    /// Another process has it.
    #[error("the data directory is in use by another process: {path}")]
    InUse {
        /// The file that is locked.
        path: PathBuf,
    },
    /// What is in it is not what was written.
    #[error(
        "the data directory is damaged: {path}, line {line}: {problem}; nothing was loaded. Restore the file from a \
         copy, or start anew without it (`--reset`)"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    appended: u64,
    has_failed: bool,
}

/// Loads what a directory holds, and keeps its journal from here on.
pub(crate) fn open(state: &mut State, directory: &Path, seed: u64) -> Result<(), DataError> {
    std::fs::create_dir_all(directory).map_err(|problem| unusable(directory, problem))?;
    let path = directory.join(JOURNAL);
    let lock = lock(&directory.join("lock"))?;
    match std::fs::read(&path) {
        Ok(bytes) => load(state, &path, &bytes)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(problem) => return Err(unusable(&path, problem)),
    }
    // Names and addresses go on where they were; the same seed would draw the old ones again.
    state.draw.rng = Rng::new(seed ^ state.store.version().wrapping_mul(0x9e37_79b9));
    state.lock = Some(lock);
    state.journal = Some(write_anew(state, &path).map_err(|problem| unusable(&path, problem))?);
    Ok(())
}

fn unusable(path: &Path, problem: io::Error) -> DataError {
    DataError::Unusable { path: path.to_owned(), problem }
}

fn lock(path: &Path) -> Result<File, DataError> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    let file = file.map_err(|problem| unusable(path, problem))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DataError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(problem)) => Err(unusable(path, problem)),
    }
}

fn load(state: &mut State, path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let damaged = |line: usize, problem| DataError::Damaged { path: path.to_owned(), line, problem };
    let mut objects: BTreeMap<(String, String, String, String), (Value, u64)> = BTreeMap::new();
    let mut version = 0;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut lines = bytes.get(..whole).unwrap_or_default().split_inclusive(|byte| *byte == b'\n');
    match lines.next() {
        Some(first) if first.trim_ascii_end() == MARK.as_bytes() => {}
        _ => return Err(damaged(1, "this is no journal of an embedded cluster")),
    }
    for (index, line) in lines.enumerate() {
        let number = index + 2;
        let entry = read_line(line.trim_ascii_end()).map_err(|problem| damaged(number, problem))?;
        let text = |member: &str| access::text(&entry, member).to_owned();
        let written = entry.get("version").and_then(Value::as_u64);
        let written = written.ok_or_else(|| damaged(number, "the line has no version"))?;
        version = version.max(written);
        let place = (text("group"), text("plural"), text("namespace"), text("name"));
        match entry.get("object") {
            Some(object) if object.is_object() => {
                objects.insert(place, (object.clone(), written));
            }
            Some(_) => return Err(damaged(number, "the object is none")),
            None => {
                objects.remove(&place);
            }
        }
    }
    for ((group, plural, namespace, name), (object, written)) in &objects {
        let key = state.builtin_key(group, plural, namespace, name);
        state.store.restore(&key, object, *written);
        state.restore_numbers(&key, object);
    }
    for ((group, plural, ..), (object, _)) in &objects {
        if group == "apiextensions.k8s.io" && plural == "customresourcedefinitions" {
            state.serve(object);
        }
    }
    state.store.restore_version(version);
    Ok(())
}

fn read_line(line: &[u8]) -> Result<Value, &'static str> {
    let (sum, rest) = line.split_at_checked(16).ok_or("the line is too short")?;
    let rest = rest.strip_prefix(b" ").ok_or("the line has no checksum")?;
    let sum = std::str::from_utf8(sum).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    if sum != Some(xxh3_64(rest)) {
        return Err("the checksum does not fit");
    }
    serde_json::from_slice(rest).map_err(|_error| "the line is not JSON")
}

fn line(kind: &Kind, namespace: &str, name: &str, version: u64, object: Option<&[u8]>) -> Vec<u8> {
    let head = json!({"group": kind.group, "plural": kind.plural, "namespace": namespace, "name": name,
        "version": version});
    let mut text = head.to_string().into_bytes();
    if let Some(object) = object {
        text.pop();
        text.extend_from_slice(b",\"object\":");
        text.extend_from_slice(object);
        text.push(b'}');
    }
    let mut line = format!("{:016x} ", xxh3_64(&text)).into_bytes();
    line.append(&mut text);
    line.push(b'\n');
    line
}

/// Writes a journal of what there is, beside the old one, and puts it in its place.
fn write_anew(state: &State, path: &Path) -> io::Result<Journal> {
    let unfinished = path.with_extension("unfinished");
    let mut writer = BufWriter::new(File::create(&unfinished)?);
    writeln!(writer, "{MARK}")?;
    for (kind, stored) in state.store.all() {
        let tree = stored.tree();
        let (namespace, name) = (access::namespace(&tree), access::name(&tree));
        writer.write_all(&line(kind, namespace, name, stored.version, Some(&stored.json)))?;
    }
    // The count of versions goes on even when the last object written is gone.
    let none = Kind { group: "".into(), plural: "".into() };
    writer.write_all(&line(&none, "", "", state.store.version(), None))?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    std::fs::rename(&unfinished, path)?;
    let file = OpenOptions::new().append(true).open(path)?;
    Ok(Journal { file, path: path.to_owned(), appended: 0, has_failed: false })
}

/// Writes down what became of an object.
pub(crate) fn record(state: &mut State, key: &Key) {
    let Some(mut journal) = state.journal.take() else { return };
    let stored = state.store.get(key);
    let version = state.store.version();
    let line = line(&key.kind, &key.namespace, &key.name, version, stored.map(|stored| &*stored.json));
    let mut written = journal.file.write_all(&line);
    journal.appended += line.len() as u64;
    if written.is_ok() && journal.appended > APPENDED_BYTES_MAX {
        match write_anew(state, &journal.path) {
            Ok(anew) => journal = anew,
            Err(error) => written = Err(error),
        }
    }
    if let Err(error) = written {
        // Told once: everything goes on in memory, as without a directory.
        if !journal.has_failed {
            tracing::error!(%error, path = %journal.path.display(), "the cluster is no longer written down");
        }
        journal.has_failed = true;
    }
    state.journal = Some(journal);
}
