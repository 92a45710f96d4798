//! The demo's Git repository: made, read and committed to without a work tree.
//!
//! Commits are written by `git fast-import`, one process each, straight into the bare repository. A commit of
//! the demo that breaks or fixes an application says so in a trailer, so that `fix` knows what to take back, in
//! the next run too.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tiphys_source::exec::{self, ExecError, Invocation};

use super::scenario::{BRANCH, Scenario};

/// Time for one git command.
const DEADLINE: Duration = Duration::from_secs(20);
/// Bytes of a git command's answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// Attempts at a commit while others push.
const ATTEMPTS_MAX: u32 = 5;
/// Commits that are searched for breaks.
const HISTORY_MAX: u32 = 500;
const TRAILER: &str = "Tiphys-Demo:";
const AUTHOR: &str = "Tiphys demo <demo@tiphys.example>";

/// A bare repository.
#[derive(Clone)]
pub(crate) struct Repository {
    path: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

/// A change of a file: its new text, or none to remove it.
pub(crate) type Change = (String, Option<String>);

/// Environment of every git process of the demo: nothing of the user's settings counts.
pub(crate) fn environment(home: &Path) -> Vec<(OsString, OsString)> {
    let settings = [
        ("safe.directory", "*"),
        ("http.receivepack", "true"),
        ("gc.auto", "0"),
        ("receive.autogc", "false"),
    ];
    let mut all: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), std::env::var_os("PATH").unwrap_or_default()),
        ("HOME".into(), home.into()),
        ("LC_ALL".into(), "C".into()),
        ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ("GIT_CONFIG_GLOBAL".into(), "/dev/null".into()),
        ("GIT_TERMINAL_PROMPT".into(), "0".into()),
        ("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()),
    ];
    for (number, (key, value)) in settings.iter().enumerate() {
        all.push((format!("GIT_CONFIG_KEY_{number}").into(), key.into()));
        all.push((format!("GIT_CONFIG_VALUE_{number}").into(), value.into()));
    }
    all
}

impl Repository {
    pub(crate) fn new(path: PathBuf) -> Self {
        let environment = environment(&path);
        Self { path, environment }
    }

    /// Makes the repository with the history of a scenario.
    pub(crate) async fn create(&self, scenario: Scenario, url: &str) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.path).context("cannot create the Git repository")?;
        self.git(&["init", "-q", "--bare", "--template=", "-b", BRANCH, "."], b"").await?;
        let added = |files: Vec<(String, String)>| files.into_iter().map(|(path, text)| (path, Some(text)));
        let first: Vec<Change> = added(scenario.files(url)).collect();
        let mut stream = String::new();
        write_commit(&mut stream, "The first version", &first, false)?;
        for (app, (path, text)) in scenario.broken() {
            let message = format!("Break {app}: {path}\n\n{TRAILER} break {app}\n");
            write_commit(&mut stream, &message, &[(path.to_owned(), Some(text.to_owned()))], false)?;
        }
        self.import(&stream).await.map(drop)
    }

    /// Commits changes to the branch; returns the commit. Pushes in between are kept.
    pub(crate) async fn commit(&self, message: &str, changes: &[Change]) -> anyhow::Result<String> {
        let mut stream = String::new();
        write_commit(&mut stream, message, changes, true)?;
        let mut attempt = 1;
        loop {
            match self.import(&stream).await {
                Ok(()) => break,
                // Somebody pushed at the same time.
                Err(_) if attempt < ATTEMPTS_MAX => attempt += 1,
                Err(error) => return Err(error),
            }
        }
        let head = self.heads().await?.remove(BRANCH);
        head.with_context(|| format!("the branch {BRANCH} is gone"))
    }

    /// Commits of all branches.
    pub(crate) async fn heads(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let format = "--format=%(refname:lstrip=2) %(objectname)";
        let text = self.git(&["for-each-ref", format, "refs/heads/"], b"").await?;
        let pairs = text.lines().filter_map(|line| line.rsplit_once(' '));
        Ok(pairs.map(|(branch, commit)| (branch.to_owned(), commit.to_owned())).collect())
    }

    /// Paths of the files below a folder.
    pub(crate) async fn files(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let folder = format!("{}/", folder.trim_matches('/'));
        let listed = ["ls-tree", "-r", "-z", "--name-only", "--end-of-options", BRANCH];
        let text = self.git(&listed, b"").await?;
        let inside = |path: &&str| folder == "./" || folder == "/" || path.starts_with(&folder);
        Ok(text.split_terminator('\0').filter(inside).map(str::to_owned).collect())
    }

    /// Text of a file at a revision; `None` when there is no such file. Not to know is an error: a caller may
    /// take the absence of a file for a reason to remove it.
    pub(crate) async fn read(&self, revision: &str, path: &str) -> anyhow::Result<Option<String>> {
        let listed = ["ls-tree", "-z", "--full-tree", "--name-only", revision, "--", path];
        if self.git(&listed, b"").await?.is_empty() {
            return Ok(None);
        }
        let name = format!("{revision}:{path}");
        self.git(&["cat-file", "blob", "--end-of-options", &name], b"").await.map(Some)
    }

    /// The commit that broke an application and was not taken back.
    pub(crate) async fn open_break(&self, app: &str) -> anyhow::Result<Option<String>> {
        let count = format!("-n{HISTORY_MAX}");
        let text = self.git(&["log", &count, "-z", "--format=%H%n%B", BRANCH], b"").await?;
        for commit in text.split_terminator('\0') {
            for line in commit.lines() {
                match line.strip_prefix(TRAILER).and_then(|rest| rest.trim().split_once(' ')) {
                    Some(("break", name)) if name == app => {
                        return Ok(commit.lines().next().map(str::to_owned));
                    }
                    Some(("fix", name)) if name == app => return Ok(None),
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    /// The changes that take a commit back: each of its files as it was before.
    pub(crate) async fn before(&self, commit: &str) -> anyhow::Result<Vec<Change>> {
        let listed = ["diff-tree", "-r", "-z", "--no-commit-id", "--name-only", commit];
        let text = self.git(&listed, b"").await?;
        let mut changes = Vec::new();
        for path in text.split_terminator('\0') {
            changes.push((path.to_owned(), self.read(&format!("{commit}^"), path).await?));
        }
        Ok(changes)
    }

    /// Puts a new address in the place of the old one, in every file that names it.
    pub(crate) async fn readdress(&self, old: &str, new: &str) -> anyhow::Result<()> {
        let mut changes = Vec::new();
        for path in self.files(".").await? {
            if let Some(text) = self.read(BRANCH, &path).await?.filter(|text| text.contains(old)) {
                changes.push((path, Some(text.replace(old, new))));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.commit("Follow the repository to its new address", &changes).await.map(drop)
    }

    async fn import(&self, stream: &str) -> anyhow::Result<()> {
        self.git(&["fast-import", "--quiet", "--done"], stream.as_bytes()).await.map(drop)
    }

    async fn git(&self, arguments: &[&str], input: &[u8]) -> anyhow::Result<String> {
        let invocation = Invocation {
            program: "git".into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: self.environment.clone(),
            directory: self.path.clone(),
            deadline: DEADLINE,
            grace: Duration::ZERO,
            stdout_bytes_max: ANSWER_BYTES_MAX,
            limits: exec::Limits::default(),
        };
        let name = arguments.first().unwrap_or(&"");
        let ended = match exec::start(&invocation) {
            Ok(started) => started.converse(input).await,
            Err(error) => Err(error),
        };
        let output = ended.map_err(|error| match error {
            ExecError::Start(_) => {
                anyhow::Error::new(error).context("cannot start `git`, which the demo needs; install it")
            }
            _ => anyhow::Error::new(error).context(format!("`git {name}` failed")),
        })?;
        if output.code != Some(0) {
            bail!("`git {name}` failed: {}", output.stderr.trim());
        }
        String::from_utf8(output.stdout).with_context(|| format!("the answer of `git {name}` is no text"))
    }
}

/// A message that says which break or fix it is.
pub(crate) fn message(verb: &str, app: &str, subject: &str) -> String {
    format!("{subject}\n\n{TRAILER} {verb} {app}\n")
}

/// One commit in the language of `git fast-import`.
fn write_commit(
    stream: &mut String,
    message: &str,
    changes: &[Change],
    has_parent: bool,
) -> Result<(), std::fmt::Error> {
    let seconds = jiff::Timestamp::now().as_second();
    if let Some(rest) = stream.strip_suffix("done\n").map(str::len) {
        stream.truncate(rest);
    }
    writeln!(stream, "commit refs/heads/{BRANCH}\ncommitter {AUTHOR} {seconds} +0000")?;
    writeln!(stream, "data {}\n{message}", message.len())?;
    if has_parent {
        writeln!(stream, "from refs/heads/{BRANCH}^0")?;
    }
    for (path, text) in changes {
        let quoted = path.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        match text {
            Some(text) => {
                writeln!(stream, "M 100644 inline \"{quoted}\"\ndata {}\n{text}", text.len())?;
            }
            None => writeln!(stream, "D \"{quoted}\"")?,
        }
    }
    writeln!(stream, "done")
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn repository(scenario: Scenario) -> (tempfile::TempDir, Repository) {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::new(folder.path().join("demo.git"));
        repository.create(scenario, "http://127.0.0.1:1/git/demo.git").await.unwrap();
        (folder, repository)
    }

    #[tokio::test]
    async fn cli_1002_the_repository_has_the_files_of_its_scenario() {
        let (_folder, repository) = repository(Scenario::Guestbook).await;
        let files = repository.files("shop").await.unwrap();
        assert_eq!(files.len(), 5);
        let text = repository.read(BRANCH, "apps/shop.yaml").await.unwrap().unwrap();
        assert!(text.contains("repoURL: http://127.0.0.1:1/git/demo.git\n"));
        repository.readdress("http://127.0.0.1:1/", "http://127.0.0.1:2/").await.unwrap();
        let text = repository.read(BRANCH, "apps/shop.yaml").await.unwrap().unwrap();
        assert!(text.contains("repoURL: http://127.0.0.1:2/git/demo.git\n"));
        assert_eq!(repository.read(BRANCH, "missing").await.unwrap(), None);
        assert!(
            repository.read("no-such-branch", "apps/shop.yaml").await.is_err(),
            "not to know is no absence"
        );
    }

    #[tokio::test]
    async fn cli_1003_a_break_is_open_until_it_is_taken_back() {
        let (_folder, repository) = repository(Scenario::Failures).await;
        assert_eq!(repository.open_break("hook").await.unwrap(), None);
        let commit = repository.open_break("unknown-kind").await.unwrap().unwrap();
        let changes = repository.before(&commit).await.unwrap();
        assert_eq!(changes, [("unknown-kind/database.yaml".to_owned(), None)]);
        repository.commit(&message("fix", "unknown-kind", "Fix unknown-kind"), &changes).await.unwrap();
        assert_eq!(repository.open_break("unknown-kind").await.unwrap(), None);
        assert_eq!(repository.read(BRANCH, "unknown-kind/database.yaml").await.unwrap(), None);
        assert!(repository.open_break("crashing").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn cli_1003_unusual_names_and_texts_are_committed_as_they_are() {
        let (_folder, repository) = repository(Scenario::Drift).await;
        let path = "a \"b\" \\ ü/c\nd.yaml".to_owned();
        let change = (path.clone(), Some("no newline\ndone".to_owned()));
        repository.commit("x", &[change]).await.unwrap();
        assert_eq!(repository.read(BRANCH, &path).await.unwrap().as_deref(), Some("no newline\ndone"));
    }
}
