//! What an installation sets about its repositories, once at the start.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Clock;

/// How often and how slowly failed git commands are tried again (RND-28).
#[derive(Clone, Debug)]
pub struct Retry {
    /// Attempts in total.
    pub attempts: u32,
    /// Wait before the second attempt.
    pub wait: Duration,
    /// Growth of the wait.
    pub factor: u32,
    /// Longest wait.
    pub wait_max: Duration,
}

/// Options of [`Sources`], read once at the start.
#[derive(Clone, Debug)]
pub struct SourceOptions {
    /// Directory of the cache; it belongs to this process alone.
    pub cache_dir: PathBuf,
    /// The git program.
    pub git_program: PathBuf,
    /// The program that verifies signatures.
    pub gpg_program: PathBuf,
    /// `PATH` of child processes.
    pub path: String,
    /// Proxy variables that git inherits where a repository names no proxy (REP-75).
    pub proxy_environment: Vec<(String, String)>,
    /// File with host keys (REP-81).
    pub known_hosts_file: PathBuf,
    /// Directory with trusted roots by host name (REP-80).
    pub tls_dir: Option<PathBuf>,
    /// How long a ref listing is used (RND-36).
    pub revision_ttl: Duration,
    /// How long to wait for somebody else's listing before making one's own; 0 disables waiting (RND-36).
    pub revision_lock_timeout: Duration,
    /// Time limit of a listing over HTTP (REP-71).
    pub request_timeout: Duration,
    /// Time limit of every other git command (RND-20).
    pub exec_timeout: Duration,
    /// Time between asking a command to end and killing it (RND-20).
    pub exec_fatal_timeout: Duration,
    /// Retries of transient failures.
    pub retry: Retry,
    /// Whether git gets the built-in configuration (RND-24).
    pub builtin_git_config: bool,
    /// Where tokens of Google service accounts come from (REP-74).
    pub google_token_url: String,
    /// Whether submodules are fetched (REP-76).
    pub submodules: bool,
    /// Directories whose repositories may be named by path; none by default (REP-60).
    pub local_roots: Vec<PathBuf>,
    /// Folders of this installation, besides the cache, that hold no repository for anybody.
    pub own_dirs: Vec<PathBuf>,
    /// Bytes of one pack that git writes.
    pub pack_bytes_max: u64,
    /// Repositories kept on disk.
    pub stores_max: usize,
    /// Fetches into one directory before its newest commits are copied into a new one.
    pub fetches_max: u64,
    /// Tells the time.
    pub clock: Clock,
}

impl SourceOptions {
    /// The defaults of the specification, with a cache in `cache_dir` and the real clock.
    pub fn new(cache_dir: &Path) -> Self {
        Self {
            cache_dir: cache_dir.to_owned(),
            git_program: "git".into(),
            gpg_program: "gpg".into(),
            path: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            proxy_environment: Vec::new(),
            known_hosts_file: "/app/config/ssh/ssh_known_hosts".into(),
            tls_dir: Some("/app/config/tls".into()),
            revision_ttl: Duration::from_mins(3),
            revision_lock_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(15),
            exec_timeout: Duration::from_secs(90),
            exec_fatal_timeout: Duration::from_secs(10),
            retry: Retry {
                attempts: 1,
                wait: Duration::from_millis(250),
                factor: 2,
                wait_max: Duration::from_secs(5),
            },
            builtin_git_config: true,
            google_token_url: "https://oauth2.googleapis.com/token".to_owned(),
            submodules: true,
            local_roots: Vec::new(),
            own_dirs: Vec::new(),
            pack_bytes_max: 4 << 30,
            stores_max: 1000,
            fetches_max: 200,
            clock: Clock::real(),
        }
    }
}
