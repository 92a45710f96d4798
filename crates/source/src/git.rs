//! Asks git servers: in-process where that is possible (RND-29), else through the `git` program with its
//! environment, credentials and errors (RND-24..28, REP-70..75).
//!
//! Secrets reach git through its environment or through files of mode 0600 that are gone when the command is;
//! never through an argument. What git says is cleaned before anybody sees it.

mod credentials;
mod failure;
mod gpg;
mod words;

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::allowance::{Allowance, arriving_bytes};
use crate::http::{Direct, Http, HttpError, Increment};
use crate::repository::Transport;
use crate::sources::SourceOptions;
use crate::tokens::Tokens;
use crate::{Observer, Repository, SourceError, Trust, Turns};
use credentials::Access;
use tiphys_exec::{ExecError, Invocation, Limits, Watch};

pub(crate) use credentials::{HttpCredentials, roots_file};
pub(crate) use failure::Failed;
pub(crate) use gpg::Verify;
pub(crate) use words::Cause;

/// Bytes of a ref listing: a million refs.
const LISTING_BYTES_MAX: usize = 128 * 1024 * 1024;
/// Bytes of the output of every other command.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Bytes that git may ask for at once: a difference, which is decoded in memory, is not made of larger files by
/// any server that was not told to.
const ALLOCATION_MAX: &str = "512m";
/// Bytes of files that git does not hold in memory.
const STREAMED_MIN: &str = "16m";
/// Directory of the repositories that commits are made in.
pub(crate) const HYDRATIONS: &str = "hydrations";
/// Time between two looks at what a fetch uses.
const WATCH_INTERVAL: Duration = Duration::from_millis(200);
/// Git processes and conversations at once.
const PROCESSES_MAX: usize = 32;
/// Those of one owner: a project and a caller of the API leave some to others, also together.
const PROCESSES_SHARE: usize = 14;

/// Starts git with the options of one installation.
#[derive(Debug)]
pub(crate) struct Git {
    options: Arc<SourceOptions>,
    http: Http,
    gpg: gpg::Gpg,
    tokens: Tokens,
    slots: Turns,
    askpass: PathBuf,
    secrets: PathBuf,
}

impl Git {
    pub(crate) fn new(options: Arc<SourceOptions>) -> Result<Self, SourceError> {
        let secrets = options.cache_dir.join("secrets");
        let askpass = credentials::prepare(&secrets)?;
        // What a crash left there; what stays is in nobody's way.
        drop(std::fs::remove_dir_all(options.cache_dir.join(HYDRATIONS)));
        let slots = Turns::shared(PROCESSES_MAX, PROCESSES_SHARE, options.clock.clone());
        Ok(Self {
            options,
            http: Http::default(),
            gpg: gpg::Gpg::default(),
            tokens: Tokens::default(),
            slots,
            askpass,
            secrets,
        })
    }

    /// The repository with the token that its credential is for (REP-73, REP-74).
    pub(crate) async fn with_token(
        &self,
        repository: Repository,
        trust: &Trust,
    ) -> Result<Repository, SourceError> {
        self.tokens.apply((&self.http, &self.options, trust), repository).await
    }

    /// The client for questions that no program is needed for.
    pub(crate) fn http(&self) -> &Http {
        &self.http
    }

    /// Who is told of questions.
    pub(crate) fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.options.observer.as_ref()
    }

    /// Time of the clock.
    pub(crate) fn now(&self) -> Duration {
        self.options.clock.elapsed()
    }

    /// Time limit of work on what a server sent.
    pub(crate) fn exec_timeout(&self) -> Duration {
        self.options.exec_timeout
    }

    /// Lists the refs of a repository, with symbolic refs and peeled tags; with `prefixes`, at least those that begin
    /// with one of them.
    pub(crate) async fn list(
        &self,
        repository: &Repository,
        prefixes: &[String],
    ) -> Result<Vec<u8>, SourceError> {
        let mut attempt = 1;
        if let Some(direct) = Direct::of(repository, &self.options)? {
            let arguments = list_arguments(&direct.url);
            let work = self.http.list(&direct, prefixes, LISTING_BYTES_MAX);
            let deadline = self.options.request_timeout;
            match self.in_process(repository, &direct, &arguments, deadline, work).await {
                Some(Err(error)) if error.is_transient() && self.options.retry.attempts > 1 => attempt = 2,
                Some(result) => return result,
                None => {}
            }
        }
        let access = Access::of(repository, &self.options, &self.askpass, &self.secrets)?;
        // A listing over HTTP is one request of the server's time limit (REP-71).
        let deadline = match access.transport {
            Transport::Http => self.options.request_timeout,
            Transport::Ssh | Transport::Git | Transport::Local => self.options.exec_timeout,
        };
        let arguments = list_arguments(&access.url);
        let directory = self.options.cache_dir.clone();
        let command =
            Command { arguments: &arguments, directory: &directory, deadline, attempt, allowance: None };
        Ok(self.remote(repository, &access, &command, LISTING_BYTES_MAX).await?)
    }

    /// What a commit adds to commits that are known completely; `None` when [`Git::fetch`] must be used.
    pub(crate) async fn increment(
        &self,
        repository: &Repository,
        commit: &str,
        known: &[String],
        refspecs: &[String],
    ) -> Result<Option<Increment>, SourceError> {
        let Some(direct) = Direct::of(repository, &self.options)? else { return Ok(None) };
        let arguments = fetch_arguments(&direct.url, "--depth=1", refspecs);
        let work = self.http.increment(&direct, commit, known);
        let deadline = self.options.exec_timeout;
        match self.in_process(repository, &direct, &arguments, deadline, work).await {
            Some(Err(error)) if error.is_transient() && self.options.retry.attempts > 1 => Ok(None),
            Some(result) => result.map(Some),
            None => Ok(None),
        }
    }

    /// Fetches into a bare repository, as far as allowed. `depth` 0 means all history.
    pub(crate) async fn fetch(
        &self,
        repository: &Repository,
        directory: &Path,
        (depth, refspecs): (u32, &[String]),
        allowance: &Allowance,
    ) -> Result<(), Failed> {
        let access = Access::of(repository, &self.options, &self.askpass, &self.secrets)?;
        let depth = if depth == 0 { "--prune".to_owned() } else { format!("--depth={depth}") };
        let arguments = fetch_arguments(&access.url, &depth, refspecs);
        let deadline = self.options.exec_timeout;
        let allowance = Some(allowance);
        let command = Command { arguments: &arguments, directory, deadline, attempt: 1, allowance };
        self.remote(repository, &access, &command, OUTPUT_BYTES_MAX).await.map(drop)
    }

    /// What a fetch may use into a repository of which this many bytes are held, after so many fetches in a row that
    /// used all they might.
    pub(crate) fn allowance(&self, held: u64, exhausted: u32) -> Allowance {
        Allowance::of(self.options.fetch_limits, held, exhausted, self.options.pack_bytes_max)
    }

    /// Pushes from a bare repository, never over what somebody else pushed (CTL-114).
    pub(crate) async fn push(
        &self,
        repository: &Repository,
        directory: &Path,
        refspecs: &[String],
    ) -> Result<(), Failed> {
        let access = Access::of(repository, &self.options, &self.askpass, &self.secrets)?;
        let mut arguments = vec![
            "push",
            "--quiet",
            "--no-verify",
            "--no-recurse-submodules",
            "--end-of-options",
            &access.url,
        ];
        arguments.extend(refspecs.iter().map(String::as_str));
        let deadline = self.options.exec_timeout;
        let command = Command { arguments: &arguments, directory, deadline, attempt: 1, allowance: None };
        self.remote(repository, &access, &command, OUTPUT_BYTES_MAX).await.map(drop)
    }

    /// Adds a note to a commit of a bare repository, in place of one that it has (CTL-114).
    pub(crate) async fn add_note(
        &self,
        directory: &Path,
        notes: &str,
        commit: &str,
        text: &str,
        (name, email): &(String, String),
    ) -> Result<(), SourceError> {
        let notes = format!("--ref={notes}");
        let arguments = ["notes", &notes, "add", "--force", "--message", text, commit];
        let date = format!("{} +0000", self.options.clock.now().as_second());
        let who = [
            ("GIT_AUTHOR_NAME", name),
            ("GIT_AUTHOR_EMAIL", email),
            ("GIT_AUTHOR_DATE", &date),
            ("GIT_COMMITTER_NAME", name),
            ("GIT_COMMITTER_EMAIL", email),
            ("GIT_COMMITTER_DATE", &date),
        ];
        let who: Vec<(OsString, OsString)> =
            who.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        let command = Command {
            arguments: &arguments,
            directory,
            deadline: self.options.exec_timeout,
            attempt: 1,
            allowance: None,
        };
        let environment = self.environment(&who, &[]);
        Ok(self.once(&command, environment, OUTPUT_BYTES_MAX, None).await.map(drop)?)
    }

    /// Has a conversation with a server under the limits and with the words of the git command it stands for.
    /// `None` means that the git program must be asked.
    async fn in_process<T>(
        &self,
        repository: &Repository,
        direct: &Direct,
        arguments: &[&str],
        deadline: Duration,
        work: impl Future<Output = Result<T, HttpError>>,
    ) -> Option<Result<T, SourceError>> {
        let _slot = self.slots.take_own().await;
        let repository = Some(repository);
        let context = failure::Context { arguments, repository, cache_dir: &self.options.cache_dir };
        let error = match tokio::time::timeout(deadline, work).await {
            Ok(Ok(found)) => return Some(Ok(found)),
            Ok(Err(error)) => error,
            Err(_elapsed) => return Some(Err(context.not_finished(&ExecError::Timeout { after: deadline }))),
        };
        match error {
            HttpError::Refused { status, was_asked } => {
                Some(Err(context.refused(&direct.url, &direct.server(), status, was_asked)))
            }
            HttpError::TooLarge { limit } => Some(Err(context.not_finished(&ExecError::TooLarge { limit }))),
            HttpError::Unusual(why) => {
                tracing::debug!(why, "the git program is asked instead");
                None
            }
        }
    }

    /// Makes an empty bare repository.
    pub(crate) async fn init(&self, directory: &Path) -> Result<(), SourceError> {
        let arguments = ["init", "--quiet", "--bare", "--template=", "--end-of-options", "."];
        let (environment, deadline) = (self.environment(&[], &[]), self.options.exec_timeout);
        let command = Command { arguments: &arguments, directory, deadline, attempt: 1, allowance: None };
        Ok(self.once(&command, environment, OUTPUT_BYTES_MAX, None).await.map(drop)?)
    }

    /// Runs a command that speaks to the server, with the retries of RND-28.
    async fn remote(
        &self,
        repository: &Repository,
        access: &Access,
        command: &Command<'_>,
        stdout_bytes_max: usize,
    ) -> Result<Vec<u8>, Failed> {
        let retry = &self.options.retry;
        let mut wait = retry.wait;
        let mut attempt = command.attempt;
        loop {
            let environment = self.environment(&access.environment, &access.config);
            let result = self.once(command, environment, stdout_bytes_max, Some(repository)).await;
            match result {
                Err(Failed { error, .. }) if error.is_transient() && attempt < retry.attempts => {
                    tracing::debug!(%error, attempt, "git command will be retried");
                    tokio::time::sleep(wait.min(retry.wait_max)).await;
                    wait = wait.saturating_mul(retry.factor);
                    attempt += 1;
                }
                other => return other,
            }
        }
    }

    /// What a command may use: a processor for its time limit, and files up to the size of a pack.
    fn limits(&self, command: &Command<'_>) -> Limits {
        let bytes_max = self.options.pack_bytes_max;
        let file_bytes = command.allowance.map_or(bytes_max, |allowance| allowance.bytes);
        Limits { cpu: command.deadline, file_bytes, ..Limits::default() }
    }

    fn invocation(
        &self,
        command: &Command<'_>,
        environment: Vec<(OsString, OsString)>,
        stdout_bytes_max: usize,
    ) -> Invocation {
        Invocation {
            program: self.options.git_program.clone(),
            arguments: command.arguments.iter().map(OsString::from).collect(),
            environment,
            directory: command.directory.to_owned(),
            deadline: command.deadline,
            grace: self.options.exec_fatal_timeout,
            stdout_bytes_max,
            limits: self.limits(command),
        }
    }

    async fn once(
        &self,
        command: &Command<'_>,
        environment: Vec<(OsString, OsString)>,
        stdout_bytes_max: usize,
        repository: Option<&Repository>,
    ) -> Result<Vec<u8>, Failed> {
        let _slot = self.slots.take_own().await;
        let invocation = self.invocation(command, environment, stdout_bytes_max);
        let arguments = command.arguments;
        let context = failure::Context { arguments, repository, cache_dir: &self.options.cache_dir };
        let directory = command.directory;
        let allows = |used| {
            let permits = |allowance: &Allowance| allowance.permits(used, arriving_bytes(directory));
            command.allowance.is_none_or(permits)
        };
        let watch = command.allowance.map(|_| Watch { interval: WATCH_INTERVAL, allows: &allows });
        match tiphys_exec::run_watched(invocation, watch).await {
            Ok(output) if output.code == Some(0) => Ok(output.stdout),
            Ok(output) => Err(context.exited(output.code, &output.stderr)),
            Err(error) => Err(context.not_finished(&error).into()),
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
            ("GIT_ALLOC_LIMIT", ALLOCATION_MAX),
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
            // One file a fetch, and one kind of leftover when it fails.
            ("fetch.unpackLimit", "1"),
            ("core.bigFileThreshold", STREAMED_MIN),
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

/// One command of the git program.
struct Command<'a> {
    arguments: &'a [&'a str],
    directory: &'a Path,
    deadline: Duration,
    /// Number of the first attempt; above 1 when others failed without the git program.
    attempt: u32,
    /// What a fetch may use.
    allowance: Option<&'a Allowance>,
}

fn list_arguments(url: &str) -> [&str; 5] {
    ["ls-remote", "--quiet", "--symref", "--end-of-options", url]
}

fn fetch_arguments<'a>(url: &'a str, extent: &'a str, refspecs: &'a [String]) -> Vec<&'a str> {
    let mut arguments = vec![
        "fetch",
        "--quiet",
        "--no-tags",
        "--force",
        "--no-auto-gc",
        "--no-write-fetch-head",
        "--no-recurse-submodules",
        extent,
        "--end-of-options",
        url,
    ];
    arguments.extend(refspecs.iter().map(String::as_str));
    arguments
}
