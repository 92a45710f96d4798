//! Lua's patterns, matched in counted steps (ENG-131, SEC-07).
//!
//! The matcher of the library backtracks without end where no instruction is counted: one call over a text of some
//! megabytes takes hours. This one does the same, and charges each item that it compares with a byte.

use std::ops::Range;

/// Captures of one pattern.
const CAPTURES_MAX: usize = 32;
/// Nested attempts of one match, as in the library.
const DEPTH_MAX: u16 = 200;
/// Bytes that are compared or copied in one step.
pub(super) const BYTES_PER_STEP: usize = 32;

/// Reason for which a match ended without a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The pattern is malformed.
    Pattern(&'static str),
    /// The steps are used up.
    Exhausted,
}

/// Value of one capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Captured {
    /// Position in the subject, from 1.
    Position(usize),
    /// Part of the subject.
    Text(Range<usize>),
    /// Its end is missing in the pattern, which is an error where it is used.
    Unfinished,
}

#[derive(Clone, Copy)]
enum Length {
    Open,
    Position,
    Of(usize),
}

#[derive(Clone, Copy)]
struct Capture {
    start: usize,
    length: Length,
}

type Attempt = Result<Option<usize>, Problem>;

/// A pattern over a subject, with the steps that are left for it.
pub(super) struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    depth: u16,
    steps_left: u64,
}

impl<'a> Matcher<'a> {
    /// `pattern` is without the anchor at its start.
    pub(super) fn new(subject: &'a [u8], pattern: &'a [u8], steps: u64) -> Self {
        Self { subject, pattern, captures: Vec::new(), depth: 0, steps_left: steps }
    }

    /// Steps that were not taken.
    pub(super) fn steps_left(&self) -> u64 {
        self.steps_left
    }

    /// Takes steps for `bytes` bytes.
    pub(super) fn spend_bytes(&mut self, bytes: usize) -> Result<(), Problem> {
        self.spend(bytes / BYTES_PER_STEP + 1)
    }

    fn spend(&mut self, steps: usize) -> Result<(), Problem> {
        let left = self.steps_left.checked_sub(steps as u64);
        self.steps_left = left.unwrap_or_default();
        left.map(drop).ok_or(Problem::Exhausted)
    }

    /// End of the match at a position.
    pub(super) fn at(&mut self, start: usize) -> Attempt {
        self.captures.clear();
        self.depth = 0;
        self.attempt(start, 0)
    }

    /// First match at or after a position; with an anchor, at the position only.
    pub(super) fn search(&mut self, start: usize, anchored: bool) -> Result<Option<Range<usize>>, Problem> {
        for position in start..=self.subject.len() {
            if let Some(end) = self.at(position)? {
                return Ok(Some(position..end));
            }
            if anchored {
                break;
            }
        }
        Ok(None)
    }

    /// The captures of the last match, which was `whole`; `whole` itself where the pattern has none and it is asked for.
    pub(super) fn captured(&self, whole: &Range<usize>, or_whole: bool) -> Vec<Captured> {
        if self.captures.is_empty() && or_whole {
            return vec![Captured::Text(whole.clone())];
        }
        let captured = |Capture { start, length }: &Capture| match length {
            Length::Open => Captured::Unfinished,
            Length::Position => Captured::Position(start + 1),
            Length::Of(length) => Captured::Text(*start..start + length),
        };
        self.captures.iter().map(captured).collect()
    }

    /// Matches the pattern from `item` at `at`, one level deeper.
    fn nested(&mut self, at: usize, item: usize) -> Attempt {
        if self.depth >= DEPTH_MAX {
            return Err(Problem::Pattern("pattern too complex"));
        }
        self.depth += 1;
        let found = self.attempt(at, item);
        self.depth -= 1;
        found
    }

    fn attempt(&mut self, mut at: usize, mut item: usize) -> Attempt {
        loop {
            self.spend(1)?;
            let Some(&first) = self.pattern.get(item) else { return Ok(Some(at)) };
            let second = self.pattern.get(item + 1).copied();
            match (first, second) {
                (b'(', Some(b')')) => return self.open(at, item + 2, Length::Position),
                (b'(', _) => return self.open(at, item + 1, Length::Open),
                (b')', _) => return self.close(at, item + 1),
                (b'$', None) => return Ok((at == self.subject.len()).then_some(at)),
                (b'%', Some(kind @ (b'b' | b'f' | b'0'..=b'9'))) => {
                    let Some((next, rest)) = self.special(kind, at, item + 2)? else { return Ok(None) };
                    (at, item) = (next, rest);
                    continue;
                }
                _ => {}
            }
            let end = self.end_of(item)?;
            match self.pattern.get(end) {
                Some(b'?') => {
                    if self.is_one(at, &(item..end))?
                        && let Some(found) = self.nested(at + 1, end + 1)?
                    {
                        return Ok(Some(found));
                    }
                    item = end + 1;
                }
                Some(b'+') if self.is_one(at, &(item..end))? => return self.most(at + 1, &(item..end)),
                Some(b'*') => return self.most(at, &(item..end)),
                Some(b'-') => return self.least(at, &(item..end)),
                Some(b'+') => return Ok(None),
                _ if self.is_one(at, &(item..end))? => (at, item) = (at + 1, end),
                _ => return Ok(None),
            }
        }
    }

    /// Items that are no single characters: where the subject and the pattern go on.
    fn special(&mut self, kind: u8, at: usize, item: usize) -> Result<Option<(usize, usize)>, Problem> {
        match kind {
            b'b' => Ok(self.balanced(at, item)?.map(|end| (end, item + 2))),
            b'f' => {
                if self.pattern.get(item) != Some(&b'[') {
                    return Err(Problem::Pattern("missing '[' after '%f' in pattern"));
                }
                let end = self.end_of(item)?;
                self.spend((end - item) / 4 + 1)?;
                let byte = |at: Option<usize>| at.and_then(|at| self.subject.get(at)).copied().unwrap_or(0);
                let (before, here) = (byte(at.checked_sub(1)), byte(Some(at)));
                let is_border = !self.is_in_set(before, &(item..end)) && self.is_in_set(here, &(item..end));
                Ok(is_border.then_some((at, end)))
            }
            digit => {
                let index = usize::from(digit.wrapping_sub(b'1'));
                let Some(Capture { start, length: Length::Of(length) }) = self.captures.get(index).copied()
                else {
                    // A position is no text to be repeated, and matches nothing.
                    return match self.captures.get(index) {
                        Some(Capture { length: Length::Position, .. }) => Ok(None),
                        _ => Err(Problem::Pattern("invalid capture index")),
                    };
                };
                self.spend_bytes(length)?;
                let wanted = self.subject.get(start..start + length);
                let found = self.subject.get(at..at + length);
                Ok((found.is_some() && found == wanted).then_some((at + length, item)))
            }
        }
    }

    fn balanced(&mut self, at: usize, item: usize) -> Attempt {
        let (Some(&open), Some(&close)) = (self.pattern.get(item), self.pattern.get(item + 1)) else {
            return Err(Problem::Pattern("malformed pattern (missing arguments to '%b')"));
        };
        if self.subject.get(at) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1_usize;
        for position in at + 1..self.subject.len() {
            self.spend(1)?;
            let byte = self.subject.get(position);
            if byte == Some(&close) {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(position + 1));
                }
            } else if byte == Some(&open) {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn open(&mut self, at: usize, item: usize, length: Length) -> Attempt {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Problem::Pattern("too many captures"));
        }
        let level = self.captures.len();
        self.captures.push(Capture { start: at, length });
        let found = self.nested(at, item)?;
        if found.is_none() {
            self.captures.truncate(level);
        }
        Ok(found)
    }

    fn close(&mut self, at: usize, item: usize) -> Attempt {
        let level = self.captures.iter().rposition(|capture| matches!(capture.length, Length::Open));
        let level = level.ok_or(Problem::Pattern("invalid pattern capture"))?;
        if let Some(capture) = self.captures.get_mut(level) {
            capture.length = Length::Of(at - capture.start);
        }
        let found = self.nested(at, item)?;
        if found.is_none()
            && let Some(capture) = self.captures.get_mut(level)
        {
            capture.length = Length::Open;
        }
        Ok(found)
    }

    /// As many of an item as there are, then fewer.
    fn most(&mut self, at: usize, item: &Range<usize>) -> Attempt {
        let mut end = at;
        while self.is_one(end, item)? {
            end += 1;
        }
        loop {
            if let Some(found) = self.nested(end, item.end + 1)? {
                return Ok(Some(found));
            }
            if end == at {
                return Ok(None);
            }
            end -= 1;
        }
    }

    /// As few of an item as possible, then more.
    fn least(&mut self, mut at: usize, item: &Range<usize>) -> Attempt {
        loop {
            if let Some(found) = self.nested(at, item.end + 1)? {
                return Ok(Some(found));
            }
            if !self.is_one(at, item)? {
                return Ok(None);
            }
            at += 1;
        }
    }

    /// End of the single character, class or set that starts at `item`.
    fn end_of(&mut self, item: usize) -> Result<usize, Problem> {
        match self.pattern.get(item) {
            Some(b'%') if item + 1 >= self.pattern.len() => {
                Err(Problem::Pattern("malformed pattern (ends with '%')"))
            }
            Some(b'%') => Ok(item + 2),
            Some(b'[') => {
                let mut at = item + 1 + usize::from(self.pattern.get(item + 1) == Some(&b'^'));
                loop {
                    match self.pattern.get(at) {
                        None => return Err(Problem::Pattern("malformed pattern (missing ']')")),
                        Some(b'%') if at + 1 < self.pattern.len() => at += 2,
                        Some(_) => at += 1,
                    }
                    if self.pattern.get(at) == Some(&b']') {
                        self.spend((at - item) / 8)?;
                        return Ok(at + 1);
                    }
                }
            }
            _ => Ok(item + 1),
        }
    }

    /// Whether the byte at a position is what an item stands for.
    fn is_one(&mut self, at: usize, item: &Range<usize>) -> Result<bool, Problem> {
        self.spend(item.len() / 8 + 1)?;
        let Some(&byte) = self.subject.get(at) else { return Ok(false) };
        let second = self.pattern.get(item.start + 1).copied().unwrap_or_default();
        Ok(match self.pattern.get(item.start) {
            Some(b'.') => true,
            Some(b'%') => is_in_class(byte, second),
            Some(b'[') => self.is_in_set(byte, item),
            Some(own) => *own == byte,
            None => false,
        })
    }

    /// Whether a byte is in a set, whose brackets are the ends of `item`.
    fn is_in_set(&self, byte: u8, item: &Range<usize>) -> bool {
        let inner = self.pattern.get(item.start + 1..item.end - 1).unwrap_or_default();
        let (mut rest, is_in) = match inner.split_first() {
            Some((b'^', rest)) => (rest, false),
            _ => (inner, true),
        };
        loop {
            let (found, next) = match rest {
                [] => return !is_in,
                [b'%', class, next @ ..] => (is_in_class(byte, *class), next),
                [first, b'-', last, next @ ..] => ((*first..=*last).contains(&byte), next),
                [own, next @ ..] => (*own == byte, next),
            };
            if found {
                return is_in;
            }
            rest = next;
        }
    }
}

fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'g' => byte.is_ascii_graphic(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

/// Start of a plain text in a subject, at or after a position.
pub(super) fn plain(matcher: &mut Matcher<'_>, start: usize) -> Result<Option<Range<usize>>, Problem> {
    let (subject, wanted) = (matcher.subject, matcher.pattern);
    let Some((first, _)) = wanted.split_first() else { return Ok(Some(start..start)) };
    let mut at = start;
    while let Some(skipped) = subject.get(at..).and_then(|rest| rest.iter().position(|byte| byte == first)) {
        at += skipped;
        let equal = subject.get(at..).unwrap_or_default().iter().zip(wanted).take_while(|(a, b)| a == b);
        let equal = equal.count();
        matcher.spend_bytes(skipped + equal)?;
        if equal == wanted.len() {
            return Ok(Some(at..at + equal));
        }
        at += 1;
    }
    matcher.spend_bytes(subject.len().saturating_sub(at))?;
    Ok(None)
}
