//! Policy tests: files of requests with expectations (EVAL-40..43).
//!
//! A file is a list of tests, or a map of `defaults` and `tests`. Reading ([`collect`]) finds what is wrong with a file
//! or a test without stopping; running ([`run`]) gives each test a verdict.

use super::document::{self, DocumentError};
use super::fault::{Code, Fault};
use super::matcher::{self, Extra, Mismatch};
use super::operation::{Strictness, evaluate, find};
use super::stream::timed_out;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Folders are searched so deep.
const FOLDER_DEPTH_MAX: usize = 64;
/// Stack of the thread that runs one test.
const TEST_STACK_BYTES: usize = 64 << 20;

/// One file and the tests in it, in order.
#[derive(Debug)]
pub(super) struct File {
    /// The path as given or found.
    pub(super) path: PathBuf,
    /// Its tests, or why it cannot be used.
    pub(super) tests: Result<Vec<Test>, DocumentError>,
}

/// One test as written.
#[derive(Debug, Clone)]
pub(super) struct Test {
    /// Its name, or its place in the file where it has none.
    pub(super) name: String,
    /// The operation it calls; empty when missing.
    pub(super) op: String,
    /// Line of its `name` in the file, from 1, if found.
    pub(super) line: Option<usize>,
    /// Its tags.
    pub(super) tags: BTreeSet<String>,
    /// Why it is left out.
    skip: Option<String>,
    /// The request and its expectation, or what is wrong with the test.
    case: Result<Case, String>,
}

#[derive(Debug, Clone)]
struct Case {
    input: Value,
    expectation: Expectation,
    extra: Extra,
}

#[derive(Debug, Clone)]
enum Expectation {
    Result(Value),
    Error(Value),
}

/// What a test came to.
#[derive(Debug)]
pub(super) enum Verdict {
    /// The answer is as expected.
    Passed,
    /// It is not; the second member is the full answer.
    Failed(Vec<Mismatch>, Value),
    /// The test was left out, for this reason.
    Skipped(String),
}

/// A test with its verdict.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The test.
    pub(super) test: Test,
    /// What it came to.
    pub(super) verdict: Verdict,
    /// How long it took.
    pub(super) took: Duration,
}

impl Test {
    /// The complete input, defaults included; null when the test is broken.
    pub(super) fn input(&self) -> Value {
        self.case.as_ref().map_or(Value::Null, |case| case.input.clone())
    }
}

/// Reads the named files, and those of the named folders that end in `.tiphys-test.yaml` or `.yml`.
pub(super) fn collect(paths: &[PathBuf]) -> Vec<File> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let mut found = Vec::new();
            let outcome = search(path, 0, &mut found);
            found.sort();
            files.extend(found.into_iter().map(|path| File { tests: read(&path), path }));
            if let Err(problem) = outcome {
                files.push(File { path: path.clone(), tests: Err(problem) });
            }
        } else {
            files.push(File { path: path.clone(), tests: read(path) });
        }
    }
    files
}

fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), DocumentError> {
    let unreadable = |source| DocumentError::Read { path: folder.display().to_string(), source };
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(unreadable)?);
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if kind.is_dir() && depth < FOLDER_DEPTH_MAX {
            search(&path, depth + 1, found)?;
        } else if name.ends_with(".tiphys-test.yaml") || name.ends_with(".tiphys-test.yml") {
            found.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<Test>, DocumentError> {
    let content =
        |reason: &str| DocumentError::Content { path: path.display().to_string(), reason: reason.to_owned() };
    let mut documents = document::read(path)?;
    let first = match documents.len() {
        1 => documents.remove(0),
        0 => return Err(content("the file is empty")),
        _ => return Err(content("expected one document with tests")),
    };
    let (defaults, tests) = match first {
        Value::Array(tests) => (Value::Null, tests),
        Value::Object(mut members) => {
            let defaults = members.remove("defaults").unwrap_or_default();
            let Some(Value::Array(tests)) = members.remove("tests") else {
                return Err(content("tests: expected a list"));
            };
            if let Some(unknown) = members.keys().next() {
                return Err(content(&format!("unknown member {unknown:?}")));
            }
            (defaults, tests)
        }
        _ => return Err(content("expected a list of tests, or a map with defaults and tests")),
    };
    let defaults = document::resolve_input(defaults, path).map_err(|problem| problem.to_string());
    let mut lines = name_lines(path).into_iter();
    let read_one = |(place, test)| read_test(test, place, &defaults, path, lines.next());
    Ok(tests.into_iter().enumerate().map(read_one).collect())
}

/// The lines on which the tests' names stand: the least indented `name:` keys, in order.
fn name_lines(path: &Path) -> Vec<usize> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let is_name = |line: &str| line.trim_start_matches([' ', '-']).starts_with("name:");
    let indent = |line: &str| line.chars().take_while(|c| matches!(c, ' ' | '-')).count();
    let named: Vec<(usize, usize)> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| is_name(line))
        .map(|(number, line)| (number + 1, indent(line)))
        .collect();
    let least = named.iter().map(|(_, indent)| *indent).min().unwrap_or(0);
    named.into_iter().filter(|(_, indent)| *indent == least).map(|(number, _)| number).collect()
}

fn read_test(
    test: Value,
    place: usize,
    defaults: &Result<Value, String>,
    file: &Path,
    line: Option<usize>,
) -> Test {
    let text = |key: &str| test.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (name, op) = (text("name"), text("op"));
    let tags = test.get("tags").and_then(Value::as_array);
    let tags = tags.into_iter().flatten().filter_map(|tag| tag.as_str().map(str::to_owned)).collect();
    let skip = match test.get("skip") {
        None | Some(Value::Null | Value::Bool(false)) => None,
        Some(Value::String(reason)) => Some(reason.clone()),
        Some(_) => Some("skipped".to_owned()),
    };
    let named = if name.is_empty() { format!("test {}", place + 1) } else { name };
    Test { name: named, line, tags, skip, case: read_case(test, &op, defaults, file), op }
}

const TEST_MEMBERS: [&str; 8] = ["name", "op", "input", "expect", "expectError", "match", "tags", "skip"];

fn read_case(test: Value, op: &str, defaults: &Result<Value, String>, file: &Path) -> Result<Case, String> {
    let Value::Object(mut members) = test else { return Err("expected a map".to_owned()) };
    if let Some(unknown) = members.keys().find(|key| !TEST_MEMBERS.contains(&key.as_str())) {
        return Err(format!("unknown member {unknown:?}"));
    }
    for needed in ["name", "op"] {
        if members.get(needed).and_then(Value::as_str).unwrap_or_default().is_empty() {
            return Err(format!("{needed}: required member is missing"));
        }
    }
    let extra = match members.get("match").map(|value| value.as_str().unwrap_or_default()) {
        None | Some("subset") => Extra::Allowed,
        Some("exact") => Extra::Forbidden,
        Some(_) => return Err("match: expected subset or exact".to_owned()),
    };
    let expectation = match (members.remove("expect"), members.remove("expectError")) {
        (Some(result), None) => Expectation::Result(result),
        (None, Some(error)) => Expectation::Error(error),
        (None, None) => return Err("one of expect and expectError is needed".to_owned()),
        (Some(_), Some(_)) => return Err("only one of expect and expectError is allowed".to_owned()),
    };
    let resolved = |value| document::resolve(value, file).map_err(|problem| problem.to_string());
    let expectation = match expectation {
        Expectation::Result(value) => Expectation::Result(resolved(value)?),
        Expectation::Error(value) => Expectation::Error(resolved(value)?),
    };
    let input = members.remove("input").unwrap_or_else(|| json!({}));
    let input = document::resolve_input(input, file).map_err(|problem| problem.to_string())?;
    let input = merge(known_defaults(defaults.clone()?, op), input);
    Ok(Case { input, expectation, extra })
}

/// Defaults that the operation does not know are for other tests of the file.
fn known_defaults(defaults: Value, op: &str) -> Value {
    match (defaults, find(op)) {
        (Value::Object(mut members), Some(row)) => {
            members.retain(|key, _| row.input.iter().any(|member| member.name == key));
            Value::Object(members)
        }
        (defaults, _) => defaults,
    }
}

/// Lays `over` over `under`: maps are merged, a null removes, everything else replaces.
fn merge(under: Value, over: Value) -> Value {
    match (under, over) {
        (Value::Object(mut under), Value::Object(over)) => {
            for (key, value) in over {
                if value.is_null() && under.remove(&key).is_some() {
                    continue;
                }
                let below = under.remove(&key).unwrap_or_default();
                under.insert(key, merge(below, value));
            }
            Value::Object(under)
        }
        (_, over) => over,
    }
}

/// How tests are run.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunOptions {
    /// Whether unknown members of inputs fail a test.
    pub(super) strictness: Strictness,
    /// Longest run of one operation.
    pub(super) timeout: Duration,
}

/// Runs one test.
pub(super) fn run(test: Test, options: RunOptions) -> Outcome {
    let begin = now();
    let verdict = match (&test.skip, &test.case) {
        (Some(reason), _) => Verdict::Skipped(reason.clone()),
        (None, Err(problem)) => broken(problem),
        (None, Ok(case)) => {
            let answer = evaluate_for(&test.op, case.input.clone(), options.strictness, options.timeout);
            judge(case, answer)
        }
    };
    Outcome { test, verdict, took: now().duration_since(begin) }
}

fn broken(problem: &str) -> Verdict {
    let mismatch =
        Mismatch { path: String::new(), expected: "a valid test".into(), actual: problem.to_owned() };
    Verdict::Failed(vec![mismatch], Value::Null)
}

fn judge(case: &Case, answer: Result<Value, Fault>) -> Verdict {
    let (found, answer) = match (&case.expectation, answer) {
        (Expectation::Result(expected), Ok(result)) => {
            (matcher::compare(expected, &result, case.extra), json!({"result": result}))
        }
        (Expectation::Result(_), Err(fault)) => {
            let actual = format!("error {fault}");
            let mismatch = Mismatch { path: String::new(), expected: "a result".into(), actual };
            (vec![mismatch], json!({"error": fault.to_value()}))
        }
        (Expectation::Error(expected), Err(fault)) => {
            let value = fault.to_value();
            let found = match expected {
                // A mistake in the test itself must not pass for the refusal that was meant.
                _ if fault.code.is_protocol() => {
                    vec![Mismatch {
                        path: String::new(),
                        expected: "an error of the product".into(),
                        actual: fault.to_string(),
                    }]
                }
                Value::Bool(true) => Vec::new(),
                Value::Object(members) => compare_error(members, &value),
                other => vec![Mismatch {
                    path: String::new(),
                    expected: matcher::show(other),
                    actual: fault.to_string(),
                }],
            };
            (found, json!({"error": value}))
        }
        (Expectation::Error(_), Ok(result)) => {
            let actual = matcher::show(&result);
            (
                vec![Mismatch { path: String::new(), expected: "an error".into(), actual }],
                json!({"result": result}),
            )
        }
    };
    if found.is_empty() { Verdict::Passed } else { Verdict::Failed(found, answer) }
}

fn compare_error(expected: &Map<String, Value>, error: &Value) -> Vec<Mismatch> {
    matcher::compare(&Value::Object(expected.clone()), error, Extra::Allowed)
}

/// Evaluates one request, but not longer than `timeout`; what runs on is left behind.
pub(super) fn evaluate_for(
    op: &str,
    input: Value,
    strictness: Strictness,
    timeout: Duration,
) -> Result<Value, Fault> {
    let (send, receive) = mpsc::sync_channel(1);
    let name = op.to_owned();
    let body = move || {
        // Nobody listens any more when the time is over.
        send.send(evaluate(&name, input, strictness)).ok();
    };
    let thread = std::thread::Builder::new().name("eval-one".into()).stack_size(TEST_STACK_BYTES);
    if let Err(problem) = thread.spawn(body) {
        return Err(Fault::new(Code::Internal, format!("cannot start a thread: {problem}")));
    }
    receive.recv_timeout(timeout).unwrap_or_else(|_| Err(timed_out(timeout)))
}

#[expect(
    clippy::disallowed_methods,
    reason = "durations in reports of the shell; no decision sees this clock"
)]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r"
defaults:
  url: https://git.acme.test/shop/ui
  projectName: shop
  unknownHere: 1
tests:
- name: name of the default
  op: repos.secret_name
  expect: {name: repo-857941404}
- name: name in another project
  op: repos.secret_name
  input: {projectName: ops}
  match: exact
  expect: {name: {$prefix: repo-}}
- name: wrong
  op: repos.secret_name
  expect: {name: x}
- name: refused value
  op: repos.secret_name
  input: {kind: other}
  expectError: {code: InvalidArgument}
- name: protocol errors never count
  op: repos.secret_name
  input: {url: [1]}
  expectError: true
- name: later
  op: repos.secret_name
  skip: not agreed yet
  expect: {}
- name: neither
  op: repos.secret_name
- name: removed default
  op: repos.secret_name
  input: {url: null}
  expect: {}
";

    fn verdicts(text: &str) -> Vec<(String, &'static str)> {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("x.tiphys-test.yaml"), text).unwrap();
        std::fs::write(deep.join("other.yaml"), "- x").unwrap();
        let files = collect(&[folder.path().to_path_buf()]);
        assert_eq!(files.len(), 1);
        let options = RunOptions { strictness: Strictness::Strict, timeout: Duration::from_secs(20) };
        let run_one = |test: Test| {
            let outcome = run(test, options);
            let word = match outcome.verdict {
                Verdict::Passed => "ok",
                Verdict::Failed(..) => "FAIL",
                Verdict::Skipped(_) => "skip",
            };
            (outcome.test.name, word)
        };
        files.into_iter().flat_map(|file| file.tests.unwrap()).map(run_one).collect()
    }

    #[test]
    fn eval_41_tests_of_a_file_get_their_verdicts() {
        let seen = verdicts(FILE);
        let words: Vec<_> = seen.iter().map(|(_, word)| *word).collect();
        assert_eq!(words, ["ok", "ok", "FAIL", "ok", "FAIL", "skip", "FAIL", "FAIL"], "{seen:?}");
    }

    #[test]
    fn eval_40_defaults_lie_under_the_input() {
        let under = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1});
        let over = json!({"a": {"c": [3], "e": null}, "d": null});
        assert_eq!(merge(under, over), json!({"a": {"b": 1, "c": [3], "e": null}}));
    }
}
