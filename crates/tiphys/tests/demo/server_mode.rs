//! The command line by way of the API server: log in, work, log out (CLI-103..124, CLI-200..215).

use rustix::process::Signal;
use serde_json::Value;

use crate::person::Person;
use crate::process::{Demo, Place};

#[tokio::test]
async fn cli_200_a_person_logs_in_and_works_by_way_of_the_server() {
    let place = Place::new().await;
    let demo = Demo::start(&place, &[]).await;
    demo.until_app("guestbook", "Synced", "Healthy").await;
    let server = format!("127.0.0.1:{}", demo.port());
    let password = demo.ready[4].rsplit(' ').next().unwrap().to_owned();
    let person = Person::new(&place, "person");
    let git = demo.git();

    assert_eq!(person.refused(1, &["app", "list"]).await, "Argo CD server address unspecified");
    assert_eq!(person.refused(1, &["context"]).await, "No local configuration found");
    let login = ["login", &server, "--plaintext", "--username", "admin", "--password"];
    let wrong = [&login[..], &["wrong"]].concat();
    let text = person.refused(20, &wrong).await;
    assert_eq!(text, "rpc error: code = Unauthenticated desc = Invalid username or password");
    // Without TLS nobody is spoken to unless the person says so; nobody is there to be asked.
    let silent = person.says(&["login", &server, "--username", "admin", "--password", &password]).await;
    assert_eq!(silent.code, Some(1), "{silent:?}");
    assert_eq!(silent.stdout, "WARNING: server is not configured with TLS. Proceed (y/n)? ");
    let right = [&login[..], &[&password]].concat();
    let expected = format!("'admin:login' logged in successfully\nContext '{server}' updated\n");
    assert_eq!(person.does(&right).await, expected);

    assert!(person.does(&["context"]).await.contains(&format!("*        {server}  {server}")));
    let version = person.does(&["version", "--short"]).await;
    assert!(version.starts_with("argocd: v") && version.contains("\nargocd-server: v"), "{version}");
    let info = person.does(&["account", "get-user-info", "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&info).unwrap()["username"], "admin");
    assert_eq!(person.does(&["account", "can-i", "get", "applications", "*/*"]).await, "yes\n");
    assert!(person.does(&["app", "list", "-o", "name"]).await.contains("argocd/guestbook-helm\n"));
    let shown = person.does(&["app", "get", "guestbook"]).await;
    assert!(shown.contains("Sync Status:        Synced to main"), "{shown}");
    assert!(shown.contains("apps   Deployment  guestbook  guestbook  Synced"), "{shown}");
    assert_eq!(person.does(&["app", "diff", "guestbook"]).await, "");
    assert!(person.does(&["app", "manifests", "guestbook"]).await.contains("kind: Deployment"));
    let text = person.refused(20, &["app", "get", "nosuch"]).await;
    assert_eq!(text, "rpc error: code = PermissionDenied desc = permission denied");

    let actions = person.does(&["app", "actions", "list", "guestbook", "--kind", "Deployment"]).await;
    assert!(actions.contains("apps   Deployment  guestbook  restart  false\n"), "{actions}");
    let scale =
        ["app", "actions", "run", "guestbook", "scale", "--kind", "Deployment", "--param", "replicas=2"];
    assert_eq!(person.does(&scale).await, "");
    let text =
        person.refused(20, &["app", "actions", "run", "guestbook", "nosuch", "--kind", "Service"]).await;
    assert!(text.contains("built-in script does not exist"), "{text}");
    let resource = ["app", "get-resource", "guestbook", "--kind", "Deployment"];
    let shown = [&resource[..], &["--filter-fields", "spec.replicas,kind"]].concat();
    assert!(person.does(&shown).await.ends_with("\nspec.replicas  2\n"));
    let patch = r#"{"metadata":{"annotations":{"mine":"1"}}}"#;
    let patch = ["app", "patch-resource", "guestbook", "--kind", "Service", "--patch", patch];
    assert_eq!(person.does(&patch).await, "");
    let text = person.refused(20, &["app", "get-resource", "guestbook", "--kind", "Pod"]).await;
    assert_eq!(text, "no matching resource found");

    let path = ["--path", "guestbook", "--dest-server", "https://kubernetes.default.svc"];
    let create = ["app", "create", "made", "--repo", &git, "--dest-namespace", "guestbook-made"];
    let options = ["--sync-option", "CreateNamespace=true"];
    let create = [&create[..], &path, &options].concat();
    assert_eq!(person.does(&create).await, "application 'made' created\n");
    assert_eq!(person.does(&create).await, "application 'made' unchanged\n");
    let synced = person.does(&["app", "sync", "made"]).await;
    assert!(synced.contains("Phase:              Succeeded"), "{synced}");
    let waited = person.does(&["app", "wait", "made", "--health", "--sync", "-o", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&waited).unwrap()["status"]["sync"]["status"], "Synced");
    person.does(&["app", "set", "made", "--revision-history-limit", "3"]).await;
    person
        .does(&[
            "app",
            "patch",
            "made",
            "--type",
            "merge",
            "--patch",
            r#"{"spec":{"info":[{"name":"a","value":"b"}]}}"#,
        ])
        .await;
    let made = demo.app("made").await;
    assert_eq!(
        (&made["spec"]["revisionHistoryLimit"], &made["spec"]["info"][0]["value"]),
        (&3.into(), &"b".into())
    );
    let text = person.refused(20, &["app", "terminate-op", "made"]).await;
    assert!(text.contains("No operation is in progress"), "{text}");
    assert_eq!(person.does(&["app", "delete", "made", "--wait"]).await, "application 'made' deleted\n");
    assert!(demo.app("made").await.is_null());

    // The password of the person ends their other sessions, and not this one.
    let change =
        ["account", "update-password", "--current-password", &password, "--new-password", "another-1"];
    assert_eq!(person.does(&change).await, format!("Password updated\nContext '{server}' updated\n"));
    person.does(&["account", "list"]).await;
    assert_eq!(
        person.does(&["relogin", "--password", "another-1"]).await,
        format!("Relogging in as 'admin'\nContext '{server}' updated\n")
    );
    let token = person.does(&["account", "session-token"]).await;
    assert_eq!(person.does(&["logout", &server]).await, format!("Logged out from '{server}'\n"));
    let revoked = ["app", "list", "--auth-token", token.trim()];
    let text = person.refused(20, &revoked).await;
    assert!(text.starts_with("rpc error: code = Unauthenticated"), "{text}");
    assert_eq!(person.does(&["context", &server, "--delete"]).await, format!("Context '{server}' deleted\n"));
    demo.stop(Signal::INT).await;
}
