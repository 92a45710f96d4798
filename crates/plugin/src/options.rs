//! What an installation sets about plugins, once at the start.

use std::path::PathBuf;
use std::time::Duration;

/// Where sockets of plugins are when nobody says otherwise (RND-127).
pub(crate) const SOCKETS: &str = "/home/argocd/cmp-server/plugins";
/// Bytes of one message (RND-128).
pub(crate) const MESSAGE_BYTES_MAX: usize = 100 << 20;
/// Bytes of a piece of a file that is sent (RND-129).
const CHUNK_BYTES: usize = 1024;
/// The largest piece: four of them are one message of every server.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Options of [`crate::Plugins`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginOptions {
    /// The directory of sockets; none means that there are no plugins.
    pub sockets: Option<PathBuf>,
    /// Bytes of a piece of a file.
    pub chunk_bytes: usize,
    /// Bytes of one message.
    pub message_bytes_max: usize,
    /// Shell globs of what is not sent.
    pub exclusions: Vec<String>,
    /// Whether only what the annotation `manifest-generate-paths` names is sent (RND-138).
    pub uses_generate_paths: bool,
    /// How long a plugin may take, with packing (RND-20).
    pub timeout: Duration,
}

impl Default for PluginOptions {
    fn default() -> Self {
        Self {
            sockets: None,
            chunk_bytes: CHUNK_BYTES,
            message_bytes_max: MESSAGE_BYTES_MAX,
            exclusions: Vec::new(),
            uses_generate_paths: false,
            timeout: Duration::from_secs(90),
        }
    }
}

impl PluginOptions {
    /// With what the environment says.
    ///
    /// # Errors
    /// When a size is none: nobody should run with another bound than was meant.
    pub fn of_environment<T: AsRef<str>>(
        variable: impl Fn(&'static str) -> Option<T>,
        timeout: Duration,
    ) -> Result<Self, String> {
        let text =
            |name| variable(name).map(|text| text.as_ref().trim().to_owned()).filter(|text| !text.is_empty());
        let size = |name: &'static str, default: usize, most: usize| match text(name) {
            None => Ok(default),
            Some(text) => match text.parse::<usize>() {
                Ok(size) if (1..=most).contains(&size) => Ok(size),
                _ => Err(format!("{name} is {text:?}; it can be 1 to {most}")),
            },
        };
        let exclusions = text("ARGOCD_REPO_SERVER_PLUGIN_TAR_EXCLUSIONS").unwrap_or_default();
        let paths = text("ARGOCD_REPO_SERVER_PLUGIN_USE_MANIFEST_GENERATE_PATHS");
        let sockets = text("ARGOCD_PLUGINSOCKFILEPATH").unwrap_or_else(|| SOCKETS.to_owned());
        Ok(Self {
            sockets: Some(sockets.into()),
            chunk_bytes: size("ARGOCD_CMP_CHUNK_SIZE", CHUNK_BYTES, CHUNK_BYTES_MAX)?,
            message_bytes_max: message_bytes_max(text("ARGOCD_GRPC_MAX_SIZE_MB").as_deref())?,
            exclusions: exclusions.split(';').filter(|one| !one.is_empty()).map(str::to_owned).collect(),
            uses_generate_paths: paths
                .is_some_and(|text| tiphys_api::repository::parse_bool(&text) == Some(true)),
            timeout,
        })
    }
}

/// Bytes of one message, given in MB.
pub(crate) fn message_bytes_max(text: Option<&str>) -> Result<usize, String> {
    let Some(text) = text else { return Ok(MESSAGE_BYTES_MAX) };
    match text.trim().parse::<usize>() {
        Ok(megabytes) if (1..=2_000).contains(&megabytes) => Ok(megabytes << 20),
        _ => Err(format!("ARGOCD_GRPC_MAX_SIZE_MB is {text:?}; it can be 1 to 2000")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rnd_127_options_of_the_environment() {
        let with = |pairs: &[(&str, &str)]| {
            PluginOptions::of_environment(
                |name| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value),
                Duration::from_secs(1),
            )
        };
        let plain = with(&[]).unwrap();
        assert_eq!(plain.sockets, Some(PathBuf::from(SOCKETS)));
        assert_eq!((plain.chunk_bytes, plain.message_bytes_max), (1024, 100 << 20));
        let set = with(&[
            ("ARGOCD_PLUGINSOCKFILEPATH", "/sockets"),
            ("ARGOCD_CMP_CHUNK_SIZE", "4096"),
            ("ARGOCD_GRPC_MAX_SIZE_MB", "5"),
            ("ARGOCD_REPO_SERVER_PLUGIN_TAR_EXCLUSIONS", "*.png;;docs"),
            ("ARGOCD_REPO_SERVER_PLUGIN_USE_MANIFEST_GENERATE_PATHS", "true"),
        ])
        .unwrap();
        assert_eq!(set.sockets, Some("/sockets".into()));
        assert_eq!((set.chunk_bytes, set.message_bytes_max), (4096, 5 << 20));
        assert_eq!(set.exclusions, ["*.png", "docs"]);
        assert!(set.uses_generate_paths);
        for (name, text) in [("ARGOCD_CMP_CHUNK_SIZE", "0"), ("ARGOCD_GRPC_MAX_SIZE_MB", "x")] {
            assert!(with(&[(name, text)]).unwrap_err().contains(name));
        }
    }
}
