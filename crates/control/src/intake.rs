//! Bodies of deliveries on their way in: bounded in bytes, time and number, so that slow and large ones hold up
//! nobody else (SEC-48, INV-16).

use std::time::Duration;

use axum::body::{Body, Bytes};
use futures::StreamExt as _;
use tiphys_lifecycle::webhook::UNVERIFIED_BYTES_MAX;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Deliveries that arrive at the same time.
const DELIVERIES_MAX: usize = 256;
/// Bytes of all bodies together that nothing proves yet.
const WAITING_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Bodies above [`UNVERIFIED_BYTES_MAX`] that arrive at the same time.
const LARGE_MAX: usize = 1;
/// Time a body gets to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// The places for bodies.
pub(crate) struct Intake {
    places: Semaphore,
    bytes: Semaphore,
    large: Semaphore,
}

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoBody {
    /// It has more bytes than it may.
    TooLarge,
    /// It did not arrive in time, or the sender went away.
    Stalled,
    /// Others arrive at this moment.
    Busy,
}

/// A body with the places it takes; they are free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    bytes: Vec<u8>,
    places: Vec<SemaphorePermit<'a>>,
}

impl Received<'_> {
    /// The body.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

impl Default for Intake {
    fn default() -> Self {
        Self {
            places: Semaphore::new(DELIVERIES_MAX),
            bytes: Semaphore::new(WAITING_BYTES_MAX),
            large: Semaphore::new(LARGE_MAX),
        }
    }
}

impl Intake {
    /// Reads a body of at most so many bytes. Nobody waits for a place: who finds none is told so.
    pub(crate) async fn read(&self, body: Body, bytes_max: usize) -> Result<Received<'_>, NoBody> {
        let place = self.places.try_acquire().map_err(|_full| NoBody::Busy)?;
        let mut received = Received { bytes: Vec::new(), places: vec![place] };
        let arriving = self.gather(body, bytes_max, &mut received);
        match tokio::time::timeout(BODY_TIMEOUT, arriving).await {
            Ok(Ok(())) => Ok(received),
            Ok(Err(why)) => Err(why),
            Err(_elapsed) => Err(NoBody::Stalled),
        }
    }

    async fn gather<'a>(
        &'a self,
        body: Body,
        bytes_max: usize,
        received: &mut Received<'a>,
    ) -> Result<(), NoBody> {
        let mut stream = body.into_data_stream();
        let mut is_large = false;
        while let Some(chunk) = stream.next().await {
            let chunk: Bytes = chunk.map_err(|_gone| NoBody::Stalled)?;
            let length = received.bytes.len() + chunk.len();
            if length > bytes_max {
                return Err(NoBody::TooLarge);
            }
            if length > UNVERIFIED_BYTES_MAX {
                if !is_large {
                    received.places.push(self.large.try_acquire().map_err(|_full| NoBody::Busy)?);
                    is_large = true;
                }
            } else {
                let count = u32::try_from(chunk.len()).map_err(|_large| NoBody::TooLarge)?;
                received.places.push(self.bytes.try_acquire_many(count).map_err(|_full| NoBody::Busy)?);
            }
            received.bytes.extend_from_slice(&chunk);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalled(bytes: usize) -> Body {
        let first = futures::stream::once(async move { Ok::<_, std::io::Error>(vec![b' '; bytes]) });
        Body::from_stream(first.chain(futures::stream::pending()))
    }

    /// A7: bodies that never end hold up nobody and do not stay.
    #[tokio::test(start_paused = true)]
    async fn sec_48_stalled_bodies_do_not_block_a_delivery() {
        let intake = Intake::default();
        let slow: Vec<_> = (0..200).map(|_| intake.read(stalled(10), 1 << 20)).collect();
        let mut slow = std::pin::pin!(futures::future::join_all(slow));
        let began = tokio::time::Instant::now();
        assert!(futures::poll!(slow.as_mut()).is_pending());
        let mut real = intake.read(Body::from("payload"), 1 << 20).await.unwrap();
        assert_eq!(real.take(), b"payload");
        drop(real);
        assert!(slow.await.iter().all(|ended| ended.as_ref().is_err_and(|why| *why == NoBody::Stalled)));
        assert_eq!(began.elapsed(), BODY_TIMEOUT);
        assert_eq!(intake.places.available_permits(), DELIVERIES_MAX);
        assert_eq!(intake.bytes.available_permits(), WAITING_BYTES_MAX);
    }

    /// A7: what arrives is bounded for each and for all.
    #[tokio::test(start_paused = true)]
    async fn sec_48_bytes_are_bounded_for_each_and_for_all() {
        let intake = Intake::default();
        let long = |bytes: usize| Body::from(vec![b' '; bytes]);
        assert_eq!(intake.read(long(11), 10).await.unwrap_err(), NoBody::TooLarge);
        let mut slow = Vec::new();
        for _ in 0..32 {
            let mut one = Box::pin(intake.read(stalled(1 << 20), 1 << 20));
            assert!(futures::poll!(one.as_mut()).is_pending());
            slow.push(one);
        }
        assert_eq!(intake.read(Body::from("x"), 10).await.unwrap_err(), NoBody::Busy);
        slow.clear();
        // One large body at a time.
        let mut large = Box::pin(intake.read(stalled(2 << 20), 50 << 20));
        assert!(futures::poll!(large.as_mut()).is_pending());
        assert_eq!(intake.read(long(2 << 20), 50 << 20).await.unwrap_err(), NoBody::Busy);
        assert!(intake.read(long(1 << 20), 50 << 20).await.is_ok());
        drop(large);
        assert!(intake.read(long(2 << 20), 50 << 20).await.is_ok());
        assert_eq!(intake.places.available_permits(), DELIVERIES_MAX);
    }
}
