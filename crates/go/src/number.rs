//! Floats in the three spellings Go gives them.
//!
//! Follows `strconv.FormatFloat` with the shortest digits that read back as the same number, `encoding/json`
//! and `fmt` of Go 1.26.

use std::fmt::LowerExp;
use std::str::FromStr;

/// From this decimal exponent on `g` writes an exponent.
const PLAIN_EXPONENT_END: i32 = 6;

/// Spells a float as `%v` and `strconv`'s `g` do: exponent form below 1e-4 and from 1e+06 on.
pub(crate) fn general(value: f64) -> String {
    if !value.is_finite() {
        return not_finite(value);
    }
    Digits::of(&shortest(&value)).general()
}

/// Spells a float with the digits that tell 32-bit floats apart, otherwise as [`general`].
pub(crate) fn general_32(value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "the loss of digits is what is imitated")]
    let narrow = value as f32;
    if !narrow.is_finite() {
        return not_finite(f64::from(narrow));
    }
    Digits::of(&shortest(&narrow)).general()
}

/// Spells a finite float as `encoding/json` does: plain digits from 1e-6 up to 1e21.
pub(crate) fn json(value: f64) -> String {
    let (magnitude, digits) = (value.abs(), Digits::of(&shortest(&value)));
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) { digits.scientific(1) } else { digits.plain() }
}

/// The fewest digits that read back as the same number, such as `-1.25e-7`.
///
/// Of two that are equally near, Rust's `{:e}` takes the larger and Go the even one, as `{:.15e}` does.
pub(crate) fn shortest<F: LowerExp + FromStr + PartialEq>(value: &F) -> String {
    let text = format!("{value:e}");
    let digits = text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    let nearest = format!("{value:.*e}", digits.saturating_sub(1));
    // Just above a power of two, the nearest of so many digits may be that of another number.
    if nearest.parse::<F>().is_ok_and(|read| read == *value) { nearest } else { text }
}

fn not_finite(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value > 0.0 {
        "+Inf".to_owned()
    } else {
        "-Inf".to_owned()
    }
}

/// A number taken apart: sign, significant digits, decimal exponent of the first digit.
struct Digits {
    negative: bool,
    significant: String,
    exponent: i32,
}

impl Digits {
    /// Takes apart what [`shortest`] printed, such as `-1.25e-7`.
    fn of(text: &str) -> Self {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
        Self {
            negative,
            significant: mantissa.chars().filter(char::is_ascii_digit).collect(),
            exponent: exponent.parse().unwrap_or(0),
        }
    }

    fn general(&self) -> String {
        // With shortest digits the deciding precision is always 6, whatever the number of digits.
        if self.exponent < -4 || self.exponent >= PLAIN_EXPONENT_END {
            return self.scientific(2);
        }
        self.plain()
    }

    fn sign(&self) -> &'static str {
        if self.negative { "-" } else { "" }
    }

    fn scientific(&self, exponent_digits: usize) -> String {
        let (first, rest) = self.significant.split_at_checked(1).unwrap_or(("0", ""));
        let point = if rest.is_empty() { "" } else { "." };
        let sign = if self.exponent < 0 { '-' } else { '+' };
        let exponent = self.exponent.unsigned_abs();
        format!("{}{first}{point}{rest}e{sign}{exponent:0exponent_digits$}", self.sign())
    }

    fn plain(&self) -> String {
        if self.exponent < 0 {
            let zeros = usize::try_from(-self.exponent - 1).unwrap_or(0);
            return format!("{}0.{}{}", self.sign(), "0".repeat(zeros), self.significant);
        }
        let whole = usize::try_from(self.exponent).unwrap_or(0) + 1;
        match self.significant.split_at_checked(whole) {
            Some((whole, "")) => format!("{}{whole}", self.sign()),
            Some((whole, fraction)) => format!("{}{whole}.{fraction}", self.sign()),
            None => {
                format!("{}{}{}", self.sign(), self.significant, "0".repeat(whole - self.significant.len()))
            }
        }
    }
}
