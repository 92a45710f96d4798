//! Children that answer one question after another, for callers on threads that may block.
//!
//! Questions and answers are messages ([`frame`](crate::frame)). A question says how many answers it expects; each
//! of them has a deadline, measured on the child's processor time, so that a busy machine does not end what is
//! quick. A child that overruns, breaks its pipe or dies is of no use any more: drop it, which kills it.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use rustix::process::Pid;

use crate::launch::Start;
use crate::{ExecError, Group, Limits, frame};

/// How much longer than the deadline an answer may take by the clock while the child does not get a processor.
const PATIENCE: u32 = 10;
/// Shortest time between two looks at the child's processor time.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The program of a service.
#[derive(Clone, Debug)]
pub struct Program {
    /// Program, by path or name.
    pub path: PathBuf,
    /// Arguments after the program.
    pub arguments: Vec<String>,
    /// What it may use of the machine.
    pub limits: Limits,
    /// Bytes of one answer.
    pub answer_bytes_max: usize,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// It took longer than the deadline.
    #[error("no answer within the deadline")]
    Overrun,
    /// The child died or broke its pipe.
    #[error("the program ended")]
    Ended,
}

struct Question {
    bytes: Vec<u8>,
    answers: usize,
}

/// A running child that answers questions. Dropping it kills the child's process group.
#[derive(Debug)]
pub struct Service {
    // Dropped first: the child must be dead before it is waited for.
    group: Group,
    child: Child,
    questions: Sender<Question>,
    answers: Receiver<std::io::Result<Vec<u8>>>,
    spent: Option<Duration>,
    has_answered: bool,
}

impl Service {
    /// Starts a child, with an empty environment.
    ///
    /// # Errors
    /// When it does not start or cannot be limited.
    #[expect(clippy::disallowed_methods, reason = "this crate is the place where children start")]
    pub fn start(program: &Program) -> Result<Self, ExecError> {
        let start = Start::of(&program.path, &program.limits);
        let mut child = Command::new(&start.program)
            .args(&start.words)
            .args(&program.arguments)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(ExecError::Start)?;
        let group = Group(i32::try_from(child.id()).ok().and_then(Pid::from_raw));
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (questions, to_ask) = channel();
        let (found, answers) = channel();
        let service = Self { group, child, questions, answers, spent: None, has_answered: false };
        if !start.is_bound && service.group.0.is_some() {
            // A failure drops the service, which kills it.
            program.limits.bind(service.group.0).map_err(ExecError::Limit)?;
        }
        let bytes_max = program.answer_bytes_max;
        if let Some(pipes) = pipes {
            std::thread::Builder::new()
                .name("service".to_owned())
                .spawn(move || converse(pipes, &to_ask, &found, bytes_max))
                .map_err(ExecError::Start)?;
        }
        Ok(service)
    }

    /// Sends a question that is answered by so many messages; they are taken by [`Self::answer`].
    ///
    /// # Errors
    /// When the child is gone.
    pub fn ask(&mut self, question: Vec<u8>, answers: usize) -> Result<(), ServiceError> {
        self.spent = self.processor_time();
        self.questions.send(Question { bytes: question, answers }).map_err(|_gone| ServiceError::Ended)
    }

    /// The next answer.
    ///
    /// # Errors
    /// When there is none in time, or the child is gone.
    pub fn answer(&mut self, deadline: Duration) -> Result<Vec<u8>, ServiceError> {
        let (mut waited, mut wait) = (Duration::ZERO, deadline);
        loop {
            match self.answers.recv_timeout(wait) {
                Ok(Ok(answer)) => {
                    self.spent = self.processor_time();
                    self.has_answered = true;
                    return Ok(answer);
                }
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => return Err(ServiceError::Ended),
                Err(RecvTimeoutError::Timeout) => {}
            }
            waited = waited.saturating_add(wait);
            let spent = self.processor_time().zip(self.spent).map(|(now, then)| now.saturating_sub(then));
            match spent.map(|spent| deadline.saturating_sub(spent)) {
                Some(left) if !left.is_zero() && waited < deadline.saturating_mul(PATIENCE) => {
                    wait = left.max(LOOK_AGAIN);
                }
                _ => return Err(ServiceError::Overrun),
            }
        }
    }

    /// Whether it has answered anything since its start.
    pub fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// Time the child's main thread had a processor; `None` where the system does not say.
    fn processor_time(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.group.signal(rustix::process::Signal::KILL);
        self.group.forget();
        // It was killed, so this does not take long; it has to be, or the child stays as a zombie.
        drop(self.child.wait());
    }
}

/// Passes questions to the child and its answers back, until one side goes away.
fn converse(
    (mut stdin, mut stdout): (ChildStdin, ChildStdout),
    questions: &Receiver<Question>,
    answers: &Sender<std::io::Result<Vec<u8>>>,
    bytes_max: usize,
) {
    while let Ok(question) = questions.recv() {
        if let Err(error) = frame::write(&mut stdin, &question.bytes) {
            // Nobody may be there to read it any more.
            drop(answers.send(Err(error)));
            return;
        }
        for _ in 0..question.answers {
            let answer = match frame::read(&mut stdout, bytes_max) {
                Ok(Some(answer)) => Ok(answer),
                Ok(None) => Err(std::io::ErrorKind::UnexpectedEof.into()),
                Err(error) => Err(error),
            };
            let is_last = answer.is_err();
            if answers.send(answer).is_err() || is_last {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    fn service(script: &str) -> Service {
        Service::start(&Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            limits: Limits::default(),
            answer_bytes_max: 1 << 20,
        })
        .unwrap()
    }

    #[test]
    fn sty_113_a_service_answers_one_question_after_another() {
        // What comes in is a message, so what goes out is one too. It fits into a pipe: this child reads and writes at once.
        let mut echo = service("exec cat");
        for question in [b"one".to_vec(), vec![7; 30_000]] {
            echo.ask(question.clone(), 1).unwrap();
            assert_eq!(echo.answer(LONG).unwrap(), question);
        }
        assert!(echo.has_answered());
    }

    /// A child that computes without end is given up after its deadline of processor time (SEC-10).
    #[test]
    fn sec_10_an_endless_answer_is_an_overrun() {
        let mut endless = service("while :; do :; done");
        endless.ask(b"x".to_vec(), 1).unwrap();
        assert_eq!(endless.answer(Duration::from_millis(100)), Err(ServiceError::Overrun));
        let mut asleep = service("exec sleep 600");
        asleep.ask(vec![0; 1 << 20], 1).unwrap();
        assert_eq!(asleep.answer(Duration::from_millis(10)), Err(ServiceError::Overrun));
    }

    #[test]
    fn sty_113_a_child_that_dies_is_told() {
        let mut dead = service("exit 3");
        let _ = dead.ask(b"x".to_vec(), 1);
        assert_eq!(dead.answer(LONG), Err(ServiceError::Ended));
        assert!(!dead.has_answered());
    }
}
