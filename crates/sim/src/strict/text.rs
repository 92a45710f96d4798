//! Members that are there twice, or that nobody knows, in the order of the text.

use std::collections::HashSet;
use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use tiphys_object::builtin::{Shape, StructType};

/// More problems than these are not reported.
const MOST_PROBLEMS: usize = 100;

/// Unknown and doubled members of an object of a built-in kind.
pub(super) fn problems(text: &str, schema: &'static StructType) -> Vec<String> {
    read(text, Known::Struct(schema))
}

/// Doubled members of any object.
pub(super) fn duplicates(text: &str) -> Vec<String> {
    read(text, Known::Open)
}

fn read(text: &str, known: Known) -> Vec<String> {
    let mut found = Found::default();
    let mut path = String::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let seed = Walk { known, path: &mut path, found: &mut found };
    // Whoever calls has read the text already; one that cannot be read has no more to say.
    drop(seed.deserialize(&mut reader));
    found.problems
}

#[derive(Default)]
struct Found {
    problems: Vec<String>,
    seen: HashSet<String>,
}

impl Found {
    fn add(&mut self, what: &str, path: &str) {
        let problem = format!("{what} field {path:?}");
        if self.problems.len() < MOST_PROBLEMS && self.seen.insert(problem.clone()) {
            self.problems.push(problem);
        }
    }
}

/// What is known about a value.
#[derive(Clone, Copy)]
enum Known {
    Struct(&'static StructType),
    List(Shape),
    Map(Shape),
    /// Any JSON, in which members may still be doubled.
    Open,
    /// Read by somebody else.
    Closed,
}

impl Known {
    fn of(shape: Shape) -> Self {
        match shape {
            Shape::Pointer(_) | Shape::Struct(_) => match (shape.struct_type(), shape.element()) {
                // A struct without members reads itself.
                (Some(schema), _) if schema.fields().is_empty() => Self::Closed,
                (Some(schema), _) => Self::Struct(schema),
                (None, Some(inner)) => Self::of(inner),
                (None, None) => Self::Closed,
            },
            Shape::List(_) => shape.element().map_or(Self::Closed, Self::List),
            Shape::Map(_) => shape.element().map_or(Self::Closed, Self::Map),
            _ => Self::Closed,
        }
    }
}

struct Walk<'a> {
    known: Known,
    path: &'a mut String,
    found: &'a mut Found,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        if matches!(self.known, Known::Closed) {
            return serde::Deserialize::deserialize(reader).map(|IgnoredAny| ());
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            let end = self.path.len();
            if end > 0 {
                self.path.push('.');
            }
            self.path.push_str(&name);
            let below = match self.known {
                Known::Struct(schema) => schema.field(&name).map(|field| Known::of(field.shape)),
                Known::Map(shape) => Some(Known::of(shape)),
                Known::Open => Some(Known::Open),
                Known::List(_) | Known::Closed => Some(Known::Closed),
            };
            if below.is_none() {
                self.found.add("unknown", self.path);
            } else if !seen.insert(name) {
                self.found.add("duplicate", self.path);
            }
            let known = below.unwrap_or(Known::Closed);
            map.next_value_seed(Walk { known, path: self.path, found: self.found })?;
            self.path.truncate(end);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let known = match self.known {
            Known::List(shape) => Known::of(shape),
            Known::Open => Known::Open,
            Known::Struct(_) | Known::Map(_) | Known::Closed => Known::Closed,
        };
        let end = self.path.len();
        let mut at = 0_usize;
        loop {
            // Writing to a text cannot fail.
            let _ = write!(self.path, "[{at}]");
            let item = items.next_element_seed(Walk { known, path: self.path, found: self.found })?;
            self.path.truncate(end);
            if item.is_none() {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}
