//! The part of `go.*` that executes templates.

use crate::eval::fault::Fault;
use crate::eval::operation::{Input, Operation, Stability};
use crate::eval::shape::{Shape, default, required};
use jiff::Timestamp;
use serde_json::{Value as Json, json};
use tiphys_go::template::{
    Engine, Environment, FunctionSet, Limits, MissingKey, TemplateError, Templates, Value, helm,
};

/// The rows of this part.
pub(super) const ROWS: &[Operation] = &[Operation {
    name: "go.template",
    summary: "What a Go template writes, with the functions of sprig or of Helm.",
    stability: Stability::Stable,
    spec: &["EVAL-750", "DEP-20"],
    input: &[
        required("template", Shape::Text),
        default("data", Shape::Any, "{}"),
        default("option", Shape::Text, "\"\""),
        default("functions", Shape::Text, "\"sprig\""),
    ],
    result: &[required("output", Shape::Text)],
    example: (r#"{"template":"{{ .a | upper }}","data":{"a":"x"}}"#, r#"{"output":"X"}"#),
    run: execute,
}];

/// A world without variables, hosts and clusters. Keys and certificates are not made.
struct Isolated;

impl Environment for Isolated {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn random(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(16) {
            for (to, from) in chunk.iter_mut().zip(uuid::Uuid::new_v4().into_bytes()) {
                *to = from;
            }
        }
    }
}

fn execute(input: &mut Input) -> Result<Json, Fault> {
    let output = match input.text("functions") {
        "sprig" => with_sprig(input)?,
        "helm" => with_helm(input)?,
        other => return Err(Fault::invalid(format!("unknown functions {other:?}"))),
    };
    // What is no UTF-8 in the output is not in JSON either.
    Ok(json!({"output": String::from_utf8_lossy(&output)}))
}

fn with_sprig(input: &Input) -> Result<Vec<u8>, Fault> {
    let functions =
        FunctionSet::text().and(FunctionSet::sprig()).and(FunctionSet::application_set().only(&["toYaml"]));
    let missing_key = match input.text("option") {
        "" => MissingKey::default(),
        option => MissingKey::of_option(option).map_err(Fault::invalid)?,
    };
    let mut templates = Templates::new("t", functions).with_missing_key(missing_key);
    templates.parse("t", input.text("template").as_bytes()).map_err(Fault::invalid)?;
    let data = Value::from_json(input.get("data"));
    Engine::new(&templates, &Isolated, Limits::default()).execute("t", &data).map_err(Fault::invalid)
}

/// The template stands in a chart's partial, and a template of the chart writes what it writes.
fn with_helm(input: &Input) -> Result<Vec<u8>, Fault> {
    const MAIN: &str = "c/templates/_main.tpl";
    const OUT: &str = "c/templates/out.yaml";
    let missing_key = match input.text("option") {
        "" => MissingKey::Zero,
        "missingkey=error" => MissingKey::Error,
        other => return Err(Fault::invalid(format!("option {other:?} is not one of a chart"))),
    };
    let mut templates = Templates::new("gotpl", FunctionSet::helm()).with_missing_key(missing_key);
    let out = format!("{{{{ include {MAIN:?} .Values.data }}}}");
    for (name, text) in [(OUT, out.as_str()), (MAIN, input.text("template"))] {
        let parse = |error: TemplateError| Fault::invalid(helm::describe_parse(name, &error));
        templates.parse(name, text.as_bytes()).map_err(parse)?;
    }
    let root = Value::from_json(&json!({"Values": {"data": input.get("data")}}));
    let mut engine = Engine::new(&templates, &Isolated, Limits::default());
    let output = engine.execute(OUT, &root);
    let output = output.map_err(|error| Fault::invalid(helm::describe_execution(OUT, &error)))?;
    Ok(helm::without_no_value(output))
}
