//! Powers modulo an odd number, in Montgomery's form: a number is kept multiplied by the base, 2^64 to the number of
//! digits, which makes divisions of shifts.

use super::number::{Number, low};

/// Arithmetic modulo an odd number whose uppermost bit is set.
pub(super) struct Modulus {
    digits: Vec<u64>,
    /// The negative inverse of the lowest digit.
    inverse: u64,
    /// A product before it is reduced: twice as many digits.
    wide: Vec<u64>,
}

impl Modulus {
    pub(super) fn new(number: &Number) -> Self {
        let digits = number.digits().to_vec();
        let lowest = digits.first().copied().unwrap_or(1);
        // Each step doubles the digits that are right.
        let inverse = (0..6)
            .fold(1_u64, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(lowest.wrapping_mul(inverse))));
        let wide = vec![0; digits.len() * 2];
        Self { digits, inverse: inverse.wrapping_neg(), wide }
    }

    /// One in Montgomery's form: the base less the number, which is more than half of it.
    pub(super) fn one(&self) -> Vec<u64> {
        let mut carry = true;
        let negated = |digit: &u64| {
            let (digit, overflows) = (!digit).overflowing_add(u64::from(carry));
            carry = overflows;
            digit
        };
        self.digits.iter().map(negated).collect()
    }

    /// One less than the number in Montgomery's form.
    pub(super) fn minus_one(&self) -> Vec<u64> {
        let mut digits = self.digits.clone();
        subtract(&mut digits, &self.one());
        digits
    }

    /// Doubles a number in place.
    fn double(&self, value: &mut [u64]) {
        let mut carry = 0;
        for digit in value.iter_mut() {
            let shifted = *digit << 1 | carry;
            carry = *digit >> 63;
            *digit = shifted;
        }
        if carry == 1 || !is_less(value, &self.digits) {
            subtract(value, &self.digits);
        }
    }

    /// Squares a number in place. Most of the time that a key takes is spent here: the products of different digits are
    /// added up once and doubled, which saves a quarter of the multiplications.
    pub(super) fn square(&mut self, value: &mut [u64]) {
        let length = value.len();
        self.wide.fill(0);
        for (at, digit) in value.iter().enumerate() {
            let row = self.wide.get_mut(2 * at + 1..=at + length).unwrap_or_default();
            let Some((last, row)) = row.split_last_mut() else { continue };
            *last = add_product(row, value.get(at + 1..).unwrap_or_default(), *digit);
        }
        let (pairs, _) = self.wide.as_chunks_mut::<2>();
        let (mut shifted, mut carry) = (0, 0);
        for ([first, second], digit) in pairs.iter_mut().zip(&*value) {
            let square = u128::from(*digit) * u128::from(*digit);
            let doubled = (*first << 1 | shifted, *second << 1 | *first >> 63);
            shifted = *second >> 63;
            let lower = u128::from(doubled.0) + u128::from(low(square)) + carry;
            let upper = u128::from(doubled.1) + (square >> 64) + (lower >> 64);
            (*first, *second, carry) = (low(lower), low(upper), upper >> 64);
        }
        self.reduce(value);
    }

    /// Multiplies a number by another in place.
    fn multiply(&mut self, value: &mut [u64], other: &[u64]) {
        let length = value.len();
        self.wide.fill(0);
        for (at, digit) in value.iter().enumerate() {
            let row = self.wide.get_mut(at..=at + length).unwrap_or_default();
            let Some((last, row)) = row.split_last_mut() else { continue };
            *last = add_product(row, other, *digit);
        }
        self.reduce(value);
    }

    /// The wide number divided by the base.
    fn reduce(&mut self, value: &mut [u64]) {
        let length = self.digits.len();
        let mut over = 0;
        for at in 0..length {
            let rest = self.wide.get_mut(at..).unwrap_or_default();
            let Some((row, [above, ..])) = rest.split_at_mut_checked(length) else { continue };
            let factor = row.first().copied().unwrap_or(0).wrapping_mul(self.inverse);
            let carry = add_product(row, &self.digits, factor);
            let sum = u128::from(*above) + u128::from(carry) + over;
            (*above, over) = (low(sum), sum >> 64);
        }
        let upper = self.wide.get(length..).unwrap_or_default();
        for (to, from) in value.iter_mut().zip(upper) {
            *to = *from;
        }
        if over == 1 || !is_less(value, &self.digits) {
            subtract(value, &self.digits);
        }
    }

    /// A small number in Montgomery's form.
    pub(super) fn form(&mut self, number: &Number) -> Vec<u64> {
        // One, doubled once for each bit of the base, is the square of the base.
        let mut square = self.one();
        for _ in 0..self.digits.len() * 64 {
            self.double(&mut square);
        }
        let mut value = number.digits().to_vec();
        value.resize(self.digits.len(), 0);
        self.multiply(&mut value, &square);
        value
    }

    /// Two to a power, in Montgomery's form.
    pub(super) fn power_of_two(&mut self, exponent: &Number) -> Vec<u64> {
        let mut result = self.one();
        for at in (0..exponent.bits()).rev() {
            self.square(&mut result);
            if exponent.bit(at) {
                self.double(&mut result);
            }
        }
        result
    }

    /// A power of a number in Montgomery's form.
    pub(super) fn power_of(&mut self, base: &[u64], exponent: &Number) -> Vec<u64> {
        let mut result = self.one();
        for at in (0..exponent.bits()).rev() {
            self.square(&mut result);
            if exponent.bit(at) {
                self.multiply(&mut result, base);
            }
        }
        result
    }

    /// A power of a number that is less than the modulus.
    pub(super) fn power(&mut self, base: &Number, exponent: &Number) -> Number {
        let base = self.form(base);
        let mut result = self.power_of(&base, exponent);
        let mut plain = vec![0; self.digits.len()];
        if let Some(first) = plain.first_mut() {
            *first = 1;
        }
        self.multiply(&mut result, &plain);
        Number::trimmed(result)
    }
}

/// Adds a multiple of digits to as many others; what is carried. By fours, which saves a third of the time.
fn add_product(sum: &mut [u64], digits: &[u64], factor: u64) -> u64 {
    let add = |place: &mut u64, digit: u64, carry: u64| {
        let total = u128::from(factor) * u128::from(digit) + u128::from(*place) + u128::from(carry);
        *place = low(total);
        low(total >> 64)
    };
    let mut carry = 0;
    let (places, last_places) = sum.as_chunks_mut::<4>();
    let (fours, last) = digits.as_chunks::<4>();
    for ([a, b, c, d], digits) in places.iter_mut().zip(fours) {
        carry = add(a, digits[0], carry);
        carry = add(b, digits[1], carry);
        carry = add(c, digits[2], carry);
        carry = add(d, digits[3], carry);
    }
    for (place, digit) in last_places.iter_mut().zip(last) {
        carry = add(place, *digit, carry);
    }
    carry
}

fn is_less(one: &[u64], other: &[u64]) -> bool {
    let pairs = one.iter().zip(other).rev();
    pairs
        .map(|(own, others)| own.cmp(others))
        .find(|order| order.is_ne())
        .is_some_and(std::cmp::Ordering::is_lt)
}

/// Subtracts in place; what is borrowed beyond the last digit is dropped.
fn subtract(from: &mut [u64], other: &[u64]) {
    let mut borrow = false;
    for (digit, others) in from.iter_mut().zip(other) {
        let (difference, first) = digit.overflowing_sub(*others);
        let (difference, second) = difference.overflowing_sub(u64::from(borrow));
        (*digit, borrow) = (difference, first || second);
    }
}
