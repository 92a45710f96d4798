//! Credentials of a generator (ASET-59). Pure: which Secrets may be read is decided in `tiphys_appset::references`.

use std::collections::BTreeMap;

use tiphys_api::secret::Secret;

use crate::{Needs, ScmError, SecretKey};

/// What a generator logs in with, as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The token.
    pub token: Option<Secret<String>>,
    /// The password.
    pub password: Option<Secret<String>>,
    /// Certificates, PEM.
    pub ca: Option<String>,
    /// The GitHub App.
    pub github_app: Option<GithubApp>,
    /// Whether the identity of this process (`GITHUB_TOKEN`) must not be used either.
    pub without_own_identity: bool,
}

/// A GitHub App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GithubApp {
    /// Its id.
    pub id: i64,
    /// Id of its installation; 0 means that of the organisation.
    pub installation: i64,
    /// Its private key, PEM.
    pub key: Secret<String>,
    /// API of GitHub Enterprise; empty means that of GitHub.
    pub base_url: String,
}

/// The value of a key of a Secret that may be used.
///
/// # Errors
/// When the Secret does not have the key.
pub fn secret_value(
    reference: &SecretKey,
    namespace: &str,
    data: &BTreeMap<String, String>,
) -> Result<Secret<String>, ScmError> {
    let SecretKey { secret_name, key } = reference;
    let value = data.get(key).map(|value| Secret::from(value.as_str()));
    value.ok_or_else(|| {
        ScmError::Credentials(format!("key {key:?} in secret {namespace}/{secret_name} not found"))
    })
}

impl GithubApp {
    /// The app of a Secret in the form of repository credentials.
    ///
    /// # Errors
    /// When it is none of an app.
    pub fn of_secret(name: &str, data: &BTreeMap<String, String>) -> Result<Self, ScmError> {
        let wrong = |what: &str| ScmError::Credentials(format!("secret {name:?}: {what}"));
        let text = |key: &str| data.get(key).map(|text| text.trim()).unwrap_or_default();
        let number = |key: &'static str| match text(key) {
            "" => Ok(0),
            digits => digits
                .parse::<i64>()
                .ok()
                .filter(|number| *number > 0)
                .ok_or_else(|| wrong(&format!("{key} is no id"))),
        };
        let id = number("githubAppID")?;
        if id == 0 || text("githubAppPrivateKey").is_empty() {
            return Err(wrong("githubAppID and githubAppPrivateKey are needed"));
        }
        Ok(Self {
            id,
            installation: number("githubAppInstallationID")?,
            key: data.get("githubAppPrivateKey").map(String::as_str).unwrap_or_default().into(),
            base_url: text("githubAppEnterpriseBaseUrl").to_owned(),
        })
    }
}

/// Whether everything that a generator needs was read.
pub(crate) fn check_credentials(needs: &Needs, credentials: &Credentials) -> Result<(), ScmError> {
    let missing = |what: &str| Err(ScmError::Credentials(format!("{what} was not read")));
    if needs.token.is_some() && credentials.token.is_none() {
        return missing("the token");
    }
    if needs.password.is_some() && credentials.password.is_none() {
        return missing("the password");
    }
    if needs.ca.is_some() && credentials.ca.is_none() {
        return missing("the certificate of caRef");
    }
    if needs.github_app.is_some() && credentials.github_app.is_none() {
        return missing("the Secret of the GitHub App");
    }
    Ok(())
}
