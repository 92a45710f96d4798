//! Flags that say how to get into a repository, shared by `repo add` and `repocreds add` (CLI-800, CLI-801).

use tiphys_api::repo_url;
use tiphys_api::repository::Credentials;
use tiphys_api::secret::Secret;

use crate::failure::Failure;
use crate::flags::{Flag, Kind, flag};
use crate::session::Session;
use crate::terminal::read_input;

/// Flags of both commands.
pub(crate) const FLAGS: &[Flag] = &[
    flag("type", Kind::Text, "git", "Type of the repository: git, helm or oci"),
    flag("username", Kind::Text, "", "User name"),
    flag("password", Kind::Text, "", "Password; asked for when a user name is given without one"),
    flag("bearer-token", Kind::Text, "", "Bearer token for Bitbucket Data Center"),
    flag("ssh-private-key-path", Kind::Text, "", "File with the private SSH key"),
    flag("tls-client-cert-path", Kind::Text, "", "File with the TLS client certificate"),
    flag("tls-client-cert-key-path", Kind::Text, "", "File with the key of the TLS client certificate"),
    flag("enable-oci", Kind::Bool, "false", "The Helm repository is an OCI registry"),
    flag("insecure-oci-force-http", Kind::Bool, "false", "Speak plain HTTP to the OCI registry"),
    flag("github-app-id", Kind::Int, "0", "Id of the GitHub App"),
    flag("github-app-installation-id", Kind::Int, "0", "Id of the installation of the GitHub App"),
    flag("github-app-private-key-path", Kind::Text, "", "File with the private key of the GitHub App"),
    flag("github-app-enterprise-base-url", Kind::Text, "", "API of GitHub Enterprise"),
    flag("gcp-service-account-key-path", Kind::Text, "", "File with the key of the Google service account"),
    flag("use-azure-workload-identity", Kind::Bool, "false", "Use the workload identity of Azure"),
    flag("azure-service-principal-client-id", Kind::Text, "", "Client id of the Azure service principal"),
    flag("azure-service-principal-client-secret", Kind::Text, "", "Secret of the Azure service principal"),
    flag("azure-service-principal-tenant-id", Kind::Text, "", "Tenant of the Azure service principal"),
    flag("azure-active-directory-endpoint", Kind::Text, "", "Where tokens of Azure come from"),
    flag("force-http-basic-auth", Kind::Bool, "false", "Send user name and password without being asked"),
];

/// The flag of commands that store what the others describe.
pub(crate) const UPSERT: &[Flag] = &[flag("upsert", Kind::Bool, "false", "Change what exists")];

/// Rules between flags, the ones that need no file (CLI-801). In the order of the specification.
fn check(session: &Session<'_>, url: &str) -> Result<(), Failure> {
    let flags = session.flags;
    let is_given = |name: &str| !flags.text(name).is_empty();
    let is_https = url.to_ascii_lowercase().starts_with("https://");
    let refuse = |text: &str| Err(Failure::generic(text));
    if is_given("ssh-private-key-path") && !repo_url::is_ssh(url) {
        return refuse("--ssh-private-key-path is only supported for SSH repositories.");
    }
    if is_given("tls-client-cert-path") != is_given("tls-client-cert-key-path") {
        return refuse("--tls-client-cert-path and --tls-client-cert-key-path must be specified together");
    }
    for name in ["tls-client-cert-path", "github-app-private-key-path", "gcp-service-account-key-path"] {
        if is_given(name) && !is_https {
            return Err(Failure::generic(format!("--{name} is only supported for HTTPS repositories")));
        }
    }
    Ok(())
}

/// The rules about tokens and OCI, which come after the name of a Helm repository (CLI-801).
fn check_tokens(session: &Session<'_>, url: &str) -> Result<(), Failure> {
    let flags = session.flags;
    let is_given = |name: &str| !flags.text(name).is_empty();
    let refuse = |text: &str| Err(Failure::generic(text));
    if is_given("bearer-token") {
        if is_given("password") {
            return refuse("only --bearer-token or --password is allowed, not both");
        }
        if flags.text("type") != "git" {
            return refuse("--bearer-token is only supported for Git repositories");
        }
        if !url.to_ascii_lowercase().starts_with("https://") {
            return refuse("--bearer-token is only supported for HTTPS repositories");
        }
    }
    if flags.is_on("insecure-oci-force-http") && flags.text("type") != "oci" && !flags.is_on("enable-oci") {
        return refuse("--insecure-oci-force-http requires --type oci or --enable-oci");
    }
    Ok(())
}

/// Reads flags and files, and asks for a password that is missing (CLI-801). `between` are the rules that only one of
/// the commands has.
pub(crate) async fn read(
    session: &Session<'_>,
    url: &str,
    between: impl FnOnce() -> Result<(), Failure>,
) -> Result<Credentials, Failure> {
    check(session, url)?;
    between()?;
    check_tokens(session, url)?;
    let flags = session.flags;
    let text = |name: &str| flags.text(name).to_owned();
    let mut credentials = Credentials {
        username: text("username"),
        password: flags.text("password").into(),
        bearer_token: flags.text("bearer-token").into(),
        ssh_private_key: file(session, "ssh-private-key-path").await?,
        tls_client_cert_data: file(session, "tls-client-cert-path").await?.expose().clone(),
        tls_client_cert_key: file(session, "tls-client-cert-key-path").await?,
        github_app_private_key: file(session, "github-app-private-key-path").await?,
        github_app_id: flags.int("github-app-id"),
        github_app_installation_id: flags.int("github-app-installation-id"),
        github_app_enterprise_base_url: text("github-app-enterprise-base-url"),
        gcp_service_account_key: file(session, "gcp-service-account-key-path").await?,
        azure_client_id: text("azure-service-principal-client-id"),
        azure_client_secret: flags.text("azure-service-principal-client-secret").into(),
        azure_tenant_id: text("azure-service-principal-tenant-id"),
        azure_active_directory_endpoint: text("azure-active-directory-endpoint"),
        use_azure_workload_identity: flags.is_on("use-azure-workload-identity"),
        force_http_basic_auth: flags.is_on("force-http-basic-auth"),
        enable_oci: flags.is_on("enable-oci"),
        insecure_oci_force_http: flags.is_on("insecure-oci-force-http"),
        proxy: String::new(),
        no_proxy: String::new(),
    };
    if !credentials.username.is_empty()
        && credentials.password.is_empty()
        && credentials.bearer_token.is_empty()
    {
        credentials.password = session.terminal.ask_password("Password: ").await.ok_or_else(|| {
            Failure::generic("no password: standard input has ended; give it with --password")
        })?;
    }
    Ok(credentials)
}

/// The content of the file that a flag names; nothing when the flag is not given.
async fn file(session: &Session<'_>, name: &str) -> Result<Secret<String>, Failure> {
    let path = session.flags.text(name);
    if path.is_empty() { Ok(Secret::default()) } else { read_input(path).await.map(Secret::new) }
}
