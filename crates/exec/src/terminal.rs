//! A child that a person works with: it has the terminal until it ends, an editor above all.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::launch::{NOT_STARTED, Start};
use super::{ExecError, Group, Invocation, Limits};

/// Time on processors of a program that somebody may leave open for days.
const CPU: Duration = Duration::from_hours(24);

impl Invocation {
    /// A program that gets the terminal ([`with_terminal`]): no output of it is read, and a person decides how long it
    /// takes.
    #[must_use]
    pub fn at_terminal(mut self) -> Self {
        self.limits = Limits { cpu: CPU, ..self.limits };
        self
    }
}

/// Runs a child on the terminal of this process and waits for its end; the exit code, `None` when a signal ended it. It
/// stays in our process group, or the terminal would stop it at its first look; dropping the future kills the child
/// alone.
///
/// The deadline and the limit on output of its [`Invocation`] have no meaning here.
///
/// # Errors
/// When it cannot be started or waited for.
pub async fn with_terminal(invocation: &Invocation) -> Result<Option<i32>, ExecError> {
    let start = Start::of(&invocation.program, &invocation.limits);
    let mut child = Command::new(&start.program)
        .args(&start.words)
        .args(&invocation.arguments)
        .env_clear()
        .envs(invocation.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(&invocation.directory)
        .stdin(Stdio::inherit())
        .stdout(Stdio::inherit())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .spawn()
        .map_err(ExecError::Start)?;
    if !start.is_bound {
        let mut group = Group::of(&child);
        let bound = invocation.limits.bind(group.0);
        // It is no group of its own; dropping the child kills it.
        group.forget();
        bound.map_err(ExecError::Limit)?;
    }
    let code = child.wait().await.map_err(ExecError::Read)?.code();
    match code {
        Some(code) if start.is_bound && code == i32::from(NOT_STARTED) => {
            Err(ExecError::Start(std::io::ErrorKind::NotFound.into()))
        }
        code => Ok(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Invocation {
        Invocation {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            environment: vec![("A".into(), "1".into())],
            directory: "/".into(),
            deadline: Duration::ZERO,
            grace: Duration::ZERO,
            stdout_bytes_max: 0,
            limits: Limits::default(),
        }
    }

    /// STY-113: the terminal is all it has besides what is listed, and limits it has too.
    #[tokio::test]
    async fn sty_113_a_child_with_the_terminal_has_its_environment_and_its_limits() {
        let run = async |script: &str| with_terminal(&shell(script).at_terminal()).await.unwrap();
        assert_eq!(run("test \"$A\" = 1 && test -z \"$HOME\"").await, Some(0));
        assert_eq!(run("exit 3").await, Some(3));
        assert_eq!(run("kill -9 $$").await, None);
        let missing = Invocation { program: "/no/such/editor".into(), ..shell("") };
        assert!(matches!(with_terminal(&missing).await, Err(ExecError::Start(_))));
    }
}
