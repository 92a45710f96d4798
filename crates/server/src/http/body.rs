//! Bodies: reading them within bounds, and those that we answer with.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::Stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use tiphys_wire::status::Code;

use crate::call::{Pieces, Status};

/// The rest of an answer cannot be made. The connection or stream is cut, so that nobody takes a part for the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rest of the answer cannot be made")]
pub struct CutOff;

/// A body that we answer with.
pub type Body = UnsyncBoxBody<Bytes, CutOff>;

/// Bytes of a file that are read at a time.
const PIECE_BYTES: usize = 64 << 10;
/// Time between two pieces of a body.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// No body.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body that is there.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body in pieces that are there.
pub fn pieces(pieces: Vec<Bytes>) -> Body {
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
    StreamBody::new(futures::stream::iter(frames)).boxed_unsync()
}

/// A body whose pieces are made while it is sent.
pub(crate) fn made(pieces: Pieces) -> Body {
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
    StreamBody::new(frames).boxed_unsync()
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

/// The next piece of a body that arrives; `None` at its end.
///
/// # Errors
/// When it does not come, or the sender is gone.
pub(crate) async fn next(body: &mut Incoming) -> Result<Option<Bytes>, Status> {
    loop {
        match tokio::time::timeout(STALL_TIMEOUT, body.frame()).await {
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

/// A whole body of at most so many bytes.
///
/// # Errors
/// When it is larger, or does not come.
pub(crate) async fn read(body: &mut Incoming, bytes_max: usize) -> Result<Bytes, Status> {
    let Some(first) = next(body).await? else { return Ok(Bytes::new()) };
    let mut whole = BytesMut::new();
    let mut piece = Some(first);
    while let Some(bytes) = piece {
        if whole.len().saturating_add(bytes.len()) > bytes_max {
            let text = format!("the request is larger than {bytes_max} bytes");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        piece = next(body).await?;
        if piece.is_none() && whole.is_empty() {
            return Ok(bytes);
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.freeze())
}
