//! `WebSockets` of proxy extensions: the service answers the handshake, and then bytes go both ways unread (API-223).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

/// How often it is asked whether there may still be a socket.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Time without a byte either way after which nobody is there: a browser that lost its network says nothing.
const SILENCE_MAX: Duration = Duration::from_mins(10);
/// Time for the last bytes to either end.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes that are carried at a time.
const PIECE_BYTES: usize = 16 << 10;

/// Why a socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// One of both ends is gone.
    Closed,
    /// There may be none any more.
    Denied,
    /// Nobody said anything.
    Silent,
    /// The server stops.
    Stopping,
}

/// Carries bytes between two ends until one of them goes, the socket is no longer allowed, or the server stops.
pub(super) async fn join<A: Future<Output = bool>>(
    client: impl AsyncRead + AsyncWrite,
    service: impl AsyncRead + AsyncWrite,
    is_allowed: impl Fn() -> A,
    stopping: &CancellationToken,
) -> End {
    let (mut from_client, mut to_client) = tokio::io::split(client);
    let (mut from_service, mut to_service) = tokio::io::split(service);
    let moved = AtomicU64::new(0);
    let end = {
        let mut up = std::pin::pin!(carry(&mut from_client, &mut to_service, &moved));
        let mut down = std::pin::pin!(carry(&mut from_service, &mut to_client, &moved));
        let mut ticks = interval_at(Instant::now() + CHECK_INTERVAL, CHECK_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut known, mut heard) = (0, Instant::now());
        loop {
            // Cancel-safe: both ways are polled on where they stopped.
            tokio::select! {
                biased;
                () = stopping.cancelled() => break End::Stopping,
                _ = ticks.tick() => {
                    let now = moved.load(Ordering::Relaxed);
                    if now != known {
                        (known, heard) = (now, Instant::now());
                    } else if heard.elapsed() > SILENCE_MAX {
                        break End::Silent;
                    }
                    if !is_allowed().await {
                        break End::Denied;
                    }
                }
                () = up.as_mut() => break End::Closed,
                () = down.as_mut() => break End::Closed,
            }
        }
    };
    let goodbye = async { tokio::join!(to_client.shutdown(), to_service.shutdown()) };
    drop(tokio::time::timeout(GOODBYE_TIMEOUT, goodbye).await);
    end
}

/// Carries bytes one way, until there are none or nobody takes them.
async fn carry(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin), moved: &AtomicU64) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(count @ 1..) = from.read(&mut piece).await {
        let bytes = piece.get(..count).unwrap_or_default();
        if to.write_all(bytes).await.is_err() || to.flush().await.is_err() {
            return;
        }
        moved.fetch_add(count as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use tokio::io::DuplexStream;
    use tokio::task::JoinHandle;

    use super::*;

    struct Joined {
        client: DuplexStream,
        service: DuplexStream,
        is_allowed: Arc<AtomicBool>,
        stopping: CancellationToken,
        end: JoinHandle<End>,
    }

    fn joined() -> Joined {
        let ((client, ours), (theirs, service)) = (tokio::io::duplex(64), tokio::io::duplex(64));
        let (is_allowed, stopping) = (Arc::new(AtomicBool::new(true)), CancellationToken::new());
        let (asked, stop) = (Arc::clone(&is_allowed), stopping.clone());
        let end = tokio::spawn(async move {
            join(ours, theirs, || std::future::ready(asked.load(Ordering::Relaxed)), &stop).await
        });
        Joined { client, service, is_allowed, stopping, end }
    }

    async fn send(from: &mut DuplexStream, to: &mut DuplexStream, bytes: &[u8]) {
        let mut got = vec![0; bytes.len()];
        let (sent, read) = tokio::join!(from.write_all(bytes), to.read_exact(&mut got));
        sent.unwrap();
        read.unwrap();
        assert_eq!(got, bytes);
    }

    async fn is_over(end: &mut DuplexStream) -> bool {
        end.read(&mut [0]).await.unwrap() == 0
    }

    #[tokio::test(start_paused = true)]
    async fn api_223_bytes_go_both_ways_until_one_end_goes() {
        for is_client in [true, false] {
            let Joined { mut client, mut service, end, .. } = joined();
            send(&mut client, &mut service, &vec![7; 100_000]).await;
            send(&mut service, &mut client, &vec![8; 100_000]).await;
            let (gone, mut other) = if is_client { (client, service) } else { (service, client) };
            drop(gone);
            assert!(is_over(&mut other).await);
            assert_eq!(end.await.unwrap(), End::Closed);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn api_223_a_socket_ends_with_its_rights_and_with_the_server() {
        let Joined { mut client, mut service, is_allowed, end, .. } = joined();
        send(&mut client, &mut service, b"a").await;
        is_allowed.store(false, Ordering::Relaxed);
        assert!(is_over(&mut client).await && is_over(&mut service).await);
        assert_eq!(end.await.unwrap(), End::Denied);
        let Joined { mut client, mut service, stopping, end, .. } = joined();
        send(&mut client, &mut service, b"a").await;
        stopping.cancel();
        assert!(is_over(&mut client).await && is_over(&mut service).await);
        assert_eq!(end.await.unwrap(), End::Stopping);
    }

    #[tokio::test(start_paused = true)]
    async fn api_223_a_socket_that_nobody_uses_ends() {
        let began = Instant::now();
        let Joined { mut client, mut service, end, .. } = joined();
        tokio::time::advance(Duration::from_mins(9)).await;
        send(&mut service, &mut client, b"a").await;
        assert_eq!(end.await.unwrap(), End::Silent);
        assert!(began.elapsed() > Duration::from_mins(19));
    }
}
