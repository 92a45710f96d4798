//! The commands of a plugin, run on the files that it was sent (RND-132, RND-134..136).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tiphys_exec::{ExecError, Invocation, Limits, Output};
use tiphys_go::{doublestar, path_match};
use tiphys_render::{Budget, Code as RenderCode, parse_manifests};
use tiphys_wire::status::Code;
use tokio::time::Instant;

use super::ServerOptions;
use super::serve::Status;
use crate::config::Command;
use crate::message::Metadata;

/// What a command may use of the machine: tools of users are large.
const LIMITS: Limits = Limits {
    memory_bytes: 4 << 30,
    address_bytes: None,
    cpu: Duration::from_mins(10),
    file_bytes: 4 << 30,
    open_files: 4096,
};
/// Files that discovery looks at.
const FILES_MAX: usize = 500_000;
/// Levels of directories that discovery looks into.
const DEPTH_MAX: usize = 200;

/// What runs on which files.
pub(super) struct Commands<'a> {
    pub(super) options: &'a ServerOptions,
    /// What was sent.
    pub(super) root: PathBuf,
    /// The directory of the source in it.
    pub(super) directory: PathBuf,
    pub(super) metadata: &'a Metadata,
    /// When the commands have to be done.
    pub(super) ends: Instant,
}

impl Commands<'_> {
    /// What `init` and `generate` print, one manifest after another.
    pub(super) async fn generate(&self) -> Result<Vec<String>, Status> {
        let spec = &self.options.config.spec;
        if !spec.init.is_empty() {
            self.run(&spec.init).await?;
        }
        let printed = self.run(&spec.generate).await?;
        let text = String::from_utf8(printed)
            .map_err(|_not_text| Status::unknown("what generate printed is no text"))?;
        let budget = Budget { input_bytes: self.options.message_bytes_max as u64, ..Budget::default() };
        let read = move || parse_manifests(&text, &budget);
        let objects = tokio::task::spawn_blocking(read)
            .await
            .map_err(|error| Status::of(Code::Internal, error.to_string()))?
            .map_err(|error| {
                let code = if error.code() == RenderCode::ResourceExhausted {
                    Code::ResourceExhausted
                } else {
                    Code::Unknown
                };
                Status::of(code, format!("what generate printed cannot be read: {error}"))
            })?;
        Ok(objects.iter().map(Value::to_string).collect())
    }

    /// Whether the files are for the plugin: the first way that is configured says it.
    pub(super) async fn matches(&self) -> Result<bool, Status> {
        let discover = &self.options.config.spec.discover;
        if !discover.file_name.is_empty() {
            return self.any_file(&discover.file_name, Globs::Shell).await;
        }
        if !discover.find.glob.is_empty() {
            return self.any_file(&discover.find.glob, Globs::Doublestar).await;
        }
        if discover.find.command.is_empty() {
            return Ok(false);
        }
        let find = Command { command: discover.find.command.clone(), args: discover.find.args.clone() };
        match self.output(&find).await? {
            Output { code: Some(0), stdout, .. } => Ok(!stdout.is_empty()),
            Output { .. } => Ok(false),
        }
    }

    /// Announcements: those of the program first (RND-136).
    pub(super) async fn parameters(&self) -> Result<Vec<Value>, Status> {
        let parameters = &self.options.config.spec.parameters;
        let mut found = Vec::new();
        if !parameters.dynamic.is_empty() {
            let printed = self.run(&parameters.dynamic).await?;
            let wrong = |error: serde_json::Error| {
                Status::unknown(format!(
                    "the command of parameters.dynamic should print a list of JSON: {error}"
                ))
            };
            found =
                serde_json::from_slice::<Option<Vec<Value>>>(&printed).map_err(wrong)?.unwrap_or_default();
        }
        found.extend(parameters.r#static.iter().cloned());
        Ok(found)
    }

    /// What a command prints; that it fails is an error with what it says.
    async fn run(&self, command: &Command) -> Result<Vec<u8>, Status> {
        match self.output(command).await? {
            Output { code: Some(0), stdout, stderr } => {
                if !stderr.trim().is_empty() {
                    tracing::warn!(
                        stderr = self.shown(stderr.trim()),
                        "a command of the plugin says something"
                    );
                }
                Ok(stdout)
            }
            Output { code, stderr, .. } => {
                let cause =
                    code.map_or_else(|| "by a signal".to_owned(), |code| format!("exit status {code}"));
                Err(self.failed(command, Code::Unknown, &format!("{cause}: {}", stderr.trim())))
            }
        }
    }

    async fn output(&self, command: &Command) -> Result<Output, Status> {
        let mut words = command.words();
        let program = words.next().unwrap_or_default();
        let deadline = self.ends.saturating_duration_since(Instant::now());
        if deadline.is_zero() {
            return Err(self.failed(command, Code::DeadlineExceeded, "there is no time left"));
        }
        let invocation = Invocation {
            program: program.into(),
            arguments: words.map(OsString::from).collect(),
            environment: self.environment(),
            directory: self.directory.clone(),
            deadline,
            grace: self.options.grace,
            stdout_bytes_max: self.options.message_bytes_max,
            limits: LIMITS,
        };
        tiphys_exec::run(invocation).await.map_err(|error| {
            let code = match error {
                ExecError::Timeout { .. } | ExecError::FatalTimeout { .. } => Code::DeadlineExceeded,
                ExecError::TooLarge { .. } => Code::ResourceExhausted,
                _ => Code::Unknown,
            };
            self.failed(command, code, &error.to_string())
        })
    }

    /// The sidecar's own environment, and what came with the files (RND-134).
    fn environment(&self) -> Vec<(OsString, OsString)> {
        let own = self.options.environment.iter();
        let all: BTreeMap<&str, &str> =
            own.chain(&self.metadata.env).map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let possible = |name: &str, value: &str| {
            !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
        };
        let kept = all.into_iter().filter(|(name, value)| possible(name, value));
        kept.map(|(name, value)| (name.into(), value.into())).collect()
    }

    fn failed(&self, command: &Command, code: Code, what: &str) -> Status {
        let words: Vec<&str> = command.words().collect();
        Status::of(code, self.shown(&format!("`{}` failed {what}", words.join(" "))))
    }

    /// A text without the place where the files stand (RND-9).
    fn shown(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let real = std::fs::canonicalize(&self.root).unwrap_or_default();
        for place in [real.as_path(), &self.root].into_iter().filter(|place| !place.as_os_str().is_empty()) {
            text = text.replace(&*place.to_string_lossy(), "<path to cached source>");
        }
        text
    }

    async fn any_file(&self, pattern: &str, globs: Globs) -> Result<bool, Status> {
        let (directory, pattern) = (self.directory.clone(), pattern.to_owned());
        let look = move || any_file(&directory, pattern.trim_start_matches("./"), globs);
        tokio::task::spawn_blocking(look)
            .await
            .map_err(|error| Status::of(Code::Internal, error.to_string()))?
    }
}

/// How patterns of files are read.
#[derive(Clone, Copy)]
enum Globs {
    /// As shells do.
    Shell,
    /// With `**`.
    Doublestar,
}

/// Whether a file or directory below a directory matches; links are not followed.
fn any_file(directory: &Path, pattern: &str, globs: Globs) -> Result<bool, Status> {
    let wrong = |error: &dyn std::fmt::Display| Status::unknown(format!("the pattern {pattern:?}: {error}"));
    let is_match = |relative: &str| match globs {
        Globs::Shell => path_match::is_match(pattern, relative).map_err(|error| wrong(&error)),
        Globs::Doublestar => doublestar::is_match(pattern, relative).map_err(|error| wrong(&error)),
    };
    is_match("")?;
    // A pattern of shells matches as many levels as it has.
    let levels = match globs {
        Globs::Shell => pattern.matches('/').count() + 1,
        Globs::Doublestar => DEPTH_MAX,
    };
    let unread =
        |error: std::io::Error| Status::unknown(format!("cannot look at what was sent: {}", error.kind()));
    let (mut open, mut looked) = (vec![(directory.to_owned(), String::new(), 1)], 0);
    while let Some((place, below, level)) = open.pop() {
        for entry in std::fs::read_dir(&place).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            looked += 1;
            if looked > FILES_MAX {
                let text = format!("discovery would look at more than {FILES_MAX} files");
                return Err(Status::of(Code::ResourceExhausted, text));
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let relative = if below.is_empty() { name } else { format!("{below}/{name}") };
            if is_match(&relative)? {
                return Ok(true);
            }
            if level < levels && entry.file_type().map_err(unread)?.is_dir() {
                open.push((entry.path(), relative, level + 1));
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_132_files_are_found_by_patterns() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("sub/deep")).unwrap();
        std::fs::write(folder.path().join("sub/deep/a.yaml"), "").unwrap();
        std::fs::write(folder.path().join("main.tf"), "").unwrap();
        let found = |pattern: &str, globs| any_file(folder.path(), pattern, globs).map_err(|_status| ());
        assert_eq!(found("*.tf", Globs::Shell), Ok(true));
        assert_eq!(found("*.yaml", Globs::Shell), Ok(false));
        assert_eq!(found("sub/*/a.yaml", Globs::Shell), Ok(true));
        assert_eq!(found("**/a.yaml", Globs::Shell), Ok(false), "no `**` in patterns of shells");
        assert_eq!(found("**/a.yaml", Globs::Doublestar), Ok(true));
        assert_eq!(found("**/*.json", Globs::Doublestar), Ok(false));
        assert_eq!(found("[", Globs::Shell), Err(()));
    }
}
