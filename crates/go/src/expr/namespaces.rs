//! The modules of functions that triggers and templates of notifications have and that need nothing from outside.

use super::{Call, CallError, Fault, Value};
use crate::time::{Moment, RFC_3339, RFC_3339_NANO, parse_moment};

/// Durations by name, in nanoseconds.
const DURATIONS: [(&str, i64); 6] = [
    ("Nanosecond", 1),
    ("Microsecond", 1_000),
    ("Millisecond", 1_000_000),
    ("Second", 1_000_000_000),
    ("Minute", 60_000_000_000),
    ("Hour", 3_600_000_000_000),
];

/// Layouts of times by name.
const LAYOUTS: [(&str, &str); 16] = [
    ("Layout", "01/02 03:04:05PM '06 -0700"),
    ("ANSIC", "Mon Jan _2 15:04:05 2006"),
    ("UnixDate", "Mon Jan _2 15:04:05 MST 2006"),
    ("RubyDate", "Mon Jan 02 15:04:05 -0700 2006"),
    ("RFC822", "02 Jan 06 15:04 MST"),
    ("RFC822Z", "02 Jan 06 15:04 -0700"),
    ("RFC850", "Monday, 02-Jan-06 15:04:05 MST"),
    ("RFC1123", "Mon, 02 Jan 2006 15:04:05 MST"),
    ("RFC1123Z", "Mon, 02 Jan 2006 15:04:05 -0700"),
    ("RFC3339", RFC_3339),
    ("RFC3339Nano", RFC_3339_NANO),
    ("Kitchen", "3:04PM"),
    ("Stamp", "Jan _2 15:04:05"),
    ("StampMilli", "Jan _2 15:04:05.000"),
    ("StampMicro", "Jan _2 15:04:05.000000"),
    ("StampNano", "Jan _2 15:04:05.000000000"),
];

/// `time`: reading times, the present, names of durations and layouts (NTF-121).
///
/// # Errors
/// Never, as long as these names are few.
pub fn time() -> Result<Value, Fault> {
    let functions = [("Parse", Value::function(parse_time)), ("Now", Value::function(now))];
    let durations = DURATIONS.map(|(name, nanoseconds)| (name, Value::Duration(nanoseconds)));
    let layouts = LAYOUTS.map(|(name, layout)| (name, layout.into()));
    Value::namespace(functions.into_iter().chain(durations).chain(layouts))
}

/// `strings`: what is done to texts (NTF-122).
///
/// # Errors
/// Never, as long as these names are few.
pub fn strings() -> Result<Value, Fault> {
    Value::namespace([
        ("ReplaceAll", Value::function(replace_all)),
        ("ToUpper", Value::function(|call: &mut Call<'_>| mapped(call, super::letters::upper))),
        ("ToLower", Value::function(|call: &mut Call<'_>| mapped(call, super::letters::lower))),
    ])
}

fn parse_time(call: &mut Call<'_>) -> Result<Value, CallError> {
    call.takes(1)?;
    let text = call.text(0)?;
    let moment = parse_moment(RFC_3339, &text, None);
    moment.map(Value::from).map_err(|error| CallError::new(error.to_string()))
}

fn now(call: &mut Call<'_>) -> Result<Value, CallError> {
    call.takes(0)?;
    Ok(Moment { instant: call.now(), zone: crate::time::Zone::Local }.into())
}

fn replace_all(call: &mut Call<'_>) -> Result<Value, CallError> {
    call.takes(3)?;
    let (text, old, new) = (call.text(0)?, call.text(1)?, call.text(2)?);
    let found = text.matches(old.as_str()).count();
    if text.len().saturating_add(found.saturating_mul(new.len())) > TEXT_BYTES_MAX {
        return Err(CallError::new("the text becomes too long"));
    }
    Ok(text.replace(&old, &new).into())
}

fn mapped(call: &mut Call<'_>, map: fn(char) -> char) -> Result<Value, CallError> {
    call.takes(1)?;
    Ok(call.text(0)?.chars().map(map).collect::<String>().into())
}

/// Bytes that a text may come to.
const TEXT_BYTES_MAX: usize = 16 << 20;
