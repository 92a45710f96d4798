//! The search for a prime of given bytes.
//!
//! Candidates are the odd numbers after a start of the source. Nearly all are sieved out by small primes; of those that
//! are left each takes one power of two, and only a number that stands this test is tested with other bases. The bytes
//! taken from the source, and with them the key of a seed, are those of a plain search: one draw for each candidate
//! without a divisor below [`DRAWN_FOR`], sixteen for a prime.

use std::sync::LazyLock;

use tiphys_go::template::{Failure, Work};

use super::Source;
use super::montgomery::Modulus;
use super::number::Number;

/// Candidates after one start.
const CANDIDATES: usize = 200;
/// Draws for a number that stands all tests.
const DRAWS: usize = 16;
/// Tests with bases of the source. After the one with base two, a number of 1,024 chance bits that stands five is
/// composite with a probability below 2^-140 (Damgård, Landrock, Pomerance).
const TESTS: usize = 5;
/// A candidate with a divisor below this takes nothing from the source.
const DRAWN_FOR: u64 = 2_000;
/// Small primes end here: larger ones take more time than the powers that they save.
const SMALL_MAX: usize = 1 << 16;

/// Odd primes below [`SMALL_MAX`].
static SMALL_PRIMES: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let mut composite = vec![false; SMALL_MAX];
    let mut primes = Vec::new();
    for number in (3..SMALL_MAX).step_by(2) {
        if composite.get(number) == Some(&false) {
            primes.push(number as u64);
            composite.iter_mut().skip(number * number).step_by(number).for_each(|it| *it = true);
        }
    }
    primes
});

/// A prime of so many bits, the upper two set, that an odd prime does not divide when it is one less.
///
/// # Errors
/// When the run that the work belongs to ends first: it is asked before each test.
pub(super) fn prime(
    bits: usize,
    exponent: u64,
    source: Source<'_>,
    work: &mut dyn Work,
) -> Result<Number, Failure> {
    loop {
        let mut bytes = vec![0; bits / 8];
        source(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            *first |= 0xc0;
        }
        if let Some(last) = bytes.last_mut() {
            *last |= 1;
        }
        let start = Number::from_bytes(&bytes);
        let digits = start.digits().len();
        work.charge(sieve_steps(digits))?;
        for (sieved, offset) in sieve(&start, exponent).into_iter().zip((0..).step_by(2)) {
            if sieved == Sieved::Out {
                continue;
            }
            let candidate = start.add(&Number::small(offset));
            if candidate.bits() != bits {
                continue;
            }
            let base = drawn(digits, source);
            if sieved == Sieved::Divisible {
                continue;
            }
            work.charge(power_steps(digits))?;
            if is_prime(&candidate, base, source, work)? {
                return Ok(candidate);
            }
        }
    }
}

/// Steps of the search in small primes: 1.2 ms for 32 digits.
fn sieve_steps(digits: usize) -> usize {
    digits * 1_000
}

/// Steps of one power: 3.2 ms for 32 digits, 0.4 ms for 16 (measured on an AMD EPYC, like the length of a step).
fn power_steps(digits: usize) -> usize {
    digits * digits * digits * 5 / 2
}

/// What the small primes say of a candidate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sieved {
    /// Nothing takes the candidate away.
    In,
    /// It has a small divisor, for which a draw is taken all the same.
    Divisible,
    /// It is of no use, and takes no draw.
    Out,
}

fn sieve(start: &Number, exponent: u64) -> [Sieved; CANDIDATES] {
    let mut sieved = [Sieved::In; CANDIDATES];
    let mut strike = |divisor: u64, rest: u64, how: Sieved| {
        // The first of the odd numbers after the start that the divisor divides.
        let missing = (divisor - rest) % divisor;
        let first = if missing.is_multiple_of(2) { missing / 2 } else { missing.midpoint(divisor) };
        let first = usize::try_from(first).unwrap_or(CANDIDATES);
        let step = usize::try_from(divisor).unwrap_or(CANDIDATES);
        for place in sieved.iter_mut().skip(first).step_by(step) {
            *place = if *place == Sieved::Out { Sieved::Out } else { how };
        }
    };
    for pair in SMALL_PRIMES.chunks(2) {
        // Both at once, because most of the time goes into dividing the large number.
        let rest = rest(start, pair.iter().product());
        for prime in pair {
            let how = if *prime < DRAWN_FOR { Sieved::Out } else { Sieved::Divisible };
            strike(*prime, rest % prime, how);
        }
    }
    // One more than a multiple of the exponent.
    strike(exponent, (rest(start, exponent) + exponent - 1) % exponent, Sieved::Out);
    sieved
}

/// The rest of a number divided by one below 2^32.
fn rest(number: &Number, by: u64) -> u64 {
    let halves = number.digits().iter().rev().flat_map(|digit| [digit >> 32, digit & 0xffff_ffff]);
    halves.fold(0, |rest, half| (rest << 32 | half) % by)
}

/// A base for a test: less than every candidate of so many digits, whose upper bits are set.
fn drawn(digits: usize, source: Source<'_>) -> Number {
    let mut bytes = vec![0; digits * 8 - 1];
    source(&mut bytes);
    Number::from_bytes(&bytes).add(&Number::small(2))
}

/// The test of Miller and Rabin: with base two, and with bases of the source, of which the first was drawn before.
fn is_prime(
    candidate: &Number,
    first: Number,
    source: Source<'_>,
    work: &mut dyn Work,
) -> Result<bool, Failure> {
    let mut odd = candidate.one_less();
    let mut twos = 0;
    while !odd.bit(0) {
        odd = odd.divide_small(2).0;
        twos += 1;
    }
    let mut modulus = Modulus::new(candidate);
    let (one, minus_one) = (modulus.one(), modulus.minus_one());
    let stands = |modulus: &mut Modulus, mut power: Vec<u64>| {
        if power == one || power == minus_one {
            return true;
        }
        (1..twos).any(|_| {
            modulus.square(&mut power);
            power == minus_one
        })
    };
    let power = modulus.power_of_two(&odd);
    if !stands(&mut modulus, power) {
        return Ok(false);
    }
    let digits = candidate.digits().len();
    let mut base = first;
    for draw in 1..=DRAWS {
        if draw <= TESTS {
            work.charge(power_steps(digits) * 2)?;
            let base = modulus.form(&base);
            let power = modulus.power_of(&base, &odd);
            if !stands(&mut modulus, power) {
                return Ok(false);
            }
        }
        if draw < DRAWS {
            base = drawn(digits, source);
        }
    }
    Ok(true)
}
