//! `admin cluster kubeconfig`: what the installation knows of a cluster, for other programs (CLI-923).

use std::path::Path;

use serde_json::{Map, Value, json};
use tiphys_api::cluster::{Cluster, ClusterConfig};
use tiphys_service::cluster::Selector;
use tiphys_service::{Action, Caller};

use crate::core::{Loaded, World};
use crate::failure::Failure;
use crate::outfile;
use crate::output::{Format, print};
use crate::session::{Ended, OK, Session};
use crate::terminal::io_text;

/// What answers with a token for EKS (REP-106).
const AWS_PLUGIN: &str = "argocd-k8s-auth";
/// The form of its answer.
const AWS_API_VERSION: &str = "client.authentication.k8s.io/v1beta1";

/// Runs the command.
pub(super) async fn run(session: &Session<'_>) -> Result<Ended, Failure> {
    let core = session.connect_to_cluster().await?;
    let Loaded { world, secrets, .. } = World::load_all(&core).await?;
    let store = core.store()?;
    let calls = tiphys_service::cluster::Clusters::new(
        &store,
        Caller::operator(),
        world.settings.in_cluster_enabled(),
    );
    let found = calls.select(&secrets, Selector::parse(session.operand(0)), Action::Get)?;
    let [cluster] = found.as_slice() else {
        return Err(Failure::generic(format!(
            "{} clusters have this name; name one by its URL",
            found.len()
        )));
    };
    if cluster.secret_name.is_empty() {
        return Err(Failure::generic(format!(
            "no Secret says how to get into {}: it is the cluster that the installation runs in",
            cluster.server
        ))
        .hint("use the kubeconfig that you have used for this command"));
    }
    let config = cluster.parse_config().map_err(|error| Failure::generic(error.to_string()))?;
    let text = print(&kubeconfig(cluster, &config, &core.namespace), Format::Yaml)?;
    match session.operand(1) {
        "-" => session.terminal.data(&text),
        path => outfile::replace_private(Path::new(path), text.as_bytes())
            .map_err(|error| Failure::generic(format!("open {path}: {}", io_text(&error))))?,
    }
    Ok(OK)
}

/// The members that say something.
fn filled(members: &[(&str, Value)]) -> Value {
    let says = |value: &Value| match value {
        Value::Null => false,
        Value::Bool(is_on) => *is_on,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Number(_) => true,
    };
    let kept = members.iter().filter(|(_, value)| says(value));
    Value::Object(kept.map(|(name, value)| ((*name).to_owned(), value.clone())).collect::<Map<_, _>>())
}

/// A kubeconfig with one context, called as the server is.
fn kubeconfig(cluster: &Cluster, config: &ClusterConfig, namespace: &str) -> Value {
    let name = &cluster.server;
    let tls = &config.tls_client_config;
    let place = filled(&[
        ("server", cluster.server.as_str().into()),
        ("tls-server-name", tls.server_name.as_str().into()),
        ("insecure-skip-tls-verify", tls.insecure.into()),
        ("certificate-authority-data", tls.ca_data.as_str().into()),
        ("proxy-url", config.proxy_url.as_str().into()),
        ("disable-compression", config.disable_compression.into()),
    ]);
    let person = filled(&[
        ("client-certificate-data", tls.cert_data.as_str().into()),
        ("client-key-data", tls.key_data.expose().as_str().into()),
        ("token", config.bearer_token.expose().as_str().into()),
        ("username", config.username.as_str().into()),
        ("password", config.password.expose().as_str().into()),
        ("exec", plugin(config)),
    ]);
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": place}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        "users": [{"name": name, "user": person}],
    })
}

/// The program that gives credentials, where one does.
fn plugin(config: &ClusterConfig) -> Value {
    if let Some(aws) = &config.aws_auth_config {
        let mut args = vec!["aws".to_owned(), "--cluster-name".to_owned(), aws.cluster_name.clone()];
        for (flag, value) in [("--role-arn", &aws.role_arn), ("--profile", &aws.profile)] {
            if !value.is_empty() {
                args.extend([flag.to_owned(), value.clone()]);
            }
        }
        return json!({"apiVersion": AWS_API_VERSION, "command": AWS_PLUGIN, "args": args, "env": null,
            "interactiveMode": "Never", "provideClusterInfo": false});
    }
    let Some(exec) = &config.exec_provider_config else { return Value::Null };
    let env: Vec<Value> = exec
        .env
        .iter()
        .map(|(name, value)| json!({"name": name, "value": value.expose().as_str()}))
        .collect();
    json!({"apiVersion": exec.api_version, "command": exec.command, "args": exec.args, "env": env,
        "installHint": exec.install_hint, "interactiveMode": "Never",
        "provideClusterInfo": exec.provide_cluster_info})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(config: &Value) -> Value {
        let cluster = Cluster { server: "https://eu".to_owned(), ..Cluster::default() };
        kubeconfig(&cluster, &serde_json::from_value(config.clone()).unwrap(), "argocd")
    }

    #[test]
    fn cli_923_a_kubeconfig_has_one_context_and_says_only_what_is_known() {
        let made =
            made(&json!({"bearerToken": "t", "tlsClientConfig": {"caData": "Y2E=", "insecure": false}}));
        assert_eq!(made["current-context"], "https://eu");
        assert_eq!(
            made["clusters"][0]["cluster"],
            json!({"server": "https://eu", "certificate-authority-data": "Y2E="})
        );
        assert_eq!(made["users"][0], json!({"name": "https://eu", "user": {"token": "t"}}));
    }

    #[test]
    fn cli_923_programs_that_give_credentials_are_named() {
        let aws = made(&json!({"awsAuthConfig": {"clusterName": "eks", "roleARN": "arn"}}));
        assert_eq!(
            aws["users"][0]["user"]["exec"]["args"],
            json!(["aws", "--cluster-name", "eks", "--role-arn", "arn"])
        );
        let exec =
            made(&json!({"execProviderConfig": {"command": "c", "env": {"A": "b"}, "apiVersion": "v1"}}));
        assert_eq!(exec["users"][0]["user"]["exec"]["env"], json!([{"name": "A", "value": "b"}]));
    }
}
