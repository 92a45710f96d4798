//! What cells are made from.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;
use tiphys_object::selector::Selector;

use super::age;

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";
pub(super) const UNKNOWN: &str = "<unknown>";

/// An object (or a part of one), and what time it is. Paths are JSON pointers.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    pub(super) object: &'a Value,
    pub(super) now: Timestamp,
}

impl<'a> Row<'a> {
    /// The value at a path that is there and not null.
    pub(super) fn at(&self, path: &str) -> Option<&'a Value> {
        self.object.pointer(path).filter(|found| !found.is_null())
    }

    /// A text; empty when it is not there.
    pub(super) fn text(&self, path: &str) -> &'a str {
        self.at(path).and_then(Value::as_str).unwrap_or("")
    }

    /// The first text of several that is not empty.
    pub(super) fn first_text(&self, paths: &[&str]) -> &'a str {
        paths.iter().map(|path| self.text(path)).find(|text| !text.is_empty()).unwrap_or("")
    }

    /// A text, or something else in its place.
    pub(super) fn text_or(&self, path: &str, otherwise: &'static str) -> &'a str {
        self.at(path).and_then(Value::as_str).unwrap_or(otherwise)
    }

    /// As [`Self::text_or`], for empty texts too.
    pub(super) fn filled_or(&self, path: &str, otherwise: &'static str) -> &'a str {
        Some(self.text(path)).filter(|text| !text.is_empty()).unwrap_or(otherwise)
    }

    /// A number; zero when it is not there.
    pub(super) fn integer(&self, path: &str) -> i64 {
        self.at(path).and_then(Value::as_i64).unwrap_or(0)
    }

    /// A truth; false when it is not there.
    pub(super) fn is_set(&self, path: &str) -> bool {
        self.at(path).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The items of a list; none when it is not there.
    pub(super) fn items(&self, path: &str) -> impl DoubleEndedIterator<Item = Row<'a>> + ExactSizeIterator {
        let now = self.now;
        let items = self.at(path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        items.iter().map(move |object| Row { object, now })
    }

    /// How many items a list, or members a map has.
    pub(super) fn count(&self, path: &str) -> usize {
        match self.at(path) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(members)) => members.len(),
            _ => 0,
        }
    }

    /// The texts of a list.
    pub(super) fn texts(&self, path: &str) -> Vec<&'a str> {
        self.items(path).filter_map(|item| item.object.as_str()).collect()
    }

    /// The cell of the name.
    pub(super) fn name(&self) -> Value {
        self.text("/metadata/name").into()
    }

    /// The cell of the age.
    pub(super) fn age(&self) -> Value {
        self.since("/metadata/creationTimestamp").into()
    }

    /// How long ago a time was.
    pub(super) fn since(&self, path: &str) -> String {
        age::between(self.time(path), self.now)
    }

    /// A time.
    pub(super) fn time(&self, path: &str) -> Option<Timestamp> {
        self.text(path).parse().ok()
    }

    /// Whether the object is being deleted.
    pub(super) fn is_terminating(&self) -> bool {
        self.at("/metadata/deletionTimestamp").is_some()
    }

    /// Status of a condition; `None` without it.
    pub(super) fn condition(&self, r#type: &str) -> Option<&'a str> {
        let found = self.items("/status/conditions").find(|one| one.text("/type") == r#type)?;
        Some(found.text("/status"))
    }

    /// The number or text of a value that may be both.
    pub(super) fn plain(&self, path: &str) -> Option<String> {
        Some(match self.at(path)? {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    }

    /// Labels as `a=b,c=d`.
    pub(super) fn labels(&self, path: &str) -> String {
        let mut text = String::new();
        for (key, value) in self.at(path).and_then(Value::as_object).into_iter().flatten() {
            let comma = if text.is_empty() { "" } else { "," };
            let _ = write!(text, "{comma}{key}={}", value.as_str().unwrap_or(""));
        }
        if text.is_empty() { NONE.to_owned() } else { text }
    }

    /// A selector in its object form.
    pub(super) fn selector(&self, path: &str) -> String {
        let text = self.at(path).map(|selector| match Selector::from_object(selector) {
            Ok(selector) => selector.to_string(),
            Err(_) => "<error>".to_owned(),
        });
        text.filter(|text| !text.is_empty()).unwrap_or_else(|| NONE.to_owned())
    }

    /// The names and images of the containers of a template.
    pub(super) fn containers(&self, path: &str) -> [Value; 2] {
        let of = |member: &str| -> Value {
            let texts: Vec<&str> = self.items(path).map(|one| one.text(member)).collect();
            texts.join(",").into()
        };
        [of("/name"), of("/image")]
    }
}

/// The first items of a list, and how many more there are.
pub(super) fn first_of(items: &[&str], max: usize) -> Option<String> {
    let shown = items.get(..max.min(items.len()))?.join(",");
    Some(match items.len().checked_sub(max) {
        Some(more) if more > 0 => format!("{shown} + {more} more..."),
        _ => shown,
    })
}
