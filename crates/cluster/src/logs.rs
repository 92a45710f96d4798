//! The log of a pod's container, line by line (API-149, API-150).

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use kube::client::Body;

use crate::connection::{Call, Connection, StreamSlot, encode};
use crate::error::ApiError;
use crate::watch::OPEN_TIMEOUT;

/// Bytes of one line; a longer one comes in pieces.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Which lines of which container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogQuery {
    /// The container; of a pod with one it need not be named.
    pub container: String,
    /// No line older than so many seconds; zero is all.
    pub since_seconds: i64,
    /// No line older than this, in RFC 3339; empty is all.
    pub since_time: String,
    /// The last lines alone; zero is all.
    pub tail_lines: i64,
    /// Whether new lines are waited for.
    pub follow: bool,
    /// Whether it is the log of the container that ran before.
    pub previous: bool,
}

impl LogQuery {
    fn target(&self, namespace: &str, pod: &str) -> String {
        let mut target =
            format!("/api/v1/namespaces/{}/pods/{}/log?timestamps=true", encode(namespace), encode(pod));
        let mut put = |name: &str, value: &str| {
            for piece in ["&", name, "=", &encode(value)] {
                target.push_str(piece);
            }
        };
        if !self.container.is_empty() {
            put("container", &self.container);
        }
        if self.since_seconds > 0 {
            put("sinceSeconds", &self.since_seconds.to_string());
        }
        if !self.since_time.is_empty() {
            put("sinceTime", &self.since_time);
        }
        if self.tail_lines > 0 {
            put("tailLines", &self.tail_lines.to_string());
        }
        for (name, is_set) in [("follow", self.follow), ("previous", self.previous)] {
            if is_set {
                put(name, "true");
            }
        }
        target
    }
}

/// A log that is being read. Dropping it ends the reading.
pub struct LogLines {
    body: Body,
    partial: BytesMut,
    is_over: bool,
    connection: Connection,
    _slot: StreamSlot,
}

impl std::fmt::Debug for LogLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogLines")
    }
}

impl Connection {
    /// Begins to read the log of a pod; every line begins with its time.
    ///
    /// # Errors
    /// When the server refuses or does not answer.
    pub async fn log(&self, namespace: &str, pod: &str, query: &LogQuery) -> Result<LogLines, ApiError> {
        let slot = self.stream_slot().map_err(|error| ApiError::Unreachable { reason: error.to_string() })?;
        let call =
            Call { accept: "*/*", ..Call::get("read a log", query.target(namespace, pod), OPEN_TIMEOUT) };
        let body = self.open_stream(&slot, &call).await?;
        let connection = self.clone();
        Ok(LogLines { body, partial: BytesMut::new(), is_over: false, connection, _slot: slot })
    }
}

impl LogLines {
    /// The next line, without its end; `None` when there are no more.
    ///
    /// # Errors
    /// When the connection ends early, or its server answers nobody any more.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        loop {
            if let Some(at) = memchr::memchr(b'\n', &self.partial) {
                let mut line = self.partial.split_to(at + 1);
                line.truncate(at);
                return Ok(Some(line.freeze()));
            }
            if self.partial.len() >= LINE_BYTES_MAX {
                return Ok(Some(self.partial.split_to(LINE_BYTES_MAX).freeze()));
            }
            if self.is_over {
                let rest = std::mem::take(&mut self.partial);
                return Ok(Some(rest.freeze()).filter(|rest| !rest.is_empty()));
            }
            let frame = tokio::select! {
                biased;
                frame = self.body.frame() => frame,
                reason = self.connection.lost() => return Err(ApiError::Unreachable { reason }),
            };
            match frame {
                None => self.is_over = true,
                Some(Err(error)) => return Err(ApiError::unreachable(&error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.partial.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_150_a_query_says_only_what_was_asked_for() {
        let path = "/api/v1/namespaces/a/pods/b/log?timestamps=true";
        assert_eq!(LogQuery::default().target("a", "b"), path);
        let all = LogQuery {
            container: "c&d".to_owned(),
            since_seconds: 5,
            since_time: "2026-01-01T00:00:00Z".to_owned(),
            tail_lines: 3,
            follow: true,
            previous: true,
        };
        assert_eq!(
            all.target("a", "b"),
            format!(
                "{path}&container=c%26d&sinceSeconds=5&sinceTime=2026-01-01T00%3A00%3A00Z&tailLines=3&follow=true\
                 &previous=true"
            )
        );
        let none = LogQuery { since_seconds: -1, tail_lines: -1, ..LogQuery::default() };
        assert_eq!(none.target("a", "b"), path);
    }
}
