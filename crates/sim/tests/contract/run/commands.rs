//! Steps that run `kubectl`.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::waits::POLL;
use super::{Runner, Step, is_set, number, pointer};
use crate::PATIENCE;
use crate::case;
use crate::kubectl::{self, Lines, Output};

/// How long lines are waited for before the steps beside them are done again.
const AGAIN: Duration = Duration::from_secs(5);

impl Runner<'_> {
    pub(super) async fn kubectl(&mut self, step: &Step, answers: &mut Vec<Value>) -> Step {
        let Some(program) = self.target.kubectl.clone() else {
            for inner in case::inner(step) {
                self.step(&inner, answers).await;
            }
            return Map::from_iter([("skipped".to_owned(), json!(true))]);
        };
        for (name, content) in step.get("files").and_then(Value::as_object).into_iter().flatten() {
            let text = content.as_str().map_or_else(|| content.to_string(), ToOwned::to_owned);
            std::fs::write(self.folder.path().join(name), self.fill(&text)).unwrap();
        }
        let arguments: Vec<String> =
            kubectl::words(step["kubectl"].as_str().unwrap()).iter().map(|word| self.fill(word)).collect();
        let stdin = step
            .get("stdin")
            .map(|stdin| self.fill(&stdin.as_str().map_or_else(|| stdin.to_string(), ToOwned::to_owned)));
        let end = Instant::now() + PATIENCE;
        let output = loop {
            let child = kubectl::start(&program, &arguments, self.folder.path(), stdin.as_deref()).await;
            if let Some(lines) = number(step, "lines") {
                break self.follow(step, Lines::new(child), lines, answers).await;
            }
            let finish = tokio::spawn(kubectl::finish(child));
            for inner in case::inner(step) {
                self.step(&inner, answers).await;
            }
            let output = finish.await.unwrap();
            if output.code == Some(0) || !is_set(step, "repeat") || Instant::now() > end {
                break output;
            }
            tokio::time::sleep(POLL).await;
        };
        self.printed(step, &output)
    }

    /// Reads a number of lines while other steps are done; where the step says `again`, until the lines come. `kubectl`
    /// passes over the first event of the watch of one object, and nobody sees when that watch begins.
    async fn follow(
        &mut self,
        step: &Step,
        mut reader: Lines,
        lines: usize,
        answers: &mut Vec<Value>,
    ) -> Output {
        reader.read_to(number(step, "first").unwrap_or(0), PATIENCE).await;
        for inner in case::inner(step) {
            self.step(&inner, answers).await;
        }
        let (end, is_again) = (Instant::now() + PATIENCE, is_set(step, "again"));
        let time = if is_again { AGAIN } else { PATIENCE };
        let mut turn = 1;
        while !reader.read_to(lines, time).await && is_again && Instant::now() < end {
            turn += 1;
            self.variables.insert("turn".to_owned(), format!("{turn}"));
            for inner in case::inner(step) {
                self.step(&inner, &mut Vec::new()).await;
            }
        }
        reader.finish().await
    }

    /// What of the output is kept.
    fn printed(&mut self, step: &Step, output: &Output) -> Step {
        let mut kept = Map::new();
        if let Some(code) = output.code {
            kept.insert("exit".to_owned(), json!(code));
        }
        let parsed: Option<Value> = serde_json::from_str(&output.stdout).ok();
        if let Some(body) = &parsed {
            self.save(step, body);
        }
        if !(is_set(step, "quiet") && output.code == Some(0)) {
            let stdout = match parsed.filter(|_| is_set(step, "parse")) {
                Some(body) => pointer::select(step, &body, &mut self.normal),
                None if is_set(step, "exact") => json!(self.normal.text(&output.stdout)),
                None => {
                    let text = self.select_lines(step, &output.stdout);
                    json!(self.normal.printed(&text))
                }
            };
            kept.insert("stdout".to_owned(), stdout);
        }
        if !output.stderr.is_empty() {
            kept.insert("stderr".to_owned(), json!(self.normal.printed(&output.stderr)));
        }
        kept
    }

    /// Lines that a step compares: those that match `keep` and not `without`, sorted if it says so.
    fn select_lines(&self, step: &Step, text: &str) -> String {
        let pattern = |member: &str| {
            step.get(member).and_then(Value::as_str).map(|text| regex::Regex::new(&self.fill(text)).unwrap())
        };
        let (keep, without) = (pattern("keep"), pattern("without"));
        let mut lines: Vec<&str> = text
            .split_inclusive('\n')
            .filter(|line| keep.as_ref().is_none_or(|keep| keep.is_match(line.trim_end_matches('\n'))))
            .filter(|line| without.as_ref().is_none_or(|keep| !keep.is_match(line.trim_end_matches('\n'))))
            .collect();
        if is_set(step, "sort") {
            lines.sort_unstable();
        }
        lines.concat()
    }
}
