//! Large numbers: enough arithmetic to make an RSA key of given bytes.
//!
//! Used only where the same bytes have to give the same key; libraries make keys of the machine's chance alone.
//! Numbers are lists of 64-bit digits, the lowest first. Nothing here takes the same time for all secrets, and the
//! only key at risk is one that is derived from a seed anyway.

use super::Source;

/// A number, without zeros at its upper end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number(Vec<u64>);

/// Rounds of the test that a number is prime; for chance candidates of 1,024 bits five would do.
const ROUNDS: usize = 16;

impl Number {
    fn trimmed(mut digits: Vec<u64>) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Self(digits)
    }

    pub(super) fn small(number: u64) -> Self {
        Self::trimmed(vec![number])
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let digit = |chunk: &[u8]| chunk.iter().fold(0_u64, |digit, byte| digit << 8 | u64::from(*byte));
        Self::trimmed(bytes.rchunks(8).map(digit).collect())
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let bytes: Vec<u8> = self.0.iter().rev().flat_map(|digit| digit.to_be_bytes()).collect();
        bytes.into_iter().skip_while(|byte| *byte == 0).collect()
    }

    fn digit(&self, at: usize) -> u64 {
        self.0.get(at).copied().unwrap_or(0)
    }

    fn is_less(&self, other: &Self) -> bool {
        let length = self.0.len().max(other.0.len());
        let pair = |at: usize| (self.digit(at), other.digit(at));
        (0..length)
            .rev()
            .map(pair)
            .find(|(own, others)| own != others)
            .is_some_and(|(own, others)| own < others)
    }

    fn bits(&self) -> usize {
        self.0.last().map_or(0, |last| self.0.len() * 64 - last.leading_zeros() as usize)
    }

    fn bit(&self, at: usize) -> bool {
        self.digit(at / 64) >> (at % 64) & 1 == 1
    }

    fn add(&self, other: &Self) -> Self {
        let mut carry = false;
        let mut digits = Vec::new();
        for at in 0..=self.0.len().max(other.0.len()) {
            let (sum, first) = self.digit(at).overflowing_add(other.digit(at));
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            carry = first || second;
            digits.push(sum);
        }
        Self::trimmed(digits)
    }

    /// The difference; the other number must not be greater.
    fn subtract(&self, other: &Self) -> Self {
        let mut borrow = false;
        let mut digits = Vec::with_capacity(self.0.len());
        for at in 0..self.0.len() {
            let (difference, first) = self.digit(at).overflowing_sub(other.digit(at));
            let (difference, second) = difference.overflowing_sub(u64::from(borrow));
            borrow = first || second;
            digits.push(difference);
        }
        Self::trimmed(digits)
    }

    pub(super) fn multiply(&self, other: &Self) -> Self {
        let mut digits = vec![0_u64; self.0.len() + other.0.len()];
        for (at, own) in self.0.iter().enumerate() {
            let mut carry = 0_u128;
            for (place, others) in digits.iter_mut().skip(at).zip(other.0.iter().chain(std::iter::repeat(&0)))
            {
                let sum = u128::from(*own) * u128::from(*others) + u128::from(*place) + carry;
                *place = low(sum);
                carry = sum >> 64;
            }
        }
        Self::trimmed(digits)
    }

    /// Quotient and rest by a small number.
    fn divide_small(&self, by: u64) -> (Self, u64) {
        let mut rest = 0_u128;
        let mut digits = vec![0; self.0.len()];
        for (place, digit) in digits.iter_mut().rev().zip(self.0.iter().rev()) {
            let part = rest << 64 | u128::from(*digit);
            *place = low(part / u128::from(by));
            rest = part % u128::from(by);
        }
        (Self::trimmed(digits), low(rest))
    }

    fn one_less(&self) -> Self {
        self.subtract(&Self::small(1))
    }

    /// The inverse of a small odd prime modulo this number, which it must not divide.
    fn inverse_of_small(&self, prime: u64) -> Self {
        // d with d * prime = 1 + k * self: k is the negative inverse of self modulo the prime.
        let (_, rest) = self.divide_small(prime);
        let inverse = power_small(rest, prime - 2, prime);
        let factor = (prime - inverse) % prime;
        self.multiply(&Self::small(factor)).add(&Self::small(1)).divide_small(prime).0
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
const fn low(number: u128) -> u64 {
    number as u64
}

fn power_small(base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let multiply = |one: u64, other: u64| low(u128::from(one) * u128::from(other) % u128::from(modulus));
    let (mut result, mut base) = (1 % modulus, base % modulus);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, base);
        }
        base = multiply(base, base);
        exponent >>= 1;
    }
    result
}

/// Arithmetic modulo an odd number, in Montgomery's form.
struct Modulus {
    number: Number,
    /// The negative inverse of the lowest digit.
    inverse: u64,
    /// The square of the base, for the way into the form.
    square: Number,
}

impl Modulus {
    fn new(number: &Number) -> Self {
        let lowest = number.digit(0);
        // Each step doubles the digits that are right.
        let inverse = (0..6)
            .fold(1_u64, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(lowest.wrapping_mul(inverse))));
        let mut square = Number::small(1);
        for _ in 0..number.0.len() * 128 {
            square = square.add(&square);
            if !square.is_less(number) {
                square = square.subtract(number);
            }
        }
        Self { number: number.clone(), inverse: inverse.wrapping_neg(), square }
    }

    /// The product, divided by the base.
    fn multiply(&self, one: &Number, other: &Number) -> Number {
        let length = self.number.0.len();
        let mut sum = vec![0_u64; length + 2];
        for at in 0..length {
            add_product(&mut sum, one.digit(at), &other.0);
            let factor = sum.first().copied().unwrap_or(0).wrapping_mul(self.inverse);
            add_product(&mut sum, factor, &self.number.0);
            // The lowest digit is zero now.
            sum.remove(0);
            sum.push(0);
        }
        let product = Number::trimmed(sum);
        if product.is_less(&self.number) { product } else { product.subtract(&self.number) }
    }

    fn power(&self, base: &Number, exponent: &Number) -> Number {
        let base = self.multiply(base, &self.square);
        let mut result = self.multiply(&Number::small(1), &self.square);
        for at in (0..exponent.bits()).rev() {
            result = self.multiply(&result, &result);
            if exponent.bit(at) {
                result = self.multiply(&result, &base);
            }
        }
        self.multiply(&result, &Number::small(1))
    }
}

fn add_product(sum: &mut [u64], factor: u64, digits: &[u64]) {
    let mut carry = 0_u128;
    for (place, digit) in sum.iter_mut().zip(digits.iter().chain(std::iter::repeat(&0))) {
        let total = u128::from(factor) * u128::from(*digit) + u128::from(*place) + carry;
        *place = low(total);
        carry = total >> 64;
    }
}

/// Odd primes below a bound.
fn small_primes() -> Vec<u64> {
    let is_prime = |number: &u64| {
        (3..).step_by(2).take_while(|by| by * by <= *number).all(|by| !number.is_multiple_of(by))
    };
    (3..2_000).step_by(2).filter(is_prime).collect()
}

fn is_prime(candidate: &Number, source: Source<'_>) -> bool {
    let modulus = Modulus::new(candidate);
    let less = candidate.one_less();
    let mut odd = less.clone();
    let mut twos = 0;
    while !odd.bit(0) {
        odd = odd.divide_small(2).0;
        twos += 1;
    }
    (0..ROUNDS).all(|_| {
        let mut bytes = vec![0; candidate.0.len() * 8 - 1];
        source(&mut bytes);
        let base = Number::from_bytes(&bytes).add(&Number::small(2));
        if !base.is_less(&less) {
            return true;
        }
        let mut power = modulus.power(&base, &odd);
        if power == Number::small(1) || power == less {
            return true;
        }
        for _ in 1..twos {
            power = modulus.multiply(&modulus.multiply(&power, &power), &modulus.square);
            if power == less {
                return true;
            }
        }
        false
    })
}

/// A prime of so many bits, the upper two set, that a small prime does not divide when it is one less.
fn prime(bits: usize, exponent: u64, source: Source<'_>) -> Number {
    let primes = small_primes();
    loop {
        let mut bytes = vec![0; bits / 8];
        source(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            *first |= 0xc0;
        }
        if let Some(last) = bytes.last_mut() {
            *last |= 1;
        }
        let mut candidate = Number::from_bytes(&bytes);
        // The next odd numbers are tried before new bytes are taken.
        for _ in 0..200 {
            let has_factor = primes.iter().any(|prime| candidate.divide_small(*prime).1 == 0);
            let fits = candidate.one_less().divide_small(exponent).1 != 0;
            if !has_factor && fits && candidate.bits() == bits && is_prime(&candidate, source) {
                return candidate;
            }
            candidate = candidate.add(&Number::small(2));
        }
    }
}

/// The parts of an RSA key, in the order in which they are written.
pub(super) fn rsa(bits: usize, source: Source<'_>) -> [Vec<u8>; 8] {
    const EXPONENT: u64 = 65_537;
    let (mut one, mut other) = (prime(bits / 2, EXPONENT, source), prime(bits / 2, EXPONENT, source));
    if one.is_less(&other) {
        std::mem::swap(&mut one, &mut other);
    }
    let (less, other_less) = (one.one_less(), other.one_less());
    let private = less.multiply(&other_less).inverse_of_small(EXPONENT);
    let coefficient = Modulus::new(&one).power(&other, &one.subtract(&Number::small(2)));
    let parts = [
        one.multiply(&other),
        Number::small(EXPONENT),
        private,
        one.clone(),
        other.clone(),
        less.inverse_of_small(EXPONENT),
        other_less.inverse_of_small(EXPONENT),
        coefficient,
    ];
    parts.map(|part| part.to_bytes())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn rnd_163_rsa_keys_of_the_same_bytes_are_equal_and_work() {
        let make = || {
            let taken = Cell::new(5_u64);
            let source = |bytes: &mut [u8]| {
                for byte in bytes {
                    taken.set(taken.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                    *byte = taken.get().to_be_bytes()[0];
                }
            };
            rsa(256, &source).map(|part| Number::from_bytes(&part))
        };
        let [modulus, public, private, one, other, by_one, by_other, coefficient] = make();
        assert_eq!(make()[0], modulus);
        assert_eq!((one.multiply(&other), modulus.bits()), (modulus.clone(), 256));
        let arithmetic = Modulus::new(&modulus);
        let message = Number::small(0x1234_5678_9abc_def0);
        let secret = arithmetic.power(&message, &public);
        assert_eq!(arithmetic.power(&secret, &private), message);
        let (first, second) = (Modulus::new(&one), Modulus::new(&other));
        assert_eq!(first.power(&first.power(&message, &public), &by_one), message);
        assert_eq!(second.power(&second.power(&message, &public), &by_other), message);
        let product = first.multiply(&first.multiply(&coefficient, &other), &first.square);
        assert_eq!(product, Number::small(1));
    }
}
