//! Functions of times.

use super::{Builtin, Check, Context, Overload, Pointers, Run, many, text, validate};
use crate::duration;
use crate::expr::nature::Type;
use crate::expr::{Fault, Value};
use crate::time::{Moment, RFC_3339, Zone, parse_moment};

/// Layouts that are tried one after the other.
const LAYOUTS: [&str; 7] = [
    "2006-01-02",
    "15:04:05",
    "2006-01-02 15:04:05",
    RFC_3339,
    "02 Jan 06 15:04 MST",
    "Monday, 02-Jan-06 15:04:05 MST",
    "Mon, 02 Jan 2006 15:04:05 MST",
];
/// Steps that reading a time takes.
const PARSE_STEPS: usize = 100;

pub(super) const ROWS: &[Builtin] = &[
    Builtin {
        name: "now",
        check: Check::Validate(validate::now),
        run: Run::Many(now),
        pointers: Pointers::Kept,
    },
    many(
        "duration",
        Check::Types(&[Overload { parameters: &[Type::Text], result: Type::Duration }]),
        |arguments, _| {
            let read = duration::parse(&text(arguments, 0)?.to_str());
            let read = read.map_err(|error| Fault::Value(error.to_string()))?;
            Ok(Value::Duration(i64::try_from(read.as_nanos()).unwrap_or_default()))
        },
    ),
    Builtin {
        name: "date",
        check: Check::Validate(validate::date),
        run: Run::Many(date),
        pointers: Pointers::FollowedUnlessZones,
    },
    many(
        "timezone",
        Check::Types(&[Overload { parameters: &[Type::Text], result: Type::ZonePointer }]),
        |arguments, _| Ok(Zone::find(&text(arguments, 0)?.to_str())?.into()),
    ),
];

fn now(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    let now = Moment { instant: context.now, zone: Zone::Local };
    match arguments {
        [] => Ok(now.into()),
        [Value::Zone { zone, pointer: true }] => Ok(now.within((**zone).clone()).into()),
        _ => {
            let given = arguments.len();
            Err(Fault::Value(format!("invalid number of arguments (expected 0, got {given})")))
        }
    }
}

fn date(arguments: &[Value], context: &mut Context<'_>) -> Result<Value, Fault> {
    context.budget.steps(PARSE_STEPS)?;
    let (zone, arguments) = match arguments {
        [Value::Zone { zone, pointer: true }, rest @ ..] => (Some(&**zone), rest),
        all => (None, all),
    };
    let written = text(arguments, 0)?.to_str();
    match arguments.len() {
        2 => Ok(parse_moment(&text(arguments, 1)?.to_str(), &written, zone)?.into()),
        3 => {
            let zone = Zone::find(&text(arguments, 2)?.to_str())?;
            Ok(parse_moment(&text(arguments, 1)?.to_str(), &written, Some(&zone))?.into())
        }
        _ => LAYOUTS
            .iter()
            .find_map(|layout| parse_moment(layout, &written, zone).ok())
            .map(Value::from)
            .ok_or_else(|| Fault::Value(format!("invalid date {written}"))),
    }
}
