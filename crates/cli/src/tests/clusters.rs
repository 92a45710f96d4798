//! `cluster` against an API server (CLI-810 to CLI-814).

use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};

#[test]
fn cli_812_a_cluster_from_creation_to_removal() {
    let bed = Embedded::start();
    let (server, token) = (bed.server(), bed.token());
    bed.issue_tokens(&[("kube-system", "argocd-manager-long-lived-token")], &token);
    let add = ["cluster", "add", "tiphys", "--name", "eu", "--label", "tier=gold", "--shard", "2"];
    let added = format!("Cluster '{server}' added\n");
    assert_eq!(bed.succeeds(&add), added);
    assert_eq!(bed.succeeds(&add), added, "REP-113");
    let name = tiphys_api::repository::cluster_secret_name(&server).unwrap();
    let secret = bed.secret(&name).unwrap();
    assert_eq!(
        (&secret["name"], &secret["shard"], &secret["server"]),
        (&json!("eu"), &json!("2"), &json!(server))
    );
    let config: Value = serde_json::from_str(secret["config"].as_str().unwrap()).unwrap();
    assert_eq!(config["bearerToken"], token);
    assert!(!config["tlsClientConfig"]["caData"].as_str().unwrap().is_empty());
    let account = bed.object(("", "v1"), "ServiceAccount", "kube-system", "argocd-manager");
    let binding = bed.object(
        ("rbac.authorization.k8s.io", "v1"),
        "ClusterRoleBinding",
        "",
        "argocd-manager-role-binding",
    );
    assert!(account.is_some() && binding.is_some());

    let (message, code) = bed.fails(&["cluster", "add", "tiphys", "--name", "us"]);
    assert_eq!(
        (message.as_str(), code),
        (
            "rpc error: code = InvalidArgument desc = existing cluster spec is different; use upsert flag to force \
             update; difference in keys \"labels,name,shard\"",
            20
        )
    );
    let text = bed.succeeds(&["cluster", "list"]);
    assert!(text.contains(&format!("\n{server}")) && text.contains("in-cluster"), "{text}");
    assert!(
        text.contains("Unknown  Cluster has no applications and is not being monitored."),
        "REP-116: {text}"
    );
    assert_eq!(
        bed.succeeds(&["cluster", "list", "-o", "server"]),
        format!("{server}\nhttps://kubernetes.default.svc\n")
    );

    assert_eq!(
        bed.succeeds(&[
            "cluster",
            "set",
            "eu",
            "--namespace",
            "a",
            "--namespace",
            "b",
            "--label",
            "tier=silver"
        ]),
        "Cluster 'eu' updated.\n"
    );
    assert_eq!(bed.secret(&name).unwrap()["namespaces"], "a,b");
    assert_eq!(bed.succeeds(&["cluster", "set", "eu"]), "Specify the cluster field to be updated.\n");
    let shown = bed.succeeds(&["cluster", "get", "eu"]);
    assert!(shown.contains("labels:\n  tier: silver\n") && !shown.contains(&token), "{shown}");
    let shown = bed.succeeds(&["cluster", "get", &server, "-o", "wide"]);
    assert!(shown.contains("  Namespaces:            a,b\n") && !shown.contains(&token), "{shown}");

    let (stdout, warning, code) = bed.run(&["cluster", "rm", "eu", "-y"]);
    assert_eq!((stdout.as_str(), code), ("Cluster 'eu' removed\n", 0));
    assert!(warning.contains("stays: context eu does not exist in kubeconfig"), "CLI-814: {warning}");
    assert_eq!(bed.secret(&name), None);
    let (message, code) = bed.fails(&["cluster", "get", "eu"]);
    assert_eq!((message.as_str(), code), ("rpc error: code = PermissionDenied desc = permission denied", 20));
}

#[test]
fn cli_814_the_account_of_a_removed_cluster_goes_too() {
    let bed = Embedded::start();
    bed.issue_tokens(&[("kube-system", "argocd-manager-long-lived-token")], &bed.token());
    bed.succeeds(&["cluster", "add", "tiphys", "--upsert"]);
    bed.succeeds(&["cluster", "rm", "tiphys", "-y"]);
    assert_eq!(bed.object(("", "v1"), "ServiceAccount", "kube-system", "argocd-manager"), None);
    assert_eq!(
        bed.object(("rbac.authorization.k8s.io", "v1"), "ClusterRole", "", "argocd-manager-role"),
        None
    );
}

#[test]
fn cli_810_an_account_that_exists_and_only_some_namespaces() {
    let bed = Embedded::start();
    bed.put(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}}));
    bed.put(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "cd", "namespace": "ops"}}));
    let (message, code) =
        bed.fails(&["cluster", "add", "tiphys", "--service-account", "none", "--system-namespace", "ops"]);
    assert_eq!((message.as_str(), code), ("serviceaccounts \"none\" not found in namespace ops", 20));
    bed.issue_tokens(&[("ops", "cd-long-lived-token")], &bed.token());
    let add = [
        "cluster",
        "add",
        "tiphys",
        "--service-account",
        "cd",
        "--system-namespace",
        "ops",
        "--project",
        "shop",
    ];
    bed.succeeds(&[&add[..], &["--namespace", "web", "--cluster-resources"]].concat());
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["cluster", "get", "tiphys", "-o", "json"])).unwrap();
    assert_eq!(
        (&shown["namespaces"], &shown["clusterResources"], &shown["project"]),
        (&json!(["web"]), &json!(true), &json!("shop"))
    );
    assert_eq!(
        bed.object(("rbac.authorization.k8s.io", "v1"), "ClusterRole", "", "argocd-manager-role"),
        None
    );
}

#[test]
fn rep_113_a_cluster_that_does_not_let_us_in_is_not_stored() {
    let bed = Embedded::start();
    bed.issue_tokens(&[("kube-system", "argocd-manager-long-lived-token")], "wrong-t0ken");
    let (message, code) = bed.fails(&["cluster", "add", "tiphys"]);
    assert!(!message.contains("wrong-t0ken") && code == 20, "{message}");
    assert_eq!(bed.succeeds(&["cluster", "list", "-o", "server"]), "https://kubernetes.default.svc\n");
}

#[test]
fn cli_811_contexts_are_offered() {
    let bed = Embedded::start();
    let (stdout, message, code) = bed.run(&["cluster", "add"]);
    assert_eq!(
        stdout,
        format!("CURRENT  NAME    CLUSTER  SERVER\n*        tiphys  tiphys   {}\n", bed.server())
    );
    assert_eq!((message.as_str(), code), ("Choose a context name from:", 1));
    assert_eq!(
        bed.fails(&["cluster", "add", "x"]),
        ("context x does not exist in kubeconfig".to_owned(), 20)
    );
    assert_eq!(
        bed.fails(&["cluster", "add", "tiphys", "--in-cluster", "--cluster-endpoint", "internal"]),
        ("Can only use one of --in-cluster or --cluster-endpoint".to_owned(), 1)
    );
    let (message, _) = bed.fails(&["cluster", "add", "tiphys", "--label", "nonsense"]);
    assert_eq!(message, "labels should have key=value, but instead got: nonsense");
}

#[test]
fn rep_114_a_token_is_replaced() {
    let bed = Embedded::start();
    let (server, name) = (bed.server(), "eu");
    let put = |config: &Value| {
        bed.put_secret(
            name,
            "cluster",
            &json!({"server": server, "name": "eu", "config": config.to_string()}),
        );
    };
    put(&json!({"username": "u", "password": "hunter2"}));
    let (message, _) = bed.fails(&["cluster", "rotate-auth", "eu"]);
    assert_eq!(
        message,
        format!(
            "rpc error: code = InvalidArgument desc = Cluster '{server}' does not use bearer token authentication"
        )
    );
    // A token that nobody here issued is not replaced: what would be thrown away is not known.
    let (_, _, code) = bed.run(&["cluster", "rm", "eu", "-y"]);
    assert_eq!(code, 0);
    bed.put_secret(
        "us",
        "cluster",
        &json!({"server": server, "name": "us",
        "config": json!({"bearerToken": "opaque-t0ken"}).to_string()}),
    );
    let (message, _) = bed.fails(&["cluster", "rotate-auth", "us"]);
    assert!(message.contains("names no service account") && !message.contains("t0ken"), "{message}");
}

/// Hostile input: a Secret that cannot be read is listed as far as it can be, and shows nothing of its `config`.
#[test]
fn rep_104_a_bad_cluster_hides_nobody() {
    let bed = Embedded::start();
    bed.put_secret(
        "bad",
        "cluster",
        &json!({"server": "https://bad", "name": "a\u{1b}[2J\nb", "config": "{hunter2"}),
    );
    bed.put_secret("good", "cluster", &json!({"server": "https://good", "name": "good", "config": "{}"}));
    let text = bed.succeeds(&["cluster", "list"]);
    assert_eq!(text.lines().count(), 4, "{text}");
    assert!(text.contains("https://good") && !text.contains('\u{1b}') && !text.contains("hunter2"), "{text}");
    for format in ["json", "yaml", "wide"] {
        let (stdout, message, _) = bed.run(&["cluster", "get", "https://bad", "-o", format]);
        assert!(!stdout.contains("hunter2") && !message.contains("hunter2"), "{stdout}{message}");
    }
    assert!(bed.object(("", "v1"), "Secret", NAMESPACE, "bad").is_some());
}

/// REP-116, CLI-813: a cluster that applications deploy to is asked for its version; one that does not answer says why, and
/// one without applications is left alone.
#[test]
fn rep_116_clusters_with_applications_are_asked() {
    let bed = Embedded::start();
    let (server, token) = (bed.server(), bed.token());
    let config = json!({"bearerToken": token, "tlsClientConfig": {"insecure": true}}).to_string();
    let secret = |name: &str, server: &str| json!({"name": name, "server": server, "config": config});
    bed.put_secret("near", "cluster", &secret("near", &server));
    bed.put_secret("gone", "cluster", &secret("gone", "https://127.0.0.1:9"));
    bed.put_secret("idle", "cluster", &secret("idle", "https://127.0.0.1:10"));
    for (name, cluster) in [("a", "near"), ("b", "gone"), ("c", "in-cluster")] {
        bed.put(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"project": "default", "source": {"repoURL": "https://h/r", "path": "."},
                "destination": {"name": cluster, "namespace": "default"}}}));
    }
    let table = bed.succeeds(&["cluster", "list"]);
    let row = |name: &str| {
        let found = table.lines().find(|line| line.split_whitespace().nth(1) == Some(name));
        found.unwrap_or_else(|| panic!("{name}: {table}")).to_owned()
    };
    for name in ["near", "in-cluster"] {
        assert!(row(name).contains("  v1.") && row(name).contains("  Successful"), "{table}");
    }
    assert!(row("gone").contains("  Failed") && row("gone").contains("127.0.0.1:9"), "{table}");
    assert!(row("idle").contains("Cluster has no applications and is not being monitored."), "{table}");
    assert!(!table.contains(&token), "{table}");
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["cluster", "get", "near", "-o", "json"])).unwrap();
    assert_eq!(shown["connectionState"]["status"], "Successful");
    assert_eq!(shown["connectionState"]["attemptedAt"], "2026-08-01T10:00:00Z");
    assert!(shown["serverVersion"].as_str().unwrap().starts_with("v1."), "{shown}");
    assert!(bed.succeeds(&["cluster", "get", "near", "-o", "wide"]).contains("  Server Version:        v1."));
}
