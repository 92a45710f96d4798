//! Parameters: what generators give and templates take (ASET-20..23).
//!
//! A number that came from JSON or YAML is a 64-bit float here, whatever it looked like ([`as_floats`]); an integer
//! in a set of parameters is one that a generator made itself. Whoever prints one prints what Go prints.

use std::collections::BTreeMap;

use serde_json::{Map, Number, Value};
use tiphys_go::json;
use tiphys_go::memory::{Exceeded, Memory};
use tiphys_go::nesting::DEPTH_MAX;

/// One set of parameters.
pub type Params = Map<String, Value>;

/// Why values are not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParamsError {
    /// They are nested too deeply.
    #[error("parameters are nested more than {DEPTH_MAX} levels deep")]
    TooDeep,
    /// They take too much memory.
    #[error("parameters take more than {0} bytes of memory")]
    Memory(usize),
}

impl From<Exceeded> for ParamsError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Memory(exceeded.limit)
    }
}

/// The values as `encoding/json` would have read them: every number a float (ASET-21).
///
/// # Errors
/// When they are nested too deeply.
pub fn as_floats(value: Value) -> Result<Value, ParamsError> {
    floats(value, 0)
}

fn floats(value: Value, depth: usize) -> Result<Value, ParamsError> {
    if depth > DEPTH_MAX {
        return Err(ParamsError::TooDeep);
    }
    Ok(match value {
        Value::Number(number) if !number.is_f64() => {
            let float = number.as_f64().and_then(Number::from_f64);
            float.map_or(Value::Number(number), Value::Number)
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| floats(item, depth + 1)).collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let read = |(key, member): (String, Value)| Ok((key, floats(member, depth + 1)?));
            Value::Object(members.into_iter().map(read).collect::<Result<_, ParamsError>>()?)
        }
        other => other,
    })
}

/// The values as they are written to JSON: a float without a fraction is an integer there (ASET-21).
pub fn for_json(value: Value) -> Value {
    match value {
        Value::Number(number) if number.is_f64() => {
            let text = json::to_string_go(&Value::Number(number.clone()));
            let whole =
                text.parse::<i64>().map(Number::from).or_else(|_| text.parse::<u64>().map(Number::from));
            Value::Number(whole.unwrap_or(number))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(for_json).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(key, member)| (key, for_json(member))).collect())
        }
        other => other,
    }
}

/// A value as `%v` prints it (ASET-21).
pub fn printed(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => json::print_go(other),
    }
}

/// The leaves by their paths, joined with full stops, as text; empty lists and maps vanish (ASET-23).
///
/// # Errors
/// When paths and texts take more than the memory allows: a long key stands in the path of every leaf below it.
pub fn flatten(params: &Params, memory: &mut Memory) -> Result<BTreeMap<String, String>, ParamsError> {
    let mut leaves = BTreeMap::new();
    for (key, value) in params {
        leaf(key, value, 0, &mut leaves, memory)?;
    }
    Ok(leaves)
}

fn leaf(
    path: &str,
    value: &Value,
    depth: usize,
    leaves: &mut BTreeMap<String, String>,
    memory: &mut Memory,
) -> Result<(), ParamsError> {
    if depth > DEPTH_MAX {
        return Err(ParamsError::TooDeep);
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                memory.text(path.len() + key.len())?;
                leaf(&format!("{path}.{key}"), member, depth + 1, leaves, memory)?;
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                memory.text(path.len() + 8)?;
                leaf(&format!("{path}.{at}"), item, depth + 1, leaves, memory)?;
            }
        }
        scalar => {
            let text = printed(scalar);
            memory.member(leaves.len())?;
            memory.text(path.len())?;
            memory.text(text.len())?;
            leaves.insert(path.to_owned(), text);
        }
    }
    Ok(())
}

/// The same as a set of parameters of fast mode.
///
/// # Errors
/// As [`flatten`].
pub fn flat(params: &Params, memory: &mut Memory) -> Result<Params, ParamsError> {
    Ok(flatten(params, memory)?.into_iter().map(|(key, text)| (key, Value::String(text))).collect())
}

/// Takes what a set occupies from a budget.
pub(crate) fn charge(params: &Params, memory: &mut Memory) -> Result<(), ParamsError> {
    for (at, (key, value)) in params.iter().enumerate() {
        memory.member(at)?;
        memory.text(key.len())?;
        charge_value(value, 0, memory)?;
    }
    Ok(())
}

fn charge_value(value: &Value, depth: usize, memory: &mut Memory) -> Result<(), ParamsError> {
    if depth > DEPTH_MAX {
        return Err(ParamsError::TooDeep);
    }
    match value {
        Value::String(text) => memory.text(text.len())?,
        Value::Array(items) => {
            memory.spend(items.len().saturating_mul(size_of::<Value>()))?;
            items.iter().try_for_each(|item| charge_value(item, depth + 1, memory))?;
        }
        Value::Object(members) => {
            for (at, (key, member)) in members.iter().enumerate() {
                memory.member(at)?;
                memory.text(key.len())?;
                charge_value(member, depth + 1, memory)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

/// Puts one set over another: maps recurse, of everything else the winner's counts, also when it is empty
/// (ASET-75, ASET-81).
pub(crate) fn merge_over(base: &mut Params, winner: &Params) {
    for (key, value) in winner {
        match (base.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(above)) => merge_over(below, above),
            (Some(below), above) => *below = above.clone(),
            (None, above) => {
                base.insert(key.clone(), above.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(value: Value) -> Params {
        match as_floats(value).unwrap() {
            Value::Object(members) => members,
            other => panic!("{other}"),
        }
    }

    fn roomy() -> Memory {
        Memory::new(1 << 20)
    }

    #[test]
    fn aset_21_numbers_are_floats() {
        for (written, shown) in [
            ("42", "42"),
            ("100000", "100000"),
            ("1000000", "1e+06"),
            ("1234567", "1.234567e+06"),
            ("0.5", "0.5"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("9007199254740993", "9.007199254740992e+15"),
            ("true", "true"),
            ("null", "<nil>"),
            ("[1,2]", "[1 2]"),
            (r#"{"a":1}"#, "map[a:1]"),
        ] {
            let value = as_floats(serde_json::from_str(written).unwrap()).unwrap();
            assert_eq!(printed(&value), shown, "{written}");
        }
        assert_eq!(printed(&json!(12_345_678)), "12345678", "an integer of a generator's own stays one");
        let back = for_json(as_floats(json!({"a": [1_000_000, 0.5]})).unwrap());
        assert_eq!(back.to_string(), r#"{"a":[1000000,0.5]}"#);
    }

    #[test]
    fn aset_23_leaves_are_named_by_their_paths() {
        let nested = params(json!({"a": {"b": 1, "e": {}}, "l": [{"k": true}, "x"], "n": null, "o": []}));
        let flat: Vec<(String, String)> = flatten(&nested, &mut roomy()).unwrap().into_iter().collect();
        let flat: Vec<(&str, &str)> = flat.iter().map(|(key, text)| (key.as_str(), text.as_str())).collect();
        assert_eq!(flat, [("a.b", "1"), ("l.0.k", "true"), ("l.1", "x"), ("n", "<nil>")]);
    }

    /// A long key above many leaves would be copied for each of them.
    #[test]
    fn inv_10_paths_are_paid_for() {
        let items: Vec<Value> = (0..10_000).map(|at| json!(at)).collect();
        let mut hostile = Params::new();
        hostile.insert("k".repeat(100_000), json!(items));
        assert_eq!(flatten(&hostile, &mut roomy()), Err(ParamsError::Memory(1 << 20)));
        let mut deep = json!(1);
        for _ in 0..DEPTH_MAX + 2 {
            deep = json!([deep]);
        }
        assert_eq!(as_floats(deep.clone()), Err(ParamsError::TooDeep));
        let hostile = Params::from_iter([("a".to_owned(), deep)]);
        assert_eq!(flatten(&hostile, &mut roomy()), Err(ParamsError::TooDeep));
    }

    #[test]
    fn aset_75_the_winner_wins_even_when_empty() {
        let mut base = params(json!({"a": {"x": 1, "y": 2}, "b": "t", "c": [1, 2], "d": true}));
        merge_over(&mut base, &params(json!({"a": {"y": 0}, "b": "", "c": [3], "d": null, "e": 1})));
        let expected = json!({"a": {"x": 1.0, "y": 0.0}, "b": "", "c": [3.0], "d": null, "e": 1.0});
        assert_eq!(Value::Object(base), expected);
    }
}
