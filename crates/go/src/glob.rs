//! Globs as gobwas/glob 0.2.3 matches them: in policies, projects, filters and settings.
//!
//! `*` stops at separators, `**` and classes do not, `?` is one character; `{a,b}` are alternatives and need
//! no closing brace; `[a-c]`, `[abc]` and their `[!…]` are classes; a backslash takes the next character as it
//! is. A pattern becomes a small program whose threads advance together, so matching takes at most pattern times
//! text steps, whatever the pattern; [`Glob::is_match_within`] counts them.
//!
//! Text on both sides of one unlimited star may overlap, as in the library: `a/**/b` matches `a/b`.
//!
//! Deviation (DEP-49): the library forgets alternatives of open length that stand before shorter ones, so
//! that `x/{w-*,api}` never matches `x/w-7`. Here it does.
//!
//! Golden rows: `glob.jsonl`.

use crate::steps::{Steps, TooManySteps};

/// Bytes of a pattern. The longest that people write are lists of some hundred names.
pub const PATTERN_BYTES_MAX: usize = 16 << 10;

/// A compiled pattern.
///
/// ```
/// let glob = tiphys_go::glob::Glob::new("https://*/org/**", &['/'])?;
/// assert!(glob.is_match("https://host/org/a/b"));
/// assert!(!glob.is_match("https://host/x/org/a"));
/// # Ok::<(), tiphys_go::glob::GlobError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Glob {
    shape: Shape,
    separators: Vec<char>,
}

/// How a pattern is matched.
#[derive(Debug, Clone)]
enum Shape {
    /// Text that starts and ends like this, perhaps with the same characters.
    Affixes { prefix: String, suffix: String },
    /// Text that starts and ends like this, with the pieces in order between: unlimited stars keep them apart. What
    /// policies are made of (`*/*`, `shop/*/web-*`), many times cheaper than a program.
    Pieces { prefix: String, middle: Vec<String>, suffix: String },
    /// Exactly this text.
    Text(String),
    /// Anything else.
    Program(Vec<Instruction>),
}

/// Why a pattern does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GlobError {
    /// A class is not closed.
    #[error("unexpected end of input")]
    OpenClass,
    /// A class is empty.
    #[error("could not parse range")]
    EmptyClass,
    /// A range in a class is followed by more than its end.
    #[error("expected close range character")]
    CrowdedClass,
    /// The ends of a range are the wrong way round.
    #[error("hi character {high:?} should be greater than lo {low:?}")]
    BackwardRange {
        /// The range's first character.
        low: char,
        /// Its last character.
        high: char,
    },
    /// The pattern is longer than [`PATTERN_BYTES_MAX`].
    #[error("the pattern has more than {PATTERN_BYTES_MAX} bytes")]
    TooLong,
}

#[derive(Debug, Clone)]
enum Instruction {
    /// One character, exactly.
    Exact(char),
    /// One character that is no separator.
    Single,
    /// Characters that are no separators, as many as there are.
    Any,
    /// Characters, as many as there are.
    Super,
    Range {
        low: char,
        high: char,
        negated: bool,
    },
    List {
        characters: String,
        negated: bool,
    },
    /// Goes on at each of these.
    Fork(Vec<usize>),
    Jump(usize),
}

impl Instruction {
    fn is_fond_of_nothing(&self) -> bool {
        match self {
            Self::Single => true,
            Self::Range { negated, .. } | Self::List { negated, .. } => *negated,
            Self::Exact(_) | Self::Any | Self::Super | Self::Fork(_) | Self::Jump(_) => false,
        }
    }
}

impl Glob {
    /// Compiles a pattern; `*` and `?` do not match any of the separators.
    pub fn new(pattern: &str, separators: &[char]) -> Result<Self, GlobError> {
        Ok(Self { shape: shape(compile(pattern)?, separators), separators: separators.to_vec() })
    }

    /// Whether the whole text matches.
    pub fn is_match(&self, text: &str) -> bool {
        // Only a budget that has an end is ever used up.
        self.is_match_within(text, &mut Steps::unlimited()).unwrap_or(false)
    }

    /// Whether the whole text matches, found out within a budget that several calls may share.
    ///
    /// # Errors
    /// When the steps do not suffice.
    pub fn is_match_within(&self, text: &str, steps: &mut Steps) -> Result<bool, TooManySteps> {
        steps.spend(1)?;
        let program = match &self.shape {
            Shape::Text(expected) => return Ok(text == expected),
            Shape::Affixes { prefix, suffix } => {
                return Ok(text.starts_with(prefix) && text.ends_with(suffix));
            }
            Shape::Pieces { prefix, middle, suffix } => {
                steps.spend(text.len() + middle.len())?;
                return Ok(has_pieces(text, prefix, middle, suffix));
            }
            Shape::Program(program) => program,
        };
        // A lone `?` or negated class matches the empty text: the library takes its end for a character.
        if text.is_empty() && matches!(program.as_slice(), [one] if one.is_fond_of_nothing()) {
            return Ok(true);
        }
        let mut threads = Threads::new(program.len());
        steps.spend(program.len())?;
        threads.enter(program, 0, steps)?;
        for character in text.chars() {
            threads.advance(program, character, self.separators.contains(&character), steps)?;
            if threads.alive.is_empty() && !threads.finished {
                return Ok(false);
            }
        }
        Ok(threads.finished)
    }
}

/// Whether the pieces stand in the text in order and without overlap. The leftmost place of each is as good as any
/// other, because what follows a star may begin anywhere.
fn has_pieces(text: &str, prefix: &str, middle: &[String], suffix: &str) -> bool {
    let Some(mut rest) = text.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(suffix)) else {
        return false;
    };
    for piece in middle {
        let mut letters = piece.chars();
        let split = match (letters.next(), letters.next()) {
            // A single letter needs no searcher to be set up.
            (Some(letter), None) => rest.split_once(letter),
            _ => rest.split_once(piece.as_str()),
        };
        match split {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    true
}

/// The places in the program that are reached after some characters.
struct Threads {
    alive: Vec<usize>,
    /// The round in which a place was last reached.
    seen: Vec<usize>,
    /// One more with each character.
    round: usize,
    /// Whether the end of the program is reached.
    finished: bool,
    /// Places that are yet to be looked at; empty between calls.
    waiting: Vec<usize>,
}

impl Threads {
    fn new(size: usize) -> Self {
        Self { alive: Vec::new(), seen: vec![0; size], round: 1, finished: false, waiting: Vec::new() }
    }

    /// Adds a place and every place that is reached from it without a character.
    fn enter(
        &mut self,
        program: &[Instruction],
        start: usize,
        steps: &mut Steps,
    ) -> Result<(), TooManySteps> {
        self.waiting.push(start);
        while let Some(at) = self.waiting.pop() {
            steps.spend(1)?;
            let (Some(instruction), Some(seen)) = (program.get(at), self.seen.get_mut(at)) else {
                self.finished = true;
                continue;
            };
            if std::mem::replace(seen, self.round) == self.round {
                continue;
            }
            match instruction {
                Instruction::Fork(targets) => self.waiting.extend(targets),
                Instruction::Jump(target) => self.waiting.push(*target),
                Instruction::Any | Instruction::Super => {
                    self.alive.push(at);
                    self.waiting.push(at + 1);
                }
                _ => self.alive.push(at),
            }
        }
        Ok(())
    }

    /// Goes on to the places that are reached with one more character.
    fn advance(
        &mut self,
        program: &[Instruction],
        character: char,
        separator: bool,
        steps: &mut Steps,
    ) -> Result<(), TooManySteps> {
        let before = std::mem::take(&mut self.alive);
        self.finished = false;
        self.round += 1;
        for at in before {
            let Some(instruction) = program.get(at) else { continue };
            let (consumes, stays) = match instruction {
                Instruction::Exact(expected) => (*expected == character, false),
                Instruction::Single => (!separator, false),
                Instruction::Any => (!separator, true),
                Instruction::Super => (true, true),
                Instruction::Range { low, high, negated } => {
                    ((*low..=*high).contains(&character) != *negated, false)
                }
                Instruction::List { characters, negated } => {
                    steps.spend(characters.len())?;
                    (characters.contains(character) != *negated, false)
                }
                Instruction::Fork(_) | Instruction::Jump(_) => (false, false),
            };
            steps.spend(1)?;
            if consumes {
                self.enter(program, if stays { at } else { at + 1 }, steps)?;
            }
        }
        Ok(())
    }
}

/// Picks the cheapest way to match a program.
fn shape(program: Vec<Instruction>, separators: &[char]) -> Shape {
    let exact = |instruction: &Instruction| match instruction {
        Instruction::Exact(character) => Some(*character),
        _ => None,
    };
    let prefix: String = program.iter().map_while(exact).collect();
    let mut rest = program.iter().skip(prefix.chars().count());
    let unlimited = match rest.next() {
        None => return Shape::Text(prefix),
        Some(Instruction::Super) => true,
        Some(Instruction::Any) => separators.is_empty(),
        Some(_) => false,
    };
    match rest.map(exact).collect::<Option<String>>() {
        Some(suffix) if unlimited => Shape::Affixes { prefix, suffix },
        _ => pieces(&program, separators).unwrap_or(Shape::Program(program)),
    }
}

/// The pieces between several unlimited stars; `None` when there is anything else.
fn pieces(program: &[Instruction], separators: &[char]) -> Option<Shape> {
    let mut pieces = vec![String::new()];
    for instruction in program {
        match instruction {
            Instruction::Exact(character) => pieces.last_mut()?.push(*character),
            Instruction::Super => pieces.push(String::new()),
            Instruction::Any if separators.is_empty() => pieces.push(String::new()),
            _ => return None,
        }
    }
    let suffix = pieces.pop()?;
    let mut middle = pieces.split_off(1.min(pieces.len()));
    middle.retain(|piece| !piece.is_empty());
    Some(Shape::Pieces { prefix: pieces.pop()?, middle, suffix })
}

/// An open group.
struct Group {
    fork: usize,
    starts: Vec<usize>,
    jumps: Vec<usize>,
}

fn compile(pattern: &str) -> Result<Vec<Instruction>, GlobError> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(GlobError::TooLong);
    }
    let mut program = Vec::new();
    let mut groups: Vec<Group> = Vec::new();
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, groups.last_mut()) {
            ('{', _) => {
                groups.push(Group {
                    fork: program.len(),
                    starts: vec![program.len() + 1],
                    jumps: Vec::new(),
                });
                program.push(Instruction::Fork(Vec::new()));
            }
            (',', Some(group)) => {
                group.jumps.push(program.len());
                program.push(Instruction::Jump(0));
                group.starts.push(program.len());
            }
            ('}', Some(_)) => close(&mut program, groups.pop()),
            ('[', _) => program.push(class(&mut characters)?),
            ('?', _) => program.push(Instruction::Single),
            ('*', _) if characters.next_if_eq(&'*').is_some() => program.push(Instruction::Super),
            ('*', _) => program.push(Instruction::Any),
            // A backslash at the end is dropped.
            ('\\', _) => program.extend(characters.next().map(Instruction::Exact)),
            _ => program.push(Instruction::Exact(character)),
        }
    }
    while let Some(group) = groups.pop() {
        close(&mut program, Some(group));
    }
    Ok(program)
}

fn close(program: &mut [Instruction], group: Option<Group>) {
    let Some(group) = group else { return };
    let end = program.len();
    for jump in group.jumps {
        if let Some(instruction) = program.get_mut(jump) {
            *instruction = Instruction::Jump(end);
        }
    }
    if let Some(instruction) = program.get_mut(group.fork) {
        *instruction = Instruction::Fork(group.starts);
    }
}

/// Reads a class after its opening bracket.
fn class(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Instruction, GlobError> {
    let negated = characters.next_if_eq(&'!').is_some();
    let mut ahead = characters.clone();
    let low = ahead.next().ok_or(GlobError::OpenClass)?;
    if ahead.next() == Some('-') {
        let high = ahead.next().ok_or(GlobError::OpenClass)?;
        let end = ahead.next().ok_or(GlobError::OpenClass)?;
        *characters = ahead;
        return match end {
            ']' if high < low => Err(GlobError::BackwardRange { low, high }),
            ']' => Ok(Instruction::Range { low, high, negated }),
            _ => Err(GlobError::CrowdedClass),
        };
    }
    let mut list = String::new();
    loop {
        match characters.next().ok_or(GlobError::OpenClass)? {
            ']' if list.is_empty() => return Err(GlobError::EmptyClass),
            ']' => return Ok(Instruction::List { characters: list, negated }),
            '\\' => list.extend(characters.next()),
            character => list.push(character),
        }
    }
}
