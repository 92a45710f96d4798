//! `html`, `js` and `urlquery`.

use crate::template::quote::push_character;
use crate::unicode::is_printed;

/// HTML in which nothing is markup.
pub(super) fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            _ => out.push(*byte),
        }
    }
    out
}

/// JavaScript in which nothing ends a text.
pub(super) fn js(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => out.extend_from_slice(br"\\"),
                '\'' => out.extend_from_slice(br"\'"),
                '"' => out.extend_from_slice(b"\\\""),
                '<' | '>' | '&' | '=' | '\0'..'\u{20}' => {
                    out.extend_from_slice(format!("\\u{:04X}", u32::from(character)).as_bytes());
                }
                _ if character.is_ascii() || is_printed(character) => push_character(&mut out, character),
                _ => out.extend_from_slice(format!("\\u{:04X}", u32::from(character)).as_bytes()),
            }
        }
        // U+FFFD is printed, so a byte that is no UTF-8 is kept as it is.
        out.extend_from_slice(chunk.invalid());
    }
    out
}

/// A text as a value in the query of a URL (`url.QueryEscape`).
pub fn query(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b' ' => out.push(b'+'),
            _ => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}
