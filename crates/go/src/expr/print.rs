//! Values as `fmt` prints them with `%v`.

use super::methods::durations;
use super::value::{Called, Text};
use super::{Budget, Fault, Value};
use crate::number;
use crate::time::Zone;

/// Prints a value.
pub(super) fn print(value: &Value, budget: &mut Budget) -> Result<Text, Fault> {
    let mut out = Vec::new();
    write(&mut out, value, budget)?;
    Ok(out.into())
}

fn push(out: &mut Vec<u8>, bytes: &[u8], budget: &mut Budget) -> Result<(), Fault> {
    budget.text(bytes.len())?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn write(out: &mut Vec<u8>, value: &Value, budget: &mut Budget) -> Result<(), Fault> {
    match value {
        Value::Nil => push(out, b"<nil>", budget),
        Value::Bool(truth) => push(out, truth.to_string().as_bytes(), budget),
        Value::Int(number) | Value::Int64(number) => push(out, number.to_string().as_bytes(), budget),
        Value::Byte(byte) => push(out, byte.to_string().as_bytes(), budget),
        Value::Float(number) => push(out, number::general(*number).as_bytes(), budget),
        Value::Text(text) => push(out, text.as_bytes(), budget),
        Value::Duration(nanoseconds) => push(out, durations::shown(*nanoseconds).as_bytes(), budget),
        Value::Month(_) | Value::Weekday(_) => push(out, durations::name(value).as_bytes(), budget),
        Value::Time(time) => push(out, time.shown().as_bytes(), budget),
        Value::Zone { zone, pointer } => push(out, shown_zone(zone, *pointer).as_bytes(), budget),
        Value::Bytes(_) | Value::Range(_) | Value::List(_) => {
            push(out, b"[", budget)?;
            for index in 0..value.len().unwrap_or(0) {
                if index > 0 {
                    push(out, b" ", budget)?;
                }
                write(out, &value.item(index).unwrap_or(Value::Nil), budget)?;
            }
            push(out, b"]", budget)
        }
        Value::Map(map) => {
            push(out, b"map[", budget)?;
            for (index, (key, member)) in map.members().enumerate() {
                if index > 0 {
                    push(out, b" ", budget)?;
                }
                write(out, &key, budget)?;
                push(out, b":", budget)?;
                write(out, member, budget)?;
            }
            push(out, b"]", budget)
        }
        Value::Object(object) => write(out, &object.shown(), budget),
        // Go prints an address.
        Value::Function(callable) => match &callable.0 {
            Called::Method(_, method) => push(out, method.name.as_bytes(), budget),
            Called::Custom(_) => push(out, b"func", budget),
        },
    }
}

/// A zone; of those that are no pointers Go prints the insides, which are none of our business.
fn shown_zone(zone: &Zone, pointer: bool) -> String {
    if pointer { zone.name().to_owned() } else { format!("{{{}}}", zone.name()) }
}
