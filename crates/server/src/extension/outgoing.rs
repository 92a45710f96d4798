//! Parts of a browser's request that reach a service: nothing that could be read as ours, as another session's, or as
//! another path (API-223).

use std::net::SocketAddr;

use http::request::Parts as Head;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use super::config::Backend;
use super::{APPLICATION, PREFIX, PROJECT, Visit};
use crate::http::Refused;
use crate::http::pass::leads_out;

const NAMESPACE: HeaderName = HeaderName::from_static("argocd-namespace");
const CLUSTER_NAME: HeaderName = HeaderName::from_static("argocd-target-cluster-name");
const CLUSTER_URL: HeaderName = HeaderName::from_static("argocd-target-cluster-url");
const USERNAME: HeaderName = HeaderName::from_static("argocd-username");
const USER_ID: HeaderName = HeaderName::from_static("argocd-user-id");
const USER_GROUPS: HeaderName = HeaderName::from_static("argocd-user-groups");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Starts of headers that the server alone sets.
const OUR_PREFIXES: [&str; 2] = ["argocd-", "x-forwarded-"];
/// Headers of the connection, of the session, and those that replace the path or the client's address.
const NEVER_FORWARDED: [&str; 20] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "forwarded",
    "grpc-metadata-token",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "token",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-original-url",
    "x-real-ip",
    "x-rewrite-url",
];

/// Facts about a request that its service is told.
pub(super) struct Facts<'a> {
    pub(super) peer: SocketAddr,
    pub(super) visit: &'a Visit,
    /// Namespace of the control plane.
    pub(super) namespace: &'a str,
    /// Whether browsers use TLS.
    pub(super) is_secure: bool,
}

/// Headers of the request to a service: those of the browser without its session, and what the server knows of it.
pub(super) fn headers(head: &Head, facts: &Facts<'_>, backend: &Backend) -> HeaderMap {
    let configured: Vec<String> = backend.headers.iter().map(|(name, _)| alike(name)).collect();
    let kept = head.headers.iter().filter(|(name, _)| is_forwarded(name, &configured));
    let mut headers: HeaderMap = HeaderMap::new();
    for (name, value) in kept {
        headers.append(name.clone(), value.clone());
    }
    let text =
        |name: &HeaderName| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let from = match text(&FORWARDED_FOR) {
        "" => facts.peer.ip().to_string(),
        before => format!("{before}, {}", facts.peer.ip()),
    };
    let cluster = facts.visit.cluster.as_ref();
    let (cluster, server) = cluster.map_or(("", ""), |cluster| (&*cluster.name, &*cluster.server));
    let groups = facts.visit.groups.join(",");
    let known = [
        // The values that were authorized, once each.
        (APPLICATION, text(&APPLICATION)),
        (PROJECT, text(&PROJECT)),
        (FORWARDED_FOR, from.as_str()),
        (FORWARDED_HOST, text(&header::HOST)),
        (FORWARDED_PROTO, if facts.is_secure { "https" } else { "http" }),
        (NAMESPACE, facts.namespace),
        (CLUSTER_NAME, cluster),
        (CLUSTER_URL, server),
        (USERNAME, &facts.visit.username),
        (USER_ID, &facts.visit.user_id),
        (USER_GROUPS, &groups),
    ];
    for (name, value) in known {
        if let Ok(value) = HeaderValue::from_str(value)
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
    for (name, value) in &backend.headers {
        if let Ok(mut value) = HeaderValue::from_str(value.expose()) {
            value.set_sensitive(true);
            headers.insert(name.clone(), value);
        }
    }
    headers
}

/// Whether a header of a browser reaches a service.
fn is_forwarded(name: &HeaderName, configured: &[String]) -> bool {
    let name = alike(name);
    !OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !NEVER_FORWARDED.contains(&name.as_str())
        && !configured.contains(&name)
}

/// The name of a header as services compare it that read `_`, `-` and `.` alike.
fn alike(name: &HeaderName) -> String {
    let letter =
        |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    name.as_str().chars().map(letter).collect()
}

/// Name of the extension, and the path that its service gets: unchanged, and never one that leads out of it.
pub(super) fn named(path: &str) -> Result<(&str, &str), Refused> {
    let below = path.strip_prefix(PREFIX).unwrap_or_default();
    let (name, rest) = match below.find('/') {
        Some(at) => below.split_at(at),
        None => (below, ""),
    };
    if name.is_empty() {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "Invalid URL: extension name is missing"));
    }
    if leads_out(rest) {
        return Err(Refused::new(StatusCode::BAD_REQUEST, "Invalid URL: its path leads elsewhere"));
    }
    Ok((name, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_223_a_path_stays_below_its_service() {
        assert_eq!(named("/extensions/httpbin/get/a%20b"), Ok(("httpbin", "/get/a%20b")));
        assert_eq!(named("/extensions/httpbin"), Ok(("httpbin", "")));
        assert_eq!(named("/extensions/httpbin/..a/b.."), Ok(("httpbin", "/..a/b..")));
        for bad in [
            "/extensions/",
            "/extensions//x",
            "/extensions/e/../x",
            "/extensions/e/a/%2E%2e/x",
            "/extensions/e/./x",
            "/extensions/e/a%2f..%2fb",
            "/extensions/e/..\\x",
            "/extensions/e/..;/x",
            "/extensions/e/%252e%252e/x",
        ] {
            assert_eq!(named(bad).unwrap_err().status, StatusCode::BAD_REQUEST, "{bad}");
        }
    }

    #[test]
    fn api_223_headers_that_could_be_read_as_ours_are_dropped() {
        let configured = vec![alike(&HeaderName::from_static("x_api_key"))];
        let is_kept = |name: &'static str| is_forwarded(&HeaderName::from_static(name), &configured);
        for name in [
            "argocd-username",
            "argocd_username",
            "argocd.user.id",
            "argocd-application_name",
            "argocd-of-the-future",
            "x_forwarded_for",
            "x-forwarded-user",
            "forwarded",
            "x_original_url",
            "transfer_encoding",
            "cookie",
            "token",
            "grpc_metadata_token",
            "x-api-key",
            "x_api_key",
        ] {
            assert!(!is_kept(name), "{name}");
        }
        for name in ["accept", "content-type", "x-own", "x_own", "argocdx", "x-api-keys", "range"] {
            assert!(is_kept(name), "{name}");
        }
    }
}
