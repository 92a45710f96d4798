//! A request, taken apart: path, query, what the caller accepts and sends.

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use jiff::Timestamp;
use percent_encoding::percent_decode_str;
use smol_str::SmolStr;

use crate::access::User;
use crate::fault::Fault;
use crate::status::Status;

/// A request whose body has been read.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Decoded segments of the path.
    pub(crate) path: Vec<String>,
    pub(crate) query: Query,
    pub(crate) accept: String,
    pub(crate) content_type: String,
    /// What the manager of fields is called when the query does not say.
    pub(crate) agent: String,
    /// Who the caller acts as; `None` is itself.
    pub(crate) user: Option<User>,
    pub(crate) body: Bytes,
    pub(crate) now: Timestamp,
    pub(crate) fault: Fault,
}

/// Parameters of the query, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

/// What a path under `/api` or `/apis` names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) group: SmolStr,
    pub(crate) version: SmolStr,
    pub(crate) namespace: SmolStr,
    pub(crate) plural: SmolStr,
    pub(crate) name: SmolStr,
    /// `status`, `scale`, `log`, …; with what follows it.
    pub(crate) subresource: SmolStr,
}

impl Request {
    pub(crate) fn new(parts: &http::request::Parts, body: Bytes, now: Timestamp, fault: Fault) -> Self {
        let path = parts.uri.path().trim_matches('/');
        // Between two slashes is an empty name; the root has none.
        let path = path
            .split('/')
            .filter(|_| !path.is_empty())
            .map(|segment| percent_decode_str(segment).decode_utf8_lossy().into_owned())
            .collect();
        let agent = header_of(&parts.headers, &header::USER_AGENT);
        let agent = agent.split('/').next().unwrap_or("");
        let agent = if agent.is_empty() { "unknown" } else { agent };
        Self {
            method: parts.method.clone(),
            path,
            query: Query::parse(parts.uri.query().unwrap_or("")),
            accept: header_of(&parts.headers, &header::ACCEPT),
            content_type: header_of(&parts.headers, &header::CONTENT_TYPE),
            agent: agent.to_owned(),
            user: impersonated(&parts.headers),
            body,
            now,
            fault,
        }
    }

    /// The media type of the body, without parameters, in lower case.
    pub(crate) fn media_type(&self) -> String {
        self.content_type.split(';').next().unwrap_or("").trim().to_lowercase()
    }

    /// The name the caller's fields are booked under.
    pub(crate) fn manager(&self) -> &str {
        match self.query.get("fieldManager") {
            Some(manager) if !manager.is_empty() => manager,
            _ => &self.agent,
        }
    }
}

fn impersonated(headers: &HeaderMap) -> Option<User> {
    let name = headers.get("impersonate-user")?.to_str().ok()?;
    let groups = headers.get_all("impersonate-group").iter().filter_map(|group| group.to_str().ok());
    Some(User::new(name, groups.map(str::to_owned).collect()))
}

fn header_of(headers: &HeaderMap, name: &header::HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_owned()
}

/// Whether every `%` of a pair begins an escape.
fn is_sound(pair: &str) -> bool {
    let is_escape = |rest: &str| {
        let digits = rest.as_bytes().get(..2);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    !pair.contains(';') && pair.split('%').skip(1).all(is_escape)
}

impl Query {
    fn parse(text: &str) -> Self {
        // What is not escaped as it should be is as if it had not been sent.
        let sound = text.split('&').filter(|pair| is_sound(pair));
        Self(sound.flat_map(|pair| form_urlencoded::parse(pair.as_bytes()).into_owned()).collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is true, as Go reads it: present and neither `false` nor `0`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|text| !matches!(text.to_lowercase().as_str(), "false" | "0"))
    }

    /// Refuses a `timeout` that is no duration.
    pub(crate) fn check_timeout(&self) -> Result<(), Status> {
        match self.get("timeout") {
            Some(text) if !text.is_empty() && !is_duration(text) => Err(Status::bad_request(format!(
                "invalid timeout specified in the request URL - time: invalid duration {text:?}"
            ))),
            _ => Ok(()),
        }
    }

    /// A number, as Kubernetes reads it out of a query.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|error: std::num::ParseIntError| {
                use std::num::IntErrorKind::{NegOverflow, PosOverflow};
                let is_out = matches!(error.kind(), PosOverflow | NegOverflow);
                let why = if is_out { "value out of range" } else { "invalid syntax" };
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: {why}"))
            }),
        }
    }
}

/// Whether Go reads a text as a duration: numbers with units.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let number = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        let units = ["ns", "us", "\u{b5}s", "ms", "s", "m", "h"];
        let after = units.iter().find_map(|unit| {
            let after = number.strip_prefix(unit)?;
            (after.is_empty() || after.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.'))
                .then_some(after)
        });
        match after {
            Some(after) if number.len() < rest.len() => rest = after,
            _ => return false,
        }
    }
    !text.is_empty()
}

impl Place {
    /// Reads the segments of a path; `None` when they do not name a resource.
    pub(crate) fn parse(path: &[String]) -> Option<Self> {
        let (group, version, rest) = match path {
            [root, version, rest @ ..] if root == "api" => ("", version, rest),
            [root, group, version, rest @ ..] if root == "apis" => (group.as_str(), version, rest),
            _ => return None,
        };
        let mut place = Self { group: group.into(), version: version.into(), ..Self::default() };
        let rest = match rest {
            // What follows a namespace is a resource in it, except for its own subresources.
            [word, namespace, plural, more @ ..]
                if word == "namespaces" && !matches!(plural.as_str(), "status" | "finalize") =>
            {
                place.namespace = namespace.into();
                place.plural = plural.into();
                more
            }
            [plural, more @ ..] => {
                place.plural = plural.into();
                more
            }
            [] => return None,
        };
        if let [name, more @ ..] = rest {
            place.name = name.into();
            place.subresource = more.join("/").into();
        }
        Some(place)
    }
}

/// What somebody without a token is told: nobody but the token's owner may do anything but ask how the server is.
pub(crate) fn refuse_anonymous(parts: &http::request::Parts) -> Option<Status> {
    let request = Request::new(parts, Bytes::new(), Timestamp::UNIX_EPOCH, Fault::default());
    if let Some("healthz" | "livez" | "readyz" | "version") = request.path.first().map(String::as_str) {
        return None;
    }
    let Some(place) = Place::parse(&request.path) else {
        let verb = request.method.as_str().to_lowercase();
        let path = parts.uri.path();
        let message = format!("forbidden: User \"system:anonymous\" cannot {verb} path {path:?}");
        return Some(Status::new(403, "Forbidden", message).detailed());
    };
    let verb = match (&request.method, place.name.is_empty()) {
        (&Method::GET | &Method::HEAD, _) if request.query.flag("watch") => "watch",
        (&Method::GET | &Method::HEAD, true) => "list",
        (&Method::GET | &Method::HEAD, false) => "get",
        (&Method::POST, _) => "create",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "deletecollection",
        (&Method::DELETE, false) => "delete",
        _ => "",
    };
    let group = if place.group.is_empty() { String::new() } else { format!(".{}", place.group) };
    let subject = format!("{}{group}", place.plural);
    let named = if place.name.is_empty() { subject } else { format!("{subject} {:?}", place.name) };
    let sub = if place.subresource.is_empty() { String::new() } else { format!("/{}", place.subresource) };
    let scope = if place.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace {:?}", place.namespace)
    };
    let message = format!(
        "{named} is forbidden: User \"system:anonymous\" cannot {verb} resource \"{}{sub}\" in API group {:?} {scope}",
        place.plural, place.group
    );
    Some(Status::new(403, "Forbidden", message).about(&place.name, &place.group, &place.plural))
}

#[cfg(test)]
mod tests {
    use super::Place;

    fn parse(path: &str) -> Option<Place> {
        let segments: Vec<String> = path.split('/').map(str::to_owned).collect();
        Place::parse(&segments)
    }

    #[test]
    fn a_namespace_in_a_path_is_where_a_resource_is_or_the_resource_itself() {
        let pod = parse("api/v1/namespaces/a/pods/b/log").unwrap();
        assert_eq!((&*pod.namespace, &*pod.plural, &*pod.name, &*pod.subresource), ("a", "pods", "b", "log"));
        let one = parse("api/v1/namespaces/a").unwrap();
        assert_eq!((&*one.namespace, &*one.plural, &*one.name), ("", "namespaces", "a"));
        let status = parse("api/v1/namespaces/a/status").unwrap();
        assert_eq!((&*status.plural, &*status.name, &*status.subresource), ("namespaces", "a", "status"));
        let all = parse("apis/apps/v1/deployments").unwrap();
        assert_eq!((&*all.group, &*all.plural, &*all.name), ("apps", "deployments", ""));
        assert_eq!(parse("api/v1"), None);
    }
}
