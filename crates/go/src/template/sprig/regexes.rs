//! Regular expressions.

use crate::regexp::{Regexp, RegexpError};
use crate::template::error::Failure;
use crate::template::functions::{Call, Function, Type};
use crate::template::value::{List, ListType, Value};
use std::rc::Rc;

const TWO: &[Type] = &[Type::Text, Type::Text];
const THREE: &[Type] = &[Type::Text, Type::Text, Type::Text];
const COUNTED: &[Type] = &[Type::Text, Type::Text, Type::INT];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("mustRegexFind", TWO, |call| find(call, Form::Must)),
    Function::new("mustRegexFindAll", COUNTED, |call| find_all(call, Form::Must)),
    Function::new("mustRegexMatch", TWO, |call| {
        let regexp = searching(call, Form::Must)?;
        Ok(Value::Bool(regexp.is_match(&call.text(1).to_str())))
    }),
    Function::new("mustRegexReplaceAll", THREE, |call| replace_all(call, Form::Must)),
    Function::new("mustRegexReplaceAllLiteral", THREE, |call| replace_all_literal(call, Form::Must)),
    Function::new("mustRegexSplit", COUNTED, |call| split(call, Form::Must)),
    Function::new("regexFind", TWO, |call| find(call, Form::Plain)),
    Function::new("regexFindAll", COUNTED, |call| find_all(call, Form::Plain)),
    Function::new("regexMatch", TWO, |call| {
        let pattern = call.text(0).clone();
        // What does not compile matches nothing.
        let Ok(regexp) = call.regexp(&pattern)? else { return Ok(Value::Bool(false)) };
        call.spend_search(regexp.weight(), call.bytes(1).len())?;
        Ok(Value::Bool(regexp.is_match(&call.text(1).to_str())))
    }),
    Function::new("regexQuoteMeta", &[Type::Text], quote_meta),
    Function::new("regexReplaceAll", THREE, |call| replace_all(call, Form::Plain)),
    Function::new("regexReplaceAllLiteral", THREE, |call| replace_all_literal(call, Form::Plain)),
    Function::new("regexSplit", COUNTED, |call| split(call, Form::Plain)),
];

/// Which of two functions: they say differently that an expression does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Plain,
    Must,
}

fn compiled(call: &mut Call<'_, '_>, form: Form) -> Result<Rc<Regexp>, Failure> {
    let pattern = call.text(0).clone();
    call.regexp(&pattern)?.map_err(|error| {
        let text = error_text(&error);
        Failure::new(match form {
            Form::Must => text,
            // `regexp.MustCompile` panics, and quotes what it was given.
            Form::Plain => format!("regexp: Compile({}): {text}", quoted(&pattern.to_str())),
        })
    })
}

/// The same, with one search in the text paid for.
fn searching(call: &mut Call<'_, '_>, form: Form) -> Result<Rc<Regexp>, Failure> {
    let regexp = compiled(call, form)?;
    call.spend_search(regexp.weight(), call.bytes(1).len())?;
    Ok(regexp)
}

fn quoted(pattern: &str) -> String {
    if crate::template::quote::can_back_quote(pattern.as_bytes()) {
        format!("`{pattern}`")
    } else {
        crate::template::quote::quote(pattern.as_bytes())
    }
}

fn error_text(error: &RegexpError) -> String {
    match error {
        RegexpError::Syntax { problem, part } => format!("error parsing regexp: {problem}: `{part}`"),
        other => other.to_string(),
    }
}

fn find(call: &mut Call<'_, '_>, form: Form) -> Result<Value, Failure> {
    let regexp = searching(call, form)?;
    let found = regexp.find_all(&call.text(1).to_str()).next().map(str::to_owned);
    call.answer_text(found.unwrap_or_default())
}

/// How many are wanted; all of them for a number below zero.
fn most(call: &Call<'_, '_>) -> usize {
    usize::try_from(call.int(2)).unwrap_or(usize::MAX)
}

fn find_all(call: &mut Call<'_, '_>, form: Form) -> Result<Value, Failure> {
    let regexp = compiled(call, form)?;
    let text = call.text(1).to_str().into_owned();
    let matches = call.count_matches(&regexp, &text, most(call))?;
    call.makes_items(matches)?;
    let found: Vec<Value> = regexp.find_all(&text).take(matches).map(Value::from).collect();
    Ok(Value::List(if found.is_empty() {
        List::nil(&ListType::TEXTS)
    } else {
        // Go begins with room for ten.
        let capacity = List::appended_to(&ListType::TEXTS, 10, found.len());
        List::with_capacity(&ListType::TEXTS, found, capacity)
    }))
}

fn split(call: &mut Call<'_, '_>, form: Form) -> Result<Value, Failure> {
    let regexp = compiled(call, form)?;
    if call.int(2) == 0 {
        return Ok(Value::List(List::nil(&ListType::TEXTS)));
    }
    let text = call.text(1).to_str().into_owned();
    let matches = call.count_matches(&regexp, &text, most(call))?;
    call.makes_items(matches + 1)?;
    let (parts, matches) = regexp.split_go(call.bytes(0).is_empty(), &text, most(call));
    let parts: Vec<Value> = parts.into_iter().map(Value::from).collect();
    let capacity = List::appended_to(&ListType::TEXTS, matches, parts.len());
    Ok(Value::List(List::with_capacity(&ListType::TEXTS, parts, capacity)))
}

fn replace_all(call: &mut Call<'_, '_>, form: Form) -> Result<Value, Failure> {
    let regexp = compiled(call, form)?;
    room(call, &regexp)?;
    let text = regexp.replace_all(&call.text(1).to_str(), &call.text(2).to_str());
    call.answer_text(text)
}

fn replace_all_literal(call: &mut Call<'_, '_>, form: Form) -> Result<Value, Failure> {
    let regexp = compiled(call, form)?;
    room(call, &regexp)?;
    let text = regexp.replace_all_literal(&call.text(1).to_str(), &call.text(2).to_str());
    call.answer_text(text)
}

/// Pays for finding what is replaced and for what the result may come to, when that is long.
fn room(call: &mut Call<'_, '_>, regexp: &Regexp) -> Result<(), Failure> {
    let (text, replacement) = (call.bytes(1).len(), call.bytes(2).len());
    if text < 256 && text.saturating_mul(replacement) < 1 << 16 {
        return call.spend_search(regexp.weight(), text.saturating_mul(4));
    }
    let subject = call.text(1).to_str().into_owned();
    let matches = call.count_matches(regexp, &subject, usize::MAX)?;
    // A group may be as long as the text, for each two bytes of the replacement.
    let groups = call.bytes(2).split(|byte| *byte == b'$').count().saturating_sub(1);
    call.makes_text(matches.saturating_mul(replacement).saturating_add(text.saturating_mul(groups.max(1))))
}

fn quote_meta(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let mut out = Vec::with_capacity(call.bytes(0).len());
    for byte in call.bytes(0) {
        if br"\.+*?()|[]{}^$".contains(byte) {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    call.answer_text(out)
}
