//! Handing requests on to somebody else, and their answers back.

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

/// An answer as it comes, piece by piece; what is `kept` is kept until its end.
pub(crate) fn handed_back<K: Send + 'static>(answer: reqwest::Response, kept: K) -> Response<Body> {
    let head = head_of(&answer);
    let pieces = futures::stream::unfold(Some((answer, kept)), |state| async move {
        let (mut answer, kept) = state?;
        match answer.chunk().await {
            Ok(Some(piece)) => Some((Ok(Frame::data(piece)), Some((answer, kept)))),
            Ok(None) => None,
            Err(_) => Some((Err(body::CutOff), None)),
        }
    });
    head.map(|_empty| body::fallible(pieces))
}
