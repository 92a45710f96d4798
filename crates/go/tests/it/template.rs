//! Go's templates beyond the golden rows: bounds, the stack, what callers bring along, how errors are told.

#![expect(clippy::panic, clippy::unwrap_used, reason = "helpers of tests count as no tests")]

mod bounds;
mod callers;
mod errors;
mod hostile;

use serde_json::Value as Json;
use tiphys_go::template::{Engine, FunctionSet, Limits, MissingKey, Still, TemplateError, Templates, Value};

/// A world that stands still.
static WORLD: Still = Still(jiff::Timestamp::UNIX_EPOCH);

/// Templates of a chart, by their names.
fn chart(files: &[(&str, &str)]) -> Templates {
    let mut templates = Templates::new("gotpl", FunctionSet::helm()).with_missing_key(MissingKey::Zero);
    for (name, text) in files {
        templates.parse(name, text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    templates
}

fn execute(templates: &Templates, name: &str, dot: &Value, limits: Limits) -> Result<String, TemplateError> {
    let output = Engine::new(templates, &WORLD, limits).execute(name, dot)?;
    Ok(String::from_utf8(output).unwrap())
}

/// One template with Helm's functions.
fn render_within(text: &str, data: &Json, limits: Limits) -> Result<String, TemplateError> {
    execute(&chart(&[("t", text)]), "t", &Value::from_json(data), limits)
}

fn render(text: &str) -> Result<String, TemplateError> {
    render_within(text, &Json::Null, Limits::default())
}

/// What a template fails with, but for where.
fn message(text: &str) -> String {
    render(text).unwrap_err().message().to_owned()
}
