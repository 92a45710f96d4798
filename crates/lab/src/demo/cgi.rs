//! The answer of a CGI program: a head with a status, then the body.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes of a head; git's have some hundred.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// The head of an answer, and what was read of the body with it.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Reads up to the empty line. `None` when there is no such head.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> Option<Head> {
    let mut bytes = Vec::with_capacity(1024);
    loop {
        if let Some(end) = end_of_head(&bytes) {
            let body = bytes.split_off(end);
            return parse(&bytes, body);
        }
        if bytes.len() > HEAD_BYTES_MAX || stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// Length of the head with its empty line.
fn end_of_head(bytes: &[u8]) -> Option<usize> {
    let of =
        |mark: &[u8]| bytes.windows(mark.len()).position(|window| window == mark).map(|at| at + mark.len());
    of(b"\r\n\r\n").or_else(|| of(b"\n\n"))
}

fn parse(head: &[u8], body: Vec<u8>) -> Option<Head> {
    let mut status = StatusCode::OK;
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(head).ok()?.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("status") {
            status = value.split(' ').next()?.parse().ok()?;
        } else {
            headers.append(HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?);
        }
    }
    Some(Head { status, headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn cli_1000_a_head_ends_at_its_empty_line() {
        let mut bytes = &b"Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno\r\n\r\n"[..];
        let head = read_head(&mut bytes).await.unwrap();
        assert_eq!((head.status, head.body.as_slice()), (StatusCode::NOT_FOUND, &b"no\r\n\r\n"[..]));
        assert_eq!(head.headers.get("content-type").unwrap(), "text/plain");
        assert_eq!(read_head(&mut &b"A: b\n\n"[..]).await.unwrap().status, StatusCode::OK);
    }

    #[tokio::test]
    async fn cli_1000_what_is_no_head_is_refused() {
        for bytes in [&b""[..], b"Status: 200", b"Status: many\n\n", b"word\n\n", b"a\x01b: c\n\n"] {
            assert!(read_head(&mut &*bytes).await.is_none(), "{bytes:?}");
        }
        let endless = vec![b'a'; HEAD_BYTES_MAX * 2];
        assert!(read_head(&mut endless.as_slice()).await.is_none());
    }
}
