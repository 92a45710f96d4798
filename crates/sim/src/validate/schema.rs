//! Custom resources against the schema of their definition, as `kube-openapi` 0.36 judges.
//!
//! An update is lenient: what was wrong before and has not changed is let pass.

mod formats;
mod scalars;
mod structure;

use serde_json::Value;
use tiphys_go::regexp::Regexp;

use crate::status::FieldError;
use crate::tree::{flag, items, text};

pub(super) use structure::{embedded, lists, scale};

/// Errors of an object; `old` is there on updates.
pub(super) fn validate(schema: &Value, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if schema.is_null() {
        return Vec::new();
    }
    node(schema, object, old, "").errors
}

/// Integers beyond this are not exact as floating point numbers.
const LARGEST_WHOLE: f64 = 9_007_199_254_740_991.0;

/// Errors of a changed status: its paths begin below `status` in the texts, but not in the fields.
pub(super) fn status(schema: &Value, status: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let Some(schema) = schema.get("properties").and_then(|all| all.get("status")) else { return Vec::new() };
    let mut errors = node(schema, status, old, "").errors;
    for error in &mut errors {
        error.field =
            if error.field == "<nil>" { "status".to_owned() } else { format!("status.{}", error.field) };
    }
    errors
}

/// What came of one schema.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    /// How many judgements were made; of several alternatives that fail, the one with most is told about.
    judged: usize,
}

impl Outcome {
    fn of(error: FieldError) -> Self {
        Self { errors: vec![error], judged: 0 }
    }

    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.judged += other.judged;
    }

    fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

/// The path as errors show it.
fn shown(path: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    if path.is_empty() { "<nil>".to_owned() } else { path.to_owned() }
}

/// An error about a type.
fn type_error(path: &str, wanted: &str, found: &str) -> FieldError {
    let message = format!("Invalid value: {found:?}: {path} in body must be of type {wanted}: {found:?}");
    FieldError { reason: "FieldValueTypeInvalid", field: shown(path), message }
}

/// An error about a value.
fn value_error(path: &str, value: &Value, problem: &str) -> FieldError {
    FieldError::invalid(shown(path), value, &format!("{path} in body {problem}"))
}

fn node(schema: &Value, value: &Value, old: Option<&Value>, path: &str) -> Outcome {
    if old == Some(value) {
        return Outcome::default();
    }
    let mut outcome = Outcome::default();
    let format = formats::of(schema);
    if value.is_null() {
        outcome.merge(types(schema, value, format, path));
        outcome.merge(listed(schema, value, path));
        return outcome;
    }
    let mut add = |judgement: Outcome| {
        outcome.merge(judgement);
        outcome.judged += 1;
    };
    if !wanted_types(schema).is_empty() || !format.is_empty() {
        add(types(schema, value, format, path));
    }
    add(alternatives(schema, value, old, path));
    match value {
        Value::String(found) => {
            add(scalars::text(schema, found, path));
            if !format.is_empty() {
                add(formats::judge(format, found, path));
            }
        }
        Value::Number(number) => add(scalars::number(schema, number, format, path)),
        Value::Array(found) => add(structure::list(schema, found, old, path)),
        _ => {}
    }
    add(listed(schema, value, path));
    if let Value::Object(members) = value {
        add(structure::object(schema, members, old, path));
    }
    outcome.judged += 1;
    outcome
}

fn wanted_types(schema: &Value) -> Vec<&str> {
    if flag(schema, &["x-kubernetes-int-or-string"]) {
        return vec!["integer", "string"];
    }
    match text(schema, &["type"]) {
        "" => Vec::new(),
        one => vec![one],
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
    }
}

fn types(schema: &Value, value: &Value, format: &str, path: &str) -> Outcome {
    let wanted = wanted_types(schema);
    let found = type_of(value);
    let fine = Outcome { judged: 1, ..Outcome::default() };
    if value.is_null() {
        if wanted.is_empty() || flag(schema, &["nullable"]) {
            return fine;
        }
        return Outcome::of(type_error(path, &wanted.join(","), found));
    }
    let is_numeric = wanted.iter().any(|one| matches!(*one, "number" | "integer"));
    if !is_numeric && !format.is_empty() && matches!(found, "string" | "array") {
        return fine;
    }
    let is_whole =
        value.as_f64().is_some_and(|number| number.fract() == 0.0 && number.abs() <= LARGEST_WHOLE);
    let fits = wanted.contains(&found)
        || (found == "number" && is_whole && wanted.contains(&"integer"))
        || (found == "integer" && wanted.contains(&"number"));
    if fits || (wanted.is_empty() && format.is_empty()) {
        return fine;
    }
    // What has a format is told by formats, except for texts and lists.
    let native = match found {
        _ if format.is_empty() => return Outcome::of(type_error(path, &wanted.join(","), found)),
        "string" | "array" => return Outcome::of(type_error(path, &wanted.join(","), found)),
        "integer" => "int64",
        "number" => "float64",
        _ => "",
    };
    Outcome::of(type_error(path, format, native))
}

/// `anyOf`, `oneOf`, `allOf`, `not`.
fn alternatives(schema: &Value, value: &Value, old: Option<&Value>, path: &str) -> Outcome {
    let whole = |problem: &str| {
        let message = format!("Invalid value: \"\": {path:?} must {problem}");
        FieldError { reason: "FieldValueInvalid", field: "<nil>".to_owned(), message }
    };
    let judge = |below: &Value| node(below, value, old, path);
    let mut outcome = Outcome::default();
    let any = items(schema, &["anyOf"]);
    if !any.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut success = None;
        for found in any.iter().map(judge) {
            if found.is_valid() {
                success = Some(found);
                break;
            }
            if best.as_ref().is_none_or(|best| found.judged > best.judged) {
                best = Some(found);
            }
        }
        if success.is_none() {
            outcome.errors.push(whole("validate at least one schema (anyOf)"));
        }
        outcome.merge(success.or(best).unwrap_or_default());
    }
    let one = items(schema, &["oneOf"]);
    if !one.is_empty() {
        let (mut best, mut success, mut count): (Option<Outcome>, Option<Outcome>, usize) = (None, None, 0);
        for found in one.iter().map(judge) {
            if found.is_valid() {
                count += 1;
                best = None;
                success.get_or_insert(found);
            } else if count == 0 && best.as_ref().is_none_or(|best| found.judged > best.judged) {
                best = Some(found);
            }
        }
        match count {
            1 => outcome.merge(success.unwrap_or_default()),
            0 => outcome.errors.push(whole("validate one and only one schema (oneOf). Found none valid")),
            _ => outcome.errors.push(whole(&format!(
                "validate one and only one schema (oneOf). Found {count} valid alternatives"
            ))),
        }
        if let Some(best) = best {
            outcome.merge(best);
        }
    }
    let all = items(schema, &["allOf"]);
    if !all.is_empty() {
        let found: Vec<Outcome> = all.iter().map(judge).collect();
        let valid = found.iter().filter(|one| one.is_valid()).count();
        let count = found.len();
        for one in found {
            outcome.merge(one);
        }
        if valid != count {
            let none = if valid == 0 { ". None validated" } else { "" };
            outcome.errors.push(whole(&format!("validate all the schemas (allOf){none}")));
        }
    }
    if schema.get("not").is_some_and(|not| !not.is_null() && judge(not).is_valid()) {
        outcome.errors.push(whole("not validate the schema (not)"));
    }
    outcome.judged += 1;
    outcome
}

/// `enum`.
fn listed(schema: &Value, value: &Value, path: &str) -> Outcome {
    let allowed = items(schema, &["enum"]);
    let is_nullable = value.is_null() && flag(schema, &["nullable"]);
    if allowed.is_empty() || allowed.contains(value) || (is_nullable && allowed.contains(&Value::Null)) {
        return Outcome { judged: usize::from(!allowed.is_empty()), ..Outcome::default() };
    }
    let shown_values: Vec<String> =
        allowed.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
    let texts: Vec<&str> = shown_values.iter().map(String::as_str).collect();
    Outcome::of(FieldError::not_supported(shown(path), value, &texts))
}

/// Whether a text has the look of a pattern. A pattern that is none was refused with the definition.
fn matches(pattern: &str, text: &str) -> bool {
    Regexp::new(pattern).is_ok_and(|regexp| regexp.is_match(text))
}
