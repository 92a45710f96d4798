//! Resource quantities: `500m`, `1Gi`, `1e3`.
//!
//! Follows `k8s.io/apimachinery/pkg/api/resource` 0.36.1; golden family `quantity`. Amounts are exact decimals,
//! never floats. Small ones stay in 64 bits, so that re-writing an object allocates nothing for the quantities
//! that are canonical already; large or very precise ones are digit strings whose cost is linear in the text.

mod decimal;

use std::borrow::Cow;
use std::cmp::Ordering;

use decimal::Decimal;

/// Ten to this power is the smallest unit, below it everything is rounded up.
const NANO: i32 = -9;

/// Decimal digits that surely fit 64 bits.
const DIGITS_MAX: usize = 18;

/// Why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// The text is not a number with a suffix.
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    /// There are no digits.
    #[error("unable to parse numeric part of quantity")]
    Number,
    /// The suffix is none of the known units.
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// Family of suffixes a quantity was written with and is printed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// `n u m k M G T P E`.
    Decimal,
    /// `Ki Mi Gi Ti Pi Ei`.
    Binary,
    /// `e3`, `E-2`.
    Exponent,
}

/// An exact amount. The two forms round negative fractions differently, as the original does.
#[derive(Clone, Debug)]
enum Amount {
    /// `value` times ten to the `exponent`.
    Small { value: i64, exponent: i32 },
    /// More than 64 bits, or rounded to nano.
    Large(Decimal),
}

/// A parsed quantity.
///
/// ```
/// # use tiphys_object::quantity::Quantity;
/// let half = Quantity::parse("0.5").unwrap();
/// assert_eq!(half.canonical(), "500m");
/// assert_eq!((half.value(), half.milli()), (Some(1), Some(500)));
/// assert!(half.compare(&Quantity::parse("1Ki").unwrap()).is_lt());
/// ```
#[derive(Clone, Debug)]
pub struct Quantity {
    amount: Amount,
    family: Family,
    /// The text as given, when it counts as canonical.
    written: Option<String>,
}

/// Amounts from here on are not given as integers.
const OUTSIDE: i64 = 9_200_000_000_000_000_000;

impl Quantity {
    /// Reads a quantity.
    ///
    /// # Errors
    /// When the text is no quantity.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parsed = parse(text)?;
        Ok(Self {
            amount: parsed.amount,
            family: parsed.family,
            written: parsed.is_canonical.then(|| text.to_owned()),
        })
    }

    /// The canonical text; the suffix family stays.
    pub fn canonical(&self) -> String {
        self.written.clone().unwrap_or_else(|| canonical(&self.amount, self.family))
    }

    /// The amount rounded up to an integer; `None` when it does not fit 64 bits.
    pub fn value(&self) -> Option<i64> {
        self.scaled(0)
    }

    /// The amount in thousandths, rounded up; `None` when it does not fit 64 bits.
    pub fn milli(&self) -> Option<i64> {
        self.scaled(-3)
    }

    /// Order by amount, whatever the suffix.
    pub fn compare(&self, other: &Self) -> Ordering {
        self.amount.decimal().compare(&other.amount.decimal())
    }

    fn scaled(&self, exponent: i32) -> Option<i64> {
        match &self.amount {
            Amount::Small { value, exponent: own } if *own >= exponent => {
                let factor = 10_i64.checked_pow(own.abs_diff(exponent));
                if *value == 0 { Some(0) } else { value.checked_mul(factor?) }
            }
            Amount::Small { value, exponent: own } => {
                let Some(divisor) = 10_i64.checked_pow(own.abs_diff(exponent)) else {
                    return Some(value.signum());
                };
                let away = if value % divisor == 0 { 0 } else { value.signum() };
                Some(value / divisor + away)
            }
            Amount::Large(decimal) => decimal.scaled(exponent),
        }
        .filter(|found| found.unsigned_abs() < OUTSIDE.unsigned_abs())
    }
}

/// The canonical text of a quantity, borrowed when the text is canonical already.
///
/// # Errors
/// When the text is no quantity.
pub fn canonical_text(text: &str) -> Result<Cow<'_, str>, QuantityError> {
    let parsed = parse(text)?;
    if parsed.is_canonical {
        return Ok(Cow::Borrowed(text));
    }
    let written = canonical(&parsed.amount, parsed.family);
    Ok(if written == text { Cow::Borrowed(text) } else { Cow::Owned(written) })
}

struct Parsed {
    amount: Amount,
    family: Family,
    is_canonical: bool,
}

/// A quantity text taken apart; leading zeros of the whole part are dropped.
struct Parts<'a> {
    negative: bool,
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    /// Whether the number has a digit at all.
    has_digits: bool,
}

fn split(text: &str) -> Result<Parts<'_>, QuantityError> {
    let digits_end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let trimmed = unsigned.trim_start_matches('0');
    let (whole, rest) = trimmed.split_at(digits_end(trimmed));
    let (fraction, suffix) = match rest.strip_prefix('.') {
        Some(after) => after.split_at(digits_end(after)),
        None => ("", rest),
    };
    let unit_end = suffix.find(|c: char| !"eEinumkKMGTP".contains(c)).unwrap_or(suffix.len());
    let exponent = suffix.split_at(unit_end).1;
    let exponent = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
    if digits_end(exponent) != exponent.len() {
        return Err(QuantityError::Format);
    }
    Ok(Parts {
        negative: text.starts_with('-'),
        whole: if whole.is_empty() { "0" } else { whole },
        fraction,
        suffix,
        has_digits: unsigned.len() > trimmed.len() || !whole.is_empty() || !fraction.is_empty(),
    })
}

fn parse(text: &str) -> Result<Parsed, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let parts = split(text)?;
    let (family, exponent) = read_suffix(parts.suffix).ok_or(QuantityError::Suffix)?;
    if let Some(parsed) = parse_small(&parts, family, exponent) {
        return Ok(parsed);
    }
    if !parts.has_digits {
        return Err(QuantityError::Number);
    }
    let digits = parts.whole.bytes().chain(parts.fraction.bytes());
    let places = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
    let mut amount = match family {
        Family::Binary => Decimal::new(parts.negative, digits, -places).times_power_of_two(exponent),
        Family::Decimal | Family::Exponent => {
            Decimal::new(parts.negative, digits, i64::from(exponent) - places)
        }
    };
    amount.round_up(i64::from(NANO));
    let mut family = family;
    if family == Family::Binary {
        amount.cap(i64::MAX);
        if amount.is_below_one() {
            family = Family::Decimal;
        }
    }
    Ok(Parsed { amount: Amount::Large(amount), family, is_canonical: false })
}

/// The way of quantities that fit 64 bits; it decides alone which texts count as canonical as they are.
fn parse_small(parts: &Parts<'_>, family: Family, exponent: i32) -> Option<Parsed> {
    let places = i32::try_from(parts.fraction.len()).ok()?;
    let (scale, factor) = match family {
        Family::Decimal | Family::Exponent => {
            (parts.whole.len() + parts.fraction.len() <= DIGITS_MAX).then_some((exponent, 1_i64))?
        }
        Family::Binary => {
            let room =
                14_i32.checked_sub(exponent * 3 / 10)?.checked_sub(i32::try_from(parts.whole.len()).ok()?)?;
            (places == 0 && room >= 0).then_some((0, 1_i64 << exponent))?
        }
    };
    let scale = scale.checked_sub(places).filter(|scale| *scale >= NANO)?;
    let digits = || parts.whole.bytes().chain(parts.fraction.bytes());
    let value =
        digits().try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
    let product = value.checked_mul(factor)?;
    let is_canonical = match family {
        Family::Binary => value & 7 != 0,
        Family::Decimal | Family::Exponent => {
            let ends_in_thousand = value % 1000 == 0 && parts.whole.len() + parts.fraction.len() >= 3;
            scale % 3 == 0 && !ends_in_thousand && digits().next() != Some(b'0')
        }
    };
    let value = if parts.negative { -product } else { product };
    Some(Parsed { amount: Amount::Small { value, exponent: scale }, family, is_canonical })
}

fn read_suffix(suffix: &str) -> Option<(Family, i32)> {
    Some(match suffix {
        "n" => (Family::Decimal, -9),
        "u" => (Family::Decimal, -6),
        "m" => (Family::Decimal, -3),
        "" => (Family::Decimal, 0),
        "k" => (Family::Decimal, 3),
        "M" => (Family::Decimal, 6),
        "G" => (Family::Decimal, 9),
        "T" => (Family::Decimal, 12),
        "P" => (Family::Decimal, 15),
        "E" => (Family::Decimal, 18),
        "Ki" => (Family::Binary, 10),
        "Mi" => (Family::Binary, 20),
        "Gi" => (Family::Binary, 30),
        "Ti" => (Family::Binary, 40),
        "Pi" => (Family::Binary, 50),
        "Ei" => (Family::Binary, 60),
        _ => (Family::Exponent, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    })
}

/// Suffix of a decimal exponent, empty for one that has none: the original prints the bare number then.
fn decimal_suffix(exponent: i64) -> &'static str {
    match exponent {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    }
}

fn canonical(amount: &Amount, family: Family) -> String {
    let mut decimal = amount.decimal();
    if decimal.is_zero() {
        return "0".to_owned();
    }
    if family == Family::Binary
        && let Some(text) = decimal.binary_text()
    {
        return text;
    }
    decimal.align_to_thousands();
    let suffix = match family {
        Family::Exponent if decimal.exponent() == 0 => Cow::Borrowed(""),
        Family::Exponent => Cow::Owned(format!("e{}", decimal.exponent())),
        Family::Decimal | Family::Binary => Cow::Borrowed(decimal_suffix(decimal.exponent())),
    };
    format!("{}{suffix}", decimal.mantissa())
}

impl Amount {
    fn decimal(&self) -> Decimal {
        match self {
            Self::Small { value, exponent } => {
                let digits = value.unsigned_abs().to_string();
                Decimal::new(*value < 0, digits.bytes(), i64::from(*exponent))
            }
            Self::Large(decimal) => decimal.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eng_57_quantities_become_canonical() {
        for (text, wanted) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("1e3", "1e3"),
            ("1.1Mi", "1153433600m"),
            ("0.1n", "1n"),
            ("128Mi", "128Mi"),
        ] {
            assert_eq!(canonical_text(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn eng_57_huge_exponents_cost_nothing() {
        let huge = Quantity::parse("1e2000000000").unwrap();
        assert_eq!(huge.canonical(), "100e1999999998");
        assert_eq!(huge.value(), None);
        let tiny = Quantity::parse("1e-2000000000").unwrap();
        assert_eq!(tiny.canonical(), "1e-9");
        assert!(tiny.compare(&huge).is_lt());
    }
}
