//! TOML as BurntSushi/toml 1.6 writes it: what is no table first, both in the order of keys, two blanks per level.

use crate::template::fmt::format_float;
use crate::template::limits::Exceeded;
use crate::template::value::{DEPTH_MAX, Kind, Text, Value};

/// Why a value is not written.
#[derive(Debug)]
pub(super) enum TomlFailure {
    /// The library says so.
    Value(String),
    /// The library falls over.
    Panic(String),
    /// It is too long.
    Limit(Exceeded),
}

/// Writes a value.
pub(super) fn write(value: &Value, limit: usize) -> Result<Vec<u8>, TomlFailure> {
    let mut writer = Writer { out: Vec::new(), limit };
    if value.is_nil() {
        return Err(nothing("Type"));
    }
    writer.value(&[], value)?;
    Ok(writer.out)
}

fn nothing(asked: &str) -> TomlFailure {
    TomlFailure::Panic(format!("reflect: call of reflect.Value.{asked} on zero Value"))
}

fn failed(problem: impl Into<String>) -> TomlFailure {
    TomlFailure::Value(problem.into())
}

/// What a value is in TOML, as far as its place depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Nil, which is nothing.
    Nothing,
    Simple,
    Table,
    Tables,
}

fn form(value: &Value, depth: usize) -> Result<Form, TomlFailure> {
    if depth > DEPTH_MAX {
        return Err(TomlFailure::Limit(Exceeded::Depth(DEPTH_MAX)));
    }
    Ok(match value {
        Value::Nil | Value::Bytes(None) => Form::Nothing,
        Value::Map(map) => {
            if map.is_nil() {
                Form::Nothing
            } else {
                Form::Table
            }
        }
        Value::List(list) if list.is_nil() => Form::Nothing,
        Value::List(list) if list.is_empty() => Form::Simple,
        Value::List(list) => {
            let mut tables = true;
            for item in list.to_vec() {
                match form(&item, depth + 1)? {
                    Form::Nothing => return Err(failed("toml: cannot encode array with nil element")),
                    Form::Table => {}
                    _ => tables = false,
                }
            }
            if tables { Form::Tables } else { Form::Simple }
        }
        Value::Complex(_) => return Err(failed("unsupported type: complex128")),
        // A type that writes itself as a text is one.
        Value::Object(object) if object.json().is_none() && object.kind() != Kind::Func => Form::Table,
        _ => Form::Simple,
    })
}

struct Writer {
    out: Vec<u8>,
    limit: usize,
}

impl Writer {
    fn put(&mut self, text: &[u8]) -> Result<(), TomlFailure> {
        if self.out.len().saturating_add(text.len()) > self.limit {
            return Err(TomlFailure::Limit(Exceeded::TextBytes(self.limit)));
        }
        self.out.extend_from_slice(text);
        Ok(())
    }

    /// Ends a line, unless nothing was written yet.
    fn line_end(&mut self) -> Result<(), TomlFailure> {
        if self.out.is_empty() { Ok(()) } else { self.put(b"\n") }
    }

    fn indent(&mut self, path: &[Text]) -> Result<(), TomlFailure> {
        let columns = 2 * path.len().saturating_sub(1);
        self.put(&vec![b' '; columns])
    }

    fn value(&mut self, path: &[Text], value: &Value) -> Result<(), TomlFailure> {
        if path.len() > DEPTH_MAX {
            return Err(TomlFailure::Limit(Exceeded::Depth(DEPTH_MAX)));
        }
        match form(value, 0)? {
            Form::Nothing if matches!(value, Value::List(_) | Value::Bytes(_)) => {
                self.member(path, value, false)
            }
            Form::Nothing => Ok(()),
            Form::Simple => self.member(path, value, false),
            Form::Table => {
                if path.len() == 1 {
                    // A line between tables at the top.
                    self.line_end()?;
                }
                if !path.is_empty() {
                    self.indent(path)?;
                    self.header(path, "[", "]")?;
                    self.put(b"\n")?;
                }
                self.table(path, value)
            }
            Form::Tables => {
                if path.is_empty() {
                    return Err(failed("toml: top-level values must be Go maps or structs"));
                }
                for item in value.items().map(|items| items.to_vec()).unwrap_or_default() {
                    self.line_end()?;
                    self.indent(path)?;
                    self.header(path, "[[", "]]")?;
                    self.put(b"\n")?;
                    self.table(path, &item)?;
                }
                Ok(())
            }
        }
    }

    fn header(&mut self, path: &[Text], open: &str, close: &str) -> Result<(), TomlFailure> {
        self.put(open.as_bytes())?;
        for (place, key) in path.iter().enumerate() {
            if place > 0 {
                self.put(b".")?;
            }
            self.key(key)?;
        }
        self.put(close.as_bytes())
    }

    /// The members of a table: those that are no tables first.
    fn table(&mut self, path: &[Text], value: &Value) -> Result<(), TomlFailure> {
        for (key, member) in ordered(value)? {
            if is_nothing(&member) {
                continue;
            }
            let mut path = path.to_vec();
            path.push(key);
            self.value(&path, &member)?;
        }
        Ok(())
    }

    /// `key = value`, with a line end unless it stands inside of a line.
    fn member(&mut self, path: &[Text], value: &Value, inline: bool) -> Result<(), TomlFailure> {
        let Some(key) = path.last() else { return self.element(value, 0) };
        self.indent(path)?;
        self.key(key)?;
        self.put(b" = ")?;
        self.element(value, path.len())?;
        if inline { Ok(()) } else { self.line_end() }
    }

    fn element(&mut self, value: &Value, depth: usize) -> Result<(), TomlFailure> {
        if depth > DEPTH_MAX {
            return Err(TomlFailure::Limit(Exceeded::Depth(DEPTH_MAX)));
        }
        match value {
            Value::Nil => Err(nothing("Interface")),
            Value::Bool(truth) => self.put(if *truth { b"true" } else { b"false" }),
            Value::Int(_, number) => self.put(number.to_string().as_bytes()),
            Value::Uint(_, number) => self.put(number.to_string().as_bytes()),
            Value::Float(number) => self.put(float(*number).as_bytes()),
            Value::Complex(_) => Err(failed("unexpected type: complex128")),
            Value::Text(text) => self.quoted(text.as_bytes()),
            Value::Bytes(_) | Value::List(_) => {
                self.put(b"[")?;
                let items = value.items().map(|items| items.to_vec()).unwrap_or_default();
                for (place, item) in items.iter().enumerate() {
                    if place > 0 {
                        self.put(b", ")?;
                    }
                    self.element(item, depth + 1)?;
                }
                self.put(b"]")
            }
            Value::Map(_) => self.inline(value, depth),
            Value::Named(named) if named.named_type.name == "time.Duration" => {
                self.quoted(value.stringer().unwrap_or_default().as_bytes())
            }
            Value::Named(named) => self.element(&named.value, depth + 1),
            Value::Object(object) => match object.json() {
                Some(Ok(Value::Text(text))) if object.type_name() == "time.Time" => self.put(text.as_bytes()),
                Some(Ok(other)) => self.element(&other, depth + 1),
                Some(Err(problem)) => Err(failed(problem)),
                None => self.inline(value, depth),
            },
        }
    }

    fn inline(&mut self, value: &Value, depth: usize) -> Result<(), TomlFailure> {
        self.put(b"{")?;
        let members = ordered(value)?;
        let last = members.len().saturating_sub(1);
        for (place, (key, member)) in members.into_iter().enumerate() {
            if is_nothing(&member) {
                continue;
            }
            self.key(&key)?;
            self.put(b" = ")?;
            self.element(&member, depth + 1)?;
            if place != last {
                self.put(b", ")?;
            }
        }
        self.put(b"}")
    }

    fn key(&mut self, key: &Text) -> Result<(), TomlFailure> {
        let bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !key.is_empty() && key.as_bytes().iter().all(bare) {
            return self.put(key.as_bytes());
        }
        self.quoted(key.as_bytes())
    }

    fn quoted(&mut self, text: &[u8]) -> Result<(), TomlFailure> {
        let mut out = Vec::with_capacity(text.len() + 2);
        out.push(b'"');
        for byte in text {
            match byte {
                b'"' => out.extend_from_slice(br#"\""#),
                b'\\' => out.extend_from_slice(br"\\"),
                0x8 => out.extend_from_slice(br"\b"),
                b'\t' => out.extend_from_slice(br"\t"),
                b'\n' => out.extend_from_slice(br"\n"),
                0xc => out.extend_from_slice(br"\f"),
                b'\r' => out.extend_from_slice(br"\r"),
                0..=0x1f | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => out.push(*byte),
            }
        }
        out.push(b'"');
        self.put(&out)
    }
}

/// Members in the order in which they are written.
fn ordered(value: &Value) -> Result<Vec<(Text, Value)>, TomlFailure> {
    let members = match value {
        Value::Map(map) => map.members(),
        Value::Object(object) => {
            let field = |name: &&'static str| (Text::fixed(name), object.field(name).unwrap_or_default());
            object.fields().iter().map(field).collect()
        }
        _ => Vec::new(),
    };
    let (mut simple, mut tables) = (Vec::new(), Vec::new());
    for (key, member) in members {
        match form(&member, 0)? {
            Form::Table | Form::Tables => tables.push((key, member)),
            _ => simple.push((key, member)),
        }
    }
    simple.extend(tables);
    Ok(simple)
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Nil | Value::Bytes(None) => true,
        Value::List(list) => list.is_nil(),
        Value::Map(map) => map.is_nil(),
        _ => false,
    }
}

/// A float always has a point or an exponent.
fn float(number: f64) -> String {
    if number.is_nan() {
        return if number.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = format_float(number, 'g', None);
    if text.contains(['e', '.']) { text } else { text + ".0" }
}
