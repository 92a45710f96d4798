//! Repositories and templates as the keys of their Secrets, for writing (REP-5, REP-9).
//!
//! The counterpart of `from_secret`: both sides name every key once, and a test holds them together.

use serde_json::Value;

use super::{CredentialTemplate, Credentials, Repository, effective_type};
use crate::secret::Secret;

/// What a text is in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Type {
    Text,
    Flag(bool),
    Integer(i64),
}

/// One key of a Secret with the text it is to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The key that is written.
    pub key: &'static str,
    /// A second spelling that is read as well; written only where the Secret has it already (REP-9).
    pub alias: Option<&'static str>,
    /// The text.
    pub value: Secret<String>,
    /// Whether the value is the zero of its type, which is not written where the key is absent (REP-5).
    pub is_zero: bool,
    r#type: Type,
}

impl Field {
    fn text(key: &'static str, text: &str) -> Self {
        Self { key, alias: None, value: Secret::from(text), is_zero: text.is_empty(), r#type: Type::Text }
    }

    fn hidden(key: &'static str, value: &Secret<String>) -> Self {
        Self { key, alias: None, value: value.clone(), is_zero: value.is_empty(), r#type: Type::Text }
    }

    fn flag(key: &'static str, flag: bool) -> Self {
        Self {
            key,
            alias: None,
            value: Secret::new(flag.to_string()),
            is_zero: !flag,
            r#type: Type::Flag(flag),
        }
    }

    fn integer(key: &'static str, number: i64) -> Self {
        Self {
            key,
            alias: None,
            value: Secret::new(number.to_string()),
            is_zero: number == 0,
            r#type: Type::Integer(number),
        }
    }

    fn or(self, alias: &'static str) -> Self {
        Self { alias: Some(alias), ..self }
    }

    /// The value as a message has it, for whoever sends it.
    pub fn exposed(&self) -> Value {
        match self.r#type {
            Type::Text => self.value.expose().as_str().into(),
            Type::Flag(flag) => flag.into(),
            Type::Integer(number) => number.into(),
        }
    }
}

/// The keys in which two sets of fields differ, in the order of the first (REP-47). An empty type is the one that
/// its URL means.
pub fn differing_keys(stored: &[Field], wanted: &[Field]) -> Vec<&'static str> {
    let url = |fields: &[Field]| text_of(fields, "url").to_owned();
    let (stored_url, wanted_url) = (url(stored), url(wanted));
    let pairs = stored.iter().zip(wanted);
    let differ = pairs.filter(|(stored, wanted)| {
        if stored.key == "type" {
            return effective_type(stored.value.expose(), &stored_url)
                != effective_type(wanted.value.expose(), &wanted_url);
        }
        stored.value != wanted.value
    });
    differ.map(|(stored, _)| stored.key).collect()
}

fn text_of<'a>(fields: &'a [Field], key: &str) -> &'a str {
    fields.iter().find(|field| field.key == key).map_or("", |field| field.value.expose())
}

impl Repository {
    /// Every key of a `repository` or `repository-write` Secret, in a fixed order (REP A2).
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![
            Field::text("url", &self.url),
            Field::text("type", &self.r#type),
            Field::text("name", &self.name),
            Field::text("project", &self.project),
            Field::flag("insecureIgnoreHostKey", self.insecure_ignore_host_key),
            Field::flag("insecure", self.insecure),
            Field::flag("enableLfs", self.enable_lfs),
            Field::integer("depth", self.depth),
            Field::flag("webhookManifestCacheWarmDisabled", self.webhook_manifest_cache_warm_disabled),
        ];
        let (client, tenant) = ("azureServicePrincipalClientId", "azureServicePrincipalTenantId");
        let aliases = ("azureServicePrincipalClientID", "azureServicePrincipalTenantID");
        fields.extend(self.credentials.fields());
        fields.push(Field::text(client, &self.credentials.azure_client_id).or(aliases.0));
        fields.push(Field::text(tenant, &self.credentials.azure_tenant_id).or(aliases.1));
        fields
    }
}

impl CredentialTemplate {
    /// Every key of a `repo-creds` or `repo-write-creds` Secret, in a fixed order (REP A2, REP-9).
    pub fn fields(&self) -> Vec<Field> {
        let mut fields = vec![Field::text("url", &self.url), Field::text("type", &self.r#type)];
        let (client, tenant) = ("azureServicePrincipalClientID", "azureServicePrincipalTenantID");
        let aliases = ("azureServicePrincipalClientId", "azureServicePrincipalTenantId");
        fields.extend(self.credentials.fields());
        fields.push(Field::text(client, &self.credentials.azure_client_id).or(aliases.0));
        fields.push(Field::text(tenant, &self.credentials.azure_tenant_id).or(aliases.1));
        fields
    }
}

impl Credentials {
    /// Every key that both kinds of Secrets spell alike.
    fn fields(&self) -> Vec<Field> {
        vec![
            Field::text("username", &self.username),
            Field::hidden("password", &self.password),
            Field::hidden("bearerToken", &self.bearer_token),
            Field::hidden("sshPrivateKey", &self.ssh_private_key),
            Field::text("tlsClientCertData", &self.tls_client_cert_data),
            Field::hidden("tlsClientCertKey", &self.tls_client_cert_key),
            Field::hidden("githubAppPrivateKey", &self.github_app_private_key),
            Field::integer("githubAppID", self.github_app_id),
            Field::integer("githubAppInstallationID", self.github_app_installation_id),
            Field::text("githubAppEnterpriseBaseUrl", &self.github_app_enterprise_base_url),
            Field::hidden("gcpServiceAccountKey", &self.gcp_service_account_key),
            Field::hidden("azureServicePrincipalClientSecret", &self.azure_client_secret),
            Field::text("azureActiveDirectoryEndpoint", &self.azure_active_directory_endpoint),
            Field::flag("useAzureWorkloadIdentity", self.use_azure_workload_identity),
            Field::flag("forceHttpBasicAuth", self.force_http_basic_auth),
            Field::flag("enableOCI", self.enable_oci),
            Field::flag("insecureOCIForceHttp", self.insecure_oci_force_http),
            Field::text("proxy", &self.proxy),
            Field::text("noProxy", &self.no_proxy),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::application::Metadata;

    /// A value for every key that nothing else has.
    fn data(fields: &[Field]) -> BTreeMap<String, String> {
        let value = |index: usize, field: &Field| match field.value.expose().as_str() {
            "false" => "true".to_owned(),
            "0" => (index + 1).to_string(),
            _ => format!("text {index}"),
        };
        fields.iter().enumerate().map(|(index, field)| (field.key.to_owned(), value(index, field))).collect()
    }

    fn written(fields: &[Field]) -> BTreeMap<String, String> {
        fields.iter().map(|field| (field.key.to_owned(), field.value.expose().clone())).collect()
    }

    #[test]
    fn rep_5_every_key_that_is_read_is_written() {
        let all = data(&Repository::default().fields());
        let read = Repository::from_secret(&Metadata::default(), &all);
        assert_eq!((written(&read.fields()), read.problem), (all, None));
        let all = data(&CredentialTemplate::default().fields());
        let read = CredentialTemplate::from_secret(&Metadata::default(), &all);
        assert_eq!((written(&read.fields()), read.problem), (all, None));
    }

    #[test]
    fn rep_5_zeros_are_known() {
        assert!(Repository::default().fields().iter().all(|field| field.is_zero));
        let set = Repository { depth: 1, insecure: true, url: "u".to_owned(), ..Repository::default() };
        let keys: Vec<_> =
            set.fields().iter().filter(|field| !field.is_zero).map(|field| field.key).collect();
        assert_eq!(keys, ["url", "insecure", "depth"]);
    }

    #[test]
    fn rep_9_each_kind_has_its_spelling_of_azure() {
        let keys = |fields: Vec<Field>| -> Vec<_> {
            fields.iter().filter_map(|field| Some((field.key, field.alias?))).collect()
        };
        let (id, other) = ("azureServicePrincipalClientId", "azureServicePrincipalClientID");
        assert_eq!(keys(Repository::default().fields()).first(), Some(&(id, other)));
        assert_eq!(keys(CredentialTemplate::default().fields()).first(), Some(&(other, id)));
    }

    #[test]
    fn rep_47_an_empty_type_is_git() {
        let stored = Repository { url: "https://h/r".to_owned(), ..Repository::default() };
        let wanted = Repository { r#type: "git".to_owned(), ..stored.clone() };
        assert_eq!(differing_keys(&stored.fields(), &wanted.fields()), Vec::<&str>::new());
        let helm = Repository { r#type: "helm".to_owned(), insecure: true, ..stored.clone() };
        assert_eq!(differing_keys(&stored.fields(), &helm.fields()), ["type", "insecure"]);
    }
}
