//! Certificates of TLS servers and host keys for SSH: what a call would change, and what it shows (REP-82..85).

mod shell;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value, json};
use tiphys_api::names::{KNOWN_HOSTS_CONFIG_MAP, KNOWN_HOSTS_KEY, TLS_CERTS_CONFIG_MAP};
use tiphys_api::trust::{HostPattern, KnownHost, KnownHosts, Pem, PemError, certificates, is_host};
use tiphys_object::Object;

use crate::change::Change;
use crate::config_map;
use crate::error::Code;

pub use shell::Certificates;

/// Host keys that one call may store.
const ENTRIES_MAX: usize = 256;

/// Why a call about certificates fails.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A server has no such name.
    #[error("invalid hostname in request: {0}")]
    InvalidHost(String),
    /// A host has another key of this kind.
    #[error("key for '{host}' (subtype: '{kind}') already exists, and upsert was not specified")]
    KeyExists {
        /// The host.
        host: String,
        /// Kind of the key.
        kind: String,
    },
    /// A host has other certificates.
    #[error("TLS certificate for server '{0}' already exists, and upsert was not specified")]
    Exists(String),
    /// Neither `ssh` nor `https`.
    #[error("unknown certificate type: {0}")]
    UnknownType(String),
    /// A host key is no base64.
    #[error("the key for '{host}' (subtype: '{kind}') is not valid base64")]
    InvalidKey {
        /// The host.
        host: String,
        /// Kind of the key.
        kind: String,
    },
    /// More host keys than one call may store.
    #[error("limit exceeded")]
    TooMany,
    /// The certificates cannot be read.
    #[error(transparent)]
    Pem(#[from] PemError),
}

impl CertificateError {
    /// The class.
    pub fn code(&self) -> Code {
        match self {
            Self::KeyExists { .. } | Self::Exists(_) => Code::AlreadyExists,
            Self::TooMany => Code::ResourceExhausted,
            _ => Code::InvalidArgument,
        }
    }
}

/// What a certificate is for (REP-82).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateType {
    /// A server of SSH.
    Ssh,
    /// A server of HTTPS.
    Https,
}

impl CertificateType {
    /// Reads the word of a request; `None` means all.
    ///
    /// # Errors
    /// When there is no such type.
    pub fn read(text: &str) -> Result<Option<Self>, CertificateError> {
        match text {
            "" | "*" => Ok(None),
            "ssh" => Ok(Some(Self::Ssh)),
            "https" | "tls" => Ok(Some(Self::Https)),
            other => Err(CertificateError::UnknownType(other.to_owned())),
        }
    }

    /// The word of an answer.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ssh => "ssh",
            Self::Https => "https",
        }
    }
}

/// Which certificates are meant (REP-82).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Hosts.
    pub host: HostPattern,
    /// Type; `None` for all.
    pub kind: Option<CertificateType>,
    /// Kind of an SSH key; empty or `*` for all. It says nothing about TLS (REP-85).
    pub sub_type: String,
}

impl Filter {
    fn means(&self, kind: CertificateType) -> bool {
        self.kind.is_none_or(|wanted| wanted == kind)
    }

    fn means_key(&self, entry: &KnownHost) -> bool {
        let any = matches!(self.sub_type.as_str(), "" | "*");
        self.host.matches(&entry.host) && (any || self.sub_type == entry.kind)
    }
}

/// One certificate or host key as it is shown; its data is not (REP-83).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The server.
    pub host: String,
    /// What it is for.
    pub kind: CertificateType,
    /// Kind of its key.
    pub sub_type: String,
    /// Fingerprint of a host key, or subject of a certificate.
    pub info: String,
}

impl Item {
    fn of_key(entry: &KnownHost) -> Self {
        Self {
            host: entry.host.clone(),
            kind: CertificateType::Ssh,
            sub_type: entry.kind.clone(),
            info: entry.fingerprint().unwrap_or_else(|| "the key is not valid base64".to_owned()),
        }
    }

    fn of_certificate(host: &str, pem: &Pem) -> Self {
        match pem.certificate() {
            Ok(found) => Self {
                host: host.to_owned(),
                kind: CertificateType::Https,
                sub_type: found.key_algorithm.to_owned(),
                info: found.subject,
            },
            Err(error) => Self::invalid(host, &error),
        }
    }

    fn invalid(host: &str, why: &dyn std::fmt::Display) -> Self {
        Self {
            host: host.to_owned(),
            kind: CertificateType::Https,
            sub_type: "invalid".to_owned(),
            info: why.to_string(),
        }
    }

    /// Reads the members of an answer.
    ///
    /// # Errors
    /// When its type is one that nobody knows.
    pub fn read(value: &Value) -> Result<Self, CertificateError> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let kind = text("certType");
        let known = CertificateType::read(&kind)?;
        Ok(Self {
            host: text("serverName"),
            kind: known.ok_or(CertificateError::UnknownType(kind))?,
            sub_type: text("certSubType"),
            info: text("certInfo"),
        })
    }

    /// The members of an answer.
    pub fn to_value(&self) -> Value {
        json!({
            "serverName": self.host,
            "certType": self.kind.as_str(),
            "certSubType": self.sub_type,
            "certInfo": self.info,
        })
    }
}

/// Certificates of one entry; one that cannot be read is shown with the reason (REP-83).
fn items_of(host: &str, text: &str) -> Vec<Item> {
    match certificates(text) {
        Ok(found) => found.iter().map(|pem| Item::of_certificate(host, pem)).collect(),
        Err(error) => vec![Item::invalid(host, &error)],
    }
}

/// What is stored, as far as it is meant: host keys in their order, then certificates by host (REP-83).
pub fn list(known_hosts: Option<&Object>, tls: Option<&Object>, filter: &Filter) -> Vec<Item> {
    let mut found = Vec::new();
    if filter.means(CertificateType::Ssh) {
        let stored = known(known_hosts);
        found.extend(stored.entries().filter(|entry| filter.means_key(entry)).map(Item::of_key));
    }
    if filter.means(CertificateType::Https) {
        let stored = config_map::data(tls);
        let meant = stored.iter().filter(|(host, _)| filter.host.matches(host));
        found.extend(meant.flat_map(|(host, text)| items_of(host, text)));
    }
    found
}

/// What storing certificates of a host changes, and what it made (REP-84).
///
/// # Errors
/// When the name is none, there is no certificate, or the host has others and `upsert` is not asked for.
pub fn plan_create_tls(
    (namespace, stored): (&str, Option<&Object>),
    (host, pem): (&str, &str),
    upsert: bool,
) -> Result<(Change, Vec<Item>), CertificateError> {
    if !is_host(host) {
        return Err(CertificateError::InvalidHost(host.to_owned()));
    }
    let wanted = certificates(pem)?;
    for (at, one) in wanted.iter().enumerate() {
        one.certificate().map_err(|error| PemError::Content(at + 1, error))?;
    }
    let (host, data) = (host.to_ascii_lowercase(), config_map::data(stored));
    // The key of an entry may be spelled in another way; of two the stored one goes on.
    let key = data.keys().find(|key| key.eq_ignore_ascii_case(&host)).unwrap_or(&host);
    if let Some(present) = data.get(key) {
        if certificates(present).as_ref() == Ok(&wanted) {
            return Ok((Change::Keep, Vec::new()));
        }
        if !upsert {
            return Err(CertificateError::Exists(host));
        }
    }
    let text: String = wanted.iter().map(Pem::text).collect();
    let made = wanted.iter().map(|pem| Item::of_certificate(&host, pem)).collect();
    let change = config_map::put(
        stored,
        (namespace, TLS_CERTS_CONFIG_MAP),
        &Map::from_iter([(key.clone(), Value::from(text))]),
    );
    Ok((change, made))
}

/// What storing host keys changes, and what it made (REP-84). What stands around the keys stays (REP-85).
///
/// # Errors
/// When a name is none, or a host has another key of the same kind and `upsert` is not asked for; nothing is stored
/// then.
pub fn plan_create_ssh(
    (namespace, stored): (&str, Option<&Object>),
    wanted: &[KnownHost],
    upsert: bool,
) -> Result<(Change, Vec<Item>), CertificateError> {
    if wanted.len() > ENTRIES_MAX {
        return Err(CertificateError::TooMany);
    }
    let mut hosts = known(stored);
    let mut made = Vec::new();
    for entry in wanted {
        let (host, kind) = (entry.host.clone(), entry.kind.clone());
        if !KnownHosts::is_valid_host(entry) {
            return Err(CertificateError::InvalidHost(host));
        }
        if entry.fingerprint().is_none() {
            return Err(CertificateError::InvalidKey { host, kind });
        }
        match hosts.same(entry) {
            Some(present) if present.data == entry.data => continue,
            Some(_) if !upsert => return Err(CertificateError::KeyExists { host, kind }),
            _ => {}
        }
        hosts.put(entry);
        made.push(Item::of_key(entry));
    }
    let change = if made.is_empty() { Change::Keep } else { put_known((namespace, stored), &hosts) };
    Ok((change, made))
}

/// What removing host keys changes, and what goes (REP-85).
pub fn plan_delete_ssh((namespace, stored): (&str, Option<&Object>), filter: &Filter) -> (Change, Vec<Item>) {
    if !filter.means(CertificateType::Ssh) {
        return (Change::Keep, Vec::new());
    }
    let mut hosts = known(stored);
    let removed = hosts.remove(|entry| filter.means_key(entry));
    let change = if removed.is_empty() { Change::Keep } else { put_known((namespace, stored), &hosts) };
    (change, removed.iter().map(Item::of_key).collect())
}

/// What removing certificates changes, and what goes (REP-85).
pub fn plan_delete_tls((namespace, stored): (&str, Option<&Object>), filter: &Filter) -> (Change, Vec<Item>) {
    if !filter.means(CertificateType::Https) {
        return (Change::Keep, Vec::new());
    }
    let (mut gone, mut removed) = (Map::new(), Vec::new());
    for (host, text) in config_map::data(stored).into_iter().filter(|(host, _)| filter.host.matches(host)) {
        removed.extend(items_of(&host, &text));
        gone.insert(host, Value::Null);
    }
    let change = if gone.is_empty() {
        Change::Keep
    } else {
        config_map::put(stored, (namespace, TLS_CERTS_CONFIG_MAP), &gone)
    };
    (change, removed)
}

fn known(stored: Option<&Object>) -> KnownHosts {
    KnownHosts::read(&config_map::data(stored).remove(KNOWN_HOSTS_KEY).unwrap_or_default())
}

fn put_known((namespace, stored): (&str, Option<&Object>), hosts: &KnownHosts) -> Change {
    let data = Map::from_iter([(KNOWN_HOSTS_KEY.to_owned(), Value::from(hosts.text()))]);
    config_map::put(stored, (namespace, KNOWN_HOSTS_CONFIG_MAP), &data)
}
