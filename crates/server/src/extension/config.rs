//! What `argocd-cm` says of proxy extensions (API-220).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use tiphys_api::cluster::Cluster;
use tiphys_api::secret::Secret;
use tiphys_go::yaml::{Dialect, Limits, parse};
use tiphys_oidc::config::{LookUp, resolve};

/// The key of all extensions; one with a name behind it is that of one.
const KEY: &str = "extension.config";
/// Extensions that are read.
const EXTENSIONS_MAX: usize = 100;
/// Services of one.
const SERVICES_MAX: usize = 200;
/// Headers of a service.
const HEADERS_MAX: usize = 50;

/// All extensions by their names.
pub(crate) type Extensions = BTreeMap<String, Extension>;

/// An extension.
#[derive(Clone, PartialEq)]
pub(crate) struct Extension {
    pub(super) name: String,
    pub(super) connection_timeout: Duration,
    pub(super) keep_alive: Duration,
    pub(super) idle_timeout: Duration,
    pub(super) idle_max: usize,
    services: Vec<Backend>,
}

/// A service of one.
#[derive(Clone, PartialEq)]
pub(super) struct Backend {
    /// Without a slash at its end.
    pub(super) url: String,
    cluster: ClusterName,
    pub(super) headers: Vec<(HeaderName, Secret<String>)>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
struct ClusterName {
    name: String,
    server: String,
}

impl ClusterName {
    fn is_named(&self) -> bool {
        !self.name.is_empty() || !self.server.is_empty()
    }

    fn means(&self, cluster: &Cluster) -> bool {
        (!self.name.is_empty() && self.name == cluster.name)
            || (!self.server.is_empty() && self.server.trim_end_matches('/') == cluster.server)
    }
}

impl Extension {
    /// The service for the cluster of an application; the only one there is serves all.
    pub(super) fn backend(&self, cluster: Option<&Cluster>) -> Option<&Backend> {
        match &self.services[..] {
            [only] => Some(only),
            several => several.iter().find(|one| cluster.is_some_and(|cluster| one.cluster.means(cluster))),
        }
    }
}

/// Why extensions cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub(crate) struct ConfigError {
    key: String,
    problem: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct All {
    extensions: Vec<Named>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
    backend: Raw,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Raw {
    connection_timeout: Option<Value>,
    keep_alive: Option<Value>,
    idle_connection_timeout: Option<Value>,
    max_idle_connections: Option<usize>,
    services: Vec<RawService>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawService {
    url: String,
    cluster: Option<ClusterName>,
    headers: Vec<RawHeader>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawHeader {
    name: String,
    value: String,
}

/// Reads all extensions of `argocd-cm`.
///
/// # Errors
/// With the first that cannot be used: then none of them is new.
pub(crate) fn read(
    map: &BTreeMap<String, String>,
    look_up: &LookUp<'_>,
    warnings: &mut Vec<String>,
) -> Result<Extensions, ConfigError> {
    let mut found = Extensions::new();
    for (key, text) in map.range(KEY.to_owned()..) {
        let Some(rest) = key.strip_prefix(KEY) else { break };
        let failed = |problem: String| ConfigError { key: key.clone(), problem };
        let named = match rest.strip_prefix('.') {
            None if rest.is_empty() => value::<All>(text, look_up, warnings).map_err(failed)?.extensions,
            Some(name) => {
                let backend = value(text, look_up, warnings).map_err(failed)?;
                vec![Named { name: name.to_owned(), backend }]
            }
            None => continue,
        };
        for one in named {
            let extension = extension(one).map_err(failed)?;
            let name = extension.name.clone();
            if found.insert(name.clone(), extension).is_some() {
                return Err(failed(format!("there is another extension {name:?}")));
            }
            if found.len() > EXTENSIONS_MAX {
                return Err(failed(format!("there are more than {EXTENSIONS_MAX} extensions")));
            }
        }
    }
    Ok(found)
}

fn value<T: Default + serde::de::DeserializeOwned>(
    text: &str,
    look_up: &LookUp<'_>,
    warnings: &mut Vec<String>,
) -> Result<T, String> {
    let read = parse(text, Dialect::Sigs, &Limits::default()).map_err(|error| error.to_string())?;
    let Some(mut read) = read else { return Ok(T::default()) };
    resolve(&mut read, look_up, warnings);
    // The text of the error would show values, some of which are secrets by now.
    serde_json::from_value(read).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => "a member is of another type than it has to be".to_owned(),
        _ => "it cannot be read".to_owned(),
    })
}

fn extension(Named { name, backend }: Named) -> Result<Extension, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_part) {
        return Err(format!("the name {name:?} has to be letters, digits, - and _"));
    }
    let count = backend.services.len();
    if count == 0 || count > SERVICES_MAX {
        return Err(format!("extension {name} has {count} services, and not 1 to {SERVICES_MAX}"));
    }
    let mut clusters = BTreeSet::new();
    let mut services = Vec::new();
    for service in backend.services {
        let cluster = service.cluster.clone().unwrap_or_default();
        if count > 1 {
            if !cluster.is_named() {
                return Err(format!("extension {name}: each of several services names its cluster"));
            }
            let names = [("name", cluster.name.clone()), ("server", cluster.server.clone())];
            let is_new = names.into_iter().filter(|(_, text)| !text.is_empty()).all(|it| clusters.insert(it));
            if !is_new {
                return Err(format!("extension {name}: two services are for one cluster"));
            }
        }
        services.push(backend_of(&name, service, cluster)?);
    }
    let time = |value: &Option<Value>, key: &str, default: u64| match value {
        None => Ok(Duration::from_secs(default)),
        Some(value) => duration(value).ok_or_else(|| format!("extension {name}: {key} is no duration")),
    };
    Ok(Extension {
        connection_timeout: time(&backend.connection_timeout, "connectionTimeout", 2)?,
        keep_alive: time(&backend.keep_alive, "keepAlive", 15)?,
        idle_timeout: time(&backend.idle_connection_timeout, "idleConnectionTimeout", 60)?,
        idle_max: backend.max_idle_connections.unwrap_or(30),
        name,
        services,
    })
}

fn backend_of(name: &str, service: RawService, cluster: ClusterName) -> Result<Backend, String> {
    let is_address = service.url.parse::<http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && uri.query().is_none()
    });
    if !is_address {
        return Err(format!(
            "extension {name}: a service has no address that begins with http:// or https://"
        ));
    }
    if service.headers.len() > HEADERS_MAX {
        return Err(format!("extension {name}: a service has more than {HEADERS_MAX} headers"));
    }
    let mut headers = Vec::new();
    for RawHeader { name: header, value } in service.headers {
        let named = HeaderName::from_bytes(header.as_bytes())
            .map_err(|_no_name| format!("extension {name}: {header:?} is no name of a header"))?;
        if HeaderValue::from_str(&value).is_err() {
            return Err(format!("extension {name}: header {header} has a value that headers do not have"));
        }
        headers.push((named, Secret::new(value)));
    }
    Ok(Backend { url: service.url.trim_end_matches('/').to_owned(), cluster, headers })
}

/// A text of Go's, or a number of nanoseconds; not negative.
fn duration(value: &Value) -> Option<Duration> {
    match value {
        Value::String(text) => tiphys_go::duration::parse(text).ok()?.try_into().ok(),
        value => value.as_u64().map(Duration::from_nanos),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entries: &[(&str, &str)]) -> Result<Extensions, String> {
        let map = entries.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect();
        let look_up = |secret: Option<&str>, key: &str| {
            (secret.is_none() && key == "token").then(|| Secret::from("hunter2"))
        };
        super::read(&map, &look_up, &mut Vec::new()).map_err(|error| error.to_string())
    }

    #[test]
    fn api_220_extensions_are_read_from_both_kinds_of_keys() {
        let all = "extensions:\n- name: a\n  backend:\n    services:\n    - url: http://a.svc/base/\n";
        let one = "connectionTimeout: 5s\nkeepAlive: 1000000000\nmaxIdleConnections: 3\nservices:\n\
                   - url: https://b.svc\n  headers:\n  - name: Authorization\n    value: $token\n";
        let found =
            read(&[("extension.config", all), ("extension.config.b-1", one), ("extension.configs", ":")]);
        let found = found.unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a", "b-1"]);
        let a = &found["a"];
        assert_eq!(a.backend(None).unwrap().url, "http://a.svc/base");
        assert_eq!((a.connection_timeout, a.keep_alive), (Duration::from_secs(2), Duration::from_secs(15)));
        assert_eq!((a.idle_timeout, a.idle_max), (Duration::from_mins(1), 30));
        let b = &found["b-1"];
        assert_eq!((b.connection_timeout, b.keep_alive), (Duration::from_secs(5), Duration::from_secs(1)));
        assert_eq!(b.idle_max, 3);
        let (name, value) = &b.backend(None).unwrap().headers[0];
        assert_eq!((name.as_str(), value.expose().as_str()), ("authorization", "hunter2"));
        assert!(read(&[]).unwrap().is_empty());
    }

    #[test]
    fn api_223_of_several_services_the_one_of_the_cluster_is_meant() {
        let text = "services:\n- url: http://a\n  cluster: {name: east}\n\
                    - url: http://b\n  cluster: {server: 'https://west/'}\n";
        let found = read(&[("extension.config.x", text)]).unwrap();
        let url = |name: &str, server: &str| {
            let cluster = Cluster { name: name.to_owned(), server: server.to_owned(), ..Cluster::default() };
            found["x"].backend(Some(&cluster)).map(|backend| backend.url.clone())
        };
        assert_eq!(url("east", "https://e").as_deref(), Some("http://a"));
        assert_eq!(url("", "https://west").as_deref(), Some("http://b"));
        assert_eq!(url("north", "https://n"), None);
        assert!(found["x"].backend(None).is_none());
    }

    #[test]
    fn api_220_what_cannot_be_used_is_named_without_secrets() {
        let service = "services: [{url: 'http://a'}]";
        for (key, text, problem) in [
            ("extension.config.a.b", service, "extension.config.a.b: the name \"a.b\" has to be"),
            ("extension.config.", service, "the name \"\" has to be"),
            ("extension.config.x", "services: []", "extension x has 0 services"),
            ("extension.config.x", "services: [{url: 'file:///etc'}]", "no address that begins with http://"),
            ("extension.config.x", "services: [{url: 'http://a'}, {url: 'http://b'}]", "names its cluster"),
            (
                "extension.config.x",
                "services: [{url: 'http://a', cluster: {name: e}}, {url: 'http://b', cluster: {name: e}}]",
                "two services are for one cluster",
            ),
            (
                "extension.config.x",
                "{keepAlive: -1s, services: [{url: 'http://a'}]}",
                "keepAlive is no duration",
            ),
            ("extension.config.x", "services: $token", "another type"),
            ("extension.config.x", "services: [", "extension.config.x: "),
            (
                "extension.config.x",
                "services: [{url: 'http://a', headers: [{name: 'a b', value: $token}]}]",
                "is no name of a header",
            ),
        ] {
            let error = read(&[(key, text)]).err().unwrap();
            assert!(error.contains(problem) && !error.contains("hunter2"), "{text}: {error}");
        }
        let twice = "extensions: [{name: x, backend: {services: [{url: 'http://a'}]}}]";
        let error = read(&[("extension.config", twice), ("extension.config.x", service)]).err().unwrap();
        assert_eq!(error, "extension.config.x: there is another extension \"x\"");
    }
}
