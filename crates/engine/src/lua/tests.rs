use mlua::{Lua, LuaOptions, StdLib};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Script, from_lua, run};

fn answer(text: &str) -> Result<Value, String> {
    let script = Script { text, open_libraries: true, now: None, params: None };
    run(script, &json!({}), |it| from_lua(&it))
}

/// Each of these calls worked for minutes or hours, and was one instruction.
#[test]
fn sec_07_calls_of_the_lua_library_take_steps_by_size() {
    let text = "local s = string.rep('a', 4000000) ";
    let items = "local t = {} for i = 1, 20000 do t[i] = i % 977 end ";
    for call in [
        "return s:gsub('a*b', '')",
        "return s:find('.-.-b')",
        "for word in s:gmatch('a*b') do end",
        "return s:find(('a'):rep(2000000) .. 'b', 1, true)",
        "pcall(string.gsub, s, 'a*b', '') return {}",
        "for i = 1, 1000000 do local u = s:upper() end",
        "for i = 1, 1000000 do local u = s:reverse() end",
        "for i = 1, 1000000 do local u = s:sub(2) end",
        "for i = 1, 1000000 do local u = s:rep(3) end",
        "for i = 1, 1000000 do local u = string.format('%s', s) end",
        "for i = 1, 1000000 do pcall(string.format, '%s%d', s, 'x') end",
        "for i = 1, 1000000 do local u = s:find('b', 1, true) end",
        "for i = 1, 1000000 do pcall(string.byte, s, 1, 900000) end",
        "for i = 1, 1000000 do local u = table.concat({s, s}) end",
        "for i = 1, 1000000 do pcall(table.concat, {s, s, {}}) end",
        "for i = 1, 1000000 do local u = tonumber(s) end",
        "for i = 1, 1000000 do load(s) end",
        "local os = require('os') for i = 1, 1000000 do os.date(s) end",
    ] {
        let message = answer(&format!("{text}{call}")).unwrap_err();
        assert!(message.contains("context deadline exceeded"), "{call}: {message}");
    }
    for call in [
        "for i = 1, 1000000 do table.insert(t, 1, i) end",
        "for i = 1, 1000000 do table.insert(t, table.remove(t, 1)) end",
        "for i = 1, 1000000 do table.sort(t) end",
        "for i = 1, 1000000 do local a = unpack(t) end",
    ] {
        let message = answer(&format!("{items}{call}")).unwrap_err();
        assert!(message.contains("context deadline exceeded"), "{call}: {message}");
    }
}

/// What honest scripts do with texts of the size that objects have.
#[test]
fn eng_131_honest_work_with_texts_is_within_the_budget() {
    let lines = "local s = string.rep('key=value; some more text\\n', 8000) ";
    for (call, result) in [
        ("local n = 0 for k, v in s:gmatch('(%w+)=(.-);') do n = n + 1 end return {n}", json!([8000])),
        ("local r, n = s:gsub('%s+', ' ') return {n}", json!([32000])),
        (
            "return {#s:upper(), s:find('more$') or 'no', s:match('^(.-)\\n')}",
            json!([208_000, "no", "key=value; some more text"]),
        ),
        (
            "local n = 0 for i = 1, #s do if s:sub(i, i) == '=' then n = n + 1 end end return {n}",
            json!([8000]),
        ),
        ("local n = 0 for i = 1, #s do if s:byte(i) == 61 then n = n + 1 end end return {n}", json!([8000])),
        (
            "local t = {} for w in s:gmatch('%S+') do table.insert(t, w) end table.sort(t) return {#table.concat(t, ',')}",
            json!([207_999]),
        ),
    ] {
        assert_eq!(answer(&format!("{lines}{call}")), Ok(result), "{call}");
    }
}

#[test]
fn eng_132_errors_of_the_library_name_the_line_of_the_script() {
    for (text, message) in [
        ("local a = ('x'):find('[a') return a", "<string>:1: malformed pattern (missing ']')"),
        (
            "\nlocal a = string.match(nil, 'x') return a",
            "<string>:2: bad argument #1 to 'match' (string expected, got nil)",
        ),
        ("local a = ('x'):gsub('x', '%2') return a", "<string>:1: invalid capture index"),
        (
            "local a = table.concat({1, {}}) return a",
            "<string>:1: invalid value (at index 2) in table for 'concat'",
        ),
        (
            "local a = ('x'):gsub('x', true) return a",
            "<string>:1: bad argument #3 to 'gsub' (string/function/table expected)",
        ),
        ("return ('x'):gsub('x', function() error('boom') end)", "<string>:1: boom"),
    ] {
        assert_eq!(answer(text).unwrap_err(), message, "{text}");
    }
    let caught = "local ok, message = pcall(string.find, 'x', '%') return {tostring(ok), type(message)}";
    assert_eq!(answer(caught), Ok(json!(["false", "string"])));
}

/// Runs with functions of the library itself.
fn library(text: &str) -> Result<Value, String> {
    let lua = Lua::new_with(StdLib::STRING | StdLib::TABLE, LuaOptions::default()).unwrap();
    let found: mlua::Result<mlua::Value> = lua.load(text).set_name("=<string>").eval();
    found.and_then(|found| from_lua(&found)).map_err(|error| super::single_line(&error))
}

fn quoted(text: &str) -> String {
    text.bytes().map(|byte| format!("\\{byte:03}")).collect::<Vec<_>>().concat()
}

fn items(max: usize) -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "a", "b", "1", " ", "]", "-", ".", "%", "%a", "%D", "%s", "%w", "%b()", "%b", "%f", "%f[%w]", "%1",
        "%2", "[", "]", "[ab]", "[^a]", "[a-c1]", "[]]", "[%]a-]", "[a-", "^", "$", "*", "+", "-", "?", "(",
        ")", "()", "(a*)", "(.-)", "a-", ".*", "%p", "[%a-z]", "[-a]",
    ]);
    prop::collection::vec(part, 0..max).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Our matcher finds what the matcher of the library finds, and refuses what it refuses.
    #[test]
    fn eng_129_patterns_match_as_in_the_library(
        subject in "[ab1()\\] -]{0,12}",
        pattern in items(6),
        replacement in prop::sample::select(vec!["<%0>", "%1", "%2x", "%%", "%", "plain", ""]),
        init in -3_i32..15,
    ) {
        let (subject, pattern) = (quoted(&subject), quoted(&pattern));
        for call in [
            format!("return {{string.find(s, p, {init})}}"),
            format!("return {{string.match(s, p, {init})}}"),
            format!("return {{string.find(s, p, {init}, true)}}"),
            format!("return {{string.gsub(s, p, '{replacement}')}}"),
            "return {string.gsub(s, p, '%0%0', 2)}".to_owned(),
            "return {string.gsub(s, p, {a = 'x', b = 1, ['('] = false})}".to_owned(),
            "return {string.gsub(s, p, function(a, b) return b or (a == 'a' and 'A') end)}".to_owned(),
            "local t = {} for a, b in string.gmatch(s, p) do t[#t + 1] = a t[#t + 1] = b or '' end return t".to_owned(),
        ] {
            let script = format!("local s, p = '{subject}', '{pattern}' {call}");
            let (ours, own) = (answer(&script), library(&script));
            if let (Err(ours), Err(own)) = (&ours, &own) {
                prop_assert!(own.starts_with(ours.as_str()), "{script}: {ours} / {own}");
            } else {
                prop_assert_eq!(&ours, &own, "{}", script);
            }
        }
    }
}
