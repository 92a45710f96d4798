//! Powers to the last digit as Go computes them on processors that multiply and add at once.
//!
//! Whole powers by squaring the mantissa, the rest by a logarithm and an exponential, whose series are those of the
//! libraries that Go took them from (FreeBSD's and SLEEF's), since their errors are part of the result.

use super::numbers::{float, truncated};

/// `x` to the power of `y`.
#[expect(clippy::float_cmp, reason = "exactly these powers are special")]
pub(super) fn power(x: f64, y: f64) -> f64 {
    let magnitude = y.abs();
    let usual = x.is_finite() && x != 0.0 && y.is_finite() && magnitude < 9.2e18;
    if !usual || y == 0.0 || x == 1.0 || y == 1.0 {
        // `powf` follows the same rules for these.
        return x.powf(y);
    }
    if magnitude == 0.5 {
        return if y > 0.0 { x.sqrt() } else { 1.0 / x.sqrt() };
    }
    let (mut whole, mut fraction) = (magnitude.trunc(), magnitude.fract());
    if fraction != 0.0 && x < 0.0 {
        return f64::NAN;
    }
    let mut mantissa = 1.0;
    let mut exponent: i64 = 0;
    if fraction != 0.0 {
        if fraction > 0.5 {
            fraction -= 1.0;
            whole += 1.0;
        }
        mantissa = exp(fraction * ln(x));
    }
    let (mut square, mut scale) = frexp(x);
    let mut left = truncated(whole);
    while left != 0 {
        if !(-(1 << 12)..=1 << 12).contains(&scale) {
            // Beyond all floats, whatever follows.
            exponent += scale;
            break;
        }
        if left & 1 == 1 {
            mantissa *= square;
            exponent += scale;
        }
        square *= square;
        scale <<= 1;
        if square < 0.5 {
            square += square;
            scale -= 1;
        }
        left >>= 1;
    }
    if y < 0.0 {
        mantissa = 1.0 / mantissa;
        exponent = -exponent;
    }
    ldexp(mantissa, exponent)
}

/// A finite number other than zero as a mantissa from a half to one and a power of two.
fn frexp(number: f64) -> (f64, i64) {
    const BIAS: i64 = 1_022;
    let (number, below) =
        if number.abs() < f64::MIN_POSITIVE { (number * 2_f64.powi(52), 52) } else { (number, 0) };
    let bits = number.to_bits();
    let exponent = (bits >> 52) & 0x7ff;
    let mantissa = f64::from_bits(bits & !(0x7ff << 52) | (0x3fe << 52));
    (mantissa, i64::try_from(exponent).unwrap_or_default() - BIAS - below)
}

/// A number times a power of two, rounded once.
pub(super) fn ldexp(number: f64, exponent: i64) -> f64 {
    if number == 0.0 || !number.is_finite() {
        return number;
    }
    let (mantissa, own) = frexp(number);
    let exponent = exponent + own;
    if exponent > 1_024 {
        return f64::INFINITY.copysign(number);
    }
    if exponent < -1_075 {
        return 0.0_f64.copysign(number);
    }
    let power = |exponent: i64| 2_f64.powi(i32::try_from(exponent).unwrap_or_default());
    if exponent < -1_021 {
        mantissa * 2.0 * power(exponent + 60) * power(-61)
    } else {
        mantissa * 2.0 * power(exponent - 1)
    }
}

/// The natural logarithm of a positive number: with `s = f / (2 + f)`, `ln(1 + f)` is a series of `s`.
fn ln(number: f64) -> f64 {
    /// Upper and lower half of the logarithm of two.
    const LN_2: (f64, f64) = (6.931_471_803_691_238e-1, 1.908_214_929_270_587_7e-10);
    const ODD: [f64; 4] = [
        1.479_819_860_511_658_6e-1,
        1.818_357_216_161_805e-1,
        2.857_142_874_366_239e-1,
        6.666_666_666_666_735e-1,
    ];
    const EVEN: [f64; 3] = [1.531_383_769_920_937_3e-1, 2.222_219_843_214_978_4e-1, 3.999_999_999_940_942e-1];
    let (mut mantissa, mut exponent) = frexp(number);
    if mantissa < std::f64::consts::FRAC_1_SQRT_2 {
        mantissa *= 2.0;
        exponent -= 1;
    }
    let (f, k) = (mantissa - 1.0, float(exponent));
    let s = f / (2.0 + f);
    let s_2 = s * s;
    let s_4 = s_2 * s_2;
    let series = |terms: &[f64]| terms.iter().copied().reduce(|sum, term| term + s_4 * sum).unwrap_or(0.0);
    let rest = s_2 * series(&ODD) + s_4 * series(&EVEN);
    let half = 0.5 * f * f;
    k * LN_2.0 - ((half - (s * (half + rest) + k * LN_2.1)) - f)
}

/// The exponential of a number of moderate size: a Taylor series of a sixteenth of what is left after whole powers of
/// two, squared four times.
fn exp(number: f64) -> f64 {
    const LN_2: (f64, f64) = (6.931_471_805_596_63e-1, 2.823_529_056_303_157_7e-13);
    /// One over the factorials from eight down to one.
    const TERMS: [f64; 8] = [
        2.480_158_730_158_73e-5,
        1.984_126_984_126_984e-4,
        1.388_888_888_888_889e-3,
        8.333_333_333_333_333e-3,
        4.166_666_666_666_666_4e-2,
        1.666_666_666_666_666_6e-1,
        0.5,
        1.0,
    ];
    let whole = (number * std::f64::consts::LOG2_E).round_ties_even();
    let rest = (-LN_2.1).mul_add(whole, (-LN_2.0).mul_add(whole, number)) * 0.0625;
    let series = TERMS.iter().copied().reduce(|sum, term| sum.mul_add(rest, term)).unwrap_or(1.0);
    // Less one, so that squaring keeps the digits.
    let mut less_one = rest * series;
    for _ in 0..3 {
        less_one *= less_one + 2.0;
    }
    ldexp((less_one + 2.0).mul_add(less_one, 1.0), truncated(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eval_769_whole_powers_are_exact_as_far_as_go_is() {
        assert_eq!(power(2.0, 10.0).to_bits(), f64::to_bits(1024.0));
        assert_eq!(power(2.0, -1.0).to_bits(), f64::to_bits(0.5));
        assert_eq!(power(10.0, 308.0).to_bits(), f64::to_bits(1.000_000_000_000_000_6e308));
        assert_eq!(power(2.0, -1074.0).to_bits(), f64::to_bits(5e-324));
        assert_eq!(power(2.0, 1024.0).to_bits(), f64::to_bits(f64::INFINITY));
        assert_eq!(power(-2.0, 3.0).to_bits(), f64::to_bits(-8.0));
        assert!(power(-8.0, 1.5).is_nan());
        assert_eq!(power(0.0, -1.0).to_bits(), f64::to_bits(f64::INFINITY));
        assert_eq!(power(1e-310, 1.0).to_bits(), f64::to_bits(1e-310));
    }

    #[test]
    fn eval_769_other_powers_have_go_s_last_digit() {
        assert_eq!(power(7.3, 2.7).to_bits(), f64::to_bits(214.275_107_830_018_16));
        assert_eq!(power(1e21, 2.5).to_bits(), f64::to_bits(3.162_277_660_168_377e52));
        assert_eq!(power(31.0, 2.5).to_bits(), f64::to_bits(5_350.621_552_679_65));
    }
}
