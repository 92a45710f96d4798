//! Tokens with a look ahead of three, and the errors of the parser.

use super::lex::{Kind, Lexer, Token};
use crate::template::error::{ErrorKind, Layer, TemplateError};

/// A reader of tokens that can be given some back.
pub(super) struct Tokens<'t> {
    pub(super) lexer: Lexer<'t>,
    name: &'t str,
    /// The last is the next one when some were given back.
    ahead: [Token; 3],
    given_back: usize,
    /// The line in which the present action began, 0 outside.
    pub(super) action_line: u32,
}

const NONE: Token = Token { kind: Kind::End, start: 0, end: 0, line: 0 };

impl<'t> Tokens<'t> {
    pub(super) fn new(name: &'t str, lexer: Lexer<'t>) -> Self {
        Self { lexer, name, ahead: [NONE; 3], given_back: 0, action_line: 0 }
    }

    pub(super) fn next(&mut self) -> Token {
        if let Some(left) = self.given_back.checked_sub(1) {
            self.given_back = left;
        } else {
            let token = self.lexer.next();
            let [first, _, _] = &mut self.ahead;
            *first = token;
        }
        self.ahead.get(self.given_back).copied().unwrap_or(NONE)
    }

    pub(super) fn back(&mut self) {
        self.given_back += 1;
    }

    /// Gives back two: the last one, and one before it.
    pub(super) fn back_two(&mut self, before: Token) {
        let [_, second, _] = &mut self.ahead;
        *second = before;
        self.given_back = 2;
    }

    /// Gives back three.
    pub(super) fn back_three(&mut self, before: Token, between: Token) {
        let [_, second, third] = &mut self.ahead;
        *second = between;
        *third = before;
        self.given_back = 3;
    }

    pub(super) fn peek(&mut self) -> Token {
        let token = self.next();
        self.back();
        token
    }

    pub(super) fn next_no_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    pub(super) fn peek_no_space(&mut self) -> Token {
        let token = self.next_no_space();
        self.back();
        token
    }

    /// The next token, which has to be of a kind.
    pub(super) fn expect(&mut self, kind: Kind, context: &str) -> Result<Token, TemplateError> {
        let token = self.next_no_space();
        if token.kind == kind { Ok(token) } else { Err(self.unexpected(token, context)) }
    }

    /// Where the last token that was read ends.
    pub(super) fn last_end(&self) -> usize {
        self.ahead.get(self.given_back).map_or(0, |token| token.end)
    }

    pub(super) fn bytes(&self, token: Token) -> &'t [u8] {
        self.lexer.bytes(token)
    }

    pub(super) fn shown(&self, token: Token) -> String {
        self.lexer.shown(token)
    }

    /// An error at the last token that was read.
    pub(super) fn error(&self, message: impl Into<String>) -> TemplateError {
        let [last, _, _] = self.ahead;
        TemplateError::new(ErrorKind::Parse, message)
            .within(Layer::File { name: self.name.to_owned(), line: last.line })
    }

    pub(super) fn unexpected(&self, token: Token, context: &str) -> TemplateError {
        if token.kind != Kind::Error {
            return self.error(format!("unexpected {} in {context}", self.shown(token)));
        }
        let text = self.shown(token);
        let extra = if self.action_line == 0 || self.action_line == token.line {
            String::new()
        } else {
            // "unclosed action in action started …" says it twice.
            let words = if text.ends_with(" action") { " started at" } else { " in action started at" };
            format!("{words} {}:{}", self.name, self.action_line)
        };
        self.error(format!("{text}{extra}"))
    }
}
