//! Reading templates. Every action is read to its closing brace; what stands between brackets or in filters is
//! an action of its own.

use super::{Bounds, DEPTH_MAX, End, Filter, JsonPathError, Part, Step, problem};

/// Reads a whole template.
pub(super) fn template(text: &str, depth: usize) -> Result<Vec<Part>, JsonPathError> {
    if depth > DEPTH_MAX {
        return Err(problem("the template is nested too deeply"));
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, action)) = rest.split_once('{') {
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        let mut reader = Reader { text: action, position: 0, depth };
        parts.push(Part::Action(reader.action()?));
        rest = reader.rest();
    }
    if !rest.is_empty() {
        parts.push(Part::Text(rest.to_owned()));
    }
    Ok(parts)
}

/// The first action of a text that is put between braces; what follows its closing brace is not looked at
/// further than that it can be read.
fn action(inner: &str, depth: usize) -> Result<Vec<Step>, JsonPathError> {
    let parts = template(&format!("{{{inner}}}"), depth + 1)?;
    match parts.into_iter().next() {
        Some(Part::Action(steps)) => Ok(steps),
        Some(Part::Text(_)) | None => Err(problem("unclosed action")),
    }
}

struct Reader<'a> {
    text: &'a str,
    position: usize,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.position..).unwrap_or("")
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let found = self.peek()?;
        self.position += found.len_utf8();
        Some(found)
    }

    fn eat(&mut self, prefix: &str) -> bool {
        let found = self.rest().starts_with(prefix);
        if found {
            self.position += prefix.len();
        }
        found
    }

    fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.position).unwrap_or("")
    }

    /// Whether the character just read comes directly after a backslash byte.
    fn is_escaped(&self) -> bool {
        self.position.checked_sub(2).and_then(|at| self.text.as_bytes().get(at)) == Some(&b'\\')
    }

    fn action(&mut self) -> Result<Vec<Step>, JsonPathError> {
        let mut steps = Vec::new();
        loop {
            if self.eat("}") {
                return Ok(steps);
            }
            if self.eat("[?(") {
                steps.push(self.filter()?);
                continue;
            }
            if self.eat("..") {
                if matches!(steps.last(), Some(Step::Recursive)) {
                    return Err(problem("invalid multiple recursive descent"));
                }
                steps.push(Step::Recursive);
                if self.peek().is_some_and(is_word) {
                    steps.push(self.field());
                }
                continue;
            }
            let start = self.position;
            match self.next() {
                None | Some('\r' | '\n') => return Err(problem("unclosed action")),
                Some(' ' | '@' | '$') => {}
                Some('[') => self.brackets(&mut steps)?,
                Some(quote @ ('"' | '\'')) => steps.push(self.quoted(start, quote)?),
                Some('.') => steps.push(self.field()),
                Some(first) if first == '+' || first == '-' || is_digit(first) => {
                    self.position = start;
                    steps.push(self.number()?);
                }
                Some(first) if is_word(first) => {
                    while self.peek().is_some_and(|c| !is_terminator(c)) {
                        self.next();
                    }
                    steps.push(match self.since(start) {
                        "true" => Step::Bool(true),
                        "false" => Step::Bool(false),
                        word => Step::Word(word.to_owned()),
                    });
                }
                Some(other) => {
                    let code = u32::from(other);
                    return Err(problem(format!("unrecognized character in action: U+{code:04X} '{other}'")));
                }
            }
        }
    }

    fn field(&mut self) -> Step {
        let start = self.position;
        while let Some(found) = self.peek() {
            if found == '\\' {
                self.next();
                self.next();
            } else if is_terminator(found) {
                break;
            } else {
                self.next();
            }
        }
        match self.since(start) {
            "*" => Step::Wildcard,
            name => Step::Field(name.replace('\\', "")),
        }
    }

    fn number(&mut self) -> Result<Step, JsonPathError> {
        let start = self.position;
        if matches!(self.peek(), Some('+' | '-')) {
            self.next();
        }
        while self.peek().is_some_and(|c| c == '.' || is_digit(c)) {
            self.next();
        }
        let text = self.since(start);
        if let Ok(number) = text.parse() {
            return Ok(Step::Int(number));
        }
        let digits = text.bytes().any(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits => Ok(Step::Float(number)),
            _ => Err(problem(format!("cannot parse number {text}"))),
        }
    }

    fn quoted(&mut self, start: usize, quote: char) -> Result<Step, JsonPathError> {
        loop {
            match self.next() {
                None | Some('\n') => return Err(problem("unterminated quoted string")),
                Some(found) if found == quote && !self.is_escaped() => break,
                Some(_) => {}
            }
        }
        let text = self.since(start);
        let inner = text.get(1..text.len().saturating_sub(1)).unwrap_or("");
        let unquoted = unquote(inner, quote);
        unquoted.map(Step::Text).ok_or_else(|| problem(format!("unquote string {text} error invalid syntax")))
    }

    fn brackets(&mut self, steps: &mut Vec<Step>) -> Result<(), JsonPathError> {
        let start = self.position;
        loop {
            match self.next() {
                None | Some('\n') => return Err(problem("unterminated array")),
                Some(']') => break,
                Some(_) => {}
            }
        }
        let text = self.since(start);
        let inner = text.strip_suffix(']').unwrap_or(text);
        if inner.contains(',') {
            let chain = |part: &str| action(&format!("[{}]", part.trim_matches(' ')), self.depth);
            steps.push(Step::Union(inner.split(',').map(chain).collect::<Result<_, _>>()?));
            return Ok(());
        }
        let name = inner.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        if let Some(name) = name.filter(|name| !name.contains('\'')) {
            steps.extend(action(&format!(".{name}"), self.depth)?);
            return Ok(());
        }
        steps.push(Step::Items(bounds(if inner == "*" { ":" } else { inner })?));
        Ok(())
    }

    fn filter(&mut self) -> Result<Step, JsonPathError> {
        let start = self.position;
        // One pair of quotes may hide a parenthesis.
        let (mut quote, mut is_closed) = (None, false);
        loop {
            match self.next() {
                None | Some('\n') => return Err(problem("unterminated filter")),
                Some(found @ ('"' | '\'')) => match quote {
                    None => quote = Some(found),
                    Some(first) if first == found && !self.is_escaped() => is_closed = true,
                    Some(_) => {}
                },
                Some(')') if quote.is_some() == is_closed => break,
                Some(_) => {}
            }
        }
        let text = self.since(start);
        let inner = text.strip_suffix(')').unwrap_or(text);
        if self.next() != Some(']') {
            return Err(problem("unclosed array expect ]"));
        }
        let Some((left, operator, right)) = split_comparison(inner) else {
            return Ok(Step::Filter(Filter { left: action(inner, self.depth)?, comparison: None }));
        };
        let left = action(left, self.depth)?;
        let comparison = Some((operator.to_owned(), action(right, self.depth)?));
        Ok(Step::Filter(Filter { left, comparison }))
    }
}

/// Left side, operator and right side; none of them is empty.
fn split_comparison(text: &str) -> Option<(&str, &str, &str)> {
    let is_operator = |c: char| matches!(c, '!' | '<' | '>' | '=');
    let start = text.find(is_operator).filter(|start| *start > 0)?;
    let (left, rest) = text.split_at(start);
    let length = rest.find(|c| !is_operator(c)).unwrap_or(rest.len().checked_sub(1)?);
    let (operator, right) = rest.split_at(length);
    (!operator.is_empty() && !right.is_empty()).then_some((left, operator, right))
}

fn bounds(text: &str) -> Result<Bounds, JsonPathError> {
    let invalid = || problem(format!("invalid array index {text}"));
    let parts: Vec<&str> = text.split(':').collect();
    let is_number = |part: &&str| {
        let digits = part.strip_prefix('-').unwrap_or(part);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() > 3 || !parts.iter().all(is_number) {
        return Err(invalid());
    }
    let number = |at: usize| match parts.get(at) {
        None | Some(&"") => Ok(None),
        Some(part) => match part.parse::<i64>() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(problem(format!("array index {part} is not a number"))),
        },
    };
    let start = number(0)?;
    let end = match (parts.len(), number(1)?) {
        (1, _) => End::AfterStart(start.unwrap_or(0).saturating_add(1)),
        (_, Some(end)) => End::At(end),
        (_, None) => End::Last,
    };
    Ok(Bounds { start, end, step: number(2)? })
}

/// The text between quotes with Go's escapes resolved; bytes that are no UTF-8 become replacement characters.
fn unquote(text: &str, quote: char) -> Option<String> {
    if !text.contains('\\') {
        return Some(text.to_owned());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(found) = rest.next() {
        if found == quote {
            return None;
        }
        if found != '\\' {
            bytes.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let escape = rest.next()?;
        let mut code = |digits: usize, radix: u32, first: u32| {
            (0..digits).try_fold(first, |code, _| Some(code * radix + rest.next()?.to_digit(radix)?))
        };
        match escape {
            'a' => bytes.push(7),
            'b' => bytes.push(8),
            'f' => bytes.push(12),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(11),
            'x' => bytes.push(u8::try_from(code(2, 16, 0)?).ok()?),
            'u' => push(&mut bytes, code(4, 16, 0)?)?,
            'U' => {
                let high = code(4, 16, 0)?;
                push(&mut bytes, code(4, 16, if high > 0x10 { return None } else { high })?)?;
            }
            '0'..='7' => bytes.push(u8::try_from(code(2, 8, escape.to_digit(8)?)?).ok()?),
            '\\' => bytes.push(b'\\'),
            found if found == quote => bytes.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes()),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn push(bytes: &mut Vec<u8>, code: u32) -> Option<()> {
    let found = char::from_u32(code)?;
    bytes.extend_from_slice(found.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// A letter or digit of any script, or an underscore.
fn is_word(c: char) -> bool {
    c == '_' || c.is_alphabetic() || is_digit(c)
}

/// A decimal digit of any script; those outside of ASCII are refused later, as numbers.
fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric())
}
