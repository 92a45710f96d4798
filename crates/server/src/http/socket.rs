//! Requests that want to become a `WebSocket` (RFC 6455): who asks for one, and from which page.

use http::request::Parts as Head;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Version, header};

use super::Body;
use super::body;

/// Whether a request names the protocol, well or badly.
pub(crate) fn is_named(head: &Head) -> bool {
    has(head, header::UPGRADE, "websocket")
}

/// The key of a client that asks for a `WebSocket`; `None` when it does not, or not as it has to.
pub(crate) fn key(head: &Head) -> Option<&HeaderValue> {
    let is_asked = head.version == Version::HTTP_11
        && head.method == Method::GET
        && has(head, header::CONNECTION, "upgrade")
        && is_named(head)
        && has(head, header::SEC_WEBSOCKET_VERSION, "13");
    head.headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| is_asked)
}

fn has(head: &Head, name: HeaderName, word: &str) -> bool {
    let values = head.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// Whether no page of somebody else asks: browsers say whose page does, and send cookies all the same.
pub(crate) fn is_own_page(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).map(HeaderValue::to_str);
    match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => true,
        (Some(Ok(origin)), Some(Ok(host))) => {
            origin.split_once("://").is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host))
        }
        _ => false,
    }
}

/// The two headers of both sides of a handshake.
pub(crate) fn switch(headers: &mut HeaderMap) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
}

/// The answer after which there is a `WebSocket`.
pub(crate) fn switching() -> Response<Body> {
    let mut response = Response::new(body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    switch(response.headers_mut());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_190_pages_of_others_get_no_socket() {
        let headers = |origin: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("cd.example.com:8443"));
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, HeaderValue::from_str(origin).unwrap());
            }
            headers
        };
        for (origin, is_own) in [
            (None, true),
            (Some("https://cd.example.com:8443"), true),
            (Some("https://cd.example.com"), false),
            (Some("https://evil.example"), false),
            (Some("null"), false),
        ] {
            assert_eq!(is_own_page(&headers(origin)), is_own, "{origin:?}");
        }
    }

    #[test]
    fn api_223_a_handshake_has_all_of_its_headers() {
        let whole = [
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
            ("sec-websocket-version", "13"),
            ("sec-websocket-key", "a2V5"),
        ];
        let head = |method: &str, without: &str| {
            let mut request = http::Request::builder().method(method);
            for (name, value) in whole.iter().filter(|(name, _)| *name != without) {
                request = request.header(*name, *value);
            }
            request.body(()).unwrap().into_parts().0
        };
        assert_eq!(key(&head("GET", "")).unwrap(), "a2V5");
        assert!(key(&head("POST", "")).is_none());
        for (name, _) in whole {
            assert!(key(&head("GET", name)).is_none(), "{name}");
            assert_eq!(is_named(&head("GET", name)), name != "upgrade");
        }
    }
}
