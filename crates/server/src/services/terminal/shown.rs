//! What a browser is sent of a program's output: text, whole characters at a time (API-192, API-193).

use serde::Deserialize;
use serde_json::json;

/// What a browser sends.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct Frame {
    /// `stdin` or `resize`.
    pub(super) operation: String,
    /// What is typed.
    pub(super) data: String,
    /// Lines.
    pub(super) rows: u16,
    /// Characters in a line.
    pub(super) cols: u16,
}

/// The frame that shows a text.
pub(super) fn stdout(text: &str) -> String {
    json!({"operation": "stdout", "data": text}).to_string()
}

/// The frame that makes a browser connect again.
pub(super) fn reconnect() -> String {
    json!({"Code": 1}).to_string()
}

/// Bytes that become text as they come: a character may come in two pieces.
#[derive(Debug, Default)]
pub(super) struct Characters(Vec<u8>);

impl Characters {
    /// The text of all that has come; what may be the beginning of a character waits for its rest.
    pub(super) fn take(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let waits = begun(&self.0);
        let rest = self.0.split_off(self.0.len() - waits);
        let text = String::from_utf8_lossy(&self.0).into_owned();
        self.0 = rest;
        text
    }
}

/// How many bytes at the end are the beginning of a character: three at most.
fn begun(bytes: &[u8]) -> usize {
    let last = bytes.rchunks(3).next().unwrap_or_default();
    (1..=last.len())
        .find(|count| {
            let tail = last.get(last.len() - count..).unwrap_or_default();
            matches!(std::str::from_utf8(tail), Err(error) if error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_193_characters_that_come_in_pieces_are_whole() {
        let text = "héllo → 😀 ok";
        for size in 1..6 {
            let mut characters = Characters::default();
            let pieces: Vec<String> =
                text.as_bytes().chunks(size).map(|piece| characters.take(piece)).collect();
            assert_eq!(pieces.concat(), text, "{size}");
        }
    }

    #[test]
    fn api_193_what_is_no_text_is_shown_as_such_and_holds_nothing_up() {
        let mut characters = Characters::default();
        assert_eq!(characters.take(b"a\xff\xfeb"), "a\u{fffd}\u{fffd}b");
        assert_eq!(characters.take(b"\xe2\x82"), "");
        assert_eq!(characters.take(b"x"), "\u{fffd}x");
        assert_eq!(characters.take(b"\x80\x80"), "\u{fffd}\u{fffd}");
        assert_eq!(characters.take(b""), "");
    }

    #[test]
    fn api_192_frames_have_the_names_of_the_reference() {
        let frame: Frame = serde_json::from_str(r#"{"operation":"resize","rows":24,"cols":80}"#).unwrap();
        assert_eq!((frame.operation.as_str(), frame.rows, frame.cols), ("resize", 24, 80));
        assert_eq!(stdout("a\"b"), r#"{"data":"a\"b","operation":"stdout"}"#);
        assert_eq!(reconnect(), r#"{"Code":1}"#);
    }
}
