//! Percent signs in paths and queries, as Go reads them: a broken one is an error, not a character.

/// A percent sign without two digits, or bytes that are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid URL escape")]
pub struct EscapeError;

/// Decodes a path; a plus is a plus.
///
/// # Errors
/// When an escape is broken.
pub fn path_decode(text: &str) -> Result<String, EscapeError> {
    decode(text, false)
}

/// Decodes a part of a query; a plus is a blank.
///
/// # Errors
/// When an escape is broken.
pub fn query_decode(text: &str) -> Result<String, EscapeError> {
    decode(text, true)
}

fn decode(text: &str, plus_is_blank: bool) -> Result<String, EscapeError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || {
                    let digit = rest.next().and_then(|digit| char::from(digit).to_digit(16));
                    digit.and_then(|digit| u8::try_from(digit).ok()).ok_or(EscapeError)
                };
                digit()? << 4 | digit()?
            }
            b'+' if plus_is_blank => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_binary| EscapeError)
}
