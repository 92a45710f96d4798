//! `fmt`: printing values with verbs, flags, width and precision (Go 1.26).
//!
//! A verb that does not fit is a text, not an error: `%!d(string=a)` (RND-193). What can go wrong is that there is no
//! end: a value that holds itself, or a list of a list of a list that unfolds to gigabytes. So everything that prints
//! has a number of bytes that it may come to.

mod float;
mod format;
mod integer;
mod printer;

use super::limits::Exceeded;
use super::value::Value;
pub(crate) use float::format_float;
pub(crate) use printer::{Flags, Printer};

/// Bytes of a value that is shown in an error.
const SHOWN_BYTES_MAX: usize = 1 << 20;

/// Prints a value behind what is there. Beyond the limit of a value in an error it is cut off.
pub(crate) fn print_value(out: &mut Vec<u8>, value: &Value, verb: char, flags: Flags) {
    let limit = out.len().saturating_add(SHOWN_BYTES_MAX);
    let _cut = Printer::new(out, limit).with(flags).argument(value, verb);
}

/// Prints a value as `%v` does behind what is there, of so many bytes in all.
pub(crate) fn print_into(out: &mut Vec<u8>, value: &Value, limit: usize) -> Result<(), Exceeded> {
    Printer::new(out, limit).argument(value, 'v')
}

/// A value as `%v` prints it, for errors.
pub(crate) fn sprint(value: &Value) -> String {
    let mut out = Vec::new();
    print_value(&mut out, value, 'v', Flags::default());
    super::value::to_str(&out).into_owned()
}

/// A value as `%v` prints it.
pub(crate) fn print(value: &Value, limit: usize) -> Result<Vec<u8>, Exceeded> {
    let mut out = Vec::new();
    print_into(&mut out, value, limit)?;
    Ok(out)
}

/// `fmt.Sprint`: blanks between operands of which neither is a text.
pub(crate) fn print_all<'v>(
    values: impl Iterator<Item = &'v Value>,
    limit: usize,
) -> Result<Vec<u8>, Exceeded> {
    let mut out = Vec::new();
    let mut printer = Printer::new(&mut out, limit);
    let mut text_before = false;
    for (place, value) in values.enumerate() {
        let text = value.kind() == super::value::Kind::String;
        if place > 0 && !text && !text_before {
            printer.put(b" ")?;
        }
        printer.argument(value, 'v')?;
        text_before = text;
    }
    Ok(out)
}

/// `fmt.Sprintln`: blanks between all operands, and a line end.
pub(crate) fn print_line<'v>(
    values: impl Iterator<Item = &'v Value>,
    limit: usize,
) -> Result<Vec<u8>, Exceeded> {
    let mut out = Vec::new();
    let mut printer = Printer::new(&mut out, limit);
    for (place, value) in values.enumerate() {
        if place > 0 {
            printer.put(b" ")?;
        }
        printer.argument(value, 'v')?;
    }
    printer.put(b"\n")?;
    Ok(out)
}

/// `fmt.Sprintf`.
pub(crate) fn print_formatted(format: &[u8], values: &[&Value], limit: usize) -> Result<Vec<u8>, Exceeded> {
    let mut out = Vec::new();
    format::print(&mut out, format, values, limit)?;
    Ok(out)
}
