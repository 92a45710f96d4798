//! The part of `go.*` that evaluates expressions.

use crate::eval::fault::{Code, Fault};
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Member, Need, Shape, default, required};
use jiff::Timestamp;
use serde_json::{Value, json};
use tiphys_go::expr::{Budget, Environment, ExprError, Fault as ExprFault, Program, Run, Value as ExprValue};

/// The rows of this part.
pub(super) const ROWS: &[Operation] = &[Operation {
    name: "go.expr",
    summary: "The value of an expression of expr-lang.",
    stability: Stability::Stable,
    spec: &["EVAL-769", "DEP-20"],
    input: &[
        required("expression", Shape::Text),
        default("env", Shape::Map, "{}"),
        Member { name: "now", shape: Shape::Instant, need: Need::Clock },
    ],
    result: &[required("type", Shape::Text), required("value", Shape::Any)],
    example: (
        r#"{"expression":"app.status in ['A','B'] and len(l) > 1","env":{"app":{"status":"A"},"l":[1,2]}}"#,
        r#"{"type":"bool","value":true}"#,
    ),
    run: evaluate,
}];

fn evaluate(input: &mut Input) -> Result<Value, Fault> {
    let now: Timestamp = input.text("now").parse().map_err(Fault::invalid)?;
    let program = Program::new(input.text("expression")).map_err(refused)?;
    let env = ExprValue::from_json(input.get("env")).map_err(Fault::invalid)?;
    let environment = Environment::of(env).map_err(Fault::invalid)?;
    let value = program.run(&environment, &Run::at(now)).map_err(refused)?;
    let shown = value.to_json(&mut Budget::default()).map_err(Fault::invalid)?;
    Ok(json!({"type": value.type_word(), "value": shown}))
}

/// Limits are not the expression's fault.
fn refused(error: ExprError) -> Fault {
    match error.fault {
        ExprFault::Steps { .. } | ExprFault::Memory => Fault::new(Code::ResourceExhausted, error.to_string()),
        _ => Fault::invalid(error),
    }
}
