//! Parameters that are written in the set (ASET-30, ASET-31).

use serde_json::{Map, Value};
use tiphys_go::yaml::{self, Dialect, Limits};

use super::{GenerateError, Run, SETS_MAX};
use crate::generator::text;
use crate::params::{self, Params};

pub(super) fn generate(run: &mut Run<'_>, block: &Map<String, Value>) -> Result<Vec<Params>, GenerateError> {
    let mut sets = Vec::new();
    for element in block.get("elements").and_then(Value::as_array).into_iter().flatten() {
        let element = match params::as_floats(element.clone())? {
            Value::Object(element) => element,
            Value::Null => Params::new(),
            _ => return Err(GenerateError::failed("error unmarshling list element: it is no object")),
        };
        let set = if run.language.is_go() { element } else { texts(element)? };
        run.made(set, &mut sets)?;
    }
    for element in from_yaml(text(block, "elementsYaml"))? {
        run.made(element, &mut sets)?;
    }
    Ok(sets)
}

/// An element of fast mode: texts, and texts under `values`.
fn texts(element: Params) -> Result<Params, GenerateError> {
    let mut set = Params::new();
    for (key, value) in element {
        match value {
            Value::Object(values) if key == "values" => {
                for (name, value) in values {
                    if !value.is_string() {
                        return Err(GenerateError::failed(format!(
                            "error parsing values map: {name:?} is no text"
                        )));
                    }
                    set.insert(format!("values.{name}"), value);
                }
            }
            _ if key == "values" => {
                return Err(GenerateError::failed("error parsing values map: it is no map"));
            }
            Value::String(_) => {
                set.insert(key, value);
            }
            _ => {
                return Err(GenerateError::failed(format!(
                    "error parsing value as string: {key:?} is no text"
                )));
            }
        }
    }
    Ok(set)
}

fn from_yaml(text: &str) -> Result<Vec<Params>, GenerateError> {
    let error = |why: String| GenerateError::failed(format!("error unmarshling decoded ElementsYaml {why}"));
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let limits = Limits::default();
    let elements =
        match yaml::parse(text, Dialect::Sigs, &limits).map_err(|cause| error(cause.to_string()))? {
            None => return Ok(Vec::new()),
            Some(Value::Array(elements)) => elements,
            Some(_) => return Err(error("it is no list".to_owned())),
        };
    if elements.len() > SETS_MAX {
        return Err(GenerateError::TooManySets);
    }
    let read = |element| match params::as_floats(element)? {
        Value::Object(element) => Ok(element),
        Value::Null => Ok(Params::new()),
        _ => Err(error("an element is no map".to_owned())),
    };
    elements.into_iter().map(read).collect()
}
