//! Logins that Docker's configuration of this process holds (RND-113).

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::Secret;

/// Bytes of a configuration.
const BYTES_MAX: u64 = 1024 * 1024;

/// User name and password for a registry, if the configuration has them. Programs that keep logins are not started.
pub(super) fn login(path: &Path, host: &str) -> Option<(String, Secret)> {
    let length = std::fs::metadata(path).ok()?.len();
    let text = (length <= BYTES_MAX).then(|| std::fs::read(path).ok()).flatten()?;
    let configuration = tiphys_go::json::decode_kubernetes(&text).ok()?;
    let found = login_in(&configuration, host);
    let helper = configuration.pointer("/credHelpers").and_then(|helpers| helpers.get(host));
    if found.is_none() && (helper.is_some() || configuration.get("credsStore").is_some()) {
        tracing::warn!(host, "Docker's configuration leaves the login to a program, which is not started");
    }
    found
}

fn login_in(configuration: &Value, host: &str) -> Option<(String, Secret)> {
    let auths = configuration.get("auths")?.as_object()?;
    let named = |name: &str| {
        let name = name.trim_start_matches("https://").trim_start_matches("http://");
        name.split('/').next().unwrap_or_default().to_owned()
    };
    let is_hub = host == "registry-1.docker.io";
    let found = auths.iter().find(|(name, _)| {
        let name = named(name);
        name == host || is_hub && matches!(name.as_str(), "docker.io" | "index.docker.io")
    });
    let (_, entry) = found?;
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let packed = STANDARD.decode(text("auth").trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let (username, password) = match packed.as_deref().and_then(|text| text.split_once(':')) {
        Some((username, password)) => (username.to_owned(), password.trim_end_matches('\0').to_owned()),
        None => (text("username"), text("password")),
    };
    (!password.is_empty()).then(|| (username, Secret::from(password)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rnd_113_logins_of_docker() {
        let configuration = json!({"auths": {
            "ghcr.io": {"auth": STANDARD.encode("user:pw")},
            "https://index.docker.io/v1/": {"username": "hub", "password": "secret"},
            "empty.example": {},
        }});
        let found = |host: &str| {
            login_in(&configuration, host).map(|(user, password)| format!("{user} {}", password.expose()))
        };
        assert_eq!(found("ghcr.io").as_deref(), Some("user pw"));
        assert_eq!(found("registry-1.docker.io").as_deref(), Some("hub secret"));
        assert_eq!(found("empty.example"), None);
        assert_eq!(found("evil.example"), None);
        assert_eq!(login(Path::new("/nowhere"), "ghcr.io"), None);
    }
}
