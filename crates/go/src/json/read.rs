//! The reader: strict grammar, lenient text.

use crate::memory::{Exceeded, Memory};
use serde_json::{Map, Number, Value};

use crate::nesting::DEPTH_MAX;

/// Why a text is not read as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text ends inside a value.
    #[error("unexpected end of JSON input")]
    End,
    /// A byte that cannot stand where it does.
    #[error("invalid character {found:?} {place} at offset {offset}")]
    Unexpected {
        /// The character.
        found: char,
        /// What was being read.
        place: &'static str,
        /// Bytes before it.
        offset: usize,
    },
    /// A number that no 64-bit float holds.
    #[error("cannot read number {0} as a 64-bit float")]
    NumberRange(String),
    /// The values take more memory than the caller has for them.
    #[error("the document takes more than {limit} bytes of memory")]
    Memory {
        /// The limit.
        limit: usize,
    },
    /// Lists and objects are nested deeper than [`DEPTH_MAX`].
    #[error("exceeded max depth of {DEPTH_MAX} at offset {offset}")]
    Depth {
        /// Bytes before the bracket that is one too many.
        offset: usize,
    },
}

impl From<Exceeded> for JsonError {
    fn from(exceeded: Exceeded) -> Self {
        Self::Memory { limit: exceeded.limit }
    }
}

/// Bytes that a document takes in memory where the caller names no bound.
const BYTES_MAX: usize = 256 << 20;

/// Turns the spelling of a number into a value.
type NumberRule = fn(&str) -> Result<Value, JsonError>;

/// Reads a document as Kubernetes does: integers that fit 64 bits with sign stay integers, other numbers
/// become floats. Of equal keys the last wins.
pub fn decode_kubernetes(text: &[u8]) -> Result<Value, JsonError> {
    decode_with(text, kubernetes_number)
}

/// The same, with the memory that the values may take.
pub fn decode_kubernetes_within(text: &[u8], memory: &mut Memory) -> Result<Value, JsonError> {
    let mut reader = Reader { text, at: 0, number: kubernetes_number, memory: *memory };
    let value = reader.whole();
    *memory = reader.memory;
    value
}

/// Reads a document as `encoding/json` does: every number becomes a 64-bit float.
pub fn decode_go(text: &[u8]) -> Result<Value, JsonError> {
    decode_go_within(text, &mut Memory::new(BYTES_MAX))
}

/// The same, with the memory that the values may take.
pub(crate) fn decode_go_within(text: &[u8], memory: &mut Memory) -> Result<Value, JsonError> {
    let mut reader = Reader { text, at: 0, number: float_number, memory: *memory };
    let value = reader.whole();
    *memory = reader.memory;
    value
}

/// Reads the value a text begins with, as [`decode_go`] does, and says how many bytes it takes.
pub(crate) fn decode_go_first(text: &[u8]) -> Result<(Value, usize), JsonError> {
    let mut reader = Reader { text, at: 0, number: float_number, memory: Memory::new(BYTES_MAX) };
    let value = reader.value(0)?;
    Ok((value, reader.at))
}

/// Reads a document with a rule of the caller's for numbers.
pub(crate) fn decode_with(text: &[u8], number: NumberRule) -> Result<Value, JsonError> {
    Reader { text, at: 0, number, memory: Memory::new(BYTES_MAX) }.whole()
}

fn kubernetes_number(text: &str) -> Result<Value, JsonError> {
    if let Ok(integer) = text.parse::<i64>() {
        return Ok(Value::from(integer));
    }
    float_number(text)
}

fn float_number(text: &str) -> Result<Value, JsonError> {
    let float: f64 = text.parse().map_err(|_invalid| JsonError::NumberRange(text.to_owned()))?;
    Number::from_f64(float).map(Value::Number).ok_or_else(|| JsonError::NumberRange(text.to_owned()))
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    number: NumberRule,
    memory: Memory,
}

impl Reader<'_> {
    /// Reads one value and nothing else.
    fn whole(&mut self) -> Result<Value, JsonError> {
        let value = self.value(0)?;
        self.blanks();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn blanks(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn unexpected(&self, place: &'static str) -> JsonError {
        match self.peek() {
            None => JsonError::End,
            Some(byte) => JsonError::Unexpected { found: char::from(byte), place, offset: self.at },
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value, JsonError> {
        self.blanks();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Value::String(self.text()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word(b"true", Value::Bool(true)),
            Some(b'f') => self.word(b"false", Value::Bool(false)),
            Some(b'n') => self.word(b"null", Value::Null),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    fn word(&mut self, word: &[u8], value: Value) -> Result<Value, JsonError> {
        for expected in word {
            if self.peek() != Some(*expected) {
                return Err(self.unexpected("in literal"));
            }
            self.at += 1;
        }
        Ok(value)
    }

    fn object(&mut self, depth: usize) -> Result<Value, JsonError> {
        if depth >= DEPTH_MAX {
            return Err(JsonError::Depth { offset: self.at });
        }
        self.at += 1;
        let mut members = Map::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Value::Object(members));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("looking for beginning of object key string"));
            }
            let key = self.text()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("after object key"));
            }
            self.at += 1;
            self.memory.member(members.len())?;
            let value = self.value(depth + 1)?;
            members.insert(key, value);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Value::Object(members));
                }
                _ => return Err(self.unexpected("after object key:value pair")),
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, JsonError> {
        if depth >= DEPTH_MAX {
            return Err(JsonError::Depth { offset: self.at });
        }
        self.at += 1;
        let mut items = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Value::Array(items));
        }
        loop {
            self.memory.item(&items)?;
            items.push(self.value(depth + 1)?);
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Value::Array(items));
                }
                _ => return Err(self.unexpected("after array element")),
            }
        }
    }

    fn number(&mut self) -> Result<Value, JsonError> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits_needed("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits_needed("in exponent of numeric literal")?;
        }
        let spelled = self.text.get(start..self.at).unwrap_or_default();
        let spelled = std::str::from_utf8(spelled).unwrap_or_default();
        (self.number)(spelled)
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn digits_needed(&mut self, place: &'static str) -> Result<(), JsonError> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.unexpected(place));
        }
        self.digits();
        Ok(())
    }

    /// Reads a string from its opening quote on. Runs without escapes are copied whole.
    fn text(&mut self) -> Result<String, JsonError> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let run = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
            let plain = rest.get(..run.unwrap_or(rest.len())).unwrap_or_default();
            // A text that grows is copied; bytes that are no text become three each.
            self.memory.text(plain.len().saturating_mul(3))?;
            push_lossy(&mut text, plain);
            self.at += plain.len();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => {
                    self.at += 1;
                    text.push(self.escape()?);
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        let character = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let unit = self.four_hex()?;
                return Ok(self.joined(unit));
            }
            _ => return Err(self.unexpected("in string escape code")),
        };
        self.at += 1;
        Ok(character)
    }

    fn four_hex(&mut self) -> Result<u32, JsonError> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            unit = unit * 16 + digit.ok_or_else(|| self.unexpected("in \\u hexadecimal character escape"))?;
            self.at += 1;
        }
        Ok(unit)
    }

    /// Joins a surrogate with the escape that follows; one that stands alone becomes U+FFFD.
    fn joined(&mut self, unit: u32) -> char {
        if let Some(character) = char::from_u32(unit) {
            return character;
        }
        let before = self.at;
        if unit < 0xdc00 && self.text.get(before..before + 2) == Some(b"\\u") {
            self.at += 2;
            if let Ok(low @ 0xdc00..=0xdfff) = self.four_hex() {
                let joined = 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
        }
        self.at = before;
        char::REPLACEMENT_CHARACTER
    }
}

/// Appends bytes; each one that is not part of UTF-8 becomes U+FFFD, as Go replaces them.
fn push_lossy(text: &mut String, bytes: &[u8]) {
    if let Ok(valid) = std::str::from_utf8(bytes) {
        text.push_str(valid);
        return;
    }
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
}
