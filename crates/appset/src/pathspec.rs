//! Which tracked files a pattern selects as `git ls-files -- PATTERN` does (ASET-49).
//!
//! A star crosses `/`, a name of a directory selects everything below it. Magic words (`:(glob)x`, `:!x`) are read as
//! git reads them; what git would refuse is refused here.

use tiphys_go::steps::{Steps, TooManySteps};

/// Steps that one pattern may take on one path.
const STEPS_MAX: u64 = 4_000_000;

/// Why a pattern is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathspecError {
    /// Nothing is written.
    #[error("empty string is not a valid pathspec")]
    Empty,
    /// It leads out of the repository.
    #[error("{0:?} is outside repository")]
    Outside(String),
    /// A magic word that does not exist or is not supported.
    #[error("unsupported pathspec magic {magic:?} in {pattern:?}")]
    Magic {
        /// The word.
        magic: String,
        /// The pattern.
        pattern: String,
    },
    /// Words that cannot stand together.
    #[error("{0:?}: 'literal' and 'glob' are incompatible")]
    Incompatible(String),
    /// Magic words that do not end.
    #[error("missing ')' at the end of pathspec magic in {0:?}")]
    Open(String),
    /// It takes too long to find out.
    #[error("the pattern {0:?} takes too long to match")]
    TooManySteps(String),
}

/// One pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pathspec {
    written: String,
    pattern: String,
    kind: Kind,
    ignores_case: bool,
    excludes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A star crosses slashes.
    Shell,
    /// A star stays in its segment.
    Glob,
    /// Nothing is a wildcard.
    Literal,
}

impl Pathspec {
    /// Reads a pattern.
    ///
    /// # Errors
    /// When git would refuse it.
    pub fn parse(written: &str) -> Result<Self, PathspecError> {
        if written.is_empty() {
            return Err(PathspecError::Empty);
        }
        let mut spec = Self {
            written: written.to_owned(),
            pattern: String::new(),
            kind: Kind::Shell,
            ignores_case: false,
            excludes: false,
        };
        let rest = match written.strip_prefix(':') {
            None => written,
            Some(":") => "",
            Some(rest) => match rest.strip_prefix('(') {
                Some(words) => spec.read_words(words)?,
                None => spec.read_signs(rest)?,
            },
        };
        spec.pattern = normalized(rest).ok_or_else(|| PathspecError::Outside(rest.to_owned()))?;
        if spec.ignores_case {
            spec.pattern = spec.pattern.to_ascii_lowercase();
        }
        Ok(spec)
    }

    fn read_words<'w>(&mut self, words: &'w str) -> Result<&'w str, PathspecError> {
        let open = || PathspecError::Open(self.written.clone());
        let (magic, rest) = words.split_once(')').ok_or_else(open)?;
        let (mut literal, mut glob) = (false, false);
        for word in magic.split(',').filter(|word| !word.is_empty()) {
            match word {
                "top" => {}
                "literal" => literal = true,
                "glob" => glob = true,
                "icase" => self.ignores_case = true,
                "exclude" => self.excludes = true,
                other => return Err(self.unsupported(other)),
            }
        }
        self.kind = match (literal, glob) {
            (true, true) => return Err(PathspecError::Incompatible(self.written.clone())),
            (true, false) => Kind::Literal,
            (false, true) => Kind::Glob,
            (false, false) => Kind::Shell,
        };
        Ok(rest)
    }

    /// Signs of magic end at a letter, at a wildcard, or at a colon.
    fn read_signs<'w>(&mut self, signs: &'w str) -> Result<&'w str, PathspecError> {
        let mut rest = signs;
        while let Some(sign) = rest.chars().next() {
            let after = rest.get(sign.len_utf8()..).unwrap_or("");
            match sign {
                ':' => return Ok(after),
                '/' => {}
                '!' | '^' => self.excludes = true,
                _ if is_plain(sign) => return Ok(rest),
                other => return Err(self.unsupported(&other.to_string())),
            }
            rest = after;
        }
        Ok(rest)
    }

    fn unsupported(&self, magic: &str) -> PathspecError {
        PathspecError::Magic { magic: magic.to_owned(), pattern: self.written.clone() }
    }

    /// The pattern as it was written.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// Whether a tracked path is selected.
    ///
    /// # Errors
    /// When it takes too long to find out.
    pub fn matches(&self, path: &str) -> Result<bool, PathspecError> {
        let lower;
        let path = if self.ignores_case {
            lower = path.to_ascii_lowercase();
            &lower
        } else {
            path
        };
        let selected = self.covers(path)
            || self.is_wild() && {
                let mut wild =
                    Wild { segments: self.kind == Kind::Glob, steps: Steps::new(STEPS_MAX), depth: 0 };
                wild.matches(self.pattern.as_bytes(), path.as_bytes())
                    .map_err(|_exceeded| PathspecError::TooManySteps(self.written.clone()))?
                    == Match::Yes
            };
        Ok(selected != self.excludes)
    }

    /// Whether the pattern, read as a name, is the path or a directory above it.
    fn covers(&self, path: &str) -> bool {
        let Some(rest) = path.strip_prefix(self.pattern.as_str()) else { return false };
        self.pattern.is_empty() || rest.is_empty() || rest.starts_with('/') || self.pattern.ends_with('/')
    }

    fn is_wild(&self) -> bool {
        self.kind != Kind::Literal && self.pattern.contains(['*', '?', '[', '\\'])
    }
}

/// Characters that end the signs of magic.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || !c.is_ascii()
        || c.is_ascii_whitespace()
        || c.is_ascii_control()
        || "*?[\\.^$+(){}|_".contains(c)
}

/// Without `.`, `..` and double slashes; `None` for what leads out of the repository.
fn normalized(path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    let mut normal = parts.join("/");
    let is_directory = path.ends_with('/') || path.ends_with("/.") || path.ends_with("/..");
    if is_directory && !normal.is_empty() {
        normal.push('/');
    }
    Some(normal)
}

/// How a search ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Yes,
    No,
    /// More text for the star before does not help.
    Abort,
    /// Only a star that crosses slashes can help.
    AbortSegment,
}

/// What a pattern is matched with.
struct Wild {
    /// Stars stay in their segments; two of them are segments of their own.
    segments: bool,
    steps: Steps,
    depth: usize,
}

/// Groups of stars in one pattern.
const STARS_MAX: usize = 100;

impl Wild {
    /// git's `wildmatch`: what follows a star is tried at each place.
    fn matches(&mut self, pattern: &[u8], text: &[u8]) -> Result<Match, TooManySteps> {
        let (mut at, mut text) = (0, text);
        while let Some(sign) = pattern.get(at) {
            self.steps.spend(1)?;
            let rest = pattern.get(at + 1..).unwrap_or_default();
            if *sign == b'*' {
                return self.star(pattern, at, text);
            }
            let Some((byte, left)) = text.split_first() else { return Ok(Match::Abort) };
            let is_divider = self.segments && *byte == b'/';
            let after = match sign {
                b'?' => (!is_divider).then_some(rest),
                b'[' => match class(rest, *byte) {
                    None => return Ok(Match::Abort),
                    Some((matched, after)) => (matched && !is_divider).then_some(after),
                },
                b'\\' => match rest.split_first() {
                    Some((wanted, after)) => (wanted == byte).then_some(after),
                    None => (*byte == b'\\').then_some(rest),
                },
                exact => (exact == byte).then_some(rest),
            };
            let Some(after) = after else { return Ok(Match::No) };
            (at, text) = (pattern.len() - after.len(), left);
        }
        Ok(if text.is_empty() { Match::Yes } else { Match::No })
    }

    fn star(&mut self, pattern: &[u8], at: usize, text: &[u8]) -> Result<Match, TooManySteps> {
        let stars = pattern.iter().skip(at).take_while(|byte| **byte == b'*').count();
        let after = pattern.get(at + stars..).unwrap_or_default();
        let begins_segment = at == 0 || pattern.get(at - 1) == Some(&b'/');
        let ends_segment = after.is_empty() || after.starts_with(b"/") || after.starts_with(b"\\/");
        let crosses = !self.segments || (stars > 1 && begins_segment && ends_segment);
        if self.segments && crosses && after.starts_with(b"/") {
            let below = after.get(1..).unwrap_or_default();
            if self.deeper(below, text)? == Match::Yes {
                return Ok(Match::Yes);
            }
        }
        if after.is_empty() {
            let fits = crosses || !text.contains(&b'/');
            return Ok(if fits { Match::Yes } else { Match::AbortSegment });
        }
        let mut left = text;
        loop {
            let found = self.deeper(after, left)?;
            if found == Match::Yes || found == Match::Abort || (found == Match::AbortSegment && !crosses) {
                return Ok(found);
            }
            match left.split_first() {
                None => return Ok(Match::Abort),
                Some((b'/', _)) if !crosses => return Ok(Match::AbortSegment),
                Some((_, next)) => left = next,
            }
        }
    }

    fn deeper(&mut self, pattern: &[u8], text: &[u8]) -> Result<Match, TooManySteps> {
        self.depth += 1;
        if self.depth > STARS_MAX {
            return Err(TooManySteps { limit: STEPS_MAX });
        }
        let found = self.matches(pattern, text);
        self.depth -= 1;
        found
    }
}

/// Reads a class after its opening bracket: whether the byte is in it, and what follows; `None` when it does not end.
fn class(pattern: &[u8], byte: u8) -> Option<(bool, &[u8])> {
    let (negated, mut rest) = match pattern.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, pattern),
    };
    let (mut matched, mut first, mut previous) = (false, true, 0_u8);
    loop {
        let (sign, after) = rest.split_first()?;
        match sign {
            b']' if !first => return Some((matched != negated, after)),
            b'\\' => {
                let (exact, after) = after.split_first()?;
                matched |= byte == *exact;
                (previous, rest) = (*exact, after);
            }
            b'-' if previous != 0 && after.first().is_some_and(|next| *next != b']') => {
                let (mut high, mut after) = after.split_first()?;
                if *high == b'\\' {
                    (high, after) = after.split_first()?;
                }
                matched |= (previous..=*high).contains(&byte);
                (previous, rest) = (0, after);
            }
            b'[' if after.first() == Some(&b':') => {
                let body = after.get(1..).unwrap_or_default();
                match body.iter().position(|byte| *byte == b']') {
                    Some(end) if body.get(end.wrapping_sub(1)) == Some(&b':') => {
                        let name = body.get(..end - 1).unwrap_or_default();
                        matched |= in_named_class(name, byte)?;
                        (previous, rest) = (0, body.get(end + 1..).unwrap_or_default());
                    }
                    _ => {
                        matched |= byte == b'[';
                        (previous, rest) = (b'[', after);
                    }
                }
            }
            exact => {
                matched |= byte == *exact;
                (previous, rest) = (*exact, after);
            }
        }
        first = false;
    }
}

fn in_named_class(name: &[u8], byte: u8) -> Option<bool> {
    Some(match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => byte == b' ' || byte == b'\t',
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
