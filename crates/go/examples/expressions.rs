//! Answers requests for expressions as `tiphys eval` does, checked ones (`go.expr`) and unchecked ones
//! (`go.expr_unchecked`): one JSON request per line in, one answer per line out. For `hack/oracle/fuzz-expr`.

use serde_json::{Value, json};
use std::io::{BufRead, Write};
use tiphys_go::expr::{Budget, Environment, Program, Run, Value as ExprValue};

fn answer(request: &Value) -> Result<Value, String> {
    let input = request.get("input").ok_or("no input")?;
    let expression = input.get("expression").and_then(Value::as_str).ok_or("no expression")?;
    let unchecked = request.get("op").and_then(Value::as_str) == Some("go.expr_unchecked");
    let program = if unchecked { Program::unchecked(expression) } else { Program::new(expression) };
    let program = program.map_err(|error| error.to_string())?;
    let empty = json!({});
    let env = ExprValue::from_json(input.get("env").unwrap_or(&empty)).map_err(|error| error.to_string())?;
    let environment = Environment::of(env).map_err(|error| error.to_string())?;
    let run = Run::at(jiff::Timestamp::now());
    let value = program.run(&environment, &run).map_err(|error| error.to_string())?;
    let shown = value.to_json(&mut Budget::default()).map_err(|error| error.to_string())?;
    Ok(json!({"type": value.type_word(), "value": shown}))
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let id = request.get("id").cloned().unwrap_or_default();
        match answer(&request) {
            Ok(result) => writeln!(out, "{}", json!({"id": id, "result": result}))?,
            Err(message) => {
                let error = json!({"code": "InvalidArgument", "message": message});
                writeln!(out, "{{\"id\":{id},\"error\":{error}}}")?;
            }
        }
    }
    out.flush()
}
