//! Functions of `ApplicationSets` beside sprig's (ASET-107..109).

use serde_json::Value as Json;
use tiphys_go::nesting::DEPTH_MAX;
use tiphys_go::template::{Call, Failure, Function, Type, Value};
use tiphys_go::yaml::{self, Dialect, YamlError};

use crate::slug;

/// Length of slugs where none is given.
const SLUG_MAX: i64 = 50;
/// Memory that a document inside a template may take.
const YAML_BYTES_MAX: usize = 32 << 20;

/// The functions by name.
pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("fromYaml", &[Type::Text], |call| match from_yaml(call)? {
        map @ Json::Object(_) => Ok(Value::from_json(&map)),
        Json::Null => Ok(Value::from_json(&Json::Object(serde_json::Map::new()))),
        _ => Err("error unmarshaling JSON: the text is no map".into()),
    }),
    Function::new("fromYamlArray", &[Type::Text], |call| match from_yaml(call)? {
        list @ Json::Array(_) => Ok(Value::from_json(&list)),
        Json::Null => Ok(Value::from_json(&Json::Array(Vec::new()))),
        _ => Err("error unmarshaling JSON: the text is no list".into()),
    }),
    Function::new("normalize", &[Type::Text], |call| {
        Ok(Value::text(slug::normalize(&call.text(0).to_str())))
    }),
    Function::new("slugify", &[], slugify).and_more(Type::Any),
    Function::new("toYaml", &[Type::Any], |call| {
        let value = call.take(0);
        let json = call.json(&value)?;
        let text = yaml::to_string(&json).map_err(|error| error.to_string())?;
        Ok(Value::text(text.strip_suffix('\n').unwrap_or(&text)))
    }),
];

fn from_yaml(call: &mut Call<'_, '_>) -> Result<Json, Failure> {
    let text = call.text(0).to_str().into_owned();
    let mut memory = call.memory(YAML_BYTES_MAX);
    let read = yaml::parse_within(&text, Dialect::Sigs, DEPTH_MAX, &mut memory);
    call.spend_memory(memory.used())?;
    match read {
        Ok(value) => Ok(value.unwrap_or(Json::Null)),
        Err(YamlError::Memory { limit }) => Err(call.memory_exceeded(limit, YAML_BYTES_MAX)),
        Err(error) => Err(Failure::from(error.to_string())),
    }
}

/// `slugify [length [smart]] text`: the text is always last.
fn slugify(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let wrong =
        |at: usize, wanted: &str| Failure::from(format!("argument {} of slugify has to be {wanted}", at + 1));
    let Some(last) = call.len().checked_sub(1) else { return Ok(Value::text("")) };
    let text = call.value(last).as_text().ok_or_else(|| wrong(last, "a text"))?.to_str().into_owned();
    let length_max = match (last, call.value(0)) {
        (0, _) => SLUG_MAX,
        (_, Value::Int(_, length)) => *length,
        _ => return Err(wrong(0, "an integer")),
    };
    let smart = match (last, call.value(1)) {
        (0 | 1, _) => true,
        (2, Value::Bool(smart)) => *smart,
        (2, _) => return Err(wrong(1, "true or false")),
        _ => return Err("slugify takes a length, whether the cut is smart, and a text".into()),
    };
    Ok(Value::text(slug::slugify(&text, length_max, smart)))
}
