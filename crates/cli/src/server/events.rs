//! Streams of a server: one JSON value a line.

use serde_json::Value;

use super::{Api, Ask};
use crate::failure::Failure;

/// A stream that is being read.
pub(crate) struct Events {
    answer: reqwest::Response,
    /// What came and is no whole line yet.
    rest: Vec<u8>,
    /// Bytes of one value.
    bytes_max: usize,
}

impl Api {
    /// Begins to read a stream.
    pub(crate) async fn events(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Events, Failure> {
        let ask = Ask { method: &reqwest::Method::GET, path, query, body: None };
        Ok(Events {
            answer: self.send(&ask, None).await?,
            rest: Vec::new(),
            bytes_max: self.answer_bytes_max,
        })
    }
}

impl Events {
    /// The next value; `None` when the stream ended.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, Failure> {
        let ended = |why: String| Failure::status("Unavailable", format!("the stream ended: {why}"));
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return read(&line).map(Some);
            }
            if self.rest.len() > self.bytes_max {
                return Err(ended(format!("a value has more than {} bytes", self.bytes_max)));
            }
            match self.answer.chunk().await {
                Ok(Some(chunk)) => self.rest.extend_from_slice(&chunk),
                Ok(None) => return Ok(None),
                Err(error) => return Err(ended(tiphys_cluster::error_chain(&error.without_url()))),
            }
        }
    }
}

/// One line: a result, or why there are no more of them.
fn read(line: &[u8]) -> Result<Value, Failure> {
    let value: Value = serde_json::from_slice(line)
        .map_err(|_invalid| Failure::status("Internal", "the stream holds something that is no JSON"))?;
    match (value.get("result"), value.get("error")) {
        (Some(result), _) => Ok(result.clone()),
        (None, Some(error)) => {
            let text = error.get("message").and_then(Value::as_str).unwrap_or_default();
            let code = ["grpc_code", "code"].iter().find_map(|name| error.get(name).and_then(Value::as_u64));
            let code = code.and_then(|code| super::CODES.get(usize::try_from(code).ok()?));
            Err(super::of_code(code.unwrap_or(&"Unknown"), text))
        }
        (None, None) => Err(Failure::status("Internal", "the stream holds something that is no result")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cli_9_a_stream_ends_with_the_words_of_the_server() {
        assert_eq!(read(br#"{"result":{"type":"ADDED"}}"#).unwrap()["type"], "ADDED");
        let failure = read(br#"{"error":{"grpc_code":7,"message":"permission denied"}}"#).unwrap_err();
        assert_eq!(failure.message, "rpc error: code = PermissionDenied desc = permission denied");
        for bad in ["{}", "x"] {
            assert!(read(bad.as_bytes()).unwrap_err().message.contains("code = Internal"));
        }
    }
}
