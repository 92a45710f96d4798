//! Numbers between texts and kinds, as Go's `strconv` and conversions do it.

/// `strconv.ParseInt(text, 0, 64)`: prefixes say the base, underscores may separate digits.
pub(crate) fn parse_int(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    let magnitude = parse_uint(digits)?;
    if negative { 0_i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// `strconv.ParseUint(text, 0, 64)`.
pub(crate) fn parse_uint(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let (base, digits, prefixed) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits, true)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits, true)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits, true)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, lower.get(1..)?, true)
    } else {
        (10, lower.as_str(), false)
    };
    if digits.contains('_') && !underscores_are_fine(&lower) {
        return None;
    }
    let mut value: u64 = 0;
    let mut any = false;
    for digit in digits.chars().filter(|digit| *digit != '_') {
        any = true;
        value =
            value.checked_mul(base)?.checked_add(u64::from(digit.to_digit(u32::try_from(base).ok()?)?))?;
    }
    // "0" alone has no digits behind its prefix, "0x" neither.
    (any || (prefixed && digits.is_empty() && lower == "0")).then_some(value)
}

/// Whether underscores only separate digits, or a prefix from them.
fn underscores_are_fine(text: &str) -> bool {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text).to_ascii_lowercase();
    let mut hexadecimal = false;
    // What was last: a digit (or a prefix), an underscore, anything else, nothing.
    let mut last = '^';
    let mut rest = text.as_str();
    if let Some(after) = ["0x", "0b", "0o"].iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        hexadecimal = text.starts_with("0x");
        last = '0';
        rest = after;
    }
    for character in rest.chars() {
        if character.is_ascii_digit() || (hexadecimal && matches!(character, 'a'..='f')) {
            last = '0';
        } else if character == '_' {
            if last != '0' {
                return false;
            }
            last = '_';
        } else {
            if last == '_' {
                return false;
            }
            last = '!';
        }
    }
    last != '_'
}

/// `strconv.ParseFloat(text, 64)`; what is out of range is none.
pub(crate) fn parse_float(text: &str) -> Option<f64> {
    parse_float_or_range(text).filter(|float| !float.is_infinite() || is_infinity(text))
}

fn is_infinity(text: &str) -> bool {
    let word = text.strip_prefix(['-', '+']).unwrap_or(text);
    word.eq_ignore_ascii_case("inf") || word.eq_ignore_ascii_case("infinity")
}

/// The same, with an infinity for what is out of range.
pub(crate) fn parse_float_or_range(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if is_infinity(text) {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    if text.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    let lower = unsigned.to_ascii_lowercase();
    if let Some(digits) = lower.strip_prefix("0x") {
        let magnitude = hexadecimal_float(digits, &lower)?;
        return Some(if text.starts_with('-') { -magnitude } else { magnitude });
    }
    if lower.contains('_') && !underscores_are_fine(&lower) {
        return None;
    }
    if !lower.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'+' | b'-' | b'_')) {
        return None;
    }
    if !lower.bytes().take_while(|byte| *byte != b'e').any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    if text.contains('_') { text.replace('_', "").parse().ok() } else { text.parse().ok() }
}

/// Reads `1.8p-3` behind its prefix; the exponent is needed.
fn hexadecimal_float(digits: &str, whole: &str) -> Option<f64> {
    if digits.contains('_') && !underscores_are_fine(whole) {
        return None;
    }
    let digits: String = digits.chars().filter(|character| *character != '_').collect();
    let (mantissa, exponent) = digits.split_once('p')?;
    let exponent_digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if exponent_digits.is_empty() || !exponent_digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let exponent: i64 =
        exponent.parse().unwrap_or(if exponent.starts_with('-') { -100_000 } else { 100_000 });
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if integer.is_empty() && fraction.is_empty() {
        return None;
    }
    // 60 bits and one that says whether anything follows are enough to round once.
    let (mut bits, mut shift, mut sticky): (u64, i64, bool) = (0, 0, false);
    for (place, digit) in integer.chars().chain(fraction.chars()).enumerate() {
        let digit = u64::from(digit.to_digit(16)?);
        if place >= integer.len() {
            shift -= 4;
        }
        if bits >> 56 == 0 {
            bits = bits << 4 | digit;
        } else {
            shift += 4;
            sticky |= digit != 0;
        }
    }
    Some(scaled(bits << 1 | u64::from(sticky), shift - 1 + exponent.clamp(-100_000, 100_000)))
}

/// `bits * 2^exponent`, rounded once, to even.
#[expect(clippy::cast_precision_loss, reason = "the rounding is what is wanted")]
fn scaled(bits: u64, exponent: i64) -> f64 {
    if bits == 0 {
        return 0.0;
    }
    let length = i64::from(64 - bits.leading_zeros());
    // The exponent of the first bit decides how many are kept: 53, fewer below the normal numbers.
    let first = length - 1 + exponent;
    if first > 1023 {
        return f64::INFINITY;
    }
    let kept = if first >= -1022 { 53 } else { 53 - (-1022 - first) };
    let drop = length - kept;
    let (rounded, exponent) = if drop <= 0 {
        (bits, exponent)
    } else if drop > 63 {
        (0, exponent)
    } else {
        let (quotient, half) = (bits >> drop, 1_u64 << (drop - 1));
        let rest = bits & ((1 << drop) - 1);
        let up = rest > half || (rest == half && quotient & 1 == 1);
        (quotient + u64::from(up), exponent + drop)
    };
    // Exact from here on: powers of two in two steps, so that none of them is out of range.
    let exponent = i32::try_from(exponent).unwrap_or(i32::MAX);
    let (first, second) = (exponent / 2, exponent - exponent / 2);
    rounded as f64 * 2.0_f64.powi(first) * 2.0_f64.powi(second)
}

/// `int64(float)` on amd64: what does not fit is the smallest.
#[expect(clippy::cast_possible_truncation, reason = "checked just before")]
pub(crate) fn to_i64(float: f64) -> i64 {
    if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&float) {
        float as i64
    } else {
        i64::MIN
    }
}

/// `uint64(float)` on amd64.
#[expect(clippy::cast_sign_loss, reason = "the bits are what is wanted")]
pub(crate) fn to_u64(float: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if float < HALF { to_i64(float) as u64 } else { (to_i64(float - HALF) as u64) ^ (1 << 63) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_183_numbers_are_read_as_strconv_does() {
        assert_eq!(parse_int("-0x1F"), Some(-31));
        assert_eq!(
            ["0", "017", "0b11", "0o7", "1_000", "0x_1"].map(parse_int).map(Option::unwrap_or_default),
            [0, 15, 3, 7, 1000, 1]
        );
        for bad in ["", "-", "08", "0x", "1__0", "_1", "1_", "1.0", "9223372036854775808", "0_", "0x1_"] {
            assert_eq!(parse_int(bad), None, "{bad}");
        }
        assert_eq!(parse_float("0x1.8p-1"), Some(0.75));
        assert_eq!(parse_float("0x1p-1074"), Some(5e-324));
        assert_eq!(parse_float("-Inf"), Some(f64::NEG_INFINITY));
        let read = [".5", "5.", "1e3", "+1_0.5"].map(|text| parse_float(text).unwrap_or_default().to_bits());
        assert_eq!(read, [0.5_f64, 5.0, 1000.0, 10.5].map(f64::to_bits));
        for bad in ["", ".", "e1", "0x1", "1_", "1_e1", "1e", "1e400", "0x1p1024"] {
            assert_eq!(parse_float(bad), None, "{bad}");
        }
        assert_eq!((to_i64(1e19), to_i64(f64::NAN), to_u64(-1.0)), (i64::MIN, i64::MIN, u64::MAX));
    }
}
