//! How deep a document may be nested: one number for all readers.
//!
//! What one reader takes and another refuses is an object that exists and cannot be used, or one that loses parts
//! on its way (INV-1). So every reader of objects has the same limit, below that of `serde_json` (128), which is
//! the last to read anything: what surrounds an object in lists, journals and watches has room above it.

use serde_json::Value;

/// Lists and mappings inside each other, the outermost included, in anything that is read.
pub const DEPTH_MAX: usize = 100;

/// Steps of a path that are shown.
const STEPS_SHOWN_MAX: usize = 6;
/// Characters of one step that are shown.
const STEP_CHARS_MAX: usize = 40;

/// A document is nested deeper than [`DEPTH_MAX`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("nested more than {DEPTH_MAX} levels deep at {place}")]
pub struct TooDeep {
    /// The beginning of the path to where the limit is passed.
    pub place: String,
}

/// What is open at a place of a text.
enum Open {
    /// An object, and where the key of the present member stands.
    Object { key: (usize, usize) },
    /// A list, and the number of the present item.
    List { item: usize },
}

/// Looks at the nesting of a JSON text without building anything of it, at about the speed of memory.
///
/// That the text is JSON is for others to check: of other text only the brackets outside of strings count.
///
/// # Errors
/// When the limit is passed, with the place.
///
/// ```
/// # use tiphys_go::nesting;
/// assert!(nesting::check(br#"{"a": [{"b": 1}]}"#).is_ok());
/// let deep = format!(r#"{{"spec": {{"a": {}{}}}}}"#, "[".repeat(200), "]".repeat(200));
/// let error = nesting::check(deep.as_bytes()).unwrap_err();
/// assert_eq!(error.to_string(), "nested more than 100 levels deep at spec.a[0][0][0][0]…");
/// ```
pub fn check(text: &[u8]) -> Result<(), TooDeep> {
    let mut open: Vec<Open> = Vec::new();
    let mut last_string = (0, 0);
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                let end = string_end(text, at + 1);
                last_string = (at + 1, end);
                at = end;
            }
            b'{' | b'[' if open.len() >= DEPTH_MAX => return Err(TooDeep { place: place(text, &open) }),
            b'{' => open.push(Open::Object { key: (0, 0) }),
            b'[' => open.push(Open::List { item: 0 }),
            b'}' | b']' => {
                open.pop();
            }
            b':' => {
                if let Some(Open::Object { key }) = open.last_mut() {
                    *key = last_string;
                }
            }
            b',' => {
                if let Some(Open::List { item }) = open.last_mut() {
                    *item += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    Ok(())
}

/// Lists and objects inside each other, the value itself included; 0 for a scalar.
///
/// Recursive, so it is for values that a reader with a limit made, or that were put together from few of them.
pub fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

/// Where the closing quote of a string stands, or the end of the text.
fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start;
    loop {
        match text.get(at) {
            Some(b'"') => return at,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
            None => return text.len(),
        }
    }
}

fn place(text: &[u8], open: &[Open]) -> String {
    use std::fmt::Write as _;
    let mut path = String::new();
    for step in open.iter().take(STEPS_SHOWN_MAX) {
        // Writing to a text cannot fail.
        let _infallible = match step {
            Open::Object { key: (from, to) } => {
                let key = String::from_utf8_lossy(text.get(*from..*to).unwrap_or_default());
                let shown: String = key.chars().take(STEP_CHARS_MAX).collect();
                let dot = if path.is_empty() { "" } else { "." };
                write!(path, "{dot}{}", shown.escape_debug())
            }
            Open::List { item } => write!(path, "[{item}]"),
        };
    }
    if open.len() > STEPS_SHOWN_MAX {
        path.push('…');
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    /// STY-27, STY-114.
    #[test]
    fn sty_27_exactly_the_limit_is_read() {
        let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(check(nested(DEPTH_MAX).as_bytes()), Ok(()));
        assert!(check(nested(DEPTH_MAX + 1).as_bytes()).is_err());
        let text = format!(r#"{{"a": "{}\"{}"}}"#, "[".repeat(500), "{".repeat(500));
        assert_eq!(check(text.as_bytes()), Ok(()), "text is no nesting");
    }

    #[test]
    fn sty_27_the_place_is_that_of_the_deep_member() {
        let deep = format!(r#"{{"k": [1, [2]], "spec": [0, {{"x": {}"#, "[".repeat(99));
        assert_eq!(check(deep.as_bytes()).unwrap_err().place, "spec[1].x[0][0][0]…");
    }
}
