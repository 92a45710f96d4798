//! Values that may be missing, and JSON.

use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type};
use crate::template::json::{self, JsonFailure, Style};
use crate::template::value::{Kind, Value};

const ANY: &[Type] = &[Type::Any];
const TEXT: &[Type] = &[Type::Text];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("all", &[], |call| Ok(Value::Bool(!call.rest(0).any(is_empty)))).and_more(Type::Any),
    Function::new("any", &[], |call| Ok(Value::Bool(!call.rest(0).all(is_empty)))).and_more(Type::Any),
    Function::new("coalesce", &[], |call| {
        Ok(call.take_rest(0).into_iter().find(|value| !is_empty(value)).unwrap_or_default())
    })
    .and_more(Type::Any)
    .boxed(),
    Function::new("default", ANY, |call| {
        let given = call.len() > 1 && !is_empty(call.value(1));
        Ok(call.take(usize::from(given)))
    })
    .and_more(Type::Any)
    .boxed(),
    Function::new("empty", ANY, |call| Ok(Value::Bool(is_empty(call.value(0))))),
    Function::new("fail", TEXT, |call| Err(Failure::new(call.text(0).to_str()))),
    Function::new("fromJson", TEXT, |call| Ok(read(call)?.unwrap_or_default())).boxed(),
    Function::new("mustFromJson", TEXT, |call| Ok(read(call)??)).boxed(),
    Function::new("mustToJson", ANY, |call| must_write(call, Style::Compact)),
    Function::new("mustToPrettyJson", ANY, |call| must_write(call, Style::Indented)),
    Function::new("mustToRawJson", ANY, |call| must_write(call, Style::Raw)),
    Function::new("ternary", &[Type::Any, Type::Any, Type::Bool], |call| {
        Ok(call.take(usize::from(!call.flag(2))))
    })
    .boxed(),
    Function::new("toJson", ANY, |call| write(call, Style::Compact)),
    Function::new("toPrettyJson", ANY, |call| write(call, Style::Indented)),
    Function::new("toRawJson", ANY, |call| must_write(call, Style::Raw)),
];

/// Whether a value is the zero of its type; a struct never is.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(object) => object.kind() == Kind::Invalid,
        other => !other.is_true(),
    }
}

/// Reads JSON; what is no JSON is the inner error.
fn read(call: &mut Call<'_, '_>) -> Result<Result<Value, String>, Failure> {
    json::read(call, 0)
}

/// Writes JSON; of what cannot be written nothing is.
pub(crate) fn write(call: &mut Call<'_, '_>, style: Style) -> Result<Value, Failure> {
    match json::write(call.value(0), style, call.limit()) {
        Ok(text) => call.answer_text(text),
        Err(JsonFailure::Value(_)) => {
            call.spend_walk(0)?;
            Ok(Value::text(""))
        }
        Err(JsonFailure::Limit(exceeded)) => Err(exceeded.into()),
    }
}

/// Writes JSON, or fails.
pub(crate) fn must_write(call: &mut Call<'_, '_>, style: Style) -> Result<Value, Failure> {
    match json::write(call.value(0), style, call.limit()) {
        Ok(text) => call.answer_text(text),
        Err(JsonFailure::Value(problem)) => Err(problem.into()),
        Err(JsonFailure::Limit(exceeded)) => Err(exceeded.into()),
    }
}
