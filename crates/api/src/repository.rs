//! Repositories and credential templates: their Secrets, and which one an access uses (REP part A).
//!
//! Everything here is a pure function over snapshots of the Secrets; `repository` and `repository-write`
//! Secrets (and the two kinds of templates) are separate snapshots that never mix (REP-23).

mod fields;
mod inherit;
mod isolation;
mod lookup;
mod secret_name;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::application::Metadata;
use crate::secret::Secret;
use crate::settings::ProjectMatching;

pub use fields::{Field, differing_keys};
pub use inherit::{Inheritance, Obstacle, Shared, inherit, inheritance, resolve};
pub use isolation::{Isolation, working_copy};
pub use lookup::{
    ApiSelectionError, Selection, TemplateMatching, dependency_repositories, duplicates, mutation_target,
    select, select_for_api, select_template, template_mutation_target,
};
pub use secret_name::{NameError, SecretKind, cluster_secret_name, secret_name};

/// What authenticates an access; the part that repositories and templates share (REP-33).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Credentials {
    /// User of basic auth.
    pub username: String,
    /// Password of basic auth.
    pub password: Secret<String>,
    /// Bearer token.
    pub bearer_token: Secret<String>,
    /// PEM, unencrypted.
    pub ssh_private_key: Secret<String>,
    /// Client certificate, PEM.
    pub tls_client_cert_data: String,
    /// Key of the client certificate, PEM.
    pub tls_client_cert_key: Secret<String>,
    /// Key of a GitHub App.
    pub github_app_private_key: Secret<String>,
    /// Id of a GitHub App.
    pub github_app_id: i64,
    /// Installation of a GitHub App, 0 = to be discovered.
    pub github_app_installation_id: i64,
    /// API of GitHub Enterprise.
    pub github_app_enterprise_base_url: String,
    /// Google service account, JSON.
    pub gcp_service_account_key: Secret<String>,
    /// Azure service principal.
    pub azure_client_id: String,
    /// Secret of the Azure service principal.
    pub azure_client_secret: Secret<String>,
    /// Tenant of the Azure service principal.
    pub azure_tenant_id: String,
    /// Where Azure tokens come from.
    pub azure_active_directory_endpoint: String,
    /// Whether the workload's Azure identity is used.
    pub use_azure_workload_identity: bool,
    /// Whether basic auth is sent unasked.
    pub force_http_basic_auth: bool,
    /// Whether a Helm repository is an OCI registry.
    pub enable_oci: bool,
    /// Whether the OCI registry speaks plain HTTP.
    pub insecure_oci_force_http: bool,
    /// Proxy.
    pub proxy: String,
    /// Hosts without proxy.
    pub no_proxy: String,
}

/// A repository Secret (REP A2).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Repository {
    /// URL as written.
    pub url: String,
    /// `git`, `helm`, `oci` or empty.
    pub r#type: String,
    /// Name, for Helm dependencies.
    pub name: String,
    /// Project it belongs to; empty means none.
    pub project: String,
    /// Deprecated alias of `insecure`.
    pub insecure_ignore_host_key: bool,
    /// Whether certificates and host keys are not verified.
    pub insecure: bool,
    /// Whether git-lfs is used.
    pub enable_lfs: bool,
    /// Depth of a shallow clone, 0 = full.
    pub depth: i64,
    /// Whether webhooks do not warm the manifest cache.
    pub webhook_manifest_cache_warm_disabled: bool,
    /// How to authenticate.
    pub credentials: Credentials,
    /// Whether the credentials come from a template (REP-22).
    pub inherited_credentials: bool,
    /// How far the credentials go; everywhere where they are the project's own, or its rules permit everything.
    pub reach: Option<Reach>,
    /// Name of the Secret; empty when there is none.
    pub secret_name: String,
    /// Creation time of the Secret, RFC 3339.
    pub created_at: Option<String>,
    /// The first field that could not be read; the repository can be listed but not used (REP-6).
    pub problem: Option<FieldError>,
}

/// The rules of the project that an access uses shared credentials for: what a repository refers to, by submodules and
/// the like, gets the credentials as far as these rules go (A3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// `sourceRepos` of the project.
    pub source_repos: Arc<[String]>,
    /// How they are read.
    pub matching: ProjectMatching,
}

/// A credential template (REP-10).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CredentialTemplate {
    /// Prefix of the URLs it is for.
    pub url: String,
    /// `git`, `helm`, `oci` or empty.
    pub r#type: String,
    /// How to authenticate.
    pub credentials: Credentials,
    /// Name of the Secret.
    pub secret_name: String,
    /// Creation time of the Secret, RFC 3339.
    pub created_at: Option<String>,
    /// The first field that could not be read; the template cannot be used (REP-6).
    pub problem: Option<FieldError>,
}

/// A field of a Secret that is not what it should be (REP-6).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FieldError {
    /// Not one of the accepted booleans.
    #[error("secret {secret:?}: field {field:?} is not a boolean")]
    Bool {
        /// Name of the Secret.
        secret: String,
        /// Key.
        field: &'static str,
    },
    /// Not a decimal integer.
    #[error("secret {secret:?}: field {field:?} is not an integer")]
    Integer {
        /// Name of the Secret.
        secret: String,
        /// Key.
        field: &'static str,
    },
}

/// Which mechanism a set of credentials means for git (REP-70).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialKind {
    /// Password or bearer token over HTTPS.
    Https,
    /// SSH key.
    Ssh,
    /// GitHub App.
    GithubApp,
    /// Google service account.
    Gcp,
    /// Azure workload identity.
    AzureWorkloadIdentity,
    /// Azure service principal.
    AzureServicePrincipal,
    /// None; a user name alone is none.
    Anonymous,
}

impl CredentialKind {
    /// The name used by `tiphys eval`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Ssh => "ssh",
            Self::GithubApp => "github-app",
            Self::Gcp => "gcp",
            Self::AzureWorkloadIdentity => "azure-workload-identity",
            Self::AzureServicePrincipal => "azure-service-principal",
            Self::Anonymous => "anonymous",
        }
    }
}

impl Credentials {
    /// Whether anything authenticates; decides about inheritance (REP-11).
    pub fn is_present(&self) -> bool {
        // Deviation (REP-11): a Google service account counts, so that no template's password takes its place.
        !(self.username.is_empty()
            && self.password.is_empty()
            && self.bearer_token.is_empty()
            && self.ssh_private_key.is_empty()
            && self.tls_client_cert_data.is_empty()
            && self.github_app_private_key.is_empty()
            && self.azure_client_secret.is_empty()
            && self.gcp_service_account_key.is_empty())
            || self.use_azure_workload_identity
    }

    /// The mechanism git uses (REP-70).
    pub fn kind(&self) -> CredentialKind {
        if !self.password.is_empty() || !self.bearer_token.is_empty() {
            CredentialKind::Https
        } else if !self.ssh_private_key.is_empty() {
            CredentialKind::Ssh
        } else if !self.github_app_private_key.is_empty() && self.github_app_id != 0 {
            CredentialKind::GithubApp
        } else if !self.gcp_service_account_key.is_empty() {
            CredentialKind::Gcp
        } else if self.use_azure_workload_identity {
            CredentialKind::AzureWorkloadIdentity
        } else if !self.azure_client_id.is_empty()
            && !self.azure_client_secret.is_empty()
            && !self.azure_tenant_id.is_empty()
        {
            CredentialKind::AzureServicePrincipal
        } else {
            CredentialKind::Anonymous
        }
    }

    /// Takes from a template what is empty here; the four flags are `ORed` (REP-33).
    pub fn inherit(&mut self, template: &Self) {
        fn text(own: &mut String, other: &str) {
            if own.is_empty() {
                other.clone_into(own);
            }
        }
        fn secret(own: &mut Secret<String>, other: &Secret<String>) {
            if own.is_empty() {
                *own = other.clone();
            }
        }
        text(&mut self.username, &template.username);
        secret(&mut self.password, &template.password);
        secret(&mut self.bearer_token, &template.bearer_token);
        secret(&mut self.ssh_private_key, &template.ssh_private_key);
        text(&mut self.tls_client_cert_data, &template.tls_client_cert_data);
        secret(&mut self.tls_client_cert_key, &template.tls_client_cert_key);
        secret(&mut self.github_app_private_key, &template.github_app_private_key);
        if self.github_app_id == 0 {
            self.github_app_id = template.github_app_id;
        }
        if self.github_app_installation_id == 0 {
            self.github_app_installation_id = template.github_app_installation_id;
        }
        text(&mut self.github_app_enterprise_base_url, &template.github_app_enterprise_base_url);
        secret(&mut self.gcp_service_account_key, &template.gcp_service_account_key);
        text(&mut self.azure_client_id, &template.azure_client_id);
        secret(&mut self.azure_client_secret, &template.azure_client_secret);
        text(&mut self.azure_tenant_id, &template.azure_tenant_id);
        text(&mut self.azure_active_directory_endpoint, &template.azure_active_directory_endpoint);
        text(&mut self.proxy, &template.proxy);
        text(&mut self.no_proxy, &template.no_proxy);
        // Deviation (REP-33): the reference overwrites these four, even with false.
        self.enable_oci |= template.enable_oci;
        self.insecure_oci_force_http |= template.insecure_oci_force_http;
        self.force_http_basic_auth |= template.force_http_basic_auth;
        self.use_azure_workload_identity |= template.use_azure_workload_identity;
    }
}

impl Repository {
    /// Reads a `repository` or `repository-write` Secret; `data` is decoded.
    pub fn from_secret(metadata: &Metadata, data: &BTreeMap<String, String>) -> Self {
        let mut fields = Fields::new(&metadata.name, data);
        Self {
            url: fields.line("url"),
            r#type: fields.line("type"),
            name: fields.line("name"),
            project: fields.line("project"),
            insecure_ignore_host_key: fields.flag("insecureIgnoreHostKey"),
            insecure: fields.flag("insecure"),
            enable_lfs: fields.flag("enableLfs"),
            depth: fields.integer("depth"),
            webhook_manifest_cache_warm_disabled: fields.flag("webhookManifestCacheWarmDisabled"),
            credentials: fields.credentials(),
            inherited_credentials: false,
            reach: None,
            secret_name: metadata.name.clone(),
            created_at: metadata.creation_timestamp.clone(),
            problem: fields.problem,
        }
    }

    /// A repository nobody has a Secret for (REP-20).
    pub fn bare(url: &str) -> Self {
        Self { url: url.to_owned(), ..Self::default() }
    }

    /// Whether certificates and host keys are not verified (REP-12).
    pub fn is_insecure(&self) -> bool {
        self.insecure_ignore_host_key || self.insecure || self.credentials.insecure_oci_force_http
    }

    /// Whether it is reached with the controller's own identity at a cloud provider (A3).
    pub fn lends_identity(&self) -> bool {
        self.credentials.use_azure_workload_identity
    }

    /// The type in force: what is written, else `oci` for `oci://` URLs, else `git` (REP A2).
    pub fn effective_type(&self) -> &str {
        effective_type(&self.r#type, &self.url)
    }
}

impl CredentialTemplate {
    /// Reads a `repo-creds` or `repo-write-creds` Secret; `data` is decoded.
    pub fn from_secret(metadata: &Metadata, data: &BTreeMap<String, String>) -> Self {
        let mut fields = Fields::new(&metadata.name, data);
        Self {
            url: fields.line("url"),
            r#type: fields.line("type"),
            credentials: fields.credentials(),
            secret_name: metadata.name.clone(),
            created_at: metadata.creation_timestamp.clone(),
            problem: fields.problem,
        }
    }

    /// The type in force: what is written, else `oci` for `oci://` URLs, else `git` (REP A2).
    pub fn effective_type(&self) -> &str {
        effective_type(&self.r#type, &self.url)
    }
}

/// A boolean as Go's `strconv.ParseBool` reads it (REP-6).
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

fn effective_type<'a>(written: &'a str, url: &str) -> &'a str {
    match written {
        "" if url.starts_with("oci://") => "oci",
        "" => "git",
        other => other,
    }
}

/// Reads the fields of one Secret and remembers the first that cannot be read.
struct Fields<'a> {
    secret: &'a str,
    data: &'a BTreeMap<String, String>,
    problem: Option<FieldError>,
}

impl<'a> Fields<'a> {
    fn new(secret: &'a str, data: &'a BTreeMap<String, String>) -> Self {
        Self { secret, data, problem: None }
    }

    fn raw(&self, key: &str) -> &'a str {
        self.data.get(key).map_or("", String::as_str)
    }

    /// Deviation (REP-7): the line end that `echo | base64` leaves does not count.
    fn line(&self, key: &str) -> String {
        self.raw(key).trim_end_matches(['\r', '\n']).to_owned()
    }

    fn hidden(&self, key: &str) -> Secret<String> {
        Secret::from(self.raw(key))
    }

    /// Deviation (REP-9): both spellings are read from both kinds of Secrets.
    fn either(&self, key: &str, other: &str) -> String {
        let value = self.raw(key);
        if value.is_empty() { self.raw(other) } else { value }.to_owned()
    }

    fn flag(&mut self, key: &'static str) -> bool {
        if !self.data.contains_key(key) {
            return false;
        }
        parse_bool(&self.line(key)).unwrap_or_else(|| {
            self.report(FieldError::Bool { secret: self.secret.to_owned(), field: key });
            false
        })
    }

    fn integer(&mut self, key: &'static str) -> i64 {
        if !self.data.contains_key(key) {
            return 0;
        }
        self.line(key).parse().unwrap_or_else(|_| {
            self.report(FieldError::Integer { secret: self.secret.to_owned(), field: key });
            0
        })
    }

    fn report(&mut self, problem: FieldError) {
        self.problem.get_or_insert(problem);
    }

    fn credentials(&mut self) -> Credentials {
        Credentials {
            username: self.raw("username").to_owned(),
            password: self.hidden("password"),
            bearer_token: self.hidden("bearerToken"),
            ssh_private_key: self.hidden("sshPrivateKey"),
            tls_client_cert_data: self.raw("tlsClientCertData").to_owned(),
            tls_client_cert_key: self.hidden("tlsClientCertKey"),
            github_app_private_key: self.hidden("githubAppPrivateKey"),
            github_app_id: self.integer("githubAppID"),
            github_app_installation_id: self.integer("githubAppInstallationID"),
            github_app_enterprise_base_url: self.raw("githubAppEnterpriseBaseUrl").to_owned(),
            gcp_service_account_key: self.hidden("gcpServiceAccountKey"),
            azure_client_id: self.either("azureServicePrincipalClientId", "azureServicePrincipalClientID"),
            azure_client_secret: self.hidden("azureServicePrincipalClientSecret"),
            azure_tenant_id: self.either("azureServicePrincipalTenantId", "azureServicePrincipalTenantID"),
            azure_active_directory_endpoint: self.raw("azureActiveDirectoryEndpoint").to_owned(),
            use_azure_workload_identity: self.flag("useAzureWorkloadIdentity"),
            force_http_basic_auth: self.flag("forceHttpBasicAuth"),
            enable_oci: self.flag("enableOCI"),
            insecure_oci_force_http: self.flag("insecureOCIForceHttp"),
            proxy: self.line("proxy"),
            no_proxy: self.line("noProxy"),
        }
    }
}

#[cfg(test)]
mod tests;
