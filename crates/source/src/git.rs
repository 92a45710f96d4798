//! Runs the `git` program for one repository: environment, credentials, errors (RND-24..28, REP-70..75).
//!
//! Secrets reach git through its environment or through files of mode 0600 that are gone when the command is;
//! never through an argument. What git says is cleaned before anybody sees it.

mod credentials;
mod failure;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::exec::{self, Invocation};
use crate::repository::Transport;
use crate::sources::SourceOptions;
use crate::{Repository, SourceError};
use credentials::Access;

/// Bytes of a ref listing: a million refs.
const LISTING_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of the output of every other command.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Git processes at once.
const PROCESSES_MAX: usize = 32;

/// Starts git with the options of one installation.
#[derive(Debug)]
pub(crate) struct Git {
    options: Arc<SourceOptions>,
    slots: Semaphore,
    askpass: PathBuf,
    secrets: PathBuf,
}

impl Git {
    pub(crate) fn new(options: Arc<SourceOptions>) -> Result<Self, SourceError> {
        let secrets = options.cache_dir.join("secrets");
        let askpass = credentials::prepare(&secrets)?;
        Ok(Self { options, slots: Semaphore::new(PROCESSES_MAX), askpass, secrets })
    }

    /// Lists the refs of a repository, with symbolic refs and peeled tags.
    pub(crate) async fn list(&self, repository: &Repository) -> Result<Vec<u8>, SourceError> {
        let access = Access::of(repository, &self.options, &self.askpass, &self.secrets)?;
        // A listing over HTTP is one request of the server's time limit (REP-71).
        let deadline = match access.transport {
            Transport::Http => self.options.request_timeout,
            Transport::Ssh | Transport::Git | Transport::Local => self.options.exec_timeout,
        };
        let arguments = ["ls-remote", "--quiet", "--symref", "--end-of-options", &access.url];
        let directory = self.options.cache_dir.clone();
        self.remote(repository, &access, &arguments, &directory, deadline, LISTING_BYTES_MAX).await
    }

    /// Fetches into a bare repository. `depth` 0 means all history.
    pub(crate) async fn fetch(
        &self,
        repository: &Repository,
        directory: &Path,
        depth: u32,
        refspecs: &[String],
    ) -> Result<(), SourceError> {
        let access = Access::of(repository, &self.options, &self.askpass, &self.secrets)?;
        let depth = format!("--depth={depth}");
        let mut arguments = vec![
            "fetch",
            "--quiet",
            "--no-tags",
            "--force",
            "--no-auto-gc",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
        ];
        arguments.push(if depth == "--depth=0" { "--prune" } else { &depth });
        arguments.extend(["--end-of-options", &access.url]);
        arguments.extend(refspecs.iter().map(String::as_str));
        let deadline = self.options.exec_timeout;
        self.remote(repository, &access, &arguments, directory, deadline, OUTPUT_BYTES_MAX).await.map(drop)
    }

    /// Makes an empty bare repository.
    pub(crate) async fn init(&self, directory: &Path) -> Result<(), SourceError> {
        let arguments = ["init", "--quiet", "--bare", "--template=", "--end-of-options", "."];
        let (environment, deadline) = (self.environment(&[], &[]), self.options.exec_timeout);
        self.once(&arguments, environment, directory, deadline, OUTPUT_BYTES_MAX, None).await.map(drop)
    }

    /// Runs a command that speaks to the server, with the retries of RND-28.
    async fn remote(
        &self,
        repository: &Repository,
        access: &Access,
        arguments: &[&str],
        directory: &Path,
        deadline: Duration,
        stdout_bytes_max: usize,
    ) -> Result<Vec<u8>, SourceError> {
        let retry = &self.options.retry;
        let mut wait = retry.wait;
        let mut attempt = 1;
        loop {
            let environment = self.environment(&access.environment, &access.config);
            let result = self
                .once(arguments, environment, directory, deadline, stdout_bytes_max, Some(repository))
                .await;
            match result {
                Err(error) if error.is_transient() && attempt < retry.attempts => {
                    tracing::debug!(%error, attempt, "git command will be retried");
                    tokio::time::sleep(wait.min(retry.wait_max)).await;
                    wait = wait.saturating_mul(retry.factor);
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    async fn once(
        &self,
        arguments: &[&str],
        environment: Vec<(OsString, OsString)>,
        directory: &Path,
        deadline: Duration,
        stdout_bytes_max: usize,
        repository: Option<&Repository>,
    ) -> Result<Vec<u8>, SourceError> {
        let closed = |_closed| SourceError::Cache { text: "git cannot be started any more".to_owned() };
        let _slot = self.slots.acquire().await.map_err(closed)?;
        let invocation = Invocation {
            program: self.options.git_program.clone(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment,
            directory: directory.to_owned(),
            deadline,
            grace: self.options.exec_fatal_timeout,
            stdout_bytes_max,
        };
        let context = failure::Context { arguments, repository, cache_dir: &self.options.cache_dir };
        match exec::run(invocation).await {
            Ok(output) if output.code == Some(0) => Ok(output.stdout),
            Ok(output) => Err(context.exited(output.code, &output.stderr)),
            Err(error) => Err(context.not_finished(&error)),
        }
    }

    /// The whole environment of a git process (RND-24).
    fn environment(
        &self,
        access: &[(OsString, OsString)],
        config: &[(&str, String)],
    ) -> Vec<(OsString, OsString)> {
        let mut variables: Vec<(OsString, OsString)> = [
            ("PATH", self.options.path.as_str()),
            ("HOME", "/dev/null"),
            ("LC_ALL", "C"),
            ("GIT_LFS_SKIP_SMUDGE", "1"),
            ("GIT_TERMINAL_PROMPT", "false"),
            // Refuses `ext::` and every other helper, also when a server or a configuration names one.
            ("GIT_ALLOW_PROTOCOL", "https:http:ssh:git:file"),
        ]
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
        variables.extend(access.iter().cloned());
        let mut settings: Vec<(&str, String)> = [
            ("protocol.version", "2"),
            ("http.followRedirects", "false"),
            ("credential.helper", ""),
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
            ("core.hooksPath", "/dev/null"),
            // The content is a cache: after a crash it is fetched again.
            ("core.fsync", "none"),
            ("safe.directory", "*"),
        ]
        .into_iter()
        .map(|(key, value)| (key, value.to_owned()))
        .collect();
        if self.options.builtin_git_config {
            settings.push(("maintenance.autoDetach", "false".to_owned()));
            settings.push(("gc.autoDetach", "false".to_owned()));
        }
        settings.extend(config.iter().cloned());
        variables.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
        for (index, (key, value)) in settings.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
            variables.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
        }
        variables
    }
}
