//! Objects as JSON and YAML (CLI-300, CLI-301).

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;
use tiphys_api::printable;

use crate::failure::Failure;

/// How a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Indented JSON.
    Json,
    /// YAML.
    Yaml,
}

/// The machine format of an `-o` value; `None` for the others.
pub(crate) fn machine_format(text: &str) -> Option<Format> {
    match text {
        "json" => Some(Format::Json),
        "yaml" => Some(Format::Yaml),
        _ => None,
    }
}

/// The failure of an `-o` value that a command does not know.
pub(crate) fn unknown_format(text: &str) -> Failure {
    Failure::generic(format!("unknown output format: {text}"))
}

/// A value in a machine format, with a line end.
pub(crate) fn print(value: &Value, format: Format) -> Result<String, Failure> {
    match format {
        Format::Json => json(value),
        Format::Yaml => {
            tiphys_go::yaml::to_string(value).map_err(|error| Failure::generic(error.to_string()))
        }
    }
}

/// Indented by two, with `<`, `>` and `&` escaped as Go's encoder does; those appear inside texts only.
fn json(value: &Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Failure::generic(error.to_string()))?;
    let mut out = String::with_capacity(text.len() + 1);
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            // Serde escapes what is below the blank; the others command terminals too.
            letter
                if letter != '\n'
                    && matches!(printable::line(letter.encode_utf8(&mut [0; 4])), Cow::Owned(_)) =>
            {
                let _written = write!(out, "\\u{:04x}", u32::from(letter));
            }
            other => out.push(other),
        }
    }
    out.push('\n');
    Ok(out)
}

/// An object as the API shows it: without the members that its messages do not have (API-P6).
pub(crate) fn as_api(mut object: Value) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.remove("apiVersion");
        members.remove("kind");
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn cli_300_json_is_indented_and_escaped_as_go_does() {
        let value = json!({"b": [], "a": {"x": "<&>"}});
        let text = print(&value, Format::Json).unwrap();
        assert_eq!(text, "{\n  \"a\": {\n    \"x\": \"\\u003c\\u0026\\u003e\"\n  },\n  \"b\": []\n}\n");
        assert_eq!(print(&json!([]), Format::Json).unwrap(), "[]\n");
        let hostile = print(&json!("\u{1b}[2J\u{9b}\u{7f}\u{202e}\n"), Format::Json).unwrap();
        assert_eq!(hostile, "\"\\u001b[2J\\u009b\\u007f\\u202e\\n\"\n");
        assert_eq!(print(&value, Format::Yaml).unwrap(), "a:\n  x: <&>\nb: []\n");
    }
}
