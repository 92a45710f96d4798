//! `--list`: the table as one document, with JSON Schemas and examples (EVAL-10).

use super::operation::{Operation, Stability};
use super::shape;
use serde_json::{Value, json};

/// The catalogue of these operations.
pub fn catalogue(rows: &[&Operation]) -> Value {
    let ops: Vec<Value> = rows.iter().map(|row| entry(row)).collect();
    json!({"version": 1, "ops": ops})
}

fn entry(row: &Operation) -> Value {
    let stability = match row.stability {
        Stability::Stable => "stable",
        Stability::Experimental => "experimental",
    };
    let (input, result) = row.example;
    json!({
        "op": row.name,
        "summary": row.summary,
        "stability": stability,
        "spec": row.spec,
        "input": with_dialect(shape::schema(row.input)),
        "result": with_dialect(shape::schema(row.result)),
        "example": {"input": shape::parse_constant(input), "result": shape::parse_constant(result)},
    })
}

fn with_dialect(mut schema: Value) -> Value {
    if let Value::Object(keywords) = &mut schema {
        keywords.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
    }
    schema
}
