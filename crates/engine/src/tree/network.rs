//! How an object takes part in networking, and which URLs lead to it (ENG-200, ENG-201).

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiphys_object::Gvk;
use tiphys_object::access::{self, at, text, text_at};

/// Annotations that add links.
pub(super) const LINK_PREFIX: &str = "link.argocd.argoproj.io/";
const IGNORE_LINKS: &str = "argocd.argoproj.io/ignore-default-links";
/// URLs of one Ingress that are looked at, and their bytes.
const URLS_MAX: usize = 1_000;
const URL_BYTES_MAX: usize = 64 << 10;

/// An object that another one sends traffic to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TargetRef {
    /// API group.
    pub group: String,
    /// Kind.
    pub kind: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// How an object takes part in networking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkingInfo {
    /// Labels of the Pods that a Service sends to.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub target_labels: BTreeMap<String, String>,
    /// Objects that traffic is sent to, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_refs: Vec<TargetRef>,
    /// Labels of a Pod.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Addresses of load balancers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<Balancer>,
    /// URLs, sorted.
    #[serde(rename = "externalURLs", skip_serializing_if = "Vec::is_empty")]
    pub external_urls: Vec<String>,
}

/// An address of a load balancer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balancer {
    /// Its name, where it has one.
    pub hostname: String,
    /// Its IP address, where it has one.
    pub ip: String,
}

/// The networking record of one object, `None` when it has no part in it.
pub(super) fn networking_info(gvk: &Gvk, object: &Value) -> Option<NetworkingInfo> {
    let mut info = NetworkingInfo::default();
    let mut urls = BTreeSet::new();
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("", "Pod") => info.labels = text_map(object, &["metadata", "labels"]),
        ("", "Service") => {
            info.target_labels = text_map(object, &["spec", "selector"]);
            info.ingress = balancer(object);
        }
        ("networking.k8s.io" | "extensions", "Ingress") => {
            info.target_refs = ingress_targets(object);
            info.ingress = balancer(object);
            urls = ingress_urls(object, &info.ingress);
        }
        ("gateway.networking.k8s.io", kind) if kind.ends_with("Route") => {
            info.target_refs = route_targets(object, &["spec", "rules"], "backendRefs");
            urls = host_urls(object, "hostnames");
        }
        ("networking.istio.io", "VirtualService") => {
            info.target_refs = istio_targets(object);
            urls = host_urls(object, "hosts");
        }
        ("route.openshift.io", "Route") => {
            let name = text_at(object, &["spec", "to", "name"]);
            if !name.is_empty() {
                info.target_refs.push(service(object, name));
            }
            let scheme =
                if at(object, &["spec", "tls"]).is_some_and(Value::is_object) { "https" } else { "http" };
            let host = text_at(object, &["spec", "host"]);
            if !host.is_empty() {
                urls.insert(format!("{scheme}://{host}{}", text_at(object, &["spec", "path"])));
            }
        }
        _ => {}
    }
    if access::annotation(object, IGNORE_LINKS) == Some("true") {
        urls.clear();
    }
    let annotations = text_map(object, &["metadata", "annotations"]);
    let links = annotations.into_iter().filter(|(key, _)| key.starts_with(LINK_PREFIX));
    urls.extend(links.map(|(_, value)| value).filter(|value| is_web_link(value)));
    info.external_urls = urls.into_iter().collect();
    (info != NetworkingInfo::default()).then_some(info)
}

/// Whether a link, or the URL behind `title|`, is an absolute http or https URL; others could run scripts.
fn is_web_link(value: &str) -> bool {
    let url = value.split_once('|').map_or(value, |(_, url)| url);
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && !url.contains(char::is_whitespace))
}

fn text_map(object: &Value, path: &[&str]) -> BTreeMap<String, String> {
    let members = at(object, path).and_then(Value::as_object).into_iter().flatten();
    members.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn balancer(object: &Value) -> Vec<Balancer> {
    let text = |entry, member| text(entry, member).to_owned();
    let entries = list(object, &["status", "loadBalancer", "ingress"]).iter();
    entries.map(|entry| Balancer { hostname: text(entry, "hostname"), ip: text(entry, "ip") }).collect()
}

fn service(object: &Value, name: &str) -> TargetRef {
    TargetRef {
        group: String::new(),
        kind: "Service".to_owned(),
        namespace: access::namespace(object).to_owned(),
        name: name.to_owned(),
    }
}

/// Name of the Service of a backend, new and old form.
fn backend_name(backend: &Value) -> &str {
    let name = text_at(backend, &["service", "name"]);
    if name.is_empty() { text(backend, "serviceName") } else { name }
}

fn ingress_targets(object: &Value) -> Vec<TargetRef> {
    let default = [at(object, &["spec", "defaultBackend"]), at(object, &["spec", "backend"])];
    let rules = list(object, &["spec", "rules"]).iter();
    let paths = rules.flat_map(|rule| list(rule, &["http", "paths"])).map(|path| path.get("backend"));
    let backends = default.into_iter().chain(paths).flatten();
    let names: BTreeSet<&str> = backends.map(backend_name).filter(|name| !name.is_empty()).collect();
    names.into_iter().map(|name| service(object, name)).collect()
}

fn route_targets(object: &Value, rules: &[&str], member: &str) -> Vec<TargetRef> {
    let backends = list(object, rules).iter().flat_map(|rule| list(rule, &[member]));
    let targets: BTreeSet<TargetRef> = backends
        .filter(|backend| !text(backend, "name").is_empty())
        .map(|backend| {
            let or = |member: &str, default: &str| match text(backend, member) {
                "" => default.to_owned(),
                found => found.to_owned(),
            };
            TargetRef {
                group: text(backend, "group").to_owned(),
                kind: or("kind", "Service"),
                namespace: or("namespace", access::namespace(object)),
                name: text(backend, "name").to_owned(),
            }
        })
        .collect();
    targets.into_iter().collect()
}

fn istio_targets(object: &Value) -> Vec<TargetRef> {
    let protocols = ["http", "tcp", "tls"].into_iter();
    let rules = protocols.flat_map(|protocol| list(object, &["spec", protocol]));
    let routes = rules.flat_map(|rule| list(rule, &["route"]));
    let targets: BTreeSet<TargetRef> = routes
        .filter_map(|route| {
            let mut parts = text_at(route, &["destination", "host"]).split('.');
            let name = parts.next().filter(|name| !name.is_empty())?;
            let namespace = parts.next().unwrap_or_else(|| access::namespace(object));
            Some(TargetRef { namespace: namespace.to_owned(), ..service(object, name) })
        })
        .collect();
    targets.into_iter().collect()
}

fn host_urls(object: &Value, member: &str) -> BTreeSet<String> {
    let hosts = list(object, &["spec", member]).iter().filter_map(Value::as_str);
    hosts
        .filter(|host| host.contains('.') && !host.contains('*'))
        .map(|host| format!("http://{host}"))
        .collect()
}

/// URLs of an Ingress: one per rule and path (ENG-201).
fn ingress_urls(object: &Value, balancer: &[Balancer]) -> BTreeSet<String> {
    let tls = list(object, &["spec", "tls"]);
    let tls_hosts: BTreeSet<&str> =
        tls.iter().flat_map(|entry| list(entry, &["hosts"])).filter_map(Value::as_str).collect();
    let tls_for_all = tls.iter().any(|entry| list(entry, &["hosts"]).is_empty());
    let scheme = |host: &str| if tls_for_all || tls_hosts.contains(host) { "https" } else { "http" };
    let addresses: Vec<&str> = balancer
        .iter()
        .map(|at| if at.hostname.is_empty() { at.ip.as_str() } else { at.hostname.as_str() })
        .filter(|address| !address.is_empty())
        .collect();
    let mut urls = Urls::default();
    for rule in list(object, &["spec", "rules"]) {
        let host = text(rule, "host");
        let hosts = if host.is_empty() { addresses.as_slice() } else { &[host] };
        let paths = list(rule, &["http", "paths"]);
        for shown in hosts {
            let base = format!("{}://{shown}", scheme(host));
            if paths.is_empty() && !urls.insert(&base, "") {
                return urls.found;
            }
            for path in paths {
                let path = text(path, "path").trim_end_matches('*');
                if !urls.insert(&base, if path == "/" { "" } else { path }) {
                    return urls.found;
                }
            }
        }
    }
    if list(object, &["spec", "rules"]).is_empty() && at(object, &["spec", "defaultBackend"]).is_some() {
        for address in addresses {
            if !urls.insert(&format!("{}://{address}", scheme(address)), "") {
                break;
            }
        }
    }
    urls.found
}

/// URLs of one object. Addresses and paths multiply, so what they come to is bounded; nobody clicks on more.
#[derive(Default)]
struct Urls {
    found: BTreeSet<String>,
    tries: usize,
    bytes: usize,
}

impl Urls {
    /// Adds one; `false` once there are as many as may be.
    fn insert(&mut self, base: &str, path: &str) -> bool {
        self.tries += 1;
        self.bytes += base.len() + path.len();
        if self.tries > URLS_MAX || self.bytes > URL_BYTES_MAX {
            return false;
        }
        self.found.insert(format!("{base}{path}"));
        true
    }
}
