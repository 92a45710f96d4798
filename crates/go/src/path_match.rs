//! Go's `path.Match` (Go 1.26): `*`, `?` and classes within one path segment.
//!
//! Works on bytes as the original does, so that a star may end inside a character. The pattern is checked to
//! its end even when the text cannot match any more.
//!
//! Golden rows: `path-match.jsonl`.

/// The pattern is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Whether the whole text matches; `*` and `?` stop at `/` (EVAL-759).
pub fn is_match(pattern: &str, text: &str) -> Result<bool, BadPattern> {
    let (mut pattern, mut text) = (pattern.as_bytes(), text.as_bytes());
    while !pattern.is_empty() {
        let (star, chunk, rest) = next_chunk(pattern);
        pattern = rest;
        if star && chunk.is_empty() {
            return Ok(!text.contains(&b'/'));
        }
        // Without a pattern left the text has to end as well.
        let fits = |left: &[u8]| left.is_empty() || !rest.is_empty();
        if let Some(left) = match_chunk(chunk, text)?.filter(|left| fits(left)) {
            text = left;
            continue;
        }
        let mut found = None;
        if star {
            let segment = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
            for skipped in 1..=segment {
                let tail = text.get(skipped..).unwrap_or_default();
                found = match_chunk(chunk, tail)?.filter(|left| fits(left));
                if found.is_some() {
                    break;
                }
            }
        }
        match found {
            Some(left) => text = left,
            None => return check(pattern).map(|()| false),
        }
    }
    Ok(text.is_empty())
}

fn check(mut pattern: &[u8]) -> Result<(), BadPattern> {
    while !pattern.is_empty() {
        let (_, chunk, rest) = next_chunk(pattern);
        match_chunk(chunk, b"")?;
        pattern = rest;
    }
    Ok(())
}

/// Splits off leading stars and what stands before the next one.
fn next_chunk(pattern: &[u8]) -> (bool, &[u8], &[u8]) {
    let stars = pattern.iter().take_while(|byte| **byte == b'*').count();
    let body = pattern.get(stars..).unwrap_or_default();
    let (mut escaped, mut in_class) = (false, false);
    let end = body.iter().position(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'[' => in_class = true,
            b']' => in_class = false,
            b'*' => return !in_class,
            _ => {}
        }
        false
    });
    let (chunk, rest) = body.split_at_checked(end.unwrap_or(body.len())).unwrap_or((body, b""));
    (stars > 0, chunk, rest)
}

/// Matches a pattern without stars at the start of a text and returns what is left of the text.
fn match_chunk<'t>(mut chunk: &[u8], text: &'t [u8]) -> Result<Option<&'t [u8]>, BadPattern> {
    // Once it is none, the rest of the chunk is only checked.
    let mut left = Some(text);
    while let Some((first, rest)) = chunk.split_first() {
        left = left.filter(|left| !left.is_empty());
        match first {
            b'[' => {
                let character = left.and_then(first_character);
                let (matched, after) = class(rest, character.map(|(character, _)| character))?;
                left = character.filter(|_| matched).map(|(_, left)| left);
                chunk = after;
            }
            b'?' => {
                left = left
                    .filter(|left| left.first() != Some(&b'/'))
                    .and_then(first_character)
                    .map(|(_, left)| left);
                chunk = rest;
            }
            b'\\' => {
                let (escaped, after) = rest.split_first().ok_or(BadPattern)?;
                left = left.and_then(|left| left.strip_prefix(&[*escaped]));
                chunk = after;
            }
            exact => {
                left = left.and_then(|left| left.strip_prefix(&[*exact]));
                chunk = rest;
            }
        }
    }
    Ok(left)
}

/// Reads a class after its opening bracket: whether the character is in it, and what follows.
fn class(chunk: &[u8], character: Option<char>) -> Result<(bool, &[u8]), BadPattern> {
    let (negated, mut chunk) = match chunk.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, chunk),
    };
    let mut matched = false;
    let mut first = true;
    loop {
        if !first && let Some(rest) = chunk.strip_prefix(b"]") {
            return Ok((matched != negated, rest));
        }
        let (low, rest) = class_character(chunk)?;
        let (high, rest) = match rest.strip_prefix(b"-") {
            Some(rest) => class_character(rest)?,
            None => (low, rest),
        };
        matched |= character.is_some_and(|character| (low..=high).contains(&character));
        chunk = rest;
        first = false;
    }
}

fn class_character(chunk: &[u8]) -> Result<(char, &[u8]), BadPattern> {
    if matches!(chunk.first(), None | Some(b'-' | b']')) {
        return Err(BadPattern);
    }
    let chunk = chunk.strip_prefix(b"\\").unwrap_or(chunk);
    let (character, rest) = first_character(chunk).ok_or(BadPattern)?;
    // A class needs at least its closing bracket after this.
    if rest.is_empty() { Err(BadPattern) } else { Ok((character, rest)) }
}

/// The first character; a byte that is not part of UTF-8 counts as U+FFFD.
fn first_character(bytes: &[u8]) -> Option<(char, &[u8])> {
    for length in 1..=bytes.len().min(4) {
        let (head, rest) = bytes.split_at_checked(length)?;
        if let Some(character) = std::str::from_utf8(head).ok().and_then(|text| text.chars().next()) {
            return Some((character, rest));
        }
    }
    bytes.split_first().map(|(_, rest)| (char::REPLACEMENT_CHARACTER, rest))
}
