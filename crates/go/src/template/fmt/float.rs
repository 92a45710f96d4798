//! Floats: `strconv.FormatFloat` and what `fmt` adds to it.

use super::printer::{Flags, Printer};
use crate::number;
use crate::template::limits::Exceeded;
use crate::template::value::Value;

/// No float has more digits than this, so all behind them are zeros; formatting knows no larger precision than 65,535.
const DIGITS_MAX: usize = 1_100;

impl Printer<'_> {
    pub(super) fn float(&mut self, value: &Value, number: f64, verb: char) -> Result<(), Exceeded> {
        match verb {
            'v' => self.formatted(number, 'g', None),
            'b' | 'g' | 'G' | 'x' | 'X' => self.formatted(number, verb, None),
            'f' | 'e' | 'E' => self.formatted(number, verb, Some(6)),
            'F' => self.formatted(number, 'f', Some(6)),
            _ => self.bad_verb(value, verb),
        }
    }

    pub(super) fn complex(&mut self, value: &Value, parts: (f64, f64), verb: char) -> Result<(), Exceeded> {
        if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
            return self.bad_verb(value, verb);
        }
        let plus = self.flags.plus;
        self.put(b"(")?;
        self.float(value, parts.0, verb)?;
        self.flags.plus = true;
        self.float(value, parts.1, verb)?;
        self.flags.plus = plus;
        self.put(b"i)")
    }

    fn formatted(&mut self, number: f64, verb: char, precision: Option<usize>) -> Result<(), Exceeded> {
        let Flags { plus, space, sharp, minus, zero, width, .. } = self.flags;
        let precision = self.flags.precision.or(precision);
        let spelled = format_float(number, verb, precision);
        // A sign always stands first.
        let mut text = if spelled.starts_with(['-', '+']) { spelled } else { format!("+{spelled}") };
        if space && text.starts_with('+') && !plus {
            text.replace_range(..1, " ");
        }
        if text.get(1..2).is_some_and(|second| second == "I" || second == "N") {
            if text.ends_with("NaN") && !space && !plus {
                text.remove(0);
            }
            return self.pad_blank(text.as_bytes());
        }
        if sharp && verb != 'b' {
            text = with_point(&text, verb, precision);
        }
        if plus || !text.starts_with('+') {
            let missing = width.unwrap_or(0).saturating_sub(text.len());
            if zero && !minus && missing > 0 {
                // The sign stands before the zeros.
                let (sign, digits) = text.split_at_checked(1).unwrap_or((&text, ""));
                self.put(sign.as_bytes())?;
                self.fill(missing)?;
                return self.put(digits.as_bytes());
            }
            return self.pad(text.as_bytes());
        }
        self.pad(text.get(1..).unwrap_or_default().as_bytes())
    }
}

/// What `#` asks for: always a point, and the zeros at the end.
fn with_point(text: &str, verb: char, precision: Option<usize>) -> String {
    let mut digits = match verb {
        'g' | 'G' | 'x' => precision.map_or(6, |precision| i64::try_from(precision).unwrap_or(i64::MAX)),
        _ => 0,
    };
    let hexadecimal = matches!(verb, 'x' | 'X');
    let end = text
        .char_indices()
        .skip(1)
        .find(|(_, character)| {
            matches!(character, 'p' | 'P') || (!hexadecimal && matches!(character, 'e' | 'E'))
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, tail) = text.split_at_checked(end).unwrap_or((text, ""));
    let (mut point, mut significant) = (false, false);
    for character in number.chars().skip(1) {
        if character == '.' {
            point = true;
            continue;
        }
        significant |= character != '0';
        digits -= i64::from(significant);
    }
    let mut out = number.to_owned();
    if !point {
        // A zero alone counts as a digit.
        if number.len() == 2 && number.ends_with('0') {
            digits -= 1;
        }
        out.push('.');
    }
    out.extend(std::iter::repeat_n('0', usize::try_from(digits).unwrap_or(0)));
    out + tail
}

/// `strconv.FormatFloat(number, format, precision, 64)`; no precision is the fewest digits that read back the same.
pub(crate) fn format_float(number: f64, format: char, precision: Option<usize>) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match format {
        'b' => binary(number),
        'x' | 'X' => {
            let text = hexadecimal(number, precision);
            if format == 'X' { text.to_uppercase() } else { text }
        }
        'e' | 'E' => {
            let digits = Digits::of(number, precision.map(|precision| precision + 1));
            let precision = precision.unwrap_or_else(|| digits.spelled.len().saturating_sub(1));
            digits.scientific(precision, format)
        }
        'f' => {
            if let Some(precision) = precision {
                let exact = precision.min(DIGITS_MAX);
                let mut text = format!("{number:.exact$}");
                text.extend(std::iter::repeat_n('0', precision - exact));
                return text;
            }
            let digits = Digits::of(number, None);
            let fraction = i32::try_from(digits.spelled.len()).unwrap_or(0) - digits.point;
            digits.plain(usize::try_from(fraction).unwrap_or(0))
        }
        _ => general(number, format, precision),
    }
}

/// `%g`: an exponent where it is small or large.
fn general(number: f64, format: char, precision: Option<usize>) -> String {
    let wanted = precision.map(|precision| precision.max(1));
    let digits = Digits::of(number, wanted);
    let count = i32::try_from(digits.spelled.len()).unwrap_or(i32::MAX);
    let precision = wanted.map_or(count, |wanted| i32::try_from(wanted).unwrap_or(i32::MAX));
    let mut deciding = precision;
    if deciding > count && count >= digits.point {
        deciding = count;
    }
    if wanted.is_none() {
        deciding = 6;
    }
    let exponent = digits.point - 1;
    let at_least_zero = |value: i32| usize::try_from(value).unwrap_or(0);
    if exponent < -4 || exponent >= deciding {
        let letter = if format == 'G' { 'E' } else { 'e' };
        return digits.scientific(at_least_zero(precision.min(count) - 1), letter);
    }
    let precision = if precision > digits.point { count } else { precision };
    digits.plain(at_least_zero(precision - digits.point))
}

/// A number by its decimal digits, without zeros at the end; the point stands before the digit of a place.
struct Digits {
    negative: bool,
    spelled: String,
    point: i32,
}

impl Digits {
    /// So many digits, rounded to even; or as few as read back the same.
    fn of(number: f64, count: Option<usize>) -> Self {
        let spelled = match count {
            Some(count) => format!("{:.*e}", count.saturating_sub(1).min(DIGITS_MAX), number.abs()),
            None => number::shortest(&number.abs()),
        };
        let (mantissa, exponent) = spelled.split_once('e').unwrap_or((&spelled, "0"));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let digits = digits.trim_end_matches('0').to_owned();
        let point = if digits.is_empty() { 0 } else { exponent.parse().unwrap_or(0) + 1 };
        Self { negative: number.is_sign_negative(), spelled: digits, point }
    }

    fn sign(&self) -> &'static str {
        if self.negative { "-" } else { "" }
    }

    fn scientific(&self, precision: usize, letter: char) -> String {
        let mut out = self.sign().to_owned();
        let mut digits = self.spelled.chars().chain(std::iter::repeat('0'));
        out.extend(digits.next());
        if precision > 0 {
            out.push('.');
            out.extend(digits.take(precision));
        }
        let exponent = if self.spelled.is_empty() { 0 } else { self.point - 1 };
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{out}{letter}{sign}{:02}", exponent.unsigned_abs())
    }

    fn plain(&self, precision: usize) -> String {
        let mut out = self.sign().to_owned();
        let whole = usize::try_from(self.point).unwrap_or(0);
        let mut digits = self.spelled.chars();
        if whole == 0 {
            out.push('0');
        }
        out.extend(digits.by_ref().chain(std::iter::repeat('0')).take(whole));
        if precision > 0 {
            out.push('.');
            let zeros = usize::try_from(-self.point).unwrap_or(0).min(precision);
            out.extend(std::iter::repeat_n('0', zeros));
            out.extend(digits.chain(std::iter::repeat('0')).take(precision - zeros));
        }
        out
    }
}

/// Mantissa and exponent of base two: `4503599627370496p-52`.
fn binary(number: f64) -> String {
    let (mantissa, exponent) = parts(number);
    let sign = if number.is_sign_negative() { "-" } else { "" };
    format!("{sign}{mantissa}p{:+}", exponent - 52)
}

fn parts(number: f64) -> (u64, i32) {
    let bits = number.to_bits();
    let exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap_or(0);
    let mantissa = bits & ((1 << 52) - 1);
    if exponent == 0 { (mantissa, 1 - 1023) } else { (mantissa | 1 << 52, exponent - 1023) }
}

/// `0x1.8p+00`.
fn hexadecimal(number: f64, precision: Option<usize>) -> String {
    let (mut mantissa, mut exponent) = parts(number);
    if mantissa == 0 {
        exponent = 0;
    }
    mantissa <<= 60 - 52;
    while mantissa != 0 && mantissa & (1 << 60) == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(precision) = precision.filter(|precision| *precision < 15) {
        let shift = precision * 4;
        let extra = (mantissa << shift) & ((1 << 60) - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > 1 << 59 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & (1 << 61) != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut out = String::new();
    if number.is_sign_negative() {
        out.push('-');
    }
    out.push_str(if mantissa >> 60 & 1 == 1 { "0x1" } else { "0x0" });
    mantissa <<= 4;
    let digit =
        |mantissa: u64| u32::try_from(mantissa >> 60).ok().and_then(|digit| char::from_digit(digit, 16));
    match precision {
        None if mantissa != 0 => {
            out.push('.');
            while mantissa != 0 {
                out.extend(digit(mantissa));
                mantissa <<= 4;
            }
        }
        Some(precision) if precision > 0 => {
            out.push('.');
            for _ in 0..precision {
                out.extend(digit(mantissa));
                mantissa <<= 4;
            }
        }
        _ => {}
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{out}p{sign}{:02}", exponent.unsigned_abs())
}
