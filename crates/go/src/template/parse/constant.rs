//! Numbers as they are written in templates: each is every kind of number it can be.

use crate::template::quote::{Unit, quote, unquote_one};

/// A constant number, by the kinds it can pass for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Constant {
    pub(crate) int: Option<i64>,
    pub(crate) uint: Option<u64>,
    pub(crate) float: Option<f64>,
    pub(crate) complex: Option<(f64, f64)>,
    /// Whether it is a float where nothing says what it should be.
    pub(crate) is_float: bool,
}

impl Constant {
    /// Reads a character such as `'a'`, which is a number.
    pub(super) fn of_character(text: &[u8]) -> Result<Self, String> {
        let inner = text.get(1..).unwrap_or_default();
        let Some((unit, tail)) = unquote_one(inner, b'\'') else { return Err("invalid syntax".to_owned()) };
        if tail != b"'" {
            return Err(format!("malformed character constant: {}", String::from_utf8_lossy(text)));
        }
        let code = match unit {
            Unit::Byte(byte) if byte.is_ascii() || inner.first() == Some(&b'\\') => u32::from(byte),
            Unit::Byte(_) => u32::from(char::REPLACEMENT_CHARACTER),
            Unit::Character(character) => u32::from(character),
        };
        Ok(Self {
            int: Some(i64::from(code)),
            uint: Some(u64::from(code)),
            float: Some(f64::from(code)),
            ..Self::default()
        })
    }

    /// Reads a complex number such as `1+2i`.
    pub(super) fn of_complex(text: &str) -> Result<Self, String> {
        let invalid = || "syntax error scanning complex number".to_owned();
        let inner = text.strip_suffix('i').ok_or_else(invalid)?;
        // The sign that is neither the first nor that of an exponent separates the parts.
        let hexadecimal = inner.contains(['x', 'X']);
        let bytes = inner.as_bytes();
        let split = (1..bytes.len()).rev().find(|at| {
            let before = bytes.get(at - 1);
            let exponent =
                matches!(before, Some(b'p' | b'P')) || (!hexadecimal && matches!(before, Some(b'e' | b'E')));
            matches!(bytes.get(*at), Some(b'+' | b'-')) && !exponent
        });
        let (real, imaginary) = split.and_then(|at| inner.split_at_checked(at)).ok_or_else(invalid)?;
        let real = parse_float(real).ok_or_else(invalid)?;
        let imaginary = parse_float(imaginary).ok_or_else(invalid)?;
        Ok(Self::complex(real, imaginary))
    }

    fn complex(real: f64, imaginary: f64) -> Self {
        let mut constant = Self { complex: Some((real, imaginary)), ..Self::default() };
        if imaginary == 0.0 {
            constant.float = Some(real);
            constant.int = whole(real);
            constant.uint = whole_unsigned(real);
        }
        constant
    }

    /// Reads a simple number.
    pub(super) fn of_number(text: &str) -> Result<Self, String> {
        if let Some(imaginary) = text.strip_suffix('i').and_then(parse_float) {
            return Ok(Self::complex(0.0, imaginary));
        }
        let mut constant = Self { uint: parse_uint(text), int: parse_int(text), ..Self::default() };
        if constant.int == Some(0) && constant.uint.is_none() {
            constant.uint = Some(0);
        }
        #[expect(clippy::cast_precision_loss, reason = "the loss is Go's")]
        if let Some(int) = constant.int {
            constant.float = Some(int as f64);
        } else if let Some(uint) = constant.uint {
            constant.float = Some(uint as f64);
        } else if let Some(float) = parse_float(text) {
            if !text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", quote(text.as_bytes())));
            }
            constant.float = Some(float);
            constant.int = whole(float);
            constant.uint = whole_unsigned(float);
        }
        if constant.float.is_none() {
            return Err(format!("illegal number syntax: {}", quote(text.as_bytes())));
        }
        let hexadecimal = matches!(text.as_bytes(), [b'0', b'x' | b'X', _, ..]) && !text.contains(['p', 'P']);
        constant.is_float = !hexadecimal && text.contains(['.', 'e', 'E', 'p', 'P']);
        Ok(constant)
    }
}

/// The integer that a float is, if it is one; what is out of range is the smallest, as on amd64.
#[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "the comparison is Go's")]
fn whole(float: f64) -> Option<i64> {
    let int = crate::template::number::to_i64(float);
    (int as f64 == float).then_some(int)
}

#[expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "the comparison is Go's")]
fn whole_unsigned(float: f64) -> Option<u64> {
    let uint = crate::template::number::to_u64(float);
    (uint as f64 == float).then_some(uint)
}

use crate::template::number::{parse_float, parse_int, parse_uint};
