//! The configuration file with contexts, servers and users (CLI-110..112). Only reading is here.

use std::path::PathBuf;

use serde::Deserialize;
use tiphys_api::secret::Secret;

use crate::failure::Failure;
use crate::terminal::{Terminal, read_file};

/// The members of the file that decide where requests go.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Config {
    current_context: String,
    contexts: Vec<ContextEntry>,
    servers: Vec<ServerEntry>,
    users: Vec<UserEntry>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContextEntry {
    name: String,
    server: String,
    user: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct UserEntry {
    name: String,
    auth_token: Secret<String>,
}

/// One server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServerEntry {
    /// Its address.
    pub(crate) server: String,
    /// Whether it stands for Kubernetes itself.
    pub(crate) core: bool,
}

impl Config {
    /// The token of the named context, else of the current one; `None` without contexts.
    pub(crate) fn token(&self, context: &str) -> Result<Option<Secret<String>>, Failure> {
        let Some(found) = self.context(context)? else { return Ok(None) };
        let user = self.users.iter().find(|user| user.name == found.user);
        Ok(Some(user.map(|user| user.auth_token.clone()).unwrap_or_default()))
    }

    /// The server of the named context, else of the current one; `None` without contexts (CLI-112).
    pub(crate) fn resolve(&self, context: &str) -> Result<Option<ServerEntry>, Failure> {
        let Some(found) = self.context(context)? else { return Ok(None) };
        match self.servers.iter().find(|server| server.server == found.server) {
            Some(server) => Ok(Some(server.clone())),
            None => Err(Failure::fatal(format!("Server '{}' undefined", found.server))),
        }
    }

    fn context(&self, name: &str) -> Result<Option<&ContextEntry>, Failure> {
        let name = if name.is_empty() { self.current_context.as_str() } else { name };
        if name.is_empty() {
            return if self.contexts.is_empty() {
                Ok(None)
            } else {
                Err(Failure::fatal("local config: current-context unset"))
            };
        }
        match self.contexts.iter().find(|context| context.name == name) {
            Some(found) => Ok(Some(found)),
            None => Err(Failure::fatal(format!("Context '{name}' undefined"))),
        }
    }
}

/// Reads the file; `None` when there is none (CLI-110).
pub(crate) fn read(path: &str, terminal: &Terminal) -> Result<Option<Config>, Failure> {
    let path = if path.is_empty() {
        match directory(terminal) {
            Some(directory) => directory.join("config"),
            None => return Ok(None),
        }
    } else {
        PathBuf::from(path)
    };
    let Ok(metadata) = std::fs::metadata(&path) else { return Ok(None) };
    check_mode(&metadata)?;
    let text = read_file(&path.to_string_lossy()).map_err(|failure| Failure::fatal(failure.message))?;
    let limits = tiphys_go::yaml::Limits::default();
    let value = tiphys_go::yaml::parse(&text, tiphys_go::yaml::Dialect::Sigs, &limits)
        .map_err(|error| Failure::fatal(error.to_string()))?;
    let Some(value) = value else { return Ok(Some(Config::default())) };
    // The file holds tokens; the error of the reader could quote one.
    serde_json::from_value(value)
        .map(Some)
        .map_err(|_invalid| Failure::fatal("local config invalid: unexpected types of members"))
}

#[cfg(unix)]
fn check_mode(metadata: &std::fs::Metadata) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = metadata.permissions().mode() & 0o777;
    if matches!(mode, 0o600 | 0o400) {
        return Ok(());
    }
    let mut text = String::from("-");
    for shift in [6, 3, 0] {
        for (bit, letter) in [(4, 'r'), (2, 'w'), (1, 'x')] {
            text.push(if (mode >> shift) & bit != 0 { letter } else { '-' });
        }
    }
    Err(Failure::fatal(format!(
        "config file has incorrect permission flags {text}, change the file permission either to 0400 or 0600"
    ))
    .hint("chmod 0600 the configuration file"))
}

#[cfg(not(unix))]
fn check_mode(_metadata: &std::fs::Metadata) -> Result<(), Failure> {
    Ok(())
}

fn directory(terminal: &Terminal) -> Option<PathBuf> {
    let named = terminal.variable("ARGOCD_CONFIG_DIR");
    if !named.is_empty() {
        return Some(PathBuf::from(named));
    }
    let home = terminal.variable("HOME");
    let xdg = terminal.variable("XDG_CONFIG_HOME");
    if !home.is_empty() {
        let legacy = PathBuf::from(home).join(".argocd");
        if legacy.is_dir() {
            return Some(legacy);
        }
    }
    if !xdg.is_empty() {
        return Some(PathBuf::from(xdg).join("argocd"));
    }
    (!home.is_empty()).then(|| PathBuf::from(home).join(".config/argocd"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn cli_112_contexts_lead_to_servers() {
        let config = Config {
            current_context: "a".into(),
            contexts: vec![
                ContextEntry { name: "a".into(), server: "s".into(), user: "me".into() },
                ContextEntry { name: "b".into(), server: "gone".into(), user: String::new() },
            ],
            users: vec![UserEntry { name: "me".into(), auth_token: "t0ken".into() }],
            servers: vec![ServerEntry { server: "s".into(), core: true }],
        };
        assert!(config.resolve("").unwrap().unwrap().core);
        assert_eq!(config.token("").unwrap().unwrap().expose(), "t0ken");
        assert!(config.token("b").unwrap().unwrap().is_empty() && !format!("{config:?}").contains("t0ken"));
        assert_eq!(config.resolve("x").unwrap_err().message, "Context 'x' undefined");
        assert_eq!(config.resolve("b").unwrap_err().message, "Server 'gone' undefined");
        let unset = Config { current_context: String::new(), ..config };
        assert_eq!(unset.resolve("").unwrap_err().message, "local config: current-context unset");
    }

    #[test]
    fn cli_110_a_readable_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(&path, "contexts: []\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let terminal = Terminal::memory("argocd", &[("ARGOCD_CONFIG_DIR", folder.path().to_str().unwrap())]);
        let failure = read("", &terminal).unwrap_err();
        assert_eq!(failure.code, 1);
        assert!(failure.message.contains("-rw-r--r--, change"), "{failure}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read("", &terminal).unwrap().is_some());
        assert!(read("/nowhere/config", &terminal).unwrap().is_none());
    }
}
