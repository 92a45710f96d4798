//! The grammar of selector texts.

use std::collections::BTreeSet;

use super::{Operator, Requirement, SelectorError, is_label_key};

/// Reads the requirements in the order of the text.
pub(super) fn parse(text: &str) -> Result<Vec<Requirement>, SelectorError> {
    let mut parser = Parser { tokens: tokens(text), position: 0 };
    let mut requirements = Vec::new();
    if parser.peek() == Token::End {
        return Ok(requirements);
    }
    loop {
        if !parser.at_requirement() {
            let expected = if requirements.is_empty() {
                "!, identifier, or end of string"
            } else {
                "identifier after ','"
            };
            return Err(parser.unexpected(expected));
        }
        requirements.push(parser.requirement()?);
        match parser.next() {
            Token::End => return Ok(requirements),
            Token::Symbol(",") => {}
            other => return Err(syntax(other, "',' or end of string")),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Symbol(&'a str),
    End,
}

fn tokens(text: &str) -> Vec<Token<'_>> {
    let is_symbol = |c: char| "=!(),><".contains(c);
    let is_blank = |c: char| " \t\r\n".contains(c);
    let mut tokens = Vec::new();
    let mut rest = text.trim_start_matches(is_blank);
    while !rest.is_empty() {
        let symbol = ["==", "!="].into_iter().find(|symbol| rest.starts_with(symbol));
        let length = match symbol {
            Some(symbol) => symbol.len(),
            None if rest.starts_with(is_symbol) => 1,
            None => rest.find(|c| is_symbol(c) || is_blank(c)).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(if rest.starts_with(is_symbol) { Token::Symbol(token) } else { Token::Word(token) });
        rest = after.trim_start_matches(is_blank);
    }
    tokens
}

fn syntax(found: Token<'_>, expected: &'static str) -> SelectorError {
    let (Token::Word(text) | Token::Symbol(text)) = found else {
        return SelectorError::Syntax { found: String::new(), expected };
    };
    SelectorError::Syntax { found: text.to_owned(), expected }
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    position: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Token<'a> {
        self.tokens.get(self.position).copied().unwrap_or(Token::End)
    }

    fn next(&mut self) -> Token<'a> {
        let token = self.peek();
        self.position += 1;
        token
    }

    fn unexpected(&self, expected: &'static str) -> SelectorError {
        syntax(self.peek(), expected)
    }

    fn at_requirement(&self) -> bool {
        matches!(self.peek(), Token::Word(_) | Token::Symbol("!"))
    }

    fn requirement(&mut self) -> Result<Requirement, SelectorError> {
        let negated = self.peek() == Token::Symbol("!");
        if negated {
            self.position += 1;
        }
        let key = self.word("identifier")?;
        if !is_label_key(key) {
            return Err(SelectorError::Key(key.to_owned()));
        }
        if negated {
            return Requirement::new(key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek(), Token::End | Token::Symbol(",")) {
            return Requirement::new(key, Operator::Exists, Vec::new());
        }
        let operator = match self.next() {
            Token::Word("in") => Operator::In,
            Token::Word("notin") => Operator::NotIn,
            Token::Symbol("=") => Operator::Equals,
            Token::Symbol("==") => Operator::DoubleEquals,
            Token::Symbol("!=") => Operator::NotEquals,
            Token::Symbol(">") => Operator::GreaterThan,
            Token::Symbol("<") => Operator::LessThan,
            other => return Err(syntax(other, "in, notin, =, ==, !=, >, <")),
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?.into_iter().map(str::to_owned).collect(),
            _ => vec![self.exact_value()?.to_owned()],
        };
        Requirement::new(key, operator, values)
    }

    fn word(&mut self, expected: &'static str) -> Result<&'a str, SelectorError> {
        match self.next() {
            Token::Word(word) => Ok(word),
            other => Err(syntax(other, expected)),
        }
    }

    fn exact_value(&mut self) -> Result<&'a str, SelectorError> {
        match self.peek() {
            Token::End | Token::Symbol(",") => Ok(""),
            _ => self.word("identifier"),
        }
    }

    /// Values in parentheses; nothing between two commas is the empty text.
    fn values(&mut self) -> Result<BTreeSet<&'a str>, SelectorError> {
        if self.next() != Token::Symbol("(") {
            self.position -= 1;
            return Err(self.unexpected("'('"));
        }
        let mut values = BTreeSet::new();
        loop {
            let value = match self.peek() {
                Token::Word(word) => {
                    self.position += 1;
                    word
                }
                _ => "",
            };
            values.insert(value);
            match self.next() {
                Token::Symbol(")") => return Ok(values),
                Token::Symbol(",") => {}
                other => return Err(syntax(other, "',' or ')'")),
            }
        }
    }
}
