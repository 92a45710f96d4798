//! `--port-forward`: a server that is reached by way of Kubernetes (CLI-123).

use std::net::Ipv4Addr;
use std::time::Duration;

use tiphys_cluster::Connection;
use tokio::net::{TcpListener, TcpStream};

use crate::core::Place;
use crate::failure::Failure;
use crate::flags::Parsed;

/// The name of a server that is reached so, as it is written into the configuration file (CLI-200).
pub(crate) const SERVER: &str = "port-forward";
/// The port of the API server in its pod.
const PORT: u16 = 8080;
/// Time before a connection is taken again after an error.
const PAUSE: Duration = Duration::from_millis(100);

/// Whether the server is reached so.
pub(crate) fn is_wanted(flags: &Parsed) -> bool {
    flags.is_on("port-forward") || !flags.text("port-forward-namespace").is_empty()
}

/// Finds a pod of the server, and forwards a port of this machine to it for as long as the command runs; says which.
pub(crate) async fn open(flags: &Parsed, place: &Place<'_>) -> Result<u16, Failure> {
    let connection = place.connection().await?;
    let namespace = match flags.text("port-forward-namespace") {
        "" if place.namespace.is_empty() => connection.default_namespace().to_owned(),
        "" => place.namespace.to_owned(),
        given => given.to_owned(),
    };
    open_to(connection, &namespace, flags.text("server-name"), PORT).await
}

/// The same for a port of any component, by the name in its label.
pub(crate) async fn open_to(
    connection: Connection,
    namespace: &str,
    name: &str,
    far_port: u16,
) -> Result<u16, Failure> {
    let namespace = namespace.to_owned();
    let selector = format!("app.kubernetes.io/name={name}");
    let pod = connection.ready_pod(&namespace, &selector).await?;
    let pod = pod.ok_or_else(|| {
        let failure = Failure::fatal(format!("cannot find ready pod with selector: [{selector}]"));
        Failure { code: 20, ..failure }.hint(format!(
            "no pod of namespace {namespace:?} is one; name another with --port-forward-namespace"
        ))
    })?;
    // What keeps a port from being forwarded is told now; later it is a connection that ends.
    drop(connection.forward(&namespace, &pod, far_port).await?);
    let failed = |error: std::io::Error| Failure::generic(format!("no port can be forwarded: {error}"));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let (connection, namespace, pod) = (connection.clone(), namespace.clone(), pod.clone());
            tokio::spawn(async move { carry(&connection, (&namespace, &pod, far_port), stream).await });
        }
    });
    Ok(port)
}

/// Carries one connection; whoever asked sees it end when it fails.
async fn carry(connection: &Connection, (namespace, pod, port): (&str, &str, u16), mut stream: TcpStream) {
    if let Ok(mut far) = connection.forward(namespace, pod, port).await {
        // Either end may go at any time.
        drop(tokio::io::copy_bidirectional(&mut stream, &mut far).await);
    }
}
