//! Where the interpreter's standard library is not that of go-jsonnet.
//!
//! Every text sees `std` through [`TEXT`], which puts a few functions in the place of others. What remains different
//! are numbers inside of texts: `"" + 0.1` is `0.1` here and `0.10000000000000001` there, and `%.1f` rounds halves
//! to even.

use rsjsonnet_lang::program::{Program as Machine, Value};
use serde_json::Value as Json;
use tiphys_go::memory::Memory;
use tiphys_go::yaml::{self, Dialect};

/// Begins every text. It stands in the first line, and positions are told without it.
pub(super) const PREFIX: &str = "local std=import'tiphys:std';";
/// What [`PREFIX`] imports; no path of a tree.
pub(super) const PATH: &str = "tiphys:std";
/// The native function behind `std.parseYaml`.
pub(super) const PARSE_YAML: &str = "tiphys:parseYaml";
/// Bytes that a parsed text takes in memory.
const MEMORY_MAX: usize = 96 * 1024 * 1024;

/// The library as programs see it.
pub(super) const TEXT: &str = r#"
local items(value) = if std.isString(value) then std.stringChars(value) else value;
local boolean(value) =
  if std.isBoolean(value) then value
  else error 'Unexpected type %s, expected boolean' % std.type(value);
local outer = std;
std {
  parseYaml(str):: std.native('tiphys:parseYaml')(str),
  foldl(func, arr, init):: outer.foldl(func, items(arr), init),
  foldr(func, arr, init):: outer.foldr(func, items(arr), init),
  xor(x, y):: boolean(x) != boolean(y),
  xnor(x, y):: boolean(x) == boolean(y),
  strReplace(str, from, to)::
    if from == '' then error "'from' string must not be zero length."
    else outer.strReplace(str, from, to),
}
"#;

/// `std.parseYaml`: YAML as Kubernetes reads it; a list of documents where a line `---` stands.
pub(super) fn parse_yaml<'p>(machine: &mut Machine<'p>, text: &str) -> Result<Value<'p>, String> {
    let mut memory = Memory::new(MEMORY_MAX);
    let mut documents = Vec::new();
    let mut is_stream = false;
    let mut document = String::new();
    let mut end = |document: &mut String| -> Result<(), String> {
        if document.is_empty() {
            return Ok(());
        }
        let value = yaml::parse_within(document, Dialect::Sigs, tiphys_go::nesting::DEPTH_MAX, &mut memory);
        let value = value.map_err(|error| format!("failed to parse YAML: {error}"))?;
        documents.push(value.unwrap_or(Json::Null));
        document.clear();
        Ok(())
    };
    for line in text.split_inclusive('\n') {
        let is_marker = line.strip_prefix("---").is_some_and(|rest| {
            rest.trim_end_matches('\r').is_empty() || rest.starts_with([' ', '\t', '\n', '\r'])
        });
        if is_marker {
            is_stream = true;
            end(&mut document)?;
        }
        document.push_str(line);
    }
    end(&mut document)?;
    let value = match (is_stream, documents.len()) {
        (_, 0) => Json::Null,
        (true, _) => Json::Array(documents),
        (false, _) => documents.swap_remove(0),
    };
    Ok(convert(machine, &value))
}

/// The depth is that of the parsed text, which is bounded.
fn convert<'p>(machine: &mut Machine<'p>, value: &Json) -> Value<'p> {
    match value {
        Json::Null => Value::null(),
        Json::Bool(value) => Value::bool(*value),
        Json::Number(number) => Value::number(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::string(text),
        Json::Array(items) => {
            let items: Vec<Value<'p>> = items.iter().map(|item| convert(machine, item)).collect();
            machine.make_array(&items)
        }
        Json::Object(members) => {
            let mut fields = Vec::with_capacity(members.len());
            for (name, member) in members {
                let member = convert(machine, member);
                fields.push((machine.intern_str(name), member));
            }
            machine.make_object(&fields)
        }
    }
}
