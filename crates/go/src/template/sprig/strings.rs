//! Texts: cutting, joining, searching, chance.

use super::convert::strval;
use super::wrap;
use crate::template::error::Failure;
use crate::template::fmt;
use crate::template::functions::{Call, Function, Type};
use crate::template::quote::quote_into;
use crate::template::value::{List, ListType, Map, MapType, Text, Value, to_str};

const TEXT: &[Type] = &[Type::Text];
const TWO_TEXTS: &[Type] = &[Type::Text, Type::Text];
const THREE_TEXTS: &[Type] = &[Type::Text, Type::Text, Type::Text];
const INT: &[Type] = &[Type::INT];
const INT_TEXT: &[Type] = &[Type::INT, Type::Text];
const ANY: &[Type] = &[Type::Any];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("abbrev", INT_TEXT, |call| {
        let text = wrap::abbreviate(call.bytes(1), 0, call.int(0));
        call.answer_text(text)
    }),
    Function::new("abbrevboth", &[Type::INT, Type::INT, Type::Text], |call| {
        let text = wrap::abbreviate_both(call.bytes(2), call.int(0), call.int(1));
        call.answer_text(text)
    }),
    Function::new("cat", &[], cat).and_more(Type::Any),
    Function::new("contains", TWO_TEXTS, |call| Ok(Value::Bool(contains(call.bytes(1), call.bytes(0))))),
    Function::new("hasPrefix", TWO_TEXTS, |call| Ok(Value::Bool(call.bytes(1).starts_with(call.bytes(0))))),
    Function::new("hasSuffix", TWO_TEXTS, |call| Ok(Value::Bool(call.bytes(1).ends_with(call.bytes(0))))),
    Function::new("hello", &[], |_call| Ok(Value::text("Hello!"))),
    Function::new("indent", INT_TEXT, |call| indent(call, "")),
    Function::new("initials", TEXT, |call| {
        let text = wrap::initials(call.bytes(0));
        call.answer_text(text)
    }),
    Function::new("join", &[Type::Text, Type::Any], join),
    Function::new("nindent", INT_TEXT, |call| indent(call, "\n")),
    Function::new("nospace", TEXT, |call| {
        let text = wrap::without_space(call.bytes(0));
        call.answer_text(text)
    }),
    Function::new("plural", &[Type::Text, Type::Text, Type::INT], |call| {
        Ok(call.take(usize::from(call.int(2) != 1)))
    }),
    Function::new("quote", &[], quote).and_more(Type::Any),
    Function::new("randAlpha", INT, |call| {
        random(call, b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    }),
    Function::new("randAlphaNum", INT, |call| {
        random(call, b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
    }),
    Function::new("randAscii", INT, |call| {
        let characters: Vec<u8> = (b' '..=b'~').collect();
        random(call, &characters)
    }),
    Function::new("randNumeric", INT, |call| random(call, b"0123456789")),
    Function::new("repeat", INT_TEXT, |call| {
        let text = repeated(call, call.int(0), call.bytes(1).len())?;
        let text = call.bytes(1).repeat(text);
        call.answer_text(text)
    }),
    Function::new("replace", THREE_TEXTS, replace),
    Function::new("shuffle", TEXT, shuffle),
    Function::new("sortAlpha", ANY, sort_alpha),
    Function::new("split", TWO_TEXTS, |call| {
        pay_for_parts(call, 1, usize::MAX)?;
        let parts = split(call.bytes(1), call.bytes(0), None).into_iter().map(Text::from_bytes).collect();
        numbered(call, parts)
    }),
    Function::new("splitList", TWO_TEXTS, |call| {
        pay_for_parts(call, 1, usize::MAX)?;
        let parts: Vec<Value> = split(call.bytes(1), call.bytes(0), None)
            .into_iter()
            .map(|part| Value::Text(part.into()))
            .collect();
        Ok(Value::List(List::typed(&ListType::TEXTS, parts)))
    }),
    Function::new("splitn", &[Type::Text, Type::INT, Type::Text], |call| {
        let most = usize::try_from(call.int(1)).ok();
        pay_for_parts(call, 2, most.unwrap_or(usize::MAX))?;
        let parts = if most == Some(0) { Vec::new() } else { split(call.bytes(2), call.bytes(0), most) };
        let parts = parts.into_iter().map(Text::from_bytes).collect();
        numbered(call, parts)
    }),
    Function::new("squote", &[], squote).and_more(Type::Any),
    Function::new("substr", &[Type::INT, Type::INT, Type::Text], substr),
    Function::new("toString", ANY, |call| {
        let text = call.strval(0)?;
        call.answer_text(text)
    }),
    Function::new("toStrings", ANY, |call| Ok(Value::List(texts(call, 0)?))),
    Function::new("trim", TEXT, |call| {
        let text = trim_space(call.bytes(0)).to_vec();
        call.answer_text(text)
    }),
    Function::new("trimAll", TWO_TEXTS, trim_all),
    Function::new("trimPrefix", TWO_TEXTS, |call| {
        let text = call.bytes(1);
        let text = Text::from_bytes(text.strip_prefix(call.bytes(0)).unwrap_or(text));
        call.answer_text(text)
    }),
    Function::new("trimSuffix", TWO_TEXTS, |call| {
        let text = call.bytes(1);
        let text = Text::from_bytes(text.strip_suffix(call.bytes(0)).unwrap_or(text));
        call.answer_text(text)
    }),
    Function::new("trimall", TWO_TEXTS, trim_all),
    Function::new("trunc", INT_TEXT, trunc),
    Function::new("wrap", INT_TEXT, |call| {
        let text = wrap::wrap(call, call.int(0), 1, b"\n", false)?;
        call.answer_text(text)
    }),
    Function::new("wrapWith", &[Type::INT, Type::Text, Type::Text], |call| {
        let separator = call.bytes(1);
        let separator = if separator.is_empty() { b"\n".to_vec() } else { separator.to_vec() };
        let text = wrap::wrap(call, call.int(0), 2, &separator, true)?;
        call.answer_text(text)
    }),
];

fn cat(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let limit = call.limit();
    let mut out = Vec::new();
    let values: Vec<&Value> = call.rest(0).filter(|value| !value.is_nil()).collect();
    for (place, value) in values.iter().enumerate() {
        if place > 0 {
            out.push(b' ');
        }
        let mut printer = fmt::Printer::new(&mut out, limit);
        printer.argument(value, 'v')?;
    }
    call.answer_text(out)
}

fn quote(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let mut out = String::new();
    for value in call.rest(0).filter(|value| !value.is_nil()) {
        if !out.is_empty() {
            out.push(' ');
        }
        quote_into(&mut out, strval(value, call.limit())?.as_bytes(), '"', false);
        if out.len() > call.limit() {
            break;
        }
    }
    call.answer_text(out)
}

fn squote(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let limit = call.limit();
    let mut out = Vec::new();
    for value in call.rest(0).filter(|value| !value.is_nil()) {
        if !out.is_empty() {
            out.push(b' ');
        }
        out.push(b'\'');
        fmt::Printer::new(&mut out, limit).argument(value, 'v')?;
        out.push(b'\'');
    }
    call.answer_text(out)
}

/// How often a text is repeated, paid for.
fn repeated(call: &mut Call<'_, '_>, count: i64, length: usize) -> Result<usize, Failure> {
    let Ok(count) = usize::try_from(count) else {
        return Err(Failure::new("strings: negative Repeat count"));
    };
    call.makes_text(count.saturating_mul(length))?;
    Ok(count)
}

fn indent(call: &mut Call<'_, '_>, before: &str) -> Result<Value, Failure> {
    let text = call.text(1).clone();
    let columns = repeated(call, call.int(0), 1)?;
    let lines = text.as_bytes().split(|byte| *byte == b'\n').count();
    let bytes = before.len() + text.len() + lines.saturating_mul(columns);
    call.makes_text(bytes)?;
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(before.as_bytes());
    for (place, line) in text.as_bytes().split(|byte| *byte == b'\n').enumerate() {
        if place > 0 {
            out.push(b'\n');
        }
        out.resize(out.len() + columns, b' ');
        out.extend_from_slice(line);
    }
    Ok(Value::Text(out.into()))
}

/// Where a text begins in another.
pub(super) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    // In time that grows with the sum of both lengths and not with their product.
    memchr::memmem::find(text, wanted)
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    find(text, wanted).is_some()
}

/// Lengths of the characters of a text; a byte that is no UTF-8 is one of its own.
fn character_lengths(text: &[u8]) -> impl Iterator<Item = usize> {
    text.utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().map(char::len_utf8).chain(chunk.invalid().iter().map(|_| 1)))
}

/// `strings.Split`, into so many parts at most.
pub(super) fn split<'t>(text: &'t [u8], separator: &[u8], most: Option<usize>) -> Vec<&'t [u8]> {
    let most = most.unwrap_or(usize::MAX);
    let mut parts = Vec::new();
    let mut rest = text;
    if separator.is_empty() {
        for length in character_lengths(text) {
            if parts.len() + 1 >= most {
                break;
            }
            let (part, after) = rest.split_at_checked(length).unwrap_or((rest, b""));
            parts.push(part);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(rest);
        }
        return parts;
    }
    while parts.len() + 1 < most
        && let Some(at) = find(rest, separator)
    {
        let (part, after) = rest.split_at_checked(at).unwrap_or((rest, b""));
        parts.push(part);
        rest = after.get(separator.len()..).unwrap_or_default();
    }
    parts.push(rest);
    parts
}

/// Pays for the parts that a text is going to be split into, `most` at the most, before any is made: a part of one byte
/// takes fifty.
fn pay_for_parts(call: &mut Call<'_, '_>, text: usize, most: usize) -> Result<(), Failure> {
    let (text, separator) = (call.bytes(text), call.bytes(0));
    let parts = if separator.is_empty() {
        character_lengths(text).take(most).count()
    } else {
        memchr::memmem::find_iter(text, separator).take(most).count() + 1
    };
    call.makes_items(parts.saturating_mul(2))
}

/// Parts as members `_0`, `_1` and so on.
fn numbered(call: &mut Call<'_, '_>, parts: Vec<Text>) -> Result<Value, Failure> {
    call.makes_items(parts.len().saturating_mul(4))?;
    let map = Map::typed(&MapType::TEXTS);
    for (place, part) in parts.into_iter().enumerate() {
        map.set(format!("_{place}").into(), Value::Text(part));
    }
    Ok(Value::Map(map))
}

fn replace(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let (old, new, text) = (call.bytes(0), call.bytes(1), call.bytes(2));
    let mut out = Vec::with_capacity(text.len());
    let limit = call.limit();
    let mut rest = text;
    if old.is_empty() {
        for length in character_lengths(text) {
            out.extend_from_slice(new);
            let (part, after) = rest.split_at_checked(length).unwrap_or((rest, b""));
            out.extend_from_slice(part);
            rest = after;
            if out.len() > limit {
                break;
            }
        }
        out.extend_from_slice(new);
    } else {
        while out.len() <= limit
            && let Some(at) = find(rest, old)
        {
            let (part, after) = rest.split_at_checked(at).unwrap_or((rest, b""));
            out.extend_from_slice(part);
            out.extend_from_slice(new);
            rest = after.get(old.len()..).unwrap_or_default();
        }
        out.extend_from_slice(rest);
    }
    call.answer_text(out)
}

fn trunc(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let (count, text) = (call.int(0), call.bytes(1));
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let part = if count < 0 && length.saturating_add(count) > 0 {
        text.get(usize::try_from(length + count).unwrap_or(0)..)
    } else if count >= 0 && length > count {
        text.get(..usize::try_from(count).unwrap_or(0))
    } else {
        return Ok(call.take(1));
    };
    let text = Text::from_bytes(part.unwrap_or_default());
    call.answer_text(text)
}

fn substr(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let (start, end, text) = (call.int(0), call.int(1), call.bytes(2));
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let out_of_range =
        |what: String| Err(Failure::new(format!("runtime error: slice bounds out of range {what}")));
    let (start, end) = if start < 0 {
        if end < 0 {
            return out_of_range(format!("[:{end}]"));
        }
        if end > length {
            return out_of_range(format!("[:{end}] with length {length}"));
        }
        (0, end)
    } else if end < 0 || end > length {
        if start > length {
            return out_of_range(format!("[{start}:{length}]"));
        }
        (start, length)
    } else if start > end {
        return out_of_range(format!("[{start}:{end}]"));
    } else {
        (start, end)
    };
    let place = |at: i64| usize::try_from(at).unwrap_or(0);
    let text = Text::from_bytes(text.get(place(start)..place(end)).unwrap_or_default());
    call.answer_text(text)
}

/// The items of a list as texts; other values as the only one.
pub(super) fn texts(call: &mut Call<'_, '_>, at: usize) -> Result<List, Failure> {
    let value = call.value(at);
    if let Value::List(list) = value
        && list.list_type().name == ListType::TEXTS.name
    {
        return Ok(list.clone());
    }
    let limit = call.limit();
    let items = match value.items() {
        Some(items) => items.to_vec(),
        None if value.is_nil() => Vec::new(),
        None => vec![value.clone()],
    };
    call.makes_items(items.len())?;
    let capacity = items.len();
    let texts: Result<Vec<Value>, Failure> = items
        .iter()
        .filter(|item| !item.is_nil())
        .map(|item| {
            let text = strval(item, limit)?;
            call.makes_text(text.len())?;
            Ok(Value::Text(text))
        })
        .collect();
    Ok(List::with_capacity(&ListType::TEXTS, texts?, capacity))
}

fn join(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let list = texts(call, 1)?;
    call.spend(list.len())?;
    let separator = call.text(0).clone();
    let mut out = Vec::new();
    for place in 0..list.len() {
        if place > 0 {
            out.extend_from_slice(separator.as_bytes());
        }
        if let Some(Value::Text(text)) = list.get(place) {
            out.extend_from_slice(text.as_bytes());
        }
        if out.len() > call.limit() {
            break;
        }
    }
    call.answer_text(out)
}

fn sort_alpha(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    if call.value(0).is_nil() {
        return Ok(Value::List(List::typed(&ListType::TEXTS, vec![Value::text("<nil>")])));
    }
    let list = texts(call, 0)?;
    // A list of texts is sorted where it stands, and whoever has it sees that. Comparing looks at all that two texts
    // have in common: at the longest, for each of the comparisons.
    let longest = (0..list.len()).filter_map(|at| list.get(at)?.as_text().map(Text::len)).max().unwrap_or(0);
    let comparisons = list.len().saturating_mul(list.len().max(2).ilog2() as usize);
    call.spend(comparisons.saturating_mul(1 + longest / 64) / 2)?;
    call.makes_items(list.len())?;
    let mut items = list.to_vec();
    items.sort_by(|left, right| left.as_text().cmp(&right.as_text()));
    list.overwrite(items);
    Ok(Value::List(list))
}

/// `strings.TrimSpace`.
pub(crate) fn trim_space(text: &[u8]) -> &[u8] {
    trim(text, crate::unicode::is_space)
}

fn trim(text: &[u8], cut: impl Fn(char) -> bool) -> &[u8] {
    let mut start = 0;
    'chunks: for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            if !cut(character) {
                break 'chunks;
            }
            start += character.len_utf8();
        }
        for _ in chunk.invalid() {
            if !cut(char::REPLACEMENT_CHARACTER) {
                break 'chunks;
            }
            start += 1;
        }
    }
    let rest = text.get(start..).unwrap_or_default();
    let mut end = 0;
    let mut at = 0;
    for chunk in rest.utf8_chunks() {
        for character in chunk.valid().chars() {
            at += character.len_utf8();
            if !cut(character) {
                end = at;
            }
        }
        for _ in chunk.invalid() {
            at += 1;
            if !cut(char::REPLACEMENT_CHARACTER) {
                end = at;
            }
        }
    }
    rest.get(..end).unwrap_or_default()
}

fn trim_all(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let set: Vec<char> = to_str(call.bytes(0)).chars().collect();
    // The set is searched for each character that goes: a fifth of a nanosecond for each of it.
    call.spend(set.len().saturating_mul(call.bytes(1).len()) / 128)?;
    let text = Text::from_bytes(trim(call.bytes(1), |character| set.contains(&character)));
    call.answer_text(text)
}

/// Steps of one number of chance: where renderings have to repeat themselves it takes two digests.
const CHANCE_STEPS: usize = 8;

/// A number below a bound.
pub(super) fn random_below(call: &Call<'_, '_>, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    call.environment().random(&mut bytes);
    // The bounds are small: that some numbers come more often by one in 2^50 shows nowhere.
    u64::from_le_bytes(bytes) % bound.max(1)
}

fn random(call: &mut Call<'_, '_>, characters: &[u8]) -> Result<Value, Failure> {
    let count = usize::try_from(call.int(0)).unwrap_or(0);
    call.makes_text(count)?;
    call.spend(count.saturating_mul(CHANCE_STEPS))?;
    let bound = u64::try_from(characters.len()).unwrap_or(1);
    let pick = |_| {
        let at = usize::try_from(random_below(call, bound)).unwrap_or(0);
        characters.get(at).copied().unwrap_or(b'a')
    };
    let text: Vec<u8> = (0..count).map(pick).collect();
    Ok(Value::Text(text.into()))
}

fn shuffle(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    call.makes_text(call.bytes(0).len().saturating_mul(4))?;
    let mut characters: Vec<char> = to_str(call.bytes(0)).chars().collect();
    call.spend(characters.len().saturating_mul(CHANCE_STEPS))?;
    for at in (1..characters.len()).rev() {
        let other = random_below(call, u64::try_from(at + 1).unwrap_or(1));
        characters.swap(at, usize::try_from(other).unwrap_or(0));
    }
    let text: String = characters.into_iter().collect();
    call.answer_text(text)
}
