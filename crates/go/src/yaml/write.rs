//! The writer: block style, folded at 80 columns, quoted only where reading back would differ.
//!
//! Follows the emitter of go.yaml.in/yaml/v2 as sigs.k8s.io/yaml uses it: values pass through JSON text on
//! their way, which is why control characters are refused and a next-line character becomes a blank. The other layout
//! is that of go.yaml.in/yaml/v3 with two blanks per level (Helm's `toYamlPretty`): no detour, nothing is folded, and
//! lists stand below their keys.
//!
//! What is written is anything that can say what it is ([`Written`]).

use super::order::sorted_keys;
use super::resolve::{Scalar, guess};
use super::style::{Place, Style, has_break, is_break, is_printable, style, through_json};
use super::{Dialect, YamlError};
use crate::json;
use crate::number;
use serde_json::{Number, Value};
use std::borrow::Cow;

/// Lines are folded at the first blank beyond this column.
const WIDTH_COLUMNS: usize = 80;
/// Columns per level.
const INDENT_COLUMNS: usize = 2;
/// A key of more bytes is written with `?` on a line of its own.
const SIMPLE_KEY_BYTES_MAX: usize = 128;
/// A key whose JSON spelling is longer cannot be read back, which the library finds out while converting.
const KEY_CHARS_MAX: usize = 1_024;
/// Deepest nesting that is written. A level takes 2 KiB of the stack in builds that are not optimised, and threads have
/// 2 MiB.
const DEPTH_MAX: usize = 600;

/// How floats arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Floats {
    /// As values: they are spelled as JSON and read back first, so `1e6` is written as `1000000`.
    ThroughJson,
    /// As YAML read them: `1e6` is written as `1e+06`.
    AsRead,
}

/// Whose layout is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// sigs.k8s.io/yaml.
    Sigs,
    /// go.yaml.in/yaml/v3, indented by two.
    Pretty,
}

/// A value that can be written.
pub(crate) trait Written: Sized {
    /// Its texts.
    type Text: AsRef<str>;

    /// What it is.
    fn node(self) -> Result<Node<Self>, YamlError>;
}

/// What a value is.
pub(crate) enum Node<T: Written> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Text(T::Text),
    /// A text that stands as it is, with a tag before it.
    Tagged(&'static str, T::Text),
    List(Vec<T>),
    /// Members, sorted by the bytes of their keys.
    Map(Vec<(T::Text, T)>),
    /// What takes its place.
    Other(T),
}

impl<'v> Written for &'v Value {
    type Text = &'v str;

    fn node(self) -> Result<Node<Self>, YamlError> {
        Ok(match self {
            Value::Null => Node::Null,
            Value::Bool(truth) => Node::Bool(*truth),
            Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(number), _, _) => Node::Int(number),
                (_, Some(number), _) => Node::Uint(number),
                (_, _, number) => Node::Float(number.unwrap_or_default()),
            },
            Value::String(text) => Node::Text(text.as_str()),
            Value::Array(items) => Node::List(items.iter().collect()),
            Value::Object(members) => {
                Node::Map(members.iter().map(|(key, value)| (key.as_str(), value)).collect())
            }
        })
    }
}

/// Writes one document, of so many bytes at most.
pub(super) fn document<T: Written>(
    value: T,
    floats: Floats,
    layout: Layout,
    bytes_max: usize,
) -> Result<String, YamlError> {
    let mut writer = Writer {
        out: String::new(),
        column: 0,
        indent: None,
        blank: true,
        fresh: true,
        floats,
        layout,
        bytes_max,
    };
    writer.node(value, Place::Root, 0)?;
    writer.finish();
    Ok(writer.out)
}

struct Writer {
    out: String,
    column: usize,
    indent: Option<usize>,
    /// The last thing written was a blank or a line end.
    blank: bool,
    /// The line holds nothing but blanks and indicators.
    fresh: bool,
    floats: Floats,
    layout: Layout,
    bytes_max: usize,
}

impl Writer {
    fn node<T: Written>(&mut self, value: T, place: Place, depth: usize) -> Result<(), YamlError> {
        if depth > DEPTH_MAX {
            return Err(YamlError::Depth { line: 0 });
        }
        if self.out.len() > self.bytes_max {
            return Err(YamlError::Memory { limit: self.bytes_max });
        }
        match value.node()? {
            Node::Null => self.folded("null", false),
            Node::Bool(true) => self.folded("true", false),
            Node::Bool(false) => self.folded("false", false),
            Node::Int(number) => self.folded(&number.to_string(), false),
            Node::Uint(number) => self.folded(&number.to_string(), false),
            Node::Float(number) => self.folded(&self.spelled(number), false),
            Node::Text(text) => return self.text(text.as_ref(), place),
            Node::Tagged(tag, text) => {
                self.indicator(tag, true, false);
                return self.text(text.as_ref(), place);
            }
            Node::List(items) if items.is_empty() => self.indicator("[]", true, false),
            Node::Map(members) if members.is_empty() => self.indicator("{}", true, false),
            Node::List(items) => return self.list(items, place, depth),
            Node::Map(members) => return self.mapping(members, depth),
            Node::Other(other) => return self.node(other, place, depth + 1),
        }
        Ok(())
    }

    fn spelled(&self, float: f64) -> String {
        match self.floats {
            Floats::AsRead if float.is_nan() => return ".nan".to_owned(),
            Floats::AsRead if float.is_infinite() => {
                return if float > 0.0 { ".inf" } else { "-.inf" }.to_owned();
            }
            Floats::AsRead => return number::general(float),
            Floats::ThroughJson => {}
        }
        let number = Number::from_f64(float).unwrap_or_else(|| Number::from(0));
        match guess(Dialect::Sigs, &json::number_json(&number)) {
            Scalar::Int(integer) => integer.to_string(),
            Scalar::Uint(integer) => integer.to_string(),
            Scalar::Float(float) => number::general(float),
            _ => number::general(float),
        }
    }

    fn list<T: Written>(&mut self, items: Vec<T>, place: Place, depth: usize) -> Result<(), YamlError> {
        let outer = self.indent;
        let inside_mapping = self.layout == Layout::Sigs && place == Place::Member && !self.fresh;
        self.indent = match outer {
            None => Some(0),
            Some(columns) if inside_mapping => Some(columns),
            Some(columns) => Some(columns + INDENT_COLUMNS),
        };
        for item in items {
            self.line();
            self.indicator("-", true, true);
            self.node(item, Place::Item, depth + 1)?;
        }
        self.indent = outer;
        Ok(())
    }

    fn mapping<T: Written>(&mut self, members: Vec<(T::Text, T)>, depth: usize) -> Result<(), YamlError> {
        let outer = self.indent;
        self.indent = Some(outer.map_or(0, |columns| columns + INDENT_COLUMNS));
        for (key, value) in sorted_keys(members, self.layout == Layout::Pretty) {
            let key = key.as_ref();
            if self.layout == Layout::Sigs {
                if key.len() > KEY_CHARS_MAX - 2 && json_spelled(key) > KEY_CHARS_MAX {
                    return Err(YamlError::Key("longer than 1024 characters".to_owned()));
                }
                // JSON leaves this character as it is, and in YAML it ends a line.
                if key.contains('\u{85}') {
                    return Err(YamlError::Key("of several lines".to_owned()));
                }
            }
            self.line();
            if key.len() <= SIMPLE_KEY_BYTES_MAX && !has_break(key) {
                self.text(key, Place::SimpleKey)?;
                self.indicator(":", false, false);
            } else {
                self.indicator("?", true, true);
                self.text(key, Place::Member)?;
                self.line();
                self.indicator(":", true, true);
            }
            self.node(value, Place::Member, depth + 1)?;
        }
        self.indent = outer;
        Ok(())
    }

    fn text(&mut self, text: &str, place: Place) -> Result<(), YamlError> {
        let text = match self.layout {
            Layout::Sigs => through_json(text)?,
            Layout::Pretty => Cow::Borrowed(text),
        };
        let text = &*text;
        let style = style(text, place, self.layout);
        let outer = self.indent;
        self.indent = Some(outer.map_or(INDENT_COLUMNS, |columns| columns + INDENT_COLUMNS));
        let fold = place != Place::SimpleKey && self.layout == Layout::Sigs;
        match style {
            Style::Plain => self.folded(text, fold),
            Style::Single => self.single_quoted(text, fold),
            Style::Double => self.double_quoted(text, fold),
            Style::Literal => self.literal(text),
        }
        self.indent = outer;
        Ok(())
    }

    /// Begins a line at the current indentation unless the line already stands there.
    fn line(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.fresh || self.column > indent || (self.column == indent && !self.blank) {
            self.line_end();
        }
        while self.column < indent {
            self.put(' ');
        }
        self.blank = true;
        self.fresh = true;
    }

    fn line_end(&mut self) {
        self.out.push('\n');
        self.column = 0;
    }

    fn put(&mut self, character: char) {
        self.out.push(character);
        self.column += 1;
    }

    /// Writes a character that may end the line.
    fn put_break(&mut self, character: char) {
        self.out.push(character);
        self.column = 0;
    }

    fn indicator(&mut self, mark: &str, needs_blank: bool, keeps_fresh: bool) {
        if needs_blank && !self.blank {
            self.put(' ');
        }
        self.out.push_str(mark);
        self.column += mark.len();
        self.blank = false;
        self.fresh = self.fresh && keeps_fresh;
    }

    fn folded(&mut self, text: &str, fold: bool) {
        if !self.blank {
            self.put(' ');
        }
        let mut after_blank = false;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            if character == ' ' {
                let folds = fold && !after_blank && self.column > WIDTH_COLUMNS;
                if folds && characters.peek() != Some(&' ') {
                    self.line();
                } else {
                    self.put(' ');
                }
                after_blank = true;
            } else {
                self.put(character);
                self.fresh = false;
                after_blank = false;
            }
        }
        self.blank = false;
        self.fresh = false;
    }

    fn single_quoted(&mut self, text: &str, fold: bool) {
        self.indicator("'", true, false);
        let (mut after_blank, mut after_break) = (false, false);
        let mut first = true;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            if character == ' ' {
                let folds = fold && !after_blank && self.column > WIDTH_COLUMNS && !first;
                if folds && characters.peek().is_some_and(|next| *next != ' ') {
                    self.line();
                } else {
                    self.put(' ');
                }
                after_blank = true;
            } else if is_break(character) {
                if !after_break && character == '\n' {
                    self.line_end();
                }
                self.put_break(character);
                self.fresh = true;
                after_break = true;
            } else {
                if after_break {
                    self.line();
                }
                if character == '\'' {
                    self.put('\'');
                }
                self.put(character);
                self.fresh = false;
                (after_blank, after_break) = (false, false);
            }
            first = false;
        }
        self.indicator("'", false, false);
        self.blank = false;
        self.fresh = false;
    }

    fn double_quoted(&mut self, text: &str, fold: bool) {
        // The library looks for the byte order mark at the start whichever character it is about to write.
        let marked = text.starts_with('\u{feff}');
        self.indicator("\"", true, false);
        let mut after_blank = false;
        let mut first = true;
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            if marked || !is_printable(character) || is_break(character) || matches!(character, '"' | '\\') {
                self.escaped(character);
                after_blank = false;
            } else if character == ' ' {
                let folds = fold && !after_blank && self.column > WIDTH_COLUMNS && !first;
                match characters.peek() {
                    Some(next) if folds => {
                        let blank_follows = *next == ' ';
                        self.line();
                        if blank_follows {
                            self.put('\\');
                        }
                    }
                    _ => self.put(' '),
                }
                after_blank = true;
            } else {
                self.put(character);
                after_blank = false;
            }
            first = false;
        }
        self.indicator("\"", false, false);
        self.blank = false;
        self.fresh = false;
    }

    fn escaped(&mut self, character: char) {
        let code = u32::from(character);
        let spelled = match character {
            '\0' => "\\0".to_owned(),
            '\u{7}' => "\\a".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\t' => "\\t".to_owned(),
            '\n' => "\\n".to_owned(),
            '\u{b}' => "\\v".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            '\r' => "\\r".to_owned(),
            '\u{1b}' => "\\e".to_owned(),
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            '\u{85}' => "\\N".to_owned(),
            '\u{a0}' => "\\_".to_owned(),
            '\u{2028}' => "\\L".to_owned(),
            '\u{2029}' => "\\P".to_owned(),
            _ if code <= 0xff => format!("\\x{code:02X}"),
            _ if code <= 0xffff => format!("\\u{code:04X}"),
            _ => format!("\\U{code:08X}"),
        };
        self.column += spelled.len();
        self.out.push_str(&spelled);
    }

    fn literal(&mut self, text: &str) {
        self.indicator("|", true, false);
        if text.starts_with([' ', '\n', '\u{85}', '\u{2028}', '\u{2029}']) {
            self.put('2');
        }
        let mut ends = text.chars().rev();
        let last_breaks = ends.next().is_some_and(is_break);
        if !last_breaks {
            self.put('-');
        } else if ends.next().is_none_or(is_break) {
            self.put('+');
        }
        self.line_end();
        self.fresh = true;
        self.blank = true;
        let mut after_break = true;
        for character in text.chars() {
            if is_break(character) {
                self.put_break(character);
                self.fresh = true;
                after_break = true;
            } else {
                if after_break {
                    self.line();
                }
                self.put(character);
                self.fresh = false;
                after_break = false;
            }
        }
    }

    fn finish(&mut self) {
        self.indent = None;
        self.line();
    }
}

fn json_spelled(key: &str) -> usize {
    json::to_string_go(&Value::from(key)).chars().count()
}
