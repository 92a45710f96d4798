//! Watches on their way to a controller: events that are lost, doubled or late, and ends with 410.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use tokio::time::Instant;

use super::wire::{Body, Error, Wires};

const GONE: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}}"#;

struct Watching<B> {
    wires: Arc<Wires>,
    inner: B,
    /// What is on its way, and when it arrives.
    held: VecDeque<(Instant, Bytes)>,
    has_ended: bool,
    partial: BytesMut,
    /// The list that a streaming watch begins with; lists arrive whole or not at all.
    is_initial: bool,
    /// Lists of this kind are asked to be empty once.
    kind: String,
    is_over: bool,
}

/// A watch with the faults of the run.
pub(super) fn body<B>(wires: Arc<Wires>, inner: B, path: &str, is_initial: bool) -> Body
where
    B: hyper::body::Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Into<Error>,
{
    let kind = path.rsplit('/').next().unwrap_or_default().to_owned();
    let watching = Watching {
        wires,
        inner,
        held: VecDeque::new(),
        has_ended: false,
        partial: BytesMut::new(),
        is_initial,
        kind,
        is_over: false,
    };
    let frames = futures::stream::unfold(watching, |mut watching| async move {
        let bytes = watching.next().await?;
        Some((bytes.map(Frame::data), watching))
    });
    StreamBody::new(frames.boxed()).boxed_unsync()
}

/// Waits until what is held is due; for ever when nothing is.
async fn arrival(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl<B> Watching<B>
where
    B: hyper::body::Body<Data = Bytes> + Unpin,
    B::Error: Into<Error>,
{
    async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        loop {
            if self.is_over || (self.has_ended && self.held.is_empty()) {
                return None;
            }
            let due = self.held.front().map(|(due, _)| *due);
            // Both branches are cancel-safe: a frame that is not there yet stays in the body.
            let data = tokio::select! {
                biased;
                () = arrival(due) => self.held.pop_front().map(|(_, data)| data).unwrap_or_default(),
                frame = self.inner.frame(), if !self.has_ended => {
                    match frame {
                        None => self.has_ended = true,
                        Some(Ok(frame)) => {
                            let due = Instant::now() + self.wires.state.lock().faults.watch_delay;
                            self.held.push_back((due, frame.into_data().unwrap_or_default()));
                        }
                        Some(Err(error)) => return Some(Err(error.into())),
                    }
                    continue;
                }
            };
            self.partial.extend_from_slice(&data);
            let passed = self.lines();
            if !passed.is_empty() {
                return Some(Ok(passed));
            }
        }
    }

    /// What gets through of the complete lines.
    fn lines(&mut self) -> Bytes {
        let mut passed = BytesMut::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line = self.partial.split_to(end + 1);
            if self.is_initial {
                self.listed(&line, &mut passed);
            } else if !self.event(&line, &mut passed) {
                break;
            }
        }
        passed.freeze()
    }

    fn listed(&mut self, line: &[u8], passed: &mut BytesMut) {
        let is_end = line.windows(24).any(|part| part == b"k8s.io/initial-events-en");
        let mut state = self.wires.state.lock();
        let is_emptied = state.faults.emptied.as_deref() == Some(self.kind.as_str());
        if is_end {
            self.is_initial = false;
            if is_emptied {
                state.faults.emptied = None;
            }
        } else if is_emptied {
            return;
        }
        passed.extend_from_slice(line);
    }

    /// One event; `false` ends the watch.
    fn event(&mut self, line: &[u8], passed: &mut BytesMut) -> bool {
        let mut state = self.wires.state.lock();
        let faults = state.faults.clone();
        if state.chance.permille(faults.gone) {
            passed.extend_from_slice(GONE.as_bytes());
            passed.extend_from_slice(b"\n");
            self.is_over = true;
            return false;
        }
        let is_bookmark = line.windows(8).any(|part| part == b"BOOKMARK");
        if !is_bookmark && state.chance.permille(faults.lost_event) {
            return true;
        }
        passed.extend_from_slice(line);
        if state.chance.permille(faults.double_event) {
            passed.extend_from_slice(line);
        }
        true
    }
}
