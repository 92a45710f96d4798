//! The functions that `text/template` has by itself (RND-194).

use super::{Call, Function, Logic, Operand, Run, Type, compare, escape, index};
use crate::template::error::Failure;
use crate::template::fmt;
use crate::template::value::{Text, Value};

pub(super) static FUNCTIONS: &[Function] = &[
    Function { run: Run::Logic(Logic::And), ..taking("and", &[Type::Reflect], Some(Type::Reflect)) },
    Function { run: Run::Operand(call), ..taking("call", &[Type::Reflect], Some(Type::Reflect)) },
    Function { run: Run::Value(compare::eq), ..taking("eq", &[Type::Reflect], Some(Type::Reflect)) },
    Function::new("ge", &[Type::Reflect, Type::Reflect], compare::ge),
    Function::new("gt", &[Type::Reflect, Type::Reflect], compare::gt),
    Function { run: Run::Value(html), ..taking("html", &[], Some(Type::Any)) },
    Function { run: Run::Operand(index::index), ..taking("index", &[Type::Reflect], Some(Type::Reflect)) },
    Function { run: Run::Value(js), ..taking("js", &[], Some(Type::Any)) },
    Function::new("le", &[Type::Reflect, Type::Reflect], compare::le),
    Function::new("len", &[Type::Reflect], index::length),
    Function::new("lt", &[Type::Reflect, Type::Reflect], compare::lt),
    Function::new("ne", &[Type::Reflect, Type::Reflect], compare::ne),
    Function::new("not", &[Type::Reflect], |call| Ok(Value::Bool(!call.value(0).is_true()))),
    Function { run: Run::Logic(Logic::Or), ..taking("or", &[Type::Reflect], Some(Type::Reflect)) },
    Function { run: Run::Value(print), ..taking("print", &[], Some(Type::Any)) },
    Function { run: Run::Value(printf), ..taking("printf", &[Type::Text], Some(Type::Any)) },
    Function { run: Run::Value(println), ..taking("println", &[], Some(Type::Any)) },
    Function { run: Run::Operand(index::slice), ..taking("slice", &[Type::Reflect], Some(Type::Reflect)) },
    Function { run: Run::Value(urlquery), ..taking("urlquery", &[], Some(Type::Any)) },
];

/// The part of a row that says what a function takes.
const fn taking(name: &'static str, parameters: &'static [Type], rest: Option<Type>) -> Function {
    Function { name, parameters, rest, boxed: false, run: Run::Unfit(""), price: Function::price_of(name) }
}

fn call(call: &mut Call<'_, '_>) -> Result<Operand, Failure> {
    let function = call.value(0);
    if function.is_nil() {
        return Err(Failure::new("call of nil"));
    }
    let type_name = function.type_name();
    Err(Failure::new(format!("non-function of type {type_name}")))
}

fn limit(call: &Call<'_, '_>) -> usize {
    call.limit()
}

/// What `html` and the like work on: the text of their arguments as an action would print it.
fn printed(call: &mut Call<'_, '_>) -> Result<Text, Failure> {
    if call.len() == 1
        && let Some(text) = call.value(0).as_text()
    {
        return Ok(text.clone());
    }
    let limit = limit(call);
    let nothing = Value::text("<no value>");
    let values: Vec<Value> =
        call.rest(0).map(|value| if value.is_nil() { nothing.clone() } else { value.clone() }).collect();
    Ok(fmt::print_all(values.iter(), limit)?.into())
}

fn html(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let text = printed(call)?;
    call.answer_text(escape::html(text.as_bytes()))
}

fn js(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let text = printed(call)?;
    call.answer_text(escape::js(text.as_bytes()))
}

fn urlquery(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let text = printed(call)?;
    call.answer_text(escape::query(text.as_bytes()))
}

fn print(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let limit = limit(call);
    let text = fmt::print_all(call.rest(0), limit)?;
    call.answer_text(text)
}

fn println(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let limit = limit(call);
    let text = fmt::print_line(call.rest(0), limit)?;
    call.answer_text(text)
}

fn printf(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let limit = limit(call);
    let values: Vec<&Value> = call.rest(1).collect();
    let text = fmt::print_formatted(call.bytes(0), &values, limit)?;
    call.answer_text(text)
}
