//! All cases on one server: recorded, or compared with what is recorded.

use std::sync::Arc;

use futures::StreamExt;
use serde_json::{Value, json};

use crate::case::Case;
use crate::compare::{differences, print, short};
use crate::run::Runner;
use crate::target::{Target, setting};

/// Cases that run at the same time.
const PARALLEL: usize = 12;
/// Differences of one case that are shown.
const LINES: usize = 12;

/// What came of one case.
#[derive(Default)]
struct Outcome {
    name: String,
    equal: usize,
    skipped: usize,
    differences: Vec<String>,
}

/// Runs the selected cases; fails when an answer is not as recorded.
pub(crate) async fn run(target: Target) {
    let selection = setting("TIPHYS_CONTRACT_CASES").unwrap_or_default();
    let selection: Vec<&str> = selection.split(',').filter(|one| !one.is_empty()).collect();
    let cases = Case::all(&selection);
    let record = target.is_real && setting("TIPHYS_CONTRACT_RECORD").is_some();
    if target.kubectl.is_none() {
        println!("skipped: steps with kubectl, which is not there");
    }
    let target = Arc::new(target);
    let mut outcomes: Vec<Outcome> = futures::stream::iter(cases)
        .map(|case| tokio::spawn(one(Arc::clone(&target), case, record)))
        .buffer_unordered(PARALLEL)
        .map(|outcome| outcome.unwrap())
        .collect()
        .await;
    outcomes.sort_by(|one, other| one.name.cmp(&other.name));
    report(&outcomes);
}

async fn one(target: Arc<Target>, case: Case, record: bool) -> Outcome {
    let mut runner = Runner::new(&target, &case);
    let mut answers = runner.run(&case).await;
    runner.clean_up(&case).await;
    let mut outcome = Outcome { name: case.name.clone(), ..Outcome::default() };
    if record {
        keep_skipped(&mut answers, case.answers().unwrap_or_default());
        let failed = answers.iter().filter(|answer| answer.get("failed").is_some());
        outcome.differences.extend(failed.map(|answer| format!("not recorded: {answer}")));
        if outcome.differences.is_empty() {
            std::fs::write(case.answers_path(), print(&json!(answers))).unwrap();
            outcome.equal = answers.len();
        }
        return outcome;
    }
    let Some(recorded) = case.answers() else {
        outcome.differences.push("nothing is recorded: record it with TIPHYS_CONTRACT_RECORD=1".to_owned());
        return outcome;
    };
    compare(&recorded, &answers, &mut outcome);
    outcome
}

/// What was not asked this time stays as it was recorded.
fn keep_skipped(answers: &mut [Value], before: Vec<Value>) {
    for (answer, old) in answers.iter_mut().zip(before) {
        if answer.get("skipped").is_some() && answer["step"] == old["step"] {
            *answer = old;
        }
    }
}

fn compare(recorded: &[Value], answers: &[Value], outcome: &mut Outcome) {
    let labels = |answers: &[Value]| answers.iter().map(|answer| answer["step"].clone()).collect::<Vec<_>>();
    if labels(recorded) != labels(answers) {
        outcome.differences.push("recorded for other steps: record it again".to_owned());
        return;
    }
    for (index, (recorded, answer)) in recorded.iter().zip(answers).enumerate() {
        if answer.get("skipped").is_some() {
            outcome.skipped += 1;
            continue;
        }
        let mut found = Vec::new();
        if recorded["status"] == answer["status"] && recorded["exit"] == answer["exit"] {
            differences("", recorded, answer, &mut found);
        } else {
            found.push(format!("recorded {}, found {}", brief(recorded), brief(answer)));
        }
        if found.is_empty() {
            outcome.equal += 1;
        }
        let step = answer["step"].as_str().unwrap_or_default();
        outcome.differences.extend(found.into_iter().map(|text| format!("{} {step}: {text}", index + 1)));
    }
}

/// Code and message: where the codes differ the rest differs anyway.
fn brief(answer: &Value) -> String {
    let body = ["body", "stderr", "stdout", "last", "failed"].iter().find_map(|member| answer.get(*member));
    let body = body.unwrap_or(&Value::Null);
    let status = answer.get("status").or(answer.get("exit")).unwrap_or(&Value::Null);
    format!("{status} {}", short(body.get("message").unwrap_or(body)))
}

fn report(outcomes: &[Outcome]) {
    let lines = setting("TIPHYS_CONTRACT_LINES").and_then(|text| text.parse().ok()).unwrap_or(LINES);
    for outcome in outcomes.iter().filter(|outcome| !outcome.differences.is_empty()) {
        println!("{}", outcome.name);
        for difference in outcome.differences.iter().take(lines) {
            println!("  {difference}");
        }
        if outcome.differences.len() > lines {
            println!("  … and {} more", outcome.differences.len() - lines);
        }
    }
    let differ = outcomes.iter().filter(|outcome| !outcome.differences.is_empty()).count();
    let equal: usize = outcomes.iter().map(|outcome| outcome.equal).sum();
    let skipped: usize = outcomes.iter().map(|outcome| outcome.skipped).sum();
    println!("{} cases, {equal} steps equal, {skipped} skipped, {differ} cases differ", outcomes.len());
    assert_eq!(differ, 0, "answers are not as recorded");
}
