//! From text to tokens.

use super::error::{Misplaced, Place};
use super::letters::{is_alphabetic, is_alphanumeric};
use super::unescape;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Number,
    Text,
    Bytes,
    Operator,
    Bracket,
    End,
}

/// A token and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) kind: Kind,
    /// The text as written; of texts what they stand for.
    pub(super) value: Vec<u8>,
    pub(super) place: Place,
}

impl Token {
    pub(super) fn is(&self, kind: Kind, value: &str) -> bool {
        self.kind == kind && self.value == value.as_bytes()
    }

    /// The value where it is a part of the text.
    pub(super) fn value(&self) -> &str {
        std::str::from_utf8(&self.value).unwrap_or_default()
    }

    /// How errors call it.
    pub(super) fn shown(&self) -> String {
        let kind = match self.kind {
            Kind::Name => "Identifier",
            Kind::Number => "Number",
            Kind::Text => "String",
            Kind::Bytes => "Bytes",
            Kind::Operator => "Operator",
            Kind::Bracket => "Bracket",
            Kind::End => "EOF",
        };
        if self.value.is_empty() {
            return kind.to_owned();
        }
        format!("{kind}({:?})", String::from_utf8_lossy(&self.value))
    }
}

/// Names that are operators.
const WORDS: [&str; 11] =
    ["not", "in", "or", "and", "matches", "contains", "startsWith", "endsWith", "let", "if", "else"];

/// All tokens of a text; the last one is [`Kind::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Misplaced> {
    let mut reader = Reader { text, at: 0, start: 0, tokens: Vec::new() };
    while reader.token()? {}
    // Errors about the end point at the last character.
    let last = text.char_indices().next_back().map_or(0, |(at, _)| at);
    reader.tokens.push(Token { kind: Kind::End, value: Vec::new(), place: Place(last) });
    Ok(reader.tokens)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    /// Where the present token begins.
    start: usize,
    tokens: Vec<Token>,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.at += character.len_utf8();
        Some(character)
    }

    fn accept(&mut self, wanted: &str) -> bool {
        let found = self.peek().is_some_and(|character| wanted.contains(character));
        if found {
            self.next();
        }
        found
    }

    fn accept_run(&mut self, wanted: &str) {
        while self.accept(wanted) {}
    }

    fn word(&self) -> &'t str {
        self.text.get(self.start..self.at).unwrap_or_default()
    }

    fn emit(&mut self, kind: Kind) {
        self.emit_value(kind, self.word().as_bytes().to_vec());
    }

    fn emit_value(&mut self, kind: Kind, value: Vec<u8>) {
        self.tokens.push(Token { kind, value, place: Place(self.start) });
    }

    /// The error at the character that was read last.
    fn error(&self, text: impl std::fmt::Display) -> Misplaced {
        let last = self.text.get(..self.at).and_then(|read| read.char_indices().next_back());
        Misplaced::new(Place(last.map_or(0, |(at, _)| at)), text)
    }

    /// Reads one token, or what lies between tokens; false at the end.
    fn token(&mut self) -> Result<bool, Misplaced> {
        self.start = self.at;
        let Some(character) = self.next() else { return Ok(false) };
        match character {
            _ if character.is_whitespace() => {}
            '\'' | '"' => {
                self.quoted(character)?;
                let value = unescape::text(self.word()).map_err(|error| self.error(error))?;
                self.emit_value(Kind::Text, value);
            }
            '`' => self.raw()?,
            'b' | 'B' if matches!(self.peek(), Some('\'' | '"')) => {
                let quote = self.next().unwrap_or_default();
                self.quoted(quote)?;
                let quoted = self.word().get(1..).unwrap_or_default();
                let value = unescape::bytes(quoted).map_err(|error| self.error(error))?;
                self.emit_value(Kind::Bytes, value);
            }
            '0'..='9' => {
                self.at = self.start;
                self.number()?;
            }
            '?' => {
                self.accept(".?");
                self.emit(Kind::Operator);
            }
            '/' => self.slash()?,
            '#' => self.pointer(),
            '|' | ':' => {
                self.accept(if character == '|' { "|" } else { ":" });
                self.emit(Kind::Operator);
            }
            '(' | '[' | '{' | ')' | ']' | '}' => self.emit(Kind::Bracket),
            ',' | ';' | '%' | '+' | '-' | '^' => self.emit(Kind::Operator),
            '&' | '!' | '=' | '*' | '<' | '>' => {
                self.accept("&=*");
                self.emit(Kind::Operator);
            }
            '.' if self.peek().is_some_and(|next| next.is_ascii_digit()) => self.number()?,
            '.' => {
                self.accept(".");
                self.emit(Kind::Operator);
            }
            _ if is_alphanumeric(character) => {
                while self.peek().is_some_and(is_alphanumeric) {
                    self.next();
                }
                self.emit(if WORDS.contains(&self.word()) { Kind::Operator } else { Kind::Name });
            }
            _ => return Err(self.error(format_args!("unrecognized character: {character:?}"))),
        }
        Ok(true)
    }

    /// Reads the rest of a text up to its quote.
    fn quoted(&mut self, quote: char) -> Result<(), Misplaced> {
        loop {
            match self.next() {
                None | Some('\n') => return Err(self.error("literal not terminated")),
                Some('\\') => self.escape(quote)?,
                Some(character) if character == quote => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn escape(&mut self, quote: char) -> Result<(), Misplaced> {
        let (base, count) = match self.next() {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\') => return Ok(()),
            Some(character) if character == quote => return Ok(()),
            Some('0'..='7') => (8, 2),
            Some('x') => (16, 2),
            Some('u') if self.peek() == Some('{') => return self.braced_escape(),
            Some('u') => (16, 4),
            Some('U') => (16, 8),
            _ => return Err(self.error("invalid char escape")),
        };
        for _ in 0..count {
            if !self.next().is_some_and(|digit| digit.is_digit(base)) {
                return Err(self.error("invalid char escape"));
            }
        }
        Ok(())
    }

    fn braced_escape(&mut self) -> Result<(), Misplaced> {
        self.next();
        let digits = self.rest().chars().take_while(char::is_ascii_hexdigit).count();
        self.at += digits;
        if !(1..=6).contains(&digits) || self.next() != Some('}') {
            return Err(self.error("invalid char escape"));
        }
        Ok(())
    }

    /// Reads the rest of a text between backticks, where two of them are one.
    fn raw(&mut self) -> Result<(), Misplaced> {
        loop {
            match self.next() {
                None => return Err(self.error("literal not terminated")),
                Some('`') if self.peek() == Some('`') => {
                    self.next();
                }
                Some('`') => break,
                Some(_) => {}
            }
        }
        let inner = self.text.get(self.start + 1..self.at - 1).unwrap_or_default();
        self.emit_value(Kind::Text, inner.replace("``", "`").into_bytes());
        Ok(())
    }

    fn number(&mut self) -> Result<(), Misplaced> {
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.rest().starts_with("..") {
            // A range begins here.
            self.emit(Kind::Number);
            return Ok(());
        }
        if self.accept(".") {
            self.accept_run(digits);
        }
        if self.accept("eE") {
            self.accept("+-");
            self.accept_run(digits);
        }
        if self.peek().is_some_and(is_alphanumeric) {
            self.next();
            return Err(self.error(format_args!("bad number syntax: {:?}", self.word())));
        }
        self.emit(Kind::Number);
        Ok(())
    }

    fn slash(&mut self) -> Result<(), Misplaced> {
        if self.accept("/") {
            let length = self.rest().find('\n').map_or(self.rest().len(), |at| at + 1);
            self.at += length;
        } else if self.accept("*") {
            let Some(length) = self.rest().find("*/") else {
                self.at = self.text.len();
                return Err(self.error("unclosed comment"));
            };
            self.at += length + 2;
        } else {
            self.emit(Kind::Operator);
        }
        Ok(())
    }

    /// Reads `#` and the name that may follow at once.
    fn pointer(&mut self) {
        self.accept("#");
        self.emit(Kind::Operator);
        self.start = self.at;
        while self.peek().is_some_and(is_alphanumeric) {
            self.next();
        }
        if self.at > self.start {
            self.emit(Kind::Name);
        }
    }
}

/// Whether a text could be a name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(is_alphabetic) && text.chars().all(is_alphanumeric)
}
