//! Integers, characters, booleans of bits.

use super::printer::{Flags, Printer};
use crate::template::limits::Exceeded;
use crate::template::quote::quote_into;
use crate::template::value::Value;
use crate::unicode::is_printed;

impl Printer<'_> {
    /// An integer by its bits.
    pub(super) fn whole(
        &mut self,
        value: &Value,
        bits: u64,
        signed: bool,
        verb: char,
    ) -> Result<(), Exceeded> {
        match verb {
            'v' if self.flags.sharp_v && !signed => self.hexadecimal_number(bits, true),
            'v' | 'd' => self.integer(bits, 10, signed, verb, false),
            'b' => self.integer(bits, 2, signed, verb, false),
            'o' | 'O' => self.integer(bits, 8, signed, verb, false),
            'x' => self.integer(bits, 16, signed, verb, false),
            'X' => self.integer(bits, 16, signed, verb, true),
            'c' => {
                let mut bytes = Vec::new();
                crate::template::quote::push_character(&mut bytes, character(bits));
                self.pad(&bytes)
            }
            'q' => {
                let mut out = String::new();
                let mut buffer = [0; 4];
                let text = character(bits).encode_utf8(&mut buffer);
                quote_into(&mut out, text.as_bytes(), '\'', self.flags.plus);
                self.pad(out.as_bytes())
            }
            'U' => self.code_point(bits),
            _ => self.bad_verb(value, verb),
        }
    }

    /// A number in base 16, with its prefix or without.
    pub(super) fn hexadecimal_number(&mut self, bits: u64, prefix: bool) -> Result<(), Exceeded> {
        let sharp = std::mem::replace(&mut self.flags.sharp, prefix);
        let written = self.integer(bits, 16, false, 'v', false);
        self.flags.sharp = sharp;
        written
    }

    fn integer(
        &mut self,
        bits: u64,
        base: u32,
        signed: bool,
        verb: char,
        upper: bool,
    ) -> Result<(), Exceeded> {
        let Flags { width, precision, minus, plus, sharp, space, zero, .. } = self.flags;
        #[expect(clippy::cast_possible_wrap, reason = "the sign is the highest bit")]
        let negative = signed && (bits as i64) < 0;
        let magnitude = if negative { bits.wrapping_neg() } else { bits };
        if precision == Some(0) && magnitude == 0 {
            // Nothing but the width.
            let zero = std::mem::replace(&mut self.flags.zero, false);
            let filled = self.fill(width.unwrap_or(0));
            self.flags.zero = zero;
            return filled;
        }
        let least = match (precision, width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if zero && !minus => {
                // Room for the sign.
                width.saturating_sub(usize::from(negative || plus || space))
            }
            _ => 0,
        };
        let digits = digits(magnitude, base, upper);
        let mut out = String::with_capacity(digits.len().max(least) + 3);
        if negative {
            out.push('-');
        } else if plus {
            out.push('+');
        } else if space {
            out.push(' ');
        }
        if verb == 'O' {
            out.push_str("0o");
        }
        let zeros = least.saturating_sub(digits.len());
        if sharp {
            match base {
                2 => out.push_str("0b"),
                8 if zeros == 0 && !digits.starts_with('0') => out.push('0'),
                16 => out.push_str(if upper { "0X" } else { "0x" }),
                _ => {}
            }
        }
        out.extend(std::iter::repeat_n('0', zeros));
        out.push_str(&digits);
        self.pad_blank(out.as_bytes())
    }

    fn code_point(&mut self, bits: u64) -> Result<(), Exceeded> {
        let least = self.flags.precision.unwrap_or(4).max(4);
        let mut out = format!("U+{bits:0least$X}");
        if self.flags.sharp
            && let Some(character) = u32::try_from(bits).ok().and_then(char::from_u32)
            && is_printed(character)
        {
            out.push_str(" '");
            out.push(character);
            out.push('\'');
        }
        self.pad_blank(out.as_bytes())
    }
}

fn character(bits: u64) -> char {
    u32::try_from(bits).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn digits(magnitude: u64, base: u32, upper: bool) -> String {
    match (base, upper) {
        (2, _) => format!("{magnitude:b}"),
        (8, _) => format!("{magnitude:o}"),
        (16, false) => format!("{magnitude:x}"),
        (16, true) => format!("{magnitude:X}"),
        _ => magnitude.to_string(),
    }
}
