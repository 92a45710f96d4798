//! The columns of custom resources.

use serde_json::{Value, json};
use tiphys_go::json::to_string_go;
use tiphys_go::jsonpath::JsonPath;

use super::row::Row;
use super::{age, column};

/// A column that a definition declares.
pub(super) struct Column {
    name: String,
    r#type: String,
    format: String,
    description: String,
    priority: i64,
    path: Option<JsonPath>,
}

/// The columns behind the name: those of the definition, else the age.
pub(super) fn read(columns: &Value) -> Vec<Column> {
    match columns.as_array().filter(|columns| !columns.is_empty()) {
        Some(columns) => columns.iter().map(Column::read).collect(),
        None => vec![Column::read(&json!({"name": "Age", "type": "date",
            "jsonPath": ".metadata.creationTimestamp"}))],
    }
}

impl Column {
    fn read(written: &Value) -> Self {
        let text = |member| written.get(member).and_then(Value::as_str).unwrap_or("").to_owned();
        let path = text("jsonPath");
        Self {
            name: text("name"),
            r#type: text("type"),
            format: text("format"),
            description: text("description"),
            priority: written.get("priority").and_then(Value::as_i64).unwrap_or(0),
            path: JsonPath::new(&format!("{{{path}}}")).ok(),
        }
    }

    /// The definition of the column.
    pub(super) fn definition(&self) -> Value {
        column::definition(&self.name, &self.r#type, &self.format, &self.description, self.priority)
    }

    /// The cell of an object; null when there is nothing, or nothing of the type.
    pub(super) fn cell(&self, row: &Row<'_>) -> Value {
        let found = self.path.as_ref().and_then(|path| path.first(row.object).ok().flatten());
        let Some(found) = found else { return Value::Null };
        match self.r#type.as_str() {
            "string" => printed(&found).into(),
            "integer" => match found.as_i64().or_else(|| found.as_f64().map(truncated)) {
                Some(number) => number.into(),
                None => Value::Null,
            },
            "number" => found.as_f64().map_or(Value::Null, plain_number),
            "boolean" => found.as_bool().map_or(Value::Null, Value::from),
            "date" => match found.as_str().map(str::parse) {
                Some(Ok(time)) => age::between(Some(time), row.now).into(),
                Some(Err(_)) => "<invalid>".into(),
                None => Value::Null,
            },
            _ => Value::Null,
        }
    }
}

fn printed(found: &Value) -> String {
    match found {
        Value::String(text) => text.clone(),
        Value::Null => "<no value>".to_owned(),
        Value::Bool(_) | Value::Number(_) => found.to_string(),
        Value::Array(_) | Value::Object(_) => to_string_go(found),
    }
}

/// A number as Go writes a float: without a fraction when it has none.
fn plain_number(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() < EXACT { truncated(number).into() } else { number.into() }
}

#[expect(clippy::cast_possible_truncation, reason = "that is what a conversion of Go does")]
fn truncated(number: f64) -> i64 {
    number as i64
}
