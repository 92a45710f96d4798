//! What texts between quotes stand for.

/// A quoted text without its quotes, escapes replaced.
pub(super) fn text(quoted: &str) -> Result<Vec<u8>, &'static str> {
    read(quoted, |letter, rest, out| {
        let (count, code) = match letter {
            'u' if rest.starts_with('{') => {
                let inner = rest.strip_prefix('{').and_then(|rest| rest.split_once('}'));
                let (digits, after) = inner.ok_or(UNABLE)?;
                let code = u32::from_str_radix(digits, 16).map_err(|_not_hex| UNABLE)?;
                push_code(out, code)?;
                return Ok(after);
            }
            'x' | 'X' => (2, None),
            'u' => (4, None),
            'U' => (8, None),
            '0'..='3' => (2, letter.to_digit(8)),
            _ => return Err(UNABLE),
        };
        let (digits, after) = rest.split_at_checked(count).ok_or(UNABLE)?;
        match code {
            Some(first) => push_code(out, first * 64 + octal(digits)?)?,
            None => push_code(out, u32::from_str_radix(digits, 16).map_err(|_not_hex| UNABLE)?)?,
        }
        Ok(after)
    })
}

/// A quoted text without its quotes whose escapes are bytes.
pub(super) fn bytes(quoted: &str) -> Result<Vec<u8>, &'static str> {
    read(quoted, |letter, rest, out| {
        let (digits, after) = rest.split_at_checked(2).ok_or(UNABLE)?;
        let code = match letter {
            'x' | 'X' => u32::from_str_radix(digits, 16).map_err(|_not_hex| UNABLE)?,
            '0'..='3' => letter.to_digit(8).unwrap_or(0) * 64 + octal(digits)?,
            _ => return Err(UNABLE),
        };
        out.push(u8::try_from(code).map_err(|_large| UNABLE)?);
        Ok(after)
    })
}

const UNABLE: &str = "unable to unescape string";

/// Handles the escapes that are the same in both; `code` reads those that are numbers.
fn read(
    quoted: &str,
    code: impl for<'t> Fn(char, &'t str, &mut Vec<u8>) -> Result<&'t str, &'static str>,
) -> Result<Vec<u8>, &'static str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).ok_or(UNABLE)?;
    // Line ends of all systems are the same.
    let inner = inner.replace("\r\n", "\n").replace('\r', "\n");
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.as_str();
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        let letter = after.chars().next().ok_or(UNABLE)?;
        let after = after.get(letter.len_utf8()..).unwrap_or_default();
        let simple = match letter {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' | '\'' | '"' | '`' | '?' => u8::try_from(letter).unwrap_or_default(),
            _ => {
                rest = code(letter, after, &mut out)?;
                continue;
            }
        };
        out.push(simple);
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    Ok(out)
}

fn octal(digits: &str) -> Result<u32, &'static str> {
    u32::from_str_radix(digits, 8).map_err(|_not_octal| "unable to unescape octal sequence in string")
}

fn push_code(out: &mut Vec<u8>, code: u32) -> Result<(), &'static str> {
    if code.cast_signed() < 0 {
        // The original takes it for a negative character, and of that the last byte.
        out.extend(code.to_le_bytes().first());
        return Ok(());
    }
    if code > u32::from(char::MAX) {
        return Err(UNABLE);
    }
    let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
    out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(())
}
