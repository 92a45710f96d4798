//! Health as a script of the user says it (ENG-132).

use serde_json::Value;

use super::reader::Verdict;
use super::{Health, HealthCode, HealthError, INVALID_STATUS};
use crate::lua::{Script, not_a_table};

/// Runs a script over a live object.
pub(super) fn run(script: Script<'_>, object: &Value) -> Verdict {
    crate::lua::run(script, object, |result| match result {
        mlua::Value::Nil => Ok(None),
        mlua::Value::Table(table) => read_table(&table),
        other => Err(not_a_table(&other)),
    })
    .map_err(|message| HealthError { message })
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run_text(text: &str, open_libraries: bool) -> Verdict {
        let object =
            json!({"status": {"count": 3, "list": ["a", "b"], "none": null, "big": 1_000_000_000_000_i64}});
        run(Script { text, open_libraries, now: None, params: None }, &object)
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
        assert!(run_text("return (''):rep(1e18, '')", true).is_err(), "a text is no health");
    }

    /// Functions of the library would count to a made-up length where no budget counts (SEC-10).
    #[test]
    fn sec_10_lengths_are_not_made_up() {
        let long = "setmetatable({}, {__len = function() return 2000000000 end, __metatable = {}})";
        for call in ["insert(t, 1, 1)", "remove(t, 1)", "concat(t)", "unpack(t)", "sort(t)"] {
            let message = error(&format!("local t = {long} return table.{call}"));
            assert!(message.contains("made up"), "{call}: {message}");
        }
        assert!(error("return table.move({}, 1, 2000000000, 2)").contains("nil value"));
        let kept =
            "local t = {'a'} table.insert(t, 'b') return {status = 'Healthy', message = table.concat(t)}";
        assert_eq!(health(kept).unwrap().1, "ab");
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
