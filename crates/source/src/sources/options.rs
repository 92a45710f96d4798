//! What an installation sets about its repositories, once at the start.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tiphys_object::quantity::Quantity;
use tiphys_plugin::PluginOptions;

use crate::{AzureIdentity, Clock, FetchLimits, Observer};

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
    /// What a fetch may use before more is known of its repository.
    pub fetch_limits: FetchLimits,
    /// Repositories kept on disk.
    pub stores_max: usize,
    /// Fetches into one directory before its newest commits are copied into a new one.
    pub fetches_max: u64,
    /// How long tokens are used.
    pub token_use: TokenUse,
    /// Who this process is to Azure.
    pub azure_identity: Option<AzureIdentity>,
    /// A further host that is shown that identity.
    pub azure_devops: Option<String>,
    /// What chart repositories and registries see of us (REP-77).
    pub user_agent: String,
    /// Bytes of an index of a chart repository.
    pub index_bytes_max: u64,
    /// Bytes of a packed chart, and of an artifact.
    pub archive_bytes_max: u64,
    /// Bytes of a chart's files, unpacked.
    pub chart_bytes_max: u64,
    /// Bytes of an artifact's files, unpacked.
    pub artifact_bytes_max: u64,
    /// Types of layers that may be the content of an artifact (RND-115).
    pub layer_types: Vec<String>,
    /// How long a fetched chart or artifact counts (RND-112).
    pub content_ttl: Duration,
    /// Bytes of charts and artifacts on disk, of all repositories.
    pub archives_bytes_max: u64,
    /// Docker's configuration of this process, whose logins are used where a registry has none of its own (RND-113).
    pub docker_config: Option<PathBuf>,
    /// Config management plugins (RND-127).
    pub plugins: PluginOptions,
    /// Is told what servers are asked (CTL-123).
    pub observer: Option<Arc<dyn Observer>>,
    /// Tells the time.
    pub clock: Clock,
}

/// Types of layers that are taken by default (RND-115).
pub const LAYER_TYPES: [&str; 3] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.cncf.helm.chart.content.v1.tar+gzip",
];

/// How long tokens are used at most; never longer than their servers say (REP-73, REP-74).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenUse {
    /// Those of GitHub Apps.
    pub github_app: Duration,
    /// Those of Azure service principals.
    pub azure_service_principal: Duration,
}

impl TokenUse {
    /// As variables of the environment say, in whole minutes; a text that is no such number counts for nothing.
    pub fn of<T: AsRef<str>>(variable: impl Fn(&'static str) -> Option<T>) -> Self {
        let minutes = |name| {
            let minutes = variable(name).and_then(|text| text.as_ref().trim().parse::<u32>().ok())?;
            (minutes > 0).then(|| Duration::from_mins(u64::from(minutes)))
        };
        let most = Duration::from_mins(59);
        Self {
            github_app: minutes("ARGOCD_GITHUB_APP_CREDS_EXPIRATION_DURATION")
                .unwrap_or(Duration::from_hours(1)),
            azure_service_principal: minutes("ARGOCD_AZURE_SERVICE_PRINCIPAL_CREDS_EXPIRATION_DURATION")
                .map_or(most, |wanted| wanted.min(most)),
        }
    }
}

impl SourceOptions {
    /// With what the environment says about charts, artifacts, plugins and proxies (RND-113, RND-115, RND-158, REP-75, REP-77).
    ///
    /// # Errors
    /// When a size is none: nobody should run with another bound than was meant.
    pub fn with_environment<T: AsRef<str>>(
        mut self,
        variable: impl Fn(&'static str) -> Option<T>,
    ) -> Result<Self, String> {
        let text =
            |name| variable(name).map(|text| text.as_ref().trim().to_owned()).filter(|text| !text.is_empty());
        let is_on =
            |name| text(name).is_some_and(|text| tiphys_api::repository::parse_bool(&text) == Some(true));
        for (name, lifted_by, bytes) in [
            ("ARGOCD_REPO_SERVER_HELM_MANIFEST_MAX_INDEX_SIZE", "", &mut self.index_bytes_max),
            ("TIPHYS_GIT_PACK_MAX_SIZE", "", &mut self.pack_bytes_max),
            ("TIPHYS_GIT_FIRST_PACK_MAX_SIZE", "", &mut self.fetch_limits.first_bytes),
            (
                "ARGOCD_REPO_SERVER_HELM_MANIFEST_MAX_EXTRACTED_SIZE",
                "ARGOCD_REPO_SERVER_DISABLE_HELM_MANIFEST_MAX_EXTRACTED_SIZE",
                &mut self.chart_bytes_max,
            ),
            (
                "ARGOCD_REPO_SERVER_OCI_MANIFEST_MAX_EXTRACTED_SIZE",
                "ARGOCD_REPO_SERVER_DISABLE_OCI_MANIFEST_MAX_EXTRACTED_SIZE",
                &mut self.artifact_bytes_max,
            ),
        ] {
            if let Some(text) = text(name) {
                let size = Quantity::parse(&text).ok().and_then(|size| u64::try_from(size.value()?).ok());
                *bytes = size.ok_or_else(|| format!("{name} is no size: {text:?}"))?;
            }
            if !lifted_by.is_empty() && is_on(lifted_by) {
                *bytes = u64::MAX / 4;
            }
        }
        if let Some(agent) = text("ARGOCD_HELM_USER_AGENT") {
            self.user_agent = agent;
        }
        if let Some(types) = text("ARGOCD_REPO_SERVER_OCI_LAYER_MEDIA_TYPES") {
            self.layer_types = types.split(',').map(|kind| kind.trim().to_owned()).collect();
        }
        let home = || text("HOME").map(|home| Path::new(&home).join(".docker"));
        let docker = text("DOCKER_CONFIG").map(PathBuf::from).or_else(home);
        self.docker_config = docker.map(|directory| directory.join("config.json"));
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"] {
            self.proxy_environment.extend(text(name).map(|value| (name.to_owned(), value)));
        }
        let plugins = PluginOptions::of_environment(text, self.exec_timeout)?;
        self.plugins = plugins;
        Ok(self)
    }

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
            fetch_limits: FetchLimits::default(),
            stores_max: 1000,
            fetches_max: 200,
            token_use: TokenUse::of(|_| None::<String>),
            azure_identity: None,
            azure_devops: None,
            user_agent: format!("tiphys/{} ({})", env!("CARGO_PKG_VERSION"), std::env::consts::OS),
            index_bytes_max: 1_000_000_000,
            archive_bytes_max: 512 * 1024 * 1024,
            chart_bytes_max: 1_000_000_000,
            artifact_bytes_max: 1_000_000_000,
            layer_types: LAYER_TYPES.iter().map(|&name| name.to_owned()).collect(),
            content_ttl: Duration::from_hours(24),
            archives_bytes_max: 4 * 1024 * 1024 * 1024,
            docker_config: None,
            plugins: PluginOptions::default(),
            observer: None,
            clock: Clock::real(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rep_73_74_how_long_tokens_are_used() {
        let minutes = |github: &str, azure: &str| {
            let found = TokenUse::of(|name| Some(if name.contains("GITHUB") { github } else { azure }));
            (found.github_app.as_secs() / 60, found.azure_service_principal.as_secs() / 60)
        };
        assert_eq!(minutes("10", "20"), (10, 20));
        assert_eq!(minutes("600", "600"), (600, 59));
        for nothing in ["", "0", "-5", "soon", "1h"] {
            assert_eq!(minutes(nothing, nothing), (60, 59), "{nothing}");
        }
    }

    #[test]
    fn rnd_158_a_size_that_is_none_is_an_error() {
        let with = |name: &str, value: &str| {
            let found = |asked: &'static str| (asked == name).then(|| value.to_owned());
            SourceOptions::new("/nowhere".as_ref()).with_environment(found)
        };
        let index = "ARGOCD_REPO_SERVER_HELM_MANIFEST_MAX_INDEX_SIZE";
        assert_eq!(with(index, "10M").unwrap().index_bytes_max, 10_000_000);
        assert_eq!(with(index, "10Mi").unwrap().index_bytes_max, 10_485_760);
        assert_eq!(with("TIPHYS_GIT_PACK_MAX_SIZE", "8Gi").unwrap().pack_bytes_max, 8 << 30);
        let first = with("TIPHYS_GIT_FIRST_PACK_MAX_SIZE", "1Gi").unwrap().fetch_limits.first_bytes;
        assert_eq!(first, 1 << 30);
        for wrong in ["much", "-1", "1.5.1"] {
            assert!(with(index, wrong).unwrap_err().contains(index), "{wrong}");
        }
        assert_eq!(with("ARGOCD_HELM_USER_AGENT", "me/1").unwrap().user_agent, "me/1");
        let types = with("ARGOCD_REPO_SERVER_OCI_LAYER_MEDIA_TYPES", "a/b, c/d").unwrap().layer_types;
        assert_eq!(types, ["a/b", "c/d"]);
        let docker = with("HOME", "/home/me").unwrap().docker_config;
        assert_eq!(docker.as_deref(), Some(Path::new("/home/me/.docker/config.json")));
    }
}
