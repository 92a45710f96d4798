//! What is set about single sign-on, read once for each snapshot (API-59..61, API-73, API-77).

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tiphys_api::Settings;
use tiphys_api::secret::Secret;
use tiphys_go::yaml::{Dialect, Limits, parse};
use tiphys_oidc::config::{LookUp, default_scopes, resolve};
use tiphys_oidc::{OidcConfig, Transport};

use super::redirect::Bases;

/// Who we are to Dex (API-74).
pub(super) const DEX_CLIENT: &str = "argo-cd";
pub(super) const DEX_CLI_CLIENT: &str = "argo-cd-cli";
/// Where Dex is, unless it is set.
const DEX_ADDRESS: &str = "argocd-dex-server:5556";
/// Letters of our secret at Dex.
const DEX_SECRET_LETTERS: usize = 40;

/// A connector of Dex, as clients see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connector {
    id: String,
    kind: String,
    name: String,
}

/// Dex beside us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dex {
    /// Scheme, host and port.
    pub(crate) address: String,
    connectors: Vec<Connector>,
}

/// How people are signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SsoSettings {
    /// Our own addresses.
    pub(crate) bases: Bases,
    /// The provider and who we are to it.
    pub(crate) provider: OidcConfig,
    /// Where the provider is a Dex beside us.
    pub(crate) dex: Option<Dex>,
    /// The connector of Dex that is used without asking; empty lets people choose.
    pub(crate) connector_id: String,
    /// The file with the token of our platform.
    pub(crate) federated_token_file: String,
}

/// The further addresses of the installation.
pub(crate) fn additional_urls(settings: &Settings) -> Vec<String> {
    let text = settings.cm().get("additionalUrls").map_or("", String::as_str);
    let list = yaml(text).unwrap_or_default();
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn yaml(text: &str) -> Option<Value> {
    parse(text, Dialect::Sigs, &Limits::default()).ok().flatten()
}

impl SsoSettings {
    /// Reads the settings; `None` where single sign-on is not set up (API-61). Warnings say what has no effect.
    pub(crate) fn read(
        settings: &Settings,
        look_up: &LookUp<'_>,
        warnings: &mut Vec<String>,
    ) -> Option<Self> {
        let set = |key: &str| settings.cm().get(key).map_or("", String::as_str);
        let (external, dex) = (set("oidc.config"), set("dex.config"));
        if external.trim().is_empty() && dex.trim().is_empty() {
            return None;
        }
        let Some((bases, bad)) = Bases::read(set("url"), &additional_urls(settings)) else {
            warnings.push("argocd-cm: url is no HTTP address; single sign-on needs it and is off".to_owned());
            return None;
        };
        warnings.extend(
            bad.into_iter().map(|text| format!("argocd-cm: additionalUrls: {text:?} is no HTTP address")),
        );
        let federated_token_file =
            settings.env().get("AZURE_FEDERATED_TOKEN_FILE").cloned().unwrap_or_default();
        let found = if external.trim().is_empty() {
            let (provider, dex) = read_dex(settings, (dex, set("url")), look_up, warnings)?;
            let forced = set("dex.auth.connectorId");
            let is_known = dex.connectors.iter().any(|connector| connector.id == forced);
            let connector_id = if is_known { forced } else { "" }.to_owned();
            if !forced.is_empty() && !is_known {
                warnings.push(format!(
                    "argocd-cm: dex.config has no connector {forced:?} (dex.auth.connectorId)"
                ));
            }
            Self { bases, provider, dex: Some(dex), connector_id, federated_token_file }
        } else {
            let mut found = Vec::new();
            let read = OidcConfig::read(external, look_up, &mut found);
            warnings.extend(found.into_iter().map(|text| format!("argocd-cm: {text}")));
            let mut provider = match read {
                Ok(provider) => provider,
                Err(error) => {
                    warnings.push(format!("argocd-cm: {error}"));
                    return None;
                }
            };
            let skips = set("oidc.tls.insecure.skip.verify");
            provider.transport.skips_verification =
                tiphys_api::repository::parse_bool(skips.trim()).unwrap_or(false);
            Self { bases, provider, dex: None, connector_id: String::new(), federated_token_file }
        };
        Some(found)
    }

    /// What clients need to know of the provider (API-71, API-181): `oidcConfig` or `dexConfig`. Nothing is secret.
    pub(crate) fn shown(&self) -> (&'static str, Value) {
        if let Some(dex) = &self.dex {
            let all: Vec<Value> = dex
                .connectors
                .iter()
                .map(|one| json!({"name": one.name, "type": one.kind, "id": one.id}))
                .collect();
            return ("dexConfig", json!({"connectors": all, "dexAuthConnectorID": self.connector_id}));
        }
        let provider = &self.provider;
        let shown = json!({
            "name": provider.name,
            "issuer": provider.issuer,
            "clientID": provider.client_id,
            "cliClientID": provider.cli_client_id,
            "scopes": provider.scopes,
            "idTokenClaims": provider.id_token_claims,
            "enablePKCEAuthentication": provider.uses_pkce,
        });
        ("oidcConfig", shown)
    }
}

/// Dex as a provider: behind our own address, under names that are agreed upon (API-73, API-74, API-76).
fn read_dex(
    settings: &Settings,
    (text, url): (&str, &str),
    look_up: &LookUp<'_>,
    warnings: &mut Vec<String>,
) -> Option<(OidcConfig, Dex)> {
    let Some(mut config) = yaml(text).filter(Value::is_object) else {
        warnings.push("argocd-cm: dex.config cannot be read; single sign-on is off".to_owned());
        return None;
    };
    resolve(&mut config, look_up, &mut Vec::new());
    let member = |connector: &Value, name: &str| {
        connector.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let connectors = config.get("connectors").and_then(Value::as_array).into_iter().flatten();
    let connectors = connectors.map(|connector| Connector {
        id: member(connector, "id"),
        kind: member(connector, "type"),
        name: member(connector, "name"),
    });
    let address =
        settings.param("server.dex.server", "ARGOCD_SERVER_DEX_SERVER").unwrap_or(DEX_ADDRESS).to_owned();
    let is_on = |key: &str, variable: &str| {
        settings.param(key, variable).and_then(|text| tiphys_api::repository::parse_bool(text.trim()))
            == Some(true)
    };
    let is_plain = is_on("server.dex.server.plaintext", "ARGOCD_SERVER_DEX_SERVER_PLAINTEXT");
    let is_strict = is_on("server.dex.server.strict.tls", "ARGOCD_SERVER_DEX_SERVER_STRICT_TLS");
    let address = match (address.contains("://"), is_plain) {
        (true, _) => address,
        (false, true) => format!("http://{address}"),
        (false, false) => format!("https://{address}"),
    };
    let address = address.trim_end_matches('/').to_owned();
    let issuer = format!("{}/api/dex", url.trim_end_matches('/'));
    let mut scopes = default_scopes();
    scopes.push("federated:id".to_owned());
    let provider = OidcConfig {
        name: "dex".to_owned(),
        client_id: DEX_CLIENT.to_owned(),
        client_secret: dex_secret(settings),
        cli_client_id: DEX_CLI_CLIENT.to_owned(),
        allowed_audiences: vec![DEX_CLIENT.to_owned(), DEX_CLI_CLIENT.to_owned()],
        scopes,
        transport: Transport {
            skips_verification: !is_strict,
            detour: Some((issuer.clone(), format!("{address}/api/dex"))),
            ..Transport::default()
        },
        issuer,
        ..OidcConfig::default()
    };
    Some((provider, Dex { address, connectors: connectors.collect() }))
}

/// Our secret at Dex, which both of us make from the key of the installation.
pub(super) fn dex_secret(settings: &Settings) -> Secret<String> {
    let key = settings.secret("server.secretkey").unwrap_or_default();
    let whole = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, key.expose().as_bytes()));
    Secret::new(whole.chars().take(DEX_SECRET_LETTERS).collect())
}
