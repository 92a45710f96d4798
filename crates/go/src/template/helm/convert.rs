//! YAML, JSON and TOML.
//!
//! Reading never fails in a chart: the message is a part of the result, under `Error` or as the only item.

use super::toml_write::TomlFailure;
use super::{toml_read, toml_write};
use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type};
use crate::template::json::{self, Style, json_kind};
use crate::template::sprig::defaults;
use crate::template::value::{List, ListType, Map, MapType, Value};
use crate::template::yaml::{self, YamlFailure};

const ANY: &[Type] = &[Type::Any];
const TEXT: &[Type] = &[Type::Text];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("fromJson", TEXT, |call| {
        let read = read_json(call, MAP)?;
        Ok(map_or_error(read))
    }),
    Function::new("fromJsonArray", TEXT, |call| {
        let read = read_json(call, LIST)?;
        Ok(list_or_error(read))
    }),
    Function::new("fromToml", TEXT, |call| {
        call.makes_items(call.bytes(0).len() / 2)?;
        let text = call.text(0).clone();
        let read = toml_read::read(&text, call)?;
        Ok(map_or_error(read))
    }),
    Function::new("fromYaml", TEXT, |call| {
        let read = read_yaml(call, MAP)?;
        Ok(map_or_error(read))
    }),
    Function::new("fromYamlArray", TEXT, |call| {
        let read = read_yaml(call, LIST)?;
        Ok(list_or_error(read))
    }),
    Function::new("mustToJson", ANY, |call| defaults::must_write(call, Style::Compact)),
    Function::new("mustToToml", ANY, |call| match toml_write::write(call.value(0), call.limit()) {
        Ok(text) => call.answer_text(text),
        Err(TomlFailure::Limit(exceeded)) => Err(exceeded.into()),
        Err(TomlFailure::Value(problem) | TomlFailure::Panic(problem)) => Err(problem.into()),
    }),
    MUST_TO_YAML,
    Function::new("toJson", ANY, |call| defaults::write(call, Style::Compact)),
    Function::new("toToml", ANY, |call| match toml_write::write(call.value(0), call.limit()) {
        Ok(text) => call.answer_text(text),
        Err(TomlFailure::Limit(exceeded)) => Err(exceeded.into()),
        Err(TomlFailure::Value(problem)) => {
            call.spend_walk(0)?;
            call.answer_text(problem)
        }
        Err(TomlFailure::Panic(problem)) => Err(problem.into()),
    }),
    Function::new("toYaml", ANY, |call| match yaml::write(call.value(0), call.limit()) {
        Ok(text) => without_line_end(call, text),
        Err(YamlFailure::Limit(exceeded)) => Err(exceeded.into()),
        Err(YamlFailure::Value(_)) => {
            call.spend_walk(0)?;
            Ok(Value::text(""))
        }
    }),
    Function::new("toYamlPretty", ANY, |call| match yaml::write_pretty(call.value(0), call.limit()) {
        Ok(text) => without_line_end(call, text),
        Err(YamlFailure::Limit(exceeded)) => Err(exceeded.into()),
        Err(YamlFailure::Value(_)) => {
            call.spend_walk(0)?;
            Ok(Value::text(""))
        }
    }),
];

/// Those of application sets (ASET-108).
pub(super) static STRICT: &[Function] = &[
    Function::new("fromYaml", TEXT, |call| Ok(read_yaml(call, MAP)??)),
    Function::new("fromYamlArray", TEXT, |call| Ok(read_yaml(call, LIST)??)),
    MUST_TO_YAML.renamed("toYaml"),
];

const MUST_TO_YAML: Function =
    Function::new("mustToYaml", ANY, |call| match yaml::write(call.value(0), call.limit()) {
        Ok(text) => without_line_end(call, text),
        Err(YamlFailure::Limit(exceeded)) => Err(exceeded.into()),
        Err(YamlFailure::Value(problem)) => Err(problem.into()),
    });

const MAP: &str = MapType::ANY.name;
const LIST: &str = ListType::ANY.name;

fn without_line_end(call: &mut Call<'_, '_>, mut text: String) -> Result<Value, Failure> {
    if text.ends_with('\n') {
        text.pop();
    }
    call.answer_text(text)
}

fn map_or_error(read: Result<Value, String>) -> Value {
    read.unwrap_or_else(|problem| Value::Map([("Error", Value::text(problem))].into_iter().collect::<Map>()))
}

fn list_or_error(read: Result<Value, String>) -> Value {
    read.unwrap_or_else(|problem| Value::list(vec![Value::text(problem)]))
}

/// What is read, if it is of the type that is wanted. Null is the nil of the type.
fn of_type(value: Value, wanted: &str) -> Result<Value, String> {
    match value {
        Value::Nil if wanted == MAP => Ok(Value::Map(Map::nil(&MapType::ANY))),
        Value::Nil => Ok(Value::List(List::nil(&ListType::ANY))),
        value if value.type_name() == wanted => Ok(value),
        value => Err(format!("json: cannot unmarshal {} into Go value of type {wanted}", json_kind(&value))),
    }
}

fn read_json(call: &mut Call<'_, '_>, wanted: &str) -> Result<Result<Value, String>, Failure> {
    Ok(json::read(call, 0)?.and_then(|value| of_type(value, wanted)))
}

fn read_yaml(call: &mut Call<'_, '_>, wanted: &str) -> Result<Result<Value, String>, Failure> {
    let read = yaml::read(call, 0)?.map_err(|problem| {
        // Go counts from 0 there, and does not tell that line.
        format!("error converting YAML to JSON: {}", problem.replacen("yaml: line 1: ", "yaml: ", 1))
    });
    Ok(read.and_then(|value| match value {
        // Null leaves the map or list as it was made: empty, and one that can be filled.
        Value::Nil if wanted == MAP => Ok(Value::Map(Map::new())),
        Value::Nil => Ok(Value::list(Vec::new())),
        value => of_type(value, wanted)
            .map_err(|problem| format!("error unmarshaling JSON: while decoding JSON: {problem}")),
    }))
}
