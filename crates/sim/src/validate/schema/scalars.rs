//! Bounds of texts and numbers.

use serde_json::{Number, Value, json};

use super::{Outcome, matches, shown, value_error};
use crate::status::FieldError;
use crate::tree::{flag, integer, text as text_at};
use crate::validate::too_long;

/// Length and look of a text; the first problem is the only one.
pub(super) fn text(schema: &Value, found: &str, path: &str) -> Outcome {
    let length = i64::try_from(found.chars().count()).unwrap_or(i64::MAX);
    if let Some(most) = integer(schema, &["maxLength"]).filter(|most| length > *most) {
        return Outcome::of(too_long(shown(path), usize::try_from(most).unwrap_or(0)));
    }
    if let Some(least) = integer(schema, &["minLength"]).filter(|least| length < *least) {
        let problem = format!("should be at least {least} chars long");
        return Outcome::of(value_error(path, &json!(found), &problem));
    }
    let pattern = text_at(schema, &["pattern"]);
    if !pattern.is_empty() && !matches(pattern, found) {
        return Outcome::of(value_error(path, &json!(found), &format!("should match '{pattern}'")));
    }
    Outcome::default()
}

/// Range, bounds and step of a number.
pub(super) fn number(schema: &Value, number: &Number, format: &str, path: &str) -> Outcome {
    let mut outcome = Outcome::default();
    let value = Value::Number(number.clone());
    let found = number.as_f64().unwrap_or(0.0);
    if let Some(problem) = range(schema, number, format, path) {
        outcome.errors.push(problem);
    }
    // Integers are held against integers: the fraction of a bound is cut off.
    let bound = |name: &str| {
        let bound = schema.get(name)?.as_f64()?;
        Some(if number.is_f64() { bound } else { bound.trunc() })
    };
    if let Some(step) = bound("multipleOf") {
        let ratio = found / step;
        if step <= 0.0 {
            let problem = format!("factor MultipleOf declared for {path} must be positive: {}", plain(step));
            let message = format!("Invalid value: {}: {problem}", plain(step));
            outcome.errors.push(FieldError { reason: "FieldValueInvalid", field: shown(path), message });
        } else if (ratio - ratio.round()).abs() > f64::EPSILON {
            outcome.errors.push(value_error(path, &value, &format!("should be a multiple of {}", plain(step))));
        }
    }
    for (name, exclusive, word) in
        [("minimum", "exclusiveMinimum", "greater than"), ("maximum", "exclusiveMaximum", "less than")]
    {
        let Some(limit) = bound(name) else { continue };
        let is_open = flag(schema, &[exclusive]);
        let order = found.total_cmp(&limit);
        let order = if name == "minimum" { order } else { order.reverse() };
        if order.is_lt() || (is_open && order.is_eq()) {
            let equal = if is_open { "" } else { " or equal to" };
            outcome.errors.push(value_error(path, &value, &format!("should be {word}{equal} {}", plain(limit))));
        }
    }
    outcome.judged += 1;
    outcome
}

/// A bound as it is printed: whole numbers without a fraction.
fn plain(bound: f64) -> String {
    if bound.fract() == 0.0 && bound.abs() < 1e15 { format!("{bound:.0}") } else { bound.to_string() }
}

/// Whether an integer fits its format.
fn range(schema: &Value, number: &Number, format: &str, path: &str) -> Option<FieldError> {
    if text_at(schema, &["type"]) != "integer" {
        return None;
    }
    let whole = number.as_i64();
    let fits = match format {
        "int32" => whole.is_some_and(|found| i32::try_from(found).is_ok()),
        _ => whole.is_some() || number.as_f64().is_some_and(|float| number.is_f64() && float.fract() == 0.0 && float.abs() < 9.2e18),
    };
    if fits {
        return None;
    }
    let of = match format {
        "int32" | "int64" => format!("with format {format}"),
        _ => "(default format)".to_owned(),
    };
    let message = format!("Invalid value: \"\": Checked value must be of type integer {of} in {path}");
    Some(FieldError { reason: "FieldValueInvalid", field: "<nil>".to_owned(), message })
}
