//! Numbers: arithmetic over 64-bit integers, over floats by way of decimals, sequences.

use super::convert::{to_float, to_int};
use super::decimal::Decimal;
use super::strings::random_below;
use crate::template::error::Failure;
use crate::template::fmt;
use crate::template::functions::{Call, Function, Type};
use crate::template::value::{List, ListType, Value, to_str};

const ANY: &[Type] = &[Type::Any];
const TWO: &[Type] = &[Type::Any, Type::Any];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("add", &[], |call| {
        Ok(Value::int64(call.rest(0).fold(0, |sum: i64, value| sum.wrapping_add(to_int(value)))))
    })
    .and_more(Type::Any),
    Function::new("add1", ANY, |call| Ok(Value::int64(call.to_int(0).wrapping_add(1)))),
    Function::new("add1f", ANY, |call| {
        let one = Value::int(1);
        decimals(call, call.to_float(0), &[&one].map(to_float), (Decimal::add, PRODUCTS))
    }),
    Function::new("addf", &[], |call| {
        let values: Vec<f64> = call.rest(0).map(to_float).collect();
        decimals(call, 0.0, &values, (Decimal::add, PRODUCTS))
    })
    .and_more(Type::Any),
    Function::new("atoi", &[Type::Text], |call| {
        Ok(Value::int(call.text(0).as_str().and_then(parse_decimal).unwrap_or(0)))
    }),
    Function::new("biggest", ANY, |call| Ok(extreme(call, |new, old| new > old))).and_more(Type::Any),
    Function::new("ceil", ANY, |call| Ok(Value::Float(call.to_float(0).ceil()))),
    Function::new("div", TWO, |call| {
        let (left, right) = (call.to_int(0), call.to_int(1));
        if right == 0 { Err(divided_by_zero()) } else { Ok(Value::int64(left.wrapping_div(right))) }
    }),
    Function::new("divf", ANY, |call| {
        let values: Vec<f64> = call.rest(1).map(to_float).collect();
        decimals(call, call.to_float(0), &values, (Decimal::divide, DIVISIONS))
    })
    .and_more(Type::Any),
    Function::new("float64", ANY, |call| Ok(Value::Float(call.to_float(0)))),
    Function::new("floor", ANY, |call| Ok(Value::Float(call.to_float(0).floor()))),
    Function::new("int", ANY, |call| Ok(Value::int(call.to_int(0)))),
    Function::new("int64", ANY, |call| Ok(Value::int64(call.to_int(0)))),
    Function::new("max", ANY, |call| Ok(extreme(call, |new, old| new > old))).and_more(Type::Any),
    Function::new("maxf", ANY, |call| Ok(float_extreme(call, maximum))).and_more(Type::Any),
    Function::new("min", ANY, |call| Ok(extreme(call, |new, old| new < old))).and_more(Type::Any),
    Function::new("minf", ANY, |call| Ok(float_extreme(call, minimum))).and_more(Type::Any),
    Function::new("mod", TWO, |call| {
        let (left, right) = (call.to_int(0), call.to_int(1));
        if right == 0 { Err(divided_by_zero()) } else { Ok(Value::int64(left.wrapping_rem(right))) }
    }),
    Function::new("mul", ANY, |call| {
        let product = call.rest(1).fold(call.to_int(0), |product, value| product.wrapping_mul(to_int(value)));
        Ok(Value::int64(product))
    })
    .and_more(Type::Any),
    Function::new("mulf", ANY, |call| {
        let values: Vec<f64> = call.rest(1).map(to_float).collect();
        decimals(call, call.to_float(0), &values, (Decimal::multiply, PRODUCTS))
    })
    .and_more(Type::Any),
    Function::new("randInt", &[Type::INT, Type::INT], random_int),
    Function::new("round", &[Type::Any, Type::INT], round).and_more(Type::Float),
    Function::new("seq", &[], sequence).and_more(Type::INT),
    Function::new("sub", TWO, |call| Ok(Value::int64(call.to_int(0).wrapping_sub(call.to_int(1))))),
    Function::new("subf", ANY, |call| {
        let values: Vec<f64> = call.rest(1).map(to_float).collect();
        decimals(call, call.to_float(0), &values, (Decimal::subtract, PRODUCTS))
    })
    .and_more(Type::Any),
    Function::new("toDecimal", ANY, |call| {
        let text = fmt::print(call.value(0), call.limit())?;
        Ok(Value::int64(octal(&to_str(&text)).unwrap_or(0)))
    }),
    Function::new("until", &[Type::INT], |call| {
        let count = call.int(0);
        let numbers = steps(call, 0, count, if count < 0 { -1 } else { 1 })?;
        Ok(list(numbers))
    }),
    Function::new("untilStep", &[Type::INT, Type::INT, Type::INT], |call| {
        let numbers = steps(call, call.int(0), call.int(1), call.int(2))?;
        Ok(list(numbers))
    }),
];

fn divided_by_zero() -> Failure {
    Failure::new("runtime error: integer divide by zero")
}

/// `strconv.Atoi`: decimal digits with a sign.
pub(super) fn parse_decimal(text: &str) -> Option<i64> {
    // Rust reads the same texts.
    text.parse().ok()
}

fn octal(text: &str) -> Option<i64> {
    i64::from_str_radix(text, 8).ok()
}

fn extreme(call: &Call<'_, '_>, better: fn(i64, i64) -> bool) -> Value {
    let first = call.to_int(0);
    Value::int64(
        call.rest(1).map(to_int).fold(first, |best, next| if better(next, best) { next } else { best }),
    )
}

fn float_extreme(call: &Call<'_, '_>, better: fn(f64, f64) -> f64) -> Value {
    Value::Float(call.rest(1).map(to_float).fold(call.to_float(0), better))
}

/// `math.Max`: what is no number wins over all but infinity.
fn maximum(left: f64, right: f64) -> f64 {
    if left == f64::INFINITY || right == f64::INFINITY {
        f64::INFINITY
    } else if left.is_nan() || right.is_nan() {
        f64::NAN
    } else if left == 0.0 && right == 0.0 {
        if left.is_sign_negative() { right } else { left }
    } else if left > right {
        left
    } else {
        right
    }
}

/// `math.Min`.
fn minimum(left: f64, right: f64) -> f64 {
    if left == f64::NEG_INFINITY || right == f64::NEG_INFINITY {
        f64::NEG_INFINITY
    } else if left.is_nan() || right.is_nan() {
        f64::NAN
    } else if left == 0.0 && right == 0.0 {
        if left.is_sign_negative() { left } else { right }
    } else if left < right {
        left
    } else {
        right
    }
}

/// An operation of two decimals.
type Compute = fn(&Decimal, &Decimal) -> Result<Decimal, String>;

/// Steps of eight products of digits, and of a division, which finds each digit of the quotient by halving.
const PRODUCTS: usize = 2;
const DIVISIONS: usize = 150;

fn decimals(
    call: &mut Call<'_, '_>,
    first: f64,
    rest: &[f64],
    (compute, work): (Compute, usize),
) -> Result<Value, Failure> {
    let mut result = Decimal::of(first)?;
    for value in rest {
        // A product grows with each factor.
        let value = Decimal::of(*value)?;
        let products = result.size().saturating_add(1).saturating_mul(value.size().saturating_add(8));
        call.spend(products.div_ceil(8) * work)?;
        result = compute(&result, &value)?;
    }
    Ok(Value::Float(result.to_float()))
}

#[expect(clippy::unnecessary_wraps, reason = "what functions of templates answer")]
fn round(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let on = if call.len() > 2 { call.float(2) } else { 0.5 };
    #[expect(clippy::cast_precision_loss, reason = "the loss is Go's")]
    let power = power_of_ten(call.int(1) as f64);
    let digit = power * call.to_float(0);
    // The fraction has the sign of the number, so negative ones are never rounded up.
    let fraction = if digit.is_infinite() { f64::NAN } else { digit - digit.trunc() };
    let rounded = if fraction >= on { digit.ceil() } else { digit.floor() };
    Ok(Value::Float(rounded / power))
}

/// `math.Pow(10, places)` as Go computes it, which differs in the last bit from what others get.
fn power_of_ten(places: f64) -> f64 {
    if places == 0.0 {
        return 1.0;
    }
    if places.abs() >= 9.3e18 {
        return if places > 0.0 { f64::INFINITY } else { 0.0 };
    }
    // 10 = 0.625 * 2^4; the power is computed as a fraction and an exponent.
    let (mut fraction, mut exponent): (f64, i64) = (1.0, 0);
    let (mut factor, mut factor_exponent): (f64, i64) = (0.625, 4);
    let mut left = crate::template::number::to_i64(places.abs());
    while left != 0 {
        if !(-(1 << 12)..=1 << 12).contains(&factor_exponent) {
            exponent += factor_exponent;
            break;
        }
        if left & 1 == 1 {
            fraction *= factor;
            exponent += factor_exponent;
        }
        factor *= factor;
        factor_exponent <<= 1;
        if factor < 0.5 {
            factor += factor;
            factor_exponent -= 1;
        }
        left >>= 1;
    }
    if places < 0.0 {
        fraction = 1.0 / fraction;
        exponent = -exponent;
    }
    scale(fraction, exponent)
}

/// `math.Ldexp`.
fn scale(fraction: f64, exponent: i64) -> f64 {
    let mut result = fraction;
    let mut left = exponent.clamp(-4_000, 4_000);
    while left != 0 {
        // Normal numbers on the way, so that only the last step rounds.
        let step = left.clamp(-900, 900);
        let step = if left < 0 && result.abs() < f64::MIN_POSITIVE * 2.0_f64.powi(60) { left } else { step };
        result *= 2.0_f64.powi(i32::try_from(step).unwrap_or(0));
        left -= step;
    }
    result
}

fn steps(call: &mut Call<'_, '_>, start: i64, stop: i64, step: i64) -> Result<Vec<i64>, Failure> {
    let mut numbers = Vec::new();
    if (stop < start && step >= 0) || (stop >= start && step <= 0) {
        return Ok(numbers);
    }
    let distance = stop.abs_diff(start);
    let count = distance.div_ceil(step.unsigned_abs());
    call.makes_items(usize::try_from(count).unwrap_or(usize::MAX))?;
    let mut next = start;
    for _ in 0..count {
        numbers.push(next);
        next = next.wrapping_add(step);
    }
    Ok(numbers)
}

fn list(numbers: Vec<i64>) -> Value {
    Value::List(List::appended(&ListType::INTS, numbers.into_iter().map(Value::int).collect()))
}

fn sequence(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let parameters: Vec<i64> = (0..call.len()).map(|at| call.int(at)).collect();
    let (start, end, step) = match parameters.as_slice() {
        [end] => (1, *end, if *end < 1 { -1 } else { 1 }),
        [start, end] => (*start, *end, if end < start { -1 } else { 1 }),
        [start, step, end] if end < start && *step > 0 => return Ok(Value::text(String::new())),
        [start, step, end] => (*start, *end, *step),
        _ => return Ok(Value::text("")),
    };
    let beyond = if end < start { end.wrapping_sub(1) } else { end.wrapping_add(1) };
    let numbers = steps(call, start, beyond, step)?;
    let text = text_of(&numbers);
    call.answer_text(text)
}

fn text_of(numbers: &[i64]) -> String {
    let spelled: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    spelled.join(" ")
}

fn random_int(call: &mut Call<'_, '_>) -> Result<Value, Failure> {
    let (least, end) = (call.int(0), call.int(1));
    let width = end.wrapping_sub(least);
    match u64::try_from(width) {
        Ok(width) if width > 0 => {
            let offset = i64::try_from(random_below(call, width)).unwrap_or(0);
            Ok(Value::int(least.wrapping_add(offset)))
        }
        _ => Err(Failure::new("invalid argument to Intn")),
    }
}
