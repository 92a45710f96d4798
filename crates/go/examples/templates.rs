//! Answers requests for templates (`go.template`) as `tiphys eval` does: one JSON request per line in, one answer per
//! line out, in order and at once. For `hack/oracle/fuzz template`, which has a million of them.

use serde_json::{Value as Json, json};
use std::io::{BufRead, Write};
use tiphys_go::template::{
    Engine, FunctionSet, Limits, MissingKey, Still, TemplateError, Templates, Value, helm,
};

/// The chart's partial with the template, and the file that writes what it writes.
const MAIN: &str = "c/templates/_main.tpl";
const OUT: &str = "c/templates/out.yaml";

fn answer(request: &Json) -> Result<Vec<u8>, String> {
    let input = request.get("input").ok_or("no input")?;
    let text = |name: &str| input.get(name).and_then(Json::as_str).unwrap_or_default();
    let data = input.get("data").cloned().unwrap_or_else(|| json!({}));
    let world = Still(jiff::Timestamp::now());
    let limits = Limits::default();
    if text("functions") == "helm" {
        let missing_key = if text("option").is_empty() { MissingKey::Zero } else { MissingKey::Error };
        let mut templates = Templates::new("gotpl", FunctionSet::helm()).with_missing_key(missing_key);
        let out = format!("{{{{ include {MAIN:?} .Values.data }}}}");
        for (name, text) in [(OUT, out.as_str()), (MAIN, text("template"))] {
            let parse = |error: TemplateError| helm::describe_parse(name, &error);
            templates.parse(name, text.as_bytes()).map_err(parse)?;
        }
        let root = Value::from_json(&json!({"Values": {"data": data}}));
        let output = Engine::new(&templates, &world, limits).execute(OUT, &root);
        return Ok(helm::without_no_value(output.map_err(|error| helm::describe_execution(OUT, &error))?));
    }
    let functions =
        FunctionSet::text().and(FunctionSet::sprig()).and(FunctionSet::application_set().only(&["toYaml"]));
    let missing_key = match text("option") {
        "" => MissingKey::default(),
        option => MissingKey::of_option(option).map_err(|error| error.to_string())?,
    };
    let mut templates = Templates::new("t", functions).with_missing_key(missing_key);
    templates.parse("t", text("template").as_bytes()).map_err(|error| error.to_string())?;
    let output = Engine::new(&templates, &world, limits).execute("t", &Value::from_json(&data));
    output.map_err(|error| error.to_string())
}

/// As Go writes bytes in JSON: each that is no UTF-8 is U+FFFD.
fn as_json_text(output: &[u8]) -> String {
    let mut text = String::with_capacity(output.len());
    for chunk in output.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Json = serde_json::from_str(&line?)?;
        let id = request.get("id").cloned().unwrap_or_default();
        let answer = match answer(&request) {
            Ok(output) => json!({"id": id, "result": {"output": as_json_text(&output)}}),
            Err(message) => json!({"id": id, "error": {"code": "InvalidArgument", "message": message}}),
        };
        writeln!(out, "{answer}")?;
    }
    out.flush()
}
