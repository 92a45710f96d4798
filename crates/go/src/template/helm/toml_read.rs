//! TOML 1.1 as BurntSushi/toml 1.6 reads it.
//!
//! Which tables may be named again is decided as that library does, by what it has written down of each name.

mod scalar;
mod text;

use crate::template::environment::Work;
use crate::template::error::Failure;
use crate::template::quote::quote;
use crate::template::value::{Element, List, ListType, Map, MapType, Text, Value};
use std::collections::{HashMap, HashSet};

/// `[]map[string]interface {}`.
static TABLES: ListType = ListType::plain("[]map[string]interface {}", Element::Map(&MapType::ANY));

/// Lists and tables inside each other.
const DEPTH_MAX: usize = 100;

/// Reads a document; what is no TOML is the inner error.
///
/// # Errors
/// When the run that the work belongs to ends.
pub(super) fn read(text: &Text, work: &mut dyn Work) -> Result<Result<Value, String>, Failure> {
    let bytes = text.as_bytes();
    let bytes = match bytes {
        [0xff, 0xfe, rest @ ..] | [0xfe, 0xff, rest @ ..] | [0xef, 0xbb, 0xbf, rest @ ..] => rest,
        _ => bytes,
    };
    if bytes.iter().take(6).any(|byte| *byte == 0) {
        return Ok(Err(
            "toml: line 1: files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8"
                .to_owned(),
        ));
    }
    let mut reader = Reader {
        text: bytes,
        at: 0,
        line: 1,
        root: Map::new(),
        context: Vec::new(),
        key: Text::EMPTY,
        lists: HashSet::new(),
        implicit: HashSet::new(),
        arrays: HashMap::new(),
        depth: 0,
        work,
    };
    Ok(match reader.document() {
        Ok(()) => Ok(Value::Map(reader.root)),
        Err(Problem::Stopped(failure)) => return Err(failure),
        Err(Problem::Told(message, line)) => {
            let line = line.unwrap_or(reader.line);
            let key = reader.current();
            Err(if key.is_empty() {
                format!("toml: line {line}: {message}")
            } else {
                format!("toml: line {line} (last key {}): {message}", quote(key.as_bytes()))
            })
        }
    })
}

/// Why nothing is read.
enum Problem {
    /// What is wrong, and in which line if not in the present one.
    Told(String, Option<usize>),
    /// The run ended.
    Stopped(Failure),
}

impl Problem {
    fn at(message: String, line: usize) -> Self {
        Self::Told(message, Some(line))
    }
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Self::Told(message, None)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Self {
        Self::Told(message.to_owned(), None)
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Stopped(failure)
    }
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    line: usize,
    root: Map,
    /// The table that members go to.
    context: Vec<Text>,
    /// The member that is read.
    key: Text,
    /// Names whose value is a list.
    lists: HashSet<Vec<Text>>,
    /// Names of tables that only came to be because something in them was named.
    implicit: HashSet<Vec<Text>>,
    /// Lists of tables by their name; the map of the document has them in the end.
    arrays: HashMap<Vec<Text>, usize>,
    depth: usize,
    /// Names cost what their parts do, and those before them.
    work: &'t mut dyn Work,
}

impl Reader<'_> {
    fn current(&self) -> String {
        let mut path = spelled(&self.context);
        if !self.key.is_empty() {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(&self.key.to_str());
        }
        path
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Takes a byte that may be an end of a line.
    fn take(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        if byte == b'\n' {
            self.line += 1;
        }
        Some(byte)
    }

    fn accept(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.take();
        }
        found
    }

    /// Checks the character here: no control characters, nothing that is no UTF-8.
    fn check(&self) -> Result<(), Problem> {
        let Some(byte) = self.peek() else { return Ok(()) };
        let lone_return = byte == b'\r' && self.text.get(self.at + 1) != Some(&b'\n');
        if (byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r')) || byte == 0x7f || lone_return {
            return Err(format!("TOML files cannot contain control characters: '0x{byte:02x}'").into());
        }
        if !byte.is_ascii() {
            let head = self.text.get(self.at..self.text.len().min(self.at + 4)).unwrap_or_default();
            let valid = head.utf8_chunks().next().is_some_and(|chunk| !chunk.valid().is_empty());
            // The rest of a character that began before is fine.
            if !valid && byte & 0xc0 != 0x80 {
                return Err(format!("invalid UTF-8 byte: 0x{byte:02x}").into());
            }
        }
        Ok(())
    }

    fn skip_blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Skips blanks, ends of lines and comments.
    fn skip_lines(&mut self) -> Result<(), Problem> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => {
                    self.check()?;
                    self.take();
                }
                Some(b'#') => self.comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) -> Result<(), Problem> {
        while let Some(byte) = self.peek() {
            self.check()?;
            if byte == b'\n' || byte == b'\r' {
                break;
            }
            self.at += 1;
        }
        Ok(())
    }

    /// The character here, quoted, for complaints.
    fn found(&self) -> String {
        let rest = self.text.get(self.at..self.text.len().min(self.at + 4)).unwrap_or_default();
        match crate::template::value::to_str(rest).chars().next() {
            None => "'\\x00'".to_owned(),
            Some(character) => {
                let mut out = String::new();
                let mut buffer = [0; 4];
                let text = character.encode_utf8(&mut buffer);
                crate::template::quote::quote_into(&mut out, text.as_bytes(), '\'', false);
                out
            }
        }
    }

    fn document(&mut self) -> Result<(), Problem> {
        loop {
            self.skip_lines()?;
            match self.peek() {
                None => return Ok(()),
                Some(b'[') => self.header()?,
                Some(_) => {
                    self.member(None)?;
                }
            }
            self.skip_blanks();
            match self.peek() {
                None | Some(b'\n' | b'\r' | b'#') => {}
                Some(_) => {
                    self.check()?;
                    return Err(format!(
                        "expected a top-level item to end with a newline, comment, or EOF, but got {} instead",
                        self.found()
                    )
                    .into());
                }
            }
        }
    }

    /// Reads `[a.b]` or `[[a.b]]`.
    fn header(&mut self) -> Result<(), Problem> {
        self.at += 1;
        let array = self.accept(b'[');
        let mut path = Vec::new();
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b']') => {
                    return Err("unexpected end of table name (table names cannot be empty)".into());
                }
                Some(b'.') => return Err("unexpected table separator (table names cannot be empty)".into()),
                _ => path.push(self.name()?),
            }
            self.skip_blanks();
            match self.peek() {
                Some(b'.') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    break;
                }
                _ => {
                    return Err(format!(
                        "expected '.' or ']' to end table name, but got {} instead",
                        self.found()
                    )
                    .into());
                }
            }
        }
        if array && !self.accept(b']') {
            return Err(format!(
                "expected end of table array name delimiter ']', but got {} instead",
                self.found()
            )
            .into());
        }
        self.key = Text::EMPTY;
        self.add_context(&path, array)
    }

    /// Reads one part of a name.
    fn name(&mut self) -> Result<Text, Problem> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                self.basic_text()
            }
            Some(b'\'') => {
                self.at += 1;
                self.raw_text()
            }
            _ => {
                let rest = self.text.get(self.at..).unwrap_or_default();
                let bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
                let length = rest.iter().take_while(|byte| bare(byte)).count();
                let name = Text::from_bytes(rest.get(..length).unwrap_or_default());
                self.at += length;
                self.check()?;
                Ok(name)
            }
        }
    }

    /// Reads `a.b = value`. In a table within a line, the members go there too.
    fn member(&mut self, inline: Option<&Map>) -> Result<(), Problem> {
        let outer = self.context.clone();
        let mut path = Vec::new();
        match self.peek() {
            None | Some(b'=') => return Err("unexpected '=': key name appears blank".into()),
            Some(b'.') => return Err("unexpected '.': keys cannot start with a '.'".into()),
            _ => {}
        }
        loop {
            self.skip_blanks();
            match self.peek() {
                None | Some(b'=') if !path.is_empty() => return Err("unexpected '='".into()),
                Some(b'.') if !path.is_empty() => return Err("unexpected '.'".into()),
                _ => path.push(self.name()?),
            }
            self.skip_blanks();
            match self.peek() {
                Some(b'.') => self.at += 1,
                Some(b'=') => {
                    self.at += 1;
                    break;
                }
                Some(b'\n') => {
                    let problem = format!("expected '.' or '=', but got {} instead", self.found());
                    return Err(Problem::at(problem, self.line));
                }
                _ => return Err(format!("expected '.' or '=', but got {} instead", self.found()).into()),
            }
        }
        let key = path.pop().unwrap_or_default();
        self.key = key.clone();
        for part in &path {
            let mut whole = self.context.clone();
            whole.push(part.clone());
            self.implicit.insert(whole.clone());
            self.add_context(&whole, false)?;
            self.key = key.clone();
        }
        let (value, is_list) = self.value(false)?;
        self.set(&key, value.clone())?;
        let mut whole = self.context.clone();
        whole.push(key.clone());
        if is_list {
            self.lists.insert(whole);
        } else {
            self.lists.remove(&whole);
        }
        if let Some(table) = inline {
            let mut table = table.clone();
            for part in &path {
                let inner = match table.get(part.as_bytes()) {
                    None => {
                        let inner = Map::new();
                        table.set(part.clone(), Value::Map(inner.clone()));
                        inner
                    }
                    Some(Value::Map(inner)) => inner,
                    Some(_) => {
                        return Err(
                            format!("{} is not a table", quote(spelled(&self.context).as_bytes())).into()
                        );
                    }
                };
                table = inner;
            }
            table.set(key, value);
        }
        self.context = outer;
        self.key = Text::EMPTY;
        Ok(())
    }

    /// Reads a value, and says whether it is a list.
    fn value(&mut self, in_list: bool) -> Result<(Value, bool), Problem> {
        self.skip_blanks();
        self.check()?;
        match self.peek() {
            Some(b'[') => Ok((self.list()?, true)),
            Some(b'{') => Ok((self.inline_table(in_list)?, false)),
            Some(b'"' | b'\'') => Ok((Value::Text(self.text_value()?), false)),
            None => Err("unexpected EOF; expected value".into()),
            Some(b'\n') => {
                let problem = format!("expected value but found {} instead", self.found());
                Err(Problem::at(problem, self.line))
            }
            Some(_) => Ok((self.scalar()?, false)),
        }
    }

    fn deeper(&mut self) -> Result<(), Problem> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("nested more than {DEPTH_MAX} levels deep").into());
        }
        Ok(())
    }

    fn list(&mut self) -> Result<Value, Problem> {
        self.deeper()?;
        let mut whole = self.context.clone();
        whole.push(self.key.clone());
        self.lists.insert(whole);
        self.at += 1;
        let mut items = Vec::new();
        loop {
            self.skip_lines()?;
            match self.peek() {
                Some(b',') => return Err("unexpected comma".into()),
                Some(b']') => break,
                _ => items.push(self.value(true)?.0),
            }
            self.skip_lines()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                None => {
                    return Err(
                        "expected a comma (',') or array terminator (']'), but got end of file".into()
                    );
                }
                Some(_) => {
                    self.check()?;
                    let found = self.character();
                    return Err(format!(
                        "expected a comma (',') or array terminator (']'), but got '{found}'"
                    )
                    .into());
                }
            }
        }
        self.at += 1;
        self.depth -= 1;
        let capacity = List::appended_to(&ListType::ANY, 2, items.len());
        Ok(Value::List(List::with_capacity(&ListType::ANY, items, capacity)))
    }

    fn character(&self) -> char {
        let rest = self.text.get(self.at..self.text.len().min(self.at + 4)).unwrap_or_default();
        crate::template::value::to_str(rest).chars().next().unwrap_or('\0')
    }

    fn inline_table(&mut self, in_list: bool) -> Result<Value, Problem> {
        self.deeper()?;
        self.at += 1;
        let (outer, outer_key) = (self.context.clone(), self.key.clone());
        let mut whole = self.context.clone();
        whole.push(self.key.clone());
        self.key = Text::EMPTY;
        self.implicit.insert(whole.clone());
        self.add_context(&whole, in_list)?;
        let table = Map::new();
        loop {
            self.skip_lines()?;
            match self.peek() {
                Some(b',') => return Err("unexpected comma".into()),
                Some(b'}') => break,
                _ => self.member(Some(&table))?,
            }
            self.skip_lines()?;
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.skip_blanks();
                    if self.peek() == Some(b'}') {
                        break;
                    }
                }
                Some(b'}') => break,
                None => {
                    return Err(
                        "expected a comma or an inline table terminator '}', but got end of file instead"
                            .into(),
                    );
                }
                Some(_) => {
                    self.check()?;
                    let found = self.character();
                    return Err(format!(
                        "expected a comma or an inline table terminator '}}', but got '{found}' instead"
                    )
                    .into());
                }
            }
        }
        self.at += 1;
        self.depth -= 1;
        self.context = outer;
        self.key = outer_key;
        Ok(Value::Map(table))
    }

    /// The table that a name leads to: of a list of tables, the last one.
    fn table_at(&self, path: &[Text]) -> Option<Map> {
        let mut table = self.root.clone();
        for part in path {
            table = match table.get(part.as_bytes())? {
                Value::Map(inner) => inner,
                Value::List(list) if list.list_type().name == TABLES.name => {
                    match list.get(list.len().checked_sub(1)?)? {
                        Value::Map(inner) => inner,
                        _ => return None,
                    }
                }
                _ => return None,
            };
        }
        Some(table)
    }

    /// Goes to a table, making those on the way.
    fn add_context(&mut self, path: &[Text], array: bool) -> Result<(), Problem> {
        if path.len() > DEPTH_MAX {
            return Err(format!("nested more than {DEPTH_MAX} levels deep").into());
        }
        // Each table on the way is looked for from the root.
        self.work.charge(path.len() * path.len())?;
        let Some((last, before)) = path.split_last() else { return Ok(()) };
        for length in 1..=before.len() {
            let part = before.get(..length).unwrap_or_default();
            let Some((name, outer)) = part.split_last() else { continue };
            let table = self.table_at(outer).unwrap_or_default();
            if !table.contains(name.as_bytes()) {
                self.implicit.insert(part.to_vec());
                table.set(name.clone(), Value::Map(Map::new()));
            }
            if self.table_at(part).is_none() {
                return Err(format!("Key '{}' was already created as a hash.", spelled(part)).into());
            }
        }
        self.context = before.to_vec();
        if array {
            let table = self.table_at(before).unwrap_or_default();
            let mut tables = match table.get(last.as_bytes()) {
                None => Vec::new(),
                Some(Value::List(list)) if list.list_type().name == TABLES.name => list.to_vec(),
                Some(_) => {
                    return Err(format!(
                        "Key '{}' was already created and cannot be used as an array.",
                        spelled(path)
                    )
                    .into());
                }
            };
            // The list is made anew for each of its tables.
            self.work.charge(tables.len())?;
            tables.push(Value::Map(Map::new()));
            let count = self.arrays.entry(path.to_vec()).or_default();
            *count += 1;
            table.set(last.clone(), Value::List(List::typed(&TABLES, tables)));
        } else {
            self.set(last, Value::Map(Map::new()))?;
        }
        self.context.push(last.clone());
        Ok(())
    }

    /// Sets a member of the present table.
    fn set(&mut self, key: &Text, value: Value) -> Result<(), Problem> {
        let context = self.context.clone();
        let Some(table) = self.table_at(&context) else {
            return Err(format!("Key '{}' has already been defined.", spelled(&context)).into());
        };
        let mut whole = context;
        whole.push(key.clone());
        if table.contains(key.as_bytes()) {
            let is_implicit = self.implicit.contains(&whole);
            if !is_implicit {
                return Err(format!("Key '{}' has already been defined.", spelled(&whole)).into());
            }
            self.implicit.remove(&whole);
            if !self.lists.contains(&whole) {
                return Ok(());
            }
        }
        table.set(key.clone(), value);
        Ok(())
    }
}

/// A name as the library shows it.
fn spelled(path: &[Text]) -> String {
    let bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let part = |part: &Text| {
        if !part.is_empty() && part.as_bytes().iter().all(bare) {
            part.to_string()
        } else {
            quote(part.as_bytes())
        }
    };
    path.iter().map(part).collect::<Vec<String>>().join(".")
}
