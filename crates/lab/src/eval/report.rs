//! What a run of policy tests prints: text for people, `JUnit` and JSON for programs (EVAL-44..47).

use super::matcher::Mismatch;
use super::suite::{Outcome, Verdict};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Column at which the operation of a failed test, or the reason of a skipped one, stands.
const NAME_WIDTH: usize = 45;

/// How much the text report says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Failures and the total.
    Quiet,
    /// Every test.
    Normal,
    /// Also input and answer of failed tests.
    Verbose,
}

/// Whether words are coloured (CLI-1102).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    /// Escape codes are written.
    On,
    /// Plain text.
    Off,
}

/// The results of one file, in order; or why it could not be used.
#[derive(Debug)]
pub(super) struct FileReport {
    /// The path.
    pub(super) path: PathBuf,
    /// What became of its tests.
    pub(super) outcomes: Vec<Outcome>,
    /// Why it could not be read.
    pub(super) problem: Option<String>,
}

/// How many tests ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// As expected.
    pub(super) passed: usize,
    /// Not as expected.
    pub(super) failed: usize,
    /// Left out.
    pub(super) skipped: usize,
}

impl Totals {
    /// Counts all outcomes.
    pub(super) fn of(files: &[FileReport]) -> Self {
        let mut totals = Self::default();
        for outcome in files.iter().flat_map(|file| &file.outcomes) {
            match outcome.verdict {
                Verdict::Passed => totals.passed += 1,
                Verdict::Failed(..) => totals.failed += 1,
                Verdict::Skipped(_) => totals.skipped += 1,
            }
        }
        totals
    }

    /// All tests.
    pub(super) fn all(self) -> usize {
        self.passed + self.failed + self.skipped
    }
}

/// The text report (EVAL-44).
pub(super) fn text(files: &[FileReport], took: Duration, detail: Detail, colour: Colour) -> String {
    let mut out = String::new();
    for file in files {
        let is_shown =
            |outcome: &&Outcome| detail != Detail::Quiet || matches!(outcome.verdict, Verdict::Failed(..));
        let shown: Vec<&Outcome> = file.outcomes.iter().filter(is_shown).collect();
        if shown.is_empty() && file.problem.is_none() {
            continue;
        }
        line(&mut out, format_args!("{}", file.path.display()));
        if let Some(problem) = &file.problem {
            line(&mut out, format_args!("  {}  {problem}", paint("ERROR", RED, colour)));
        }
        for outcome in shown {
            describe(&mut out, outcome, detail, colour);
        }
    }
    let totals = Totals::of(files);
    let word = if totals.all() == 1 { "test" } else { "tests" };
    let Totals { passed, failed, skipped } = totals;
    let seconds = took.as_secs_f64();
    line(
        &mut out,
        format_args!(
            "{} {word}: {passed} passed, {failed} failed, {skipped} skipped ({seconds:.2}s)",
            totals.all()
        ),
    );
    out
}

/// Appends one line. Writing to a string cannot fail.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").ok();
}

const RED: u8 = 31;
const GREEN: u8 = 32;
const YELLOW: u8 = 33;

fn paint(word: &str, code: u8, colour: Colour) -> String {
    match colour {
        Colour::On => format!("\u{1b}[{code}m{word}\u{1b}[0m"),
        Colour::Off => word.to_owned(),
    }
}

fn describe(out: &mut String, outcome: &Outcome, detail: Detail, colour: Colour) {
    let (name, op) = (&outcome.test.name, &outcome.test.op);
    match &outcome.verdict {
        Verdict::Passed => line(out, format_args!("  {}    {name}", paint("ok", GREEN, colour))),
        Verdict::Skipped(reason) => {
            line(out, format_args!("  {}  {name:NAME_WIDTH$} {reason}", paint("skip", YELLOW, colour)));
        }
        Verdict::Failed(mismatches, answer) => {
            line(out, format_args!("  {}  {name:NAME_WIDTH$} {op}", paint("FAIL", RED, colour)));
            for mismatch in mismatches {
                line(out, format_args!("        {}", sentence(mismatch)));
            }
            if detail == Detail::Verbose {
                line(out, format_args!("        input  {}", outcome.test.input()));
                line(out, format_args!("        answer {answer}"));
            }
        }
    }
}

fn sentence(mismatch: &Mismatch) -> String {
    let Mismatch { path, expected, actual } = mismatch;
    let place = if path.is_empty() { String::new() } else { format!("{path}: ") };
    format!("{place}expected {expected}, got {actual}")
}

/// The `--output json` report (EVAL-46).
pub(super) fn json(files: &[FileReport]) -> Value {
    let Totals { passed, failed, skipped } = Totals::of(files);
    let mut tests = Vec::new();
    for file in files {
        for outcome in &file.outcomes {
            let (status, mismatches) = match &outcome.verdict {
                Verdict::Passed => ("passed", Vec::new()),
                Verdict::Skipped(_) => ("skipped", Vec::new()),
                Verdict::Failed(found, _) => ("failed", found.iter().map(mismatch_value).collect()),
            };
            tests.push(json!({
                "file": file.path.display().to_string(),
                "name": outcome.test.name,
                "op": outcome.test.op,
                "status": status,
                "mismatches": mismatches,
                "durationMs": u64::try_from(outcome.took.as_millis()).unwrap_or(u64::MAX),
            }));
        }
    }
    json!({"passed": passed, "failed": failed, "skipped": skipped, "tests": tests})
}

fn mismatch_value(mismatch: &Mismatch) -> Value {
    json!({"path": mismatch.path, "expected": mismatch.expected, "actual": mismatch.actual})
}

/// The `JUnit` report (EVAL-46).
pub(super) fn junit(files: &[FileReport]) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let all = Totals::of(files);
    line(
        &mut out,
        format_args!(
            "<testsuites tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
            all.all(),
            all.failed,
            all.skipped
        ),
    );
    for file in files {
        let one = Totals::of(std::slice::from_ref(file));
        let time: Duration = file.outcomes.iter().map(|outcome| outcome.took).sum();
        line(
            &mut out,
            format_args!(
                "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
                escape(&file.path.display().to_string()),
                one.all(),
                one.failed,
                one.skipped,
                time.as_secs_f64()
            ),
        );
        for outcome in &file.outcomes {
            junit_case(&mut out, outcome);
        }
        line(&mut out, format_args!("  </testsuite>"));
    }
    line(&mut out, format_args!("</testsuites>"));
    out
}

fn junit_case(out: &mut String, outcome: &Outcome) {
    let (op, name) = (escape(&outcome.test.op), escape(&outcome.test.name));
    let time = outcome.took.as_secs_f64();
    let head = format!("    <testcase classname=\"{op}\" name=\"{name}\" time=\"{time:.3}\"");
    match &outcome.verdict {
        Verdict::Passed => line(out, format_args!("{head}/>")),
        Verdict::Skipped(reason) => {
            let reason = escape(reason);
            line(out, format_args!("{head}><skipped message=\"{reason}\"/></testcase>"));
        }
        Verdict::Failed(mismatches, _) => {
            let sentences: Vec<String> = mismatches.iter().map(sentence).collect();
            let first = escape(sentences.first().map_or("", String::as_str));
            let all = escape(&sentences.join("\n"));
            line(out, format_args!("{head}><failure message=\"{first}\">{all}</failure></testcase>"));
        }
    }
}

/// Text as XML allows it; characters that XML has no place for become a question mark.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// One annotation line per failed test for a forge's log (EVAL-47).
pub(super) fn github(files: &[FileReport]) -> String {
    let mut out = String::new();
    for file in files {
        for outcome in &file.outcomes {
            let Verdict::Failed(mismatches, _) = &outcome.verdict else { continue };
            let sentences: Vec<String> = mismatches.iter().map(sentence).collect();
            let message = format!("{}: {}", outcome.test.name, sentences.join("; "));
            let place = annotation_place(&file.path, outcome.test.line);
            line(&mut out, format_args!("::error {place}::{}", annotation_text(&message)));
        }
    }
    out
}

fn annotation_place(path: &Path, number: Option<usize>) -> String {
    let file = annotation_text(&path.display().to_string()).replace(',', "%2C").replace(':', "%3A");
    number.map_or_else(|| format!("file={file}"), |number| format!("file={file},line={number}"))
}

fn annotation_text(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}
