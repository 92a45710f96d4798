//! From what git said to what users see (RND-9, RND-10, RND-27, REP-18, SEC-38).

use std::path::Path;

use tiphys_api::names::{KNOWN_HOSTS_CONFIG_MAP, TLS_CERTS_CONFIG_MAP};
use tiphys_api::repo_url;

use super::words::{self, Cause};
use crate::{Repository, SourceError};
use tiphys_exec::ExecError;

/// Characters of a command line that are shown.
const COMMAND_CHARS_MAX: usize = 2000;

/// A command of git that failed, and what that means for what is done next.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub(crate) struct Failed {
    pub(crate) error: SourceError,
    pub(crate) cause: Cause,
}

impl From<SourceError> for Failed {
    fn from(error: SourceError) -> Self {
        Self { error, cause: Cause::Other }
    }
}

impl From<Failed> for SourceError {
    fn from(failed: Failed) -> Self {
        failed.error
    }
}

/// The command a failure belongs to.
pub(super) struct Context<'a> {
    pub(super) arguments: &'a [&'a str],
    pub(super) repository: Option<&'a Repository>,
    pub(super) cache_dir: &'a Path,
}

impl Context<'_> {
    /// The command ended with a status other than 0.
    pub(super) fn exited(&self, code: Option<i32>, stderr: &str) -> Failed {
        let status = match code {
            Some(code) => format!("exit status {code}"),
            None => "signal".to_owned(),
        };
        let url = self.repository.map(|repository| repository.url.to_string()).unwrap_or_default();
        let (words, cause) = words::explain(stderr, url.trim_end_matches('/'), &server(&url));
        let advice = self.advice(cause).map(|advice| format!("; {advice}")).unwrap_or_default();
        let text = format!("`{}` failed {status}: {words}{advice}", self.command_line());
        let error = if stderr.contains("terminal prompts disabled") {
            let text = format!(
                "failed to authenticate to git repository {url:?}: no credentials matched this URL: {text}"
            );
            SourceError::Denied { text }
        } else {
            match cause {
                Cause::Denied | Cause::Untrusted | Cause::StrangeHost => SourceError::Denied { text },
                Cause::Limit => SourceError::Exhausted { text },
                Cause::Conflict => SourceError::Conflict { text },
                Cause::Other | Cause::NotFound | Cause::Unadvertised | Cause::Damage => {
                    SourceError::Unavailable { text }
                }
            }
        };
        Failed { error, cause }
    }

    /// Where the installation says whom it trusts (REP-80, REP-81).
    fn advice(&self, cause: Cause) -> Option<String> {
        let repository = self.repository?;
        let host = repository.host();
        match cause {
            Cause::Untrusted if repository.tls.roots.is_empty() => Some(format!(
                "nobody that the system trusts vouches for host {host:?}: put the certificate of its CA into ConfigMap                  {TLS_CERTS_CONFIG_MAP} (`cert add-tls {host}`)"
            )),
            Cause::Untrusted => Some(format!(
                "the certificates for host {host:?} in ConfigMap {TLS_CERTS_CONFIG_MAP} do not vouch for it, and no                  others count: replace them with `cert add-tls {host} --upsert`"
            )),
            Cause::StrangeHost => Some(format!(
                "ConfigMap {KNOWN_HOSTS_CONFIG_MAP} has no such key for host {host:?}: compare it with what the                  administrator of the server publishes, and add it with `cert add-ssh --batch`"
            )),
            _ => None,
        }
    }

    /// The server refused the command with a status of HTTP; the words are git's.
    pub(super) fn refused(&self, url: &str, server: &str, status: u16, was_asked: bool) -> SourceError {
        let url = format!("{}/", url.trim_end_matches('/'));
        let stderr = match (status, was_asked) {
            (401, true) => format!("fatal: Authentication failed for '{url}'"),
            (401, false) => {
                format!("fatal: could not read Username for '{server}': terminal prompts disabled")
            }
            _ => format!("fatal: unable to access '{url}': The requested URL returned error: {status}"),
        };
        self.exited(Some(128), &stderr).error
    }

    /// The command did not run to its end.
    pub(super) fn not_finished(&self, error: &ExecError) -> SourceError {
        let line = self.command_line();
        match error {
            ExecError::Timeout { .. } | ExecError::FatalTimeout { .. } => {
                SourceError::Timeout { text: format!("`{line}` failed {error}") }
            }
            ExecError::TooLarge { .. } | ExecError::TooMuchWork { .. } => {
                SourceError::Exhausted { text: format!("`{line}` failed: {error}") }
            }
            ExecError::Start(cause) | ExecError::Limit(cause) | ExecError::Read(cause) => {
                SourceError::Cache { text: format!("`{line}` failed: {error}: {}", cause.kind()) }
            }
            other => SourceError::Cache { text: format!("`{line}` failed: {other}") },
        }
    }

    /// The command as we made it: without user information of its URL and without paths of the host. No secret is
    /// an argument (RND-25).
    fn command_line(&self) -> String {
        let line = repo_url::redact_text(&format!("git {}", self.arguments.join(" ")));
        let line = hide_paths(&line, &self.cache_dir.to_string_lossy());
        if line.chars().count() > COMMAND_CHARS_MAX {
            let cut: String = line.chars().take(COMMAND_CHARS_MAX).collect();
            return format!("{cut}…");
        }
        line
    }
}

/// Scheme and authority of a URL without user information, as git names a server.
fn server(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.split('/').next().unwrap_or(rest)),
        None => url.to_owned(),
    }
}

/// Replaces every path below the cache by a constant (RND-9).
fn hide_paths(text: &str, cache: &str) -> String {
    if cache.is_empty() {
        return text.to_owned();
    }
    let mut parts = text.split(cache);
    let mut result = parts.next().unwrap_or("").to_owned();
    for part in parts {
        result.push_str("<path to cached source>");
        let end = part.find(|c: char| c.is_whitespace() || "'\":".contains(c)).unwrap_or(part.len());
        result.push_str(part.split_at(end).1);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Secret;

    #[test]
    fn rnd_27_missing_credentials_have_their_text() {
        let repository = Repository::anonymous("https://u:p@h/r");
        let arguments = ["ls-remote", "https://h/r"];
        let context =
            Context { arguments: &arguments, repository: Some(&repository), cache_dir: Path::new("/c") };
        let Failed { error, .. } = context.exited(
            Some(128),
            "fatal: could not read Username for 'https://u:p@h': terminal prompts disabled\n",
        );
        assert_eq!(
            error.to_string(),
            "failed to authenticate to git repository \"https://h/r\": no credentials matched this URL: \
             `git ls-remote https://h/r` failed exit status 128: fatal: could not read Username for \
             'https://h': terminal prompts disabled"
        );
        assert!(!error.is_transient());
    }

    #[test]
    fn rnd_27_refusals_have_the_words_of_git() {
        let repository = Repository::anonymous("https://h/r");
        let arguments = ["ls-remote", "https://h/r"];
        let context =
            Context { arguments: &arguments, repository: Some(&repository), cache_dir: Path::new("/c") };
        for (status, was_asked, expected) in [
            (401, true, "Authentication failed for 'https://h/r/'"),
            (401, false, "could not read Username for 'https://h': terminal prompts disabled"),
            (403, true, "unable to access 'https://h/r/': The requested URL returned error: 403"),
        ] {
            let error = context.refused("https://h/r", "https://h", status, was_asked);
            let text = format!("`git ls-remote https://h/r` failed exit status 128: fatal: {expected}");
            assert!(error.to_string().ends_with(&text), "{error}");
            assert!(matches!(error, SourceError::Denied { .. }), "{error:?}");
        }
    }

    #[test]
    fn rnd_9_paths_are_hidden() {
        let arguments = ["fetch", "/c/x/git/ab/1", "https://u:p@h/r"];
        let context = Context { arguments: &arguments, repository: None, cache_dir: Path::new("/c/x") };
        let Failed { error, .. } = context.exited(Some(1), "fatal: early EOF");
        assert_eq!(
            error.to_string(),
            "`git fetch <path to cached source> https://h/r` failed exit status 1: fatal: early EOF"
        );
        assert!(error.is_transient());
    }

    /// SEC-38: the text of a failure does not depend on the secrets, so that nobody learns them by asking.
    #[test]
    fn sec_38_masks_are_no_oracle() {
        let text = |password: &str| {
            let repository =
                Repository { password: Secret::from(password), ..Repository::anonymous("https://h/r") };
            let context =
                Context { arguments: &["fetch"], repository: Some(&repository), cache_dir: Path::new("/c") };
            context.exited(Some(1), "fatal: early EOF\nremote: e a r l y").error.to_string()
        };
        assert_eq!(text("e"), text("hunter2"));
        assert!(text("e").contains("early EOF"));
    }

    #[test]
    fn rnd_10_timeouts() {
        let context = Context { arguments: &["fetch"], repository: None, cache_dir: Path::new("/c") };
        let after = std::time::Duration::from_secs(90);
        assert_eq!(
            context.not_finished(&ExecError::Timeout { after }).to_string(),
            "`git fetch` failed timeout after 1m30s"
        );
    }
}
