//! A server on the loopback that answers what a test says.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

/// Status, further header lines, and body.
pub(crate) type Reply = (u16, &'static str, String);

/// Answers requests, whose text the function is given; says where, as `host:port`.
pub(crate) fn serve(answer: impl Fn(&str) -> Reply + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !is_whole(&request) {
                let mut piece = [0; 4096];
                let length = stream.read(&mut piece).unwrap();
                assert!(length > 0);
                request.extend_from_slice(&piece[..length]);
            }
            let (status, headers, body) = answer(&String::from_utf8_lossy(&request));
            let length = body.len();
            let head =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}");
            // Whoever has gone is told nothing.
            let _sent = write!(stream, "{head}\r\n{body}");
        }
    });
    address
}

/// Whether a request has come with the body that it announces.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let announced = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    request.len() >= end + 4 + announced.map_or(0, |length| length.parse().unwrap())
}

/// Answers every request with one status and body, and says where.
pub(super) fn serve_always(status: u16, body: &'static str) -> String {
    format!("http://{}", serve(move |_| (status, "", body.to_owned())))
}
