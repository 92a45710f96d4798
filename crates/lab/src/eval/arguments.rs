//! The command line of `tiphys eval` and what it sets in motion.

use super::EXIT_ERROR;
use super::document;
use super::fault::{Code, Fault};
use super::list;
use super::operation::{Operation, Strictness, find};
use super::ops::operations;
use super::report::{self, Colour, Detail, FileReport, Totals};
use super::stream::{self, Request, StreamOptions};
use super::suite::{self, RunOptions, Test, Verdict};
use clap::{Args, Parser, Subcommand};
use regex::Regex;
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Exit code of a negative finding.
const EXIT_FINDING: u8 = 1;
/// Exit code of a wrong command line.
const EXIT_USAGE: u8 = 2;

/// Ask the product for its decisions, without a cluster.
///
/// Reads requests as JSON Lines from standard input, or evaluates the one operation named on the command line.
#[derive(Debug, Parser)]
#[command(name = "tiphys eval", no_binary_name = true, args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    requests: Requests,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run policy tests from files.
    Test(Tests),
}

#[derive(Debug, Args)]
struct Requests {
    /// The operation to evaluate; with --list the operations to list.
    #[arg(value_name = "OP")]
    ops: Vec<String>,
    /// Input of OP, a YAML or JSON file; - is standard input.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    input: Option<PathBuf>,
    /// Read requests from FILE: JSON Lines if it ends in .jsonl or .ndjson, else YAML.
    #[arg(long, value_name = "FILE", conflicts_with = "ops")]
    file: Option<PathBuf>,
    /// Print the operations with their schemas.
    #[arg(long)]
    list: bool,
    /// With --list: names only.
    #[arg(long, requires = "list")]
    names: bool,
    /// Requests evaluated at once; default: number of cores.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Refuse members that an operation does not know.
    #[arg(long)]
    strict: bool,
    /// Exit with 1 if an answer is an error.
    #[arg(long)]
    fail_on_error: bool,
    /// Longest run of one operation.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Longest line of input.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    max_line_bytes: usize,
    /// Version of the interface.
    #[arg(long, value_name = "VERSION", default_value = "1", value_parser = ["1"])]
    api_version: String,
}

#[derive(Debug, Args)]
struct Tests {
    /// Files, or folders that are searched for *.tiphys-test.yaml.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Run only tests whose name matches.
    #[arg(long, value_name = "REGEX")]
    run: Option<Regex>,
    /// Run only tests with one of these tags.
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Stop at the first failure.
    #[arg(long)]
    fail_fast: bool,
    /// Tests run at once; default: number of cores.
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
    /// Ignore members that an operation does not know.
    #[arg(long)]
    no_strict: bool,
    /// Longest run of one operation.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    timeout: Duration,
    /// Write a report as XML for CI systems (`JUnit`).
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Format of the report.
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = ["text", "json"])]
    output: String,
    /// Also print annotations for a forge's log.
    #[arg(long)]
    github: bool,
    /// Also show input and answer of failed tests.
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
    /// Show failures and the total only.
    #[arg(short, long)]
    quiet: bool,
    /// When to colour.
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = ["auto", "always", "never"])]
    color: String,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = tiphys_go::duration::parse(text).map_err(|problem| problem.to_string())?;
    Duration::try_from(duration).map_err(|_negative| "a duration cannot be negative".to_owned())
}

/// Parses the arguments that follow `eval` and does what they ask.
pub(super) fn run(args: &[OsString]) -> ExitCode {
    // A crash is an answer here; its text on stderr would look like one of the process.
    std::panic::set_hook(Box::new(|_| {}));
    match Arguments::try_parse_from(args) {
        Ok(Arguments { verb: Some(Verb::Test(tests)), .. }) => tests.run(),
        Ok(Arguments { verb: None, requests }) => requests.run(),
        Err(problem) => {
            let code = if problem.use_stderr() { EXIT_USAGE } else { 0 };
            // Nothing can be done when neither stream can be written.
            problem.print().ok();
            ExitCode::from(code)
        }
    }
}

/// Reports an error that is not an answer.
fn complain(problem: &str) -> ExitCode {
    complain_with(problem, EXIT_ERROR)
}

fn complain_with(problem: &str, code: u8) -> ExitCode {
    // Nothing can be done when stderr is closed.
    writeln!(io::stderr(), "error: {problem}").ok();
    ExitCode::from(code)
}

/// Prints to stdout; a reader that went away is no error.
fn print(text: &str, code: u8) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(problem) if problem.kind() != io::ErrorKind::BrokenPipe => {
            complain(&format!("cannot write the answer: {problem}"))
        }
        _ => ExitCode::from(code),
    }
}

fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

impl Requests {
    fn run(&self) -> ExitCode {
        if self.list {
            return self.list();
        }
        match self.ops.as_slice() {
            [] if self.input.is_some() => complain_with("--input needs an operation", EXIT_USAGE),
            [] => self.answer_all(),
            [op] => self.answer_one(op),
            _ => complain_with("only one operation can be evaluated at a time", EXIT_USAGE),
        }
    }

    fn list(&self) -> ExitCode {
        let mut rows: Vec<&Operation> = Vec::new();
        for name in &self.ops {
            match find(name) {
                Some(row) => rows.push(row),
                None => return complain_with(&format!("unknown operation {name:?}"), EXIT_USAGE),
            }
        }
        if self.ops.is_empty() {
            rows.extend(operations());
        }
        rows.sort_by_key(|row| row.name);
        let text = if self.names {
            rows.iter().flat_map(|row| [row.name, "\n"]).collect()
        } else {
            format!("{:#}\n", list::catalogue(&rows))
        };
        print(&text, 0)
    }

    fn strictness(&self) -> Strictness {
        if self.strict { Strictness::Strict } else { Strictness::Lenient }
    }

    fn answer_one(&self, op: &str) -> ExitCode {
        let input = match self.read_input() {
            Ok(input) => input,
            Err(problem) => return complain(&problem),
        };
        match suite::evaluate_for(op, input, self.strictness(), self.timeout) {
            Ok(result) => print(&format!("{result:#}\n"), 0),
            Err(fault) => {
                // Nothing can be done when stderr is closed.
                writeln!(io::stderr(), "{fault}").ok();
                ExitCode::from(EXIT_FINDING)
            }
        }
    }

    fn read_input(&self) -> Result<Value, String> {
        let (mut documents, file) = match &self.input {
            None => return Ok(Value::Null),
            Some(path) if path == Path::new("-") => {
                let mut text = String::new();
                io::stdin()
                    .read_to_string(&mut text)
                    .map_err(|problem| format!("cannot read stdin: {problem}"))?;
                (document::parse(&text, path).map_err(|problem| problem.to_string())?, None)
            }
            Some(path) => (document::read(path).map_err(|problem| problem.to_string())?, Some(path)),
        };
        let input = match documents.len() {
            0 => Value::Null,
            1 => documents.remove(0),
            _ => return Err("the input has several documents".to_owned()),
        };
        match file {
            Some(path) => document::resolve_input(input, path).map_err(|problem| problem.to_string()),
            None => Ok(input),
        }
    }

    fn answer_all(&self) -> ExitCode {
        let options = StreamOptions {
            jobs: self.jobs.unwrap_or_else(cores),
            strictness: self.strictness(),
            timeout: self.timeout,
            line_bytes_max: self.max_line_bytes,
        };
        // Not the locked standard output: its own line buffer would flush every answer.
        let mut output = StandardOutput;
        let outcome = match &self.file {
            None => {
                let input = BufReader::with_capacity(1 << 16, io::stdin());
                stream::answer_all(stream::lines(input, options.line_bytes_max), &mut output, options)
            }
            Some(path) if is_json_lines(path) => match File::open(path) {
                Ok(file) => {
                    let lines =
                        stream::lines(BufReader::with_capacity(1 << 16, file), options.line_bytes_max);
                    stream::answer_all(lines, &mut output, options)
                }
                Err(problem) => return complain(&format!("cannot read {}: {problem}", path.display())),
            },
            Some(path) => match document::read(path) {
                Ok(documents) => {
                    let requests = requests_of(documents, path).into_iter().map(Ok);
                    stream::answer_all(requests, &mut output, options)
                }
                Err(problem) => return complain(&problem.to_string()),
            },
        };
        match outcome {
            Ok(outcome) if outcome.any_error && self.fail_on_error => ExitCode::from(EXIT_FINDING),
            Ok(_) => ExitCode::SUCCESS,
            Err(problem) => {
                let cause = std::error::Error::source(&problem).map(|cause| format!(": {cause}"));
                complain(&format!("{problem}{}", cause.unwrap_or_default()))
            }
        }
    }
}

/// Standard output, locked for each write only; the stream has a buffer of its own.
struct StandardOutput;

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stdout().lock().flush()
    }
}

fn is_json_lines(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl" || extension == "ndjson")
}

/// The requests of a YAML file: each document is a request or a list of them.
fn requests_of(documents: Vec<Value>, file: &Path) -> Vec<Request> {
    let mut requests = Vec::new();
    for document in documents {
        let several = match document {
            Value::Array(items) => items,
            one => vec![one],
        };
        requests.extend(several.into_iter().map(|request| request_of(request, file)));
    }
    requests
}

fn request_of(mut request: Value, file: &Path) -> Request {
    let id = request.get("id").cloned().unwrap_or_default();
    if !request.is_object() {
        return Request::Broken(id, Fault::new(Code::BadRequest, "the request is not a map"));
    }
    let input = request.get_mut("input").map(Value::take).unwrap_or_default();
    match document::resolve_input(input, file) {
        Ok(input) => {
            if let Some(slot) = request.get_mut("input") {
                *slot = input;
            }
            Request::Parsed(request)
        }
        Err(problem) => Request::Broken(id, Fault::new(Code::InvalidInput, format!("input: {problem}"))),
    }
}

impl Tests {
    fn run(&self) -> ExitCode {
        let begin = suite::now();
        let mut unusable = false;
        let mut reports = Vec::new();
        let mut queue = Vec::new();
        for (at, file) in suite::collect(&self.files).into_iter().enumerate() {
            let mut problem = None;
            match file.tests {
                Ok(tests) => {
                    queue.extend(tests.into_iter().filter(|test| self.wants(test)).map(|test| (at, test)));
                }
                Err(found) => {
                    unusable = true;
                    problem = Some(found.to_string());
                }
            }
            reports.push(FileReport { path: file.path, outcomes: Vec::new(), problem });
        }
        for (at, outcome) in self.run_tests(queue) {
            if let Some(report) = reports.get_mut(at) {
                report.outcomes.push(outcome);
            }
        }
        let totals = Totals::of(&reports);
        if totals.all() == 0 && !unusable {
            return complain("no test was found");
        }
        if let Some(path) = &self.junit
            && let Err(problem) = std::fs::write(path, report::junit(&reports))
        {
            return complain(&format!("cannot write {}: {problem}", path.display()));
        }
        let mut text = match self.output.as_str() {
            "json" => format!("{:#}\n", report::json(&reports)),
            _ => report::text(&reports, suite::now().duration_since(begin), self.detail(), self.colour()),
        };
        if self.github {
            text.push_str(&report::github(&reports));
        }
        let code = match (unusable, totals.failed) {
            (true, _) => EXIT_ERROR,
            (false, 0) => 0,
            (false, _) => EXIT_FINDING,
        };
        print(&text, code)
    }

    fn wants(&self, test: &Test) -> bool {
        self.run.as_ref().is_none_or(|pattern| pattern.is_match(&test.name))
            && (self.tags.is_empty() || self.tags.iter().any(|tag| test.tags.contains(tag)))
    }

    /// Runs all tests, several at once, and returns them in file order.
    fn run_tests(&self, queue: Vec<(usize, Test)>) -> Vec<(usize, suite::Outcome)> {
        let strictness = if self.no_strict { Strictness::Lenient } else { Strictness::Strict };
        let options = RunOptions { strictness, timeout: self.timeout };
        let queue: Vec<Mutex<Option<(usize, Test)>>> =
            queue.into_iter().map(|one| Mutex::new(Some(one))).collect();
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let done = Mutex::new(Vec::new());
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(slot) = queue.get(number) else { return };
                let taken = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                let Some((at, test)) = taken else { continue };
                let outcome = suite::run(test, options);
                if self.fail_fast && matches!(outcome.verdict, Verdict::Failed(..)) {
                    stop.store(true, Ordering::Relaxed);
                }
                done.lock().unwrap_or_else(PoisonError::into_inner).push((number, at, outcome));
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.unwrap_or_else(cores).get() {
                scope.spawn(work);
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(number, _, _)| *number);
        done.into_iter().map(|(_, at, outcome)| (at, outcome)).collect()
    }

    fn detail(&self) -> Detail {
        match (self.quiet, self.verbose) {
            (true, _) => Detail::Quiet,
            (false, true) => Detail::Verbose,
            (false, false) => Detail::Normal,
        }
    }

    fn colour(&self) -> Colour {
        let on = match self.color.as_str() {
            "always" => true,
            "never" => false,
            _ => {
                let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
                let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
                !set("NO_COLOR") && !dumb && (io::stdout().is_terminal() || set("CLICOLOR_FORCE"))
            }
        };
        if on { Colour::On } else { Colour::Off }
    }
}
