//! Runs `helm` and `kustomize` in a copy of a checkout that is gone afterwards (RND-159, RND-243, RND-244).
//!
//! The copy holds no links: what one leads to inside of the repository stands in its place, what leads outside does not
//! stand anywhere. So a program sees nothing but the repository, however it follows paths.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tiphys_exec::{ExecError, Invocation, Limits, Output};
use tiphys_render::links::{Resolved, resolve};
use tiphys_render::tools::{AddedChart, Tool, ToolCall, Word};
use tiphys_render::{EntryKind, Tree, TreeError, TreePath};

use super::{Backend, Sources};
use crate::work::long;
use crate::{Clock, SourceError, SourceOptions, Turns};

/// Programs that run at a time; one owner has one of them.
const PROGRAMS_MAX: usize = 2;
/// Bytes that one may print (RND-243).
const STDOUT_BYTES_MAX: usize = 64 << 20;
/// Bytes of results that are kept.
const RESULTS_BYTES_MAX: u64 = 32 << 20;
/// Bytes and entries of a copy, and how deep links may nest it.
const COPY_BYTES_MAX: u64 = 1 << 30;
const COPY_ENTRIES_MAX: usize = 500_000;
const DEPTH_MAX: usize = 64;

/// What programs printed, and how many may run.
pub(super) struct Tools {
    results: Cache<[u8; 32], Bytes>,
    turns: Turns,
}

impl Tools {
    pub(super) fn new(clock: &Clock) -> Self {
        let weight = |_: &[u8; 32], bytes: &Bytes| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let results = Cache::builder()
            .max_capacity(RESULTS_BYTES_MAX)
            .eviction_policy(EvictionPolicy::lru())
            .weigher(weight)
            .build();
        Self { results, turns: Turns::shared(PROGRAMS_MAX, PROGRAMS_MAX - 1, clock.clone()) }
    }
}

impl Sources {
    /// What the program prints for a call in a copy of these files. The same call for the same files is made once.
    ///
    /// # Errors
    /// When the program is not there, fails, or takes too long.
    pub async fn tool(&self, tree: &Arc<dyn Tree>, call: &Arc<ToolCall>) -> Result<Bytes, SourceError> {
        let Backend::Git { .. } = &self.0.backend else {
            return Err(malformed("no program is run here".to_owned()));
        };
        let key: [u8; 32] =
            Sha256::new().chain_update(tree.id()).chain_update(call.digest()).finalize().into();
        let tools = &self.0.tools;
        if let Some(found) = tools.results.get(&key) {
            return Ok(found);
        }
        let _turn = tools.turns.take_own().await;
        let (from, given) = (Arc::clone(tree), Arc::clone(call));
        let parent = self.0.options.cache_dir.clone();
        let copy = long(move || Copy::make(&parent, from.as_ref(), &given)).await?;
        let mut printed = Vec::new();
        for command in &call.commands {
            printed = run(&self.0.options, &copy, call, command).await?;
        }
        long(move || {
            drop(copy);
            Ok(())
        })
        .await?;
        let printed = Bytes::from(printed);
        tools.results.insert(key, printed.clone());
        Ok(printed)
    }
}

fn malformed(text: String) -> SourceError {
    SourceError::Malformed { text }
}

async fn run(
    options: &SourceOptions,
    copy: &Copy,
    call: &ToolCall,
    command: &[Word],
) -> Result<Vec<u8>, SourceError> {
    let name = call.tool.as_str();
    let home = |below: &str| OsString::from(copy.home().join(below));
    let mut environment: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), options.path.clone().into()),
        ("HOME".into(), home("")),
        ("LC_ALL".into(), "C".into()),
        ("HELM_CACHE_HOME".into(), home("cache")),
        ("HELM_CONFIG_HOME".into(), home("config")),
        ("HELM_DATA_HOME".into(), home("data")),
        // What stands in a repository must not become an option of git: bases of other repositories come through us, or
        // not at all (SEC-50).
        ("GIT_TERMINAL_PROMPT".into(), "false".into()),
        ("GIT_ALLOW_PROTOCOL".into(), "none".into()),
    ];
    let proxies = options.proxy_environment.iter();
    environment.extend(proxies.map(|(name, value)| (name.into(), value.into())));
    let word = |word: &Word| match word {
        Word::Text(text) => OsString::from(text),
        Word::File(before, number) => {
            let mut text = OsString::from(before);
            text.push(copy.file(*number));
            text
        }
    };
    let invocation = Invocation {
        program: call.program.clone().into(),
        arguments: command.iter().map(word).collect(),
        environment,
        directory: copy.directory.clone(),
        deadline: options.exec_timeout,
        grace: options.exec_fatal_timeout,
        stdout_bytes_max: STDOUT_BYTES_MAX,
        limits: Limits::default(),
    };
    let output = tiphys_exec::run(invocation).await.map_err(|error| match error {
        ExecError::Start(_) => malformed(format!("renderer exec: {} not found", call.program)),
        ExecError::Timeout { .. } | ExecError::FatalTimeout { .. } => {
            SourceError::Timeout { text: format!("renderer exec: {name}: {error}") }
        }
        error => malformed(format!("renderer exec: {name}: {error}")),
    })?;
    match output {
        Output { code: Some(0), stdout, .. } => Ok(stdout),
        Output { code, stderr, .. } => {
            // Where the copy stands is nobody's business.
            let said = stderr.replace(&format!("{}/", copy.checkout().display()), "");
            let said = said.replace(&*copy.folder.path().to_string_lossy(), "");
            let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("exit status {code}"));
            Err(malformed(format!("renderer exec: {name} failed with {code}: {}", said.trim())))
        }
    }
}

/// A copy of a checkout, with what belongs to a call; it goes with this value.
struct Copy {
    folder: TempDir,
    directory: PathBuf,
}

impl Copy {
    fn make(parent: &Path, tree: &dyn Tree, call: &ToolCall) -> Result<Self, SourceError> {
        let broken = |error: &std::io::Error| SourceError::Cache {
            text: format!("cannot copy the files for {}: {}", call.tool.as_str(), error.kind()),
        };
        let folder =
            tempfile::Builder::new().prefix("tool-").tempdir_in(parent).map_err(|error| broken(&error))?;
        let mut copy = Self { directory: folder.path().join("checkout"), folder };
        let make = |path: &Path| fs::create_dir_all(path).map_err(|error| broken(&error));
        make(&copy.home())?;
        make(&copy.folder.path().join("files"))?;
        let mut writer =
            Writer { tree, bytes_left: COPY_BYTES_MAX, entries_left: COPY_ENTRIES_MAX, broken: &broken };
        writer.write(&TreePath::root(), &copy.checkout())?;
        copy.directory = copy.checkout().join(call.directory.as_str());
        for (number, content) in call.files.iter().enumerate() {
            fs::write(copy.file(number), content).map_err(|error| broken(&error))?;
        }
        if call.tool == Tool::Helm {
            let charts = copy.directory.join("charts");
            for (number, (name, chart)) in call.charts.iter().enumerate() {
                make(&charts)?;
                match chart {
                    // The name is the chart's own word, and no path.
                    AddedChart::Packed(bytes) => {
                        let place = charts.join(format!("added-{number}.tgz"));
                        fs::write(place, bytes).map_err(|error| broken(&error))?;
                    }
                    AddedChart::Directory(path) => {
                        let name = name.replace(['/', '\\', '.'], "-");
                        writer.write(path, &charts.join(format!("added-{number}-{name}")))?;
                    }
                }
            }
        }
        Ok(copy)
    }

    fn checkout(&self) -> PathBuf {
        self.folder.path().join("checkout")
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn file(&self, number: usize) -> PathBuf {
        self.folder.path().join("files").join(number.to_string())
    }
}

struct Writer<'a> {
    tree: &'a dyn Tree,
    bytes_left: u64,
    entries_left: usize,
    broken: &'a dyn Fn(&std::io::Error) -> SourceError,
}

impl Writer<'_> {
    /// Writes what stands below a path.
    fn write(&mut self, from: &TreePath, to: &Path) -> Result<(), SourceError> {
        let unread = |error: TreeError| SourceError::Cache { text: error.to_string() };
        let mut pending = vec![(from.clone(), to.to_owned(), 0_usize)];
        while let Some((directory, place, depth)) = pending.pop() {
            fs::create_dir_all(&place).map_err(|error| (self.broken)(&error))?;
            if depth > DEPTH_MAX {
                return Err(SourceError::Exhausted {
                    text: "the directories are nested too deep".to_owned(),
                });
            }
            for (name, entry) in self.tree.list(&directory).map_err(unread)? {
                if name.contains('/') || matches!(name.as_str(), "" | "." | "..") {
                    continue;
                }
                self.entries_left = self.entries_left.checked_sub(1).ok_or_else(too_large)?;
                let (path, place) = (directory.child(&name), place.join(&name));
                let (path, entry) = match entry.kind {
                    EntryKind::Symlink { .. } => match resolve(self.tree, &path).map_err(unread)? {
                        Resolved::Found(path, entry) => (path, entry),
                        _ => continue,
                    },
                    _ => (path, entry),
                };
                match entry.kind {
                    EntryKind::Directory => pending.push((path, place, depth + 1)),
                    EntryKind::File { executable } => {
                        let content = self.tree.read(&path, self.bytes_left).map_err(unread)?;
                        self.bytes_left = self.bytes_left.saturating_sub(content.len() as u64);
                        fs::write(&place, content).map_err(|error| (self.broken)(&error))?;
                        if executable {
                            let mode = fs::Permissions::from_mode(0o700);
                            fs::set_permissions(&place, mode).map_err(|error| (self.broken)(&error))?;
                        }
                    }
                    EntryKind::Symlink { .. } | EntryKind::Submodule => {}
                }
            }
        }
        Ok(())
    }
}

fn too_large() -> SourceError {
    SourceError::Exhausted { text: "the repository is too large for a copy".to_owned() }
}

#[cfg(test)]
mod tests {
    use tiphys_render::{MemoryEntry, MemoryTree};

    use super::*;

    fn call(program: &str, commands: &[&[&str]]) -> Arc<ToolCall> {
        Arc::new(ToolCall {
            tool: Tool::Kustomize,
            program: program.to_owned(),
            directory: TreePath::parse("app").unwrap(),
            files: vec!["beside".into()],
            charts: Vec::new(),
            commands: commands
                .iter()
                .map(|words| words.iter().map(|word| Word::from(*word)).collect())
                .collect(),
        })
    }

    fn tree() -> Arc<dyn Tree> {
        let file = |text: &'static str| MemoryEntry::File(text.into(), false);
        let link = |target: &str| MemoryEntry::Symlink(target.to_owned());
        let entries = [
            ("app/a.yaml", file("one")),
            ("app/inside", link("../base/b.yaml")),
            ("app/outside", link("../../../../../../../../../../etc/passwd")),
            ("app/folder", link("../base")),
            ("base/b.yaml", file("two")),
        ];
        Arc::new(MemoryTree::from_entries(entries.map(|(path, entry)| (path.to_owned(), entry))).unwrap())
    }

    fn sources(folder: &Path) -> Sources {
        let mut options = SourceOptions::new(folder);
        options.path = "/usr/bin:/bin".to_owned();
        Sources::new(options).unwrap()
    }

    #[tokio::test]
    async fn rnd_243_a_program_sees_a_copy_without_links_and_without_what_is_outside() {
        let folder = tempfile::tempdir().unwrap();
        let sources = sources(folder.path());
        let script = "echo changed > a.yaml; cat a.yaml inside folder/b.yaml; ls; find .. -type l; echo $HOME | tr -d a-z0-9A-Z/.-";
        let printed =
            sources.tool(&tree(), &call("/bin/sh", &[&["-c", "true"], &["-c", script]])).await.unwrap();
        let text = String::from_utf8(printed.to_vec()).unwrap();
        assert_eq!(text.trim_end(), "changed\ntwotwoa.yaml\nfolder\ninside");
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().filter_map(Result::ok).collect();
        assert!(
            left.iter().all(|entry| !entry.file_name().to_string_lossy().starts_with("tool-")),
            "{left:?}"
        );
    }

    #[tokio::test]
    async fn rnd_160_a_program_that_is_not_there_or_fails_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let sources = sources(folder.path());
        let error = sources.tool(&tree(), &call("no-such-program", &[&["x"]])).await.unwrap_err();
        assert_eq!(error.to_string(), "renderer exec: no-such-program not found");
        let failing = call("/bin/sh", &[&["-c", "echo \"Error: $PWD/a.yaml is bad\" >&2; exit 3"]]);
        let error = sources.tool(&tree(), &failing).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "renderer exec: kustomize failed with exit status 3: Error: app/a.yaml is bad"
        );
    }

    /// RND-141: the same question has one answer.
    #[tokio::test]
    async fn rnd_141_a_result_is_used_again() {
        let folder = tempfile::tempdir().unwrap();
        let sources = sources(folder.path());
        let asked = call("/bin/sh", &[&["-c", "date +%s%N"]]);
        let first = sources.tool(&tree(), &asked).await.unwrap();
        assert_eq!(sources.tool(&tree(), &asked).await.unwrap(), first);
    }
}
