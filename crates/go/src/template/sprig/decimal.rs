//! Decimal arithmetic as shopspring/decimal does it for `addf`, `subf`, `mulf` and `divf`.
//!
//! A float becomes the decimal with the fewest digits that reads back the same, the operation is exact (a quotient
//! has sixteen places), and the result becomes the nearest float.

use crate::number::shortest;
use std::cmp::Ordering;
use std::fmt::Write;

/// Digits of a limb.
const LIMB_DIGITS: usize = 9;
const LIMB: u64 = 1_000_000_000;
/// Places of a quotient.
const QUOTIENT_PLACES: i32 = 16;

/// A whole number times a power of ten.
#[derive(Debug, Clone)]
pub(super) struct Decimal {
    negative: bool,
    magnitude: Natural,
    exponent: i32,
}

impl Decimal {
    /// The decimal of a float.
    pub(super) fn of(float: f64) -> Result<Self, String> {
        if !float.is_finite() {
            let spelled = crate::template::fmt::format_float(float, 'g', None);
            return Err(format!("Cannot create a Decimal from {spelled}"));
        }
        let spelled = shortest(&float.abs());
        let (mantissa, exponent) = spelled.split_once('e').unwrap_or((&spelled, "0"));
        let fraction = mantissa.split_once('.').map_or(0, |(_, fraction)| fraction.len());
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        let exponent: i32 = exponent.parse().unwrap_or(0);
        Ok(Self {
            negative: float.is_sign_negative() && float != 0.0,
            magnitude: Natural::parse(&digits),
            exponent: exponent - i32::try_from(fraction).unwrap_or(0),
        })
    }

    /// The nearest float.
    pub(super) fn to_float(&self) -> f64 {
        let sign = if self.negative { "-" } else { "" };
        let text = format!("{sign}{}e{}", self.magnitude.digits(), self.exponent);
        // A zero has no sign.
        text.parse::<f64>().unwrap_or(0.0) + 0.0
    }

    /// A measure of its length.
    pub(super) fn size(&self) -> usize {
        self.magnitude.0.len()
    }

    fn is_zero(&self) -> bool {
        self.magnitude.0.is_empty()
    }

    /// Both with the smaller exponent.
    fn aligned(&self, other: &Self) -> (Natural, Natural, i32) {
        // A zero takes the other's exponent.
        let exponent = match (self.is_zero(), other.is_zero()) {
            (true, _) => other.exponent,
            (_, true) => self.exponent,
            _ => self.exponent.min(other.exponent),
        };
        let scaled = |decimal: &Self| {
            let places = usize::try_from(decimal.exponent - exponent).unwrap_or(0);
            decimal.magnitude.shifted(places)
        };
        (scaled(self), scaled(other), exponent)
    }

    #[expect(clippy::unnecessary_wraps, reason = "one signature for all operations")]
    pub(super) fn add(&self, other: &Self) -> Result<Self, String> {
        let (left, right, exponent) = self.aligned(other);
        Ok(if self.negative == other.negative {
            Self { negative: self.negative, magnitude: left.add(&right), exponent }
        } else if left.compare(&right) == Ordering::Less {
            Self { negative: other.negative, magnitude: right.subtract(&left), exponent }
        } else {
            Self { negative: self.negative, magnitude: left.subtract(&right), exponent }
        })
    }

    pub(super) fn subtract(&self, other: &Self) -> Result<Self, String> {
        self.add(&Self { negative: !other.negative, ..other.clone() })
    }

    pub(super) fn multiply(&self, other: &Self) -> Result<Self, String> {
        let exponent = self.exponent.checked_add(other.exponent);
        let exponent = exponent.ok_or_else(|| "exponent overflows an int32!".to_owned())?;
        let magnitude = self.magnitude.multiply(&other.magnitude);
        Ok(Self { negative: self.negative != other.negative, magnitude, exponent })
    }

    /// A quotient of sixteen places, a half rounded away from zero.
    pub(super) fn divide(&self, other: &Self) -> Result<Self, String> {
        if other.is_zero() {
            return Err("decimal division by 0".to_owned());
        }
        let places = self.exponent - other.exponent + QUOTIENT_PLACES;
        let shift = usize::try_from(places.unsigned_abs()).unwrap_or(0);
        let (dividend, divisor) = if places < 0 {
            (self.magnitude.clone(), other.magnitude.shifted(shift))
        } else {
            (self.magnitude.shifted(shift), other.magnitude.clone())
        };
        let (mut quotient, rest) = dividend.divide(&divisor);
        if rest.add(&rest).compare(&divisor) != Ordering::Less {
            quotient = quotient.add(&Natural(vec![1]));
        }
        Ok(Self {
            negative: self.negative != other.negative,
            magnitude: quotient,
            exponent: -QUOTIENT_PLACES,
        })
    }
}

/// A whole number without sign: limbs of nine digits, the lowest first, none of them zero at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Natural(Vec<u32>);

impl Natural {
    fn parse(digits: &str) -> Self {
        let limbs = digits.as_bytes().rchunks(LIMB_DIGITS).map(|chunk| {
            chunk.iter().fold(0_u32, |limb, digit| limb * 10 + u32::from(digit.saturating_sub(b'0')))
        });
        Self(limbs.collect()).trimmed()
    }

    fn digits(&self) -> String {
        let mut out = String::new();
        for (place, limb) in self.0.iter().rev().enumerate() {
            let width = if place == 0 { 1 } else { LIMB_DIGITS };
            let _ = write!(out, "{limb:0width$}");
        }
        if out.is_empty() { "0".to_owned() } else { out }
    }

    fn trimmed(mut self) -> Self {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    /// Times a power of ten.
    fn shifted(&self, places: usize) -> Self {
        if self.0.is_empty() || places == 0 {
            return self.clone();
        }
        Self::parse(&(self.digits() + &"0".repeat(places)))
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    fn add(&self, other: &Self) -> Self {
        let mut limbs = Vec::with_capacity(self.0.len().max(other.0.len()) + 1);
        let mut carry = 0;
        for place in 0..self.0.len().max(other.0.len()) {
            let at = |natural: &Self| u64::from(natural.0.get(place).copied().unwrap_or(0));
            let sum = at(self) + at(other) + carry;
            limbs.push(limb(sum % LIMB));
            carry = sum / LIMB;
        }
        limbs.push(limb(carry));
        Self(limbs).trimmed()
    }

    /// The difference to one that is not larger.
    fn subtract(&self, other: &Self) -> Self {
        let mut limbs = Vec::with_capacity(self.0.len());
        let mut borrow = 0;
        for (place, own) in self.0.iter().enumerate() {
            let taken = u64::from(other.0.get(place).copied().unwrap_or(0)) + borrow;
            let own = u64::from(*own);
            borrow = u64::from(own < taken);
            limbs.push(limb(own + borrow * LIMB - taken));
        }
        Self(limbs).trimmed()
    }

    fn multiply(&self, other: &Self) -> Self {
        let mut limbs = vec![0_u64; self.0.len() + other.0.len() + 1];
        for (shift, own) in self.0.iter().enumerate() {
            let mut carry = 0;
            for (place, others) in other.0.iter().chain([&0, &0]).enumerate() {
                let Some(limb) = limbs.get_mut(shift + place) else { break };
                let sum = *limb + u64::from(*own) * u64::from(*others) + carry;
                *limb = sum % LIMB;
                carry = sum / LIMB;
            }
        }
        Self(limbs.into_iter().map(limb).collect()).trimmed()
    }

    /// Quotient and rest, digit by digit of the limbs: each is found by halving.
    fn divide(&self, divisor: &Self) -> (Self, Self) {
        let mut quotient = vec![0; self.0.len()];
        let mut rest = Self(Vec::new());
        for (place, own) in self.0.iter().enumerate().rev() {
            rest.0.insert(0, *own);
            rest = rest.trimmed();
            let (mut low, mut high) = (0, LIMB);
            while high - low > 1 {
                let middle = u64::midpoint(low, high);
                if divisor.multiply(&Self(vec![limb(middle)])).compare(&rest) == Ordering::Greater {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            rest = rest.subtract(&divisor.multiply(&Self(vec![limb(low)]).trimmed()));
            if let Some(to) = quotient.get_mut(place) {
                *to = limb(low);
            }
        }
        (Self(quotient).trimmed(), rest)
    }
}

fn limb(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(left: f64, right: f64, compute: fn(&Decimal, &Decimal) -> Result<Decimal, String>) -> f64 {
        compute(&Decimal::of(left).unwrap(), &Decimal::of(right).unwrap()).unwrap().to_float()
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "exactly these")]
    fn rnd_200_floats_are_computed_as_decimals() {
        assert_eq!(computed(0.1, 0.2, Decimal::add), 0.3);
        assert_eq!(computed(0.3, 0.1, Decimal::subtract), 0.2);
        assert_eq!(computed(1.1, 1.1, Decimal::multiply), 1.21);
        assert_eq!(computed(1.0, 3.0, Decimal::divide), 0.333_333_333_333_333_3);
        assert_eq!(computed(-2.0, 3.0, Decimal::divide), -0.666_666_666_666_666_7);
        assert_eq!(computed(1e300, 1e-300, Decimal::add), 1e300);
        assert_eq!(computed(1e300, 1e300, Decimal::multiply), f64::INFINITY);
        assert_eq!(computed(123_456_789_012_345_680.0, 7e-20, Decimal::divide), 1.763_668_414_462_081_1e36);
    }
}
