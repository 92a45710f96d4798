//! The one place where child processes start (STY-113).
//!
//! A child gets an argument vector, an environment that holds what the caller lists and nothing else, no
//! standard input, limits on its output and on what it uses of the machine ([`Limits`]), and a deadline: its whole
//! process group is asked to end, and killed when it does not (RND-20). [`start`] is for the few that are spoken
//! with while they run, [`Service`] for those that answer one question after another, [`with_terminal`] for those that a
//! person works with. Whatever runs was bound to its limits before it began ([`launch`]).

pub mod frame;
pub mod launch;
mod limits;
mod piped;
mod service;
mod terminal;
mod usage;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use launch::Start;
pub use limits::Limits;
pub use piped::{Piped, start};
pub use service::{Program, Service, ServiceError};
pub use terminal::with_terminal;

/// Bytes of standard error that are kept; the rest is read and dropped.
const STDERR_BYTES_MAX: usize = 16 * 1024;

/// A child to run.
#[derive(Clone, Debug)]
pub struct Invocation {
    /// Program, by path or name.
    pub program: PathBuf,
    /// Arguments after the program.
    pub arguments: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Working directory.
    pub directory: PathBuf,
    /// Time until the group is asked to end.
    pub deadline: Duration,
    /// Time after that until the group is killed.
    pub grace: Duration,
    /// Bytes of standard output.
    pub stdout_bytes_max: usize,
    /// What it may use of the machine.
    pub limits: Limits,
}

/// What a child that ran to its end left behind.
#[derive(Clone, Debug)]
pub struct Output {
    /// Exit status; `None` when a signal ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// The first part of standard error.
    pub stderr: String,
}

impl Output {
    fn of(status: ExitStatus, stdout: Vec<u8>, stderr: &[u8]) -> Result<Self, ExecError> {
        let (code, stderr) = (status.code(), String::from_utf8_lossy(stderr).into_owned());
        match launch::failure(code, &stderr) {
            Some(error) => Err(error),
            None => Ok(Self { code, stdout, stderr }),
        }
    }
}

/// Why a child did not run to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The program could not be started.
    #[error("cannot start the program")]
    Start(#[source] std::io::Error),
    /// The child could not be bound to its limits; it was killed.
    #[error("cannot limit the program")]
    Limit(#[source] std::io::Error),
    /// A pipe to the child broke.
    #[error("cannot read from the program")]
    Read(#[source] std::io::Error),
    /// The deadline passed and the child ended when asked to.
    #[error("timeout after {}", go_duration(*after))]
    Timeout {
        /// The deadline.
        after: Duration,
    },
    /// The deadline passed and the child was killed.
    #[error("fatal timeout after {}", go_duration(*after))]
    FatalTimeout {
        /// Deadline and grace together.
        after: Duration,
    },
    /// The child and its children used more processor time than allowed for what they have to show; they were killed.
    #[error("it used {} of processor time, more than what it read explains", go_duration(*used))]
    TooMuchWork {
        /// The time.
        used: Duration,
    },
    /// The child wrote more than allowed.
    #[error("the output has more than {limit} bytes")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
}

/// Decides while a child runs whether it may go on.
pub struct Watch<'a> {
    /// Time between two decisions.
    pub interval: Duration,
    /// Whether the child may go on after it and its children used this much processor time.
    pub allows: &'a (dyn Fn(Duration) -> bool + Send + Sync),
}

/// Runs a child to its end. Dropping the future kills the child's process group.
pub async fn run(invocation: Invocation) -> Result<Output, ExecError> {
    run_watched(invocation, None).await
}

/// Like [`run`]; a child that is no longer allowed to go on is killed.
pub async fn run_watched(invocation: Invocation, watch: Option<Watch<'_>>) -> Result<Output, ExecError> {
    let (mut child, mut group) = spawn(&invocation, Stdio::null())?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let limit = invocation.stdout_bytes_max;
    let work = async {
        let status = async { child.wait().await.map_err(ExecError::Read) };
        let (stdout, stderr, status) =
            tokio::try_join!(read_all(stdout, limit), read_some(stderr, STDERR_BYTES_MAX), status)?;
        Output::of(status, stdout, &stderr)
    };
    tokio::pin!(work);
    let running = async {
        match (watch, group.0) {
            (Some(watch), Some(pid)) => watched(&mut work, watch, pid).await,
            _ => work.as_mut().await,
        }
    };
    if let Ok(result) = tokio::time::timeout(invocation.deadline, running).await {
        if result.is_ok() {
            group.forget();
        }
        return result;
    }
    group.signal(Signal::TERM);
    match tokio::time::timeout(invocation.grace, &mut work).await {
        Ok(_) => Err(ExecError::Timeout { after: invocation.deadline }),
        // Dropping the group kills it.
        Err(_) => Err(ExecError::FatalTimeout { after: invocation.deadline + invocation.grace }),
    }
}

/// Waits for the end of a child as long as it may go on. Dropping its group kills it after that.
async fn watched<T>(
    work: &mut (impl Future<Output = Result<T, ExecError>> + Unpin),
    watch: Watch<'_>,
    group: Pid,
) -> Result<T, ExecError> {
    loop {
        if let Ok(result) = tokio::time::timeout(watch.interval, &mut *work).await {
            return result;
        }
        let counting = tokio::task::spawn_blocking(move || usage::processor_time(group));
        let used = counting.await.unwrap_or_default();
        if !(watch.allows)(used) {
            return Err(ExecError::TooMuchWork { used });
        }
    }
}

/// Starts a child in a process group of its own and binds it to its limits.
fn spawn(invocation: &Invocation, stdin: Stdio) -> Result<(Child, Group), ExecError> {
    let start = Start::of(&invocation.program, &invocation.limits);
    let child = Command::new(&start.program)
        .args(&start.words)
        .args(&invocation.arguments)
        .env_clear()
        .envs(invocation.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&invocation.directory)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(ExecError::Start)?;
    let group = Group::of(&child);
    if !start.is_bound && group.0.is_some() {
        // A failure drops the group, which kills it.
        invocation.limits.bind(group.0).map_err(ExecError::Limit)?;
    }
    Ok((child, group))
}

/// The process group of a child; killed when dropped before the child ended.
#[derive(Debug)]
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // The group may be gone already, which is what is wanted.
            let _ = kill_process_group(pid, signal);
        }
    }

    fn forget(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// All bytes of a pipe; more than `limit` are an error.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Result<Vec<u8>, ExecError> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        let mut pipe = pipe.take((limit as u64).saturating_add(1));
        pipe.read_to_end(&mut bytes).await.map_err(ExecError::Read)?;
    }
    if bytes.len() > limit { Err(ExecError::TooLarge { limit }) } else { Ok(bytes) }
}

/// The first `limit` bytes of a pipe; the rest is read and dropped, so that the writer does not block.
async fn read_some(pipe: Option<impl AsyncRead + Unpin>, limit: usize) -> Result<Vec<u8>, ExecError> {
    let Some(mut pipe) = pipe else { return Ok(Vec::new()) };
    let mut bytes = Vec::new();
    (&mut pipe).take(limit as u64).read_to_end(&mut bytes).await.map_err(ExecError::Read)?;
    tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await.map_err(ExecError::Read)?;
    Ok(bytes)
}

/// Prints as Go does: `1m30s`, `15s`, `250ms`.
pub fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, 0) => format!("{}ms", duration.as_millis()),
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, deadline: Duration) -> Invocation {
        Invocation {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("A".into(), "1".into())],
            directory: "/".into(),
            deadline,
            grace: Duration::from_millis(50),
            stdout_bytes_max: 100,
            limits: Limits::default(),
        }
    }

    const LONG: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn sty_113_environment_and_status() {
        let output =
            run(shell("env | grep -v -e ^PWD= -e ^_= -e ^SHLVL=; echo bad >&2; exit 3", LONG)).await.unwrap();
        assert_eq!(output.code, Some(3));
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "A=1\n");
        assert_eq!(output.stderr, "bad\n");
    }

    #[tokio::test]
    async fn sty_113_output_is_limited() {
        let error = run(shell("while :; do echo 0123456789; done", LONG)).await.unwrap_err();
        assert!(matches!(error, ExecError::TooLarge { limit: 100 }));
        let noisy =
            run(shell("i=0; while [ $i -lt 5000 ]; do echo 0123456789 >&2; i=$((i+1)); done", LONG)).await;
        assert_eq!(noisy.unwrap().stderr.len(), STDERR_BYTES_MAX);
    }

    #[tokio::test]
    async fn inv_10_a_child_is_killed_when_it_works_more_than_allowed() {
        let some = Duration::from_millis(100);
        let watch = Watch { interval: Duration::from_millis(10), allows: &|used| used < some };
        let busy = shell("(while :; do :; done) & wait", LONG);
        let error = run_watched(busy, Some(watch)).await.unwrap_err();
        assert!(matches!(error, ExecError::TooMuchWork { used } if used >= some), "{error}");
        let watch = Watch { interval: Duration::from_millis(1), allows: &|_| true };
        assert_eq!(run_watched(shell("exec sleep 0.1", LONG), Some(watch)).await.unwrap().code, Some(0));
    }

    #[tokio::test]
    async fn rnd_20_a_deadline_asks_then_kills_the_group() {
        let short = Duration::from_millis(20);
        let error = run(shell("exec sleep 60", short)).await.unwrap_err();
        assert_eq!(error.to_string(), "timeout after 20ms");
        let error =
            run(shell("trap '' TERM; while :; do :; done", Duration::from_millis(100))).await.unwrap_err();
        assert_eq!(error.to_string(), "fatal timeout after 150ms");
        assert_eq!(go_duration(Duration::from_secs(90)), "1m30s");
        assert_eq!(go_duration(Duration::from_secs(100)), "1m40s");
    }
}
