//! Bodies: reading them within bounds, and those that we answer with.

use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use tiphys_wire::status::Code;
use tokio::time::Instant;

use super::held::Frames;
use crate::call::{Pieces, Status};

/// The rest of an answer cannot be made. The connection or stream is cut, so that nobody takes a part for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rest of the answer cannot be made")]
pub struct CutOff;

/// A body that we answer with.
pub type Body = UnsyncBoxBody<Bytes, CutOff>;

/// Bytes of a file that are read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Time between two pieces of a body that is refused.
const DRAIN_PAUSE: Duration = Duration::from_millis(200);

/// No body.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body that is there.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Frames of pieces that are made while they are sent.
pub(crate) fn made(pieces: Pieces) -> Frames {
    let frames = futures::stream::unfold(Some(pieces), |pieces| async move {
        let mut pieces = pieces?;
        // A reader that keeps up must not keep the thread from everybody else.
        tokio::task::yield_now().await;
        match pieces.next()? {
            Ok(piece) => Some((Ok(Frame::data(piece)), Some(pieces))),
            Err(status) => {
                tracing::error!(%status, "an answer is cut off");
                Some((Err(CutOff), None))
            }
        }
    });
    Box::pin(frames)
}

/// The same where making it may fail.
pub(crate) fn fallible(frames: impl Stream<Item = Result<Frame<Bytes>, CutOff>> + Send + 'static) -> Body {
    StreamBody::new(frames).boxed_unsync()
}

/// A body that is made while it is sent.
pub fn frames(frames: impl Stream<Item = Frame<Bytes>> + Send + 'static) -> Body {
    use futures::StreamExt as _;
    StreamBody::new(frames.map(Ok::<_, CutOff>)).boxed_unsync()
}

/// The first bytes of a file, read while they are sent where reading holds nobody up. A file that becomes shorter than
/// that is cut off.
pub(crate) fn file(file: std::fs::File, length: u64) -> Body {
    let frames = futures::stream::unfold(Some((file, length)), |state| async move {
        let (file, left) = state?;
        if left == 0 {
            return None;
        }
        let reading = tokio::task::spawn_blocking(move || piece(file, left));
        match reading.await {
            Ok(Ok((piece, file))) => {
                let left = left.saturating_sub(piece.len() as u64);
                Some((Ok(Frame::data(piece)), Some((file, left))))
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "a file is cut off");
                Some((Err(CutOff), None))
            }
            Err(_ended) => Some((Err(CutOff), None)),
        }
    });
    StreamBody::new(frames).boxed_unsync()
}

fn piece(mut file: std::fs::File, left: u64) -> std::io::Result<(Bytes, std::fs::File)> {
    use std::io::Read as _;
    let mut piece = vec![0; usize::try_from(left).unwrap_or(PIECE_BYTES).min(PIECE_BYTES)];
    let read = file.read(&mut piece)?;
    if read == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    piece.truncate(read);
    Ok((piece.into(), file))
}

/// Takes the rest of a body of HTTP/1 that is refused, as far as its sender goes on: one that is still writing when the
/// connection is closed does not see the answer.
pub(crate) async fn drain(body: &mut Incoming, bytes_max: usize) {
    let mut left = bytes_max;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(DRAIN_PAUSE, body.frame()).await {
        let taken = frame.data_ref().map_or(0, Bytes::len);
        let Some(rest) = left.checked_sub(taken) else { return };
        left = rest;
    }
}

/// The next piece of a body that arrives; `None` at its end.
///
/// # Errors
/// When it does not come in time, or the sender is gone.
pub(crate) async fn next(body: &mut Incoming, deadline: Instant) -> Result<Option<Bytes>, Status> {
    loop {
        match tokio::time::timeout_at(deadline, body.frame()).await {
            Err(_elapsed) => {
                return Err(Status::new(Code::Canceled, "the request did not arrive in time"));
            }
            Ok(None) => return Ok(None),
            Ok(Some(Err(_gone))) => return Err(Status::new(Code::Canceled, "the request was cut off")),
            Ok(Some(Ok(frame))) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}
