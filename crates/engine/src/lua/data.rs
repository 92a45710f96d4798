//! What a script returned, as data (ENG-132).

use mlua::Value as Lua;
use serde_json::{Map, Number, Value};

/// Depth of a result; what Kubernetes takes is not deeper.
const DEPTH_MAX: usize = 100;
/// Values of a result, so that a table that holds itself many times over does not become a large document.
const VALUES_MAX: usize = 200_000;
/// Bytes of the texts of a result; an API server takes less.
const BYTES_MAX: usize = 8 << 20;

/// Reads a value. A table with the keys 1..n is a list, and so is an empty one. Metatables do not count.
///
/// # Errors
/// When it is no data, or too much of it.
pub(crate) fn from_lua(value: &Lua) -> mlua::Result<Value> {
    Reading { values: 0, bytes: 0 }.value(value, 0)
}

struct Reading {
    values: usize,
    bytes: usize,
}

impl Reading {
    fn value(&mut self, value: &Lua, depth: usize) -> mlua::Result<Value> {
        self.values = self.values.saturating_add(1);
        if self.values > VALUES_MAX {
            return Err(refused(format!("it has more than {VALUES_MAX} values")));
        }
        if depth > DEPTH_MAX {
            return Err(refused(format!("it nests deeper than {DEPTH_MAX} tables")));
        }
        match value {
            Lua::Nil => Ok(Value::Null),
            Lua::Boolean(flag) => Ok(Value::Bool(*flag)),
            Lua::Integer(number) => Ok((*number).into()),
            Lua::Number(number) => {
                self::number(*number).ok_or_else(|| refused(format!("{number} is no number of JSON")))
            }
            Lua::String(text) => Ok(Value::String(self.text(text)?)),
            Lua::Table(table) => self.table(table, depth.saturating_add(1)),
            other => Err(refused(format!("a {} is no data", other.type_name()))),
        }
    }

    fn text(&mut self, text: &mlua::LuaString) -> mlua::Result<String> {
        self.bytes = self.bytes.saturating_add(text.as_bytes().len());
        if self.bytes > BYTES_MAX {
            return Err(refused(format!("its texts have more than {BYTES_MAX} bytes")));
        }
        Ok(text.to_string_lossy())
    }

    fn table(&mut self, table: &mlua::Table, depth: usize) -> mlua::Result<Value> {
        // The length of a table with gaps is one of several numbers; counting tells whether there are any.
        let (length, mut keys) = (table.raw_len(), 0_usize);
        let mut members = Map::new();
        for pair in table.pairs::<Lua, Lua>() {
            let (key, value) = pair?;
            keys = keys.saturating_add(1);
            match key {
                Lua::String(name) if length == 0 => {
                    members.insert(self.text(&name)?, self.value(&value, depth)?);
                }
                Lua::Integer(at) if usize::try_from(at).is_ok_and(|at| (1..=length).contains(&at)) => {}
                _ => return Err(refused("a table has to be a list without gaps, or have texts as keys")),
            }
        }
        if keys > 0 && length == 0 {
            return Ok(Value::Object(members));
        }
        if keys != length {
            return Err(refused("a list has gaps"));
        }
        (1..=length)
            .map(|at| self.value(&table.raw_get(at)?, depth))
            .collect::<Result<_, _>>()
            .map(Value::Array)
    }
}

/// A number as JSON has it: what is whole has no fraction, as scripts divide without meaning one.
fn number(number: f64) -> Option<Value> {
    // The largest number up to which every whole number is one of these.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 53 bits")]
        return Some((number as i64).into());
    }
    Number::from_f64(number).map(Value::Number)
}

fn refused(reason: impl std::fmt::Display) -> mlua::Error {
    mlua::Error::runtime(format!("the result of the Lua script cannot be used: {reason}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::lua::{Script, run};

    fn read(text: &str) -> Result<Value, String> {
        let object = json!({"a": [1, {"b": 2.5}], "empty": {}});
        run(Script { text, open_libraries: false, now: None, params: None }, &object, |it| from_lua(&it))
    }

    #[test]
    fn eng_132_tables_become_lists_and_objects() {
        assert_eq!(read("return obj"), Ok(json!({"a": [1, {"b": 2.5}], "empty": []})));
        assert_eq!(read("return {1, 10 / 2, true, 'x'}"), Ok(json!([1, 5, true, "x"])));
        assert_eq!(read("return {[2] = 'b', [1] = 'a'}"), Ok(json!(["a", "b"])));
        assert_eq!(read("local t = {a = 1} t.a = nil return t"), Ok(json!([])));
        assert_eq!(read(""), Ok(Value::Null));
        for (text, reason) in [
            ("return {1, a = 2}", "texts as keys"),
            ("return {a = 2, [5] = 1}", "texts as keys"),
            ("return {f = function() end}", "function is no data"),
            ("return {a = 0 / 0}", "no number of JSON"),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
        }
    }

    #[test]
    fn eng_131_results_are_bounded() {
        for (text, reason) in [
            ("local t = {} t.t = t return t", "nests deeper"),
            ("local t = {} for i = 1, 5000 do t = {t} end return t", "nests deeper"),
            ("local t = {'x'} for i = 1, 60 do t = {t, t} end return t", "more than 200000 values"),
            (
                "local s = 'xxxxxxxx' for i = 1, 18 do s = s .. s end local t = {} for i = 1, 9 do t[i] = s end return t",
                "more than 8388608 bytes",
            ),
        ] {
            let message = read(text).unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
        }
        let turns = "return setmetatable({a = 1}, {__pairs = function() while true do end end})";
        assert_eq!(read(turns), Ok(json!({"a": 1})));
    }
}
