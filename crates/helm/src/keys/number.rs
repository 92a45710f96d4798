//! Large numbers: enough arithmetic to make an RSA key of given bytes.
//!
//! Used only where the same bytes have to give the same key; libraries make keys of the machine's chance alone.
//! Numbers are lists of 64-bit digits, the lowest first. Nothing here takes the same time for all secrets, and the
//! only key at risk is one that is derived from a seed anyway.

use tiphys_go::template::{Failure, Work};

use super::Source;
use super::montgomery::Modulus;
use super::prime::prime;

/// A number, without zeros at its upper end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number(Vec<u64>);

impl Number {
    pub(super) fn trimmed(mut digits: Vec<u64>) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Self(digits)
    }

    pub(super) fn small(number: u64) -> Self {
        Self::trimmed(vec![number])
    }

    /// Digits, the lowest first.
    pub(super) fn digits(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
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

    pub(super) fn is_less(&self, other: &Self) -> bool {
        let length = self.0.len().max(other.0.len());
        let pair = |at: usize| (self.digit(at), other.digit(at));
        (0..length)
            .rev()
            .map(pair)
            .find(|(own, others)| own != others)
            .is_some_and(|(own, others)| own < others)
    }

    pub(super) fn bits(&self) -> usize {
        self.0.last().map_or(0, |last| self.0.len() * 64 - last.leading_zeros() as usize)
    }

    pub(super) fn bit(&self, at: usize) -> bool {
        self.digit(at / 64) >> (at % 64) & 1 == 1
    }

    pub(super) fn add(&self, other: &Self) -> Self {
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
    pub(super) fn subtract(&self, other: &Self) -> Self {
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
    pub(super) fn divide_small(&self, by: u64) -> (Self, u64) {
        let mut rest = 0_u128;
        let mut digits = vec![0; self.0.len()];
        for (place, digit) in digits.iter_mut().rev().zip(self.0.iter().rev()) {
            let part = rest << 64 | u128::from(*digit);
            *place = low(part / u128::from(by));
            rest = part % u128::from(by);
        }
        (Self::trimmed(digits), low(rest))
    }

    pub(super) fn one_less(&self) -> Self {
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
pub(super) const fn low(number: u128) -> u64 {
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

/// The parts of an RSA key, in the order in which they are written.
///
/// # Errors
/// When the run that the work belongs to ends before the primes are found.
pub(super) fn rsa(bits: usize, source: Source<'_>, work: &mut dyn Work) -> Result<[Vec<u8>; 8], Failure> {
    const EXPONENT: u64 = 65_537;
    let mut one = prime(bits / 2, EXPONENT, source, work)?;
    let mut other = prime(bits / 2, EXPONENT, source, work)?;
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
    Ok(parts.map(|part| part.to_bytes()))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sha2::{Digest as _, Sha256};

    use super::super::tests::Free;
    use super::*;

    /// The key that follows from a seed.
    fn made(bits: usize, seed: u64, work: &mut dyn Work) -> Result<[Vec<u8>; 8], Failure> {
        let taken = Cell::new(seed);
        let source = |bytes: &mut [u8]| {
            for byte in bytes {
                taken.set(taken.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
                *byte = taken.get().to_be_bytes()[0];
            }
        };
        rsa(bits, &source, work)
    }

    #[test]
    fn rnd_163_rsa_keys_of_the_same_bytes_are_equal_and_work() {
        let make = || made(256, 5, &mut Free).unwrap().map(|part| Number::from_bytes(&part));
        let [modulus, public, private, one, other, by_one, by_other, coefficient] = make();
        assert_eq!(make()[0], modulus);
        assert_eq!((one.multiply(&other), modulus.bits()), (modulus.clone(), 256));
        let mut arithmetic = Modulus::new(&modulus);
        let message = Number::small(0x1234_5678_9abc_def0);
        let secret = arithmetic.power(&message, &public);
        assert_eq!(arithmetic.power(&secret, &private), message);
        let (mut first, mut second) = (Modulus::new(&one), Modulus::new(&other));
        let secret = first.power(&message, &public);
        assert_eq!(first.power(&secret, &by_one), message);
        let secret = second.power(&message, &public);
        assert_eq!(second.power(&secret, &by_other), message);
        // The coefficient is the inverse of the second prime modulo the first.
        let (_, rest) = divided(&coefficient.multiply(&other), &one);
        assert_eq!(rest, Number::small(1));
    }

    /// Schoolbook division, bit by bit.
    fn divided(number: &Number, by: &Number) -> (Number, Number) {
        let (mut quotient, mut rest) = (Number::small(0), Number::small(0));
        for at in (0..number.bits()).rev() {
            rest = rest.add(&rest).add(&Number::small(u64::from(number.bit(at))));
            quotient = quotient.add(&quotient);
            if !rest.is_less(by) {
                rest = rest.subtract(by);
                quotient = quotient.add(&Number::small(1));
            }
        }
        (quotient, rest)
    }

    /// Applications that were deployed with keys of a seed keep them: however primes are searched, the same are found.
    #[test]
    fn rnd_163_rsa_keys_of_a_seed_never_change() {
        for (bits, seed, expected) in [
            (256, 0, "0dbff106672a6e41"),
            (256, 7, "ae8340f62b4da29e"),
            (512, 3, "fc609d255f65839a"),
            (512, 6, "f1b237b50555c71f"),
            (1024, 6, "180d26049f06577e"),
            (1024, 7, "2b6ed3a843151ef8"),
        ] {
            let mut hash = Sha256::new();
            for part in made(bits, seed, &mut Free).unwrap() {
                hash.update((part.len() as u64).to_be_bytes());
                hash.update(part);
            }
            let found = hash.finalize();
            let (found, _) = found.split_first_chunk::<8>().unwrap();
            assert_eq!(format!("{:016x}", u64::from_be_bytes(*found)), expected, "{bits} bits, seed {seed}");
        }
    }

    /// SEC-07: a search took eleven seconds and could not be ended.
    #[test]
    fn sec_07_the_search_for_primes_ends_when_its_run_does() {
        let (mut asked, mut steps) = (0, 0);
        made(1024, 6, &mut |more: usize| {
            (asked, steps) = (asked + 1, steps + more);
            Ok(())
        })
        .unwrap();
        assert!(asked > 10 && steps > 10_000, "{asked} times, {steps} steps");
        let mut left = asked / 2;
        let stopped = made(1024, 6, &mut |_: usize| {
            left -= 1;
            if left == 0 { Err(Failure::new("the time is up")) } else { Ok(()) }
        });
        assert!(stopped.is_err() && left == 0, "it is asked no more after it ended");
    }
}
