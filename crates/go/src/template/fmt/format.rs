//! Format strings.

use super::printer::{Flags, Printer};
use crate::template::limits::Exceeded;
use crate::template::value::{Number, Value, to_str};

/// Width and precision beyond this are mistakes.
const WIDTH_MAX: i64 = 1_000_000;

/// Prints values by a format.
pub(super) fn print(
    out: &mut Vec<u8>,
    format: &[u8],
    values: &[&Value],
    limit: usize,
) -> Result<(), Exceeded> {
    let mut reader =
        Reader { format, at: 0, values, next: 0, reordered: false, good: true, after_index: false };
    let mut printer = Printer::new(out, limit);
    while let Some(rest) = format.get(reader.at..).filter(|rest| !rest.is_empty()) {
        let plain = rest.iter().position(|byte| *byte == b'%').unwrap_or(rest.len());
        printer.put(rest.get(..plain).unwrap_or_default())?;
        reader.at += plain;
        if reader.at < format.len() {
            reader.at += 1;
            reader.verb(&mut printer)?;
        }
    }
    if !reader.reordered && reader.next < values.len() {
        printer.flags = Flags::default();
        printer.put(b"%!(EXTRA ")?;
        for (place, value) in values.iter().skip(reader.next).enumerate() {
            if place > 0 {
                printer.put(b", ")?;
            }
            if value.is_nil() {
                printer.put(b"<nil>")?;
            } else {
                printer.put(value.type_name().as_bytes())?;
                printer.put(b"=")?;
                printer.argument(value, 'v')?;
            }
        }
        printer.put(b")")?;
    }
    Ok(())
}

struct Reader<'f> {
    format: &'f [u8],
    at: usize,
    values: &'f [&'f Value],
    /// The value that comes next.
    next: usize,
    /// Whether values were named by their place.
    reordered: bool,
    /// Whether the last such name was right.
    good: bool,
    /// Whether such a name was the last thing read.
    after_index: bool,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.at).copied()
    }

    /// Reads what follows a `%` and prints it.
    fn verb(&mut self, printer: &mut Printer<'_>) -> Result<(), Exceeded> {
        self.good = true;
        self.after_index = false;
        let mut flags = Flags::default();
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => flags.sharp = true,
                b'0' => flags.zero = true,
                b'+' => flags.plus = true,
                b'-' => flags.minus = true,
                b' ' => flags.space = true,
                _ => break,
            }
            self.at += 1;
        }
        self.index();
        self.width(&mut flags, printer)?;
        self.precision(&mut flags, printer)?;
        if !self.after_index {
            self.index();
        }
        let rest = self.format.get(self.at..).unwrap_or_default();
        let head = to_str(rest.get(..rest.len().min(4)).unwrap_or_default());
        let Some(verb) = head.chars().next() else { return printer.put(b"%!(NOVERB)") };
        // A byte that is not UTF-8 is one character, too.
        self.at +=
            if rest.starts_with(verb.encode_utf8(&mut [0; 4]).as_bytes()) { verb.len_utf8() } else { 1 };
        if verb == '%' {
            return printer.put(b"%");
        }
        let problem: &[u8] = if !self.good {
            b"(BADINDEX)"
        } else if self.next >= self.values.len() {
            b"(MISSING)"
        } else {
            b""
        };
        if !problem.is_empty() {
            printer.put(b"%!")?;
            printer.put_character(verb)?;
            return printer.put(problem);
        }
        if matches!(verb, 'v' | 'w') {
            flags.sharp_v = std::mem::take(&mut flags.sharp);
            flags.plus_v = std::mem::take(&mut flags.plus);
        }
        printer.flags = flags;
        if let Some(value) = self.values.get(self.next) {
            printer.argument(value, verb)?;
        }
        self.next += 1;
        Ok(())
    }

    fn width(&mut self, flags: &mut Flags, printer: &mut Printer<'_>) -> Result<(), Exceeded> {
        if self.peek() == Some(b'*') {
            self.at += 1;
            let width = self.number_from_value();
            match width {
                None => printer.put(b"%!(BADWIDTH)")?,
                Some(width) => {
                    if width < 0 {
                        flags.minus = true;
                        // Zeros do not stand on the right.
                        flags.zero = false;
                    }
                    flags.width = usize::try_from(width.unsigned_abs()).ok();
                }
            }
            self.after_index = false;
            return Ok(());
        }
        flags.width = self.number(self.format.len());
        if self.after_index && flags.width.is_some() {
            // As in "%[3]2d".
            self.good = false;
        }
        Ok(())
    }

    fn precision(&mut self, flags: &mut Flags, printer: &mut Printer<'_>) -> Result<(), Exceeded> {
        if self.peek() != Some(b'.') || self.at + 1 >= self.format.len() {
            return Ok(());
        }
        self.at += 1;
        if self.after_index {
            // As in "%[3].2d".
            self.good = false;
        }
        self.index();
        if self.peek() == Some(b'*') {
            self.at += 1;
            let precision = self.number_from_value().filter(|precision| *precision >= 0);
            match precision {
                None => printer.put(b"%!(BADPREC)")?,
                Some(precision) => flags.precision = usize::try_from(precision).ok(),
            }
            self.after_index = false;
        } else {
            flags.precision = Some(self.number(self.format.len()).unwrap_or(0));
        }
        Ok(())
    }

    /// A decimal number; none and the end of the format when it is far too large.
    fn number(&mut self, end: usize) -> Option<usize> {
        let mut number: Option<i64> = None;
        while let Some(digit) = self.peek().filter(|byte| self.at < end && byte.is_ascii_digit()) {
            let before = number.unwrap_or(0);
            if before > WIDTH_MAX {
                self.at = end;
                return None;
            }
            number = Some(before * 10 + i64::from(digit - b'0'));
            self.at += 1;
        }
        number.and_then(|number| usize::try_from(number).ok())
    }

    /// A width or precision that is a value.
    fn number_from_value(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        let number = match value.number()? {
            Number::Int(number) => number,
            Number::Uint(number) => i64::try_from(number).ok()?,
            Number::Float(_) => return None,
        };
        (-WIDTH_MAX..=WIDTH_MAX).contains(&number).then_some(number)
    }

    /// Reads `[n]`, the place of a value.
    fn index(&mut self) {
        if self.peek() != Some(b'[') {
            self.after_index = false;
            return;
        }
        self.reordered = true;
        let rest = self.format.get(self.at..).unwrap_or_default();
        let close = if rest.len() < 3 { None } else { rest.iter().position(|byte| *byte == b']') };
        let Some(close) = close else {
            self.at += 1;
            self.good = false;
            self.after_index = false;
            return;
        };
        let end = self.at + close;
        self.at += 1;
        let place = self.number(end).filter(|_| self.at == end);
        self.at = end + 1;
        let index = place.and_then(|place| place.checked_sub(1)).filter(|index| *index < self.values.len());
        if let Some(index) = index {
            self.next = index;
            self.after_index = true;
        } else {
            self.good = false;
            // A number that is only out of range is a place all the same.
            self.after_index = place.is_some();
        }
    }
}
