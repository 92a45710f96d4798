//! How credentials of a repository reach git (RND-25, RND-26, REP-70..72, REP-75, REP-80).

use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tempfile::NamedTempFile;

use crate::repository::Transport;
use crate::sources::SourceOptions;
use crate::{Repository, Secret, SourceError};

/// Answers git's questions from variables that only this child has.
const ASKPASS: &str = "#!/bin/sh\ncase \"$1\" in\nUsername*) printf '%s\\n' \"$TIPHYS_GIT_USERNAME\" ;;\n*) printf '%s\\n' \"$TIPHYS_GIT_PASSWORD\" ;;\nesac\n";

/// Key exchanges that servers may use (RND-26).
const KEY_EXCHANGES: &str = "curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521,diffie-hellman-group-exchange-sha256,diffie-hellman-group14-sha256,diffie-hellman-group14-sha1";

/// Makes the private directory and the askpass program in it; removes what a crash left there.
pub(super) fn prepare(secrets: &Path) -> Result<PathBuf, SourceError> {
    let make = || -> std::io::Result<PathBuf> {
        if let Err(error) = fs::remove_dir_all(secrets)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error);
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(secrets)?;
        fs::create_dir(nobody(secrets))?;
        let askpass = secrets.join("askpass");
        fs::write(&askpass, ASKPASS)?;
        fs::set_permissions(&askpass, fs::Permissions::from_mode(0o700))?;
        Ok(askpass)
    };
    make().map_err(|error| SourceError::Cache {
        text: format!("cannot prepare the cache directory: {}", error.kind()),
    })
}

/// A directory without certificates.
fn nobody(secrets: &Path) -> PathBuf {
    secrets.join("nobody")
}

/// What one command needs to get in. The files vanish with the value.
pub(super) struct Access {
    pub(super) transport: Transport,
    /// The URL without secrets.
    pub(super) url: String,
    pub(super) environment: Vec<(OsString, OsString)>,
    pub(super) config: Vec<(&'static str, String)>,
    /// Kept until the command has ended.
    files: Vec<NamedTempFile>,
}

impl Access {
    pub(super) fn of(
        repository: &Repository,
        options: &SourceOptions,
        askpass: &Path,
        secrets: &Path,
    ) -> Result<Self, SourceError> {
        let transport = repository.transport()?;
        let url = repository.url.expose().trim().to_owned();
        let mut access =
            Self { transport, url, environment: Vec::new(), config: Vec::new(), files: Vec::new() };
        access.add_proxy(repository, options);
        match transport {
            Transport::Http => access.add_http(repository, options, askpass, secrets)?,
            Transport::Ssh => access.add_ssh(repository, options, secrets)?,
            Transport::Git | Transport::Local => {}
        }
        Ok(access)
    }

    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.push((name.into(), value.into()));
    }

    fn add_proxy(&mut self, repository: &Repository, options: &SourceOptions) {
        if self.transport == Transport::Ssh {
            return;
        }
        if repository.proxy.is_empty() {
            for (name, value) in &options.proxy_environment {
                self.set(name, value);
            }
        } else {
            self.set("http_proxy", repository.proxy.expose());
            self.set("https_proxy", repository.proxy.expose());
            self.set("no_proxy", &repository.no_proxy);
        }
    }

    fn add_http(
        &mut self,
        repository: &Repository,
        options: &SourceOptions,
        askpass: &Path,
        secrets: &Path,
    ) -> Result<(), SourceError> {
        let credentials = HttpCredentials::of(repository)?;
        if credentials.has_password() {
            let HttpCredentials { user, password, .. } = &credentials;
            if repository.force_http_basic_auth {
                let header = STANDARD.encode(format!("{user}:{}", password.expose()));
                self.config.push(("http.extraHeader", format!("Authorization: Basic {header}")));
            } else {
                self.set("GIT_ASKPASS", askpass);
                self.set("TIPHYS_GIT_USERNAME", user);
                self.set("TIPHYS_GIT_PASSWORD", password.expose());
            }
        } else if !repository.bearer_token.is_empty() {
            let header = format!("Authorization: Bearer {}", repository.bearer_token.expose());
            self.config.push(("http.extraHeader", header));
        }
        self.url = credentials.url;
        self.add_tls(repository, options, secrets)
    }

    fn add_tls(
        &mut self,
        repository: &Repository,
        options: &SourceOptions,
        secrets: &Path,
    ) -> Result<(), SourceError> {
        let tls = &repository.tls;
        if repository.insecure {
            self.config.push(("http.sslVerify", "false".to_owned()));
        }
        if !tls.client_certificate.is_empty() && !tls.client_key.is_empty() {
            let certificate = self.add_file(secrets, &tls.client_certificate)?;
            let key = self.add_file(secrets, tls.client_key.expose())?;
            self.config.push(("http.sslCert", certificate));
            self.config.push(("http.sslKey", key));
        }
        let roots = if !tls.roots.is_empty() {
            self.add_file(secrets, &tls.roots)?
        } else if let Some(roots) = roots_file(repository, options) {
            roots.to_string_lossy().into_owned()
        } else {
            return Ok(());
        };
        self.config.push(("http.sslCAInfo", roots));
        // Beside the file there is a directory of the system, which would vouch, too.
        self.config.push(("http.sslCAPath", nobody(secrets).to_string_lossy().into_owned()));
        Ok(())
    }

    fn add_ssh(
        &mut self,
        repository: &Repository,
        options: &SourceOptions,
        secrets: &Path,
    ) -> Result<(), SourceError> {
        // A file of this command alone: a change is never seen half-written, and never too late.
        let known_hosts = match &repository.known_hosts {
            Some(text) if !repository.insecure => self.add_file(secrets, text)?,
            _ => options.known_hosts_file.to_string_lossy().into_owned(),
        };
        let mut words: Vec<String> = vec!["ssh".to_owned(), "-F".to_owned(), "/dev/null".to_owned()];
        let mut option = |text: String| words.extend(["-o".to_owned(), text]);
        option("BatchMode=yes".to_owned());
        option("IdentityAgent=none".to_owned());
        option("IdentitiesOnly=yes".to_owned());
        option(format!("KexAlgorithms={KEY_EXCHANGES}"));
        if repository.insecure {
            option("StrictHostKeyChecking=no".to_owned());
            option("UserKnownHostsFile=/dev/null".to_owned());
        } else {
            option("StrictHostKeyChecking=yes".to_owned());
            option(format!("UserKnownHostsFile={known_hosts}"));
        }
        option("GlobalKnownHostsFile=/dev/null".to_owned());
        if !repository.proxy.is_empty() {
            option(format!("ProxyCommand={}", self.socks_command(repository.proxy.expose())?));
        }
        if !repository.ssh_private_key.is_empty() {
            let key = repository.ssh_private_key.expose().replace("\r\n", "\n");
            let file = self.add_file(secrets, &format!("{}\n", key.trim_end()))?;
            words.extend(["-i".to_owned(), file]);
        } else {
            words.extend(["-o".to_owned(), "IdentityFile=/dev/null".to_owned()]);
        }
        let command: Vec<String> = words.iter().map(|word| shell_quote(word)).collect();
        self.set("GIT_SSH_COMMAND", command.join(" "));
        self.set("GIT_SSH_VARIANT", "ssh");
        Ok(())
    }

    /// The command that connects through a SOCKS5 proxy (REP-72).
    fn socks_command(&mut self, proxy: &str) -> Result<String, SourceError> {
        let fail = || SourceError::InvalidRepository {
            text: "the proxy of an SSH repository must be socks5://[user:pass@]host:port".to_owned(),
        };
        let rest = proxy.strip_prefix("socks5://").ok_or_else(fail)?.trim_end_matches('/');
        let (user, address) =
            rest.rsplit_once('@').map_or((None, rest), |(user, address)| (Some(user), address));
        let safe = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
        if address.is_empty() || address.starts_with('-') || !address.chars().all(safe) {
            return Err(fail());
        }
        if let Some((name, password)) = user.map(|user| user.split_once(':').unwrap_or((user, ""))) {
            self.set("SOCKS5_USER", percent_decoded(name));
            self.set("SOCKS5_PASSWD", percent_decoded(password));
        }
        Ok(format!("connect-proxy -S {address} -5 %h %p"))
    }

    /// Writes a file of mode 0600 that lives as long as the command.
    fn add_file(&mut self, secrets: &Path, content: &str) -> Result<String, SourceError> {
        let write = || -> std::io::Result<NamedTempFile> {
            let mut file = NamedTempFile::new_in(secrets)?;
            file.write_all(content.as_bytes())?;
            file.flush()?;
            Ok(file)
        };
        let file = write().map_err(|error| SourceError::Cache {
            text: format!("cannot write a file for git: {}", error.kind()),
        })?;
        let path = file.path().to_string_lossy().into_owned();
        self.files.push(file);
        Ok(path)
    }
}

/// User name and password for HTTP (REP-70, REP-71).
pub(crate) struct HttpCredentials {
    /// The URL without user information.
    pub(crate) url: String,
    pub(crate) user: String,
    pub(crate) password: Secret,
}

impl HttpCredentials {
    /// # Errors
    /// When a part would end its line in a header or in an answer to git.
    pub(crate) fn of(repository: &Repository) -> Result<Self, SourceError> {
        let (url, user, password) = without_user_information(repository.url.expose().trim());
        let (user, password) = if repository.password.is_empty() {
            (if user.is_empty() { repository.username.clone() } else { user }, Secret::from(password))
        } else {
            (repository.username.clone(), repository.password.clone())
        };
        if [&user, password.expose(), repository.bearer_token.expose()]
            .iter()
            .any(|text| text.contains(['\n', '\r', '\0']))
        {
            let text = "credentials of the repository contain a line break".to_owned();
            return Err(SourceError::InvalidRepository { text });
        }
        let is_default = user.is_empty() && !password.is_empty();
        let user = if is_default { "x-access-token".to_owned() } else { user };
        Ok(Self { url, user, password })
    }

    /// Whether there is more than a name (REP-70).
    pub(crate) fn has_password(&self) -> bool {
        !self.password.is_empty()
    }
}

/// The file with the roots that a repository's server is checked against (REP-80).
pub(crate) fn roots_file(repository: &Repository, options: &SourceOptions) -> Option<PathBuf> {
    let host = repository.host();
    if host.is_empty() || host.contains('/') || host == ".." {
        return None;
    }
    let roots = options.tls_dir.as_ref()?.join(host);
    roots.is_file().then_some(roots)
}

/// Splits a URL into itself without user information, user and password (RND-25).
fn without_user_information(url: &str) -> (String, String, String) {
    let none = || (url.to_owned(), String::new(), String::new());
    let Some((scheme, rest)) = url.split_once("://") else { return none() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let Some((information, host)) = authority.rsplit_once('@') else { return none() };
    let (user, password) = information.split_once(':').unwrap_or((information, ""));
    (format!("{scheme}://{host}{path}"), percent_decoded(user), percent_decoded(password))
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        match (first, tail) {
            (b'%', [high, low, after @ ..]) if digit(*high).is_some() && digit(*low).is_some() => {
                bytes.push(digit(*high).unwrap_or(0) * 16 + digit(*low).unwrap_or(0));
                rest = after;
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One word for the shell that git starts ssh with.
fn shell_quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(repository: &Repository) -> (Access, tempfile::TempDir) {
        let directory = tempfile::tempdir().unwrap();
        let options = SourceOptions::new(directory.path());
        let secrets = directory.path().join("secrets");
        let askpass = prepare(&secrets).unwrap();
        (Access::of(repository, &options, &askpass, &secrets).unwrap(), directory)
    }

    fn variable(access: &Access, name: &str) -> Option<String> {
        let found = access.environment.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.to_string_lossy().into_owned())
    }

    #[test]
    fn rnd_25_secrets_never_reach_the_url() {
        let (got, _directory) = access(&Repository::anonymous("https://u%40x:p%2Fq@h.example:8443/r.git"));
        assert_eq!(got.url, "https://h.example:8443/r.git");
        assert_eq!(variable(&got, "TIPHYS_GIT_USERNAME").as_deref(), Some("u@x"));
        assert_eq!(variable(&got, "TIPHYS_GIT_PASSWORD").as_deref(), Some("p/q"));
    }

    #[test]
    fn rep_71_default_user_basic_and_bearer() {
        let base = Repository { password: Secret::from("t"), ..Repository::anonymous("https://h/r") };
        let (got, _d1) = access(&base);
        assert_eq!(variable(&got, "TIPHYS_GIT_USERNAME").as_deref(), Some("x-access-token"));
        let (got, _d2) = access(&Repository { force_http_basic_auth: true, ..base });
        assert!(
            got.config
                .contains(&("http.extraHeader", "Authorization: Basic eC1hY2Nlc3MtdG9rZW46dA==".to_owned()))
        );
        assert_eq!(variable(&got, "GIT_ASKPASS"), None);
        let bearer = Repository { bearer_token: Secret::from("b"), ..Repository::anonymous("https://h/r") };
        let (got, _d3) = access(&bearer);
        assert!(got.config.contains(&("http.extraHeader", "Authorization: Bearer b".to_owned())));
    }

    #[test]
    fn rnd_26_ssh_options_and_key_file() {
        let repository = Repository {
            ssh_private_key: Secret::from("KEY\r\nEND"),
            ..Repository::anonymous("git@h.example:o/r.git")
        };
        let (got, _directory) = access(&repository);
        let command = variable(&got, "GIT_SSH_COMMAND").unwrap();
        assert!(command.contains("'StrictHostKeyChecking=yes'"), "{command}");
        assert!(command.contains("'KexAlgorithms=curve25519-sha256,"), "{command}");
        let file = &got.files[0];
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "KEY\nEND\n");
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        let path = file.path().to_owned();
        drop(got);
        assert!(!path.exists());
        assert_eq!(shell_quote("a'b"), r"'a'\''b'");
    }

    /// REP-80: the roots of a host are the only ones; git looks into a directory of the system as well.
    #[test]
    fn rep_80_git_is_given_the_only_roots() {
        let tls = crate::Tls { roots: "PEM".into(), ..crate::Tls::default() };
        let (got, directory) = access(&Repository { tls, ..Repository::anonymous("https://h/r") });
        let setting = |name: &str| got.config.iter().find(|(key, _)| *key == name).unwrap().1.clone();
        assert_eq!(fs::read_to_string(setting("http.sslCAInfo")).unwrap(), "PEM");
        assert_eq!(fs::read_dir(setting("http.sslCAPath")).unwrap().count(), 0);
        drop(directory);
    }

    #[test]
    fn rep_81_host_keys_are_a_file_of_the_command() {
        let known_hosts = Some("h ssh-rsa AAAA\n".into());
        let plain = Repository { known_hosts, ..Repository::anonymous("git@h:r") };
        let (got, _directory) = access(&plain);
        let path = got.files[0].path().to_string_lossy().into_owned();
        assert_eq!(fs::read_to_string(&path).unwrap(), "h ssh-rsa AAAA\n");
        let command = variable(&got, "GIT_SSH_COMMAND").unwrap();
        assert!(command.contains(&format!("'UserKnownHostsFile={path}'")), "{command}");
        let (got, _directory) = access(&Repository { insecure: true, ..plain });
        assert!(got.files.is_empty());
    }

    #[test]
    fn rep_72_socks_proxies_are_checked() {
        let with =
            |proxy: &str| Repository { proxy: Secret::from(proxy), ..Repository::anonymous("git@h:o/r") };
        let (got, _directory) = access(&with("socks5://u:p@proxy.example:1080"));
        assert!(
            variable(&got, "GIT_SSH_COMMAND")
                .unwrap()
                .contains("connect-proxy -S proxy.example:1080 -5 %h %p")
        );
        assert_eq!(variable(&got, "SOCKS5_PASSWD").as_deref(), Some("p"));
        let directory = tempfile::tempdir().unwrap();
        let options = SourceOptions::new(directory.path());
        let secrets = directory.path().join("s");
        let askpass = prepare(&secrets).unwrap();
        assert!(Access::of(&with("socks5://x;rm -rf"), &options, &askpass, &secrets).is_err());
        assert!(Access::of(&with("http://x:1"), &options, &askpass, &secrets).is_err());
    }

    /// SEC-54: of a proxy's URL only a host and a port stand in a command; everything else is refused, and user and
    /// password are variables that no shell reads.
    #[test]
    fn sec_54_the_url_of_a_proxy_reaches_no_shell() {
        let with =
            |proxy: &str| Repository { proxy: Secret::from(proxy), ..Repository::anonymous("git@h:o/r") };
        let directory = tempfile::tempdir().unwrap();
        let options = SourceOptions::new(directory.path());
        let secrets = directory.path().join("s");
        let askpass = prepare(&secrets).unwrap();
        let hostile = [
            ";", "|", "&", "$", "$(id)", "`id`", "'", "\"", "\\", " ", "\t", "\n", "<", ">", "*", "?", "!",
            "#", "~", "(", "{", "=", "%", "%h", "/", "\0", "é",
        ];
        for text in hostile {
            for proxy in [
                format!("socks5://proxy{text}x:1080"),
                format!("socks5://{text}proxy:1080"),
                format!("socks5://proxy:1080{text}x"),
                format!("socks5://u:p@proxy:1080{text}x"),
            ] {
                assert!(Access::of(&with(&proxy), &options, &askpass, &secrets).is_err(), "{proxy:?}");
            }
        }
        for proxy in
            ["socks5://-oProxyCommand=id:1", "socks5://", "socks5:///", "socks4://p:1", "ssh://p:1", "p:1"]
        {
            assert!(Access::of(&with(proxy), &options, &askpass, &secrets).is_err(), "{proxy:?}");
        }
        let canary = "$(touch /tmp/x);`id`|'\"";
        let (got, _directory) = access(&with(&format!("socks5://{canary}:{canary}@proxy:1080")));
        let command = variable(&got, "GIT_SSH_COMMAND").unwrap();
        assert!(command.contains("'ProxyCommand=connect-proxy -S proxy:1080 -5 %h %p'"), "{command}");
        assert!(!command.contains("touch") && !command.contains("id`"), "{command}");
        assert_eq!(variable(&got, "SOCKS5_PASSWD").as_deref(), Some(canary));
    }

    #[test]
    fn rep_71_line_breaks_in_credentials_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let options = SourceOptions::new(directory.path());
        let secrets = directory.path().join("s");
        let askpass = prepare(&secrets).unwrap();
        let repository =
            Repository { bearer_token: Secret::from("b\r\nHost: x"), ..Repository::anonymous("https://h/r") };
        assert!(Access::of(&repository, &options, &askpass, &secrets).is_err());
    }
}
