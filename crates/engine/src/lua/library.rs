//! Functions of Lua's library that work by the size of texts and tables, charged by it (ENG-131, SEC-07).
//!
//! The machine counts instructions, and a call of the library is one instruction however long it takes. What is here
//! takes its steps from the same budget, before or while it works. `prelude.lua` puts it in the place of the
//! library's own. A function here returns its problem first, which the prelude raises at the caller's line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use mlua::{Lua, LuaString, MultiValue, Table, Value};

use super::pattern::{self, BYTES_PER_STEP, Captured, Matcher, Problem};
use super::{BYTES_MAX, EXPIRED, STEPS_MAX};

const TOO_EXPENSIVE: &str = "context deadline exceeded: the pattern is too expensive for this text";
const NO_MEMORY: &str = "not enough memory";
const UNFINISHED: &str = "unfinished capture";

/// Steps of one script.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    used: Arc<AtomicU64>,
    expired: Arc<AtomicBool>,
}

impl Meter {
    /// Takes steps from the budget.
    ///
    /// # Errors
    /// When none are left.
    pub(super) fn charge(&self, steps: u64) -> Result<(), &'static str> {
        // The count wraps after more calls than a script can make.
        let used = self.used.fetch_add(steps.min(STEPS_MAX), Ordering::Relaxed);
        if used.saturating_add(steps) <= STEPS_MAX {
            return Ok(());
        }
        self.expired.store(true, Ordering::Relaxed);
        Err(EXPIRED)
    }

    /// Whether the budget is used up.
    pub(super) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }

    fn left(&self) -> u64 {
        STEPS_MAX.saturating_sub(self.used.load(Ordering::Relaxed))
    }

    /// Takes steps for so many bytes.
    fn charge_bytes(&self, bytes: usize) -> Result<(), &'static str> {
        self.charge((bytes / BYTES_PER_STEP + 1) as u64)
    }

    /// Runs a match, and takes the steps that it took.
    fn matching<'a, T>(
        &self,
        (subject, pattern): (&'a [u8], &'a [u8]),
        run: impl FnOnce(&mut Matcher<'a>) -> Result<T, Problem>,
    ) -> Result<T, &'static str> {
        let left = self.left();
        let mut matcher = Matcher::new(subject, pattern, left);
        let found = run(&mut matcher);
        self.charge(left.saturating_sub(matcher.steps_left()))?;
        found.map_err(|problem| match problem {
            Problem::Pattern(text) => text,
            Problem::Exhausted => {
                self.expired.store(true, Ordering::Relaxed);
                TOO_EXPENSIVE
            }
        })
    }
}

/// Gives the prelude what it builds on; it takes the names away again.
pub(super) fn add(lua: &Lua, meter: &Meter) -> mlua::Result<()> {
    let globals = lua.globals();
    let own = meter.clone();
    globals.raw_set("__expired", lua.create_function(move |_, ()| Ok(own.is_expired()))?)?;
    let own = meter.clone();
    globals.raw_set("__charge", lua.create_function(move |_, bytes: f64| Ok(charge(&own, bytes)))?)?;
    let own = meter.clone();
    globals.raw_set(
        "__sorting",
        lua.create_function(move |_, (table, ordered)| sorting(&own, &table, ordered))?,
    )?;
    let own = meter.clone();
    globals.raw_set(
        "__concat",
        lua.create_function(move |lua, asked| answer(lua, concat(lua, &own, &asked)))?,
    )?;
    let own = meter.clone();
    globals
        .raw_set("__find", lua.create_function(move |lua, asked| answer(lua, find(lua, &own, &asked)))?)?;
    let own = meter.clone();
    globals
        .raw_set("__each", lua.create_function(move |lua, asked| answer(lua, each(lua, &own, &asked)))?)?;
    let own = meter.clone();
    globals.raw_set("__gsub", lua.create_function(move |lua, asked| answer(lua, gsub(lua, &own, &asked)))?)
}

/// Why a function has no result: what the prelude raises, or an error that passes through.
enum Fault {
    Raised(String),
    Passed(mlua::Error),
}

impl From<&'static str> for Fault {
    fn from(text: &'static str) -> Self {
        Self::Raised(text.to_owned())
    }
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Self::Passed(error)
    }
}

fn answer(lua: &Lua, found: Result<Vec<Value>, Fault>) -> mlua::Result<MultiValue> {
    match found {
        Ok(values) => Ok(std::iter::once(Value::Nil).chain(values).collect()),
        Err(Fault::Raised(text)) => Ok(std::iter::once(Value::String(lua.create_string(text)?)).collect()),
        Err(Fault::Passed(error)) => Err(error),
    }
}

fn charge(meter: &Meter, bytes: f64) -> Option<&'static str> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let bytes = bytes as usize;
    // What is larger ends for the lack of memory.
    meter.charge_bytes(bytes.min(2 * BYTES_MAX)).err()
}

/// Charges what sorting takes: comparisons, and in them the bytes of the longest text.
fn sorting(meter: &Meter, table: &Table, has_order: bool) -> mlua::Result<Option<&'static str>> {
    let length = table.raw_len();
    let mut longest = 0;
    for at in 1..=length {
        if !has_order && let Value::String(text) = table.raw_get(at)? {
            longest = longest.max(text.as_bytes().len());
        }
    }
    let comparisons = length.saturating_mul(length.checked_ilog2().unwrap_or_default() as usize + 1);
    // A comparison without a text is cheaper than a step.
    Ok(meter.charge_bytes(comparisons.saturating_mul(8 + longest)).err())
}

/// `table.concat(table, separator, first, last)`.
fn concat(
    lua: &Lua,
    meter: &Meter,
    (table, separator, first, last): &(Table, LuaString, i64, i64),
) -> Result<Vec<Value>, Fault> {
    let separator = separator.as_bytes();
    let mut made = Vec::new();
    for at in *first..=*last {
        let item: Value = table.raw_get(at)?;
        let text = match item {
            Value::String(text) => Some(text),
            Value::Integer(_) | Value::Number(_) => lua.coerce_string(item)?,
            _ => None,
        };
        let Some(text) = text else {
            return Err(Fault::Raised(format!("invalid value (at index {at}) in table for 'concat'")));
        };
        if at > *first {
            append(meter, &mut made, &separator)?;
        }
        append(meter, &mut made, &text.as_bytes())?;
    }
    Ok(vec![Value::String(lua.create_string(made)?)])
}

fn append(meter: &Meter, made: &mut Vec<u8>, bytes: &[u8]) -> Result<(), &'static str> {
    meter.charge_bytes(bytes.len())?;
    if made.len().saturating_add(bytes.len()) > BYTES_MAX {
        return Err(NO_MEMORY);
    }
    made.extend_from_slice(bytes);
    Ok(())
}

/// The position that a number names in a text of a length, from 0; the end where it is behind it.
fn position(at: Option<f64>, length: usize) -> usize {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let at = at.unwrap_or(1.0) as i64;
    let from_front = usize::try_from(at).unwrap_or_default().saturating_sub(1);
    let from_end = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    if at < 0 { length.saturating_sub(from_end) } else { from_front.min(length + 1) }
}

fn number(number: usize) -> Value {
    Value::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

fn values(lua: &Lua, meter: &Meter, subject: &[u8], all: &[Captured]) -> Result<Vec<Value>, Fault> {
    let value = |one: &Captured| match one {
        Captured::Position(at) => Ok(number(*at)),
        Captured::Text(range) => {
            meter.charge_bytes(range.len())?;
            Ok(Value::String(lua.create_string(subject.get(range.clone()).unwrap_or_default())?))
        }
        Captured::Unfinished => Err(UNFINISHED.into()),
    };
    all.iter().map(value).collect()
}

/// `string.find` and `string.match`, which differ in what they return.
fn find(
    lua: &Lua,
    meter: &Meter,
    (subject, pattern, init, is_plain, is_find): &(LuaString, LuaString, Option<f64>, bool, bool),
) -> Result<Vec<Value>, Fault> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let start = position(*init, subject.len());
    if start > subject.len() {
        return Ok(vec![Value::Nil]);
    }
    let is_plain = *is_plain || (*is_find && !pattern.iter().any(|byte| b"^$*+?.([%-".contains(byte)));
    let (anchored, body) = match pattern.split_first() {
        Some((b'^', rest)) if !is_plain => (true, rest),
        _ => (false, &*pattern),
    };
    let found = meter.matching((&*subject, body), |matcher| {
        let found =
            if is_plain { pattern::plain(matcher, start)? } else { matcher.search(start, anchored)? };
        let Some(range) = found else { return Ok(None) };
        let captured = if is_plain { Vec::new() } else { matcher.captured(&range, !*is_find) };
        Ok(Some((range, captured)))
    })?;
    let Some((range, captured)) = found else { return Ok(vec![Value::Nil]) };
    let mut results = Vec::new();
    if *is_find {
        results.extend([number(range.start + 1), number(range.end)]);
    }
    results.extend(values(lua, meter, &subject, &captured)?);
    Ok(results)
}

/// One round of `string.gmatch`: where the next one starts, and the captures.
fn each(
    lua: &Lua,
    meter: &Meter,
    (subject, pattern, at): &(LuaString, LuaString, f64),
) -> Result<Vec<Value>, Fault> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let start = position(Some(*at), subject.len());
    if start > subject.len() {
        return Ok(vec![Value::Nil]);
    }
    let found = meter.matching((&*subject, &*pattern), |matcher| {
        let Some(range) = matcher.search(start, false)? else { return Ok(None) };
        let captured = matcher.captured(&range, true);
        Ok(Some((range, captured)))
    })?;
    let Some((range, captured)) = found else { return Ok(vec![Value::Nil]) };
    let next = range.end + usize::from(range.is_empty());
    let mut results = vec![number(next + 1)];
    results.extend(values(lua, meter, &subject, &captured)?);
    Ok(results)
}

/// `string.gsub(subject, pattern, replacement, limit)`.
fn gsub(
    lua: &Lua,
    meter: &Meter,
    (subject, pattern, replacement, limit): &(LuaString, LuaString, Value, Option<f64>),
) -> Result<Vec<Value>, Fault> {
    let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
    let (anchored, body) = match pattern.split_first() {
        Some((b'^', rest)) => (true, rest),
        _ => (false, &*pattern),
    };
    let (mut made, mut count, mut at) = (Vec::new(), 0_usize, 0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
    let limit = limit.map_or(usize::MAX, |limit| limit as usize);
    while count < limit {
        let found = meter.matching((&*subject, body), |matcher| {
            let Some(end) = matcher.at(at)? else { return Ok(None) };
            let captured = matcher.captured(&(at..end), true);
            Ok(Some((end, captured)))
        })?;
        if let Some((end, captured)) = &found {
            count += 1;
            replace(lua, meter, (&subject, at..*end), (captured, replacement), &mut made)?;
        }
        match found {
            Some((end, _)) if end > at => at = end,
            _ => {
                let Some(byte) = subject.get(at) else { break };
                append(meter, &mut made, &[*byte])?;
                at += 1;
            }
        }
        if anchored {
            break;
        }
    }
    append(meter, &mut made, subject.get(at..).unwrap_or_default())?;
    Ok(vec![Value::String(lua.create_string(made)?), number(count)])
}

/// Appends what a match becomes.
fn replace(
    lua: &Lua,
    meter: &Meter,
    (subject, whole): (&[u8], std::ops::Range<usize>),
    (captured, replacement): (&[Captured], &Value),
    made: &mut Vec<u8>,
) -> Result<(), Fault> {
    let own = subject.get(whole).unwrap_or_default();
    let result = match replacement {
        Value::Function(function) => function
            .call::<Value>(values(lua, meter, subject, captured)?.into_iter().collect::<MultiValue>())?,
        Value::Table(table) => {
            match values(lua, meter, subject, captured.get(..1).unwrap_or_default())?.pop() {
                Some(key) => table.get::<Value>(key)?,
                None => Value::Nil,
            }
        }
        Value::String(template) => {
            return expand(meter, &template.as_bytes(), (subject, own), captured, made);
        }
        _ => return Err("bad argument #3 to 'gsub' (string/function/table expected)".into()),
    };
    match &result {
        Value::Nil | Value::Boolean(false) => Ok(append(meter, made, own)?),
        Value::String(text) => Ok(append(meter, made, &text.as_bytes())?),
        Value::Integer(_) | Value::Number(_) => {
            let text = lua.coerce_string(result)?;
            Ok(text.map_or(Ok(()), |text| append(meter, made, &text.as_bytes()))?)
        }
        other => Err(Fault::Raised(format!("invalid replacement value (a {})", other.type_name()))),
    }
}

/// Appends a replacement with its references to captures.
fn expand(
    meter: &Meter,
    template: &[u8],
    (subject, own): (&[u8], &[u8]),
    captured: &[Captured],
    made: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut rest = template;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        append(meter, made, rest.get(..at).unwrap_or_default())?;
        match rest.get(at + 1) {
            Some(b'%') => append(meter, made, b"%")?,
            Some(b'0') => append(meter, made, own)?,
            Some(digit @ b'1'..=b'9') => match captured.get(usize::from(digit - b'1')) {
                Some(Captured::Text(range)) => {
                    append(meter, made, subject.get(range.clone()).unwrap_or_default())?;
                }
                Some(Captured::Position(at)) => append(meter, made, at.to_string().as_bytes())?,
                Some(Captured::Unfinished) => return Err(UNFINISHED.into()),
                None => return Err("invalid capture index".into()),
            },
            _ => return Err("invalid use of '%' in replacement string".into()),
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    Ok(append(meter, made, rest)?)
}
