//! Numbers of schemas and values, compared as the decimals they are written as.
//!
//! `0.1` and `19.99` are no binary fractions, but `multipleOf: 0.01` holds for `19.99`. So a number is its shortest
//! decimal spelling: a whole number of at most 17 digits (20 for large integers) times a power of ten.

use std::cmp::Ordering;

use serde_json::Number;

/// A number as digits and exponent: `digits * 10^exponent`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decimal {
    digits: i128,
    exponent: i32,
    float: f64,
}

impl Decimal {
    pub(super) fn new(number: &Number) -> Self {
        let float = number.as_f64().unwrap_or_default();
        if let Some(integer) = number.as_i64() {
            return Self::normal(i128::from(integer), 0, float);
        }
        if let Some(integer) = number.as_u64() {
            return Self::normal(i128::from(integer), 0, float);
        }
        // Rust prints the shortest digits that read back, as Go does.
        let text = format!("{float:e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let digits = mantissa.replace('.', "").parse().unwrap_or_default();
        let exponent = exponent.parse::<i32>().unwrap_or_default();
        Self::normal(digits, exponent - i32::try_from(fraction).unwrap_or_default(), float)
    }

    fn normal(mut digits: i128, mut exponent: i32, float: f64) -> Self {
        while digits != 0 && digits % 10 == 0 {
            digits /= 10;
            exponent += 1;
        }
        Self { digits, exponent: if digits == 0 { 0 } else { exponent }, float }
    }

    pub(super) fn is_integer(self) -> bool {
        self.exponent >= 0
    }

    /// As a count; `None` when it is none.
    pub(super) fn count(self) -> Option<i64> {
        let scale = 10_i128.checked_pow(u32::try_from(self.exponent).ok()?)?;
        i64::try_from(self.digits.checked_mul(scale)?).ok()
    }

    pub(super) fn float(self) -> f64 {
        self.float
    }

    /// Both with the smaller of their exponents; `None` where that takes more digits than there are.
    fn aligned(self, other: Self) -> Option<(i128, i128)> {
        let least = self.exponent.min(other.exponent);
        let scaled = |number: Self| {
            let shift = u32::try_from(number.exponent - least).ok()?;
            number.digits.checked_mul(10_i128.checked_pow(shift)?)
        };
        Some((scaled(self)?, scaled(other)?))
    }

    pub(super) fn compare(self, other: Self) -> Ordering {
        match self.aligned(other) {
            Some((own, others)) => own.cmp(&others),
            // So far apart that floats tell them apart.
            None => self.float.total_cmp(&other.float),
        }
    }

    /// Whether the quotient is a whole number. Nothing is a multiple of zero.
    pub(super) fn is_multiple_of(self, other: Self) -> bool {
        match self.aligned(other) {
            Some((_, 0)) => false,
            Some((own, others)) => own % others == 0,
            // What is too large to align is a multiple of any short number; what is too small of none.
            None => self.float.abs() >= other.float.abs() && other.digits != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(number: f64) -> Decimal {
        Decimal::new(&Number::from_f64(number).unwrap())
    }

    #[test]
    fn rnd_176_numbers_are_decimals() {
        assert!(decimal(19.99).is_multiple_of(decimal(0.01)));
        assert!(decimal(1e20).is_multiple_of(decimal(0.5)));
        assert!(!decimal(0.07).is_multiple_of(decimal(0.02)));
        assert!(!decimal(1.0).is_multiple_of(decimal(0.0)));
        assert!(decimal(3.0).is_integer() && decimal(1e300).is_integer() && !decimal(3.1).is_integer());
        assert_eq!(decimal(3.0).compare(Decimal::new(&Number::from(3))), Ordering::Equal);
        assert_eq!(decimal(1e300).compare(decimal(1e-300)), Ordering::Greater);
        assert_eq!(Decimal::new(&Number::from(u64::MAX)).compare(decimal(1e19)), Ordering::Greater);
        assert_eq!(decimal(1000.0).count(), Some(1000));
        assert_eq!(decimal(0.5).count(), None);
    }
}
