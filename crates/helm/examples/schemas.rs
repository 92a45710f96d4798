//! Holds made-up values against made-up schemas and prints where the answers differ from Helm's, see
//! `hack/oracles/schemas`.
//!
//! `schemas QUESTIONS.jsonl ANSWERS.jsonl [--show N]`

#![expect(clippy::print_stdout, reason = "a program")]

use serde_json::Value;
use tiphys_helm::{Documents, Schema};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("schemas QUESTIONS.jsonl ANSWERS.jsonl [SHOWN]");
    let (questions, answers) = (std::fs::read_to_string(next()?)?, std::fs::read_to_string(next()?)?);
    let show: usize = next().unwrap_or("10".to_owned()).parse()?;
    let (mut equal, mut texts, mut different) = (0, 0, 0);
    for (question, answer) in questions.lines().zip(answers.lines()) {
        let question: Value = serde_json::from_str(question)?;
        let answer: Value = serde_json::from_str(answer)?;
        let schema = question.get("schema").and_then(Value::as_str).unwrap_or_default();
        let values = question.get("values").cloned().unwrap_or_default();
        let ours =
            Schema::compile(schema.as_bytes(), &Documents::new()).and_then(|schema| schema.validate(&values));
        let ours = ours.err().map(|error| error.to_string());
        let helm = answer.get("error").and_then(Value::as_str);
        let sorted = |text: &str| {
            let mut lines: Vec<&str> = text.trim().lines().collect();
            lines.sort_unstable();
            lines.join("\n")
        };
        if ours.as_deref().map(sorted) == helm.map(sorted) {
            equal += 1;
            continue;
        }
        let kind = |text: &str| if text.trim_start().starts_with("- at") { "values" } else { "schema" };
        if ours.as_deref().map(kind) == helm.map(kind) {
            texts += 1;
            if std::env::args().any(|argument| argument != "--texts") && texts > show {
                continue;
            }
        } else {
            different += 1;
            if different > show {
                continue;
            }
        }
        println!(
            "schema {schema}\nvalues {values}\nhelm   {}\ntiphys {}\n",
            helm.unwrap_or("fits"),
            ours.as_deref().unwrap_or("fits")
        );
    }
    println!("equal {equal}, other texts {texts}, different {different}");
    Ok(())
}
