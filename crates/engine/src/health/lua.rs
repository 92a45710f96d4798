//! Runs one health script in a machine of its own (ENG-128..132, DEP-44, DEP-45).
//!
//! A machine lives for one script. It has budgets in instructions and bytes instead of a deadline, so that equal
//! inputs give equal answers. Three ways around a budget are closed: `pcall` cannot swallow the end of the budget,
//! there are no finalizers, which run outside of it, and patterns that would keep the matcher busy for very long are
//! refused before they start. Patterns below that bound can still take many seconds; where scripts meet objects of
//! tenants, another process runs them, which is killed when it takes too long (`scripts`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use mlua::{HookTriggers, Lua, LuaOptions, StdLib, VmState};
use serde_json::Value;

use super::overrides::ScriptClock;
use super::reader::Verdict;
use super::{Health, HealthCode, HealthError, INVALID_STATUS};

/// Instructions one script may run; about a second of work on a slow machine.
const STEPS_MAX: u64 = 20_000_000;
const STEPS_PER_CHECK: u32 = 1_000;
/// Memory one script may use (ENG-131).
const BYTES_MAX: usize = 64 << 20;
/// Work a pattern may cause at worst, in characters looked at.
const PATTERN_WORK_MAX: f64 = 1e9;

const EXPIRED: &str = "context deadline exceeded: the script used up its budget";

/// Older names that scripts use, and wrappers that keep budgets in force.
const PRELUDE: &str = r"
table.getn = function(t) return #t end
unpack = table.unpack
loadstring = load
local setmetatable_, rawget = setmetatable, rawget
function setmetatable(table, metatable)
  if type(metatable) == 'table' and rawget(metatable, '__gc') ~= nil then error('finalizers are not available', 2) end
  return setmetatable_(table, metatable)
end
local expired, check = __expired, __check
__expired, __check = nil, nil
local function guard(call)
  return function(...)
    local results = table.pack(call(...))
    if expired() then error('context deadline exceeded: the script used up its budget', 0) end
    return table.unpack(results, 1, results.n)
  end
end
pcall = guard(pcall)
xpcall = guard(xpcall)
if coroutine then coroutine.resume = guard(coroutine.resume) end
if string then
  for _, name in ipairs({'find', 'match', 'gmatch', 'gsub'}) do
    local original = string[name]
    string[name] = function(subject, pattern, ...)
      check(subject, pattern)
      return original(subject, pattern, ...)
    end
  end
  local rep = string.rep
  string.rep = function(text, count, ...)
    if text == '' and select('#', ...) == 0 then return '' end
    return rep(text, count, ...)
  end
end
";

/// Runs a script over a live object.
pub(super) fn run(text: &str, open_libraries: bool, object: &Value, clock: Option<&ScriptClock>) -> Verdict {
    evaluate(text, open_libraries, object, clock)
        .map_err(|error| HealthError { message: single_line(&error) })
}

fn evaluate(
    text: &str,
    open_libraries: bool,
    object: &Value,
    clock: Option<&ScriptClock>,
) -> mlua::Result<Option<Health>> {
    let lua = machine(open_libraries, clock)?;
    lua.globals().set("obj", to_lua(&lua, object)?)?;
    let result: mlua::Value = lua.load(text).set_name("=<string>").eval()?;
    match result {
        mlua::Value::Nil => Ok(None),
        mlua::Value::Table(table) => read_table(&table),
        other => {
            let kind = if other.is_integer() { "number" } else { other.type_name() };
            Err(mlua::Error::runtime(format!("expect table output from Lua script, not {kind}")))
        }
    }
}

/// Health of a result table. A list, or members of another type, read as no health, as they do for users of the
/// reference.
fn read_table(table: &mlua::Table) -> mlua::Result<Option<Health>> {
    let text = |name: &str| -> mlua::Result<Option<String>> {
        match table.raw_get::<mlua::Value>(name)? {
            mlua::Value::Nil => Ok(Some(String::new())),
            mlua::Value::String(text) => Ok(Some(text.to_string_lossy())),
            _ => Ok(None),
        }
    };
    let is_list = table.raw_len() > 0 || table.is_empty();
    let (Some(status), Some(message), false) = (text("status")?, text("message")?, is_list) else {
        return Ok(None);
    };
    Ok(Some(match HealthCode::parse(&status) {
        Some(code) => Health::new(code, message),
        None => Health::new(HealthCode::Unknown, INVALID_STATUS),
    }))
}

/// A fresh machine with its libraries, budgets and wrappers.
fn machine(open_libraries: bool, clock: Option<&ScriptClock>) -> mlua::Result<Lua> {
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
    let expired = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&expired);
    globals.raw_set("__expired", lua.create_function(move |_, ()| Ok(seen.load(Ordering::Relaxed)))?)?;
    globals.raw_set("__check", lua.create_function(check_pattern)?)?;
    add_load(&lua)?;
    add_modules(&lua, open_libraries, clock)?;
    lua.load(PRELUDE).set_name("=prelude").exec()?;

    let steps = AtomicU64::new(0);
    lua.set_global_hook(HookTriggers::new().every_nth_instruction(STEPS_PER_CHECK), move |_, _| {
        let used = steps.fetch_add(u64::from(STEPS_PER_CHECK), Ordering::Relaxed);
        if used < STEPS_MAX {
            return Ok(VmState::Continue);
        }
        expired.store(true, Ordering::Relaxed);
        Err(mlua::Error::runtime(EXPIRED))
    })?;
    Ok(lua)
}

/// `load` of text only: binary chunks could break the machine.
fn add_load(lua: &Lua) -> mlua::Result<()> {
    let load = lua.create_function(|lua, (chunk, name): (mlua::Value, Option<String>)| {
        let mlua::Value::String(text) = chunk else {
            return Err(mlua::Error::runtime("only text can be loaded"));
        };
        let name = name.unwrap_or_else(|| "=<load>".to_owned());
        let chunk = lua.load(text.to_string_lossy()).set_name(name).set_mode(mlua::chunk::ChunkMode::Text);
        match chunk.into_function() {
            Ok(function) => Ok((Some(function), None)),
            Err(error) => Ok((None, Some(single_line(&error)))),
        }
    })?;
    lua.globals().raw_set("load", load)
}

/// `require` of the offered modules, and nothing else (ENG-129, ENG-130).
fn add_modules(lua: &Lua, open_libraries: bool, clock: Option<&ScriptClock>) -> mlua::Result<()> {
    let os = lua.create_table()?;
    let now = clock.cloned();
    let now: ScriptClock = now.unwrap_or_else(|| Arc::new(|| Timestamp::UNIX_EPOCH));
    let clock = Arc::clone(&now);
    os.raw_set(
        "time",
        lua.create_function(move |_, table: Option<mlua::Table>| time(table.as_ref(), &clock))?,
    )?;
    os.raw_set(
        "date",
        lua.create_function(move |lua, (format, at): (Option<String>, Option<f64>)| {
            date(lua, format.as_deref().unwrap_or("%c"), at, &now)
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

fn time(table: Option<&mlua::Table>, clock: &ScriptClock) -> mlua::Result<f64> {
    let seconds = |at: Timestamp| {
        #[expect(clippy::cast_precision_loss, reason = "seconds of a timestamp fit into 53 bits")]
        let seconds = at.as_second() as f64;
        seconds
    };
    let Some(table) = table else { return Ok(seconds(clock())) };
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
fn date(lua: &Lua, format: &str, at: Option<f64>, clock: &ScriptClock) -> mlua::Result<mlua::Value> {
    let at = match at {
        #[expect(clippy::cast_possible_truncation, reason = "fractions of a second are not shown")]
        Some(seconds) => Timestamp::from_second(seconds as i64)
            .map_err(|error| mlua::Error::runtime(format!("the time is out of range: {error}")))?,
        None => clock(),
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

/// Refuses patterns whose matching could take very long: it runs outside the reach of the instruction budget.
fn check_pattern(_: &Lua, (subject, pattern): (mlua::Value, mlua::Value)) -> mlua::Result<()> {
    let (mlua::Value::String(subject), mlua::Value::String(pattern)) = (subject, pattern) else {
        return Ok(());
    };
    let pattern = pattern.as_bytes();
    let mut repeats = 0_i32;
    let (mut is_escaped, mut in_set) = (false, false);
    for byte in &*pattern {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'%' => is_escaped = true,
            b'[' => in_set = true,
            b']' => in_set = false,
            b'*' | b'+' | b'-' | b'?' if !in_set => repeats = repeats.saturating_add(1),
            _ => {}
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let length = (subject.as_bytes().len() + 1) as f64;
    if repeats > 1 && length.powi(repeats) > PATTERN_WORK_MAX {
        return Err(mlua::Error::runtime("the pattern is too expensive for this text"));
    }
    Ok(())
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
mod tests {
    use super::*;
    use serde_json::json;

    fn run_text(text: &str, open_libraries: bool) -> Verdict {
        let object =
            json!({"status": {"count": 3, "list": ["a", "b"], "none": null, "big": 1_000_000_000_000_i64}});
        run(text, open_libraries, &object, None)
    }

    fn health(text: &str) -> Option<(String, String)> {
        run_text(text, true).unwrap().map(|health| (health.status.as_str().to_owned(), health.message))
    }

    fn error(text: &str) -> String {
        run_text(text, false).unwrap_err().message
    }

    #[test]
    fn eng_128_the_object_is_tables() {
        let text = "local n = 0 for _, v in ipairs(obj.status.list) do if v == 'a' then goto continue end n = n + 1 ::continue:: end
            return {status = 'Healthy', message = obj.status.list[1] .. n .. tostring(obj.status.none) .. obj.status.count .. obj.status.big}";
        assert_eq!(health(text), Some(("Healthy".to_owned(), "a1nil31000000000000".to_owned())));
    }

    #[test]
    fn eng_129_libraries_are_closed_unless_opened() {
        assert!(error("return {status = string.format('x')}").contains("nil value"));
        assert!(error("return {status = math.floor(1)}").contains("nil value"));
        assert_eq!(health("return {status = 'Healthy', message = ('x'):rep(2)}").unwrap().1, "xx");
        let text = "local os = require('os') return {status='Healthy', message=os.date('!%Y-%m-%dT%H:%M:%SZ', 86400)}";
        assert_eq!(health(text).unwrap().1, "1970-01-02T00:00:00Z");
        assert!(error("require('io')").contains("module io not found"));
    }

    #[test]
    fn eng_130_files_and_processes_are_out_of_reach() {
        for name in ["io", "debug", "dofile", "loadfile", "package", "os.execute", "os.getenv", "os.remove"] {
            let text = format!("local os = os or {{}} return {{status='Healthy', message=tostring({name})}}");
            assert_eq!(health(&text).unwrap().1, "nil", "{name}");
        }
        assert!(
            health("return {status = 'Healthy', message = tostring(load('\\27Lua'))}")
                .unwrap()
                .1
                .contains("nil")
        );
    }

    #[test]
    fn eng_131_budgets_end_every_script() {
        for text in [
            "while true do end",
            "while true do pcall(function() while true do end end) end",
            "local t = {} while true do t[#t + 1] = {} end",
        ] {
            assert!(run_text(text, true).is_err(), "{text}");
        }
        assert!(error("while true do end").contains("context deadline exceeded"));
        let text = "return string.find(('a'):rep(3000), ('a-'):rep(30) .. 'b')";
        assert!(run_text(text, true).unwrap_err().message.contains("too expensive"));
        assert!(run_text("return ('x'):rep(1e9)", true).is_err());
    }

    /// Finalizers would run where no budget counts (SEC-10).
    #[test]
    fn sec_10_finalizers_are_not_available() {
        let endless = "{__gc = function() while true do end end}";
        let message = error(&format!("setmetatable({{}}, {endless})"));
        assert!(message.contains("finalizers are not available"), "{message}");
        let caught = format!(
            "pcall(setmetatable, {{}}, {endless}) for i = 1, 100000 do local garbage = {{i}} end
             return {{status = 'Healthy'}}"
        );
        assert!(health(&caught).is_some());
        let kept =
            "local t = setmetatable({}, {__index = {a = 'x'}}) return {status = 'Healthy', message = t.a}";
        assert_eq!(health(kept).unwrap().1, "x");
    }

    #[test]
    fn eng_132_results() {
        assert_eq!(health("return nil"), None);
        assert_eq!(health("return {}"), None);
        assert_eq!(health("return {1, 2}"), None);
        let invalid = Some(("Unknown".to_owned(), "Lua returned an invalid health status".to_owned()));
        assert_eq!(health("return {status = 'Fine'}"), invalid);
        assert_eq!(error("return 3"), "expect table output from Lua script, not number");
        assert_eq!(error("return 'x'"), "expect table output from Lua script, not string");
        let message = error("error('boom')");
        assert_eq!(message, "<string>:1: boom");
    }
}
