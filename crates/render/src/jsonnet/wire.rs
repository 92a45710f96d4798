//! What is said between a process that needs programs evaluated and one that evaluates them.
//!
//! The question is a program. While it is evaluated the other side may ask for files; the last thing it says is the
//! result. Every message begins with a byte of its own, so that one child can answer other questions too.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{Imported, Imports, JsonnetError, Program, evaluate};

/// The first byte of a question, which no other question of a worker begins with.
pub const MARK: u8 = b'J';
const WANTED: u8 = b'W';
const DONE: u8 = b'D';
const FOUND: u8 = b'F';
const FAILED: u8 = b'E';

/// What the evaluating side says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It needs a file; the answer is [`found`] or [`not_found`].
    Wants {
        /// The file that imports.
        from: String,
        /// What it imports.
        path: String,
    },
    /// It is done.
    Done(Result<String, JsonnetError>),
}

#[derive(Serialize, Deserialize)]
struct Wanted {
    from: String,
    path: String,
}

#[derive(Serialize, Deserialize)]
enum Outcome {
    Text(String),
    Program(String),
    Exceeded(String),
}

/// The question.
pub fn ask(program: &Program) -> Vec<u8> {
    marked(MARK, &serde_json::to_vec(program).unwrap_or_default())
}

/// The file that was asked for: its name, a zero byte, its content.
pub fn found(file: &Imported) -> Vec<u8> {
    let mut message = marked(FOUND, file.file.as_bytes());
    message.push(0);
    message.extend_from_slice(&file.content);
    message
}

/// That there is no such file, and why.
pub fn not_found(why: &str) -> Vec<u8> {
    marked(FAILED, why.as_bytes())
}

/// Reads what the evaluating side said; `None` when it is nothing that it says.
pub fn read(message: &[u8]) -> Option<Said> {
    match message.split_first()? {
        (&WANTED, rest) => {
            let Wanted { from, path } = serde_json::from_slice(rest).ok()?;
            Some(Said::Wants { from, path })
        }
        (&DONE, rest) => Some(Said::Done(match serde_json::from_slice(rest).ok()? {
            Outcome::Text(text) => Ok(text),
            Outcome::Program(text) => Err(JsonnetError::Program(text)),
            Outcome::Exceeded(text) => Err(JsonnetError::Exceeded(text)),
        })),
        _ => None,
    }
}

/// Answers a question that begins with [`MARK`]. `say` sends one message; `hear` waits for the next one.
///
/// False when the other side is gone.
pub fn answer(
    question: &[u8],
    say: &mut dyn FnMut(Vec<u8>) -> bool,
    hear: &mut dyn FnMut() -> Option<Vec<u8>>,
) -> bool {
    let program: Result<Program, _> = serde_json::from_slice(question.get(1..).unwrap_or_default());
    let mut remote = Remote { say, hear };
    let result = match program {
        Ok(program) => evaluate(&program, &mut remote),
        Err(error) => Err(JsonnetError::Program(error.to_string())),
    };
    let outcome = match result {
        Ok(text) => Outcome::Text(text),
        Err(JsonnetError::Program(text)) => Outcome::Program(text),
        Err(JsonnetError::Exceeded(text)) => Outcome::Exceeded(text),
    };
    (remote.say)(marked(DONE, &serde_json::to_vec(&outcome).unwrap_or_default()))
}

/// Files that the other side has.
struct Remote<'a> {
    say: &'a mut dyn FnMut(Vec<u8>) -> bool,
    hear: &'a mut dyn FnMut() -> Option<Vec<u8>>,
}

impl Imports for Remote<'_> {
    fn load(&mut self, from: &str, path: &str) -> Result<Imported, String> {
        let wanted = Wanted { from: from.to_owned(), path: path.to_owned() };
        let gone = || "the process that has the files is gone".to_owned();
        if !(self.say)(marked(WANTED, &serde_json::to_vec(&wanted).unwrap_or_default())) {
            return Err(gone());
        }
        let message = (self.hear)().ok_or_else(gone)?;
        match message.split_first() {
            Some((&FOUND, rest)) => {
                let end = rest.iter().position(|byte| *byte == 0).ok_or_else(gone)?;
                let (file, content) = rest.split_at(end);
                let file = String::from_utf8_lossy(file).into_owned();
                Ok(Imported { file, content: Bytes::copy_from_slice(content.get(1..).unwrap_or_default()) })
            }
            Some((&FAILED, why)) => Err(String::from_utf8_lossy(why).into_owned()),
            _ => Err(gone()),
        }
    }
}

fn marked(mark: u8, rest: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(rest.len() + 1);
    message.push(mark);
    message.extend_from_slice(rest);
    message
}
