//! Handing requests on to somebody else, and their answers back.

use std::time::Duration;

use futures::future::BoxFuture;
use http::{HeaderName, Response, header};
use hyper::body::Frame;

use super::body::{self, Body};

/// Headers of a connection, which are not those of what it carries (RFC 9110, 7.6.1).
pub(crate) const OF_CONNECTION: [HeaderName; 7] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// An answer without its body.
pub(crate) fn head_of(answer: &reqwest::Response) -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = answer.status();
    for (name, value) in answer.headers() {
        if !OF_CONNECTION.contains(name) && name != header::CONTENT_LENGTH {
            response.headers_mut().append(name, value.clone());
        }
    }
    response
}

/// Access check of a streamed response.
pub(crate) type MayGoOn = Box<dyn Fn() -> BoxFuture<'static, bool> + Send>;

/// Streams a response. Access is checked for every piece, and every `interval` in between; without it the response is cut
/// off. `kept` is dropped with the response.
pub(crate) fn handed_back<K: Send + 'static>(
    answer: reqwest::Response,
    kept: K,
    (may_go_on, interval): (MayGoOn, Duration),
) -> Response<Body> {
    let head = head_of(&answer);
    let pieces = futures::stream::unfold(Some((answer, kept, may_go_on)), move |state| async move {
        let (mut answer, kept, may_go_on) = state?;
        loop {
            let piece = tokio::time::timeout(interval, answer.chunk()).await;
            if !may_go_on().await {
                return Some((Err(body::CutOff), None));
            }
            match piece {
                Ok(Ok(Some(piece))) => {
                    return Some((Ok(Frame::data(piece)), Some((answer, kept, may_go_on))));
                }
                Ok(Ok(None)) => return None,
                Ok(Err(_)) => return Some((Err(body::CutOff), None)),
                Err(_elapsed) => {}
            }
        }
    });
    head.map(|_empty| body::fallible(pieces))
}

/// Times that a path is decoded before it counts as hostile.
const DECODINGS_MAX: usize = 4;
/// Letters that divide a path, for services that normalise letters as well.
const SEPARATORS: [char; 4] = ['/', '\\', '\u{ff0f}', '\u{ff3c}'];

/// Whether a service could read a path as one that leaves its place, however it decodes it: `..`, `%2e%2e`,
/// `%252e%252e`, `..;/`, `..%2f`, `..\`, or letters that are normalised to dots.
pub(crate) fn leads_out(path: &str) -> bool {
    let parts = |path: &str| path.split(SEPARATORS).count();
    let count = parts(path);
    let mut path = path.to_owned();
    for _ in 0..DECODINGS_MAX {
        let is_hostile = path.contains(char::is_control)
            // A slash that appears by decoding divides the path for a service that decodes first.
            || parts(&path) != count
            || path.split(SEPARATORS).any(is_dots);
        match decoded(&path) {
            Some(decoded) if !is_hostile && decoded == path => return false,
            Some(decoded) if !is_hostile => path = decoded,
            _ => return true,
        }
    }
    true
}

/// Whether a part of a path is `.` or `..`, with parameters behind it or without.
fn is_dots(part: &str) -> bool {
    let name = part.split(';').next().unwrap_or_default().trim();
    let dots = name.chars().map(|letter| match letter {
        '.' | '\u{2024}' | '\u{fe52}' | '\u{ff0e}' => 1,
        '\u{2025}' | '\u{fe30}' => 2,
        _ => 3,
    });
    (1..=2).contains(&dots.sum::<usize>())
}

/// A path with its escapes decoded once; `None` when that is no text, or has escapes of another kind (`%u002e`).
fn decoded(path: &str) -> Option<String> {
    let bytes = path.as_bytes();
    let digit = |at: usize| char::from(*bytes.get(at)?).to_digit(16);
    let mut found = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = (*byte == b'%').then(|| Some((digit(at + 1)?, digit(at + 2)?))).flatten();
        if let Some((high, low)) = escaped {
            found.push(u8::try_from(high * 16 + low).ok()?);
            at += 3;
            continue;
        }
        if *byte == b'%' && matches!(bytes.get(at + 1), Some(b'u' | b'U')) && digit(at + 2).is_some() {
            return None;
        }
        found.push(*byte);
        at += 1;
    }
    String::from_utf8(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_223_paths_that_leave_their_place_are_recognised() {
        for path in [
            "/..",
            "/.",
            "/../x",
            "/./x",
            "/a/..",
            "/%2e%2e/x",
            "/.%2E/x",
            "/%252e%252e/x",
            "/%25252e./x",
            "/..;/x",
            "/..;a=b/x",
            "/%2e%2e;/x",
            "/..%3b/x",
            "/..%2fx",
            "/a%2fb",
            "/a%252f..%252fb",
            "/..\\x",
            "/a%5c..%5cx",
            "/%c0%ae%c0%ae/x",
            "/%ff/x",
            "/%u002e%u002e/x",
            "/a%00/x",
            "/..%0a/x",
            "/.. /x",
            "/..%20/x",
            "/%ef%bc%8e%ef%bc%8e/x",
            "/%e2%80%a5/x",
            "/a%ef%bc%8fb",
            "/%25252525252e/x",
        ] {
            assert!(leads_out(path), "{path}");
        }
        for path in [
            "",
            "/",
            "//",
            "/a/b",
            "/..a/b..",
            "/...",
            "/a%20b",
            "/a%C3%A9",
            "/a;v=1/b",
            "/100%25",
            "/100%",
            "/%zz",
            "/a.b/.well-known",
            "/%2541",
            "/a%2eb",
        ] {
            assert!(!leads_out(path), "{path}");
        }
    }
}
