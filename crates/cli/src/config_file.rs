//! The configuration file with contexts, servers and users (CLI-110..114).
//!
//! [`Config`] is what it says; [`Editor`] changes it, keeps what it does not know, and lets one writer in at a time.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use tiphys_api::secret::Secret;
use tiphys_object::access;

use crate::failure::Failure;
use crate::outfile;
use crate::terminal::{Terminal, read_file};

/// The members of the file that decide where requests go.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Config {
    current_context: String,
    prompts_enabled: bool,
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
    refresh_token: Secret<String>,
}

/// One server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct ServerEntry {
    /// Its address.
    pub(crate) server: String,
    /// Whether it stands for Kubernetes itself.
    pub(crate) core: bool,
    /// Whether its certificate is not verified.
    pub(crate) insecure: bool,
    /// Whether it speaks without TLS.
    pub(crate) plain_text: bool,
    /// Whether it is to be asked by gRPC-web; kept for others who read the file.
    pub(crate) grpc_web: bool,
    /// Path below which it answers.
    pub(crate) grpc_web_root_path: String,
    /// Roots that it is trusted by, PEM in base64.
    pub(crate) certificate_authority_data: String,
    /// Our certificate, PEM in base64.
    pub(crate) client_certificate_data: String,
    /// Its key, PEM in base64.
    pub(crate) client_certificate_key_data: Secret<String>,
}

impl ServerEntry {
    /// As it is written: members that are as usual are left out (CLI-111).
    fn value(&self) -> Value {
        let mut value = json!({"server": self.server, "grpc-web-root-path": self.grpc_web_root_path});
        let members = access::ensure_object(&mut value);
        for (name, flag) in [
            ("core", self.core),
            ("insecure", self.insecure),
            ("plain-text", self.plain_text),
            ("grpc-web", self.grpc_web),
        ] {
            if flag {
                members.insert(name.to_owned(), true.into());
            }
        }
        for (name, text) in [
            ("certificate-authority-data", self.certificate_authority_data.as_str()),
            ("client-certificate-data", self.client_certificate_data.as_str()),
            ("client-certificate-key-data", self.client_certificate_key_data.expose()),
        ] {
            if !text.is_empty() {
                members.insert(name.to_owned(), text.into());
            }
        }
        value
    }
}

/// A context, with what it leads to.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its name.
    pub(crate) name: String,
    /// Its server.
    pub(crate) server: ServerEntry,
    /// The name of its user.
    pub(crate) user: String,
    /// What that one is known by.
    pub(crate) token: Secret<String>,
    /// What a new one is had by; may be empty.
    pub(crate) refresh_token: Secret<String>,
}

impl Config {
    /// The token of the named context, else of the current one; `None` without contexts.
    pub(crate) fn token(&self, context: &str) -> Result<Option<Secret<String>>, Failure> {
        let Some(found) = self.context(context)? else { return Ok(None) };
        let user = self.users.iter().find(|user| user.name == found.user);
        Ok(Some(user.map(|user| user.auth_token.clone()).unwrap_or_default()))
    }

    /// The named context, else the current one; `None` without contexts (CLI-112).
    pub(crate) fn find(&self, context: &str) -> Result<Option<Found>, Failure> {
        let Some(found) = self.context(context)? else { return Ok(None) };
        let Some(server) = self.resolve(context)? else { return Ok(None) };
        let user = self.users.iter().find(|user| user.name == found.user);
        let user = user.ok_or_else(|| Failure::fatal(format!("User '{}' undefined", found.user)))?;
        Ok(Some(Found {
            name: found.name.clone(),
            server,
            user: user.name.clone(),
            token: user.auth_token.clone(),
            refresh_token: user.refresh_token.clone(),
        }))
    }

    /// The name of the current context; empty when there is none.
    pub(crate) fn current(&self) -> &str {
        &self.current_context
    }

    /// All contexts: name and server.
    pub(crate) fn contexts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.contexts.iter().map(|context| (context.name.as_str(), context.server.as_str()))
    }

    /// Whether questions are asked where nobody says otherwise.
    pub(crate) fn prompts(&self) -> bool {
        self.prompts_enabled
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
    let Some(path) = place(path, terminal) else { return Ok(None) };
    let Some(value) = parsed(&path)? else { return Ok(None) };
    config_of(value).map(Some)
}

/// Where the file is; `None` where nobody is at home.
fn place(path: &str, terminal: &Terminal) -> Option<PathBuf> {
    if path.is_empty() { Some(directory(terminal)?.join("config")) } else { Some(PathBuf::from(path)) }
}

/// The file as a tree; `None` when there is none.
fn parsed(path: &Path) -> Result<Option<Value>, Failure> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(None) };
    check_mode(&metadata)?;
    let text = read_file(&path.to_string_lossy()).map_err(|failure| Failure::fatal(failure.message))?;
    let limits = tiphys_go::yaml::Limits::default();
    let value = tiphys_go::yaml::parse(&text, tiphys_go::yaml::Dialect::Sigs, &limits)
        .map_err(|error| Failure::fatal(error.to_string()))?;
    Ok(Some(value.filter(|value| !value.is_null()).unwrap_or_else(|| json!({}))))
}

fn config_of(value: Value) -> Result<Config, Failure> {
    // The file holds tokens; the error of the reader could quote one.
    serde_json::from_value(value)
        .map_err(|_invalid| Failure::fatal("local config invalid: unexpected types of members"))
}

/// The file while it is changed. Nobody else changes it meanwhile (CLI-114).
pub(crate) struct Editor {
    path: PathBuf,
    value: Value,
    /// What it said when it was opened; `None` when there was none.
    pub(crate) config: Option<Config>,
    /// Held until the editor is dropped.
    _lock: std::fs::File,
}

impl Editor {
    /// Opens the file, or begins a new one. Errors end with 20, as in every command that is about the file itself
    /// (CLI-110).
    pub(crate) fn open(path: &str, terminal: &Terminal) -> Result<Self, Failure> {
        let failed = |failure: Failure| Failure { code: 20, ..failure };
        let path = place(path, terminal).ok_or_else(|| {
            Failure::generic("there is no place for the configuration file")
                .hint("set HOME, or ARGOCD_CONFIG_DIR, or name a file with `--config`")
        })?;
        let lock = locked(&path).map_err(|error| {
            Failure::generic(format!("open {}: {}", path.display(), crate::terminal::io_text(&error)))
        })?;
        let value = parsed(&path).map_err(failed)?;
        let config = value.clone().map(config_of).transpose().map_err(failed)?;
        Ok(Self { path, value: value.unwrap_or_else(|| json!({})), config, _lock: lock })
    }

    /// Puts an entry into a list in the place of the one of the same name.
    fn put(&mut self, list: &str, key: &str, entry: Value) {
        let mut entries = self.entries(list);
        match entries.iter_mut().find(|one| one.get(key) == entry.get(key)) {
            Some(old) => *old = entry,
            None => entries.push(entry),
        }
        self.set_entries(list, entries);
    }

    fn take(&mut self, list: &str, key: &str, name: &str) {
        let mut entries = self.entries(list);
        entries.retain(|one| one.get(key).and_then(Value::as_str) != Some(name));
        self.set_entries(list, entries);
    }

    fn entries(&self, list: &str) -> Vec<Value> {
        self.value.get(list).and_then(Value::as_array).cloned().unwrap_or_default()
    }

    /// Empty lists are left out (CLI-111).
    fn set_entries(&mut self, list: &str, entries: Vec<Value>) {
        let members = access::ensure_object(&mut self.value);
        if entries.is_empty() {
            members.remove(list);
        } else {
            members.insert(list.to_owned(), entries.into());
        }
    }

    /// A context by which a user speaks to a server; it becomes the current one (CLI-204).
    pub(crate) fn log_in(&mut self, name: &str, server: &ServerEntry, tokens: (&str, &str)) {
        self.put("servers", "server", server.value());
        self.set_tokens(name, tokens);
        self.put("contexts", "name", json!({"name": name, "server": server.server, "user": name}));
        self.set_current(name);
    }

    /// What a user is known by, and what that is renewed by; empty ones are left out.
    pub(crate) fn set_tokens(&mut self, user: &str, (token, refresh): (&str, &str)) {
        let mut entry = json!({"name": user});
        let members = access::ensure_object(&mut entry);
        for (name, text) in [("auth-token", token), ("refresh-token", refresh)] {
            if !text.is_empty() {
                members.insert(name.to_owned(), text.into());
            }
        }
        self.put("users", "name", entry);
    }

    /// Chooses the current context, and remembers the one before (CLI-113).
    pub(crate) fn set_current(&mut self, name: &str) {
        access::ensure_object(&mut self.value).insert("current-context".to_owned(), name.into());
    }

    /// Whether questions are asked where nobody says otherwise (CLI-213).
    pub(crate) fn set_prompts(&mut self, are_enabled: bool) {
        access::ensure_object(&mut self.value).insert("prompts-enabled".to_owned(), are_enabled.into());
    }

    /// Removes a context, the user of its name, and its server unless another context leads there too (CLI-212).
    pub(crate) fn remove(&mut self, name: &str, server: &str) {
        self.take("contexts", "name", name);
        self.take("users", "name", name);
        let is_shared = self
            .entries("contexts")
            .iter()
            .any(|one| one.get("server").and_then(Value::as_str) == Some(server));
        if !is_shared {
            self.take("servers", "server", server);
        }
        if self.value.get("current-context").and_then(Value::as_str) == Some(name) {
            self.set_current("");
        }
    }

    /// Writes the file, or removes it when no context is left.
    pub(crate) fn save(self) -> Result<(), Failure> {
        let failed = |path: &Path, error: &std::io::Error| {
            Failure::generic(format!("write {}: {}", path.display(), crate::terminal::io_text(error)))
        };
        if self.entries("contexts").is_empty() {
            return match std::fs::remove_file(&self.path) {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(failed(&self.path, &error)),
            };
        }
        let text =
            tiphys_go::yaml::to_string(&self.value).map_err(|error| Failure::generic(error.to_string()))?;
        outfile::replace_private(&self.path, text.as_bytes()).map_err(|error| failed(&self.path, &error))
    }

    /// The context that was current before (CLI-113); empty when nobody knows.
    pub(crate) fn previous(&self) -> String {
        let text = read_file(&self.path.with_file_name(PREVIOUS).to_string_lossy()).unwrap_or_default();
        text.trim().to_owned()
    }

    /// Remembers the context that was current.
    pub(crate) fn remember(&self, name: &str) -> Result<(), Failure> {
        let path = self.path.with_file_name(PREVIOUS);
        outfile::replace_private(&path, name.as_bytes()).map_err(|error| {
            Failure::generic(format!("write {}: {}", path.display(), crate::terminal::io_text(&error)))
        })
    }
}

/// File beside the configuration with the name of the context that was current before.
const PREVIOUS: &str = ".prev-ctx";

/// Lets one writer in; the directory is made when it is not there.
fn locked(path: &Path) -> std::io::Result<std::fs::File> {
    let directory = path.parent().unwrap_or(Path::new("."));
    if !directory.as_os_str().is_empty() && !directory.exists() {
        std::fs::create_dir_all(directory)?;
        outfile::restrict(directory, 0o700)?;
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let lock = std::fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path.with_file_name(format!(".{name}.lock")))?;
    lock.lock()?;
    Ok(lock)
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
            users: vec![UserEntry { name: "me".into(), auth_token: "t0ken".into(), ..UserEntry::default() }],
            servers: vec![ServerEntry { server: "s".into(), core: true, ..ServerEntry::default() }],
            prompts_enabled: false,
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
