//! Texts shortened and wrapped as Masterminds/goutils does it: by bytes, not by characters.

use crate::template::error::Failure;
use crate::template::functions::Call;

const MARK: &[u8] = b"...";

/// `abbrev`: a text of at most so many bytes.
pub(super) fn abbreviate(text: &[u8], offset: i64, width: i64) -> Vec<u8> {
    if width < 4 {
        return text.to_vec();
    }
    abbreviate_full(text, offset, width).unwrap_or_default()
}

/// `abbrevboth`: from an offset on, of at most so many bytes.
pub(super) fn abbreviate_both(text: &[u8], left: i64, right: i64) -> Vec<u8> {
    if right < 4 || (left > 0 && right < 7) {
        return text.to_vec();
    }
    abbreviate_full(text, left, right).unwrap_or_default()
}

fn abbreviate_full(text: &[u8], offset: i64, width: i64) -> Option<Vec<u8>> {
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if width < 4 {
        return None;
    }
    if length <= width {
        return Some(text.to_vec());
    }
    let mut offset = offset.min(length);
    if length.saturating_sub(offset) < width - 3 {
        offset = length - (width - 3);
    }
    let place = |at: i64| usize::try_from(at).unwrap_or(0);
    if offset <= 4 {
        let head = text.get(..place(width - 3)).unwrap_or_default();
        return Some([head, MARK].concat());
    }
    if width < 7 {
        return None;
    }
    if offset + width - 3 < length {
        let rest = text.get(place(offset)..).unwrap_or_default();
        let shortened = abbreviate_full(rest, 0, width - 3).unwrap_or_default();
        return Some([MARK, &shortened].concat());
    }
    let tail = text.get(place(length - (width - 3))..).unwrap_or_default();
    Some([MARK, tail].concat())
}

/// Whether a byte, taken for a character, is a blank.
fn is_space_byte(byte: u8) -> bool {
    crate::unicode::is_space(char::from(byte))
}

/// `nospace`: each byte that is left is written as the character of its number, unless none was left out.
pub(super) fn without_space(text: &[u8]) -> Vec<u8> {
    if !text.iter().any(|byte| is_space_byte(*byte)) {
        return text.to_vec();
    }
    let kept: String =
        text.iter().filter(|byte| !is_space_byte(**byte)).map(|byte| char::from(*byte)).collect();
    kept.into_bytes()
}

/// `initials`: the first byte of each word, as a character.
pub(super) fn initials(text: &[u8]) -> Vec<u8> {
    let mut out = String::new();
    let mut gap = true;
    for byte in text {
        if is_space_byte(*byte) {
            gap = true;
        } else if gap {
            out.push(char::from(*byte));
            gap = false;
        }
    }
    out.into_bytes()
}

/// `wrap` and `wrapWith`: lines of at most so many bytes, long words cut or not.
pub(super) fn wrap(
    call: &mut Call<'_, '_>,
    width: i64,
    argument: usize,
    separator: &[u8],
    cut_words: bool,
) -> Result<Vec<u8>, Failure> {
    let text = call.text(argument).clone();
    let text = text.as_bytes();
    let width = usize::try_from(width).unwrap_or(0).max(1);
    // At worst each byte is a line.
    call.makes_text(text.len().saturating_add((text.len() / width).saturating_mul(separator.len())))?;
    let mut out = Vec::new();
    let mut offset = 0;
    while text.len().saturating_sub(offset) > width {
        if text.get(offset) == Some(&b' ') {
            offset += 1;
            continue;
        }
        let window = text.get(offset..offset + width + 1).unwrap_or_default();
        if let Some(space) = window.iter().rposition(|byte| *byte == b' ') {
            out.extend_from_slice(text.get(offset..offset + space).unwrap_or_default());
            out.extend_from_slice(separator);
            offset += space + 1;
        } else if cut_words {
            out.extend_from_slice(text.get(offset..offset + width).unwrap_or_default());
            out.extend_from_slice(separator);
            offset += width;
        } else {
            let behind = text.get(offset + width..).unwrap_or_default();
            match behind.iter().position(|byte| *byte == b' ') {
                None => {
                    out.extend_from_slice(text.get(offset..).unwrap_or_default());
                    offset = text.len();
                }
                Some(space) => {
                    let end = offset + width + space;
                    out.extend_from_slice(text.get(offset..end).unwrap_or_default());
                    out.extend_from_slice(separator);
                    offset = end + 1;
                }
            }
        }
        if out.len() > call.limit() {
            break;
        }
    }
    out.extend_from_slice(text.get(offset..).unwrap_or_default());
    Ok(out)
}
