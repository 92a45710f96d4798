//! `oidc.config`: which provider people are signed in by, and how (API-59, API-60).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiphys_api::secret::Secret;
use tiphys_go::yaml::{Dialect, parse};

use crate::claims::Expected;
use crate::http::Transport;

/// Scopes that are asked for where nothing is set.
const SCOPES: [&str; 4] = ["openid", "profile", "email", "groups"];

/// How long groups count that were asked for, where nothing is set, and what is told of a time that is none.
const KEPT: (Duration, &str) = (Duration::from_mins(5), "groups are asked for again after 5m");
/// Where Azure tells groups where nothing is set.
const GRAPH: &str = "https://graph.microsoft.com/v1.0";
/// The hosts where it does.
const GRAPHS: [&str; 4] =
    ["graph.microsoft.com", "graph.microsoft.us", "graph.microsoft.de", "microsoftgraph.chinacloudapi.cn"];

/// A provider and who we are to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OidcConfig {
    /// What people call it.
    pub name: String,
    /// Its own name, to the letter.
    pub issuer: String,
    /// Who the API server is to it.
    pub client_id: String,
    /// What proves that.
    pub client_secret: Secret<String>,
    /// Who the command line is to it; empty where it is the same.
    pub cli_client_id: String,
    /// What is asked for.
    pub scopes: Vec<String>,
    /// Claims that are asked for by name.
    pub id_token_claims: BTreeMap<String, ClaimRequest>,
    /// For whom tokens may be meant.
    pub allowed_audiences: Vec<String>,
    /// Whether tokens that are meant for nobody in particular count.
    pub may_lack_audience: bool,
    /// Where whoever logs out is sent.
    pub logout_url: String,
    /// Whether the browser's flow proves with a verifier that one and the same begins and ends it.
    pub uses_pkce: bool,
    /// A hint for the provider about whose account it will be.
    pub domain_hint: String,
    /// Time before the end of a token in which it is refreshed.
    pub refresh_threshold: Duration,
    /// Whether we prove who we are with the token of our pod.
    pub uses_workload_identity: bool,
    /// Where the groups of people are asked for with their access tokens (API-68).
    pub user_info: Option<GroupsSource>,
    /// Where they are asked for when there are too many for a token of Azure (API-69).
    pub overage: Option<GroupsSource>,
    /// The way to it.
    pub transport: Transport,
}

/// Where groups come from that are not in a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupsSource {
    /// The address.
    pub url: String,
    /// How long what it told counts, at most until the token ends.
    pub kept: Duration,
}

/// What is asked about one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ClaimRequest {
    /// Whether it is needed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub essential: bool,
    /// The value that it should have.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The values that it may have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

/// Why `oidc.config` has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// It is no YAML.
    #[error("oidc.config cannot be read ({0}); single sign-on is off")]
    Yaml(String),
    /// A member has another type.
    #[error("oidc.config: members have unexpected types; single sign-on is off")]
    Types,
    /// A member is missing.
    #[error("oidc.config has no {0}; single sign-on is off")]
    Missing(&'static str),
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Given {
    name: String,
    issuer: String,
    #[serde(rename = "clientID")]
    client_id: String,
    client_secret: Secret<String>,
    #[serde(rename = "cliClientID")]
    cli_client_id: String,
    requested_scopes: Vec<String>,
    #[serde(rename = "requestedIDTokenClaims")]
    requested_id_token_claims: BTreeMap<String, ClaimRequest>,
    allowed_audiences: Vec<String>,
    skip_audience_check_when_token_has_no_audience: bool,
    #[serde(rename = "logoutURL")]
    logout_url: String,
    #[serde(rename = "rootCA")]
    root_ca: String,
    #[serde(rename = "enablePKCEAuthentication")]
    enable_pkce_authentication: bool,
    domain_hint: String,
    refresh_token_threshold: String,
    enable_user_info_groups: bool,
    user_info_path: String,
    #[serde(rename = "userInfoBaseURL")]
    user_info_base_url: String,
    user_info_cache_expiration: String,
    azure: Azure,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Azure {
    use_workload_identity: bool,
    enable_user_group_overage_claim: bool,
    graph_api_endpoint: String,
    user_group_overage_claim_cache_expiration: String,
}

/// Looks up what a reference means: the Secret, which is that of the installation where none is named, and the key.
pub type LookUp<'l> = dyn Fn(Option<&str>, &str) -> Option<Secret<String>> + 'l;

/// Replaces every text that is a reference by what it refers to: `$key`, and `$secret:key` (API-60). What nothing is
/// known of stays, with a warning.
pub fn resolve(value: &mut Value, look_up: &LookUp<'_>, warnings: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let Some(name) = text.strip_prefix('$').filter(|name| !name.is_empty()) else { return };
            let found = match name.split_once(':') {
                Some((secret, key)) => look_up(Some(secret), key),
                None => look_up(None, name),
            };
            match found {
                Some(secret) => secret.expose().trim().clone_into(text),
                None => warnings.push(format!("nothing is known that {text} refers to")),
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| resolve(item, look_up, warnings)),
        Value::Object(members) => members.values_mut().for_each(|member| resolve(member, look_up, warnings)),
        _ => {}
    }
}

impl OidcConfig {
    /// Reads `oidc.config`. Warnings name what has no effect.
    ///
    /// # Errors
    /// When nobody can be signed in by it.
    pub fn read(text: &str, look_up: &LookUp<'_>, warnings: &mut Vec<String>) -> Result<Self, ConfigError> {
        let read = parse(text, Dialect::Sigs, &tiphys_go::yaml::Limits::default());
        let mut value = read
            .map_err(|error| ConfigError::Yaml(error.to_string()))?
            .ok_or(ConfigError::Missing("issuer"))?;
        let mut found = Vec::new();
        resolve(&mut value, look_up, &mut found);
        // The texts may hold secrets; the error of the reader could quote one.
        let given: Given = serde_json::from_value(value).map_err(|_secret| ConfigError::Types)?;
        for (member, text) in [("issuer", &given.issuer), ("clientID", &given.client_id)] {
            if text.is_empty() {
                return Err(ConfigError::Missing(member));
            }
        }
        let refresh_threshold = time(
            ("refreshTokenThreshold", &given.refresh_token_threshold),
            (Duration::ZERO, "tokens are not refreshed early"),
            &mut found,
        );
        let (user_info, overage) = (given.user_info(&mut found), given.overage(&mut found));
        warnings.extend(found.into_iter().map(|text| format!("oidc.config: {text}")));
        Ok(Self { user_info, overage, ..given.into_config(refresh_threshold) })
    }

    /// Who the command line is to the provider (API-71).
    pub fn client_of_cli(&self) -> &str {
        if self.cli_client_id.is_empty() { &self.client_id } else { &self.cli_client_id }
    }

    /// What is expected of a token.
    pub fn expected<'a>(&'a self, nonce: Option<&'a str>) -> Expected<'a> {
        Expected {
            issuer: &self.issuer,
            audiences: &self.allowed_audiences,
            may_lack_audience: self.may_lack_audience,
            nonce,
        }
    }
}

/// The default scopes.
pub fn default_scopes() -> Vec<String> {
    SCOPES.map(str::to_owned).to_vec()
}

/// A time, or `default` where none is set; of one that is none `otherwise` is told.
fn time(
    (member, text): (&str, &str),
    (default, otherwise): (Duration, &str),
    warnings: &mut Vec<String>,
) -> Duration {
    if text.is_empty() {
        return default;
    }
    let read = tiphys_go::duration::parse(text).ok().and_then(|found| Duration::try_from(found).ok());
    read.unwrap_or_else(|| {
        warnings.push(format!("{member} is no duration like 5m; {otherwise}"));
        default
    })
}

impl Given {
    /// Where groups are asked for: at the host of the issuer unless another address is set (API-68).
    fn user_info(&self, warnings: &mut Vec<String>) -> Option<GroupsSource> {
        if !self.enable_user_info_groups {
            return None;
        }
        let own = || {
            let (scheme, rest) = self.issuer.split_once("://")?;
            Some(format!("{scheme}://{}", rest.split('/').next()?))
        };
        let set = Some(self.user_info_base_url.clone()).filter(|url| !url.is_empty());
        let Some(base) = set.or_else(own).filter(|_| !self.user_info_path.is_empty()) else {
            warnings
                .push("enableUserInfoGroups needs userInfoPath; groups are those of the token".to_owned());
            return None;
        };
        let url = format!("{}/{}", base.trim_end_matches('/'), self.user_info_path.trim_start_matches('/'));
        let kept = ("userInfoCacheExpiration", self.user_info_cache_expiration.as_str());
        let kept = time(kept, KEPT, warnings);
        Some(GroupsSource { url, kept })
    }

    /// Where Azure tells groups; access tokens go to Microsoft alone (API-69).
    fn overage(&self, warnings: &mut Vec<String>) -> Option<GroupsSource> {
        if !self.azure.enable_user_group_overage_claim {
            return None;
        }
        let set = self.azure.graph_api_endpoint.trim_end_matches('/');
        let is_known = GRAPHS.iter().any(|host| {
            let rest = set.strip_prefix("https://").and_then(|rest| rest.strip_prefix(host));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if !is_known && !set.is_empty() {
            let text = format!("azure.graphApiEndpoint is none of Microsoft's; {GRAPH} is asked");
            warnings.push(text);
        }
        let url = format!("{}/me/getMemberGroups", if is_known { set } else { GRAPH });
        let kept = &self.azure.user_group_overage_claim_cache_expiration;
        let kept = time(("azure.userGroupOverageClaimCacheExpiration", kept.as_str()), KEPT, warnings);
        Some(GroupsSource { url, kept })
    }

    fn into_config(self, refresh_threshold: Duration) -> OidcConfig {
        let own = [&self.client_id, &self.cli_client_id];
        let own = own.into_iter().filter(|id| !id.is_empty()).cloned().collect();
        let audiences = if self.allowed_audiences.is_empty() { own } else { self.allowed_audiences };
        let scopes = if self.requested_scopes.is_empty() { default_scopes() } else { self.requested_scopes };
        OidcConfig {
            name: self.name,
            issuer: self.issuer,
            client_id: self.client_id,
            client_secret: self.client_secret,
            cli_client_id: self.cli_client_id,
            scopes,
            id_token_claims: self.requested_id_token_claims,
            allowed_audiences: audiences,
            may_lack_audience: self.skip_audience_check_when_token_has_no_audience,
            logout_url: self.logout_url,
            uses_pkce: self.enable_pkce_authentication,
            domain_hint: self.domain_hint,
            refresh_threshold,
            uses_workload_identity: self.azure.use_workload_identity,
            user_info: None,
            overage: None,
            transport: Transport { root_ca: self.root_ca, ..Transport::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look_up(secret: Option<&str>, key: &str) -> Option<Secret<String>> {
        match (secret, key) {
            (None, "oidc.secret") => Some(Secret::from(" hunter2\n")),
            (Some("sso"), "id") => Some(Secret::from("cd")),
            _ => None,
        }
    }

    fn read(text: &str) -> (Result<OidcConfig, ConfigError>, Vec<String>) {
        let mut warnings = Vec::new();
        let read = OidcConfig::read(text, &look_up, &mut warnings);
        (read, warnings)
    }

    #[test]
    fn api_59_defaults_are_those_of_the_reference() {
        let (config, warnings) = read("issuer: https://sso\nclientID: cd\ncliClientID: cli\n");
        let config = config.unwrap();
        assert_eq!(config.scopes, SCOPES);
        assert_eq!(config.allowed_audiences, ["cd", "cli"]);
        assert_eq!(
            (config.may_lack_audience, config.uses_pkce, config.client_of_cli()),
            (false, false, "cli")
        );
        assert_eq!(warnings, [""; 0]);
        let (config, _) =
            read("issuer: https://sso\nclientID: cd\nallowedAudiences: [x]\nrequestedScopes: [openid]");
        let config = config.unwrap();
        assert_eq!((config.allowed_audiences, config.client_id), (vec!["x".to_owned()], "cd".to_owned()));
        assert_eq!(config.scopes, ["openid"]);
    }

    #[test]
    fn api_60_references_are_replaced_and_trimmed() {
        let (config, warnings) =
            read("issuer: https://sso\nclientID: $sso:id\nclientSecret: $oidc.secret\nname: $gone\n");
        let config = config.unwrap();
        assert_eq!((config.client_id.as_str(), config.client_secret.expose().as_str()), ("cd", "hunter2"));
        assert_eq!(config.name, "$gone", "what is not known stays");
        assert_eq!(warnings, ["oidc.config: nothing is known that $gone refers to"]);
        assert!(!format!("{config:?}").contains("hunter2"));
    }

    #[test]
    fn api_59_what_cannot_be_read_is_told_without_its_texts() {
        for (text, error) in [
            ("", ConfigError::Missing("issuer")),
            ("issuer: https://sso", ConfigError::Missing("clientID")),
            ("clientID: x", ConfigError::Missing("issuer")),
            ("- a", ConfigError::Missing("issuer")),
            ("issuer: https://sso\nclientID: cd\nclientSecret: [hunter2]", ConfigError::Types),
        ] {
            assert_eq!(read(text).0, Err(error), "{text}");
        }
        assert!(matches!(read("issuer: {").0, Err(ConfigError::Yaml(_))));
    }

    #[test]
    fn api_59_what_has_no_effect_is_told() {
        let text = "issuer: https://sso\nclientID: cd\nenableUserInfoGroups: true\nrefreshTokenThreshold: soon\n\
                    azure: {enableUserGroupOverageClaim: true, graphApiEndpoint: 'https://evil.example'}\n";
        let (config, warnings) = read(text);
        for member in ["enableUserInfoGroups", "azure.graphApiEndpoint", "refreshTokenThreshold"] {
            assert!(warnings.iter().any(|text| text.contains(member)), "{member}: {warnings:?}");
        }
        assert_eq!(config.unwrap().user_info, None);
    }

    #[test]
    fn api_68_groups_are_asked_for_at_the_host_of_the_issuer_or_where_it_is_set() {
        let source = |more: &str| {
            let text = format!(
                "issuer: https://sso:8443/realms/x\nclientID: cd\nenableUserInfoGroups: true\n{more}"
            );
            let source = read(&text).0.unwrap().user_info.unwrap();
            (source.url, source.kept.as_secs())
        };
        assert_eq!(source("userInfoPath: /me"), ("https://sso:8443/me".to_owned(), 300));
        let set = "userInfoPath: me\nuserInfoBaseURL: https://other/api/\nuserInfoCacheExpiration: 90s";
        assert_eq!(source(set), ("https://other/api/me".to_owned(), 90));
    }

    #[test]
    fn api_69_access_tokens_go_to_microsoft_alone() {
        let url = |endpoint: &str| {
            let text = format!(
                "issuer: https://sso\nclientID: cd\nazure:\n  enableUserGroupOverageClaim: true\n  \
                                graphApiEndpoint: '{endpoint}'\n"
            );
            read(&text).0.unwrap().overage.unwrap().url
        };
        let own = "https://graph.microsoft.com/v1.0/me/getMemberGroups";
        for bad in [
            "",
            "http://graph.microsoft.us/v1.0",
            "https://evil.example/v1.0",
            "https://graph.microsoft.com.evil.example",
            "https://graph.microsoft.com@evil.example/",
        ] {
            assert_eq!(url(bad), own, "{bad}");
        }
        assert_eq!(
            url("https://graph.microsoft.us/v1.0/"),
            "https://graph.microsoft.us/v1.0/me/getMemberGroups"
        );
    }
}
