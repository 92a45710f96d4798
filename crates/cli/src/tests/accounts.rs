//! `account` against an API server (CLI-820 to CLI-822).

use base64::Engine as _;
use serde_json::{Value, json};

use super::embedded::{Embedded, NAMESPACE};
use super::execute;

fn settings(bed: &Embedded, data: &Value) {
    bed.put(&json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data, "metadata": {"name": "argocd-cm",
        "namespace": NAMESPACE, "labels": {"app.kubernetes.io/part-of": "argocd"}}}));
}

fn bed() -> Embedded {
    let bed = Embedded::start();
    settings(
        &bed,
        &json!({"accounts.bot": "apiKey", "accounts.kim": "login, apiKey", "accounts.kim.enabled": "false"}),
    );
    bed.put(&json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"server.secretkey": "key"},
        "metadata": {"name": "argocd-secret", "namespace": NAMESPACE}}));
    bed
}

#[test]
fn cli_820_accounts_are_listed_and_shown() {
    let bed = bed();
    assert_eq!(
        bed.succeeds(&["account", "list"]),
        "NAME   ENABLED  CAPABILITIES\nadmin  true     login\nbot    true     apiKey\nkim    false    login, apiKey\n"
    );
    assert_eq!(
        bed.succeeds(&["account", "get", "-a", "bot"]),
        "Name:               bot\nEnabled:            true\nCapabilities:       apiKey\n\nTokens:\nNONE\n"
    );
    let shown: Value =
        serde_json::from_str(&bed.succeeds(&["account", "get", "--account", "kim", "-o", "json"])).unwrap();
    assert_eq!(
        shown,
        json!({"name": "kim", "enabled": false, "capabilities": ["login", "apiKey"], "tokens": []})
    );
    let (message, code) = bed.fails(&["account", "get", "-a", "nobody"]);
    assert_eq!(
        (message.as_str(), code),
        ("rpc error: code = NotFound desc = account 'nobody' does not exist", 20)
    );
    let (message, _) = bed.fails(&["account", "get"]);
    assert_eq!(message, "nobody is logged in, so the account has to be named");
    assert_eq!(bed.succeeds(&["account", "get-user-info"]), "Logged In: false\n");
    assert_eq!(bed.succeeds(&["account", "whoami", "-o", "json"]), "{\n  \"loggedIn\": false\n}\n");
    let (stdout, _, code) = bed.run(&["account", "can-i", "sync", "applications", "*/*"]);
    assert_eq!((stdout.as_str(), code), ("yes\n", 0));
    let (message, code) = bed.fails(&["account", "can-i", "fly", "applications", "*"]);
    assert!(message.ends_with("does not contain fly") && code == 20, "{message}");
}

#[test]
fn cli_821_a_password_is_set() {
    let bed = bed();
    let set = ["account", "update-password", "--account", "admin", "--new-password"];
    let (message, code) = bed.fails(&[&set[..], &["short"]].concat());
    assert!(
        message.ends_with("new password does not match the following expression: ^.{8,32}$"),
        "{message}"
    );
    assert_eq!(code, 20);
    assert_eq!(bed.succeeds(&[&set[..], &["correct horse"]].concat()), "Password updated\n");
    let stored = bed.secret("argocd-secret").unwrap();
    assert!(stored["admin.password"].as_str().unwrap().starts_with("$2a$10$"));
    assert_eq!(stored["admin.passwordMtime"], "2026-08-01T10:00:00Z");
    assert_eq!(stored["server.secretkey"], "key", "what else is there stays");
}

#[test]
fn cli_822_a_token_is_made_used_once_and_ended() {
    let bed = bed();
    let token = bed.succeeds(&["account", "generate-token", "-a", "bot", "-e", "1h", "--id", "ci"]);
    let claims = token.trim().split('.').nth(1).unwrap();
    let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(claims).unwrap();
    let claims: Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!(
        claims,
        json!({"iss": "argocd", "sub": "bot:apiKey", "iat": 1_785_578_400, "nbf": 1_785_578_400,
            "exp": 1_785_582_000, "jti": "ci"})
    );
    let (message, _) = bed.fails(&["account", "generate-token", "-a", "bot", "--id", "ci"]);
    assert!(message.ends_with("account already has token with id 'ci'"), "{message}");
    let (message, _) = bed.fails(&["account", "generate-token", "-a", "admin"]);
    assert!(message.ends_with("account 'admin' does not have apiKey capability"), "{message}");
    let shown = bed.succeeds(&["account", "get", "-a", "bot"]);
    assert!(
        shown.contains(
            "ID  ISSUED AT             EXPIRING AT\nci  2026-08-01T10:00:00Z  2026-08-01T11:00:00Z"
        ),
        "{shown}"
    );
    assert_eq!(bed.succeeds(&["account", "delete-token", "-a", "bot", "ci"]), "");
    let (message, _) = bed.fails(&["account", "delete-token", "-a", "bot", "ci"]);
    assert!(message.ends_with("token with id 'ci' does not exist"), "{message}");
}

/// CLI-822: what needs no installation.
#[test]
fn cli_822_hashes_and_the_token_of_a_context() {
    let (written, code) = execute("argocd", &[], &["account", "bcrypt", "--password", "correct horse"]);
    assert!(code == 0 && written.stdout.starts_with("$2a$10$") && written.stdout.len() == 60, "{written:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let session = |token: &str| {
        let config = json!({"current-context": "c", "contexts": [{"name": "c", "server": "s", "user": "u"}],
            "servers": [{"server": "s"}], "users": [{"name": "u", "auth-token": token}]});
        std::fs::write(&path, config.to_string()).unwrap();
        let mut permissions = std::fs::metadata(&path).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
        std::fs::set_permissions(&path, permissions).unwrap();
        let (written, code) =
            execute("argocd", &[], &["account", "session-token", "--config", path.to_str().unwrap()]);
        let record: Value = serde_json::from_str(&written.stderr).unwrap_or_default();
        (written.stdout, record["msg"].as_str().unwrap_or_default().to_owned(), code)
    };
    let token = |claims: &Value| {
        let part = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims.to_string());
        format!("a.{part}.c")
    };
    let good = token(&json!({"exp": 4_000_000_000_i64}));
    assert_eq!(session(&good), (format!("{good}\n"), String::new(), 0));
    let texts = [
        ("", "No authentication token found. Please login first with 'argocd login'"),
        ("nonsense", "Invalid token format. Please run 'argocd relogin'"),
        (&token(&json!({"exp": 1})), "Token is invalid or expired. Please run 'argocd relogin'"),
    ];
    for (token, text) in texts {
        assert_eq!(session(token), (String::new(), text.to_owned(), 1), "{token}");
    }
    let (written, code) =
        execute("argocd", &[], &["account", "session-token", "--config", "/nowhere/config"]);
    assert!(
        written.stderr.contains("No configuration found. Please login first") && code == 1,
        "{written:?}"
    );
}

#[test]
fn cli_900_the_password_of_the_first_login() {
    let bed = Embedded::start();
    let command = ["admin", "initial-password"];
    let (message, code) = bed.fails(&command);
    assert_eq!((message.as_str(), code), ("secrets \"argocd-initial-admin-secret\" not found", 20));
    bed.put_secret("argocd-initial-admin-secret", "", &json!({"password": "hunter2"}));
    let expected = "hunter2\n\n This password must be only used for first time login. We strongly recommend you update \
                    the password using `argocd account update-password`.\n";
    assert_eq!(bed.succeeds(&command), expected);
    let bed = Embedded::start();
    bed.put_secret("argocd-initial-admin-secret", "", &json!({"other": "x"}));
    assert_eq!(bed.succeeds(&command), "", "without the key nothing is said");
}
