//! Path patterns of bmatcuk/doublestar 4.10: the git files and directories of `ApplicationSet`s.
//!
//! Like `path.Match`, plus `**` as a whole segment for any number of segments, `{a,b}` for alternatives and
//! `[!…]`. A pattern that ends in `/**` also matches the directory itself. `**` beside other characters is `*`.
//! Alternatives are written out before matching, so their number and their size are bounded, and so are the steps
//! that matching takes: each star goes back.
//!
//! Golden rows: `doublestar.jsonl`.

use crate::steps::{Steps, TooManySteps};

/// Why a pattern is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// A bracket or brace is not closed, a class is empty, or the pattern ends in a backslash.
    #[error("syntax error in pattern")]
    Syntax,
    /// The alternatives multiply beyond what is tried.
    #[error("pattern has more than {EXPANSIONS_MAX} combinations of alternatives")]
    Alternatives,
    /// The alternatives take more than is written out, or more than is tried on one text.
    #[error("the pattern takes more than {limit} steps")]
    Steps {
        /// The limit.
        limit: u64,
    },
}

impl From<TooManySteps> for PatternError {
    fn from(exceeded: TooManySteps) -> Self {
        Self::Steps { limit: exceeded.limit }
    }
}

/// Combinations of alternatives that are tried.
const EXPANSIONS_MAX: usize = 1_000;
/// Nesting of alternatives.
const DEPTH_MAX: usize = 20;
/// Tokens of all combinations together, those in between included.
const TOKENS_MAX: u64 = 1_000_000;
/// Comparisons of a token with a character.
const STEPS_MAX: u64 = 20_000_000;

/// Whether the whole text matches, with `/` between segments (EVAL-758). A malformed pattern is an error
/// whatever the text.
pub fn is_match(pattern: &str, text: &str) -> Result<bool, PatternError> {
    let name: Vec<char> = text.chars().collect();
    let mut steps = Steps::new(STEPS_MAX);
    for tokens in expand(pattern)? {
        if matches(&tokens, &name, &mut steps)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Exact(char),
    Single,
    Star,
    Class {
        ranges: Vec<(char, char)>,
        negated: bool,
    },
    /// Where an alternative begins; `**` may stand here as at the beginning of a segment.
    Start,
}

/// Writes out the alternatives of a pattern.
fn expand(pattern: &str) -> Result<Vec<Vec<Token>>, PatternError> {
    let mut characters = pattern.chars();
    let (expansions, end) = sequences(&mut characters, 0, &mut Steps::new(TOKENS_MAX))?;
    if end.is_some() { Err(PatternError::Syntax) } else { Ok(expansions) }
}

/// Reads up to the end, or inside a group up to `,` or `}`, which is returned.
fn sequences(
    characters: &mut std::str::Chars<'_>,
    depth: usize,
    tokens: &mut Steps,
) -> Result<(Vec<Vec<Token>>, Option<char>), PatternError> {
    if depth > DEPTH_MAX {
        return Err(PatternError::Alternatives);
    }
    let mut expansions: Vec<Vec<Token>> = vec![Vec::new()];
    while let Some(character) = characters.next() {
        let token = match character {
            '*' => Token::Star,
            '?' => Token::Single,
            '[' => class(characters)?,
            '\\' => Token::Exact(characters.next().ok_or(PatternError::Syntax)?),
            '}' => return Ok((expansions, Some('}'))),
            ',' if depth > 0 => return Ok((expansions, Some(','))),
            '{' => {
                let alternatives = group(characters, depth + 1, tokens)?;
                if expansions.len().saturating_mul(alternatives.len()) > EXPANSIONS_MAX {
                    return Err(PatternError::Alternatives);
                }
                let size = |lists: &[Vec<Token>]| lists.iter().flatten().map(Token::size).sum::<usize>();
                let pairs = expansions.len().saturating_mul(alternatives.len());
                tokens.spend(
                    size(&expansions)
                        .saturating_mul(alternatives.len())
                        .saturating_add(size(&alternatives).saturating_mul(expansions.len()))
                        .saturating_add(pairs),
                )?;
                expansions = expansions
                    .iter()
                    .flat_map(|before| {
                        alternatives.iter().map(move |chosen| {
                            let start = std::iter::once(&Token::Start);
                            before.iter().chain(start).chain(chosen).cloned().collect()
                        })
                    })
                    .collect();
                continue;
            }
            _ => Token::Exact(character),
        };
        tokens.spend(expansions.len().saturating_mul(token.size()))?;
        for expansion in &mut expansions {
            expansion.push(token.clone());
        }
    }
    Ok((expansions, None))
}

/// Reads the alternatives after an opening brace.
fn group(
    characters: &mut std::str::Chars<'_>,
    depth: usize,
    tokens: &mut Steps,
) -> Result<Vec<Vec<Token>>, PatternError> {
    let mut alternatives = Vec::new();
    loop {
        let (expansions, end) = sequences(characters, depth, tokens)?;
        // An alternative without a token is one too.
        tokens.spend(expansions.len())?;
        alternatives.extend(expansions);
        match end {
            Some(',') => {}
            Some(_) => return Ok(alternatives),
            None => return Err(PatternError::Syntax),
        }
    }
}

/// Reads a class after its opening bracket.
fn class(characters: &mut std::str::Chars<'_>) -> Result<Token, PatternError> {
    let mut next = characters.next().ok_or(PatternError::Syntax)?;
    let negated = matches!(next, '!' | '^');
    if negated {
        next = characters.next().ok_or(PatternError::Syntax)?;
    }
    if next == ']' {
        return Err(PatternError::Syntax);
    }
    let mut ranges: Vec<(char, char)> = Vec::new();
    // The start of a range is the character before the hyphen, unless that ended one.
    let mut low: Option<char> = None;
    loop {
        let mut ahead = characters.clone();
        match (next, low, ahead.next()) {
            (']', _, _) => return Ok(Token::Class { ranges, negated }),
            ('-', Some(start), Some(end)) if end != ']' => {
                let end = if end == '\\' { ahead.next().ok_or(PatternError::Syntax)? } else { end };
                ranges.push((start, end));
                low = None;
                *characters = ahead;
            }
            _ => {
                let exact = if next == '\\' { characters.next().ok_or(PatternError::Syntax)? } else { next };
                ranges.push((exact, exact));
                low = Some(exact);
            }
        }
        next = characters.next().ok_or(PatternError::Syntax)?;
    }
}

/// Matches a pattern without alternatives, going back to the last star, then to the last `**/`.
fn matches(tokens: &[Token], name: &[char], steps: &mut Steps) -> Result<bool, TooManySteps> {
    let (mut at, mut reached) = (0, 0);
    let mut segment_start = true;
    let mut star: Option<(usize, usize)> = None;
    let mut stars: Option<(usize, usize)> = None;
    while let Some(character) = name.get(reached) {
        steps.spend(tokens.get(at).map_or(1, Token::size))?;
        match tokens.get(at) {
            Some(Token::Start) => {
                segment_start = true;
                at += 1;
                continue;
            }
            Some(Token::Star) => {
                at += 1;
                if tokens.get(at) == Some(&Token::Star) {
                    at += 1;
                    match tokens.get(at) {
                        None if segment_start => return Ok(true),
                        Some(Token::Exact('/')) if segment_start => {
                            at += 1;
                            stars = Some((at, reached));
                            star = None;
                            continue;
                        }
                        _ => {}
                    }
                }
                segment_start = false;
                star = Some((at, reached));
                continue;
            }
            Some(token) if token.matches(*character) => {
                segment_start = *token == Token::Exact('/');
                at += 1;
                reached += 1;
                continue;
            }
            _ => {}
        }
        // No match here: one character more for the star, or one segment more for the stars.
        if let Some((after, from)) = star
            && name.get(from).is_some_and(|skipped| *skipped != '/')
        {
            (at, reached) = (after, from + 1);
            star = Some((after, reached));
            segment_start = false;
            continue;
        }
        let Some((after, from)) = stars else { return Ok(false) };
        let ahead = name.get(from..).and_then(|rest| rest.iter().position(|skipped| *skipped == '/'));
        let Some(length) = ahead else { return Ok(false) };
        (at, reached) = (after, from + length + 1);
        (star, stars) = (None, Some((after, reached)));
        segment_start = true;
    }
    Ok(matches_nothing(tokens.get(at..).unwrap_or_default()))
}

/// Whether the rest of a pattern is satisfied by the end of the text.
fn matches_nothing(tokens: &[Token]) -> bool {
    let rest: String = tokens
        .iter()
        .filter(|token| **token != Token::Start)
        .map(|token| match token {
            Token::Star => '*',
            Token::Exact('/') => '/',
            _ => '?',
        })
        .collect();
    matches!(rest.as_str(), "" | "*" | "**" | "/**" | "**/" | "/**/")
}

impl Token {
    /// What it takes to copy or to try it.
    fn size(&self) -> usize {
        match self {
            Self::Class { ranges, .. } => ranges.len().saturating_add(1),
            Self::Exact(_) | Self::Single | Self::Star | Self::Start => 1,
        }
    }

    fn matches(&self, character: char) -> bool {
        match self {
            Self::Exact(expected) => *expected == character,
            Self::Single => character != '/',
            Self::Class { ranges, negated } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *negated
            }
            Self::Star | Self::Start => false,
        }
    }
}
