//! The `config` JSON of a cluster Secret, turned into what the client needs (REP-104 to REP-107).

use serde_json::{Map, Value, json};
use tiphys_api::cluster::{AwsAuthConfig, Cluster, ClusterConfig, ExecProviderConfig};
use tiphys_api::names::IN_CLUSTER_SERVER;
use tiphys_api::secret::Secret;

use super::ConnectError;
use super::plugin::{Plugin, PluginPolicy};

/// Reads the JSON and makes the client's configuration of it. Errors never repeat values.
pub(super) async fn kube_config(
    server: &str,
    config_json: &str,
    policy: &PluginPolicy,
) -> Result<(kube::Config, Option<Plugin>), ConnectError> {
    let cluster = Cluster { config: Secret::new(config_json.to_owned()), ..Cluster::default() };
    let config = cluster.parse_config()?;
    let server = server.trim_end_matches('/');
    let has_credentials = !(config.username.is_empty()
        && config.password.expose().is_empty()
        && config.bearer_token.expose().is_empty());
    if server == IN_CLUSTER_SERVER {
        let mut in_cluster =
            kube::Config::incluster().map_err(|error| ConnectError::InCluster(Box::new(error)))?;
        if has_credentials {
            let own = kubeconfig(server, &config).await?;
            in_cluster.auth_info = own.auth_info;
        }
        return Ok((in_cluster, None));
    }
    let exec = match (&config.aws_auth_config, &config.exec_provider_config) {
        (Some(aws), _) => Some(aws_exec(aws)),
        (None, exec) => exec.clone(),
    };
    let plugin = exec.map(|exec| Plugin::new(exec, server, &config, policy.clone()));
    Ok((kubeconfig(server, &config).await?, plugin))
}

async fn kubeconfig(server: &str, config: &ClusterConfig) -> Result<kube::Config, ConnectError> {
    let document = kubeconfig_document(server, config);
    let parsed: kube::config::Kubeconfig = serde_json::from_value(document).map_err(|_error| {
        // The error's text may quote a value.
        ConnectError::Member
    })?;
    kube::Config::from_custom_kubeconfig(parsed, &kube::config::KubeConfigOptions::default())
        .await
        .map_err(|error| ConnectError::Kubeconfig(Box::new(error)))
}

/// The kubeconfig that says the same as the Secret.
fn kubeconfig_document(server: &str, config: &ClusterConfig) -> Value {
    let tls = &config.tls_client_config;
    let mut cluster = Map::new();
    cluster.insert("server".to_owned(), server.into());
    cluster.insert("insecure-skip-tls-verify".to_owned(), tls.insecure.into());
    insert_text(&mut cluster, "tls-server-name", &tls.server_name);
    insert_text(&mut cluster, "certificate-authority-data", &tls.ca_data);
    insert_text(&mut cluster, "proxy-url", &config.proxy_url);
    let mut user = Map::new();
    insert_text(&mut user, "client-certificate-data", &tls.cert_data);
    insert_text(&mut user, "client-key-data", tls.key_data.expose());
    // A plugin is ours to run, and its credentials are all there are.
    if config.aws_auth_config.is_none() && config.exec_provider_config.is_none() {
        insert_text(&mut user, "username", &config.username);
        insert_text(&mut user, "password", config.password.expose());
        insert_text(&mut user, "token", config.bearer_token.expose());
    }
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "cluster",
        "clusters": [{"name": "cluster", "cluster": cluster}],
        "users": [{"name": "cluster", "user": user}],
        "contexts": [{"name": "cluster", "context": {"cluster": "cluster", "user": "cluster"}}],
    })
}

fn insert_text(map: &mut Map<String, Value>, member: &str, text: &str) {
    if !text.is_empty() {
        map.insert(member.to_owned(), text.into());
    }
}

/// The helper program that answers for AWS (REP-106); it runs where it is installed.
fn aws_exec(aws: &AwsAuthConfig) -> ExecProviderConfig {
    let mut args = vec!["aws".to_owned(), "--cluster-name".to_owned(), aws.cluster_name.clone()];
    for (flag, text) in [("--role-arn", &aws.role_arn), ("--profile", &aws.profile)] {
        if !text.is_empty() {
            args.extend([flag.to_owned(), text.clone()]);
        }
    }
    ExecProviderConfig {
        command: "argocd-k8s-auth".to_owned(),
        args,
        api_version: "client.authentication.k8s.io/v1beta1".to_owned(),
        ..ExecProviderConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(config: &str) -> Value {
        kubeconfig_document("https://c.example:6443", &serde_json::from_str(config).unwrap())
    }

    #[test]
    fn rep_104_bearer_token_and_tls_are_taken_over() {
        let document = document(
            r#"{"bearerToken":"t","tlsClientConfig":{"insecure":false,"serverName":"n","caData":"Y2E="},"unknown":1}"#,
        );
        assert_eq!(document["users"][0]["user"]["token"], "t");
        assert_eq!(document["clusters"][0]["cluster"]["certificate-authority-data"], "Y2E=");
        assert_eq!(document["clusters"][0]["cluster"]["tls-server-name"], "n");
    }

    #[test]
    fn rep_105_aws_wins_over_exec_and_token() {
        let document = document(
            r#"{"bearerToken":"t","awsAuthConfig":{"clusterName":"c","roleARN":"r"},"execProviderConfig":{"command":"x"}}"#,
        );
        let user = &document["users"][0]["user"];
        assert!(user.get("token").is_none() && user.get("exec").is_none());
        let aws = AwsAuthConfig { cluster_name: "c".into(), role_arn: "r".into(), profile: String::new() };
        let exec = aws_exec(&aws);
        assert_eq!(exec.command, "argocd-k8s-auth");
        assert_eq!(exec.args, ["aws", "--cluster-name", "c", "--role-arn", "r"]);
    }

    #[tokio::test]
    async fn rep_107_other_proxy_schemes_are_refused() {
        let error = kube_config("https://c.example", r#"{"proxyUrl": "ftp://x"}"#, &PluginPolicy::default())
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "failed to parse proxy url, unsupported scheme \"ftp\", must be http, https, or socks5"
        );
    }

    #[tokio::test]
    async fn rep_104_invalid_json_is_an_error_without_its_text() {
        let error = kube_config("https://c.example", r#"{"bearerToken": s3cret}"#, &PluginPolicy::default())
            .await
            .unwrap_err();
        assert!(!format!("{error:?}").contains("s3cret"));
    }
}
