//! Expressions: the rows of the original, what callers register, and bounds.

#![expect(clippy::indexing_slicing, clippy::unwrap_used, reason = "helpers of tests")]

use serde_json::{Value, json};
use std::path::Path;
use tiphys_go::expr::{
    self, Budget, Call, CallError, Environment, Fault, Limits, Object, Program, Run, Value as ExprValue,
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden");

fn evaluate(program: Result<Program, expr::ExprError>, env: &Value) -> Result<Value, String> {
    let program = program.map_err(|error| error.to_string())?;
    let environment = Environment::of(ExprValue::from_json(env).unwrap()).unwrap();
    let run = Run::at("2026-11-24T08:00:00Z".parse().unwrap());
    let value = program.run(&environment, &run).map_err(|error| error.to_string())?;
    let shown = value.to_json(&mut Budget::default()).map_err(|error| error.to_string())?;
    Ok(json!({"type": value.type_word(), "value": shown}))
}

/// Compares numbers by value.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

#[test]
fn eval_769_expr_agrees() {
    let mut differences = Vec::new();
    let mut rows = 0;
    for name in ["go-compat/expr.jsonl", "found/expr.jsonl"] {
        let Ok(text) = std::fs::read_to_string(Path::new(FOLDER).join(name)) else { continue };
        for line in text.lines() {
            rows += 1;
            let row: Value = serde_json::from_str(line).unwrap();
            let expression = row["input"]["expression"].as_str().unwrap();
            let env = row["input"].get("env").cloned().unwrap_or_else(|| json!({}));
            let unchecked = row["op"] == "go.expr_unchecked";
            let program = if unchecked { Program::unchecked(expression) } else { Program::new(expression) };
            let answer = evaluate(program, &env);
            let agrees = match &answer {
                Ok(value) => same(value, &row["result"]),
                Err(_) => row.get("error").is_some(),
            };
            if !agrees {
                differences.push(format!("{}\n  expected {row}\n  got {answer:?}", expression));
            }
        }
    }
    assert!(differences.is_empty(), "{} of {rows}\n{}", differences.len(), differences.join("\n"));
}
