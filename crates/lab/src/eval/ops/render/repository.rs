//! The source trees of a request: files given in it, or a folder of this machine, read only (EVAL-60).

use crate::eval::fault::{Code, Fault};
use crate::eval::operation::Input;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tiphys_api::repo_url;
use tiphys_render::eval::EvalError;
use tiphys_render::{MemoryEntry, MemoryTree, Tree};

/// Bytes of one folder that are read, in total.
const FOLDER_BYTES_MAX: u64 = 1 << 30;
/// Nesting of folders.
const FOLDER_DEPTH_MAX: usize = 128;

/// The trees of a request by URL.
pub(in crate::eval::ops) struct Repositories(Vec<Repository>);

struct Repository {
    url: String,
    revision: String,
    tree: Arc<MemoryTree>,
}

impl Repositories {
    /// Reads `repos`.
    pub(in crate::eval::ops) fn read(input: &Input) -> Result<Self, Fault> {
        let read = |(index, given): (usize, &Value)| read_one(given, &format!("repos[{index}]"));
        input.list("repos").iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The content of a repository, where it is listed.
    pub(in crate::eval::ops) fn tree(&self, url: &str) -> Option<&dyn Tree> {
        self.0.iter().find(|one| repo_url::same(&one.url, url)).map(|one| one.tree.as_ref() as &dyn Tree)
    }

    /// The content and revision of a source; a URL that is not listed would need the network.
    pub(super) fn tree_of(&self, url: &str) -> Result<(Arc<dyn Tree>, String), EvalError> {
        let found = self.0.iter().find(|one| repo_url::same(&one.url, url));
        let found = found.map(|one| (Arc::clone(&one.tree) as Arc<dyn Tree>, one.revision.clone()));
        found.ok_or_else(|| EvalError {
            code: tiphys_render::Code::FailedPrecondition,
            reason: "network-required",
            message: format!("repository {:?} is not among repos", repo_url::redact(url)),
        })
    }
}

fn read_one(given: &Value, at: &str) -> Result<Repository, Fault> {
    let text = |name: &str| given.get(name).and_then(Value::as_str).unwrap_or_default();
    let invalid = |why: String| Fault::new(Code::InvalidInput, format!("{at}.{why}"));
    let entries = match (given.get("files"), text("path")) {
        (Some(Value::Object(files)), "") => files
            .iter()
            .map(|(path, content)| {
                let content = content.as_str().unwrap_or_default().as_bytes().to_vec();
                (path.clone(), MemoryEntry::File(content.into(), false))
            })
            .collect(),
        (None | Some(Value::Null), path) if !path.is_empty() => {
            let mut entries = Vec::new();
            let mut left = FOLDER_BYTES_MAX;
            read_folder(Path::new(path), "", 0, &mut left, &mut entries)
                .map_err(|why| invalid(format!("path: {why}")))?;
            entries
        }
        _ => return Err(invalid("path: exactly one of path and files is needed".to_owned())),
    };
    let tree = MemoryTree::from_entries(entries).map_err(|problem| invalid(format!("files: {problem}")))?;
    Ok(Repository {
        url: text("url").to_owned(),
        revision: text("revision").to_owned(),
        tree: Arc::new(tree),
    })
}

/// Links, bytes and modes are taken as they are; only `.git` of the root is not content.
fn read_folder(
    folder: &Path,
    prefix: &str,
    depth: usize,
    left: &mut u64,
    entries: &mut Vec<(String, MemoryEntry)>,
) -> Result<(), String> {
    if depth > FOLDER_DEPTH_MAX {
        return Err(format!("{prefix:?} is nested too deeply"));
    }
    let said = |problem: std::io::Error| format!("cannot read {:?}: {problem}", folder.display().to_string());
    for entry in fs::read_dir(folder).map_err(said)? {
        let entry = entry.map_err(said)?;
        let name =
            entry.file_name().into_string().map_err(|_name| format!("a name in {prefix:?} is not UTF-8"))?;
        if depth == 0 && name == ".git" {
            continue;
        }
        let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
        let metadata = entry.metadata().map_err(said)?;
        if metadata.is_dir() {
            entries.push((path.clone(), MemoryEntry::Directory));
            read_folder(&entry.path(), &path, depth + 1, left, entries)?;
        } else if metadata.is_symlink() {
            let target = fs::read_link(entry.path()).map_err(said)?;
            let target =
                target.into_os_string().into_string().map_err(|_name| format!("{path:?} is not UTF-8"))?;
            entries.push((path, MemoryEntry::Symlink(target)));
        } else if metadata.is_file() {
            *left = left.checked_sub(metadata.len()).ok_or("the folder is too large")?;
            let content = fs::read(entry.path()).map_err(said)?;
            entries.push((path, MemoryEntry::File(content.into(), is_executable(&metadata))));
        }
    }
    Ok(())
}

#[cfg(unix)]
fn is_executable(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    metadata.permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_metadata: &fs::Metadata) -> bool {
    false
}
