//! Base 64 and 32, with Go's errors as the result.

use crate::template::functions::{Function, Type};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const TEXT: &[Type] = &[Type::Text];

pub(super) static FUNCTIONS: &[Function] = &[
    Function::new("b32dec", TEXT, |call| {
        let text = base_32_decoded(call.bytes(0)).unwrap_or_else(|at| illegal(32, at));
        call.answer_text(text)
    }),
    Function::new("b32enc", TEXT, |call| {
        let text = base_32(call.bytes(0));
        call.answer_text(text)
    }),
    Function::new("b64dec", TEXT, |call| {
        let text = base_64_decoded(call.bytes(0)).unwrap_or_else(|at| illegal(64, at));
        call.answer_text(text)
    }),
    Function::new("b64enc", TEXT, |call| {
        let text = STANDARD.encode(call.bytes(0));
        call.answer_text(text)
    }),
];

fn illegal(base: u32, at: usize) -> Vec<u8> {
    format!("illegal base{base} data at input byte {at}").into_bytes()
}

/// The text of Go's error for base 64.
pub(super) fn illegal_base_64(at: usize) -> String {
    format!("illegal base64 data at input byte {at}")
}

fn is_line_end(byte: u8) -> bool {
    byte == b'\n' || byte == b'\r'
}

fn digit_64(byte: u8) -> Option<u32> {
    Some(u32::from(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    }))
}

/// `base64.StdEncoding.DecodeString`; an error is the byte that Go names.
pub(super) fn base_64_decoded(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    loop {
        let (mut bits, mut count) = (0_u32, 0_usize);
        let mut ended = false;
        while count < 4 {
            let Some(byte) = text.get(at).copied() else {
                if count == 0 {
                    return Ok(out);
                }
                // Without padding nothing may be missing.
                return Err(at - count);
            };
            at += 1;
            if is_line_end(byte) {
                continue;
            }
            if let Some(digit) = digit_64(byte) {
                bits = bits << 6 | digit;
                count += 1;
                continue;
            }
            if byte != b'=' || count < 2 {
                return Err(at - 1);
            }
            if count == 2 {
                while text.get(at).copied().is_some_and(is_line_end) {
                    at += 1;
                }
                if at == text.len() {
                    // One more is missing.
                    return Err(text.len());
                }
                if text.get(at) != Some(&b'=') {
                    return Err(at - 1);
                }
                at += 1;
            }
            while text.get(at).copied().is_some_and(is_line_end) {
                at += 1;
            }
            if at < text.len() {
                return Err(at);
            }
            ended = true;
            break;
        }
        let bits = bits << (6 * (4 - count));
        let bytes = bits.to_be_bytes();
        out.extend(bytes.iter().skip(1).take(count.saturating_sub(1)));
        if ended {
            return Ok(out);
        }
    }
}

const ALPHABET_32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base_32(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let bits = (0..5).fold(0_u64, |bits, at| bits << 8 | u64::from(chunk.get(at).copied().unwrap_or(0)));
        let digits = (chunk.len() * 8).div_ceil(5);
        for place in 0..8 {
            let digit = usize::try_from(bits >> (35 - 5 * place) & 31).unwrap_or(0);
            out.push(if place < digits { ALPHABET_32.get(digit).copied().unwrap_or(b'A') } else { b'=' });
        }
    }
    out
}

/// `base32.StdEncoding.DecodeString`.
fn base_32_decoded(text: &[u8]) -> Result<Vec<u8>, usize> {
    // Line ends are taken out first, and bytes are counted without them.
    let text: Vec<u8> = text.iter().copied().filter(|byte| !is_line_end(*byte)).collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut at = 0;
    let mut ended = false;
    while at < text.len() && !ended {
        let (mut bits, mut count) = (0_u64, 0_usize);
        while count < 8 {
            let Some(byte) = text.get(at).copied() else { return Err(text.len() - count) };
            at += 1;
            if byte == b'=' && count >= 2 && text.len() - at < 8 {
                // The rest of the group is padding, and nothing follows.
                let rest = text.get(at..).unwrap_or_default();
                if rest.len() + count < 7 {
                    return Err(text.len());
                }
                for offset in 0..7 - count {
                    if rest.get(offset) != Some(&b'=') {
                        return Err(at + offset - 1);
                    }
                }
                if matches!(count, 1 | 3 | 6) {
                    return Err(at - 1);
                }
                ended = true;
                break;
            }
            let Some(digit) = ALPHABET_32.iter().position(|known| *known == byte) else { return Err(at - 1) };
            bits = bits << 5 | u64::try_from(digit).unwrap_or(0);
            count += 1;
        }
        let bits = bits << (5 * (8 - count));
        let bytes = bits.to_be_bytes();
        out.extend(bytes.iter().skip(3).take(count * 5 / 8));
    }
    Ok(out)
}
