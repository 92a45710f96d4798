//! Functions of texts.

use super::{Builtin, Check, Context, Overload, argument, many, not_a, one, text};
use crate::expr::letters;
use crate::expr::nature::Type;
use crate::expr::numbers::to_int;
use crate::expr::value::{List, Of, Text};
use crate::expr::{Budget, Fault, Value};
use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};
use memchr::memmem;

const ONE: Overload = Overload { parameters: &[Type::Text], result: Type::Text };
const TWO: Overload = Overload { parameters: &[Type::Text, Type::Text], result: Type::Text };
const PLACE: Check = Check::Types(&[Overload { parameters: &[Type::Text, Type::Text], result: Type::Int }]);
const TEST: Check = Check::Types(&[Overload { parameters: &[Type::Text, Type::Text], result: Type::Bool }]);
const SPLIT: Check = Check::Types(&[
    Overload { parameters: &[Type::Text, Type::Text], result: Type::Texts },
    Overload { parameters: &[Type::Text, Type::Text, Type::Int], result: Type::Texts },
]);

/// Bits behind the last byte do not matter to Go.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

pub(super) const ROWS: &[Builtin] = &[
    many("trim", Check::Types(&[ONE, TWO]), |arguments, context| {
        let given = text(arguments, 0)?;
        context.budget.text(given.len())?;
        match arguments.len() {
            1 => Ok(trimmed(given, char::is_whitespace)),
            2 => {
                let set = text(arguments, 1)?.to_str();
                context.budget.steps(given.len().saturating_mul(1 + set.len() / 16))?;
                Ok(trimmed(given, |character| set.contains(character)))
            }
            count => Err(miscounted("trim", "1 or 2", count)),
        }
    }),
    many("trimPrefix", Check::Types(&[TWO, ONE]), |arguments, context| {
        let (given, prefix) = (text(arguments, 0)?, end(arguments)?);
        context.budget.text(given.len())?;
        let bytes = given.as_bytes();
        Ok(Value::Text(bytes.strip_prefix(prefix).unwrap_or(bytes).into()))
    }),
    many("trimSuffix", Check::Types(&[TWO, ONE]), |arguments, context| {
        let (given, suffix) = (text(arguments, 0)?, end(arguments)?);
        context.budget.text(given.len())?;
        let bytes = given.as_bytes();
        Ok(Value::Text(bytes.strip_suffix(suffix).unwrap_or(bytes).into()))
    }),
    one("upper", Check::Types(&[ONE]), |value, budget| mapped(value, letters::upper, budget)),
    one("lower", Check::Types(&[ONE]), |value, budget| mapped(value, letters::lower, budget)),
    many("split", SPLIT, |arguments, context| split(arguments, false, context.budget)),
    many("splitAfter", SPLIT, |arguments, context| split(arguments, true, context.budget)),
    many(
        "replace",
        Check::Types(&[
            Overload { parameters: &[Type::Text, Type::Text, Type::Text, Type::Int], result: Type::Text },
            Overload { parameters: &[Type::Text, Type::Text, Type::Text], result: Type::Text },
        ]),
        replace,
    ),
    many(
        "repeat",
        Check::Types(&[Overload { parameters: &[Type::Text, Type::Int], result: Type::Text }]),
        repeat,
    ),
    many(
        "join",
        Check::Types(&[
            Overload { parameters: &[Type::Texts, Type::Text], result: Type::Text },
            Overload { parameters: &[Type::List, Type::Text], result: Type::Text },
            Overload { parameters: &[Type::List], result: Type::Text },
            Overload { parameters: &[Type::Texts], result: Type::Text },
        ]),
        join,
    ),
    many("indexOf", PLACE, |arguments, context| {
        let (given, part) = both(arguments, context.budget)?;
        Ok(place(memmem::find(given, part)))
    }),
    many("lastIndexOf", PLACE, |arguments, context| {
        let (given, part) = both(arguments, context.budget)?;
        Ok(place(memmem::rfind(given, part)))
    }),
    many("hasPrefix", TEST, |arguments, context| {
        let (given, part) = both(arguments, context.budget)?;
        Ok(given.starts_with(part).into())
    }),
    many("hasSuffix", TEST, |arguments, context| {
        let (given, part) = both(arguments, context.budget)?;
        Ok(given.ends_with(part).into())
    }),
    many("toBase64", Check::Types(&[ONE]), |arguments, context| {
        let given = text(arguments, 0)?;
        context.budget.text(given.len() / 3 * 4 + 4)?;
        Ok(BASE64.encode(given.as_bytes()).into())
    }),
    many("fromBase64", Check::Types(&[ONE]), |arguments, context| {
        let given = text(arguments, 0)?;
        context.budget.text(given.len())?;
        let mut bytes = given.as_bytes().to_vec();
        bytes.retain(|byte| !matches!(byte, b'\r' | b'\n'));
        let decoded =
            BASE64.decode(bytes).map_err(|error| Fault::Value(format!("illegal base64 data: {error}")))?;
        Ok(Value::Text(decoded.into()))
    }),
];

fn miscounted(name: &str, expected: &str, given: usize) -> Fault {
    Fault::Value(format!("invalid number of arguments for {name} (expected {expected}, got {given})"))
}

/// What is cut off an end; a blank where nothing is said.
fn end(arguments: &[Value]) -> Result<&[u8], Fault> {
    // More than two are too many to count.
    if arguments.len() == 2 { Ok(text(arguments, 1)?.as_bytes()) } else { Ok(b" ") }
}

/// Two texts that are looked through.
fn both<'a>(arguments: &'a [Value], budget: &mut Budget) -> Result<(&'a [u8], &'a [u8]), Fault> {
    let (given, part) = (text(arguments, 0)?, text(arguments, 1)?);
    budget.scan(given.len())?;
    Ok((given.as_bytes(), part.as_bytes()))
}

fn place(found: Option<usize>) -> Value {
    Value::Int(found.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1))
}

/// A text without characters at its ends; what is no UTF-8 stays.
fn trimmed(given: &Text, is_trimmed: impl Fn(char) -> bool) -> Value {
    if let Ok(text) = std::str::from_utf8(given.as_bytes()) {
        text.trim_matches(is_trimmed).into()
    } else {
        let mut bytes = given.as_bytes();
        let first = |bytes: &[u8]| bytes.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
        while let Some(character) = first(bytes).filter(|character| is_trimmed(*character)) {
            bytes = bytes.get(character.len_utf8()..).unwrap_or_default();
        }
        while let Some(character) = last_character(bytes).filter(|character| is_trimmed(*character)) {
            let len = bytes.len().saturating_sub(character.len_utf8());
            bytes = bytes.get(..len).unwrap_or_default();
        }
        Value::Text(bytes.into())
    }
}

fn last_character(bytes: &[u8]) -> Option<char> {
    (1..=bytes.len().min(4)).find_map(|len| {
        let tail = bytes.get(bytes.len() - len..)?;
        std::str::from_utf8(tail).ok()?.chars().next()
    })
}

fn mapped(value: &Value, map: fn(char) -> char, budget: &mut Budget) -> Result<Value, Fault> {
    let Value::Text(text) = value else { return Err(not_a(value, "string")) };
    budget.steps(text.len())?;
    budget.text(text.len().saturating_mul(2))?;
    Ok(text.to_str().chars().map(map).collect::<String>().into())
}

/// How many parts there may be at most; nothing for all of them.
fn most(arguments: &[Value], index: usize) -> Result<Option<usize>, Fault> {
    match arguments.get(index) {
        None => Ok(None),
        Some(count) => Ok(usize::try_from(to_int(count)?).ok()),
    }
}

fn split(arguments: &[Value], after: bool, budget: &mut Budget) -> Result<Value, Fault> {
    if !(2..=3).contains(&arguments.len()) {
        return Err(miscounted(if after { "splitAfter" } else { "split" }, "2 or 3", arguments.len()));
    }
    let (given, separator) = both(arguments, budget)?;
    let most = most(arguments, 2)?;
    if most == Some(0) {
        return Ok(Value::List(List::nil(Of::Text)));
    }
    let most = most.unwrap_or(usize::MAX);
    let mut parts: Vec<Value> = Vec::new();
    let mut rest = given;
    let mut part = |bytes: &[u8], parts: &mut Vec<Value>| {
        budget.text(bytes.len())?;
        budget.list(1)?;
        parts.push(Value::Text(bytes.into()));
        Ok::<_, Fault>(())
    };
    if separator.is_empty() {
        while parts.len() + 1 < most && !rest.is_empty() {
            let length = first_length(rest);
            let (head, tail) = rest.split_at_checked(length).unwrap_or((rest, b""));
            part(head, &mut parts)?;
            rest = tail;
        }
        if !rest.is_empty() {
            part(rest, &mut parts)?;
        }
        return Ok(Value::List(List::of_texts(parts)));
    }
    let finder = memmem::Finder::new(separator);
    while parts.len() + 1 < most
        && let Some(place) = finder.find(rest)
    {
        let kept = if after { place + separator.len() } else { place };
        part(rest.get(..kept).unwrap_or_default(), &mut parts)?;
        rest = rest.get(place + separator.len()..).unwrap_or_default();
    }
    part(rest, &mut parts)?;
    Ok(Value::List(List::of_texts(parts)))
}

/// Bytes of the first character; what is no UTF-8 comes byte by byte.
fn first_length(bytes: &[u8]) -> usize {
    let character = bytes.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
    character.map_or(1, char::len_utf8)
}

fn replace(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    if !(3..=4).contains(&arguments.len()) {
        return Err(miscounted("replace", "3 or 4", arguments.len()));
    }
    let (given, old) = both(arguments, context.budget)?;
    let new = text(arguments, 2)?.as_bytes();
    let most = most(arguments, 3)?.unwrap_or(usize::MAX);
    let mut out = Vec::new();
    let mut rest = given;
    let mut replaced = 0;
    if old.is_empty() {
        // Before each character, and at the end.
        while replaced < most {
            context.budget.text(new.len())?;
            out.extend_from_slice(new);
            replaced += 1;
            if rest.is_empty() {
                break;
            }
            let (head, tail) = rest.split_at_checked(first_length(rest)).unwrap_or((rest, b""));
            out.extend_from_slice(head);
            rest = tail;
        }
    } else {
        let finder = memmem::Finder::new(old);
        while replaced < most
            && let Some(place) = finder.find(rest)
        {
            context.budget.text(new.len())?;
            out.extend_from_slice(rest.get(..place).unwrap_or_default());
            out.extend_from_slice(new);
            rest = rest.get(place + old.len()..).unwrap_or_default();
            replaced += 1;
        }
    }
    context.budget.text(given.len())?;
    out.extend_from_slice(rest);
    Ok(Value::Text(out.into()))
}

fn repeat(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    const COUNT_MAX: i64 = 1_000_000;
    let given = text(arguments, 0)?;
    let count = to_int(argument(arguments, 1)?)?;
    if count < 0 {
        return Err(Fault::Value(format!(
            "invalid argument for repeat (expected positive integer, got {count})"
        )));
    }
    if count > COUNT_MAX {
        return Err(Fault::Memory);
    }
    let count = usize::try_from(count).unwrap_or_default();
    let bytes = given.len().saturating_mul(count);
    context.budget.count(bytes)?;
    context.budget.text(bytes)?;
    Ok(Value::Text(given.as_bytes().repeat(count).into()))
}

fn join(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    let glue = if arguments.len() == 2 { text(arguments, 1)?.as_bytes() } else { b"" };
    let list = argument(arguments, 0)?;
    let items = match list {
        Value::List(list) if matches!(list.item_type(), Of::Any | Of::Text) => list.items(),
        other => return Err(Fault::Value(format!("invalid argument for join (type {})", other.go_type()))),
    };
    let mut out = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Value::Text(text) = item else { return Err(not_a(item, "string")) };
        context.budget.text(glue.len() + text.len())?;
        if index > 0 {
            out.extend_from_slice(glue);
        }
        out.extend_from_slice(text.as_bytes());
    }
    Ok(Value::Text(out.into()))
}
