//! Bytes that a connection holds without progress: heads that are not complete, and bodies that nothing reads. Beyond a
//! little they are counted in the budget, so that many connections cannot fill the memory with them (SEC-48).

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::{Budget, CallerKey, Permit, Pool};

/// Bytes that every connection may hold.
const FREE_BYTES: usize = 16 << 10;

/// What one connection holds. HTTP/2 completes a head before anything else arrives, so that bytes since the last progress
/// are all that is held.
#[derive(Clone, Debug)]
pub(crate) struct Meter(Arc<Mutex<Held>>);

#[derive(Debug)]
struct Held {
    bytes: usize,
    permit: Option<Permit>,
    budget: Budget,
    address: IpAddr,
}

impl Meter {
    pub(crate) fn new(budget: Budget, address: IpAddr) -> Self {
        Self(Arc::new(Mutex::new(Held { bytes: 0, permit: None, budget, address })))
    }

    /// A request was dispatched, or a piece of a body was taken.
    pub(crate) fn progress(&self) {
        let mut held = self.0.lock();
        (held.bytes, held.permit) = (0, None);
    }

    /// Counts bytes that arrived.
    fn arrived(&self, bytes: usize) -> io::Result<()> {
        let mut held = self.0.lock();
        held.bytes = held.bytes.saturating_add(bytes);
        if held.bytes <= FREE_BYTES {
            return Ok(());
        }
        let (budget, address) = (held.budget.clone(), held.address);
        let permit =
            held.permit.get_or_insert_with(|| budget.permit(Pool::Heads, CallerKey::Address(address)));
        let full = |_full| io::Error::other("too many bytes of incomplete requests are held");
        permit.grow(bytes).map_err(full)
    }
}

/// A connection whose bytes are counted.
pub(crate) struct Metered<S> {
    stream: S,
    meter: Meter,
}

impl<S> Metered<S> {
    pub(crate) fn new(stream: S, meter: Meter) -> Self {
        Self { stream, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.meter.arrived(buffer.filled().len().saturating_sub(before)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn sec_48_incomplete_requests_are_counted_beyond_a_little() {
        let budget = Budget::default();
        let meter = Meter::new(budget.clone(), Ipv4Addr::LOCALHOST.into());
        meter.arrived(FREE_BYTES).unwrap();
        assert_eq!(budget.used(Pool::Heads), 0);
        meter.arrived(1_000).unwrap();
        assert_eq!(budget.used(Pool::Heads), 1_000);
        meter.progress();
        assert_eq!(budget.used(Pool::Heads), 0);
        meter.arrived(FREE_BYTES).unwrap();
    }

    #[test]
    fn sec_48_connections_of_one_address_hold_a_part_of_it() {
        let budget = Budget::default();
        let connect = |address: [u8; 4]| Meter::new(budget.clone(), IpAddr::from(address));
        let meters: Vec<Meter> = (0..1_000).map(|_| connect([10, 0, 0, 1])).collect();
        let held = |meter: &&Meter| meter.arrived(FREE_BYTES).and_then(|()| meter.arrived(100 << 10)).is_ok();
        let count = meters.iter().filter(held).count();
        assert!((100..400).contains(&count), "{count}");
        assert!(held(&&connect([10, 0, 0, 2])));
    }
}
