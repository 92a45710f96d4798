//! Clusters: the Secret that describes one, and which one a destination means (REP part B).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use smol_str::SmolStr;

use crate::application::{Destination, Metadata};
use crate::names::{self, IN_CLUSTER_NAME, IN_CLUSTER_SERVER, LAST_APPLIED, SECRET_TYPE_LABEL};
use crate::secret::Secret;

/// A cluster as its Secret describes it (REP B1).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    /// Name; the server when the Secret has none.
    pub name: String,
    /// URL of the API server, without trailing `/`.
    pub server: String,
    /// Namespaces in namespaced mode; empty means all.
    pub namespaces: Vec<String>,
    /// Whether cluster-scoped resources are managed in namespaced mode.
    pub cluster_resources: bool,
    /// Project it belongs to; empty means none.
    pub project: String,
    /// Shard it is pinned to.
    pub shard: Option<i64>,
    /// Labels of the Secret without our own.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Secret without our own.
    pub annotations: BTreeMap<String, String>,
    /// The JSON text of `config`; empty means all defaults.
    pub config: Secret<String>,
    /// Name of the Secret; empty for the implicit local cluster.
    pub secret_name: String,
    /// Creation time of the Secret, RFC 3339.
    pub created_at: Option<String>,
    /// Time of the refresh annotation (REP-103), as written; one that is no time is left out.
    pub refresh_requested_at: Option<String>,
    /// Whether controllers ignore it (REP-103).
    pub skip_reconcile: bool,
    /// What could not be read and was left out.
    pub warnings: Vec<String>,
}

/// How to reach a cluster (REP-104).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterConfig {
    /// Basic auth user.
    pub username: String,
    /// Basic auth password.
    pub password: Secret<String>,
    /// Bearer token.
    pub bearer_token: Secret<String>,
    /// TLS.
    pub tls_client_config: TlsClientConfig,
    /// AWS IAM authentication.
    #[serde(rename = "awsAuthConfig")]
    pub aws_auth_config: Option<AwsAuthConfig>,
    /// Exec authentication.
    pub exec_provider_config: Option<ExecProviderConfig>,
    /// Whether responses are asked for uncompressed.
    pub disable_compression: bool,
    /// Proxy.
    pub proxy_url: String,
}

/// TLS of a cluster; the data members are base64 of PEM.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsClientConfig {
    /// Whether the server's certificate is not verified.
    pub insecure: bool,
    /// Name in the server's certificate.
    pub server_name: String,
    /// Client certificate.
    pub cert_data: String,
    /// Client key.
    pub key_data: Secret<String>,
    /// Authorities.
    pub ca_data: String,
}

/// AWS IAM authentication (REP-106).
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AwsAuthConfig {
    /// EKS cluster.
    #[serde(rename = "clusterName")]
    pub cluster_name: String,
    /// Role to assume.
    #[serde(rename = "roleARN")]
    pub role_arn: String,
    /// AWS profile.
    pub profile: String,
}

/// Exec authentication.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExecProviderConfig {
    /// Program.
    pub command: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Additional environment.
    pub env: BTreeMap<String, Secret<String>>,
    /// API version of the answer.
    pub api_version: String,
    /// What to tell people without the program.
    pub install_hint: String,
    /// Whether the program gets the cluster's description.
    pub provide_cluster_info: bool,
    /// Free-form data for the program.
    pub config: Option<Value>,
}

/// Why a cluster cannot be used or chosen. The texts are part of the interface (REP-110, 111).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// `config` is not the JSON it should be.
    #[error("failed to unmarshal cluster config: invalid JSON at line {line} column {column}")]
    Config {
        /// Line of the error, from 1.
        line: usize,
        /// Column of the error.
        column: usize,
    },
    /// The proxy has a scheme nobody speaks (REP-107).
    #[error("failed to parse proxy url, unsupported scheme {scheme:?}, must be http, https, or socks5")]
    ProxyScheme {
        /// The scheme.
        scheme: String,
    },
    /// The local cluster is switched off (REP-110).
    #[error("cluster {0:?} is disabled")]
    Disabled(String),
    /// The destination has both (REP-111).
    #[error("application destination can't have both name and server defined: {name} {server}")]
    NameAndServer {
        /// Name.
        name: String,
        /// Server.
        server: String,
    },
    /// The destination has neither (REP-111).
    #[error("Destination server missing from app spec")]
    Missing,
    /// No cluster has the name (REP-111).
    #[error("there are no clusters with this name: {0}")]
    UnknownName(String),
    /// Several clusters have the name (REP-111).
    #[error("there are {} clusters with the same name: [{}]", .0.len(), .0.join(" "))]
    AmbiguousName(Vec<String>),
    /// A Secret of the project may declare the cluster, and cannot be read (INV-15).
    #[error("cluster {wanted:?} of the project is unknown: Secret {secret_name} cannot be read: {reason}")]
    Unreadable {
        /// Server or name of the destination.
        wanted: String,
        /// The Secret.
        secret_name: String,
        /// Cause.
        reason: String,
    },
    /// No cluster has the server (CTL-11).
    #[error("error getting cluster by server {server:?}: rpc error: code = NotFound desc = {reason}")]
    UnknownServer {
        /// Server.
        server: String,
        /// Cause.
        reason: String,
    },
}

/// Identity of a cluster entry: its server and the project that it belongs to.
///
/// Entries of different projects share nothing, whatever their servers: neither connections nor indexes, credentials
/// or statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusterKey {
    /// URL of the API server, without trailing `/`.
    pub server: SmolStr,
    /// Project of the entry; empty for the shared scope.
    pub project: SmolStr,
}

impl ClusterKey {
    /// Identity of an entry of the shared scope.
    pub fn shared(server: &str) -> Self {
        Self { server: SmolStr::new(server.trim_end_matches('/')), project: SmolStr::default() }
    }
}

impl std::fmt::Display for ClusterKey {
    /// As RBAC rules name the entry (REP-112).
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { server, project } = self;
        if project.is_empty() { out.write_str(server) } else { write!(out, "{project}/{server}") }
    }
}

impl Cluster {
    /// Identity of the entry.
    pub fn key(&self) -> ClusterKey {
        ClusterKey { server: SmolStr::new(&self.server), project: SmolStr::new(&self.project) }
    }

    /// Reads a cluster Secret; `data` is decoded. Never fails: bad optional parts become warnings, and a bad
    /// `config` shows when [`Cluster::parse_config`] is called.
    pub fn from_secret(metadata: &Metadata, data: &BTreeMap<String, String>) -> Self {
        let text = |key: &str| data.get(key).map_or("", String::as_str);
        let server = text("server").trim_end_matches('/').to_owned();
        let mut warnings = Vec::new();
        let shard = match data.get("shard") {
            None => None,
            Some(shard) => {
                let parsed = shard.parse().ok();
                if parsed.is_none() {
                    warnings.push(format!("shard {shard:?} is not a number and is ignored"));
                }
                parsed
            }
        };
        let refresh_requested_at = metadata.annotations.get(names::annotation::REFRESH).cloned();
        let is_time = |text: &String| text.parse::<jiff::Timestamp>().is_ok();
        if let Some(bad) = refresh_requested_at.as_ref().filter(|text| !is_time(text)) {
            let name = names::annotation::REFRESH;
            warnings.push(format!("annotation {name}: {bad:?} is no time of RFC 3339 and is ignored"));
        }
        Self {
            name: text("name").to_owned(),
            server,
            namespaces: crate::settings::split_list(text("namespaces")),
            cluster_resources: text("clusterResources") == "true",
            project: text("project").to_owned(),
            shard,
            labels: without(&metadata.labels, &[SECRET_TYPE_LABEL]),
            annotations: without(&metadata.annotations, &[names::annotation::MANAGED_BY, LAST_APPLIED]),
            config: Secret::from(text("config")),
            secret_name: metadata.name.clone(),
            created_at: metadata.creation_timestamp.clone(),
            refresh_requested_at: refresh_requested_at.filter(is_time),
            skip_reconcile: metadata
                .annotations
                .get(names::annotation::SKIP_RECONCILE)
                .is_some_and(|flag| crate::repository::parse_bool(flag) == Some(true)),
            warnings,
        }
    }

    /// The cluster Tiphys itself runs in, as it exists without a Secret (REP-110).
    pub fn in_cluster() -> Self {
        Self { name: IN_CLUSTER_NAME.to_owned(), server: IN_CLUSTER_SERVER.to_owned(), ..Self::default() }
    }

    /// Reads `config`; empty text means all defaults (REP-104).
    pub fn parse_config(&self) -> Result<ClusterConfig, ClusterError> {
        let text = self.config.expose();
        if text.trim().is_empty() {
            return Ok(ClusterConfig::default());
        }
        let config: Option<ClusterConfig> = serde_json::from_str(text)
            .map_err(|error| ClusterError::Config { line: error.line(), column: error.column() })?;
        let config = config.unwrap_or_default();
        let scheme = config.proxy_url.split_once("://").map_or("", |(scheme, _)| scheme);
        if !config.proxy_url.is_empty() && !["http", "https", "socks5"].contains(&scheme) {
            return Err(ClusterError::ProxyScheme { scheme: scheme.to_owned() });
        }
        Ok(config)
    }

    /// Whether it is reached with something of the controller's own: its identity at the local cluster, a program or an
    /// identity of its machine (A3). A configuration that cannot be read may be one.
    pub fn lends_identity(&self) -> bool {
        let is_local = self.server.trim_end_matches('/') == IN_CLUSTER_SERVER;
        is_local
            || self.parse_config().map_or(true, |config| {
                config.exec_provider_config.is_some() || config.aws_auth_config.is_some()
            })
    }

    /// Whether controllers keep its version in a label of its Secret (REP-103). The local cluster without a Secret has none.
    pub fn wants_version_label(&self) -> bool {
        let wanted = self.labels.get(names::label::AUTO_LABEL_CLUSTER_INFO).map(String::as_str);
        wanted == Some("true") && !self.secret_name.is_empty()
    }

    /// Whether applications that deploy to both find the same there: what only people and generators read of a cluster
    /// does not count.
    pub fn is_same_destination(&self, other: &Self) -> bool {
        let plain = |cluster: &Self| Self {
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            warnings: Vec::new(),
            shard: None,
            ..cluster.clone()
        };
        plain(self) == plain(other)
    }

    /// Whether only some namespaces are managed.
    pub fn is_namespaced(&self) -> bool {
        !self.namespaces.is_empty()
    }
}

impl ClusterConfig {
    /// The JSON of `config`, without members that say nothing (REP-104).
    pub fn to_json(&self) -> Secret<String> {
        let mut tls = Map::new();
        tls.insert("insecure".to_owned(), self.tls_client_config.insecure.into());
        let TlsClientConfig { server_name, cert_data, key_data, ca_data, .. } = &self.tls_client_config;
        for (key, text) in [
            ("serverName", server_name),
            ("certData", cert_data),
            ("keyData", key_data.expose()),
            ("caData", ca_data),
        ] {
            put_text(&mut tls, key, text);
        }
        let mut config = Map::new();
        config.insert("tlsClientConfig".to_owned(), tls.into());
        put_text(&mut config, "username", &self.username);
        put_text(&mut config, "password", self.password.expose());
        put_text(&mut config, "bearerToken", self.bearer_token.expose());
        put_text(&mut config, "proxyUrl", &self.proxy_url);
        if self.disable_compression {
            config.insert("disableCompression".to_owned(), true.into());
        }
        if let Some(aws) = &self.aws_auth_config {
            config.insert("awsAuthConfig".to_owned(), aws.to_value());
        }
        if let Some(exec) = &self.exec_provider_config {
            config.insert("execProviderConfig".to_owned(), exec.to_value());
        }
        Secret::new(Value::Object(config).to_string())
    }
}

impl AwsAuthConfig {
    /// As it is on the wire.
    pub fn to_value(&self) -> Value {
        let mut members = Map::new();
        put_text(&mut members, "clusterName", &self.cluster_name);
        put_text(&mut members, "roleARN", &self.role_arn);
        put_text(&mut members, "profile", &self.profile);
        members.into()
    }
}

impl ExecProviderConfig {
    /// As it is in the Secret; the environment may hold secrets.
    fn to_value(&self) -> Value {
        let mut members = Map::new();
        put_text(&mut members, "command", &self.command);
        if !self.args.is_empty() {
            members.insert("args".to_owned(), self.args.clone().into());
        }
        if !self.env.is_empty() {
            let env = self.env.iter().map(|(name, value)| (name.clone(), value.expose().as_str().into()));
            members.insert("env".to_owned(), Value::Object(env.collect()));
        }
        put_text(&mut members, "apiVersion", &self.api_version);
        put_text(&mut members, "installHint", &self.install_hint);
        if self.provide_cluster_info {
            members.insert("provideClusterInfo".to_owned(), true.into());
        }
        if let Some(config) = &self.config {
            members.insert("config".to_owned(), config.clone());
        }
        members.into()
    }
}

fn put_text(members: &mut Map<String, Value>, key: &str, text: &str) {
    if !text.is_empty() {
        members.insert(key.to_owned(), text.into());
    }
}

/// A Secret that exists, cannot be read, and may describe a cluster (INV-8, INV-15).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnreadCluster {
    /// Name of the Secret.
    pub secret_name: String,
    /// Why it cannot be read.
    pub reason: String,
    /// What can be told of the cluster all the same: labels, name, server, project; `None` when nothing can.
    pub seen: Option<Cluster>,
}

impl UnreadCluster {
    /// Whether it may be one that is looked for: it is, or nobody knows.
    pub fn may_be(&self, is_wanted: impl FnOnce(&Cluster) -> bool) -> bool {
        self.seen.as_ref().is_none_or(is_wanted)
    }
}

impl std::fmt::Display for UnreadCluster {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { secret_name, reason, seen } = self;
        if seen.is_none() {
            // Whose it is cannot be told, so its name and its content are told to no project (SEC-25).
            let text = "not all clusters are known: the Secret of a cluster cannot be read; the log of the controller names it";
            return out.write_str(text);
        }
        write!(out, "not all clusters are known: Secret {secret_name} cannot be read: {reason}")
    }
}

/// All clusters of an installation, sorted by name, then server (REP-112).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Clusters {
    list: Vec<Cluster>,
    unread: Vec<UnreadCluster>,
    in_cluster_enabled: bool,
}

impl Clusters {
    /// Adds the implicit local cluster to those of the Secrets, or removes it where it is disabled (REP-110). Only an
    /// entry of the shared scope replaces it.
    pub fn new(mut secrets: Vec<Cluster>, in_cluster_enabled: bool) -> Self {
        let is_shared_local =
            |cluster: &Cluster| cluster.server == IN_CLUSTER_SERVER && cluster.project.is_empty();
        if !in_cluster_enabled {
            secrets.retain(|cluster| cluster.server != IN_CLUSTER_SERVER);
        } else if !secrets.iter().any(is_shared_local) {
            secrets.push(Cluster::in_cluster());
        }
        secrets
            .sort_by(|a, b| (&a.name, &a.server, &a.secret_name).cmp(&(&b.name, &b.server, &b.secret_name)));
        Self { list: secrets, unread: Vec::new(), in_cluster_enabled }
    }

    /// The same, beside Secrets that cannot be read.
    #[must_use]
    pub fn beside(mut self, unread: Vec<UnreadCluster>) -> Self {
        self.unread = unread;
        self
    }

    /// Secrets that cannot be read, and may describe clusters.
    pub fn unread(&self) -> &[UnreadCluster] {
        &self.unread
    }

    /// All of them, sorted by name, then server.
    pub fn all(&self) -> &[Cluster] {
        &self.list
    }

    /// The entry with this identity, exactly.
    ///
    /// # Errors
    /// When there is none, or the local cluster is disabled.
    pub fn entry(&self, key: &ClusterKey) -> Result<&Cluster, ClusterError> {
        let found =
            self.list.iter().find(|cluster| cluster.server == key.server && cluster.project == key.project);
        found.ok_or_else(|| self.unknown_server(&key.server))
    }

    /// The clusters as applications of a project see them.
    pub fn of_project<'a, 'p>(&'a self, project: &'p str) -> ProjectClusters<'a, 'p> {
        ProjectClusters { all: self, project }
    }

    fn unknown_server(&self, server: &str) -> ClusterError {
        let reason = if server == IN_CLUSTER_SERVER && !self.in_cluster_enabled {
            ClusterError::Disabled(server.to_owned()).to_string()
        } else {
            format!("cluster {server:?} not found")
        };
        ClusterError::UnknownServer { server: server.to_owned(), reason }
    }
}

/// The clusters as applications of one project see them: those of the project come first, then those of the shared
/// scope. Entries of other projects do not exist for it, so none of them can make a destination ambiguous.
#[derive(Clone, Copy, Debug)]
pub struct ProjectClusters<'a, 'p> {
    all: &'a Clusters,
    /// Empty for the shared scope alone.
    project: &'p str,
}

impl<'a> ProjectClusters<'a, '_> {
    /// Whether the project sees an entry.
    pub fn sees(&self, cluster: &Cluster) -> bool {
        cluster.project.is_empty() || cluster.project == self.project
    }

    /// The entry with this server; trailing slashes of the argument do not count.
    ///
    /// # Errors
    /// When the project sees none.
    pub fn by_server(&self, server: &str) -> Result<&'a Cluster, ClusterError> {
        let server = server.trim_end_matches('/');
        let is_wanted = |cluster: &Cluster| cluster.server == server;
        match self.find(server, &is_wanted)?.first() {
            Some(cluster) => Ok(cluster),
            None => Err(self.all.unknown_server(server)),
        }
    }

    /// The one entry with this name.
    ///
    /// # Errors
    /// When the project sees none, or several in the same scope.
    pub fn by_name(&self, name: &str) -> Result<&'a Cluster, ClusterError> {
        let found = self.find(name, &|cluster| cluster.name == name)?;
        match found.as_slice() {
            [] => Err(ClusterError::UnknownName(name.to_owned())),
            [cluster] => Ok(cluster),
            several => Err(ClusterError::AmbiguousName(several.iter().map(|c| c.server.clone()).collect())),
        }
    }

    /// The cluster a destination means (REP-111).
    ///
    /// # Errors
    /// When it means none, or several.
    pub fn resolve(&self, destination: &Destination) -> Result<&'a Cluster, ClusterError> {
        match (destination.server.as_str(), destination.name.as_str()) {
            ("", "") => Err(ClusterError::Missing),
            ("", name) => self.by_name(name),
            (server, "") => self.by_server(server),
            (server, name) => {
                Err(ClusterError::NameAndServer { name: name.to_owned(), server: server.to_owned() })
            }
        }
    }

    /// Why a cluster that was not found may exist all the same: nothing may follow from its absence (INV-8).
    pub fn doubt(&self, error: &ClusterError) -> Option<&'a UnreadCluster> {
        let is_wanted = |cluster: &Cluster| match error {
            ClusterError::UnknownName(name) => cluster.name == *name,
            ClusterError::UnknownServer { server, .. } => cluster.server == *server,
            _ => false,
        };
        let mut unread = self.all.unread.iter();
        match error {
            // This one is there without a Secret, or switched off whatever a Secret says.
            ClusterError::UnknownServer { server, .. } if server == IN_CLUSTER_SERVER => None,
            ClusterError::UnknownName(_) | ClusterError::UnknownServer { .. } => {
                unread.find(|unread| unread.may_be(|cluster| self.sees(cluster) && is_wanted(cluster)))
            }
            ClusterError::Unreadable { secret_name, .. } => {
                unread.find(|unread| unread.secret_name == *secret_name)
            }
            _ => None,
        }
    }

    /// Matching entries of the project, or else of the shared scope. A Secret of the project that may be one of them and
    /// cannot be read must not turn the destination into a shared cluster (INV-15).
    fn find(
        &self,
        wanted: &str,
        is_wanted: &dyn Fn(&Cluster) -> bool,
    ) -> Result<Vec<&'a Cluster>, ClusterError> {
        let within = |project: &str| -> Vec<&'a Cluster> {
            let list = self.all.list.iter();
            list.filter(|cluster| cluster.project == project && is_wanted(cluster)).collect()
        };
        if self.project.is_empty() {
            return Ok(within(""));
        }
        let own = within(self.project);
        if !own.is_empty() {
            return Ok(own);
        }
        let is_own = |cluster: &Cluster| cluster.project == self.project && is_wanted(cluster);
        match self.all.unread.iter().find(|unread| unread.seen.as_ref().is_some_and(is_own)) {
            Some(UnreadCluster { secret_name, reason, .. }) => Err(ClusterError::Unreadable {
                wanted: wanted.to_owned(),
                secret_name: secret_name.clone(),
                reason: reason.clone(),
            }),
            None => Ok(within("")),
        }
    }
}

fn without(map: &BTreeMap<String, String>, keys: &[&str]) -> BTreeMap<String, String> {
    map.iter()
        .filter(|(key, _)| !keys.contains(&key.as_str()))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

#[cfg(test)]
mod tests;
