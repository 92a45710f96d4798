//! Examples of the table are executed, so that `--list` never tells stories (EVAL-10).

use serde_json::Value;
use tiphys_lab::eval::{Strictness, answer_line, catalogue, evaluate, find, operations};

/// Whether two JSON values are equal, numbers by value.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

#[test]
fn eval_10_every_example_gives_its_result() {
    let listed = catalogue(operations());
    let mut wrong = Vec::new();
    for entry in listed["ops"].as_array().unwrap() {
        let name = entry["op"].as_str().unwrap();
        let example = &entry["example"];
        assert!(
            example["input"].is_object() && example["result"].is_object(),
            "{name}: example does not parse"
        );
        match evaluate(name, example["input"].clone(), Strictness::Strict) {
            Ok(result) if equal(&result, &example["result"]) => {}
            other => wrong.push(format!("{name}: expected {}, got {other:?}", example["result"])),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn eval_10_operations_are_sorted_and_unique() {
    let names: Vec<&str> = operations().iter().map(|row| row.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    assert!(names.iter().all(|name| find(name).is_some()));
}

#[test]
fn eval_20_documented_members_are_always_present() {
    for row in operations() {
        let input = serde_json::from_str(row.example.0).unwrap();
        let Ok(result) = evaluate(row.name, input, Strictness::Strict) else { continue };
        let present = result.as_object().unwrap();
        for key in present.keys() {
            assert!(
                row.result.iter().any(|member| member.name == key),
                "{}: {key} is not documented",
                row.name
            );
        }
        let documented = catalogue(&[*row])["ops"][0]["result"]["required"].clone();
        for key in documented.as_array().into_iter().flatten() {
            assert!(present.contains_key(key.as_str().unwrap()), "{}: {key} is missing", row.name);
        }
    }
}

#[test]
fn eval_4_equal_requests_give_equal_bytes() {
    for row in operations() {
        let line = format!("{{\"id\":1,\"op\":\"{}\",\"input\":{}}}", row.name, row.example.0);
        let first = answer_line(&line, Strictness::Lenient);
        assert_eq!(first, answer_line(&line, Strictness::Lenient), "{}", row.name);
        assert!(first.starts_with("{\"id\":1,\""), "{first}");
    }
}
