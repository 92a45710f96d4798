//! Helm's `--set` language: `image.tag=1.0,hosts[0]=a,args={x,2}` onto a map of values.
//!
//! Follows `pkg/strvals` of Helm 4.3. A path is keys with dots and indices in brackets; a backslash takes the
//! next character as it is. A text that stops inside an index counts as if its last entry were not there, as
//! in the original; Helm 3 made that an error.
//!
//! Deviation: at most [`PADDING_MAX`] list items are made up and a path has at most [`MARKS_MAX`] dots and
//! brackets. The original has no such bounds, and a short text makes it fill all memory.
//!
//! Golden rows: `strvals.jsonl`.

use crate::json::{JsonError, decode_go, decode_go_first};
use serde_json::{Map, Value};

/// Highest index of a list.
pub const INDEX_MAX: usize = 65_536;
/// Most dots in a path.
pub const DOTS_MAX: usize = 30;
/// Most dots and brackets in a path.
pub const MARKS_MAX: usize = 500;
/// Most list items that one text may bring into being.
pub const PADDING_MAX: usize = 1 << 20;

/// How the values of a text are read.
#[derive(Clone, Copy)]
pub enum Reading<'r> {
    /// `--set`: booleans, `null` and integers are what they look like, everything else is text.
    Typed,
    /// `--set-string`: everything is text.
    Text,
    /// `--set-json`: values are JSON; a text that begins with `{` is merged as a whole.
    Json,
    /// `--set-literal`: what follows the first `=` is one text, whatever is in it.
    Literal,
    /// `--set-file`: values name files, whose content is the value.
    File(ReadFile<'r>),
}

/// Gives the content of the file of a name, or says why there is none.
pub type ReadFile<'r> = &'r dyn Fn(&str) -> Result<String, String>;

impl<'r> Reading<'r> {
    /// How the values of a flag of Helm's are read, by its name without dashes; `None` for other flags.
    pub fn of_flag(flag: &str, read: ReadFile<'r>) -> Option<Self> {
        match flag {
            "set" => Some(Self::Typed),
            "set-string" => Some(Self::Text),
            "set-json" => Some(Self::Json),
            "set-literal" => Some(Self::Literal),
            "set-file" => Some(Self::File(read)),
            _ => None,
        }
    }
}

/// Why a text cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StrvalsError {
    /// A key without `=`.
    #[error("key {0:?} has no value")]
    NoValue(String),
    /// A key that a comma ends.
    #[error("key {0:?} has no value (cannot end with ,)")]
    Comma(String),
    /// Nothing below a key with a dot.
    #[error("key map {0:?} has no value")]
    NoMember(String),
    /// What is there already is of another kind.
    #[error("unable to parse key: {at:?} is {found}, not {wanted}")]
    Kind {
        /// The key or index.
        at: String,
        /// What stands there.
        found: &'static str,
        /// What the path needs.
        wanted: &'static str,
    },
    /// What stands in brackets is no number.
    #[error("error parsing index: {0:?} is not a number")]
    Index(String),
    /// An index below zero.
    #[error("negative {0} index not allowed")]
    Negative(i64),
    /// An index above [`INDEX_MAX`].
    #[error("index of {0} is greater than maximum supported index of {INDEX_MAX}")]
    HighIndex(i64),
    /// Text between `]` and what may follow it.
    #[error("unexpected data at end of array index: {0:?}")]
    AfterIndex(String),
    /// A list without its closing brace.
    #[error("list must terminate with '}}'")]
    OpenList,
    /// A path of more than [`DOTS_MAX`] dots, or more than [`MARKS_MAX`] dots and brackets.
    #[error("value name nested level is greater than maximum supported nested level of {0}")]
    Deep(usize),
    /// More than [`PADDING_MAX`] list items.
    #[error("the indices make more than {PADDING_MAX} list items")]
    Padding,
    /// A value that is no JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// A file that cannot be read.
    #[error("{0}")]
    File(String),
}

/// Sets what a text says. After an error, `values` may hold a part of it.
///
/// ```
/// use serde_json::{Map, json};
/// use tiphys_go::strvals::{Reading, set};
///
/// let mut values = Map::new();
/// set(&mut values, Reading::Typed, "image.tag=1.0,replicas=2,hosts={a,b}")?;
/// assert_eq!(json!(values), json!({"image": {"tag": "1.0"}, "replicas": 2, "hosts": ["a", "b"]}));
/// # Ok::<(), tiphys_go::strvals::StrvalsError>(())
/// ```
pub fn set(values: &mut Map<String, Value>, reading: Reading<'_>, text: &str) -> Result<(), StrvalsError> {
    if matches!(reading, Reading::Json) && text.trim().starts_with('{') {
        if let Value::Object(members) = decode_go(text.trim().as_bytes())? {
            merge(values, members);
        }
        return Ok(());
    }
    let mut parser = Parser { rest: text, reading, marks: 0, padding: 0 };
    loop {
        parser.marks = 0;
        match parser.key(values, 0) {
            Ok(()) => {}
            Err(Stop::End) => return Ok(()),
            Err(Stop::Bad(error)) => return Err(error),
        }
    }
}

/// Merges maps with maps; anything else of `over` replaces what is there.
fn merge(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

/// Why reading stops.
enum Stop {
    /// The text is over, which ends it without an error.
    End,
    Bad(StrvalsError),
}

impl From<StrvalsError> for Stop {
    fn from(error: StrvalsError) -> Self {
        Self::Bad(error)
    }
}

struct Parser<'t> {
    rest: &'t str,
    reading: Reading<'t>,
    /// Dots and brackets of the present path.
    marks: usize,
    /// List items made so far.
    padding: usize,
}

impl Parser<'_> {
    /// Reads one entry, from a key on.
    fn key(&mut self, data: &mut Map<String, Value>, dots: usize) -> Result<(), Stop> {
        let stops: &[char] = if self.is_literal() { &['=', '[', '.'] } else { &['=', '[', ',', '.'] };
        let (name, stop) = self.until(stops);
        match stop {
            None if name.is_empty() => Err(Stop::End),
            None => Err(StrvalsError::NoValue(name).into()),
            Some('=') => {
                let value = self.value()?;
                let over = value.is_none();
                put(data, name, value.unwrap_or_else(empty_text));
                if over { Err(Stop::End) } else { Ok(()) }
            }
            Some('[') => {
                let index = self.index()?;
                match data.get_mut(&name) {
                    None => {
                        let mut list = Vec::new();
                        let done = self.item(&mut list, index, dots);
                        put(data, name, Value::Array(list));
                        done
                    }
                    Some(Value::Array(list)) => self.item(list, index, dots),
                    Some(other) => Err(kind(name, other, "a list").into()),
                }
            }
            Some('.') => {
                if dots >= DOTS_MAX {
                    return Err(StrvalsError::Deep(DOTS_MAX).into());
                }
                let (done, empty) = match data.get_mut(&name) {
                    None => {
                        let mut members = Map::new();
                        let done = self.nested(&mut members, dots + 1);
                        let empty = members.is_empty();
                        if !empty {
                            put(data, name.clone(), Value::Object(members));
                        }
                        (done, empty)
                    }
                    Some(Value::Object(members)) => (self.nested(members, dots + 1), members.is_empty()),
                    Some(other) => return Err(kind(name, other, "a map").into()),
                };
                if done.is_ok() && empty { Err(StrvalsError::NoMember(name).into()) } else { done }
            }
            Some(_) => {
                put(data, name.clone(), empty_text());
                Err(StrvalsError::Comma(name).into())
            }
        }
    }

    /// Reads an entry further in.
    fn nested(&mut self, data: &mut Map<String, Value>, dots: usize) -> Result<(), Stop> {
        self.mark()?;
        self.key(data, dots)
    }

    /// Reads what follows an index.
    fn item(&mut self, list: &mut Vec<Value>, index: i64, dots: usize) -> Result<(), Stop> {
        self.mark()?;
        let Ok(at) = usize::try_from(index) else {
            return Err(StrvalsError::Negative(index).into());
        };
        let (text, stop) = self.until(&['[', '.', '=']);
        if !text.is_empty() {
            return Err(StrvalsError::AfterIndex(text).into());
        }
        let made = match stop {
            None => return Err(Stop::End),
            Some('=') => self.value()?.unwrap_or_else(empty_text),
            Some('[') => {
                let next = self.index()?;
                match list.get_mut(at) {
                    Some(Value::Array(inner)) => return self.item(inner, next, dots),
                    None | Some(Value::Null) => {
                        let mut inner = Vec::new();
                        self.item(&mut inner, next, dots)?;
                        Value::Array(inner)
                    }
                    Some(other) => return Err(kind(index.to_string(), other, "a list").into()),
                }
            }
            Some(_) => {
                // Whatever else stands there gives way.
                if let Some(other) = list.get_mut(at).filter(|there| !there.is_object()) {
                    *other = Value::Object(Map::new());
                }
                if let Some(Value::Object(inner)) = list.get_mut(at) {
                    return self.nested(inner, dots);
                }
                let mut inner = Map::new();
                self.nested(&mut inner, dots)?;
                Value::Object(inner)
            }
        };
        self.set_index(list, index, made)
    }

    /// Puts a value at an index, with nulls up to it.
    fn set_index(&mut self, list: &mut Vec<Value>, index: i64, value: Value) -> Result<(), Stop> {
        let Some(at) = usize::try_from(index).ok().filter(|at| *at <= INDEX_MAX) else {
            return Err(StrvalsError::HighIndex(index).into());
        };
        self.padding += (at + 1).saturating_sub(list.len());
        if self.padding > PADDING_MAX {
            return Err(StrvalsError::Padding.into());
        }
        if list.len() <= at {
            list.resize(at + 1, Value::Null);
        }
        if let Some(slot) = list.get_mut(at) {
            *slot = value;
        }
        Ok(())
    }

    /// Reads what follows `=`; `None` when nothing does.
    fn value(&mut self) -> Result<Option<Value>, Stop> {
        match self.reading {
            Reading::Literal => {
                let value = Value::from(self.rest);
                self.rest = "";
                return Ok(Some(value));
            }
            Reading::Json => return self.json().map(Some),
            _ if self.rest.is_empty() => return Ok(None),
            _ => {}
        }
        if let Some(rest) = self.rest.strip_prefix('{') {
            self.rest = rest;
            return self.list().map(Some);
        }
        let (text, _) = self.until(&[',']);
        Ok(Some(self.typed(text)?))
    }

    /// Reads a list after its opening brace.
    fn list(&mut self) -> Result<Value, Stop> {
        let mut items = Vec::new();
        loop {
            let (text, stop) = self.until(&[',', '}']);
            let Some(stop) = stop else { return Err(StrvalsError::OpenList.into()) };
            items.push(self.typed(text)?);
            if stop == '}' {
                self.rest = self.rest.strip_prefix(',').unwrap_or(self.rest);
                return Ok(Value::Array(items));
            }
        }
    }

    /// Reads a JSON value, with the blanks and the comma behind it.
    fn json(&mut self) -> Result<Value, Stop> {
        if self.skip_empty() {
            return Ok(Value::Null);
        }
        let (value, length) = decode_go_first(self.rest.as_bytes()).map_err(StrvalsError::from)?;
        self.rest = self.rest.get(length..).unwrap_or_default();
        self.skip_empty();
        Ok(value)
    }

    /// Skips blanks and the comma behind them; says whether only those were there.
    fn skip_empty(&mut self) -> bool {
        self.rest = self.rest.trim_start();
        if let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest;
            return true;
        }
        self.rest.is_empty()
    }

    /// What a text means as a value.
    fn typed(&self, text: String) -> Result<Value, StrvalsError> {
        match self.reading {
            Reading::Typed => Ok(typed(text)),
            Reading::File(read) => read(&text).map(Value::String).map_err(StrvalsError::File),
            Reading::Text | Reading::Json | Reading::Literal => Ok(Value::String(text)),
        }
    }

    /// Reads an index after its opening bracket.
    fn index(&mut self) -> Result<i64, Stop> {
        let (text, stop) = self.until(&[']']);
        if stop.is_none() {
            return Err(Stop::End);
        }
        text.parse().map_err(|_invalid| StrvalsError::Index(text).into())
    }

    /// Reads up to one of some characters and over it; `None` when the text ends before.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        let mut characters = self.rest.chars();
        let stop = loop {
            match characters.next() {
                Some(character) if stops.contains(&character) => break Some(character),
                Some('\\') if !self.is_literal() => match characters.next() {
                    Some(character) => text.push(character),
                    None => break None,
                },
                Some(character) => text.push(character),
                None => break None,
            }
        };
        self.rest = characters.as_str();
        (text, stop)
    }

    const fn is_literal(&self) -> bool {
        matches!(self.reading, Reading::Literal)
    }

    fn mark(&mut self) -> Result<(), StrvalsError> {
        self.marks += 1;
        if self.marks > MARKS_MAX { Err(StrvalsError::Deep(MARKS_MAX)) } else { Ok(()) }
    }
}

/// Puts a value under a key; the empty key takes none.
fn put(data: &mut Map<String, Value>, name: String, value: Value) {
    if !name.is_empty() {
        data.insert(name, value);
    }
}

const fn empty_text() -> Value {
    Value::String(String::new())
}

fn typed(text: String) -> Value {
    // Go's way to ignore case takes the long s for an s.
    match text.replace('\u{17f}', "s").to_ascii_lowercase().as_str() {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        "0" => Value::from(0),
        number if !number.starts_with('0') => number.parse::<i64>().map_or(Value::String(text), Value::from),
        _ => Value::String(text),
    }
}

fn kind(at: String, value: &Value, wanted: &'static str) -> StrvalsError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    };
    StrvalsError::Kind { at, found, wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Result<Map<String, Value>, StrvalsError> {
        let mut values = Map::new();
        set(&mut values, Reading::Typed, text).map(|()| values)
    }

    #[test]
    fn a_short_text_cannot_fill_the_memory() {
        let padded = |lists: usize| format!("a{}=x", "[65535]".repeat(lists));
        assert!(given(&padded(16)).is_ok());
        assert_eq!(given(&padded(17)), Err(StrvalsError::Padding));
    }

    #[test]
    fn a_path_has_an_end() {
        let nested = |lists: usize| format!("a{}=x", "[0]".repeat(lists));
        assert!(given(&nested(MARKS_MAX)).is_ok());
        assert_eq!(given(&nested(MARKS_MAX + 1)), Err(StrvalsError::Deep(MARKS_MAX)));
        assert_eq!(given(&nested(100_000)), Err(StrvalsError::Deep(MARKS_MAX)));
        assert_eq!(given(&format!("{}a=x", "a.".repeat(DOTS_MAX + 1))), Err(StrvalsError::Deep(DOTS_MAX)));
    }
}
