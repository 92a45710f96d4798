//! Proves who we are to cloud providers: tokens for clusters, made in this process as `argocd-k8s-auth` makes them
//! (REP-106), our keys at AWS ([`aws`]) and their signatures ([`sigv4`]), and tokens that we sign ourselves ([`jwt`]).
//!
//! [`answer`] reads the arguments of that program and gives a token. Who we are comes from the environment, as the
//! providers' own tools find it: keys, the identity of our pod, or the machine's metadata server. Which addresses are
//! asked and which files are read comes from *our* environment alone ([`Environment::of_plugin`]): a cluster Secret
//! must not be able to send our identity elsewhere. Everything read has a bound, and no error repeats any of it.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use tiphys_api::secret::Secret;

pub mod aws;
mod azure;
mod gcp;
mod http;
pub mod jwt;
mod profile;
pub mod sigv4;

use crate::http::Http;

/// The program that this module stands for.
pub const PROGRAM: &str = "argocd-k8s-auth";
/// Bytes of a file with a token, a key or profiles.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Chooses how TLS is spoken, where nothing of the program has; losing the race to another thread is as good.
pub fn provide_crypto() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        drop(rustls::crypto::aws_lc_rs::default_provider().install_default());
    }
}

/// A token and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudToken {
    /// For `Authorization: Bearer`.
    pub token: Secret<String>,
    /// When the API server stops taking it.
    pub ends: Timestamp,
}

/// Why there is no token. The texts are fixed: files, keys and answers may be secrets (SEC-38).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloudError {
    /// No such provider or flag.
    #[error(
        "usage: argocd-k8s-auth aws --cluster-name NAME [--role-arn ARN] [--profile NAME] | gcp | azure [--server-id ID]"
    )]
    Usage,
    /// Nothing says who we are.
    #[error("there is no identity for the cloud provider: set its keys, the pod's identity or a profile")]
    NoIdentity,
    /// Nothing says in which region of AWS to look.
    #[error("there is no region of AWS: name it, or set AWS_REGION")]
    NoRegion,
    /// The profile is not in the files, or refers to itself.
    #[error("the AWS profile does not exist or is not complete")]
    Profile,
    /// It could only be had with a program or a person.
    #[error("this way to log in needs a program or a person, and is not supported by the built-in login")]
    Unsupported,
    /// A value cannot be part of an address or a header.
    #[error("a region, identifier or address of the cloud login is not valid")]
    Value,
    /// A file cannot be read, or is too large.
    #[error("a file that the cloud login needs cannot be read")]
    File,
    /// The provider cannot be reached.
    #[error("the cloud provider's login cannot be reached")]
    Unreachable,
    /// The provider says no.
    #[error("the cloud provider refuses the login (HTTP {0})")]
    Refused(u16),
    /// The provider's answer is not what it should be.
    #[error("the cloud provider's login gave no token")]
    Answer,
}

/// The variables that a login reads.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    variables: BTreeMap<String, Secret<String>>,
}

/// What a cluster Secret may say about a login: who, never where. (An `AWS_ENDPOINT_URL` of a Secret would get the
/// pod's own web identity.)
const OF_SECRETS: [&str; 15] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_PROFILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AAD_LOGIN_METHOD",
    "AAD_SERVICE_PRINCIPAL_CLIENT_ID",
    "AAD_SERVICE_PRINCIPAL_CLIENT_SECRET",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_TENANT_ID",
    "AAD_ENVIRONMENT_NAME",
];

impl Environment {
    /// The environment of a process.
    pub fn of_process(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self { variables: variables.into_iter().map(|(name, value)| (name, value.into())).collect() }
    }

    /// Our environment with what a cluster Secret adds to it; `None` when it adds what it must not.
    pub fn of_plugin(
        ours: &BTreeMap<String, String>,
        theirs: &BTreeMap<String, Secret<String>>,
    ) -> Option<Self> {
        let mut environment =
            Self::of_process(ours.iter().map(|(name, value)| (name.clone(), value.clone())));
        for (name, value) in theirs {
            if !OF_SECRETS.contains(&name.as_str()) {
                return None;
            }
            environment.variables.insert(name.clone(), value.clone());
        }
        Some(environment)
    }

    /// A variable that is set to something.
    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(|value| value.expose().as_str()).filter(|value| !value.is_empty())
    }

    /// The first of these that is set to something.
    fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }
}

/// The token that `argocd-k8s-auth` with these arguments would print.
///
/// # Errors
/// See [`CloudError`].
pub async fn answer(arguments: &[String], environment: &Environment) -> Result<CloudToken, CloudError> {
    let (provider, flags) = arguments.split_first().ok_or(CloudError::Usage)?;
    let flags = flags_of(flags)?;
    let allowed: &[&str] = match provider.as_str() {
        "aws" => &["cluster-name", "role-arn", "profile"],
        "gcp" => &[],
        "azure" => &["server-id"],
        _ => return Err(CloudError::Usage),
    };
    if flags.keys().any(|name| !allowed.contains(name)) {
        return Err(CloudError::Usage);
    }
    let flag = |name: &str| flags.get(name).copied().filter(|value| !value.is_empty());
    let http = Http::default();
    let now = Timestamp::now();
    match provider.as_str() {
        "aws" => {
            let cluster = flag("cluster-name").ok_or(CloudError::Usage)?;
            aws::token(&http, environment, cluster, flag("role-arn"), flag("profile"), now).await
        }
        "gcp" => gcp::token(&http, environment, now).await,
        _ => azure::token(&http, environment, flag("server-id").unwrap_or(azure::SERVER), now).await,
    }
}

/// `--name value` and `--name=value`.
fn flags_of(arguments: &[String]) -> Result<BTreeMap<&str, &str>, CloudError> {
    let mut flags = BTreeMap::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let flag = argument.strip_prefix("--").ok_or(CloudError::Usage)?;
        let (name, value) = match flag.split_once('=') {
            Some(both) => both,
            None => (flag, rest.next().ok_or(CloudError::Usage)?.as_str()),
        };
        flags.insert(name, value);
    }
    Ok(flags)
}

/// A small text file; its bytes are never part of an error.
async fn read_file(path: impl AsRef<Path>) -> Result<Secret<String>, CloudError> {
    use tokio::io::AsyncReadExt as _;
    let file = tokio::fs::File::open(path).await.map_err(|_error| CloudError::File)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).await.map_err(|_error| CloudError::File)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(CloudError::File);
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests;
