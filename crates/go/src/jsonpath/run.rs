//! Running templates.

use serde_json::Value;

use super::{
    Bounds, DEPTH_MAX, End, Filter, JsonPathError, OUTPUT_BYTES_MAX, Part, Step, VALUES_MAX, problem,
};
use crate::{json, number};

/// A value on its way through the steps.
#[derive(Clone, Debug)]
enum Found<'a> {
    /// No value at all: the body of a loop over nothing, or over null.
    Nothing,
    /// A value of the data.
    Data(&'a Value),
    Text(&'a str),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A byte of a text.
    Byte(u8),
}

/// What can be compared with each other.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Basic<'a> {
    Text(&'a str),
    Int(i64),
    Float(f64),
    Bool(bool),
    Byte(u8),
}

/// Why a chain of steps ended early.
struct Stop {
    error: JsonPathError,
    /// Whether values are left all the same: a filter that only asks for existence takes those for an answer.
    leaves: bool,
    /// Whether nothing goes on after it.
    is_final: bool,
}

impl Stop {
    fn new(text: impl Into<String>, leaves: bool) -> Self {
        Self { error: problem(text), leaves, is_final: false }
    }

    fn too_many() -> Self {
        Self { error: problem("the template comes to too many values"), leaves: false, is_final: true }
    }
}

/// The first value of the first part.
pub(super) fn first(parts: &[Part], data: &Value) -> Result<Option<Value>, JsonPathError> {
    let found = results(parts, data, true)?;
    Ok(found.first().and_then(|values| values.first()).map(|found| match found {
        Found::Nothing => Value::Null,
        Found::Data(value) => (*value).clone(),
        Found::Text(value) => Value::from(*value),
        Found::Int(value) => Value::from(*value),
        Found::Float(value) => Value::from(*value),
        Found::Bool(value) => Value::from(*value),
        Found::Byte(value) => Value::from(*value),
    }))
}

fn results<'a>(
    parts: &'a [Part],
    data: &'a Value,
    allow_missing: bool,
) -> Result<Vec<Vec<Found<'a>>>, JsonPathError> {
    let mut run = Run { parts, allow_missing, values: 0, begins: 0, loops: 0, ends: 0, last_end: None };
    let mut results = Vec::new();
    let data = if data.is_null() { Found::Nothing } else { Found::Data(data) };
    run.from(0, &data, &mut results).map_err(|stop| stop.error)?;
    Ok(results)
}

/// Runs a template and prints its results.
pub(super) fn print(parts: &[Part], data: &Value, allow_missing: bool) -> Result<String, JsonPathError> {
    let mut text = String::new();
    for values in &results(parts, data, allow_missing)? {
        for (place, value) in values.iter().enumerate() {
            if place > 0 {
                text.push(' ');
            }
            show(value, &mut text);
            if text.len() > OUTPUT_BYTES_MAX {
                return Err(problem("the template prints too much"));
            }
        }
    }
    Ok(text)
}

fn show(found: &Found<'_>, text: &mut String) {
    match found {
        Found::Nothing => text.push_str("<no value>"),
        Found::Data(Value::Null) => text.push_str("null"),
        Found::Data(Value::String(value)) => text.push_str(value),
        Found::Data(Value::Bool(value)) => text.push_str(if *value { "true" } else { "false" }),
        Found::Data(Value::Number(value)) => {
            text.push_str(&number::general(value.as_f64().unwrap_or(f64::INFINITY)));
        }
        Found::Data(value @ (Value::Array(_) | Value::Object(_))) => {
            text.push_str(&json::to_string_go(&floats(value)));
        }
        Found::Text(value) => text.push_str(value),
        Found::Int(value) => text.push_str(&value.to_string()),
        Found::Float(value) => text.push_str(&number::general(*value)),
        Found::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Found::Byte(value) => text.push_str(&value.to_string()),
    }
}

/// The value with every number as the float it is in Go.
fn floats(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64().and_then(serde_json::Number::from_f64) {
            Some(float) => Value::Number(float),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(floats).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), floats(value))).collect(),
        Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
    }
}

struct Run<'a> {
    parts: &'a [Part],
    allow_missing: bool,
    /// Values made so far.
    values: usize,
    /// `range` words that were met and not yet acted on.
    begins: usize,
    /// Loops around the current part.
    loops: usize,
    /// `end` words that were met and not yet acted on.
    ends: usize,
    /// The part whose `end` ended the last loop.
    last_end: Option<usize>,
}

impl<'a> Run<'a> {
    /// Runs the parts from one on, up to the `end` of the loop they are in.
    fn from(
        &mut self,
        first: usize,
        data: &Found<'a>,
        results: &mut Vec<Vec<Found<'a>>>,
    ) -> Result<(), Stop> {
        let parts = self.parts;
        let mut at = first;
        while let Some(part) = parts.get(at) {
            self.count(1)?;
            let found = match part {
                Part::Text(text) => vec![Found::Text(text)],
                Part::Action(steps) => self.chain(vec![data.clone()], steps)?,
            };
            if self.ends > 0 && self.ends <= self.loops {
                self.ends -= 1;
                self.last_end = Some(at);
                return Ok(());
            }
            if self.begins == 0 {
                results.push(found);
                at += 1;
                continue;
            }
            self.begins -= 1;
            if self.loops >= DEPTH_MAX {
                let error = problem("the loops of the template are nested too deeply");
                return Err(Stop { error, leaves: false, is_final: true });
            }
            self.loops += 1;
            if found.is_empty() {
                // The body runs once for nothing, so that its end is met; what it finds does not count.
                self.from(at + 1, &Found::Nothing, &mut Vec::new())?;
            }
            for value in found {
                let value = if matches!(value, Found::Data(Value::Null)) { Found::Nothing } else { value };
                self.from(at + 1, &value, results)?;
            }
            self.loops -= 1;
            at = self.last_end.filter(|end| *end > at).unwrap_or(at) + 1;
        }
        Ok(())
    }

    fn chain(&mut self, mut values: Vec<Found<'a>>, steps: &'a [Step]) -> Result<Vec<Found<'a>>, Stop> {
        for step in steps {
            values = self.step(values, step)?;
            self.count(values.len())?;
        }
        Ok(values)
    }

    fn count(&mut self, values: usize) -> Result<(), Stop> {
        self.values = self.values.saturating_add(values);
        if self.values > VALUES_MAX { Err(Stop::too_many()) } else { Ok(()) }
    }

    fn step(&mut self, values: Vec<Found<'a>>, step: &'a Step) -> Result<Vec<Found<'a>>, Stop> {
        Ok(match step {
            Step::Text(text) => vec![Found::Text(text)],
            Step::Int(number) => vec![Found::Int(*number); values.len()],
            Step::Float(number) => vec![Found::Float(*number); values.len()],
            Step::Bool(value) => vec![Found::Bool(*value); values.len()],
            Step::Field(name) => {
                let found: Vec<_> = values.iter().filter_map(|value| member(value, name)).collect();
                if found.is_empty() && !values.is_empty() && !self.allow_missing {
                    return Err(Stop::new(format!("{name} is not found"), false));
                }
                found
            }
            Step::Wildcard => values.iter().flat_map(children).collect(),
            Step::Recursive => {
                let mut found = Vec::new();
                self.descend(&values, &mut found)?;
                found
            }
            Step::Items(bounds) => items(&values, *bounds)?,
            Step::Filter(filter) => self.filter(&values, filter)?,
            Step::Union(chains) => {
                let mut found = Vec::new();
                for chain in chains {
                    let part = self.chain(values.clone(), chain);
                    found.extend(part.map_err(|stop| Stop { leaves: !values.is_empty(), ..stop })?);
                }
                found
            }
            Step::Word(word) => match word.as_str() {
                "range" => {
                    self.begins += 1;
                    values
                }
                "end" if self.loops > 0 => {
                    self.ends += 1;
                    Vec::new()
                }
                "end" => return Err(Stop::new("not in range, nothing to end", false)),
                word => {
                    return Err(Stop::new(format!("unrecognized identifier {word}"), !values.is_empty()));
                }
            },
        })
    }

    fn descend(&mut self, values: &[Found<'a>], found: &mut Vec<Found<'a>>) -> Result<(), Stop> {
        for value in values {
            let below = children(value);
            self.count(below.len())?;
            if !below.is_empty() {
                found.push(value.clone());
                self.descend(&below, found)?;
            }
        }
        Ok(())
    }

    fn filter(&mut self, values: &[Found<'a>], filter: &'a Filter) -> Result<Vec<Found<'a>>, Stop> {
        let mut kept = Vec::new();
        for value in values {
            let Found::Data(Value::Array(items)) = value else {
                return Err(Stop::new("only arrays can be filtered", true));
            };
            for item in items {
                self.count(1)?;
                let item = Found::Data(item);
                let left = self.chain(vec![item.clone()], &filter.left);
                let Some((operator, right)) = &filter.comparison else {
                    match left {
                        Err(stop) if stop.is_final => return Err(stop),
                        Err(Stop { leaves: false, .. }) => {}
                        Ok(found) if found.is_empty() => {}
                        Ok(_) | Err(_) => kept.push(item),
                    }
                    continue;
                };
                let leaving = |stop| Stop { leaves: true, ..stop };
                let Some(left) = single(left.map_err(leaving)?)? else { continue };
                let right = self.chain(vec![item.clone()], right).map_err(leaving)?;
                let Some(right) = single(right)? else { continue };
                let is_kept = compare(&left, operator, &right);
                let leaves = !kept.is_empty();
                if is_kept.map_err(|error| Stop { error, leaves, is_final: false })? {
                    kept.push(item);
                }
            }
        }
        Ok(kept)
    }
}

fn single(values: Vec<Found<'_>>) -> Result<Option<Found<'_>>, Stop> {
    if values.len() > 1 {
        return Err(Stop::new("can only compare one element at a time", true));
    }
    Ok(values.into_iter().next())
}

fn member<'a>(value: &Found<'a>, name: &str) -> Option<Found<'a>> {
    match value {
        Found::Data(Value::Object(map)) => map.get(name).map(Found::Data),
        _ => None,
    }
}

fn children<'a>(value: &Found<'a>) -> Vec<Found<'a>> {
    match value {
        Found::Data(Value::Object(map)) => map.values().map(Found::Data).collect(),
        Found::Data(Value::Array(items)) => items.iter().map(Found::Data).collect(),
        Found::Data(Value::String(text)) => text.bytes().map(Found::Byte).collect(),
        Found::Text(text) => text.bytes().map(Found::Byte).collect(),
        _ => Vec::new(),
    }
}

fn items<'a>(values: &[Found<'a>], bounds: Bounds) -> Result<Vec<Found<'a>>, Stop> {
    let mut found = Vec::new();
    for value in values {
        let list = match value {
            Found::Data(Value::Null) => continue,
            Found::Data(Value::Array(items)) => items,
            _ => return Err(Stop::new("the value is not array or slice", true)),
        };
        let length = i64::try_from(list.len()).unwrap_or(i64::MAX);
        let from_end = |at: i64| if at < 0 { at.saturating_add(length) } else { at };
        let start = from_end(bounds.start.unwrap_or(0));
        let end = match bounds.end {
            End::Last => length,
            End::At(end) => from_end(end),
            // An index of -1 ends at 0, which means the end.
            End::AfterStart(0) => length,
            End::AfterStart(end) => from_end(end),
        };
        if start == end {
            // Nothing was asked for; this ends the step, whatever values are left.
            return Ok(found);
        }
        let outside = |index: i64| {
            Err(Stop::new(format!("array index out of bounds: index {index}, length {length}"), true))
        };
        if start >= length || start < 0 {
            return outside(start);
        }
        if end > length || end < 0 {
            return outside(end.saturating_sub(1));
        }
        if start > end {
            let text = format!("starting index {start} is greater than ending index {end}");
            return Err(Stop::new(text, true));
        }
        let step = match bounds.step {
            None => 1,
            Some(step) => usize::try_from(step).unwrap_or(0),
        };
        if step == 0 {
            return Err(Stop::new("step must be > 0", true));
        }
        let index = |at: i64| usize::try_from(at).unwrap_or(usize::MAX);
        let range = list.get(index(start)..index(end)).unwrap_or(&[]);
        found.extend(range.iter().step_by(step).map(Found::Data));
    }
    Ok(found)
}

fn basic<'a>(value: &Found<'a>) -> Result<Basic<'a>, JsonPathError> {
    Ok(match value {
        Found::Data(Value::String(text)) => Basic::Text(text),
        Found::Data(Value::Bool(value)) => Basic::Bool(*value),
        Found::Data(Value::Number(number)) => Basic::Float(number.as_f64().unwrap_or(f64::INFINITY)),
        Found::Text(text) => Basic::Text(text),
        Found::Int(number) => Basic::Int(*number),
        Found::Float(number) => Basic::Float(*number),
        Found::Bool(value) => Basic::Bool(*value),
        Found::Byte(byte) => Basic::Byte(*byte),
        Found::Nothing | Found::Data(_) => return Err(problem("invalid type for comparison")),
    })
}

fn compare(left: &Found<'_>, operator: &str, right: &Found<'_>) -> Result<bool, JsonPathError> {
    if !matches!(operator, "<" | ">" | "==" | "!=" | "<=" | ">=") {
        return Err(problem(format!("unrecognized filter operator {operator}")));
    }
    let (left, right) = (basic(left)?, basic(right)?);
    // Bytes are unsigned integers; those compare with signed ones, nothing else with another kind.
    let (left, right) = match (left, right) {
        (Basic::Byte(a), Basic::Int(_)) => (Basic::Int(i64::from(a)), right),
        (Basic::Int(_), Basic::Byte(b)) => (left, Basic::Int(i64::from(b))),
        _ => (left, right),
    };
    if std::mem::discriminant(&left) != std::mem::discriminant(&right) {
        return Err(problem("incompatible types for comparison"));
    }
    if matches!(left, Basic::Bool(_)) && !matches!(operator, "==" | "!=") {
        return Err(problem("invalid type for comparison"));
    }
    Ok(match operator {
        "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}
