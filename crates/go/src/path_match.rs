//! Go's `path.Match` (Go 1.26): `*`, `?` and classes within one path segment.
//!
//! Works on bytes as the original does, so that a star may end inside a character. The pattern is checked to
//! its end even when the text cannot match any more.
//!
//! Golden rows: `path-match.jsonl`.

use crate::steps::{Steps, TooManySteps};

/// The pattern is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Why there is no answer.
enum Stop {
    Bad(BadPattern),
    Steps(TooManySteps),
}

impl From<BadPattern> for Stop {
    fn from(bad: BadPattern) -> Self {
        Self::Bad(bad)
    }
}

impl From<TooManySteps> for Stop {
    fn from(exceeded: TooManySteps) -> Self {
        Self::Steps(exceeded)
    }
}

/// Whether the whole text matches; `*` and `?` stop at `/` (EVAL-759). Takes at most pattern times text steps.
pub fn is_match(pattern: &str, text: &str) -> Result<bool, BadPattern> {
    // Only a budget that has an end is ever used up.
    is_match_within(pattern, text, &mut Steps::unlimited()).unwrap_or(Ok(false))
}

/// The same, found out within a budget that several calls may share.
///
/// # Errors
/// When the steps do not suffice.
pub fn is_match_within(
    pattern: &str,
    text: &str,
    steps: &mut Steps,
) -> Result<Result<bool, BadPattern>, TooManySteps> {
    match run(pattern.as_bytes(), text.as_bytes(), steps) {
        Ok(matches) => Ok(Ok(matches)),
        Err(Stop::Bad(bad)) => Ok(Err(bad)),
        Err(Stop::Steps(exceeded)) => Err(exceeded),
    }
}

fn run(mut pattern: &[u8], mut text: &[u8], steps: &mut Steps) -> Result<bool, Stop> {
    while !pattern.is_empty() {
        let (star, chunk, rest) = next_chunk(pattern);
        pattern = rest;
        if star && chunk.is_empty() {
            return Ok(!text.contains(&b'/'));
        }
        // Without a pattern left the text has to end as well.
        let fits = |left: &[u8]| left.is_empty() || !rest.is_empty();
        steps.spend(chunk.len() + 1)?;
        if let Some(left) = match_chunk(chunk, text)?.filter(|left| fits(left)) {
            text = left;
            continue;
        }
        let mut found = None;
        if star {
            let segment = text.iter().position(|byte| *byte == b'/').unwrap_or(text.len());
            for skipped in 1..=segment {
                steps.spend(chunk.len() + 1)?;
                let tail = text.get(skipped..).unwrap_or_default();
                found = match_chunk(chunk, tail)?.filter(|left| fits(left));
                if found.is_some() {
                    break;
                }
            }
        }
        let Some(left) = found else {
            steps.spend(pattern.len())?;
            return Ok(check(pattern).map(|()| false)?);
        };
        text = left;
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
