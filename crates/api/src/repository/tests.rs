use super::*;

fn read(pairs: &[(&str, &str)]) -> Repository {
    let data = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Repository::from_secret(&Metadata { name: "s".to_owned(), ..Metadata::default() }, &data)
}

#[test]
fn rep_6_booleans_and_integers_are_read_exactly() {
    for text in ["1", "t", "T", "TRUE", "true", "True"] {
        assert!(read(&[("insecure", text)]).insecure, "{text}");
    }
    for text in ["0", "f", "F", "FALSE", "false", "False"] {
        let repository = read(&[("insecure", text)]);
        assert!(!repository.insecure && repository.problem.is_none(), "{text}");
    }
    for text in ["", "yes", " true", "tRUE"] {
        assert!(read(&[("insecure", text)]).problem.is_some(), "{text:?}");
    }
    assert_eq!(read(&[("depth", "+5")]).depth, 5);
    assert_eq!(read(&[("depth", "-5")]).depth, -5);
    assert_eq!(read(&[]).depth, 0);
    assert!(matches!(read(&[("depth", "")]).problem, Some(FieldError::Integer { field: "depth", .. })));
    let listed = read(&[("url", "https://h/r"), ("depth", "x")]);
    assert_eq!(listed.url, "https://h/r");
}

#[test]
fn rep_7_line_ends_of_plain_fields_do_not_count() {
    let repository = read(&[
        ("url", "https://h/r\n"),
        ("project", "shop\r\n"),
        ("insecure", "true\n"),
        ("depth", "3\n"),
        ("password", "p\n"),
    ]);
    assert_eq!((repository.url.as_str(), repository.project.as_str()), ("https://h/r", "shop"));
    assert!(repository.insecure && repository.problem.is_none());
    assert_eq!((repository.depth, repository.credentials.password.expose().as_str()), (3, "p\n"));
}

#[test]
fn rep_9_both_azure_spellings_are_read() {
    for (id, tenant) in [
        ("azureServicePrincipalClientId", "azureServicePrincipalTenantId"),
        ("azureServicePrincipalClientID", "azureServicePrincipalTenantID"),
    ] {
        let credentials =
            read(&[(id, "i"), (tenant, "t"), ("azureServicePrincipalClientSecret", "s")]).credentials;
        assert_eq!((credentials.azure_client_id.as_str(), credentials.azure_tenant_id.as_str()), ("i", "t"));
        assert_eq!(credentials.kind(), CredentialKind::AzureServicePrincipal);
    }
}

#[test]
fn rep_11_what_counts_as_credentials() {
    for field in [
        "username",
        "password",
        "bearerToken",
        "sshPrivateKey",
        "tlsClientCertData",
        "githubAppPrivateKey",
        "azureServicePrincipalClientSecret",
        "gcpServiceAccountKey",
    ] {
        assert!(read(&[(field, "x")]).credentials.is_present(), "{field}");
    }
    assert!(read(&[("useAzureWorkloadIdentity", "true")]).credentials.is_present());
    for field in ["proxy", "tlsClientCertKey", "azureServicePrincipalClientId", "githubAppEnterpriseBaseUrl"]
    {
        assert!(!read(&[(field, "x")]).credentials.is_present(), "{field}");
    }
}

#[test]
fn rep_12_three_ways_to_be_insecure() {
    for field in ["insecureIgnoreHostKey", "insecure", "insecureOCIForceHttp"] {
        assert!(read(&[(field, "true")]).is_insecure(), "{field}");
    }
    assert!(!read(&[]).is_insecure());
}

#[test]
fn rep_70_the_first_usable_credential_decides() {
    let kind = |pairs: &[(&str, &str)]| read(pairs).credentials.kind().as_str();
    assert_eq!(kind(&[("username", "u")]), "anonymous");
    assert_eq!(kind(&[("password", "p"), ("sshPrivateKey", "k")]), "https");
    assert_eq!(kind(&[("bearerToken", "t")]), "https");
    assert_eq!(kind(&[("sshPrivateKey", "k"), ("githubAppPrivateKey", "g")]), "ssh");
    assert_eq!(kind(&[("githubAppPrivateKey", "g")]), "anonymous");
    assert_eq!(kind(&[("githubAppPrivateKey", "g"), ("githubAppID", "1")]), "github-app");
    assert_eq!(kind(&[("gcpServiceAccountKey", "{}")]), "gcp");
    assert_eq!(kind(&[("useAzureWorkloadIdentity", "true")]), "azure-workload-identity");
    assert_eq!(kind(&[("azureServicePrincipalClientId", "i")]), "anonymous");
}

#[test]
fn rep_a2_the_type_follows_the_url() {
    assert_eq!(read(&[("url", "oci://h/r")]).effective_type(), "oci");
    assert_eq!(read(&[("url", "https://h/r")]).effective_type(), "git");
    assert_eq!(read(&[("url", "https://h/r"), ("type", "helm")]).effective_type(), "helm");
}

#[test]
fn sty_110_printing_a_repository_shows_no_secret() {
    let repository = read(&[("url", "https://h/r"), ("password", "s3cret"), ("sshPrivateKey", "s3cret")]);
    assert!(!format!("{repository:?}").contains("s3cret"));
}
