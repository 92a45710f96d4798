//! Exact decimals of any length: a sign, digits and a power of ten.
//!
//! Powers of ten are never spelled out, so `1e2000000000` is one digit.

use std::cmp::Ordering;

/// A number; zero has no digits, other numbers begin with a digit that is not zero.
#[derive(Clone, Debug)]
pub(super) struct Decimal {
    negative: bool,
    /// Most significant first, each 0 to 9.
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Makes one from ASCII digits.
    pub(super) fn new(negative: bool, digits: impl Iterator<Item = u8>, exponent: i64) -> Self {
        let digits: Vec<u8> =
            digits.map(|digit| digit.wrapping_sub(b'0')).skip_while(|digit| *digit == 0).collect();
        Self { negative, digits, exponent }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.digits.is_empty()
    }

    pub(super) fn exponent(&self) -> i64 {
        self.exponent
    }

    /// Sign and digits, without the power of ten.
    pub(super) fn mantissa(&self) -> String {
        let sign = self.negative.then_some('-');
        sign.into_iter().chain(self.digits.iter().map(|digit| char::from(b'0' + digit))).collect()
    }

    /// The number times two to the `power`.
    pub(super) fn times_power_of_two(mut self, power: i32) -> Self {
        for _ in 0..power {
            let mut carry = 0;
            for digit in self.digits.iter_mut().rev() {
                let doubled = *digit * 2 + carry;
                *digit = doubled % 10;
                carry = doubled / 10;
            }
            if carry > 0 {
                self.digits.insert(0, carry);
            }
        }
        self
    }

    /// Gives the number exactly this exponent, or leaves it when its own is larger; away from zero.
    pub(super) fn round_up(&mut self, exponent: i64) {
        if self.is_zero() || self.exponent >= exponent {
            return;
        }
        let dropped = usize::try_from(exponent - self.exponent).unwrap_or(usize::MAX);
        let kept = self.digits.len().saturating_sub(dropped);
        let has_rest = self.digits.drain(kept..).any(|digit| digit != 0);
        self.exponent = exponent;
        if has_rest {
            self.increment();
        }
    }

    fn increment(&mut self) {
        for digit in self.digits.iter_mut().rev() {
            if *digit < 9 {
                *digit += 1;
                return;
            }
            *digit = 0;
        }
        self.digits.insert(0, 1);
    }

    /// Limits the magnitude.
    pub(super) fn cap(&mut self, limit: i64) {
        let capped = Self::new(self.negative, limit.unsigned_abs().to_string().bytes(), 0);
        if self.compare_magnitude(&capped).is_gt() {
            *self = capped;
        }
    }

    /// Whether the magnitude lies between zero and one.
    pub(super) fn is_below_one(&self) -> bool {
        !self.is_zero() && self.order_of_magnitude() <= 0
    }

    /// Number of digits before the decimal point, negative for leading zeros after it.
    fn order_of_magnitude(&self) -> i64 {
        i64::try_from(self.digits.len()).unwrap_or(i64::MAX).saturating_add(self.exponent)
    }

    pub(super) fn compare(&self, other: &Self) -> Ordering {
        match (self.signum(), other.signum()) {
            (-1, -1) => other.compare_magnitude(self),
            (1, 1) => self.compare_magnitude(other),
            (own, others) => own.cmp(&others),
        }
    }

    fn signum(&self) -> i8 {
        match (self.is_zero(), self.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    fn compare_magnitude(&self, other: &Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let by_magnitude = self.order_of_magnitude().cmp(&other.order_of_magnitude());
        by_magnitude.then_with(|| {
            let length = self.digits.len().max(other.digits.len());
            let padded = |digits: &[u8]| {
                digits.iter().copied().chain(std::iter::repeat(0)).take(length).collect::<Vec<_>>()
            };
            padded(&self.digits).cmp(&padded(&other.digits))
        })
    }

    /// Moves trailing zeros into the exponent and makes that a multiple of three.
    pub(super) fn align_to_thousands(&mut self) {
        while self.digits.last() == Some(&0) {
            self.digits.pop();
            self.exponent += 1;
        }
        while self.exponent % 3 != 0 {
            self.digits.push(0);
            self.exponent -= 1;
        }
    }

    /// The text with a binary suffix; `None` when the number has a fraction or is below 1024.
    pub(super) fn binary_text(&self) -> Option<String> {
        let mut whole = self.clone();
        while whole.exponent < 0 && whole.digits.last() == Some(&0) {
            whole.digits.pop();
            whole.exponent += 1;
        }
        if whole.exponent < 0 || whole.order_of_magnitude() > 40 {
            return None;
        }
        let digits = whole.digits.iter().copied();
        let mut rest = digits
            .chain((0..whole.exponent).map(|_| 0))
            .try_fold(0_u128, |sum, digit| sum.checked_mul(10)?.checked_add(u128::from(digit)))?;
        if rest < 1024 {
            return None;
        }
        let mut suffix = "";
        for larger in ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"] {
            if rest % 1024 != 0 {
                break;
            }
            rest /= 1024;
            suffix = larger;
        }
        Some(format!("{}{rest}{suffix}", if self.negative { "-" } else { "" }))
    }

    /// The number in units of ten to the `exponent` (at least nano), one more where there is a rest; `None`
    /// when its magnitude does not fit 64 bits.
    ///
    /// Negative numbers pass through 64 bits at nano scale and wrap around there: the original does that.
    pub(super) fn scaled(&self, exponent: i32) -> Option<i64> {
        const NANO: i64 = -9;
        let places = i64::from(exponent) - NANO;
        if self.is_zero() {
            return Some(0);
        }
        if self.order_of_magnitude() > 20 || self.exponent < NANO {
            return None;
        }
        let divisor = 10_i64.checked_pow(u32::try_from(places).ok()?)?;
        let mut digits = self.digits.iter().copied().chain((NANO..self.exponent).map(|_| 0));
        let nano =
            digits.try_fold(0_u128, |sum, digit| sum.checked_mul(10)?.checked_add(u128::from(digit)))?;
        let wide = u128::from(divisor.unsigned_abs());
        let magnitude = i64::try_from(nano.div_ceil(wide)).ok().filter(|found| *found < super::OUTSIDE)?;
        if !self.negative {
            return Some(magnitude);
        }
        let low_bits = u64::try_from(nano & u128::from(u64::MAX)).ok()?;
        let wrapped = low_bits.cast_signed().wrapping_neg();
        Some(wrapped / divisor + i64::from(wrapped % divisor != 0))
    }
}
