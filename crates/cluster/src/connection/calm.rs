//! A socket that is read about fifty times a second once it delivers little and often.
//!
//! A busy cluster sends hundreds of small watch events a second, and each costs a wake-up, a system call and
//! a decryption, several times what reading the event costs. After a burst of small reads the next read waits
//! for a moment, so that events arrive together. Large reads and the first ones after silence are immediate.

use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::{Connected, Connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Time between two reads of a socket that has used up its burst.
const PAUSE: Duration = Duration::from_millis(25);
/// Small reads without a pause. Covers the start of an index.
const BURST_READS: u32 = 200;
/// Time in which one of them is earned back.
const CREDIT_PERIOD: Duration = Duration::from_millis(100);
/// A read of so many bytes is part of a list, which nothing may slow down.
const LARGE_READ_BYTES: usize = 4096;

/// A connection whose small reads are paced.
pub(super) struct Calm<T> {
    inner: T,
    /// Small reads that are left before pauses begin.
    credit: u32,
    /// Up to when credit was given.
    credited_at: Instant,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<T> Calm<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, credit: BURST_READS, credited_at: Instant::now(), pause: None }
    }

    /// Accounts for a read and plans a pause when there was too much of them.
    fn account(&mut self, bytes: usize) {
        if bytes >= LARGE_READ_BYTES {
            // The small reads between those of a list belong to it.
            self.credit = self.credit.saturating_add(1).min(BURST_READS);
            return;
        }
        let now = Instant::now();
        let elapsed = now.duration_since(self.credited_at);
        let earned = u32::try_from(elapsed.as_millis() / CREDIT_PERIOD.as_millis()).unwrap_or(BURST_READS);
        if earned > 0 {
            self.credit = self.credit.saturating_add(earned).min(BURST_READS);
            self.credited_at = now;
        }
        match self.credit.checked_sub(1) {
            Some(left) => self.credit = left,
            None => self.pause = Some(Box::pin(tokio::time::sleep(PAUSE))),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Calm<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if let Some(pause) = &mut self.pause {
            std::task::ready!(pause.as_mut().poll(cx));
            self.pause = None;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(cx, buffer);
        let bytes = buffer.filled().len().saturating_sub(before);
        if polled.is_ready() && bytes > 0 {
            self.account(bytes);
        }
        polled
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Calm<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }
}

impl<T: Connection> Connection for Calm<T> {
    fn connected(&self) -> Connected {
        self.inner.connected()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn b16_small_reads_are_paced_after_a_burst() {
        let (mut server, client) = tokio::io::duplex(1 << 16);
        let mut client = Calm::new(client);
        let mut buffer = [0_u8; 64];
        let begun = Instant::now();
        for _ in 0..BURST_READS {
            server.write_all(b"x").await.unwrap();
            client.read_exact(&mut buffer[..1]).await.unwrap();
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
        for _ in 0..3 {
            server.write_all(b"x").await.unwrap();
            client.read_exact(&mut buffer[..1]).await.unwrap();
        }
        assert!(begun.elapsed() >= PAUSE * 2, "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn b6_the_small_reads_of_a_list_are_not_paced() {
        let (mut server, client) = tokio::io::duplex(1 << 16);
        let mut client = Calm::new(client);
        let mut buffer = [0_u8; LARGE_READ_BYTES];
        let begun = Instant::now();
        for _ in 0..2 * BURST_READS {
            for bytes in [LARGE_READ_BYTES, 1] {
                server.write_all(&buffer[..bytes]).await.unwrap();
                client.read_exact(&mut buffer[..bytes]).await.unwrap();
            }
        }
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
