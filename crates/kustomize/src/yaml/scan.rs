//! From text to tokens.
//!
//! A token is known only when it is clear that it is no key: a colon further along the line puts a key token before
//! it. So tokens wait in a queue, and the places where a key may begin are remembered, one for each level of
//! brackets.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::graph::Style;

/// Characters that a key without `?` may have.
const KEY_CHARACTERS_MAX: usize = 1024;
/// Tokens that are looked at ahead of the parser.
const LOOKAHEAD: usize = 2;

/// A text that is no YAML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SyntaxError {
    /// The line as the library counts it.
    pub(super) line: Option<u32>,
    /// What is wrong.
    pub(super) problem: Cow<'static, str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    StreamEnd,
    Version(u8, u8),
    TagDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    Tag,
    Scalar,
}

/// A token. Texts that stand in the document as they are meant are borrowed from it.
#[derive(Debug, Clone)]
pub(super) struct Token<'t> {
    pub(super) kind: TokenKind,
    /// Line of its first character, counted from 0.
    pub(super) line: u32,
    pub(super) style: Style,
    /// Content of a scalar, name of an anchor, handle of a tag.
    pub(super) text: Cow<'t, str>,
    /// Suffix of a tag, prefix of a directive.
    pub(super) suffix: Cow<'t, str>,
}

impl Token<'_> {
    fn new(kind: TokenKind, line: u32) -> Self {
        Self { kind, line, style: Style::PLAIN, text: Cow::Borrowed(""), suffix: Cow::Borrowed("") }
    }
}

/// A place where a key may begin.
#[derive(Debug, Clone, Copy, Default)]
struct SimpleKey {
    possible: bool,
    required: bool,
    token: usize,
    at: Mark,
}

#[derive(Debug, Clone, Copy, Default)]
struct Mark {
    position: usize,
    line: u32,
    column: usize,
}

type Scanned<T> = Result<T, SyntaxError>;

pub(super) struct Scanner<'t> {
    text: &'t str,
    at: Mark,
    tokens: VecDeque<Token<'t>>,
    /// Tokens that the parser took.
    taken: usize,
    /// Column of the open block collection; -1 outside of all.
    indent: isize,
    indents: Vec<isize>,
    flow_level: usize,
    key_allowed: bool,
    keys: Vec<SimpleKey>,
    ended: bool,
    saw_comment: bool,
}

/// Whether a text has comments, as far as it can be read.
pub(crate) fn has_comments(text: &str) -> bool {
    if !text.contains('#') {
        return false;
    }
    let mut scanner = Scanner::new(text);
    while let Ok(token) = scanner.next() {
        if scanner.saw_comment || token.kind == TokenKind::StreamEnd {
            break;
        }
    }
    scanner.saw_comment
}

impl<'t> Scanner<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self {
            text,
            at: Mark::default(),
            tokens: VecDeque::new(),
            taken: 0,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            key_allowed: true,
            keys: vec![SimpleKey::default()],
            ended: false,
            saw_comment: false,
        }
    }

    /// The next token, which stays.
    pub(super) fn peek(&mut self) -> Scanned<&Token<'t>> {
        self.fetch_more()?;
        // There is always one: the last is the end of the stream, which is not taken.
        self.tokens.front().ok_or(SyntaxError { line: None, problem: Cow::Borrowed("no more tokens") })
    }

    /// The next token.
    pub(super) fn next(&mut self) -> Scanned<Token<'t>> {
        self.fetch_more()?;
        let token = self.tokens.pop_front();
        self.taken += 1;
        token.ok_or(SyntaxError { line: None, problem: Cow::Borrowed("no more tokens") })
    }

    fn fetch_more(&mut self) -> Scanned<()> {
        loop {
            if self.tokens.len() > LOOKAHEAD {
                // The head may still become a key.
                let head = self.taken;
                let Some(index) = self.keys.iter().position(|key| key.possible && key.token == head) else {
                    return Ok(());
                };
                if !self.key_is_valid(index)? {
                    return Ok(());
                }
            } else if self.ended && !self.tokens.is_empty() {
                return Ok(());
            }
            self.fetch()?;
        }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at.position..).unwrap_or_default()
    }

    /// A byte ahead; 0 behind the end.
    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at.position + ahead).copied().unwrap_or(0)
    }

    fn is_end(&self, ahead: usize) -> bool {
        self.at.position + ahead >= self.text.len()
    }

    /// Length of the line break at a place ahead; 0 when there is none.
    fn break_length(&self, ahead: usize) -> usize {
        match self.byte(ahead) {
            b'\r' if self.byte(ahead + 1) == b'\n' => 2,
            b'\r' | b'\n' => 1,
            0xC2 if self.byte(ahead + 1) == 0x85 => 2,
            0xE2 if self.byte(ahead + 1) == 0x80 && matches!(self.byte(ahead + 2), 0xA8 | 0xA9) => 3,
            _ => 0,
        }
    }

    fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t')
    }

    fn is_blank_or_end(&self, ahead: usize) -> bool {
        self.is_blank(ahead) || self.is_break_or_end(ahead)
    }

    fn is_break_or_end(&self, ahead: usize) -> bool {
        self.is_end(ahead) || self.break_length(ahead) > 0
    }

    /// Passes bytes of one line.
    fn pass(&mut self, bytes: usize) {
        let end = (self.at.position + bytes).min(self.text.len());
        let passed = self.text.as_bytes().get(self.at.position..end).unwrap_or_default();
        // Bytes that continue a character are not counted.
        self.at.column += passed.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        self.at.position = end;
    }

    /// Passes a line break and adds what it stands for.
    fn pass_break(&mut self, out: Option<&mut String>) {
        let length = self.break_length(0);
        if length == 0 {
            return;
        }
        if let Some(out) = out {
            match length {
                3 => out.push_str(self.rest().get(..3).unwrap_or("\n")),
                _ => out.push('\n'),
            }
        }
        self.at.position += length;
        self.at.line += 1;
        self.at.column = 0;
    }

    fn column(&self) -> isize {
        isize::try_from(self.at.column).unwrap_or(isize::MAX)
    }

    /// An error with where its context begins.
    fn error<T>(&self, context: Mark, problem: &'static str) -> Scanned<T> {
        let line = if context.line != 0 { context.line } else { self.at.line };
        Err(SyntaxError { line: (line != 0).then_some(line + 1), problem: Cow::Borrowed(problem) })
    }

    fn push(&mut self, kind: TokenKind, line: u32) {
        self.tokens.push_back(Token::new(kind, line));
    }

    fn key_is_valid(&mut self, index: usize) -> Scanned<bool> {
        let Some(key) = self.keys.get(index).copied() else { return Ok(false) };
        if !key.possible {
            return Ok(false);
        }
        let distance = self.at.position.saturating_sub(key.at.position);
        let is_far = || {
            let between = self.text.get(key.at.position..self.at.position).unwrap_or_default();
            between.chars().count() > KEY_CHARACTERS_MAX
        };
        if key.at.line < self.at.line || (distance > KEY_CHARACTERS_MAX && is_far()) {
            if key.required {
                return self.error(key.at, "could not find expected ':'");
            }
            if let Some(key) = self.keys.get_mut(index) {
                key.possible = false;
            }
            return Ok(false);
        }
        Ok(true)
    }

    fn save_key(&mut self) -> Scanned<()> {
        if !self.key_allowed {
            return Ok(());
        }
        let key = SimpleKey {
            possible: true,
            required: self.flow_level == 0 && self.indent == self.column(),
            token: self.taken + self.tokens.len(),
            at: self.at,
        };
        self.remove_key()?;
        if let Some(last) = self.keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    fn remove_key(&mut self) -> Scanned<()> {
        if let Some(key) = self.keys.last().copied().filter(|key| key.possible) {
            if key.required {
                return self.error(key.at, "could not find expected ':'");
            }
            if let Some(last) = self.keys.last_mut() {
                last.possible = false;
            }
        }
        Ok(())
    }

    /// Opens a block collection at a column, before a token that was queued already if there is a number.
    fn roll_indent(&mut self, column: isize, before: Option<usize>, kind: TokenKind, line: u32) {
        if self.flow_level > 0 || self.indent >= column {
            return;
        }
        self.indents.push(self.indent);
        self.indent = column;
        let index = before.map_or(self.tokens.len(), |number| number.saturating_sub(self.taken));
        self.tokens.insert(index.min(self.tokens.len()), Token::new(kind, line));
    }

    fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(TokenKind::BlockEnd, self.at.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch(&mut self) -> Scanned<()> {
        self.pass_to_token();
        self.unroll_indent(self.column());
        let line = self.at.line;
        if self.is_end(0) {
            if self.at.column != 0 {
                self.at.column = 0;
                self.at.line += 1;
            }
            self.unroll_indent(-1);
            self.remove_key()?;
            self.key_allowed = false;
            self.ended = true;
            self.push(TokenKind::StreamEnd, self.at.line);
            return Ok(());
        }
        let byte = self.byte(0);
        if self.at.column == 0 {
            if byte == b'%' {
                self.unroll_indent(-1);
                self.remove_key()?;
                self.key_allowed = false;
                return self.directive();
            }
            if self.is_document_mark() {
                self.unroll_indent(-1);
                self.remove_key()?;
                self.key_allowed = false;
                self.push(if byte == b'-' { TokenKind::DocumentStart } else { TokenKind::DocumentEnd }, line);
                self.pass(3);
                return Ok(());
            }
        }
        match byte {
            b'[' => self.flow_start(TokenKind::FlowSequenceStart),
            b'{' => self.flow_start(TokenKind::FlowMappingStart),
            b']' => self.flow_end(TokenKind::FlowSequenceEnd),
            b'}' => self.flow_end(TokenKind::FlowMappingEnd),
            b',' => {
                self.remove_key()?;
                self.key_allowed = true;
                self.pass(1);
                self.push(TokenKind::FlowEntry, line);
                Ok(())
            }
            b'-' if self.is_blank_or_end(1) => self.block_entry(),
            b'?' if self.flow_level > 0 || self.is_blank_or_end(1) => self.explicit_key(),
            b':' if self.flow_level > 0 || self.is_blank_or_end(1) => self.value(),
            b'*' => self.anchor(TokenKind::Alias),
            b'&' => self.anchor(TokenKind::Anchor),
            b'!' => self.tag(),
            b'|' if self.flow_level == 0 => self.block_scalar(true),
            b'>' if self.flow_level == 0 => self.block_scalar(false),
            b'\'' => self.quoted(true),
            b'"' => self.quoted(false),
            _ if self.starts_plain() => self.plain(),
            _ => self.error(self.at, "found character that cannot start any token"),
        }
    }

    fn is_document_mark(&self) -> bool {
        let marks = [self.byte(0), self.byte(1), self.byte(2)];
        self.at.column == 0 && matches!(&marks, b"---" | b"...") && self.is_blank_or_end(3)
    }

    fn starts_plain(&self) -> bool {
        match self.byte(0) {
            b'-' => !self.is_blank(1),
            b'?' | b':' => self.flow_level == 0 && !self.is_blank_or_end(1),
            b',' | b'[' | b']' | b'{' | b'}' | b'#' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"'
            | b'%' | b'@' | b'`' => false,
            _ => !self.is_blank_or_end(0),
        }
    }

    /// Passes blanks, comments and line ends.
    fn pass_to_token(&mut self) {
        loop {
            if self.at.column == 0 && self.rest().starts_with('\u{feff}') {
                self.pass('\u{feff}'.len_utf8());
            }
            let tabs = self.flow_level > 0 || !self.key_allowed;
            let blanks =
                self.rest().bytes().take_while(|byte| *byte == b' ' || (tabs && *byte == b'\t')).count();
            self.pass(blanks);
            if self.byte(0) == b'#' {
                self.pass_comment();
            }
            if self.break_length(0) == 0 {
                return;
            }
            self.pass_break(None);
            if self.flow_level == 0 {
                self.key_allowed = true;
            }
        }
    }

    /// Passes the rest of the line.
    fn pass_comment(&mut self) {
        self.saw_comment = true;
        let length = self.line_length();
        self.pass(length);
    }

    /// Bytes up to the next line break.
    fn line_length(&self) -> usize {
        let rest = self.rest();
        let found = rest.bytes().enumerate().find(|(at, byte)| match byte {
            b'\n' | b'\r' => true,
            0xC2 | 0xE2 => self.break_length(*at) > 0,
            _ => false,
        });
        found.map_or(rest.len(), |(at, _)| at)
    }

    fn flow_start(&mut self, kind: TokenKind) -> Scanned<()> {
        self.save_key()?;
        self.keys.push(SimpleKey::default());
        self.flow_level += 1;
        self.key_allowed = true;
        self.push(kind, self.at.line);
        self.pass(1);
        Ok(())
    }

    fn flow_end(&mut self, kind: TokenKind) -> Scanned<()> {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            self.keys.pop();
        }
        self.key_allowed = false;
        self.push(kind, self.at.line);
        self.pass(1);
        Ok(())
    }

    fn block_entry(&mut self) -> Scanned<()> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return self.error(self.at, "block sequence entries are not allowed in this context");
            }
            self.roll_indent(self.column(), None, TokenKind::BlockSequenceStart, self.at.line);
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.push(TokenKind::BlockEntry, self.at.line);
        self.pass(1);
        Ok(())
    }

    fn explicit_key(&mut self) -> Scanned<()> {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return self.error(self.at, "mapping keys are not allowed in this context");
            }
            self.roll_indent(self.column(), None, TokenKind::BlockMappingStart, self.at.line);
        }
        self.remove_key()?;
        self.key_allowed = self.flow_level == 0;
        self.push(TokenKind::Key, self.at.line);
        self.pass(1);
        Ok(())
    }

    fn value(&mut self) -> Scanned<()> {
        let last = self.keys.len().saturating_sub(1);
        if self.key_is_valid(last)? {
            let key = self.keys.get(last).copied().unwrap_or_default();
            let index = key.token.saturating_sub(self.taken).min(self.tokens.len());
            self.tokens.insert(index, Token::new(TokenKind::Key, key.at.line));
            let column = isize::try_from(key.at.column).unwrap_or(isize::MAX);
            self.roll_indent(column, Some(key.token), TokenKind::BlockMappingStart, key.at.line);
            if let Some(key) = self.keys.get_mut(last) {
                key.possible = false;
            }
            self.key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.key_allowed {
                    return self.error(self.at, "mapping values are not allowed in this context");
                }
                self.roll_indent(self.column(), None, TokenKind::BlockMappingStart, self.at.line);
            }
            self.key_allowed = self.flow_level == 0;
        }
        self.push(TokenKind::Value, self.at.line);
        self.pass(1);
        Ok(())
    }

    fn word_length(&self) -> usize {
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        self.rest().bytes().take_while(|byte| is_word(byte)).count()
    }

    fn take_slice(&mut self, length: usize) -> &'t str {
        let slice = self.rest().get(..length).unwrap_or_default();
        self.pass(length);
        slice
    }

    fn pass_blanks(&mut self) {
        let blanks = self.rest().bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        self.pass(blanks);
    }

    fn directive(&mut self) -> Scanned<()> {
        let start = self.at;
        self.pass(1);
        let name = self.take_slice(self.word_length());
        if name.is_empty() {
            return self.error(start, "could not find expected directive name");
        }
        if !self.is_blank_or_end(0) {
            return self.error(start, "found unexpected non-alphabetical character");
        }
        match name {
            "YAML" => {
                self.pass_blanks();
                let major = self.version_number(start)?;
                if self.byte(0) != b'.' {
                    return self.error(start, "did not find expected digit or '.' character");
                }
                self.pass(1);
                let minor = self.version_number(start)?;
                self.push(TokenKind::Version(major, minor), start.line);
            }
            "TAG" => {
                self.pass_blanks();
                let handle = self.tag_handle(true, start)?;
                if !self.is_blank(0) {
                    return self.error(start, "did not find expected whitespace");
                }
                self.pass_blanks();
                let prefix = self.tag_uri("", start)?;
                if !self.is_blank_or_end(0) {
                    return self.error(start, "did not find expected whitespace or line break");
                }
                let mut token = Token::new(TokenKind::TagDirective, start.line);
                token.text = Cow::Borrowed(handle);
                token.suffix = prefix;
                self.tokens.push_back(token);
            }
            _ => return self.error(start, "found unknown directive name"),
        }
        self.pass_blanks();
        if self.byte(0) == b'#' {
            self.pass_comment();
        }
        if !self.is_break_or_end(0) {
            return self.error(start, "did not find expected comment or line break");
        }
        self.pass_break(None);
        Ok(())
    }

    fn version_number(&mut self, start: Mark) -> Scanned<u8> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        match digits {
            0 => self.error(start, "did not find expected version number"),
            1 | 2 => Ok(self.take_slice(digits).parse().unwrap_or(0)),
            _ => self.error(start, "found extremely long version number"),
        }
    }

    fn anchor(&mut self, kind: TokenKind) -> Scanned<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.at;
        self.pass(1);
        let name = self.take_slice(self.word_length());
        let ends = self.is_blank_or_end(0)
            || matches!(self.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return self.error(start, "did not find expected alphabetic or numeric character");
        }
        let mut token = Token::new(kind, start.line);
        token.text = Cow::Borrowed(name);
        self.tokens.push_back(token);
        Ok(())
    }

    fn tag(&mut self) -> Scanned<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.at;
        let mut token = Token::new(TokenKind::Tag, start.line);
        if self.byte(1) == b'<' {
            self.pass(2);
            token.suffix = self.tag_uri("", start)?;
            if self.byte(0) != b'>' {
                return self.error(start, "did not find the expected '>'");
            }
            self.pass(1);
        } else {
            let handle = self.tag_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with('!') {
                token.text = Cow::Borrowed(handle);
                token.suffix = self.tag_uri("", start)?;
            } else {
                token.text = Cow::Borrowed("!");
                token.suffix = self.tag_uri(handle, start)?;
                if token.suffix.is_empty() {
                    std::mem::swap(&mut token.text, &mut token.suffix);
                }
            }
        }
        if !self.is_blank_or_end(0) {
            return self.error(start, "did not find expected whitespace or line break");
        }
        self.tokens.push_back(token);
        Ok(())
    }

    fn tag_handle(&mut self, directive: bool, start: Mark) -> Scanned<&'t str> {
        let begin = self.at.position;
        if self.byte(0) != b'!' {
            return self.error(start, "did not find expected '!'");
        }
        self.pass(1);
        let word = self.word_length();
        self.pass(word);
        if self.byte(0) == b'!' {
            self.pass(1);
        } else if directive && word > 0 {
            return self.error(start, "did not find expected '!'");
        }
        Ok(self.text.get(begin..self.at.position).unwrap_or_default())
    }

    fn tag_uri(&mut self, head: &'t str, start: Mark) -> Scanned<Cow<'t, str>> {
        let mut uri = head.get(1..).unwrap_or_default().to_owned();
        let mut bytes: Vec<u8> = Vec::new();
        let mut found = !head.is_empty();
        loop {
            let byte = self.byte(0);
            match byte {
                b'%' => {
                    let digits =
                        self.rest().get(1..3).filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
                    let Some(octet) = digits.and_then(|text| u8::from_str_radix(text, 16).ok()) else {
                        return self.error(start, "did not find URI escaped octet");
                    };
                    bytes.push(octet);
                    self.pass(3);
                }
                b';' | b'/' | b'?' | b':' | b'@' | b'&' | b'=' | b'+' | b'$' | b',' | b'.' | b'!' | b'~'
                | b'*' | b'\'' | b'(' | b')' | b'[' | b']' | b'_' | b'-' => {
                    bytes.push(byte);
                    self.pass(1);
                }
                _ if byte.is_ascii_alphanumeric() => {
                    bytes.push(byte);
                    self.pass(1);
                }
                _ => break,
            }
            found = true;
        }
        if !found {
            return self.error(start, "did not find expected tag URI");
        }
        match String::from_utf8(bytes) {
            Ok(text) => uri.push_str(&text),
            Err(_invalid) => return self.error(start, "found an incorrect trailing UTF-8 octet"),
        }
        Ok(Cow::Owned(uri))
    }

    fn scalar(&mut self, line: u32, style: Style, text: Cow<'t, str>) {
        let mut token = Token::new(TokenKind::Scalar, line);
        token.style = style;
        token.text = text;
        self.tokens.push_back(token);
    }

    fn block_scalar(&mut self, literal: bool) -> Scanned<()> {
        self.remove_key()?;
        self.key_allowed = true;
        let start = self.at;
        self.pass(1);
        let (mut keep, mut increment) = (None, 0_usize);
        for _ in 0..2 {
            match self.byte(0) {
                sign @ (b'+' | b'-') if keep.is_none() => keep = Some(sign == b'+'),
                b'0' if increment == 0 => {
                    return self.error(start, "found an indentation indicator equal to 0");
                }
                digit @ b'1'..=b'9' if increment == 0 => increment = usize::from(digit - b'0'),
                _ => break,
            }
            self.pass(1);
        }
        self.pass_blanks();
        if self.byte(0) == b'#' {
            self.pass_comment();
        }
        if !self.is_break_or_end(0) {
            return self.error(start, "did not find expected comment or line break");
        }
        self.pass_break(None);

        let outer = usize::try_from(self.indent).unwrap_or(0);
        let mut indent = if increment > 0 { outer + increment } else { 0 };
        let (mut text, mut leading, mut trailing) = (String::new(), String::new(), String::new());
        self.block_breaks(&mut indent, &mut trailing, start)?;
        let mut after_blank = false;
        while self.at.column == indent && !self.is_end(0) {
            let blank = self.is_blank(0);
            if !literal && leading.starts_with('\n') && !after_blank && !blank {
                if trailing.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&leading);
            }
            leading.clear();
            text.push_str(&trailing);
            trailing.clear();
            after_blank = blank;
            let length = self.line_length();
            text.push_str(self.take_slice(length));
            self.pass_break(Some(&mut leading));
            self.block_breaks(&mut indent, &mut trailing, start)?;
        }
        if keep != Some(false) {
            text.push_str(&leading);
        }
        if keep == Some(true) {
            text.push_str(&trailing);
        }
        let style = if literal { Style::LITERAL } else { Style::FOLDED };
        self.scalar(start.line, style, Cow::Owned(text));
        Ok(())
    }

    /// Passes empty lines and the indentation behind them; finds out about the indentation when it is not known.
    fn block_breaks(&mut self, indent: &mut usize, breaks: &mut String, start: Mark) -> Scanned<()> {
        let mut deepest = 0;
        loop {
            let wanted = if *indent == 0 { usize::MAX } else { indent.saturating_sub(self.at.column) };
            let spaces = self.rest().bytes().take(wanted).take_while(|byte| *byte == b' ').count();
            self.pass(spaces);
            deepest = deepest.max(self.at.column);
            if (*indent == 0 || self.at.column < *indent) && self.byte(0) == b'\t' {
                return self.error(start, "found a tab character where an indentation space is expected");
            }
            if self.break_length(0) == 0 {
                break;
            }
            self.pass_break(Some(breaks));
        }
        if *indent == 0 {
            let least = usize::try_from(self.indent + 1).unwrap_or(0).max(1);
            *indent = deepest.max(least);
        }
        Ok(())
    }

    fn quoted(&mut self, single: bool) -> Scanned<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.at;
        let style = if single { Style::SINGLE_QUOTED } else { Style::DOUBLE_QUOTED };
        let quote = if single { b'\'' } else { b'"' };
        self.pass(1);
        // Nearly every text ends on its line and says what it means.
        let simple = self
            .rest()
            .bytes()
            .position(|byte| matches!(byte, b'\n' | b'\r' | b'\\' | 0xC2 | 0xE2) || byte == quote);
        if let Some(length) = simple
            && self.byte(length) == quote
            && !(single && self.byte(length + 1) == quote)
        {
            let text = self.take_slice(length);
            self.pass(1);
            self.scalar(start.line, style, Cow::Borrowed(text));
            return Ok(());
        }
        let (mut text, mut blanks) = (String::new(), String::new());
        let (mut leading, mut trailing) = (String::new(), String::new());
        loop {
            if self.is_document_mark() {
                return self.error(start, "found unexpected document indicator");
            }
            if self.is_end(0) {
                return self.error(start, "found unexpected end of stream");
            }
            let mut after_break = false;
            while !self.is_blank_or_end(0) {
                let byte = self.byte(0);
                if single && byte == b'\'' && self.byte(1) == b'\'' {
                    text.push('\'');
                    self.pass(2);
                } else if byte == quote {
                    break;
                } else if !single && byte == b'\\' && self.break_length(1) > 0 {
                    self.pass(1);
                    self.pass_break(None);
                    after_break = true;
                    break;
                } else if !single && byte == b'\\' {
                    self.escape(&mut text, start)?;
                } else {
                    self.pass_text(&mut text, quote);
                }
            }
            if self.byte(0) == quote && !self.is_end(0) {
                break;
            }
            while self.is_blank(0) || self.break_length(0) > 0 {
                if self.is_blank(0) {
                    if !after_break {
                        blanks.push(char::from(self.byte(0)));
                    }
                    self.pass(1);
                } else if after_break {
                    self.pass_break(Some(&mut trailing));
                } else {
                    blanks.clear();
                    self.pass_break(Some(&mut leading));
                    after_break = true;
                }
            }
            if after_break {
                fold(&mut text, &mut leading, &mut trailing);
            } else {
                text.push_str(&blanks);
                blanks.clear();
            }
        }
        self.pass(1);
        self.scalar(start.line, style, Cow::Owned(text));
        Ok(())
    }

    /// Takes what stands before the next blank, break, quote or backslash; at least one character.
    fn pass_text(&mut self, out: &mut String, quote: u8) {
        let rest = self.rest();
        let mut length = rest.chars().next().map_or(1, char::len_utf8);
        while let Some(byte) = rest.as_bytes().get(length) {
            let ends = matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\\' | 0xC2 | 0xE2) || *byte == quote;
            if ends {
                break;
            }
            length += 1;
        }
        out.push_str(self.take_slice(length));
    }

    fn escape(&mut self, out: &mut String, start: Mark) -> Scanned<()> {
        let code = self.byte(1);
        let plain = match code {
            b'0' => '\0',
            b'a' => '\u{7}',
            b'b' => '\u{8}',
            b't' | b'\t' => '\t',
            b'n' => '\n',
            b'v' => '\u{b}',
            b'f' => '\u{c}',
            b'r' => '\r',
            b'e' => '\u{1b}',
            b' ' => ' ',
            b'"' => '"',
            b'\'' => '\'',
            b'\\' => '\\',
            b'N' => '\u{85}',
            b'_' => '\u{a0}',
            b'L' => '\u{2028}',
            b'P' => '\u{2029}',
            b'x' | b'u' | b'U' => {
                let digits = match code {
                    b'x' => 2,
                    b'u' => 4,
                    _ => 8,
                };
                let hex =
                    self.rest().get(2..2 + digits).filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
                let Some(hex) = hex else {
                    self.pass(2);
                    return self.error(start, "did not find expected hexdecimal number");
                };
                let Some(character) = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32) else {
                    self.pass(2);
                    return self.error(start, "found invalid Unicode character escape code");
                };
                out.push(character);
                self.pass(2 + digits);
                return Ok(());
            }
            _ => return self.error(start, "found unknown escape character"),
        };
        out.push(plain);
        self.pass(2);
        Ok(())
    }

    fn plain(&mut self) -> Scanned<()> {
        self.save_key()?;
        self.key_allowed = false;
        let start = self.at;
        let indent = self.indent + 1;
        // What was read so far, once it is no slice of the document any more.
        let mut owned: Option<String> = None;
        let mut end = start.position;
        let (mut leading, mut trailing) = (String::new(), String::new());
        let mut after_break = false;
        loop {
            if self.is_document_mark() || self.byte(0) == b'#' {
                break;
            }
            let length = self.plain_length();
            if length > 0 {
                if after_break {
                    let text = owned.get_or_insert_with(|| {
                        self.text.get(start.position..end).unwrap_or_default().to_owned()
                    });
                    fold(text, &mut leading, &mut trailing);
                    after_break = false;
                } else if let Some(text) = &mut owned {
                    text.push_str(self.text.get(end..self.at.position).unwrap_or_default());
                }
                let slice = self.take_slice(length);
                if let Some(text) = &mut owned {
                    text.push_str(slice);
                }
                end = self.at.position;
            }
            if !self.is_blank(0) && self.break_length(0) == 0 {
                break;
            }
            while self.is_blank(0) || self.break_length(0) > 0 {
                if self.is_blank(0) {
                    if after_break && self.column() < indent && self.byte(0) == b'\t' {
                        return self.error(start, "found a tab character that violates indentation");
                    }
                    self.pass(1);
                } else if after_break {
                    self.pass_break(Some(&mut trailing));
                } else {
                    self.pass_break(Some(&mut leading));
                    after_break = true;
                }
            }
            if self.flow_level == 0 && self.column() < indent {
                break;
            }
        }
        let text = match owned {
            Some(text) => Cow::Owned(text),
            None => Cow::Borrowed(self.text.get(start.position..end).unwrap_or_default()),
        };
        self.scalar(start.line, Style::PLAIN, text);
        if after_break {
            self.key_allowed = true;
        }
        Ok(())
    }

    /// Bytes up to a blank, a line end, or what ends a plain scalar.
    fn plain_length(&self) -> usize {
        let rest = self.rest().as_bytes();
        let mut length = 0;
        while let Some(byte) = rest.get(length) {
            let ends = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => true,
                b':' => self.is_blank_or_end(length + 1),
                b',' | b'?' | b'[' | b']' | b'{' | b'}' => self.flow_level > 0,
                0xC2 | 0xE2 => self.break_length(length) > 0,
                _ => false,
            };
            if ends {
                break;
            }
            length += 1;
        }
        length
    }
}

/// Adds what line breaks inside of a text stand for.
fn fold(text: &mut String, leading: &mut String, trailing: &mut String) {
    if leading.starts_with('\n') {
        text.push_str(if trailing.is_empty() { " " } else { trailing });
    } else {
        text.push_str(leading);
        text.push_str(trailing);
    }
    leading.clear();
    trailing.clear();
}
