//! A directory with an origin repository and a cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tiphys_source::exec::{self, Invocation};
use tiphys_source::{ManualClock, Repository, SourceOptions, Sources};

pub(crate) struct World {
    directory: TempDir,
    pub(crate) clock: ManualClock,
    pub(crate) sources: Sources,
}

impl World {
    /// An origin with one commit on `main` that holds these files.
    pub(crate) async fn with(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (options, clock) = options(directory.path());
        fs::create_dir_all(directory.path().join("origin/repo")).unwrap();
        let sources = Sources::new(options).unwrap();
        let world = Self { directory, clock, sources };
        world.git(&["init", "-q", "-b", "main", "."]).await;
        world.commit("first", files).await;
        world
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Directory that holds the origin repository under the name `repo`.
    pub(crate) fn root(&self) -> PathBuf {
        self.path().join("origin")
    }

    pub(crate) fn origin(&self) -> PathBuf {
        self.path().join("origin/repo")
    }

    pub(crate) fn local(&self) -> Repository {
        Repository::anonymous(&self.origin().to_string_lossy())
    }

    /// A new handle on the same cache, as after a restart.
    pub(crate) fn restarted(&self, change: impl FnOnce(&mut SourceOptions)) -> Sources {
        let (mut options, _clock) = options(self.path());
        change(&mut options);
        Sources::new(options).unwrap()
    }

    pub(crate) async fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, &[]).await
    }

    /// The same with more variables.
    pub(crate) async fn git_with(&self, arguments: &[&str], more: &[(&str, &str)]) -> String {
        let environment = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("HOME", "/dev/null"),
            ("GIT_AUTHOR_NAME", "Ada"),
            ("GIT_AUTHOR_EMAIL", "ada@example.test"),
            ("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z"),
            ("GIT_COMMITTER_NAME", "Ada"),
            ("GIT_COMMITTER_EMAIL", "ada@example.test"),
        ];
        let output = exec::run(Invocation {
            program: "git".into(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: environment
                .iter()
                .chain(more)
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            directory: self.origin(),
            deadline: Duration::from_mins(1),
            grace: Duration::from_secs(1),
            stdout_bytes_max: 1 << 20,
            limits: exec::Limits::default(),
        })
        .await
        .unwrap();
        assert_eq!(output.code, Some(0), "git {arguments:?}: {}", output.stderr);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Writes files and commits; gives the commit.
    pub(crate) async fn commit(&self, message: &str, files: &[(&str, &str)]) -> String {
        for (name, content) in files {
            let path = self.origin().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        self.git(&["add", "-A"]).await;
        self.git(&["commit", "-q", "--allow-empty", "-m", message]).await;
        self.git(&["rev-parse", "HEAD"]).await
    }

    /// Directories of generations in the cache.
    pub(crate) fn generations(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for store in fs::read_dir(self.path().join("cache/git")).unwrap() {
            found.extend(fs::read_dir(store.unwrap().path()).unwrap().map(|member| member.unwrap().path()));
        }
        found.sort();
        found
    }
}

/// Runs openssl in the directory of a world.
pub(crate) async fn openssl(world: &World, arguments: &str) {
    let output = exec::run(Invocation {
        program: "openssl".into(),
        arguments: arguments.split_whitespace().map(Into::into).collect(),
        environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        directory: world.path().to_owned(),
        deadline: Duration::from_mins(1),
        grace: Duration::from_secs(1),
        stdout_bytes_max: 1 << 20,
        limits: exec::Limits::default(),
    })
    .await
    .unwrap();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}

fn options(directory: &Path) -> (SourceOptions, ManualClock) {
    let (clock, manual) = tiphys_source::Clock::manual("2026-01-01T00:00:00Z".parse().unwrap());
    manual.advance(Duration::from_hours(1));
    let mut options = SourceOptions::new(&directory.join("cache"));
    options.known_hosts_file = directory.join("known_hosts");
    options.tls_dir = None;
    options.local_roots = vec![directory.join("origin")];
    options.clock = clock;
    (options, manual)
}
