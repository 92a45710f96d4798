//! The messages of the protocol (RND-128), by hand: chunks of files are no values.

use std::convert::Infallible;

use serde_json::{Map, Value};
use tiphys_wire::proto::reader::{Raw, WireError, fields};
use tiphys_wire::proto::writer;

/// The service.
pub const SERVICE: &str = "/plugin.ConfigManagementPluginService/";
/// Names of its methods.
pub const GENERATE: &str = "GenerateManifest";
/// Says how a plugin is set up.
pub const CHECK: &str = "CheckPluginConfiguration";
/// Says whether files are a plugin's.
pub const MATCH: &str = "MatchRepository";
/// Says which parameters a plugin has.
pub const PARAMETERS: &str = "GetParametersAnnouncement";

/// Entries of lists and maps in one message that are read.
const ENTRIES_MAX: usize = 200_000;

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// They are no message at all.
    #[error("{0}")]
    Wire(#[from] WireError),
    /// A text is none.
    #[error("a text is no UTF-8")]
    Text,
    /// A field has another type.
    #[error("field {0} has another type")]
    Type(u32),
    /// There are too many entries.
    #[error("the message has more than {ENTRIES_MAX} entries")]
    TooMany,
}

/// What comes before files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Name of the directory of the source.
    pub app_name: String,
    /// That directory, relative to what is sent.
    pub app_rel_path: String,
    /// SHA-256 of the packed files, in hex.
    pub checksum: String,
    /// Bytes of the packed files.
    pub size: u64,
    /// Variables for commands.
    pub env: Vec<(String, String)>,
}

/// One message of a stream of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRequest<'a> {
    /// The first.
    Metadata(Metadata),
    /// A piece of the packed files.
    Chunk(&'a [u8]),
    /// Neither.
    Nothing,
}

fn never<T>(result: Result<T, Infallible>) -> T {
    match result {
        Ok(value) => value,
    }
}

impl Metadata {
    /// As a message of the stream.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        never(writer::nested(&mut out, 1, |out| {
            for (number, text) in [(1, &self.app_name), (2, &self.app_rel_path), (3, &self.checksum)] {
                if !text.is_empty() {
                    writer::bytes(out, number, text.as_bytes());
                }
            }
            if self.size != 0 {
                writer::number(out, 4, self.size);
            }
            for (name, value) in &self.env {
                writer::nested(out, 5, |out| {
                    writer::bytes(out, 1, name.as_bytes());
                    writer::bytes(out, 2, value.as_bytes());
                    Ok::<(), Infallible>(())
                })?;
            }
            Ok(())
        }));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut found = Self::default();
        for field in fields(bytes) {
            match field? {
                (1, raw) => found.app_name = text(1, raw)?,
                (2, raw) => found.app_rel_path = text(2, raw)?,
                (3, raw) => found.checksum = text(3, raw)?,
                (4, raw) => found.size = number(4, raw)?,
                (5, raw) => {
                    if found.env.len() >= ENTRIES_MAX {
                        return Err(MessageError::TooMany);
                    }
                    found.env.push(pair(raw)?);
                }
                _ => {}
            }
        }
        Ok(found)
    }
}

/// A piece of packed files as a message of the stream.
pub fn chunk(out: &mut Vec<u8>, piece: &[u8]) {
    never(writer::nested(out, 2, |out| {
        writer::bytes(out, 1, piece);
        Ok(())
    }));
}

/// Reads a message of a stream of requests.
///
/// # Errors
/// When it is none.
pub fn stream_request(bytes: &[u8]) -> Result<StreamRequest<'_>, MessageError> {
    let mut found = StreamRequest::Nothing;
    for field in fields(bytes) {
        match field? {
            (1, Raw::Bytes(inner)) => found = StreamRequest::Metadata(Metadata::decode(inner)?),
            (2, Raw::Bytes(inner)) => {
                found = StreamRequest::Chunk(&[]);
                for field in fields(inner) {
                    if let (1, Raw::Bytes(piece)) = field? {
                        found = StreamRequest::Chunk(piece);
                    }
                }
            }
            (number @ (1 | 2), _) => return Err(MessageError::Type(number)),
            _ => {}
        }
    }
    Ok(found)
}

/// What a plugin made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifests {
    /// Each of them, as YAML or JSON.
    pub manifests: Vec<String>,
    /// What the plugin calls itself.
    pub source_type: String,
}

impl Manifests {
    /// As a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for manifest in &self.manifests {
            writer::bytes(&mut out, 1, manifest.as_bytes());
        }
        if !self.source_type.is_empty() {
            writer::bytes(&mut out, 2, self.source_type.as_bytes());
        }
        out
    }

    /// All manifests of a message as one stream of documents.
    ///
    /// # Errors
    /// When it is no such message.
    pub fn joined(bytes: &[u8]) -> Result<String, MessageError> {
        let mut out = String::with_capacity(bytes.len());
        for field in fields(bytes) {
            if let (1, raw) = field? {
                let Raw::Bytes(manifest) = raw else { return Err(MessageError::Type(1)) };
                let manifest = std::str::from_utf8(manifest).map_err(|_not_text| MessageError::Text)?;
                out.push_str("---\n");
                out.push_str(manifest);
                if !manifest.ends_with('\n') {
                    out.push('\n');
                }
            }
        }
        Ok(out)
    }
}

/// Two answers of yes or no: each of the other answers of the protocol is that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// The first field: discovery is configured, or the files are supported.
    pub first: bool,
    /// The second field: credentials are wanted, or discovery is configured.
    pub second: bool,
}

impl Flags {
    /// As a message.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, flag) in [(1, self.first), (2, self.second)] {
            if flag {
                writer::number(&mut out, number, 1);
            }
        }
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let mut found = Self::default();
        for field in fields(bytes) {
            match field? {
                (1, raw) => found.first = number(1, raw)? != 0,
                (2, raw) => found.second = number(2, raw)? != 0,
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Texts of an announcement, by their number.
const ANNOUNCED_TEXTS: [(u32, &str); 6] =
    [(1, "name"), (2, "title"), (3, "tooltip"), (5, "itemType"), (6, "collectionType"), (7, "string")];

/// Writes announcements (RND-136), each an object as in JSON.
pub fn encode_announcements(announcements: &[Value]) -> Vec<u8> {
    let mut out = Vec::new();
    for one in announcements {
        never(writer::nested(&mut out, 1, |out| {
            let text = |name: &str| one.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
            for (number, name) in ANNOUNCED_TEXTS.into_iter().filter(|(number, _)| *number < 4) {
                if let Some(text) = text(name) {
                    writer::bytes(out, number, text.as_bytes());
                }
            }
            if one.get("required").and_then(Value::as_bool).unwrap_or_default() {
                writer::number(out, 4, 1);
            }
            for (number, name) in ANNOUNCED_TEXTS.into_iter().filter(|(number, _)| *number > 4) {
                if let Some(text) = text(name) {
                    writer::bytes(out, number, text.as_bytes());
                }
            }
            for item in one.get("array").and_then(Value::as_array).into_iter().flatten() {
                writer::bytes(out, 8, item.as_str().unwrap_or_default().as_bytes());
            }
            for (key, value) in one.get("map").and_then(Value::as_object).into_iter().flatten() {
                writer::nested(out, 9, |out| {
                    writer::bytes(out, 1, key.as_bytes());
                    writer::bytes(out, 2, value.as_str().unwrap_or_default().as_bytes());
                    Ok::<(), Infallible>(())
                })?;
            }
            Ok(())
        }));
    }
    out
}

/// Reads announcements, each as an object of JSON.
///
/// # Errors
/// When it is no such message.
pub fn announcements(bytes: &[u8]) -> Result<Vec<Value>, MessageError> {
    let mut found = Vec::new();
    let mut left = ENTRIES_MAX;
    let mut spend = || {
        left = left.checked_sub(1).ok_or(MessageError::TooMany)?;
        Ok::<(), MessageError>(())
    };
    for field in fields(bytes) {
        let (1, raw) = field? else { continue };
        let Raw::Bytes(inner) = raw else { return Err(MessageError::Type(1)) };
        spend()?;
        let mut one = Map::new();
        let (mut array, mut map) = (Vec::new(), Map::new());
        for field in fields(inner) {
            match field? {
                (4, raw) => {
                    one.insert("required".to_owned(), (number(4, raw)? != 0).into());
                }
                (8, raw) => {
                    spend()?;
                    array.push(Value::from(text(8, raw)?));
                }
                (9, raw) => {
                    spend()?;
                    let (key, value) = pair(raw)?;
                    map.insert(key, value.into());
                }
                (at, raw) => {
                    if let Some((_, name)) = ANNOUNCED_TEXTS.iter().find(|(number, _)| *number == at) {
                        one.insert((*name).to_owned(), text(at, raw)?.into());
                    }
                }
            }
        }
        if !array.is_empty() {
            one.insert("array".to_owned(), array.into());
        }
        if !map.is_empty() {
            one.insert("map".to_owned(), map.into());
        }
        found.push(Value::Object(one));
    }
    Ok(found)
}

fn text(field: u32, raw: Raw<'_>) -> Result<String, MessageError> {
    let Raw::Bytes(bytes) = raw else { return Err(MessageError::Type(field)) };
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_not_text| MessageError::Text)
}

fn number(field: u32, raw: Raw<'_>) -> Result<u64, MessageError> {
    match raw {
        Raw::Varint(value) => Ok(value),
        Raw::Bytes(_) | Raw::Other => Err(MessageError::Type(field)),
    }
}

/// A message with two texts: an entry of a map, or a variable.
fn pair(raw: Raw<'_>) -> Result<(String, String), MessageError> {
    let Raw::Bytes(bytes) = raw else { return Err(MessageError::Type(0)) };
    let mut found = (String::new(), String::new());
    for field in fields(bytes) {
        match field? {
            (1, raw) => found.0 = text(1, raw)?,
            (2, raw) => found.1 = text(2, raw)?,
            _ => {}
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rnd_128_messages_are_read_as_written() {
        let metadata = Metadata {
            app_name: "a".to_owned(),
            app_rel_path: "apps/a".to_owned(),
            checksum: "ff".to_owned(),
            size: 300,
            env: vec![("A".to_owned(), "1".to_owned()), ("EMPTY".to_owned(), String::new())],
        };
        let bytes = metadata.encode();
        assert_eq!(stream_request(&bytes), Ok(StreamRequest::Metadata(metadata)));
        let mut bytes = Vec::new();
        chunk(&mut bytes, b"piece");
        assert_eq!(bytes, b"\x12\x07\x0a\x05piece", "the numbers of the protocol");
        assert_eq!(stream_request(&bytes), Ok(StreamRequest::Chunk(b"piece")));
        assert_eq!(stream_request(b""), Ok(StreamRequest::Nothing));
        let made = Manifests { manifests: vec!["a: 1".into(), "{}\n".into()], source_type: "p".into() };
        assert_eq!(Manifests::joined(&made.encode()).unwrap(), "---\na: 1\n---\n{}\n");
        for (first, second) in [(false, false), (true, false), (false, true), (true, true)] {
            let flags = Flags { first, second };
            assert_eq!(Flags::decode(&flags.encode()), Ok(flags));
        }
    }

    #[test]
    fn rnd_136_announcements_are_read_as_written() {
        let all = vec![
            json!({"name": "n", "title": "t", "tooltip": "u", "required": true, "itemType": "number",
                "collectionType": "map", "string": "s", "array": ["a", ""], "map": {"k": "v"}}),
            json!({"name": "m"}),
        ];
        assert_eq!(announcements(&encode_announcements(&all)).unwrap(), all);
    }

    /// SEC-07: whatever comes is an answer or an error.
    #[test]
    fn sec_07_bytes_that_are_no_message_are_an_error() {
        assert!(stream_request(b"\x0a\xff\xff\xff\xff\x7f").is_err());
        assert_eq!(stream_request(b"\x08\x01"), Err(MessageError::Type(1)));
        assert_eq!(Manifests::joined(b"\x0a\x01\xff"), Err(MessageError::Text));
        assert!(Flags::decode(b"\x0a\x01a").is_err());
        let many: Vec<u8> = std::iter::repeat_n([0x0a, 0x00], ENTRIES_MAX + 1).flatten().collect();
        assert_eq!(announcements(&many), Err(MessageError::TooMany));
    }
}
