//! A server on the loopback that answers what a test says.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// Status, further header lines, and body.
pub(super) type Reply = (u16, &'static str, String);

/// Answers requests, whose text the function is given; says where, as `host:port`.
pub(super) fn serve(answer: impl Fn(&str) -> Reply + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap();
            assert!(length > 0);
            let (status, headers, body) = answer(&String::from_utf8_lossy(&request[..length]));
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}");
            // Whoever has gone is told nothing.
            let _sent = write!(stream, "{head}\r\n{body}");
        }
    });
    address
}

/// Answers every request with one status and body, and says where.
pub(super) fn serve_always(status: u16, body: &'static str) -> String {
    format!("http://{}", serve(move |_| (status, "", body.to_owned())))
}
