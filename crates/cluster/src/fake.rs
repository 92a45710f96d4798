//! A toy API server for tests: each request line is answered by a function, over real sockets.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::connection::Connection;

/// An answer.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: &'static str,
    pub(crate) body: String,
    /// Keep the connection open after the body, as a watch does.
    pub(crate) is_open: bool,
}

impl Reply {
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Self { status: 200, headers: "", body: body.into(), is_open: false }
    }

    pub(crate) fn stream(body: impl Into<String>) -> Self {
        Self { is_open: true, ..Self::json(body) }
    }

    pub(crate) fn refused(status: u16, reason: &str) -> Self {
        let body = format!(
            r#"{{"kind":"Status","apiVersion":"v1","code":{status},"reason":"{reason}","message":"the test says {reason}"}}"#
        );
        Self { status, headers: "", body, is_open: false }
    }
}

/// A running server.
pub(crate) struct Fake {
    pub(crate) connection: Connection,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    /// Serves until the runtime of the test ends. The function gets `METHOD target` and how often this very
    /// request was made before.
    pub(crate) async fn start(answer: impl Fn(&str, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&requests);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&seen), Arc::clone(&answer)));
            }
        });
        let connection =
            Connection::from_cluster_secret(&url, "", &crate::PluginPolicy::default()).await.unwrap();
        Self { connection, requests }
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

async fn serve(
    stream: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
    answer: Arc<impl Fn(&str, usize) -> Reply + Send + Sync>,
) {
    let mut stream = BufReader::new(stream);
    let mut request = String::new();
    stream.read_line(&mut request).await.unwrap();
    let mut header = String::new();
    let mut length = 0;
    while header != "\r\n" {
        header.clear();
        if stream.read_line(&mut header).await.unwrap() == 0 {
            return;
        }
        if let Some(value) = header.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    // A connection that is closed with unread input loses the answer.
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    let request = request.trim().trim_end_matches(" HTTP/1.1").to_owned();
    let before = {
        let mut seen = seen.lock();
        seen.push(request.clone());
        seen.iter().filter(|other| **other == request).count() - 1
    };
    let reply = answer(&request, before);
    let head = format!(
        "HTTP/1.1 {} X\r\nContent-Type: application/json\r\nConnection: close\r\n{}\r\n",
        reply.status, reply.headers
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(reply.body.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    if reply.is_open {
        std::future::pending::<()>().await;
    }
    stream.shutdown().await.unwrap();
}
