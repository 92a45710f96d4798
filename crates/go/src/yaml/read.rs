//! From events to a tree of values, in one pass.
//!
//! Anchored values are kept beside the tree and copied where an alias names them, so that the budget of
//! memory counts what the reader would have to hold; a document that unfolds beyond it is refused. One that unfolds to
//! much is measured before it is read: a few lines that become gigabytes are refused for the price of a few lines.

use super::events::{Event, Events, Problem};
use super::resolve::{MERGE_TAG, Scalar, resolve};
use super::{Dialect, WholeFloats, YamlError};
use crate::memory::Memory;
use crate::{nesting, number};
use serde_json::{Map, Number, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Blanks and line breaks of YAML.
const BLANKS: [char; 7] = [' ', '\t', '\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
/// Bytes that are read again because of a [`Mend`] before the text is given up, and the fewest times.
const MEND_BYTES_MAX: usize = 64 << 20;
const MENDS_MIN: usize = 8;
/// Bytes that aliases may add to a document before it is measured.
const UNFOLDED_MAX: usize = 1 << 20;
/// `%TAG` directives of a document. libyaml compares each with those before it, and each tag with all of them.
const TAG_DIRECTIVES_MAX: usize = 100;

/// Reads the first document; `None` when there is none.
pub(super) fn first_document(
    text: &str,
    dialect: Dialect,
    whole_floats: WholeFloats,
    depth_max: usize,
    memory: &mut Memory,
) -> Result<Option<Value>, YamlError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check_directives(text)?;
    let mut before = *memory;
    let (mut outcome, mut mend);
    (outcome, mend, *memory) = Reader::read(text, dialect, whole_floats, depth_max, before, None)?;
    if mend.is_none() {
        return outcome;
    }
    let Some(stand_in) = unused_character(text) else { return outcome };
    let mut mended = text.to_owned();
    for _ in 0..(MEND_BYTES_MAX / text.len().max(1)).max(MENDS_MIN) {
        let Some(needed) = mend else { break };
        // What is read again is paid for: each of many documents may want it.
        if let Err(exceeded) = before.spend(mended.len()) {
            *memory = before;
            return Err(exceeded.into());
        }
        needed.carry_out(&mut mended, stand_in);
        (outcome, mend, *memory) =
            Reader::read(&mended, dialect, whole_floats, depth_max, before, Some(stand_in))?;
    }
    outcome
}

fn check_directives(text: &str) -> Result<(), YamlError> {
    if !text.contains("%TAG") {
        return Ok(());
    }
    let mut directives = text.lines().zip(1..).filter(|(line, _)| line.starts_with("%TAG"));
    match directives.nth(TAG_DIRECTIVES_MAX) {
        None => Ok(()),
        Some((_, line)) => {
            let problem = format!("found more than {TAG_DIRECTIVES_MAX} %TAG directives");
            Err(YamlError::Syntax { line, problem })
        }
    }
}

/// A character for private use that a text does not contain. One pass, whatever the text holds.
fn unused_character(text: &str) -> Option<char> {
    let candidates = '\u{e000}'..='\u{f8ff}';
    let used: BTreeSet<char> = text.chars().filter(|character| candidates.contains(character)).collect();
    candidates.into_iter().find(|candidate| !used.contains(candidate))
}

/// A place that libyaml refuses and the Go parsers read.
#[derive(Debug, Clone, Copy)]
enum Mend {
    /// The colon of `{a:, b: 1}`, which belongs to plain text. A character that the text does not contain
    /// stands for it and is put back in what is read.
    Colon(usize),
    /// The backslash of `"it\'s"`, which says nothing. It is left out, and so are others up to the closing quote.
    Quote(usize),
}

impl Mend {
    /// What can be done about a problem, if anything.
    fn of(problem: &Problem, text: &str) -> Option<Self> {
        let at = usize::try_from(problem.at).ok()?;
        let rest = text.get(at..)?;
        match problem.text.as_str() {
            "found unexpected ':'" if rest.starts_with(':') => Some(Self::Colon(at)),
            "found unknown escape character" if rest.starts_with("\\'") => Some(Self::Quote(at)),
            _ => None,
        }
    }

    fn carry_out(self, text: &mut String, stand_in: char) {
        match self {
            Self::Colon(at) => text.replace_range(at..=at, stand_in.encode_utf8(&mut [0; 4])),
            Self::Quote(at) => {
                let mut kept = String::new();
                let mut characters = text.get(at..).unwrap_or_default().chars();
                let mut length = 0;
                while let Some(character) = characters.next().filter(|character| *character != '"') {
                    let escaped = if character == '\\' { characters.next() } else { None };
                    length += character.len_utf8() + escaped.map_or(0, char::len_utf8);
                    if escaped != Some('\'') {
                        kept.push(character);
                    }
                    kept.extend(escaped);
                }
                text.replace_range(at..at + length, &kept);
            }
        }
    }
}

impl From<Problem> for YamlError {
    fn from(problem: Problem) -> Self {
        Self::Syntax { line: problem.line, problem: problem.text }
    }
}

/// An event, freed from the parser.
enum Step {
    Scalar { scalar: ScalarNode, anchor: Option<String> },
    List { anchor: Option<String>, at: u64 },
    Mapping { anchor: Option<String>, at: u64 },
    Alias(String),
    Close,
    End,
    Other,
}

struct ScalarNode {
    value: Scalar,
    /// Whether it is the merge key when it stands as a key.
    merge: bool,
    /// The text as read; kept only where equal texts are an error.
    spelled: Option<String>,
}

/// A finished node. Scalars keep their type because keys are spelled by it.
enum Built {
    Scalar(Scalar),
    Tree(Value),
}

impl Built {
    fn into_value(self, whole_floats: WholeFloats) -> Result<Value, YamlError> {
        match self {
            Self::Tree(value) => Ok(value),
            Self::Scalar(scalar) => scalar_value(scalar, whole_floats),
        }
    }
}

/// What an anchor names.
enum Anchored {
    /// The node it stands on is not finished.
    Open,
    Scalar(Scalar),
    Tree {
        value: Value,
        bytes: usize,
        /// Lists and mappings inside each other, the value itself included.
        levels: usize,
    },
}

/// A key of a mapping.
enum Key {
    Merge,
    Name(String),
}

/// What is put where an alias stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unfolding {
    /// A copy; so many bytes were copied.
    Copies { bytes: usize },
    /// What the copy would take is counted, and its names alone are copied: a merge asks for them.
    Measures,
    /// A copy, however long: all of them were measured.
    Measured,
}

/// What came of a document, what would have made the parser go on, and what is left of the memory.
type Read = (Result<Option<Value>, YamlError>, Option<Mend>, Memory);

struct Reader<'t> {
    events: Events<'t>,
    dialect: Dialect,
    whole_floats: WholeFloats,
    depth_max: usize,
    memory: Memory,
    anchors: BTreeMap<String, Anchored>,
    unfolding: Unfolding,
    text: &'t str,
    /// Whether the text contains `\/` at all, see [`has_slash_escape`].
    slashes: bool,
    /// Stands for a colon, see [`Mend`].
    stand_in: Option<char>,
    /// What would have made the parser go on.
    mend: Option<Mend>,
    /// The value of a document that begins with a key its parser lost, see [`Reader::root_key`].
    lost_key: Option<Value>,
}

impl<'t> Reader<'t> {
    /// Reads a document, and where it unfolds to much a second time.
    fn read(
        text: &'t str,
        dialect: Dialect,
        whole_floats: WholeFloats,
        depth_max: usize,
        memory: Memory,
        stand_in: Option<char>,
    ) -> Result<Read, YamlError> {
        let mut reader = Self::new(text, dialect, whole_floats, depth_max, memory)?;
        reader.stand_in = stand_in;
        let mut outcome = reader.document();
        // Of what was measured only the size is true.
        if reader.unfolding == Unfolding::Measures && !matches!(outcome, Err(YamlError::Memory { .. })) {
            reader = Self::new(text, dialect, whole_floats, depth_max, memory)?;
            (reader.stand_in, reader.unfolding) = (stand_in, Unfolding::Measured);
            outcome = reader.document();
        }
        Ok((outcome, reader.mend, reader.memory))
    }

    fn new(
        text: &'t str,
        dialect: Dialect,
        whole_floats: WholeFloats,
        depth_max: usize,
        memory: Memory,
    ) -> Result<Self, YamlError> {
        Ok(Self {
            events: Events::new(text)?,
            dialect,
            whole_floats,
            depth_max,
            memory,
            anchors: BTreeMap::new(),
            unfolding: Unfolding::Copies { bytes: 0 },
            text,
            slashes: text.contains("\\/"),
            stand_in: None,
            mend: None,
            lost_key: None,
        })
    }

    fn document(&mut self) -> Result<Option<Value>, YamlError> {
        loop {
            match self.step()? {
                Step::Other => {}
                Step::End => return Ok(None),
                step => {
                    let built = match (self.node(step, 0), self.lost_key.take()) {
                        (_, Some(value)) => return Ok(Some(value)),
                        (built, None) => built?,
                    };
                    // The end of the document is asked for because what stands before it may be wrong.
                    self.step()?;
                    return built.into_value(self.whole_floats).map(Some);
                }
            }
        }
    }

    fn step(&mut self) -> Result<Step, YamlError> {
        let owned = |anchor: Option<&str>| anchor.map(str::to_owned);
        let event = match self.events.next() {
            Ok(event) => event,
            Err(problem) => {
                self.mend = Mend::of(&problem, self.text);
                return Err(problem.into());
            }
        };
        Ok(match event {
            Event::StreamStart
            | Event::DocumentEnd
            | Event::DocumentStart { version: None | Some((1, 1)) } => Step::Other,
            Event::DocumentStart { .. } => return Err(YamlError::Version),
            Event::StreamEnd => Step::End,
            Event::SequenceStart { anchor, at } => Step::List { anchor: owned(anchor), at },
            Event::MappingStart { anchor, at } => Step::Mapping { anchor: owned(anchor), at },
            Event::SequenceEnd | Event::MappingEnd => Step::Close,
            Event::Alias { name } => Step::Alias(name.to_owned()),
            Event::Scalar(event) => {
                if event.double_quoted && self.slashes && has_slash_escape(slice(self.text, event.span)) {
                    return Err(YamlError::Escape);
                }
                let value = match self.stand_in {
                    Some(stand_in) => Cow::Owned(event.value.replace(stand_in, ":")),
                    None => Cow::Borrowed(event.value),
                };
                let scalar = ScalarNode {
                    value: resolve(self.dialect, event.tag, event.plain, &value)?,
                    merge: value == "<<" && (event.plain || event.tag == Some(MERGE_TAG)),
                    spelled: (self.dialect == Dialect::V3).then(|| value.into_owned()),
                };
                Step::Scalar { scalar, anchor: owned(event.anchor) }
            }
        })
    }

    /// Builds the node that begins with `step`.
    fn node(&mut self, step: Step, depth: usize) -> Result<Built, YamlError> {
        if let Step::List { at, .. } | Step::Mapping { at, .. } = &step
            && depth >= self.depth_max
        {
            return Err(YamlError::Depth { line: self.line(*at) });
        }
        match step {
            Step::Scalar { scalar, anchor } => {
                self.memory.text(text_bytes(&scalar.value))?;
                if let Some(anchor) = anchor {
                    self.memory.spend(ANCHOR.saturating_add(anchor.len()))?;
                    self.memory.text(text_bytes(&scalar.value))?;
                    self.anchors.insert(anchor, Anchored::Scalar(scalar.value.clone()));
                }
                Ok(Built::Scalar(scalar.value))
            }
            Step::List { anchor, .. } => self.anchored(anchor, |reader| reader.list(depth)),
            Step::Mapping { anchor, at } => self.anchored(anchor, |reader| match reader.dialect {
                Dialect::Sigs => reader.mapping(at, depth),
                Dialect::V3 => reader.strict_mapping(depth),
            }),
            Step::Alias(name) => self.alias(&name, depth),
            Step::Close | Step::End | Step::Other => {
                Err(YamlError::Syntax { line: 0, problem: "did not find expected node content".to_owned() })
            }
        }
    }

    fn anchored(
        &mut self,
        anchor: Option<String>,
        build: impl FnOnce(&mut Self) -> Result<Value, YamlError>,
    ) -> Result<Built, YamlError> {
        let Some(anchor) = anchor else { return build(self).map(Built::Tree) };
        self.memory.spend(ANCHOR.saturating_add(anchor.len()))?;
        self.anchors.insert(anchor.clone(), Anchored::Open);
        let before = self.memory.used();
        let value = build(self)?;
        // A node inside may have taken the name over.
        if matches!(self.anchors.get(&anchor), Some(Anchored::Open)) {
            // The copy that is kept costs as much as the tree, so nested anchors cannot multiply for free.
            let bytes = self.memory.used() - before;
            self.memory.spend(bytes)?;
            let levels = nesting::levels(&value);
            self.anchors.insert(anchor, Anchored::Tree { value: value.clone(), bytes, levels });
        }
        Ok(Built::Tree(value))
    }

    /// The line of a place, counted from 1.
    fn line(&self, at: u64) -> u64 {
        let before = slice(self.text, (0, at));
        before.bytes().filter(|byte| *byte == b'\n').count() as u64 + 1
    }

    fn alias(&mut self, name: &str, depth: usize) -> Result<Built, YamlError> {
        // What the copy takes is spent before it is made.
        match self.anchors.get(name) {
            None => Err(YamlError::UnknownAnchor(name.to_owned())),
            Some(Anchored::Open) => Err(YamlError::OpenAnchor(name.to_owned())),
            Some(Anchored::Scalar(scalar)) => {
                self.memory.text(text_bytes(scalar))?;
                Ok(Built::Scalar(scalar.clone()))
            }
            // Aliases in anchors nest without a bracket.
            Some(Anchored::Tree { levels, .. }) if depth + levels > self.depth_max => {
                Err(YamlError::Depth { line: 0 })
            }
            Some(Anchored::Tree { value, bytes, .. }) => {
                self.memory.spend(*bytes)?;
                if let Unfolding::Copies { bytes: copied } = &mut self.unfolding {
                    *copied = copied.saturating_add(*bytes);
                    if *copied > UNFOLDED_MAX {
                        self.unfolding = Unfolding::Measures;
                    }
                }
                Ok(Built::Tree(if self.unfolding == Unfolding::Measures {
                    names(value)
                } else {
                    value.clone()
                }))
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.step()? {
                Step::Close => return Ok(Value::Array(items)),
                step => {
                    self.memory.item(&items)?;
                    items.push(self.node(step, depth + 1)?.into_value(self.whole_floats)?);
                }
            }
        }
    }

    /// Builds a mapping in which the last of equal keys wins and a merge overwrites what stands before it.
    fn mapping(&mut self, start: u64, depth: usize) -> Result<Value, YamlError> {
        let mut members = Map::new();
        loop {
            let step = self.step()?;
            if matches!(step, Step::Close) {
                return Ok(Value::Object(members));
            }
            if depth == 0 && members.is_empty() {
                self.root_key(start, &step)?;
            }
            match self.key(step)? {
                Key::Merge => {
                    // Earlier sources win over later ones.
                    for (name, value) in self.merge_sources(depth)?.into_iter().rev().flatten() {
                        self.memory.member(members.len())?;
                        members.insert(name, value);
                    }
                }
                Key::Name(name) => {
                    self.memory.member(members.len())?;
                    let step = self.step()?;
                    let value = self.node(step, depth + 1)?.into_value(self.whole_floats)?;
                    members.insert(name, value);
                }
            }
        }
    }

    /// Builds a mapping in which keys spelled alike are an error and a merge only fills what is missing.
    fn strict_mapping(&mut self, depth: usize) -> Result<Value, YamlError> {
        let mut members = Map::new();
        let mut spelled = BTreeSet::new();
        let mut sources = Vec::new();
        loop {
            let step = self.step()?;
            let spelling = match &step {
                Step::Close => break,
                Step::Alias(name) => (true, name.clone()),
                Step::Scalar { scalar, .. } => (false, scalar.spelled.clone().unwrap_or_default()),
                _ => (false, String::new()),
            };
            match self.key(step)? {
                Key::Merge => sources = self.merge_sources(depth)?,
                Key::Name(name) => {
                    self.memory.member(members.len())?;
                    let step = self.step()?;
                    let value = self.node(step, depth + 1)?.into_value(self.whole_floats)?;
                    members.insert(name, value);
                }
            }
            self.memory.spend(SPELLED.saturating_add(spelling.1.len()))?;
            if let Some((_, twice)) = spelled.replace(spelling) {
                return Err(YamlError::DuplicateKey(twice));
            }
        }
        for (name, value) in sources.into_iter().flatten() {
            self.memory.member(members.len())?;
            members.entry(name).or_insert(value);
        }
        Ok(Value::Object(members))
    }

    /// Reads the first key of the document when it is one that the Go parsers lose track of.
    ///
    /// A list or mapping in brackets without a possible key inside (`[]`, `{}`, `{? a : b}`) is forgotten as a
    /// possible key when it is closed. The document then consists of it, and what follows is never looked at.
    /// Inside of a mapping in brackets of its own it is a key like any other.
    fn root_key(&mut self, mapping: u64, step: &Step) -> Result<(), YamlError> {
        let (at, open, close) = match step {
            Step::List { at, .. } if *at == mapping => (*at, "[", ']'),
            Step::Mapping { at, .. } if *at == mapping => (*at, "{", '}'),
            _ => return Ok(()),
        };
        let inside = slice(self.text, (at + 1, self.text.len() as u64));
        if slice(self.text, (at, at + 1)) == open
            && inside.trim_start_matches(BLANKS).starts_with([close, '?'])
        {
            let value = if open == "[" { self.list(1)? } else { self.mapping(at, 1)? };
            // What stands behind a comma can be a key.
            let entries = value.as_array().map(Vec::len).or_else(|| value.as_object().map(Map::len));
            self.lost_key = Some(value).filter(|_| entries <= Some(1));
            return Err(YamlError::Key("a list or mapping".to_owned()));
        }
        Ok(())
    }

    fn key(&mut self, step: Step) -> Result<Key, YamlError> {
        if let Step::Scalar { scalar: ScalarNode { merge: true, .. }, .. } = step {
            return Ok(Key::Merge);
        }
        match step {
            Step::List { .. } | Step::Mapping { .. } => Err(YamlError::Key("a list or mapping".to_owned())),
            step => match self.node(step, 0)? {
                Built::Scalar(scalar) => key_text(scalar, self.dialect).map(Key::Name),
                Built::Tree(_) => Err(YamlError::Key("a list or mapping".to_owned())),
            },
        }
    }

    /// Reads the value of a merge key: a mapping, or a list of mappings.
    fn merge_sources(&mut self, depth: usize) -> Result<Vec<Map<String, Value>>, YamlError> {
        let step = self.step()?;
        let listed = matches!(step, Step::List { .. });
        match self.node(step, depth + 1)? {
            Built::Tree(Value::Object(members)) => Ok(vec![members]),
            Built::Tree(Value::Array(items)) if listed => items
                .into_iter()
                .map(|item| match item {
                    Value::Object(members) => Ok(members),
                    _ => Err(YamlError::Merge),
                })
                .collect(),
            _ => Err(YamlError::Merge),
        }
    }
}

/// A value without what stands in it, but for the names of a mapping.
fn names(value: &Value) -> Value {
    match value {
        Value::Object(members) => members.keys().map(|name| (name.clone(), Value::Null)).collect(),
        _ => Value::Null,
    }
}

/// Whether quoted text uses the escape `\/`, which libyaml accepts and the libraries followed do not.
fn has_slash_escape(quoted: &str) -> bool {
    let mut escaped = false;
    quoted.chars().any(|character| {
        let found = escaped && character == '/';
        escaped = character == '\\' && !escaped;
        found
    })
}

/// The text between two positions of the parser.
fn slice(text: &str, (start, end): (u64, u64)) -> &str {
    let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    text.get(position(start)..position(end)).unwrap_or_default()
}

/// What an anchor takes beside what it names.
const ANCHOR: usize = 256;
/// What the spelling of a key takes beside its text.
const SPELLED: usize = 128;

/// Bytes of a scalar's text.
fn text_bytes(scalar: &Scalar) -> usize {
    match scalar {
        Scalar::Text(text) => text.len(),
        // Dates and numbers are short, also as keys.
        Scalar::Null | Scalar::Bool(_) => 8,
        Scalar::Int(_) | Scalar::Uint(_) | Scalar::Float(_) | Scalar::Time(_) => 32,
    }
}

/// Turns a scalar into a JSON value.
fn scalar_value(scalar: Scalar, whole_floats: WholeFloats) -> Result<Value, YamlError> {
    match scalar {
        Scalar::Null => Ok(Value::Null),
        Scalar::Bool(truth) => Ok(Value::Bool(truth)),
        Scalar::Int(integer) => Ok(Value::from(integer)),
        Scalar::Uint(integer) => Ok(Value::from(integer)),
        Scalar::Text(text) => Ok(Value::String(text)),
        Scalar::Time(time) => Ok(Value::String(time.rfc3339())),
        Scalar::Float(float) => {
            let spelled = number::json(float);
            match spelled.parse::<i64>() {
                Ok(integer)
                    if whole_floats == WholeFloats::ThroughJson
                        && (integer != 0 || float.is_sign_positive()) =>
                {
                    Ok(Value::from(integer))
                }
                _ => Number::from_f64(float).map(Value::Number).ok_or(YamlError::NotFinite),
            }
        }
    }
}

/// Spells a key as text.
fn key_text(scalar: Scalar, dialect: Dialect) -> Result<String, YamlError> {
    Ok(match scalar {
        Scalar::Text(text) => text,
        Scalar::Bool(truth) => truth.to_string(),
        Scalar::Int(integer) => integer.to_string(),
        Scalar::Time(time) => time.printed(),
        Scalar::Uint(integer) if dialect == Dialect::V3 => integer.to_string(),
        Scalar::Float(float) if dialect == Dialect::V3 => number::general(float),
        Scalar::Float(float) => match number::general_32(float).as_str() {
            "NaN" => ".nan".to_owned(),
            "+Inf" => ".inf".to_owned(),
            "-Inf" => "-.inf".to_owned(),
            plain => plain.to_owned(),
        },
        Scalar::Null => return Err(YamlError::Key("null".to_owned())),
        Scalar::Uint(integer) => return Err(YamlError::Key(integer.to_string())),
    })
}
