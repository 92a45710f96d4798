//! Conversions that most functions share: spf13/cast and `strval`.

use crate::template::error::Failure;
use crate::template::fmt;
use crate::template::functions::Call;
use crate::template::limits::Exceeded;
use crate::template::number::{parse_float, parse_int, to_i64};
use crate::template::value::{Text, Value};

/// `cast.ToInt64`: what has no number is 0.
pub(crate) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(_, number) => *number,
        #[expect(clippy::cast_possible_wrap, reason = "Go wraps")]
        Value::Uint(_, number) => *number as i64,
        Value::Float(number) => to_i64(*number),
        Value::Text(text) => text.as_str().and_then(|text| parse_int(without_zeros(text))).unwrap_or(0),
        Value::Bool(truth) => i64::from(*truth),
        Value::Named(named)
            if named.named_type.name == "time.Month" || named.named_type.name == "time.Weekday" =>
        {
            to_int(&named.value)
        }
        _ => 0,
    }
}

/// `cast.ToFloat64`.
#[expect(clippy::cast_precision_loss, reason = "the loss is Go's")]
pub(crate) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(_, number) => *number as f64,
        Value::Uint(_, number) => *number as f64,
        Value::Float(number) => *number,
        Value::Text(text) => text.as_str().and_then(parse_float).unwrap_or(0.0),
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        Value::Named(named)
            if named.named_type.name == "time.Month" || named.named_type.name == "time.Weekday" =>
        {
            to_float(&named.value)
        }
        _ => 0.0,
    }
}

/// Takes a fraction of nothing but zeros off a number.
fn without_zeros(text: &str) -> &str {
    match text.rsplit_once('.') {
        Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|byte| byte == b'0') => whole,
        _ => text,
    }
}

/// The text of a value: itself, what its `String` answers, or how `%v` prints it.
pub(crate) fn strval(value: &Value, limit: usize) -> Result<Text, Exceeded> {
    match value {
        Value::Text(text) => Ok(text.clone()),
        Value::Bytes(bytes) => Ok(Text::from_bytes(bytes.as_deref().unwrap_or_default())),
        Value::Nil => Ok(Text::fixed("<nil>")),
        _ => match value.stringer() {
            Some(text) => Ok(text),
            None => Ok(fmt::print(value, limit)?.into()),
        },
    }
}

impl Call<'_, '_> {
    /// Bytes that a text may have: no more than there is room for, and than can be paid.
    pub(crate) fn limit(&self) -> usize {
        self.text_max
    }

    /// [`strval`] of an argument.
    pub(crate) fn strval(&self, at: usize) -> Result<Text, Failure> {
        Ok(strval(self.value(at), self.limit())?)
    }

    /// An argument as `cast.ToInt64` has it.
    pub(crate) fn to_int(&self, at: usize) -> i64 {
        to_int(self.value(at))
    }

    /// An argument as `cast.ToFloat64` has it.
    pub(crate) fn to_float(&self, at: usize) -> f64 {
        to_float(self.value(at))
    }
}

/// What Go says when it looks for the kind of nothing.
pub(crate) fn nil_pointer() -> Failure {
    Failure::new("runtime error: invalid memory address or nil pointer dereference")
}
