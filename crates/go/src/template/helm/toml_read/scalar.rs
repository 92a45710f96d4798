//! Numbers, booleans and times in TOML.

use super::{Problem, Reader};
use crate::template::number::{parse_float_or_range, parse_int};
use crate::template::quote::quote;
use crate::template::time::Time;
use crate::template::value::{Value, to_str};
use crate::unicode::is_letter;

impl Reader<'_> {
    /// Reads a value that is neither a text nor a list nor a table.
    pub(super) fn scalar(&mut self) -> Result<Value, Problem> {
        let first = self.character();
        match first {
            '0'..='9' => self.number_or_time(),
            '+' | '-' => self.signed(),
            '.' => Err("floats must start with a digit, not '.'".into()),
            _ if self.starts_with("inf") => Ok(self.special("inf")),
            _ if self.starts_with("nan") => Ok(self.special("nan")),
            _ if is_letter(first) => self.boolean(),
            _ => Err(format!("expected value but found {} instead", self.found()).into()),
        }
    }

    fn starts_with(&self, word: &str) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes()))
    }

    fn special(&mut self, word: &str) -> Value {
        self.at += word.len();
        Value::Float(if word == "inf" { f64::INFINITY } else { f64::NAN })
    }

    fn boolean(&mut self) -> Result<Value, Problem> {
        let rest = to_str(self.text.get(self.at..).unwrap_or_default());
        let word: String = rest.chars().take_while(|character| is_letter(*character)).collect();
        match word.as_str() {
            "true" | "false" => {
                self.at += word.len();
                Ok(Value::Bool(word == "true"))
            }
            _ => Err(format!("expected value but found {} instead", quote(word.as_bytes())).into()),
        }
    }

    /// The run of bytes of some kinds from here on.
    fn run(&mut self, mut goes_on: impl FnMut(u8) -> bool) -> String {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().take_while(|byte| goes_on(**byte)).count();
        let run = String::from_utf8_lossy(rest.get(..length).unwrap_or_default()).into_owned();
        self.at += length;
        run
    }

    fn signed(&mut self) -> Result<Value, Problem> {
        let sign = if self.peek() == Some(b'-') { "-" } else { "+" };
        self.at += 1;
        let next = self.character();
        let after = self.text.get(self.at + 1).copied();
        match next {
            'i' | 'n' => {
                let word = if next == 'i' { "inf" } else { "nan" };
                if !self.starts_with(word) {
                    return Err(format!("invalid float: '{sign}{next}'").into());
                }
                self.at += 3;
                let magnitude = if next == 'i' { f64::INFINITY } else { f64::NAN };
                Ok(Value::Float(if sign == "-" { -magnitude } else { magnitude }))
            }
            '0' if matches!(after, Some(b'b' | b'o' | b'x')) => {
                let kind = char::from(after.unwrap_or(b'x'));
                Err(format!("cannot use sign with non-decimal numbers: '{sign}0{kind}'").into())
            }
            '.' => Err("floats must start with a digit, not '.'".into()),
            '0'..='9' => {
                let digits = self.run(|byte| byte.is_ascii_digit() || byte == b'_');
                self.decimal(format!("{sign}{digits}"))
            }
            _ => Err(format!("expected a digit but got {}", self.found()).into()),
        }
    }

    fn number_or_time(&mut self) -> Result<Value, Problem> {
        if self.peek() == Some(b'0')
            && let Some(kind @ (b'b' | b'o' | b'x')) = self.text.get(self.at + 1).copied()
        {
            return self.based(kind);
        }
        let digits = self.run(|byte| byte.is_ascii_digit());
        match self.peek() {
            // A single zero begins no time.
            Some(b'-' | b':') if digits != "0" => self.time(digits),
            Some(b'_') => {
                let more = self.run(|byte| byte.is_ascii_digit() || byte == b'_');
                self.decimal(digits + &more)
            }
            _ => self.decimal(digits),
        }
    }

    fn based(&mut self, kind: u8) -> Result<Value, Problem> {
        let (radix, name) = match kind {
            b'b' => (2, "not a binary number"),
            b'o' => (8, "not an octal number"),
            _ => (16, "not a hexadecimal number"),
        };
        self.at += 2;
        let fits = |byte: u8| char::from(byte).is_digit(radix);
        if !self.peek().is_some_and(fits) {
            return Err(format!("{name}: '0{}{}'", char::from(kind), self.character()).into());
        }
        let digits = self.run(|byte| fits(byte) || byte == b'_');
        integer(&format!("0{}{digits}", char::from(kind)))
    }

    /// Goes on with a number of which the first digits were read.
    fn decimal(&mut self, digits: String) -> Result<Value, Problem> {
        if matches!(self.peek(), Some(b'.' | b'e' | b'E')) {
            let rest = self
                .run(|byte| byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-' | b'+' | b'e' | b'E'));
            return float(&(digits + &rest));
        }
        integer(&digits)
    }

    fn time(&mut self, digits: String) -> Result<Value, Problem> {
        let rest = self.run(|byte| {
            byte.is_ascii_digit()
                || matches!(byte, b'-' | b':' | b'T' | b't' | b' ' | b'.' | b'Z' | b'z' | b'+')
        });
        let text = digits + &rest;
        let text = text.trim().replace('z', "Z").replace(['t', ' '], "T");
        let invalid = || Problem::from(format!("invalid datetime: {}", quote(text.as_bytes())));
        for layout in LAYOUTS {
            if let Ok(time) = Time::parse(layout, &text) {
                if lacks_zero(&text, layout) {
                    return Err(invalid());
                }
                return Ok(Value::object(time));
            }
        }
        Err(invalid())
    }
}

/// How times may be written.
const LAYOUTS: [&str; 7] = [
    "2006-01-02T15:04:05.999999999Z07:00",
    "2006-01-02T15:04:05.999999999",
    "2006-01-02",
    "15:04:05.999999999",
    "2006-01-02T15:04Z07:00",
    "2006-01-02T15:04",
    "15:04",
];

/// Whether a number of a time has fewer digits than it should.
fn lacks_zero(text: &str, layout: &str) -> bool {
    for (place, byte) in layout.bytes().enumerate() {
        if byte == b'.' || byte == b'Z' {
            return false;
        }
        if !byte.is_ascii_digit() && text.as_bytes().get(place) != Some(&byte) {
            return true;
        }
    }
    false
}

/// Whether underscores stand between digits only.
fn underscores_fit(text: &str) -> bool {
    let mut accept = false;
    for byte in text.bytes() {
        if byte == b'_' && !accept {
            return false;
        }
        accept = byte.is_ascii_hexdigit();
    }
    accept
}

fn leading_zero(text: &str) -> bool {
    match text.as_bytes() {
        [b'0', second, ..] => !matches!(second, b'b' | b'o' | b'x'),
        [b'-' | b'+', b'0', _, ..] => true,
        _ => false,
    }
}

fn integer(text: &str) -> Result<Value, Problem> {
    let shown = quote(text.as_bytes());
    if !underscores_fit(text) {
        return Err(format!("Invalid integer {shown}: underscores must be surrounded by digits").into());
    }
    if leading_zero(text) {
        return Err(format!("Invalid integer {shown}: cannot have leading zeroes").into());
    }
    parse_int(text).map(Value::int64).ok_or_else(|| format!("{text} is out of range for int64").into())
}

fn float(text: &str) -> Result<Value, Problem> {
    let shown = quote(text.as_bytes());
    let parts: Vec<&str> = text.split(['.', 'e', 'E']).filter(|part| !part.is_empty()).collect();
    if !parts.iter().all(|part| underscores_fit(part)) {
        return Err(format!("Invalid float {shown}: underscores must be surrounded by digits").into());
    }
    if parts.first().is_some_and(|part| leading_zero(part)) {
        return Err(format!("Invalid float {shown}: cannot have leading zeroes").into());
    }
    let mut point = false;
    for byte in text.bytes() {
        if point && !byte.is_ascii_digit() {
            break;
        }
        point = byte == b'.';
    }
    if point {
        return Err(format!("Invalid float {shown}: '.' must be followed by one or more digits").into());
    }
    match parse_float_or_range(&text.replace('_', "")) {
        Some(number) if number.is_infinite() => Err(format!("{text} is out of range for float64").into()),
        Some(number) => Ok(Value::Float(number)),
        None => Err(format!("Invalid float value: {shown}").into()),
    }
}
