//! Golden rows: what the libraries that are followed answer to thousands of inputs (STY-71).

use crate::examples::equal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use tiphys_lab::eval::{Strictness, evaluate, find};

/// Differences shown per file before the rest is only counted.
const SHOWN: usize = 10;

/// The rows are checked in; a checkout without them says so and skips.
fn folder() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    [root.join("golden/go-compat"), root.join("../shared/golden/go-compat")]
        .into_iter()
        .find(|path| path.is_dir())
}

/// A row of the older format as a request: its operation, input and expected result.
fn request_of(file: &str, row: &Value, template_data: &Value) -> (String, Value, Option<Value>) {
    if row.get("op").is_some() {
        return (
            row["op"].as_str().unwrap_or_default().to_owned(),
            row["input"].clone(),
            row.get("result").cloned(),
        );
    }
    let result = |member: &str, name: &str| row.get(member).map(|value| json!({name: value}));
    let expected = || row.get("error").is_none();
    let (op, input, result) = match file {
        "gotemplate" => (
            "go.template",
            json!({"template": row["template"], "option": row["option"], "data": template_data}),
            result("output", "output"),
        ),
        "yaml-to-json" => ("go.yaml_to_json", json!({"text": row["yaml"]}), result("json", "json")),
        "json-to-yaml" => ("go.json_to_yaml", json!({"json": row["json"]}), result("yaml", "yaml")),
        "glob" => (
            "go.glob",
            json!({"pattern": row["pattern"], "text": row["input"], "separators": row["separators"]}),
            result("match", "matches"),
        ),
        "semver" => (
            "go.semver",
            json!({"constraint": row["constraint"], "version": row["version"]}),
            result("match", "matches"),
        ),
        "cron" => (
            "go.cron",
            json!({"schedule": row["cron"], "timeZone": row["timeZone"], "after": row["after"]}),
            result("next", "next"),
        ),
        "regexp" => (
            "go.regexp",
            json!({"pattern": row["pattern"], "text": row["input"], "replacement": row["replacement"]}),
            expected().then(|| json!({"groups": row["groups"], "replaced": row["replaced"]})),
        ),
        _ => ("", Value::Null, None),
    };
    (op.to_owned(), input, result)
}

#[test]
fn golden_rows_are_answered_as_the_libraries_do() {
    let Some(folder) = folder() else {
        println!("skipped: there is no golden/go-compat");
        return;
    };
    let data = std::fs::read_to_string(folder.join("gotemplate-data.json")).unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // What differential fuzzing found (hack/oracle).
    if let Some(found) = folder.parent().map(|parent| parent.join("found")).filter(|found| found.is_dir()) {
        files.extend(std::fs::read_dir(found).unwrap().map(|entry| entry.unwrap().path()));
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    let (mut report, mut rows, mut absent) = (Vec::new(), 0, Vec::new());
    for path in files {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (mut wrong, mut all) = (Vec::new(), 0);
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            let (op, input, expected) = request_of(name, &row, &data);
            if find(&op).is_none() {
                absent.push(format!("{name} ({op})"));
                break;
            }
            all += 1;
            let answer = evaluate(&op, input.clone(), Strictness::Strict);
            let agrees = match (&answer, &expected) {
                (Ok(answer), Some(expected)) => equal(answer, expected),
                (Err(fault), None) => !fault.code.is_protocol(),
                _ => false,
            };
            if !agrees {
                let expected = expected.unwrap_or_else(|| row["error"].clone());
                let got = answer.map_or_else(|fault| fault.to_string(), |answer| answer.to_string());
                wrong.push(format!("  {} {input}\n    expected {expected}\n    got      {got}", row["id"]));
            }
        }
        rows += all;
        if !wrong.is_empty() {
            wrong.sort_by_key(String::len);
            report.push(format!("{name}: {} of {all} rows differ", wrong.len()));
            report.extend(wrong.into_iter().take(SHOWN));
        }
    }
    for name in absent {
        println!("skipped: {name} is not answered yet");
    }
    assert!(report.is_empty(), "{}", report.join("\n"));
    println!("{rows} rows agree");
}
