//! From Go's spelling of an expression to that of the `regex` crate.

use super::RegexpError;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Largest count in `a{n}`.
const REPEAT_MAX: u32 = 1_000;

/// Spells an expression anew and lists the names of its groups, the whole match first.
pub(super) fn translate(pattern: &str) -> Result<(String, Vec<String>), RegexpError> {
    let mut translator = Translator {
        rest: pattern,
        out: String::new(),
        names: vec![String::new()],
        operand: false,
        repeated: None,
        open: 0,
    };
    translator.run(pattern)?;
    if translator.open > 0 {
        return syntax("missing closing )", pattern);
    }
    Ok((translator.out, translator.names))
}

fn syntax<T>(problem: &'static str, part: &str) -> Result<T, RegexpError> {
    Err(RegexpError::Syntax { problem, part: part.to_owned() })
}

struct Translator<'p> {
    rest: &'p str,
    out: String,
    names: Vec<String>,
    /// Whether there is something a repetition can apply to.
    operand: bool,
    /// Where the last thing begins, when it was a repetition.
    repeated: Option<&'p str>,
    /// Groups that are not closed yet.
    open: usize,
}

impl<'p> Translator<'p> {
    fn run(&mut self, pattern: &str) -> Result<(), RegexpError> {
        while let Some(character) = self.rest.chars().next() {
            let whole = self.rest;
            match character {
                '(' => self.group()?,
                ')' | '|' => {
                    if character == ')' {
                        let Some(open) = self.open.checked_sub(1) else {
                            return syntax("unexpected )", pattern);
                        };
                        self.open = open;
                    }
                    self.keep(character);
                    self.operand = character == ')';
                    self.repeated = None;
                }
                '[' => {
                    self.class()?;
                    self.atom();
                }
                '\\' => self.escape()?,
                '*' | '+' | '?' => self.repetition(1, whole)?,
                '{' => match repeat_count(whole) {
                    None => self.literal('{'),
                    Some((least, most, length)) => {
                        if least > REPEAT_MAX || most.is_some_and(|most| most > REPEAT_MAX || most < least) {
                            return syntax("invalid repeat count", whole);
                        }
                        self.repetition(length, whole)?;
                    }
                },
                '^' | '$' | '.' => {
                    self.keep(character);
                    self.atom();
                }
                _ => self.literal(character),
            }
        }
        Ok(())
    }

    fn advance(&mut self, length: usize) {
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn keep(&mut self, character: char) {
        self.out.push(character);
        self.advance(character.len_utf8());
    }

    fn atom(&mut self) {
        self.operand = true;
        self.repeated = None;
    }

    fn literal(&mut self, character: char) {
        self.advance(character.len_utf8());
        push_literal(&mut self.out, character);
        self.atom();
    }

    fn repetition(&mut self, length: usize, whole: &'p str) -> Result<(), RegexpError> {
        let after = whole.get(length..).unwrap_or_default();
        let after = after.strip_prefix('?').unwrap_or(after);
        let until_here = |from: &'p str| from.get(..from.len() - after.len()).unwrap_or(from);
        if let Some(last) = self.repeated {
            return syntax("invalid nested repetition operator", until_here(last));
        }
        if !self.operand {
            return syntax("missing argument to repetition operator", until_here(whole));
        }
        self.out.push_str(until_here(whole));
        self.rest = after;
        self.repeated = Some(whole);
        Ok(())
    }

    fn group(&mut self) -> Result<(), RegexpError> {
        // Flags that set nothing are nothing: what follows still belongs to what stands before.
        if let Some(rest) = self.rest.strip_prefix("(?)") {
            self.rest = rest;
            return Ok(());
        }
        self.operand = false;
        self.repeated = None;
        let whole = self.rest;
        let Some(special) = whole.strip_prefix("(?") else {
            self.names.push(String::new());
            self.open += 1;
            self.keep('(');
            return Ok(());
        };
        if let Some(named) = special.strip_prefix("P<").or_else(|| special.strip_prefix('<')) {
            let Some((name, rest)) = named.split_once('>') else {
                return syntax("invalid named capture", whole);
            };
            let valid =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !valid {
                return syntax("invalid named capture", whole);
            }
            self.names.push(name.to_owned());
            self.open += 1;
            self.out.push('(');
            self.rest = rest;
            return Ok(());
        }
        self.flags(special, whole)
    }

    /// Reads `(?flags)` and `(?flags:`.
    fn flags(&mut self, special: &'p str, whole: &str) -> Result<(), RegexpError> {
        let end = special.find([':', ')']).unwrap_or(special.len());
        let (flags, rest) = special.split_at_checked(end).unwrap_or((special, ""));
        let (on, off) = flags.split_once('-').unwrap_or((flags, "i"));
        let known = |flags: &str| flags.chars().all(|flag| matches!(flag, 'i' | 'm' | 's' | 'U'));
        if rest.is_empty() || !known(on) || !known(off) || off.is_empty() {
            return syntax("invalid or unsupported Perl syntax", whole);
        }
        // The library underneath refuses a flag that is set twice, or set and unset; the last one counts.
        let mut last = BTreeMap::new();
        last.extend(on.chars().map(|flag| (flag, true)));
        if flags.contains('-') {
            last.extend(off.chars().map(|flag| (flag, false)));
        }
        let of = |wanted: bool| last.iter().filter(move |(_, set)| **set == wanted).map(|(flag, _)| flag);
        let mut flags: String = of(true).collect();
        if last.values().any(|set| !set) {
            flags.push('-');
            flags.extend(of(false));
        }
        if rest.starts_with(')') {
            if !flags.is_empty() {
                self.out.extend(["(?", flags.as_str(), ")"]);
            }
        } else {
            self.open += 1;
            self.out.extend(["(?", flags.as_str(), ":"]);
        }
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(())
    }

    fn escape(&mut self) -> Result<(), RegexpError> {
        let whole = self.rest;
        let Some(kind) = whole.chars().nth(1) else {
            return syntax("trailing backslash at end of expression", "");
        };
        let kept = match kind {
            'A' => r"\A",
            'z' => r"\z",
            'b' => r"(?-u:\b)",
            'B' => r"\B",
            'Q' => {
                let quoted = whole.get(2..).unwrap_or_default();
                let (literal, rest) = quoted.split_once(r"\E").unwrap_or((quoted, ""));
                for character in literal.chars() {
                    push_literal(&mut self.out, character);
                }
                if !literal.is_empty() {
                    self.atom();
                }
                self.rest = rest;
                return Ok(());
            }
            _ => {
                if let Some((class, length)) = class_escape(whole)? {
                    self.out.push('[');
                    self.out.push_str(&class);
                    self.out.push(']');
                    self.advance(length);
                } else {
                    let (character, length) = character_escape(whole)?;
                    push_literal(&mut self.out, character);
                    self.advance(length);
                }
                self.atom();
                return Ok(());
            }
        };
        self.out.push_str(kept);
        self.advance(2);
        self.atom();
        Ok(())
    }

    /// Reads a class from its opening bracket on.
    fn class(&mut self) -> Result<(), RegexpError> {
        let whole = self.rest;
        self.keep('[');
        if self.rest.starts_with('^') {
            self.keep('^');
        }
        let mut first = true;
        loop {
            if self.rest.is_empty() {
                return syntax("missing closing ]", whole);
            }
            if self.rest.starts_with(']') && !first {
                self.keep(']');
                return Ok(());
            }
            first = false;
            if let Some((name, length)) = posix_class(self.rest)? {
                self.out.push_str(name);
                self.advance(length);
                continue;
            }
            if let Some((class, length)) = class_escape(self.rest)? {
                self.out.push_str(&class);
                self.advance(length);
                continue;
            }
            let start = self.rest;
            let (low, length) = class_character(start, whole)?;
            self.advance(length);
            let mut high = low;
            if let Some(after) = self.rest.strip_prefix('-')
                && !after.is_empty()
                && !after.starts_with(']')
            {
                let (end, length) = class_character(after, whole)?;
                self.advance(1 + length);
                high = end;
            }
            if high < low {
                return syntax("invalid character class range", start);
            }
            push_literal(&mut self.out, low);
            if high > low {
                self.out.push('-');
                push_literal(&mut self.out, high);
            }
        }
    }
}

/// Spells a character so that it means itself everywhere.
fn push_literal(out: &mut String, character: char) {
    if character.is_ascii_alphanumeric() || !character.is_ascii() {
        out.push(character);
    } else {
        // Writing to a string cannot fail.
        let _written = write!(out, "\\x{{{:x}}}", u32::from(character));
    }
}

/// Reads `{2}`, `{2,}` or `{2,5}`: the least and the most, and the length; anything else is literal text.
pub(super) fn repeat_count(text: &str) -> Option<(u32, Option<u32>, usize)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let number = |digits: &str| {
        let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let canonical = plain && (digits.len() == 1 || !digits.starts_with('0'));
        canonical.then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let (least, most) = match inside.split_once(',') {
        None => (number(inside)?, Some(number(inside)?)),
        Some((least, "")) => (number(least)?, None),
        Some((least, most)) => (number(least)?, Some(number(most)?)),
    };
    Some((least, most, inside.len() + 2))
}

/// Reads an escape that stands for several characters, spelled for the inside of a class.
fn class_escape(text: &str) -> Result<Option<(String, usize)>, RegexpError> {
    let Some(after) = text.strip_prefix('\\') else { return Ok(None) };
    let class = match after.chars().next() {
        Some('d') => "0-9",
        Some('D') => "[^0-9]",
        Some('w') => "0-9A-Za-z_",
        Some('W') => "[^0-9A-Za-z_]",
        Some('s') => r"\t\n\x0c\r\x20",
        Some('S') => r"[^\t\n\x0c\r\x20]",
        Some('p' | 'P') => return unicode_class(text).map(Some),
        _ => return Ok(None),
    };
    Ok(Some((class.to_owned(), 2)))
}

/// Reads `\pL`, `\p{Greek}`, `\p{^Greek}` and their opposites.
fn unicode_class(text: &str) -> Result<(String, usize), RegexpError> {
    let mut negated = text.starts_with("\\P");
    let after = text.get(2..).unwrap_or_default();
    let (name, length) = if let Some(braced) = after.strip_prefix('{') {
        let Some((name, _)) = braced.split_once('}') else {
            return syntax("invalid character class range", text);
        };
        (name, name.len() + 4)
    } else {
        let length = after.chars().next().map_or(0, char::len_utf8);
        (after.get(..length).unwrap_or_default(), length + 2)
    };
    let name = match name.strip_prefix('^') {
        Some(name) => {
            negated = !negated;
            name
        }
        None => name,
    };
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
        return syntax("invalid character class range", text);
    }
    Ok((format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' }), length))
}

/// Reads `[:alpha:]` inside a class.
fn posix_class(text: &str) -> Result<Option<(&str, usize)>, RegexpError> {
    let Some((name, _)) = text.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) else {
        return Ok(None);
    };
    let length = name.len() + 4;
    match name.strip_prefix('^').unwrap_or(name) {
        "alnum" | "alpha" | "ascii" | "blank" | "cntrl" | "digit" | "graph" | "lower" | "print" | "punct"
        | "space" | "upper" | "word" | "xdigit" => Ok(text.get(..length).map(|whole| (whole, length))),
        _ => syntax("invalid character class range", text.get(..length).unwrap_or(name)),
    }
}

fn class_character(text: &str, whole: &str) -> Result<(char, usize), RegexpError> {
    match text.chars().next() {
        None => syntax("missing closing ]", whole),
        Some('\\') => character_escape(text),
        Some(character) => Ok((character, character.len_utf8())),
    }
}

/// Reads an escape that stands for one character.
fn character_escape(text: &str) -> Result<(char, usize), RegexpError> {
    let Some(kind) = text.chars().nth(1) else {
        return syntax("trailing backslash at end of expression", "");
    };
    let character = match kind {
        'a' => '\u{7}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        'x' => return hexadecimal(text),
        '0'..='7' => return octal(text),
        _ if kind.is_ascii() && !kind.is_ascii_alphanumeric() => kind,
        _ => return syntax("invalid escape sequence", text),
    };
    Ok((character, 1 + kind.len_utf8()))
}

fn hexadecimal(text: &str) -> Result<(char, usize), RegexpError> {
    let after = text.get(2..).unwrap_or_default();
    let (digits, length) = match after.strip_prefix('{').and_then(|braced| braced.split_once('}')) {
        Some((digits, _)) => (digits, digits.len() + 4),
        None => (after.get(..2).unwrap_or_default(), 4),
    };
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let character = u32::from_str_radix(digits, 16).ok().filter(|_| plain).and_then(char::from_u32);
    character.map_or_else(|| syntax("invalid escape sequence", text), |character| Ok((character, length)))
}

/// Reads up to three octal digits; a single one other than zero would refer back to a group, which Go refuses.
fn octal(text: &str) -> Result<(char, usize), RegexpError> {
    let digits = text.bytes().skip(1).take(3).take_while(|byte| matches!(byte, b'0'..=b'7')).count();
    let spelled = text.get(1..=digits).unwrap_or_default();
    if digits == 1 && spelled != "0" {
        return syntax("invalid escape sequence", text);
    }
    let character = u32::from_str_radix(spelled, 8).ok().and_then(char::from_u32);
    character.map_or_else(|| syntax("invalid escape sequence", text), |character| Ok((character, 1 + digits)))
}
