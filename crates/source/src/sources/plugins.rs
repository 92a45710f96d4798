//! What config management plugins get from us besides files (RND-137).

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tiphys_plugin::{Answer, Credentials, PluginError, Plugins};
use tiphys_render::Tree;
use tiphys_render::plugins::PluginCall;

use super::Sources;
use crate::git::HttpCredentials;
use crate::repository::Transport;
use crate::{Repository, SourceError};

impl Sources {
    /// The plugins that are there.
    pub fn plugins(&self) -> &Plugins {
        &self.0.plugins
    }

    /// What a plugin answers; one owner never has all calls.
    ///
    /// # Errors
    /// As [`Plugins::answer`].
    pub async fn plugin_answer(
        &self,
        tree: &Arc<dyn Tree>,
        call: &PluginCall,
        credentials: Credentials<'_>,
        is_fresh: bool,
    ) -> Result<Answer, PluginError> {
        let _turn = self.0.plugin_turns.take_own().await;
        self.0.plugins.answer(tree, call, credentials, is_fresh).await
    }

    /// Variables with which a `git` somewhere else gets at a repository, and at nothing but its server (RND-137).
    ///
    /// # Errors
    /// When there are credentials that cannot be handed over as variables.
    pub async fn git_variables(&self, repository: &Repository) -> Result<Vec<(String, String)>, SourceError> {
        let repository = &*self.admit(repository).await?;
        let mut settings: Vec<(String, String)> = Vec::new();
        let mut variables = vec![("GIT_TERMINAL_PROMPT".to_owned(), "false".to_owned())];
        match repository.transport()? {
            Transport::Http => {
                let credentials = HttpCredentials::of(repository)?;
                let server = server(&credentials.url);
                let header = if credentials.has_password() {
                    let both = format!("{}:{}", credentials.user, credentials.password.expose());
                    Some(format!("Authorization: Basic {}", STANDARD.encode(both)))
                } else if !repository.bearer_token.is_empty() {
                    Some(format!("Authorization: Bearer {}", repository.bearer_token.expose()))
                } else {
                    None
                };
                settings.extend(header.map(|header| (format!("http.{server}.extraHeader"), header)));
                if repository.insecure {
                    settings.push((format!("http.{server}.sslVerify"), "false".to_owned()));
                }
                if !repository.tls.client_certificate.is_empty() {
                    let text = "client certificates of repositories are not handed to plugins".to_owned();
                    return Err(SourceError::InvalidRepository { text });
                }
                if !repository.proxy.is_empty() {
                    for name in ["http_proxy", "https_proxy"] {
                        variables.push((name.to_owned(), repository.proxy.expose().to_owned()));
                    }
                    variables.push(("no_proxy".to_owned(), repository.no_proxy.clone()));
                }
            }
            Transport::Ssh => {
                let text =
                    "keys of SSH are not handed to plugins; give the repository an https:// URL with a \
                            token, or set provideGitCreds of the plugin to false"
                        .to_owned();
                return Err(SourceError::InvalidRepository { text });
            }
            Transport::Git | Transport::Local => {}
        }
        variables.push(("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string()));
        for (index, (key, value)) in settings.into_iter().enumerate() {
            variables.push((format!("GIT_CONFIG_KEY_{index}"), key));
            variables.push((format!("GIT_CONFIG_VALUE_{index}"), value));
        }
        Ok(variables)
    }
}

/// Scheme, host and port of a URL, with a slash behind them.
fn server(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let host = rest.split('/').next().unwrap_or_default();
    format!("{scheme}://{host}/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Secret, SourceOptions};

    fn sources() -> (tempfile::TempDir, Sources) {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources::new(SourceOptions::new(folder.path())).unwrap();
        (folder, sources)
    }

    #[tokio::test]
    async fn rnd_137_credentials_are_for_the_server_of_the_repository_alone() {
        let (_folder, sources) = sources();
        let with = |password: &str, url: &str| Repository {
            username: "u".to_owned(),
            password: Secret::from(password),
            ..Repository::anonymous(url)
        };
        let found = sources.git_variables(&with("p", "https://git.example:8443/org/repo")).await.unwrap();
        let value = |name: &str| {
            found.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str()).unwrap()
        };
        assert_eq!(value("GIT_CONFIG_COUNT"), "1");
        assert_eq!(value("GIT_CONFIG_KEY_0"), "http.https://git.example:8443/.extraHeader");
        assert_eq!(value("GIT_CONFIG_VALUE_0"), "Authorization: Basic dTpw");
        let none = sources.git_variables(&Repository::anonymous("https://git.example/r")).await.unwrap();
        assert!(none.contains(&("GIT_CONFIG_COUNT".to_owned(), "0".to_owned())));
        let key =
            Repository { ssh_private_key: Secret::from("k"), ..Repository::anonymous("git@git.example:r") };
        assert!(sources.git_variables(&key).await.unwrap_err().to_string().contains("keys of SSH"));
    }
}
