//! A machine for one script of a user (ENG-128..133, DEP-44, DEP-45): health, discovery of actions, and actions.
//!
//! A machine lives for one script. It has budgets in instructions and bytes instead of a deadline, so that equal
//! inputs give equal answers. The ways around a budget are closed: `pcall` cannot swallow its end, there are no
//! finalizers, which run outside of it, functions of the library count no lengths that a script makes up, and those
//! that work by the size of texts and tables take steps by it ([`library`]), patterns by what they compare
//! ([`pattern`]). Single instructions still work by size (`..`, comparisons of texts): where scripts meet objects of
//! tenants, another process runs them, which is killed when it takes too long (`scripts`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mlua::{HookTriggers, Lua, LuaOptions, StdLib, VmState};
use serde_json::Value;

mod data;
mod library;
mod pattern;

pub(crate) use data::from_lua;
use library::Meter;

/// Instructions one script may run; about a second of work on a slow machine.
const STEPS_MAX: u64 = 20_000_000;
const STEPS_PER_CHECK: u32 = 1_000;
/// Memory one script may use (ENG-131).
const BYTES_MAX: usize = 64 << 20;
/// Steps of a character of a program that is compiled, and of one of a format of `os.date`.
const STEPS_PER_CHARACTER: u64 = 4;

const EXPIRED: &str = "context deadline exceeded: the script used up its budget";

const PRELUDE: &str = include_str!("lua/prelude.lua");

/// A script, and what it sees besides the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Script<'a> {
    /// Its text.
    pub(crate) text: &'a str,
    /// Whether it may use all of the standard library that is harmless (ENG-129).
    pub(crate) open_libraries: bool,
    /// The time; without one, the epoch.
    pub(crate) now: Option<Timestamp>,
    /// Values of parameters, for actions.
    pub(crate) params: Option<&'a BTreeMap<String, String>>,
}

/// Runs a script over an object, and reads its result.
///
/// # Errors
/// The first line of what went wrong.
pub(crate) fn run<T>(
    script: Script<'_>,
    object: &Value,
    read: impl FnOnce(mlua::Value) -> mlua::Result<T>,
) -> Result<T, String> {
    evaluate(script, object, read).map_err(|error| single_line(&error))
}

fn evaluate<T>(
    script: Script<'_>,
    object: &Value,
    read: impl FnOnce(mlua::Value) -> mlua::Result<T>,
) -> mlua::Result<T> {
    let lua = machine(script.open_libraries, script.now.unwrap_or(Timestamp::UNIX_EPOCH))?;
    lua.globals().raw_set("obj", to_lua(&lua, object)?)?;
    if let Some(params) = script.params {
        let table = lua.create_table()?;
        for (name, value) in params {
            table.raw_set(name.as_str(), value.as_str())?;
        }
        lua.globals().raw_set("actionParams", table)?;
    }
    read(lua.load(script.text).set_name("=<string>").eval()?)
}

/// What a script returned instead of a table (ENG-132).
pub(crate) fn not_a_table(value: &mlua::Value) -> mlua::Error {
    let kind = if value.is_integer() { "number" } else { value.type_name() };
    mlua::Error::runtime(format!("expect table output from Lua script, not {kind}"))
}

/// A fresh machine with its libraries, budgets and wrappers.
fn machine(open_libraries: bool, now: Timestamp) -> mlua::Result<Lua> {
    let libraries = if open_libraries {
        StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::COROUTINE
    } else {
        StdLib::TABLE
    };
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.set_memory_limit(BYTES_MAX)?;
    let globals = lua.globals();
    for name in ["dofile", "loadfile", "collectgarbage", "print"] {
        globals.raw_set(name, mlua::Value::Nil)?;
    }
    let meter = Meter::default();
    library::add(&lua, &meter)?;
    globals.raw_set("__plain", lua.create_function(check_length)?)?;
    add_load(&lua, &meter)?;
    add_modules(&lua, open_libraries, now, &meter)?;
    lua.load(PRELUDE).set_name("=prelude").exec()?;

    lua.set_global_hook(HookTriggers::new().every_nth_instruction(STEPS_PER_CHECK), move |_, _| {
        meter.charge(STEPS_PER_CHECK.into()).map_err(mlua::Error::runtime)?;
        Ok(VmState::Continue)
    })?;
    Ok(lua)
}

/// `load` of text only: binary chunks could break the machine.
fn add_load(lua: &Lua, meter: &Meter) -> mlua::Result<()> {
    let meter = meter.clone();
    let load = lua.create_function(move |lua, (chunk, name): (mlua::Value, Option<String>)| {
        let mlua::Value::String(text) = chunk else {
            return Err(mlua::Error::runtime("only text can be loaded"));
        };
        charge_characters(&meter, text.as_bytes().len())?;
        let name = name.unwrap_or_else(|| "=<load>".to_owned());
        let chunk = lua.load(text.to_string_lossy()).set_name(name).set_mode(mlua::chunk::ChunkMode::Text);
        match chunk.into_function() {
            Ok(function) => Ok((Some(function), None)),
            Err(error) => Ok((None, Some(single_line(&error)))),
        }
    })?;
    lua.globals().raw_set("load", load)
}

fn charge_characters(meter: &Meter, characters: usize) -> mlua::Result<()> {
    let steps = (characters as u64).saturating_mul(STEPS_PER_CHARACTER);
    meter.charge(steps).map_err(mlua::Error::runtime)
}

/// `require` of the offered modules, and nothing else (ENG-129, ENG-130).
fn add_modules(lua: &Lua, open_libraries: bool, now: Timestamp, meter: &Meter) -> mlua::Result<()> {
    let meter = meter.clone();
    let os = lua.create_table()?;
    os.raw_set("time", lua.create_function(move |_, table: Option<mlua::Table>| time(table.as_ref(), now))?)?;
    os.raw_set(
        "date",
        lua.create_function(move |lua, (format, at): (Option<String>, Option<f64>)| {
            let format = format.as_deref().unwrap_or("%c");
            charge_characters(&meter, format.len())?;
            date(lua, format, at, now)
        })?,
    )?;
    if open_libraries {
        lua.globals().raw_set("os", os.clone())?;
    }
    let require = lua.create_function(move |lua, name: String| match name.as_str() {
        "os" => Ok(os.clone()),
        "table" | "string" | "math" | "coroutine" => lua.globals().raw_get::<mlua::Table>(name.as_str()),
        _ => Err(mlua::Error::runtime(format!("module {name} not found"))),
    })?;
    lua.globals().raw_set("require", require)
}

fn time(table: Option<&mlua::Table>, now: Timestamp) -> mlua::Result<f64> {
    let seconds = |at: Timestamp| {
        #[expect(clippy::cast_precision_loss, reason = "seconds of a timestamp fit into 53 bits")]
        let seconds = at.as_second() as f64;
        seconds
    };
    let Some(table) = table else { return Ok(seconds(now)) };
    let member = |name: &str, default: i16| -> mlua::Result<i16> {
        Ok(table.raw_get::<Option<i16>>(name)?.unwrap_or(default))
    };
    let small = |value: i16| i8::try_from(value).unwrap_or(i8::MAX);
    let (year, month, day) = (member("year", 1970)?, member("month", 1)?, member("day", 1)?);
    let (hour, minute, second) = (member("hour", 12)?, member("min", 0)?, member("sec", 0)?);
    let moment = jiff::civil::DateTime::new(
        year,
        small(month),
        small(day),
        small(hour),
        small(minute),
        small(second),
        0,
    );
    let moment = moment.and_then(|moment| moment.to_zoned(TimeZone::UTC));
    moment
        .map(|moment| seconds(moment.timestamp()))
        .map_err(|error| mlua::Error::runtime(format!("the date is out of range: {error}")))
}

/// `os.date` in UTC, with the directives of ENG-133.
fn date(lua: &Lua, format: &str, at: Option<f64>, now: Timestamp) -> mlua::Result<mlua::Value> {
    let at = match at {
        #[expect(clippy::cast_possible_truncation, reason = "fractions of a second are not shown")]
        Some(seconds) => Timestamp::from_second(seconds as i64)
            .map_err(|error| mlua::Error::runtime(format!("the time is out of range: {error}")))?,
        None => now,
    };
    let moment = at.to_zoned(TimeZone::UTC);
    let format = format.strip_prefix('!').unwrap_or(format);
    if format == "*t" {
        let table = lua.create_table()?;
        table.raw_set("year", moment.year())?;
        table.raw_set("month", moment.month())?;
        table.raw_set("day", moment.day())?;
        table.raw_set("hour", moment.hour())?;
        table.raw_set("min", moment.minute())?;
        table.raw_set("sec", moment.second())?;
        table.raw_set("wday", moment.weekday().to_sunday_one_offset())?;
        table.raw_set("yday", moment.day_of_year())?;
        table.raw_set("isdst", false)?;
        return Ok(mlua::Value::Table(table));
    }
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            text.push(letter);
            continue;
        }
        let directive = match rest.next() {
            Some('c') => "%a %b %e %H:%M:%S %Y".to_owned(),
            Some('x') => "%m/%d/%y".to_owned(),
            Some('X') => "%H:%M:%S".to_owned(),
            Some('%') | None => "%%".to_owned(),
            Some(letter) if "aAbBdFHIjmMpSyYzZ".contains(letter) => format!("%{letter}"),
            Some(letter) => {
                text.push('%');
                text.push(letter);
                continue;
            }
        };
        let shown = jiff::fmt::strtime::format(&directive, &moment);
        text.push_str(
            &shown.map_err(|error| mlua::Error::runtime(format!("the format is not known: {error}")))?,
        );
    }
    Ok(mlua::Value::String(lua.create_string(&text)?))
}

/// Refuses tables whose length a script makes up: functions of the library would count to it outside the reach of the
/// instruction budget. Lua 5.1 asks no table for its length either.
fn check_length(_: &Lua, table: mlua::Value) -> mlua::Result<()> {
    let mlua::Value::Table(table) = table else { return Ok(()) };
    let has_length = match table.metatable() {
        Some(metatable) => !metatable.raw_get::<mlua::Value>("__len")?.is_nil(),
        None => false,
    };
    if has_length { Err(mlua::Error::runtime("lengths that are made up are not available")) } else { Ok(()) }
}

/// The value as Lua sees it: lists from 1, `null` absent, numbers as numbers (ENG-128).
fn to_lua(lua: &Lua, value: &Value) -> mlua::Result<mlua::Value> {
    Ok(match value {
        Value::Null => mlua::Value::Nil,
        Value::Bool(flag) => mlua::Value::Boolean(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => mlua::Value::Integer(integer),
            None => mlua::Value::Number(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => mlua::Value::String(lua.create_string(text)?),
        Value::Array(items) => {
            let table = lua.create_table_with_capacity(items.len(), 0)?;
            for item in items {
                table.raw_push(to_lua(lua, item)?)?;
            }
            mlua::Value::Table(table)
        }
        Value::Object(members) => {
            let table = lua.create_table_with_capacity(0, members.len())?;
            for (name, member) in members {
                table.raw_set(name.as_str(), to_lua(lua, member)?)?;
            }
            mlua::Value::Table(table)
        }
    })
}

/// The first line of an error, which is all that users see (ENG-132).
fn single_line(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return single_line(cause),
        mlua::Error::RuntimeError(text) | mlua::Error::MemoryError(text) => text.clone(),
        mlua::Error::SyntaxError { message, .. } => message.clone(),
        other => other.to_string(),
    };
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests;
