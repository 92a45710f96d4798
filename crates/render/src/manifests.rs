//! From text to objects: streams of YAML documents, JSON files, lists (RND-16, RND-74..77).

use std::borrow::Cow;

use serde_json::Value;
use tiphys_go::memory::{Exceeded, Memory};
use tiphys_go::yaml::{self, Dialect, YamlError};

use crate::{Budget, Reason, RenderError};

/// Why a text is not a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// The text is not YAML or JSON.
    #[error("failed to unmarshal manifest: {text}")]
    Syntax {
        /// What the parser said.
        text: String,
    },
    /// A document is not a mapping.
    #[error("failed to unmarshal manifest: the document at line {line} is not a mapping")]
    NotAMapping {
        /// Where the document begins, counted from 1.
        line: u64,
    },
    /// A document has no kind.
    #[error("failed to unmarshal manifest: Object 'Kind' is missing in the document at line {line}")]
    KindMissing {
        /// Where the document begins, counted from 1.
        line: u64,
    },
    /// The documents unfold to more than the budget allows.
    #[error("the manifests of the source take more than {limit} bytes of memory")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The text is not UTF-8 or UTF-16.
    #[error("the text is not valid UTF-8")]
    Encoding,
    /// The objects are more than the budget allows.
    #[error("more than {limit} objects")]
    TooMany {
        /// The limit.
        limit: usize,
    },
}

impl ManifestError {
    /// The reason, when a bound of ours was reached and not the text is wrong.
    pub(crate) fn exceeded(&self) -> Option<Reason> {
        match self {
            Self::TooLarge { .. } => Some(Reason::MemoryExceeded),
            Self::TooMany { .. } => Some(Reason::BudgetExceeded),
            Self::Syntax { .. } | Self::NotAMapping { .. } | Self::KindMissing { .. } | Self::Encoding => {
                None
            }
        }
    }
}

/// Objects of a stream, and the first error if there was one.
#[derive(Debug, Default, PartialEq)]
pub struct Stream {
    /// Objects before the error.
    pub objects: Vec<Value>,
    /// The first document that is no object ends the stream.
    pub error: Option<ManifestError>,
}

/// Reads all documents of a text; a document that is no object is an error (RND-135).
///
/// Null and empty documents are skipped; lists are expanded and empty lists dropped (RND-16).
///
/// ```
/// # use tiphys_render::{Budget, parse_manifests};
/// let objects = parse_manifests("kind: A\n---\n---\nkind: B\n", &Budget::default())?;
/// assert_eq!(objects.len(), 2);
/// # Ok::<(), tiphys_render::RenderError>(())
/// ```
pub fn parse_manifests(text: &str, budget: &Budget) -> Result<Vec<Value>, RenderError> {
    let stream = parse_stream(text, budget, &mut Memory::new(budget.memory));
    match stream.error {
        Some(error) => {
            let reason = error.exceeded().unwrap_or(Reason::ManifestUnmarshal);
            Err(RenderError::new(reason, error.to_string()))
        }
        None => expand_lists(stream.objects, budget),
    }
}

/// Reads the documents of a text up to the first that is no object (RND-76).
///
/// `memory` goes down by what was read, so that many documents share one bound. Documents count also when they
/// are empty: each takes time.
pub fn parse_stream(text: &str, budget: &Budget, memory: &mut Memory) -> Stream {
    let mut stream = Stream::default();
    let mut documents = 0_usize;
    for (before, document) in yaml::split_documents_at(text) {
        documents += 1;
        if documents > budget.objects {
            stream.error = Some(ManifestError::TooMany { limit: budget.objects });
            return stream;
        }
        let value = match yaml::parse_within(&document, Dialect::Sigs, budget.depth, memory) {
            Ok(None | Some(Value::Null)) => continue,
            Ok(Some(value)) => value,
            Err(YamlError::Memory { limit }) => {
                stream.error = Some(ManifestError::TooLarge { limit });
                return stream;
            }
            Err(error) => {
                let error = error.after_lines(before);
                stream.error = Some(ManifestError::Syntax { text: error.to_string() });
                return stream;
            }
        };
        if stream.objects.len() >= budget.objects {
            stream.error = Some(ManifestError::TooMany { limit: budget.objects });
            return stream;
        }
        match check_object(&value, before + 1) {
            Ok(()) => stream.objects.push(value),
            Err(error) => {
                stream.error = Some(error);
                return stream;
            }
        }
    }
    stream
}

/// A manifest is a mapping with a kind.
fn check_object(value: &Value, line: u64) -> Result<(), ManifestError> {
    let Value::Object(members) = value else { return Err(ManifestError::NotAMapping { line }) };
    match members.get("kind") {
        Some(Value::String(kind)) if !kind.is_empty() => Ok(()),
        _ => Err(ManifestError::KindMissing { line }),
    }
}

/// Replaces lists by their items and drops empty ones (RND-16). Items that are lists stay as they are.
///
/// # Errors
/// When an item is no object, or there are more objects than the budget allows.
pub fn expand_lists(objects: Vec<Value>, budget: &Budget) -> Result<Vec<Value>, RenderError> {
    let mut expanded = Vec::with_capacity(objects.len());
    for mut object in objects {
        budget.check()?;
        match object.get_mut("items").map(Value::take) {
            Some(Value::Array(items)) => {
                if !items.iter().all(Value::is_object) {
                    let text = format!("{} items member is not an object", describe(&object));
                    return Err(RenderError::new(Reason::ListItemNotObject, text));
                }
                expanded.extend(items);
            }
            Some(Value::Null) if object.get("spec").is_none() && object.get("status").is_none() => {}
            Some(items) => {
                if let Some(place) = object.get_mut("items") {
                    *place = items;
                }
                expanded.push(object);
            }
            None => expanded.push(object),
        }
        if expanded.len() > budget.objects {
            let text = ManifestError::TooMany { limit: budget.objects }.to_string();
            return Err(RenderError::new(Reason::BudgetExceeded, text));
        }
    }
    expanded.iter().try_for_each(|object| check_weight(object, budget))?;
    Ok(expanded)
}

/// Fails for an object that takes more memory than one may. API servers take objects of some megabytes of text;
/// a megabyte of small mappings is a hundred in memory.
///
/// # Errors
/// With the object's kind and name, and the bound.
pub fn check_weight(object: &Value, budget: &Budget) -> Result<(), RenderError> {
    let limit = budget.object_memory;
    weigh(object, &mut Memory::new(limit)).map_err(|_exceeded| {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{} {name:?} takes more than {limit} bytes of memory", describe(object));
        RenderError::new(Reason::BudgetExceeded, text)
    })
}

/// Takes what a value does, however it was made.
fn weigh(value: &Value, memory: &mut Memory) -> Result<(), Exceeded> {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        Value::String(text) => memory.text(text.len()),
        Value::Array(items) => {
            memory.spend(items.capacity().saturating_mul(size_of::<Value>()))?;
            items.iter().try_for_each(|item| weigh(item, memory))
        }
        Value::Object(members) => members.iter().enumerate().try_for_each(|(index, (key, value))| {
            memory.member(index)?;
            memory.text(key.len())?;
            weigh(value, memory)
        }),
    }
}

fn describe(object: &Value) -> String {
    object.get("kind").and_then(Value::as_str).unwrap_or("List").to_owned()
}

/// Text of a file: UTF-8 with or without a byte order mark, or UTF-16 with one (RND-74).
pub fn decode_text(content: &[u8]) -> Result<Cow<'_, str>, ManifestError> {
    let wide = |bytes: &[u8], unit: fn([u8; 2]) -> u16| {
        let units = bytes.chunks(2).map(|pair| match pair {
            [first, second] => unit([*first, *second]),
            // A lone byte at the end is the replacement character, as Go's decoder has it.
            _ => 0xfffd,
        });
        Cow::Owned(
            char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>(),
        )
    };
    match content {
        [0xef, 0xbb, 0xbf, rest @ ..] => utf8(rest),
        [0xff, 0xfe, rest @ ..] => Ok(wide(rest, u16::from_le_bytes)),
        [0xfe, 0xff, rest @ ..] => Ok(wide(rest, u16::from_be_bytes)),
        _ => utf8(content),
    }
}

fn utf8(content: &[u8]) -> Result<Cow<'_, str>, ManifestError> {
    // The position says nothing to users who see a binary file; the variant is enough.
    std::str::from_utf8(content).map(Cow::Borrowed).map_err(|_position| ManifestError::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rnd_16_lists_are_expanded_once() {
        let objects = vec![
            json!({"kind": "List", "items": [{"kind": "A"}, {"kind": "List", "items": [{"kind": "B"}]}]}),
            json!({"kind": "List", "items": null}),
            json!({"kind": "C", "items": null, "spec": {}}),
            json!({"kind": "D"}),
        ];
        let expanded = expand_lists(objects, &Budget::default()).unwrap();
        let kinds: Vec<&str> = expanded.iter().map(|o| o["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["A", "List", "C", "D"]);
        let error =
            expand_lists(vec![json!({"kind": "List", "items": [7]})], &Budget::default()).unwrap_err();
        assert_eq!(error.reason, Reason::ListItemNotObject);
        assert!(error.message.ends_with("items member is not an object"), "{error}");
    }

    #[test]
    fn rnd_74_byte_order_marks() {
        assert_eq!(decode_text(b"\xef\xbb\xbfa: 1").unwrap(), "a: 1");
        assert_eq!(decode_text(b"\xff\xfea\0\xe9\0").unwrap(), "a\u{e9}");
        assert_eq!(decode_text(b"\xfe\xff\0a").unwrap(), "a");
        assert_eq!(decode_text(b"\xff"), Err(ManifestError::Encoding));
    }

    fn parse(text: &str) -> Stream {
        parse_stream(text, &Budget::default(), &mut Memory::new(1 << 20))
    }

    #[test]
    fn sty_114_documents_share_one_bound() {
        let text = "kind: A\nitem: [1,2,3]\n---\n".repeat(5);
        assert_eq!(parse_stream(&text, &Budget::default(), &mut Memory::new(10_000)).objects.len(), 5);
        assert!(parse_stream(&text, &Budget::default(), &mut Memory::new(3_000)).error.is_some());
    }

    #[test]
    fn rnd_76_a_stream_ends_at_the_first_error() {
        let stream = parse("kind: A\n---\n# only a comment\n---\nx: 1\n---\nkind: B\n");
        assert_eq!(stream.objects, [json!({"kind": "A"})]);
        assert_eq!(stream.error, Some(ManifestError::KindMissing { line: 5 }));
        assert_eq!(parse("- a\n").error, Some(ManifestError::NotAMapping { line: 1 }));
    }

    /// One object of a megabyte of small mappings took 360 MB in all who looked at it.
    #[test]
    fn sec_07_one_object_is_bounded_and_many_are_not_one() {
        let dense =
            |items: usize| json!({"kind": "A", "metadata": {"name": "a"}, "x": vec![json!({"a": 1}); items]});
        let budget = Budget { object_memory: 1 << 20, ..Budget::default() };
        assert!(expand_lists(vec![dense(1_000)], &budget).is_ok());
        let error = expand_lists(vec![dense(1), dense(2_000)], &budget).unwrap_err();
        assert_eq!(error.reason, Reason::BudgetExceeded);
        assert_eq!(error.message, "A \"a\" takes more than 1048576 bytes of memory");
        let list = |items: Value| expand_lists(vec![json!({"kind": "List", "items": items})], &budget);
        assert_eq!(list(Value::from(vec![dense(1_000); 5])).unwrap().len(), 5);
        assert!(list(json!([dense(1), dense(2_000)])).is_err());
        for heavy in [json!("x".repeat(1 << 20)), json!({("x".repeat(1 << 20)): 1}), json!(vec![0; 40_000])] {
            assert!(check_weight(&json!({"kind": "A", "x": heavy}), &budget).is_err());
        }
    }

    #[test]
    fn sty_114_objects_are_bounded() {
        let budget = Budget { objects: 2, ..Budget::default() };
        // Documents without an object count too.
        assert!(parse_manifests("---\n#\n---\n#\n---\n#\n", &budget).is_err());
        assert_eq!(parse_manifests("kind: A\n---\nkind: B\n", &budget).map(|objects| objects.len()), Ok(2));
        assert!(parse_manifests("kind: A\n---\nkind: B\n---\nkind: C\n", &budget).is_err());
        let list = "kind: List\nitems: [{kind: A},{kind: A},{kind: A}]\n";
        assert_eq!(parse_manifests(list, &budget).unwrap_err().reason, Reason::BudgetExceeded);
    }
}
