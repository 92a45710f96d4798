//! Limits of the connections to API servers, which the environment alone sets (REP-108).

use std::collections::BTreeMap;
use std::time::Duration;

use super::ClientRate;
use super::reader::Reader;

/// Limits of the connections to one API server. `None` is no limit, which a variable says as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// `ARGOCD_K8S_CLIENT_MAX_IDLE_CONNECTIONS`, 500: connections that wait for the next request.
    pub idle_connections: Option<usize>,
    /// `ARGOCD_K8S_TLS_HANDSHAKE_TIMEOUT`, 10 s.
    pub tls_handshake: Option<Duration>,
    /// `ARGOCD_K8S_TCP_TIMEOUT`, 30 s: until a TCP connection is open.
    pub tcp_connect: Option<Duration>,
    /// `ARGOCD_K8S_TCP_KEEPALIVE`, 30 s: between two probes of a silent connection; without, there are none.
    pub tcp_keep_alive: Option<Duration>,
    /// `ARGOCD_K8S_TCP_IDLE_TIMEOUT`, 5 min: how long an idle connection is kept.
    pub idle: Option<Duration>,
    /// `ARGOCD_K8S_SERVER_SIDE_TIMEOUT`, none: how long a server may work at a request that is answered as a whole. Each
    /// has its own limit besides.
    pub request: Option<Duration>,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self::of(&BTreeMap::new())
    }
}

impl ClientLimits {
    /// The limits that an environment asks for. What cannot be read is told by [`super::Settings::warnings`].
    pub fn of(environment: &BTreeMap<String, String>) -> Self {
        Self::read(&mut Reader::new(&BTreeMap::new(), environment))
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let connections =
            |reader: &mut Reader<'_>, name| Some(reader.count(name, name, 500, 0)).filter(|most| *most > 0);
        let time = |reader: &mut Reader<'_>, name, seconds| {
            Some(reader.duration(name, name, Duration::from_secs(seconds))).filter(|time| !time.is_zero())
        };
        Self {
            idle_connections: connections(reader, "ARGOCD_K8S_CLIENT_MAX_IDLE_CONNECTIONS"),
            tls_handshake: time(reader, "ARGOCD_K8S_TLS_HANDSHAKE_TIMEOUT", 10),
            tcp_connect: time(reader, "ARGOCD_K8S_TCP_TIMEOUT", 30),
            tcp_keep_alive: time(reader, "ARGOCD_K8S_TCP_KEEPALIVE", 30),
            idle: time(reader, "ARGOCD_K8S_TCP_IDLE_TIMEOUT", 300),
            request: time(reader, "ARGOCD_K8S_SERVER_SIDE_TIMEOUT", 0),
        }
    }
}

impl ClientRate {
    /// The bound that an environment alone asks for.
    pub fn of(environment: &BTreeMap<String, String>) -> Option<Self> {
        Self::read(&mut Reader::new(&BTreeMap::new(), environment))
    }
}
