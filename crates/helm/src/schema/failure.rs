//! What does not fit, and the text that says so.

use std::fmt::Write as _;

use serde_json::Value;
use tiphys_go::json;

use super::address::escape;

/// A failure with what led to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Failure {
    /// Where in the value, as steps.
    pub(super) at: Vec<String>,
    pub(super) kind: Kind,
    pub(super) causes: Vec<Self>,
}

/// What is wrong.
#[derive(Clone, Debug, Default)]
pub(super) enum Kind {
    /// Nothing that is told: somebody only asked whether there is a failure.
    #[default]
    Unsaid,
    /// Several failures of one schema.
    Group,
    /// What a reference leads to.
    Reference,
    /// A text that is complete.
    Text(String),
}

/// Characters of an error's text, so that hostile schemas do not make it endless.
const TEXT_MAX: usize = 64 << 10;

impl Failure {
    /// The text, below the line that names the schema.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let causes = if matches!(self.kind, Kind::Group) {
            self.causes.as_slice()
        } else {
            std::slice::from_ref(self)
        };
        for cause in causes {
            cause.write(&mut text, 1);
        }
        text
    }

    fn write(&self, text: &mut String, mut indent: usize) {
        if text.len() > TEXT_MAX {
            return;
        }
        let is_passage = matches!(self.kind, Kind::Reference) && self.causes.len() == 1;
        if !is_passage {
            text.push('\n');
            text.push_str(&"  ".repeat(indent - 1));
            text.push_str("- at ");
            let pointer: String = self.at.iter().flat_map(|step| ["/".to_owned(), escape(step)]).collect();
            text.push_str(&quote(&pointer));
            text.push_str(": ");
            text.push_str(match &self.kind {
                Kind::Text(what) => what,
                Kind::Unsaid | Kind::Group | Kind::Reference => "validation failed",
            });
            indent += 1;
        }
        for cause in &self.causes {
            cause.write(text, indent);
        }
    }
}

/// A text in single quotes.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('\'');
    for character in text.chars() {
        match character {
            '"' => quoted.push('"'),
            '\'' => quoted.push_str("\\'"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' if !matches!(character, '\n' | '\r' | '\t') => {
                let _written = write!(quoted, "\\x{:02x}", u32::from(character));
            }
            character => quoted.extend(character.escape_debug()),
        }
    }
    quoted.push('\'');
    quoted
}

/// Texts in single quotes, with commas between them.
pub(super) fn quote_all<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let quoted: Vec<String> = texts.into_iter().map(quote).collect();
    quoted.join(", ")
}

/// A simple value as errors show it.
pub(super) fn display(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        Value::Array(_) | Value::Object(_) => "value".to_owned(),
        other => json::print_go(other),
    }
}

/// A whole number with commas.
pub(super) fn count(number: i64) -> String {
    grouped(&number.to_string())
}

/// A number as the errors about limits show it: `70,000`, `1.5×10⁰⁶`.
pub(super) fn number(float: f64) -> String {
    let plain = json::print_go(&Value::from(float));
    let Some((mantissa, exponent)) = plain.split_once('e') else { return grouped(&plain) };
    let superscript = |character: char| match character {
        '-' => '⁻',
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        '9' => '⁹',
        other => other,
    };
    let exponent: String = exponent.chars().filter(|c| *c != '+').map(superscript).collect();
    format!("{mantissa}×10{exponent}")
}

fn grouped(plain: &str) -> String {
    let (sign, digits) = plain.strip_prefix('-').map_or(("", plain), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let mut text = sign.to_owned();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if let Some(fraction) = fraction {
        text.push('.');
        text.push_str(fraction);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_176_numbers_in_texts_are_english() {
        for (float, expected) in [
            (0.0, "0"),
            (999.0, "999"),
            (65535.0, "65,535"),
            (-70000.5, "-70,000.5"),
            (1e6, "1×10⁰⁶"),
            (1_234_567.891, "1.234567891×10⁰⁶"),
            (0.00001, "1×10⁻⁰⁵"),
            (1e100, "1×10¹⁰⁰"),
        ] {
            assert_eq!(number(float), expected);
        }
        assert_eq!(count(-1_234_567), "-1,234,567");
    }

    #[test]
    fn rnd_176_texts_are_in_single_quotes() {
        assert_eq!(quote("it's \"x\"\n\u{1}\\ é"), "'it\\'s \"x\"\\n\\x01\\\\ é'");
    }
}
