//! The port of a demo, and who has it when it is busy (CLI-1004).

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use tokio::net::TcpListener;

use super::options::PORT;

/// Ports after the preferred one that are tried before any free one is taken.
const NEXT_MAX: u16 = 100;

/// Listens on the wanted port, or, where none is demanded, on the preferred one or one that is free.
pub(crate) async fn listen(
    address: IpAddr,
    demanded: Option<u16>,
    preferred: Option<u16>,
) -> anyhow::Result<TcpListener> {
    if let Some(port) = demanded {
        let place = SocketAddr::new(address, port);
        return match TcpListener::bind(place).await {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
                let who = owner(port).map_or_else(String::new, |who| format!(" by {who}"));
                Err(anyhow!("port {port} is in use{who}; choose another with --port, or leave --port out"))
            }
            other => other.with_context(|| format!("cannot listen on {place}")),
        };
    }
    let first = preferred.unwrap_or(PORT);
    for port in first..=first.saturating_add(NEXT_MAX) {
        match TcpListener::bind(SocketAddr::new(address, port)).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot listen on address {address}"));
            }
        }
    }
    TcpListener::bind(SocketAddr::new(address, 0)).await.context("no port is free")
}

/// The process that listens on a port, as far as this user may see it: `name (process 123)`.
fn owner(port: u16) -> Option<String> {
    let sockets: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .flat_map(|table| listeners(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let open = std::fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        let has = |link: &Path| sockets.iter().any(|socket| Path::new(socket) == link);
        if open.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|link| has(&link)) {
            let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some(format!("{} (process {process})", name.trim()));
        }
    }
    None
}

/// Inodes of the sockets that listen on a port, in the kernel's table of connections.
fn listeners(table: &str, port: u16) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let mut found = Vec::new();
    for line in table.lines().skip(1) {
        let words: Vec<_> = line.split_whitespace().collect();
        let (Some(local), Some(state), Some(inode)) = (words.get(1), words.get(3), words.get(9)) else {
            continue;
        };
        let is_port = local.rsplit_once(':').is_some_and(|(_, hex)| u16::from_str_radix(hex, 16) == Ok(port));
        if is_port && *state == LISTEN {
            found.extend(inode.parse::<u64>());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[tokio::test]
    async fn cli_1004_a_demanded_port_that_is_busy_names_its_process() {
        let busy = TcpListener::bind((LOCAL, 0)).await.unwrap();
        let port = busy.local_addr().unwrap().port();
        let text = listen(LOCAL, Some(port), None).await.unwrap_err().to_string();
        assert!(text.starts_with(&format!("port {port} is in use by ")), "{text}");
        assert!(text.contains(&format!("(process {})", std::process::id())), "{text}");
    }

    #[tokio::test]
    async fn cli_1004_without_a_demand_the_next_free_port_is_taken() {
        let busy = TcpListener::bind((LOCAL, 0)).await.unwrap();
        let port = busy.local_addr().unwrap().port();
        let next = listen(LOCAL, None, Some(port)).await.unwrap().local_addr().unwrap().port();
        assert_ne!(next, port);
    }

    #[test]
    fn cli_1004_the_connection_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000  0 4242 1 0 100 0\n\
            1: 0100007F:1F90 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000  0 4243 1 0 100 0\n";
        assert_eq!(listeners(table, 8080), [4242]);
        assert!(listeners(table, 80).is_empty());
    }
}
