//! PEM, as Go reads and writes it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A block of a PEM text.
pub(super) struct Block {
    pub(super) label: String,
    pub(super) bytes: Vec<u8>,
}

/// Characters of a line.
const LINE: usize = 64;

/// Writes a block.
pub(super) fn encode(label: &str, bytes: &[u8]) -> String {
    let body = STANDARD.encode(bytes);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at_checked(LINE.min(rest.len())).unwrap_or((rest, ""));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    let _written = writeln!(text, "-----END {label}-----");
    text
}

/// The first block of a text. Headers in it are passed over.
pub(super) fn decode(text: &[u8]) -> Option<Block> {
    let text = std::str::from_utf8(text).ok()?;
    let mut lines = text.lines();
    loop {
        let line = lines.next()?.trim_end();
        let Some(label) = line.strip_prefix("-----BEGIN ").and_then(|rest| rest.strip_suffix("-----")) else {
            continue;
        };
        let end = format!("-----END {label}-----");
        let mut body = String::new();
        let closed = lines.by_ref().any(|line| {
            let line = line.trim();
            if line == end {
                return true;
            }
            if !line.contains(':') {
                body.push_str(line);
            }
            false
        });
        if !closed {
            return None;
        }
        if let Ok(bytes) = STANDARD.decode(body) {
            return Some(Block { label: label.to_owned(), bytes });
        }
    }
}
