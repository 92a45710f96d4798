//! Every row of the golden data: what the original library answered to inputs written for this project.

#![expect(
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests, which the configuration of the lints does not recognise"
)]

use serde_json::{Value, json};
use std::path::Path;
use tiphys_go::glob::Glob;
use tiphys_go::strvals::Reading;
use tiphys_go::template::{self, Engine, FunctionSet, Limits, MissingKey, Still, Templates, helm};
use tiphys_go::time;
use tiphys_go::{
    cron, doublestar, duration, fasttemplate, json as go_json, path_match, regexp, semver, shlex, strvals,
    yaml,
};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/go-compat");

/// Walks a file. `answer` gives the value of a row, or why there is none; every row must agree.
fn family(name: &str, answer: impl Fn(&Value) -> Result<Value, String>, expected: impl Fn(&Value) -> Value) {
    let path = Path::new(FOLDER).join(name);
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: {name} is not in the golden folder");
        return;
    };
    let mut differences = Vec::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let id = row["id"].as_str().unwrap();
        match (answer(&row), row.get("error")) {
            (Err(_), Some(_)) => {}
            (Ok(value), Some(error)) => {
                differences.push(format!("{id}: {row}\n  expected error {error}\n  got {value}"));
            }
            (Err(error), None) => differences.push(format!("{id}: {row}\n  got error {error}")),
            (Ok(value), None) if same(&value, &expected(&row)) => {}
            (Ok(value), None) => {
                differences.push(format!("{id}: {row}\n  expected {}\n  got      {value}", expected(&row)));
            }
        }
    }
    let total = text.lines().count();
    assert!(
        differences.is_empty(),
        "{name}: {} of {total} differ\n{}",
        differences.len(),
        differences.join("\n")
    );
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
                && left
                    .iter()
                    .zip(right)
                    .all(|((key, left), (other, right))| key == other && same(left, right))
        }
        _ => left == right,
    }
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row.get("input")
        .and_then(|input| input.get(name))
        .or_else(|| row.get(name))
        .and_then(Value::as_str)
        .unwrap_or("")
}

fn result(row: &Value) -> Value {
    row["result"].clone()
}

#[expect(clippy::needless_pass_by_value, reason = "stands in `map_err`")]
fn told<T: ToString>(error: T) -> String {
    error.to_string()
}

#[test]
fn eval_751_yaml_to_json_agrees() {
    family(
        "yaml-to-json.jsonl",
        |row| yaml::yaml_to_json(text(row, "yaml"), yaml::Dialect::Sigs).map(Value::from).map_err(told),
        |row| row["json"].clone(),
    );
}

#[test]
fn eval_751_yaml_v3_agrees() {
    family(
        "yaml-v3.jsonl",
        |row| {
            let json = yaml::yaml_to_json(text(row, "text"), yaml::Dialect::V3).map_err(told)?;
            Ok(json!({ "json": json }))
        },
        result,
    );
}

#[test]
fn eval_752_json_to_yaml_agrees() {
    family(
        "json-to-yaml.jsonl",
        |row| yaml::json_to_yaml(text(row, "json")).map(Value::from).map_err(told),
        |row| row["yaml"].clone(),
    );
}

#[test]
fn eval_765_number_agrees() {
    family(
        "number.jsonl",
        |row| {
            let mut document = text(row, "text").to_owned();
            if text(row, "from") == "yaml" {
                document = yaml::yaml_to_json(&document, yaml::Dialect::Sigs).map_err(told)?;
            }
            let views = go_json::number_views(document.as_bytes()).map_err(told)?;
            Ok(json!({
                "json": views.json,
                "printed": views.printed,
                "k8sJson": views.kubernetes_json,
                "k8sPrinted": views.kubernetes_printed,
            }))
        },
        result,
    );
}

#[test]
fn eval_753_glob_agrees() {
    family(
        "glob.jsonl",
        |row| {
            let separators: Vec<char> = text(row, "separators").chars().collect();
            let glob = Glob::new(text(row, "pattern"), &separators).map_err(told)?;
            Ok(Value::from(glob.is_match(text(row, "input"))))
        },
        |row| row["match"].clone(),
    );
}

#[test]
fn eval_759_path_match_agrees() {
    family(
        "path-match.jsonl",
        |row| {
            let matches = path_match::is_match(text(row, "pattern"), text(row, "text")).map_err(told)?;
            Ok(json!({ "matches": matches }))
        },
        result,
    );
}

#[test]
fn eval_754_semver_agrees() {
    family(
        "semver.jsonl",
        |row| semver::satisfies(text(row, "constraint"), text(row, "version")).map(Value::from).map_err(told),
        |row| row["match"].clone(),
    );
}

#[test]
fn eval_757_semver_max_agrees() {
    family(
        "semver-max.jsonl",
        |row| {
            let constraint = semver::Constraint::parse(text(row, "constraint")).map_err(told)?;
            let versions = row["input"]["versions"].as_array().unwrap();
            Ok(json!({ "version": semver::max(&constraint, versions.iter().filter_map(Value::as_str)) }))
        },
        result,
    );
}

#[test]
fn eval_760_duration_agrees() {
    family(
        "duration.jsonl",
        |row| {
            let read = duration::parse(text(row, "text")).map_err(told)?;
            let nanoseconds = i64::try_from(read.as_nanos()).unwrap();
            Ok(json!({ "nanoseconds": nanoseconds, "string": duration::format(read) }))
        },
        result,
    );
}

#[test]
fn eval_755_cron_agrees() {
    family(
        "cron.jsonl",
        |row| {
            let after = text(row, "after").parse().map_err(|error: jiff::Error| told(error))?;
            let times = cron::next_times(text(row, "cron"), text(row, "timeZone"), after, 4).map_err(told)?;
            Ok(times.iter().map(ToString::to_string).collect())
        },
        |row| row["next"].clone(),
    );
}

#[test]
fn eval_758_doublestar_agrees() {
    family(
        "doublestar.jsonl",
        |row| {
            let matches = doublestar::is_match(text(row, "pattern"), text(row, "text")).map_err(told)?;
            Ok(json!({ "matches": matches }))
        },
        result,
    );
}

#[test]
fn eval_770_shlex_agrees() {
    family(
        "shlex.jsonl",
        |row| {
            let split =
                if text(row, "library") == "shellquote" { shlex::split_shellquote } else { shlex::split };
            Ok(json!({ "words": split(text(row, "text")).map_err(told)? }))
        },
        result,
    );
}

#[test]
fn eval_771_fasttemplate_agrees() {
    family(
        "fasttemplate.jsonl",
        |row| {
            let mut tags = fasttemplate::Tags::default();
            if !text(row, "startTag").is_empty() {
                tags = fasttemplate::Tags { start: text(row, "startTag"), end: text(row, "endTag") };
            }
            let value = |name: &str| row["input"]["values"].get(name).and_then(Value::as_str);
            Ok(json!({ "output": fasttemplate::render(text(row, "template"), tags, value).map_err(told)? }))
        },
        result,
    );
}

#[test]
fn eval_764_strvals_agrees() {
    family(
        "strvals.jsonl",
        |row| {
            let mut values = row["input"]["base"].as_object().unwrap().clone();
            let file = |path: &str| {
                let content = row["input"]["files"].get(path).and_then(Value::as_str);
                content.map(str::to_owned).ok_or_else(|| format!("no file {path:?}"))
            };
            for given in row["input"]["args"].as_array().unwrap() {
                let reading = Reading::of_flag(given["flag"].as_str().unwrap(), &file).unwrap();
                strvals::set(&mut values, reading, given["value"].as_str().unwrap()).map_err(told)?;
            }
            Ok(json!({ "values": values }))
        },
        result,
    );
}

#[test]
fn eval_756_regexp_agrees() {
    family(
        "regexp.jsonl",
        |row| {
            let regexp = regexp::Regexp::new(text(row, "pattern")).map_err(told)?;
            let input = text(row, "input");
            let replaced = regexp.replace_all(input, text(row, "replacement"));
            Ok(json!([regexp.groups(input), replaced]))
        },
        |row| json!([row["groups"], row["replaced"]]),
    );
}

#[test]
fn eval_761_time_agrees() {
    family(
        "time.jsonl",
        |row| {
            let how = time::Conversion {
                layout: text(row, "layout"),
                out_layout: text(row, "outLayout"),
                zone: text(row, "timeZone"),
            };
            let (shown, nanoseconds) = time::convert(text(row, "text"), how).map_err(told)?;
            Ok(json!({ "text": shown, "unixNanoseconds": nanoseconds }))
        },
        result,
    );
}

/// Executes one template as `go.template` does.
fn render(row: &Value, data: &Value) -> Result<Value, String> {
    let option = text(row, "option");
    let output = if text(row, "functions") == "helm" {
        render_chart(text(row, "template"), data, option == "missingkey=error")?
    } else {
        let functions = FunctionSet::text().and(FunctionSet::sprig());
        let functions = functions.and(FunctionSet::application_set().only(&["toYaml"]));
        let mut templates = Templates::new("t", functions);
        if !option.is_empty() {
            templates = templates.with_missing_key(MissingKey::of_option(option).map_err(told)?);
        }
        templates.parse("t", text(row, "template").as_bytes()).map_err(told)?;
        let environment = Still(jiff::Timestamp::UNIX_EPOCH);
        let data = template::Value::from_json(data);
        Engine::new(&templates, &environment, Limits::default()).execute("t", &data).map_err(told)?
    };
    Ok(json!({ "output": String::from_utf8_lossy(&output) }))
}

/// Executes one template inside of a chart, as the rows were made.
fn render_chart(template: &str, data: &Value, strict: bool) -> Result<Vec<u8>, String> {
    const MAIN: &str = "c/templates/_main.tpl";
    const OUT: &str = "c/templates/out.yaml";
    let missing_key = if strict { MissingKey::Error } else { MissingKey::Zero };
    let mut templates = Templates::new("gotpl", FunctionSet::helm()).with_missing_key(missing_key);
    let out = format!("{{{{ include {MAIN:?} .Values.data }}}}");
    for (name, text) in [(OUT, out.as_str()), (MAIN, template)] {
        templates.parse(name, text.as_bytes()).map_err(|error| helm::describe_parse(name, &error))?;
    }
    let root = template::Value::from_json(&json!({"Values": {"data": data}}));
    let environment = Still(jiff::Timestamp::UNIX_EPOCH);
    let mut engine = Engine::new(&templates, &environment, Limits::default());
    let output = engine.execute(OUT, &root).map_err(|error| helm::describe_execution(OUT, &error))?;
    Ok(helm::without_no_value(output))
}

#[test]
fn eval_750_gotemplate_agrees() {
    let data = std::fs::read_to_string(Path::new(FOLDER).join("gotemplate-data.json")).unwrap();
    let data: Value = serde_json::from_str(&data).unwrap();
    family("gotemplate.jsonl", |row| render(row, &data), |row| json!({ "output": row["output"] }));
}

#[test]
fn eval_750_template_text_agrees() {
    family("template-text.jsonl", |row| render(row, &row["input"]["data"]), result);
}

#[test]
fn eval_750_template_sprig_agrees() {
    family("template-sprig.jsonl", |row| render(row, &row["input"]["data"]), result);
}

#[test]
fn eval_750_template_helm_agrees() {
    family("template-helm.jsonl", |row| render(row, &row["input"]["data"]), result);
}
