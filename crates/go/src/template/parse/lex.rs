//! From text to tokens, with the marks that trim blanks.

use crate::template::quote::quote;
use crate::unicode::{is_digit, is_letter};

/// Kinds of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Error,
    Bool,
    /// A character that has no meaning of its own, such as a comma.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    End,
    Field,
    Identifier,
    LeftDelimiter,
    LeftParenthesis,
    Number,
    Pipe,
    RawString,
    RightDelimiter,
    RightParenthesis,
    Space,
    String,
    Text,
    Variable,
    // Keywords.
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    EndWord,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Kind {
    /// Words that are no names.
    fn of_word(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"block" => Self::Block,
            b"break" => Self::Break,
            b"continue" => Self::Continue,
            b"define" => Self::Define,
            b"else" => Self::Else,
            b"end" => Self::EndWord,
            b"if" => Self::If,
            b"nil" => Self::Nil,
            b"range" => Self::Range,
            b"template" => Self::Template,
            b"with" => Self::With,
            _ => return None,
        })
    }

    fn is_keyword(self) -> bool {
        self >= Self::Block
    }
}

/// A token: its kind, its bytes in the text, its line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) line: u32,
}

/// Cuts a text into tokens.
pub(super) struct Lexer<'t> {
    text: &'t [u8],
    /// Where reading ends; at an error that is at once.
    limit: usize,
    at: usize,
    start: usize,
    line: u32,
    start_line: u32,
    parentheses: u32,
    inside: bool,
    /// What is wrong, for the token of kind [`Kind::Error`].
    pub(super) error: String,
    /// Whether `break` and `continue` are no functions.
    loops: (bool, bool),
}

const LEFT: &[u8] = b"{{";
const RIGHT: &[u8] = b"}}";
const TRIM: u8 = b'-';

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t [u8], loops: (bool, bool)) -> Self {
        Self {
            text,
            limit: text.len(),
            at: 0,
            start: 0,
            line: 1,
            start_line: 1,
            parentheses: 0,
            inside: false,
            error: String::new(),
            loops,
        }
    }

    /// A reader for what stands inside of an action, for those who know that it is right.
    pub(super) fn inside(text: &'t [u8], start: usize, end: usize) -> Self {
        let mut lexer = Self::new(text, (true, true));
        lexer.limit = end.min(text.len());
        lexer.at = start;
        lexer.start = start;
        lexer.inside = true;
        lexer
    }

    /// The bytes of a token.
    pub(super) fn bytes(&self, token: Token) -> &'t [u8] {
        self.text.get(token.start..token.end).unwrap_or_default()
    }

    /// The next token; after the last one and after an error, the end.
    pub(super) fn next(&mut self) -> Token {
        if self.inside { self.inside_action() } else { self.text() }
    }

    /// How a token is shown in errors.
    pub(super) fn shown(&self, token: Token) -> String {
        let bytes = self.bytes(token);
        match token.kind {
            Kind::End => "EOF".to_owned(),
            Kind::Error => self.error.clone(),
            kind if kind.is_keyword() => format!("<{}>", String::from_utf8_lossy(bytes)),
            _ if bytes.len() > 10 => {
                let shown: String = crate::template::value::to_str(bytes).chars().take(10).collect();
                format!("{}...", quote(shown.as_bytes()))
            }
            _ => quote(bytes),
        }
    }

    fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..self.limit).unwrap_or_default()
    }

    fn token(&mut self, kind: Kind) -> Token {
        let token = Token { kind, start: self.start, end: self.at, line: self.start_line };
        self.start = self.at;
        self.start_line = self.line;
        token
    }

    fn fail(&mut self, error: String) -> Token {
        self.error = error;
        let token = Token { kind: Kind::Error, start: self.start, end: self.start, line: self.start_line };
        self.limit = 0;
        self.at = 0;
        self.start = 0;
        self.inside = false;
        token
    }

    fn lines(&self, from: usize, to: usize) -> u32 {
        let text = self.text.get(from..to).unwrap_or_default();
        u32::try_from(newlines(text)).unwrap_or(u32::MAX)
    }

    /// Goes on behind what was passed over.
    fn ignore(&mut self) {
        self.line += self.lines(self.start, self.at);
        self.start = self.at;
        self.start_line = self.line;
    }

    fn text(&mut self) -> Token {
        loop {
            let rest = self.rest();
            let Some(offset) = find(rest, LEFT) else {
                self.at = self.limit;
                if self.at > self.start {
                    self.line += self.lines(self.start, self.at);
                    return self.token(Kind::Text);
                }
                return self.token(Kind::End);
            };
            if offset > 0 {
                let delimiter = self.at + offset;
                let before = self.text.get(self.start..delimiter).unwrap_or_default();
                let trimmed =
                    if has_left_trim(self.text.get(delimiter + LEFT.len()..self.limit).unwrap_or_default()) {
                        before.len() - before.trim_ascii_end_blanks().len()
                    } else {
                        0
                    };
                self.at = delimiter - trimmed;
                self.line += self.lines(self.start, self.at);
                let token = self.token(Kind::Text);
                self.at = delimiter;
                self.ignore();
                if token.end > token.start {
                    return token;
                }
            }
            if let Some(token) = self.left_delimiter() {
                return token;
            }
        }
    }

    /// Reads the beginning of an action, or all of a comment, which gives no token.
    fn left_delimiter(&mut self) -> Option<Token> {
        self.at += LEFT.len();
        let marker = if has_left_trim(self.rest()) { 2 } else { 0 };
        if self.rest().get(marker..).unwrap_or_default().starts_with(b"/*") {
            self.at += marker;
            self.ignore();
            return self.comment();
        }
        let token = self.token(Kind::LeftDelimiter);
        self.inside = true;
        self.at += marker;
        self.ignore();
        self.parentheses = 0;
        Some(token)
    }

    fn comment(&mut self) -> Option<Token> {
        self.at += 2;
        let Some(offset) = find(self.rest(), b"*/") else {
            return Some(self.fail("unclosed comment".to_owned()));
        };
        self.at += offset + 2;
        let Some(trim) = self.right_delimiter_here() else {
            return Some(self.fail("comment ends before closing delimiter".to_owned()));
        };
        if trim {
            self.at += 2;
        }
        self.at += RIGHT.len();
        if trim {
            self.skip_blanks();
        }
        self.ignore();
        None
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().iter().take_while(|byte| is_blank(**byte)).count();
    }

    /// Whether the action ends here; and whether with a mark that trims.
    fn right_delimiter_here(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim(rest) && rest.get(2..).is_some_and(|rest| rest.starts_with(RIGHT)) {
            return Some(true);
        }
        rest.starts_with(RIGHT).then_some(false)
    }

    fn right_delimiter(&mut self) -> Token {
        let trim = self.right_delimiter_here() == Some(true);
        if trim {
            self.at += 2;
            self.ignore();
        }
        self.at += RIGHT.len();
        let token = self.token(Kind::RightDelimiter);
        if trim {
            self.skip_blanks();
            self.ignore();
        }
        self.inside = false;
        token
    }

    /// The character here and its length; a byte that is no UTF-8 is U+FFFD.
    fn peek(&self) -> Option<(char, usize)> {
        let rest = self.rest();
        let first = *rest.first()?;
        if first.is_ascii() {
            return Some((char::from(first), 1));
        }
        let head = rest.get(..4.min(rest.len()))?;
        let valid = head.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
        Some(valid.map_or((char::REPLACEMENT_CHARACTER, 1), |character| (character, character.len_utf8())))
    }

    fn advance(&mut self) -> Option<char> {
        let (character, length) = self.peek()?;
        self.at += length;
        if character == '\n' {
            self.line += 1;
        }
        Some(character)
    }

    fn accept(&mut self, valid: &[u8]) -> bool {
        let found = self.rest().first().is_some_and(|byte| valid.contains(byte));
        if found {
            self.at += 1;
        }
        found
    }

    fn accept_run(&mut self, valid: &[u8]) {
        while self.accept(valid) {}
    }

    fn inside_action(&mut self) -> Token {
        if self.right_delimiter_here().is_some() {
            if self.parentheses == 0 {
                return self.right_delimiter();
            }
            return self.fail("unclosed left paren".to_owned());
        }
        let Some((character, length)) = self.peek() else {
            return self.fail("unclosed action".to_owned());
        };
        if character.is_ascii() && is_blank_character(character) {
            return self.space();
        }
        match character {
            '=' => self.one(length, Kind::Assign),
            ':' => {
                self.at += length;
                if self.advance() != Some('=') {
                    return self.fail("expected :=".to_owned());
                }
                self.token(Kind::Declare)
            }
            '|' => self.one(length, Kind::Pipe),
            '"' => self.quoted(b'"', Kind::String, "unterminated quoted string"),
            '`' => self.raw(),
            '$' => {
                self.at += length;
                self.name(Kind::Variable)
            }
            '\'' => self.quoted(b'\'', Kind::CharConstant, "unterminated character constant"),
            '.' if !self.rest().get(1).is_none_or(u8::is_ascii_digit) => {
                self.at += length;
                self.name(Kind::Field)
            }
            '.' | '+' | '-' | '0'..='9' => self.number(),
            _ if is_alphanumeric(character) => self.identifier(),
            '(' => {
                self.parentheses += 1;
                self.one(length, Kind::LeftParenthesis)
            }
            ')' => {
                self.at += length;
                if self.parentheses == 0 {
                    return self.fail("unexpected right paren".to_owned());
                }
                self.parentheses -= 1;
                self.token(Kind::RightParenthesis)
            }
            ' '..='~' => self.one(length, Kind::Char),
            _ => self.fail(format!("unrecognized character in action: {}", code_point(character))),
        }
    }

    fn one(&mut self, length: usize, kind: Kind) -> Token {
        self.at += length;
        self.token(kind)
    }

    fn space(&mut self) -> Token {
        let count = self.rest().iter().take_while(|byte| is_blank(**byte)).count();
        let end = self.at + count;
        // The last blank may belong to a mark that trims.
        let last = self.text.get(end - 1..self.limit).unwrap_or_default();
        let marked = has_right_trim(last) && last.get(2..).is_some_and(|rest| rest.starts_with(RIGHT));
        let end = if marked { end - 1 } else { end };
        self.line += self.lines(self.at, end);
        self.at = end;
        if marked && count == 1 {
            return self.right_delimiter();
        }
        self.token(Kind::Space)
    }

    fn identifier(&mut self) -> Token {
        self.skip_alphanumeric();
        if let Some(token) = self.bad_terminator() {
            return token;
        }
        let word = self.text.get(self.start..self.at).unwrap_or_default();
        let kind = match Kind::of_word(word) {
            Some(Kind::Break) if !self.loops.0 => Kind::Identifier,
            Some(Kind::Continue) if !self.loops.1 => Kind::Identifier,
            Some(kind) => kind,
            None if word == b"true" || word == b"false" => Kind::Bool,
            None => Kind::Identifier,
        };
        self.token(kind)
    }

    /// Reads what follows `.` or `$`.
    fn name(&mut self, kind: Kind) -> Token {
        if self.is_at_terminator() {
            return self.token(if kind == Kind::Variable { kind } else { Kind::Dot });
        }
        self.skip_alphanumeric();
        if let Some(token) = self.bad_terminator() {
            return token;
        }
        self.token(kind)
    }

    fn skip_alphanumeric(&mut self) {
        while let Some((character, length)) = self.peek() {
            if !is_alphanumeric(character) {
                break;
            }
            self.at += length;
        }
    }

    fn bad_terminator(&mut self) -> Option<Token> {
        if self.is_at_terminator() {
            return None;
        }
        let found = self.peek().map_or(char::REPLACEMENT_CHARACTER, |(character, _)| character);
        Some(self.fail(format!("bad character {}", code_point(found))))
    }

    fn is_at_terminator(&self) -> bool {
        match self.peek() {
            None => true,
            Some((character, _)) => {
                is_blank_character(character)
                    || matches!(character, '.' | ',' | '|' | ':' | ')' | '(')
                    || self.rest().starts_with(RIGHT)
            }
        }
    }

    fn quoted(&mut self, mark: u8, kind: Kind, error: &str) -> Token {
        self.at += 1;
        loop {
            match self.advance() {
                Some('\\') => {
                    if matches!(self.advance(), None | Some('\n')) {
                        return self.fail(error.to_owned());
                    }
                }
                None | Some('\n') => return self.fail(error.to_owned()),
                Some(character) if character == char::from(mark) => return self.token(kind),
                Some(_) => {}
            }
        }
    }

    fn raw(&mut self) -> Token {
        self.at += 1;
        let Some(length) = self.rest().iter().position(|byte| *byte == b'`') else {
            return self.fail("unterminated raw quoted string".to_owned());
        };
        self.line += self.lines(self.at, self.at + length);
        self.at += length + 1;
        self.token(Kind::RawString)
    }

    fn number(&mut self) -> Token {
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.rest().first(), Some(b'+' | b'-')) {
            let scanned = self.scan_number();
            let imaginary = self.at.checked_sub(1).and_then(|last| self.text.get(last)) == Some(&b'i');
            if !scanned || !imaginary {
                return self.bad_number();
            }
            return self.token(Kind::Complex);
        }
        self.token(Kind::Number)
    }

    fn bad_number(&mut self) -> Token {
        let shown = quote(self.text.get(self.start..self.at).unwrap_or_default());
        self.fail(format!("bad number syntax: {shown}"))
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &[u8] = b"0123456789_";
        const HEXADECIMAL: &[u8] = b"0123456789abcdefABCDEF_";
        self.accept(b"+-");
        let mut digits = DECIMAL;
        if self.accept(b"0") {
            if self.accept(b"xX") {
                digits = HEXADECIMAL;
            } else if self.accept(b"oO") {
                digits = b"01234567_";
            } else if self.accept(b"bB") {
                digits = b"01_";
            }
        }
        self.accept_run(digits);
        if self.accept(b".") {
            self.accept_run(digits);
        }
        let exponent: &[u8] = match digits.len() {
            length if length == DECIMAL.len() => b"eE",
            length if length == HEXADECIMAL.len() => b"pP",
            _ => b"",
        };
        if self.accept(exponent) {
            self.accept(b"+-");
            self.accept_run(DECIMAL);
        }
        self.accept(b"i");
        match self.peek() {
            Some((character, _)) if is_alphanumeric(character) => {
                self.advance();
                false
            }
            _ => true,
        }
    }
}

/// Shows a character as `%#U` does.
fn code_point(character: char) -> String {
    let code = u32::from(character);
    if crate::unicode::is_printed(character) {
        format!("U+{code:04X} '{character}'")
    } else {
        format!("U+{code:04X}")
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_blank_character(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\r' | '\n')
}

fn is_alphanumeric(character: char) -> bool {
    character == '_' || is_letter(character) || is_digit(character)
}

fn has_left_trim(text: &[u8]) -> bool {
    matches!(text, [TRIM, blank, ..] if is_blank(*blank))
}

fn has_right_trim(text: &[u8]) -> bool {
    matches!(text, [blank, TRIM, ..] if is_blank(*blank))
}

/// Where a short text begins in another.
pub(crate) fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(offset) = text.get(from..)?.iter().position(|byte| *byte == first) {
        let at = from + offset;
        if text.get(at..).is_some_and(|rest| rest.starts_with(wanted)) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// How many lines end in a text.
pub(super) fn newlines(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').count().saturating_sub(1)
}

trait TrimBlanks {
    fn trim_ascii_end_blanks(&self) -> &Self;
}

impl TrimBlanks for [u8] {
    fn trim_ascii_end_blanks(&self) -> &Self {
        let kept = self.iter().rposition(|byte| !is_blank(*byte)).map_or(0, |last| last + 1);
        self.get(..kept).unwrap_or_default()
    }
}
