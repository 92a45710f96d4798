//! Answers in memory: counted until they were sent, and given up when the client does not read them (INV-10).

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use futures::Stream;
use futures::stream::BoxStream;
use http_body_util::BodyExt as _;
use hyper::body::Frame;
use parking_lot::Mutex;

use super::body::{Body, CutOff};
use super::budget::{Full, Permit};

/// Bytes that are handed to the connection at a time, as a copy: what is not read stays here, where it can be given up.
const PIECE_BYTES: usize = 64 << 10;
/// Time without progress after which an answer is given up.
const STALL_TIMEOUT: Duration = Duration::from_mins(1);
/// Bytes of an answer that is worth a timer of its own.
const WATCHED_MIN: usize = 16 << 10;

/// Frames of an answer.
pub(crate) type Frames = BoxStream<'static, Result<Frame<Bytes>, CutOff>>;

/// Makes the body of an answer whose bytes are counted.
pub(crate) struct Held {
    permit: Permit,
    kept: usize,
}

impl Held {
    /// An answer to the caller of a permit.
    pub(crate) fn new(permit: Permit) -> Self {
        Self { permit, kept: 0 }
    }

    /// Counts bytes that are kept until the end of the answer.
    ///
    /// # Errors
    /// When there is no room for them.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), Full> {
        self.permit.grow(bytes)?;
        self.kept = self.kept.saturating_add(bytes);
        Ok(())
    }

    /// The body: each frame is counted from when it is made until it is handed to the connection. A frame for which
    /// there is no room cuts the answer off.
    pub(crate) fn body(self, frames: Frames, is_long: bool) -> Body {
        let is_watched = is_long || self.kept >= WATCHED_MIN;
        let state = State {
            frames: Some(frames),
            current: Bytes::new(),
            permit: Some(self.permit),
            steps: 0,
            waits_for_frames: false,
            is_given_up: false,
        };
        let state = Arc::new(Mutex::new(state));
        if is_watched {
            tokio::spawn(give_up_when_stalled(Arc::downgrade(&state)));
        }
        HeldBody(state).boxed_unsync()
    }
}

struct State {
    frames: Option<Frames>,
    /// What is left of a frame that is larger than a piece.
    current: Bytes,
    permit: Option<Permit>,
    /// Frames that were handed out.
    steps: u64,
    /// Whether the answer itself has nothing to say at the moment.
    waits_for_frames: bool,
    is_given_up: bool,
}

impl State {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        if self.is_given_up {
            return Poll::Ready(Some(Err(CutOff)));
        }
        self.steps += 1;
        if !self.current.is_empty() {
            return Poll::Ready(Some(Ok(self.piece())));
        }
        let Some(frames) = &mut self.frames else { return Poll::Ready(None) };
        let next = Pin::new(frames).poll_next(context);
        self.waits_for_frames = next.is_pending();
        match std::task::ready!(next) {
            None => {
                (self.frames, self.permit) = (None, None);
                Poll::Ready(None)
            }
            Some(Err(cut)) => {
                (self.frames, self.permit) = (None, None);
                Poll::Ready(Some(Err(cut)))
            }
            Some(Ok(frame)) => match frame.into_data() {
                Err(trailers) => Poll::Ready(Some(Ok(trailers))),
                Ok(data) => Poll::Ready(Some(self.data(data))),
            },
        }
    }

    fn data(&mut self, data: Bytes) -> Result<Frame<Bytes>, CutOff> {
        let is_granted = self.permit.as_mut().is_none_or(|permit| permit.grow(data.len()).is_ok());
        if !is_granted {
            tracing::warn!(bytes = data.len(), "no room for an answer, which is cut off");
            self.give_up();
            return Err(CutOff);
        }
        self.current = data;
        Ok(self.piece())
    }

    /// The next piece of the current frame.
    fn piece(&mut self) -> Frame<Bytes> {
        let length = self.current.len().min(PIECE_BYTES);
        let piece = if length == self.current.len() && length < PIECE_BYTES / 4 {
            std::mem::take(&mut self.current)
        } else {
            let piece = Bytes::copy_from_slice(self.current.get(..length).unwrap_or_default());
            self.current.advance(length);
            piece
        };
        if self.current.is_empty() {
            // Nothing of a large frame stays behind an empty rest of it.
            self.current = Bytes::new();
        }
        if let Some(permit) = &mut self.permit {
            permit.shrink(length);
        }
        Frame::data(piece)
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.current = Bytes::new();
        (self.frames, self.permit) = (None, None);
    }
}

struct HeldBody(Arc<Mutex<State>>);

impl hyper::body::Body for HeldBody {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        self.0.lock().poll(context)
    }
}

/// Frees an answer whose reader takes nothing. One that waits for something to say is not stalled.
async fn give_up_when_stalled(state: Weak<Mutex<State>>) {
    let mut known = 0;
    loop {
        tokio::time::sleep(STALL_TIMEOUT).await;
        let Some(state) = state.upgrade() else { return };
        let mut state = state.lock();
        if state.permit.is_none() {
            return;
        }
        if state.steps == known && !state.waits_for_frames {
            tracing::debug!("an answer is not read and is given up");
            state.give_up();
            return;
        }
        known = state.steps;
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt as _;

    use super::*;
    use crate::http::budget::{Budget, CallerKey, Pool};

    fn held(budget: &Budget) -> Held {
        let caller = CallerKey::Account("a".into());
        Held::new(budget.permit(Pool::Small, caller).for_answer())
    }

    fn frames(sizes: &[usize]) -> Frames {
        let frames: Vec<_> = sizes.iter().map(|size| Ok(Frame::data(Bytes::from(vec![7; *size])))).collect();
        futures::stream::iter(frames).boxed()
    }

    async fn next(body: &mut Body) -> Option<Result<usize, CutOff>> {
        let frame = body.frame().await?;
        Some(frame.map(|frame| frame.into_data().map_or(0, |data| data.len())))
    }

    #[tokio::test(start_paused = true)]
    async fn inv_10_answers_are_counted_until_they_are_sent() {
        let budget = Budget::default();
        let mut held = held(&budget);
        held.keep(1_000_000).unwrap();
        let mut body = held.body(frames(&[100_000, 5]), false);
        assert_eq!(budget.used(Pool::Answers), 1_000_000);
        assert_eq!(next(&mut body).await, Some(Ok(65_536)));
        assert_eq!(budget.used(Pool::Answers), 1_000_000 + 100_000 - 65_536);
        assert_eq!(next(&mut body).await, Some(Ok(34_464)));
        assert_eq!(next(&mut body).await, Some(Ok(5)));
        assert_eq!(next(&mut body).await, None);
        assert_eq!(budget.used(Pool::Answers), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn inv_10_an_answer_that_is_not_read_is_given_up() {
        let budget = Budget::default();
        let mut held = held(&budget);
        held.keep(20_000_000).unwrap();
        let mut body = held.body(frames(&[20_000_000]), false);
        assert_eq!(next(&mut body).await, Some(Ok(65_536)));
        tokio::time::sleep(STALL_TIMEOUT * 3).await;
        assert_eq!(budget.used(Pool::Answers), 0);
        assert_eq!(next(&mut body).await, Some(Err(CutOff)));
    }

    /// A watch that has nothing to say is no stalled answer.
    #[tokio::test(start_paused = true)]
    async fn inv_10_a_stream_without_news_goes_on() {
        let budget = Budget::default();
        let (send, receive) = tokio::sync::mpsc::channel(1);
        let news =
            futures::stream::unfold(receive, |mut receive: tokio::sync::mpsc::Receiver<usize>| async {
                let size = receive.recv().await?;
                Some((Ok(Frame::data(Bytes::from(vec![7; size]))), receive))
            });
        let mut body = held(&budget).body(news.boxed(), true);
        let reading = tokio::spawn(async move { (next(&mut body).await, body) });
        tokio::time::sleep(STALL_TIMEOUT * 5).await;
        send.send(3).await.unwrap();
        let (first, _body) = reading.await.unwrap();
        assert_eq!(first, Some(Ok(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn inv_10_a_frame_without_room_cuts_the_answer_off() {
        let budget = Budget::default();
        let mut other = held(&budget);
        other.keep(40 << 20).unwrap();
        let mut body = held(&budget).body(frames(&[10, 20 << 20]), false);
        assert_eq!(next(&mut body).await, Some(Ok(10)));
        assert_eq!(next(&mut body).await, Some(Err(CutOff)));
        assert_eq!(budget.used(Pool::Answers), 40 << 20);
    }
}
