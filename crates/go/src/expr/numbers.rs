//! Arithmetic and order of numbers, times and durations.

use super::power::{ldexp, power};
use super::{Fault, Value};
use crate::time::Moment;
use std::cmp::Ordering;

/// A number for arithmetic, in which all integers are alike.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    /// The number that a value is. Months and the like are none.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Int(number) | Value::Int64(number) => Some(Self::Int(*number)),
            Value::Byte(byte) => Some(Self::Int(i64::from(*byte))),
            Value::Float(number) => Some(Self::Float(*number)),
            _ => None,
        }
    }

    pub(super) fn float(self) -> f64 {
        match self {
            Self::Int(number) => float(number),
            Self::Float(number) => number,
        }
    }

    /// The integer, without the fraction.
    pub(super) fn int(self) -> i64 {
        match self {
            Self::Int(number) => number,
            Self::Float(number) => truncated(number),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "the nearest float is meant")]
pub(super) fn float(number: i64) -> f64 {
    number as f64
}

/// A float without its fraction; the smallest integer where there is none, as processors have it.
#[expect(clippy::cast_possible_truncation, reason = "is looked at before")]
pub(super) fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// A value as Go's `int`.
pub(super) fn to_int(value: &Value) -> Result<i64, Fault> {
    Number::of(value)
        .map(Number::int)
        .ok_or_else(|| Fault::Value(format!("invalid operation: int({})", value.go_type())))
}

fn to_float(value: &Value) -> Result<f64, Fault> {
    Number::of(value)
        .map(Number::float)
        .ok_or_else(|| Fault::Value(format!("invalid operation: float({})", value.go_type())))
}

fn undefined(left: &Value, operator: &str, right: &Value) -> Fault {
    Fault::Value(format!("invalid operation: {} {operator} {}", left.go_type(), right.go_type()))
}

fn combine(
    left: &Value,
    right: &Value,
    ints: fn(i64, i64) -> i64,
    floats: fn(f64, f64) -> f64,
) -> Option<Value> {
    Some(match (Number::of(left)?, Number::of(right)?) {
        (Number::Int(left), Number::Int(right)) => Value::Int(ints(left, right)),
        (left, right) => Value::Float(floats(left.float(), right.float())),
    })
}

/// `left + right` of everything but texts.
pub(super) fn add(left: &Value, right: &Value) -> Result<Value, Fault> {
    if let Some(sum) = combine(left, right, i64::wrapping_add, |left, right| left + right) {
        return Ok(sum);
    }
    match (left, right) {
        (Value::Time(time), Value::Duration(later)) | (Value::Duration(later), Value::Time(time)) => {
            Ok(time.plus(*later)?.into())
        }
        (Value::Duration(left), Value::Duration(right)) => Ok(Value::Duration(left.wrapping_add(*right))),
        _ => Err(undefined(left, "+", right)),
    }
}

/// `left - right`.
pub(super) fn subtract(left: &Value, right: &Value) -> Result<Value, Fault> {
    if let Some(difference) = combine(left, right, i64::wrapping_sub, |left, right| left - right) {
        return Ok(difference);
    }
    match (left, right) {
        (Value::Time(left), Value::Time(right)) => Ok(Value::Duration(left.since(right))),
        (Value::Time(time), Value::Duration(earlier)) => Ok(time.plus(earlier.wrapping_neg())?.into()),
        (Value::Duration(left), Value::Duration(right)) => Ok(Value::Duration(left.wrapping_sub(*right))),
        _ => Err(undefined(left, "-", right)),
    }
}

/// `left * right`; a duration times a float is a float.
pub(super) fn multiply(left: &Value, right: &Value) -> Result<Value, Fault> {
    let number = |value: &Value| match value {
        Value::Duration(nanoseconds) => Some(Number::Int(*nanoseconds)),
        other => Number::of(other),
    };
    let (Some(l), Some(r)) = (number(left), number(right)) else { return Err(undefined(left, "*", right)) };
    let is_duration = matches!(left, Value::Duration(_)) || matches!(right, Value::Duration(_));
    Ok(match (l, r) {
        (Number::Int(l), Number::Int(r)) if is_duration => Value::Duration(l.wrapping_mul(r)),
        (Number::Int(l), Number::Int(r)) => Value::Int(l.wrapping_mul(r)),
        (l, r) => Value::Float(l.float() * r.float()),
    })
}

/// `left / right`, always a float.
pub(super) fn divide(left: &Value, right: &Value) -> Result<Value, Fault> {
    match (Number::of(left), Number::of(right)) {
        (Some(l), Some(r)) => Ok(Value::Float(l.float() / r.float())),
        _ => Err(undefined(left, "/", right)),
    }
}

/// `left % right` of integers.
pub(super) fn modulo(left: &Value, right: &Value) -> Result<Value, Fault> {
    match (Number::of(left), Number::of(right)) {
        (Some(Number::Int(_)), Some(Number::Int(0))) => {
            Err(Fault::Value("runtime error: integer divide by zero".to_owned()))
        }
        (Some(Number::Int(l)), Some(Number::Int(r))) => Ok(Value::Int(l.wrapping_rem(r))),
        _ => Err(undefined(left, "%", right)),
    }
}

/// `left ** right`, always a float.
pub(super) fn exponent(left: &Value, right: &Value) -> Result<Value, Fault> {
    Ok(Value::Float(power(to_float(left)?, to_float(right)?)))
}

/// `-value`.
pub(super) fn negate(value: &Value) -> Result<Value, Fault> {
    Ok(match value {
        Value::Int(number) => Value::Int(number.wrapping_neg()),
        Value::Int64(number) => Value::Int64(number.wrapping_neg()),
        Value::Byte(byte) => Value::Byte(byte.wrapping_neg()),
        Value::Float(number) => Value::Float(-number),
        other => return Err(Fault::Value(format!("invalid operation: - {}", other.go_type()))),
    })
}

/// How two values are ordered, nothing where one is not a number.
///
/// # Errors
/// When these types have no order; `operator` is what asks.
pub(super) fn compare(left: &Value, right: &Value, operator: &str) -> Result<Option<Ordering>, Fault> {
    if let (Some(l), Some(r)) = (Number::of(left), Number::of(right)) {
        return Ok(match (l, r) {
            (Number::Int(l), Number::Int(r)) => Some(l.cmp(&r)),
            (l, r) => l.float().partial_cmp(&r.float()),
        });
    }
    Ok(Some(match (left, right) {
        (Value::Text(left), Value::Text(right)) => left.cmp(right),
        (Value::Time(left), Value::Time(right)) => order(left, right),
        (Value::Duration(left), Value::Duration(right)) => left.cmp(right),
        _ => return Err(undefined(left, operator, right)),
    }))
}

fn order(left: &Moment, right: &Moment) -> Ordering {
    left.instant.cmp(&right.instant)
}

/// Reads a float as `strconv.ParseFloat` does.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = unsigned.to_ascii_lowercase();
    match lower.as_str() {
        "nan" if text.len() == 3 => return Some(f64::NAN),
        "inf" | "infinity" => {
            return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
        }
        _ => {}
    }
    if let Some(hex) = lower.strip_prefix("0x") {
        let number = parse_hex(hex)?;
        return Some(if text.starts_with('-') { -number } else { number });
    }
    // What Rust reads beyond this is made of letters.
    let plain = lower.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'+' | b'-'));
    let number: f64 = text.parse().ok().filter(|_| plain)?;
    number.is_finite().then_some(number)
}

/// Reads what follows `0x`: digits with a point, and a power of two, which has to be there.
fn parse_hex(hex: &str) -> Option<f64> {
    let (digits, exponent) = hex.split_once('p')?;
    let digits = without_underscores(digits)?;
    let digit_count = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digit_count.is_empty() || !digit_count.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let exponent: i64 =
        exponent.parse().unwrap_or(if exponent.starts_with('-') { -100_000 } else { 100_000 });
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut mantissa, mut scale, mut sticky) = (0_u64, exponent.clamp(-100_000, 100_000), false);
    for (index, digit) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(digit.to_digit(16)?);
        let behind = index >= whole.chars().count();
        if mantissa >> 58 == 0 {
            mantissa = mantissa << 4 | digit;
            scale -= if behind { 4 } else { 0 };
        } else {
            sticky |= digit != 0;
            scale += if behind { 0 } else { 4 };
        }
    }
    let number = round_to_float(mantissa | u64::from(sticky), scale);
    number.is_finite().then_some(number)
}

/// The float nearest to an integer times a power of two.
fn round_to_float(mantissa: u64, scale: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    // The smallest floats have fewer digits, and rounding twice would be wrong.
    let length = 64 - i64::from(mantissa.leading_zeros());
    let kept = 53.min(length + scale + 1_074);
    if kept < 0 {
        return 0.0;
    }
    let dropped = (length - kept).max(0);
    let dropped_bits = u32::try_from(dropped).unwrap_or(63).min(63);
    let (mut head, tail) = (mantissa >> dropped_bits, mantissa & ((1 << dropped_bits) - 1));
    let half = if dropped_bits == 0 { 0 } else { 1_u64 << (dropped_bits - 1) };
    if dropped_bits > 0 && (tail > half || tail == half && head & 1 == 1) {
        head += 1;
    }
    let head = float(i64::try_from(head).unwrap_or(i64::MAX));
    ldexp(head, scale + i64::from(dropped_bits))
}

/// Digits without the underscores between them, which after `0x` are allowed anywhere but next to a point.
fn without_underscores(digits: &str) -> Option<String> {
    let wrong =
        digits.ends_with('_') || digits.contains("__") || digits.contains("_.") || digits.contains("._");
    (!wrong).then(|| digits.replace('_', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eval_769_floats_are_read_as_strconv_does() {
        for (text, number) in [
            ("1.5", Some(1.5)),
            ("+.5e1", Some(5.0)),
            ("1.", Some(1.0)),
            ("-Inf", Some(f64::NEG_INFINITY)),
            ("infinity", Some(f64::INFINITY)),
            ("0x1p-2", Some(0.25)),
            ("-0x_1.8p1", Some(-3.0)),
            ("0x1", None),
            ("1e400", None),
            ("1_0", None),
            ("", None),
            (" 1", None),
            ("+nan", None),
            ("e5", None),
            (".", None),
        ] {
            assert_eq!(parse_float(text), number, "{text}");
        }
    }
}
