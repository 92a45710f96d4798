//! Connections: one port for TLS and plain text, HTTP/1.1 and HTTP/2 (API-1..5, API-11).

mod authority;
pub(crate) mod certificate;
mod connection;
pub(crate) mod meter;
mod self_signed;
pub mod tls;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::Front;

pub use authority::OwnHosts;
pub use connection::Doors;

/// Connections at the same time; more wait in the queue of the system.
const CONNECTIONS_MAX: usize = 8_192;
/// Connections of one address, so that nobody takes all of them.
const CONNECTIONS_OF_ONE_MAX: usize = CONNECTIONS_MAX / 2;
/// Time after an error of the listener, for example because no file can be opened.
const ERROR_PAUSE: Duration = Duration::from_millis(100);
/// Time that requests get to end when the process stops (API-11).
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// A port that is served.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    doors: Arc<Doors>,
    connections: Arc<Semaphore>,
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A place among the connections; free again when it is dropped.
struct Place {
    _permit: OwnedSemaphorePermit,
    peers: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Entry::Occupied(mut entry) = self.peers.lock().entry(self.address) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

impl Listener {
    /// Serves a port: with TLS while there is a configuration of it, else in plain text.
    pub fn new(
        socket: TcpListener,
        front: Arc<ArcSwap<Front>>,
        tls: Arc<ArcSwapOption<rustls::ServerConfig>>,
    ) -> Self {
        let listening = socket.local_addr().ok().map(|address| address.ip());
        let doors = Arc::new(Doors { front, tls, listening });
        let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        Self { socket, doors, connections, peers: Arc::default() }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Serves until it is told to stop; then no connection is taken any more, and requests get a while to end.
    pub async fn run(self, stopping: CancellationToken) {
        let tracker = TaskTracker::new();
        loop {
            // Both branches are cancel-safe: waiting for a permit, and accepting.
            let accepted = tokio::select! {
                biased;
                () = stopping.cancelled() => break,
                accepted = self.accept() => accepted,
            };
            let Some((stream, peer, place)) = accepted else { continue };
            let doors = Arc::clone(&self.doors);
            let stopping = stopping.clone();
            tracker.spawn(async move {
                doors.serve(stream, peer, stopping).await;
                drop(place);
            });
        }
        drop(self.socket);
        tracker.close();
        if tokio::time::timeout(STOP_TIMEOUT, tracker.wait()).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    }

    async fn accept(&self) -> Option<(TcpStream, SocketAddr, Place)> {
        let permit = Arc::clone(&self.connections).acquire_owned().await.ok()?;
        match self.socket.accept().await {
            Ok((stream, peer)) => {
                // Small messages of streams go out when they are written.
                drop(stream.set_nodelay(true));
                let peers = Arc::clone(&self.peers);
                *peers.lock().entry(peer.ip()).or_insert(0) += 1;
                let place = Place { _permit: permit, peers, address: peer.ip() };
                let count = self.peers.lock().get(&peer.ip()).copied().unwrap_or(0);
                (count <= CONNECTIONS_OF_ONE_MAX).then_some((stream, peer, place))
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(ERROR_PAUSE).await;
                None
            }
        }
    }
}
