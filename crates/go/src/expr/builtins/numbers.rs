//! Functions of numbers, and of any value.

use super::{Builtin, Check, Context, Overload, argument, many, one, validate};
use crate::expr::nature::Type;
use crate::expr::numbers::{Number, compare, parse_float};
use crate::expr::{Budget, Fault, Value, print, to_json};
use crate::json;
use std::cmp::Ordering;

const INTS: Check = Check::Types(&[Overload { parameters: &[Type::Int, Type::Int], result: Type::Int }]);
const fn any_to(result: Type) -> Overload {
    Overload { parameters: &[Type::Any], result }
}

pub(super) const ROWS: &[Builtin] = &[
    one("type", Check::Types(&[any_to(Type::Text)]), |value, _| Ok(type_name(value).into())),
    one("string", Check::Types(&[any_to(Type::Text)]), |value, budget| {
        Ok(Value::Text(print::print(value, budget)?))
    }),
    one("abs", Check::Validate(validate::abs), abs),
    one("ceil", Check::Validate(validate::round), |value, _| rounded(value, "ceil", f64::ceil)),
    one("floor", Check::Validate(validate::round), |value, _| rounded(value, "floor", f64::floor)),
    one("round", Check::Validate(validate::round), |value, _| rounded(value, "round", f64::round)),
    one("int", Check::Validate(validate::int), int),
    one("float", Check::Validate(validate::float), float),
    many("max", Check::Validate(validate::aggregate), |arguments, context| {
        extreme(arguments, "max", "<", Ordering::Less, context.budget)
    }),
    many("min", Check::Validate(validate::aggregate), |arguments, context| {
        extreme(arguments, "min", ">", Ordering::Greater, context.budget)
    }),
    many("mean", Check::Validate(validate::aggregate), |arguments, context| {
        let mut sum = Sum::default();
        for argument in arguments {
            match argument.list_items() {
                Some(items) => {
                    for item in items {
                        sum.add(&item, context.budget)?;
                    }
                }
                None => sum.add(argument, context.budget)?,
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "there are never that many")]
        let count = sum.count as f64;
        Ok(Value::Float(if sum.count == 0 { 0.0 } else { sum.total / count }))
    }),
    many("median", Check::Validate(validate::aggregate), median),
    many("toJSON", Check::Types(&[any_to(Type::Text)]), |arguments, context| {
        Ok(Value::Text(to_json::to_json(argument(arguments, 0)?, context.budget)?))
    }),
    many(
        "fromJSON",
        Check::Types(&[Overload { parameters: &[Type::Text], result: Type::Any }]),
        |arguments, context| {
            let text = super::text(arguments, 0)?;
            // A reader takes far more than the text does; what it makes is counted by it.
            context.budget.steps(text.len())?;
            context.budget.text(text.len().saturating_mul(size_of::<Value>()))?;
            let decoded =
                json::decode_go(text.as_bytes()).map_err(|error| Fault::Value(error.to_string()))?;
            Value::from_json(&decoded)
        },
    ),
    many("bitand", INTS, |arguments, _| bits(arguments, "bitand", |x, y| Ok(x & y))),
    many("bitor", INTS, |arguments, _| bits(arguments, "bitor", |x, y| Ok(x | y))),
    many("bitxor", INTS, |arguments, _| bits(arguments, "bitxor", |x, y| Ok(x ^ y))),
    many("bitnand", INTS, |arguments, _| bits(arguments, "bitnand", |x, y| Ok(x & !y))),
    many("bitshl", INTS, |arguments, _| {
        bits(arguments, "bitshl", |x, y| Ok(shift(y)?.map_or(0, |count| x << count)))
    }),
    many("bitshr", INTS, |arguments, _| bits(arguments, "bitshr", |x, y| Ok(x >> shift(y)?.unwrap_or(63)))),
    many("bitushr", INTS, |arguments, _| {
        bits(arguments, "bitushr", |x, y| {
            Ok(shift(y)?.map_or(0, |count| (x.cast_unsigned() >> count).cast_signed()))
        })
    }),
    many(
        "bitnot",
        Check::Types(&[Overload { parameters: &[Type::Int], result: Type::Int }]),
        |arguments, _| {
            super::counted(arguments, 1)?;
            Ok(Value::Int(!integer(argument(arguments, 0)?, "bitnot")?))
        },
    ),
];

fn type_name(value: &Value) -> &str {
    match value {
        Value::Nil => "nil",
        Value::Int(_) | Value::Int64(_) => "int",
        Value::Byte(_) => "uint",
        Value::Float(_) => "float",
        Value::Bytes(_) | Value::Range(_) | Value::List(_) => "array",
        Value::Map(_) => "map",
        Value::Zone { pointer: true, .. } => "unknown",
        other => other.go_type(),
    }
}

fn invalid(name: &str, value: &Value) -> Fault {
    Fault::Value(format!("invalid argument for {name} (type {})", value.go_type()))
}

fn abs(value: &Value, _budget: &mut Budget) -> Result<Value, Fault> {
    Ok(match value {
        Value::Int(number) => Value::Int(number.wrapping_abs()),
        Value::Int64(number) => Value::Int64(number.wrapping_abs()),
        Value::Byte(_) => value.clone(),
        // The sign of a zero stays.
        Value::Float(number) => Value::Float(if *number < 0.0 { -number } else { *number }),
        other => return Err(invalid("abs", other)),
    })
}

fn rounded(value: &Value, name: &str, round: fn(f64) -> f64) -> Result<Value, Fault> {
    match Number::of(value) {
        Some(Number::Float(number)) => Ok(Value::Float(round(number))),
        Some(number) => Ok(Value::Float(number.float())),
        None => Err(invalid(name, value)),
    }
}

fn int(value: &Value, _budget: &mut Budget) -> Result<Value, Fault> {
    Ok(Value::Int(match value {
        Value::Text(text) => text
            .to_str()
            .parse()
            .map_err(|_not_a_number| Fault::Value(format!("invalid operation: int({text})")))?,
        Value::Duration(number) => *number,
        Value::Month(number) | Value::Weekday(number) => i64::from(*number),
        other => crate::expr::numbers::to_int(other)?,
    }))
}

fn float(value: &Value, _budget: &mut Budget) -> Result<Value, Fault> {
    let number = match value {
        Value::Text(text) => parse_float(&text.to_str()),
        other => Number::of(other).map(Number::float),
    };
    number.map(Value::Float).ok_or_else(|| match value {
        Value::Text(text) => Fault::Value(format!("invalid operation: float({text})")),
        other => Fault::Value(format!("invalid operation: float({})", other.go_type())),
    })
}

/// The value that none is beyond: `beyond` is how the best so far is ordered to a better one.
fn extreme(
    arguments: &[Value],
    name: &str,
    operator: &str,
    beyond: Ordering,
    budget: &mut Budget,
) -> Result<Value, Fault> {
    let mut best: Option<Value> = None;
    let take = |value: Value, best: &mut Option<Value>| -> Result<(), Fault> {
        let better = match &*best {
            None => true,
            Some(best) => compare(best, &value, operator)? == Some(beyond),
        };
        if better {
            *best = Some(value);
        }
        Ok(())
    };
    for argument in arguments {
        if argument.list_len().is_some() {
            if let Some(of_list) = extreme_of_list(argument, name, operator, beyond, budget)? {
                take(of_list, &mut best)?;
            }
        } else if is_numeric_kind(argument) {
            take(argument.clone(), &mut best)?;
        } else if arguments.len() == 1 {
            return Ok(argument.clone());
        } else {
            return Err(invalid(name, argument));
        }
    }
    Ok(best.unwrap_or(Value::Nil))
}

/// The same of a list, whose lists are looked through too.
fn extreme_of_list(
    list: &Value,
    name: &str,
    operator: &str,
    beyond: Ordering,
    budget: &mut Budget,
) -> Result<Option<Value>, Fault> {
    let mut best: Option<Value> = None;
    // Lists of bytes, texts and pairs are gone through in another way, which makes more of nothing.
    let is_plain = matches!(list, Value::Range(_))
        || matches!(list, Value::List(list) if list.item_type() == crate::expr::value::Of::Any);
    for item in list.list_items().into_iter().flatten() {
        budget.value()?;
        let value = if item.list_len().is_some() {
            match extreme_of_list(&item, name, operator, beyond, budget)? {
                Some(value) => value,
                None if is_plain => continue,
                None => return Err(invalid(name, &Value::Nil)),
            }
        } else if Number::of(&item).is_some() {
            item
        } else {
            return Err(invalid(name, &item));
        };
        let better = match &best {
            None => true,
            Some(best) => compare(best, &value, operator)? == Some(beyond),
        };
        if better {
            best = Some(value);
        }
    }
    Ok(best)
}

/// Whether Go has it as a number underneath.
fn is_numeric_kind(value: &Value) -> bool {
    Number::of(value).is_some() || matches!(value, Value::Duration(_) | Value::Month(_) | Value::Weekday(_))
}

fn number_kind(value: &Value) -> Option<f64> {
    match value {
        Value::Duration(number) => Some(crate::expr::numbers::float(*number)),
        Value::Month(number) | Value::Weekday(number) => Some(f64::from(*number)),
        other => Number::of(other).map(Number::float),
    }
}

#[derive(Default)]
struct Sum {
    total: f64,
    count: usize,
}

impl Sum {
    fn add(&mut self, value: &Value, budget: &mut Budget) -> Result<(), Fault> {
        budget.value()?;
        if let Some(number) = number_kind(value) {
            self.total += number;
            self.count += 1;
            return Ok(());
        }
        let Some(items) = value.list_items() else { return Err(invalid("mean", value)) };
        // What is inside a list is summed up first, which is part of the result.
        let mut inner = Self::default();
        for item in items {
            inner.add(&item, budget)?;
        }
        self.total += inner.total;
        self.count += inner.count;
        Ok(())
    }
}

#[expect(clippy::manual_midpoint, reason = "overflows as the original does")]
fn median(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    let mut numbers = Vec::new();
    for argument in arguments {
        gather(argument, &mut numbers, context.budget)?;
    }
    // Go sorts what is no number to the front.
    numbers
        .sort_by(|left, right| left.partial_cmp(right).unwrap_or_else(|| right.is_nan().cmp(&left.is_nan())));
    let middle = numbers.len() / 2;
    let at = |index: usize| numbers.get(index).copied().unwrap_or(0.0);
    Ok(Value::Float(match numbers.len() {
        0 => 0.0,
        len if len % 2 == 1 => at(middle),
        _ => (at(middle - 1) + at(middle)) / 2.0,
    }))
}

fn gather(value: &Value, numbers: &mut Vec<f64>, budget: &mut Budget) -> Result<(), Fault> {
    budget.steps(8)?;
    if let Some(number) = number_kind(value) {
        numbers.push(number);
        return Ok(());
    }
    let Some(items) = value.list_items() else { return Err(invalid("median", value)) };
    for item in items {
        gather(&item, numbers, budget)?;
    }
    Ok(())
}

fn integer(value: &Value, name: &str) -> Result<i64, Fault> {
    match Number::of(value) {
        Some(Number::Int(number)) => Ok(number),
        _ => {
            Err(Fault::Value(format!("cannot use {} as argument (type int) to call {name}", value.go_type())))
        }
    }
}

fn bits(
    arguments: &[Value],
    name: &str,
    combine: fn(i64, i64) -> Result<i64, Fault>,
) -> Result<Value, Fault> {
    super::counted(arguments, 2)?;
    combine(integer(argument(arguments, 0)?, name)?, integer(argument(arguments, 1)?, name)?).map(Value::Int)
}

/// How far bits are shifted; nothing when none is left after it.
fn shift(count: i64) -> Result<Option<u32>, Fault> {
    if count < 0 {
        return Err(Fault::Value(format!("invalid operation: negative shift count {count} (type int)")));
    }
    Ok(u32::try_from(count).ok().filter(|count| *count < 64))
}
