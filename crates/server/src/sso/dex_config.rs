//! The configuration of the Dex beside us, made from `dex.config` (API-74, API-75).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tiphys_api::Settings;
use tiphys_api::secret::Secret;
use tiphys_go::yaml::{Dialect, Limits, parse};
use tiphys_oidc::config::{LookUp, resolve};

use super::settings::{DEX_CLI_CLIENT, DEX_CLIENT, additional_urls, dex_secret};

/// Who web interfaces under development are to Dex.
const PKCE_CLIENT: &str = "argo-cd-pkce";
/// Connectors that send people back to an address, which is ours.
const SENDING_BACK: [&str; 11] = [
    "oidc",
    "saml",
    "microsoft",
    "linkedin",
    "gitlab",
    "github",
    "bitbucket-cloud",
    "openshift",
    "gitea",
    "google",
    "oauth",
];

/// How Dex is set up by its process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DexOptions {
    /// Files of its certificate and key; without them it speaks plain text.
    pub tls: Option<(String, String)>,
    /// Level of its log.
    pub level: String,
    /// Format of its log: `text` or `json`.
    pub format: String,
}

/// Why there is no configuration. No text holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DexConfigError {
    /// It is no YAML.
    #[error("dex.config of argocd-cm cannot be read: {0}")]
    Yaml(String),
    /// It is no object.
    #[error("dex.config of argocd-cm has to be a mapping")]
    Shape,
    /// Nobody knows where we are.
    #[error("url of argocd-cm is not set; Dex needs it to send people back")]
    NoUrl,
    /// Our secret at Dex is made of a key that is not there; one of nothing would be known to everybody.
    #[error("argocd-secret has no server.secretkey; the API server makes it at its first start")]
    NoKey,
    /// It cannot be written.
    #[error("the configuration of Dex cannot be written: {0}")]
    Unwritable(String),
}

/// The Secrets other than that of the installation which `dex.config` refers to.
pub fn referred_secrets(settings: &Settings) -> BTreeSet<String> {
    fn walk(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::String(text) => {
                let named = text.strip_prefix('$').and_then(|rest| rest.split_once(':'));
                found.extend(named.map(|(secret, _)| secret.to_owned()));
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
            Value::Object(members) => members.values().for_each(|member| walk(member, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    if let Ok(Some(value)) = read(settings) {
        walk(&value, &mut found);
    }
    found
}

fn read(settings: &Settings) -> Result<Option<Value>, DexConfigError> {
    let text = settings.cm().get("dex.config").map_or("", String::as_str);
    parse(text, Dialect::Sigs, &Limits::default()).map_err(|error| DexConfigError::Yaml(error.to_string()))
}

/// The configuration of Dex; `None` where there is no Dex. Warnings say what is referred to and not known.
///
/// # Errors
/// When `dex.config` cannot be used.
pub fn dex_config(
    settings: &Settings,
    look_up: &LookUp<'_>,
    options: &DexOptions,
    warnings: &mut Vec<String>,
) -> Result<Option<String>, DexConfigError> {
    let Some(mut given) = read(settings)? else { return Ok(None) };
    // Dex replaces variables; a secret may look like one.
    let doubled = |secret: Option<&str>, key: &str| {
        look_up(secret, key).map(|found| Secret::new(found.expose().replace('$', "$$")))
    };
    resolve(&mut given, &doubled, warnings);
    let Value::Object(mut config) = given else { return Err(DexConfigError::Shape) };
    let url = settings.cm().get("url").map_or("", String::as_str).trim_end_matches('/');
    if url.is_empty() {
        return Err(DexConfigError::NoUrl);
    }
    if settings.secret("server.secretkey").is_none_or(|key| key.expose().is_empty()) {
        return Err(DexConfigError::NoKey);
    }
    config.insert("issuer".to_owned(), format!("{url}/api/dex").into());
    config.insert("storage".to_owned(), json!({"type": "memory"}));
    let given_web = config.remove("web").unwrap_or_default();
    config.insert("web".to_owned(), web(&given_web, options));
    config.insert("grpc".to_owned(), json!({"addr": "0.0.0.0:5557"}));
    config.insert("telemetry".to_owned(), json!({"http": "0.0.0.0:5558"}));
    fill(&mut config, "oauth2", &[("skipApprovalScreen", true.into())]);
    let log = [("level", options.level.as_str().into()), ("format", options.format.as_str().into())];
    fill(&mut config, "logger", &log);
    for connector in config.get_mut("connectors").and_then(Value::as_array_mut).into_iter().flatten() {
        send_back(connector, url);
    }
    let own = clients(settings, url);
    let theirs = config.remove("staticClients");
    let theirs = theirs.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
    config.insert("staticClients".to_owned(), own.into_iter().chain(theirs).collect());
    let text = tiphys_go::yaml::to_string(&config.into());
    text.map(Some).map_err(|error| DexConfigError::Unwritable(error.to_string()))
}

fn web(given: &Value, options: &DexOptions) -> Value {
    let Some((certificate, key)) = &options.tls else { return json!({"http": "0.0.0.0:5556"}) };
    let mut web = json!({"https": "0.0.0.0:5556", "tlsCert": certificate, "tlsKey": key});
    if let (Some(version), Some(web)) = (given.get("tlsMinVersion"), web.as_object_mut()) {
        web.insert("tlsMinVersion".to_owned(), version.clone());
    }
    web
}

/// Sets members of a member where they are not set.
fn fill(config: &mut Map<String, Value>, name: &str, members: &[(&str, Value)]) {
    let member = config.entry(name.to_owned()).or_insert_with(|| json!({}));
    if !member.is_object() {
        *member = json!({});
    }
    for (key, value) in members {
        if let Some(member) = member.as_object_mut()
            && *value != ""
        {
            member.entry((*key).to_owned()).or_insert_with(|| value.clone());
        }
    }
}

fn send_back(connector: &mut Value, url: &str) {
    let kind = connector.get("type").and_then(Value::as_str).unwrap_or_default();
    if !SENDING_BACK.contains(&kind) {
        return;
    }
    if let Some(connector) = connector.as_object_mut() {
        fill(connector, "config", &[]);
        if let Some(config) = connector.get_mut("config").and_then(Value::as_object_mut) {
            config.insert("redirectURI".to_owned(), format!("{url}/api/dex/callback").into());
        }
    }
}

/// Who we are to Dex, and the programs of people.
fn clients(settings: &Settings, url: &str) -> Vec<Value> {
    let mut back = vec![format!("{url}/auth/callback")];
    let others = additional_urls(settings);
    back.extend(others.iter().map(|other| format!("{}/auth/callback", other.trim_end_matches('/'))));
    vec![
        json!({"id": DEX_CLIENT, "name": "Argo CD", "secret": dex_secret(settings).expose(),
            "redirectURIs": back}),
        json!({"id": DEX_CLI_CLIENT, "name": "Argo CD CLI", "public": true,
            "redirectURIs": ["http://localhost", "http://localhost:8085/auth/callback"]}),
        json!({"id": PKCE_CLIENT, "name": "Argo CD PKCE", "public": true,
            "redirectURIs": ["http://localhost:4000/auth/callback"]}),
    ]
}

#[cfg(test)]
mod tests {
    use tiphys_api::settings::SettingsData;

    use super::*;

    fn settings(config: &str, url: &str) -> Settings {
        let cm = [("dex.config", config), ("url", url), ("additionalUrls", "[https://b.test/argo/]")];
        let cm = cm.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
        let secret = [("server.secretkey".to_owned(), "key".to_owned())].into();
        Settings::new(SettingsData { cm, secret, ..SettingsData::default() })
    }

    fn made(config: &str, options: &DexOptions) -> Value {
        let look_up = |secret: Option<&str>, key: &str| match (secret, key) {
            (None, "gh") => Some(Secret::from("a$b")),
            (Some("sso"), "ldap") => Some(Secret::from("plain")),
            _ => None,
        };
        let mut warnings = Vec::new();
        let text = dex_config(&settings(config, "https://cd.test/"), &look_up, options, &mut warnings);
        parse(&text.unwrap().unwrap(), Dialect::Sigs, &Limits::default()).unwrap().unwrap()
    }

    #[test]
    fn api_74_what_is_ours_is_set_and_what_is_the_users_stays() {
        let config = "expiry: {idTokens: 1h}\nstorage: {type: etcd}\nissuer: https://evil\n\
                      oauth2: {passwordConnector: local}\nweb: {http: ':80', tlsMinVersion: '1.3'}\n\
                      staticClients: [{id: mine}]\nlogger: {level: warn}\n";
        let tls = Some(("/tls/tls.crt".to_owned(), "/tls/tls.key".to_owned()));
        let options = DexOptions { tls, level: "info".to_owned(), format: "json".to_owned() };
        let found = made(config, &options);
        assert_eq!(found["issuer"], "https://cd.test/api/dex");
        assert_eq!(
            (&found["storage"], &found["expiry"]),
            (&json!({"type": "memory"}), &json!({"idTokens": "1h"}))
        );
        assert_eq!(
            found["web"],
            json!({"https": "0.0.0.0:5556", "tlsCert": "/tls/tls.crt", "tlsKey": "/tls/tls.key", "tlsMinVersion": "1.3"})
        );
        assert_eq!(
            (&found["grpc"]["addr"], &found["telemetry"]["http"]),
            (&json!("0.0.0.0:5557"), &json!("0.0.0.0:5558"))
        );
        assert_eq!(found["oauth2"], json!({"passwordConnector": "local", "skipApprovalScreen": true}));
        assert_eq!(found["logger"], json!({"level": "warn", "format": "json"}));
        let clients = found["staticClients"].as_array().unwrap();
        let ids: Vec<&str> = clients.iter().map(|client| client["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["argo-cd", "argo-cd-cli", "argo-cd-pkce", "mine"]);
        let back = json!(["https://cd.test/auth/callback", "https://b.test/argo/auth/callback"]);
        assert_eq!(clients[0]["redirectURIs"], back);
        assert_eq!(clients[0]["secret"].as_str().unwrap().len(), 40);
        assert_eq!(made("connectors: []", &DexOptions::default())["web"], json!({"http": "0.0.0.0:5556"}));
        let approved = made("oauth2: {skipApprovalScreen: false}", &DexOptions::default());
        assert_eq!(approved["oauth2"]["skipApprovalScreen"], false);
    }

    #[test]
    fn api_75_people_come_back_to_us_and_secrets_are_not_taken_for_variables() {
        let config = "connectors:\n- {type: github, id: gh, config: {clientSecret: $gh, redirectURI: 'https://evil'}}\n\
                      - {type: ldap, id: l, config: {bindPW: '$sso:ldap', host: '$gone'}}\n- {type: google, id: g}\n";
        let found = made(config, &DexOptions::default());
        let back = "https://cd.test/api/dex/callback";
        assert_eq!(found["connectors"][0]["config"], json!({"clientSecret": "a$$b", "redirectURI": back}));
        assert_eq!(found["connectors"][1]["config"], json!({"bindPW": "plain", "host": "$gone"}));
        assert_eq!(found["connectors"][2]["config"]["redirectURI"], back);
        assert_eq!(referred_secrets(&settings(config, "")), ["sso".to_owned()].into());
    }

    #[test]
    fn api_74_without_a_configuration_there_is_no_dex_and_what_cannot_be_used_is_said() {
        let make = |config: &str, url: &str| {
            dex_config(&settings(config, url), &|_, _| None, &DexOptions::default(), &mut Vec::new())
        };
        assert_eq!(make("", "https://a"), Ok(None));
        assert_eq!(make("connectors: []", ""), Err(DexConfigError::NoUrl));
        let cm = [("dex.config", "connectors: []"), ("url", "https://a")];
        let cm = cm.map(|(key, text)| (key.to_owned(), text.to_owned())).into();
        let no_key = Settings::new(SettingsData { cm, ..SettingsData::default() });
        let made = dex_config(&no_key, &|_, _| None, &DexOptions::default(), &mut Vec::new());
        assert_eq!(made, Err(DexConfigError::NoKey), "everybody would know the secret");
        assert_eq!(make("- a", "https://a"), Err(DexConfigError::Shape));
        assert!(matches!(make("a: [", "https://a"), Err(DexConfigError::Yaml(_))));
    }
}
