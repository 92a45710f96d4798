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
        let path = path
            .split('/')
            .filter(|segment| !segment.is_empty())
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

impl Query {
    fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
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

    /// A number, as Kubernetes reads it out of a query.
    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, Status> {
        match self.get(name) {
            None | Some("") => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_error| {
                Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
            }),
        }
    }
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
