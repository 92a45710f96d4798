//! Children that are spoken with while they run: the caller writes their input and reads their output.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

use super::{ExecError, Group, Invocation, Output, STDERR_BYTES_MAX, read_all, read_some, spawn};

/// A running child with open pipes. Dropping it kills the child's process group.
///
/// The deadline and the limit on output of its [`Invocation`] bind [`Self::converse`] only; whoever takes the
/// pipes away watches over both.
pub struct Piped {
    child: Child,
    group: Group,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: JoinHandle<Result<Vec<u8>, ExecError>>,
    deadline: Duration,
    stdout_bytes_max: usize,
}

/// Starts a child whose input and output are pipes. Needs a runtime.
pub fn start(invocation: &Invocation) -> Result<Piped, ExecError> {
    let (mut child, group) = spawn(invocation, Stdio::piped())?;
    let stderr: Option<ChildStderr> = child.stderr.take();
    Ok(Piped {
        group,
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        // Ends with the child, and is read all the time, so that the child never waits for it.
        stderr: tokio::spawn(read_some(stderr, STDERR_BYTES_MAX)),
        child,
        deadline: invocation.deadline,
        stdout_bytes_max: invocation.stdout_bytes_max,
    })
}

impl Piped {
    /// Takes the child's standard input; dropping it is the end of the input.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Takes the child's standard output.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Waits for the end of a child whose pipes were taken; `stdout` of the answer is what was not taken.
    pub async fn finish(mut self) -> Result<Output, ExecError> {
        drop(self.stdin.take());
        let stdout = read_all(self.stdout.take(), self.stdout_bytes_max).await?;
        let status = self.child.wait().await.map_err(ExecError::Read)?;
        self.group.forget();
        let stderr = match self.stderr.await {
            Ok(read) => read?,
            // The runtime ends; nobody is there to read it.
            Err(_ended) => Vec::new(),
        };
        Output::of(status, stdout, &stderr)
    }

    /// Sends all of the input and reads all of the output, within the deadline.
    pub async fn converse(mut self, input: &[u8]) -> Result<Output, ExecError> {
        let after = self.deadline;
        let stdin = self.stdin.take();
        let stdout = self.stdout.take();
        let limit = self.stdout_bytes_max;
        let talk = async move {
            // A child that ends early breaks its pipe; its status says more than that.
            let (_sent, stdout) = tokio::join!(send(stdin, input), read_all(stdout, limit));
            let stdout = stdout?;
            Ok(Output { stdout, ..self.finish().await? })
        };
        tokio::time::timeout(after, talk).await.unwrap_or(Err(ExecError::FatalTimeout { after }))
    }
}

async fn send(stdin: Option<ChildStdin>, input: &[u8]) -> std::io::Result<()> {
    use tokio::io::AsyncWriteExt as _;
    let Some(mut stdin) = stdin else { return Ok(()) };
    stdin.write_all(input).await?;
    stdin.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invocation(script: &str) -> Invocation {
        Invocation {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
            directory: "/".into(),
            deadline: Duration::from_secs(10),
            grace: Duration::ZERO,
            stdout_bytes_max: 1 << 20,
            limits: crate::Limits::default(),
        }
    }

    #[tokio::test]
    async fn sty_113_a_conversation_sends_and_reads_everything() {
        let input = vec![b'x'; 300_000];
        let output = start(&invocation("cat; echo end >&2; exit 4")).unwrap().converse(&input).await.unwrap();
        assert_eq!(output.code, Some(4));
        assert_eq!(output.stdout.len(), input.len());
        assert_eq!(output.stderr, "end\n");
    }

    #[tokio::test]
    async fn sty_113_a_child_that_reads_nothing_still_answers() {
        let input = vec![b'x'; 300_000];
        let output = start(&invocation("echo no; exit 1")).unwrap().converse(&input).await.unwrap();
        assert_eq!((output.code, output.stdout.as_slice()), (Some(1), b"no\n".as_slice()));
    }

    #[tokio::test]
    async fn sty_113_a_conversation_has_a_deadline() {
        let slow = Invocation { deadline: Duration::from_millis(20), ..invocation("exec sleep 60") };
        let error = start(&slow).unwrap().converse(b"").await.unwrap_err();
        assert!(matches!(error, ExecError::FatalTimeout { .. }), "{error}");
    }
}
