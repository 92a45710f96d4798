//! What a command knows of the process it runs in, and where it writes.
//!
//! Everything about the process is read once, in [`crate::main`]; commands get it as values, so that whole runs
//! are tested inside one process.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tiphys_api::printable;
use tiphys_api::secret::Secret;
use tiphys_source::Clock;

use crate::admin::Dashboard;
use crate::completion::Listing;
use crate::described::Describe;
use crate::failure::{Failure, Style, record, stamp};

/// Bytes of one input file or of standard input.
pub(crate) const INPUT_BYTES_MAX: u64 = 64 << 20;

/// The process, as the command sees it.
pub(crate) struct Terminal {
    /// Name the program was called by.
    pub(crate) program: String,
    /// Environment variables.
    pub(crate) env: BTreeMap<String, String>,
    /// Whether standard output is a terminal.
    pub(crate) stdout_is_tty: bool,
    /// Whether standard error is a terminal.
    pub(crate) stderr_is_tty: bool,
    /// Tells the time.
    pub(crate) clock: Clock,
    /// Zone of times in tables.
    pub(crate) zone: TimeZone,
    /// Reads descriptions of installations; only the program itself can.
    pub(crate) describe: Option<Describe>,
    /// Answers the API; only the program itself can.
    pub(crate) dashboard: Option<Dashboard>,
    sink: Sink,
}

enum Sink {
    Process,
    /// Nothing is done and nothing is written: what there is to do is told (CLI-1104).
    Listing(Mutex<Option<Listing>>),
    #[cfg_attr(not(test), expect(dead_code, reason = "tests read what was written"))]
    Memory(Mutex<Written>),
}

/// What was written to memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Terminal {
    /// The real process.
    pub(crate) fn process(program: String, env: BTreeMap<String, String>) -> Self {
        Self {
            program,
            env,
            stdout_is_tty: std::io::stdout().is_terminal(),
            stderr_is_tty: std::io::stderr().is_terminal(),
            clock: Clock::real(),
            zone: TimeZone::system(),
            describe: None,
            dashboard: None,
            sink: Sink::Process,
        }
    }

    /// This process, for which commands say what they offer instead of doing it.
    pub(crate) fn listing(&self) -> Self {
        Self {
            sink: Sink::Listing(Mutex::default()),
            zone: self.zone.clone(),
            clock: self.clock.clone(),
            ..Self::process(self.program.clone(), BTreeMap::new())
        }
    }

    /// Says what there is, where that is asked for; then nothing is to be done.
    pub(crate) fn lists(&self, listing: impl FnOnce() -> Listing) -> bool {
        let Sink::Listing(found) = &self.sink else { return false };
        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(listing());
        true
    }

    /// Whether commands say what they offer instead of doing it.
    pub(crate) fn is_listing(&self) -> bool {
        matches!(self.sink, Sink::Listing(_))
    }

    /// What was said there is.
    pub(crate) fn listed(self) -> Option<Listing> {
        match self.sink {
            Sink::Listing(found) => found.into_inner().unwrap_or_else(PoisonError::into_inner),
            _ => None,
        }
    }

    /// A process in memory.
    #[cfg(test)]
    pub(crate) fn memory(program: &str, env: &[(&str, &str)]) -> Self {
        Self {
            program: program.to_owned(),
            env: env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            stdout_is_tty: false,
            stderr_is_tty: false,
            clock: Clock::manual("2026-08-01T10:00:00Z".parse().unwrap()).0,
            zone: TimeZone::UTC,
            describe: None,
            dashboard: None,
            sink: Sink::Memory(Mutex::default()),
        }
    }

    /// What was written to memory.
    #[cfg(test)]
    pub(crate) fn written(&self) -> Written {
        match &self.sink {
            Sink::Process | Sink::Listing(_) => Written::default(),
            Sink::Memory(written) => written.lock().unwrap().clone(),
        }
    }

    /// An environment variable, empty when unset.
    pub(crate) fn variable(&self, name: &str) -> &str {
        self.env.get(name).map_or("", String::as_str)
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Writes words to standard output: the one way there, so that nothing from outside commands the terminal
    /// (issue 10, 13). Texts from outside lose their line breaks where they become part of a line. A closed pipe
    /// ends quietly (CLI-1106).
    pub(crate) fn print(&self, text: &str) {
        self.write(&printable::lines(text));
    }

    /// Writes JSON or YAML to standard output: a program gets it as it is, a terminal as far as it may.
    pub(crate) fn data(&self, text: &str) {
        if self.stdout_is_tty { self.print(text) } else { self.write(text) }
    }

    fn write(&self, text: &str) {
        match &self.sink {
            Sink::Listing(_) => {}
            Sink::Process => {
                let mut out = std::io::stdout().lock();
                if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
                    // Nobody reads on; what follows has no reader either.
                }
            }
            Sink::Memory(written) => {
                written.lock().unwrap_or_else(PoisonError::into_inner).stdout.push_str(text);
            }
        }
    }

    /// Writes a line to standard output.
    pub(crate) fn line(&self, text: &str) {
        self.print(&format!("{text}\n"));
    }

    /// Writes to standard error, as [`Terminal::print`] does.
    pub(crate) fn warn(&self, text: &str) {
        self.write_error(&printable::lines(text));
    }

    fn write_error(&self, text: &str) {
        match &self.sink {
            Sink::Listing(_) => {}
            Sink::Process => {
                if std::io::stderr().lock().write_all(text.as_bytes()).is_err() {
                    // There is nowhere left to say so.
                }
            }
            Sink::Memory(written) => {
                written.lock().unwrap_or_else(PoisonError::into_inner).stderr.push_str(text);
            }
        }
    }

    /// Writes a log record to standard error.
    pub(crate) fn log(&self, style: Style, level: &str, message: &str) {
        self.record(style, level, message, None);
    }

    /// Writes the record of a failure to standard error.
    pub(crate) fn fail(&self, style: Style, failure: &Failure) {
        self.record(style, "fatal", &failure.message, failure.hint.as_deref());
    }

    fn record(&self, style: Style, level: &str, message: &str, hint: Option<&str>) {
        let time = stamp(self.variable("ARGOCD_LOG_FORMAT_TIMESTAMP"), self.now());
        if style != Style::Text || self.variable("FORCE_LOG_COLORS") != "1" {
            self.warn(&record(style, level, message, hint, &time));
            return;
        }
        // The colour is ours; nothing else in the line commands the terminal (CLI-106).
        let is_full = self.variable("ARGOCD_LOG_FORMAT_ENABLE_FULL_TIMESTAMP") == "1";
        let time = if is_full { time } else { "0000".to_owned() };
        let (colour, word) = match level {
            "warning" | "warn" => (33, "WARN"),
            "info" => (36, "INFO"),
            "debug" => (37, "DEBU"),
            "error" => (31, "ERRO"),
            _ => (31, "FATA"),
        };
        let text = printable::line(message);
        self.write_error(&format!("\u{1b}[{colour}m{word}\u{1b}[0m[{}] {text}\n", printable::line(&time)));
    }

    /// A second as tables of tokens show it.
    pub(crate) fn rfc_3339(&self, seconds: i64) -> String {
        rfc_3339(seconds, &self.zone)
    }

    /// A time as `app get` shows it (CLI-306).
    pub(crate) fn local_time(&self, time: Option<Timestamp>) -> String {
        match time {
            Some(time) => tiphys_go::time::format("2006-01-02 15:04:05 -0700 MST", time, &self.zone),
            None => "<nil>".to_owned(),
        }
    }

    /// Asks until the answer is one of the known ones; `None` when standard input has ended (CLI-305).
    pub(crate) async fn ask(&self, question: &str, may_answer_all: bool) -> Option<Answer> {
        loop {
            self.print(question);
            match read_line().await?.trim().to_ascii_lowercase().as_str() {
                "y" | "yes" => return Some(Answer::Yes),
                "n" | "no" => return Some(Answer::No),
                "a" | "all" if may_answer_all => return Some(Answer::All),
                _ => {}
            }
        }
    }
}

impl Terminal {
    /// Asks for a line; `None` when standard input has ended.
    pub(crate) async fn ask_line(&self, question: &str) -> Option<String> {
        self.print(question);
        read_line().await.map(|line| line.trim().to_owned())
    }

    /// Asks for something that nobody may read over the shoulder (CLI-203); `None` when standard input has ended. A
    /// standard input that is no terminal gives a line.
    pub(crate) async fn ask_password(&self, question: &str) -> Option<Secret<String>> {
        self.print(question);
        // It is restored when the answer is there, and when a signal ends the question.
        let silence = Silence::begin();
        let line = read_line().await;
        if silence.is_some() {
            self.print("\n");
        }
        line.map(|line| Secret::new(line.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

/// A second in the form of RFC 3339; one that is no time at all as it stands.
pub(crate) fn rfc_3339(seconds: i64, zone: &TimeZone) -> String {
    match Timestamp::from_second(seconds) {
        Ok(time) => tiphys_go::time::format(tiphys_go::time::RFC_3339, time, zone),
        Err(_) => seconds.to_string(),
    }
}

/// While it lives, the terminal at standard input does not show what is typed.
struct Silence(rustix::termios::Termios);

impl Silence {
    fn begin() -> Option<Self> {
        use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(std::io::stdin(), OptionalActions::Now, &silent).ok()?;
        Some(Self(before))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        use rustix::termios::{OptionalActions, tcsetattr};
        // A terminal that is gone shows nothing.
        let _restored = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

/// A line of standard input, read beside the runtime so that a signal ends the question.
async fn read_line() -> Option<String> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        match std::io::stdin().lock().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line),
        }
    });
    reading.await.ok().flatten()
}

/// [`read_file`] beside the runtime.
pub(crate) async fn read_input(path: &str) -> Result<String, Failure> {
    read_input_within(path, INPUT_BYTES_MAX).await
}

/// The same for input that may be larger, or has to be smaller.
pub(crate) async fn read_input_within(path: &str, bytes_max: u64) -> Result<String, Failure> {
    let path = path.to_owned();
    match tokio::task::spawn_blocking(move || read_file_within(&path, bytes_max)).await {
        Ok(read) => read,
        Err(panic) => Err(Failure::generic(format!("reading failed unexpectedly: {panic}"))),
    }
}

/// The text of a file, or of standard input for `-`.
pub(crate) fn read_file(path: &str) -> Result<String, Failure> {
    read_file_within(path, INPUT_BYTES_MAX)
}

fn read_file_within(path: &str, bytes_max: u64) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = if path == "-" {
        std::io::stdin().lock().take(bytes_max).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(bytes_max).read_to_end(&mut bytes))
    };
    read.map_err(|error| Failure::generic(format!("open {path}: {}", io_text(&error))))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length >= bytes_max) {
        return Err(Failure::generic(format!("{path} is larger than {bytes_max} bytes")));
    }
    text_of(&bytes, path)
}

/// Bytes from somewhere as text.
pub(crate) fn text_of(bytes: &[u8], from: &str) -> Result<String, Failure> {
    match tiphys_go::yaml::decode_text(bytes) {
        Ok(text) => Ok(text.into_owned()),
        Err(error) => Err(Failure::generic(format!("{from}: {error}"))),
    }
}

/// An answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Go on.
    Yes,
    /// Leave this one.
    No,
    /// Go on with this one and all others.
    All,
}

/// An I/O error in the words of the system's own tools.
pub(crate) fn io_text(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Point 13: whatever a command prints, a terminal is told nothing but text; programs get their data whole.
    #[test]
    fn cli_1106_nothing_from_outside_commands_the_terminal() {
        let mut terminal = Terminal::memory("argocd", &[]);
        let hostile = "a\u{1b}]0;title\u{7}\u{9b}2J\r\n";
        terminal.print(hostile);
        terminal.line("\u{202e}");
        terminal.warn(hostile);
        terminal.log(Style::Human, "warning", "x\nerror: forged\u{1b}[2J");
        let written = terminal.written();
        assert_eq!(written.stdout, "a\\x1b]0;title\\x07\\x9b2J\\r\n\\u{202e}\n");
        assert_eq!(written.stderr, "a\\x1b]0;title\\x07\\x9b2J\\r\nwarning: x\\nerror: forged\\x1b[2J\n");
        terminal.env.insert("FORCE_LOG_COLORS".to_owned(), "1".to_owned());
        terminal.log(Style::Text, "error", "x\n\u{1b}[2J");
        let coloured = "\u{1b}[31mERRO\u{1b}[0m[0000] x\\n\\x1b[2J\n";
        assert!(terminal.written().stderr.ends_with(coloured), "{:?}", terminal.written().stderr);
        terminal.env.insert("ARGOCD_LOG_FORMAT_ENABLE_FULL_TIMESTAMP".to_owned(), "1".to_owned());
        terminal.env.insert("ARGOCD_LOG_FORMAT_TIMESTAMP".to_owned(), "2006".to_owned());
        terminal.log(Style::Text, "info", "y");
        assert!(terminal.written().stderr.ends_with("\u{1b}[36mINFO\u{1b}[0m[2026] y\n"), "CLI-106");
        terminal.data("\u{202e}");
        terminal.stdout_is_tty = true;
        terminal.data("\u{202e}");
        assert!(terminal.written().stdout.ends_with("\u{202e}\\u{202e}"));
    }
}
