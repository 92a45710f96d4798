//! From what git said to what users see (RND-9, RND-10, RND-27, REP-18).

use std::path::Path;

use tiphys_api::repo_url;

use crate::{Repository, SourceError};
use tiphys_exec::ExecError;

/// Characters of git's answer that are shown.
const STDERR_CHARS_MAX: usize = 2000;

/// Words of git and ssh for "you may not".
const DENIALS: [&str; 8] = [
    "terminal prompts disabled",
    "Authentication failed",
    "could not read Username",
    "could not read Password",
    "Permission denied",
    "Host key verification failed",
    "returned error: 401",
    "returned error: 403",
];

/// The command a failure belongs to.
pub(super) struct Context<'a> {
    pub(super) arguments: &'a [&'a str],
    pub(super) repository: Option<&'a Repository>,
    pub(super) cache_dir: &'a Path,
}

impl Context<'_> {
    /// The command ended with a status other than 0.
    pub(super) fn exited(&self, code: Option<i32>, stderr: &str) -> SourceError {
        let cause = match code {
            Some(code) => format!("exit status {code}"),
            None => "signal".to_owned(),
        };
        let text = format!("`{}` failed {cause}: {}", self.command_line(), self.clean(stderr).trim());
        if stderr.contains("terminal prompts disabled") {
            let url = self.repository.map(|repository| repository.url.to_string()).unwrap_or_default();
            let text = format!(
                "failed to authenticate to git repository {url:?}: no credentials matched this URL: {text}"
            );
            return SourceError::Denied { text };
        }
        if DENIALS.iter().any(|denial| stderr.contains(denial)) {
            return SourceError::Denied { text };
        }
        SourceError::Unavailable { text }
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
        self.exited(Some(128), &stderr)
    }

    /// The command did not run to its end.
    pub(super) fn not_finished(&self, error: &ExecError) -> SourceError {
        let line = self.command_line();
        match error {
            ExecError::Timeout { .. } | ExecError::FatalTimeout { .. } => {
                SourceError::Timeout { text: format!("`{line}` failed {error}") }
            }
            ExecError::TooLarge { .. } => {
                SourceError::Exhausted { text: format!("`{line}` failed: {error}") }
            }
            ExecError::Start(cause) | ExecError::Limit(cause) | ExecError::Read(cause) => {
                SourceError::Cache { text: format!("`{line}` failed: {error}: {}", cause.kind()) }
            }
            other => SourceError::Cache { text: format!("`{line}` failed: {other}") },
        }
    }

    fn command_line(&self) -> String {
        self.clean(&format!("git {}", self.arguments.join(" ")))
    }

    /// Removes user information, secrets and paths of the host.
    fn clean(&self, text: &str) -> String {
        let mut text = repo_url::redact_text(text);
        if let Some(repository) = self.repository {
            for secret in [&repository.password, &repository.bearer_token] {
                if !secret.is_empty() {
                    text = text.replace(secret.expose(), "******");
                }
            }
        }
        let cache = self.cache_dir.to_string_lossy();
        let text = hide_paths(&text, &cache);
        if text.chars().count() > STDERR_CHARS_MAX {
            let cut: String = text.chars().take(STDERR_CHARS_MAX).collect();
            return format!("{cut}…");
        }
        text
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
        let error = context.exited(
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
    fn rnd_9_secrets_and_paths_are_hidden() {
        let repository =
            Repository { password: Secret::from("hunter2"), ..Repository::anonymous("https://h/r") };
        let context =
            Context { arguments: &["fetch"], repository: Some(&repository), cache_dir: Path::new("/c/x") };
        let error = context.exited(Some(1), "fatal: /c/x/git/ab/1: bad hunter2");
        assert_eq!(
            error.to_string(),
            "`git fetch` failed exit status 1: fatal: <path to cached source>: bad ******"
        );
        assert!(error.is_transient());
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
