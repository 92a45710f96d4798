//! Two answers side by side, and answers as files that people can read.

use serde_json::Value;

/// Columns of a file of answers.
const WIDTH: usize = 110;

/// Every difference, with the path where it is.
pub(crate) fn differences(path: &str, recorded: &Value, found: &Value, all: &mut Vec<String>) {
    match (recorded, found) {
        (Value::Object(recorded), Value::Object(found)) => {
            for (name, value) in recorded {
                match found.get(name) {
                    Some(other) => differences(&format!("{path}/{name}"), value, other, all),
                    None => all.push(format!("{path}/{name}: missing, recorded {}", short(value))),
                }
            }
            for (name, value) in found.iter().filter(|(name, _)| !recorded.contains_key(*name)) {
                all.push(format!("{path}/{name}: too much, found {}", short(value)));
            }
        }
        (Value::Array(recorded), Value::Array(found)) => {
            for (index, value) in recorded.iter().enumerate() {
                match found.get(index) {
                    Some(other) => differences(&format!("{path}/{index}"), value, other, all),
                    None => all.push(format!("{path}/{index}: missing, recorded {}", short(value))),
                }
            }
            for (index, value) in found.iter().enumerate().skip(recorded.len()) {
                all.push(format!("{path}/{index}: too much, found {}", short(value)));
            }
        }
        (Value::String(recorded), Value::String(found))
            if recorded.contains('\n') || found.contains('\n') =>
        {
            lines(path, recorded, found, all);
        }
        _ if recorded == found => {}
        _ => all.push(format!("{path}: recorded {}, found {}", short(recorded), short(found))),
    }
}

fn lines(path: &str, recorded: &str, found: &str, all: &mut Vec<String>) {
    let (before, after): (Vec<_>, Vec<_>) = (recorded.lines().collect(), found.lines().collect());
    for index in 0..before.len().max(after.len()) {
        if before.get(index) != after.get(index) {
            let show = |line: Option<&&str>| line.map_or("nothing".to_owned(), |line| format!("{line:?}"));
            let (before, after) = (show(before.get(index)), show(after.get(index)));
            all.push(format!("{path} line {}: recorded {before}, found {after}", index + 1));
        }
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(600) {
        Some((end, _)) => format!("{}…", text.split_at(end).0),
        None => text,
    }
}

/// JSON with small values on one line.
pub(crate) fn print(value: &Value) -> String {
    let mut text = String::new();
    write(value, 0, 0, &mut text);
    text.push('\n');
    text
}

fn write(value: &Value, depth: usize, used: usize, text: &mut String) {
    let compact = value.to_string();
    if used + compact.len() < WIDTH && depth > 0 {
        text.push_str(&compact);
        return;
    }
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.push_str(&" ".repeat(depth));
        depth
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                let used = line(text, depth + 1);
                write(item, depth + 1, used, text);
            }
            line(text, depth);
            text.push(']');
        }
        Value::Object(members) if !members.is_empty() => {
            text.push('{');
            let mut members: Vec<_> = members.iter().collect();
            if depth == 1 {
                members.sort_by_key(|(name, _)| (*name == "body", *name != "step"));
            }
            for (index, (name, member)) in members.into_iter().enumerate() {
                text.push_str(if index > 0 { "," } else { "" });
                let used = line(text, depth + 1);
                let name = Value::String(name.clone()).to_string();
                text.push_str(&name);
                text.push_str(": ");
                write(member, depth + 1, used + name.len() + 2, text);
            }
            line(text, depth);
            text.push('}');
        }
        _ => text.push_str(&compact),
    }
}
